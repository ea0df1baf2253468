"""Answers: columns, intervals, conversions, and how they look."""

from __future__ import annotations

import datetime as dt
import re
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from scipy.stats import norm

from dense_twins import DenseEstimates
from drawn_schemas import columns
from hush.core.errors import DomainError, HushError, QueryError
from hush.inference.intervals import FixedIntervals
from hush.release.answers import Answers, ErrorKind, GroupColumn, Quantity
from hush.release.sql_answers import answer_sql
from hush.schema import Boolean, Categorical, Date, Integer, Numeric, Schema

SCHEMA = Schema(
    [
        Categorical(name="sex", values=("f", "m"), other=True, missing=True),
        Integer(name="age", low=18, high=20, outside="clamp", missing=True),
        Numeric(name="income", edges=(0, 10, 20), missing=True),
        Date(name="day", start=dt.date(2020, 1, 31), end=dt.date(2020, 3, 1), granularity="month"),
        Boolean(name="smoker"),
    ]
)


def marginal(*names: str, variance: Any = 4.0, **options: Any) -> Answers:
    shape = SCHEMA.domain.sizes(names)
    counts = 100.0 * np.arange(1, 1 + SCHEMA.domain.size(names)).reshape(shape)
    return Answers.of_marginal(SCHEMA, names, counts, variance, **options)


def test_a_marginal_has_a_row_for_every_cell_in_order() -> None:
    answers = marginal("smoker", "sex")
    assert len(answers) == 8
    assert answers.labels == {"smoker": [False] * 4 + [True] * 4, "sex": ["f", "m", "other", None] * 2}
    assert answers.codes["sex"].tolist() == [0, 1, 2, 3] * 2
    assert answers.estimate.tolist() == [100.0 * k for k in range(1, 9)]
    assert answers.std_error.tolist() == [2.0] * 8
    assert answers.basis.tolist() == ["exact"] * 8


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("sex", ["f", "m", "other", None]),
        ("age", [18, 19, 20, None]),
        ("income", ["[0, 10)", "[10, 20]", None]),
        ("day", [dt.date(2020, 1, 31), dt.date(2020, 2, 1), dt.date(2020, 3, 1)]),
        ("smoker", [False, True]),
    ],
)
def test_labels_are_real_values_with_null_for_missing(name: str, labels: list[Any]) -> None:
    assert marginal(name).labels == {name: labels}
    assert marginal(name).to_arrow()[name].to_pylist() == labels


@settings(max_examples=30)
@given(columns())
def test_a_label_stands_for_every_code_of_any_column(column: Any) -> None:
    codes = np.array([0, column.size - 1])
    values = GroupColumn("x", column, codes).values().to_pylist()
    assert (values[1] is None) == column.missing


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_intervals_are_normal_quantiles_at_the_level(level: float) -> None:
    answers = marginal("sex", level=level)
    low, high = norm.interval(level, loc=answers.estimate, scale=2.0)
    np.testing.assert_allclose(answers.lower, low, rtol=1e-12)
    np.testing.assert_allclose(answers.upper, high, rtol=1e-12)
    np.testing.assert_array_equal(marginal("sex").at_level(level).lower, answers.lower)


def test_variances_may_differ_by_cell_or_be_unknown() -> None:
    answers = marginal("smoker", variance=[4.0, np.nan])
    assert answers.basis.tolist() == ["exact", "none"]
    assert np.isnan(answers.lower).tolist() == [False, True]
    unknown = marginal("smoker", variance=None, error_kind="none")
    assert unknown.basis.tolist() == ["none", "none"]
    assert "not known" in str(unknown)


