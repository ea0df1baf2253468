"""hush.count: one table in one call, from public levels alone."""

from __future__ import annotations

import datetime as dt

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hush
from hush.errors import BudgetError, DataError, HushError, SchemaError

ROWS = hush.datasets.people(2000, seed=3)
FRAME = ROWS.to_pandas()
SEXES = ["female", "male"]


def test_intervals_hold_the_exact_counts_of_a_large_budget() -> None:
    answers = hush.count(FRAME, "sex", "employed", epsilon=50.0, levels={"sex": SEXES})
    exact = FRAME.groupby(["sex", "employed"]).size()
    assert [round(value) for value in answers.estimate] == exact.tolist()
    assert answers.labels["sex"] == ["female", "female", "male", "male"]


def test_it_costs_what_it_says_and_the_ledger_knows(tmp_path) -> None:
    cap = hush.Budget(epsilon=1.0)
    ledger = hush.Ledger.create(tmp_path / "budget.db", cap)
    answers = hush.count(FRAME, "sex", epsilon=0.5, levels={"sex": SEXES}, ledger=ledger)
    assert float(ledger.remaining) == pytest.approx(0.5)
    assert any("epsilon=0.5" in note for note in answers.notes)
    assert not any("ledger" in note for note in answers.notes)
    with pytest.raises(BudgetError):
        hush.count(FRAME, "sex", epsilon=0.6, levels={"sex": SEXES}, ledger=ledger)
    assert float(ledger.remaining) == pytest.approx(0.5)
    assert any("ledger=" in note for note in hush.count(FRAME, "sex", epsilon=0.5, levels={"sex": SEXES}).notes)


def test_after_gaussian_noise_a_delta_makes_room_where_pure_epsilon_has_none(tmp_path) -> None:
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(epsilon=2.0, delta=1e-9))
    rows = FRAME[["age", "employed"]]
    hush.synthesize(rows, epsilon=1.0, bounds={"age": (0, 99)}, ledger=ledger, quiet=True)
    left = ledger.remaining
    with pytest.raises(BudgetError, match=r"with hush\.count, add delta=1e-9"):
        hush.count(rows, "employed", epsilon=0.5, ledger=ledger)
    assert ledger.remaining == left
    answers = hush.count(rows, "employed", epsilon=0.5, delta=1e-9, ledger=ledger)
    assert ledger.remaining < left
    assert any("epsilon=0.5, delta=1e-09" in note for note in answers.notes)


@pytest.mark.parametrize("level", [0, 1, 95, None, float("nan")])
def test_a_level_of_confidence_that_is_none_is_refused_before_anything_is_charged(level, tmp_path) -> None:
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(epsilon=2.0))
    with pytest.raises(HushError, match="level="):
        hush.count(FRAME, "employed", epsilon=0.5, level=level, ledger=ledger)
    assert ledger.remaining == ledger.limit


def test_types_that_hold_levels_need_none() -> None:
    frame = pl.DataFrame({"sex": pl.Series(["f", "f"], dtype=pl.Enum(["f", "m", "x"])), "in": [True, False]})
    answers = hush.count(frame, "sex", "in", epsilon=50.0)
    assert answers.labels["sex"] == ["f", "f", "m", "m", "x", "x"]
    assert [round(value) for value in answers.estimate] == [1, 1, 0, 0, 0, 0]


def test_categories_of_pandas_come_from_rows_and_are_not_taken() -> None:
    frame = pd.DataFrame({"sex": ["f", "f", "a rare one"]}).astype("category")
    with pytest.raises(SchemaError, match=r"from the rows, as pandas does.*levels={'sex': \['a', 'b'\]}") as caught:
        hush.count(frame, "sex", epsilon=1.0)
    assert "a rare one" not in str(caught.value)
    assert ".cat." not in str(caught.value)  # no advice to take them from there
    stated = hush.count(frame, "sex", epsilon=50.0, levels={"sex": frame["sex"].cat.categories})
    assert stated.labels["sex"] == ["a rare one", "f"]


