"""PostgreSQL: rows are counted where they lie, in one read-only snapshot, and neither they nor passwords are shown."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hush.core.errors import DataError
from hush.privacy.sum_query import SumQuery, ValueGrid
from hush.schema import Categorical, Integer, Numeric, Outside, Schema, Unit
from hush.tables import read
from hush.tables.dialects.dialect import HASH_KEY, unit_hash_of
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.dialects.postgres import POSTGRES, explain_trouble
from hush.tables.dialects.postgres_sessions import shown_address, state_of
from hush.tables.dry_run import dry_run
from hush.tables.read import count_numbers
from hush.tables.scan_plan import Way
from postgres_server import LOCKED

SECRET = "hunter2"
SCHEMA = Schema(
    [
        Categorical(name="sex", values=("f", "m")),
        Integer(name="age", low=0, high=9, outside=Outside.CLAMP),
        Numeric.equal_width(name="pay", low=0.0, high=100.0, bins=20, outside=Outside.CLAMP, missing=True),
    ]
)
RANDOM = np.random.default_rng(5)
ROWS = pa.table(
    {
        "id": RANDOM.integers(0, 60, 400),
        "sex": RANDOM.choice(["f", "m", " f "], 400),
        "age": RANDOM.integers(-2, 12, 400),
        "pay": [None if pay > 110 else pay for pay in RANDOM.uniform(-5, 120, 400).round(1).tolist()],
        "times": RANDOM.integers(0, 5, 400),
    }
)
PAIRS = [(), *itertools.combinations(SCHEMA.domain, 2)]


@pytest.fixture(scope="module")
def people(postgres) -> Iterator[str]:
    """The name of a table that holds ROWS."""
    with postgres.connect() as connection:
        connection.execute("CREATE TABLE people (id bigint, sex text, age int, pay float8, times int)")
        with connection.cursor().copy("COPY people FROM STDIN") as copy:
            for row in zip(*(column.to_pylist() for column in ROWS.columns), strict=True):
                copy.write_row(row)
        connection.execute("ANALYZE people")
        connection.execute(f"CREATE ROLE {LOCKED} LOGIN PASSWORD '{SECRET}'")
        yield "people"
        connection.execute("DROP TABLE people")
        connection.execute(f"DROP ROLE {LOCKED}")


def same(counts: dict[Any, Any], expected: dict[Any, Any]) -> bool:
    return counts.keys() == expected.keys() and all((counts[key] == expected[key]).all() for key in expected)


@pytest.mark.parametrize("options", [{}, {"unit": "id", "max_rows_per_unit": 2}, {"counts": "times"}])
@pytest.mark.parametrize("engine", ["auto", "memory", "stream", "sql"])
def test_an_address_gives_the_counts_of_the_rows(postgres, people, engine, options) -> None:
    expected = read(ROWS, SCHEMA, **options).counts(PAIRS)
    assert same(read(postgres.address(), SCHEMA, table="people", engine=engine, **options).counts(PAIRS), expected)


def test_tables_queries_and_connections_of_the_user(postgres, people) -> None:
    import adbc_driver_postgresql.dbapi
    import psycopg

    expected = read(ROWS, SCHEMA).counts(PAIRS)
    with psycopg.connect(postgres.address()) as own, adbc_driver_postgresql.dbapi.connect(postgres.address()) as arrow:
        own.execute("DELETE FROM people")  # not committed, so nobody else sees it
        for source in (postgres.address(), own, arrow):
            for asked in ({"table": "people"}, {"table": "public.people"}, {"query": "SELECT * FROM people -- all\n;"}):
                assert same(read(source, SCHEMA, **asked).counts(PAIRS), expected)
        assert own.execute("SELECT count(*) FROM people").fetchone() == (0,)
        own.rollback()
    assert POSTGRES.holds(own)
    assert not POSTGRES.holds("people.csv")
    assert not POSTGRES.holds(object())


def test_every_way_counts_alike_and_the_choice_is_the_least_prediction(postgres, people) -> None:
    expected = read(ROWS, SCHEMA).counts(PAIRS)
    for way in Way:
        table: Any = read(postgres.address(), SCHEMA, table="people")
        table._ways = (way,)
        assert same(table.counts(PAIRS), expected)
        assert table.way is way
    table = read(postgres.address(), SCHEMA, table="people")
    table.counts(PAIRS)
    predicted = {way: time for way, (time, _) in table.predict(PAIRS).items()}
    assert set(predicted) == set(Way)
    assert table.way == min(predicted, key=predicted.__getitem__)


def test_few_tables_of_many_rows_are_grouped_and_many_are_streamed(postgres) -> None:
    names = [f"c{k}" for k in range(14)]
    schema = Schema([Integer(name=name, low=0, high=9) for name in names])
    columns = ", ".join(f"(i + {k}) % 10 AS {name}" for k, name in enumerate(names))
    query = f"SELECT {columns} FROM generate_series(1, 1000000) AS i"
    table: Any = read(postgres.address(), schema, query=query)
    assert table.choose([("c0",)])[0] is not Way.STREAM
    assert table.choose(list(itertools.combinations(names, 2)))[0] is Way.STREAM


def test_codes_are_held_during_a_snapshot_only(postgres, people) -> None:
    table: Any = read(postgres.address(), SCHEMA, table="people")
    with table.snapshot():
        table.check()
        assert table._held is not None
        with table.snapshot():
            assert same(table.counts(PAIRS), read(ROWS, SCHEMA).counts(PAIRS))
        assert table._held is not None
    assert table._held is None
    small: Any = read(postgres.address(), SCHEMA, table="people", memory_limit=100_000)
    small._source = replace(small._source, rows=1e9)
    with small.snapshot():
        small.check()
        assert small._held is None
        assert same(small.counts(PAIRS), read(ROWS, SCHEMA).counts(PAIRS))


def test_sums_numbers_and_dry_runs_are_those_of_the_rows(postgres, people) -> None:
    address = postgres.address()
    exact, found = count_numbers(ROWS, SCHEMA), count_numbers(address, SCHEMA, table="people")
    for name in exact:
        assert [array.tolist() for array in found[name]] == [array.tolist() for array in exact[name]]
    strict = Schema(
        [Categorical(name="sex", values=("f",)), Integer(name="age", low=0, high=9)], unit=Unit(column="id")
    )
    ours, theirs = dry_run(address, strict, table="people"), dry_run(ROWS, strict)
    assert (ours.rows, ours.columns) == (theirs.rows, theirs.columns)
    assert not ours.fits
    with pytest.raises(DataError, match="values outside its declared levels") as refused:
        read(address, strict, table="people").counts([("sex",)])
    with pytest.raises(DataError) as likewise:
        read(ROWS, strict).counts([("sex",)])
    assert str(refused.value) == str(likewise.value)


@pytest.mark.parametrize("options", [{}, {"unit": "id", "max_rows_per_unit": 2}, {"counts": "times"}])
def test_sums_of_values_are_the_same_integers(postgres, people, options) -> None:
    missing = SCHEMA["pay"].missing_code
    grids = [
        ValueGrid("pay", 10, (50.0,), (5.0,), missing=missing),  # many of the values lie halfway between two integers
        ValueGrid("pay", 8, (2.0,), (0.25,), power=2, origin=2.0, missing=missing),
        ValueGrid("age", 9, (0.0,), (1.0,), exact=True),
    ]
    queries = [SumQuery(clique, grid) for grid in grids for clique in ((), ("sex",))]
    ours = read(postgres.address(), SCHEMA, table="people", **options).sums(queries)
    assert same(ours, read(ROWS, SCHEMA, **options).sums(queries))


def test_the_hash_that_chooses_rows_is_the_same_everywhere(postgres) -> None:
    units = [b"", b"7", "ä".encode(), b"\x00\xff", b"x" * 1000]
    expected = [unit_hash_of(unit) for unit in units]
    session = DUCKDB.connect(2**28)
    assert HASH_KEY
    with postgres.connect() as connection:
        for unit, number in zip(units, expected, strict=True):
            assert 0 <= number < 2**60
            assert session.execute(f"SELECT {DUCKDB.unit_hash('?::BLOB')}", [unit]).fetchone() == (number,)
            sql = f"SELECT {POSTGRES.unit_hash('%s::bytea')}"
            assert connection.execute(sql, [unit]).fetchone() == (number,)


def test_a_hundred_thousand_levels(postgres) -> None:
    levels = tuple(f"level {k}" for k in range(100_000))
    schema = Schema([Categorical(name="x", values=levels, other=True)])
    query = "SELECT 'level ' || i * 7 AS x FROM generate_series(0, 20000) AS i"
    expected = read(pa.table({"x": [f"level {7 * k}" for k in range(20001)]}), schema).counts([("x",)])
    for engine in ("sql", "stream"):
        assert same(read(postgres.address(), schema, query=query, engine=engine).counts([("x",)]), expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either table= or query="),
        ({"table": "people", "query": "SELECT 1"}, "either table= or query="),
        ({"table": "nobody"}, "no such table or view; check table="),
        ({"table": "x.y.z.people"}, "no such table or view"),
        ({"table": 'people"; DROP TABLE people; --'}, "no such table or view"),
        ({"query": "DELETE FROM people"}, "must be one SELECT"),
        ({"query": "SELECT 1; SELECT 2"}, "must be one SELECT"),
        ({"query": "SELECT FROM WHERE ("}, "cannot be parsed"),
        ({"query": "SELECT sexx FROM people"}, "column that the query names does not exist"),
        ({"query": "SELECT sex, age FROM people"}, "has no column 'pay'"),
        ({"query": "SELECT sex, age, '1 day'::interval AS pay FROM people"}, "stored as interval, which the kind"),
        ({"query": "SELECT sex, age, 1 AS pay, nextval('hush_steps') FROM people"}, "the query writes"),
        ({"query": "SELECT sex, age, 1 / (age - age) AS pay FROM people"}, "a value that PostgreSQL cannot convert"),
        ({"query": "SELECT sex, age, pg_sleep(9)::text AS pay FROM people", "timeout": 0.2}, "took too long"),
        ({"table": "people", "timeout": 0}, "expected a number above 0"),
    ],
)
def test_what_cannot_be_read_is_refused_in_our_own_words(postgres, people, options, message) -> None:
    with postgres.connect() as connection:
        connection.execute("CREATE SEQUENCE IF NOT EXISTS hush_steps")
    with pytest.raises(DataError, match=message) as refused:
        read(postgres.address(password=SECRET), SCHEMA, **options).counts(PAIRS)
    assert SECRET not in str(refused.value)
    assert "hush@" not in str(refused.value)
    assert refused.value.__context__ is None
    assert refused.value.__cause__ is None
    with postgres.connect() as connection:
        assert connection.execute("SELECT count(*) FROM people").fetchone() == (400,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"user": LOCKED, "password": "wrong"}, "does not let this user in"),
        ({"user": LOCKED, "password": SECRET}, "may not read it; ask for the privilege SELECT"),
        ({"database": "nowhere"}, "no such database"),
    ],
)
def test_who_may_not_connect_or_read_is_told_so(postgres, people, options, message) -> None:
    with pytest.raises(DataError, match=message) as refused:
        read(postgres.address(**options), SCHEMA, table="people").counts(PAIRS)
    assert not any(word in str(refused.value) for word in (SECRET, "wrong", LOCKED))


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(DataError, match="the table 't' of postgresql://127.0.0.1:1/db: the server cannot be reached"):
        read(f"postgresql://anna:{SECRET}@127.0.0.1:1/db", SCHEMA, table="t")


def test_a_missing_driver_is_named_with_the_extra(monkeypatch) -> None:
    for name in [*sys.modules]:
        if name.startswith("adbc_driver_postgresql"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    with pytest.raises(
        DataError, match=r"adbc-driver-postgresql, which is not installed; run: pip install 'hush\[postgres\]'"
    ):
        read("postgresql://localhost/db", SCHEMA, table="t")


def test_addresses_and_states_show_nothing_secret() -> None:
    assert shown_address(f"postgresql://u:{SECRET}@[::1]:5/db") == "postgresql://[::1]:5/db"
    assert shown_address(f"postgres://u:p%40@h/d?password={SECRET}") == "postgresql://h/d"
    assert SECRET not in shown_address(f"postgresql://{SECRET} @@/x")
    assert explain_trouble("t", "ZZ999") == "t: it cannot be read; look into the server's log"
    assert state_of(OSError("server closed the connection unexpectedly")) == "08006"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C interrupts, also in a job of the background, whose shell may have it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_cancels_the_statement(postgres) -> None:
    query = "SELECT 'f' AS sex, 1 AS age, 2.0::float8 + pg_sleep(30)::text::int AS pay /* interrupted */"
    table = read(postgres.address(), SCHEMA, query=query)
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        table.counts(PAIRS)
    timer.join()
    assert time.monotonic() - begun < 20
    with postgres.connect() as connection:
        others = "FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()"
        busy = f"SELECT count(*) {others} AND query LIKE '%pg_sleep(30)%'"
        for _ in range(100):
            if connection.execute(busy).fetchone() == (0,):
                break
            time.sleep(0.05)
        assert connection.execute(busy).fetchone() == (0,)


def test_an_idle_connection_that_broke_is_made_anew(postgres, people) -> None:
    table = read(postgres.address() + "?application_name=idle", SCHEMA, table="people")
    with postgres.connect() as connection:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'idle'"
        assert connection.execute(ended).fetchall() == [(True,)]
    assert same(table.counts(PAIRS), read(ROWS, SCHEMA).counts(PAIRS))


class Writer:
    """Inserts and deletes pairs of rows all the while; every state has as many women as men."""

    def __init__(self, postgres, table: str) -> None:
        self.connection, self.table, self.stopping = postgres.connect(), table, threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)

    def work(self) -> None:
        for step in itertools.count():
            if self.stopping.is_set():
                return
            age = step % 10
            self.connection.execute(f"INSERT INTO {self.table} VALUES ('f', {age}, 1), ('m', {age}, 2)")
            if step % 97 == 96:
                self.connection.execute(f"DELETE FROM {self.table} WHERE age = {step % 7}")

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.thread.join()
        self.connection.close()


@pytest.mark.parametrize("engine", ["auto", "sql", "stream"])
def test_a_writer_never_makes_two_counts_of_one_snapshot_disagree(postgres, engine) -> None:
    name = f"busy_{engine}"
    with postgres.connect() as connection:
        connection.execute(f"CREATE TABLE {name} (sex text, age int, pay float8)")
        changed = 0
        with Writer(postgres, name):
            table = read(postgres.address(), SCHEMA, table=name, engine=engine)
            totals = []
            for _ in range(12):
                with table.snapshot():
                    table.check()
                    seen = [table.counts([clique]) for clique in PAIRS]
                    total = {int(counts.sum()) for found in seen for counts in found.values()}
                    assert len(total) == 1
                    sexes = table.counts([("sex",)])[("sex",)]
                    assert sexes[0] == sexes[1]
                totals.append(total.pop())
                changed += int(table.counts([()])[()]) != totals[-1]
        assert len(set(totals)) > 3  # the writer did write
        assert changed  # without a snapshot, counts disagree
        connection.execute(f"DROP TABLE {name}")