def test_the_total_is_a_marginal_without_groups() -> None:
    answers = Answers.of_marginal(SCHEMA, (), 7.0, 1.0)
    assert (len(answers), answers.labels, answers.estimate.tolist()) == (1, {}, [7.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: marginal("sex", level=1), "level=1: expected a number between 0 and 1, such as 0.95"),
        (lambda: marginal("sex", level=True), "level=True"),
        (lambda: marginal("sex", level="high"), "level='high'"),
        (
            lambda: marginal("sex", error_kind="sure"),
            "error_kind='sure': expected one of 'exact', 'approximate', 'model', 'noise', 'binned', 'bound', 'none'",
        ),
        (lambda: Answers.of_marginal(SCHEMA, ("sex",), [1.0], 1.0), r"counts of shape \(1,\) .* expected \(4,\)"),
        (lambda: Answers.of_marginal(SCHEMA, ("smoker",), [1, 2], [1, 2, 3]), r"variances of shape \(3,\)"),
        (lambda: marginal("nothing"), "'nothing' is not in the domain"),
        (lambda: Answers(groups=(), quantities=()), "without a value"),
        (lambda: Answers(groups=(), quantities=(value("a"), value("a"))), "share a name"),
        (lambda: Answers(groups=(), quantities=(value("a"), value("b", rows=3))), "differ in length"),
        (lambda: Quantity("a", np.zeros(2), np.zeros(3)), "one estimate and one standard error"),
        (lambda: marginal("sex")["sex"], "no value is called 'sex'; the answers have count"),
    ],
)
def test_what_is_no_answer_is_refused(make: Any, message: str) -> None:
    with pytest.raises((QueryError, DomainError), match=message):
        make()


def value(name: str, rows: int = 2) -> Quantity:
    return Quantity(name, np.arange(rows) + 0.5, np.ones(rows), ErrorKind.EXACT)


def several() -> Answers:
    sex = GroupColumn("sex", SCHEMA["sex"], np.array([0, 3]))
    ratio = Quantity("r", np.array([0.25, np.nan]), np.array([0.01, np.nan]), ErrorKind.APPROXIMATE)
    return Answers(groups=(sex,), quantities=(value("n"), ratio), notes=("A note.",))


def test_several_values_carry_their_names() -> None:
    answers = several()
    parts = ("estimate", "std_error", "lower", "upper", "basis")
    assert answers.to_arrow().column_names == ["sex", *(f"{name}_{part}" for name in ("n", "r") for part in parts)]
    assert answers["r"].to_arrow().column_names == ["sex", *parts]
    assert answers["r"].basis.tolist() == ["approximate", "none"]
    assert answers.names == ("n", "r")
    with pytest.raises(QueryError, match=r"several values \(n, r\); choose one, such as answers\['n'\]"):
        answers.estimate  # noqa: B018


def test_columns_named_like_a_part_keep_their_name() -> None:
    schema = Schema([Boolean(name="estimate"), Boolean(name="count")])
    answers = Answers.of_marginal(schema, ("estimate", "count"), np.ones((2, 2)), 1.0)
    assert answers.to_arrow().column_names[:4] == ["estimate", "count", "estimate_2", "std_error"]
    assert answers.names == ("count_2",)


def test_arrays_hold_the_estimates() -> None:
    np.testing.assert_array_equal(np.asarray(marginal("smoker")), [100.0, 200.0])
    np.testing.assert_array_equal(np.array(marginal("smoker"), dtype=np.int64), [100, 200])
    np.testing.assert_array_equal(np.asarray(several()), [[0.5, 0.25], [1.5, np.nan]])
    with pytest.raises(ValueError, match="need a copy"):
        marginal("smoker").__array__(np.float32, copy=False)


def test_rows_are_dictionaries() -> None:
    first, second = marginal("smoker", variance=0.0)
    assert first == {
        "smoker": False,
        "estimate": 100.0,
        "std_error": 0.0,
        "lower": 100.0,
        "upper": 100.0,
        "basis": "exact",
    }
    assert second["smoker"] is True


def test_frames_hold_every_column() -> None:
    pandas = marginal("age").to_pandas()
    assert list(pandas.columns) == ["age", "estimate", "std_error", "lower", "upper", "basis"]
    assert str(pandas["age"].dtype) == "Int64"
    assert pandas["age"].isna().tolist() == [False, False, False, True]
    polars = marginal("income").to_polars()
    assert polars["income"].to_list() == ["[0, 10)", "[10, 20]", None]
    assert polars["estimate"].to_list() == [100.0, 200.0, 300.0]


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_missing_extra_says_how_to_install_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(HushError, match=rf"to_{name}\(\) needs {name}.*pip install 'hush\[{name}\]'"):
        getattr(marginal("sex"), f"to_{name}")()


