"""Functions of times in a query: without noise, the answers are those of DuckDB on rows with whole times."""

from __future__ import annotations

import datetime as dt
import functools
from typing import Any

import duckdb
import numpy as np
import pytest

from dense_twins import DenseEstimates
from hush.core.errors import QueryError
from hush.release.sql_answers import answer_sql
from hush.schema import Boolean, Schema, TimeOfDay, Timestamp
from hush.workloads import Workload

DAYS = {"start": dt.date(2023, 12, 30), "end": dt.date(2024, 1, 8)}
SCHEMA = Schema(
    [
        Timestamp(name="Pickup", parts=("date", "hour"), missing=True, **DAYS),
        TimeOfDay(name="opens"),
        Timestamp(name="seen", parts=("month", "weekday"), **DAYS),
        Boolean(name="paid"),
    ]
)
ROWS = 300


@functools.cache
def source() -> tuple[duckdb.DuckDBPyConnection, DenseEstimates]:
    """Rows of whole times; each is counted in the cell of its parts."""
    rng = np.random.default_rng(7)
    codes = {column.name: rng.integers(0, column.levels, ROWS) for column in SCHEMA}
    days = [DAYS["start"] + dt.timedelta(days=int(k)) for k in rng.integers(0, 10, ROWS)]
    codes["seen.month"] = np.array([day.month - 1 for day in days])
    codes["seen.weekday"] = np.array([day.weekday() for day in days])
    missing = rng.random(ROWS) < 0.2
    for part in ("Pickup.date", "Pickup.hour"):
        codes[part] = np.where(missing, SCHEMA[part].size - 1, codes[part])
    connection = duckdb.connect()
    connection.register("t", SCHEMA.decode(codes))
    counts = np.zeros(SCHEMA.domain.shape)
    np.add.at(counts, tuple(codes.values()), 1)
    return connection, DenseEstimates(SCHEMA.domain, counts)


def groups(expression: str) -> str:
    return f"SELECT {expression} AS g, COUNT(*) FROM t GROUP BY g ORDER BY g NULLS LAST"


def answered(query: str) -> list[tuple[Any, ...]]:
    """The groups that have rows, and their counts."""
    answers = answer_sql(query, SCHEMA, source()[1])
    rows = answers.to_arrow().to_pylist()
    return sorted(
        [(*(str(row[group.name]) for group in answers.groups), row["estimate"]) for row in rows if row["estimate"]]
    )


def counted(query: str) -> list[tuple[Any, ...]]:
    rows = source()[0].execute(query).fetchall()
    return sorted([(*map(str, labels), float(count)) for *labels, count in rows])


GROUPS = [
    "EXTRACT(hour FROM pickup)",
    "hour(pickup)",
    "date_part('hour', t.pickup)",
    "CAST(pickup AS DATE)",
    "EXTRACT(month FROM pickup)",
    "YEAR(Pickup)",
    "CAST(date_trunc('month', pickup) AS DATE)",
    "EXTRACT(month FROM seen)",
    "dayname(seen)",
    "EXTRACT(hour FROM opens)",
    "CASE WHEN hour(pickup) < 6 THEN 'night' WHEN hour(pickup) < 18 THEN 'day' ELSE 'other' END",
]


@pytest.mark.parametrize("expression", GROUPS)
def test_groups_are_those_of_whole_times(expression: str) -> None:
    ours = expression.replace("CAST(date_trunc('month', pickup) AS DATE)", "date_trunc('month', pickup)")
    assert answered(groups(ours)) == counted(groups(expression))


CONDITIONS = [
    "EXTRACT(hour FROM pickup) < 6",
    "hour(pickup) BETWEEN 8 AND 11 AND paid",
    "CAST(pickup AS DATE) >= '2024-01-01'",
    "pickup::DATE IN ('2024-01-01', '2023-12-31')",
    "month(seen) = 1 AND dayname(seen) <> 'Monday'",
    "hour(opens) > 20 OR hour(pickup) IS NULL",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_are_those_of_whole_times(condition: str) -> None:
    query = f"SELECT COUNT(*) FROM t WHERE {condition}"
    assert answered(query) == counted(query)
    assert counted(query)[0][0] > 0


def test_parts_need_no_quotes_unless_a_table_has_the_name() -> None:
    plain = answered("SELECT pickup.hour, COUNT(*) FROM t WHERE Pickup.Date < '2024-01-01' GROUP BY pickup.hour")
    assert plain == answered(
        """SELECT "Pickup.hour", COUNT(*) FROM t WHERE "Pickup.date" < '2024-01-01' GROUP BY "Pickup.hour" """
    )
    with pytest.raises(QueryError, match="'Pickup.hour' needs quotes in SQL"):
        answered("SELECT pickup.hour, COUNT(*) FROM pickup GROUP BY pickup.hour")


MISTAKES = [
    (
        "SELECT COUNT(*) FROM t WHERE pickup > '2024-01-01'",
        'column \'Pickup\' holds times.*"Pickup.date", "Pickup.hour"',
    ),
    ("SELECT seen, COUNT(*) FROM t GROUP BY seen", 'counted by "seen.month", "seen.weekday"; ask for these'),
    ("SELECT hour(seen), COUNT(*) FROM t GROUP BY 1", "HOUR.seen. is not known: its times are counted by"),
    ("SELECT CAST(seen AS DATE), COUNT(*) FROM t GROUP BY 1", "is not known"),
    ("SELECT year(seen), COUNT(*) FROM t GROUP BY 1", "is not known"),
    ("SELECT minute(opens), COUNT(*) FROM t GROUP BY 1", 'counted by "opens.hour"'),
    ("SELECT hour(paid), COUNT(*) FROM t GROUP BY 1", "not supported|only a date column"),
]


@pytest.mark.parametrize(("query", "message"), MISTAKES, ids=[query for query, _ in MISTAKES])
def test_what_was_not_counted_is_refused_for_that_reason(query: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        answered(query)


def test_a_date_by_weeks_does_not_tell_the_day() -> None:
    schema = Schema([Timestamp(name="t", parts=("date",), granularity="week", **DAYS)])
    estimates = DenseEstimates(schema.domain, np.ones(schema.domain.shape))
    with pytest.raises(QueryError, match="is not known"):
        answer_sql("SELECT COUNT(*) FROM x WHERE CAST(t AS DATE) = '2024-01-01'", schema, estimates)


def test_workloads_ask_for_parts_too() -> None:
    asked = Workload.sql(SCHEMA, "SELECT EXTRACT(hour FROM pickup), COUNT(*) FROM t WHERE paid GROUP BY 1")
    assert [set(term.clique) for term in asked] == [{"Pickup.hour", "paid"}]
