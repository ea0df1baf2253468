"""Compiled loops: marginals from residual answers, and the nearest tables that agree with one another.

Both write a table of k axes as an extended tensor with one more level, 0, per axis. For residual answers level 0 means
"attribute absent". For tables that must agree it means "summed out": level j >= 1 of an axis is x_j - x_0 / n with
x_0 = sum_j x_j. The levels >= 1 on the axes of A, and 0 elsewhere, are then the centred margin over A, and tables agree
if and only if their centred margins do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.compiled import njit


@njit(cache=True, nogil=True)
def expand_plain(
    flat: Any,  # (measured,) int64: residual answers of all sets, one after the other
    starts: Any,  # (n, 2^k) int64: where the answers of each subset begin
    sizes: Any,  # (n, k) int64
    out: Any,  # (cells,) float64
    out_starts: Any,  # (n,) int64
) -> None:
    """Reconstruct n marginals of k plain attributes each; marginal i is written to `out` from `out_starts[i]`.

    Subset A' fills the levels >= 1 on its own axes and 0 on the others of an extended tensor, divided by L_{A'}. Then
    every axis in turn loses its extra level: out_j = t_j + (t_0 - sum_{j >= 1} t_j) / l. O(k cells) per marginal.
    """
    # Work space for the largest extended tensor.
    n, k = sizes.shape
    largest = 1
    for item in range(n):
        extended = 1
        for axis in range(k):
            extended *= sizes[item, axis] + 1
        largest = max(largest, extended)
    here = np.empty(largest)
    there = np.empty(largest)
    shift = np.empty(largest)
    strides = np.empty(k + 1, dtype=np.int64)
    index = np.empty(k + 1, dtype=np.int64)
    for item in range(n):
        if k == 0:
            out[out_starts[item]] = flat[starts[item, 0]]
            continue
        strides[k - 1] = 1
        for axis in range(k - 2, -1, -1):
            strides[axis] = strides[axis + 1] * (sizes[item, axis + 1] + 1)
        for mask in range(1 << k):
            _place_answers(flat, starts[item, mask], mask, sizes[item], strides, index, here)
        outer = 1
        for axis in range(k - 1):
            _drop_level(here, there, shift, outer, sizes[item, axis], strides[axis])
            here, there = there, here
            outer *= sizes[item, axis]
        _drop_last_level(here, out[out_starts[item] :], outer, sizes[item, k - 1])


@njit(cache=True, nogil=True)
def _place_answers(flat: Any, source: int, mask: int, sizes: Any, strides: Any, index: Any, extended: Any) -> None:
    """Write the answers of one subset, from `source` on, to its levels of the extended tensor, divided by L."""
    k = len(sizes)
    # The first cell of the subset, and its runs along the last axis.
    scale = 1.0
    base = 0
    runs = 1
    for axis in range(k):
        index[axis] = 0
        if mask >> axis & 1:
            scale /= sizes[axis]
            base += strides[axis]
            if axis < k - 1:
                runs *= sizes[axis]
    run = sizes[k - 1] if mask >> (k - 1) & 1 else 1
    # Copy run by run; `index` counts the levels of the subset's other axes like an odometer.
    for _ in range(runs):
        target = base
        for axis in range(k - 1):
            target += index[axis] * strides[axis]
        for j in range(run):
            extended[target + j] = flat[source + j] * scale
        source += run
        for axis in range(k - 2, -1, -1):
            if mask >> axis & 1:
                index[axis] += 1
                if index[axis] < sizes[axis]:
                    break
                index[axis] = 0


@njit(cache=True, nogil=True)
def _drop_level(source: Any, target: Any, shift: Any, outer: int, size: int, inner: int) -> None:
    """Remove the extra level of one axis: (outer, size + 1, inner) to (outer, size, inner)."""
    for o in range(outer):
        first = o * (size + 1) * inner
        shift[:inner] = source[first : first + inner]
        for j in range(1, size + 1):
            level = source[first + j * inner : first + (j + 1) * inner]
            for i in range(inner):
                shift[i] -= level[i]
        for i in range(inner):
            shift[i] /= size
        for j in range(size):
            level = source[first + (j + 1) * inner : first + (j + 2) * inner]
            restored = target[(o * size + j) * inner : (o * size + j + 1) * inner]
            for i in range(inner):
                restored[i] = level[i] + shift[i]


@njit(cache=True, nogil=True)
def _drop_last_level(source: Any, target: Any, outer: int, size: int) -> None:
    """Remove the extra level of the last axis: (outer, size + 1) to (outer, size)."""
    for o in range(outer):
        levels = source[o * (size + 1) : (o + 1) * (size + 1)]
        restored = target[o * size : (o + 1) * size]
        total = 0.0
        for j in range(1, size + 1):
            total += levels[j]
        shift = (levels[0] - total) / size
        for j in range(size):
            restored[j] = levels[j + 1] + shift


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _extend(table: Floats, sizes: Integers, here: Floats, there: Floats) -> bool:
    """Write the extended tensor of a table into `here`, or into `there` if False is returned."""
    here[: table.size] = table
    outer, inner, first = table.size, 1, True
    for axis in range(sizes.size - 1, -1, -1):
        n = sizes[axis]
        outer //= n
        for o in range(outer):
            source = here[o * n * inner : (o + 1) * n * inner]
            target = there[o * (n + 1) * inner : (o + 1) * (n + 1) * inner]
            sums = target[:inner]
            sums[:] = 0.0
            for j in range(n):
                level = source[j * inner : (j + 1) * inner]
                for i in range(inner):
                    sums[i] += level[i]
            scale = 1.0 / n
            for j in range(n):
                level = source[j * inner : (j + 1) * inner]
                centred = target[(j + 1) * inner : (j + 2) * inner]
                for i in range(inner):
                    centred[i] = level[i] - scale * sums[i]
        inner *= n + 1
        here, there = there, here
        first = not first
    return first


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _restore(table: Floats, sizes: Integers, here: Floats, there: Floats) -> None:
    """Write the table of the extended tensor in `here`: x_j = level j + level 0 / n, along every axis."""
    inner, outer = 1, 1
    for axis in range(sizes.size):
        inner *= sizes[axis] + 1
    for axis in range(sizes.size):
        n = sizes[axis]
        inner //= n + 1
        scale = 1.0 / n
        for o in range(outer):
            source = here[o * (n + 1) * inner : (o + 1) * (n + 1) * inner]
            target = there[o * n * inner : (o + 1) * n * inner]
            for j in range(n):
                level = source[(j + 1) * inner : (j + 2) * inner]
                restored = target[j * inner : (j + 1) * inner]
                for i in range(inner):
                    restored[i] = level[i] + scale * source[i]
        outer *= n
        here, there = there, here
    table[:] = here[: table.size]


@njit(nogil=True, cache=True)
def _visit(extended: Floats, sizes: Integers, mask: int, cells: Floats, share: float, write: bool) -> None:
    """Add `share` times a centred margin to `cells`, or overwrite it by `cells`; bit i of the mask is axis i."""
    k = sizes.size
    strides = np.empty(k, dtype=np.int64)
    count = np.zeros(k, dtype=np.int64)
    stride, start, last = 1, 0, -1
    for axis in range(k - 1, -1, -1):
        strides[axis] = stride
        stride *= sizes[axis] + 1
        if mask >> axis & 1:
            start += strides[axis]
            last = max(last, axis)
    run = sizes[last] if last >= 0 else 1
    step = strides[last] if last >= 0 else 1
    at = 0
    while True:
        for j in range(run):
            if write:
                extended[start + j * step] = cells[at + j]
            else:
                cells[at + j] += share * extended[start + j * step]
        at += run
        axis = last - 1
        while axis >= 0:
            if mask >> axis & 1:
                count[axis] += 1
                start += strides[axis]
                if count[axis] < sizes[axis]:
                    break
                start -= strides[axis] * sizes[axis]
                count[axis] = 0
            axis -= 1
        if axis < 0:
            return


@njit(nogil=True, cache=True)
def agree(
    flat: Floats,  # (cells,): tables one after the other; overwritten by the nearest ones that agree
    offsets: Integers,  # (n + 1,)
    axes: Integers,  # (n + 1,): the start of each table's sizes in `sizes`
    sizes: Integers,
    first: Integers,  # (n + 1,): the start of each table's margins in `masks`, `mean_starts` and `shares`
    masks: Integers,  # of the centred margins that other tables have too, and of the total
    mean_starts: Integers,  # the start of each margin's mean in `means`
    shares: Floats,  # the table's weight in that mean; those of a margin add up to one
    means: Floats,
    total: float,
    scratch: Floats,  # (2, largest extended tensor)
) -> None:
    """Replace every shared margin by its weighted mean over the tables, and the sum of all cells by the total."""
    n = offsets.size - 1
    means[:] = 0.0
    for item in range(n):
        shape = sizes[axes[item] : axes[item + 1]]
        straight = _extend(flat[offsets[item] : offsets[item + 1]], shape, scratch[0], scratch[1])
        extended = scratch[0] if straight else scratch[1]
        for p in range(first[item], first[item + 1]):
            _visit(extended, shape, masks[p], means[mean_starts[p] :], shares[p], False)
    means[0] = total
    for item in range(n):
        shape = sizes[axes[item] : axes[item + 1]]
        table = flat[offsets[item] : offsets[item + 1]]
        straight = _extend(table, shape, scratch[0], scratch[1])
        extended = scratch[0] if straight else scratch[1]
        for p in range(first[item], first[item + 1]):
            _visit(extended, shape, masks[p], means[mean_starts[p] :], 1.0, True)
        _restore(table, shape, extended, scratch[1] if straight else scratch[0])


@njit(nogil=True, cache=True)
def step_up(
    ahead: Floats, point: Floats, multipliers: Floats, blocked: Any, offsets: Integers, weights: Floats
) -> float:
    """Write the new multipliers max(ahead - point, 0) into `point`, without the max for blocked cells.

    Returns the weighted product of (ahead - new) and (new - multipliers); if positive, momentum overshoots.
    """
    overshoot = 0.0
    for item in range(offsets.size - 1):
        product = 0.0
        for i in range(offsets[item], offsets[item + 1]):
            new = ahead[i] - point[i]
            if new < 0.0 and not (blocked.size and blocked[i]):
                new = 0.0
            product += (ahead[i] - new) * (new - multipliers[i])
            point[i] = new
        overshoot += weights[item] * product
    return overshoot


@njit(nogil=True, cache=True)
def extrapolate(ahead: Floats, new: Floats, multipliers: Floats, blocked: Any, momentum: float) -> None:
    """ahead = new + momentum (new - multipliers), not below zero unless blocked; then multipliers = new."""
    for i in range(new.size):
        moved = new[i] + momentum * (new[i] - multipliers[i])
        ahead[i] = moved if moved > 0.0 or (blocked.size and blocked[i]) else 0.0
        multipliers[i] = new[i]


@njit(nogil=True, cache=True)
def weighted_sums(
    point: Floats, target: Floats, multipliers: Floats, offsets: Integers, weights: Floats
) -> tuple[float, float]:
    """sum w (point - target)^2 and sum w multipliers point, over all cells."""
    squares = products = 0.0
    for item in range(offsets.size - 1):
        square = product = 0.0
        for i in range(offsets[item], offsets[item + 1]):
            d = point[i] - target[i]
            square += d * d
            product += multipliers[i] * point[i]
        squares += weights[item] * square
        products += weights[item] * product
    return squares, products
