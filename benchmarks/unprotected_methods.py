"""Published methods that neither hush nor the gate has, on bare counts: yardsticks for errors, never for a release.

Each takes public or generated counts, epsilon and a generator, and returns a number for every cell. Noise is
floating-point noise, and the counts pass no gate. Pieces that share no cell spend the same budget at once.

Reference: [Li 2013, Table 6.2 and Figure 6.6], where these methods are compared with DAWA.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from benchmarks.tree_budgets import level_tree
from hush.core.arrays import Floats, Integers
from hush.histograms.bucket_trees import BucketTreeQuery, expanded
from hush.histograms.interval_costs import deviations

Yardstick = Callable[[Integers, float, np.random.Generator], Floats]
Box = tuple[int, int, int, int]  # top, bottom, left, right

CLIQUE = ("a",)
CELLS_PER_BUCKET = 40  # of StructureFirst, whose number of buckets is fixed beforehand
MEDIAN_SHARE, MEDIAN_DEPTH = 0.3, 4  # of HybridTree: the budget for medians, and how many depths split at medians
DEEPEST = 14  # of DPCube: the deepest cut


def chosen(scores: Floats, epsilon: float, sensitivity: float, random: np.random.Generator) -> int:
    """The exponential mechanism, by Gumbel noise."""
    return int(np.argmax(epsilon * scores / (2 * sensitivity) + random.gumbel(size=len(scores))))


def kept_coefficients(cells: Integers, epsilon: float, random: np.random.Generator) -> Floats:
    """EFPA: the lowest frequencies, as many as a private choice keeps, with noise.

    A cell has a coefficient of size n^(-1/2) at every frequency, so k real numbers have the L1 sensitivity k / n^(1/2).
    The choice weighs the norm of what is left out, which a row moves by one, against the norm of the noise.

    Reference: [Acs, Castelluccia and Chen 2012].
    """
    n, half = len(cells), epsilon / 2
    found = np.fft.rfft(cells, norm="ortho")
    weights = np.full(len(found), 2.0)  # a frequency stands for itself and its mirror image
    weights[0] = 1.0
    weights[-1] = 1.0 if n % 2 == 0 else weights[-1]
    energy = weights * np.abs(found) ** 2
    left_out = np.sqrt(np.maximum(energy.sum() - np.cumsum(energy), 0.0))
    kept = np.cumsum(weights)
    scale = kept / math.sqrt(n) / half
    last = chosen(-(left_out + np.sqrt(2 * kept) * scale), half, 1.0, random)
    noise = random.laplace(scale=scale[last], size=(2, last + 1)) / np.sqrt(weights[: last + 1])
    out = np.zeros_like(found)
    out[: last + 1] = found[: last + 1] + noise[0] + np.where(weights[: last + 1] > 1, 1j, 0) * noise[1]
    return np.fft.irfft(out, n, norm="ortho")


def bisected(cells: Integers, epsilon: float, random: np.random.Generator) -> Floats:
    """P-HP: intervals cut in two, again and again, where private choices find the least deviation; then noisy counts.

    Half of the budget cuts, in equal parts for every depth; an interval may stay whole.

    Reference: [Acs, Castelluccia and Chen 2012].
    """
    n, half = len(cells), epsilon / 2
    costs = deviations(np.asarray(cells), tuple(range(1, n + 1)), "mean", 1)
    depths = max(1, (n - 1).bit_length())
    intervals = [(0, n)]
    for _ in range(depths):
        after: list[tuple[int, int]] = []
        for start, stop in intervals:
            cuts = np.arange(start + 1, stop)
            whole = costs[stop - start - 1, start]
            apart = costs[cuts - start - 1, start] + costs[stop - cuts - 1, cuts] + 1 / half
            place = chosen(-np.concatenate([[whole], apart]), half / depths, 2.0, random)
            after += [(start, stop)] if place == 0 else [(start, int(cuts[place - 1])), (int(cuts[place - 1]), stop)]
        intervals = after
    sizes = np.array([stop - start for start, stop in intervals])
    sums = np.add.reduceat(cells, [start for start, _ in intervals]) + random.laplace(scale=1 / half, size=len(sizes))
    return np.repeat(sums / sizes, sizes)


def structure_first(cells: Integers, epsilon: float, random: np.random.Generator) -> Floats:
    """StructureFirst: a fixed number of buckets of least squared deviation, chosen from right to left; then a tree.

    Half of the budget chooses. The bound on counts, on which the noise of a choice depends, is the largest count, as in
    the paper.

    Reference: [Xu et al. 2013].
    """
    n, half = len(cells), epsilon / 2
    buckets = max(1, n // CELLS_PER_BUCKET)
    sums, squares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (cells, np.square(cells, dtype=np.float64)))
    starts, stops = np.arange(n + 1)[:, None], np.arange(n + 1)[None, :]
    length = np.where(stops > starts, stops - starts, 1)
    costs = np.where(
        stops > starts, squares[stops] - squares[starts] - (sums[stops] - sums[starts]) ** 2 / length, np.inf
    )
    least = [np.where(np.arange(n + 1) > 0, costs[0], np.inf)]  # of the first cells, in one bucket, in two, ...
    for _ in range(buckets - 1):
        least.append(np.min(least[-1][:, None] + costs, axis=0))
    cuts = [n]
    for count in range(buckets - 2, -1, -1):
        total = least[count][: cuts[-1]] + costs[: cuts[-1], cuts[-1]]
        possible = np.flatnonzero(np.isfinite(total))
        bound = 2.0 * float(cells.max()) + 1
        cuts.append(int(possible[chosen(-total[possible], half / max(1, buckets - 1), bound, random)]))
    tree = level_tree(np.array([0, *reversed(cuts)] if cuts[-1] else list(reversed(cuts))), 2)
    exact = BucketTreeQuery(CLIQUE, tree).answer({CLIQUE: np.asarray(cells)})
    return expanded(tree.estimates(exact + random.laplace(scale=tree.units / half, size=len(exact))), tree.cuts)


def cubes(cells: Integers, epsilon: float, random: np.random.Generator) -> Floats:
    """DPCube: noisy cells, boxes cut in the middle of their noisy rows until even, noisy boxes; both put together.

    Reference: [Xiao et al. 2014].
    """
    half = epsilon / 2
    table = np.atleast_2d(np.asarray(cells, dtype=np.float64))
    rough = table + random.laplace(scale=1 / half, size=table.shape)
    boxes: list[Box] = []
    waiting = [((0, table.shape[0], 0, table.shape[1]), 0)]
    while waiting:
        box, depth = waiting.pop()
        inside = rough[box[0] : box[1], box[2] : box[3]]
        even = float(np.abs(inside - inside.mean()).mean()) <= 1 / half  # the mean deviation of noise alone
        if even or depth == DEEPEST or inside.size == 1:
            boxes.append(box)
            continue
        axis = int(inside.shape[1] >= inside.shape[0])
        along = np.cumsum(np.maximum(inside.sum(axis=1 - axis), 0.0))
        cut = min(max(int(np.searchsorted(along, along[-1] / 2)) + 1, 1), inside.shape[axis] - 1)
        waiting += [(part, depth + 1) for part in _halves(box, axis, cut)]
    out = np.empty_like(table)
    for top, bottom, left, right in boxes:
        size = (bottom - top) * (right - left)
        count = table[top:bottom, left:right].sum() + random.laplace(scale=1 / half)
        share = size / (size + 1)  # the noise of the box has `size` times less variance than the sum of its cells
        out[top:bottom, left:right] = (share * count + (1 - share) * rough[top:bottom, left:right].sum()) / size
    return out.reshape(np.shape(cells))


def hybrid_tree(cells: Integers, epsilon: float, random: np.random.Generator) -> Floats:
    """HybridTree: boxes cut at private medians for four depths, then in quarters; noisy counts at every depth.

    Counts have shares of the budget that grow by 2^(1/3) per depth. Least squares, by boxes from the leaves up and
    from the root down.

    Reference: [Cormode et al. 2012], kd-hybrid.
    """
    depths = MEDIAN_DEPTH + max(cells.shape).bit_length() - 1
    levels: list[list[Box]] = [[(0, cells.shape[0], 0, cells.shape[1])]]
    children: list[list[list[int]]] = []
    for depth in range(depths):
        after: list[Box] = []
        children.append([])
        for box in levels[-1]:
            parts = [box]
            if depth < MEDIAN_DEPTH:
                parts = _at_median(cells, box, depth % 2, MEDIAN_SHARE * epsilon / MEDIAN_DEPTH, random)
            else:
                for axis in (0, 1):
                    parts = [half for part in parts for half in _in_the_middle(part, axis)]
            children[-1].append(list(range(len(after), len(after) + len(parts))))
            after += parts
        levels.append(after)
    # a noisy count for every box
    shares = 2.0 ** (np.arange(depths + 1) / 3)
    shares *= (1 - MEDIAN_SHARE) * epsilon / shares.sum()
    sums = np.zeros((cells.shape[0] + 1, cells.shape[1] + 1))
    sums[1:, 1:] = cells.cumsum(axis=0).cumsum(axis=1)
    counts = []
    for level, share in zip(levels, shares, strict=True):
        a, b, c, d = np.array(level).T
        counts.append(sums[b, d] - sums[a, d] - sums[b, c] + sums[a, c] + random.laplace(scale=1 / share, size=len(a)))
    best = _consistent(counts, children, 1 / shares**2)
    out = np.empty(cells.shape)
    for (top, bottom, left, right), value in zip(levels[-1], best, strict=True):
        out[top:bottom, left:right] = value / max((bottom - top) * (right - left), 1)
    return out


def _consistent(counts: list[Floats], children: list[list[list[int]]], variances: Floats) -> Floats:
    """The least-squares counts of the leaves."""
    # from the leaves up: a box, by its own count and by the sum of its parts
    values, spreads = [counts[-1]], [np.full(len(counts[-1]), variances[-1])]
    for level in range(len(counts) - 2, -1, -1):
        below = np.array([values[0][parts].sum() for parts in children[level]])
        spread = np.array([spreads[0][parts].sum() for parts in children[level]])
        weight = spread / (spread + variances[level])
        values.insert(0, weight * counts[level] + (1 - weight) * below)
        spreads.insert(0, weight * variances[level])
    # from the root down: parts share the gap between their sum and their box, by variance
    best = values[0]
    for level, groups in enumerate(children):
        below, spread = values[level + 1].copy(), spreads[level + 1]
        for value, parts in zip(best, groups, strict=True):
            below[parts] += (value - below[parts].sum()) * spread[parts] / spread[parts].sum()
        best = below
    return best


def _at_median(cells: Integers, box: Box, axis: int, epsilon: float, random: np.random.Generator) -> list[Box]:
    """Two boxes, cut where a private choice finds about half of the rows; one box if it cannot be cut."""
    along = cells[box[0] : box[1], box[2] : box[3]].sum(axis=1 - axis)
    if len(along) < 2:
        return [box]
    before = np.cumsum(along)
    return _halves(box, axis, 1 + chosen(-np.abs(before[:-1] - before[-1] / 2), epsilon, 1.0, random))


def _in_the_middle(box: Box, axis: int) -> list[Box]:
    size = box[2 * axis + 1] - box[2 * axis]
    return _halves(box, axis, size // 2) if size > 1 else [box]


def _halves(box: Box, axis: int, cut: int) -> list[Box]:
    top, bottom, left, right = box
    if axis == 0:
        return [(top, top + cut, left, right), (top + cut, bottom, left, right)]
    return [(top, bottom, left, left + cut), (top, bottom, left + cut, right)]


LINES: dict[str, Yardstick] = {
    "EFPA": kept_coefficients,
    "P-HP": bisected,
    "StructureFirst": structure_first,
    "DPCube": cubes,
}
MAPS: dict[str, Yardstick] = {"HybridTree": hybrid_tree, "DPCube": cubes}
