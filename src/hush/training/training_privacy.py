"""Training privacy: the epsilon of private training, by the accountant of dp-accounting.

One step adds Gaussian noise of `noise` times the sensitivity to a sum over a lot. Lots of fixed size, drawn without
replacement, are accounted under replace-one. Poisson lots, which each row joins independently with probability
lot / rows, are accounted under add-remove. Steps compose in Renyi DP. Epsilon is the least bound over the orders tried;
trying fewer orders never understates it. For Poisson lots the steps are also composed as privacy loss distributions,
whose discretisation rounds losses up, and the smaller epsilon holds: in the document's settings it is 7 to 24 % below
that of Renyi DP. No such composition is known to dp-accounting for lots of fixed size. Epsilon depends on rows, lot,
epochs and noise alone, not on the learning rate, the clip or the optimiser.

Reference: [Wang, Balle and Kasiviswanathan 2019, Thm 27] and [Mironov, Talwar and Zhang 2019], as in dp-accounting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, TypeAlias, get_args

from hush.core.errors import SearchError
from hush.core.validation import check_choice, check_number, check_whole
from hush.privacy.conversions import gaussian_epsilon
from hush.privacy.events import ComposedEvent, Event, GaussianEvent, TrainingEvent

Sampling: TypeAlias = Literal["fixed", "poisson"]
RENYI_ORDERS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 300, 512, 1024)
LARGEST_REFINED_ORDER = 64  # orders between two of the list are tried up to here; beyond, they hardly differ
LOSS_STEP = 1e-4  # of privacy losses, which are rounded up to a multiple of it; wider in proportion beyond this epsilon
WIDER_STEPS_FROM, LARGEST_LOSS_EPSILON = 4.0, 100.0
LEAST_LOSS_DELTA = 1e-10  # below, rounding in Fourier transforms could matter
LOSS_DELTA_SLACK = 1e-12  # of probability, which such rounding could hide: many times what it is in doubles
CHARGE_STEP = 1e-9  # epsilons are charged rounded up to a multiple of this, since the accountant computes in floats


def steps_of(rows: int, lot: int, epochs: int) -> int:
    """How many steps training takes: as many lots as fill the rows, in each epoch."""
    return epochs * max(1, round(rows / lot))


def training_epsilon(
    *, rows: int, lot: int, epochs: int, noise: float, delta: float = 1e-5, sampling: Sampling = "fixed"
) -> float:
    """The epsilon of training at this delta; infinite without noise.

    >>> round(training_epsilon(rows=40_000, lot=128, epochs=10, noise=1.0), 4)
    1.8526
    """
    rows = check_whole(SearchError, "rows", rows, least=1)
    lot = check_whole(SearchError, "lot", lot, least=1, most=rows, hint=", the number of rows")
    epochs = check_whole(SearchError, "epochs", epochs, least=1)
    noise = check_number(SearchError, "noise", noise, least=0, hint=", in multiples of the sensitivity")
    delta = _checked_delta(delta)
    check_choice(SearchError, "sampling", sampling, ("fixed", "poisson"))
    return _epsilon(rows, lot, steps_of(rows, lot, epochs), noise, delta, sampling)


def training_events(
    *, rows: int, lot: int, epochs: int, noise: float, delta: float = 1e-5, sampling: Sampling = "fixed"
) -> list[Event]:
    """The two ways to charge one training, the cheaper in rho first: as single steps, or as (epsilon, delta) in all.

    Single steps compose in zCDP, where sampling saves nothing: rho = steps / (2 z^2). The accountant's epsilon does
    profit from sampling, rho = epsilon^2 / 2, but also spends delta. Both are valid; a ledger takes the first that
    fits.

    Privacy: each is a bound for the same noise and relation.
    """
    epsilon = training_epsilon(rows=rows, lot=lot, epochs=epochs, noise=noise, delta=delta, sampling=sampling)
    if noise == 0:
        raise SearchError("noise=0: training without noise costs more than any ledger allows")
    step = GaussianEvent(Fraction(float(noise)) ** 2, Fraction(1))
    events: list[Event] = [ComposedEvent(((step, steps_of(rows, lot, epochs)),))]
    if math.isfinite(epsilon):
        multiple = math.floor(epsilon * (1 + CHARGE_STEP) / CHARGE_STEP) + 1
        charged = Fraction(multiple) * Fraction(1, round(1 / CHARGE_STEP))
        events.append(TrainingEvent(charged, Fraction(float(delta))))
    return sorted(events, key=lambda event: event.cost.rho or Fraction(0))


@lru_cache(maxsize=4096)
def _epsilon(rows: int, lot: int, steps: int, noise: float, delta: float, sampling: str) -> float:
    if noise == 0:
        return math.inf
    # Epsilon falls and then rises with the order. High orders are slow, so stop at the first rise.
    by_order: dict[int, float] = {}
    best = RENYI_ORDERS[0]
    for order in RENYI_ORDERS:
        by_order[order] = _epsilon_at_order(rows, lot, steps, noise, delta, sampling, order)
        if by_order[order] > by_order[best]:
            break
        best = order
    # Refine around the best order.
    place = RENYI_ORDERS.index(best)
    low, high = RENYI_ORDERS[max(place - 1, 0)], RENYI_ORDERS[min(place + 1, len(RENYI_ORDERS) - 1)]
    if high <= LARGEST_REFINED_ORDER:
        for order in range(low + 1, high, max(1, (high - low) // 6)):
            if order not in by_order:
                by_order[order] = _epsilon_at_order(rows, lot, steps, noise, delta, sampling, order)
    renyi = min(by_order.values())
    return min(renyi, _epsilon_of_losses(lot / rows, steps, noise, delta, renyi)) if sampling == "poisson" else renyi


def _epsilon_of_losses(share: float, steps: int, noise: float, delta: float, known: float) -> float:
    """The bound on epsilon from privacy loss distributions of Poisson lots; infinite where it cannot be trusted.

    `known` is an epsilon that holds; where it is large, or delta tiny, the composition is not tried.
    """
    if delta < LEAST_LOSS_DELTA or not known <= LARGEST_LOSS_EPSILON:
        return math.inf
    from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent, UnsupportedEventError
    from dp_accounting.pld import PLDAccountant

    step = LOSS_STEP * max(1.0, known / WIDER_STEPS_FROM)
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=step)
    try:
        accountant.compose(PoissonSampledDpEvent(share, GaussianDpEvent(noise)), steps)
    except UnsupportedEventError:
        return math.inf
    epsilon = float(accountant.get_epsilon(delta - LOSS_DELTA_SLACK))
    return epsilon if epsilon >= 0 else math.inf  # not a number fails the comparison as well


def _epsilon_at_order(rows: int, lot: int, steps: int, noise: float, delta: float, sampling: str, order: int) -> float:
    """The bound on epsilon from one Renyi order."""
    try:
        from dp_accounting import (
            GaussianDpEvent,
            NeighboringRelation,
            PoissonSampledDpEvent,
            SampledWithoutReplacementDpEvent,
        )
        from dp_accounting.rdp import RdpAccountant
    except ImportError:
        raise SearchError(
            "the epsilon of training on sampled batches needs dp-accounting; run: pip install 'hush[training]'"
        ) from None

    event = GaussianDpEvent(noise)
    if sampling == "poisson":
        accountant = RdpAccountant([order], NeighboringRelation.ADD_OR_REMOVE_ONE)
        accountant.compose(PoissonSampledDpEvent(lot / rows, event), steps)
    else:
        accountant = RdpAccountant([order], NeighboringRelation.REPLACE_ONE)
        accountant.compose(SampledWithoutReplacementDpEvent(rows, lot, event), steps)
    epsilon = float(accountant.get_epsilon(delta))
    return math.inf if math.isnan(epsilon) else epsilon


def output_epsilon(*, rows: int, regularization: float, noise: float, delta: float = 1e-6) -> float:
    """The epsilon of output perturbation: the exact Gaussian curve at sensitivity 4 / (gamma n).

    Epsilon depends on gamma sigma n alone.

    Reference: [Wu et al. 2017, Alg. 2]; [Balle and Wang 2018] for the curve.

    >>> round(output_epsilon(rows=30_956, regularization=1e-4, noise=1.0), 3)
    6.559
    """
    gamma = check_number(SearchError, "regularization", regularization, above=0)
    sigma = check_number(SearchError, "noise", noise, above=0)
    return gaussian_epsilon(4 / (gamma * rows * sigma), _checked_delta(delta))


def _checked_delta(delta: float) -> float:
    return check_number(SearchError, "delta", delta, above=0, most=0.5, hint=", such as 1e-5")


@dataclass(frozen=True)
class TrainingEpsilon:
    """The epsilon of private training on `rows` rows, as a function of settings with epochs, lot and noise."""

    rows: int
    delta: float = 1e-5
    sampling: Sampling = "fixed"

    def __post_init__(self) -> None:
        check_whole(SearchError, "rows", self.rows, least=1)
        check_choice(SearchError, "sampling", self.sampling, get_args(Sampling))
        _checked_delta(self.delta)

    def __call__(self, settings: Mapping[str, Any]) -> float:
        return training_epsilon(
            rows=self.rows,
            lot=settings["lot"],
            epochs=settings["epochs"],
            noise=settings["noise"],
            delta=self.delta,
            sampling=self.sampling,
        )
