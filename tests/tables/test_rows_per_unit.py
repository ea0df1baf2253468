"""The privacy unit: which rows of it are kept depends on its own rows only, and they are never too many."""

from __future__ import annotations

import datetime as dt
import decimal
from collections import Counter

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hush.core.errors import DataError
from hush.schema import Categorical, Integer, Schema, Unit
from hush.tables import read

LEVELS = 4
SCHEMA = Schema([Integer(name="x", low=0, high=LEVELS - 1), Categorical(name="y", values=("a", "b"))])
IDS = st.sampled_from(["ann", "bob", "eve", "zoe"])
ROWS = st.lists(st.tuples(IDS, st.integers(0, LEVELS - 1), st.sampled_from("ab")), max_size=30)
FEW = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
ENGINES = ("memory", "stream", "sql")


def frame(rows):
    ids, x, y = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table({"who": pa.array(ids, pa.string()), "x": pa.array(x, pa.int64()), "y": pa.array(y, pa.string())})


def kept(rows, most, engine="memory"):
    """Cells of the rows that are kept, as a multiset."""
    table = read(frame(rows), SCHEMA, unit="who", max_rows_per_unit=most, engine=engine)
    counts = table.counts([("x", "y")])[("x", "y")]
    return Counter({cell: int(n) for cell, n in np.ndenumerate(counts) if n})


