"""Compiled loops of row generation: group rows by separator cell, then give each row of a group a cell of the rest.

One uniform per row is drawn beforehand, so that the loops are deterministic functions of arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.core.compiled import njit

EVERY_ROW_DRAWN = -1  # instead of a separator cell: all rows have a cell


@njit(cache=True, nogil=True)
def group_rows(
    keys: Any,  # (rows,) int32 or int64: the separator cell of each row
    starts: Any,  # (cells + 1,) int64, zero: out, where the rows of each cell begin in `order`
    order: Any,  # (rows,) int32 or int64: out, row numbers by cell, ascending within a cell
) -> None:
    """Counting sort: the rows of separator cell s are order[starts[s] : starts[s + 1]]. O(rows + cells)."""
    cells = len(starts) - 1
    for row in range(len(keys)):
        starts[keys[row]] += 1
    here = 0
    for s in range(cells + 1):
        count = starts[s]
        starts[s] = here
        here += count
    for row in range(len(keys)):
        s = keys[row]
        order[starts[s]] = row
        starts[s] += 1
    for s in range(cells, 0, -1):
        starts[s] = starts[s - 1]
    starts[0] = 0


@njit(cache=True, nogil=True)
def round_cells(
    table: Any,  # (separator cells, rest cells) float64, >= 0
    starts: Any,  # (separator cells + 1,) int64
    order: Any,  # (rows,) int32 or int64
    uniforms: Any,  # (rows,) float64 in [0, 1), by place in `order`
    group: Any,  # (rows,) like `picked`: work space
    picked: Any,  # (rows,) int32 or int64: out, the rest cell of each row
) -> int:
    """Randomised rounding of every group, by the formula of `draw_rows`. O(rows + cells of groups with rows).

    The running sum and the total are added up in the same order, so that their quotient never decreases and ends at
    exactly 1: every group is filled exactly, and a cell of probability zero gets no row.

    Returns EVERY_ROW_DRAWN, or the first separator cell that has rows but no total within (0, inf).
    """
    cells, width = table.shape
    for s in range(cells):
        first, g = starts[s], starts[s + 1] - starts[s]
        if g == 0:
            continue
        total = 0.0
        for c in range(width):
            total += table[s, c]
        if not 0.0 < total < np.inf:
            return s
        # Fill the group's rows in the order of cells, up to floor(E_c + v) for every cell c.
        start = uniforms[first]
        reached = 0.0
        filled = 0
        for c in range(width):
            reached += table[s, c]
            upto = min(np.int64(g * (reached / total) + start), g)
            while filled < upto:
                group[first + filled] = c
                filled += 1
        # Shuffle them (Fisher-Yates), and give them to the rows.
        for i in range(g - 1, 0, -1):
            j = np.int64(uniforms[first + i] * (i + 1))
            held = group[first + i]
            group[first + i] = group[first + j]
            group[first + j] = held
        for i in range(first, first + g):
            picked[order[i]] = group[i]
    return EVERY_ROW_DRAWN


@njit(cache=True, nogil=True)
def sample_cells(
    table: Any,  # (separator cells, rest cells) float64, >= 0
    starts: Any,  # (separator cells + 1,) int64
    order: Any,  # (rows,) int32 or int64
    uniforms: Any,  # (rows,) float64 in [0, 1), by place in `order`
    reached: Any,  # (rest cells,) float64: work space
    guide: Any,  # (rest cells or rows, the fewer) like `picked`: work space
    picked: Any,  # (rows,) int32 or int64: out, the rest cell of each row
) -> int:
    """Independent rows: the first cell whose cumulative probability exceeds the row's uniform.

    The search starts at a guide: the cell for the lower end b / m of the uniform's bucket b, with m at most the rows of
    the group. Expected O(rows + cells of groups with rows). Returns the same as `round_cells`.
    """
    cells, width = table.shape
    for s in range(cells):
        first, last = starts[s], starts[s + 1]
        if first == last:
            continue
        total = 0.0
        for c in range(width):
            total += table[s, c]
            reached[c] = total
        if not 0.0 < total < np.inf:
            return s
        m = min(last - first, width)
        b = 0
        for c in range(width):
            reached[c] /= total
            while b < m and reached[c] * m > b:
                guide[b] = c
                b += 1
        for i in range(first, last):
            c = guide[np.int64(uniforms[i] * m)]
            while reached[c] <= uniforms[i]:
                c += 1
            picked[order[i]] = c
    return EVERY_ROW_DRAWN
