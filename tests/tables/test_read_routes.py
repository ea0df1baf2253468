"""Every route to the counts of a table gives the same arrays: all sources, all engines, with and without a unit."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import itertools

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn_schemas import names
from hush.schema import Boolean, Categorical, Date, Granularity, Integer, Numeric, Outside, Schema
from hush.schema.column import canonical
from hush.tables import read

ENGINES = ("memory", "stream", "sql")
SOURCES = ("csv", "gzip", "parquet", "parts", "arrow", "reader", "pandas", "polars", "lazy", "table", "query")
LONG = settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@st.composite
def small_column(draw, name):
    """A column of few levels of any kind."""
    shared = {"name": name, "missing": draw(st.booleans())}
    kind = draw(st.sampled_from("cbind"))
    if kind == "c":
        texts = draw(
            st.lists(st.text("ab '\",;\n\t?é", min_size=1, max_size=4).filter(str.strip), min_size=1, max_size=5)
        )
        values = tuple({text.strip(): text for text in texts}.values())
        return Categorical(values=values, other=draw(st.booleans()), **shared)
    if kind == "b":
        return Boolean(**shared)
    outside = draw(st.sampled_from(Outside))
    if kind == "i":
        low = draw(st.integers(-300, 300))
        return Integer(low=low, high=low + draw(st.integers(0, 8)), outside=outside, **shared)
    if kind == "n":
        return Numeric.equal_width(low=-1.0, high=draw(st.floats(0, 9)), bins=draw(st.integers(1, 7)), **shared)
    start = draw(st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)))
    end = start + dt.timedelta(days=draw(st.integers(0, 40)))
    return Date(start=start, end=end, granularity=draw(st.sampled_from(Granularity)), outside=outside, **shared)


@st.composite
def coded_tables(draw, unit=False):
    """A schema, codes of some rows, an id for each, and cliques."""
    # Arrow cuts names at a zero byte; CSV files may not have line breaks in their header
    plain = names.filter(lambda name: not set(name) & set("\x00\n\r"))
    columns = draw(st.lists(plain, min_size=2, max_size=4, unique_by=lambda name: name.strip().lower()))
    schema = Schema([draw(small_column(name)) for name in columns if name.strip() != "who"])
    rows = draw(st.lists(st.tuples(*(st.integers(0, n - 1) for n in schema.domain.shape)), max_size=25))
    ids = draw(st.lists(st.integers(0, 4), min_size=len(rows), max_size=len(rows)))
    subsets = [c for k in range(4) for c in itertools.permutations(schema.domain, k)]
    cliques = draw(st.lists(st.sampled_from(subsets), max_size=6))
    return schema, rows, ids, cliques


def real_values(schema, rows, ids):
    """The rows in real values, with a column nobody asked for and the id."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    codes = {name: np.array(column, np.int64) for name, column in zip(schema.domain, columns, strict=True)}
    table = schema.decode(codes)
    return table.append_column("who", pa.array(ids, pa.int64())).append_column("", pa.nulls(len(rows), pa.string()))


def write_csv(table, path, opener=open):
    with opener(path, "wt", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table.column_names)
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            writer.writerow(["" if value is None else canonical(value) for value in row])


def opened(kind, table, folder):
    """The same rows as a source of another kind, and the arguments that go with it."""
    if kind in {"csv", "gzip"}:
        path = folder / ("t.csv" if kind == "csv" else "t.csv.gz")
        write_csv(table, path, open if kind == "csv" else gzip.open)
        return path, {}
    if kind == "parquet":
        pq.write_table(table, folder / "t.parquet")
        return str(folder / "t.parquet"), {}
    if kind == "parts":
        half = table.num_rows // 2
        pq.write_table(table.slice(0, half), folder / "part-0.parquet")
        pq.write_table(table.slice(half), folder / "part-1.parquet")
        return str(folder / "part-*.parquet"), {}
    if kind in {"table", "query"}:
        connection = duckdb.connect()
        connection.register("given", table)
        connection.execute('CREATE TABLE "my table" AS SELECT * FROM given')
        connection.unregister("given")
        return connection, {"table": "my table"} if kind == "table" else {"query": 'FROM "my table";'}
    return {
        "arrow": lambda: table,
        "reader": lambda: table.to_reader(5),
        "pandas": lambda: table.to_pandas(),
        "polars": lambda: pl.from_arrow(table),
        "lazy": lambda: pl.from_arrow(table).lazy(),
    }[kind](), {}