@FEW
@given(rows=ROWS, most=st.integers(1, 5), random=st.randoms())
def test_the_order_of_rows_does_not_matter(rows, most, random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert kept(rows, most) == kept(shuffled, most)


@FEW
@given(rows=ROWS, most=st.integers(1, 5))
def test_what_is_kept_of_a_unit_does_not_depend_on_others(rows, most) -> None:
    """Units are kept one by one: together they keep what each keeps alone."""
    alone = Counter()
    for who in {row[0] for row in rows}:
        own = kept([row for row in rows if row[0] == who], most)
        assert own.total() == min(most, sum(row[0] == who for row in rows))
        alone += own
    assert kept(rows, most) == alone


def test_units_side_by_side_keep_what_each_keeps_alone() -> None:
    """The same on one table of a hundred units, for certain and not by search."""
    random = np.random.default_rng(5)
    rows = [(f"unit {u}", int(x), "ab"[y]) for u, x, y in random.integers(0, (100, LEVELS, 2), (1000, 3))]
    alone = Counter()
    for who in sorted({row[0] for row in rows}):
        alone += kept([row for row in rows if row[0] == who], 3)
    assert kept(rows, 3) == alone


@FEW
@given(rows=ROWS, most=st.integers(1, 5))
def test_kept_rows_are_rows_of_the_table(rows, most) -> None:
    everything = Counter((x, "ab".index(y)) for _, x, y in rows)
    assert kept(rows, most) <= everything
    assert kept(rows, 1000) == everything


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("most", [1, 3, 1000])
def test_a_unit_of_many_rows_changes_counts_by_its_share(engine, most) -> None:
    others = [(f"p{k % 50}", k % LEVELS, "ab"[k % 2]) for k in range(300)]
    random = np.random.default_rng(0)
    flood = [("flood", int(k), "ab"[k % 2]) for k in random.integers(0, LEVELS, 100_000)]
    cliques = [(), ("x",), ("y",), ("x", "y"), ("y", "x")]
    options = {"unit": "who", "max_rows_per_unit": most, "engine": engine}
    without = read(frame(others), SCHEMA, **options).counts(cliques)
    with_it = read(frame(others + flood), SCHEMA, **options).counts(cliques)
    for clique in cliques:
        difference = with_it[clique] - without[clique]
        assert (difference >= 0).all()
        assert difference.sum() == most


@pytest.mark.parametrize("engine", ENGINES)
def test_a_unit_in_several_files_is_one_unit(engine, tmp_path) -> None:
    for name, rows in (("a", 3), ("b", 5)):
        (tmp_path / f"{name}.csv").write_text("who,x,y\n" + "ann,1,a\n" * rows + f"{name},2,b\n")
    table = read(tmp_path / "*.csv", SCHEMA, unit="who", max_rows_per_unit=2, engine=engine)
    assert table.counts([("x",)])[("x",)].tolist() == [0, 2, 2, 0]


def test_every_row_of_a_unit_has_the_same_chance() -> None:
    """A unit with 9 rows of one cell and 1 of another is kept by the first in about 9 cases of 10."""
    rows = [(f"unit {u}", 0 if k else 1, "a") for u in range(4000) for k in range(10)]
    share = kept(rows, 1)[(0, 0)] / 4000
    assert abs(share - 0.9) < 6 * np.sqrt(0.09 / 4000)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("blank", [None, "", "  "])
def test_a_row_without_a_unit_is_refused(engine, blank) -> None:
    rows = [("ann", 1, "a"), (blank, 1, "a")]
    with pytest.raises(DataError, match=r"the unit column 'who' is missing in some rows \(how many is private\)"):
        read(frame(rows), SCHEMA, unit="who", engine=engine).counts([("x",)])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("clique", [("x",), ("y",), ()])
def test_a_refused_value_is_found_even_among_rows_to_be_left_out(engine, clique) -> None:
    rows = [("ann", 1, "a")] * 500 + [("ann", 1, "secret")]
    with pytest.raises(DataError, match="column 'y' holds values outside its declared levels"):
        read(frame(rows), SCHEMA, unit="who", max_rows_per_unit=2, engine=engine).counts([clique])


def test_ids_are_the_same_however_they_are_stored(tmp_path) -> None:
    numbers = [7, 7, 7, 12, 12, 3]
    data = {"x": [0, 1, 2, 3, 0, 1], "y": list("ababab")}
    spellings = [
        pa.array(numbers, pa.int8()),
        pa.array([float(n) for n in numbers]),
        pa.array([decimal.Decimal(n) for n in numbers], pa.decimal128(9, 3)),
        pa.array([decimal.Decimal(n) for n in numbers], pa.decimal256(60, 3)),
        pa.array([f" {n} " for n in numbers]),
        pa.array(numbers).dictionary_encode(),
    ]
    tables = [read(pa.table({"who": ids, **data}), SCHEMA, unit="who") for ids in spellings]
    path = tmp_path / "t.csv"
    pd.DataFrame({"who": numbers, **data}).to_csv(path, index=False)
    tables += [read(path, SCHEMA, unit="who", engine=engine) for engine in ENGINES]
    first = tables[0].counts([("x", "y")])[("x", "y")]
    assert first.sum() == 3
    for table in tables[1:]:
        np.testing.assert_array_equal(table.counts([("x", "y")])[("x", "y")], first)


BIG = 12345678901234567890
MIDNIGHT = 1704067200 * 10**9
NOON = MIDNIGHT + 43200 * 10**9
D = decimal.Decimal


def owned(ids):
    """How many rows of the ids are kept, of each of which one is."""
    source = ids if isinstance(ids, pa.Table | pd.DataFrame | pl.DataFrame) else pa.table({"who": ids})
    x = [0] * len(source)
    if isinstance(source, pa.Table):
        source = source.append_column("x", pa.array(x))
    else:
        source = source.assign(x=x) if isinstance(source, pd.DataFrame) else source.with_columns(x=pl.Series(x))
    return int(read(source, Schema([SCHEMA.columns[0]]), unit="who").counts([()])[()])


def objects(*ids):
    return pd.DataFrame({"who": pd.Series(ids, dtype=object)})


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([D(BIG), D(BIG + 1)], pa.decimal128(20, 0)),
        pa.array([D("0.1234567890123456788"), D("0.1234567890123456789")], pa.decimal128(19, 19)),
        pa.array([D("-0.5"), D("0.5"), D("0.05"), D("0")], pa.decimal128(2, 2)),
        pa.array([D(100), D(10), D(1)], pa.decimal128(5, 2)),
        pa.array([D(100), D(10), D(1)], pa.decimal128(5, 0)),
        pa.array([D(10**50), D(10**50 + 1)], pa.decimal256(60, 0)),
        pa.array([2**63, 2**63 + 1], pa.uint64()),
        pa.array([NOON, NOON + 1, NOON + 1000], pa.timestamp("ns")),
        pa.array([NOON, NOON + 1, NOON + 1000], pa.timestamp("ns", "Asia/Tokyo")),
        pa.array([MIDNIGHT, MIDNIGHT + 1], pa.timestamp("ns")),
        pa.array([2.0**53 - 1, 2.0**53 - 2, 0.1, float(np.nextafter(0.1, 1))]),
        pa.array(np.array([2**24 - 1, 2**24 - 2], np.float32)),
        pl.DataFrame({"who": pl.Series([D(BIG), D(BIG + 1)], dtype=pl.Decimal(20, 0))}),
        pl.DataFrame({"who": pl.Series([10**30, 10**30 + 1], dtype=pl.Int128)}),
        pl.DataFrame({"who": pl.Series([D(BIG), 2**60, 2**60 + 1], dtype=pl.Object)}),
        pd.DataFrame({"who": pd.Series([D(BIG), D(BIG + 1)], dtype="category")}),
        pd.DataFrame({"who": np.array([2**62, 2**62 + 1], np.longdouble)}),
        objects(D(BIG), D(BIG + 1)),
        objects(D("0.1234567890123456788"), D("0.1234567890123456789"), 0.1234567890123456789),
        objects(2**60, 2**60 + 1, "x"),
        objects(10**400, 10**401, -(10**400), 10**5000, 10**5000 + 1),
        objects(D("1e5000"), D("1e5001"), D("1e-5000"), D("1e-5001"), D("-1e-5001")),
        objects(pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-01") + pd.Timedelta(1), pd.Timestamp(NOON)),
        objects(np.datetime64(NOON + 5, "ns"), np.datetime64(NOON + 6, "ns"), np.datetime64(NOON // 10**9, "s")),
        objects(np.longdouble("1.1"), np.longdouble("1.1") + np.finfo(np.longdouble).eps),
    ],
)  # fmt: skip
def test_ids_that_differ_are_units_of_their_own(ids) -> None:
    assert owned(ids) == len(ids)


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([D("7.00"), D(7)], pa.decimal256(60, 2)),
        objects(7, 7.0, "7", b"7", D(7), D("7.00"), D("0.7e1"), np.float32(7), np.int8(7), np.longdouble(7)),
        objects(7, np.float16(7)),
        objects(0, 0.0, -0.0, D("-0.00"), "0"),
        objects(0.1, np.float32(0.1), np.float16(0.1), D("0.10"), "0.1"),
        objects(1e-7, D("0.0000001"), np.float32(1e-7)),
        objects(10**30, D("1e30"), str(10**30)),
        objects(10**5000, D("1e5000"), D("10e4999")),
        objects(dt.datetime(2024, 1, 1), dt.date(2024, 1, 1), pd.Timestamp("2024-01-01"), np.datetime64("2024-01-01"),
                np.datetime64("2024-01-01T00:00"), np.datetime64(MIDNIGHT, "ns")),
        objects(dt.datetime(2024, 1, 1, 12, 0, 0, 500000), np.datetime64("2024-01-01T12:00:00.5"),
                pd.Timestamp("2024-01-01 12:00:00.5")),
    ],
)  # fmt: skip
def test_spellings_of_one_id_are_one_unit(ids) -> None:
    assert owned(ids) == 1


