"""Found range: which levels of an ordered column hold rows, judged by noisy counts, and how much may lie outside.

Over a public grid of every possible value, a range that begins far from all rows would be useless, so levels are taken
in only if they hold rows. A run of L levels in a row holds rows if its noisy count exceeds t_L, what noise alone
exceeds with a chance of at most `failure` over all runs that are asked. Runs of 1, 2, 4, ... levels are asked, so that
rows spread thinly over many levels are found as well as rows that share one. The range begins with the first level at
which such a run ends and before which no more than the share TRIM of the rows was counted; from the other end
likewise. It then grows over neighbouring levels that are likely to hold rows.

Over a second grid inside that range, one level too many costs little, since bins follow the rows; one level too few
moves its rows to the bound. So levels are left out only if, noise allowed for, they also hold few rows.

Everything here is computed from noisy counts: it is post-processing and costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.privacy.noise import Noise

TRIM = 0.001  # of the rows may lie beyond each bound, even where noise is small
BETA = 0.001  # the chance, over the noise, that a column's statement is wrong
NARROWED = 0.02  # of the rows may seem to lie, with their noise, in the levels that a second grid leaves out at an end
GROWTH_RUNS = (1, 2, 4, 8)  # how many neighbouring levels a range may take in at once
GROWTH_STDDEVS = 2.5  # of the noise of such a run, which it must exceed: noise alone does so once in 160 runs


@dataclass(frozen=True, slots=True)
class FoundRange:
    """Levels first .. last; with probability 1 - failure at most the share `outside` of the rows is in other levels.

    `estimate` is the share that the noisy counts show there.
    """

    first: int
    last: int
    outside: float
    estimate: float = 0.0


@dataclass(frozen=True, slots=True)
class NoisyLevels:
    """Noisy counts of the levels of a column in order, without missing, and the law of their noise."""

    rows: Integers
    law: Noise

    @property
    def total(self) -> float:
        """The estimated number of rows in all levels."""
        return float(self.rows.sum())

    def noise_bound(self, levels: int, chance: float) -> float:
        """What the summed noise of some levels exceeds with at most this chance; Chernoff's bound.

        sqrt(2 v x) for Gaussian noise and sqrt(2 v x) + b x for Laplace noise of scale b, with x = log(1/chance) and
        v the variance of the sum. Discrete noise has lighter tails than continuous noise of the same parameter.
        """
        x = math.log(1 / chance)
        if self.law.name == "gaussian":
            return math.sqrt(2 * levels * float(self.law.variance_parameter) * x)  # type: ignore[attr-defined]
        scale = float(self.law.scale)  # type: ignore[attr-defined]
        return math.sqrt(4 * levels * scale**2 * x) + scale * x


def found_range(noisy: NoisyLevels, *, failure: float = BETA, skip_ends: bool = False) -> FoundRange | None:
    """The range of levels that hold rows; None if no run of levels does.

    `skip_ends` leaves the first and the last level out, which hold whatever lies beyond the grid: they are part of no
    range, and count as outside.
    """
    levels = len(noisy.rows)
    edge = int(skip_ends and levels > 2)
    inner = noisy.rows[edge : levels - edge].astype(np.float64)
    chance = failure / _tests(levels)
    most = TRIM * max(noisy.total, 0.0)
    first = _first_held(inner, noisy, chance, most)
    last = _first_held(inner[::-1], noisy, chance, most)
    if first is None or last is None:
        return None
    last = len(inner) - 1 - last
    if first > last:  # both ends lie in one clump that was trimmed from either side
        first, last = last, first
    first = _grown(inner, first, noisy.law.stddev, most)
    last = len(inner) - 1 - _grown(inner[::-1], len(inner) - 1 - last, noisy.law.stddev, most)
    return _stated(noisy, edge + first, edge + last, failure)


def narrowed_range(noisy: NoisyLevels, *, failure: float = BETA) -> FoundRange:
    """The range of levels that hold rows in a second grid, whose first and last level hold all rows beyond the range.

    As `found_range`, except that at either end at most those k levels are left out for which

        S_k + sigma sqrt(k) <= NARROWED n,

    with S_k their noisy count and n that of all levels. If no level shows rows, none is left out.
    """
    held = found_range(noisy, failure=failure, skip_ends=True)
    last = len(noisy.rows) - 2
    if held is None:
        return _stated(noisy, 1, last, failure)
    below, above = (_few(noisy, side) for side in (noisy.rows[1 : held.first], noisy.rows[held.last + 1 : -1][::-1]))
    return _stated(noisy, 1 + below, last - above, failure)


def _few(noisy: NoisyLevels, rows: Integers) -> int:
    """How many of these levels, from the first on, may be left out since they seem to hold few rows."""
    noise = noisy.law.stddev * np.sqrt(np.arange(1, len(rows) + 1))
    few = np.flatnonzero(np.cumsum(rows) + noise <= NARROWED * max(noisy.total, 0.0))
    return int(few[-1]) + 1 if len(few) else 0


def _stated(noisy: NoisyLevels, first: int, last: int, failure: float) -> FoundRange:
    """The range with a bound on the share of rows outside: noisy counts, plus what noise may hide."""
    chance = failure / _tests(len(noisy.rows))
    below, above = noisy.rows[:first].astype(np.float64), noisy.rows[last + 1 :].astype(np.float64)
    hidden = sum(
        max(0.0, float(side.sum()) + noisy.noise_bound(len(side), chance)) for side in (below, above) if len(side)
    )
    rows = max(1.0, noisy.total - noisy.noise_bound(len(noisy.rows), chance), hidden)
    counted = max(0.0, float(below.sum() + above.sum()))
    return FoundRange(first, last, min(1.0, hidden / rows), min(1.0, counted / max(noisy.total, 1.0)))


def _tests(levels: int) -> int:
    """How many sums of noise are bounded: runs of 1, 2, 4, ... levels, and all levels from either end."""
    return 2 * (levels * (levels.bit_length() + 1) + 2)


def _first_held(rows: Floats, noisy: NoisyLevels, chance: float, most: float) -> int | None:
    """The first level of the first run that holds rows, once more than `most` rows may have been passed."""
    sums = np.concatenate([[0.0], np.cumsum(rows)])
    start: int | None = None
    ended = len(rows) + 1
    length = 1
    while length <= len(rows):
        held = sums[length:] - sums[:-length] > noisy.noise_bound(length, chance)
        reach = np.arange(length, len(rows) + 1)
        held &= sums[length:] + np.sqrt(reach) * noisy.noise_bound(1, chance) > most
        if held.any():
            end = int(np.argmax(held)) + length
            if end < ended:  # shorter runs that end at the same level come first and win
                ended, start = end, end - length
        length *= 2
    return start


def _grown(rows: Floats, first: int, stddev: float, most: float) -> int:
    """The first level of a range that grew over neighbours that seem to hold rows, while more than `most` lie before.

    >>> _grown(np.array([0.0, 1.0, 30.0, 90.0, 900.0]), 4, 10.0, 1.0)
    2
    """
    while first and rows[:first].sum() + math.sqrt(first) * stddev > most:
        runs = (length for length in GROWTH_RUNS if length <= first)
        enough = GROWTH_STDDEVS * stddev
        taken = next((n for n in runs if rows[first - n : first].sum() > enough * math.sqrt(n)), None)
        if taken is None:
            break
        first -= taken
    return first
