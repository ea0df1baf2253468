"""Codec: the contents of files as declared types, packed into a manifest and arrays and read back strictly.

A `Stored` type is the format of its content. Its annotations state the types and bounds of numbers, the tags of a
union, and the dtype and dimensions of arrays. In the manifest an array is a name and a fraction is the text "n/d".
`unpack` refuses unknown and missing fields, wrong types, numbers out of bounds and arrays of another dtype. By
convention a type has an `of`, which turns an object into its content, and a `build`, which turns the content into the
object and checks that its fields fit together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from fractions import Fraction
from typing import Annotated, Any, Self, TypeVar, get_args, get_origin

import msgspec
import numpy as np
from msgspec import Meta

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.core.errors import ArchiveError, HushError, SizeError, printable
from hush.core.rational import parse_rational, rational_text
from hush.files.archive import ArchiveReader

LONGEST_FRACTION = 4096  # characters; the smallest float squared has 1400, and a million would take seconds to read
# Vectors of integers become Python objects, such as the names of a clique, so a file may hold only so many; honest
# ones take about a byte each in the file.
INTEGERS_UNCHECKED, INTEGERS_PER_BYTE = 2**18, 16
LARGEST_FLOAT = 1e60  # squares of larger numbers could not be computed as floats
_LONGEST_REASON = 300

Arrays = dict[str, np.ndarray[Any, Any]]
Whole = Annotated[int, Meta(ge=0, lt=2**31)]
Size = Annotated[int, Meta(ge=1, le=2**31)]
Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]
NonNegative = Annotated[float, Meta(ge=0, le=1e300)]
IntVector = np.ndarray[tuple[int], np.dtype[np.signedinteger[Any]]]
IntMatrix = np.ndarray[tuple[int, int], np.dtype[np.signedinteger[Any]]]
IntTable = np.ndarray[tuple[int, ...], np.dtype[np.signedinteger[Any]]]
FloatVector = np.ndarray[tuple[int], np.dtype[np.floating[Any]]]
FloatMatrix = np.ndarray[tuple[int, int], np.dtype[np.floating[Any]]]
BoolVector = np.ndarray[tuple[int], np.dtype[np.bool_]]


class Stored(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The content of a file, or of part of a file."""

    @classmethod
    def from_attributes(cls, source: object, **fields: Any) -> Self:
        """The content with these fields, and all others from attributes of the same name."""
        names = (name for name in cls.__struct_fields__ if name not in fields)
        return cls(**fields, **{name: getattr(source, name) for name in names})


Content = TypeVar("Content")


def pack(content: Any, prefix: str = "") -> tuple[Any, Arrays]:
    """The manifest entry of a content, and its arrays, named by the path of fields that leads to them."""
    arrays: Arrays = {}
    return _plain(content, prefix, arrays), arrays


def _plain(value: Any, path: str, arrays: Arrays) -> Any:
    """A value as JSON; its arrays are added to `arrays`."""
    match value:
        case np.ndarray():
            arrays[path] = narrow(value) if value.dtype.kind == "i" else value
            return path
        case msgspec.Struct():
            config = value.__struct_config__
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            fields = {name: inner for name, inner in fields.items() if inner is not msgspec.UNSET}
            tag = {} if config.tag is None else {str(config.tag_field): config.tag}
            return tag | _plain(fields, path, arrays)
        case Mapping():
            return {name: _plain(inner, f"{path}_{name}" if path else name, arrays) for name, inner in value.items()}
        case list() | tuple():
            return [_plain(inner, f"{path}_{index}", arrays) for index, inner in enumerate(value)]
        case Domain():
            return [[name, value[name]] for name in value]
        case Fraction():
            return rational_text(value)
        case Enum():
            return value.value
    return value


def unpack(kind: type[Content] | Any, entry: Any, archive: ArchiveReader | None, what: str) -> Content:
    """The content of an entry that `pack` wrote; raises ArchiveError, with the reason, for any other entry."""

    def decode(declared: Any, value: Any) -> Any:
        try:
            if declared is Fraction:
                if isinstance(value, str) and len(value) > LONGEST_FRACTION:
                    raise ValueError(f"Expected a fraction of at most {LONGEST_FRACTION} characters")
                return parse_rational(value, "fraction")
            if declared is Domain:
                pairs = msgspec.convert(value, list[tuple[str, int]])
                if len(dict(pairs)) != len(pairs):
                    raise ValueError("Expected every attribute once")
                return Domain(dict(pairs))
            if archive is not None and get_origin(declared) is np.ndarray:
                return _array(declared, value, archive)
            raise TypeError(f"no way to read {declared!r}")
        except (ArchiveError, SizeError):
            raise
        except HushError as error:
            raise ValueError(str(error)) from None  # msgspec adds where

    try:
        content: Content = msgspec.convert(entry, kind, dec_hook=decode)
    except (msgspec.ValidationError, OverflowError) as error:
        reason = printable(str(error)[:_LONGEST_REASON])
        raise ArchiveError(f"the file's {what} cannot be read: {reason}; make it anew") from None
    return content


