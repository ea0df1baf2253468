"""The inner loops of exact noise and of partitions, compiled.

`exact_sampling.py` holds the numpy twin of the first and the argument for its exactness; `partition_laws.py` argues for
the others, whose plain twins are in the tests.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hush.core.compiled import njit

DONE, UNDECIDED_BLOCK, UNDECIDED_ACCEPT = 0, 1, 2


@njit(cache=True, nogil=True)
def run_trials(
    words: Any,  # (trials * per_trial,) uint64
    per_trial: int,
    first: int,
    table: Any,  # (blocks,) uint64, increasing
    guide: Any,  # (256,) int64
    gap: int,
    shift: int,
    drop: int,
    unit: float,
    quadratic: bool,
    inverse: float,
    slack: float,
    out: Any,  # (n,) int64
    filled: int,
) -> tuple[int, int, int]:
    """Run trials from `first` until `out` is full, the words run out, or a trial cannot be decided in floats.

    Returns (filled, trial, status): the trial to resume at, or the undecided one. `Envelope` explains the arguments.
    """
    trials, last = words.size // per_trial, table.size
    width = np.int64(1) << shift
    mask, tail, low_half = np.uint64(width - 1), np.uint64(drop), np.uint64(0xFFFFFFFF)
    for trial in range(first, trials):
        if filled == out.size:
            return filled, trial, DONE
        # The words of the trial: u for the block, v for sign and offset, w for acceptance.
        base = trial * per_trial
        u = words[base]
        if per_trial == 1:
            v = w = u & low_half
            u -= v
        else:
            v, w = words[base + 1], words[base + per_trial - 1]
        # The block, by inversion.
        j = guide[u >> np.uint64(56)]
        while j < last and u >= table[j]:
            j += 1
        if j == last or (j > 0 and u - table[j - 1] < np.uint64(gap)):
            return filled, trial, UNDECIDED_BLOCK
        # The offset within the block, accepted with probability p.
        offset = np.int64((v >> np.uint64(1)) & mask)
        start = j * width
        if shift > 0:
            x = float(offset) * inverse
            if quadratic:
                x *= 2.0 * float(start) + float(offset)
            p = math.exp(-x)
            a = float(w >> tail)
            if not (a + 1.0) * unit <= p * (1.0 - slack):
                if a * unit >= p * (1.0 + slack):
                    continue
                return filled, trial, UNDECIDED_ACCEPT
        # The sign; zero must not count twice.
        y, negative = start + offset, v & np.uint64(1)
        if negative and y == 0:
            continue
        out[filled] = -y if negative else y
        filled += 1
    return filled, trials, DONE


@njit(cache=True, nogil=True)
def _last_intervals(
    end: int, weights: Any, halvings: Any, lengths: Any, mantissas: Any, exponents: Any, terms: Any
) -> Any:
    """The terms of Z_end, up to the power of two that is returned."""
    top = exponents[end - 1] - halvings[0, end - 1]
    for k in range(lengths.size):
        if lengths[k] <= end:
            top = max(top, exponents[end - lengths[k]] - halvings[k, end - lengths[k]])
    for k in range(lengths.size):
        terms[k] = 0.0
        if lengths[k] <= end:
            start = end - lengths[k]
            below = exponents[start] - halvings[k, start] - top
            if below > -1000:
                terms[k] = math.ldexp(mantissas[start] * weights[k, start], below)
    return top


@njit(cache=True, nogil=True)
def weigh_partitions(weights: Any, halvings: Any, lengths: Any, mantissas: Any, exponents: Any) -> None:
    """Z_j = sum over lengths l of Z_(j-l) w(l, j-l), as mantissas of 1/2 to 1 and powers of two; O(n lengths)."""
    mantissas[0], exponents[0] = 0.5, 1
    terms = np.zeros(lengths.size)
    for end in range(1, mantissas.size):
        top = _last_intervals(end, weights, halvings, lengths, mantissas, exponents, terms)
        mantissa, power = math.frexp(terms.sum())
        mantissas[end], exponents[end] = mantissa, top + power


@njit(cache=True, nogil=True)
def walk_back(
    weights: Any,  # (lengths, n) from 1/2 to 1
    halvings: Any,  # (lengths, n) int64
    lengths: Any,  # (lengths,), starting with 1
    mantissas: Any,  # (n + 1,)
    exponents: Any,
    gap: float,  # bounds the error of every cumulative probability
    end: int,
    words: Any,  # uint64, one for each interval
    chosen: Any,  # (len(words),) int64: the starts of intervals
) -> tuple[int, int]:
    """Draw intervals backwards from `end` until 0; returns (how many, 1 where the next word does not decide)."""
    terms = np.zeros(lengths.size)
    for step in range(words.size):
        if end == 0:
            return step, 0
        _last_intervals(end, weights, halvings, lengths, mantissas, exponents, terms)
        total = terms.sum()
        last = 0
        for k in range(lengths.size):
            if lengths[k] <= end:
                last = k
        u = float(words[step] >> np.uint64(11))
        before, reached, k = 0.0, terms[0] / total, 0
        while k < last and u * 2.0**-53 >= reached:
            k += 1
            before = reached
            reached += terms[k] / total
        if (k > 0 and u * 2.0**-53 < before + gap) or (k < last and (u + 1.0) * 2.0**-53 > reached - gap):
            return step, 1
        end -= lengths[k]
        chosen[step] = end
    return words.size, 0


@njit(cache=True, nogil=True)
def least_cost(costs: Any, lengths: Any, last: Any) -> None:
    """The length index of the last interval of a cheapest partition of the first j cells, for all j; ties to the first.

    best_j = min over lengths l of best_(j-l) + cost(l, j-l).
    """
    best = np.zeros(last.size, dtype=np.int64)
    for end in range(1, last.size):
        for k in range(lengths.size):
            start = end - lengths[k]
            if start >= 0:
                cost = best[start] + costs[k, start]
                if k == 0 or cost < best[end]:
                    best[end] = cost
                    last[end] = k
