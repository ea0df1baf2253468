"""The inner loop of plain reconstruction, compiled; `transform.py` holds its numpy twin and the formula."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def expand_plain(
    flat: Any,  # (measured,) int64: residual answers of all sets, one after the other
    starts: Any,  # (n, 2^k) int64: where the answers of each subset begin
    sizes: Any,  # (n, k) int64
    out: Any,  # (cells,) float64
    out_starts: Any,  # (n,) int64
) -> None:
    """Reconstruct n marginals of k plain attributes each; marginal i goes to `out` from `out_starts[i]`.

    Each is a tensor with one more level, 0, per axis, for "attribute absent". Subset A' fills the part with levels
    >= 1 on its own axes and 0 on the others, divided by L_{A'}; then every axis in turn loses its extra level:
    out_j = t_j + (t_0 - sum_{j >= 1} t_j) / l. O(k cells) per marginal.
    """
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
            scale = 1.0
            base = 0
            runs = 1
            for axis in range(k):
                index[axis] = 0
                if mask >> axis & 1:
                    scale /= sizes[item, axis]
                    base += strides[axis]
                    if axis < k - 1:
                        runs *= sizes[item, axis]
            run = sizes[item, k - 1] if mask >> (k - 1) & 1 else 1
            source = starts[item, mask]
            for _ in range(runs):
                target = base
                for axis in range(k - 1):
                    target += index[axis] * strides[axis]
                for j in range(run):
                    here[target + j] = flat[source + j] * scale
                source += run
                for axis in range(k - 2, -1, -1):
                    if mask >> axis & 1:
                        index[axis] += 1
                        if index[axis] < sizes[item, axis]:
                            break
                        index[axis] = 0
        outer = 1
        for axis in range(k - 1):
            _drop_level(here, there, shift, outer, sizes[item, axis], strides[axis])
            here, there = there, here
            outer *= sizes[item, axis]
        _drop_last_level(here, out[out_starts[item] :], outer, sizes[item, k - 1])


@numba.njit(cache=True, nogil=True)
def _drop_level(source: Any, target: Any, shift: Any, outer: int, size: int, inner: int) -> None:
    """One axis, (outer, size + 1, inner) to (outer, size, inner)."""
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
            own = target[(o * size + j) * inner : (o * size + j + 1) * inner]
            for i in range(inner):
                own[i] = level[i] + shift[i]


@numba.njit(cache=True, nogil=True)
def _drop_last_level(source: Any, target: Any, outer: int, size: int) -> None:
    """The last axis, (outer, size + 1) to (outer, size)."""
    for o in range(outer):
        levels = source[o * (size + 1) : (o + 1) * (size + 1)]
        own = target[o * size : (o + 1) * size]
        total = 0.0
        for j in range(1, size + 1):
            total += levels[j]
        shift = (levels[0] - total) / size
        for j in range(size):
            own[j] = levels[j + 1] + shift
