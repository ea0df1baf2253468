"""A whole discovery where the rows are: PostgreSQL, Spark and files lead to the same columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hush
from hush.discovery.discover import discover
from hush.schema import Categorical, Integer
from hush.schema.discovery_draft import Draft

ROWS = 4000
DRAFT = Draft.of(
    {
        "sex": {"kind": "categorical", "levels": "discover"},
        "age": {"kind": "integer", "bounds": "discover"},
        "known": {"kind": "integer", "low": 0, "high": 1},
    }
)
BUDGET = hush.Budget(epsilon=8.0, delta=1e-6)


def rows() -> pa.Table:
    return pa.table(
        {
            "sex": ["f" if k % 3 else "m" for k in range(ROWS)],
            "age": [20 + k % 50 for k in range(ROWS)],
            "known": [k % 2 for k in range(ROWS)],
        }
    )


@pytest.fixture
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """The rows in an engine, and the options that name them."""
    engine = request.param
    if engine == "file":
        pq.write_table(rows(), tmp_path / "people.parquet")
        return tmp_path / "people.parquet", {}
    if engine == "spark":
        session = request.getfixturevalue("spark")
        table = rows().to_pydict()
        session.createDataFrame(list(zip(*table.values(), strict=True)), list(table)).createOrReplaceTempView(
            "discovered"
        )
        return session, {"table": "discovered"}
    server = request.getfixturevalue("postgres")
    with server.connect() as connection:
        connection.execute(
            "DROP TABLE IF EXISTS discovered; CREATE TABLE discovered AS SELECT CASE WHEN k % 3 > 0 THEN 'f' ELSE 'm' "
            f"END AS sex, 20 + k % 50 AS age, k % 2 AS known FROM generate_series(0, {ROWS - 1}) AS k"
        )
    return server.address(), {"table": "discovered"}


@pytest.mark.parametrize("source", ["file", "postgres", "spark"], indirect=True)
def test_every_engine_leads_to_the_same_columns(source: Any) -> None:
    data, options = source
    found = discover(data, DRAFT, BUDGET, **options)
    assert found.left_out == ()
    sex, age = found.schema["sex"], found.schema["age"]
    assert isinstance(sex, Categorical)
    assert set(sex.values) == {"f", "m"}
    assert isinstance(age, Integer)
    assert (age.low, age.high, age.binned) == (20, 69, False)
    assert found.schema.from_private_data == ()
    counts = hush.read(data, found.schema, **options).counts([("age",)])[("age",)]
    assert counts.tolist() == [ROWS // 50] * 50
