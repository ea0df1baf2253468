"""Without noise, a query on estimates says what DuckDB says about the rows."""

from __future__ import annotations

import datetime as dt
import functools
import math
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from dense_twins import DenseEstimates
from hush.core.errors import HushError
from hush.release.answers import Answers
from hush.release.sql_answers import answer_sql
from hush.schema import Boolean, Categorical, Date, Integer, Numeric, Schema
from hush.schema.schema import decode_column

ROWS = 60
SCHEMA = Schema(
    [
        Integer(name="age", low=-1, high=4, missing=True),
        Categorical(name="Sex", values=("m", "f"), other=True, missing=True),
        Boolean(name="odd name", missing=True),
        Numeric(name="inc", edges=(0, 10, 20.5, 40), missing=True),
        Date(name="d", start=dt.date(2020, 1, 15), end=dt.date(2020, 3, 20), granularity="month", missing=True),
        Date(name="day", start=dt.date(2020, 1, 1), end=dt.date(2020, 1, 3)),
        Numeric(name="gain", edges=(0, 10, 20), points=(0, 12.5), missing=True),
        Integer(name="hours", low=0, high=9, starts=(0, 3, 6), points=(7,)),
    ]
)
BINNED = ("inc", "gain", "hours")
NAMES = SCHEMA.domain.attributes
QUOTED = {name: f'"{name}"' if " " in name else name for name in NAMES}


@dataclass(frozen=True)
class Source:
    """The same rows twice: `spread` has any value of each level, `middles` the one that stands for it."""

    connection: duckdb.DuckDBPyConnection
    estimates: DenseEstimates

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql).fetchall()


@functools.cache
def source(seed: int) -> Source:
    rng = np.random.default_rng(seed)
    codes = {column.name: rng.integers(0, column.size, ROWS) for column in SCHEMA}
    middles = SCHEMA.decode(codes)
    income = [_within(SCHEMA["inc"].edges, code, rng) for code in codes["inc"]]
    months = [(dt.date(2020, 1, 15), 16), (dt.date(2020, 2, 1), 28), (dt.date(2020, 3, 1), 19), (None, 0)]
    days = [
        None if (m := months[c])[0] is None else m[0] + dt.timedelta(int(rng.integers(0, m[1] + 1))) for c in codes["d"]
    ]
    spread = middles.set_column(3, "inc", pa.array(income, pa.float64())).set_column(
        4, "d", pa.array(days, pa.date32())
    )
    gain, hours = SCHEMA["gain"], SCHEMA["hours"]
    gains = [None if c == gain.missing_code else _in_level(gain, c, rng) for c in codes["gain"]]
    spread = spread.set_column(6, "gain", pa.array(gains, pa.float64())).set_column(
        7, "hours", pa.array([int(rng.integers(*hours.ends(c), endpoint=True)) for c in codes["hours"]])
    )
    middles = middles.set_column(7, "hours", pa.array([sum(hours.ends(c)) / 2 for c in codes["hours"]]))
    connection = duckdb.connect()
    connection.register("middles", middles)
    connection.register("spread", spread)
    table = np.zeros(SCHEMA.domain.shape)
    np.add.at(table, tuple(codes.values()), 1)
    return Source(connection, DenseEstimates(SCHEMA.domain, table))


def _within(edges: tuple[float, ...], code: int, rng: np.random.Generator) -> float | None:
    if code == len(edges) - 1:
        return None
    return float(rng.choice([edges[code], np.nextafter(edges[code + 1], 0), rng.uniform(*edges[code : code + 2])]))


def _in_level(column: Any, code: int, rng: np.random.Generator) -> float:
    """The least float of a level, the greatest, or one between."""
    start, high = column.level_starts[code], column.ends(code)[1]
    return float(rng.choice([start, max(start, np.nextafter(high, 0)), rng.uniform(start, high)]))


def comparison(column: str, signs: tuple[str, ...], values: tuple[str, ...]) -> st.SearchStrategy[str]:
    mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
    parts = st.tuples(st.sampled_from(signs), st.sampled_from(values), st.booleans())
    return parts.map(lambda p: f"{p[1]} {mirrored[p[0]]} {column}" if p[2] else f"{column} {p[0]} {p[1]}")


def listing(column: str, values: tuple[str, ...]) -> st.SearchStrategy[str]:
    listed = st.lists(st.sampled_from((*values, "NULL")), min_size=1, max_size=3).map(", ".join)
    return st.tuples(st.sampled_from(("IN", "NOT IN")), listed).map(lambda p: f"{column} {p[0]} ({p[1]})")


def between(column: str, lows: tuple[str, ...], highs: tuple[str, ...]) -> st.SearchStrategy[str]:
    parts = st.tuples(st.sampled_from(("", "NOT ")), st.sampled_from(lows), st.sampled_from(highs))
    return parts.map(lambda p: f"{column} {p[0]}BETWEEN {p[1]} AND {p[2]}")