@pytest.mark.parametrize(
    ("column", "bounds", "size", "first"),
    [
        ("age", (0, 99), 100, "0"),
        ("age", (0, 99, 10), 10, "0 to 9"),
        ("income", (0, 120_000), 20, "[0, 6000)"),
        ("moved", (dt.date(2015, 1, 1), dt.date(2024, 12, 31)), 10, "2015"),
        ("moved", (dt.date(2024, 1, 1), dt.date(2024, 12, 31)), 12, "2024-01"),
        ("moved", ("2024-01-01", pd.Timestamp("2024-12-31")), 12, "2024-01"),
    ],
)
def test_bounds_make_levels(column, bounds, size, first) -> None:
    answers = hush.count(ROWS, column, epsilon=1.0, bounds={column: bounds}, missing=column == "income")
    assert len(answers) == size + (column == "income")
    assert answers.groups[0].label(0) == first


@pytest.mark.parametrize("bounds", [(0, 99), (0, 99, 10), (0, 5000), (0.0, 9.0)])
def test_levels_do_not_show_that_pandas_found_a_missing_cell(bounds) -> None:
    """It makes whole numbers floats."""
    full, gap = (pd.DataFrame({"age": [31, 4, last]}) for last in (7, None))
    assert full["age"].dtype != gap["age"].dtype
    first, second = (
        hush.count(frame, "age", epsilon=1.0, bounds={"age": bounds}, missing=True) for frame in (full, gap)
    )
    assert first.labels == second.labels


def test_a_schema_file_says_all(tmp_path) -> None:
    hush.datasets.people_schema().save(tmp_path / "people.toml")
    answers = hush.count(ROWS, "region", epsilon=1.0, schema=tmp_path / "people.toml", where="age >= 18")
    assert len(answers) == 5


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (("sex",), {}, r"levels of 'sex' are not known.*levels=\{'sex': \['a', 'b'\]\}"),
        (("age", "sex"), {}, r"'age', 'sex'.*bounds=\{'age': \(0, 99\)\}"),
        (("age", "sex", "moved"), {}, r"levels=\{'sex': \['a', 'b'\]\}.*bounds=|bounds=.*levels="),
        (("sex",), {"levels": {"sez": SEXES}}, "did you mean 'sex'"),
        (("sex",), {"levels": {"region": ["North"], "sex": SEXES}}, "the call does not count by this column"),
        (("sex",), {"levels": SEXES}, "expected them by column"),
        (("age",), {"bounds": (0, 99)}, "expected them by column"),
        (("sex",), {"levels": {"sex": "female"}}, "expected a list"),
        ((["sex", "age"],), {}, "one after the other"),
        (("sez",), {"levels": {"sez": SEXES}}, "did you mean 'sex'"),
        (("age",), {"bounds": {"age": 99}}, r"expected \(lowest, highest\)"),
        (("age",), {"bounds": {"age": (0, 9)}, "levels": {"age": [1]}}, "both levels and bounds"),
        (("age",), {"schema": hush.datasets.people_schema(), "missing": True}, "leave out levels="),
        ((), {}, "name at least one column"),
        (("sex", "sex"), {}, "named twice"),
    ],
)
def test_what_is_not_public_or_not_clear_is_refused_before_any_row_is_read(
    columns, options, message, monkeypatch
) -> None:
    monkeypatch.setattr("hush.quick_count.read", None)  # a call would fail otherwise
    with pytest.raises((SchemaError, DataError), match=message):
        hush.count(FRAME, *columns, epsilon=1.0, **options)


def test_levels_are_never_those_of_the_rows() -> None:
    one, other = pa.table({"sex": ["f", "m"]}), pa.table({"sex": ["f", "z"]})
    messages = []
    for rows in (one, other):
        with pytest.raises(SchemaError) as refused:
            hush.count(rows, "sex", epsilon=1.0)
        messages.append(str(refused.value))
    assert messages[0] == messages[1]
