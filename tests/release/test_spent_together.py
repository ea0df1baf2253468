"""A release promises no more than it keeps together with the discovery of its schema, and no less than both allow."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import hush
from hush.discovery.quick_release import quick_release
from hush.interop.registry_entry import registry_entry
from hush.privacy.sensitivity import Neighbours
from hush.release.spent_together import discovery_costs, spent_together
from hush.report.page import promise
from hush.schema import Unit
from hush.schema.discovery_draft import Draft
from hush.schema.schema_toml import read_toml

ROWS = hush.datasets.people(1500, seed=1).select(["age", "employed"])
DRAFT = {"age": {"kind": "integer", "bounds": "discover"}, "employed": {"kind": "boolean"}}


@pytest.mark.parametrize(
    "whole", [hush.Budget(epsilon=3.0, delta=1e-9), hush.Budget(epsilon=3.0), hush.Budget(rho=0.4)], ids=str
)
def test_both_parts_of_a_budget_add_up_to_the_budget_and_not_to_less(whole: hush.Budget) -> None:
    done = quick_release(ROWS, whole, draft=DRAFT, mechanism="direct")
    release, alone = done.release, done.release.statement.spent
    assert release.spent is not None
    assert alone is not None
    at = release.spent[1]
    assert at == (0.0 if whole.pure else 1e-9)
    most = whole.epsilon_at(at) if at else whole.epsilon
    assert 1.02 * alone[0] < release.spent[0] <= most
    assert release.spent[0] > 0.9 * most
    # What people read says so: the statement, the promise to one person, and the facts for programs.
    assert str(done.budgets[0]) in dict(release.statement_lines())["Discovery"]
    assert float(promise(release).split()[3]) >= release.spent[0] * (1 - 1e-9)
    assert release.to_dict()["discovery"] == done.budgets[0].to_dict()
    assert spent_together(release.statement, read_toml(release.schema.to_toml())) == release.spent


def test_costs_of_an_earlier_discovery_count_with_those_of_the_last_one() -> None:
    """A schema states the budget of its last discovery, and every column what it cost.

    The last one also paid for a column in which nothing was found, so its whole budget counts, however cheap its
    columns and those of the first were.
    """
    first = hush.Schema.discover(ROWS, DRAFT, hush.Budget(rho=2.0))
    rows = ROWS.append_column("size", ROWS["age"]).append_column("empty", pa.nulls(len(ROWS), pa.int64()))
    opened = {"kind": "integer", "bounds": "discover", "missing": True}
    for budget in (0.5, 2.5):
        both = hush.Schema.discover(
            rows, {"age": first["age"], "size": opened, "empty": opened}, hush.Budget(rho=budget)
        )
        assert list(both.domain) == ["age", "size"]
        assert float(discovery_costs(both)[0]["rho"]) == pytest.approx(2.0 + budget, rel=1e-6)
        assert read_toml(both.to_toml()).discovery == both.discovery
    assert float(discovery_costs(first)[0]["rho"]) == pytest.approx(2)


def test_a_discovery_for_people_promises_no_sum_for_single_rows() -> None:
    """Of a person's rows one counts. With one row more it may be another one, and the noisy counts of two bins move."""
    people = ROWS.append_column("person", pa.array([f"p{i // 2}" for i in range(len(ROWS))]))
    found = hush.Schema.discover(people, Draft.of(DRAFT, unit=Unit(column="person")), hush.Budget(epsilon=2.0))
    plan = hush.plan("employed", hush.Budget(epsilon=1.0), schema=found)
    assert plan.release(hush.read(people, found)).spent == pytest.approx((3.0, 0.0))
    assert plan.release(hush.read(people, found, unit=Unit())).spent is None


def test_costs_of_other_kinds_add_up_plainly_and_those_of_other_promises_not_at_all() -> None:
    found = hush.Schema.discover(ROWS, DRAFT, hush.Budget(epsilon=2.0, delta=1e-6))
    release = hush.plan("employed", hush.Budget(epsilon=1.0), schema=found).release(hush.read(ROWS, found))
    assert release.spent is not None
    assert 2.9 < release.spent[0] <= 3.3
    assert release.spent[1] < 2e-6
    other = replace(release.statement, neighbours=Neighbours.REPLACE)
    assert spent_together(other, found) is None
    assert spent_together(other, hush.datasets.people_schema()) == release.statement.spent
    people = replace(release.statement, unit=Unit(column="person", max_rows=3))
    assert spent_together(people, found) is None


def test_columns_that_were_found_count_wherever_they_are_taken() -> None:
    """A schema that is made of found columns does not say which run found them, but each says what it cost."""
    found = hush.Schema.discover(ROWS, DRAFT, hush.Budget(epsilon=2.0))
    taken = hush.Schema(found.columns)
    release = hush.plan("employed", hush.Budget(epsilon=1.0), schema=taken).release(hush.read(ROWS, taken))
    assert release.spent == pytest.approx((3.0, 0.0))
    assert "together epsilon=3" in dict(release.statement_lines())["Discovery"]
    entry = registry_entry(release, name="Jobs", curators=["Office"], intended_use="research")
    stated = entry["deployment"]["privacy_loss"]["privacy_parameters"]
    assert stated == {"epsilon": release.spent[0]}  # type: ignore[index]