ALL = ("=", "<>", "<", "<=", ">", ">=")
AGES = ("-2", "-1", "0", "2.5", "3", "4", "9", "'2'", "NULL", "-(1)", "1e0")
DAYS = ("'2019-12-31'", "'2020-01-01'", "DATE '2020-01-02'", "CAST('2020-01-03' AS DATE)", "'2021-01-01'::DATE", "NULL")
SEXES = ("'f'", "'m'", "'other'")
FIRSTS = ("'2020-01-15'", "'2020-02-01'", "'2020-03-01'", "'2019-05-05'", "'2020-03-21'", "DATE '2022-01-01'")
LASTS = ("'2020-01-14'", "'2020-01-31'", "'2020-02-29'", "'2020-03-20'", "'2020-12-31'", "'2010-01-01'")
TESTS = ("IS NULL", "IS NOT NULL")
TRUTHS = (*TESTS, "IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE")
leaves = st.one_of(
    comparison("age", ALL, AGES),
    st.sampled_from(("0", "NULL", "7", "4")).map(lambda value: f"AGE IS DISTINCT FROM {value}"),
    st.sampled_from(("0", "NULL", "7", "4")).map(lambda value: f"Age IS NOT DISTINCT FROM {value}"),
    listing("t.age", ("-1", "2", "4", "11")),
    between("age", AGES, AGES),
    comparison("sEx", ("=", "<>"), (*SEXES, "NULL")),
    listing("Sex", SEXES),
    comparison("inc", (">=", "<"), ("-3", "0", "10", "20.5", "41")),
    comparison("inc", ("<=", ">"), ("-3", "40", "1e9")),
    comparison("inc", ("=", "<>"), ("-3", "50.5")),
    comparison("gain", ALL, ("0", "12.5", "-1", "0.0")),
    comparison("gain", (">=", "<"), ("10", "0", "12.5", "25")),
    listing("gain", ("0", "12.5")),
    comparison("hours", (">=", "<"), ("-1", "0", "3", "6", "7", "8", "2.5", "11")),
    comparison("hours", ("<=", ">"), ("2", "5", "6", "7", "9", "6.5", "20")),
    comparison("hours", ("=", "<>"), ("7", "6", "2.5")),
    between("hours", ("0", "3", "7"), ("2", "7", "9")),
    comparison("d", (">=", "<"), FIRSTS),
    comparison("d", ("<=", ">"), LASTS),
    between("d", FIRSTS, LASTS),
    comparison("day", ALL, DAYS),
    listing("day", DAYS[:-1]),
    st.tuples(st.sampled_from([QUOTED[name] for name in NAMES]), st.sampled_from(TESTS)).map(" ".join),
    st.just('"odd name"'),
    st.sampled_from(TRUTHS).map(lambda test: f'"Odd Name" {test}'),
    comparison('"odd name"', ("=", "<>"), ("TRUE", "FALSE")),
    st.sampled_from(("TRUE", "FALSE", "NULL", "1 = 1", "'a' > 'b'")),
)
predicates = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(("AND", "OR")), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        inner.map(lambda p: f"NOT ({p})"),
        st.tuples(inner, st.sampled_from(TRUTHS)).map(lambda p: f"(({p[0]}) {p[1]})"),
    ),
    max_leaves=5,
)
Pair = tuple[str, str]  # for hush, and for DuckDB where a sum over no rows must be 0
filters = st.one_of(st.just(""), predicates.map(lambda p: f" FILTER (WHERE {p})"))


@st.composite
def aggregates(draw: st.DrawFn) -> Pair:
    kind = draw(st.sampled_from(("count", "sum", "avg", "count_if")))
    if kind == "count_if":
        text = f"COUNT_IF({draw(predicates)})"
        return text, f"COALESCE({text}, 0)"
    if kind == "count":
        inner = draw(
            st.one_of(
                st.sampled_from(("*", "1", *QUOTED.values())), predicates.map(lambda p: f"CASE WHEN {p} THEN 'x' END")
            )
        )
        text = f"COUNT({inner}){draw(filters)}"
        return text, text
    rows = st.one_of(
        st.sampled_from(
            (
                "age",
                "inc",
                "2 * age - inc / 4",
                '"odd name"::INT',
                "-age",
                "age * inc",
                "CAST(age AS DOUBLE)",
                "gain",
                "hours - gain",
            )
        ),
        predicates.map(lambda p: f"CASE WHEN {p} THEN 1 ELSE 0 END"),
        predicates.map(lambda p: f"CASE WHEN {p} THEN age WHEN age > 2 THEN 1.5 END"),
        predicates.map(lambda p: f"CASE Sex WHEN 'f' THEN inc ELSE IF({p}, 1, -1) END"),
        predicates.map(lambda p: f"CAST(({p}) AS INTEGER)"),
    )
    text = f"{kind.upper()}({draw(rows)}){draw(filters)}"
    return text, (f"COALESCE({text}, 0)" if kind == "sum" else text)


def _ratio(parts: tuple[Pair, Pair, str]) -> Pair:
    above, below, factor = parts
    return f"{factor}{above[0]} / {below[0]}", f"{factor}{above[1]} / NULLIF({below[1]}, 0)"


