"""Spark: how its SQL spells what hush needs; `tables/engine_tables.py` writes the counting statements.

Texts of a schema reach Spark as the hexadecimal digits of their bytes or in a view, and columns are named by their
positions, so no statement contains a value or a name of the user. CASE tests each text before a cast, as for
PostgreSQL, so that no cast fails or takes a text that other engines refuse.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from hush.core.errors import DataError
from hush.schema.column import LARGEST_INTEGER
from hush.schema.stamps import ANY_DAY
from hush.schema.text_folding import WHITESPACE
from hush.tables.dialects.dialect import (
    CLOCK_PATTERN,
    DAY_PATTERN,
    HASH_DIGITS,
    HASH_KEY,
    NUMBER_PATTERN,
    ZONE_PATTERN,
    Dialect,
    Explain,
    Family,
    Frame,
    attempt,
    check_one_given,
    checked_timeout,
    each_batch,
    is_a,
    type_name,
)
from hush.tables.dialects.spark_sessions import SparkFrame
from hush.tables.scan_plan import KERNEL_COSTS, Costs, EngineCosts, Way
from hush.tables.sources import RowSource

_CUT_TO_MICROSECONDS = r"r'([.][0-9]{6})[0-9]+', '$1'"  # arguments of regexp_replace
_FIRST_YEAR, _LAST_YEAR = -4712, 294246  # the years that lie wholly within Spark's timestamps
MOST_CASES = 64  # texts compared one by one; more are looked up in a view


class Spark(Dialect):
    """Spark's SQL and sessions; see `Dialect` for what each method gives."""

    families: ClassVar[Mapping[str, Family]] = {
        "void": Family.NOTHING,
        "boolean": Family.BOOLEAN,
        "float": Family.FLOAT,
        "double": Family.DOUBLE,
        "decimal": Family.DECIMAL,
        "date": Family.DATE,
        "timestamp_ntz": Family.TIMESTAMP,
        "timestamp": Family.INSTANT,
        **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), Family.INTEGER),
        **dict.fromkeys(("string", "char", "varchar", "time"), Family.TEXT),
    }
    number_type = "DOUBLE"
    text_type = "STRING"
    bytes_type = "BINARY"
    wide_type = "DECIMAL(38, 0)"
    code_types: ClassVar[Mapping[int, str]] = {1: "SMALLINT", 2: "INT", 4: "BIGINT"}
    remote = True
    keeps = True
    drafts = False  # Spark would take minutes to plan that many expressions
    most_collected = 2**29  # half of what Spark's driver accepts by default
    most_keys = 64
    latest_day = "date_from_unix_date(2147483647)"
    no_moment = "CAST(timestamp_micros(9223372036854775807) AS TIMESTAMP_NTZ)"
    moment = "TIMESTAMP_NTZ '{}'".format
    is_whole = "{0} = rint({0})".format
    is_finite = f"year({{}}) BETWEEN {_FIRST_YEAR} AND {_LAST_YEAR}".format
    whole_ratio = "({}) DIV {}".format
    weekday = "(weekday({}) + 1)".format
    days_since = "datediff({}, DATE '{}')".format
    as_bytes = "CAST({} AS BINARY)".format
    position = "{1}(CAST({0} AS BINARY))".format
    float_text = "hush_text({})".format
    in_utc = "CAST({0} AS TIMESTAMP_NTZ)".format
    number_or_null = "hush_number({})".format
    whole_or_null = (
        "CASE WHEN regexp_like({0}, r'^[0-9]+([.]0*)?\\z') THEN try_cast(split_part({0}, '.', 1) AS BIGINT) END"
    ).format
    moment_or_null = "hush_moment({})".format
    time_or_null = "hush_time({})".format
    costs = EngineCosts(
        start=4.5e8,
        read=50.0,
        text=150.0,
        value=50.0,
        cap=1000.0,
        ship=30.0,
        scans={
            Way.SEPARATE: Costs(per_row=60.0, per_miss=10.0, near=4096, per_cell=400.0, largest=2**14),
            Way.SETS: Costs(per_row=250.0, per_miss=100.0, near=4096, per_cell=400.0, largest=2**14),
            Way.UNPIVOT: Costs(per_row=240.0, per_miss=330.0, near=4096, per_cell=400.0, largest=2**14),
            Way.STREAM: KERNEL_COSTS,
        },
    )

    # Types and literals

    def family(self, declared: str) -> Family:
        return super().family(type_name(declared).split(" ")[0])

    def quoted(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def literal(self, text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def text_bytes(self, text: str) -> str:
        return f"X'{text.encode().hex()}'"

    def number(self, number: float) -> str:
        if math.isfinite(number):
            return f"({float(number)!r}D)"
        return f"CAST('{float(number)!r}' AS DOUBLE)"

    # Coding of values

    def as_number(self, x: str, family: Family) -> str:
        return f"CAST(CAST({x} AS INT) AS DOUBLE)" if family is Family.BOOLEAN else f"CAST({x} AS DOUBLE)"

    def written(self, x: str, family: Family) -> str:
        digits = {Family.FLOAT: "hush_float", Family.DOUBLE: "hush_double"}
        return f"{digits[family]}({x})" if family in digits else super().written(x, family)

    def matches(self, x: str, pattern: str) -> str:
        whole = rf"^(?:{pattern})\z"
        return f"regexp_like({x}, {self.literal(whole)})"

    def trimmed(self, x: str) -> str:
        spaces = "".join(f"\\u{ord(space):04x}" for space in WHITESPACE)
        return f"btrim({x}, '{spaces}')"

    def replaced(self, x: str, pattern: str, by: str = "") -> str:
        return f"regexp_replace({x}, {self.literal(pattern)}, {self.literal(by)})"

    def as_moment(self, x: str) -> str:
        return (
            f"CASE WHEN year({x}) > {_LAST_YEAR} THEN {self.no_moment} "
            f"WHEN year({x}) < {_FIRST_YEAR} THEN CAST(timestamp_micros(-9223372036854775808) AS TIMESTAMP_NTZ) "
            f"ELSE CAST({x} AS TIMESTAMP_NTZ) END"
        )

    def element(self, values: Sequence[str], index: str) -> str:
        return f"get(array({', '.join(values)}), {index})"

    def declare_texts(self, session: Any, name: str, texts: Sequence[str]) -> None:
        """Declare a function of the session: a chain of comparisons for few texts, a lookup in a view for many."""
        if len(texts) <= MOST_CASES:
            cases = " ".join(f"WHEN {self.text_bytes(text)} THEN {place}" for place, text in enumerate(texts))
            body = f"CASE x {cases} END"
        else:
            places = pa.table(
                {"text": [text.encode() for text in texts], "place": pa.array(range(len(texts)), pa.int32())}
            )
            session.declare_rows(f"{name}_rows", places)
            body = f"(SELECT max(place) FROM {name}_rows WHERE text = x)"
        session.run(f"CREATE OR REPLACE TEMPORARY FUNCTION {name}(x BINARY) RETURNS INT RETURN {body}")

    # Capping and grouping

    def unit_hash(self, x: str) -> str:
        digits = f"left(sha2(concat(X'{HASH_KEY.hex()}', {x}), 256), {HASH_DIGITS})"
        return f"CAST(conv({digits}, 16, 10) AS {self.wide_type})"

    def unpivoted_counts(self, keys: Mapping[int, str], rows: str, weight: str | None = None) -> str:
        lines = ", ".join(f"CAST({scan} AS BIGINT), {key}" for scan, key in keys.items())
        return (
            f"SELECT scan, cell, {self.counted(weight)} AS n FROM ({rows}) AS coded "
            f"LATERAL VIEW stack({len(keys)}, {lines}) AS scan, cell GROUP BY scan, cell"
        )

    # Sessions

    def holds(self, source: object) -> bool:
        return is_a(source, "pyspark.sql", "DataFrame") or is_a(source, "pyspark.sql", "SparkSession")

    def open_table(
        self, source: Any, table: str | None, query: str | None, *, timeout: float | None = None
    ) -> RowSource:
        name, frame, seconds = "the Spark DataFrame", source, checked_timeout(timeout)
        if is_a(source, "pyspark.sql", "SparkSession"):
            check_one_given("a Spark session", table, query)
            name = f"the table {table!r} of Spark" if query is None else "the query on Spark"
            advice = "check its name and that you may read it" if query is None else "run it yourself to see why"
            failed = f"{name} cannot be opened; {advice}"
            frame = attempt(lambda: source.table(table) if query is None else source.sql(query), failed)
        elif table is not None or query is not None:
            raise DataError("table= and query= go with a Spark session, and this is a DataFrame; drop them")
        failed = f"{name} cannot be opened; check that its session runs and that its query can be run"
        columns, types = attempt(lambda: (tuple(frame.columns), tuple(kind for _, kind in frame.dtypes)), failed)
        if not columns:
            raise DataError(f"{name} has no columns; select some")
        connection = attempt(partial(SparkFrame, frame, _functions(), seconds), failed)
        unread = f"{name} cannot be read; run it in Spark yourself to see why"
        return RowSource(
            dialect=self,
            name=name,
            connection=connection,
            select=connection.select,
            columns=columns,
            types=types,
            explain=lambda trouble: unread,
        )

    def snapshot(self, connection: SparkFrame) -> AbstractContextManager[None]:
        return connection.snapshot()

    def kept(self, session: Any, rows: str) -> str | None:
        name: str | None = session.kept(rows)
        return name

    def open_session(self, connection: Any, frames: Mapping[str, Frame]) -> Any:
        return connection

    def describe(self, session: Any, select: str, failed: str | Explain) -> tuple[tuple[str, ...], tuple[str, ...]]:
        columns = attempt(lambda: session.run(select).dtypes, failed)
        return tuple(name for name, _ in columns), tuple(kind for _, kind in columns)

    def stream(self, session: Any, select: str, batch_rows: int, failed: str | Explain) -> Iterator[pa.RecordBatch]:
        return each_batch(attempt(lambda: session.batches(select, batch_rows), failed), failed)

    def fetch_row(self, session: Any, select: str, failed: str | Explain) -> tuple[Any, ...]:
        row: tuple[Any, ...] = attempt(lambda: session.first(select), failed)
        return row


def _functions() -> dict[str, str]:
    """SQL functions by name, for what one expression cannot say."""
    whole_seconds = r"regexp_replace({0}, r'((?:^|[ T])[0-9]{{1,2}}:[0-9]{{2}})(\z|Z|[+-])', '$1:00$2')"
    before_midnight = r"regexp_replace({0}, r'(^|[ T])24:00', '$100:00')"
    after = r"CASE WHEN regexp_like(x, r'(^|[ T])24:00') THEN INTERVAL '1' DAY ELSE INTERVAL '0' DAY END"
    stamp, clock = (
        before_midnight.format(whole_seconds.format(f"regexp_replace({text}, {_CUT_TO_MICROSECONDS})"))
        for text in ("translate(x, '/', '-')", "x")
    )
    moment = f"CAST(try_cast({stamp} AS TIMESTAMP) AS TIMESTAMP_NTZ) + {after}"
    time = f"try_cast('{ANY_DAY} ' || {clock} AS TIMESTAMP_NTZ) + {after}"
    declared = (
        "hush_number(x STRING) RETURNS DOUBLE RETURN CASE "
        f"WHEN regexp_like(x, r'^{NUMBER_PATTERN}\\z') THEN try_cast(replace(x, '_', '') AS DOUBLE) "
        "WHEN regexp_like(lower(x), r'^[+-]?nan\\z') THEN CAST('NaN' AS DOUBLE) "
        "WHEN regexp_like(lower(x), r'^[+-]?inf(inity)?\\z') THEN try_cast(x AS DOUBLE) END",
        "hush_moment(x STRING) RETURNS TIMESTAMP_NTZ RETURN "
        f"CASE WHEN regexp_like(x, r'^{DAY_PATTERN}(?:[ T]{CLOCK_PATTERN}{ZONE_PATTERN}?)?\\z') THEN {moment} END",
        "hush_time(x STRING) RETURNS TIMESTAMP_NTZ RETURN "
        f"CASE WHEN regexp_like(x, r'^{CLOCK_PATTERN}\\z') THEN {time} END",
        f"hush_digits(d STRING, e INT) RETURNS STRING RETURN {_PLACED_POINT}",
        "hush_layout(s STRING) RETURNS STRING RETURN CASE WHEN contains(s, 'e') THEN "
        "CASE WHEN startswith(s, '-') THEN '-' ELSE '' END || hush_digits("
        "rtrim('0', translate(split_part(s, 'e', 1), '-.', '')), try_cast(split_part(s, 'e', 2) AS INT)) ELSE s END",
        f"hush_double(x DOUBLE) RETURNS STRING RETURN hush_layout({_shortest('DOUBLE', 14, 16, 2.3e-308)})",
        f"hush_float(x FLOAT) RETURNS STRING RETURN hush_layout({_shortest('FLOAT', 5, 8, 1.2e-38)})",
        "hush_text(x DOUBLE) RETURNS STRING RETURN CASE WHEN isnan(x) THEN NULL "
        f"WHEN abs(x) <= {LARGEST_INTEGER}D AND x = rint(x) THEN CAST(CAST(x AS BIGINT) AS STRING) "
        "ELSE hush_double(x) END",
    )
    return {function.partition("(")[0]: function for function in declared}


def _shortest(kind: str, fewest: int, most: int, normal: float) -> str:
    """SQL of the fewest digits that give a float back, in scientific notation; Java 17 itself writes more.

    The search begins at `fewest` + 1 digits: if fewer would do, the rest are zeros, which `hush_layout` drops. That
    does not hold for floats below `normal`, which begin at one digit. `most` + 1 digits always suffice.
    """
    cases = [
        f"WHEN {'' if n >= fewest else f'abs(x) < {normal!r}D AND '}try_cast(format_string('%.{n}e', x) AS {kind}) = x "
        f"THEN format_string('%.{n}e', x)"
        for n in range(most)
    ]
    return (
        "CASE WHEN x IS NULL OR isnan(x) THEN NULL WHEN x = CAST('Infinity' AS DOUBLE) THEN 'inf' "
        f"WHEN x = CAST('-Infinity' AS DOUBLE) THEN '-inf' {' '.join(cases)} ELSE format_string('%.{most}e', x) END"
    )


# digits d and a power e of ten as Python and DuckDB write them: with an exponent below 1e-4 and from 1e16 on
_PLACED_POINT = (
    "CASE WHEN e BETWEEN 0 AND 15 THEN rpad(left(d, e + 1), e + 1, '0') || '.' || "
    "CASE WHEN length(d) > e + 1 THEN substring(d, e + 2) ELSE '0' END "
    "WHEN e BETWEEN -4 AND -1 THEN '0.' || repeat('0', -1 - e) || d "
    "ELSE left(d, 1) || CASE WHEN length(d) > 1 THEN '.' || substring(d, 2) ELSE '' END || 'e' || "
    "CASE WHEN e < 0 THEN '-' ELSE '+' END || format_string('%02d', abs(e)) END"
)
SPARK = Spark()
