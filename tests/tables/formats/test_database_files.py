"""Files of DuckDB and SQLite: the same counts as from memory, only read, and clear lines where something is missing."""

from __future__ import annotations

import math
import sqlite3

import duckdb
import pyarrow as pa
import pytest

from hush.core.errors import DataError
from hush.evaluation.comparison import compare_numbers
from hush.schema import Boolean, Categorical, Integer, Numeric, Schema, Unit
from hush.tables import read
from hush.tables.drafting import draft_schema
from hush.tables.dry_run import dry_run
from hush.tables.formats import database_files

ENGINES = ("memory", "stream", "sql")
SCHEMA = Schema(
    [
        Integer(name="age", low=0, high=3, missing=True),
        Categorical(name='se"x', values=("f", "m", "7", "0.1"), missing=True),
        Numeric(name="pay", edges=(0, 0.1, 1, 2**60), missing=True),
        Boolean(name="Own", missing=True),
    ]
)
ROWS = [
    (7, 1, "f", 0.1, 1, "unused"),
    (7, 3, " m ", 0.09999999999999999, 0, "x"),
    (2**60, 0, None, None, None, "x"),
    (2**60 + 1, None, "7", 1e18, True, "x"),
    (8, 2.0, 0.1, 0, "no", "x"),
    (8, "2", 7, -0.0, "TRUE", "x"),
]
NAMES = ["id", "age", 'se"x', "pay", "Own", "name"]
CLIQUES = [(), ("age",), ("age", 'se"x'), ("pay", "Own")]


def sqlite_file(path, rows=ROWS):
    with sqlite3.connect(path) as connection:
        connection.execute('CREATE TABLE "Pe""ople" (id, age INTEGER, "se""x" TEXT, pay, Own, name)')
        connection.executemany('INSERT INTO "Pe""ople" VALUES (?, ?, ?, ?, ?, ?)', rows)
    connection.close()
    return path


def counted(table):
    return {clique: counts.tolist() for clique, counts in table.counts(CLIQUES).items()}


@pytest.fixture(scope="module")
def expected():
    """The counts of the same values in memory."""
    import pandas as pd

    frame = pd.DataFrame(ROWS, columns=NAMES, dtype=object)
    return {unit: counted(read(frame, SCHEMA.with_unit(unit))) for unit in (Unit(), Unit(column="id"))}


@pytest.mark.parametrize("unit", [Unit(), Unit(column="id")], ids=["rows", "ids"])
@pytest.mark.parametrize("engine", ENGINES)
def test_sqlite_gives_the_counts_of_the_same_values_in_memory(engine, unit, expected, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(database_files, "BATCH_ROWS", 2)
    path = sqlite_file(tmp_path / "people.db")
    table = read(path, SCHEMA.with_unit(unit), table='Pe"ople', engine=engine)
    assert counted(table) == expected[unit]
    assert counted(table) == expected[unit]


def test_sqlite_takes_a_query(tmp_path) -> None:
    path = sqlite_file(tmp_path / "people")  # known by its first bytes, whatever its name
    query = 'SELECT age AS a FROM "Pe""ople" WHERE name <> \'unused\';'
    counts = read(path, Schema([Integer(name="a", low=0, high=3, missing=True)]), query=query).counts([("a",)])
    assert counts["a",].tolist() == [1, 0, 2, 1, 1]


@pytest.mark.parametrize("query", ["DELETE FROM t", "SELECT 1; SELECT 2", "nonsense", ""])
def test_sqlite_runs_one_select_and_writes_nothing(query, tmp_path) -> None:
    path = sqlite_file(tmp_path / "people.db")
    before = path.read_bytes()
    with pytest.raises(DataError, match="the query cannot be run; give one SELECT"):
        read(path, SCHEMA, query=query)
    with pytest.raises(DataError):
        read(path, SCHEMA, query='DELETE FROM "Pe""ople" RETURNING *')
    assert path.read_bytes() == before


def test_a_sqlite_file_that_changes_between_counts_is_refused(tmp_path) -> None:
    path = sqlite_file(tmp_path / "people.db")
    table = read(path, SCHEMA, table='Pe"ople', engine="stream")
    table.counts([("age",)])
    with sqlite3.connect(path) as connection:
        connection.execute('DELETE FROM "Pe""ople" WHERE id = 8')
    with pytest.raises(DataError, match="changed while it was read; count again when it is at rest"):
        table.counts([("age",)])


@pytest.mark.parametrize(
    ("id_value", "words"),
    [(2.0**60, "floats too large to tell neighbouring ids apart"), (b"\xff\xfe", "text that is not UTF-8")],
)
def test_ids_of_sqlite_that_cannot_be_told_apart_are_refused(id_value, words, tmp_path) -> None:
    path = sqlite_file(tmp_path / "people.db", [*ROWS, (id_value, 1, "f", 0.1, 1, "x")])
    for engine in ENGINES:
        with pytest.raises(DataError, match=words):
            read(path, SCHEMA.with_unit(Unit(column="id")), table='Pe"ople', engine=engine).counts([("age",)])


def test_nothing_of_a_damaged_sqlite_file_is_quoted(tmp_path) -> None:
    path = sqlite_file(tmp_path / "people.db", ROWS * 2000)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="cannot be read") as caught:
        read(path, SCHEMA, table='Pe"ople')
    assert caught.value.__context__ is None


