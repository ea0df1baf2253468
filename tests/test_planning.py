"""hush.plan: workloads as objects and as texts."""

from __future__ import annotations

from typing import Any

import pytest

import hush
from hush.core.errors import WorkloadError
from hush.datasets import people_schema
from hush.schema import Unit

SCHEMA = people_schema()
BUDGET = hush.Budget(rho=0.5)


def test_a_text_and_a_schema_are_a_workload() -> None:
    workload = hush.Workload.upto(SCHEMA.domain, 2)
    for schema in (SCHEMA, SCHEMA.domain):
        plan = hush.plan("<=2-way", BUDGET, "residual", schema=schema)
        assert plan.workload == workload
        assert plan.rmse == hush.plan(workload, BUDGET, "residual").rmse
    target = hush.plan_for_error("<=2-way", 5.0, schema=SCHEMA)
    assert target.budget == hush.plan_for_error(workload, 5.0).budget


def test_the_schema_says_how_many_rows_of_a_person_count() -> None:
    schema = SCHEMA.with_unit(Unit(column="id", max_rows=3))
    for workload in ("1-way", hush.Workload.kway(SCHEMA.domain, 1)):
        assert hush.plan(workload, BUDGET, schema=schema).max_rows_per_unit == 3
        assert hush.plan(workload, BUDGET, schema=schema, max_rows_per_unit=2).max_rows_per_unit == 2
    assert hush.plan("1-way", BUDGET, schema=SCHEMA).max_rows_per_unit == 1
    assert hush.plan(hush.Workload.kway(SCHEMA.domain, 1), BUDGET).max_rows_per_unit == 1


@pytest.mark.parametrize(
    ("workload", "schema", "message"),
    [
        ("<=2-way", None, "workload='<=2-way': a text needs the schema whose columns it names; add schema=schema"),
        ("age,sexx", SCHEMA, "attribute 'sexx' is not in the domain; did you mean 'sex'"),
        ("AGE", SCHEMA, "attribute 'AGE' is not in the domain; did you mean 'age'"),
        (3, SCHEMA, 'workload=3: expected a Workload, such as .*, or a text, such as "<=2-way", with schema=schema'),
        ("1-way", "people.toml", "domain of type str: expected a Domain or a Schema, or a table"),
        (hush.Workload.kway(hush.Domain({"a": 2}), 1), SCHEMA, "the workload is over other columns than the schema"),
    ],
)
def test_what_is_no_workload_is_refused(workload: Any, schema: Any, message: str) -> None:
    for make in (hush.plan, hush.plan_for_error):
        with pytest.raises(hush.HushError, match=message):
            make(workload, BUDGET if make is hush.plan else 5.0, schema=schema)  # type: ignore[operator]


@pytest.mark.parametrize("name", ["Residual", "RESIDUAL", "residual"])
def test_mechanism_names_are_read_in_any_case(name: str) -> None:
    assert hush.plan("1-way", BUDGET, name, schema=SCHEMA).mechanism == "residual"


def test_a_misspelt_mechanism_gets_a_suggestion() -> None:
    with pytest.raises(WorkloadError, match="mechanism='residul': did you mean 'residual'. expected one of auto, "):
        hush.plan("1-way", BUDGET, "residul", schema=SCHEMA)
