"""CASE and counted conditions in WHERE: without noise, the answers are those of DuckDB on the rows."""

from __future__ import annotations

import functools

import duckdb
import numpy as np
import pytest

from dense_twins import DenseEstimates
from hush.core.errors import QueryError
from hush.release.sql_answers import answer_sql
from hush.schema import Boolean, Categorical, Integer, Schema

SCHEMA = Schema(
    [
        Integer(name="age", low=0, high=12, missing=True),
        Categorical(name="sex", values=("m", "f"), missing=True),
        Boolean(name="smoker", missing=True),
    ]
)


@functools.cache
def source() -> tuple[duckdb.DuckDBPyConnection, DenseEstimates]:
    rng = np.random.default_rng(5)
    codes = {column.name: rng.integers(0, column.size, 500) for column in SCHEMA}
    connection = duckdb.connect()
    connection.register("t", SCHEMA.decode(codes))
    counts = np.zeros(SCHEMA.domain.shape)
    np.add.at(counts, tuple(codes.values()), 1)
    return connection, DenseEstimates(SCHEMA.domain, counts)


CONDITIONS = [
    "CASE WHEN age < 4 THEN 'young' WHEN age < 9 THEN 'older' ELSE 'old' END = 'older'",
    "CASE WHEN age < 4 THEN 'young' WHEN smoker THEN 'smoker' END <> 'young'",
    "CASE WHEN age < 4 THEN 'young' WHEN smoker THEN NULL ELSE 'x' END IN ('x', 'y')",
    "NOT (CASE sex WHEN 'm' THEN 1 WHEN 'f' THEN 2 END >= 2)",
    "CASE sex WHEN NULL THEN 1 WHEN 'm' THEN 2 ELSE 3 END = 3",
    "CASE WHEN smoker THEN age > 3 ELSE sex = 'f' END",
    "(CASE WHEN smoker THEN age > 3 END) IS NULL",
    "CASE WHEN smoker THEN age ELSE 5 END BETWEEN 4 AND 6",
    "7 <= CASE WHEN smoker THEN age ELSE 5 END",
    "CASE WHEN smoker THEN CASE WHEN age > 3 THEN 'f' ELSE 'b' END ELSE sex END = 'f'",
    "IF(smoker, age, 5) = 5",
    "IF(smoker, age > 5, TRUE) AND sex = 'm'",
    "age < CASE WHEN smoker THEN 4 ELSE 8 END",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_case_in_where_is_answered(condition: str) -> None:
    query = f"SELECT COUNT(*) FROM t WHERE {condition}"
    connection, estimates = source()
    wanted = connection.execute(query).fetchone()
    assert wanted is not None
    assert 0 < wanted[0] < 500
    assert float(np.asarray(answer_sql(query, SCHEMA, estimates))[0]) == wanted[0]


def test_the_same_in_a_filter_and_beside_groups() -> None:
    query = (
        "SELECT sex, COUNT(*) FILTER (WHERE CASE WHEN smoker THEN age > 3 ELSE FALSE END) FROM t "
        "WHERE sex IS NOT NULL GROUP BY sex ORDER BY sex"
    )
    connection, estimates = source()
    answers = answer_sql(query, SCHEMA, estimates)
    assert [(row["sex"], row["estimate"]) for row in answers] == connection.execute(query).fetchall()


MISTAKES = [
    ("CASE WHEN smoker THEN 1 ELSE 0 END", "is not supported.*write a comparison"),
    ("CASE WHEN smoker THEN age ELSE 'x' END = 5", "compares constants of different kinds"),
    ("CASE WHEN smoker THEN sex END = age", "compares the columns 'sex' and 'age'"),
    ("CASE WHEN smoker THEN age + smoker ELSE 2 END = 5", "age . smoker: arithmetic takes numbers"),
    ("CASE WHEN smoked THEN 1 ELSE 2 END = 1", "did you mean 'smoker'"),
]


@pytest.mark.parametrize(("condition", "message"), MISTAKES, ids=[condition for condition, _ in MISTAKES])
def test_what_cannot_be_answered_is_refused_for_its_reason(condition: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        answer_sql(f"SELECT COUNT(*) FROM t WHERE {condition}", SCHEMA, source()[1])


COUNTED = [
    "(age = 3) + (sex = 'f') + (smoker) >= 2",
    "(age < 6) + (sex = 'f') + (smoker) >= 2",
    "(age < 6) + (sex = 'f') + (smoker) = 1",
    "(age < 6) + (sex = 'f') + (smoker) <> 1",
    "2 > (age < 6) + (sex = 'f') + (smoker)",
    "NOT ((age < 6) + (sex = 'f') <= 1)",
    "(age IN (1, 2) OR smoker) + (sex = 'f') >= 1",
    "(age IS NULL) + (NOT smoker) + TRUE >= 2",
    "(age < 6) + (age > 3) + smoker BETWEEN 2 AND 2",
    "((age < 6) + (sex = 'f') >= 1.5) IS NULL",
]


@pytest.mark.parametrize("condition", COUNTED)
def test_conditions_are_added_up(condition: str) -> None:
    """DuckDB adds no booleans, so that it gets them as integers; hush takes both forms."""
    connection, estimates = source()
    cast = condition
    for part in ("(age = 3)", "(age < 6)", "(age > 3)", "(sex = 'f')", "(age IN (1, 2) OR smoker)", "(age IS NULL)"):
        cast = cast.replace(part, f"CAST({part} AS INTEGER)")
    cast = cast.replace("+ (smoker)", "+ smoker::INT").replace("(NOT smoker)", "(NOT smoker)::INT")
    cast = cast.replace("+ TRUE", "+ TRUE::INT").replace("+ smoker B", "+ smoker::INT B")
    query = f"SELECT COUNT(*) FROM t WHERE {cast}"
    wanted = connection.execute(query).fetchone()
    assert wanted is not None
    assert 0 < wanted[0] < 500
    assert float(np.asarray(answer_sql(query, SCHEMA, estimates))[0]) == wanted[0]
    plain = f"SELECT COUNT(*) FROM t WHERE {condition}"
    assert float(np.asarray(answer_sql(plain, SCHEMA, estimates))[0]) == wanted[0]


@pytest.mark.parametrize("condition", ["(age) + (sex = 'f') >= 1", "(age = 3) + 1 >= 2", "(age = 3) + (smoker) >= age"])
def test_sums_of_other_things_are_refused(condition: str) -> None:
    with pytest.raises(QueryError, match="arithmetic takes numbers"):
        answer_sql(f"SELECT COUNT(*) FROM t WHERE {condition}", SCHEMA, source()[1])
