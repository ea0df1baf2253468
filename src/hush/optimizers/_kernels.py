"""The inner loop of grouping terms, compiled: what a product chosen from the pools costs for each set of terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.core.compiled import njit


@njit(cache=True, nogil=True)
def set_errors(
    index: Any,  # (terms, pools) int32: which block each term has
    weights: Any,  # (terms,) log w_j
    errors: Any,  # (pools, strategies, blocks) e_i(b); the first two strategies are the total and every level
    counts: Any,  # (pools,) int64: how many strategies each pool holds
    sizes: Any,  # (pools,) log n_i
    members: Any,  # (all members,) int64: the terms of all sets, one set after the other
    starts: Any,  # (sets + 1,) int64
    cells: float,  # log of the most cells that a product over several terms may measure
    sweeps: int,
    out: Any,  # (sets,) float64: log of the error
) -> None:
    """Coordinate descent over the strategies in the pools, from every level; see `opt_kron`."""
    pools, _, blocks = errors.shape
    longest = 0
    for s in range(len(starts) - 1):
        longest = max(longest, starts[s + 1] - starts[s])
    logs = np.zeros((longest, pools))
    totals = np.zeros(longest)
    mixture = np.zeros(blocks)
    asked = np.zeros(pools, dtype=np.int64)
    for s in range(len(starts) - 1):
        # the pools that the terms of this set ask for, and the cells that their product would measure
        first, count = starts[s], starts[s + 1] - starts[s]
        used, measured = 0, 0.0
        for i in range(pools):
            for j in range(count):
                if index[members[first + j], i] != 0:
                    asked[used] = i
                    used += 1
                    measured += sizes[i]
                    break
        if measured > cells and count > 1:
            out[s] = np.inf
            continue
        # start from every level: logs has log e_i, and totals log w_j + sum_i log e_i of each term
        for j in range(count):
            term = members[first + j]
            totals[j] = weights[term]
            for k in range(used):
                i = asked[k]
                logs[j, k] = np.log(errors[i, 1, index[term, i]])
                totals[j] += logs[j, k]
        for _ in range(sweeps):
            for k in range(used):
                i = asked[k]
                # the weight of every block of this pool, given the choices in the others; over the largest, so
                # that none overflows
                top = -np.inf
                for j in range(count):
                    top = max(top, totals[j] - logs[j, k])
                mixture[:] = 0.0
                for j in range(count):
                    mixture[index[members[first + j], i]] += np.exp(totals[j] - logs[j, k] - top)
                # the strategy of this pool with the least error for that mixture
                best, choice = np.inf, 1
                for c in range(counts[i]):
                    value = 0.0
                    for b in range(blocks):
                        if mixture[b] > 0.0:
                            value += mixture[b] * errors[i, c, b]
                    if value < best:
                        best, choice = value, c
                for j in range(count):
                    new = np.log(errors[i, choice, index[members[first + j], i]])
                    totals[j] += new - logs[j, k]
                    logs[j, k] = new
        # log of the summed error
        top = -np.inf
        for j in range(count):
            top = max(top, totals[j])
        total = 0.0
        for j in range(count):
            total += np.exp(totals[j] - top)
        out[s] = top + np.log(total)
