"""Total epsilon: the (epsilon, delta) that a list of events adds up to, by the tightest sound route at hand.

The exact cost of a composition, in rho and in pure epsilon, is `ComposedEvent.cost` in `events`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from hush.core.rational import float_down, float_up, root_down, shown_up
from hush.privacy.budget import Cost, require_delta
from hush.privacy.conversions import mixed_epsilon, zcdp_epsilon
from hush.privacy.events import ComposedEvent, Event, GaussianEvent, LaplaceEvent, compose, price

_MOST_KINDS = 64  # distinct events; each costs a convolution
_MOST_TIMES = 100_000  # events in all; beyond, rounding losses to a grid costs more than the route gains
_MOST_POINTS = 1_000_000  # noise values to enumerate, and grid cells to keep; about two seconds
_CUT_OFF = 11.6  # standard deviations at which dp-accounting cuts off the discrete Gaussian, with 1e-30 beyond


@dataclass(frozen=True, slots=True)
class TotalEpsilon:
    """(epsilon, delta)-DP, and the route by which it is known.

    `basis`: "zCDP" from the sum of rho; "Renyi" from that sum with what is pure counted as such; "PLD" from composing
    privacy loss distributions; "pure" from the sum of epsilons, which holds at delta = 0 too.
    """

    epsilon: float
    delta: float
    basis: Literal["zCDP", "Renyi", "PLD", "pure"]

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

    Reference: [CKS20, Prop. 12 and Cor. 13] for Renyi and zCDP; [Koskela et al. 2020], [Doroshenko et al. 2022] for
    PLD.
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
    parts = composed.parts if isinstance(composed, ComposedEvent) else ((composed, 1),)
    by_pld = _pld_epsilon(parts, rest, min(total.epsilon for total in totals))
    if by_pld is not None:
        totals.append(TotalEpsilon(by_pld, float(delta), "PLD"))
    elif (mixed := _renyi_epsilon(parts, rest)) is not None:
        totals.append(TotalEpsilon(mixed, float(delta), "Renyi"))
    return min(totals, key=lambda total: total.epsilon)


def _renyi_epsilon(parts: tuple[tuple[Event, int], ...], delta: float) -> float | None:
    """Epsilon at delta of Laplace noise, as randomised response at the best order, with other noise, in zCDP.

    None unless there are both. It is for noise on many cells at once, whose loss distribution nobody knows.
    """
    pure: Counter[Fraction] = Counter()
    others: list[Cost] = []
    for event, count in parts:
        if isinstance(event, LaplaceEvent):
            pure[event.sensitivity_l1 / event.scale] += count
        else:
            others.append(event.cost.times(count))
    rho = Cost.total(others).rho
    if not rho or not 0 < len(pure) <= _MOST_KINDS or delta == 0:
        return None
    return mixed_epsilon(float_up(rho), [(float_up(epsilon), count) for epsilon, count in pure.items()], delta)


@dataclass(frozen=True, slots=True)
class _Loss:
    """What is needed to lay out the privacy loss of one event: its reach, and the noise values to enumerate.

    `sigma` is that of the discrete Gaussian on one cell; None stands for randomised response at `reach`, which
    dominates every mechanism of that pure epsilon (and is the discrete Laplace itself at sensitivity 1).
    """

    reach: float
    sigma: float | None = None

    @property
    def points(self) -> float:
        return 2 if self.sigma is None else 2 * _CUT_OFF * self.sigma

    def norm(self, step: float) -> float:
        """A bound on the Euclidean norm of the distribution on a grid: the root of its largest probability."""
        if self.sigma is None:
            return 1.0
        return min(1.0, math.sqrt((1 + step * self.sigma**2) / (self.sigma * math.sqrt(2 * math.pi))))

    def distribution(self, step: float) -> Any:
        # Imported here: it takes a second, and most runs never need it.
        from dp_accounting.pld import common, privacy_loss_distribution

        if self.sigma is None:
            parameters = common.DifferentialPrivacyParameters(self.reach, 0.0)
            return privacy_loss_distribution.from_privacy_parameters(parameters, value_discretization_interval=step)
        return privacy_loss_distribution.from_discrete_gaussian_mechanism(
            self.sigma, sensitivity=1, pessimistic_estimate=True, value_discretization_interval=step
        )


def _loss(event: Event) -> _Loss | None:
    """The privacy loss of an event, or None where no distribution is known to dominate it."""
    if isinstance(event, GaussianEvent):
        if not event.single_cell:
            return None
        sigma = root_down(event.variance)
        return _Loss((_CUT_OFF + 1) / sigma + 1 / sigma**2, sigma) if sigma > 0 else None
    epsilon = event.cost.epsilon
    return None if epsilon is None else _Loss(float_up(epsilon))


def _pld_epsilon(parts: tuple[tuple[Event, int], ...], delta: float, known: float) -> float | None:
    """Epsilon at delta by composing privacy loss distributions, or None where that is unsound, too slow or no gain.

    Losses are rounded up to a grid; `known`, an epsilon that holds anyway, sets its step.
    """
    losses = [(_loss(event), count) for event, count in parts]
    times = sum(count for _, count in losses)
    if not (0 < known < math.inf and delta > 0 and 0 < len(losses) <= _MOST_KINDS and times <= _MOST_TIMES):
        return None
    step = known / (10_000 + 100 * min(times, 10_000))  # rounding up costs half a step for each event
    usable = [(loss, count) for loss, count in losses if loss is not None]
    cells = sum(2 * loss.reach / step for loss, _ in usable)
    if len(usable) < len(losses) or sum(loss.points for loss, _ in usable) + cells > _MOST_POINTS:
        return None
    try:
        with np.errstate(all="ignore"):
            return _composed_epsilon(usable, delta, step)
    except (ArithmeticError, ValueError, AttributeError):
        return None  # zCDP stands


def _composed_epsilon(losses: list[tuple[_Loss, int]], delta: float, step: float) -> float | None:
    composed = None
    for loss, count in losses:
        repeated = loss.distribution(step)
        if count > 1:
            repeated = repeated.self_compose(count)
        composed = repeated if composed is None else composed.compose(repeated)
    if composed is None:
        return None
    # The Fourier transforms of length N behind a convolution are off by at most 7 u log2(N) in relative Euclidean
    # norm, u = 2^-53 [Higham 2002, Thm 24.2]. A power of n multiplies that by n, sums over the tail by sqrt(N).
    length = 2.0 * composed._pmf_remove.size
    steps = sum(count * loss.norm(step) + 4 for loss, count in losses)
    convolved = len(losses) > 1 or losses[0][1] > 1
    error = math.sqrt(length) * 7 * 2**-53 * math.log2(length) * steps if convolved else 0.0
    target = delta * (1 - 1e-9) - error
    if target < delta / 2:
        return None
    epsilon = float(composed.get_epsilon_for_delta(target))
    for margin in (1e-9, 1e-6, 1e-3):
        raised = epsilon * (1 + margin)
        if 0 <= raised < math.inf and 0 <= float(composed.get_delta_for_epsilon(raised)) <= target:
            return raised
    return None
