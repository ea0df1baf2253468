"""Query blocks in files: small facts in the manifest, numbers in arrays; a block made of others names them by place.

Workloads in files: a table of distinct blocks in the manifest, everything else in arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from hush.archive import ArchiveReader
from hush.domain import Clique, Domain
from hush.errors import ArchiveError, HushError
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
from hush.workloads.term import Term
from hush.workloads.workload import Workload

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


def pack_cliques(domain: Domain, cliques: Iterable[Clique], prefix: str) -> dict[str, np.ndarray[Any, Any]]:
    """Cliques as two arrays: places of attributes, one after the other, and how many each clique has."""
    place = {name: index for index, name in enumerate(domain)}
    lengths: list[int] = []
    members: list[int] = []
    for clique in cliques:
        lengths.append(len(clique))
        members.extend(place[name] for name in clique)
    return {
        f"{prefix}_members": np.array(members, dtype=np.int32),
        f"{prefix}_lengths": np.array(lengths, dtype=np.int32),
    }


def unpack_cliques(domain: Domain, archive: ArchiveReader, prefix: str) -> list[Clique]:
    """The cliques that `pack_cliques` stored."""
    members, lengths = archive.array(f"{prefix}_members"), archive.array(f"{prefix}_lengths")
    plain = members.ndim == lengths.ndim == 1 and members.dtype.kind == lengths.dtype.kind == "i"
    if not plain or lengths.sum() != len(members) or (lengths < 0).any():
        raise ArchiveError(f"the cliques {prefix!r} of the file do not fit together; make it anew")
    if len(members) and (members.min() < 0 or members.max() >= len(domain)):
        raise ArchiveError(f"the cliques {prefix!r} of the file name attributes it does not have; make it anew")
    names = np.array(domain.attributes, dtype=object)[members].tolist()
    ends = np.cumsum(lengths).tolist()
    return [tuple(names[end - length : end]) for end, length in zip(ends, lengths.tolist(), strict=True)]


def pack_workload(workload: Workload) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """The manifest entry and the arrays of a workload."""
    table = BlockTable()
    used = [table.place(block) for term in workload for block in term.blocks]
    arrays = pack_cliques(workload.domain, workload.cliques, "workload")
    arrays["workload_blocks"] = np.array(used, dtype=np.int32)
    arrays["workload_weights"] = np.array(workload.weights, dtype=np.float64)
    return {"blocks": table.entries}, arrays | table.arrays


def unpack_workload(domain: Domain, entry: Any, archive: ArchiveReader) -> Workload:
    """The workload that `pack_workload` stored."""
    if not isinstance(entry, dict) or not isinstance(entry.get("blocks"), list):
        raise ArchiveError("the file states no workload; make it anew")
    try:
        blocks = read_blocks(entry["blocks"], archive)
        cliques = unpack_cliques(domain, archive, "workload")
        used, weights = archive.array("workload_blocks").tolist(), archive.array("workload_weights").tolist()
        terms, position = [], 0
        for clique, weight in zip(cliques, weights, strict=True):
            own = _take(blocks, used[position : position + len(clique)], len(clique))
            position += len(clique)
            terms.append(Term(clique, own, float(weight)))
        return Workload(domain, terms)
    except ArchiveError:
        raise
    except (HushError, ValueError, TypeError, KeyError, OverflowError):
        raise ArchiveError("the workload of the file does not fit its domain; make it anew") from None


def pack_domain(domain: Domain) -> list[list[Any]]:
    """Names and sizes, in order."""
    return [[name, domain[name]] for name in domain]


def unpack_domain(entry: Any) -> Domain:
    """The domain that `pack_domain` stored."""
    if not isinstance(entry, list):
        raise ArchiveError("the domain of the file cannot be read; make it anew")
    try:
        pairs = dict(entry)
        if len(pairs) != len(entry):
            raise ArchiveError("the domain of the file names an attribute twice; make it anew")
        return Domain(pairs)
    except (HushError, ValueError, TypeError):
        raise ArchiveError("the domain of the file cannot be read; make it anew") from None


def _take(blocks: Sequence[LinearOperator], places: Sequence[int], expected: int) -> tuple[LinearOperator, ...]:
    if len(places) != expected or any(not 0 <= place < len(blocks) for place in places):
        raise ArchiveError("the workload of the file names blocks it does not have; make it anew")
    return tuple(blocks[place] for place in places)
