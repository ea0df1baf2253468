"""hush.synthesize and hush.Synthesizer: rows of a frame in one call, with the conventions of scikit-learn."""

from __future__ import annotations

import datetime as dt
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

import hush
from hush.discovery.guessed_draft import guessed_draft
from hush.errors import BudgetError, DataError, HushError, InterruptedRelease, SchemaError
from hush.synthesizer import _with_label
from hush.tables.frame_types import type_of

ROWS = 4000
RANDOM = np.random.default_rng(5)
AGES = RANDOM.integers(18, 90, ROWS)
FRAME = pd.DataFrame(
    {
        "age": AGES,
        "pay": np.where(AGES < 25, 0.0, RANDOM.gamma(3.0, 1000.0, ROWS)).astype("float32"),
        "sex": pd.Categorical(np.where(RANDOM.random(ROWS) < 0.5, "f", "m"), categories=["f", "m", "held by nobody"]),
        "works": AGES < 65,
        "joined": pd.Timestamp("2021-03-01", tz="Europe/Berlin") + pd.to_timedelta(RANDOM.integers(0, 700, ROWS), "D"),
    }
)
PUBLIC = {"levels": {"sex": ["f", "m"]}, "bounds": {"age": (18, 89)}, "ledger": False}


@pytest.fixture(scope="module")
def fitted() -> hush.Synthesizer:
    return hush.Synthesizer(epsilon=5.0, ledger=False).fit(FRAME)


def test_rows_have_the_types_and_the_structure_of_the_frame(fitted: hush.Synthesizer) -> None:
    rows = fitted.sample(3000, seed=1)
    assert list(rows.columns) == list(FRAME.columns)
    assert {name: str(kind) for name, kind in rows.dtypes.items()} == {n: str(k) for n, k in FRAME.dtypes.items()}
    assert abs(rows["age"].mean() - FRAME["age"].mean()) < 2
    # who works follows from the age, in the data and in the rows
    assert rows.loc[rows["age"] < 60, "works"].mean() > 0.85
    assert rows.loc[rows["age"] > 70, "works"].mean() < 0.15


def test_categories_come_from_what_was_found_and_not_from_the_type(fitted: hush.Synthesizer) -> None:
    assert set(fitted.sample(500)["sex"].cat.categories) <= {"f", "m", "other"}
    assert "held by nobody" not in fitted.schema_["sex"].level_values()


def test_it_says_what_was_assumed_and_found_and_spends_the_budget(fitted: hush.Synthesizer) -> None:
    text = str(fitted)
    assert "epsilon=5, delta=1e-09" in text
    assert "Assumed" in text
    assert any(line.startswith("age: ") for line in fitted.discovered_)
    assert fitted.release_.statement.private
    assert "Assumed" in fitted._repr_html_()
    assert fitted.n_features_in_ == len(FRAME.columns) == len(fitted.feature_names_in_)


def test_the_object_keeps_no_row_of_the_data(fitted: hush.Synthesizer) -> None:
    secret = "4bd7f3c0-a-value-of-one-row"
    frame = FRAME.assign(sex=[secret, *["f"] * (ROWS - 1)])
    other = hush.Synthesizer(epsilon=5.0, ledger=False).fit(frame[["sex", "works"]])
    assert not [name for name, value in vars(other).items() if secret in repr(value)]
    assert secret not in str(other)
    assert secret.encode() not in pickle.dumps(other._types)


def test_seeds_repeat_rows_and_calls_without_draw_others(fitted: hush.Synthesizer) -> None:
    assert fitted.sample(50, seed=3).equals(fitted.sample(50, seed=3))
    assert not fitted.sample(50).equals(fitted.sample(50))
    assert abs(len(fitted.sample()) - ROWS) < 200


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_other_frames_come_back_as_they_are(library: str) -> None:
    kept = FRAME[["age", "sex", "works"]]
    data = pl.from_pandas(kept) if library == "polars" else pa.Table.from_pandas(kept, preserve_index=False)
    rows = hush.synthesize(data, epsilon=5.0, rows=200, quiet=True, **PUBLIC)
    if library == "polars":
        assert isinstance(rows, pl.DataFrame)
        assert rows.schema == data.schema
    else:
        assert isinstance(rows, pa.Table)
        assert rows.column_names == data.column_names


