"""Found bins: levels of a column of numbers that follow its rows, from one noisy histogram of narrow cells.

A bin spreads its rows evenly, so a range that ends inside the bin is wrong by the deviation

    D_t = A_t - C X_t

after its first t cells, where A_t is the number of rows in these cells, X_t their share of the bin's width, and C the
rows of the whole bin. The bins minimise the sum over bins of E[D_t^2], less the part due to noise, plus a prior
guess (PRIOR_DEVIATION C)^2, which makes bins of similar size where noise hides the shape. Half of the ends of ranges
are where the rows are, half are spread over the width. Edges of few digits are preferred where they cost little.

The number of bins B = (rows / stddev of a count)^(2/5) balances the deviation of a smooth density, which falls as
1/B^2, against noise, which grows as sqrt(B).

Everything here is computed from noisy counts: it is post-processing and costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hush.core.arrays import Floats
from hush.discovery.found_range import BETA, NoisyLevels

LEAST_BINS, MOST_AUTO_BINS = 2, 64
PRIOR_DEVIATION = 0.1  # of a bin's rows, where the histogram does not show the deviation
DIGIT_COST = 0.05  # of the cost of an average bin, for each digit of an edge after the first
POINT_SHARE = 0.5  # of the rows of an average bin, from which a single value gets a level of its own
POINT_CONTRAST = 3.0  # times the rows of its neighbours, value for value
CELLS_PER_BIN = 8  # of the noisy histogram
LEAST_CELLS, MOST_CELLS = 32, 512


@dataclass(frozen=True, slots=True)
class Cell:
    """One level of the noisy histogram: where it begins and ends, twice the same number for a point."""

    start: Fraction
    end: Fraction
    rows: float

    @property
    def is_point(self) -> bool:
        return self.start == self.end


def bins_for(rows: float, stddev: float) -> int:
    """The number of bins for so many rows at this noise.

    >>> [bins_for(rows, 100.0) for rows in (1_000, 100_000, 10_000_000)]
    [3, 16, 64]
    """
    ratio = max(rows, 0.0) / stddev
    return int(np.clip(round(ratio**0.4), LEAST_BINS, MOST_AUTO_BINS))


def cells_for(rows: float, stddev: float, most_bins: int | None) -> int:
    """The number of cells of the histogram that bins are found from."""
    bins = bins_for(rows, stddev) if most_bins is None else most_bins
    return int(np.clip(CELLS_PER_BIN * bins, LEAST_CELLS, MOST_CELLS))


def heavy_points(cells: Sequence[Cell], noisy: NoisyLevels, bins: int, *, whole: bool) -> list[Fraction]:
    """The points that hold so many rows, by themselves and next to their neighbours, that they get their own level.

    A point of a column of integers is compared with the integers of the cell after it.
    """
    least = max(noisy.noise_bound(1, BETA / max(1, len(cells))), POINT_SHARE * noisy.total / bins)
    chosen = []
    for at, cell in enumerate(cells):
        if not cell.is_point or cell.rows < least:
            continue
        after = cells[at + 1] if at + 1 < len(cells) else None
        if whole and after is not None:
            others = max(float(after.end - after.start), 1.0)
            if cell.rows < POINT_CONTRAST * max(after.rows, 0.0) / others:
                continue
        chosen.append((cell.rows, cell.start))
    return sorted(point for _, point in sorted(chosen, reverse=True)[:bins])


def joined_cells(cells: Sequence[Cell], points: Sequence[Fraction]) -> tuple[list[Cell], Floats]:
    """The cells between points, and how many noisy counts each adds up; points without a level join the next cell."""
    intervals: list[Cell] = []
    added: list[float] = []
    waiting: list[Cell] = []
    for cell in cells:
        if not cell.is_point:
            start = waiting[0].start if waiting else cell.start
            intervals.append(Cell(start, cell.end, cell.rows + sum(point.rows for point in waiting)))
            added.append(1.0 + len(waiting))
        waiting = [cell] if cell.is_point and cell.start not in points else []
    if waiting and intervals:  # a point at the upper end
        last = intervals[-1]
        intervals[-1] = Cell(last.start, last.end, last.rows + waiting[0].rows)
        added[-1] += 1
    return intervals, np.array(added)


def bin_edges(cells: Sequence[Cell], variances: Floats, bins: int) -> list[Fraction]:
    """Edges of at most `bins` bins, each a run of cells, of least cost; see the module."""
    n = len(cells)
    edges = [cell.start for cell in cells] + [cells[-1].end]
    if n <= bins:
        return edges
    cost = _run_costs(
        np.array([cell.rows for cell in cells]),
        np.array([float(cell.end - cell.start) for cell in cells]),
        variances,
    )
    total = max(sum(cell.rows for cell in cells), 1.0)
    average = PRIOR_DEVIATION**2 * total**2 / bins**3  # of a bin, if all are alike
    digits = np.array([0.0] + [DIGIT_COST * average * (significant_digits(edge) - 1) for edge in edges[1:-1]] + [0.0])
    # best[j] is the least cost of so many bins up to edge j; each bin is charged for its upper edge, and a price at
    # which `bins` of them are the optimum for a smooth density. A histogram of few spikes needs fewer.
    price = 2 * average
    best, came, totals = cost[0] + digits + price, [], []
    for _ in range(bins - 1):
        totals.append(best[n])
        paths = best[:, None] + cost + digits[None, :] + price
        came.append(np.argmin(paths, axis=0))
        best = np.take_along_axis(paths, came[-1][None, :], axis=0)[0]
    totals.append(best[n])
    cut, chosen = n, [n]
    for before in reversed(came[: int(np.argmin(totals))]):
        cut = int(before[cut])
        chosen.append(cut)
    return [edges[cut] for cut in sorted({0, *chosen})]


def _run_costs(rows: Floats, widths: Floats, variances: Floats) -> Floats:
    """The cost of every run of cells i .. j-1 as a bin, shape (n + 1, n + 1), infinite unless i < j.

    The sums over the cells t of a run are differences of prefix sums, since D_t^2 and its variance are polynomials in
    prefix sums of rows, widths and variances.
    """
    n = len(rows)
    held = np.maximum(rows, 0.0)
    weight = held / max(held.sum(), 1e-9) / 2 + widths / widths.sum() / 2
    scale = max(np.abs(rows).sum(), 1.0)
    a, x = np.cumsum(rows) / scale, np.cumsum(widths) / widths.sum()
    v = np.cumsum(variances) / scale**2

    def prefix(values: Floats) -> Floats:
        return np.concatenate([[0.0], np.cumsum(weight * values)])

    def over(values: Floats) -> Floats:
        sums = prefix(values)
        return sums[None, :] - sums[:, None]

    one, a1, x1, v1 = over(np.ones(n)), over(a), over(x), over(v)
    a2, x2, ax, vx = over(a * a), over(x * x), over(a * x), over(v * x)
    a0, x0, v0 = (np.concatenate([[0.0], values]) for values in (a, x, v))
    ai, xi, vi = a0[:, None], x0[:, None], v0[:, None]
    count, width, noise = a0[None, :] - ai, x0[None, :] - xi, v0[None, :] - vi
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        r = count / width
        # D_t = (A_t - A_i) - r (X_t - X_i)
        spread = x2 - 2 * xi * x1 + xi**2 * one  # sum of weight (X_t - X_i)^2
        square = a2 - 2 * ai * a1 + ai**2 * one - 2 * r * (ax - ai * x1 - xi * a1 + ai * xi * one) + r**2 * spread
        # Var D_t = (1 - 2 f) V_t + f^2 V, with f = (X_t - X_i) / (X_j - X_i)
        vt = v1 - vi * one
        vf = (vx - xi * v1 - vi * x1 + vi * xi * one) / width
        chance = vt - 2 * vf + spread / width**2 * noise
        cost = np.maximum(square - chance, 0.0) + one * (PRIOR_DEVIATION * count) ** 2
    cost[~np.triu(np.ones((n + 1, n + 1), dtype=bool), 1)] = np.inf
    return np.asarray(cost * scale**2)


def significant_digits(number: Fraction) -> int:
    """How many digits a number has between its first and its last one that is not zero.

    >>> [significant_digits(Fraction(number)) for number in ("35000", "0.25", "0", "1024")]
    [2, 2, 1, 4]
    """
    text = f"{float(abs(number)):.15g}"
    digits = text.split("e")[0].replace(".", "").strip("0")
    return max(1, len(digits))
