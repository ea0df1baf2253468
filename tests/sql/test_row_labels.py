"""Expressions in GROUP BY: without noise, the answers are those of DuckDB on the rows."""

from __future__ import annotations

import datetime as dt
import functools
from typing import Any

import duckdb
import numpy as np
import pytest

from dense_twins import DenseEstimates
from hush.core.errors import HushError, SizeError
from hush.release.sql_answers import answer_sql
from hush.schema import Boolean, Categorical, Date, Integer, Numeric, Schema
from hush.sql.row_labels import MOST_LABELS
from hush.workloads import Workload

SCHEMA = Schema(
    [
        Integer(name="age", low=-3, high=12, missing=True),
        Categorical(name="sex", values=("m", "f"), missing=True),
        Boolean(name="smoker", missing=True),
        Date(name="day", start=dt.date(2020, 12, 26), end=dt.date(2021, 1, 6)),
        Date(name="month", start=dt.date(2020, 11, 1), end=dt.date(2021, 2, 28), granularity="month"),
    ]
)
ROWS = 400


@functools.cache
def source() -> tuple[duckdb.DuckDBPyConnection, DenseEstimates]:
    rng = np.random.default_rng(7)
    codes = {column.name: rng.integers(0, column.size, ROWS) for column in SCHEMA}
    connection = duckdb.connect()
    connection.register("t", SCHEMA.decode(codes))
    counts = np.zeros(SCHEMA.domain.shape)
    np.add.at(counts, tuple(codes.values()), 1)
    return connection, DenseEstimates(SCHEMA.domain, counts)


