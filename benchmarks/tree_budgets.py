"""Published budgets for trees of buckets, to compare with DAWA's greedy tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hush.core.arrays import Integers
from hush.core.errors import WorkloadError
from hush.histograms.bucket_trees import (
    PATH_UNITS,
    BucketTree,
    CellWorkload,
    greedy_tree,
    nodes_by_height,
    tree_from_fractions,
)


def plain_tree(cuts: Integers, units: int = 1) -> BucketTree:
    """Buckets alone: plain Laplace noise."""
    nodes = nodes_by_height(len(cuts) - 1, 2)
    levels = [np.full(nodes[0], units, dtype=np.int64), *(np.zeros(count, dtype=np.int64) for count in nodes[1:])]
    return BucketTree(np.asarray(cuts), tuple(levels))


def geometric_tree(
    cuts: Integers, branching: int = 2, ratio: float | None = None, units: int = PATH_UNITS
) -> BucketTree:
    """Shares that grow by `ratio` per depth, from the root to the leaves; 1 makes a uniform tree.

    The default is branching^(1/3), the best for ranges of a complete tree.

    Reference: [Cormode et al. 2012, Sec. 4.2].
    """
    nodes = nodes_by_height(len(cuts) - 1, branching)
    ratio = branching ** (1 / 3) if ratio is None else ratio
    if not 0 < ratio < 1e3:
        raise WorkloadError(f"ratio={ratio!r}: expected a number from 0 to 1000")
    shares = ratio ** -np.arange(len(nodes), dtype=np.float64)
    shares /= shares.sum()
    # every node takes its part of what its ancestors leave
    left, fractions = 1.0, []
    for count, share in zip(reversed(nodes[1:]), reversed(shares[1:].tolist()), strict=True):
        fractions.append(np.full(count, min(share / left, 1.0)))
        left -= share
    leaves = np.full(nodes[0], shares[0])
    return tree_from_fractions(np.asarray(cuts), branching, [leaves, *reversed(fractions)], units)


def level_tree(cuts: Integers, branching: int) -> BucketTree:
    """A tree whose depths share the budget alike, without a root."""
    nodes = nodes_by_height(len(cuts) - 1, branching)
    levels = [np.ones(count, dtype=np.int64) for count in nodes]
    if len(levels) > 1:
        levels[-1] = np.zeros(1, dtype=np.int64)
    return BucketTree(cuts, tuple(levels), branching)


def least_error_tree(cuts: Integers, workload: CellWorkload, branchings: Sequence[int] = (2, 4, 8, 16)) -> BucketTree:
    """The tree of least predicted error among all kinds here: plain, greedy, geometric, and of equal depths."""
    cuts = np.asarray(cuts)
    trees = [plain_tree(cuts)]
    for branching in branchings:
        trees += [greedy_tree(cuts, workload, branching), geometric_tree(cuts, branching), level_tree(cuts, branching)]
    return min(trees, key=lambda tree: tree.error(workload) * tree.units**2)
