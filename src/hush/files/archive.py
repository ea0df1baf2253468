"""Archive: the file format of plans and releases, a zip of one JSON manifest and plain arrays.

Nothing in an archive is executed: the manifest is JSON, arrays are .npy files of numbers, and all else is refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hush.core.errors import ArchiveError, HushError, SizeError
from hush.core.memory import available_memory, readable
from hush.core.validation import is_whole
from hush.files.atomic_write import atomic_write

MANIFEST = "manifest.json"
DATA_SUFFIXES = (".csv", ".tsv", ".txt", ".gz", ".parquet")  # of tables of rows, which users mistake for releases
VERSIONS = {"release": 2, "plan": 2, "model": 2}  # of the formats that hush writes, by kind of file
_MANIFEST_BYTES_UNCHECKED = 1 << 22
# A manifest may unpack to this many times its size: 32 MB of distinct events pack 5 times, a zip bomb 1,000 times.
_MANIFEST_RATIO = 20
_PARSED_BYTES_PER_BYTE = 24  # of memory for JSON text, at worst
_ARRAY_RATIO = 1200  # deflate reaches 1,032 on honest arrays of one repeated number
_ARRAY_BYTES_UNCHECKED = 1 << 20
_MEMORY_SHARE = 0.5
_BYTES_AT_ONCE = 1 << 20
_ENCRYPTION_FLAGS = 0x1 | 0x40
_ARRAY_NAME = re.compile(r"arrays/[a-z0-9_]{1,64}\.npy")
_NPY_MAGIC = b"\x93NUMPY\x01\x00"
# The header as numpy writes it. numpy's own reader accepts any Python literal and fails in many ways.
_NPY_HEADER = re.compile(
    rb"\{'descr': '(\|[biu]1|[<>][iuf][248])', 'fortran_order': False, "
    rb"'shape': \(((?:[0-9]{1,15},|[0-9]{1,15}(?:, [0-9]{1,15}){1,31})?)\), \} *\n"
)
_NO_TIME = (1980, 1, 1, 0, 0, 0)  # the time of every member, so that equal contents give equal bytes

Arrays = Mapping[str, np.ndarray[Any, Any]]


def write_archive(path: str | Path, *, kind: str, version: int, manifest: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a file, whole or not at all."""
    members: dict[str, bytes] = {}
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.asarray(array, order="C"), version=(1, 0), allow_pickle=False)
        members[name] = buffer.getvalue()
    digests = {name: hashlib.sha256(body).hexdigest() for name, body in members.items()}
    whole = {"hush": kind, "version": version, **manifest, "digests": digests}
    text = json.dumps(whole, indent=1, ensure_ascii=True, allow_nan=False).encode("ascii")
    # A manifest that packs so well that the reader might take it for a zip bomb is not packed.
    stored = len(text) > _MANIFEST_BYTES_UNCHECKED and len(text) > _MANIFEST_RATIO // 2 * len(zlib.compress(text, 1))
    with (
        atomic_write(Path(path), ArchiveError) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        packing = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
        archive.writestr(zipfile.ZipInfo(MANIFEST, _NO_TIME), text, packing)
        for member, body in members.items():
            archive.writestr(zipfile.ZipInfo(f"arrays/{member}.npy", _NO_TIME), body, zipfile.ZIP_DEFLATED)


class ArchiveReader:
    """An open archive: its manifest, and its arrays one at a time.

    `versions` gives the expected kinds of file, and the newest version of each that can be read.
    """

    def __init__(self, path: str | Path, *, versions: Mapping[str, int]) -> None:
        self._path = Path(path)
        self._arrays: dict[str, np.ndarray[Any, Any]] = {}
        try:
            self._zip = zipfile.ZipFile(self._path)
        except OSError as error:
            raise ArchiveError(f"cannot read {self._path}: {error.strerror}") from None
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error):
            kinds = " or ".join(versions)
            if self._path.suffix.lower() in DATA_SUFFIXES:
                raise ArchiveError(
                    f"{self._path} is a data file, not a hush {kinds}; `hush release` makes a release of it"
                ) from None
            raise ArchiveError(f"{self._path} is not a hush {kinds}, or it is cut short; copy it again") from None
        try:
            self._check_members()
            self.manifest = self._read_manifest(versions)
        except HushError:
            self._zip.close()
            raise
        self.kind = str(self.manifest["hush"])

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """One array, read once and checked against its digest in the manifest."""
        if name in self._arrays:
            return self._arrays[name]
        body = self._member(f"arrays/{name}.npy", f"array {name!r}")
        if self.manifest["digests"].get(name) != hashlib.sha256(body).hexdigest():
            raise self._damaged(f"array {name!r} is not the one that was written")
        length = int.from_bytes(body[8:10], "little")
        header = _NPY_HEADER.fullmatch(body[10 : 10 + length])
        if body[:8] != _NPY_MAGIC or header is None:
            raise self._damaged(f"array {name!r} is not a plain array of numbers")
        dtype = np.dtype(header[1].decode())
        shape = tuple(int(size) for size in header[2].decode().split(",") if size)
        # An axis of length zero would let the other axes be of any length.
        fits = math.prod(size or 1 for size in shape) < 2**48
        if not fits or math.prod(shape) * dtype.itemsize != len(body) - 10 - length:
            raise self._damaged(f"array {name!r} does not have the size that it states")
        values = np.frombuffer(memoryview(body).toreadonly(), dtype=dtype, offset=10 + length).reshape(shape)
        if dtype.kind == "b" and values.size and values.view(np.uint8).max() > 1:
            raise self._damaged(f"array {name!r} holds neither true nor false")
        self._arrays[name] = values
        return values

    def names(self) -> Iterator[str]:
        """The names of the arrays."""
        return (name[len("arrays/") : -len(".npy")] for name in self._zip.namelist() if name != MANIFEST)

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self._path.stat().st_size

    def text(self, name: str) -> str:
        """A required text of the manifest."""
        value = self.manifest.get(name)
        if not isinstance(value, str):
            raise self._damaged(f"its field {name!r} is missing or of another type")
        return value

    @property
    def content(self) -> dict[str, Any]:
        """The manifest without the fields that every file has."""
        return {name: value for name, value in self.manifest.items() if name not in ("hush", "version", "digests")}

    def close(self) -> None:
        """Close the file."""
        self._zip.close()
        self._arrays.clear()

    def __enter__(self) -> ArchiveReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_members(self) -> None:
        """Refuse, before anything is unpacked, members of other kinds and members that do not fit in memory."""
        members = self._zip.infolist()
        names = {member.filename for member in members}
        if len(names) != len(members) or not all(name == MANIFEST or _ARRAY_NAME.fullmatch(name) for name in names):
            raise self._damaged("it holds members that do not belong there")
        if sum(member.compress_size for member in members) > self.size:
            raise self._damaged("its members overlap")
        needed = 0
        for member in members:
            name, size, packed = member.filename, member.file_size, member.compress_size
            known_packing = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            if not known_packing or member.flag_bits & _ENCRYPTION_FLAGS:
                raise self._damaged(f"its member {name} is encrypted or packed in an unknown way")
            ratio, free = _ARRAY_RATIO, _ARRAY_BYTES_UNCHECKED
            if name == MANIFEST:
                ratio, free = _MANIFEST_RATIO, _MANIFEST_BYTES_UNCHECKED
            if size > max(free, ratio * packed):
                raise self._damaged(
                    f"its member {name} states {readable(size)} in {readable(packed)}, more than {readable(free)} and "
                    f"{ratio} times what it packs"
                )
            needed += size * (_PARSED_BYTES_PER_BYTE if name == MANIFEST else 1)
        most = int(_MEMORY_SHARE * available_memory())
        if needed > most:
            raise SizeError(
                f"{self._path} takes {readable(needed)} of memory to read, more than the {readable(most)} allowed; "
                "free some memory, or do not trust the file"
            )

    def _read_manifest(self, versions: Mapping[str, int]) -> dict[str, Any]:
        kinds = " or ".join(versions)
        if MANIFEST not in self._zip.namelist():
            raise ArchiveError(f"{self._path} is not a hush {kinds}: it has no manifest")
        try:
            text = self._member(MANIFEST, "its manifest").decode("utf-8")
            # NaN and Infinity, which `write_archive` never writes, are no integers: `int` refuses them
            manifest = json.loads(text, parse_constant=int)
        except (ValueError, RecursionError, MemoryError):
            raise self._damaged("its manifest cannot be read") from None
        if not isinstance(manifest, dict) or manifest.get("hush") not in list(versions):
            kind = manifest.get("hush") if isinstance(manifest, dict) else None
            other = isinstance(kind, str) and kind in VERSIONS
            raise ArchiveError(f"{self._path} is {f'a hush {kind}, not a' if other else 'not a hush'} {kinds}")
        newest = versions[manifest["hush"]]
        stated = manifest.get("version")
        if not is_whole(stated) or stated < 1:
            raise self._damaged("it states no version")
        if stated != newest:
            which, remedy = ("a newer", "upgrade hush") if stated > newest else ("an older", "make it anew")
            raise ArchiveError(
                f"{self._path} was written by {which} hush (format {stated}, this one reads {newest}); {remedy}"
            )
        if not isinstance(manifest.get("digests"), dict):
            raise self._damaged("it states no digests")
        return manifest

    def _member(self, member: str, what: str) -> bytearray:
        """The bytes of a member, never more than it states; zipfile raises many kinds of errors for damaged members."""
        body = bytearray()
        try:
            stated = self._zip.getinfo(member).file_size
            with self._zip.open(member) as file:
                while piece := file.read(_BYTES_AT_ONCE):
                    body += piece
                    if len(body) > stated:
                        break
        except KeyError:
            raise self._damaged(f"{what} is missing") from None
        except (OSError, ValueError, RuntimeError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error, struct.error):
            raise self._damaged(f"{what} cannot be read") from None
        if len(body) != stated:
            raise self._damaged(f"{what} does not have the size that it states")
        return body

    def _damaged(self, what: str) -> ArchiveError:
        return ArchiveError(f"{self._path} is damaged: {what}; copy it again or make it anew")