def test_answers_are_values_that_cannot_be_changed() -> None:
    counts = np.array([1.0, 2.0])
    answers = Answers.of_marginal(SCHEMA, ("smoker",), counts, 1.0)
    counts[0] = 99
    assert answers.estimate.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        answers.estimate[0] = 3
    with pytest.raises(AttributeError):
        answers.level = 0.5  # type: ignore[misc]
    assert answers == Answers.of_marginal(SCHEMA, ("smoker",), [1.0, 2.0], 1.0)
    assert answers != Answers.of_marginal(SCHEMA, ("smoker",), [1.0, 2.5], 1.0)
    assert answers != Answers.of_marginal(SCHEMA, ("smoker",), [1.0, 2.0], 2.0)
    assert several() == several()
    with pytest.raises(TypeError):
        hash(answers)


def bounded(margin: float = 300.0, **options: Any) -> Answers:
    return marginal("sex", variance=None, error_kind="bound", margin=margin, **options)


def test_a_margin_is_the_interval_where_there_is_no_standard_error() -> None:
    answers = bounded()
    assert answers.basis.tolist() == ["bound"] * 4
    assert answers.lower.tolist() == [-200.0, -100.0, 0.0, 100.0]
    assert answers.upper.tolist() == [400.0, 500.0, 600.0, 700.0]
    assert answers.to_arrow()["upper"].to_pylist() == [400.0, 500.0, 600.0, 700.0]
    fixed = FixedIntervals(np.array([-8.0, np.nan]), np.array([10.0, np.nan]), 0.95)
    kept = Answers(groups=(), quantities=(Quantity("n", np.ones(2), np.full(2, np.nan), intervals=fixed),))
    assert kept.basis.tolist() == ["bound", "none"]
    np.testing.assert_allclose(kept.take(np.array([1, 0])).upper, [np.nan, 10])


def test_a_margin_is_of_one_level() -> None:
    with pytest.raises(QueryError, match=r"hold at level 0.95 .* ask the release again, with level=0.5"):
        bounded().at_level(0.5)
    assert bounded().at_level(0.95) == bounded()
    assert bounded(margin=np.nan).at_level(0.5).level == 0.5


def test_margins_are_part_of_the_value() -> None:
    assert bounded() == bounded()
    assert bounded() != bounded(margin=301.0)
    assert bounded() != marginal("sex", variance=None, error_kind="bound")
    assert bounded(margin=np.nan) == bounded(margin=np.nan)
    with pytest.raises(QueryError, match="value 'n': expected one interval for each row"):
        Quantity("n", np.ones(2), np.ones(2), intervals=FixedIntervals(np.ones(3), np.ones(3), 0.95))


def test_bounded_answers_show_their_interval_and_no_standard_error() -> None:
    lines = str(bounded(level=0.9)).splitlines()
    assert lines[0].split() == ["sex", "count", "90", "%", "interval"]
    assert lines[1].split() == ["f", "100", "-200", "to", "400"]
    assert lines[-1] == "intervals hold with 90 %, by a bound on the error of the whole table"
    assert "±" not in str(bounded())
    page = bounded()._repr_html_()
    assert "±" not in page
    assert "-200 to 400" in page
    assert "by a bound on the error of the whole table" in page


def test_exact_and_bounded_values_stand_side_by_side() -> None:
    sex = GroupColumn("sex", SCHEMA["sex"], np.array([0, 3]))
    fixed = FixedIntervals(np.array([-35.0, -34.0]), np.array([45.0, 46.0]), 0.95)
    bound = Quantity("m", np.array([5.0, 6.0]), np.full(2, np.nan), ErrorKind.BOUND, fixed)
    answers = Answers(groups=(sex,), quantities=(value("n"), bound))
    assert " ".join(str(answers).split()).endswith(
        "± one standard error, exact; intervals of m hold with 95 %, by a bound on the error of the whole table"
    )
    assert answers._repr_html_().count("±") == 3  # twice in the column of n, once in the foot
    with pytest.raises(QueryError, match="ask the release again"):
        answers.at_level(0.5)
    assert answers["n"].at_level(0.5).level == 0.5


