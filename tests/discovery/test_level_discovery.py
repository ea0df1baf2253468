"""Levels from private values: what is found, what it costs, what replay sees, and what bad input is told."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import hush
from hush.core.errors import BudgetError, DataError
from hush.discovery.discovery_step import DiscoveryStep, FoundColumn, charged_cost
from hush.discovery.level_discovery import discover_levels, hidden_units, values_per_unit
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.events import ComposedEvent, GaussianEvent, RareKeyEvent, compose, price
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.sensitivity import Neighbours
from hush.schema import Categorical, Schema, Unit
from hush.schema.discovery_draft import OpenColumn, read_draft_column
from hush.schema.schema_toml import read_toml
from hush.tables.dialects.duckdb import DUCKDB
from hush.testing import check_replay

BUDGET = Budget(epsilon=1.0, delta=1e-9)
DELTA = Fraction(1, 10**10)


def step_of(rows: pa.Table, unit: Unit | None = None, budget: Budget = BUDGET, **options: Any) -> DiscoveryStep:
    """A quarter of a fresh budget for one column of the rows."""
    source = DUCKDB.open_frame("the rows", rows.column_names, rows, duckdb.connect())
    given: dict[str, Any] = {"cost": budget.limit / 4, "delta": DELTA, "failure": 0.001} | options
    return DiscoveryStep(source=source, unit=unit or Unit(), account=Allowance(budget), **given)


def open_column(**entries: Any) -> OpenColumn:
    column = read_draft_column("v", {"kind": "categorical", "levels": "discover", **entries})
    assert isinstance(column, OpenColumn)
    return column


def rows_of(counts: dict[str | None, int]) -> pa.Table:
    return pa.table({"v": pa.array([text for text, rows in counts.items() for _ in range(rows)], pa.string())})


CITIES = rows_of(
    {"Paris": 3000, "Rome": 1000, "rome ": 900, "Oslo": 2, "other": 900, None: 500, "?": 700, "known": 800}
)
PLAIN = open_column(missing=True, missing_values=["?"], values=["known", "rare"])


def test_common_values_join_the_known_ones_and_the_rest_is_other() -> None:
    """Noise of standard deviation 10: a value of 900 rows is missed with a chance below 1e-20."""
    step = step_of(CITIES)
    found = discover_levels(step, PLAIN)
    column = found.column
    assert isinstance(column, Categorical)
    assert column.values == ("known", "rare", "Paris", "Rome", "rome")
    assert (column.other, column.missing, column.missing_values) == (True, True, ("?",))
    assert found.private
    # noisy numbers of the found values, in the order of their levels
    stated = found.provenance
    assert np.abs(np.array(stated.units) - [3000, 1000, 900]).max() < 8 * (stated.units_stddev or 0) < 200
    assert stated.threshold is not None
    assert stated.found_from is not None
    assert stated.threshold < stated.found_from < 900
    # the schema holds all of it, and reads with it count as the discovery did
    schema = read_toml(Schema([column]).to_toml())
    assert schema["v"] == column
    assert hush.read(CITIES, schema).counts([("v",)])[("v",)].tolist() == [800, 0, 3000, 1000, 900, 902, 1200]
    assert "3 values found" in stated.note


def test_texts_are_found_as_the_schema_will_read_them() -> None:
    column = discover_levels(step_of(CITIES), open_column(ignore=["spaces", "case"], missing=True)).column
    assert isinstance(column, Categorical)
    assert column.values == ("paris", "rome", "known", "?")
    assert column.ignore == ("case", "spaces")
    counts = hush.read(CITIES, Schema([column])).counts([("v",)])[("v",)]
    assert counts.tolist() == [3000, 1900, 800, 700, 902, 500]  # "other" is the level of that name


def test_the_charge_is_what_the_noise_costs_and_within_the_share() -> None:
    for unit, neighbours, most in (
        (Unit(), Neighbours.ADD_REMOVE, 1),
        (Unit(), Neighbours.REPLACE, 2),
        (Unit(column="id", max_rows=9), Neighbours.ADD_REMOVE, 3),
        (Unit(column="id", max_rows=9), Neighbours.REPLACE, 6),
    ):
        step = step_of(CITIES.append_column("id", pa.array(range(len(CITIES)))), unit, neighbours=neighbours)
        stated = discover_levels(step, PLAIN).provenance
        allowance = step.account
        event = compose(allowance.events)
        assert isinstance(event, ComposedEvent)
        assert charged_cost(BUDGET, event) == stated.cost
        assert BUDGET.limit / 4 * Fraction(999, 1000) < Fraction(stated.cost) <= BUDGET.limit / 4
        assert stated.cost_unit == "mu^2/2"
        kinds = [part for part, _ in event.parts]
        assert [type(part) for part in kinds] == [GaussianEvent, GaussianEvent, RareKeyEvent]
        assert [part.keys for part in kinds if isinstance(part, RareKeyEvent)] == [most]
        assert kinds[1].sensitivity_l2_squared == most  # type: ignore[union-attr]
        assert 0 < price(event).delta <= min(DELTA, Fraction(stated.delta))
        assert float(price(event).delta) > 0.5 * float(DELTA)


def neighbours_of(rows: pa.Table) -> list[pa.Table]:
    """One row more or less, of a value that is common, rare or new."""
    more = [pa.concat_tables([rows, rows_of({text: 1})]) for text in ("Paris", "Oslo", "new", "?", None, "known")]
    return [*more, rows.slice(1), rows.slice(0, len(rows) - 1), rows.slice(0, 1)]


def test_replay_finds_nothing_besides_the_gate() -> None:
    def run(rows: pa.Table) -> FoundColumn:
        return discover_levels(step_of(rows), PLAIN)

    few = rows_of({"Paris": 300, "Oslo": 2, None: 3, "known": 4, "rare": 90})
    assert check_replay(run, few, neighbours_of(few)[:-1]) == 8


def test_replay_covers_units_of_several_rows_and_values() -> None:
    """Whole people join or leave; each has many rows and values, of which two count."""
    rng = np.random.default_rng(5)

    def people(count: int, seed: int) -> pa.Table:
        drawn = np.random.default_rng(seed)
        values = np.array(list("abcdefgh"))[drawn.integers(0, 8, (count, 12))]
        return pa.table({"id": np.repeat(np.arange(count) + 1000 * seed, 12), "v": values.ravel()})

    def run(rows: pa.Table) -> FoundColumn:
        return discover_levels(step_of(rows, Unit(column="id", max_rows=4)), open_column())

    table = people(40, 1)
    joined = [pa.concat_tables([table, people(1, int(seed))]) for seed in rng.integers(2, 99, 4)]
    assert check_replay(run, table, [*joined, table.slice(12)]) == 5


@pytest.mark.parametrize("text", ["=1+1", "'; DROP TABLE t; --", "💩", "a\0b", "x" * 1000, '"', "\\", "a\nb", "nan"])
def test_hostile_texts_become_levels_that_files_and_reads_keep(text: str) -> None:
    rows = rows_of({text: 2000, "plain": 2000, "x" * 1001: 5000})
    column = discover_levels(step_of(rows), open_column()).column
    assert isinstance(column, Categorical)
    assert {*column.values} == {text, "plain"}
    schema = read_toml(Schema([column]).to_toml())
    assert hush.read(rows, schema).counts([("v",)])[("v",)].tolist() == [2000, 2000, 5000]


def test_ids_offered_as_categories_are_explained() -> None:
    ids = pa.table({"v": [f"person {k}" for k in range(5000)]})
    found = discover_levels(step_of(ids), open_column())
    assert isinstance(found.column, Categorical)
    assert found.column.values == ()
    assert "no value is common enough to be shown (values of at least" in found.provenance.note
    assert "if the column holds ids, names or free text, leave it out" in found.provenance.note
    mostly = pa.concat_tables([ids, rows_of({"n/a": 900})])
    note = discover_levels(step_of(mostly, entropy=NotPrivateEntropy(1)), open_column()).provenance.note
    assert "1 value found" in note
    assert re.search("about 8[3-7]% of the rows hold other values; if the column holds ids", note)
    # a release takes the schema in which nothing was found
    schema = read_toml(Schema([found.column]).to_toml())
    assert hush.read(ids, schema).counts([("v",)])[("v",)].tolist() == [5000]


def test_notes_say_what_is_missed_in_rows_or_units() -> None:
    whole = discover_levels(
        step_of(rows_of({"a": 3000, "b": 2000}), entropy=NotPrivateEntropy(1)), open_column()
    ).provenance
    stated = f"2 values found; values of at least {whole.found_from} rows are found; nearly all rows hold one of them"
    assert whole.note == stated
    listed = discover_levels(step_of(CITIES, entropy=NotPrivateEntropy(1)), PLAIN).provenance.note
    assert re.search("about 1[4-7]% of the rows apart from those with listed values hold other values$", listed)
    people = pa.table({"id": np.repeat(np.arange(2000), 2), "v": ["a", "b"] * 2000})
    note = discover_levels(
        step_of(people, Unit(column="id", max_rows=4), entropy=NotPrivateEntropy(1)), open_column()
    ).provenance.note
    assert (
        "units are found, with at most 2 values of each unit counted; nearly all values counted are among them" in note
    )


def test_a_column_without_values_is_found_empty() -> None:
    for rows in (rows_of({None: 50, "  ": 20}), rows_of({"a": 1}).slice(1)):
        found = discover_levels(step_of(rows), open_column(missing=True))
        assert isinstance(found.column, Categorical)
        assert found.column.values == ()


def test_the_values_of_a_unit_that_count_are_stated_or_the_root_of_its_rows() -> None:
    step = step_of(CITIES)
    assert values_per_unit(step, open_column(values_per_unit=7)) == 1  # a row has one value
    many = replace(step, unit=Unit(column="id", max_rows=20))
    assert values_per_unit(many, open_column()) == 4
    assert values_per_unit(many, open_column(values_per_unit=7)) == 7


def test_a_value_that_so_many_units_hold_is_found_half_the_time() -> None:
    """200 values, each of as many units as are hidden; far fewer or far more than half are found once in 10^9 runs."""
    step = step_of(CITIES)
    units = int(hidden_units(step, PLAIN))
    assert not step.account.events
    found = discover_levels(step_of(rows_of({f"c{k}": units for k in range(200)})), PLAIN)
    assert isinstance(found.column, Categorical)
    assert 60 <= len(found.column.values) - 2 <= 150  # two are known
    assert hidden_units(step_of(CITIES, budget=Budget(epsilon=1e-6, delta=1e-9)), PLAIN) > 10**5
    with pytest.raises(BudgetError, match="delta is too small to find levels"):
        hidden_units(replace(step, delta=Fraction(1, 2**200)), PLAIN)


def test_a_charge_that_does_not_fit_is_refused_before_anything_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DUCKDB.__class__, "stream", lambda *_: pytest.fail("read before the charge"))
    for wrong in ({"cost": BUDGET.limit * 2}, {"delta": Fraction(1, 10**8)}):
        step = step_of(CITIES, **wrong)
        with pytest.raises(BudgetError):
            discover_levels(step, PLAIN)
        assert not step.account.events


def test_seeded_noise_is_not_called_private() -> None:
    assert not discover_levels(step_of(CITIES, entropy=NotPrivateEntropy(3)), PLAIN).private


def test_a_value_that_enough_units_hold_is_missed_as_rarely_as_stated() -> None:
    """200 values of exactly `found_from` rows at failure = 0.2: 40 misses at most on average, 6 deviations above 74.

    With values of a threshold's rows, about half are missed, so the count can tell.
    """
    options = {"failure": 0.2, "entropy": NotPrivateEntropy(11)}
    stated = discover_levels(step_of(CITIES, **options), PLAIN).provenance
    assert stated.found_from is not None
    assert stated.threshold is not None
    held = {f"value {k}": stated.found_from for k in range(200)}
    assert 200 - len(discover_levels(step_of(rows_of(held), **options), open_column()).provenance.units) < 74
    held = {f"value {k}": stated.threshold for k in range(200)}
    assert 200 - len(discover_levels(step_of(rows_of(held), **options), open_column()).provenance.units) > 74


def test_more_units_are_needed_where_a_unit_counts_for_more_values() -> None:
    one, nine = (
        discover_levels(
            step_of(CITIES.append_column("id", pa.array(range(len(CITIES)))), Unit(column="id", max_rows=9)),
            open_column(values_per_unit=most),
        ).provenance
        for most in (1, 9)
    )
    assert one.units_stddev is not None
    assert nine.units_stddev == pytest.approx(3 * one.units_stddev, rel=1e-3)


def test_types_that_are_no_categories_are_refused_before_any_charge() -> None:
    step = step_of(pa.table({"v": [[1], [2]]}))
    with pytest.raises(DataError, match="whose values are no categories"):
        discover_levels(step, PLAIN)
    assert not step.account.events
