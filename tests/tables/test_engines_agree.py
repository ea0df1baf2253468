"""Every engine gives the same counts to the last bit: random schemas, hostile names and values, with and without ids.

Rows are made as Arrow tables. `memory` codes them in DuckDB and counts in our kernels; the other engines get the same
rows in a table of their own, and both code and count there. An engine joins by an entry in `ENGINES`.
"""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hush.core.errors import DataError
from hush.schema import (
    Boolean,
    Categorical,
    Column,
    Date,
    Granularity,
    Integer,
    Numeric,
    Outside,
    Schema,
    Unit,
)
from hush.schema.text_folding import folded
from hush.tables import read
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.dialects.postgres import POSTGRES
from hush.tables.drafting import draft_schema

NAMES = [
    "select",
    "Group",
    "group",
    'a"b',
    "o'clock",
    " x ",
    "säüle",
    "日",
    "a.b",
    "%s",
    "$1",
    "c0",
    "k0",
    "unit",
    "--",
]
TEXTS = [
    "a",
    "A",
    " A\t B ",
    "Ä",
    "ЖЯ",
    "Σ",
    "İ",
    "it's",
    '"hi"',
    "a b",
    "ä",
    "日",
    "\U0001f600",
    "$$",
    "%s",
    "\\",
    "\\x41",
    "null",
    "NaN",
    "7",
    "0.5",
]
NUMBERS = [0.0, -0.0, 0.5, 1.0, -1.0, 0.1, 0.30000000000000004, 7.0, 1e15, 1e16, 1e300, -1e300, 5e-324, 2.0**53, 1e22]
NUMBERS += [math.inf, -math.inf, math.nan, math.nextafter(0.5, 0), math.nextafter(0.5, 1), 1234567890123456.5, 1e-5]
SPELLED = ["7", " 7 ", "7.0", "+7", "1e1", ".5", "5.", "1_0", "", "  ", "\u00a07\u3000", "-0", "1e400", "-1e400", "inf"]
SPELLED += ["1e-400", "-Infinity", "nan", "NaN", "0.1", "1e-5"]
SPELLED += ["0e99999", "00007", "3" * 40, "1e308", "1.8e308", "0.1" + "0" * 30]
DAYS = [dt.date.fromisoformat(day) for day in ("2020-01-01", "2020-02-29", "2019-12-31", "0001-01-01", "9999-12-31")]
DAY_TEXTS = ["2020-02-29", " 2020-03-01", "2020-03-01 23:59:59.9999999", "2020-03-01T23:30:00+02:00", "2020-3-1", ""]
STAMPS = ("2020-02-29 23:59:59.999999", "2020-01-01", "2019-12-31 12:00", "2021-05-05 05:05:00.5")
MOMENTS = [dt.datetime.fromisoformat(stamp) for stamp in STAMPS]
FEW = {"suppress_health_check": list(HealthCheck)}


def columns(name: str) -> st.SearchStrategy[tuple[Column, pa.Array | None, st.SearchStrategy[Any], pa.DataType]]:
    """A column, the values that its rows may hold, and the type in which they are stored."""
    texts = st.lists(st.sampled_from(TEXTS), min_size=1, max_size=6, unique=True)
    category = texts.map(
        lambda values: Categorical(name=name, values=tuple(values), other=True, missing=True, missing_values=("?",))
    )
    ignored = st.sampled_from([("case",), ("spaces",), ("case", "spaces")])
    category |= st.tuples(texts, ignored).map(
        lambda drawn: Categorical(
            name=name,
            values=tuple({folded(text, drawn[1]): text for text in drawn[0]}.values()),
            other=True,
            ignore=drawn[1],
        )
    )
    number = st.sampled_from(
        [
            Numeric.equal_width(name=name, low=0.0, high=1.0, bins=10, outside=Outside.CLAMP, missing=True),
            Numeric.equal_width(name=name, low=-1.0, high=1.0, bins=64, outside=Outside.CLAMP, missing=True),
            Numeric(
                name=name, edges=(-1.0, 0.0, 0.1, 0.5, 7.0), outside=Outside.CLAMP, missing=True, missing_values=("1",)
            ),
            Numeric(name=name, edges=tuple(k * k / 7 for k in range(40)), outside=Outside.CLAMP, missing=True),
        ]
    )
    whole = st.sampled_from(
        [
            Integer(name=name, low=-2, high=9, outside=Outside.CLAMP, missing=True, missing_values=("7",)),
            Integer(name=name, low=0, high=2**40, starts=(0, 5, 2**33), outside=Outside.CLAMP, missing=True),
        ]
    )
    day = st.sampled_from(list(Granularity)).map(
        lambda step: Date(
            name=name,
            start=dt.date(2020, 1, 1),
            end=dt.date(2020, 12, 31),
            granularity=step,
            outside=Outside.CLAMP,
            missing=True,
        )
    )
    flag = st.just(Boolean(name=name, missing=True))
    integers = st.sampled_from([0, 1, -1, 7, 9, 10, 2**62, -(2**62)])
    decimals = st.sampled_from(["0.10", "0.50", "7.00", "-1.00", "0.49", "999999.99", "-0.01", "0.00"]).map(
        decimal.Decimal
    )
    flags = st.sampled_from(["yes", "NO", " t", "0", "1", "False", ""])
    stored = [
        (category, st.sampled_from([*TEXTS, " a ", "\ta", "?", "", "zzz"]), pa.string()),
        (category, st.sampled_from(NUMBERS), pa.float64()),
        (category, decimals, pa.decimal128(9, 2)),
        (category, integers, pa.int64()),
        (number, st.sampled_from(NUMBERS), pa.float64()),
        (number, st.sampled_from([0.1, 0.5, -0.0, 7.0, math.nan, math.inf]), pa.float32()),
        (number, decimals, pa.decimal128(9, 2)),
        (number, st.sampled_from(SPELLED), pa.string()),
        (whole, integers, pa.int64()),
        (whole, st.sampled_from([0.0, -0.0, 7.0, 9.0, 1e15, math.nan, math.inf]), pa.float64()),
        (whole, st.sampled_from(["7", " 7", "7.0", "1e1", "", "-3", "1e30"]), pa.string()),
        (day, st.sampled_from(DAYS), pa.date32()),
        (day, st.sampled_from(MOMENTS), pa.timestamp("us")),
        (day, st.sampled_from(MOMENTS), pa.timestamp("us", "UTC")),
        (day, st.sampled_from(DAY_TEXTS), pa.string()),
        (flag, flags, pa.string()),
        (flag, st.booleans(), pa.bool_()),
        (flag, st.sampled_from([0.0, 1.0, -0.0, math.nan]), pa.float64()),
    ]
    return st.one_of([st.tuples(column, st.just(values), st.just(kind)) for column, values, kind in stored])


