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
    """The error of the best product found for each set of terms; infinite if the product has too many cells."""
    pools, _, blocks = errors.shape
    longest = 0
    for s in range(len(starts) - 1):
        longest = max(longest, starts[s + 1] - starts[s])
    logs, totals = np.zeros((longest, pools)), np.zeros(longest)
    mixture, asked = np.zeros(blocks), np.zeros(pools, dtype=np.int64)
    for s in range(len(starts) - 1):
        # the pools that the terms of this set ask for, and the cells that their product would measure
        terms = members[starts[s] : starts[s + 1]]
        used, measured = 0, 0.0
        for i in range(pools):
            for term in terms:
                if index[term, i] != 0:
                    asked[used] = i
                    used += 1
                    measured += sizes[i]
                    break
        if measured > cells and len(terms) > 1:
            out[s] = np.inf
        else:
            out[s] = _descend(index, weights, errors, counts, terms, asked[:used], sweeps, logs, totals, mixture)


@njit(cache=True, nogil=True)
def _descend(
    index: Any,
    weights: Any,
    errors: Any,
    counts: Any,
    terms: Any,  # (n,)
    asked: Any,  # (k,): the pools that the terms ask for
    sweeps: int,
    logs: Any,  # (at least n, at least k): log e_i of each term, overwritten
    totals: Any,  # (at least n,): log w_j + sum_i log e_i of each term, overwritten
    mixture: Any,  # (blocks,), overwritten
) -> float:
    """The log of the error after coordinate descent over strategies, starting from every level; see `opt_kron`."""
    for j, term in enumerate(terms):
        totals[j] = weights[term]
        for k, i in enumerate(asked):
            logs[j, k] = np.log(errors[i, 1, index[term, i]])
            totals[j] += logs[j, k]
    for _ in range(sweeps):
        for k, i in enumerate(asked):
            # the weight of every block of this pool, given the choices in the others; divided by the largest, so
            # that none overflows
            top = -np.inf
            for j in range(len(terms)):
                top = max(top, totals[j] - logs[j, k])
            mixture[:] = 0.0
            for j, term in enumerate(terms):
                mixture[index[term, i]] += np.exp(totals[j] - logs[j, k] - top)
            # the strategy of this pool with the least error for that mixture
            best, choice = np.inf, 1
            for c in range(counts[i]):
                value = 0.0
                for b in range(len(mixture)):
                    if mixture[b] > 0.0:
                        value += mixture[b] * errors[i, c, b]
                if value < best:
                    best, choice = value, c
            for j, term in enumerate(terms):
                new = np.log(errors[i, choice, index[term, i]])
                totals[j] += new - logs[j, k]
                logs[j, k] = new
    # log of the summed error
    top, total = totals[: len(terms)].max(), 0.0
    for j in range(len(terms)):
        total += np.exp(totals[j] - top)
    return float(top + np.log(total))
