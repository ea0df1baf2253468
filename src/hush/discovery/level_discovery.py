"""Level discovery: the values of a categorical column that enough units hold, joined to those that are known.

Values are compared after public rules (`ignore`), which the found column keeps, so that every later read applies them.
Everything that is not found counts for `other`.

The law is one noisy threshold for all values (`NoisyThreshold`). A value needs about sigma sqrt(2 log(1/delta))
units, where m values per unit have sigma^2 = m / (2 rho). Optimal bits for single values [Desfontaines et al. 2022] at
the same rho need sigma log(1/delta) units: at delta = 1e-10 that is 23 sigma instead of 6.4 sigma. Bits alone, with the
whole epsilon of a budget for one column and one value per unit, would need fewer units than a threshold with that
budget; but the rest of a discovery and the release would have no budget left, and bits come without counts.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from hush.core.errors import BudgetError, HushError
from hush.core.unit import Unit
from hush.core.validation import check_whole
from hush.discovery.discovery_step import DiscoveryStep, FoundColumn, charged_cost
from hush.privacy.events import compose
from hush.privacy.gate import Gate, MarginalQuery, Request
from hush.privacy.noise import Noise, law_costing
from hush.privacy.noisy_threshold import LEAST_DELTA, NoisyThreshold
from hush.privacy.sensitivity import ONE_CELL, Neighbours, Sensitivity, sensitivity
from hush.schema.column import MISSING_LABEL, OTHER_LABEL, OTHER_VALUE, Value
from hush.schema.column_kinds import Categorical
from hush.schema.discovery_draft import OpenColumn
from hush.schema.provenance import Discovered
from hush.tables.discovery_sources import DistinctValues

TOTAL_SHARE = Fraction(1, 20)  # of the cost, for the noisy number of all values, which shows how many were missed
MOST_MISSED = 0.5  # a larger share of values in `other` gets advice
NEARLY_NONE_MISSED = 0.01
RESERVED_TEXTS = (OTHER_VALUE, OTHER_LABEL, MISSING_LABEL)  # a level of each column, so never a value


def discover_levels(step: DiscoveryStep, column: OpenColumn) -> FoundColumn:
    """The column with the known values, the values that were found by falling noisy numbers of units, and `other`.

    Privacy: charges the noise of the total and of the threshold, and the delta of the threshold, before it counts.
    """
    most = values_per_unit(step, column)
    threshold, keys = key_threshold(step, most, step.cost * (1 - TOTAL_SHARE))
    bound = sensitivity(ONE_CELL, max_rows=most, neighbours=step.neighbours)
    total_noise = law_costing(step.cost * TOTAL_SHARE, step.account.budget, bound)
    declared = known_levels(column)
    source = DistinctValues(
        step.source,
        column.name,
        step.unit,
        most_values=most,
        ignore=declared.ignore,
        no_keys=[*declared.texts, *declared.missing_texts],
    )
    gate = Gate(source, step.account, neighbours=step.neighbours, entropy=step.entropy)
    note = f"levels of {column.name}"
    request = Request(MarginalQuery((column.name,)), total_noise)
    event = compose([gate.event(request), threshold.event(keys)])
    step.account.require(event)
    (total,) = gate.measure([request], note=f"{note}: how many values there are")
    found: dict[str, int] = dict(gate.discover(source, threshold, note=note))

    # Texts that name levels of every column belong to these levels.
    units = {text: count for text, count in found.items() if text not in RESERVED_TEXTS}
    ranked = sorted(units, key=lambda text: (-units[text], text))
    levels = Categorical(**column.shared, values=(*_known(column), *ranked), other=True, ignore=declared.ignore)
    sure = NoisyThreshold.for_delta(threshold.noise, _tail(step.failure), minimum=1).threshold - 1
    provenance = Discovered(
        what=("levels",),
        cost=charged_cost(step.account.budget, event),
        cost_unit=step.account.budget.unit,
        delta=math.nextafter(float(keys * threshold.delta), 1),
        failure=step.failure,
        units=tuple(units[text] for text in ranked),
        units_stddev=threshold.noise.stddev,
        most_values=most,
        threshold=threshold.threshold,
        found_from=threshold.threshold - 1 + sure,
    )
    missed = _missed(int(total.values[0]), sum(units.values()), total_noise)
    provenance = replace(provenance, note=_note(column, step.unit, provenance, len(ranked), missed))
    return FoundColumn(column=levels, provenance=provenance, private=gate.private)


def values_per_unit(step: DiscoveryStep, column: OpenColumn) -> int:
    """How many distinct values of a unit count: as the draft says, else about the root of its rows.

    Noise grows as the root of this number. If units hold a single value, it should be 1; if they hold another in every
    row, as many as rows. The root of the rows is the number whose noise per counted value is at most the fourth root
    of the rows away from either.
    """
    given = column.given.get("values_per_unit")
    if step.unit.column is None:
        return 1
    if given is None:
        return max(1, round(math.sqrt(step.unit.max_rows)))
    return check_whole(HushError, f"column {column.name!r}: values_per_unit", given, least=1, most=2**20)


def hidden_units(step: DiscoveryStep, column: OpenColumn) -> float:
    """Up to how many units that hold a value the noise hides it more often than not. Reads and charges nothing."""
    most = values_per_unit(step, column)
    keys = most * (2 if step.neighbours is Neighbours.REPLACE else 1)
    if step.delta < LEAST_DELTA * keys:
        raise BudgetError(
            f"column {column.name!r}: delta is too small to find levels; state a larger one, such as 1e-9"
        )
    try:
        return key_threshold(step, most, step.cost * (1 - TOTAL_SHARE))[0].threshold
    except BudgetError:
        return math.inf


def key_threshold(step: DiscoveryStep, most: int, cost: Fraction) -> tuple[NoisyThreshold, int]:
    """The threshold for values of which each unit holds `most`, at a cost, and how many counts a unit then moves."""
    keys = most * (2 if step.neighbours is Neighbours.REPLACE else 1)
    each = Sensitivity(Fraction(keys), Fraction(keys), single_cell=keys == 1)
    noise = law_costing(cost, step.account.budget, each)
    return NoisyThreshold.for_delta(noise, step.delta / keys), keys


def _known(column: OpenColumn) -> tuple[Value, ...]:
    """The values that the draft lists."""
    return tuple(column.given.get("values", ()))


def known_levels(column: OpenColumn) -> Categorical:
    """The column as the draft knows it, without what is to be found."""
    return Categorical(
        **column.shared,
        values=_known(column),
        other=True,
        ignore=column.given.get("ignore", ()),
    )


def _tail(failure: float) -> Fraction:
    """The chance of missing a value, as an exact fraction that a threshold can be found for."""
    return min(max(Fraction(failure), LEAST_DELTA), Fraction(1, 2))


def _missed(total: int, found: int, noise: Noise) -> float | None:
    """About which share of all values is in `other`; None if the noise hides it."""
    return None if total < 4 * noise.stddev else min(max(1 - found / total, 0.0), 1.0)


def _note(column: OpenColumn, unit: Unit, provenance: Discovered, levels: int, missed: float | None) -> str:
    """What was found, in plain words, from released numbers and public facts alone."""
    rows_alone = unit.column is None
    reach = f"values of at least {provenance.found_from:,} {'rows' if rows_alone else 'units'} are found"
    if not rows_alone:
        many = "1 value" if provenance.most_values == 1 else f"at most {provenance.most_values} values"
        reach += f", with {many} of each unit counted"
    advice = (
        "if the column holds ids, names or free text, leave it out; if it holds numbers or days, say so with kind; if "
        'it should have categories, raise the budget, list the values that you know, or write ignore = ["case", '
        '"spaces"]'
    )
    if not levels:
        known = "only the values that the draft lists have levels" if _known(column) else "all of them are in other"
        return f"no value is common enough to be shown ({reach}), so {known}; {advice}"
    text = f"{levels:,} value{'s' if levels > 1 else ''} found; {reach}"
    if missed is None:
        return text
    counted = "rows" if rows_alone else "values counted"
    listed = " apart from those with listed values" if _known(column) else ""
    if missed < NEARLY_NONE_MISSED:
        return f"{text}; nearly all {counted}{listed} {'hold one of' if rows_alone else 'are among'} them"
    text += f"; about {missed:.0%} of the {counted}{listed} {'hold other values' if rows_alone else 'are others'}"
    return f"{text}; {advice}" if missed > MOST_MISSED else text