IDS = {
    pa.string(): ["1", " 1 ", "01", "1.0", "a", "A", "ä", "\u3000a"],
    pa.int64(): [1, 2, -1, 2**62, 2**62 + 1],
    pa.float64(): [1.0, -0.0, 0.0, 0.5, 1234567890123456.5, 1e-5, -7.25],
    pa.decimal128(9, 2): [decimal.Decimal(text) for text in ("1.00", "1.50", "0.00", "-7.25", "0.50")],
    pa.timestamp("us"): MOMENTS,
    pa.date32(): DAYS,
}


@st.composite
def cases(draw: st.DrawFn) -> tuple[pa.Table, Schema]:
    """A table and a schema that takes it."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    unit_name = names.pop() if len(names) > 1 and draw(st.booleans()) else None
    rows = draw(st.sampled_from([0, 1, 2, 40]))
    declared, arrays, labels = [], [], []
    for name in names:
        column, values, kind = draw(columns(name))
        held = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        declared.append(column)
        arrays.append(pa.array(held, kind, from_pandas=False))
        labels.append(name)
    unit = Unit()
    if unit_name is not None:
        kind = draw(st.sampled_from(list(IDS)))
        held = draw(st.lists(st.sampled_from(IDS[kind]), min_size=rows, max_size=rows))
        arrays.append(pa.array(held, kind))
        labels.append(unit_name)
        unit = Unit(column=unit_name, max_rows=draw(st.sampled_from([1, 2, 3, 2**70])))
    return pa.Table.from_arrays(arrays, labels), Schema(declared, unit=unit)


def cliques_of(schema: Schema) -> list[tuple[str, ...]]:
    names = list(schema.domain)
    return [(), *itertools.combinations(names, 1), *itertools.combinations(names, 2)]


def outcome(table: Callable[[], Any], schema: Schema) -> dict[tuple[str, ...], list[int]] | str:
    """The counts, or the message where rows are refused."""
    try:
        found = table().counts(cliques_of(schema))
    except DataError as refused:
        return str(refused)
    return {clique: counts.ravel().tolist() for clique, counts in found.items()}


class InDuckDB:
    """A table of a DuckDB connection."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.connection = duckdb.connect()

    @contextmanager
    def holding(self, rows: pa.Table) -> Iterator[tuple[Any, str]]:
        # DuckDB takes no two names of a table that differ in case only; a query may
        numbered = rows.rename_columns([f"c{place}" for place in range(rows.num_columns)])
        self.connection.register("arrived", numbered)
        self.connection.execute("CREATE OR REPLACE TABLE t AS FROM arrived")
        names = ", ".join(f"c{at} AS {DUCKDB.quoted(name)}" for at, name in enumerate(rows.column_names))
        yield self.connection, f"SELECT {names} FROM t"