def _both(form: str) -> Any:
    return lambda parts: tuple(form.format(*side) for side in zip(*parts, strict=True))


items = st.one_of(
    aggregates(),
    st.tuples(aggregates(), aggregates(), st.sampled_from(("", "1.0 * ", "100.0 * "))).map(_ratio),
    st.tuples(aggregates(), aggregates()).map(_both("{0} - 2 * {1} + 3")),
    st.tuples(aggregates(), aggregates()).map(_both("-({0} + {1}) / 4")),
)


@st.composite
def queries(draw: st.DrawFn) -> tuple[str, str, list[str], str]:
    """Text for hush, text for DuckDB without its FROM, the groups, and the items alone."""
    groups = draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True))
    pairs = draw(st.lists(items, min_size=1, max_size=2))
    where = draw(st.one_of(st.just(""), predicates.map(lambda p: f" WHERE {p}")))
    labels = [QUOTED[name] for name in groups]
    ours, theirs = ([f"{pair[side]} AS v{place}" for place, pair in enumerate(pairs)] for side in (0, 1))
    positions = ", ".join(str(place + 1) for place in range(len(labels)))
    grouping = draw(st.sampled_from((f" GROUP BY {', '.join(labels)}", f" GROUP BY {positions}", " GROUP BY ALL")))
    directions = st.sampled_from(("", " ASC", " DESC", " NULLS FIRST", " DESC NULLS FIRST", " ASC NULLS LAST"))
    order = " ORDER BY " + ", ".join(label + draw(directions) for label in draw(st.permutations(labels)))
    tail = where + (grouping + order if groups else "")
    return (
        f"SELECT {', '.join(labels + ours)} FROM t{tail}",
        ", ".join(labels + theirs) + " FROM {}" + tail,
        groups,
        ", ".join(theirs),
    )


def _codes(name: str) -> dict[Any, int]:
    column = SCHEMA[name]
    if name == "hours":
        return {sum(column.ends(code)) / 2: code for code in range(column.levels)}  # what the middles hold
    return {value: code for code, value in enumerate(decode_column(column, np.arange(column.size)).to_pylist())}


CODES = {name: _codes(name) for name in NAMES}


def _found(answers: Answers, groups: list[str]) -> dict[tuple[int, ...], list[float]]:
    keys = zip(*(answers.codes[name].tolist() for name in groups), strict=True) if groups else [()]
    values = np.stack([quantity.estimate for quantity in answers.quantities], axis=1)
    return dict(zip(keys, values.tolist(), strict=True))


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


@settings(max_examples=300)
@given(queries(), st.integers(0, 4))
def test_queries_agree_with_duckdb(query: tuple[str, str, list[str], str], seed: int) -> None:
    text, theirs, groups, values = query
    note(text)
    made = source(seed)
    found = _found(answer_sql(text, SCHEMA, made.estimates), groups)
    exact = not any(name in values for name in BINNED) and not {*BINNED, "d"} & set(groups)
    table = "spread" if exact else "middles"
    rows = made.rows(f"SELECT {theirs.format(f'{table} AS t')}")
    expected = {
        tuple(CODES[name][value] for name, value in zip(groups, row, strict=False)): [
            _number(value) for value in row[len(groups) :]
        ]
        for row in rows
    }
    assert set(expected) <= set(found)
    empty = [_number(value) for value in made.rows(f"SELECT {values} FROM {table} AS t WHERE FALSE")[0]]
    for key, got in found.items():
        assert got == pytest.approx(expected.get(key, empty), nan_ok=True, rel=1e-9, abs=1e-9), key
    assert [key for key in found if key in expected] == list(expected)


WORDS = """
SELECT FROM t WHERE GROUP BY ORDER LIMIT age Sex inc d day COUNT(*) SUM(age) AVG(inc) COUNT ( ) , * = <> < >= IN NOT
AND OR IS NULL TRUE BETWEEN 1 2.5 'f' 'x' '2020-01-01' DATE CASE WHEN THEN ELSE END / + - AS n FILTER OVER HAVING
DISTINCT JOIN ; -- /* ' " ? $1 :: INT . [ ] { } UNION WITH ALL ANY EXISTS LIKE INTERVAL CAST NULLIF ROLLUP NULLS FIRST
""".split()  # noqa: SIM905 - a vocabulary reads best as text


@settings(max_examples=300)
@given(
    st.one_of(
        st.text(max_size=40),
        st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join),
        st.lists(st.sampled_from(WORDS), max_size=8).map(
            lambda words: "SELECT COUNT(*) FROM t WHERE " + " ".join(words)
        ),
        st.lists(st.sampled_from(WORDS), max_size=8).map(
            lambda words: "SELECT Sex, " + " ".join(words) + " FROM t GROUP BY Sex"
        ),
    )
)
def test_any_text_is_answered_or_refused_in_one_line(text: str) -> None:
    note(text)
    assert _said(text)


def _said(text: str) -> str:
    """The table of answers, or the one line that refuses the query."""
    try:
        return str(answer_sql(text, SCHEMA, source(0).estimates))
    except HushError as error:
        return "" if "\n" in str(error) else str(error)