def test_take_keeps_the_columns_together() -> None:
    answers = marginal("sex").take(np.array([3, 0]))
    assert answers.labels == {"sex": [None, "f"]}
    assert answers.estimate.tolist() == [400.0, 100.0]


def test_text_is_an_aligned_table() -> None:
    text = str(Answers.of_marginal(SCHEMA, ("smoker", "age"), [[1234.5, 7, 0, -2.25]] * 2, 151.3))
    assert text.splitlines()[:4] == [
        "smoker  age             count   95 % interval",
        "False   18         1,234 ± 12  1,210 to 1,259",
        "False   19             7 ± 12    -17 to 31",
        "False   20             0 ± 12    -24 to 24",
    ]
    assert text.splitlines()[4].startswith("False   (missing)")
    assert "± one standard error, exact" in text
    assert "note: age: values beyond its bounds were clamped, so the levels 18 and 20 hold" in text


def test_long_answers_are_cut_with_a_count_of_the_rest() -> None:
    schema = Schema([Integer(name="x", low=0, high=1253)])
    lines = str(Answers.of_marginal(schema, ("x",), np.ones(1254), 1.0)).splitlines()
    assert lines[21] == "... 1,234 more rows"
    assert len(lines) == 23
    assert "(no rows)" in str(marginal("sex").take(np.array([], dtype=int)))


@pytest.mark.parametrize(
    ("estimate", "variance", "text"),
    [
        (1234.56, 151.29, "1,235 ± 12"),
        (0.1234567, 0.01**2, "0.123 ± 0.010"),
        (5.0, 0.0, "5 ± 0"),
        (2.5, 0.0, "2.5 ± 0"),
        (123456789.4, 1e10, "123,456,789 ± 100,000"),
        (np.nan, np.nan, "n/a ± n/a"),
        (1e20, 1e30, "1e+20 ± 1e+15"),
        (np.inf, 1.0, "inf ± 1"),
        (1e-14, 1e-30, "1e-14 ± 1e-15"),
        (-0.001, 1.0, "0 ± 1"),
        (1006.0, 7.84, "1,006 ± 2.8"),
    ],
)
def test_numbers_show_two_digits_of_their_error_and_no_idle_zeros(estimate: float, variance: float, text: str) -> None:
    assert text in str(Answers.of_marginal(SCHEMA, (), estimate, variance))


def test_both_ends_of_an_interval_show_the_same_decimals() -> None:
    fixed = FixedIntervals(np.array([506.0, 559.0]), np.array([543.1, 596.1]), 0.95)
    quantity = Quantity("n", np.array([524.5, 577.5]), np.full(2, 8.8), intervals=fixed)
    text = str(Answers(groups=(), quantities=(quantity,)))
    assert "506.0 to 543.1" in text
    assert "559.0 to 596.1" in text
    whole = FixedIntervals(np.array([506.0]), np.array([543.0]), 0.95)
    assert "506 to 543" in str(Answers(groups=(), quantities=(Quantity("n", np.ones(1), np.ones(1), intervals=whole),)))


names = st.text(min_size=1, max_size=30).filter(lambda text: bool(text.strip()))