EXPRESSIONS = [
    "CASE WHEN age < 4 THEN 'young' WHEN age < 9 THEN 'older' ELSE 'old' END",
    "CASE WHEN age < 4 AND sex = 'f' THEN 'a' WHEN smoker THEN 'b' END",
    "CASE sex WHEN 'm' THEN 1 ELSE 2 END",
    "CASE WHEN smoker THEN sex ELSE 'none' END",
    "IF(age > 3, 'yes', NULL)",
    "COALESCE(sex, 'unknown')",
    "age >= 4",
    "sex = 'f' OR smoker",
    "FLOOR(age / 5)",
    "CEIL(age / 5) * 5",
    "age // 5",
    "age % 4",
    "age - age % 4",
    "-age * 2 + 1",
    "CAST(age / 2 AS INTEGER)",
    "ABS(age)",
    "EXTRACT(YEAR FROM month)",
    "YEAR(day)",
    "MONTH(day)",
    "DAY(day)",
    "QUARTER(day)",
    "DAYOFWEEK(day)",
    "EXTRACT(ISODOW FROM day)",
    "EXTRACT(WEEK FROM day)",
    "EXTRACT(DOY FROM day)",
    "DATE_PART('month', month)",
    "CAST(DATE_TRUNC('week', day) AS DATE)",
    "CAST(DATE_TRUNC('quarter', month) AS DATE)",
    "(day >= '2021-01-01')",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_answers_are_those_of_the_rows(expression: str) -> None:
    connection, estimates = source()
    ours = expression.removeprefix("CAST(").removesuffix(" AS DATE)") if "TRUNC" in expression else expression
    where = "FROM t WHERE age <> 5 OR age IS NULL GROUP BY g, sex"
    select = "{} AS g, COUNT(*) AS n, SUM(age) AS s"
    answers = answer_sql(f"SELECT sex, {select.format(ours)} {where}", SCHEMA, estimates)
    expected = connection.execute(f"SELECT sex, {select.format(expression)} {where} ORDER BY 1, 2").fetchall()
    numbers = (np.round(answers[name].estimate, 6).tolist() for name in "ns")
    rows = list(zip(*answers.labels.values(), *numbers, strict=True))
    assert [row for row in rows if row[2]] == [(*row[:3], row[3] or 0) for row in _order(expected)]


def _order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """In the order of hush: that of the schema's levels, then of the values; null last."""
    sexes = {"m": 0, "f": 1, None: 2}
    return sorted(rows, key=lambda row: (sexes[row[0]], row[1] is None, row[1]))


@pytest.mark.parametrize(
    ("group", "column"),
    [("g", "g"), ("1", "g"), ("age >= 4", "g"), ("ALL", "g"), ("age >= 4, sex", "g")],
)
def test_aliases_positions_and_expressions_mean_the_same(group: str, column: str) -> None:
    answers = answer_sql(f"SELECT age >= 4 AS {column}, COUNT(*) FROM t GROUP BY {group}", SCHEMA, source()[1])
    assert dict.fromkeys(answers.labels["g"]) == dict.fromkeys([False, True, None])
    assert answers.estimate.sum() == ROWS


def test_an_expression_need_not_be_selected() -> None:
    answers = answer_sql("SELECT COUNT(*) FROM t GROUP BY age >= 4 ORDER BY age >= 4 DESC LIMIT 2", SCHEMA, source()[1])
    assert answers.labels == {"age >= 4": [True, False]}


def test_a_condition_that_nothing_meets_leaves_no_groups() -> None:
    answers = answer_sql("SELECT age >= 4 AS g, COUNT(*) FROM t WHERE FALSE GROUP BY g", SCHEMA, source()[1])
    assert len(answers) == 0
    assert answers.labels == {"g": []}


def test_too_many_groups_are_refused() -> None:
    schema = Schema([Integer(name=name, low=0, high=1200) for name in "ab"])
    estimates = DenseEstimates(schema.domain, np.ones(schema.domain.shape))
    with pytest.raises(SizeError, match=f"has 1,201 groups: at most {MOST_LABELS:,} are possible"):
        answer_sql("SELECT a + 1 AS g, COUNT(*) FROM t GROUP BY g", schema, estimates)
    with pytest.raises(SizeError, match="with 1,442,401 cells: at most 1,048,576 are possible; name fewer columns"):
        answer_sql("SELECT COUNT(*) FROM t GROUP BY a + b", schema, estimates)
    with pytest.raises(SizeError, match="10,201 combinations of values: at most 1,000 are possible"):
        answer_sql("SELECT COUNT(*) FROM t GROUP BY a % 101, b % 101", schema, estimates)


def test_a_month_that_ends_on_the_weekday_it_began_has_no_single_weekday() -> None:
    leap = Date(name="d", start=dt.date(2020, 2, 1), end=dt.date(2020, 2, 29), granularity="month")
    schema = Schema([leap, Numeric(name="x", edges=(0, 1, 2))])
    estimates = DenseEstimates(schema.domain, np.ones(schema.domain.shape))
    assert leap.start.weekday() == leap.end.weekday()
    with pytest.raises(HushError, match="2020-02-01 to 2020-02-29 has more than one dow"):
        answer_sql("SELECT EXTRACT(DOW FROM d) AS w, COUNT(*) FROM t GROUP BY w", schema, estimates)
    answers = answer_sql(
        "SELECT CASE WHEN x < 1 THEN 'low' ELSE x END AS g, COUNT(*) FROM t GROUP BY g", schema, estimates
    )
    assert answers.labels["g"] == ["[1, 2]", "low"]


def test_a_workload_asks_for_each_value_of_an_expression() -> None:
    workload = Workload.sql(
        SCHEMA, "SELECT sex, CASE WHEN age < 4 THEN 'a' ELSE 'b' END AS g, COUNT(*) FROM t GROUP BY 1, 2"
    )
    assert workload.queries == 3 * 2
    fewer = Workload.sql(SCHEMA, "SELECT age < 4 AS g, COUNT(*) FROM t WHERE age < 2 GROUP BY g")
    assert fewer.queries == 1


def test_integers_with_bins_are_grouped_by_bins_and_not_by_arithmetic() -> None:
    schema = Schema([Integer(name="hours", low=0, high=9, starts=(0, 5), points=(7,))])
    estimates = DenseEstimates(schema.domain, np.arange(1.0, 5.0))
    answers = answer_sql(
        "SELECT CASE WHEN hours >= 7 THEN 'long' ELSE hours END AS g, COUNT(*) FROM t GROUP BY g", schema, estimates
    )
    assert answers.labels["g"] == ["0 to 4", "5 to 6", "long"]
    assert answers.estimate.tolist() == [1.0, 2.0, 7.0]
    with pytest.raises(HushError, match="column 'hours' was counted by bins, so arithmetic on it has no single value"):
        answer_sql("SELECT hours // 5 AS g, COUNT(*) FROM t GROUP BY g", schema, estimates)
