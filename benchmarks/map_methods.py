"""Published ways to answer questions about two ordered columns, to compare with: each through the gate."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from benchmarks.column_methods import GroupCounts, Method, Shape, identity, noisy, tree_estimates, uniform
from benchmarks.tree_budgets import geometric_tree
from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique
from hush.core.errors import WorkloadError
from hush.histograms.bucket_trees import AllRanges, greedy_tree
from hush.histograms.interval_costs import NodeScores, hilbert_order
from hush.privacy.gate import Gate
from hush.privacy.partition_laws import SplittingTree

TOTAL_SHARE = Fraction(1, 20)  # of the budget, for the number of rows that sizes a grid
CELL_ROWS = 10  # rows times epsilon for each block of a uniform grid; half of it for blocks within blocks


def uniform_grid(gate: Gate, clique: Clique, shape: Shape, epsilon: Fraction) -> Floats:
    """Blocks of equal size, sqrt(N epsilon / 10) each way, with N a noisy number of rows.

    Reference: [Qardaji et al. 2013a, Sec. 4.1], UGrid.
    """
    rows, columns = _sides(shape)
    total, left = _noisy_total(gate, clique, shape, epsilon)
    side = max(10, math.ceil(math.sqrt(total * float(left) / CELL_ROWS)))
    blocks, count = _even_blocks(rows, columns, side)
    return _spread(noisy(gate, GroupCounts(clique, blocks.ravel(), count), left).astype(np.float64), blocks)


def adaptive_grid(gate: Gate, clique: Clique, shape: Shape, epsilon: Fraction) -> Floats:
    """A coarse grid, half of the budget; then each block is cut as its noisy count allows, with the other half.

    The two counts of a block are put together by their variances.

    Reference: [Qardaji et al. 2013a, Sec. 4.2], AGrid.
    """
    rows, columns = _sides(shape)
    total, left = _noisy_total(gate, clique, shape, epsilon)
    side = max(10, math.ceil(math.sqrt(total * float(left) / CELL_ROWS) / 4))
    coarse, count = _even_blocks(rows, columns, side)
    if count == rows * columns:  # nothing is left to cut
        return identity(gate, clique, shape, left)
    first = noisy(gate, GroupCounts(clique, coarse.ravel(), count), left / 2).astype(np.float64)
    fine, parent = _cut_again(coarse, np.sqrt(np.maximum(first, 0) * float(left) / CELL_ROWS))
    second = noisy(gate, GroupCounts(clique, fine.ravel(), len(parent)), left / 2).astype(np.float64)
    pieces = np.bincount(parent, minlength=count).astype(np.float64)
    sums = np.bincount(parent, second, minlength=count)
    both = (pieces * first + sums) / (pieces + 1)  # variances 1 and `pieces`, in units of the noise
    return _spread(second + ((both - sums) / pieces)[parent], fine)


def quad_tree(gate: Gate, clique: Clique, shape: Shape, epsilon: Fraction) -> Floats:
    """Squares in squares down to cells, shares of the budget growing by 2^(1/3) per depth, least squares.

    Runs of 4^j cells of a Hilbert curve are squares.

    Reference: [Cormode et al. 2012], QuadTree.
    """
    rows, columns = _sides(shape)
    tree = geometric_tree(np.arange(rows * columns + 1), 4, 2 ** (1 / 3))
    return _from_curve(tree_estimates(gate, clique, tree, epsilon, "hilbert"), rows, columns)


def splitting_squares(gate: Gate, clique: Clique, shape: Shape, epsilon: Fraction) -> Floats:
    """A quarter of the budget for a tree of squares that split where cells deviate, the rest for a greedy tree.

    The leaves are runs of cells of a Hilbert curve, and the greedy tree over them is that for ranges along the curve.

    Reference: [Zhang et al. 2016] for the squares; [Li 2013, Sec. 6.6] for the curve.
    """
    rows, columns = _sides(shape)
    quarter = Fraction(epsilon) / 4
    scorer = NodeScores(clique, rows * columns, fanout=4, curve="hilbert")
    cuts = gate.select(scorer, SplittingTree(quarter, math.floor(1 / (3 * quarter))))
    tree = greedy_tree(np.array(cuts), AllRanges())
    return _from_curve(tree_estimates(gate, clique, tree, 3 * quarter, "hilbert"), rows, columns)


def _from_curve(in_line: Floats, rows: int, columns: int) -> Floats:
    """Cells in the order of the Hilbert curve, as a table."""
    cells = np.empty(rows * columns)
    cells[hilbert_order(rows, columns)] = in_line
    return cells.reshape(rows, columns)


def _noisy_total(gate: Gate, clique: Clique, shape: Shape, epsilon: Fraction) -> tuple[float, Fraction]:
    """A noisy number of rows, at least one, and the budget that is left."""
    share = Fraction(epsilon) * TOTAL_SHARE
    total = noisy(gate, GroupCounts(clique, np.zeros(math.prod(shape), dtype=np.int64), 1), share)
    return max(float(total[0]), 1.0), Fraction(epsilon) - share


def _blocks(rows: int, columns: int, down: int, across: int) -> tuple[Integers, int]:
    """The block of every cell, in a grid of `down` x `across` blocks as even as can be, and how many there are."""
    block = (np.arange(rows) * down // rows)[:, None] * across + np.arange(columns) * across // columns
    return block, down * across


def _even_blocks(rows: int, columns: int, side: int) -> tuple[Integers, int]:
    """About `side` blocks each way, of as many whole cells as fit, so that there are no fewer than that."""
    down, across = (-(-cells // max(1, cells // side)) for cells in (rows, columns))
    return _blocks(rows, columns, down, across)


def _cut_again(coarse: Integers, sides: Floats) -> tuple[Integers, Integers]:
    """Every block cut into about side x side pieces: the piece of every cell, and the block of every piece."""
    fine = np.empty_like(coarse)
    parents: list[int] = []
    for block, side in enumerate(sides):
        inside = np.argwhere(coarse == block)
        (top, left), (bottom, right) = inside.min(axis=0), inside.max(axis=0) + 1
        rows, columns = int(bottom - top), int(right - left)
        each = max(1, math.ceil(side))
        pieces, count = _blocks(rows, columns, min(each, rows), min(each, columns))
        fine[top:bottom, left:right] = pieces + len(parents)
        parents += [block] * count
    return fine, np.array(parents, dtype=np.int64)


def _spread(counts: Floats, blocks: Integers) -> Floats:
    """The counts of blocks spread evenly over their cells."""
    return np.asarray((counts / np.bincount(blocks.ravel(), minlength=len(counts)))[blocks])


def _sides(shape: Shape) -> tuple[int, int]:
    if len(shape) != 2:
        raise WorkloadError(f"a table of shape {shape}: expected two ordered columns")
    return shape[0], shape[1]


TWO_DIMENSIONS: dict[str, Method] = {
    "identity": identity,
    "uniform": uniform,
    "uniform grid": uniform_grid,
    "adaptive grid": adaptive_grid,
    "quad tree": quad_tree,
    "splitting squares": splitting_squares,
}
