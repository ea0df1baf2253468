"""PostgreSQL: how its SQL spells what hush needs; `tables/engine_tables.py` writes the counting statements.

Texts of a schema reach the server as bound values (`declare_texts`) or as the hexadecimal digits of their bytes.
sqlglot writes names and the user's own query. CASE tests each value before a cast, so that no cast fails or rounds. A
text that spells a number or a date in a way that not every engine knows (`2020-01-02 03:04 Europe/Paris`) is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from hush.core.errors import DataError
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
    attempt,
    attempted,
    check_one_given,
    checked_timeout,
    each_batch,
)
from hush.tables.dialects.postgres_sessions import (
    ADDRESS_SCHEMES,
    PostgresConnection,
    driver_of,
    is_connection,
    shown_address,
)
from hush.tables.scan_plan import KERNEL_COSTS, Costs, EngineCosts, Way
from hush.tables.sources import RowSource

_LARGEST, _SMALLEST = "1.7976931348623158079e308", "2.4703282292062327208e-324"  # beyond these, casts to float fail
_MESSAGE_OF_STATE = {  # by SQLSTATE, or by its first two characters
    "28": "the server does not let this user in; check user, password and the server's rules for connections",
    "3D": "there is no such database, or this user may not use it; check the address",
    "08001": "the server cannot be reached; check host and port, and that it runs",
    "08": "the connection was lost; check the server and the network, then run again: what was paid for is kept",
    "57014": "a statement took too long or was cancelled; raise timeout= (--timeout), or ask for fewer tables",
    "57": "the server ended the connection; run again when it is up: what was paid for is kept",
    "42501": "this user may not read it; ask for the privilege SELECT, and USAGE on its schema",
    "42P01": "there is no such table or view; check table= and the schema before the dot",
    "42703": "a column that the query names does not exist; check the query",
    "42": "the query cannot be run; run it on the server yourself to see why",
    "25006": "the query writes; only SELECT can be read",
    "53": "the server is out of memory, disk or connections; try again later",
    "22": "it holds a value that PostgreSQL cannot convert; check the types of its columns, and the query",
}


class PostgreSQL(Dialect):
    """PostgreSQL's SQL and sessions; see `Dialect` for what each method gives."""

    families: ClassVar[Mapping[str, Family]] = {
        "bool": Family.BOOLEAN,
        "float4": Family.FLOAT,
        "float8": Family.DOUBLE,
        "numeric": Family.DECIMAL,
        "date": Family.DATE,
        "timestamp": Family.TIMESTAMP,
        "timestamptz": Family.INSTANT,
        **dict.fromkeys(("int2", "int4", "int8", "oid"), Family.INTEGER),
        **dict.fromkeys(("text", "varchar", "bpchar", "name", "citext", "uuid", "enum", "time"), Family.TEXT),
    }
    number_type = "FLOAT8"
    text_type = "TEXT"
    bytes_type = "BYTEA"
    wide_type = "NUMERIC"
    code_types: ClassVar[Mapping[int, str]] = {1: "SMALLINT", 2: "INTEGER", 4: "BIGINT"}
    remote = True
    fence = "OFFSET 0"
    latest_day = "DATE '5874897-12-31'"
    no_moment = "TIMESTAMP 'infinity'"
    is_nan = "({} = 'NaN'::float8)".format
    rounded = "(trunc({0}) + CASE WHEN abs({0} - trunc({0})) >= 0.5 THEN sign({0}) ELSE 0::float8 END)".format
    squared = "CASE WHEN abs({0}) < 1e-150 THEN 0::float8 ELSE {0} * {0} END".format  # smaller squares would fail
    whole_ratio = "({}) / {}".format
    part = "CAST(extract({} FROM {}) AS INTEGER)".format
    weekday = "CAST(extract(isodow FROM {}) AS INTEGER)".format
    days_since = "({} - DATE '{}')".format
    # TIMESTAMPTZ is in UTC here, as is the session; a DATE may lie beyond the timestamps
    as_moment = (
        "CASE WHEN {0} < DATE '4713-01-01 BC' THEN TIMESTAMP '-infinity' "
        "WHEN {0} < DATE '294277-01-01' THEN CAST({0} AS TIMESTAMP) "
        "WHEN {0} >= DATE '294277-01-01' THEN TIMESTAMP 'infinity' END"
    ).format
    as_bytes = "convert_to({}, 'UTF8')".format
    position = "CAST((SELECT CAST(current_setting('hush.{1}') AS JSONB)) -> ({0}) AS INTEGER)".format
    distinct = "count(DISTINCT {})".format
    costs = EngineCosts(
        start=1e6,
        read=30.0,
        text=220.0,
        value=70.0,
        cap=1500.0,
        ship=35.0,
        send=300.0,
        scans={
            Way.SEPARATE: Costs(per_row=120.0, per_miss=55.0, near=16, per_cell=300.0, largest=2**12),
            Way.SETS: Costs(per_row=130.0, per_miss=55.0, near=16, per_cell=300.0, largest=2**12),
            Way.UNPIVOT: Costs(per_row=1000.0, per_miss=55.0, near=16, per_cell=300.0, largest=2**12),
            Way.STREAM: KERNEL_COSTS,
        },
    )

    # Types and literals

    def quoted(self, name: str) -> str:
        from sqlglot import exp

        return exp.to_identifier(name, quoted=True).sql(dialect="postgres")

    def literal(self, text: str) -> str:
        from sqlglot import exp

        return exp.Literal.string(text).sql(dialect="postgres")

    def text_bytes(self, text: str) -> str:
        return f"'\\x{text.encode().hex()}'::bytea"

    def number(self, number: float) -> str:
        return f"'{float(number)!r}'::float8"

    # Coding of values

    def as_number(self, x: str, family: Family) -> str:
        if family is Family.BOOLEAN:
            return f"CAST(CAST({x} AS INTEGER) AS FLOAT8)"
        if family is not Family.DECIMAL:
            return f"CAST({x} AS FLOAT8)"
        return f"(CASE WHEN {x} = 'NaN' THEN 'NaN'::float8 ELSE {self._rounded_decimal(x)} END)"

    def _rounded_decimal(self, x: str, text: str | None = None) -> str:
        """The float next to a NUMERIC; beyond the floats infinite, or zero, where a cast would fail."""
        return (
            f"CASE WHEN {x} >= {_LARGEST} THEN 'Infinity'::float8 WHEN {x} <= -{_LARGEST} THEN '-Infinity'::float8 "
            f"WHEN abs({x}) <= {_SMALLEST} THEN 0::float8 ELSE CAST({text or x} AS FLOAT8) END"
        )

    def written(self, x: str, family: Family) -> str:
        if family in (Family.FLOAT, Family.DOUBLE):
            # The shortest digits of a float as every engine writes them: an exponent from 1e16 on, and `inf`.
            m = f"rpad(translate(split_part(CAST(abs({x}) AS TEXT), 'e', 1), '.', ''), 17, '0')"
            fraction = f"coalesce(nullif(rtrim(substr({m}, 17), '0'), ''), '0')"
            return (
                f"CASE WHEN abs({x}) = 'Infinity' THEN CASE WHEN {x} > 0 THEN 'inf' ELSE '-inf' END "
                f"WHEN abs({x}) >= 1e15 AND abs({x}) < 1e16 THEN CASE WHEN {x} < 0 THEN '-' ELSE '' END "
                f"|| left({m}, 16) || '.' || {fraction} ELSE CAST({x} AS TEXT) END"
            )
        text = f"CAST({x} AS TEXT)"
        if family in (Family.DATE, Family.TIMESTAMP):  # its era where DuckDB writes it
            text = f"regexp_replace({text}, '^([0-9-]+)(.*) BC$', '\\1 (BC)\\2')"
        return f'({text} COLLATE "C")'

    def in_utc(self, x: str, family: Family) -> str:
        return x if family is Family.TIMESTAMP else f"({x} AT TIME ZONE 'UTC')"

    def float_text(self, x: str) -> str:
        return f"(SELECT {super().float_text('d')} FROM (SELECT {x} AS d OFFSET 0) AS shortest)"

    def as_id(self, x: str, family: Family) -> str:
        text = super().as_id(x, family)
        if family is not Family.DECIMAL:
            return text
        endless = f"{self.written(x, family)} LIKE '%Infinity'"
        return f"CASE WHEN {x} = 'NaN' THEN NULL WHEN {endless} THEN '' ELSE {text} END"

    def matches(self, x: str, pattern: str) -> str:
        return f"{x} ~ {self.literal(f'^(?:{pattern})$')}"

    def trimmed(self, x: str) -> str:
        spaces = "".join(f"\\{ord(space):04x}" for space in WHITESPACE)
        return f"btrim({x}, U&'{spaces}')"

    def number_or_null(self, x: str) -> str:
        t, v = "replace(word, '_', '')", "CAST(replace(word, '_', '') AS NUMERIC)"
        return (
            f"(SELECT CASE WHEN word ~ '^{NUMBER_PATTERN}$' THEN CASE "
            f"WHEN length(word) <= 18 AND word !~ '[eE]' THEN CAST({t} AS FLOAT8) "
            f"WHEN length(word) <= 150 AND {t} ~ '^[^eE]*([eE][+-]?0*[0-9]{{1,2}})?$' THEN CAST({t} AS FLOAT8) "
            f"WHEN length(word) <= 5000 AND {t} ~ '^[^eE]*([eE][+-]?0*[0-9]{{1,4}})?$' "
            f"THEN {self._rounded_decimal(v, t)} "
            f"WHEN split_part(lower({t}), 'e', 1) !~ '[1-9]' OR {t} ~ '[eE]-' THEN 0::float8 "
            f"WHEN word LIKE '-%' THEN '-Infinity'::float8 ELSE 'Infinity'::float8 END "
            f"WHEN lower(word) ~ '^[+-]?(inf|infinity|nan)$' THEN CAST(word AS FLOAT8) END "
            f"FROM (SELECT {x} AS word OFFSET 0) AS spelled)"
        )

    def whole_or_null(self, x: str) -> str:
        digits = f"ltrim(split_part({x}, '.', 1), '0')"
        return (
            f"CASE WHEN {x} !~ '^[0-9]+([.]0*)?$' OR length({digits}) > 19 THEN NULL "
            f"WHEN length({digits}) = 0 THEN 0 WHEN CAST({digits} AS NUMERIC) <= {2**63 - 1} "
            f"THEN CAST({digits} AS BIGINT) END"
        )

    def moment_or_null(self, x: str) -> str:
        # digits of a second beyond the sixth are cut, not rounded
        return (
            f"CASE WHEN {x} ~ '^{DAY_PATTERN}(?:[ T]{CLOCK_PATTERN}{ZONE_PATTERN}?)?$' "
            f"THEN CAST(regexp_replace({x}, '([.][0-9]{{6}})[0-9]+', '\\1') AS TIMESTAMPTZ) AT TIME ZONE 'UTC' END"
        )

    def time_or_null(self, x: str) -> str:
        return (
            f"CASE WHEN {x} ~ '^{CLOCK_PATTERN}$' "
            f"THEN CAST('{ANY_DAY} ' || regexp_replace({x}, '([.][0-9]{{6}})[0-9]+', '\\1') AS TIMESTAMP) END"
        )

    def element(self, values: Sequence[str], index: str) -> str:
        return f"(ARRAY[{', '.join(values)}])[{index} + 1]"

    def declare_texts(self, session: Any, name: str, texts: Sequence[str]) -> None:
        """A setting of the transaction that holds an object from texts to numbers, bound as a value."""
        places = {text: place for place, text in enumerate(texts) if "\0" not in text}
        session.rows("SELECT set_config($1, $2, true)", (f"hush.{name}", json.dumps(places, ensure_ascii=False)))

    def scaled(self, x: str, factor: float) -> str:
        return f"CASE WHEN abs({x}) < {self.number(0.5 / factor)} THEN 0::float8 ELSE {super().scaled(x, factor)} END"

    def unit_hash(self, x: str) -> str:
        digits = f"left(encode(sha256('\\x{HASH_KEY.hex()}'::bytea || {x}), 'hex'), {HASH_DIGITS})"
        return f"CAST(CAST(('x' || {digits}) AS BIT({4 * HASH_DIGITS})) AS BIGINT)"

    # Sessions

    def holds(self, source: object) -> bool:
        return source.startswith(ADDRESS_SCHEMES) if isinstance(source, str) else is_connection(source)

    def open_table(
        self, source: Any, table: str | None, query: str | None, *, timeout: float | None = None
    ) -> RowSource:
        check_one_given("a PostgreSQL database", table, query)
        seconds = checked_timeout(timeout)
        where = shown_address(source) if isinstance(source, str) else "the PostgreSQL connection"
        name = f"the query on {where}" if table is None else f"the table {table!r} of {where}"
        explain = partial(explain_trouble, name)
        connection = PostgresConnection(driver_of(source), timeout=seconds)
        with attempted(connection.snapshot(), explain):
            select = self._select(connection, table, query, name, explain)
            columns, types = self.describe(connection, select, explain)
            # about how many rows the SELECT has, by the planner of the server; private
            ((planned,),) = attempt(lambda: connection.rows(f"EXPLAIN (FORMAT JSON) {select}", copy=False), explain)
            plans = json.loads(planned) if isinstance(planned, str) else planned
        return RowSource(
            dialect=self,
            name=name,
            connection=connection,
            select=select,
            columns=columns,
            types=types,
            explain=explain,
            rows=float(plans[0]["Plan"]["Plan Rows"]),
        )

    def _select(
        self, connection: PostgresConnection, table: str | None, query: str | None, name: str, explain: Explain
    ) -> str:
        """The SELECT of a table or of the user's query, as sqlglot writes it."""
        from sqlglot import exp, parse

        (encoding,) = attempt(lambda: connection.rows("SELECT current_setting('server_encoding')"), explain)[0]
        if encoding != "UTF8":
            raise DataError(f"{name}: its database is encoded in {encoding}, hush reads UTF8 only; convert it")
        if query is not None:
            unread = "query= cannot be parsed; run it on the server yourself to see why"
            parsed = list(filter(None, attempt(lambda: parse(query, dialect="postgres"), unread)))
            if len(parsed) != 1 or not isinstance(parsed[0], exp.Query):
                raise DataError("query= must be one SELECT; it holds something else, or several statements")
            return parsed[0].sql(dialect="postgres", comments=False)
        table_names = self.table_names(str(table))
        for table_name in table_names if str(table).count(".") <= 2 else table_names[:1]:
            lookup = partial(connection.rows, "SELECT to_regclass($1) IS NOT NULL", (table_name,))
            if attempt(lookup, explain)[0][0]:
                return f"SELECT * FROM {table_name}"
        raise DataError(f"{name}: {_MESSAGE_OF_STATE['42P01']}")

    def snapshot(self, connection: PostgresConnection) -> AbstractContextManager[None]:
        return connection.snapshot()

    def open_session(self, connection: Any, frames: Mapping[str, pa.Table | pa.RecordBatchReader]) -> Any:
        return PostgresSession(connection)

    def describe(self, session: Any, select: str, failed: str | Explain) -> tuple[tuple[str, ...], tuple[str, ...]]:
        columns = attempt(lambda: session.columns(select), failed)
        if not columns:
            raise DataError("the source has no columns; name some in the query")
        numbered = ", ".join(f"c{place}" for place in range(len(columns)))
        kinds = ", ".join(f"CAST(CAST(pg_typeof(c{place}) AS OID) AS BIGINT)" for place in range(len(columns)))
        typed = (
            "SELECT CASE WHEN coalesce(base.typtype, kind.typtype) = 'e' THEN 'enum' "
            "ELSE coalesce(base.typname, kind.typname)::text END "
            f"FROM (SELECT ARRAY[{kinds}] AS oids FROM (SELECT 1) AS one LEFT JOIN ({select}\n) AS source({numbered}) "
            "ON false) AS typed, unnest(oids) WITH ORDINALITY AS each(oid, place) JOIN pg_type AS kind "
            "ON kind.oid = each.oid::oid LEFT JOIN pg_type AS base ON base.oid = kind.typbasetype AND "
            "kind.typtype = 'd' ORDER BY place"
        )
        types = attempt(lambda: session.rows(typed), failed)
        return columns, tuple(kind for (kind,) in types)

    def stream(self, session: Any, select: str, batch_rows: int, failed: str | Explain) -> Iterator[pa.RecordBatch]:
        with closing(session.batches(select, batch_rows)) as batches:  # closing cancels the statement on the server
            yield from each_batch(batches, failed)

    def fetch_row(self, session: Any, select: str, failed: str | Explain) -> tuple[Any, ...]:
        row: tuple[Any, ...] = attempt(lambda: session.rows(select)[0], failed)
        return tuple(int(value) if isinstance(value, str) and value.isdigit() else value for value in row)


class PostgresSession:
    """A session within the connection's snapshot, or with a new snapshot if there is none."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._within = connection.snapshot()
        self._within.__enter__()
        self.rows, self.columns, self.batches = connection.rows, connection.columns, connection.batches

    def close(self) -> None:
        """End the session, and its snapshot if the session began it."""
        self._within.__exit__(None, None, None)


def explain_trouble(name: str, state: str) -> str:
    """The message for an SQLSTATE; nothing of the server's own words.

    >>> explain_trouble("the table 't'", "42501")
    "the table 't': this user may not read it; ask for the privilege SELECT, and USAGE on its schema"
    """
    unknown = "it cannot be read; look into the server's log"
    return f"{name}: {_MESSAGE_OF_STATE.get(state) or _MESSAGE_OF_STATE.get(state[:2], unknown)}"


POSTGRES = PostgreSQL()
