"""Planted faults in tables and in sums of their values, one at a time; the suite must catch each."""

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hush.mechanisms.session import Session
from hush.privacy import gate
from hush.privacy.sum_query import SumQuery, ValueGrid
from hush.tables import row_filter
from hush.tables.dialects.postgres import PostgreSQL
from planting import Bug, Patch, suite

HOSTILE = "tables/test_engines_hostile.py::test_hostile_numbers"


def arithmetic_before_clamping(patch: Patch) -> None:
    """A value is centred and squared before it is clamped: PostgreSQL fails on a huge one, after the charge."""
    patch.setattr(ValueGrid, "ends", property(lambda self: (-math.inf, math.inf)))


def small_numbers_are_multiplied(patch: Patch) -> None:
    """Squares and products of numbers near zero, on which PostgreSQL fails."""
    patch.setattr(PostgreSQL, "squared", lambda self, x: f"{x} * {x}")
    patch.setattr(PostgreSQL, "scaled", lambda self, x, factor: f"{x} * {self.number(factor)}")


def sums_forget_units(patch: Patch) -> None:
    """Sums of values are charged as if every unit had one row."""
    true = gate.Gate.bound

    def wrong(self: Any, query: Any) -> Any:
        if isinstance(query, SumQuery):
            return gate.sensitivity(query.row_norms, max_rows=1, neighbours=self.neighbours)
        return true(self, query)

    patch.setattr(gate.Gate, "bound", wrong)


def counts_spend_the_share_of_sums(patch: Patch) -> None:
    """A session leaves to sums what they cost for units of one row."""

    def wrong(self: Any) -> Fraction:
        return self._account.budget.limit - (0 if self.record.sums is None else self.record.sums.strategy.cost)

    patch.setattr(Session, "limit", property(wrong))


def filters_look_at_other_rows(patch: Patch) -> None:
    """A condition may hold anything that the engine takes: subqueries, averages, clocks."""
    patch.setattr(row_filter, "_is_allowed", lambda node: True)


FAULTS = {
    "filters look at other rows": Bug(
        filters_look_at_other_rows,
        "tables/test_row_filter.py::test_what_is_no_test_of_a_row_is_refused_before_a_row_is_read",
        {"where": "age > random()", "word": "one row's values"},
    ),
    "sums forget units": Bug(
        sums_forget_units,
        "privacy/test_sum_query.py::test_units_of_several_rows_cost_as_many_rows_squared",
        {"rows": 3},
    ),
    "counts spend the share of sums": Bug(
        counts_spend_the_share_of_sums,
        "mechanisms/test_session.py::test_sums_have_their_share_of_the_budget_for_units_of_several_rows",
        {"rows": 3},
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_suite_catches(name: str, monkeypatch: Patch, tmp_path: Path) -> None:
    FAULTS[name].check(monkeypatch, tmp_path)


@pytest.mark.parametrize("plant", [arithmetic_before_clamping, small_numbers_are_multiplied])
def test_the_walk_over_hostile_values_catches(
    plant: Callable[[Patch], None], request: pytest.FixtureRequest, monkeypatch: Patch, tmp_path: Path
) -> None:
    engine = suite("tables/test_engines_hostile.py").InPostgres(request)
    arguments = {"engine": engine, "group": "floats", "reference": suite("tables/conftest.py").place}
    Bug(plant, HOSTILE, arguments).check(monkeypatch, tmp_path)
