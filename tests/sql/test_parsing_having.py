"""HAVING: groups kept by their estimates, as DuckDB keeps them where there is no noise."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pytest

from dense_twins import DenseEstimates
from hush.release.sql_answers import answer_sql
from hush.schema import Categorical, Integer, Schema

SCHEMA = Schema([Integer(name="x", low=0, high=5), Categorical(name="g", values=tuple("abcdef"))])
X = np.random.default_rng(2).integers(0, 6, 60)
G = np.random.default_rng(3).choice(list("abcde"), 60, p=[0.4, 0.3, 0.2, 0.07, 0.03])

CONDITIONS = [
    "COUNT(*) > 10",
    "n > 10",
    "n BETWEEN 3 AND 2 * 6",
    "AVG(x) >= 2.5 AND n > 4",
    "NOT (SUM(x) < 20 OR n = 12)",
    "n IN (1, 2, 12)",
    "VARIANCE(x) IS NULL",
    "COUNT(*) FILTER (WHERE x > 2) * 2 > COUNT(*)",
    "n <> NULL",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_without_noise_the_groups_are_those_of_duckdb(condition: str) -> None:
    table = np.zeros(SCHEMA.domain.shape)
    np.add.at(table, (X, [SCHEMA["g"].texts.index(g) for g in G]), 1)
    connection = duckdb.connect()
    connection.register("t", pd.DataFrame({"x": X, "g": G}))
    query = f"SELECT g, COUNT(*) AS n FROM t GROUP BY g HAVING {condition} ORDER BY g"
    answers = answer_sql(query, SCHEMA, DenseEstimates(SCHEMA.domain, table))
    found = list(zip(answers.labels["g"], answers.estimate.tolist(), strict=True))
    assert [row for row in found if row[1] > 0] == connection.execute(
        query
    ).fetchall()  # groups without rows are hush's
    assert answers.names == ("n",)
    assert any("kept or left out by their noisy estimates" in note for note in answers.notes)


def test_an_alias_is_the_name_of_its_column_alone_and_with_others() -> None:
    estimates = DenseEstimates(SCHEMA.domain, np.ones(SCHEMA.domain.shape))
    alone = answer_sql("SELECT g, COUNT(*) AS n FROM t GROUP BY g", SCHEMA, estimates)
    several = answer_sql("SELECT g, COUNT(*) AS n, SUM(x) FROM t GROUP BY g ORDER BY n", SCHEMA, estimates)
    own = ["g", "n", "n_std_error", "n_lower", "n_upper", "n_basis"]
    assert alone.to_arrow().column_names == own
    assert several.to_arrow().column_names == [
        *own,
        *(f"sum_x_{c}" for c in ("estimate", "std_error", "lower", "upper", "basis")),
    ]
    assert several["n"].to_arrow().column_names == own
    plain = answer_sql("SELECT g, COUNT(*) FROM t GROUP BY g", SCHEMA, estimates)
    assert plain.to_arrow().column_names == ["g", "estimate", "std_error", "lower", "upper", "basis"]