class InPostgres:
    """A table of the PostgreSQL server of the tests."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.server = request.getfixturevalue("postgres")

    @contextmanager
    def holding(self, rows: pa.Table) -> Iterator[tuple[Any, str]]:
        with self.server.connect() as connection:
            table = f"agree_{id(rows)}"
            kinds = ", ".join(f"{POSTGRES.quoted(field.name)} {TYPES[str(field.type)]}" for field in rows.schema)
            connection.execute(f"CREATE TABLE {table} ({kinds})")
            with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                for line in zip(*(column.to_pylist() for column in rows.columns), strict=True):
                    copy.write_row(line)
            try:
                yield self.server.address(), f"SELECT * FROM {table}"
            finally:
                connection.execute(f"DROP TABLE {table}")


class InSpark:
    """A view of the local Spark of the tests."""

    def __init__(self, spark: Any) -> None:
        self.spark = spark

    @contextmanager
    def holding(self, rows: pa.Table) -> Iterator[tuple[Any, str]]:
        kinds = ", ".join(f"c{at} {SPARK_TYPES[str(field.type)]}" for at, field in enumerate(rows.schema))
        lines = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        self.spark.createDataFrame(lines, kinds).toDF(*rows.column_names).createOrReplaceTempView("held")
        yield self.spark, "SELECT * FROM held"


SPARK_TYPES = {
    "string": "string",
    "double": "double",
    "float": "float",
    "decimal128(9, 2)": "decimal(9, 2)",
    "int64": "bigint",
    "bool": "boolean",
    "date32[day]": "date",
    "timestamp[us]": "timestamp_ntz",
    "timestamp[us, tz=UTC]": "timestamp",
}
TYPES = {
    "string": "text",
    "double": "float8",
    "float": "float4",
    "decimal128(9, 2)": "numeric(9, 2)",
    "int64": "bigint",
    "bool": "boolean",
    "date32[day]": "date",
    "timestamp[us]": "timestamp",
    "timestamp[us, tz=UTC]": "timestamptz",
}
ENGINES: dict[str, Callable[[pytest.FixtureRequest], Any]] = {"duckdb": InDuckDB, "postgres": InPostgres}


@pytest.fixture(scope="module", params=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> Any:
    return ENGINES[request.param](request)


@given(case=cases())
@settings(max_examples=40, **FEW)
def test_all_engines_give_the_same_counts(engine: Any, case: tuple[pa.Table, Schema]) -> None:
    rows, schema = case
    expected = outcome(partial(read, rows, schema, engine="memory"), schema)
    with engine.holding(rows) as (source, query):
        for way in ("sql", "stream"):
            assert outcome(partial(read, source, schema, query=query, engine=way), schema) == expected


def drafted_rows() -> pa.Table:
    """Columns of every kind that a draft tells apart."""
    n = 200
    spelled = {
        "marked": ["NA" if k % 9 == 0 else str(k % 7) for k in range(n)],
        "euro": [f"{k % 9}.{k % 10}00,5{k % 8} €" for k in range(n)],
        "code": [f"{k % 5:03d}" for k in range(n)],
        "word": [None if k % 13 == 0 else f" it's {k % 4}" for k in range(n)],
        "name": [f"person {k}" for k in range(n)],
        "day_text": [f"2020-0{1 + k % 9}-1{k % 10}" for k in range(n)],
        "clock": [f"{k % 24:02d}:30" for k in range(n)],
        "truth": ["TRUE" if k % 2 else "false" for k in range(n)],
        "empty": [" "] * n,
    }
    first = dt.datetime(2019, 3, 1, 7)
    stored = {
        "id": pa.array(range(n), pa.int64()),
        "gain": pa.array([0 if k % 3 else 977 * k for k in range(n)], pa.int64()),
        "share": pa.array([None if k % 11 == 0 else k / 7 for k in range(n)], pa.float64()),
        "short": pa.array([k / 10 for k in range(n)], pa.float32()),
        "price": pa.array([decimal.Decimal(k % 40) / 4 for k in range(n)], pa.decimal128(9, 2)),
        "endless": pa.array([math.inf if k % 50 == 0 else k * 1.5 for k in range(n)], pa.float64()),
        "flag": pa.array([k % 2 == 0 for k in range(n)], pa.bool_()),
        "day": pa.array([first.date() + dt.timedelta(days=5 * k) for k in range(n)], pa.date32()),
        "moment": pa.array([first + dt.timedelta(hours=5 * k) for k in range(n)], pa.timestamp("us")),
        "instant": pa.array([first + dt.timedelta(days=k) for k in range(n)], pa.timestamp("us", "UTC")),
    }
    return pa.table({**spelled, **stored})


def test_a_draft_is_that_of_the_same_rows_in_memory(engine: Any) -> None:
    rows = drafted_rows()
    with engine.holding(rows) as (source, query):
        text = draft_schema(source, query=query, from_data=True)
    frame = DUCKDB.open_frame("rows", rows.column_names, rows, DUCKDB.connect(2**28))
    assert text == draft_schema(frame, from_data=True)
    assert text.count("from_private_data = true") == text.count("\n[columns.") == len(rows.column_names) - 3
    assert "points = [0" in text


@pytest.mark.slow
@given(case=cases())
@settings(max_examples=10, **FEW)
def test_spark_gives_the_same_counts(spark: Any, case: tuple[pa.Table, Schema]) -> None:
    """Fewer examples: a statement takes Spark a good part of a second; `test_spark` has every value of every kind."""
    rows, schema = case
    expected = outcome(partial(read, rows, schema, engine="memory"), schema)
    with InSpark(spark).holding(rows) as (source, query):
        for way in ("sql", "stream"):
            assert outcome(partial(read, source, schema, query=query, engine=way), schema) == expected