def compare(counts, expected):
    assert list(counts) == list(expected)
    for clique, array in counts.items():
        assert array.dtype == np.int64
        assert array.flags.c_contiguous
        np.testing.assert_array_equal(array, expected[clique])


@pytest.mark.parametrize("kind", SOURCES)
@LONG
@given(case=coded_tables())
def test_sources_and_engines_agree_with_counting_by_hand(kind, case, brute_counts, tmp_path_factory) -> None:
    schema, rows, ids, cliques = case
    expected = {clique: brute_counts(schema, rows, clique) for clique in cliques}
    table = real_values(schema, rows, ids)
    for engine in ENGINES if kind != "reader" else ("memory",):
        source, options = opened(kind, table, tmp_path_factory.mktemp("t"))
        compare(read(source, schema, engine=engine, **options).counts(cliques), expected)


@LONG
@given(case=coded_tables(), most=st.integers(1, 4), kind=st.sampled_from(SOURCES))
def test_sources_and_engines_agree_on_what_is_kept_of_a_unit(case, most, kind, tmp_path_factory) -> None:
    schema, rows, ids, cliques = case
    table = real_values(schema, rows, ids)
    expected = read(table, schema, unit="who", max_rows_per_unit=most).counts(cliques)
    for engine in ENGINES if kind != "reader" else ("memory",):
        source, options = opened(kind, table, tmp_path_factory.mktemp("t"))
        result = read(source, schema, unit="who", max_rows_per_unit=most, engine=engine, **options)
        compare(result.counts(cliques), expected)


@pytest.mark.parametrize("kind", SOURCES)
@settings(LONG, max_examples=3)
@given(case=coded_tables())
def test_a_table_with_counts_is_the_table_of_all_its_rows(kind, case, brute_counts, tmp_path_factory) -> None:
    """Some counts are 0, and combinations repeat."""
    schema, rows, times, cliques = case
    expanded = [row for row, n in zip(rows, times, strict=True) for _ in range(n)]
    expected = {clique: brute_counts(schema, expanded, clique) for clique in cliques}
    table = real_values(schema, rows, times)
    for engine in ENGINES if kind != "reader" else ("memory",):
        source, options = opened(kind, table, tmp_path_factory.mktemp("t"))
        compare(read(source, schema, counts="who", engine=engine, **options).counts(cliques), expected)


def test_a_wide_table_of_many_rows(brute_counts) -> None:
    """Several blocks, codes of two widths, more rows than a batch."""
    random = np.random.default_rng(3)
    sizes = {"a": 3, "b": 300, "c": 2, "d": 5}
    schema = Schema([Integer(name=name, low=0, high=size - 1) for name, size in sizes.items()])
    codes = {name: random.integers(0, size, 600_000) for name, size in sizes.items()}
    cliques = [("b", "a"), ("a", "c", "d"), ("d",), ()]
    expected = {}
    for clique in cliques:
        cells = np.ravel_multi_index([codes[name] for name in clique], schema.domain.sizes(clique)) if clique else 0
        expected[clique] = np.bincount(np.broadcast_to(cells, 600_000), minlength=schema.domain.size(clique)).reshape(
            schema.domain.sizes(clique)
        )
    for engine in ENGINES:
        compare(read(pa.table(codes), schema, engine=engine).counts(cliques), expected)
