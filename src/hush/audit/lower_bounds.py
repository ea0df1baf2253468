"""Lower bounds on privacy loss: how much loss is proven by a test that distinguishes two neighbouring tables.

A test says "present" with probability p if the unit is present, and q if it is absent. Whatever the test uses, a
mechanism that keeps its promise limits p and q:

    epsilon, delta:  p <= e^epsilon q + delta,  and the same for the complements 1 - q and 1 - p;
    rho of zCDP:     D_alpha(p || q) <= alpha rho for every order alpha > 1, both ways round (data processing).

Counts of many runs give p >= p_low and q <= q_high with a stated confidence, by Clopper and Pearson. Both sides rise in
p and fall in q, so the bounds at (p_low, q_high) hold with that confidence.

Reference: [Jagielski et al. 2020, sec. 4] for counts; [Kairouz, Oh and Viswanath 2015] for epsilon; [BS16, Lemma 2.2]
for data processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.core.arrays import Floats

RENYI_ORDERS = np.concatenate([[1.0], np.geomspace(1.01, 64.0, 60)])


@dataclass(frozen=True, slots=True)
class Rates:
    """Bounds on a test: it says "present" at least this often if the unit is present, at most this often if absent."""

    present: float
    absent: float

    @classmethod
    def of(cls, hits_present: int, hits_absent: int, runs: int, confidence: float) -> Rates:
        """Bounds that hold jointly with this confidence, from the hits in `runs` runs on each table.

        >>> rates = Rates.of(10, 0, 10, 0.9)
        >>> round(rates.present, 3), round(rates.absent, 3)
        (0.741, 0.259)
        """
        chance = (1 - confidence) / 2  # that one of the two bounds is wrong
        present, absent = _at_least(hits_present, runs, chance), 1.0 - _at_least(runs - hits_absent, runs, chance)
        return cls(float(present), float(absent))

    @property
    def epsilon(self) -> float:
        """The least pure epsilon that allows these rates."""
        return self.epsilon_at(0.0)

    def epsilon_at(self, delta: float) -> float:
        """The least epsilon that allows these rates at a delta; 0 if the test proves nothing."""
        ratios = [(self.present - delta, self.absent), (1 - self.absent - delta, 1 - self.present)]
        return max(0.0, *(math.log(above / below) if above > 0 else 0.0 for above, below in ratios))

    @property
    def rho(self) -> float:
        """The least rho of zCDP that allows these rates: max over alpha of D_alpha / alpha."""
        p, q = self.present, self.absent
        if p <= q:
            return 0.0
        return max(float((_binary_divergence(a, b) / RENYI_ORDERS).max()) for a, b in ((p, q), (q, p)))

    @property
    def mu(self) -> float:
        """The least mu of Gaussian DP that allows these rates."""
        from scipy.special import ndtri

        return max(0.0, float(ndtri(self.present) - ndtri(self.absent)))


Bound = Callable[[Rates], float]


def best_threshold(present: Floats, absent: Floats, bound: Bound, confidence: float, *, times: int = 1) -> float:
    """The threshold from which a test should say "present": it would prove most on `times` as many scores."""
    scores = np.unique(np.concatenate([present, absent]))
    between = (scores[1:] + scores[:-1]) / 2 if len(scores) > 1 else scores
    candidates = between[:: max(1, len(between) // 400)]

    def proven(threshold: float) -> float:
        hits = [times * int(np.count_nonzero(scores >= threshold)) for scores in (present, absent)]
        return bound(Rates.of(hits[0], hits[1], times * len(present), confidence))

    middle = float(np.median(scores))  # of thresholds that prove nothing, the nearest to the middle is best
    return float(max(candidates.tolist(), key=lambda threshold: (proven(threshold), -abs(threshold - middle))))


def rates_of(present: Floats, absent: Floats, threshold: float, confidence: float) -> Rates:
    """The rates of the test "the score is at least the threshold", on scores that did not choose the threshold."""
    hits = [int(np.count_nonzero(scores >= threshold)) for scores in (present, absent)]
    return Rates.of(hits[0], hits[1], len(present), confidence)


def provable(stated: float, *, pure: bool, runs: int, confidence: float) -> float:
    """Roughly the factor by which the true cost must exceed the stated one for `runs` runs to prove it.

    Assumes Gaussian noise for rho, and the noise of one Laplace count for a pure epsilon; infinite if no number of hits
    would prove anything.
    """
    from scipy.special import ndtr

    for factor in np.geomspace(1.0, 1e4, 200):
        if pure:
            rates = [(0.5, 0.5 * math.exp(-factor * stated))]
        else:
            half = math.sqrt(2 * factor * stated) / 2
            rates = [(float(ndtr(half + shift)), float(ndtr(shift - half))) for shift in (0.0, -0.5, -1.0)]
        for p, q in rates:
            expected = Rates.of(math.floor(p * runs), math.ceil(q * runs), runs, confidence)
            if (expected.epsilon if pure else expected.rho) > stated:
                return float(factor)
    return math.inf


def _at_least(hits: int, runs: int, chance: float) -> Any:
    """A lower bound on a probability (Clopper and Pearson) that is wrong with at most this chance."""
    from scipy.special import betaincinv

    return betaincinv(hits, runs - hits + 1, chance) if hits else 0.0


def _binary_divergence(p: float, q: float) -> Floats:
    """D_alpha between two coins for every order; at alpha = 1 the Kullback-Leibler divergence."""
    tiny = 1e-300
    log_ratio = [math.log(max(a, tiny)) - math.log(max(b, tiny)) for a, b in ((p, q), (1 - p, 1 - q))]
    kl = sum(weight * ratio for weight, ratio in zip((p, 1 - p), log_ratio, strict=True))
    a = RENYI_ORDERS[1:]
    with np.errstate(over="ignore"):
        total = sum(weight * np.exp((a - 1) * ratio) for weight, ratio in zip((p, 1 - p), log_ratio, strict=True))
    return np.concatenate([[kl], np.log(total) / (a - 1)])
