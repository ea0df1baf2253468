"""Planted faults of discovery: thresholds, contributions, caps and quantiles; the suite must catch each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hush.discovery import level_discovery, unit_discovery
from hush.privacy import gate, noisy_threshold
from hush.privacy.noisy_threshold import NoisyThreshold
from hush.release import spent_together
from hush.schema import Schema
from hush.tables import discovery_sources
from planting import Bug, Patch, suite

LAWS, SOURCES = "privacy/test_noisy_threshold.py::", "tables/test_discovery_sources.py::"
LEVELS, UNITS = "discovery/test_level_discovery.py::", "discovery/test_unit_discovery.py::"
TOGETHER = "release/test_spent_together.py::"
THRESHOLDS = suite("privacy/test_noisy_threshold.py")
EVERY_TABLE = LAWS + "test_the_code_keeps_what_it_states_on_every_tiny_table"


def threshold_too_low(patch: Patch) -> None:
    """Keys are shown from one below the threshold on."""
    true = NoisyThreshold.released

    def wrong(self: NoisyThreshold, keys: Any, counts: Any, entropy: Any) -> Any:
        lower = NoisyThreshold(self.noise, self.threshold - 1, self.minimum)
        return true(lower, keys, counts, entropy)

    patch.setattr(NoisyThreshold, "released", wrong)
    THRESHOLDS.outcomes.cache_clear()


def one_key_charged(patch: Patch) -> None:
    """A unit of several keys is charged as if it had one."""
    true = NoisyThreshold.event
    patch.setattr(NoisyThreshold, "event", lambda self, keys: true(self, 1))


def minimum_forgotten(patch: Patch) -> None:
    """Delta is stated for a key of one unit, though keys of fewer than `minimum` units never leave."""
    stated = property(lambda self: noisy_threshold.tail_bound(self.noise, self.threshold - 1))
    patch.setattr(NoisyThreshold, "delta", stated)


def minimum_not_enforced(patch: Patch) -> None:
    """Keys below the minimum leave if their noisy counts reach the threshold."""

    def wrong(self: NoisyThreshold, keys: Any, counts: Any, entropy: Any) -> Any:
        noisy = self.noise.sample(len(counts), entropy) + counts
        return [(keys[at], int(noisy[at])) for at in range(len(noisy)) if noisy[at] >= self.threshold]

    patch.setattr(NoisyThreshold, "released", wrong)
    THRESHOLDS.outcomes.cache_clear()


def tail_halved(patch: Patch) -> None:
    """The bound on the tail is half of it."""
    true = noisy_threshold.tail_bound
    patch.setattr(noisy_threshold, "tail_bound", lambda noise, start: true(noise, start) / 2)


def uncapped_values(patch: Patch) -> None:
    """All values of a unit count, however many are charged."""
    true = discovery_sources.DistinctValues._chosen

    def wrong(self: Any) -> Any:
        most, self.max_keys = self.max_keys, 2**60
        chosen = true(self)
        self.max_keys = most
        return chosen

    patch.setattr(discovery_sources.DistinctValues, "_chosen", wrong)


def rows_counted(patch: Patch) -> None:
    """Rows are counted instead of units: a unit counts for a value as often as it holds it."""
    true = discovery_sources.DistinctValues._chosen

    def wrong(self: Any) -> Any:
        chosen, units = true(self)
        return chosen.replace("SELECT DISTINCT unit, value", "SELECT unit, value"), units

    patch.setattr(discovery_sources.DistinctValues, "_chosen", wrong)


def ids_unchecked(patch: Patch) -> None:
    """Rows without an id are not refused, so all of them count as one unit."""
    patch.setattr(discovery_sources, "unit_misfits", lambda name, orphans=False, rounded=False: [])


def few_keys_watched(patch: Patch) -> None:
    """A watched gate asks for common keys alone, so replay cannot see how far the others move."""
    true = gate.Gate.discover

    def wrong(self: Any, source: Any, law: Any, *, note: str = "") -> Any:
        counted = source.counted_keys
        source.counted_keys = lambda least: (
            ([key for key, n in zip(keys, units, strict=True) if n > 100], units[units > 100])
            for keys, units in counted(least)
        )
        return true(self, source, law, note=note)

    patch.setattr(gate.Gate, "discover", wrong)


def known_values_are_keys(patch: Patch) -> None:
    """Known values are counted as keys too, so a unit's few places go to values that need no finding."""
    patch.setattr(level_discovery, "_known", lambda column: ())


