"""Conversions between privacy notions, each rounded towards more privacy.

Notation: rho is zCDP, mu is Gaussian DP, and (epsilon, delta) is approximate DP under the same neighbour relation.
A delta or epsilon that comes out is never below the true value of its formula; a rho or mu never above. The formulas
are evaluated at 240 bits or more and rounded outward once, so that rounding errors cannot give privacy away.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from functools import lru_cache
from typing import Any

_WORKING_BITS = 240
_MANY_DIGITS = Context(
    prec=120, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[]
)  # digits; 240 bits are 72, and log1p may lose 35
_LOWEST, _HIGHEST = -45.0, 75.0  # range of log(alpha - 1); any alpha > 1 gives a valid bound
_NEGLIGIBLE_TAIL = 1e5  # beyond this many standard deviations a normal tail is below the smallest float
_SMALLEST_FLOAT = math.ulp(0.0)


def zcdp_delta(rho: float, epsilon: float) -> float:
    """The delta at which rho-zCDP implies (epsilon, delta)-DP.

    delta = min over alpha > 1 of exp((alpha-1)(alpha rho - epsilon)) / (alpha-1) * (1 - 1/alpha)^alpha

    Reference: [CKS20, Cor. 13]; [AIM, Prop. 4].
    """
    if rho == 0 or epsilon == math.inf:
        return 0.0

    def log_delta(t: Any, rho: Any, epsilon: Any, m: Any) -> Any:
        return t * ((1 + t) * rho - epsilon) + _entropy_term(t, m)

    t = _best_order(lambda t: log_delta(t, rho, epsilon, math))
    with localcontext(_MANY_DIGITS):
        return min(1.0, _up(log_delta(Decimal(t), Decimal(rho), Decimal(epsilon), _Decimals).exp()))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The epsilon at which rho-zCDP implies (epsilon, delta)-DP: the formula of `zcdp_delta` solved for epsilon."""
    if rho == 0:
        return 0.0
    if delta == 0:
        return math.inf

    def epsilon_of(t: Any, rho: Any, delta: Any, m: Any) -> Any:
        return (1 + t) * rho + (_entropy_term(t, m) - m.log(delta)) / t

    t = _best_order(lambda t: epsilon_of(t, rho, delta, math))
    with localcontext(_MANY_DIGITS):
        return max(0.0, _up(epsilon_of(Decimal(t), Decimal(rho), Decimal(delta), _Decimals)))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho found for which rho-zCDP implies (epsilon, delta)-DP; 0 where delta is 0.

    rho = max over alpha > 1 of (epsilon + (log delta - (alpha-1) log(alpha-1) + alpha log alpha)/(alpha-1)) / alpha
    """
    if delta == 0:
        return 0.0

    def rho_of(t: Any, epsilon: Any, delta: Any, m: Any) -> Any:
        return (epsilon + (m.log(delta) - _entropy_term(t, m)) / t) / (1 + t)

    t = _best_order(lambda t: -rho_of(t, epsilon, delta, math))
    with localcontext(_MANY_DIGITS):
        return max(0.0, _down(rho_of(Decimal(t), Decimal(epsilon), Decimal(delta), _Decimals)))


def zcdp_order(epsilon: float, delta: float) -> float:
    """t = alpha - 1 for the order alpha behind `zcdp_rho`, where that rho and the conversion add up to epsilon."""
    return _best_order(lambda t: -(epsilon + (math.log(delta) - _entropy_term(t, math)) / t) / (1 + t))


def pure_renyi(epsilon: float, t: float) -> float:
    """The Renyi divergence of order 1 + t of randomised response, the largest of any epsilon-DP mechanism.

    log((e^(epsilon (1 + t)) + e^(-epsilon t)) / (1 + e^epsilon)) / t

    Reference: [Mironov 2017, Prop. 5].
    """
    import mpmath

    with mpmath.workprec(_WORKING_BITS):
        e, order = mpmath.mpf(epsilon), mpmath.mpf(t)
        return _up(e + (mpmath.log1p(mpmath.exp(-e * (1 + 2 * order))) - mpmath.log1p(mpmath.exp(-e))) / order)


def pure_delta(pure_epsilon: float, epsilon: float) -> float:
    """The delta of pure DP at a smaller epsilon: (e^pure - e^epsilon) / (e^pure + 1), that of randomised response.

    Reference: [Kairouz, Oh and Viswanath 2015, Thm 3.3] for one mechanism.
    """
    import mpmath

    if epsilon >= pure_epsilon:
        return 0.0
    with mpmath.workprec(_WORKING_BITS):
        limit, e = mpmath.mpf(pure_epsilon), mpmath.mpf(epsilon)
        return min(1.0, _up(-mpmath.expm1(e - limit) / (1 + mpmath.exp(-limit))))


def near_gaussian_delta(mu: float, epsilon: float) -> float:
    """`gaussian_delta` in floats, to about 1e-12 of its value; for checks of files, where loading mpmath takes long."""
    if mu <= 0 or math.isinf(epsilon):
        return 0.0
    if epsilon > 600:
        return gaussian_delta(mu, epsilon)
    reach = mu / 2 - epsilon / mu
    upper, lower = (math.erfc(-x / math.sqrt(2)) / 2 for x in (reach, reach - mu))
    return max(upper - math.exp(epsilon) * lower, 0.0)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The delta of mu-Gaussian DP at epsilon: Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

    Reference: [Balle and Wang 2018, Thm 8]; [ResidualPlanner, sec. 2].
    """
    import mpmath

    if mu == 0 or epsilon == math.inf:
        return 0.0
    cancelled = max(0, -2 * math.frexp(mu)[1])  # bits that the difference of two nearly equal tails loses
    with mpmath.workprec(_WORKING_BITS + 160 + cancelled):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        reach = m / 2 - e / m
        if abs(reach) > _NEGLIGIBLE_TAIL:
            return 1.0 if reach > 0 else _SMALLEST_FLOAT
        delta = _normal_cdf(reach) - mpmath.exp(e) * _normal_cdf(reach - m)
        return min(1.0, _up(delta))


