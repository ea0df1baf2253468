"""Dialects: a second one counts the same; an engine's failures are told in our own words, with nothing of theirs."""

from __future__ import annotations

import datetime as dt
import importlib
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from hush.core.errors import DataError, DomainError, SizeError
from hush.schema import Boolean, Categorical, Date, Granularity, Integer, Numeric, Outside, Schema, Unit
from hush.tables import read
from hush.tables.counting import as_numpy
from hush.tables.dialects.dialect import attempt
from hush.tables.dialects.duckdb import DUCKDB, DuckDB
from hush.tables.sources import RowSource

SECRET = "hunter2"


def fail(error):
    def call():
        raise error

    return call


@pytest.mark.parametrize(
    "error",
    [
        duckdb.ConversionException(SECRET),
        duckdb.InternalException(SECRET),
        pa.ArrowInvalid(SECRET),
        OSError(SECRET),
        RuntimeError(SECRET),
        EOFError(SECRET),
        UnicodeDecodeError("utf-8", SECRET.encode(), 0, 1, SECRET),
        pl.exceptions.ComputeError(SECRET),
        pl.exceptions.InvalidOperationError(SECRET),
        pl.exceptions.PanicException(SECRET),
        KeyError(SECRET),
        AttributeError(SECRET),
        StopIteration(SECRET),
    ],
)
def test_an_error_of_the_engine_leaves_nothing_behind(error) -> None:
    with pytest.raises(DataError, match="^it failed; try again$") as caught:
        attempt(fail(error), "it failed; try again")
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "error", [duckdb.OutOfMemoryException(SECRET), MemoryError(SECRET), pa.ArrowMemoryError(SECRET)]
)
def test_too_little_memory_is_a_matter_of_size(error) -> None:
    with pytest.raises(SizeError, match="more memory than memory_limit allows; raise it") as caught:
        attempt(fail(error), "it failed")
    assert caught.value.__context__ is None


def test_our_own_errors_and_the_wish_to_stop_pass() -> None:
    with pytest.raises(DomainError, match="known"):
        attempt(fail(DomainError("known")), "it failed")
    for wish in (KeyboardInterrupt, SystemExit, GeneratorExit):
        with pytest.raises(wish):
            attempt(fail(wish()), "it failed")


def test_the_words_may_depend_on_the_kind_of_trouble() -> None:
    with pytest.raises(DataError, match="a quote"):
        attempt(fail(duckdb.Error("unterminated")), lambda text: "a quote" if "unter" in text else "unknown")


def test_numbers_of_an_arrow_slice() -> None:
    sliced = pa.array([1, 2, 3, 4], pa.uint16()).slice(1, 2)
    assert as_numpy(sliced).tolist() == [2, 3]
    assert as_numpy(sliced).dtype == np.uint16
    assert as_numpy(pa.array([], pa.uint8())).tolist() == []


def test_streams_of_a_closed_session_fail_in_our_words() -> None:
    session = DUCKDB.open_session(DUCKDB.connect(2**28), {})
    assert sum(batch.num_rows for batch in DUCKDB.stream(session, "FROM range(3000)", 1000, "no")) == 3000
    assert 0 <= DUCKDB.fraction_done(session) <= 1
    session.close()
    with pytest.raises(DataError, match="^no$"):
        list(DUCKDB.stream(session, "FROM range(3)", 1000, "no"))
    assert DUCKDB.fraction_done(session) == 0.0


def test_memory_of_the_engine_is_limited() -> None:
    session = DUCKDB.open_session(DUCKDB.connect(2**27), {})
    session.execute("SET temp_directory = ''")
    heavy = "SELECT * FROM range(30000000) AS r(i) ORDER BY hash(i)"
    with pytest.raises(SizeError, match="more memory than memory_limit allows"):
        list(DUCKDB.stream(session, heavy, 10**6, "no"))


def test_rows_that_must_not_be_spilled_have_no_folder_to_spill_to() -> None:
    for spill in (True, False):
        folder = DUCKDB.connect(2**28, spill=spill).execute("SELECT current_setting('temp_directory')").fetchone()[0]
        assert bool(folder) is spill


class Session:
    """A cursor of the toy engine: what `Toy` declared in it, and everything else passed on."""

    def __init__(self, cursor: Any) -> None:
        self.cursor, self.texts = cursor, {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cursor, name)


