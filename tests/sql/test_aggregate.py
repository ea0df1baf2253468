"""Variances from counts: those of DuckDB where there is no noise, and none where there are too few rows."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from dense_twins import DenseEstimates
from hush.release.sql_answers import answer_sql
from hush.schema import Categorical, Integer, Schema

GROUPS = ("two", "one", "more", "empty", "missing")
SCHEMA = Schema([Integer(name="x", low=0, high=99, missing=True), Categorical(name="g", values=GROUPS)])
ROWS = [
    (10, "two"),
    (11, "two"),
    (5, "one"),
    (3, "more"),
    (90, "more"),
    (50, "more"),
    (None, "more"),
    (None, "missing"),
]


def counts() -> np.ndarray:
    table = np.zeros(SCHEMA.domain.shape)
    for x, g in ROWS:
        table[100 if x is None else x, GROUPS.index(g)] += 1
    return table


@pytest.mark.parametrize("name", ["VARIANCE", "VAR_SAMP", "VAR_POP", "STDDEV", "STDDEV_SAMP", "STDDEV_POP", "AVG"])
def test_without_noise_small_groups_have_the_variance_of_duckdb(name: str) -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (x INTEGER, g TEXT)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", ROWS)
    query = f"SELECT g, {name}(x) AS v FROM t GROUP BY g"
    known = dict(connection.execute(query).fetchall())
    answers = answer_sql(query, SCHEMA, DenseEstimates(SCHEMA.domain, counts()))
    wanted = [known.get(group) for group in GROUPS]
    expected = [np.nan if value is None else value for value in wanted]
    np.testing.assert_allclose(answers.estimate, expected, rtol=1e-12)
    if name != "AVG":
        np.testing.assert_allclose(answers.lower, expected, rtol=1e-12)
        sample = "POP" not in name
        needed = "a sample needs at least 2 rows" if sample else "at least 1 row is needed"
        said = f"{3 if sample else 2} of 5 answers cannot be given, because {needed}"
        assert any(said in note for note in answers.notes)


@pytest.mark.parametrize(("stddev", "known"), [(0.1, [True, False, True]), (0.6, [False, False, True])])
def test_a_group_not_clearly_above_one_row_has_no_sample_variance(stddev: float, known: list[bool]) -> None:
    """With independent noise in the 100 cells of a group, the number of rows has 10 times its error."""
    covariance = np.eye(SCHEMA.domain.size()) * (stddev / 10) ** 2
    estimates = DenseEstimates(SCHEMA.domain, counts(), covariance)
    answers = answer_sql("SELECT g, VARIANCE(x) AS v FROM t GROUP BY g", SCHEMA, estimates)
    assert np.isfinite(answers.estimate[:3]).tolist() == known
    assert np.isnan(answers.estimate[3:]).all()


def test_the_interval_of_two_rows_holds_their_variance() -> None:
    covariance = np.eye(SCHEMA.domain.size()) * 1e-4**2
    answers = answer_sql(
        "SELECT VARIANCE(x) AS v FROM t WHERE g = 'two'", SCHEMA, DenseEstimates(SCHEMA.domain, counts(), covariance)
    )
    assert answers.lower[0] < 0.5 < answers.upper[0] < 10
