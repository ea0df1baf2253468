"""Compiled loops over relaxed rows: tables and single answers, their gradients, and steps on the simplex.

`z` has a line for each level of each column, with one number for every relaxed row, so that the innermost loops run
over rows. A table is given by its axes, each a run of lines of `z`; its cell is a product over the axes, averaged over
the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.core.compiled import njit


@njit(nogil=True, cache=True, fastmath=True)
def _counted_up(digits: Any, sizes: Any) -> int:
    """The next number in mixed radix; the first digit that has changed, -1 after the last number."""
    place = len(digits) - 1
    while place >= 0:
        digits[place] += 1
        if digits[place] < sizes[place]:
            return place
        digits[place] = 0
        place -= 1
    return place


@njit(nogil=True, cache=True, fastmath=True)
def _multiply(z: Any, starts: Any, digits: Any, changed: Any, products: Any, whole: Any) -> None:
    """products[i + 1] = products[i] * the line of axis i, from the first axis that has changed; `whole` is the last."""
    last = len(digits) - 1
    for axis in range(changed, last + 1):
        line, before = z[starts[axis] + digits[axis]], products[axis]
        after = whole if axis == last else products[axis + 1]
        for row in range(len(line)):
            after[row] = before[row] * line[row]


@njit(nogil=True, cache=True, fastmath=True)
def predict_table(z: Any, weights: Any, starts: Any, sizes: Any, products: Any, held: Any, predicted: Any) -> None:
    """predicted[cell] = sum over rows of weight * product over axes.

    Products over all axes but the last are held some at a time, and a product of matrices adds up their rows.
    """
    last = len(starts) - 1
    digits = np.zeros(last, dtype=np.int64)
    products[0], held[0] = weights, weights
    lines = z[starts[last] : starts[last] + sizes[last]]
    table = predicted.reshape(-1, sizes[last])
    changed, start = 0, 0
    while changed >= 0:
        count = 0
        while changed >= 0 and count < len(held):
            _multiply(z, starts, digits, changed, products, held[count])
            count += 1
            changed = _counted_up(digits, sizes[:last])
        np.dot(held[:count], lines.T, table[start : start + count])
        start += count


@njit(nogil=True, cache=True, fastmath=True)
def pull_table(
    z: Any, weights: Any, starts: Any, sizes: Any, products: Any, folded: Any, held: Any, slope: Any, gradient: Any
) -> None:
    """Add to `gradient` what the slopes of all cells mean for `z`.

    folded[i] is the sum over the levels of the axes from i on, in each row, of slope * product over those axes.
    """
    last = len(starts) - 1
    digits = np.zeros(last, dtype=np.int64)
    products[0], folded[:], held[0] = weights, 0.0, weights
    lines = z[starts[last] : starts[last] + sizes[last]]
    by_last = gradient[starts[last] : starts[last] + sizes[last]]
    slopes = slope.reshape(-1, sizes[last])
    changed, start = 0, 0
    while changed >= 0:
        count = 0
        inner = np.dot(slopes[start : start + len(held)], lines)
        while changed >= 0 and count < len(held):
            _multiply(z, starts, digits, changed, products, held[count])
            before = digits.copy()
            changed = _counted_up(digits, sizes[:last])
            for axis in range(last - 1, max(changed, 0) - 1, -1):
                level = starts[axis] + before[axis]
                line, by, outer, product = z[level], gradient[level], folded[axis], products[axis]
                deeper = inner[count] if axis == last - 1 else folded[axis + 1]
                for row in range(len(weights)):
                    by[row] += product[row] * deeper[row]
                    outer[row] += deeper[row] * line[row]
                if axis < last - 1:
                    deeper[:] = 0.0
            count += 1
        by_last += np.dot(slopes[start : start + count].T, held[:count])
        start += count


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
    for q in range(len(sizes)):
        for row in range(len(weights)):
            for i in range(sizes[q]):
                x[i] = z[columns[q, i], row]
            predicted[q] += weights[row] * _tail(x, sizes[q], at_least[q], -1, False, tally)


@njit(nogil=True, cache=True, fastmath=True)
def pull_targets(
    z: Any, weights: Any, columns: Any, sizes: Any, at_least: Any, x: Any, tally: Any, slope: Any, gradient: Any
) -> None:
    """Add to `gradient`: the derivative by a column is P(exactly r - 1 of the other columns happen)."""
    for q in range(len(sizes)):
        for row in range(len(weights)):
            for i in range(sizes[q]):
                x[i] = z[columns[q, i], row]
            w = weights[row] * slope[q]
            for i in range(sizes[q]):
                gradient[columns[q, i], row] += w * _tail(x, sizes[q], at_least[q] - 1, i, True, tally)


@njit(nogil=True, cache=True, fastmath=True)
def normalise(levels: Any, offsets: Any, sums: Any) -> None:
    """Divide the numbers of each block by their sum, in every row."""
    for block in range(len(offsets) - 1):
        sums[:] = 0.0
        for level in range(offsets[block], offsets[block + 1]):
            for row in range(len(sums)):
                sums[row] += levels[level, row]
        for level in range(offsets[block], offsets[block + 1]):
            for row in range(len(sums)):
                levels[level, row] /= sums[row]


@njit(nogil=True, cache=True, fastmath=True)
def adam_step(
    logits: Any,
    levels: Any,
    gradient: Any,
    offsets: Any,
    sums: Any,
    mean: Any,
    square: Any,
    rate: Any,
    first: Any,
    second: Any,
    number: Any,
) -> None:
    """One step of Adam on the logits, given the gradient by the probabilities."""
    fresh, fresh_square = 1.0 - first**number, 1.0 - second**number
    for block in range(len(offsets) - 1):
        sums[:] = 0.0
        for level in range(offsets[block], offsets[block + 1]):
            for row in range(len(sums)):
                sums[row] += levels[level, row] * gradient[level, row]
        for level in range(offsets[block], offsets[block + 1]):
            for row in range(len(sums)):
                g = levels[level, row] * (gradient[level, row] - sums[row])
                mean[level, row] = first * mean[level, row] + (1.0 - first) * g
                square[level, row] = second * square[level, row] + (1.0 - second) * g * g
                step = (mean[level, row] / fresh) / (np.sqrt(square[level, row] / fresh_square) + 1e-30)
                logits[level, row] -= rate * step


@njit(nogil=True, cache=True)
def project_blocks(levels: Any, offsets: Any) -> None:
    """Project each block of each row onto the simplex, in place: max(x + c, 0) with entries that add up to one."""
    for block in range(len(offsets) - 1):
        first, stop = offsets[block], offsets[block + 1]
        for row in range(levels.shape[1]):
            ordered = np.sort(levels[first:stop, row])[::-1]
            before, lift = 0.0, 0.0
            for k in range(stop - first):
                before += ordered[k]
                trial = (1.0 - before) / (k + 1)
                if ordered[k] + trial > 0.0:
                    lift = trial
            for level in range(first, stop):
                levels[level, row] = max(levels[level, row] + lift, 0.0)