def test_polars_times_keep_their_zone() -> None:
    moments = [dt.datetime(2021, 6, 1, 12, tzinfo=dt.UTC) + dt.timedelta(hours=h % 900) for h in range(3000)]
    data = pl.DataFrame({"at": moments}).with_columns(pl.col("at").dt.convert_time_zone("Asia/Tokyo"))
    rows = hush.synthesize(data, epsilon=10.0, rows=500, quiet=True, ledger=False)
    assert rows.schema == data.schema
    assert dt.datetime(2021, 5, 25, tzinfo=dt.UTC) < rows["at"].min() < rows["at"].max()


def test_the_call_reports_on_standard_error_unless_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    hush.synthesize(FRAME[["age", "works"]], epsilon=5.0, rows=10, ledger=False)
    shown = capsys.readouterr()
    assert "age: " in shown.err
    assert not shown.out
    hush.synthesize(FRAME[["age", "works"]], epsilon=5.0, rows=10, ledger=False, quiet=True)
    assert not capsys.readouterr().err


def test_a_ledger_is_asked_for_and_records_everything(tmp_path) -> None:
    with pytest.warns(UserWarning, match=r"give ledger='budget\.db'"):
        hush.synthesize(FRAME[["works"]], epsilon=1.0, rows=10, quiet=True)
    path = tmp_path / "budget.db"
    hush.Ledger.create(path, hush.Budget(epsilon=2.0, delta=1e-9))
    settings = {"epsilon": 1.0, "rows": 10, "quiet": True, "ledger": path}
    hush.synthesize(FRAME[["age", "works"]], **settings)
    ledger = hush.Ledger(path)
    spent = 1 - ledger.remaining / ledger.limit
    # mu^2/2 of epsilon 1 is about a third of that of epsilon 2
    assert Fraction(1, 5) < spent < Fraction(2, 5)
    hush.synthesize(FRAME[["age", "works"]], **settings)
    with pytest.raises(BudgetError, match="Budget used up|exceeds"):
        for _ in range(3):
            hush.synthesize(FRAME[["age", "works"]], **settings)


def test_a_full_schema_takes_the_whole_budget_and_keeps_its_rules() -> None:
    schema = hush.datasets.people_schema()
    people = hush.datasets.people(2000, seed=2)
    synthesizer = hush.Synthesizer(epsilon=3.0, schema=schema, ledger=False).fit(people)
    assert synthesizer.schema_ == schema
    assert (synthesizer.assumed_, synthesizer.discovered_) == ((), ())
    assert "of it found" not in str(synthesizer)


