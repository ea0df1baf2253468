"""Laws: whether samples have the law they claim, and whether a finite law is as private as it is charged for.

Tests of samples state their false-alarm rate, and each can fail. Divergences and ratios of finite laws are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
from scipy import stats

from hush.core.arrays import Integers
from hush.core.errors import HushError
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.privacy.selection import ExponentialMechanism, GeneralizedExponentialMechanism, Scores, TopK
from hush.privacy.sensitivity import Neighbours, sensitivity

RENYI_ORDERS = (1.01, 1.5, 2.0, 4.0, 16.0, 64.0)


class LawError(HushError):
    """Samples that do not have the law they claim."""


def check_law(samples: Integers, law: DiscreteGaussian | DiscreteLaplace, *, alpha: float = 1e-9) -> None:
    """Raise LawError if the samples do not have the law; false alarms at a rate of at most `alpha`.

    With 10^5 samples, a scale that is off by a factor 0.8 or 1.25 is missed with probability far below 10^-9: the
    chi-square statistic's non-centrality is then above 10^3.
    """
    p = law_pvalue(samples, law)
    if p < alpha:
        raise LawError(f"samples are not of {law}: p = {p:.2g}")


def law_pvalue(samples: Integers, law: DiscreteGaussian | DiscreteLaplace) -> float:
    """The smallest p-value of five tests, times five.

    Cells of about equal probability against the exact pmf (chi-square); both tails beyond 3 and 4 scales (binomial);
    symmetry of signs (binomial); low bits uniform, where the scale is large (chi-square); serial repeats (binomial).
    """
    samples = np.asarray(samples).ravel()
    positive, signed = int(np.count_nonzero(samples > 0)), int(np.count_nonzero(samples))
    tests = [
        _cells_pvalue(samples, law),
        _tails_pvalue(samples, law),
        float(stats.binomtest(positive, signed, 0.5).pvalue) if signed else 0.0,
        _low_bits_pvalue(samples, law),
        _repeats_pvalue(samples, law),
    ]
    return min(1.0, len(tests) * min(tests))


def cdf(law: DiscreteGaussian | DiscreteLaplace, values: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """P(Y <= y): summed for small scales, by the mid-point rule (error below 1/(24 sigma^2)^2) for large ones."""
    y = np.floor(np.asarray(values, dtype=np.float64))
    if isinstance(law, DiscreteLaplace):
        rate = 1 / float(law.scale)
        below = np.exp(-rate * np.abs(np.where(y < 0, y, y + 1))) / (1 + math.exp(-rate))
        return np.asarray(np.where(y < 0, below, 1 - below))
    sigma = math.sqrt(law.variance_parameter)
    if sigma > 2000:
        return np.asarray(stats.norm.cdf((y + 0.5) / sigma))
    reach = math.ceil(40 * sigma) + 1
    sums = np.concatenate([[0.0], np.cumsum(law.pmf(np.arange(-reach, reach + 1)))])
    return np.asarray(sums[np.clip(y + reach + 1, 0, len(sums) - 1).astype(np.int64)])


def _scale(law: DiscreteGaussian | DiscreteLaplace) -> float:
    return float(law.scale) if isinstance(law, DiscreteLaplace) else math.sqrt(law.variance_parameter)


def _cells_pvalue(samples: Integers, law: DiscreteGaussian | DiscreteLaplace) -> float:
    scale = _scale(law)
    grid = np.unique(np.floor(np.linspace(-6, 6, 121) * max(scale, 1.0)))
    probabilities = np.diff(np.concatenate([[0.0], cdf(law, grid), [1.0]]))
    observed = np.bincount(np.searchsorted(grid, samples, side="left"), minlength=len(grid) + 1)
    # Merge neighbouring cells until each expects 25 samples, so that the chi-square law holds.
    counts, shares, o, p = [], [], 0, 0.0
    for count, probability in zip(observed, probabilities, strict=True):
        o, p = o + int(count), p + float(probability)
        if p * len(samples) >= 25:
            counts.append(o)
            shares.append(p)
            o, p = 0, 0.0
    if len(shares) < 2:
        raise LawError("too few samples for a chi-square test; give more")
    counts[-1] += o
    shares[-1] += p
    return float(stats.chisquare(counts, np.array(shares) / sum(shares) * len(samples)).pvalue)


def _tails_pvalue(samples: Integers, law: DiscreteGaussian | DiscreteLaplace) -> float:
    p_values = []
    for k in (3, 4):
        edge = math.ceil(k * _scale(law))
        tail = float(cdf(law, -edge))
        hits = (np.count_nonzero(samples <= -edge), np.count_nonzero(samples >= edge))
        p_values += [float(stats.binomtest(int(count), len(samples), tail).pvalue) for count in hits]
    return min(1.0, len(p_values) * min(p_values))


def _low_bits_pvalue(samples: Integers, law: DiscreteGaussian | DiscreteLaplace) -> float:
    if _scale(law) < 64:  # residues mod 8 are uniform to 1e-20 for a Gaussian above this, to 1e-3 for Laplace
        return 1.0
    residues = np.bincount(samples % 8, minlength=8)
    if isinstance(law, DiscreteLaplace):
        rate = 1 / float(law.scale)
        r = np.arange(8)
        weights = np.exp(-rate * r) + np.exp(-rate * (8 - r))  # sum over y = r mod 8, up to a common factor
        expected = weights / weights.sum() * len(samples)
    else:
        expected = np.full(8, len(samples) / 8)
    return float(stats.chisquare(residues, expected).pvalue)


def _repeats_pvalue(samples: Integers, law: DiscreteGaussian | DiscreteLaplace) -> float:
    """Neighbours in the stream are equal as often as independent draws are: sum of squared probabilities."""
    reach = math.ceil(45 * min(_scale(law), 2000)) + 1
    if _scale(law) > 2000:
        collision = (
            1 / (2 * math.sqrt(math.pi) * _scale(law)) if isinstance(law, DiscreteGaussian) else 1 / (4 * _scale(law))
        )
    else:
        collision = float(np.sum(law.pmf(np.arange(-reach, reach + 1)) ** 2))
    pairs = samples[: len(samples) // 2 * 2].reshape(-1, 2)
    repeats = int(np.count_nonzero(pairs[:, 0] == pairs[:, 1]))
    return float(stats.binomtest(repeats, len(pairs), collision).pvalue)


def _mpf(number: Fraction) -> Any:
    """A fraction at the precision that is set."""
    return mpmath.mpf(number.numerator) / number.denominator


def scores_of(scorer: Any, table: Any, relation: Neighbours = Neighbours.ADD_REMOVE) -> Any:
    """The exact scores of a table, private, with the bound that the gate would hand to their scorer."""
    bound = sensitivity(scorer.row_norms, max_rows=table.unit.max_rows, neighbours=relation).l1
    return scorer.scores(table.counts(scorer.cliques), bound)


class DivergenceError(HushError):
    """Laws of neighbouring tables that are further apart than the charge allows."""


def selection_law(law: ExponentialMechanism | GeneralizedExponentialMechanism | TopK, scores: Scores) -> dict[Any, Any]:
    """The probability of every outcome, at 100 digits, straight from the weights exp(c k_i)."""
    if isinstance(law, GeneralizedExponentialMechanism):
        return selection_law(ExponentialMechanism(law.epsilon), law.normalised(scores))
    steps, rate = ExponentialMechanism(law.epsilon).weights(scores)
    with mpmath.workdps(100):
        c = _mpf(rate)
        weights = [mpmath.exp(c * (int(step) - int(steps.max()))) for step in steps]
        if isinstance(law, ExponentialMechanism):
            return {i: weight / sum(weights) for i, weight in enumerate(weights)}
        outcomes: dict[tuple[int, ...], Any] = {(): mpmath.mpf(1)}
        for _ in range(law.count):
            outcomes = {
                (*chosen, i): p * weights[i] / sum(w for j, w in enumerate(weights) if j not in chosen)
                for chosen, p in outcomes.items()
                for i in range(len(weights))
                if i not in chosen
            }
        return outcomes


def renyi_divergence(p: dict[Any, Any], q: dict[Any, Any], alpha: float) -> Any:
    """D_alpha(P||Q) = log(sum P^alpha Q^(1-alpha)) / (alpha - 1); infinite where Q lacks what P has."""
    with mpmath.workdps(100):
        total = mpmath.mpf(0)
        for outcome, weight in p.items():
            if weight == 0:
                continue
            if q.get(outcome, 0) == 0:
                return mpmath.inf
            total += weight ** mpmath.mpf(alpha) * q[outcome] ** (1 - mpmath.mpf(alpha))
        return mpmath.log(total) / (mpmath.mpf(alpha) - 1)


def check_selection_privacy(
    law: ExponentialMechanism | GeneralizedExponentialMechanism | TopK,
    scores_of: Callable[[Any], Scores],
    table: Any,
    neighbours: Iterable[Any],
    *,
    alphas: tuple[float, ...] = RENYI_ORDERS,
) -> float:
    """Compare the exact Rényi divergence over all neighbours with what is charged; returns the largest ratio.

    Raises DivergenceError where D_alpha > alpha rho, or where a probability ratio exceeds e^epsilon.
    """
    cost = law.event().cost
    if cost.rho is None or cost.epsilon is None:
        raise DivergenceError("the selection states no cost")
    table_law = selection_law(law, scores_of(table))
    largest = 0.0
    with mpmath.workdps(100):
        rho, bound = _mpf(cost.rho), mpmath.exp(_mpf(cost.epsilon))
        for neighbour in neighbours:
            neighbour_law = selection_law(law, scores_of(neighbour))
            for p, q in ((table_law, neighbour_law), (neighbour_law, table_law)):
                if any(p[outcome] > bound * q[outcome] for outcome in p):
                    raise DivergenceError("a choice is more than e^epsilon times as likely on a neighbour")
                for alpha in alphas:
                    ratio = float(renyi_divergence(p, q, alpha) / (mpmath.mpf(alpha) * rho))
                    largest = max(largest, ratio)
                    if ratio > 1:
                        raise DivergenceError(f"D_alpha is {ratio:.3g} times the charge at alpha = {alpha}")
    return largest
