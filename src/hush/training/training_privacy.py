"""Training privacy: the epsilon of private training, by the accountant of dp-accounting.

One step adds Gaussian noise of `noise` times the sensitivity to a sum over a lot. Lots of fixed size, drawn without
replacement, are accounted under replace-one; Poisson lots, into which each row comes by itself with probability lot /
rows, under add-remove. Steps compose in Renyi DP, and epsilon is the least over the orders that are tried; fewer orders
never make it too small. It depends on rows, lot, epochs and noise alone, not on learning rate, clip or optimiser.

Reference: [Wang, Balle and Kasiviswanathan 2019, Thm 27] and [Mironov, Talwar and Zhang 2019], as dp-accounting has
them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from hush.core.errors import SearchError, shown
from hush.core.validation import is_number
from hush.privacy.conversions import gaussian_epsilon
from hush.privacy.events import ComposedEvent, Event, GaussianEvent, TrainingEvent

Sampling: TypeAlias = Literal["fixed", "poisson"]
ORDERS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 300, 512, 1024)
FINE = 64  # up to this order those between are tried too; beyond, they hardly differ
SAMPLINGS = ("fixed", "poisson")
ROUNDING = 1e-9  # by which what is charged exceeds epsilon at least: the accountant computes in floats


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
    for name, value in (("rows", rows), ("lot", lot), ("epochs", epochs)):
        if not (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
            raise SearchError(f"{name}={shown(value)}: expected a whole number of at least 1")
    if lot > rows:
        raise SearchError(f"lot={lot}: expected at most the {rows} rows")
    if not (is_number(noise) and noise >= 0):
        raise SearchError(f"noise={shown(noise)}: expected a number of at least 0, times the sensitivity")
    _check_delta(delta)
    if sampling not in SAMPLINGS:
        raise SearchError(f"sampling={shown(sampling)}: expected 'fixed' or 'poisson'")
    return _epsilon(rows, lot, steps_of(rows, lot, epochs), float(noise), float(delta), sampling)


def training_events(
    *, rows: int, lot: int, epochs: int, noise: float, delta: float = 1e-5, sampling: Sampling = "fixed"
) -> list[Event]:
    """What a training may be charged as, the cheapest in rho first: every step by itself, or all at (epsilon, delta).

    Steps compose in zCDP, in which sampling saves nothing: rho = steps / (2 z^2). The accountant's epsilon counts it,
    rho = epsilon^2 / 2, and spends delta. Both hold; a ledger takes the first that it has room for.

    Privacy: each is a bound for the same noise and relation.
    """
    epsilon = training_epsilon(rows=rows, lot=lot, epochs=epochs, noise=noise, delta=delta, sampling=sampling)
    if noise == 0:
        raise SearchError("noise=0: training without noise costs more than any ledger allows")
    step = GaussianEvent(Fraction(float(noise)) ** 2, Fraction(1))
    events: list[Event] = [ComposedEvent(((step, steps_of(rows, lot, epochs)),))]
    if math.isfinite(epsilon):
        charged = Fraction(math.floor(epsilon * (1 + ROUNDING) / ROUNDING) + 1) * Fraction(1, round(1 / ROUNDING))
        events.append(TrainingEvent(charged, Fraction(float(delta))))
    return sorted(events, key=lambda event: event.cost.rho or Fraction(0))


@lru_cache(maxsize=4096)
def _epsilon(rows: int, lot: int, steps: int, noise: float, delta: float, sampling: str) -> float:
    if noise == 0:
        return math.inf
    tried: dict[int, float] = {}
    best = ORDERS[0]
    for order in ORDERS:  # epsilon falls and then rises with the order, and high orders take time
        tried[order] = _at_order(rows, lot, steps, noise, delta, sampling, order)
        if tried[order] > tried[best]:
            break
        best = order
    place = ORDERS.index(best)
    low, high = ORDERS[max(place - 1, 0)], ORDERS[min(place + 1, len(ORDERS) - 1)]
    if high <= FINE:
        for order in range(low + 1, high, max(1, (high - low) // 6)):
            if order not in tried:
                tried[order] = _at_order(rows, lot, steps, noise, delta, sampling, order)
    return min(tried.values())


def _at_order(rows: int, lot: int, steps: int, noise: float, delta: float, sampling: str, order: int) -> float:
    """Epsilon by one Renyi order."""
    from dp_accounting import (
        GaussianDpEvent,
        NeighboringRelation,
        PoissonSampledDpEvent,
        SampledWithoutReplacementDpEvent,
    )
    from dp_accounting.rdp import RdpAccountant

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

    It depends on gamma sigma n alone.

    Reference: [Wu et al. 2017, Alg. 2]; [Balle and Wang 2018] for the curve.

    >>> round(output_epsilon(rows=30_956, regularization=1e-4, noise=1.0), 3)
    6.559
    """
    for name, value in (("regularization", regularization), ("noise", noise)):
        if not (is_number(value) and value > 0):
            raise SearchError(f"{name}={shown(value)}: expected a number above 0")
    _check_delta(delta)
    return gaussian_epsilon(4 / (regularization * rows * noise), delta)


def _check_delta(delta: float) -> None:
    if not (is_number(delta) and 0 < delta <= 0.5):
        raise SearchError(f"delta={shown(delta)}: expected a number above 0 and at most 1/2, such as 1e-5")


@dataclass(frozen=True)
class TrainingEpsilon:
    """The privacy oracle of private training on so many rows, for settings with epochs, lot and noise."""

    rows: int
    delta: float = 1e-5
    sampling: Sampling = "fixed"

    def __call__(self, settings: Mapping[str, Any]) -> float:
        return training_epsilon(
            rows=self.rows,
            lot=settings["lot"],
            epochs=settings["epochs"],
            noise=settings["noise"],
            delta=self.delta,
            sampling=self.sampling,
        )
