"""Workloads in files: a table of distinct blocks in the manifest, everything else in arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hush.archive import ArchiveReader
from hush.domain import Clique, Domain
from hush.errors import ArchiveError, HushError
from hush.linops import LinearOperator
from hush.workloads.block_storage import BlockTable, read_blocks
from hush.workloads.term import Term
from hush.workloads.workload import Workload


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