def test_a_unit_with_several_rows_is_protected_as_a_whole() -> None:
    people = FRAME[["works"]].assign(person=np.arange(ROWS) // 2)
    synthesizer = hush.Synthesizer(epsilon=5.0, unit="person", ledger=False).fit(people)
    assert synthesizer.schema_.unit.column == "person"
    assert 1 <= synthesizer.schema_.unit.max_rows <= 3
    capped = hush.Synthesizer(epsilon=5.0, unit="person", max_rows_per_unit=1, ledger=False).fit(people)
    assert capped.schema_.unit.max_rows == 1
    assert list(capped.sample(5).columns) == ["works"]


def test_scikit_learn_clones_sets_and_pipes_it() -> None:
    given = {"age": (18, 89)}
    synthesizer = hush.Synthesizer(epsilon=2.0, bounds=given, ledger=False)
    copy = clone(synthesizer)
    assert copy.get_params() == synthesizer.get_params()
    assert repr(copy) == "Synthesizer(epsilon=2.0, bounds={'age': (18, 89)}, ledger=False)"
    copy.set_params(epsilon=4.0)
    assert (copy.epsilon, synthesizer.epsilon) == (4.0, 2.0)
    copy.set_params(delta=float("1e-9"))  # equal to the default, and another object
    assert repr(copy) == "Synthesizer(epsilon=4.0, bounds={'age': (18, 89)}, ledger=False)"
    with pytest.raises(NotFittedError):
        check_is_fitted(copy)
    pipe = Pipeline([("rows", clone(copy))]).fit(FRAME[["age", "works"]])
    check_is_fitted(pipe.named_steps["rows"])
    assert not get_tags(copy).target_tags.required
    assert len(pipe.named_steps["rows"].sample(20)) == 20
    with pytest.raises(DataError, match="did you mean 'epsilon'"):
        copy.set_params(epsilom=1.0)


def test_y_becomes_the_label() -> None:
    synthesizer = hush.Synthesizer(epsilon=5.0, **PUBLIC).fit(FRAME[["age", "sex"]], FRAME["works"])
    rows = synthesizer.sample(100)
    assert list(rows.columns) == ["age", "sex", "works"]
    assert synthesizer.feature_names_in_ == ["age", "sex"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label": "work"}, "did you mean 'works'"),
        ({"bounds": {"agge": (0, 9)}}, "did you mean 'age'"),
        ({"levels": {"sex": ["f"]}}, "outside its declared levels.*list every value"),
        ({"levels": {"sex": "f"}}, r"expected a list, such as"),
        ({"levels": ["f", "m"]}, r"expected them by column, such as levels="),
        ({"bounds": (0, 9)}, r"expected them by column, such as bounds="),
        ({"bounds": {0: (0, 9)}}, "write its name as a text"),
        ({"bounds": {"age": ("a", "b")}}, "expected two numbers"),
        ({"bounds": {"joined": ("soon", "later")}}, r"expected days, such as \('2020-01-01'"),
        ({"delta": None}, "'sex' takes a budget of epsilon and delta"),
        ({"levels": {"age": [1]}, "bounds": {"age": (0, 9)}}, "keep one"),
        ({"max_rows_per_unit": 2}, "name it"),
        ({"schema": hush.datasets.people_schema(), "bounds": {"age": (0, 9)}}, "leave out levels= and bounds="),
        ({"epsilon": 0.0}, "above 0"),
        ({"ledger": True}, "expected the name of a file"),
        ({"ledger": ""}, "expected the name of a file"),
        ({"mechanism": "scuot"}, "did you mean 'scout'|expected"),
    ],
)
def test_mistakes_are_refused_before_anything_is_charged(settings, message: str, tmp_path) -> None:
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(epsilon=3.0, delta=1e-9))
    synthesizer = hush.Synthesizer(**{"epsilon": 1.0, "ledger": ledger} | settings)
    with pytest.raises(HushError, match=message):
        synthesizer.fit(FRAME)
    assert ledger.remaining == ledger.limit


@pytest.mark.parametrize("rows", [-1, 1.5, True, "many"])
def test_a_number_of_rows_that_nobody_can_draw_is_refused_before_anything_is_charged(rows, tmp_path) -> None:
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(epsilon=3.0, delta=1e-9))
    with pytest.raises(HushError, match=r"rows=.*whole number"):
        hush.synthesize(FRAME[["works"]], epsilon=1.0, rows=rows, ledger=ledger, quiet=True)
    assert ledger.remaining == ledger.limit


def test_what_was_paid_for_is_kept_where_rows_cannot_be_drawn() -> None:
    with pytest.raises(InterruptedRelease, match="in its attribute release") as caught:
        hush.synthesize(FRAME[["works"]], epsilon=1.0, rows=10**15, ledger=False, quiet=True)
    assert caught.value.release.synthesize(5).num_rows == 5


