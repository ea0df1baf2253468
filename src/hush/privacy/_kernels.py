"""The inner loop of exact noise, compiled; `exact_sampling.py` holds its numpy twin and the argument for exactness."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hush.compiled import njit

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

    Returns (filled, trial, status): the trial to resume at, or the undecided one.
    """
    trials = words.size // per_trial
    width = np.int64(1) << shift
    mask = np.uint64(width - 1)
    tail = np.uint64(drop)
    low_half = np.uint64(0xFFFFFFFF)
    last = table.size
    for trial in range(first, trials):
        if filled == out.size:
            return filled, trial, DONE
        base = trial * per_trial
        u = words[base]
        if per_trial == 1:
            v = u & low_half
            u -= v
            w = v
        else:
            v = words[base + 1]
            w = words[base + per_trial - 1]
        j = guide[u >> np.uint64(56)]
        while j < last and u >= table[j]:
            j += 1
        if j == last or (j > 0 and u - table[j - 1] < np.uint64(gap)):
            return filled, trial, UNDECIDED_BLOCK
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
        y = start + offset
        if v & np.uint64(1):
            if y == 0:
                continue
            y = -y
        out[filled] = y
        filled += 1
    return filled, trials, DONE
