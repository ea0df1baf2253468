"""Total epsilon: the (epsilon, delta) that a list of events adds up to, by the tightest sound route at hand.

The exact cost of a composition, in rho and in pure epsilon, is `ComposedEvent.cost` in `events`. The route called PLD
composes privacy losses. The loss of a Gaussian mechanism is normal, so all Gaussian noise together is one normal loss
(see `gaussian_domination`). Pure noise is dominated by randomised response, whose loss is epsilon or -epsilon, and few
draws of narrow discrete Gaussian noise have losses that can be listed. With the listed losses c of probability p,

    delta(epsilon) = sum p H(epsilon - c),   H(x) = Phi(mu/2 - x/mu) - e^x Phi(-mu/2 - x/mu),

with no transform; only more than 8,192 losses are rounded up to a grid.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from hush.core.arrays import Floats
from hush.core.rational import float_down, float_up, shown_up
from hush.privacy.budget import require_delta
from hush.privacy.conversions import gaussian_epsilon, zcdp_epsilon
from hush.privacy.events import (
    ComposedEvent,
    DiscoveryEvent,
    Event,
    GaussianEvent,
    RareKeyEvent,
    SelectionEvent,
    compose,
    price,
)
from hush.privacy.gaussian_domination import Demand

_WIDE_VARIANCE = 9  # from here on a discrete Gaussian costs at most 1 % more epsilon as a continuous one
_LEAST_VARIANCE = Fraction(1, 4096)  # of listed noise, the least that hush draws; less is beyond any use
_MOST_NARROW = 10_000  # draws of narrow noise to list
_MOST_RESPONSES = 10_000  # randomised responses of one epsilon to list: 1,400 losses at most
_MOST_LOSSES = 1 << 13  # listed losses; beyond, they are rounded up to a grid, so that a step holds 100 MB at most
_NEGLIGIBLE = 1e-25  # probability that is added to delta instead of being listed
_ROUNDING = 1e-14  # bounds the absolute rounding error of delta, a sum of probabilities each off by some 1e-16


@dataclass(frozen=True, slots=True)
class TotalEpsilon:
    """(epsilon, delta)-DP, and the route by which it is known.

    `basis`: "zCDP" from the sum of rho; "GDP" from a Gaussian mechanism that dominates all events; "PLD" from composing
    privacy losses; "pure" from the sum of epsilons, which holds at delta = 0 too.
    """

    epsilon: float
    delta: float
    basis: Literal["zCDP", "GDP", "PLD", "pure"]

    def __str__(self) -> str:
        return f"epsilon={shown_up(self.epsilon)} at delta={self.delta:g} ({self.basis})"


def total_epsilon(events: Event | Iterable[Event], delta: float) -> TotalEpsilon:
    """The smallest epsilon known to hold at delta for all events together; infinite if none does.

    >>> from fractions import Fraction
    >>> from hush.privacy.events import LaplaceEvent
    >>> total_epsilon([LaplaceEvent(Fraction(2), Fraction(1))] * 2, 0.0)
    TotalEpsilon(epsilon=1.0, delta=0.0, basis='pure')

    Privacy: holds for events whose kinds and scales were fixed beforehand. If they depended on earlier answers, the
    promise is that of the budget that limited them.

    The delta of an event is the probability of outcomes that its other bounds leave out, so it is subtracted from
    `delta` first, and the conversion gets the rest [BS16, sec. 8].

    Reference: [CKS20, Cor. 13] for zCDP; [Koskela et al. 2020] for PLD; [Dong et al. 2022] for GDP.
    """
    require_delta(delta)
    composed = events if isinstance(events, Event) else compose(events)
    cost = price(composed)
    if cost.rho is None or cost.delta > Fraction(delta):
        return TotalEpsilon(math.inf, float(delta), "zCDP")
    rest = float_down(Fraction(delta) - cost.delta)  # what events with a delta of their own leave to the conversion
    totals = [TotalEpsilon(zcdp_epsilon(float_up(cost.rho), rest), float(delta), "zCDP")]
    if cost.epsilon is not None:
        totals.append(TotalEpsilon(float_up(cost.epsilon), float(delta), "pure"))
    if rest > 0 and math.isfinite(min(total.epsilon for total in totals)):
        parts = composed.parts if isinstance(composed, ComposedEvent) else ((composed, 1),)
        with np.errstate(all="ignore"):  # losses beyond floats have delta 1
            totals.append(_by_losses(parts, rest, float(delta)))
    return min(totals, key=lambda total: total.epsilon)


def _by_losses(parts: Iterable[tuple[Event, int]], delta: float, stated: float) -> TotalEpsilon:
    """The epsilon at delta of one normal loss and listed losses; infinite where rounding errors could be seen."""
    # Sort the events: what is listed, and what becomes part of the normal loss.
    listed, narrow, wide = _Losses(np.zeros(1), np.ones(1)), Counter[GaussianEvent](), Counter[Event]()
    for event, count in parts:
        if isinstance(event, RareKeyEvent):  # nothing but a delta, which `total_epsilon` subtracted
            continue
        if (
            isinstance(event, GaussianEvent)
            and event.single_cell
            and _LEAST_VARIANCE <= event.variance < _WIDE_VARIANCE
        ):
            narrow[event] += count
            continue
        responses = event.keys * count if isinstance(event, DiscoveryEvent) else count
        epsilon = None if isinstance(event, SelectionEvent) else event.cost.epsilon
        if epsilon is not None and responses <= _MOST_RESPONSES:
            listed = listed.with_responses(float_up(epsilon * count / responses), responses)
        else:
            wide[event] += count
    if narrow.total() > _MOST_NARROW:
        wide.update(narrow)
        narrow.clear()
    for event, count in narrow.items():
        listed = listed.plus(_narrow_losses(float_down(event.variance), count))
    demand = Demand.of(ComposedEvent(tuple(wide.items())))
    if demand is None:
        return TotalEpsilon(math.inf, stated, "GDP")
    # A choice may come after all noise, and which candidates it scores may depend on that.
    mu = math.sqrt(2 * float_up(demand.cost(Fraction(0)))) * (1 + 1e-15)

    # Solve for epsilon.
    if not listed.values.any() and listed.beyond == 0:
        return TotalEpsilon(gaussian_epsilon(mu, delta), stated, "GDP")
    target = delta * (1 - 1e-7) - _ROUNDING
    if target < delta / 2 or listed.delta_at(math.inf, mu) > target:
        return TotalEpsilon(math.inf, stated, "PLD")
    low, high = 0.0, 1.0
    while high < 1e9 and listed.delta_at(high, mu) > target:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if listed.delta_at(middle, mu) <= target else (middle, high)
    return TotalEpsilon(high * (1 + 1e-9) if listed.delta_at(high, mu) <= target else math.inf, stated, "PLD")


@dataclass(frozen=True, slots=True, eq=False)
class _Losses:
    """Listed privacy losses, their probabilities, and the probability that the loss is beyond all of them."""

    values: Floats
    masses: Floats
    beyond: float = 0.0

    def plus(self, other: _Losses) -> _Losses:
        """The losses of both together; too many are rounded up to a grid."""
        values = np.add.outer(self.values, other.values).ravel()
        masses = np.multiply.outer(self.masses, other.masses).ravel()
        return _listed(values, masses, self.beyond + other.beyond)

    def with_responses(self, epsilon: float, count: int) -> _Losses:
        """These losses and those of `count` randomised responses: (count - 2 lies) epsilon."""
        from scipy.special import gammaln

        lying = math.exp(-epsilon) / (1 + math.exp(-epsilon))
        # A binomial number of lies; beyond 12 standard deviations and 60 lies, less than 1e-25 is left.
        deviations = 12 * math.sqrt(count * lying * (1 - lying)) + 60
        fewest, most = math.floor(count * lying - deviations), math.ceil(count * lying + deviations)
        lies = np.arange(max(0, fewest), min(count, most) + 1.0)
        ways = gammaln(count + 1) - gammaln(lies + 1) - gammaln(count - lies + 1)
        masses = np.exp(ways - lies * epsilon - count * math.log1p(math.exp(-epsilon)))
        return self.plus(_Losses((count - 2 * lies) * epsilon, masses, _NEGLIGIBLE if len(lies) <= count else 0.0))

    def delta_at(self, epsilon: float, mu: float) -> float:
        """delta(epsilon) of these losses and a normal loss of mean mu^2 / 2 and variance mu^2."""
        from scipy.special import log_ndtr, ndtr

        if math.isinf(epsilon):
            return self.beyond
        x = epsilon - self.values
        if mu == 0:
            terms = -np.expm1(np.minimum(x, 0.0))
        else:
            terms = ndtr(mu / 2 - x / mu) - np.exp(x + log_ndtr(-mu / 2 - x / mu))
        return float(self.masses @ np.maximum(terms, 0.0)) + self.beyond


def _narrow_losses(variance: float, count: int) -> _Losses:
    """The losses (count + 2 y) / (2 sigma^2) of the sum y of `count` draws of discrete Gaussian noise.

    The law of y by repeated doubling; convolving positive numbers directly loses no relative precision.
    """
    reach = math.ceil(11 * math.sqrt(variance)) + 2
    weights = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * variance))
    single = weights / weights.sum()
    law, middle, beyond = np.ones(1), 0, 0.0
    for digit in f"{count:b}":
        law, middle, beyond = np.convolve(law, law), 2 * middle, 2 * beyond
        if digit == "1":
            law, middle, beyond = np.convolve(law, single), middle + reach, beyond + _NEGLIGIBLE
        seen = np.flatnonzero(law > _NEGLIGIBLE / _MOST_LOSSES)
        first, last = int(seen[0]), int(seen[-1]) + 1
        beyond += float(law[:first].sum() + law[last:].sum())
        law, middle = law[first:last], middle - first
    return _Losses((count + 2 * (np.arange(len(law)) - middle)) / (2 * variance), law, beyond)


def _listed(values: Floats, masses: Floats, beyond: float) -> _Losses:
    """Losses without those of negligible probability; equal ones are merged, and too many rounded up to a grid."""
    seen = masses > _NEGLIGIBLE / _MOST_LOSSES
    beyond, values, masses = beyond + float(masses[~seen].sum()), values[seen], masses[seen]
    order = np.argsort(values)
    values, masses = values[order], masses[order]
    if len(values) > _MOST_LOSSES:
        step = (values[-1] - values[0]) / _MOST_LOSSES
        places = np.ceil((values - values[0]) / step).astype(np.int64)
        masses = np.bincount(places, weights=masses).astype(np.float64)
        values = values[0] + step * np.arange(len(masses)) * (1 + 1e-12)
    else:
        first = np.concatenate([[True], np.diff(values) > 1e-12 * np.abs(values[1:])])
        values, masses = (
            np.maximum.reduceat(values, np.flatnonzero(first)),
            np.add.reduceat(masses, np.flatnonzero(first)),
        )
    return _Losses(values, masses, beyond)
