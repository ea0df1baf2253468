"""A query that was planned is answered in the words it was planned in, whatever the mechanism measured."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pytest

import hush
from hush.schema import Boolean, Categorical, Integer, Schema

SCHEMA = Schema(
    [
        Integer(name="a", low=0, high=3),
        Integer(name="b", low=0, high=2),
        Integer(name="c", low=0, high=2, missing=True),
        Categorical(name="s", values=("f", "m")),
        Boolean(name="k"),
    ]
)
QUERIES = [
    "SELECT COUNT(*) AS n FROM t WHERE a >= 2",
    "SELECT s, COUNT(*) AS n FROM t WHERE a BETWEEN 1 AND 2 GROUP BY s",
    "SELECT s, COUNT(*) AS n FROM t WHERE a = 1 OR s = 'm' GROUP BY s",
    "SELECT s, COUNT(*) FILTER (WHERE s = 'f' OR a > 2) AS n FROM t GROUP BY s",
    "SELECT CASE WHEN a < 2 THEN 'low' ELSE 'high' END AS g, COUNT(*) AS n FROM t WHERE k GROUP BY g",
    "SELECT s, k, COUNT(*) AS n FROM t WHERE (a = 1)::INT + (s = 'f')::INT + k::INT >= 2 GROUP BY s, k",
    "SELECT COUNT(*) AS n FROM t WHERE a >= 1 AND b <= 1 AND c = 0 AND s = 'f' AND k",
    "SELECT k, b, COUNT(c) AS n FROM t WHERE NOT (b = 1 AND k) GROUP BY k, b",
]
ASKED = ["residual", "hdmm", "matrix", "direct", "auto"]  # their errors are all known
MODELS = ["aim", "mst", "mwem", "rap", "independent", "privbayes"]


def people(rows: int) -> pd.DataFrame:
    random = np.random.default_rng(3)
    columns = {name: random.integers(0, SCHEMA[name].levels, rows) for name in "abc"}
    frame = pd.DataFrame(columns).astype("Int64")
    frame.loc[random.random(rows) < 0.1, "c"] = pd.NA
    return frame.assign(s=random.choice(["f", "m"], rows), k=random.random(rows) < 0.5)


FRAME = people(200)


def truth(text: str) -> dict[tuple[object, ...], float]:
    connection = duckdb.connect()
    connection.register("t", FRAME)
    return {row[:-1]: row[-1] for row in connection.execute(text).fetchall()}


def release_of(queries: list[str], mechanism: str, budget: hush.Budget) -> hush.Release:
    workload = hush.Workload.sql(SCHEMA, queries)
    return hush.plan(workload, budget, mechanism, schema=SCHEMA).release(hush.read(FRAME, SCHEMA))


def check(release: hush.Release, text: str) -> None:
    """All groups are there, each estimate within 6 standard errors of the truth, far apart from any other count."""
    answers, wanted = release.sql(text), truth(text)
    keys = list(zip(*answers.labels.values(), strict=True)) if answers.groups else [()]
    assert set(wanted) <= set(keys)
    expected = np.array([wanted.get(key, 0) for key in keys])
    assert (np.abs(answers.estimate - expected) <= 6 * answers.std_error + 1e-6).all(), text
    assert (answers.std_error < 0.5).all()
    assert ((answers.lower <= answers.estimate) & (answers.estimate <= answers.upper)).all()


@pytest.mark.parametrize("mechanism", ASKED)
def test_every_planned_query_is_answered(mechanism: str) -> None:
    release = release_of(QUERIES, mechanism, hush.Budget(rho=300.0))
    for text in QUERIES:
        check(release, text)


@pytest.mark.parametrize("text", QUERIES)
def test_a_query_planned_alone_is_answered_from_what_direct_asked(text: str) -> None:
    check(release_of([text], "direct", hush.Budget(rho=300.0)), text)


@pytest.mark.parametrize("mechanism", MODELS)
def test_mechanisms_with_models_answer_planned_queries(mechanism: str) -> None:
    release = release_of(QUERIES, mechanism, hush.Budget(rho=5.0))
    for text in QUERIES:
        assert len(release.sql(text)) >= len(truth(text))


def test_columns_whose_table_is_too_large_to_write_out_are_answered() -> None:
    schema = Schema([Integer(name=name, low=0, high=169) for name in "xyz"])
    frame = pd.DataFrame({name: [1, 2, 60, 169] for name in "xyz"})
    text = "SELECT COUNT(*) AS n FROM t WHERE x > 50 AND y > 1 AND z BETWEEN 2 AND 70"
    plan = hush.plan(hush.Workload.sql(schema, text), hush.Budget(rho=300.0), "direct", schema=schema)
    answers = plan.release(hush.read(frame, schema)).sql(text)
    assert answers.estimate[0] == pytest.approx(1, abs=0.5)
    assert 0 < answers.std_error[0] < 0.1


def test_what_was_not_planned_is_still_refused_for_its_reason() -> None:
    release = release_of(QUERIES[2:3], "direct", hush.Budget(rho=5.0))
    with pytest.raises(hush.HushError, match="needs a table over a, s, which this release does not hold"):
        release.sql("SELECT s, COUNT(*) FROM t WHERE a = 2 GROUP BY s")
