"""Conversions between privacy notions, each rounded against the user.

Notation: rho is zCDP, mu is Gaussian DP, and (epsilon, delta) is approximate DP under the same neighbour relation.
A delta or epsilon that comes out is never below the true value of its formula; a rho or mu never above. The formulas
are evaluated at 240 bits or more and rounded outward once, so that rounding errors cannot give privacy away.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
from scipy.optimize import minimize_scalar

_BITS = 240
_LOWEST, _HIGHEST = -45.0, 75.0  # range of log(alpha - 1); any alpha > 1 gives a valid bound


def zcdp_delta(rho: float, epsilon: float) -> float:
    """The delta at which rho-zCDP implies (epsilon, delta)-DP.

    delta = min over alpha > 1 of exp((alpha-1)(alpha rho - epsilon)) / (alpha-1) * (1 - 1/alpha)^alpha

    Reference: [CKS20, Cor. 13]; [AIM, Prop. 4].
    """
    if rho == 0:
        return 0.0

    def log_delta(alpha: Any, m: Any) -> Any:
        return (alpha - 1) * (alpha * rho - epsilon) + _entropy_term(alpha, m)

    alpha = _best_alpha(lambda a: log_delta(a, math))
    with mpmath.workprec(_BITS):
        bound = mpmath.exp(log_delta(mpmath.mpf(alpha), mpmath))
        return min(1.0, _up(bound))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The epsilon at which rho-zCDP implies (epsilon, delta)-DP: the formula of `zcdp_delta` solved for epsilon."""
    if rho == 0:
        return 0.0
    if delta == 0:
        return math.inf

    def epsilon_of(alpha: Any, m: Any) -> Any:
        return alpha * rho + (_entropy_term(alpha, m) - m.log(delta)) / (alpha - 1)

    alpha = _best_alpha(lambda a: epsilon_of(a, math))
    with mpmath.workprec(_BITS):
        return max(0.0, _up(epsilon_of(mpmath.mpf(alpha), mpmath)))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho found for which rho-zCDP implies (epsilon, delta)-DP; 0 where delta is 0.

    rho = max over alpha > 1 of (epsilon + (log delta - (alpha-1) log(alpha-1) + alpha log alpha)/(alpha-1)) / alpha
    """
    if delta == 0:
        return 0.0

    def rho_of(alpha: Any, m: Any) -> Any:
        return (epsilon + (m.log(delta) - _entropy_term(alpha, m)) / (alpha - 1)) / alpha

    alpha = _best_alpha(lambda a: -rho_of(a, math))
    with mpmath.workprec(_BITS):
        return max(0.0, _down(rho_of(mpmath.mpf(alpha), mpmath)))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The delta of mu-Gaussian DP at epsilon: Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

    Reference: [Balle and Wang 2018, Thm 8]; [ResidualPlanner, sec. 2].
    """
    if mu == 0:
        return 0.0
    with mpmath.workprec(_BITS + 160):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        delta = _normal_cdf(m / 2 - e / m) - mpmath.exp(e) * _normal_cdf(-m / 2 - e / m)
        return min(1.0, _up(delta))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The epsilon of mu-Gaussian DP at delta: the smallest one with `gaussian_delta(mu, epsilon) <= delta`."""
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if delta == 0:
        return math.inf
    return _least(lambda epsilon: gaussian_delta(mu, epsilon) <= delta)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu for which mu-Gaussian DP implies (epsilon, delta)-DP; 0 where delta is 0.

    1/mu is the noise scale of the analytic Gaussian mechanism at sensitivity 1.
    """
    if delta == 0:
        return 0.0
    return 1.0 / _least(lambda scale: gaussian_delta(_quotient_up(scale), epsilon) <= delta)


def _entropy_term(alpha: Any, m: Any) -> Any:
    """(alpha-1) log(alpha-1) - alpha log(alpha), written so that floats do not cancel."""
    return alpha * m.log1p(-1 / alpha) - m.log(alpha - 1)


def _best_alpha(objective: Callable[[float], float]) -> float:
    """The order alpha that minimises a function quasi-convex in alpha, to the accuracy of floats."""
    found = minimize_scalar(
        lambda u: objective(1.0 + math.exp(u)),
        bounds=(_LOWEST, _HIGHEST),
        method="bounded",
        options={"xatol": 1e-10, "maxiter": 500},
    )
    return 1.0 + math.exp(float(found.x))


def _least(holds: Callable[[float], bool]) -> float:
    """The least positive float for which a monotone predicate holds, to 1e-15 of its value."""
    high = 1.0
    while not holds(high):
        high *= 2
        if math.isinf(high):
            return math.inf
    low = high / 2
    while low > 0 and holds(low):
        low, high = low / 2, low
    while high - low > 1e-15 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _quotient_up(scale: float) -> float:
    return math.nextafter(1.0 / scale, math.inf)


def _normal_cdf(x: Any) -> Any:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def _up(value: Any) -> float:
    """The next float above an exact value."""
    near = float(value)
    return near if near > value else math.nextafter(near, math.inf)


def _down(value: Any) -> float:
    near = float(value)
    return near if near < value else math.nextafter(near, -math.inf)