@given(
    st.lists(names, min_size=1, max_size=7, unique=True),
    st.lists(names, min_size=1, max_size=6, unique=True),
    st.data(),
)
def test_text_shows_all_columns_in_eighty_cells_or_the_least_that_holds_them(
    groups: list[str], values: list[str], data: st.DataObject
) -> None:
    words = data.draw(
        st.text(st.characters(codec="utf-8"), min_size=30, max_size=60).filter(lambda text: bool(text.strip()))
    )
    taken = [name for name in values if name not in groups] or ["v" * 31]
    answers = Answers(
        groups=tuple(
            GroupColumn(name, Categorical(name="c", values=(words, "b")), np.array([0, 1, 0])) for name in groups
        ),
        quantities=tuple(
            Quantity(name, np.array([1e9, -3.5, np.nan]), np.array([1.0, 0.001, np.nan])) for name in taken
        ),
        notes=("A note that is rather long, " * 9,),
    )
    lines = str(answers).split("\n")
    widest = 60 + len("  999,999,998.040 to 1,000,000,001.960")  # a heading, and an interval
    assert max(map(cell_len, lines)) <= max(80, 10 * len(groups) + widest)
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("not shown: ") for line in lines)


def test_several_values_show_side_by_side() -> None:
    lines = str(several()).splitlines()
    assert re.fullmatch(r"sex +n +95 % interval +r +95 % interval", lines[0])
    assert "n/a ±" in lines[2]
    assert lines[3:] == ["± one standard error, exact or approximate (delta method)", "note: A note."]


def test_several_values_keep_every_interval_in_eighty_columns() -> None:
    names = [f"value_{k}" for k in range(6)]
    values = [Quantity(name, np.array([1000.0 + k, 2.0]), np.array([10.0, 1.0])) for k, name in enumerate(names)]
    answers = Answers(groups=(GroupColumn("smoker", SCHEMA["smoker"], np.arange(2)),), quantities=tuple(values))
    lines = str(answers).splitlines()
    assert lines[0].split() == ["smoker", "value", "estimate", "95", "%", "interval"]
    assert max(map(len, lines)) <= 80
    assert sum(" to " in line for line in lines) == 12
    assert lines[1].split()[:2] == ["False", "value_0"]
    assert lines[2].split()[0] == "value_1"


def test_html_is_a_table_with_every_text_escaped() -> None:
    hostile = "<script>alert('x')</script>"
    schema = Schema([Categorical(name=f"c{hostile}", values=(hostile, "&b"))])
    group = GroupColumn(f"g{hostile}", schema.columns[0], np.array([0, 1]))
    page = Answers(groups=(group,), quantities=(value(f"v{hostile}"),), notes=(f"n{hostile}",))._repr_html_()
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;") == 4
    assert "&amp;b" in page
    assert page.count("<tr>") == 3


def test_html_cuts_long_answers() -> None:
    schema = Schema([Integer(name="x", low=0, high=99)])
    page = Answers.of_marginal(schema, ("x",), np.ones(100), 1.0)._repr_html_()
    assert page.count("<tr>") == 51
    assert "... 50 more rows" in page


def test_text_has_all_columns_and_as_many_rows_as_asked() -> None:
    names = [f"column{i}" for i in range(8)]
    schema = Schema([Categorical(name=name, values=("first value", "second value")) for name in names])
    answers = Answers.of_marginal(schema, tuple(names), np.ones((2,) * 8), 4.0)
    shown = repr(answers)
    assert all(name in shown.splitlines()[0] for name in names)
    assert "not shown" not in shown
    assert "... 236 more rows" in shown
    assert len(answers.text(256).splitlines()) == 258  # a heading, 256 rows and what the error is


def test_weeks_say_where_they_start() -> None:
    column = Date(name="d", start=dt.date(2024, 1, 3), end=dt.date(2024, 1, 30), granularity="week")
    schema = Schema([column, Date(name="day", start=dt.date(2024, 1, 1), end=dt.date(2024, 1, 14))])
    answers = Answers.of_marginal(schema, ("d",), [1, 2, 3, 4], 1.0)
    assert any("weeks start on Wednesdays" in note for note in answers.notes)
    estimates = DenseEstimates(schema.domain, np.ones(schema.domain.shape))
    query = "SELECT DATE_TRUNC('week', day) AS w, COUNT(*) AS n FROM t GROUP BY w"
    truncated = answer_sql(query, schema, estimates)
    assert any("weeks start on Mondays and are numbered by ISO 8601" in note for note in truncated.notes)
    assert truncated.labels["w"] == [dt.date(2024, 1, 1), dt.date(2024, 1, 8)]
