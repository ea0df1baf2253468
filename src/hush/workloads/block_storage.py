"""Query blocks in files: small facts in the manifest, numbers in arrays; a block made of others names them by place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from hush.archive import ArchiveReader
from hush.errors import ArchiveError
from hush.linops import (
    AllRange,
    Dense,
    Equivalent,
    Identity,
    LevelsAndTotal,
    LinearOperator,
    Permuted,
    Prefix,
    Scaled,
    Stack,
    Total,
    WidthRange,
)

Arrays = dict[str, np.ndarray[Any, Any]]
_SIZED: dict[str, Callable[[int], LinearOperator]] = {
    "identity": Identity,
    "total": Total,
    "prefix": Prefix,
    "range": AllRange,
}


class BlockTable:
    """Distinct blocks by place, each after those that it is made of."""

    def __init__(self) -> None:
        self.places: dict[LinearOperator, int] = {}
        self.entries: list[dict[str, Any]] = []
        self.arrays: Arrays = {}

    def place(self, block: LinearOperator) -> int:
        """The place of a block, new or known."""
        if block not in self.places:
            entry, array = self._describe(block)
            self.places[block] = len(self.entries)
            if array is not None:
                self.arrays[f"block_{len(self.entries)}"] = array
            self.entries.append(entry)
        return self.places[block]

    def _describe(self, block: LinearOperator) -> tuple[dict[str, Any], np.ndarray[Any, Any] | None]:
        for kind, made in _SIZED.items():
            if block == made(block.shape[1]):
                return {"kind": kind, "size": block.shape[1]}, None
        match block:
            case WidthRange():
                return {"kind": "width", "size": block.size, "width": block.width}, None
            case LevelsAndTotal():
                return {"kind": "levels", "size": block.size, "level": block.levels, "total": block.total}, None
            case Equivalent():
                return {"kind": "gram", "queries": block.queries}, block.gram_dense()
            case Permuted():
                return {"kind": "permuted", "of": self.place(block.operator)}, np.array(block.order, dtype=np.int64)
            case Scaled():
                return {"kind": "scaled", "of": self.place(block.operator), "factor": float(block.factor)}, None
            case Stack():
                inner = [self.place(operator) for operator in block.operators]
                return {"kind": "stack", "of": inner}, np.array(block.weights, dtype=np.float64)
        return {"kind": "matrix"}, block.dense()


def read_blocks(entries: Iterable[Any], archive: ArchiveReader) -> list[LinearOperator]:
    """The blocks of a `BlockTable`; ArchiveError, or what their own constructors raise, for what none can be."""
    made: list[LinearOperator] = []
    for entry in entries:
        made.append(_block(entry, archive, made))
    return made


def _block(entry: Any, archive: ArchiveReader, known: Sequence[LinearOperator]) -> LinearOperator:
    kind, own = entry["kind"], f"block_{len(known)}"
    if kind in _SIZED:
        return _SIZED[kind](_whole(entry["size"]))
    match kind:
        case "width":
            return WidthRange(_whole(entry["size"]), _whole(entry["width"]))
        case "levels":
            return LevelsAndTotal(_whole(entry["size"]), _number(entry["level"]), _number(entry["total"]))
        case "gram":
            if isinstance(entry["queries"], bool) or not isinstance(entry["queries"], int):
                raise ArchiveError("a query block of the file states no number of queries; make it anew")
            return Equivalent(archive.array(own), entry["queries"])
        case "permuted":
            order = archive.array(own)
            if order.ndim != 1 or order.dtype.kind != "i":
                raise ArchiveError("a query block of the file states no order of levels; make it anew")
            return Permuted(_known(entry["of"], known), order.tolist())
        case "scaled":
            return Scaled(_known(entry["of"], known), _number(entry["factor"]))
        case "stack":
            weights = archive.array(own)
            if weights.ndim != 1 or weights.dtype.kind != "f":
                raise ArchiveError("a query block of the file states no weights; make it anew")
            return Stack([_known(place, known) for place in entry["of"]], weights.tolist())
        case "matrix":
            return Dense(archive.array(own))
    raise ArchiveError(f"the file has a query block of the unknown kind {kind!r}; upgrade hush")


def _known(place: Any, known: Sequence[LinearOperator]) -> LinearOperator:
    """A block that was read before; one that comes later, or is none, is refused."""
    if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < len(known):
        raise ArchiveError("a query block of the file is made of one that it does not have; make it anew")
    return known[place]


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 2**31:
        raise ArchiveError("a query block of the file states no proper size; make it anew")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArchiveError("a query block of the file states no proper weight; make it anew")
    return float(value)
