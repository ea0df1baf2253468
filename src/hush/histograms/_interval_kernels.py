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
    half = length // 2
    for position in range(n):
        # Slide the window: the cell at its end joins the tree, the cell before its start leaves.
        for change in range(2):
            cell = position if change == 0 else position - length
            if cell < 0:
                continue
            sign = 1 if change == 0 else -1
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
        # D about the mean is 2 (sum of cells above the mean - their number times the mean); the mean's fraction
        # total / length - floor(mean) comes in exactly, and floor is taken at the end.
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
        # D about the median is the sum of the upper half less that of the lower half: with an odd number of cells the
        # middle one is in neither, so `least` adds the smallest floor(l/2) and the smallest ceil(l/2) cells.
        else:
            least = 0
            for part in range(2):
                left = half if part == 0 else length - half
                node, step = 0, top
                while step > 0:
                    if node + step <= n and counts[node + step] <= left:
                        node += step
                        left -= counts[node]
                        least += sums[node]
                    step //= 2
            out[start] = grid * (total - least)