def sure_at_the_threshold(patch: Patch) -> None:
    """A value of as many units as the threshold is called sure to be found."""
    true = level_discovery.replace

    def wrong(stated: Any, **changes: Any) -> Any:
        return true(stated, **changes, found_from=stated.threshold)

    patch.setattr(level_discovery, "replace", wrong)


def bound_without_noise(patch: Patch) -> None:
    """The stated share of units that lose rows leaves the noise out."""
    patch.setattr(unit_discovery, "_reach", lambda noise, terms, failure: 0.0)


def median_for_quantile(patch: Patch) -> None:
    """Half of the units, and not a twentieth, may lose rows."""
    patch.setattr(unit_discovery, "SHARE_WITHIN", 0.5)


def any_promise_added_up(patch: Patch) -> None:
    """A discovery that protects people is added up with a release that protects rows."""
    patch.setattr(spent_together, "same_promise", lambda schema, neighbours, unit: True)


def last_run_alone(patch: Patch) -> None:
    """What earlier discoveries found costs nothing."""
    true = spent_together.discovery_costs

    def wrong(schema: Any) -> Any:
        run = schema.discovery
        names = () if run is None else tuple(schema.domain)
        return true(Schema(schema.columns, unit=schema.unit, discovery=run and replace(run, found=names)))

    patch.setattr(suite(TOGETHER.removesuffix("::")), "discovery_costs", wrong)


LAPLACE_TWO = {"law": THRESHOLDS.LAPLACE, "most": 2}
LATE = {"law": THRESHOLDS.LATE, "most": 1}
CHARGE = LEVELS + "test_the_charge_is_what_the_noise_costs_and_within_the_share"
FOUND = LEVELS + "test_common_values_join_the_known_ones_and_the_rest_is_other"
SURE = LEVELS + "test_a_value_that_enough_units_hold_is_missed_as_rarely_as_stated"
MOVES = SOURCES + "test_every_unit_moves_few_counts_by_one_and_those_of_no_other_unit"
REPLAY = LEVELS + "test_replay_covers_units_of_several_rows_and_values"
BUGS = {
    "threshold too low": Bug(threshold_too_low, EVERY_TABLE, LAPLACE_TWO),
    "one key charged": Bug(one_key_charged, EVERY_TABLE, LAPLACE_TWO),
    "one key charged for a column": Bug(one_key_charged, CHARGE),
    "minimum forgotten": Bug(minimum_forgotten, EVERY_TABLE, LATE),
    "minimum not enforced": Bug(minimum_not_enforced, EVERY_TABLE, LATE),
    "tail halved": Bug(tail_halved, LAWS + "test_the_stated_delta_covers_the_exact_tail"),
    "uncapped values": Bug(uncapped_values, MOVES),
    "uncapped values replayed": Bug(uncapped_values, REPLAY),
    "rows counted": Bug(rows_counted, MOVES),
    "ids unchecked": Bug(ids_unchecked, SOURCES + "test_missing_ids_are_refused"),
    "known values as keys": Bug(known_values_are_keys, FOUND),
    "sure at the threshold": Bug(sure_at_the_threshold, SURE),
    "few keys watched": Bug(few_keys_watched, LAWS + "test_replay_sees_keys_below_the_minimum_too"),
    "bound without noise": Bug(bound_without_noise, UNITS + "test_the_stated_share_of_units_that_lose_rows_holds"),
    "any promise added up": Bug(
        any_promise_added_up, TOGETHER + "test_a_discovery_for_people_promises_no_sum_for_single_rows"
    ),
    "last run alone": Bug(
        last_run_alone, TOGETHER + "test_costs_of_an_earlier_discovery_count_with_those_of_the_last_one"
    ),
    "median for quantile": Bug(
        median_for_quantile, UNITS + "test_without_noise_the_cap_is_the_quantile", {"sizes": [2, 7] * 30, "cap": 7}
    ),
}


@pytest.mark.parametrize("name", list(BUGS))
def test_every_planted_fault_is_caught(name: str, monkeypatch: Patch, tmp_path: Path) -> None:
    try:
        BUGS[name].check(monkeypatch, tmp_path)
    finally:
        THRESHOLDS.outcomes.cache_clear()
