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

Reference: [Dong et al. 2022, Def. 2.6 and Cor. 3.3]; [Smith and Thakurta 2022] for adaptive composition.
"""

from __future__ import annotations

from fractions import Fraction

from hush.privacy.events import Event, GaussianEvent, SelectionEvent

_PI = Fraction(355, 113)  # above pi


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
        excess = (Fraction(11, 240) if event.variance >= 1 else Fraction(1, 15)) / event.variance
        return event.sensitivity_l2_squared / event.variance * (1 + min(excess, Fraction(1))) ** 2
    epsilon = event.epsilon / 2 if isinstance(event, SelectionEvent) else event.cost.epsilon
    return None if epsilon is None else epsilon**2 * _PI / 2
