"""Largest variance: the noise that minimises the largest of many linear forms, with a certified gap.

    minimise  max_i (R s)_i   subject to  sum_A p_A / s_A <= c,      s = sigma^2.

The dual maximises T(w) = (sum_A sqrt(p_A (R^T w)_A))^2 / c over weights w on the simplex; the closed form for the
weights w is the primal point s(w), always within the budget, so that at any w

    T(w)  <=  optimum  <=  max_i (R s(w))_i.

The step w_i <- w_i (R s(w))_i^2 never lowers T (sqrt T is concave, and the step maximises a lower bound of it by
Jensen's inequality). Plain steps need up to thousands of rounds when weights differ wildly; extrapolating two of them
in log w (the squared extrapolation of [Varadhan and Roland 2008]) needs about a fifth of that, and an extrapolation
that would lower T is shortened until it does not.

Reference: [ResidualPlanner, sec. 4.1 and App. C, weighted max variance].
Differs from [ResidualPlanner, sec. 7]: no conic solver; the gap is proven at the point returned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy

from hush.errors import WorkloadError
from hush.solution import SOLVED, Solution
from hush.strategies.closed_form import minimise_sum

Floats = np.ndarray[Any, np.dtype[np.float64]]


def minimise_largest(
    rows: scipy.sparse.csr_array,  # (rows, sets), non-negative
    privacy: Floats,  # (sets,)
    pcost: float,
    *,
    tolerance: float = 1e-4,
    iterations: int = 2000,
) -> Solution[Floats]:
    """The sigma^2 with the smallest max(rows @ sigma^2) within the budget, up to a relative gap.

    `stats` has `value`, `lower_bound`, `gap` and `iterations`, one iteration being one product with `rows` and one
    with its transpose.
    """
    if not (rows.shape[0] and float(rows.sum()) > 0):
        raise WorkloadError("a largest variance needs at least one query with a non-zero answer")
    search = _Search(rows, privacy, pcost, tolerance, iterations)
    search.run()
    gap = search.value / search.lower - 1
    status = SOLVED
    if gap > tolerance:
        status = (
            f"the largest variance is within {gap:.2g} of the best after {search.count} iterations, tolerance "
            f"{tolerance:g}; raise iterations or the tolerance"
        )
    stats = {"value": search.value, "lower_bound": search.lower, "gap": gap, "iterations": float(search.count)}
    return Solution(value=search.best, status=status, stats=stats)


@dataclass
class _Search:
    """The state of the search: the best point and the best bound so far."""

    rows: scipy.sparse.csr_array
    privacy: Floats
    pcost: float
    tolerance: float
    iterations: int
    value: float = np.inf
    lower: float = 0.0
    count: int = 0
    best: Floats = field(default_factory=lambda: np.zeros(0))

    def run(self) -> None:
        x = np.full(self.rows.shape[0], -np.log(self.rows.shape[0]))  # log w
        while not self._done():
            first, _ = self._step(x)
            if self._done():
                return
            second, height = self._step(first)
            if self._done():
                return
            x = self._extrapolate(x, first, second, height)

    def _extrapolate(self, x: Floats, first: Floats, second: Floats, height: float) -> Floats:
        """x + 2 t r + t^2 v, r being the first step and v its change; t = |r| / |v|, or less if that lowers T."""
        r = first - x
        v = second - first - r
        w = np.exp(first)
        length = float(np.sqrt(np.sum(w * r * r) / max(float(np.sum(w * v * v)), 1e-300)))
        while length > 1 and not self._done():
            reached, own = self._step(_normal(x + 2 * length * r + length**2 * v))
            if own >= height:
                return reached
            length = (length + 1) / 2 if length > 1.5 else 1.0
        return second

    def _step(self, x: Floats) -> tuple[Floats, float]:
        """One multiplicative step from log weights x, and T(x)."""
        w = np.exp(x)
        v = self.rows.T @ w
        height = float(np.sum(np.sqrt(self.privacy * v)) ** 2 / self.pcost)
        s = minimise_sum(v, self.privacy, self.pcost)
        variances = self.rows @ s
        value = float(variances.max())
        if value < self.value:
            self.value, self.best = value, s
        self.lower = max(self.lower, height)
        self.count += 1
        return _normal(x + 2 * np.log(np.maximum(variances, 1e-300))), height

    def _done(self) -> bool:
        return self.value <= (1 + self.tolerance) * self.lower or self.count >= self.iterations


def _normal(x: Floats) -> Floats:
    """Log weights that add up to one, none so low that it could not come back."""
    x = np.maximum(x - x.max(), -600.0)
    return np.asarray(x - np.log(np.sum(np.exp(x))))