@pytest.mark.parametrize(
    ("kind", "value", "known"),
    [
        (pl.Time, dt.time(9), {}),
        (pl.Int8, 7, {"x": {"kind": "categorical", "values": [5], "other": True}}),
        (pl.Date, dt.date(2020, 1, 1), {"x": {"kind": "categorical", "values": ["2021-01-01"], "other": True}}),
    ],
)
def test_rows_that_do_not_fit_the_types_of_polars_are_given_as_they_are(kind, value, known) -> None:
    """After the charge no type may stand in the way of what was paid for."""
    data = pl.DataFrame({"x": pl.Series([value] * ROWS, dtype=kind), "works": FRAME["works"].to_numpy()})
    rows = hush.synthesize(data, epsilon=5.0, rows=10, schema=known or None, ledger=False, quiet=True)
    assert rows.schema["works"] == pl.Boolean
    assert rows.schema["x"] == (pl.String if known else kind)


@pytest.mark.parametrize("frame", [pl.from_pandas(FRAME[["works"]]), FRAME[["works"]]], ids=["polars", "pandas"])
@pytest.mark.parametrize("odd", [["secret", 5, [1]], [{"secret": 1}, "a", "b"], ["secret\ud800", "a", 1]], ids=str)
def test_labels_that_fit_no_column_are_refused_and_not_quoted(frame, odd) -> None:
    with pytest.raises(DataError) as caught:
        hush.Synthesizer(epsilon=5.0, ledger=False).fit(frame, [*odd, *["a"] * (ROWS - 3)])
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "label",
    [
        pd.Series([True, False, None], dtype="boolean"),
        pd.Series([1, 2, "one row"], dtype=object),
        pd.Series([1, 2, None], dtype="Int64", index=[7, 8, 9]),
        pl.Series([1, 2, None], dtype=pl.Int8),
        pl.Series(["a", "b", None], dtype=pl.Enum(["a", "b", "c"])),
        np.array([1, 2, 3], dtype="float32"),
    ],
    ids=str,
)
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_type_of_a_label_does_not_tell_what_one_row_holds(library: str, label) -> None:
    frame = pd.DataFrame({"age": [1, 2, 3]}) if library == "pandas" else pl.DataFrame({"age": [1, 2, 3]})
    if library == "pandas" and isinstance(label, pl.Series):
        pytest.skip("pandas has no such type")
    if library == "polars" and str(label.dtype) == "object":
        pytest.skip("polars has no such type")
    all_rows, column = _with_label(frame, label, None)
    fewer, _ = _with_label(frame[:2], label[:2], None)
    assert str(type_of(all_rows, column)) == str(type_of(fewer, column))
    assert list(all_rows[column])[:2] == list(label)[:2]
    assert [str(one) for one in guessed_draft(all_rows).assumed] == [str(one) for one in guessed_draft(fewer).assumed]


def test_sampling_before_fitting_is_refused() -> None:
    with pytest.raises(DataError, match="call fit"):
        hush.Synthesizer(epsilon=1.0).sample(10)
    with pytest.raises(SchemaError, match="no such column"):
        hush.Synthesizer(epsilon=1.0, label="x", ledger=False).fit(FRAME)


def test_a_mistyped_setting_is_refused_by_the_call() -> None:
    with pytest.raises(DataError, match="did you mean 'ledger'"):
        hush.synthesize(FRAME, epsilon=1.0, ledgr="budget.db")


def test_the_warning_about_the_ledger_names_the_line_of_the_caller() -> None:
    for call in (
        lambda: hush.synthesize(FRAME[["works"]], epsilon=1.0, quiet=True),
        lambda: hush.Synthesizer(epsilon=1.0).fit(FRAME[["works"]]),
    ):
        with pytest.warns(UserWarning, match="nothing records") as caught:
            call()
        assert caught[0].filename == __file__


