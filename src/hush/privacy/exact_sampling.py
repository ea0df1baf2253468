"""Exact sampling of the discrete Gaussian and discrete Laplace laws from random bits of the operating system.

A block of integers is drawn by inversion, an integer within it by rejection. Seeded bits are for tests only.

The law is P(y) proportional to exp(-f(|y|)) with f increasing: f(y) = y^2/(2 sigma^2), or y/scale. The integers
|y| = j w + r, 0 <= r < w = 2^b, form blocks; within block j the weight is at most c_j = exp(-f(j w)). One trial:

1. draw block j with probability c_j / sum(c) by inversion of a uniform U against C_j = (c_0 + ... + c_j) / sum(c);
2. draw r uniform below 2^b, and a sign;
3. accept with probability exp(-(f(j w + r) - f(j w))), and reject the negative zero.

An accepted y has exactly the law. Step 2 uses bits as they are. Steps 1 and 3 compare a uniform number, of which the
first words are drawn, with a real number that is known within bounds:

- block bounds come from integer arithmetic (`_cumulative`): floor(2^t C_j) is known up to `gap`, for a table of t = 32
  or 64 bits, so that only a U within `gap` 2^-t of a C_j, or beyond the last tabulated block, is undecided;
- acceptance uses x computed in at most 4 roundings (relative error below 2^-50) and exp of a libm or numpy with error
  below 16 ulp; for x <= 745 both stay below 2^-40 relative in exp(-x), and EXP_SLACK = 2^-38 bounds their sum.

A trial takes one word if the scale allows (32 bits for the block, one for the sign, b <= 8 for the offset, at least
23 for acceptance), else two or three. An undecided comparison is finished exactly (`_finish_block`, `below_exp`) by
drawing more bits of the same U. The result has the exact law whichever path was taken.

Reference: the law is that of [CKS20, sec. 5]; docs/noise.md explains the block scheme.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from hush.core.arrays import Integers

Words = np.ndarray[Any, np.dtype[np.uint64]]
WORD_BITS = 64


class Entropy(Protocol):
    """Independent uniform 64-bit words; `private` says whether noise drawn from them protects anybody."""

    @property
    def private(self) -> bool: ...
    def words(self, count: int) -> Words: ...


class SystemEntropy:
    """The operating system's generator, read afresh for every word.

    Nothing is buffered between calls, so forked processes never share noise and no state can be seeded. An instance has
    no attributes, so none can be changed to draw other words.
    """

    __slots__ = ()
    private = True

    def words(self, count: int) -> Words:
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class NotPrivateEntropy:
    """Reproducible words from a seed, for tests; what is drawn from them is marked as not private."""

    private = False

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def words(self, count: int) -> Words:
        return np.asarray(self._bits.random_raw(count), dtype=np.uint64)


def one_word(entropy: Entropy) -> int:
    """A single word as a Python integer."""
    return int(entropy.words(1)[0])


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers (low, high) with low <= 2^bits exp(-x) <= high, for x >= 0; high - low is at most 1 for bits <= 300.

    exp(-x) = exp(-x / 2^k)^(2^k) with x / 2^k <= 1/2, by its alternating series; each step rounds outward.
    """
    if x == 0:
        return 1 << bits, 1 << bits
    if x > bits:  # then exp(-x) < 2^-bits
        return 0, 1
    halvings = max(0, math.ceil(x).bit_length() + 1)
    work = bits + 2 * halvings + 24
    low_t = (x.numerator << work) // (x.denominator << halvings)
    low, high = _series(low_t + 1, work, 0), _series(low_t, work, 1)
    for _ in range(halvings):
        low = (low * low) >> work
        high = -((-high * high) >> work)
    extra = work - bits
    return low >> extra, -((-high) >> extra)