def test_legacy_print_options_do_not_round_ids() -> None:
    with np.printoptions(legacy="1.13"):
        assert owned(objects(np.float64(1.0000000000000002), np.float64(1.0000000000000004))) == 2
        assert owned(objects(np.longdouble("1.1"), np.longdouble("1.1") + np.finfo(np.longdouble).eps)) == 2


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "ids",
    [
        pa.array([2.0**53]), pa.array([1.0, -(2.0**60)]), pa.array([np.inf]), pa.array([1e300]),
        pa.array(np.array([2**24], np.float32)), pa.array(np.array([2**11], np.float16)),
        objects(2**60, float(2**60)), objects(2**60, np.float64(2**60)), objects("a", np.float32(2**24)),
        objects("a", np.float16(2**11)), objects(np.longdouble(2) ** 64), objects("a", np.inf), objects(D("Infinity")),
    ],
)  # fmt: skip
def test_a_float_that_may_have_been_rounded_is_no_id(engine, ids) -> None:
    source = ids.assign(x=0) if isinstance(ids, pd.DataFrame) else pa.table({"who": ids, "x": [0] * len(ids)})
    with pytest.raises(
        DataError, match="the unit column 'who' holds floats too large .* as text or integers"
    ) as caught:
        read(source, Schema([SCHEMA.columns[0]]), unit="who", engine=engine).counts([("x",)])
    assert caught.value.__context__ is None
    with pytest.raises(DataError, match="the unit column 'who' holds floats too large"):
        read(source, Schema([SCHEMA.columns[0]]), unit="who", engine=engine).check()


