"""Blocks of several sizes that cover a histogram: large ones where rows are few, small ones where rows are many.

`BlockCut` is such a set of blocks of a `BlockTree`, `refined_cut` chooses one from estimated counts, and `CutQuery`
counts the rows of its blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique
from hush.core.errors import WorkloadError
from hush.histograms.axis_grid import AxisGrid, added
from hush.histograms.block_tree import BlockTree
from hush.privacy.gate import Counts
from hush.privacy.sensitivity import ONE_CELL, RowNorms


@dataclass(frozen=True, eq=False)
class BlockCut:
    """Blocks of a tree, by their numbers from left to right, that cover every bucket once.

    >>> BlockCut(BlockTree((4,)), np.array([4, 5, 3])).starts.tolist()
    [0, 1, 2]
    """

    tree: BlockTree
    nodes: Integers

    def __post_init__(self) -> None:
        nodes, tree = np.array(self.nodes, dtype=np.int64), self.tree
        if nodes.ndim != 1 or not nodes.size or nodes.min() < 1 or nodes.max() >= 2 << tree.depth:
            raise WorkloadError(f"the blocks of a cut must be numbers from 1 to {(2 << tree.depth) - 1}")
        nodes.setflags(write=False)
        object.__setattr__(self, "nodes", nodes)
        # The leaves of every block are a run of numbers; runs must rise, and each bucket and block must have the other.
        below = tree.depth - node_levels(nodes)
        first, end = nodes << below, (nodes + 1) << below
        block = np.searchsorted(first, tree.leaves, side="right") - 1
        covered = (block >= 0).all() and (tree.leaves < end[block]).all()
        apart = (first[1:] >= end[:-1]).all()
        if not (apart and covered and np.bincount(block, minlength=len(nodes)).min() > 0):
            raise WorkloadError("the blocks of a cut must cover every bucket of the tree once, from left to right")

    @classmethod
    def at_level(cls, tree: BlockTree, level: int) -> Self:
        """All blocks of a level."""
        return cls(tree, np.unique(tree.leaves >> (tree.depth - level)))

    @cached_property
    def starts(self) -> Integers:
        """Where every block starts among the buckets in the order of the tree."""
        first = self.nodes << (self.tree.depth - node_levels(self.nodes))
        return np.searchsorted(self.tree.leaves, first)

    @cached_property
    def block_of(self) -> Integers:
        """The position of the block of every bucket, buckets as in the table."""
        sizes = np.diff(np.append(self.starts, len(self.tree.leaves)))
        out = np.empty(len(self.tree.leaves), dtype=np.int64)
        out[self.tree.order] = np.repeat(np.arange(len(sizes)), sizes)
        return out.reshape(self.tree.buckets)

    def refines(self, other: BlockCut) -> bool:
        """Whether every block lies within a block of another cut of the same tree."""
        return bool(np.isin(other.starts, self.starts).all())

    @property
    def whole(self) -> bool:
        """Whether every bucket is a block of its own."""
        return len(self.nodes) == len(self.tree.leaves)


@dataclass(frozen=True, eq=False)
class CutQuery:
    """Counts of the blocks of a cut, by the levels of other attributes.

    Privacy: a row is in one block, and adds one to one count.
    """

    clique: Clique
    grids: tuple[AxisGrid, ...]
    cut: BlockCut
    row_norms: ClassVar[RowNorms] = ONE_CELL

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    def answer(self, counts: Counts) -> Integers:
        table = added(counts[self.clique], self.grids)
        levels = table.shape[len(self.grids) :]
        out = np.zeros((len(self.cut.nodes), *levels), dtype=np.int64)
        np.add.at(out, self.cut.block_of.ravel(), table.reshape(-1, *levels))
        return out

    def shape(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the answers, from that of the table."""
        return (len(self.cut.nodes), *sizes[len(self.grids) :])


def node_levels(nodes: Integers) -> Integers:
    """The level of every node: the number of binary digits after the first."""
    return np.frexp(nodes.astype(np.float64))[1].astype(np.int64) - 1


def refined_cut(cut: BlockCut, counts: Floats, noise: float, parts_per_noise: float) -> BlockCut:
    """The cut that halves blocks until their parts hold about as many rows as a noisy count errs by.

    A block of c rows is cut into 2^d parts, with d = log2(parts_per_noise c / noise) rounded up. `counts` has estimates
    for all nodes of the tree; `noise` is the scale of a count's noise, in the unit of Laplace noise. Adaptive grids cut
    by the same idea.

    Reference: [Qardaji et al. 2013a, Sec. 4.2], AGrid.
    """
    nodes, leaves, depth = cut.nodes, cut.tree.leaves, cut.tree.depth
    parts = np.maximum(parts_per_noise * counts[nodes] / noise, 1.0)
    halvings = np.clip(np.ceil(np.log2(parts)), 0, depth - node_levels(nodes)).astype(np.int64)
    # The parts of a block follow each other; parts beyond the table's edge hold no bucket.
    ends = np.cumsum(1 << halvings)
    within = np.arange(ends[-1]) - np.repeat(ends - (1 << halvings), 1 << halvings)
    finer = np.repeat(nodes << halvings, 1 << halvings) + within
    below = depth - node_levels(finer)
    full = np.searchsorted(leaves, finer << below) < np.searchsorted(leaves, (finer + 1) << below)
    return BlockCut(cut.tree, finer[full])
