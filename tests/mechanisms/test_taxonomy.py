"""Taxonomy: an entry for every mechanism, and the flags of the published table."""

from pathlib import Path

import pytest

import hush
from hush.mechanisms.registry import MECHANISMS, TAXONOMY

# [AIM, Table 1]: workload, data, budget, efficiency
PUBLISHED = {
    "independent": (0, 0, 0, 1),
    "gaussian": (1, 0, 0, 0),
    "privbayes": (0, 1, 1, 1),
    "hdmm": (1, 0, 0, 0),
    "mwem": (1, 1, 0, 0),
    "mst": (0, 1, 0, 1),
    "aim": (1, 1, 1, 1),
}


def flags(name: str) -> tuple[int, ...]:
    one = TAXONOMY[name]
    return tuple(map(int, (one.workload_aware, one.data_aware, one.budget_aware, one.efficiency_aware)))


def test_every_mechanism_has_an_entry_under_its_name() -> None:
    assert set(MECHANISMS) <= set(TAXONOMY)
    assert all(one.name == name for name, one in TAXONOMY.items())
    assert all(one.description and one.noise and one.errors for one in TAXONOMY.values())


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_flags_are_those_of_the_published_table(name: str) -> None:
    assert flags(name) == PUBLISHED[name]


def test_errors_say_for_which_tables_bounds_are_known() -> None:
    schema = hush.datasets.people_schema()
    table = hush.read(hush.datasets.people(2000, seed=1), schema)
    asked = hush.Workload.marginals(schema.domain, [("sex", "region"), ("region", "education"), ("sex", "employed")])
    for name in ("aim", "mst", "mwem", "privbayes", "dualquery", "independent"):
        release = hush.plan(asked, hush.Budget(rho=0.05), mechanism=name).release(table)
        known = release.scored is not None
        assert known == ("bounded" in TAXONOMY[name].errors), name
        assert release.error_bound("sex").kind == "supported"


def test_references_are_those_of_the_list() -> None:
    listed = (Path(__file__).parents[2] / "docs" / "notation.md").read_text(encoding="utf-8")
    for one in TAXONOMY.values():
        assert not one.reference or f"| {one.reference.split(', ')[0]} |" in listed, one.name


@pytest.mark.parametrize("name", ["auto", "residual", "matrix", "direct"])
def test_linear_mechanisms_look_at_the_workload_alone(name: str) -> None:
    assert flags(name) == (1, 0, 0, 0)
    assert not TAXONOMY[name].synthetic
