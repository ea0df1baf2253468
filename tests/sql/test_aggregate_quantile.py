"""Quantiles in SQL: those of DuckDB's QUANTILE_DISC where there is no noise, also at exact ties."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from dense_twins import DenseEstimates
from hush.release.sql_answers import answer_sql
from hush.schema import Integer, Schema

SCHEMA = Schema([Integer(name="x", low=0, high=9)])
SHARES = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "0.35")


@pytest.mark.parametrize("rows", [0, 1, 4, 5, 10])
def test_without_noise_quantiles_are_those_of_duckdb(rows: int) -> None:
    values = np.random.default_rng(rows).permutation(10)[:rows]
    estimates = DenseEstimates(SCHEMA.domain, np.bincount(values, minlength=10))
    asked = ", ".join(f"QUANTILE_DISC(x, {share}) AS q{place}" for place, share in enumerate(SHARES))
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT unnest(?::INTEGER[]) AS x", [values.tolist()])
    (wanted,) = connection.execute(f"SELECT {asked} FROM t").fetchall()
    answers = answer_sql(f"SELECT {asked} FROM t", SCHEMA, estimates)
    found = np.asarray(answers)[0]
    np.testing.assert_array_equal(found, [np.nan if value is None else value for value in wanted])
    assert any("no quantile, because there are no rows" in n for n in answers.notes) == (not rows)


def test_a_median_between_two_values_is_the_lower_one_and_says_so() -> None:
    answers = answer_sql(
        "SELECT MEDIAN(x) AS m FROM t", SCHEMA, DenseEstimates(SCHEMA.domain, np.eye(10)[[2, 3]].sum(0))
    )
    assert (answers.estimate[0], answers.lower[0], answers.upper[0]) == (2, 2, 3)
    assert any("no interpolation between two values" in note for note in answers.notes)
    below = answer_sql("SELECT QUANTILE(x, 0.5) AS m FROM t", SCHEMA, DenseEstimates(SCHEMA.domain, np.ones(10)))
    assert not any("interpolation" in note for note in below.notes)
