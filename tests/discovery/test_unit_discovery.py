"""Rows per unit from private rows: the cap, its cost, how sure it is, and replay."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from hush.core.errors import DataError
from hush.core.rational import float_up
from hush.discovery.discovery_step import DiscoveryStep, FoundUnit, charged_cost
from hush.discovery.unit_discovery import discover_max_rows, hidden_units, size_classes
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.events import compose
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.noise import DiscreteGaussian
from hush.schema import Unit
from hush.tables.dialects.duckdb import DUCKDB
from hush.testing import check_replay

PERSON = Unit(column="id")
BUDGETS = [Budget(epsilon=1.0, delta=1e-9), Budget(epsilon=1.0), Budget(rho=0.05), Budget(mu=0.3)]


def visits(sizes: Any) -> pa.Table:
    """People with these numbers of rows."""
    return pa.table({"id": np.repeat(np.arange(len(sizes)), sizes)})


def step_of(rows: pa.Table, budget: Budget = BUDGETS[0], **options: Any) -> DiscoveryStep:
    source = DUCKDB.open_frame("the rows", rows.column_names, rows, duckdb.connect())
    given: dict[str, Any] = {"cost": budget.limit / 10, "delta": Fraction(0), "failure": 0.01} | options
    return DiscoveryStep(source=source, unit=PERSON, account=Allowance(budget), **given)


HEAVY = np.minimum(np.random.default_rng(2).zipf(1.7, 20_000), 3000)


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_cap_is_near_the_quantile_and_costs_what_its_noise_costs(budget: Budget) -> None:
    step = step_of(visits(HEAVY), budget)
    found = discover_max_rows(step)
    assert np.quantile(HEAVY, 0.93) <= found.max_rows <= 1.25 * np.quantile(HEAVY, 0.97) + 1
    stated = found.provenance
    assert stated.cost == charged_cost(budget, compose(step.account.events))
    assert stated.cost <= float_up(budget.limit / 10)
    assert stated.outside is not None
    assert float(np.mean(found.max_rows < HEAVY)) <= stated.outside < 0.5
    assert f"at most {found.max_rows:,} rows of each unit: about 95% of the units keep all rows" == stated.note


@pytest.mark.parametrize(("sizes", "cap"), [([1] * 50, 1), ([3] * 50, 3), ([1] * 48 + [9, 9], 1), ([2, 7] * 30, 7)])
def test_without_noise_the_cap_is_the_quantile(sizes: list[int], cap: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiscreteGaussian, "sample", lambda self, shape, entropy: np.zeros(shape, dtype=np.int64))
    monkeypatch.setattr(DiscreteGaussian, "stddev", 0.1)
    assert discover_max_rows(step_of(visits(sizes))).max_rows == cap


def test_the_cap_is_never_above_the_largest_that_is_asked_for() -> None:
    for most in (1, 5, 16, 17, 100):
        found = discover_max_rows(step_of(visits(np.full(5000, 80))), most=most)
        assert found.max_rows == min(most, 86)
    assert size_classes(100)[-1] == 101


def test_the_stated_share_of_units_that_lose_rows_holds() -> None:
    """failure = 0.05 over 40 runs: 8 failures or more have a chance below 1e-3 even if each bound were tight."""
    sizes = np.minimum(np.random.default_rng(3).zipf(1.7, 3000), 500)
    rows, wrong = visits(sizes), 0
    for seed in range(40):
        found = discover_max_rows(step_of(rows, failure=0.05, entropy=NotPrivateEntropy(seed)), most=500)
        assert not found.private
        assert found.provenance.outside is not None
        wrong += bool(np.mean(sizes > found.max_rows) > found.provenance.outside)
    assert wrong < 8


def test_few_people_are_hidden_by_the_noise_which_is_said() -> None:
    found = discover_max_rows(step_of(visits([3] * 20)))
    assert found.max_rows == 1
    assert found.provenance.outside is None
    assert "the noise hides how many rows there are, so 1 row of each unit is used" in found.provenance.note


def test_replay_finds_nothing_besides_the_gate() -> None:
    def run(rows: pa.Table) -> FoundUnit:
        return discover_max_rows(step_of(rows))

    sizes = [1, 2, 3, 40] * 400
    joined = [visits([*sizes, more]) for more in (1, 5, 9999, 20_000)]
    assert check_replay(run, visits(sizes), [*joined, visits(sizes[1:])]) == 5


def test_hidden_units_leave_the_cap_at_one_and_twice_as_many_do_not() -> None:
    step = step_of(visits([3]))
    units = int(hidden_units(step))
    assert not step.account.events
    assert discover_max_rows(step_of(visits([3] * (units // 2)))).max_rows == 1
    assert discover_max_rows(step_of(visits([3] * (2 * units)))).max_rows > 1
    assert hidden_units(step_of(visits([1]), Budget(epsilon=1e-30))) == math.inf


def test_rows_without_an_id_are_refused_before_any_charge() -> None:
    step = step_of(pa.table({"id": ["a", " ", None]}))
    with pytest.raises(DataError, match="the unit column 'id' is missing in some rows"):
        discover_max_rows(step)
    assert not step.account.events
