"""Gaussian domination: for each event, the mu of a Gaussian mechanism that is at most as private.

A mechanism is mu-GDP if telling two neighbours apart by its output is at least as hard as telling N(0, 1) from N(mu, 1)
by one draw. mu^2 adds up under composition, also if later events depend on earlier answers.

Discrete Gaussian noise Y of variance parameter sigma^2 on one count that moves by 1. Its tests are the thresholds
Y >= k, and the Gaussian of mean shift mu dominates it if and only if mu is at least every gap

    z(k + 1) - z(k),   with z(k) the normal quantile of P(Y < k).

The gaps are largest in the middle, z(1) - z(0) = 2 z(1), by this argument. Let d_k be the gap from k to k + 1, the
length of an interval to which the normal law gives the mass p_k = P(Y = k). The second difference of log p_k is
-1 / sigma^2 for every k. For intervals of equal length d around x it would be -d^2 + V(d, x), where V averages the
variances of the normal law within them: V falls as x moves away from 0, and d^2 - V(d, x) grows with d. At a local
maximum of d_k, its neighbours have less mass than intervals of equal length, so 1 / sigma^2 >= d^2 - V(d, x); at a
local minimum, 1 / sigma^2 <= d^2 - V(d, x). So no local maximum is further out than a local minimum and larger. The
gaps tend to 1 / sigma, and at a local minimum d > 1 / sigma, so there is none: the gaps fall from the middle outwards.

Since P(Y < 1) = (1 + P(Y = 0)) / 2 and P(Y = 0) < 1 / (sigma sqrt(2 pi)), the middle gap is below the rational bound

    mu <= (1 + c / sigma^2) / sigma,   c = 11/240 for sigma >= 1,   c = 1/15 (and mu <= 2 / sigma) below.

A shift by an integer s has s gaps, so a shift of L2 norm Delta over independent cells has Delta^2 times the mu^2.

Bounded losses. A choice by the exponential mechanism at epsilon has a privacy loss within an interval of length w =
epsilon, and pure epsilon-DP one within w = 2 epsilon. Such an event followed by anything that is r-GDP (r = mu^2) is
dominated by the Gaussian of

    mu^2 = r + c   wherever   1/c + 1/r <= 4 / w^2,   that is   c = a / (1 - a / r),   a = w^2 / 4,

so beside enough other noise it costs the a = 2 rho of zCDP and hardly more. Proof. Let L be the loss of the event under
the second law Q. With Gaussian noise of r after it, the total loss has the density f of L + N(-r/2, r), and
(log f)'' = -1/r + Var(L | total) / r^2 <= -1/r + a / r^2, since a variable within an interval of length w has a
variance of at most w^2 / 4. The loss of the Gaussian mechanism of r + c has a density g with
(log g)'' = -1 / (r + c). The condition makes log(f / g) concave, so f exceeds g on one interval alone, and the two
distribution functions cross once. Both losses have E_Q[e^loss] = 1. Of two positive variables with the same mean whose
distribution functions cross once, the one whose function is below first has the smaller E[(e^loss - e^epsilon)+], which
is delta, at every epsilon. Delta at epsilon less the loss so far is the potential of the filter: its mean does not rise
with any event that is charged, so later events may depend on earlier answers.

Reference: [Dong et al. 2022, Def. 2.6 and Cor. 3.3]; [Smith and Thakurta 2022] for adaptive composition;
[Dong, Durfee and Rogers 2020] for the bounded range of choices; [Karlin and Novikoff 1963] for the crossing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from hush.privacy.events import ComposedEvent, DiscoveryEvent, Event, GaussianEvent, SelectionEvent

PI = Fraction(355, 113)  # above pi
_MOST_STEPS, _STEPS_UP = 64, 12  # towards the fixed point of `Demand.left_after`


@dataclass(frozen=True, slots=True)
class Demand:
    """What events ask of an account in Gaussian DP, in units of mu^2 / 2, which is rho for continuous Gaussian noise.

    `gaussian` is the sum for Gaussian noise. `bounded` has the rho = a / 2 of every event of bounded loss, and how
    often it happened; what such an event costs depends on what is left after it.
    """

    gaussian: Fraction = Fraction(0)
    bounded: Counter[Fraction] = field(default_factory=Counter)

    @classmethod
    def of(cls, event: Event) -> Demand | None:
        """The demand of an event, except for its delta; None if the event has no bound at all."""
        gaussian, bounded = [], Counter[Fraction]()
        for part, count in event.parts if isinstance(event, ComposedEvent) else ((event, 1),):
            if isinstance(part, GaussianEvent):
                gaussian.append(count * half_mu_squared(part.variance, part.sensitivity_l2_squared))
            elif part.cost.rho is None or part.cost.epsilon is None:
                return None
            elif part.cost.rho:
                bits = part.keys if isinstance(part, DiscoveryEvent) else 1
                bounded[part.cost.rho / bits] += count * bits
        return cls(_total(gaussian), bounded)

    @property
    def least(self) -> Fraction:
        """The least that it can cost, beside unlimited other noise: the rho of zCDP of bounded losses."""
        return self.gaussian + _total(rho * count for rho, count in self.bounded.items())

    def cost(self, left: Fraction) -> Fraction:
        """The cost if at least `left` stays unspent afterwards."""
        each = ((_bounded_cost(rho, left), count) for rho, count in self.bounded.items())
        return self.gaussian + _total(cost * count for cost, count in each)

    def left_after(self, budget: Fraction) -> Fraction | None:
        """What is left of a budget, rounded down; None if the budget does not cover the demand.

        The largest r found with r <= budget - cost(r). If r is one, so is budget - cost(r), since costs fall with r.
        """
        if not self.bounded:
            return budget - self.gaussian if budget >= self.gaussian else None
        # From above towards the fixed point, until a step beyond it covers the demand.
        above, left = budget - self.least, Fraction(-1)
        for _ in range(_MOST_STEPS):
            covered = budget - self.cost(max(above, Fraction(0)))
            if (below := shortened(2 * covered - above, budget)) < 0:
                break
            if below <= budget - self.cost(below):
                left = below
                break
            above = covered
        # Then from below; without any other noise left, a bounded loss costs at most pi / 2 times its rho.
        left = max(left, budget - self.cost(Fraction(0)))
        if left < 0:
            return None
        for _ in range(_STEPS_UP):
            left = max(left, shortened(budget - self.cost(left), budget))
        return left


def bounded_rho(cost: Fraction, left: Fraction) -> Fraction:
    """The rho that one event of bounded loss may have so that it costs at most `cost` where `left` stays unspent.

    >>> bounded_rho(Fraction(1), Fraction(99))
    Fraction(99, 100)
    """
    return max(cost * left / (left + cost), cost * 2 / PI)


def _bounded_cost(rho: Fraction, left: Fraction) -> Fraction:
    alone = rho * PI / 2
    return alone if left <= rho else min(alone, rho * left / (left - rho))


def _total(amounts: Iterable[Fraction]) -> Fraction:
    return sum(amounts, Fraction(0))


def shortened(value: Fraction, scale: Fraction) -> Fraction:
    """A binary fraction at most 2^-80 of the scale below a value: sums of many such numbers stay short."""
    shift = 80 - (scale.numerator.bit_length() - scale.denominator.bit_length())
    unit = Fraction(2) ** -shift
    return (value // unit) * unit


def half_mu_squared(variance: Fraction, sensitivity_l2_squared: Fraction) -> Fraction:
    """mu^2/2 of discrete Gaussian noise of a variance parameter, rounded up."""
    excess = (Fraction(11, 240) if variance >= 1 else Fraction(1, 15)) / variance
    exact = sensitivity_l2_squared / variance * (1 + min(excess, Fraction(1))) ** 2 / 2
    return -shortened(-exact, exact)


def dominating_mu_squared(event: Event) -> Fraction | None:
    """The square of a mu for which an event is mu-GDP, except with the event's own delta; None if there is none.

    A pure epsilon-DP event has mu = 2 z(e^epsilon / (1 + e^epsilon)), with z the normal quantile, which is below
    epsilon sqrt(pi/2). A choice by the exponential mechanism has bounded range, so that half of epsilon counts.

    >>> dominating_mu_squared(GaussianEvent(Fraction(100), Fraction(1))) < Fraction(10_010, 1_000_000)
    True

    Privacy: rounded against the spender.
    Reference: [Dong et al. 2022, sec. 2] for pure DP; [Dong, Durfee and Rogers 2020] for bounded range.
    """
    if isinstance(event, GaussianEvent):
        return 2 * half_mu_squared(event.variance, event.sensitivity_l2_squared)
    epsilon = event.epsilon / 2 if isinstance(event, SelectionEvent) else event.cost.epsilon
    return None if epsilon is None else epsilon**2 * PI / 2
