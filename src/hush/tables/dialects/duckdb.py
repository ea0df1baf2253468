"""DuckDB: the dialect that reads files and frames, and counts the tables of a DuckDB connection."""

from __future__ import annotations

import glob
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pyarrow as pa

from hush.core.errors import DataError
from hush.schema.stamps import ANY_DAY
from hush.schema.text_folding import WHITESPACE
from hush.tables.dialects.dialect import (
    HASH_DIGITS,
    HASH_KEY,
    Dialect,
    Explain,
    Family,
    Frame,
    attempt,
    check_one_given,
    each_batch,
)
from hush.tables.sources import RowSource

LARGEST_ENUM = 2**14  # texts; more are looked up in a table
SMALLEST_MEMORY = 2**27  # bytes; with less, DuckDB fails on simple queries
FRAME, FILE = "hush_frame", "hush_file"
_TIME_PATTERN = "[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?"


class DuckDB(Dialect):
    """DuckDB's SQL and sessions; see `Dialect` for what each method gives."""

    families: ClassVar[Mapping[str, Family]] = {
        '"NULL"': Family.NOTHING,
        "NULL": Family.NOTHING,
        "BOOLEAN": Family.BOOLEAN,
        "FLOAT": Family.FLOAT,
        "DOUBLE": Family.DOUBLE,
        "DECIMAL": Family.DECIMAL,
        "DATE": Family.DATE,
        "TIMESTAMP WITH TIME ZONE": Family.INSTANT,
        **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), Family.INTEGER),
        **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"), Family.INTEGER),
        **dict.fromkeys(("VARCHAR", "ENUM", "BIGNUM", "UUID", "TIME", "TIME_NS"), Family.TEXT),
        **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), Family.TIMESTAMP),
    }
    number_type = "DOUBLE"
    text_type = "VARCHAR"
    bytes_type = "BLOB"
    wide_type = "HUGEINT"
    code_types: ClassVar[Mapping[int, str]] = {1: "UTINYINT", 2: "USMALLINT", 4: "UINTEGER"}
    latest_day = "DATE '5881000-01-01'"
    no_moment = "TIMESTAMP 'infinity'"
    whole_ratio = "({}) // {}".format
    weekday = "isodow({})".format
    days_since = "{} - DATE '{}'".format
    # nanoseconds before 1970 are cut towards 1970, which is up
    as_moment = (
        "CASE WHEN TRY_CAST({0} AS TIMESTAMP) > {0} THEN TRY_CAST({0} AS TIMESTAMP) - INTERVAL 1 MICROSECOND "
        "ELSE TRY_CAST({0} AS TIMESTAMP) END"
    ).format
    as_bytes = "encode({})".format
    frequent = "approx_top_k({}, {})".format
    number_or_null = "TRY_CAST({} AS DOUBLE)".format
    whole_or_null = (
        "TRY_CAST(CASE WHEN regexp_full_match({0}, '[0-9]+([.]0*)?') THEN split_part({0}, '.', 1) END AS BIGINT)"
    ).format
    day_or_null = (
        "coalesce(CASE WHEN strlen({0}) = 10 THEN TRY_CAST({0} AS DATE) END, "
        "CAST(TRY_CAST({1} AS TIMESTAMP WITH TIME ZONE) AS DATE))"
    ).format
    moment_or_null = "CAST(TRY_CAST({} AS TIMESTAMP WITH TIME ZONE) AS TIMESTAMP)".format

    def number(self, number: float) -> str:
        digits = repr(float(number))
        if digits in {"inf", "-inf", "nan"}:
            return f"CAST('{digits}' AS DOUBLE)"
        return f"({digits if 'e' in digits else digits + 'e0'})"  # without an exponent it would be a DECIMAL

    def literal(self, text: str) -> str:
        pieces = [super(DuckDB, self).literal(piece) for piece in text.split("\0")]
        return (
            pieces[0] if len(pieces) == 1 else f"({' || chr(0) || '.join(pieces)})"
        )  # DuckDB below 2 ends at a zero byte

    def as_number(self, x: str, family: Family) -> str:
        # A Parquet file states its least and largest number, leaving NaN out. DuckDB takes these for bounds on all
        # numbers and so counts NaN as a number between them. It does not carry the bounds through a CASE.
        shielded = f"CASE WHEN {x} IS NULL THEN NULL ELSE {x} END" if family in (Family.FLOAT, Family.DOUBLE) else x
        return super().as_number(shielded, family)

    def written(self, x: str, family: Family) -> str:
        text = super().written(x, family)
        # a type without digits before the point gives .5
        return f"regexp_replace({text}, '^(-?)[.]', '\\10.')" if family is Family.DECIMAL else text

    def in_utc(self, x: str, family: Family) -> str:
        return x if family is Family.TIMESTAMP else f"CAST({x} AS TIMESTAMP)"

    def matches(self, x: str, pattern: str) -> str:
        return f"regexp_full_match({x}, {self.literal(pattern)})"

    def trimmed(self, x: str) -> str:
        spaces = self.literal(WHITESPACE)
        return (  # `trim` is slow, so it is called only where it has work to do
            f"(CASE WHEN contains({spaces}, left({x}, 1)) OR contains({spaces}, right({x}, 1)) "
            f"THEN trim({x}, {spaces}) ELSE {x} END)"
        )

    def time_or_null(self, x: str) -> str:
        return (
            f"CASE WHEN regexp_full_match({x}, '{_TIME_PATTERN}') THEN TRY_CAST('{ANY_DAY} ' || {x} AS TIMESTAMP) END"
        )

    def element(self, values: Sequence[str], index: str) -> str:
        return f"[{', '.join(values)}][{index} + 1]"

    def declare_texts(self, session: Any, name: str, texts: Sequence[str]) -> None:
        """Declare an enum type, which looks up texts by hash; an inline type would take several times as long to bind.

        Looking up a text that is not in an enum takes time in proportion to its members, so long lists become a table.
        """
        if len(texts) > LARGEST_ENUM:
            session.register(f"{name}_list", pa.table({"word": list(texts), "place": range(len(texts))}))
            session.execute(f"CREATE TEMP TABLE {self.quoted(name)} AS FROM {self.quoted(f'{name}_list')}")
            return
        words = ", ".join(map(self.literal, texts))
        if any("\0" in text for text in texts):  # their literals are expressions, which a list of members cannot hold
            both = f"SELECT unnest([{words}]) AS word, unnest(range({len(texts)})) AS place"
            words = f"SELECT word FROM ({both}) ORDER BY place"
        session.execute(f"CREATE TEMP TYPE {self.quoted(name)} AS ENUM ({words})")

    def position(self, x: str, name: str, size: int) -> str:
        if size > LARGEST_ENUM:
            return f"(SELECT any_value(place) FROM {self.quoted(name)} WHERE word = {x})"
        return f"enum_code(TRY_CAST({x} AS {name}))"

    def unit_hash(self, x: str) -> str:
        digits = f"left(sha256(unhex('{HASH_KEY.hex()}') || {x}), {HASH_DIGITS})"
        return f"CAST(CAST('0x' || {digits} AS BIGINT) AS HUGEINT)"

    def unpivoted_counts(self, keys: Mapping[int, str], rows: str, weight: str | None = None) -> str:
        # lists are several times faster than a lateral join
        lines = f"unnest([{', '.join(map(str, keys))}]::BIGINT[]) AS scan, unnest([{', '.join(keys.values())}]) AS cell"
        carried = f"{weight}, " if weight else ""
        return (
            f"SELECT scan, cell, {self.counted(weight)} AS n FROM (SELECT {carried}{lines} FROM ({rows}) AS coded) "
            "AS keyed GROUP BY scan, cell"
        )

    def connect(self, memory: int, *, spill: bool = True, file: Path | None = None) -> Any:
        """A new in-memory database that uses at most `memory` bytes; with `spill`, the rest goes to a temporary folder.

        The folder is removed with the connection. With `file`, sessions see the tables of that file, read-only.
        """
        folder = tempfile.TemporaryDirectory(prefix="hush-") if spill else None
        settings = {
            "memory_limit": f"{max(memory, SMALLEST_MEMORY)}B",
            "temp_directory": folder.name if folder else "",
            "autoinstall_known_extensions": "false",
        }
        connection = duckdb.connect(":memory:", config=settings)
        connection.execute("SET preserve_insertion_order = false")
        if folder is not None:
            weakref.finalize(connection, folder.cleanup)
        return connection if file is None else _Attached(connection, file)

    def holds(self, source: object) -> bool:
        return isinstance(source, duckdb.DuckDBPyConnection)

    def open_table(
        self, source: Any, table: str | None, query: str | None, *, timeout: float | None = None
    ) -> RowSource:
        check_one_given("a DuckDB connection", table, query)
        session = attempt(lambda: self.open_session(source, {}), "the DuckDB connection is closed; open it again")
        if query is not None:
            name = "the query"
            failed = "the query cannot be run; run it on the connection yourself to see why"
            query = query.strip().rstrip(";")
            statements = attempt(lambda: session.extract_statements(query), failed)
            if len(statements) != 1:
                raise DataError("query= holds several statements; give one SELECT")
            candidates = [f"SELECT * FROM ({query}\n)"]
        else:
            name = f"the table {table!r}"
            failed = (
                f"{name} cannot be seen from a second cursor of the connection: it does not exist, or is temporary, "
                "registered, or not committed; commit it or pass the data itself"
            )
            candidates = [f"SELECT * FROM {table_name}" for table_name in self.table_names(str(table))]
        for select in candidates:
            try:
                # describe the query itself: within another SELECT, DuckDB would rename repeated columns
                columns, types = self.describe(session, query or select, failed)
                break
            except DataError:
                if select == candidates[-1]:
                    raise
        session.close()
        return RowSource(dialect=self, name=name, connection=source, select=select, columns=columns, types=types)

    def open_frame(self, name: str, columns: Sequence[str], frame: Frame, connection: Any) -> RowSource:
        """A source over Arrow data, whose columns get these names."""
        once, whole = isinstance(frame, pa.RecordBatchReader), isinstance(frame, pa.Table)
        sample: Any = frame if whole else frame.schema.empty_table()
        if not columns:
            raise DataError(f"{name} has no columns; expected at least one")
        failed = f"{name} holds a type that cannot be read; convert it to text, numbers or dates"
        session = attempt(lambda: self.open_session(connection, {FRAME: sample}), failed)
        select = f"SELECT * FROM {FRAME}"
        _, types = self.describe(session, select, failed)
        session.close()
        return RowSource(
            dialect=self,
            name=name,
            connection=connection,
            select=select,
            columns=tuple(columns),
            types=types,
            frames={FRAME: frame},
            rows=sample.num_rows if whole else None,
            once=once,
        )

    def select_csv(self, files: Sequence[Path], columns: int, delimiter: str) -> str:
        """The rows of CSV files with a header line, as columns of text."""
        declared = ", ".join(f"'c{position}': 'VARCHAR'" for position in range(columns))
        return (
            f"SELECT * FROM read_csv({self._listed(files)}, columns = {{{declared}}}, auto_detect = false, "
            f"header = true, delim = {self.literal(delimiter)}, quote = '\"', escape = '\"', nullstr = '', "
            "null_padding = false, ignore_errors = false, strict_mode = true, hive_partitioning = false)"
        )

    def select_parquet(self, files: Sequence[Path], *, partitioned: bool = False) -> str:
        """The rows of Parquet files; with `partitioned`, folders such as `year=2020` are columns of text."""
        hive = "hive_partitioning = true, hive_types_autocast = false" if partitioned else "hive_partitioning = false"
        return f"SELECT * FROM read_parquet({self._listed(files)}, {hive})"

    def _listed(self, files: Sequence[Path]) -> str:
        """A list of paths, escaped so that DuckDB reads none as a pattern."""
        return "[" + ", ".join(self.literal(glob.escape(str(file))) for file in files) + "]"

    def explain_csv(self, name: str, trouble: str) -> str:
        """The message for an error that reading CSV files gave; it quotes nothing of the file."""
        if "unicode" in trouble.lower():
            return f"{name}: not UTF-8 text; convert it, for example with iconv -f latin1 -t utf-8"
        if "Expected Number of Columns" in trouble:
            return f"{name}: some rows have more or fewer fields than the header; repair or quote them"
        if "unterminated quote" in trouble:
            return f"{name}: a quoted field is not closed, or text follows its closing quote; repair it"
        if "state machine" in trouble:
            return f"{name}: not a well-formed CSV file, perhaps of mixed line ends; repair it"
        return f"{name} cannot be read as CSV; check that it is complete and well-formed"

    def open_session(self, connection: Any, frames: Mapping[str, Frame]) -> Any:
        """A new cursor, so that pending work on the connection is undisturbed; the settings end with the cursor.

        The time zone is UTC wherever the job runs, and Python variables are not tables.
        """
        session = connection.cursor()
        session.execute("SET TimeZone = 'UTC'")
        session.execute("SET python_enable_replacements = false")
        session.execute("SET enable_progress_bar = true")
        session.execute("SET enable_progress_bar_print = false")
        for name, frame in frames.items():
            session.register(name, frame() if callable(frame) else frame)
        return session

    def describe(self, session: Any, select: str, failed: str | Explain) -> tuple[tuple[str, ...], tuple[str, ...]]:
        rows = attempt(lambda: session.execute(f"DESCRIBE {select}").fetchall(), failed)
        return tuple(row[0] for row in rows), tuple(row[1] for row in rows)

    def stream(self, session: Any, select: str, batch_rows: int, failed: str | Explain) -> Iterator[pa.RecordBatch]:
        def start() -> pa.RecordBatchReader:
            relation = session.sql(select)
            fetch = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader  # the name before 1.5
            return fetch(batch_rows)

        return each_batch(attempt(start, failed), failed)

    def fetch_row(self, session: Any, select: str, failed: str | Explain) -> tuple[Any, ...]:
        row: tuple[Any, ...] = attempt(lambda: session.execute(select).fetchone(), failed)
        return row

    def fraction_done(self, session: Any) -> float:
        try:
            return min(1.0, max(0.0, float(session.query_progress()) / 100))
        except (duckdb.Error, AttributeError):
            return 0.0


class _Attached:
    """A connection whose cursors see the tables of a file by their own names."""

    def __init__(self, connection: Any, file: Path) -> None:
        self._connection = connection
        connection.execute(f"ATTACH {DUCKDB.literal(str(file))} AS {FILE} (TYPE DUCKDB, READ_ONLY)")

    def cursor(self) -> Any:
        cursor = self._connection.cursor()
        cursor.execute(f"USE {FILE}")
        return cursor


DUCKDB = DuckDB()
