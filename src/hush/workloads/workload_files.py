"""Workloads in files: distinct query blocks in the manifest, cliques and weights in arrays.

A block that is made of others names them by index, and comes after them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from hush.archive import ArchiveReader
from hush.codec import (
    Arrays,
    CliqueTable,
    Finite,
    FloatMatrix,
    FloatVector,
    IntVector,
    Size,
    Stored,
    Whole,
    pack,
    unpack,
)
from hush.domain import Domain
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
from hush.workloads.term import ProductTerm
from hush.workloads.workload import Workload


class StoredBlock(Stored, tag_field="kind"):
    """A query block as the arguments of its operator; `of` are the blocks that it is made of."""

    makes: ClassVar[Callable[..., LinearOperator]]

    def build(self, known: Sequence[LinearOperator]) -> LinearOperator:
        """The operator; IndexError where it is made of a block that does not come before it."""
        arguments: list[Any] = []
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name == "of":
                value = known[value] if isinstance(value, int) else [known[index] for index in value]
            arguments.append(value.tolist() if isinstance(value, np.ndarray) and value.ndim == 1 else value)
        return type(self).makes(*arguments)


class IdentityBlock(StoredBlock, tag="identity"):
    makes = Identity
    size: Size


class TotalBlock(StoredBlock, tag="total"):
    makes = Total
    size: Size


class PrefixBlock(StoredBlock, tag="prefix"):
    makes = Prefix
    size: Size


class RangeBlock(StoredBlock, tag="range"):
    makes = AllRange
    size: Size


class WidthBlock(StoredBlock, tag="width"):
    makes = WidthRange
    size: Size
    width: Size


class LevelsBlock(StoredBlock, tag="levels"):
    makes = LevelsAndTotal
    size: Size
    level: Finite
    total: Finite


class GramBlock(StoredBlock, tag="gram"):
    makes = Equivalent
    gram: FloatMatrix
    queries: Annotated[int, Meta(ge=1)]


class PermutedBlock(StoredBlock, tag="permuted"):
    makes = Permuted
    of: Whole
    order: IntVector


class ScaledBlock(StoredBlock, tag="scaled"):
    makes = Scaled
    of: Whole
    factor: Finite


class StackBlock(StoredBlock, tag="stack"):
    makes = Stack
    of: list[Whole]
    weights: FloatVector


class MatrixBlock(StoredBlock, tag="matrix"):
    makes = Dense
    matrix: FloatMatrix


Sized = IdentityBlock | TotalBlock | PrefixBlock | RangeBlock
Block = Sized | WidthBlock | LevelsBlock | GramBlock | PermutedBlock | ScaledBlock | StackBlock | MatrixBlock


class BlockList:
    """Distinct blocks in order, each after those that it is made of."""

    def __init__(self) -> None:
        self._indices: dict[LinearOperator, int] = {}
        self.blocks: list[Block] = []

    def index(self, block: LinearOperator) -> int:
        """The index of a block, which is added if it is new."""
        if block not in self._indices:
            stored = self._stored(block)
            self._indices[block] = len(self.blocks)
            self.blocks.append(stored)
        return self._indices[block]

    def _stored(self, block: LinearOperator) -> Block:
        size = block.shape[1]
        for kind in (IdentityBlock, TotalBlock, PrefixBlock, RangeBlock):
            if block == kind.makes(size):
                return kind(size=size)
        match block:
            case WidthRange():
                return WidthBlock(size=size, width=block.width)
            case LevelsAndTotal():
                return LevelsBlock(size=size, level=block.levels, total=block.total)
            case Equivalent():
                return GramBlock(queries=block.queries, gram=block.gram_dense())
            case Permuted():
                return PermutedBlock(of=self.index(block.operator), order=np.array(block.order, dtype=np.int64))
            case Scaled():
                return ScaledBlock(of=self.index(block.operator), factor=float(block.factor))
            case Stack():
                indices = [self.index(operator) for operator in block.operators]
                return StackBlock(of=indices, weights=np.array(block.weights, dtype=np.float64))
        return MatrixBlock(matrix=np.asarray(block.dense(), dtype=np.float64))


class WorkloadFile(Stored):
    """A workload over a domain that the file states elsewhere; `used` are the blocks of its terms, in order."""

    blocks: list[Block]
    cliques: CliqueTable
    used: IntVector
    weights: FloatVector

    @classmethod
    def of(cls, workload: Workload) -> WorkloadFile:
        """The stored form of a workload."""
        table = BlockList()
        used = [table.index(block) for term in workload.products for block in term.blocks]
        return cls(
            blocks=table.blocks,
            cliques=CliqueTable.of(workload.domain, workload.cliques),
            used=np.array(used, dtype=np.int32),
            weights=np.array(workload.weights, dtype=np.float64),
        )

    def build(self, domain: Domain) -> Workload:
        """The workload; ArchiveError where it does not fit its domain."""
        cliques = self.cliques.build(domain, "workload")
        try:
            operators: list[LinearOperator] = []
            for block in self.blocks:
                operators.append(block.build(operators))
            if len(self.used) != sum(map(len, cliques)) or (len(self.used) and self.used.min() < 0):
                raise IndexError
            axes = iter([operators[index] for index in self.used.tolist()])
            pairs = zip(cliques, self.weights.tolist(), strict=True)
            terms = [ProductTerm(clique, tuple(islice(axes, len(clique))), weight) for clique, weight in pairs]
            return Workload(domain, terms)
        except (HushError, ValueError, TypeError, IndexError, OverflowError):
            raise ArchiveError("the workload of the file does not fit its domain; make it anew") from None


def pack_workload(workload: Workload) -> tuple[dict[str, Any], Arrays]:
    """The manifest entry and the arrays of a workload."""
    return pack(WorkloadFile.of(workload), "workload")


def unpack_workload(domain: Domain, entry: Any, archive: ArchiveReader) -> Workload:
    """The workload that `pack_workload` stored."""
    content: WorkloadFile = unpack(WorkloadFile, entry, archive, "workload")
    return content.build(domain)


def pack_domain(domain: Domain) -> list[list[Any]]:
    """Names and sizes, in order."""
    entry: list[list[Any]] = pack(domain)[0]
    return entry


def unpack_domain(entry: Any) -> Domain:
    """The domain that `pack_domain` stored."""
    return unpack(Domain, entry, None, "domain")
