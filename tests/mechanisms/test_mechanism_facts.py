"""Taxonomy: an entry for every mechanism, and the flags of the published table."""

from pathlib import Path

import pytest

import hush
from hush.mechanisms.registry import BUILT_IN

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
    kind = BUILT_IN[name]
    return tuple(map(int, (kind.workload_aware, kind.data_aware, kind.budget_aware, kind.efficiency_aware)))


def test_every_mechanism_has_an_entry_under_its_name() -> None:
    assert all(kind.name == name for name, kind in BUILT_IN.items())
    assert all(kind.description and kind.noise_words and kind.errors_known for kind in BUILT_IN.values())


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_flags_are_those_of_the_published_table(name: str) -> None:
    assert flags(name) == PUBLISHED[name]


def test_errors_say_for_which_tables_bounds_are_known() -> None:
    schema = hush.datasets.people_schema()
    table = hush.read(hush.datasets.people(2000, seed=1), schema)
    asked = hush.Workload.marginals(schema.domain, [("sex", "region"), ("region", "education"), ("sex", "employed")])
    for name in (
        "aim",
        "mst",
        "mwem",
        "privbayes",
        "privmrf",
        "privsyn",
        "swift",
        "scout",
        "dualquery",
        "gem",
        "independent",
    ):
        release = hush.plan(asked, hush.Budget(rho=0.05), mechanism=name).release(table)
        known = release.record.scored is not None
        assert known == ("bounded" in BUILT_IN[name].errors_known), name
        assert release.error_bound("sex").kind == "supported"


def test_references_are_those_of_the_list() -> None:
    listed = (Path(__file__).parents[2] / "docs" / "notation.md").read_text(encoding="utf-8")
    for kind in BUILT_IN.values():
        assert not kind.reference or f"| {kind.reference.split(', ')[0]} |" in listed, kind.name


@pytest.mark.parametrize("name", ["auto", "residual", "matrix", "direct"])
def test_linear_mechanisms_look_at_the_workload_alone(name: str) -> None:
    assert flags(name) == (1, 0, 0, 0)
    assert not BUILT_IN[name].synthetic
