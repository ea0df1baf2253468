"""Archive: the file format of plans and releases, a zip of one JSON manifest and plain arrays.

Nothing in it is executed: the manifest is JSON, arrays are .npy of numbers, and whatever else a file holds is refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hush.errors import ArchiveError

MANIFEST = "manifest.json"
_LARGEST_MANIFEST = 1 << 28
_NAME = re.compile(r"arrays/[a-z0-9_]{1,64}\.npy")
_KINDS = "iufb"  # integers, floats, booleans
_EPOCH = (1980, 1, 1, 0, 0, 0)  # members carry no time, so equal contents give equal bytes

Arrays = Mapping[str, np.ndarray[Any, Any]]


def write_archive(path: str | Path, *, kind: str, version: int, manifest: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a file whole or not at all: to a temporary name beside it, then renamed."""
    target = Path(path)
    members = {name: _npy(array) for name, array in arrays.items()}
    digests = {name: hashlib.sha256(body).hexdigest() for name, body in members.items()}
    whole = {"hush": kind, "version": version, **manifest, "digests": digests}
    text = json.dumps(whole, indent=1, ensure_ascii=True, allow_nan=False)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise ArchiveError(f"cannot write {target}: {error.strerror}; choose another place") from None
    try:
        with (
            os.fdopen(handle, "wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        ):
            archive.writestr(zipfile.ZipInfo(MANIFEST, _EPOCH), text, zipfile.ZIP_DEFLATED)
            for member, body in members.items():
                archive.writestr(zipfile.ZipInfo(f"arrays/{member}.npy", _EPOCH), body, zipfile.ZIP_DEFLATED)
        os.replace(name, target)
    except OSError as error:
        raise ArchiveError(
            f"cannot write {target}: {error.strerror}; free some space or choose another place"
        ) from None
    finally:
        Path(name).unlink(missing_ok=True)


def _npy(array: np.ndarray[Any, Any]) -> memoryview:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array, order="C"), version=(1, 0), allow_pickle=False)
    return buffer.getbuffer()


class ArchiveReader:
    """An open file: its manifest, and its arrays one at a time.

    `versions` says which kinds are expected, and the newest version of each that can be read.
    """

    def __init__(self, path: str | Path, *, versions: Mapping[str, int]) -> None:
        self._path = Path(path)
        try:
            self._zip = zipfile.ZipFile(self._path)
        except OSError as error:
            raise ArchiveError(f"cannot read {self._path}: {error.strerror}") from None
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error):
            kinds = " or ".join(versions)
            raise ArchiveError(f"{self._path} is not a hush {kinds}, or it is cut short; copy it again") from None
        names = self._zip.namelist()
        if len(set(names)) != len(names) or not all(name == MANIFEST or _NAME.fullmatch(name) for name in names):
            raise self._damaged("it holds members that do not belong there")
        self.manifest = self._read_manifest(versions)
        self.kind = str(self.manifest["hush"])

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """One array, checked against the digest that the manifest states for it."""
        body = self._member(f"arrays/{name}.npy", f"array {name!r}")
        if self.manifest["digests"].get(name) != hashlib.sha256(body).hexdigest():
            raise self._damaged(f"array {name!r} is not the one that was written")
        file = io.BytesIO(body)
        try:
            if np.lib.format.read_magic(file) != (1, 0):
                raise self._damaged(f"array {name!r} has an unknown layout")
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        except (ValueError, EOFError):
            raise self._damaged(f"array {name!r} cannot be read") from None
        if dtype.kind not in _KINDS or fortran or math.prod(shape) * dtype.itemsize != len(body) - file.tell():
            raise self._damaged(f"array {name!r} is not a plain array of numbers")
        return np.frombuffer(body, dtype=dtype, offset=file.tell()).reshape(shape)

    def names(self) -> Iterator[str]:
        """The arrays of the file."""
        return (name[len("arrays/") : -len(".npy")] for name in self._zip.namelist() if name != MANIFEST)

    def field(self, name: str, kind: type | tuple[type, ...]) -> Any:
        """A field of the manifest that must be there, of a JSON type."""
        value = self.manifest.get(name)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kind) or (isinstance(value, bool) and bool not in kinds):
            raise self._damaged(f"its field {name!r} is missing or of another type")
        return value

    def close(self) -> None:
        """Let go of the file."""
        self._zip.close()

    def __enter__(self) -> ArchiveReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_manifest(self, versions: Mapping[str, int]) -> dict[str, Any]:
        kinds = " or ".join(versions)
        if MANIFEST not in self._zip.namelist():
            raise ArchiveError(f"{self._path} is not a hush {kinds}: it has no manifest")
        if self._zip.getinfo(MANIFEST).file_size > _LARGEST_MANIFEST:
            raise self._damaged("its manifest is too large")
        try:
            manifest = json.loads(self._member(MANIFEST, "its manifest").decode("utf-8"))
        except (ValueError, RecursionError):
            raise self._damaged("its manifest cannot be read") from None
        if not isinstance(manifest, dict) or manifest.get("hush") not in list(versions):
            raise ArchiveError(f"{self._path} is not a hush {kinds}")
        newest = versions[manifest["hush"]]
        stated = manifest.get("version")
        if isinstance(stated, bool) or not isinstance(stated, int) or stated < 1:
            raise self._damaged("it states no version")
        if stated > newest:
            raise ArchiveError(
                f"{self._path} was written by a newer hush (format {stated}, this one reads {newest}); upgrade hush"
            )
        if not isinstance(manifest.get("digests"), dict):
            raise self._damaged("it states no digests")
        return manifest

    def _member(self, member: str, what: str) -> bytes:
        """The bytes of a member; zipfile raises all sorts for damaged ones, and RuntimeError for encrypted ones."""
        try:
            return self._zip.read(member)
        except KeyError:
            raise self._damaged(f"{what} is missing") from None
        except (OSError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error, struct.error):
            raise self._damaged(f"{what} cannot be read") from None

    def _damaged(self, what: str) -> ArchiveError:
        return ArchiveError(f"{self._path} is damaged: {what}; copy it again or make it anew")
