"""Planted faults in the discovery of bounds, bins and points: the suite must catch each."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hush.discovery import discovery_job, found_bins, found_range, quick_release
from hush.discovery.discovery_job import DiscoveryJob
from hush.privacy.budget import Budget
from hush.privacy.noise import DiscreteGaussian
from planting import Bug, Patch

JOB, RANGE, BINS = (
    "discovery/test_discovery_job.py::",
    "discovery/test_found_range.py::",
    "discovery/test_found_bins.py::",
)
QUICK = "discovery/test_quick_release.py::"


def noise_forgotten(patch: Patch) -> None:
    """The first grid's counts are recorded without their noise."""
    true = DiscoveryJob._count

    def wrong(self: Any, opened: Any, account: Any, grid: Any, grids: Any, *given: Any, **options: Any) -> None:
        true(self, opened, account, grid, grids, *given, **options)
        exact = self._table(opened, grids.values(), self.unit) if grids else None
        for name, column in grids.items():
            clique = (discovery_job.counted_column(column).name,)
            self.record.counts[grid, name] = exact.counts([clique])[clique], self.record.counts[grid, name][1]

    patch.setattr(DiscoveryJob, "_count", wrong)


def clamped_by_exact_bounds(patch: Patch) -> None:
    """The second grid of a column ends at the largest number that the rows hold."""
    true = DiscoveryJob._count

    def wrong(self: Any, opened: Any, account: Any, grid: Any, grids: Any, *given: Any, **options: Any) -> None:
        true(self, opened, account, grid, grids, *given, **options)
        table = options.get("table")
        if grid == "wide":
            clique = (next(iter(table.domain)),)
            highest = np.flatnonzero(table.counts([clique])[clique][:-1])[-1]
            self.record.counts["wide", clique[0]][0][highest] += 10**6

    patch.setattr(DiscoveryJob, "_count", wrong)


def bound_of_a_single_level(patch: Patch) -> None:
    """The noise of a run of levels is taken for that of one."""
    true = found_range.NoisyLevels.noise_bound
    patch.setattr(found_range.NoisyLevels, "noise_bound", lambda self, levels, chance: true(self, 1, chance))


def quantile_not_trimmed(patch: Patch) -> None:
    """The range begins with the first level that holds rows, however few."""
    true = found_range._first_held
    patch.setattr(found_range, "_first_held", lambda rows, noisy, chance, most: true(rows, noisy, chance, 0.0))


def noise_taken_for_no_rows(patch: Patch) -> None:
    """A second grid leaves out every level that does not show rows by itself."""
    patch.setattr(found_range, "NARROWED", 1.0)


def variance_forgotten(patch: Patch) -> None:
    """What noise adds to a deviation is not subtracted."""
    true = found_bins._run_costs
    patch.setattr(found_bins, "_run_costs", lambda rows, widths, variances: true(rows, widths, 0 * variances))


def resumed_for_free(patch: Patch) -> None:
    """A resumed discovery forgets what its first part spent."""
    patch.setattr(discovery_job.Allowance, "resume", lambda self, event: None)


def parts_of_separate_accounts(patch: Patch) -> None:
    """The release gets the whole budget after the discovery."""
    true = quick_release.discover_first

    def wrong(rows_of: Any, draft: Any, budget: Budget, *given: Any, **options: Any) -> Any:
        return replace(true(rows_of, draft, budget, *given, **options), rest=budget, within=None)

    patch.setattr(quick_release, "discover_first", wrong)


def charged_after_the_counts(patch: Patch) -> None:
    """Values are checked only when the first grid is counted, after levels were paid for."""
    patch.setattr(DiscoveryJob, "_checked_table", lambda self, opened: None)


REPLAY = JOB + "test_a_run_depends_on_the_rows_through_the_gate_alone"
BUGS = {
    "noise forgotten": Bug(noise_forgotten, REPLAY),
    "clamped by exact bounds": Bug(clamped_by_exact_bounds, REPLAY),
    "bound of a single level": Bug(
        bound_of_a_single_level,
        RANGE + "test_sums_of_noise_exceed_their_bound_as_rarely_as_stated",
        {"law": DiscreteGaussian(Fraction(400)), "levels": 9},
    ),
    "quantile not trimmed": Bug(quantile_not_trimmed, RANGE + "test_few_rows_far_out_are_trimmed_and_many_are_kept"),
    "noise taken for no rows": Bug(
        noise_taken_for_no_rows, RANGE + "test_a_second_grid_leaves_out_no_rows_that_the_noise_may_hide"
    ),
    "variance forgotten": Bug(variance_forgotten, BINS + "test_edges_are_of_least_cost", {"seed": 0}),
    "resumed for free": Bug(resumed_for_free, JOB + "test_a_resumed_record_states_all_that_was_spent"),
    "parts of separate accounts": Bug(
        parts_of_separate_accounts, QUICK + "test_both_parts_keep_one_budget", {"budget": Budget(rho=0.1)}
    ),
    "charged before the check": Bug(
        charged_after_the_counts, JOB + "test_values_that_cannot_be_read_are_refused_before_the_charge"
    ),
}


@pytest.mark.parametrize("name", list(BUGS))
def test_every_planted_fault_is_caught(name: str, monkeypatch: Patch, tmp_path: Path) -> None:
    BUGS[name].check(monkeypatch, tmp_path)
