"""Dialect: what hush needs of an engine that holds rows: its types, SQL for values, and sessions.

Coding, the cap on rows per unit, and counting are written once, against this class. A new engine is one more file next
to `duckdb.py`. All engines must give a value the same code, so that counts do not depend on the engine.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from hush.core.errors import DataError, HushError, SizeError
from hush.core.validation import check_number
from hush.schema.column import LARGEST_INTEGER
from hush.schema.number_spelling import NumberSpelling
from hush.schema.text_folding import CAPITALS, CASE, SMALL_LETTERS, SPACE_RUN, SPACES
from hush.tables.scan_plan import EMBEDDED_COSTS, EngineCosts

if TYPE_CHECKING:
    from hush.tables.sources import RowSource


# Regular expressions of texts that every engine reads alike; PostgreSQL and Spark test texts by these before a cast.
_MONTH_AND_DAY = (
    "(?:(?:0?[13578]|1[02])[-/](?:0?[1-9]|[12][0-9]|3[01])|(?:0?[469]|11)[-/](?:0?[1-9]|[12][0-9]|30)"
    "|0?2[-/](?:0?[1-9]|1[0-9]|2[0-8]))"
)
_DIVISIBLE_BY_FOUR = "(?:0[48]|[2468][048]|[13579][26])"  # two digits, without 00
_LEAP_DAY = f"(?:[0-9]{{2}}{_DIVISIBLE_BY_FOUR}|{_DIVISIBLE_BY_FOUR}00)[-/]0?2[-/]29"
DAY_PATTERN = f"(?:(?!0000)[0-9]{{4}}[-/]{_MONTH_AND_DAY}|{_LEAP_DAY})"
CLOCK_PATTERN = "(?:(?:[01]?[0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.][0-9]+)?)?|24:00(?::00(?:[.]0+)?)?)"
ZONE_PATTERN = "(?:Z|[+-](?:0?[0-9]|1[0-4])(?::[0-5][0-9])?)"
_GROUPED_DIGITS = "[0-9](?:_?[0-9])*"
NUMBER_PATTERN = (
    f"[+-]?(?:{_GROUPED_DIGITS}(?:[.](?:{_GROUPED_DIGITS})?)?|[.]{_GROUPED_DIGITS})(?:[eE][+-]?{_GROUPED_DIGITS})?"
)

Result = TypeVar("Result")
Expression = Callable[[str], str]  # SQL of an expression -> SQL of another one
Explain = Callable[[str], str]  # turns the text of an engine's error into a message that does not quote it
OUT_OF_MEMORY = frozenset({"MemoryError", "ArrowMemoryError", "OutOfMemoryException"})  # Python's, Arrow's, DuckDB's
DEFAULT_TIMEOUT, LARGEST_TIMEOUT = 3600.0, 2_000_000  # seconds of one statement
RUST_PANIC = "PanicException"  # raised by Rust code such as polars; a BaseException, but no Exception
HASH_KEY = b"hush: rows per unit"  # prefix of each id that `unit_hash_of` hashes
HASH_DIGITS = 15  # hexadecimal digits of the hash: 60 bits, which a signed 64-bit integer holds


class Rereadable(Protocol):
    """Rows that every call reads again."""

    schema: pa.Schema

    def __call__(self) -> pa.RecordBatchReader: ...


Frame: TypeAlias = pa.Table | pa.RecordBatchReader | Rereadable


class Family(Enum):
    """How values are stored, as far as coding is concerned."""

    NOTHING = auto()  # a column of nulls only
    BOOLEAN = auto()
    INTEGER = auto()
    FLOAT = auto()
    DOUBLE = auto()
    DECIMAL = auto()
    TEXT = auto()
    DATE = auto()
    TIMESTAMP = auto()
    INSTANT = auto()  # a timestamp with a time zone
    UNSUPPORTED = auto()


NUMBER_FAMILIES = frozenset({Family.INTEGER, Family.FLOAT, Family.DOUBLE, Family.DECIMAL})
DAY_FAMILIES = frozenset({Family.DATE, Family.TIMESTAMP, Family.INSTANT})


class Dialect(ABC):
    """One engine. Methods that return text give SQL expressions of the expression `x`; defaults are standard SQL."""

    families: ClassVar[Mapping[str, Family]]  # by the names of types
    number_type: ClassVar[str]  # 64-bit floats
    text_type: ClassVar[str]
    bytes_type: ClassVar[str]
    wide_type: ClassVar[str]  # integers of more than 64 bits
    code_types: ClassVar[Mapping[int, str]]  # unsigned integers, by their bytes
    remote: ClassVar[bool] = False  # whether the engine is a server: `read` then counts there by default
    costs: ClassVar[EngineCosts] = EMBEDDED_COSTS
    most_collected: ClassVar[int | None] = None  # bytes of the largest result, if the engine sends results as a whole
    keeps: ClassVar[bool] = False  # whether the engine can keep coded rows until a snapshot ends
    drafts: ClassVar[bool] = True  # whether `column_profiles` may query the engine
    most_keys: ClassVar[int] = 256  # in one statement; there may be thousands of cliques
    fence: ClassVar[str] = ""  # ends a subquery, so that the planner does not copy its expressions into others
    latest_day: ClassVar[str]  # a DATE later than any date of a source
    no_moment: ClassVar[str]  # a TIMESTAMP that no source holds

    # SQL with a place for each argument; a dialect gives another text, or a method, where its engine differs.
    day: Callable[[dt.date], str] = "DATE '{}'".format
    moment: Callable[[dt.datetime], str] = "TIMESTAMP '{}'".format  # without a zone
    cast: Callable[[str, str], str] = "CAST({} AS {})".format
    is_nan: Expression = "isnan({})".format
    is_whole: Expression = "{0} = trunc({0})".format  # whether a float is a whole number, or infinite
    is_finite: Expression = "isfinite({})".format  # whether a timestamp is a date of the calendar, not an infinity
    rounded: Expression = "round({})".format  # a float to a whole number, halves away from zero
    squared: Expression = "{0} * {0}".format  # of a float that is at most 1e154 in size
    whole_ratio: Callable[[str, int], str]  # a nonnegative integer divided, rounded down
    part: Callable[[str, str], str] = "{}({})".format  # the year, month, hour or minute of a date or a timestamp
    weekday: Expression  # of a date, 1 for Monday to 7
    days_since: Callable[[str, dt.date], str]  # from a day to a date
    as_moment: Expression  # a date or a timestamp in UTC, rounded down to microseconds; infinite if out of range
    as_bytes: Expression  # the bytes of a text, to which no collation applies
    position: Callable[[str, str, int], str]  # of a text among `size` texts declared under a name; NULL if it is none
    distinct: Expression = "approx_count_distinct({})".format  # about how many different values a group holds
    # About the most frequent values of a group, as a list; None if the engine needs a GROUP BY for that.
    frequent: Callable[[str, int], str] | None = None
    # What a text spells, NULL if it spells none: a number; a 64-bit integer in digits, perhaps with zeros after the
    # point; a time, in UTC if it has a zone; a time of day, on `ANY_DAY`, or on the next day for 24:00.
    number_or_null: Expression
    whole_or_null: Expression
    moment_or_null: Expression  # of a trimmed text
    time_or_null: Expression  # of a trimmed text

    # Types and literals

    def family(self, declared: str) -> Family:
        """The family of a type as `describe` spells it."""
        return self.families.get(type_name(declared), Family.UNSUPPORTED)

    def quoted(self, name: str) -> str:
        """A name as an identifier."""
        return '"' + name.replace('"', '""') + '"'

    def table_names(self, table: str) -> list[str]:
        """How a table may be spelled: as one identifier, or as several with dots between them."""
        return list(dict.fromkeys((self.quoted(table), ".".join(map(self.quoted, table.split("."))))))

    def literal(self, text: str) -> str:
        """A text literal."""
        return "'" + text.replace("'", "''") + "'"

    @abstractmethod
    def number(self, number: float) -> str:
        """A 64-bit float, including infinities and NaN."""

    # Coding of values

    def code(self, x: str, width: int) -> str:
        """x as an unsigned integer of `width` bytes."""
        return self.cast(x, self.code_types[width])

    def as_number(self, x: str, family: Family) -> str:
        """A boolean or a number as the nearest 64-bit float."""
        return self.cast(x, self.number_type)

    def written(self, x: str, family: Family) -> str:
        """x as text; floats by their shortest digits."""
        return self.cast(x, self.text_type)

    @abstractmethod
    def in_utc(self, x: str, family: Family) -> str:
        """A timestamp in UTC, without a zone."""

    def as_text(self, x: str, family: Family) -> str:
        """The text by which x is compared: the same as `hush.schema.column.canonical`, but not trimmed.

        A float32 is compared by its own shortest digits, so that 0.1 stored in four bytes equals a declared 0.1. A
        timestamp at midnight is compared as its date, one with a time zone by its time in UTC.
        """
        match family:
            case Family.FLOAT:
                return self.float_text(self.cast(self.written(x, family), self.number_type))
            case Family.DOUBLE | Family.DECIMAL:
                return self.float_text(self.as_number(x, family))
            case Family.TIMESTAMP | Family.INSTANT:
                stamp = self.in_utc(x, family)
                day = self.cast(stamp, "DATE")
                return (
                    f"CASE WHEN {stamp} = {day} THEN {self.written(day, Family.DATE)} "
                    f"ELSE {self.written(stamp, Family.TIMESTAMP)} END"
                )
            case _:
                return self.written(x, family)

    def float_text(self, x: str) -> str:
        """The text of a 64-bit float: whole numbers without a point, NULL for NaN."""
        return (
            f"CASE WHEN {self.is_nan(x)} THEN NULL WHEN abs({x}) <= {self.number(LARGEST_INTEGER)} "
            f"AND {self.is_whole(x)} THEN {self.cast(self.cast(x, 'BIGINT'), self.text_type)} "
            f"ELSE {self.written(x, Family.DOUBLE)} END"
        )

    def as_id(self, x: str, family: Family) -> str:
        """The text of a unit's id without rounding: NULL if missing or blank, empty if it may have been rounded.

        Ids that differ in the source stay different, while 7, 7.0 and 7.00 are one id in any type.
        """
        text = self.written(x, family)
        match family:
            case Family.FLOAT | Family.DOUBLE:
                bound = 2**24 if family is Family.FLOAT else LARGEST_INTEGER
                whole = self.cast(self.cast(x, "BIGINT"), self.text_type)
                return (
                    f"CASE WHEN {self.is_nan(x)} THEN NULL WHEN abs({x}) >= {self.number(bound)} THEN '' "
                    f"WHEN {self.is_whole(x)} THEN {whole} ELSE {text} END"
                )
            case Family.DECIMAL:
                cut = f"trim(TRAILING '.' FROM trim(TRAILING '0' FROM {text}))"
                return f"CASE WHEN {x} = 0 THEN '0' WHEN position('.' IN {text}) > 0 THEN {cut} ELSE {text} END"
            case Family.TIMESTAMP | Family.INSTANT:  # the text has all digits of the second
                return f"regexp_replace({self.written(self.in_utc(x, family), Family.TIMESTAMP)}, ' 00:00:00$', '')"
            case Family.TEXT:
                return f"nullif({self.trimmed(text)}, '')"
            case _:
                return text

    @abstractmethod
    def matches(self, x: str, pattern: str) -> str:
        """Whether a whole text matches a regular expression."""

    @abstractmethod
    def trimmed(self, x: str) -> str:
        """Text without the characters of `WHITESPACE` at its ends."""

    def text_bytes(self, text: str) -> str:
        """The bytes of a text literal."""
        return self.as_bytes(self.literal(text))

    def replaced(self, x: str, pattern: str, by: str = "") -> str:
        """A text with another one in place of every part that matches a pattern."""
        return f"regexp_replace({x}, {self.literal(pattern)}, {self.literal(by)}, 'g')"

    def folded(self, x: str, ignore: Sequence[str]) -> str:
        """`text_folding.folded` of a text; most texts are ASCII, whose capitals every engine folds alike and fast."""
        x = self.trimmed(x)
        if CASE in ignore:
            small = f"translate({x}, {self.literal(CAPITALS)}, {self.literal(SMALL_LETTERS)})"
            x = f"(CASE WHEN octet_length({self.as_bytes(x)}) = length({x}) THEN lower({x}) ELSE {small} END)"
        return self.replaced(x, SPACE_RUN, " ") if SPACES in ignore else x

    def spelled_number_or_null(self, x: str, spelling: NumberSpelling) -> str:
        """The number that a trimmed text spells in a given spelling; NULL if it spells none."""
        plain = f"replace({self.replaced(x, spelling.dropped)}, {self.literal(spelling.decimal)}, '.')"
        return (
            f"CASE WHEN {self.matches(x, spelling.pattern)} THEN {self.number_or_null(plain)} "
            f"WHEN {self.matches(x, '[^0-9]*')} THEN {self.number_or_null(x)} END"
        )

    def day_or_null(self, x: str, trimmed: str) -> str:
        """The day that a text spells, in UTC if it has a time zone; NULL if it spells none."""
        return f"CAST({self.moment_or_null(trimmed)} AS DATE)"

    @abstractmethod
    def element(self, values: Sequence[str], index: str) -> str:
        """One of the listed expressions, by an index that starts at 0."""

    @abstractmethod
    def declare_texts(self, session: Any, name: str, texts: Sequence[str]) -> None:
        """Number some texts for `position`, under a name that is valid for the session."""

    def scaled(self, x: str, factor: float) -> str:
        """A float times a positive factor that does not make it overflow; results below 1/2 may become 0."""
        return f"{x} * {self.number(factor)}"

    # Capping and grouping

    @abstractmethod
    def unit_hash(self, x: str) -> str:
        """`unit_hash_of` an id's bytes as an integer of `wide_type`, the same on every engine."""

    def grouped_counts(self, keys: Mapping[int, str], rows: str, weight: str | None = None) -> str:
        """The rows of each value of each key, by GROUPING SETS: the key's number `scan`, its value `cell`, and `n`.

        Keys are not null. A row counts as often as its `weight`, a 64-bit integer, says.
        """
        columns = ", ".join([*(f"{key} AS s{scan}" for scan, key in keys.items()), *([weight] if weight else [])])
        names = [f"s{scan}" for scan in keys]
        scans = " ".join(f"WHEN s{scan} IS NOT NULL THEN {scan}" for scan in keys)
        sets = ", ".join(f"({name})" for name in names)
        return (
            f"SELECT CAST(CASE {scans} END AS BIGINT) AS scan, coalesce({', '.join(names)}) AS cell, n FROM ("
            f"SELECT {', '.join(names)}, {self.counted(weight)} AS n FROM (SELECT {columns} FROM ({rows}) AS coded) "
            f"AS keyed GROUP BY GROUPING SETS ({sets})) AS grouped"
        )

    def unpivoted_counts(self, keys: Mapping[int, str], rows: str, weight: str | None = None) -> str:
        """The same, in one pass that turns every key of every row into a line."""
        lines = ", ".join(f"(CAST({scan} AS BIGINT), {key})" for scan, key in keys.items())
        return (
            f"SELECT scan, cell, {self.counted(weight)} AS n FROM ({rows}) AS coded "
            f"CROSS JOIN LATERAL (VALUES {lines}) AS keyed(scan, cell) GROUP BY scan, cell"
        )

    def separate_counts(self, scan: int, key: str, rows: str, weight: str | None = None) -> str:
        """The same for a single key."""
        return (
            f"SELECT CAST({scan} AS BIGINT) AS scan, {key} AS cell, {self.counted(weight)} AS n "
            f"FROM ({rows}) AS coded GROUP BY 2"
        )

    def counted(self, weight: str | None) -> str:
        """How many rows a group has, as a 64-bit integer."""
        return f"CAST(sum({weight}) AS BIGINT)" if weight else "count(*)"

    # Sessions

    @abstractmethod
    def holds(self, source: object) -> bool:
        """Whether an object is a connection of this engine, or a text its address; imports no driver."""

    @abstractmethod
    def open_table(
        self, source: Any, table: str | None, query: str | None, *, timeout: float | None = None
    ) -> RowSource:
        """A table or a query of the engine; no statement may take more seconds than `timeout`.

        Privacy: reads no row. The name of the source has neither user nor password in it.
        """

    def snapshot(self, connection: Any) -> AbstractContextManager[None]:
        """A context in which all sessions see one state of the rows; writers are not blocked. May be nested.

        At its end the engine drops the coded rows that it kept.
        """
        return nullcontext()

    def kept(self, session: Any, rows: str) -> str | None:
        """SQL of the rows as the engine keeps them until the snapshot ends; None if it keeps none."""
        return None

    @abstractmethod
    def open_session(self, connection: Any, frames: Mapping[str, Frame]) -> Any:
        """A session with fixed settings that leaves the connection undisturbed, in the state of its snapshot."""

    @abstractmethod
    def describe(self, session: Any, select: str, failed: str | Explain) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names and types of the columns of a SELECT, without running it; names may repeat."""

    @abstractmethod
    def stream(self, session: Any, select: str, batch_rows: int, failed: str | Explain) -> Iterator[pa.RecordBatch]:
        """The rows of a SELECT in batches, computed while they are read."""

    @abstractmethod
    def fetch_row(self, session: Any, select: str, failed: str | Explain) -> tuple[Any, ...]:
        """The only row of a SELECT."""

    def fraction_done(self, session: Any) -> float:
        """How far the running query is, from 0 to 1; 0 where the engine does not say."""
        return 0.0


def unit_hash_of(unit: bytes) -> int:
    """The first 60 bits of SHA-256 of a key and an id, the same on every engine.

    >>> unit_hash_of(b"7")
    930409754133007259
    """
    return int(hashlib.sha256(HASH_KEY + unit).hexdigest()[:HASH_DIGITS], 16)


def type_name(declared: str) -> str:
    """The type without its arguments: those of an ENUM are values of the table, which no message may show.

    >>> type_name("ENUM('anna', 'bob')"), type_name("DECIMAL(10,2)"), type_name("INTEGER[]")
    ('ENUM', 'DECIMAL', 'INTEGER[]')
    """
    if declared.endswith("]"):
        return type_name(declared[: declared.rindex("[")]) + "[]"
    return re.split(r"\(", declared, maxsplit=1)[0].strip()


def checked_timeout(seconds: float | None) -> float:
    """The most seconds that a statement may take, an hour by default."""
    if seconds is None:
        return DEFAULT_TIMEOUT
    return check_number(DataError, "timeout", seconds, above=0, most=LARGEST_TIMEOUT, hint=", in seconds")


def is_a(source: object, package: str, name: str) -> bool:
    """Whether an object is of a class of a package, which need not be installed."""
    return any(cls.__name__ == name and f"{cls.__module__}.".startswith(f"{package}.") for cls in type(source).__mro__)


def check_one_given(database: str, table: str | None, query: str | None) -> None:
    """Refuse a database with both a table and a query, or with neither."""
    if (table is None) == (query is None):
        raise DataError(f"{database} needs either table= or query=; give exactly one of them")


def each_batch(batches: Iterator[pa.RecordBatch], failed: str | Explain) -> Iterator[pa.RecordBatch]:
    """The batches of an engine; its failures become DataErrors."""
    while (batch := attempt(lambda: next(batches, None), failed)) is not None:
        yield batch


@contextmanager
def attempted(context: AbstractContextManager[Any], failed: str | Explain) -> Iterator[Any]:
    """A context of another library, whose failure to begin becomes a DataError in our own words."""
    entered = attempt(context.__enter__, failed)
    try:
        yield entered
    finally:
        context.__exit__(None, None, None)


def attempt(call: Callable[[], Result], failed: str | Explain) -> Result:
    """The result of a call to another library; any failure becomes a DataError in our own words.

    Privacy: an error of an engine, of Arrow or of polars may quote the row it stumbled on. The error raised here has
    neither its text nor a reference to it.
    """
    try:
        return call()
    except HushError:
        raise
    except BaseException as trouble:  # errors of any type quote rows
        names = {cls.__name__ for cls in type(trouble).__mro__}
        if not isinstance(trouble, Exception) and RUST_PANIC not in names:
            raise
        if names & OUT_OF_MEMORY:
            error: HushError = SizeError("reading the source needs more memory than memory_limit allows; raise it")
        else:
            error = DataError(failed if isinstance(failed, str) else failed(str(trouble)))
    raise error  # outside the handler, so that it does not carry the engine's error as its context
