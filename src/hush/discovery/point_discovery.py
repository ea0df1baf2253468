"""Point discovery: single numbers that many rows hold, such as the price of a ticket or an income of zero.

They are found like the values of a category, by one noisy threshold for all distinct numbers, so they need not lie on a
public grid. Bins around them then keep their rows apart from others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from hush.discovery.discovery_step import DiscoveryStep, charged_cost
from hush.discovery.level_discovery import key_threshold, values_per_unit
from hush.discovery.public_grids import exact
from hush.privacy.gate import Gate
from hush.schema.column import LARGEST_INTEGER
from hush.schema.column_kinds import Integer
from hush.schema.discovery_draft import OpenColumn
from hush.schema.number_spelling import PLAIN_NUMBERS
from hush.tables.discovery_sources import DistinctValues

MOST_FOUND_POINTS = 64  # of a column, those with the largest noisy numbers of units


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPoints:
    """Numbers of a column that many units hold, what finding them cost, and whether the noise was private."""

    points: tuple[Fraction, ...]
    cost: float
    delta: float
    private: bool


def discover_points(step: DiscoveryStep, column: OpenColumn) -> FoundPoints:
    """The numbers that were found, in order.

    Privacy: charges the noise and the delta of the threshold, before it counts.
    """
    most = values_per_unit(step, column)
    law, keys = key_threshold(step, most, step.cost)
    source = DistinctValues(
        step.source, column.name, step.unit, most_values=most, no_keys=column.given.get("missing_values", ())
    )
    gate = Gate(source, step.account, neighbours=step.neighbours, entropy=step.entropy)
    found = gate.discover(source, law, note=f"discovery: heavy values of {column.name}")
    # Texts that spell no number of the column are no points.
    spelling = column.given.get("spelling", PLAIN_NUMBERS)
    points: dict[Fraction, int] = {}
    for text, units in found:
        number = spelling.read(text)
        if number is None or not math.isfinite(number) or abs(number) > LARGEST_INTEGER:
            continue
        if column.kind != Integer.kind or number.is_integer():
            points[exact(number + 0.0)] = units
    largest = sorted(points, key=lambda point: (-points[point], point))[:MOST_FOUND_POINTS]
    return FoundPoints(
        points=tuple(sorted(largest)),
        cost=charged_cost(step.account.budget, law.event(keys)),
        delta=math.nextafter(float(keys * law.delta), 1),
        private=gate.private,
    )