class Toy(DuckDB):
    """An engine without enums, lists or GROUPING SETS, which quotes and casts otherwise."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def holds(self, source: object) -> bool:
        return isinstance(source, dict)

    def open_table(self, source: Any, table: str | None, query: str | None, **options: Any) -> RowSource:
        return replace(super().open_table(source["toy"], table, query, **options), name="the toy")

    def open_session(self, connection: Any, frames: Any) -> Any:
        return Session(super().open_session(connection, frames))

    def literal(self, text: str) -> str:
        return "decode(unhex('" + text.encode().hex() + "'))"

    def cast(self, x: str, kind: str) -> str:
        return f"(({x})::{kind})"

    def number(self, number: float) -> str:
        return f"('{number!r}'::DOUBLE)"

    def is_nan(self, x: str) -> str:
        return f"({x} = 'nan'::DOUBLE)"

    def declare_texts(self, session: Any, name: str, texts: Any) -> None:
        rows = ", ".join(f"({place}, {self.literal(text)})" for place, text in enumerate(texts))
        session.execute(f"CREATE TEMP TABLE {self.quoted(name)} AS FROM (VALUES {rows}) AS t(place, word)")

    def position(self, x: str, name: str, size: int) -> str:
        return f"(SELECT any_value(place) FROM {name} WHERE word = {x})"

    def element(self, values: Any, index: str) -> str:
        whens = " ".join(f"WHEN {place} THEN {value}" for place, value in enumerate(values))
        return f"(CASE {index} {whens} END)"

    def days_since(self, x: str, start: Any) -> str:
        return f"date_diff('day', {self.day(start)}, {x})"

    def grouped_counts(self, keys: Any, rows: str, weight: str | None = None) -> str:
        return " UNION ALL ".join(self.separate_counts(scan, key, rows, weight) for scan, key in keys.items())

    def stream(self, session: Any, select: str, batch_rows: int, failed: Any) -> Any:
        self.asked.append(select)
        return super().stream(session, select, batch_rows, failed)


@pytest.mark.parametrize("engine", ["memory", "stream", "sql"])
@pytest.mark.parametrize(("unit", "times"), [(None, None), ("who", None), (None, "who")])
def test_a_second_dialect_gives_the_same_counts(engine, unit, times, monkeypatch) -> None:
    schema = Schema(
        [
            Categorical(name="word", values=("it's", "b", "c d"), missing=True, other=True),
            Boolean(name="flag", missing=True),
            Integer(name="age", low=1, high=9, outside=Outside.CLAMP),
            Numeric.equal_width(name="even", low=0.0, high=1.0, bins=30, outside=Outside.CLAMP),
            Numeric(name="uneven", edges=tuple(k * k / 900 for k in range(31)), missing=True, missing_values=("-9",)),
            Date(name="day", start=dt.date(2020, 1, 1), end=dt.date(2020, 12, 31), granularity=Granularity.WEEK),
        ],
        unit=Unit(column=unit, max_rows=2 if unit else 1),
    )
    connection = duckdb.connect()
    connection.execute("SELECT setseed(0.5)")
    connection.execute(
        """CREATE TABLE t AS SELECT range % 40 AS who, ['it''s', ' b ', 'c d', 'z', '', NULL][range % 6 + 1] AS word,
        ['yes', '0', NULL][range % 3 + 1] AS flag, range % 12 AS age, random() * 1.1 AS even,
        CASE WHEN range % 7 = 0 THEN -9 ELSE random() END AS uneven,
        DATE '2020-01-01' + CAST(random() * 365 AS INTEGER) AS day FROM range(300)"""
    )
    toy = Toy()
    monkeypatch.setattr(importlib.import_module("hush.tables.read"), "DIALECTS", (DUCKDB, toy))
    cliques = [("word", "flag"), ("age",), ("even",), ("uneven", "flag"), ("day",), ()]
    expected = read(connection, schema, table="t", counts=times, engine=engine).counts(cliques)
    counts = read({"toy": connection}, schema, table="t", counts=times, engine=engine).counts(cliques)
    for clique in cliques:
        np.testing.assert_array_equal(counts[clique], expected[clique])
    assert toy.asked
    assert int(counts[()]) == (80 if unit else sum(line % 40 for line in range(300)) if times else 300)
