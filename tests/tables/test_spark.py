"""Spark: codes and counts like every other engine, from one persisted state, and says what is missing."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import hush
from hush.cli.main import main
from hush.core.errors import DataError
from hush.datasets import people, people_schema
from hush.loading import load_release
from hush.schema import Boolean, Categorical, Column, Date, Integer, Numeric, Outside, Schema, Unit
from hush.schema.number_spelling import NumberSpelling
from hush.schema.stamps import TimeOfDay, Timestamp
from hush.tables import read
from hush.tables.dialects import spark_sessions
from hush.tables.drafting import draft_schema
from hush.tables.scan_plan import Way
from hush.workloads.sum_term import sum_terms

pytestmark = pytest.mark.slow  # Java starts once, and a statement takes a good part of a second
KINDS = {
    "string": "string",
    "double": "double",
    "float": "float",
    "decimal128(9, 2)": "decimal(9, 2)",
    "int64": "bigint",
    "int32": "int",
    "bool": "boolean",
    "date32[day]": "date",
    "timestamp[us]": "timestamp_ntz",
    "timestamp[us, tz=UTC]": "timestamp",
    "null": "void",
}
TEXTS = (
    "a",
    "A",
    "it's",
    '"hi"',
    "ä",
    "日",
    "\U0001f600",
    "$$",
    "${env:HOME}",
    "%s",
    "\\",
    "\\x41",
    "null",
    "NaN",
    "7",
)
FLOATS = [0.0, -0.0, 0.5, 1.0, 0.1, 0.30000000000000004, 7.0, 1e15, 1e16, 1e300, 5e-324, 2.0**53, 1e22, 1e-5]
FLOATS += [math.inf, -math.inf, math.nan, math.nextafter(0.5, 0), 1234567890123456.5, 2.0**-44, 123456.789, -0.001]
HALVES = [0.1, 0.5, -0.0, 7.0, 1e-7, 1.17549435e-38, 16777217.0, math.nan, math.inf]
DECIMALS = [decimal.Decimal(text) for text in ("0.10", "0.50", "7.00", "-1.00", "0.49", "999999.99", "-0.01", "0.00")]
SPELLED = ["7", " 7 ", "7.0", "+7", "1e1", ".5", "5.", "1_0", "", "\u00a07\u3000", "-0", "1e400", "-1e400", "inf"]
SPELLED += ["-Infinity", "nan", "0.1", "00007", "3" * 40, "1e308", "0.1" + "0" * 30, "7\n"]
DAYS = [dt.date.fromisoformat(day) for day in ("2020-01-01", "2020-02-29", "2019-12-31", "0001-01-01", "9999-12-31")]
STAMPS = ("2020-02-29 23:59:59.999999", "2020-01-01", "2019-12-31 12:00", "2020-05-05 05:05:00.5")
MOMENTS = [dt.datetime.fromisoformat(stamp) for stamp in STAMPS]
DAY_TEXTS = ["2020-02-29", " 2020-03-01", "2020-03-01 23:59:59.9999999", "2020-03-01T23:30:00+02:00", "2020-3-1", ""]
DAY_TEXTS += ["2020/1/5", "2020-12-30 24:00", "2020-12-31T23:30-02:00", "2020-06-06 5:06Z"]
YEAR = {"start": dt.date(2020, 1, 1), "end": dt.date(2020, 12, 31), "outside": Outside.CLAMP, "missing": True}
LOOSE = {"outside": Outside.CLAMP, "missing": True}


def frame_of(spark, rows: pa.Table):
    """The rows as a DataFrame of Spark."""
    kinds = ", ".join(f"c{at} {KINDS[str(field.type)]}" for at, field in enumerate(rows.schema))
    lines = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    return spark.createDataFrame(list(lines), kinds).toDF(*rows.column_names)


def category(name: str, *more: str) -> Categorical:
    return Categorical(name=name, values=(*TEXTS, *more), other=True, missing=True, missing_values=("?",))


EURO = NumberSpelling(decimal=",", thousands=".", strip=("€",))
DIGITS = ("1e+16", "1e+22", "0.1", "1234567890123456.5", "1e-05", "inf", "-inf", "1e+300", "5e-324", "-0.001")
DIGITS += ("0.30000000000000004", "0.49999999999999994", "5.684341886080802e-14", "123456.789", "0.5", "1e-07")
BINS = (-1.0, 0.0, 0.1, 0.5, 7.0)
GROUPS: dict[str, list[tuple[Column, list, pa.DataType]]] = {
    "categories": [
        (category("text"), [*TEXTS, " a ", "\ta", "?", "", "zzz"], pa.string()),
        (category("double", *DIGITS), FLOATS, pa.float64()),
        (category("float", *DIGITS, "1.1754944e-38"), HALVES, pa.float32()),
        (category("decimal", "0.1", "-0.01"), DECIMALS, pa.decimal128(9, 2)),
        (category("integer"), [0, 7, -(2**62)], pa.int64()),
        (category("day", "2020-01-01"), DAYS, pa.date32()),
        (category("moment", "2020-01-01", "2020-05-05 05:05:00.5"), MOMENTS, pa.timestamp("us")),
        (category("nothing"), [None], pa.null()),
    ],
    "numbers": [
        (Numeric.equal_width(name="guess", low=0.0, high=1.0, bins=10, **LOOSE), FLOATS, pa.float64()),
        (Numeric(name="tree", edges=BINS, missing_values=("1",), **LOOSE), SPELLED, pa.string()),
        (Numeric(name="many", edges=tuple(k * k / 7 for k in range(40)), **LOOSE), DECIMALS, pa.decimal128(9, 2)),
        (Numeric(name="float", edges=BINS, **LOOSE), HALVES, pa.float32()),
        (Numeric(name="flag", edges=BINS, **LOOSE), [True, False], pa.bool_()),
        (Integer(name="wide", low=0, high=2**40, starts=(0, 5, 2**33), **LOOSE), [0, 7, 2**62, -1], pa.int64()),
        (Integer(name="whole", low=-2, high=9, **LOOSE), [0.0, -0.0, 7.0, 9.0, 1e15, 1e300, math.inf], pa.float64()),
        (Integer(name="spelled", low=-2, high=9, **LOOSE), ["7", " 7", "7.0", "1e1", "", "-3", "1e30"], pa.string()),
        (
            Numeric(name="comma", edges=(0, 1, 2000), spelling=EURO, **LOOSE),
            ["1.234,50 €", "0,5", "", "nan"],
            pa.string(),
        ),
    ],
    "days": [
        (Date(name="day", granularity="week", **YEAR), DAYS, pa.date32()),
        (Date(name="moment", granularity="day", **YEAR), MOMENTS, pa.timestamp("us")),
        (Date(name="instant", granularity="quarter", **YEAR), MOMENTS, pa.timestamp("us", "UTC")),
        (Date(name="spelled", granularity="month", **YEAR), DAY_TEXTS, pa.string()),
        (Boolean(name="word", missing=True), ["yes", "NO", " t", "0", "1", "False", ""], pa.string()),
        (Boolean(name="flag", missing=True), [True, False], pa.bool_()),
        (Boolean(name="number", missing=True), [0.0, 1.0, -0.0, math.nan], pa.float64()),
    ],
}


def repeated(values: list, rows: int) -> list:
    return ([None, *values] * rows)[:rows]


@pytest.mark.parametrize("group", GROUPS)
def test_every_value_has_the_code_that_it_has_in_memory(group: str, spark) -> None:
    columns = GROUPS[group]
    rows = pa.table(
        {column.name: pa.array(repeated(values, 40), kind, from_pandas=False) for column, values, kind in columns}
    )
    schema = Schema([column for column, _, _ in columns])
    wanted = [(name,) for name in schema.domain]
    found = read(frame_of(spark, rows), schema, engine="stream").counts(wanted)
    expected = read(rows, schema).counts(wanted)
    for clique in wanted:
        assert found[clique].tolist() == expected[clique].tolist(), clique


def test_parts_of_moments(spark) -> None:
    schema = Schema(
        [
            Timestamp(
                name="seen",
                start=dt.date(2020, 1, 1),
                end=dt.date(2020, 12, 31),
                parts=("date", "weekday", "hour"),
                **LOOSE,
            ),
            TimeOfDay(name="clock", parts=("hour", "minute"), missing=True),
        ]
    )
    clocks = ["08:30", "5:06:07.123456789", "", "23:59:59"]
    rows = pa.table({"seen": pa.array(repeated(MOMENTS, 9), pa.timestamp("us")), "clock": repeated(clocks, 9)})
    wanted = [(name,) for name in schema.domain]
    found, expected = (
        {clique: counts.tolist() for clique, counts in table.counts(wanted).items()}
        for table in (read(frame_of(spark, rows), schema, engine="stream"), read(rows, schema))
    )
    assert found == expected


IDS = {
    "text": (pa.string(), ["1", " 1 ", "01", "a", "A", "ä"]),
    "float": (pa.float64(), [1.0, -0.0, 0.0, 0.5, 1234567890123456.5, 1e-5]),
    "decimal": (pa.decimal128(9, 2), DECIMALS),
    "moment": (pa.timestamp("us"), MOMENTS),
}


@pytest.mark.parametrize("kind", IDS)
def test_the_same_rows_of_a_unit_are_kept(kind: str, spark) -> None:
    stored, ids = IDS[kind]
    rows = pa.table({"who": pa.array((ids * 40)[:40], stored), "x": pa.array([n % 7 for n in range(40)], pa.int64())})
    schema = Schema([Integer(name="x", low=0, high=6)], unit=Unit(column="who", max_rows=2))
    expected = read(rows, schema).counts([("x",)])["x",].tolist()
    assert read(frame_of(spark, rows), schema, engine="sql").counts([("x",)])["x",].tolist() == expected
    assert sum(expected) <= 2 * len(ids)


@pytest.mark.parametrize("way", [Way.SETS, Way.UNPIVOT, Way.STREAM])
def test_every_way_gives_the_same_counts_of_many_levels_and_odd_names(way: Way, spark, monkeypatch) -> None:
    levels = [f"{text}{number}" for number in range(100) for text in TEXTS]
    names = ["select", "a`b", "a.b"]
    rows = pa.table([pa.array((levels[k:] + levels)[:300]) for k in (0, 700, 1400)], names=names)
    schema = Schema([Categorical(name=name, values=tuple(levels)) for name in names])
    cliques = [(), ("select",), ("a`b", "a.b")]
    table = read(frame_of(spark, rows), schema)
    table._ways = (way,)
    found, expected = table.counts(cliques), read(rows, schema).counts(cliques)
    assert table.way is way
    assert all((found[clique] == expected[clique]).all() for clique in cliques)


def moving(spark):
    """A frame whose rows are other ones whenever it is read."""
    return spark.sql(
        "SELECT CAST(unix_micros(current_timestamp()) % 1009 AS INT) AS x, CAST(id % 2 AS INT) AS y FROM range(60)"
    )


def persisted(spark) -> int:
    return spark.sparkContext._jsc.getPersistentRDDs().size()


@pytest.mark.parametrize("held", [True, False], ids=["held", "in Spark"])
def test_a_release_counts_one_state_and_drops_it(held: bool, spark, monkeypatch) -> None:
    schema = Schema([Integer(name="x", low=0, high=1008), Integer(name="y", low=0, high=1)])
    table = read(moving(spark), schema)
    monkeypatch.setattr(table, "_ways", tuple(Way) if held else (Way.UNPIVOT,))
    before = persisted(spark)
    with table.snapshot():
        table.check()
        first, second = (table.counts([("x",)])["x",].tolist() for _ in range(2))
        both = table.counts([("x", "y")])["x", "y"].sum(axis=1).tolist()
        assert persisted(spark) > before
    assert first == second == both
    assert persisted(spark) == before
    with table.snapshot():
        table.check()
        assert table.counts([("x",)])["x",].tolist() != first  # the rows of this frame do move; alike once in 1009


def test_sums_are_of_the_rows_that_were_counted(spark) -> None:
    schema = Schema([Integer(name="x", low=0, high=1008), Integer(name="y", low=0, high=1)])
    query = sum_terms(schema, "x", ("y",))[0][0].query
    values = query.grid.integers(np.arange(1009.0), np.arange(1009))
    table = read(moving(spark), schema)
    with table.snapshot():
        table.require_sums([query])
        table.check()
        counts = table.counts([("x", "y")])["x", "y"]
        assert table.sums([query])[query].tolist() == (values @ counts).tolist()  # by chance once in 1009


def test_sums_of_several_columns_choose_the_rows_of_a_unit_as_in_memory(spark) -> None:
    random = np.random.default_rng(3)
    numbers = {name: random.integers(0, 100, 120) for name in ("a", "b")}
    rows = pa.table({"who": random.integers(0, 20, 120), **numbers})
    columns = [Integer.equal_width(name=name, low=0, high=99, bins=2) for name in numbers]
    schema = Schema(columns, unit=Unit(column="who", max_rows=2))
    queries = [sum_terms(schema, name, ())[0][0].query for name in numbers]
    expected, table = read(rows, schema), read(frame_of(spark, rows), schema)
    with table.snapshot():
        table.require_sums(queries)
        table.check()
        assert (table.counts([("a", "b")])["a", "b"] == expected.counts([("a", "b")])["a", "b"]).all()
        assert table.sums(queries) == expected.sums(queries)


def slow_frame(spark):
    """A frame that takes minutes to read."""
    return spark.sql("SELECT CAST(id % 2 AS INT) AS x FROM range(2000000000) WHERE sha2(CAST(id AS STRING), 512) <> ''")


def jobs(spark) -> int:
    return len(spark.sparkContext.statusTracker().getActiveJobsIds())


@pytest.mark.parametrize("stop", ["Ctrl-C", "timeout"])
def test_a_job_ends_on_the_cluster_when_nobody_waits_for_it(stop: str, spark, monkeypatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "cancelAllJobs", lambda: None)  # what pyspark does to all jobs at Ctrl-C
    schema = Schema([Integer(name="x", low=0, high=1)])
    table = read(slow_frame(spark), schema, engine="sql", timeout=1.5 if stop == "timeout" else None)
    timer = threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    expected: type[BaseException] = DataError if stop == "timeout" else KeyboardInterrupt
    words = "took more than 1.5 seconds and was cancelled; raise timeout=" if stop == "timeout" else None
    if stop == "Ctrl-C":
        timer.start()
    with pytest.raises(expected, match=words):
        table.counts([("x",)])
    for _ in range(400):
        if not jobs(spark):
            break
        time.sleep(0.05)
    assert not jobs(spark)


def test_a_time_limit_is_a_positive_number(spark) -> None:
    with pytest.raises(DataError, match="timeout=0: expected a number above 0"):
        read(spark.range(1), Schema([Integer(name="id", low=0, high=1)]), timeout=0)


def test_values_that_do_not_fit_are_named_by_column_and_cost_nothing(spark, tmp_path: Path) -> None:
    schema = Schema([Integer(name="x", low=0, high=1), Integer(name="y", low=0, high=1)])
    plan = hush.plan(hush.Workload.marginals(schema.domain, [("x",)]), hush.Budget(rho=1.0), "residual")
    ledger = hush.Ledger.create(tmp_path / "ledger.db", hush.Budget(rho=1.0))
    with pytest.raises(DataError, match="column 'x' holds values outside its declared levels") as caught:
        plan.release(read(spark.sql("SELECT 4711 AS x, 1 AS y"), schema), ledger=ledger)
    assert "4711" not in str(caught.value)
    with pytest.raises(DataError, match="the Spark DataFrame cannot be read; run it in Spark yourself") as caught:
        plan.release(
            read(spark.sql("SELECT CAST('4711' || id || 'x' AS INT) AS x, 1 AS y FROM range(1)"), schema), ledger=ledger
        )
    assert caught.value.__context__ is None
    assert ledger.remaining == 1  # of its cap


def test_tables_and_queries_of_a_session(spark) -> None:
    spark.range(6).selectExpr("CAST(id % 2 AS INT) AS x").createOrReplaceTempView("my_people")
    schema = Schema([Integer(name="x", low=0, high=1)])
    assert read(spark, schema, table="my_people").counts([("x",)])["x",].tolist() == [3, 3]
    assert read(spark, schema, query="SELECT 1 AS x").counts([("x",)])["x",].tolist() == [0, 1]
    for options, words in (
        ({}, "a Spark session needs either table= or query="),
        ({"table": "none"}, "the table 'none' of Spark cannot be opened; check its name"),
        ({"query": "SELEC 1"}, "the query on Spark cannot be opened; run it yourself"),
    ):
        with pytest.raises(DataError, match=words):
            read(spark, schema, **options)
    frame = spark.sql("SELECT 1 AS X, array(1) AS y")
    with pytest.raises(DataError, match="table= and query= go with a Spark session, and this is a DataFrame"):
        read(frame, schema, table="t")
    with pytest.raises(DataError, match="the Spark DataFrame has no column 'x'; did you mean 'X'?"):
        read(frame, schema)
    with pytest.raises(DataError, match="column 'y' is stored as array<int>, which the kind 'integer' cannot read"):
        read(frame, Schema([Integer(name="y", low=0, high=1)]))


def test_the_command_line_counts_with_spark(spark, tmp_path: Path) -> None:
    rows = people(500, seed=1)
    (tmp_path / "parts").mkdir()
    pq.write_table(rows, tmp_path / "parts" / "part-0.parquet")
    people_schema().save(tmp_path / "people.toml")
    spark.read.parquet(str(tmp_path / "parts")).createOrReplaceGlobalTempView("people")
    words = [
        "--schema",
        tmp_path / "people.toml",
        "--workload",
        "sex",
        "--rho",
        1000,
        "-o",
        tmp_path / "r.hush",
        "--force",
    ]
    exact = read(rows, people_schema()).counts([("sex",)])["sex",].tolist()
    for data in ([tmp_path / "parts"], ["--table", "global_temp.people"]):
        done = CliRunner().invoke(main, [str(word) for word in ("release", *data, "--spark", "local[2]", *words)])
        assert done.exit_code == 0, done.output
        # noise of so large a budget is not 0 with a probability below exp(-200)
        assert load_release(tmp_path / "r.hush").counts("sex").tolist() == exact


def test_a_draft_takes_the_declared_types(spark) -> None:
    frame = spark.sql("SELECT 1 AS n, 'a' AS t, DATE '2020-01-01' AS d")
    assert draft_schema(frame).count("# the declared type") == 3
    with pytest.raises(DataError, match="hush does not draft from rows of Spark; write some rows to Parquet"):
        draft_schema(frame, from_data=True)


def test_what_is_missing_is_said(monkeypatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(DataError, match="Spark needs Java 17 or newer, and there is none: set JAVA_HOME"):
        spark_sessions.connect("local[2]")
    monkeypatch.setattr(spark_sessions, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"Spark Connect needs packages .* run: pip install 'pyspark\[connect\]'"):
        spark_sessions.connect("sc://cluster:15002/;token=secret")
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(DataError, match=r"needs pyspark, which is not installed; run: pip install 'hush\[spark\]'"):
        spark_sessions.connect("sc://cluster:15002/;token=secret")
