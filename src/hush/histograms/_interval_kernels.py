"""The inner loop of deviations of intervals, compiled; tests hold the plain twin."""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.core.compiled import njit


@njit(cache=True, nogil=True)
def sliding_deviations(
    cells: Any,  # (n,) int64
    ranks: Any,  # (n,) int64, a permutation: the place of each cell among all, sorted
    ordered: Any,  # (n,) int64, cells sorted
    length: int,
    about_mean: bool,
    grid: int,
    out: Any,  # (n - length + 1,) int64
) -> None:
    """floor(grid D) of every window of `length` cells, D the sum of distances from their median or mean.

    The cells of the window are in a Fenwick tree by rank, which holds their number and sum: O(log n) per step.
    """
    n = cells.size
    counts, sums = np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
    top = 1
    while 2 * top <= n:
        top *= 2
    total = 0
    for position in range(n):
        # Slide the window: the cell at its end joins the tree, the cell before its start leaves.
        for cell, sign in ((position, 1), (position - length, -1)):
            if cell < 0:
                continue
            value = sign * cells[cell]
            total += value
            node = ranks[cell] + 1
            while node <= n:
                counts[node] += sign
                sums[node] += value
                node += node & -node
        start = position - length + 1
        if start < 0:
            continue
        # D about the mean is 2 (sum of cells above the mean - their number times the mean). `mean` is rounded down; the
        # rest, total - mean * length, comes in exactly, and the floor is taken at the end.
        if about_mean:
            mean = total // length
            node = np.searchsorted(ordered, mean, side="right")
            above, upper = length, total
            while node > 0:
                above -= counts[node]
                upper -= sums[node]
                node -= node & -node
            rest = 2 * grid * above * (total - mean * length)
            out[start] = 2 * grid * (upper - above * mean) + (-rest) // length
        # D about the median is the sum of the upper half minus that of the lower half. With an odd number of cells the
        # middle one is in neither, so `least` adds the smallest floor(l/2) and the smallest ceil(l/2) cells.
        else:
            least = 0
            for left in (length // 2, length - length // 2):
                node, step = 0, top
                while step > 0:
                    if node + step <= n and counts[node + step] <= left:
                        node += step
                        left -= counts[node]
                        least += sums[node]
                    step //= 2
            out[start] = grid * (total - least)
