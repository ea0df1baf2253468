"""Compiled loops over relaxed rows: tables and single answers, their gradients, and steps on the simplex.

`z` holds one row of numbers for each relaxed row, with the numbers of a column side by side. A table is given by its
axes, each a run of columns of `z`; its cell is a product over the axes, averaged over the rows. Cells that a row does
not reach with a share of `NEGLIGIBLE` are left out of its sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.compiled import njit

NEGLIGIBLE = 1e-12


@njit(nogil=True, cache=True, fastmath=True)
def _outer(
    z: Any, row: Any, weight: Any, axis_starts: Any, axis_sizes: Any, first: Any, last: Any, levels: Any
) -> tuple[int, int]:
    """weight * the products over axes first .. last - 1, after those over fewer axes, one after the other."""
    levels[0] = weight
    begin, length = 0, 1
    for axis in range(first, last):
        start, size = axis_starts[axis], axis_sizes[axis]
        after = begin + length
        for i in range(length):
            w = levels[begin + i]
            for j in range(size):
                levels[after + i * size + j] = w * z[row, start + j]
        begin, length = after, length * size
    return begin, length


@njit(nogil=True, cache=True, fastmath=True)
def predict_tables(
    z: Any, weights: Any, firsts: Any, axis_starts: Any, axis_sizes: Any, cell_starts: Any, levels: Any, predicted: Any
) -> None:
    """predicted[cell] = sum over rows of weight * product over axes, for the cells of all tables."""
    predicted[:] = 0.0
    for table in range(len(firsts) - 1):
        first, last = firsts[table], firsts[table + 1] - 1
        start, size = axis_starts[last], axis_sizes[last]
        for row in range(len(z)):
            begin, length = _outer(z, row, weights[row], axis_starts, axis_sizes, first, last, levels)
            least = NEGLIGIBLE * weights[row]
            for p in range(length):
                w = levels[begin + p]
                if w > least:
                    cell = cell_starts[table] + p * size
                    for c in range(size):
                        predicted[cell + c] += w * z[row, start + c]


@njit(nogil=True, cache=True, fastmath=True)
def pull_tables(
    z: Any,
    weights: Any,
    firsts: Any,
    axis_starts: Any,
    axis_sizes: Any,
    cell_starts: Any,
    levels: Any,
    folded: Any,
    slope: Any,
    gradient: Any,
) -> None:
    """Add to `gradient` what the slopes of all cells mean for `z`."""
    for table in range(len(firsts) - 1):
        first, last = firsts[table], firsts[table + 1] - 1
        start, size = axis_starts[last], axis_sizes[last]
        for row in range(len(z)):
            begin, length = _outer(z, row, weights[row], axis_starts, axis_sizes, first, last, levels)
            least = NEGLIGIBLE * weights[row]
            for p in range(length):
                w = levels[begin + p]
                total = 0.0
                if w > least:
                    cell = cell_starts[table] + p * size
                    for c in range(size):
                        total += slope[cell + c] * z[row, start + c]
                        gradient[row, start + c] += w * slope[cell + c]
                folded[p] = total
            for axis in range(last - 1, first - 1, -1):
                width, offset = axis_sizes[axis], axis_starts[axis]
                length //= width
                begin -= length
                for i in range(length):
                    w, total = levels[begin + i], 0.0
                    for j in range(width):
                        s = folded[i * width + j]
                        gradient[row, offset + j] += w * s
                        total += s * z[row, offset + j]
                    folded[i] = total


@njit(nogil=True, cache=True, fastmath=True)
def _tail(x: Any, size: Any, at_least: Any, left_out: Any, exactly: Any, tally: Any) -> float:
    """P(at least so many of independent events happen), or exactly so many, without the event `left_out`."""
    tally[:] = 0.0
    tally[0] = 1.0
    seen = 0
    for i in range(size):
        if i == left_out:
            continue
        seen += 1
        for j in range(min(seen, at_least), 0, -1):
            stay = tally[j] if j == at_least and not exactly else tally[j] * (1.0 - x[i])
            tally[j] = stay + tally[j - 1] * x[i]
        tally[0] *= 1.0 - x[i]
    share: float = tally[at_least]
    return share


@njit(nogil=True, cache=True, fastmath=True)
def predict_targets(
    z: Any, weights: Any, columns: Any, sizes: Any, at_least: Any, x: Any, tally: Any, predicted: Any
) -> None:
    """predicted[q] = sum over rows of weight * P(at least r of the columns of q happen)."""
    predicted[:] = 0.0
    for row in range(len(z)):
        for q in range(len(sizes)):
            for i in range(sizes[q]):
                x[i] = z[row, columns[q, i]]
            predicted[q] += weights[row] * _tail(x, sizes[q], at_least[q], -1, False, tally)


@njit(nogil=True, cache=True, fastmath=True)
def pull_targets(
    z: Any, weights: Any, columns: Any, sizes: Any, at_least: Any, x: Any, tally: Any, slope: Any, gradient: Any
) -> None:
    """Add to `gradient`: the derivative by a column is P(exactly r - 1 of the other columns happen)."""
    for row in range(len(z)):
        for q in range(len(sizes)):
            for i in range(sizes[q]):
                x[i] = z[row, columns[q, i]]
            w = weights[row] * slope[q]
            for i in range(sizes[q]):
                gradient[row, columns[q, i]] += w * _tail(x, sizes[q], at_least[q] - 1, i, True, tally)


@njit(nogil=True, cache=True, fastmath=True)
def softmax(logits: Any, offsets: Any, rows: Any) -> None:
    """rows = exp(logits) over their sum, block by block."""
    for row in range(len(logits)):
        for block in range(len(offsets) - 1):
            start, stop = offsets[block], offsets[block + 1]
            top = logits[row, start]
            for c in range(start + 1, stop):
                top = max(top, logits[row, c])
            total = 0.0
            for c in range(start, stop):
                rows[row, c] = np.exp(logits[row, c] - top)
                total += rows[row, c]
            for c in range(start, stop):
                rows[row, c] /= total


@njit(nogil=True, cache=True, fastmath=True)
def adam_step(
    logits: Any,
    rows: Any,
    gradient: Any,
    offsets: Any,
    mean: Any,
    square: Any,
    rate: Any,
    first: Any,
    second: Any,
    number: Any,
) -> None:
    """One step of Adam on the logits, given the gradient by the rows of probabilities."""
    fresh, fresh_square = 1.0 - first**number, 1.0 - second**number
    for row in range(len(logits)):
        for block in range(len(offsets) - 1):
            start, stop = offsets[block], offsets[block + 1]
            inner = 0.0
            for c in range(start, stop):
                inner += rows[row, c] * gradient[row, c]
            for c in range(start, stop):
                g = rows[row, c] * (gradient[row, c] - inner)
                mean[row, c] = first * mean[row, c] + (1.0 - first) * g
                square[row, c] = second * square[row, c] + (1.0 - second) * g * g
                logits[row, c] -= rate * (mean[row, c] / fresh) / (np.sqrt(square[row, c] / fresh_square) + 1e-30)