@pytest.fixture
def duckdb_path(tmp_path):
    path = tmp_path / "people.db"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE SCHEMA lake; CREATE TABLE lake.people AS SELECT x % 4 AS age FROM range(10) t(x)")
        connection.execute("CREATE TABLE pay AS SELECT 7 AS age")
    return path


AGES = Schema([Integer(name="age", low=0, high=7)])


@pytest.mark.parametrize("engine", ENGINES)
def test_duckdb_files(engine, duckdb_path) -> None:
    before = duckdb_path.read_bytes()
    assert read(duckdb_path, AGES, table="lake.people", engine=engine).counts([("age",)])["age",].tolist() == [
        *(3, 3, 2, 2),
        *(0, 0, 0, 0),
    ]
    query = "SELECT age FROM pay"
    assert read(str(duckdb_path), AGES, query=query, engine=engine).counts([()])[()].tolist() == 1
    with pytest.raises(DataError):
        read(duckdb_path, AGES, query="DELETE FROM pay RETURNING *", engine=engine).counts([()])
    assert duckdb_path.read_bytes() == before


def test_tables_must_be_named_and_be_there(duckdb_path, tmp_path) -> None:
    for path, listed in ((duckdb_path, "'lake.people', 'pay'"), (sqlite_file(tmp_path / "s.db"), 'Pe"ople')):
        with pytest.raises(DataError, match=f"is a database; say which table with table= .*--table.*{listed}"):
            read(path, AGES)
        with pytest.raises(DataError, match=f"is a database; say which table with table= .*--table.*{listed}"):
            read(path, AGES, table="a", query="b")
        with pytest.raises(DataError, match=f"has no table 'none' that can be read; it has .*{listed}"):
            read(path, AGES, table="none")


def test_a_duckdb_file_that_is_being_written_is_refused(duckdb_path) -> None:
    with duckdb.connect(str(duckdb_path)), pytest.raises(DataError, match="it is open for writing elsewhere"):
        read(duckdb_path, AGES, table="pay")


def test_columns_that_a_database_lacks(duckdb_path, tmp_path) -> None:
    schema = Schema([Integer(name="AGE", low=0, high=7)])
    for path, table in ((duckdb_path, "pay"), (sqlite_file(tmp_path / "s.db"), 'Pe"ople')):
        with pytest.raises(DataError, match="the table .* of the file .* has no column 'AGE'; did you mean 'age'?"):
            read(path, schema, table=table)


def test_drafts_and_checks_take_tables(duckdb_path, tmp_path) -> None:
    path = sqlite_file(tmp_path / "s.db")
    assert 'kind = "integer"          # the declared type' in draft_schema(duckdb_path, table="lake.people")
    assert 'kind = "integer"          # a guess' in draft_schema(path, table='Pe"ople')
    assert "low = 0" in draft_schema(path, table='Pe"ople', from_data=True)
    assert dry_run(path, SCHEMA, table='Pe"ople').fits
    missing = dry_run(path, Schema([*SCHEMA, Integer(name="none", low=0, high=1)]), table='Pe"ople')
    assert [column.name for column in missing.columns if column.problem] == ["none"]


def test_numbers_of_a_database_are_compared(duckdb_path) -> None:
    (found,) = compare_numbers(duckdb_path, pa.table({"age": [7]}), AGES, table="lake.people")
    assert math.isclose(found.real_mean, 1.3)
