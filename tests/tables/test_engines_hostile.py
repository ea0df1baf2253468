"""Values at the ends of their types: no engine fails on them, and all give the codes and the integers of the reference.

A statement that fails after the charge because of what one row holds would tell that the row is there.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

import duckdb
import numpy as np
import pytest

from hush.privacy.sum_query import SumQuery
from hush.schema import Categorical, Column, Date, Integer, Numeric, Schema
from hush.tables import read
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.read import open_source
from hush.tables.rows_per_unit import CappedRows
from hush.workloads.sum_term import sum_terms

LARGEST, LEAST, NORMAL = 1.7976931348623157e308, 5e-324, 2.2250738585072014e-308
FLOATS = [sign * x for x in (LARGEST, 1.7e308, 1e200, 1e155, 1e-155, 1e-200, NORMAL, 1e-310, LEAST) for sign in (1, -1)]
FLOATS += [0.0, -0.0, 0.5, 7.0, math.inf, -math.inf, math.nan]
INTEGERS = [2**63 - 1, -(2**63), 2**53 + 1, -(2**53) - 1, 0, 7, -1]
TEXTS = [repr(number) for number in FLOATS] + [
    "1e400",
    "-1e400",
    "1e-400",
    "9" * 400,
    "1e999999",
    "1e-999999",
    str(2**63),
]
DECIMALS = [Decimal(sign + x) for x in ("9" * 30 + "." + "9" * 8, "1e-8", "0.5", "7", "0") for sign in ("", "-")]
LOOSE: dict[str, Any] = {"outside": "clamp", "missing": True}
NARROW = {
    "guess": Numeric.equal_width(name="x", low=0, high=100, bins=50, **LOOSE),
    "around": Numeric.equal_width(name="x", low=-1e9, high=1e9, bins=40, **LOOSE),
    "tree": Numeric(name="x", edges=(-1.0, 0.0, 0.1, 7.0), points=(0.0, 0.5), **LOOSE),
    "bisection": Numeric(name="x", edges=tuple(k * k / 7 for k in range(40)), **LOOSE),
}
NUMBERS: dict[str, Column] = {
    **NARROW,
    "widest": Numeric(name="x", edges=(-LARGEST, 0.0, LARGEST), **LOOSE),
    "lopsided": Numeric(name="x", edges=(-LARGEST, 1e307), **LOOSE),
    "tiny": Numeric(name="x", edges=(-1e-310, 0.0, 1e-310), **LOOSE),
    "close": Numeric(name="x", edges=(0.0, 1e17, 1e17 + 16), **LOOSE),
}
WHOLE: dict[str, Column] = {
    "whole": Integer(name="x", low=-5, high=40, **LOOSE),
    "bins": Integer.equal_width(name="x", low=0, high=10**15, bins=30, **LOOSE),
    "all": Integer(name="x", low=-(2**53), high=2**53, starts=(-(2**53), 0, 7), **LOOSE),
}
WORDS: dict[str, Column] = {"words": Categorical(name="x", values=("7", "0.5", "inf"), other=True, missing=True)}
YEAR = Date(name="x", start=dt.date(2020, 1, 1), end=dt.date(2020, 12, 31), granularity="month", **LOOSE)


def listed(literals: list[str]) -> str:
    """SQL of rows of one column."""
    return " UNION ALL ".join(f"SELECT {literal} AS x" for literal in literals)


def columns_of(schema: Schema, rows: str) -> str:
    """SQL of that column once for every column of a schema."""
    return f"SELECT {', '.join(f'x AS {column.name}' for column in schema)} FROM {rows} AS held"


class InDuckDB:
    """A table of a DuckDB connection."""

    types: ClassVar = {
        "double": "DOUBLE",
        "float": "FLOAT",
        "integer": "BIGINT",
        "decimal": "DECIMAL(38, 8)",
        "text": "VARCHAR",
    }
    days = ("DATE 'infinity'", "DATE '-infinity'", "DATE '5881580-07-10'", "DATE '5877642-06-25 (BC)'")
    moments = (
        "TIMESTAMP 'infinity'",
        "TIMESTAMP '-infinity'",
        "TIMESTAMP '294247-01-10'",
        "TIMESTAMP '290308-01-01 (BC)'",
    )

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.connection = duckdb.connect()

    def literal(self, value: Any, kind: str) -> str:
        text = "NULL" if value is None else f"'{value!r}'" if isinstance(value, float) else f"'{value}'"
        return f"CAST({text} AS {self.types[kind]})"

    @contextmanager
    def holding(self, schema: Schema, literals: list[str]) -> Iterator[tuple[Any, str | None]]:
        self.connection.execute(f"CREATE OR REPLACE TABLE t AS {listed(literals)}")
        yield self.connection, columns_of(schema, "t")


class InPostgres(InDuckDB):
    """A table of the PostgreSQL server of the tests, whose NUMERIC has no bounds."""

    types: ClassVar = {"double": "FLOAT8", "float": "FLOAT4", "integer": "BIGINT", "decimal": "NUMERIC", "text": "TEXT"}
    days = ("DATE 'infinity'", "DATE '-infinity'", "DATE '5874897-12-31'", "DATE '4713-01-01 BC'")
    moments = tuple(
        f"TIMESTAMP '{x}'" for x in ("infinity", "-infinity", "294276-12-31 23:59:59", "4713-01-01 00:00:00 BC")
    )

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.server = request.getfixturevalue("postgres")

    @contextmanager
    def holding(self, schema: Schema, literals: list[str]) -> Iterator[tuple[Any, str | None]]:
        with self.server.connect() as connection:
            connection.execute(f"CREATE TABLE hostile AS {listed(literals)}")
            try:
                yield self.server.address(), columns_of(schema, "hostile")
            finally:
                connection.execute("DROP TABLE hostile")


class InSpark(InDuckDB):
    """A view of the local Spark of the tests."""

    types: ClassVar = {
        "double": "DOUBLE",
        "float": "FLOAT",
        "integer": "BIGINT",
        "decimal": "DECIMAL(38, 8)",
        "text": "STRING",
    }
    days = (
        "date_from_unix_date(2147483647)",
        "date_from_unix_date(-2147483648)",
        "DATE '9999-12-31'",
        "DATE '0001-01-01'",
    )
    moments = (
        "CAST(timestamp_micros(9223372036854775807) AS TIMESTAMP_NTZ)",
        "CAST(timestamp_micros(-9223372036854775808) AS TIMESTAMP_NTZ)",
        "TIMESTAMP_NTZ '9999-12-31 23:59:59'",
        "TIMESTAMP_NTZ '0001-01-01'",
    )

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.spark = request.getfixturevalue("spark")

    @contextmanager
    def holding(self, schema: Schema, literals: list[str]) -> Iterator[tuple[Any, str | None]]:
        self.spark.sql(listed(literals)).createOrReplaceTempView("hostile")
        yield self.spark, columns_of(schema, "hostile")


class InMemory(InDuckDB):
    """An Arrow table."""

    @contextmanager
    def holding(self, schema: Schema, literals: list[str]) -> Iterator[tuple[Any, str | None]]:
        yield self.connection.sql(columns_of(schema, f"({listed(literals)})")).to_arrow_table(), None


HALVES = [float(np.float32(x)) for x in FLOATS if abs(x) < 3e38] + [3.4028234663852886e38, -1e38, 1e-45, math.inf]
KINDS: dict[str, tuple[str, list[Any], dict[str, Column]]] = {
    "floats": ("double", FLOATS, {**NUMBERS, **WORDS}),
    "whole floats": ("double", [x for x in FLOATS if x == 0 or abs(x) > 1], WHOLE),
    "broken floats": ("double", FLOATS, WHOLE),
    "short floats": ("float", list(dict.fromkeys(HALVES)), {**NUMBERS, **WORDS}),
    "integers": ("integer", INTEGERS, {**NUMBERS, **WHOLE, **WORDS}),
    "decimals": ("decimal", DECIMALS, {**NUMBERS, **WORDS}),
    "texts": ("text", TEXTS, NUMBERS),
    "whole texts": ("text", ["1e400", "-1e400", "9" * 400, "1e999999", str(2**63), "7", "inf"], WHOLE),
}
EXTREME = [Decimal(x) for x in ("1e1000", "-1e1000", "1e-1000", "1." + "0" * 999 + "1", "NaN", "Infinity", "-Infinity")]


@pytest.fixture(scope="module", params=[InMemory, InDuckDB, InPostgres])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param(request)


def named(columns: dict[str, Column]) -> Schema:
    return Schema([dataclasses.replace(column, name=name) for name, column in columns.items()])


def codes(source: Any, query: str | None, schema: Schema) -> dict[str, Counter[int | None]]:
    """How many rows have each code, by column; None where their value is refused."""
    opened = open_source(source, schema, None, query, partial(DUCKDB.connect, 2**28))
    rows = CappedRows(opened, schema, schema.columns)
    with rows.session() as session:
        batches = list(opened.dialect.stream(session, rows.sql, 1000, opened.failure))
    return {
        column.name: Counter(code for batch in batches for code in batch.column(at).to_pylist())
        for at, column in enumerate(schema)
    }


def queries(schema: Schema) -> list[SumQuery]:
    """All sums of columns: over everything, by their own levels, and of squares where floats have room for them."""
    found = []
    for column in schema:
        if isinstance(column, Integer | Numeric):
            squares = {"variance": True} if column.high < 1e150 else {}
            found += [term.query for term in sum_terms(schema, column.name, **squares)[0]]
    return list(dict.fromkeys(found))


def check(engine: Any, kind: str, values: list[Any], schema: Schema, reference: Callable[..., Any]) -> None:
    """Codes of all columns, and sums of the numeric ones over the rows that all columns take."""
    with engine.holding(schema, [engine.literal(value, kind) for value in (None, *values)]) as held:
        found = codes(*held, schema)
    for column in schema:
        assert found[column.name] == Counter(reference(column, value) for value in (None, *values)), (kind, column)
    placed = {value: [reference(column, value) for column in schema] for value in values}
    taken = [value for value in placed if None not in placed[value]]
    asked = queries(schema)
    with engine.holding(schema, [engine.literal(value, kind) for value in taken]) as (source, query):
        sums = read(source, schema, query=query).sums(asked)
    numbers = [float(value) for value in taken]
    for query, exact in sums.items():
        column = schema[query.grid.column]
        levels = np.array([placed[value][schema.columns.index(column)] for value in taken])
        integers = query.grid.integers(numbers, levels)
        expected = np.bincount(levels, integers, column.size) if query.clique else integers.sum()
        np.testing.assert_array_equal(
            exact, expected, err_msg=f"{kind} {column.name} {query.clique} {query.grid.power}"
        )


@pytest.mark.parametrize("group", KINDS)
def test_hostile_numbers(engine: Any, group: str, reference: Any) -> None:
    kind, values, columns = KINDS[group]
    check(engine, kind, values, named(columns), reference)


def test_decimals_beyond_all_floats(request: pytest.FixtureRequest, reference: Any) -> None:
    words = Categorical(name="x", values=("7", "0.5"), other=True, missing=True)
    check(InPostgres(request), "decimal", [*EXTREME, *DECIMALS], named({**NUMBERS, "words": words}), reference)


@pytest.mark.parametrize("kind", ["days", "moments"])
def test_hostile_days(engine: Any, kind: str) -> None:
    check_days(engine, kind)


@pytest.mark.slow
@pytest.mark.parametrize("group", ["floats", "decimals"])
def test_hostile_numbers_of_spark(request: pytest.FixtureRequest, group: str, reference: Any) -> None:
    """Fewer columns: a statement takes Spark a good part of a second."""
    kind, values, columns = KINDS[group]
    some = {name: columns[name] for name in ("around", "widest", "words")}
    check(InSpark(request), kind, values, named(some), reference)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["days", "moments"])
def test_hostile_days_of_spark(request: pytest.FixtureRequest, kind: str) -> None:
    check_days(InSpark(request), kind)


def check_days(engine: Any, kind: str) -> None:
    """Days that Python has none for lie beyond all bounds."""
    schema = Schema([YEAR])
    with engine.holding(schema, list(getattr(engine, kind))) as held:
        assert codes(*held, schema) == {"x": Counter([0, 0, 11, 11])}
