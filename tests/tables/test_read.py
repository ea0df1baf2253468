"""hush.read: what it takes, how it chooses an engine, and that it leaves the user's connection alone."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hush
from hush.core.domain import Domain
from hush.core.errors import DataError, SchemaError, SizeError
from hush.schema import Categorical, Integer, Numeric, Schema, Unit
from hush.tables import read
from hush.tables.counted_tables import MemoryTable, StreamTable

DOMAIN = Domain({"a": 2, "b": 3})
DATA = pa.table({"a": [0, 1, 1], "b": [2, 0, 2]})
SCHEMA = Schema.from_domain(DOMAIN)


@pytest.fixture
def connection():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT * FROM (VALUES (0, 2), (1, 0), (1, 2)) AS v(a, b)")
    yield connection
    connection.close()


def test_it_is_offered_at_the_top() -> None:
    assert hush.read is read


def test_schemas_domains_and_paths(tmp_path) -> None:
    path = tmp_path / "domain.json"
    path.write_text('{"a": 2, "b": 3}')
    for schema in (SCHEMA, DOMAIN, path, str(path)):
        assert read(DATA, schema).domain == DOMAIN
    with pytest.raises(DataError, match="schema of type dict: expected a Schema, a Domain or the path"):
        read(DATA, {"a": 2})


@pytest.mark.parametrize("source", [None, 3, [("a", 1)], {"a": [1]}, object()])
def test_other_sources_are_refused_with_what_is_accepted(source) -> None:
    words = "expected a path or pattern of CSV or Parquet files, a folder of Parquet, an Excel file, a file of DuckDB"
    with pytest.raises(DataError, match=words):
        read(source, DOMAIN)


def test_units(connection) -> None:
    with pytest.raises(SchemaError, match="is the privacy unit and cannot be counted too"):
        read(DATA, DOMAIN, unit="a")
    with pytest.raises(SchemaError, match="cannot be enforced without an id column"):
        read(DATA, DOMAIN, max_rows_per_unit=3)
    with pytest.raises(DataError, match="has no column 'who'"):
        read(DATA, DOMAIN, unit="who")
    with pytest.raises(SchemaError, match="max_rows=0: expected a whole number of at least 1"):
        read(connection, DOMAIN, table="t", unit="who", max_rows_per_unit=0)
    assert read(DATA, DOMAIN).unit == Unit()


@pytest.mark.parametrize("unit", [{"unit": "who"}, {"unit": Unit(column="who", max_rows=2)}, {"max_rows_per_unit": 3}])
def test_another_unit_leaves_the_constraints_of_the_schema(unit) -> None:
    schema = Schema(SCHEMA.columns, unit=Unit(column="who")).forbid(["a", "b"], [[0, 1]])
    table = read(DATA.append_column("who", pa.array([7, 8, 9])), schema, **unit)
    assert len(schema.constraints) == 1
    assert table.schema.constraints == schema.constraints


@pytest.mark.parametrize("engine", ["memory", "stream", "sql"])
def test_a_connection_is_left_as_it_was(engine, connection) -> None:
    connection.execute("SET TimeZone = 'Asia/Tokyo'")
    settings = "SELECT name, value FROM duckdb_settings() ORDER BY name"
    before = connection.execute(settings).fetchall()
    objects = "SELECT count(*) FROM duckdb_tables() UNION ALL SELECT count(*) FROM duckdb_types() WHERE NOT internal"
    made = connection.execute(objects).fetchall()
    connection.execute("SELECT range FROM range(5)")
    assert connection.fetchone() == (0,)
    for options in ({"table": "t"}, {"query": "SELECT * FROM t"}, {"table": "main.t"}):
        table = read(connection, DOMAIN, engine=engine, **options)
        assert table.counts([("a",)])[("a",)].tolist() == [1, 2]
    assert connection.fetchall() == [(1,), (2,), (3,), (4,)]
    assert connection.execute(settings).fetchall() == before
    assert connection.execute(objects).fetchall() == made


def test_a_query_may_be_anything_that_selects(connection) -> None:
    query = "-- a comment\nWITH w AS (SELECT a + 0 AS a, b FROM t) SELECT b, a FROM w WHERE a = 1 -- another\n;"
    assert read(connection, DOMAIN, query=query).counts([("b",)])[("b",)].tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs either table= or query="),
        ({"table": "t", "query": "SELECT 1"}, "needs either table= or query="),
        ({"table": "none"}, "cannot be seen from a second cursor"),
        ({"table": 't"; DROP TABLE t; --'}, "cannot be seen from a second cursor"),
        ({"table": "temporary"}, "temporary, registered, or not committed"),
        ({"table": "DOMAIN"}, "cannot be seen from a second cursor"),
        ({"query": "SELECT nothing"}, "the query cannot be run"),
        ({"query": "SELEC 1"}, "the query cannot be run"),
        ({"query": ""}, "query= holds|the query cannot be run"),
        ({"query": "SELECT 1 AS a) ; DROP TABLE t; --"}, "the query cannot be run|several statements"),
        ({"query": "SELECT * FROM t; SELECT 1"}, "query= holds several statements"),
        ({"query": "DROP TABLE t"}, "the query cannot be run"),
        ({"query": "SELECT a, a, b FROM t"}, "several columns named 'a'"),
    ],
)
def test_bad_tables_and_queries(options, words, connection) -> None:
    connection.execute("CREATE TEMP TABLE temporary AS FROM t")
    with pytest.raises(DataError, match=words) as caught:
        read(connection, DOMAIN, **options)
    assert caught.value.__context__ is None
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (3,)


def test_a_query_that_fails_while_it_runs_does_not_quote_a_cell(connection) -> None:
    query = "SELECT CAST('hunter2' || a AS INTEGER) AS a, b FROM t"
    for engine in ("memory", "stream", "sql"):
        with pytest.raises(DataError, match="the query cannot be read") as caught:
            read(connection, DOMAIN, query=query, engine=engine).counts([("a",)])
        assert "hunter2" not in str(caught.value)
        assert caught.value.__context__ is None


def test_a_closed_connection(connection) -> None:
    connection.close()
    with pytest.raises(DataError, match="the DuckDB connection is closed"):
        read(connection, DOMAIN, table="t")


def test_table_and_query_go_with_a_connection() -> None:
    with pytest.raises(DataError, match="go with connections and files of databases only"):
        read(DATA, DOMAIN, table="t")


def test_engines(tmp_path) -> None:
    with pytest.raises(DataError, match="engine='spark': expected one of 'auto', 'memory', 'stream', 'sql'"):
        read(DATA, DOMAIN, engine="spark")
    with pytest.raises(DataError, match="the Arrow reader can be read only once; use engine='memory'"):
        read(DATA.to_reader(), DOMAIN, engine="stream")
    assert isinstance(read(DATA, DOMAIN), MemoryTable)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_does_not_fit_is_streamed(ending, tmp_path) -> None:
    rows = 200_000
    path = tmp_path / f"t.{ending}"
    if ending == "csv":
        path.write_text("a,b\n" + "1,2\n" * rows)
    else:
        pq.write_table(pa.table({"a": [1] * rows, "b": [2] * rows}), path)
    small = read(path, DOMAIN, memory_limit=rows)
    assert isinstance(small, StreamTable)
    assert small.counts([("a", "b")])[("a", "b")].tolist() == [[0, 0, 0], [0, 0, rows]]
    assert isinstance(read(path, DOMAIN, memory_limit=10 * rows), MemoryTable)
    with pytest.raises(SizeError, match="does not fit in memory_limit when encoded; use engine='stream'") as caught:
        read(path, DOMAIN, memory_limit=rows, engine="memory")
    assert str(rows) not in str(caught.value)
    with pytest.raises(SizeError, match="the Arrow reader does not fit"):
        read(pa.table({"a": [1] * rows, "b": [2] * rows}).to_reader(), DOMAIN, memory_limit=rows)


def test_progress_of_reading() -> None:
    seen: list[float] = []
    read(DATA, DOMAIN, progress=seen.append)
    assert seen
    assert seen[-1] == 1.0


def test_folders_for_spilling_are_removed(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lazy = read(DATA, DOMAIN, engine="stream")
    assert len(list(tmp_path.iterdir())) == 1
    lazy.counts([("a",)])
    del lazy
    assert list(tmp_path.iterdir()) == []


def test_wide_sources_are_read_by_position(tmp_path) -> None:
    wide = pa.table({f"c{k}": [k % 2] for k in range(300)} | {"a": [1], "b": [2]})
    pq.write_table(wide, tmp_path / "wide.parquet")
    for source in (wide, tmp_path / "wide.parquet"):
        assert read(source, DOMAIN).counts([("a", "b")])[("a", "b")].sum() == 1
    schema = Schema([Integer(name=f"c{k}", low=0, high=1) for k in range(300)])
    assert read(wide, schema).counts([("c299", "c0")])[("c299", "c0")].tolist() == [[0, 0], [1, 0]]


def test_pandas_and_polars_are_not_imported(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    program = (
        "import sys, hush\n"
        f"table = hush.read({str(path)!r}, hush.Domain({{'a': 2, 'b': 3}}))\n"
        "print(int(table.counts([()])[()]), 'pandas' in sys.modules, 'polars' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False", "False"]
    assert Path(path).exists()


MISFITS = {"a": ["1", "x"], "b": ["oops", "2"], "c": ["3", "3"], "who": ["ann", None]}


@pytest.mark.parametrize("engine", ["memory", "stream", "sql"])
def test_all_columns_that_do_not_fit_are_named_at_once(engine) -> None:
    schema = Schema([Integer(name=name, low=0, high=9) for name in "abc"], unit=Unit(column="who"))
    with pytest.raises(DataError) as refused:
        read(pa.table(MISFITS), schema, engine=engine).check()
    message = str(refused.value)
    assert message.startswith("the data do not fit the schema in 3 ways: (1) column 'a' holds values")
    assert "(2) column 'b' holds values" in message
    assert "(3) the unit column 'who' is missing in some rows" in message
    assert message.endswith("`hush schema check SCHEMA DATA` shows the owner every cause")
    assert "column 'c'" not in message
    assert "oops" not in message


def test_columns_refused_in_different_batches_are_named_at_once() -> None:
    rows = 2**19 + 7
    numbers = {"a": [10] + [1] * (rows - 1), "b": [1] * (rows - 1) + [10]}
    with pytest.raises(DataError, match=r"\(1\) column 'a' .* \(2\) column 'b' "):
        read(pa.table(numbers), Schema([Integer(name=name, low=0, high=9) for name in "ab"]), engine="memory")


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame])
def test_all_columns_that_are_absent_or_of_another_type_are_named_at_once(make) -> None:
    schema = Schema([Integer(name=name, low=0, high=9) for name in "abc"])
    with pytest.raises(DataError, match=r"2 ways: \(1\) .* no column 'a'.*\(2\) .* no column 'b'"):
        read(make({"c": [1]}), schema)
    dates = pa.table({"a": pa.array([1], pa.date32()), "b": pa.array([1], pa.date32()), "c": [1]})
    with pytest.raises(DataError, match=r"2 ways: \(1\) column 'a' is stored as DATE.*\(2\) column 'b' is stored"):
        read(dates, schema)


@pytest.mark.parametrize("stored", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("kind", ["numeric", "integer", "categorical"])
def test_nan_of_parquet_is_missing_although_its_bounds_leave_nan_out(tmp_path, kind, stored) -> None:
    """DuckDB folds isnan(x) and BETWEEN by the bounds in the file, which hold for the other numbers alone."""
    pq.write_table(pa.table({"x": pa.array([0.0, float("nan"), 1.0, 1.0], stored)}), tmp_path / "t.parquet")
    columns = {
        "numeric": Numeric.equal_width(name="x", low=0.0, high=2.0, bins=2, missing=True),
        "integer": Integer(name="x", low=0, high=1, missing=True),
        "categorical": Categorical(name="x", values=("0", "1"), missing=True),
    }
    table = read(tmp_path / "t.parquet", Schema([columns[kind]]))
    assert table.counts([("x",)])[("x",)].tolist() == [1, 2, 1]
