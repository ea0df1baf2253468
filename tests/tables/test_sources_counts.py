"""Tables that are aggregated already: counts are exact whatever stores them, and what is no count is refused."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hush
from hush.core.domain import Domain
from hush.core.errors import DataError, SizeError
from hush.privacy.gate import LARGEST_ANSWER, MOST_SCORED_ROWS
from hush.schema import Categorical, Integer, Schema, TimeOfDay, Unit
from hush.tables import read
from hush.tables.sources import LARGEST_TOTAL, count_cause
from hush.tables.table import Table
from hush.workloads.sum_term import sum_terms

ENGINES = ("memory", "stream", "sql")
DOMAIN = Domain({"a": 2, "b": 3})
NO_COUNTS = "the counts column 'n' holds counts that are negative, fractional, missing, too large, or no numbers"


def histogram(counts: Any, **more: Any) -> pa.Table:
    """Four lines, of which two have the same combination."""
    return pa.table({"a": [0, 1, 1, 0], "b": [2, 0, 2, 2], "n": counts, **more})


def first_counts(source: Any, engine: str = "memory", **options: Any) -> list[int]:
    table = read(source, DOMAIN, counts="n", engine=engine, **options)
    table.check()
    return table.counts([("a",)])[("a",)].tolist()


def plan_of(mechanism: str = "residual", **more: Any) -> Any:
    return hush.plan(hush.Workload.kway(DOMAIN, 1), hush.Budget(rho=0.5), mechanism, **more)


@pytest.mark.parametrize("engine", ENGINES)
def test_counts_beyond_32_bits_and_beyond_floats_are_exact(engine: str) -> None:
    large = [2**31 + 1, 2**32 + 5, 2**53 + 1, 2**33]
    exact = read(histogram(large), DOMAIN, counts="n", engine=engine).counts([("a", "b"), ("b",), ()])
    assert exact[("a", "b")].tolist() == [[0, 0, 2**31 + 1 + 2**33], [2**32 + 5, 0, 2**53 + 1]]
    assert exact[("b",)].tolist() == [2**32 + 5, 0, 2**31 + 1 + 2**33 + 2**53 + 1]
    assert int(exact[()]) == sum(large)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [0, 2**24, 2**32 - 1, 2**53, 2**60])
def test_one_row_more_moves_one_cell_by_one(count: int, engine: str) -> None:
    before, after = (
        read(histogram([here, 1, 2, 3]), DOMAIN, counts="n", engine=engine).counts([("a", "b")])[("a", "b")]
        for here in (count, count + 1)
    )
    assert (after - before).tolist() == [[0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "stored",
    [
        pa.array([7, 0, 2, 1], pa.int8()),
        pa.array([7, 0, 2, 1], pa.uint64()),
        pa.array(np.array([7, 0, 2, 1], dtype=np.float16)),
        pa.array([7, 0, 2, 1], pa.float32()),
        pa.array([7, -0.0, 2, 1], pa.float64()),
        pa.array(map(decimal.Decimal, ("7.00", "0", "2.0", "1")), pa.decimal128(20, 2)),
        pa.array(map(decimal.Decimal, ("7.00", "0", "2.0", "1")), pa.decimal256(50, 2)),
        pa.array(["7", " 0", "2.0 ", "1."]),
        pa.array(["7", "0", "2", "1"]).dictionary_encode(),
    ],
    ids=lambda array: str(array.type),
)
def test_a_count_means_the_same_in_every_type(stored: pa.Array, engine: str) -> None:
    assert first_counts(histogram(stored), engine) == [8, 2]


@pytest.mark.parametrize("values", [[7, 0, 2.0, "1"], [7, np.int64(0), decimal.Decimal(2), np.float32(1)]])
def test_python_objects_are_counts_too(values: list[Any]) -> None:
    frame = histogram([0] * 4).to_pandas().assign(n=pd.Series(values, dtype=object))
    assert first_counts(frame) == [8, 2]
    assert first_counts(frame.assign(n=pd.Series([7, 0, 2, 1], dtype="Int64"))) == [8, 2]
    assert first_counts(frame.assign(n=pd.Series([7, 0, 2, 1], dtype="category"))) == [8, 2]


BAD = {
    "negative": pa.array([1, -1, 1, 1]),
    "negative text": pa.array(["1", "-1", "1", "1"]),
    "fractional": pa.array([1, 0.5, 1, 1]),
    "fractional decimal": pa.array(map(decimal.Decimal, ("1.0", "0.5", "1.0", "1.0")), pa.decimal128(3, 1)),
    "fractional text": pa.array(["1", "0.5", "1", "1"]),
    "missing": pa.array([1, None, 1, 1]),
    "missing text": pa.array(["1", " ", "1", "1"]),
    "all missing": pa.nulls(4),
    "NaN": pa.array([1, float("nan"), 1, 1], from_pandas=False),
    "infinite": pa.array([1, float("inf"), 1, 1]),
    "float64 that rounds": pa.array([1, 2.0**53, 1, 1]),
    "float32 that rounds": pa.array([1, 2.0**24, 1, 1], pa.float32()),
    "float16 that rounds": pa.array(np.array([1, 2048, 1, 1], dtype=np.float16)),
    "too large": pa.array([1, 2**61 + 1, 1, 1]),
    "too large text": pa.array(["1", "9" * 40, "1", "1"]),
    "unsigned": pa.array([1, 2**64 - 1, 1, 1], pa.uint64()),
    "words": pa.array(["1", "zebra", "1", "1"]),
    "grouped digits": pa.array(["1", "1,000", "1", "1"]),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_count_is_refused_without_quoting_it(kind: str, engine: str) -> None:
    with pytest.raises(DataError, match=NO_COUNTS) as caught:
        first_counts(histogram(BAD[kind]), engine)
    assert "`hush schema check SCHEMA DATA --counts n` shows the owner every cause" in str(caught.value)
    for quoted in ("-1", "0.5", "9" * 9, str(2**53), str(2**61 + 1), str(2**64 - 1), "zebra", "1,000"):
        assert quoted not in str(caught.value)


@pytest.mark.parametrize("value", [np.float32(2.0**24), np.float16(2048), 2.0**53, decimal.Decimal("inf"), True])
def test_objects_that_may_have_been_rounded_are_refused(value: Any) -> None:
    frame = histogram([0] * 4).to_pandas().assign(n=pd.Series([1, value, "1", 1], dtype=object))
    with pytest.raises(DataError, match=NO_COUNTS):
        first_counts(frame)


@pytest.mark.parametrize("engine", ENGINES)
def test_counts_that_add_up_beyond_64_bits_are_refused_and_never_wrap(engine: str) -> None:
    assert first_counts(histogram([2**61 - 3, 1, 1, 1]), engine) == [2**61 - 2, 2]
    few = [histogram(counts) for counts in ([2**61, 1, 0, 0], [2**61] * 4)]  # 2^63 is negative in 64 bits
    many = pa.table({"a": [0, 1] * 8, "b": [0] * 16, "n": [2**60] * 16})  # 2^64 is 0
    for source in (*few, many):
        for use in (Table.check, lambda table: table.counts([()]), lambda table: table.counts([("a",)])):
            with pytest.raises(DataError, match="'n' adds up to more than 2,305,843,009,213,693,952 rows"):
                use(read(source, DOMAIN, counts="n", engine=engine))


def test_a_table_may_hold_as_many_rows_as_the_gate_answers() -> None:
    assert LARGEST_TOTAL == LARGEST_ANSWER


def test_a_type_that_cannot_be_a_count_is_refused() -> None:
    with pytest.raises(DataError, match="'n' is stored as BOOLEAN, which cannot be a count"):
        first_counts(histogram([True, False, True, True]))
    with pytest.raises(DataError, match="'n' is stored as DATE"):
        first_counts(histogram(pa.array([1, 2, 3, 4], pa.date32())))


@pytest.mark.parametrize("engine", ENGINES)
def test_lines_that_stand_for_no_rows_are_left_out_whatever_they_hold(engine: str) -> None:
    source = pa.table({"a": [0, 9], "b": [1, None], "n": [3, 0]})
    assert first_counts(source, engine) == [3, 0]
    with pytest.raises(DataError, match="column 'a' holds values outside its declared levels"):
        first_counts(pa.table({"a": [0, 9], "b": [1, 1], "n": [3, 1]}), engine)
    assert first_counts(source.slice(0, 0), engine) == [0, 0]


def test_counts_go_with_rows_as_units_only() -> None:
    source = histogram([1, 2, 3, 4], who=[1, 2, 3, 4])
    with pytest.raises(DataError, match="a count does not say whose rows it counts"):
        read(source, DOMAIN, counts="n", unit="who", max_rows_per_unit=2)
    with pytest.raises(DataError, match="the unit here is 'who'"):
        read(source, Schema(Schema.from_domain(DOMAIN).columns, unit=Unit(column="who")), counts="n")


def test_the_column_of_counts_is_named_and_no_column_of_the_schema() -> None:
    source = histogram([1, 2, 3, 4])
    with pytest.raises(DataError, match="counts = 'b' is a column of the schema too"):
        read(source, DOMAIN, counts="b")
    with pytest.raises(DataError, match="counts = 'opens' is a column of the schema too"):
        read(pa.table({"opens": ["08:30"]}), Schema([TimeOfDay(name="opens")]), counts="opens")
    with pytest.raises(DataError, match="has no column 'm'"):
        read(source, DOMAIN, counts="m")
    for name in ("", " ", 3):
        with pytest.raises(DataError, match="expected the name of the column that holds the counts"):
            read(source, DOMAIN, counts=name)  # type: ignore[arg-type]


def test_a_database_without_the_column_says_so() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE h AS SELECT 0 AS a, 2 AS b, 5 AS n")
    assert first_counts(connection, "sql", table="h") == [5, 0]
    with pytest.raises(DataError, match="the table 'h' has no column 'N'; did you mean 'n'"):
        read(connection, DOMAIN, table="h", counts="N")


@pytest.mark.parametrize("mechanism", ["residual", "direct", "aim"])
@pytest.mark.parametrize("engine", ENGINES)
def test_refused_counts_are_never_charged(mechanism: str, engine: str, tmp_path: Path) -> None:
    ledger = hush.Ledger.create(tmp_path / "b.db", hush.Budget(rho=1))
    plan = plan_of(mechanism)
    for counts in ([1, -1, 1, 1], [1, 0.5, 1, 1], [1, None, 1, 1], [2**61] * 4):
        with pytest.raises(DataError, match="the counts column 'n'"):
            plan.release(read(histogram(counts), DOMAIN, counts="n", engine=engine), ledger=ledger)
    assert ledger.remaining == 1
    plan_of("residual").release(read(histogram([1, 0, 1, 1]), DOMAIN, counts="n", engine=engine), ledger=ledger)
    assert ledger.remaining < 1


def test_more_rows_than_answers_can_hold_are_refused_before_the_charge(tmp_path: Path) -> None:
    """Integers of measurements are multiples of counts; scores are floats."""
    ledger = hush.Ledger.create(tmp_path / "b.db", hush.Budget(rho=1))
    table = read(histogram([2**60, 2**60, 0, 0]), DOMAIN, counts="n")
    factor = max(request.query.largest_factor for request in plan_of().strategy.requests())
    assert factor > 1
    with pytest.raises(DataError, match=f"'n' adds up to more than {LARGEST_ANSWER // factor:,} rows"):
        plan_of().release(table, ledger=ledger)
    with pytest.raises(DataError, match=f"'n' adds up to more than {MOST_SCORED_ROWS:,} rows"):
        plan_of("aim").release(table, ledger=ledger)
    assert ledger.remaining == 1


def test_a_release_of_many_billions_of_rows() -> None:
    table = read(histogram([5 * 10**9, 10**12, 0, 3]), DOMAIN, counts="n")
    estimates = plan_of().release(table).counts("a")
    np.testing.assert_allclose(estimates, [5 * 10**9 + 3, 10**12], atol=100)


@pytest.mark.parametrize("engine", ENGINES)
def test_sums_that_would_not_fit_are_refused(engine: str) -> None:
    schema = Schema([Categorical(name="a", values=("x", "y")), Integer(name="age", low=0, high=99)])
    query = sum_terms(schema, "age", ("a",))[0][0].query
    source = pa.table({"a": ["x", "y"], "age": [0, 99], "n": [2**50, 2**40]})
    exact = read(source, schema, counts="n", engine=engine).sums([query])[query]
    one = read(source.drop(["n"]), schema, engine=engine).sums([query])[query]
    assert exact.tolist() == [int(one[0]) * 2**50, int(one[1]) * 2**40]
    huge = source.set_column(2, "n", pa.array([2**60, 1]))
    with pytest.raises(DataError, match="too many for exact answers"):
        read(huge, schema, counts="n", engine=engine).sums([query])


@pytest.mark.parametrize("engine", ENGINES)
def test_counters_of_64_bits_need_more_memory(engine: str) -> None:
    domain, limit = Domain({"a": 1000, "b": 1000}), 40_000_000  # half of it holds 20 bytes a cell
    source = histogram([1, 2, 3, 4])
    assert read(source, domain, engine=engine, memory_limit=limit).require([("a", "b")]) is None
    with pytest.raises(SizeError, match="needs 24.0 MB"):
        read(source, domain, counts="n", engine=engine, memory_limit=limit).require([("a", "b")])


def test_polars_integers_of_128_bits() -> None:
    frame = pl.from_arrow(histogram([7, 0, 2, 1])).with_columns(pl.col("n").cast(pl.Int128))
    assert first_counts(frame) == [8, 2]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (None, "missing"),
        (" ", "missing"),
        ("NaN", "missing"),
        ("-3", "negative"),
        ("2.5", "fractional"),
        ("9" * 40, "too large"),
        ("inf", "too large"),
        ("zebra", "no counts"),
        ("1,000", "no counts"),
    ],
)
def test_causes_say_what_to_do(text: str | None, cause: str) -> None:
    assert cause in count_cause(text)
    assert ": " in count_cause(text)
