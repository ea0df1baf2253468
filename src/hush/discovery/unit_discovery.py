"""Unit discovery: how many rows of a unit to use, from a noisy histogram of the rows per unit.

The cap is the least number of rows that 95 % of the units do not exceed. Noise grows with the cap, so a few units of
very many rows should lose some of them.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from hush.core.errors import BudgetError
from hush.discovery.discovery_step import DiscoveryStep, FoundUnit, charged_cost
from hush.privacy.gate import Gate, MarginalQuery, Request
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace, law_costing
from hush.privacy.sensitivity import ONE_CELL, sensitivity
from hush.schema.provenance import Discovered
from hush.tables.discovery_sources import UnitSizes

SHARE_WITHIN = 0.95  # of the units, which keep all of their rows
DEFAULT_MOST_ROWS = 10_000  # the largest cap that is tried
SINGLE_SIZES = 16  # numbers of rows with a class of their own; from there on classes widen
GROWTH = Fraction(5, 4)  # of the first number of rows of a class to that of the next
NOISE_THAT_HIDES = 4  # stddevs of the number of all units, which so many units at most do not stand out from


def discover_max_rows(step: DiscoveryStep, *, most: int | None = None) -> FoundUnit:
    """The least cap from 1 to `most` that, by noisy numbers, 95 % of the units do not exceed.

    Privacy: charges the noise of one histogram over the units, to which a unit adds one.
    """
    firsts = size_classes(DEFAULT_MOST_ROWS if most is None else most)
    sizes = UnitSizes(step.source, step.unit, firsts)
    gate = Gate(sizes, step.account, neighbours=step.neighbours, entropy=step.entropy)
    noise = _noise(step)
    request = Request(MarginalQuery(sizes.clique), noise)
    (measured,) = gate.measure([request], note=f"rows of each {step.unit.column}")
    noisy = measured.values
    # Units above each class, by the sums from the end; the first class that few enough units are above gives the cap.
    above = np.append(np.cumsum(noisy[::-1])[::-1][1:], 0)
    total = int(noisy.sum())
    hidden = total <= NOISE_THAT_HIDES * noise.stddev * math.sqrt(len(firsts))
    few = np.flatnonzero(above[:-2] <= (1 - SHARE_WITHIN) * total)
    place = 0 if hidden else int(few[0]) if len(few) else len(firsts) - 2
    cap = firsts[place + 1] - 1
    # At most this share of units loses rows, whichever class was chosen.
    fewest = total - _reach(noise, len(firsts), step.failure / 2)
    lost = int(above[place]) + _reach(noise, len(firsts), step.failure / (2 * len(firsts)))
    outside = None if hidden or fewest <= 0 else min(max(lost / fewest, 0.0), 1.0)
    if hidden:
        note = "the noise hides how many rows there are, so 1 row of each unit is used; raise the budget"
    else:
        rows = f"{cap:,} row{'s' if cap > 1 else ''}"
        note = f"at most {rows} of each unit: about {SHARE_WITHIN:.0%} of the units keep all rows"
    provenance = Discovered(
        what=("max_rows",),
        note=note,
        cost=charged_cost(step.account.budget, gate.event(request)),
        cost_unit=step.account.budget.unit,
        failure=step.failure,
        outside=outside,
    )
    return FoundUnit(max_rows=cap, provenance=provenance, private=gate.private)


def size_classes(most: int) -> tuple[int, ...]:
    """The first number of rows of each class: 1 to 16 one by one, then growing by a quarter; the last is `most` + 1.

    >>> size_classes(3), size_classes(40)
    ((1, 2, 3, 4), (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 22, 28, 35, 41))
    """
    firsts = list(range(1, min(most, SINGLE_SIZES) + 1))
    first = SINGLE_SIZES + 1
    while first <= most:
        firsts.append(first)
        first = math.ceil(first * GROWTH)
    return (*firsts, most + 1)


def hidden_units(step: DiscoveryStep, most: int = DEFAULT_MOST_ROWS) -> float:
    """Up to how many units the noise hides how many there are at all. Reads and charges nothing."""
    try:
        return NOISE_THAT_HIDES * _noise(step).stddev * math.sqrt(len(size_classes(most)))
    except BudgetError:
        return math.inf


def _noise(step: DiscoveryStep) -> DiscreteGaussian | DiscreteLaplace:
    bound = sensitivity(ONE_CELL, max_rows=1, neighbours=step.neighbours)
    return law_costing(step.cost, step.account.budget, bound)


def _reach(noise: DiscreteGaussian | DiscreteLaplace, terms: int, failure: float) -> float:
    """A bound on the sum of so many draws that holds except with probability `failure`.

    Gaussian draws are sub-Gaussian [CKS20, Cor. 17]. Of Laplace draws, each is below its own bound.
    """
    if isinstance(noise, DiscreteGaussian):
        return math.sqrt(2 * terms * float(noise.variance_parameter) * math.log(1 / failure))
    return terms * float(noise.scale) * math.log(terms / failure)