def test_days_are_stated_as_texts_days_or_timestamps() -> None:
    days = (("2021-03-01", "2023-02-01"), (pd.Timestamp("2021-03-01"), np.datetime64("2023-02-01")))
    for bounds in days:
        stated = hush.Synthesizer(epsilon=5.0, bounds={"joined": bounds}, ledger=False).fit(FRAME[["joined", "works"]])
        assert (stated.schema_["joined.date"].start, stated.schema_["joined.date"].end) == (
            dt.date(2021, 3, 1),
            dt.date(2023, 2, 1),
        )


def test_objects_and_texts_with_bounds_of_days_are_days() -> None:
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=i % 700) for i in range(ROWS)]
    for column in (days, list(map(str, days))):
        bounds = {"born": ("2020-01-01", "2021-12-31")}
        stated = hush.Synthesizer(epsilon=5.0, bounds=bounds, ledger=False).fit(pd.DataFrame({"born": column}))
        assert stated.schema_["born"].kind == "date"
        assert (
            "born: date, as its bounds say, 2020-01-01 to 2021-12-31 as given; cells may be missing" in stated.assumed_
        )


def test_stated_levels_take_missing_cells_where_the_type_has_them() -> None:
    some = FRAME["sex"].astype("str").where(FRAME["age"] > 30)
    frame = FRAME[["works"]].assign(sex=some, rank=np.arange(ROWS) % 3)
    synthesizer = hush.Synthesizer(epsilon=5.0, levels={"sex": ["f", "m"], "rank": [0, 1, 2]}, ledger=False).fit(frame)
    assert (synthesizer.schema_["sex"].missing, synthesizer.schema_["rank"].missing) == (True, False)
    assert abs(synthesizer.sample(2000)["sex"].isna().mean() - some.isna().mean()) < 0.05
    assert "sex: categorical, with the 2 levels given; cells may be missing" in synthesizer.assumed_


def test_names_that_are_numbers_come_back_as_they_are() -> None:
    frame = FRAME[["age", "works"]].set_axis([0, 1], axis=1)
    rows = hush.Synthesizer(epsilon=5.0, bounds={"0": (18, 89)}, ledger=False).fit(frame).sample(20)
    assert rows.columns.tolist() == [0, 1]


def test_periods_are_days_and_come_back_as_periods() -> None:
    frame = pd.DataFrame({"month": pd.period_range("2000-01", periods=240, freq="M").repeat(10)})
    rows = hush.Synthesizer(epsilon=20.0, ledger=False).fit(frame).sample(500)
    assert rows.dtypes["month"] == frame.dtypes["month"]
    assert (rows["month"].min().year, rows["month"].max().year) == (2000, 2019)


def test_an_index_with_names_is_left_out_and_said_so() -> None:
    synthesizer = hush.Synthesizer(epsilon=5.0, ledger=False).fit(FRAME[["age", "works"]].set_index("age"))
    assert any("reset_index()" in line for line in synthesizer.assumed_)


def test_it_says_what_to_state_instead(fitted: hush.Synthesizer) -> None:
    assert "Add bounds={'age': (lowest, highest)} and levels={'sex': [...]}" in " ".join(str(fitted).split())
    assert "Advice" not in str(hush.Synthesizer(epsilon=5.0, ledger=False).fit(FRAME[["works"]]))


def test_a_ledger_without_delta_for_what_must_be_found_refuses_before_any_charge(tmp_path) -> None:
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(epsilon=5.0, delta=1e-9))
    frame = FRAME[["sex", "works"]]
    settings = {"epsilon": 0.5, "rows": 10, "quiet": True, "ledger": ledger}
    for _ in range(2):
        hush.synthesize(frame, **settings)
    left = ledger.remaining
    with pytest.raises(
        BudgetError, match="state the values instead of finding them, give this release a smaller delta"
    ):
        hush.synthesize(frame, **settings)
    assert ledger.remaining == left
    hush.synthesize(frame, delta=1e-11, **settings)
    hush.synthesize(frame, levels={"sex": ["f", "m"]}, **settings)