@pytest.mark.parametrize("ids", [pa.array([1.0, np.nan]), pa.array([1.0, None]), objects(1.0, np.nan, D("nan"))])
def test_a_number_that_is_not_there_is_a_missing_id(ids) -> None:
    with pytest.raises(DataError, match="the unit column 'who' is missing in some rows"):
        owned(ids)


@pytest.mark.parametrize("engine", ENGINES)
def test_decimal_ids_of_a_database_are_exact(engine) -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT CAST(12345678901234567890 + i AS DECIMAL(20, 0)) AS who, i AS x "
                       "FROM range(4) AS r(i)")  # fmt: skip
    table = read(connection, Schema([SCHEMA.columns[0]]), table="t", unit="who", engine=engine)
    assert table.counts([("x",)])[("x",)].tolist() == [1] * 4


def test_an_id_of_an_odd_type_is_refused() -> None:
    table = pa.table({"who": pa.array([[1]]), "x": [1], "y": ["a"]})
    with pytest.raises(DataError, match=r"the unit column 'who' is stored as BIGINT\[\], which cannot be an id"):
        read(table, SCHEMA, unit="who")


def test_a_unit_column_of_nulls_is_refused() -> None:
    table = pa.table({"who": pa.nulls(1), "x": [1], "y": ["a"]})
    with pytest.raises(DataError, match="the unit column 'who' is missing in some rows"):
        read(table, SCHEMA, unit="who")


def test_the_unit_of_the_schema_is_used() -> None:
    schema = Schema(SCHEMA.columns, unit=Unit(column="who", max_rows=2))
    rows = [("ann", 1, "a")] * 9
    table = read(frame(rows), schema)
    assert table.unit == schema.unit
    assert table.counts([()])[()] == 2
    assert read(frame(rows), schema, max_rows_per_unit=5).counts([()])[()] == 5
    assert read(frame(rows), schema, unit="who").unit.max_rows == 2
    assert read(frame(rows), SCHEMA, unit=Unit(column="who", max_rows=4)).counts([()])[()] == 4
    assert read(frame(rows), SCHEMA, unit=Unit(column="who"), max_rows_per_unit=3).counts([()])[()] == 3


def collated(rows, how):
    """A connection that holds rows of (who, x) and finds `Ann` and `ann` alike."""
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t (who VARCHAR {'COLLATE NOCASE' if how == 'column' else ''}, x INTEGER)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
    if how == "setting":
        connection.execute("SET default_collation = 'nocase'")
    return connection


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", ["column", "setting"])
def test_a_collation_does_not_make_two_units_one(engine, how) -> None:
    names = [f"{first}ser{k}" for k in range(20) for first in "Uu"]
    schema = Schema([Integer(name="x", low=0, high=len(names) - 1)])
    connection = collated([(who, x) for x, who in enumerate(names)], how)
    table = read(connection, schema, table="t", unit="who", engine=engine)
    assert table.counts([("x",)])[("x",)].tolist() == [1] * len(names)


@pytest.mark.parametrize("how", ["column", "setting"])
def test_a_collation_leaves_the_choice_of_rows_alone(how) -> None:
    """Spellings of one id are units of their own, each with its own share, with a collation and without."""
    rows = [(who, x) for who in ("anna", "Anna", "ANNA") for x in range(LEVELS)]
    schema = Schema([SCHEMA.columns[0]])
    found = [
        read(collated(rows, case), schema, table="t", unit="who", engine=engine).counts([("x",)])[("x",)].tolist()
        for case in (how, "none")
        for engine in ENGINES
    ]
    assert sum(found[0]) == 3
    assert found == found[:1] * 6
