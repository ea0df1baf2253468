"""Exact divergences of finite laws, and whether a selection is as private as it is charged for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import mpmath

from hush.errors import HushError
from hush.privacy.selection import ExponentialMechanism, Scores, TopK

ALPHAS = (1.01, 1.5, 2.0, 4.0, 16.0, 64.0)


class DivergenceError(HushError):
    """Neighbouring laws that are further apart than the charge allows."""


def selection_law(law: ExponentialMechanism | TopK, scores: Scores) -> dict[Any, Any]:
    """The probability of every outcome, at 100 digits, straight from the weights exp(c k_i)."""
    steps, rate = ExponentialMechanism(law.epsilon).weights(scores)
    with mpmath.workdps(100):
        c = mpmath.mpf(rate.numerator) / rate.denominator
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
    law: ExponentialMechanism | TopK,
    scores_of: Callable[[Any], Scores],
    table: Any,
    neighbours: Iterable[Any],
    *,
    alphas: tuple[float, ...] = ALPHAS,
) -> float:
    """Compare the exact Rényi divergence over all neighbours with what is charged; returns the largest ratio.

    Raises DivergenceError where D_alpha > alpha rho, or where a probability ratio exceeds e^epsilon.
    """
    cost = law.event().cost
    if cost.rho is None or cost.epsilon is None:
        raise DivergenceError("the selection states no cost")
    here = selection_law(law, scores_of(table))
    largest = 0.0
    with mpmath.workdps(100):
        rho = mpmath.mpf(cost.rho.numerator) / cost.rho.denominator
        bound = mpmath.exp(mpmath.mpf(cost.epsilon.numerator) / cost.epsilon.denominator)
        for neighbour in neighbours:
            there = selection_law(law, scores_of(neighbour))
            for p, q in ((here, there), (there, here)):
                if any(p[outcome] > bound * q[outcome] for outcome in p):
                    raise DivergenceError("a choice is more than e^epsilon times as likely on a neighbour")
                for alpha in alphas:
                    ratio = float(renyi_divergence(p, q, alpha) / (mpmath.mpf(alpha) * rho))
                    largest = max(largest, ratio)
                    if ratio > 1:
                        raise DivergenceError(f"D_alpha is {ratio:.3g} times the charge at alpha = {alpha}")
    return largest