def _series(t: int, work: int, parity: int) -> int:
    """A bound on 2^work exp(-t/2^work) for 0 <= t/2^work <= 1/2+: a lower one for parity 0, an upper one for parity 1.

    The terms of the alternating series decrease, so a sum that ends with a negative (positive) term is a lower (upper)
    bound.
    """
    total = low_term = high_term = 1 << work
    n = 0
    while n % 2 == parity or high_term > 1:
        n += 1
        low_term = (low_term * t) // (n << work)
        high_term = -((-high_term * t) // (n << work))
        if parity == 0:
            total += -high_term if n % 2 else low_term
        else:
            total += -low_term if n % 2 else high_term
    return total


def below_exp(prefix: int, bits: int, x: Fraction, entropy: Entropy) -> bool:
    """Whether U < exp(-x), where the first `bits` bits of the uniform number U are `prefix`.

    Draws further bits of U, a word at a time, until the bounds on exp(-x) decide; P(more than k words) <= 2^(1-64k).
    """
    while True:
        low, high = exp_bounds(x, bits)
        if prefix + 1 <= low:
            return True
        if prefix >= high:
            return False
        prefix = (prefix << WORD_BITS) | one_word(entropy)
        bits += WORD_BITS


EXP_SLACK = 2.0**-38  # bounds the relative error of exp(-x) in floats; see the module docstring
_TRIALS_AT_ONCE = 1 << 15
_HALF_WORD = 32  # bits
_LARGEST_SHIFTS = (8, 20)  # the largest b for which one word, or two, leave enough bits to decide acceptance


class Envelope:
    """The table of blocks of one law at one scale; immutable and free of data, so it may be cached.

    `rate` is 1/(2 sigma^2) for the quadratic law and 1/scale for the linear one: f(y) = rate y^2 or rate y.
    `table_bits` and `slack` differ from their defaults only in tests, to force undecided comparisons.
    """

    def __init__(
        self, rate: Fraction, *, quadratic: bool, table_bits: int | None = None, slack: float = EXP_SLACK
    ) -> None:
        self.rate = rate
        self.quadratic = quadratic
        self.slack = slack

        # Blocks of 2^shift integers are at most a quarter of the scale wide: sigma = sqrt(1/(2 rate)), or 1/rate.
        quarter_squared = (1 / (2 * rate) if quadratic else 1 / rate**2) / 16
        self.shift = max(0, (quarter_squared.numerator // quarter_squared.denominator).bit_length() - 1) // 2

        # The words of a trial. The last word is shifted by `drop`; the bits that stay, at most 53, decide acceptance.
        self.per_trial = 1 + sum(self.shift > limit for limit in _LARGEST_SHIFTS)
        self.block_bits = _HALF_WORD if self.per_trial == 1 else WORD_BITS
        if self.per_trial == 1:
            self.drop, self.accept_bits = 1 + self.shift, _HALF_WORD - 1 - self.shift
        else:
            self.drop = max(1 + self.shift, 11) if self.per_trial == 2 else 11
            self.accept_bits = WORD_BITS - self.drop

        # The cumulative probabilities of blocks, left-aligned in 64 bits, and where a search by the top 8 bits starts.
        table_bits = self.block_bits if table_bits is None else table_bits
        low, high = self._cumulative(table_bits)
        self.gap = max(above - below for below, above in zip(low, high, strict=True)) << (WORD_BITS - table_bits)
        self.table = np.array([entry << (WORD_BITS - table_bits) for entry in low], dtype=np.uint64)
        self.guide = np.searchsorted(self.table, np.arange(256, dtype=np.uint64) << np.uint64(56), side="right")
        self.inverse = float(rate)

    def exponent(self, block: int, offset: int) -> Fraction:
        """f(j w + r) - f(j w), exactly."""
        return self.rate * offset * ((2 * (block << self.shift) + offset) if self.quadratic else 1)

    def sample(self, count: int, entropy: Entropy) -> Integers:
        """`count` independent draws; about 1.1 trials each, of 8 bytes (16 for scales from 2^11, 24 from 2^23)."""
        from hush.privacy._kernels import DONE, UNDECIDED_BLOCK, run_trials

        out = np.empty(count, dtype=np.int64)
        filled = 0
        while filled < count:
            trials = min(_TRIALS_AT_ONCE, (count - filled) + (count - filled) // 8 + 8)
            words = entropy.words(trials * self.per_trial)
            # Run the trials of these words; floats leave some undecided, which are decided exactly.
            trial, status = 0, UNDECIDED_BLOCK
            while status != DONE:
                filled, trial, status = run_trials(
                    words, self.per_trial, trial, self.table, self.guide, self.gap, self.shift,
                    self.drop, 2.0**-self.accept_bits, self.quadratic, self.inverse, self.slack, out, filled,
                )  # fmt: skip
                if status != DONE:
                    undecided = [int(word) for word in words[trial * self.per_trial : (trial + 1) * self.per_trial]]
                    drawn = self._finish(undecided, status == UNDECIDED_BLOCK, entropy)
                    if drawn is not None:
                        out[filled] = drawn
                        filled += 1
                    trial += 1
        return out

    def _finish(self, words: list[int], block_undecided: bool, entropy: Entropy) -> int | None:
        """One trial from its words with exact comparisons; None if it is rejected."""
        u, v, w = (
            (words[0] >> _HALF_WORD, *[words[0] & (2**_HALF_WORD - 1)] * 2)
            if self.per_trial == 1
            else (*words[:2], words[-1])
        )
        aligned = np.uint64(u << (WORD_BITS - self.block_bits))
        decided = None if block_undecided else int(np.searchsorted(self.table, aligned, side="right"))
        block = self._finish_block(u, entropy) if decided is None else decided
        offset = (v >> 1) & ((1 << self.shift) - 1)
        accepted = below_exp(w >> self.drop, self.accept_bits, self.exponent(block, offset), entropy)
        y = (block << self.shift) + offset
        negative = bool(v & 1)
        if not accepted or (negative and y == 0):
            return None
        return -y if negative else y

    def _finish_block(self, u: int, entropy: Entropy) -> int:
        """The block of a uniform number whose first `block_bits` bits are u, by more words and a finer table."""
        bits = self.block_bits
        while True:
            u = (u << WORD_BITS) | one_word(entropy)
            bits += WORD_BITS
            low, high = self._cumulative(bits)
            above = next((j for j, entry in enumerate(low) if u + 1 <= entry), None)
            if above is not None and (above == 0 or u >= high[above - 1]):
                return above

    def _cumulative(self, bits: int) -> tuple[list[int], list[int]]:
        """Integers low_j <= 2^bits C_j <= high_j, for blocks up to a tail below 2^-(bits+8).

        c_j by recurrence with outward rounding: c_{j+1} = c_j g_j and g_{j+1} = g_j h, where g_0 = exp(-f(w)) and
        h = exp(-2 rate w^2), or 1 for the linear law. Ratios g_j fall, so sum_{k>j} c_k <= c_j g_j / (1 - g_j).
        """
        work = bits + 64
        unit = 1 << work
        w = 1 << self.shift
        g_low, g_high = exp_bounds(self.rate * (w * w if self.quadratic else w), work)
        h_low, h_high = exp_bounds(2 * self.rate * w * w, work) if self.quadratic else (unit, unit)
        c_low = c_high = unit
        low_sums, high_sums = [unit], [unit]
        while True:
            tail = -((-c_high * g_high) // (unit - g_high))
            if tail < 1 << 48:
                break
            c_low, c_high = (c_low * g_low) >> work, -((-c_high * g_high) >> work)
            g_low, g_high = (g_low * h_low) >> work, -((-g_high * h_high) >> work)
            low_sums.append(low_sums[-1] + c_low)
            high_sums.append(high_sums[-1] + c_high)
        least, most = low_sums[-1], high_sums[-1] + tail
        lows = [(entry << bits) // most for entry in low_sums]
        highs = [min(1 << bits, -((-entry << bits) // least)) for entry in high_sums]
        return lows, highs


@lru_cache(maxsize=4096)
def envelope(rate: Fraction, quadratic: bool) -> Envelope:
    """The table of a law, cached; it is public and holds no randomness."""
    return Envelope(rate, quadratic=quadratic)


def numpy_trials(table: Envelope, words: Words) -> tuple[Integers, Integers]:
    """The numpy twin of `run_trials`: the value of every trial, and 1 if accepted, 0 if rejected, -1 if undecided."""
    trials = words.reshape(-1, table.per_trial)
    if table.per_trial == 1:
        u = trials[:, 0] & ~np.uint64(0xFFFFFFFF)
        v = w = trials[:, 0] & np.uint64(0xFFFFFFFF)
    else:
        u, v, w = trials[:, 0], trials[:, 1], trials[:, -1]
    block = np.searchsorted(table.table, u, side="right").astype(np.int64)
    below = np.where(block > 0, u - table.table[np.maximum(block - 1, 0)], np.uint64(2**64 - 1))
    undecided = (block == len(table.table)) | ((block > 0) & (below < np.uint64(table.gap)))
    offset = ((v >> np.uint64(1)) & np.uint64((1 << table.shift) - 1)).astype(np.int64)
    a = (w >> np.uint64(table.drop)).astype(np.float64)
    start = block << table.shift
    x = offset.astype(np.float64) * table.inverse
    if table.quadratic:
        x = x * (2.0 * start.astype(np.float64) + offset.astype(np.float64))
    p = np.exp(-x)
    unit = 2.0**-table.accept_bits
    accepted = (a + 1.0) * unit <= p * (1.0 - table.slack) if table.shift else np.ones(len(u), dtype=bool)
    rejected = ~accepted & (a * unit >= p * (1.0 + table.slack))
    y = start + offset
    negative = (v & np.uint64(1)) == 1
    verdict = np.where(accepted & ~(negative & (y == 0)), 1, 0)
    verdict[~accepted & ~rejected] = -1
    verdict[undecided] = -1
    return np.where(negative, -y, y), verdict.astype(np.int64)
