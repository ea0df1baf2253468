"""A registry entry says what the release states, and nothing is invented."""

from __future__ import annotations

import datetime as dt
import json

import pytest

import hush
from hush.errors import BudgetError
from hush.interop import registry_entry

ROWS, SCHEMA = hush.datasets.people(200, seed=1), hush.datasets.people_schema()
SAID = {"name": "People", "curators": ["The office"], "intended_use": "Planning"}


def release(budget: hush.Budget, **options: object) -> hush.Release:
    return hush.plan("sex; region", budget, schema=SCHEMA).release(hush.read(ROWS, SCHEMA), **options)


@pytest.mark.parametrize(
    ("budget", "flavor", "parameters"),
    [
        (hush.Budget(epsilon=1.0), "Pure DP", {"epsilon": 1.0}),
        (hush.Budget(epsilon=1.0, delta=1e-6), "Approximate DP", {"epsilon": 1.0, "delta": 1e-6}),
        (hush.Budget(rho=0.1), "Zero-concentrated DP", {"rho": 0.1}),
        (hush.Budget(mu=0.5), "Gaussian DP", {"mu": 0.5}),
    ],
)
def test_the_entry_has_the_flavor_and_the_parameters(budget, flavor, parameters) -> None:
    entry = json.loads(json.dumps(registry_entry(release(budget), **SAID, published=dt.date(2026, 1, 31))))
    deployment = entry["deployment"]
    assert deployment["dp_flavor"]["name"] == flavor
    assert parameters.items() <= deployment["privacy_loss"]["privacy_parameters"].items()
    assert deployment["product"]["publication_date"] == "2026-01-31"
    assert "sex, region" in deployment["implementation"]["mechanisms"]
    assert (deployment["product"]["data_curators"], deployment["product"]["data_product_region"]) == (
        ["The office"],
        "",
    )


def test_the_unit_is_named() -> None:
    table = hush.read(ROWS.append_column("id", [list(range(200))]), SCHEMA, unit="id", max_rows_per_unit=2)
    plan = hush.plan("sex", hush.Budget(rho=0.1), schema=SCHEMA, max_rows_per_unit=2)
    loss = registry_entry(plan.release(table), **SAID)["deployment"]["privacy_loss"]
    assert loss["privacy_unit"] == "id"
    assert "at most 2" in loss["privacy_unit_description"]


def test_what_is_not_private_is_no_deployment() -> None:
    drafted = hush.Schema.draft(ROWS.select(["sex", "region"]))
    plan = hush.plan("sex", hush.Budget(rho=0.1), schema=drafted)
    made = plan.release(hush.read(ROWS.select(["sex", "region"]), drafted), schema_is_public=True)
    with pytest.raises(BudgetError, match="not private"):
        registry_entry(made, **SAID)


def test_columns_that_were_found_with_noise_are_named() -> None:
    draft = {
        "age": {"kind": "integer", "bounds": "discover"},
        "sex": {"kind": "categorical", "values": ["female", "male"]},
    }
    found = hush.Schema.discover(ROWS.select(["age", "sex"]), draft, hush.Budget(epsilon=5.0, delta=1e-6))
    plan = hush.plan("sex", hush.Budget(rho=0.1), schema=found)
    made = plan.release(hush.read(ROWS.select(["age", "sex"]), found))
    deployment = registry_entry(made, **SAID)["deployment"]
    assert deployment["dp_flavor"]["data_domain"].endswith("found with noise that was paid for (age).")
    # A person is in the release and in the discovery, so the parameters are those of both.
    alone = made.statement.spent
    assert alone is not None
    loss = deployment["privacy_loss"]
    assert loss["privacy_parameters"]["epsilon"] == pytest.approx(alone[0] + 5.0, rel=0.02)
    assert "epsilon=5, delta=1e-06 in addition" in loss["privacy_parameters_description"]