def _array(declared: Any, name: Any, archive: ArchiveReader) -> np.ndarray[Any, Any]:
    """An array, of the dtype and number of dimensions that its annotation states."""
    if not isinstance(name, str):
        raise ValueError("Expected the name of an array")
    shape, dtype = get_args(declared)
    scalar = get_args(dtype)[0]
    values, axes = archive.array(name), get_args(shape)
    if not np.issubdtype(values.dtype, get_origin(scalar) or scalar):
        raise ValueError(f"Expected array `{name}` of another type of numbers")
    if ... not in axes and values.ndim != len(axes):
        raise ValueError(f"Expected array `{name}` in {len(axes)} dimensions")
    if declared == IntVector and values.size > INTEGERS_UNCHECKED + INTEGERS_PER_BYTE * archive.size:
        raise ValueError(f"Expected array `{name}` of fewer integers in a file of {archive.size} bytes")
    return values


def narrow(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same integers in the smallest type that holds them."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    kinds = (np.int8, np.int16, np.int32, np.int64)
    return values.astype(next(kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max))


def require_shape(values: np.ndarray[Any, Any], shape: tuple[int, ...], what: str) -> None:
    """Refuse an array whose shape contradicts other parts of the file."""
    if values.shape != shape:
        raise ArchiveError(f"the file's {what} are of another size than it states; make it anew")


def finite(values: FloatVector, size: int, what: str) -> Floats:
    """An array of `size` floats; refuses NaN and numbers too large to compute with."""
    require_shape(values, (size,), what)
    if size and not np.abs(values).max() <= LARGEST_FLOAT:  # NaN fails too
        raise ArchiveError(f"the file's {what} hold NaN, or numbers beyond {LARGEST_FLOAT:g}; make it anew")
    return np.array(values, dtype=np.float64, order="C")


class CliqueTable(Stored):
    """Cliques as two arrays: the indices of attributes, one clique after the other, and the length of each."""

    members: IntVector
    lengths: IntVector

    @classmethod
    def of(cls, domain: Domain, cliques: Iterable[Clique]) -> CliqueTable:
        """The cliques of a domain, in order."""
        index = {name: number for number, name in enumerate(domain)}
        listed = list(cliques)
        members = np.array([index[name] for clique in listed for name in clique], dtype=np.int32)
        return cls(members=members, lengths=np.array([len(clique) for clique in listed], dtype=np.int32))

    def build(self, domain: Domain, what: str) -> list[Clique]:
        """The cliques; refuses attributes that the domain does not have."""
        members, lengths = self.members, self.lengths
        if (lengths < 0).any() or lengths.sum(dtype=np.int64) != len(members):
            raise ArchiveError(f"the cliques of the file's {what} do not fit together; make it anew")
        if len(members) and (members.min() < 0 or members.max() >= len(domain)):
            raise ArchiveError(f"the cliques of the file's {what} name attributes it does not have; make it anew")
        names = np.array(domain.attributes, dtype=object)[members].tolist()
        ends = np.cumsum(lengths, dtype=np.int64).tolist()
        return [tuple(names[end - length : end]) for end, length in zip(ends, lengths.tolist(), strict=True)]


def tables_of(domain: Domain, cliques: Iterable[Clique], flat: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """The tables over cliques that lie one after the other in a flat array."""
    start = 0
    for clique in cliques:
        size = domain.size(clique)
        yield flat[start : start + size].reshape(domain.sizes(clique))
        start += size


def joined(tables: Iterable[np.ndarray[Any, Any]], dtype: Any) -> np.ndarray[Any, Any]:
    """Tables one after the other in a flat array."""
    return np.concatenate([np.zeros(0, dtype=dtype), *(np.ravel(table) for table in tables)]).astype(dtype, copy=False)