@lru_cache(maxsize=256)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """The epsilon of mu-Gaussian DP at delta: the smallest one with `gaussian_delta(mu, epsilon) <= delta`."""
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if delta == 0:
        return math.inf
    return _least(lambda epsilon: gaussian_delta(mu, epsilon) <= delta)


@lru_cache(maxsize=256)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu for which mu-Gaussian DP implies (epsilon, delta)-DP; 0 where delta is 0.

    1/mu is the noise scale of the analytic Gaussian mechanism at sensitivity 1.
    """
    if delta == 0:
        return 0.0
    return 1.0 / _least(lambda scale: gaussian_delta(math.nextafter(1.0 / scale, math.inf), epsilon) <= delta)


class _Decimals:
    """The functions of `math` that the formulas of zCDP use, on decimals and correctly rounded.

    Opening a release file evaluates these formulas, and importing mpmath would take longer than the rest.
    """

    @staticmethod
    def log(x: Decimal) -> Decimal:
        return x.ln()

    @staticmethod
    def log1p(x: Decimal) -> Decimal:
        return (1 + x).ln()


def _entropy_term(t: Any, m: Any) -> Any:
    """t log t - (1+t) log(1+t) at t = alpha - 1, written so that floats neither cancel nor overflow."""
    return -t * m.log1p(1 / t) - m.log1p(t)


def _best_order(objective: Callable[[float], float]) -> float:
    """The t = alpha - 1 that minimises a function quasi-convex in t, by golden section over log t."""
    low, high, ratio = _LOWEST, _HIGHEST, (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = objective(math.exp(left)), objective(math.exp(right))
    while high - low > 1e-10:
        if at_left <= at_right:  # a tie means that both overflow, far to the right
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = objective(math.exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = objective(math.exp(right))
    return math.exp((low + high) / 2)


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


def _normal_cdf(x: Any) -> Any:
    import mpmath

    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def _up(value: Any) -> float:
    """The next float above an exact value."""
    if value > sys.float_info.max:
        return math.inf
    near = float(value)
    return near if near > value else math.nextafter(near, math.inf)


def _down(value: Any) -> float:
    """The next float below an exact value."""
    return -_up(-value)
