"""Drafting: a first schema for a file or a frame, to be edited by a person who knows what its columns may hold.

By default hush reads only the header and the declared types, and guesses kinds from names. A draft from the data holds
exact minima, maxima and values. Unless the rows are public, its first lines say so, and each of its columns has a key
that makes releases refuse the schema.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from hush.core.errors import DataError, SchemaError
from hush.schema import Schema
from hush.schema.column import Column, Outside
from hush.schema.column_kinds import Boolean, Categorical, Date, Granularity, Integer, Numeric
from hush.schema.rules import FROM_PRIVATE_DATA
from hush.schema.schema_toml import SCHEMA_VERSION, entries_of, entry, header, read_toml, table
from hush.schema.stamps import DATE, HOUR, WEEKDAY, Stamp, TimeOfDay, Timestamp
from hush.tables import frames
from hush.tables.column_profiles import (
    DECLARED_KINDS,
    DRAFT_MEMORY,
    LONGEST_VALUE,
    MOST_INTEGERS,
    MOST_VALUES,
    UNKNOWN,
    UNSUPPORTED,
    ColumnProfile,
    read_profiles,
    round_bins,
)
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.formats.file_sources import file_source
from hush.tables.read import DIALECTS
from hush.tables.row_filter import RowFilter
from hush.tables.sources import RowSource

_UNIT_WORDS = frozenset({"id", "ids", "uuid", "guid", "ssn", "identifier"})
_FLAG_WORDS = frozenset({"is", "has", "was", "had"})
_KIND_WORDS = {
    "date": frozenset({"date", "dob", "birthdate", "birthday"}),
    "timestamp": frozenset({"datetime", "timestamp"}),
    "time": frozenset({"time"}),
    "integer": frozenset(
        {"age", "year", "years", "month", "hours", "days", "count", "number", "num", "children", "rooms", "quantity"}
    ),
    "numeric": frozenset(
        {"income", "salary", "wage", "price", "amount", "cost", "balance", "weight", "height", "bmi", "gain", "loss"}
        | {"rate", "latitude", "longitude", "temperature", "percent", "fare"}
    ),
}


def _words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def names_a_unit(name: str) -> bool:
    """Whether a column's name says that it holds ids, such as person_id.

    >>> names_a_unit("personID"), names_a_unit("patient_id"), names_a_unit("idle")
    (True, True, False)
    """
    return not _UNIT_WORDS.isdisjoint(_words(name))


def kind_from_name(name: str) -> str:
    """The kind that a name suggests; categorical where it suggests nothing.

    >>> [kind_from_name(name) for name in ("hours-per-week", "admittedAt", "has_children", "sex")]
    ['integer', 'date', 'boolean', 'categorical']
    """
    words = _words(name)
    if len(words) > 1 and words[0] in _FLAG_WORDS:
        return "boolean"
    if len(words) > 1 and words[-1] == "at":
        return "date"
    return next((kind for kind, known in _KIND_WORDS.items() if not known.isdisjoint(words)), "categorical")


def column_from_profile(name: str, profile: ColumnProfile, *, public: bool = False) -> Column | Stamp | None:
    """A column whose levels cover every value of the rows; None if no kind of column can.

    Privacy: as exact as the profile, and marked `from_private_data` unless the rows are public.
    """
    shared: dict[str, Any] = {
        "name": name,
        "missing": profile.missing,
        "missing_values": profile.missing_values,
        FROM_PRIVATE_DATA: not public,
    }
    try:
        match profile.kind:
            case "boolean":
                return Boolean(**shared)
            case "categorical":
                return Categorical(values=profile.values or (), **shared)
            case "date":
                return _date(profile.first or dt.date.min, profile.last or dt.date.max, shared)
            case "timestamp":
                date = _date(profile.first or dt.date.min, profile.last or dt.date.max, {"name": name})
                # wider levels of the date do not tell the weekday
                parts = (DATE, HOUR) if date.granularity is Granularity.DAY else (DATE, WEEKDAY, HOUR)
                return Timestamp(start=date.start, end=date.end, granularity=date.granularity, parts=parts, **shared)
            case "time":
                return TimeOfDay(**shared)
            case _:
                return _number(profile, shared)
    except SchemaError:
        return None


def _number(profile: ColumnProfile, shared: dict[str, Any]) -> Column:
    low, high = profile.low or 0.0, profile.high or 0.0
    shared |= {"spelling": profile.spelling}
    if profile.kind == "integer" and high - low < MOST_INTEGERS:
        return Integer(low=int(low), high=int(high), **shared)
    if profile.kind == "integer":
        shared["points"] = tuple(map(int, profile.points))
        if profile.edges:
            *starts, end = map(int, profile.edges)
            return Integer(low=starts[0], high=end - 1, starts=tuple(starts), **shared)
        low, high, bins = round_bins(low, high + 1)
        return Integer.equal_width(low=int(low), high=int(high) - 1, bins=bins, **shared)
    shared |= {"step": profile.step}
    outside = Outside.CLAMP if profile.infinite else Outside.REFUSE
    if profile.edges:
        return Numeric(edges=profile.edges, points=profile.points, outside=outside, **shared)
    low, high, bins = round_bins(low, high, least=profile.step or 0.0)
    return Numeric.equal_width(low=low, high=high, bins=bins, points=profile.points, outside=outside, **shared)


def _date(first: dt.date, last: dt.date, shared: dict[str, Any]) -> Date:
    """A date column of at most a few hundred levels; months and wider levels cover whole years."""
    days = (last - first).days + 1
    if days <= 100:
        return Date(start=first, end=last, granularity=Granularity.DAY, **shared)
    if days <= 2 * 365:
        return Date(start=first, end=last, granularity=Granularity.WEEK, **shared)
    granularity = (
        Granularity.MONTH if days <= 25 * 365 else Granularity.QUARTER if days <= 75 * 365 else Granularity.YEAR
    )
    start, end = dt.date(first.year, 1, 1), dt.date(last.year, 12, 31)
    return Date(start=start, end=end, granularity=granularity, **shared)


HOW_TO_CHOOSE = """\
# How many bins? Every count gets the same noise, so a bin should hold many more rows than the standard
# error. Begin with round steps that people would use anyway; 10 to 30 bins suit most columns.
# Which epsilon? It bounds what all releases of a table together tell about one person: 1 is common, 0.1
# strict, and above 10 it means little. Before anything is read or spent,
# `hush plan SCHEMA --workload '<=2-way' --epsilon 1 --delta 1e-9 --rows 10000` shows the error of the counts:
# use wider bins, or ask for less, until the error is small compared to the counts.
"""
NOT_PRIVATE = """\
# ===================================================================================================
#  NOT PRIVATE: this schema was derived from the data.
#
#  The values, bounds and missing marks below were read from the rows. Publishing this file, or using
#  it for a release, reveals facts about single people: an extreme age, a rare diagnosis. A release made
#  with it would not be differentially private, and hush refuses to make it.
#
#  Go through the columns. Replace each entry by what is publicly known about the column (a code book, a
#  questionnaire, the law), then delete its line from_private_data. Finally, delete this notice.
# ===================================================================================================
"""
FROM_PUBLIC_ROWS = """\
# A schema drafted from rows that were declared public: values and bounds below are those of the rows.
# Before you use it for a private table, check that these rows do not come from that table.
"""
UNIT_TEMPLATE = """\
# Who is protected: one row, unless a person may have several rows. Then name the id column:
# {header}
# {column}
# max_rows = 1            # at most so many rows of a person are used; the rest are left out
"""
NO_HEADER = """\
# CHECK: some names are numbers. If the file has no header line, these are the values of its first row, which
# are private: delete this draft and add a header line to the file.
"""
FROM_NAMES = """\
# A first schema, drafted from column names and declared types; no row was read.
# Fill in values and bounds from public knowledge (a code book, a questionnaire), not from the rows:
# what is taken from the rows is not private. Remove the columns you do not need.
# Where nobody knows, write bounds = "discover" or levels = "discover" instead, and let `hush schema discover`
# find them with noise, for a part of the budget.
"""
_EXPECTED_DATA = "expected a pandas or polars DataFrame, a pyarrow Table, or the path of a CSV or Parquet file"
_COLUMN_TEMPLATES = {
    "categorical": (
        'kind = "categorical"      # {choice}',
        "values = []               # fill in: every value that may occur, each in quotes",
        "# other = true            # one level for all values that are not listed",
    ),
    "boolean": ('kind = "boolean"          # {choice}',),
    "integer": (
        'kind = "integer"          # {choice}',
        "# low =                   # fill in: the smallest possible integer",
        "# high =                  # fill in: the largest possible integer",
        "# bins = 20               # ranges of integers; without bins each integer is a level",
        "# points = [0]            # with bins: frequent integers, which get levels of their own",
        '# outside = "clamp"       # moves values outside to the nearer bound instead of refusing them',
    ),
    "numeric": (
        'kind = "numeric"          # {choice}',
        "# low =                   # fill in: the lower bound",
        "# high =                  # fill in: the upper bound",
        "bins = 32                 # of equal width; or remove it and write edges = [0, 10, 100]",
        "# points = [0]            # frequent numbers, which get levels of their own",
        "# step = 0.1              # if all numbers are multiples of 0.1; synthetic rows are then too",
        '# decimal = ","           # if texts spell 1,5; also thousands = "." and strip = ["€", "%"]',
        '# outside = "clamp"       # moves values outside to the nearer bound instead of refusing them',
    ),
    "date": (
        'kind = "date"             # {choice}',
        "# start =                 # fill in: the first possible day, such as 2020-01-01",
        "# end =                   # fill in: the last possible day",
        'granularity = "month"     # or "day", "week", "quarter", "year"',
    ),
    "timestamp": (
        'kind = "timestamp"        # {choice}',
        "# start =                 # fill in: the first possible day, such as 2020-01-01",
        "# end =                   # fill in: the last possible day",
        'parts = ["date", "hour"]  # what is counted; also "month", "weekday", "minute"',
        'granularity = "month"     # of the date; or "day", "week", "quarter", "year"',
    ),
    "time": (
        'kind = "time"             # {choice}',
        'parts = ["hour"]          # what is counted; also "minute"',
    ),
}
_MISSING_TEMPLATE = (
    '# missing = true          # if a cell may be empty; missing_values = ["?"] lists texts that mean missing'
)


def draft_schema(
    path: Any,
    *,
    table: str | None = None,
    query: str | None = None,
    where: str | None = None,
    from_data: bool = False,
    public: bool = False,
) -> str:
    """The text of a TOML schema to edit, for a source that `hush.read` takes or for an open `RowSource`.

    By default names and declared types decide the kinds; values and bounds are left for the user to fill in, and hush
    refuses the schema until they are. With `from_data` the rows decide, those that `where` selects; `public` says that
    the rows are public, such as invented or published ones.

    Privacy: by default no row is read. With `from_data` the values and bounds are exact facts about the rows. Unless
    the rows are public, the text begins with a notice, and every column is marked `from_private_data`, so that releases
    refuse the schema.
    """
    source = whole_source(path, table=table, query=query, where=where)
    # One section for each column, from its profile or from its name and type.
    kinds = declared_kinds(source)
    if from_data:
        with source.snapshot():
            profiles = zip(source.columns, read_profiles(source, kinds), strict=True)
        sections = [_from_rows(name, profile, public=public) for name, profile in profiles]
    else:
        sections = [_skeleton(name, kind) for name, kind in zip(source.columns, kinds, strict=True)]
    # What comes before them: a notice, advice, the version, and a unit to switch on.
    notice = NOT_PRIVATE if not public else FROM_PUBLIC_ROWS
    if not from_data:
        looks_like_rows = any(name.strip().lstrip("+-").replace(".", "", 1).isdigit() for name in source.columns)
        notice = FROM_NAMES + (NO_HEADER if looks_like_rows else "")
    id_column = next((name for name in source.columns if names_a_unit(name)), "person_id")
    unit = UNIT_TEMPLATE.format(header=header(("unit",)), column=entry("column", id_column))
    return "\n".join([notice, HOW_TO_CHOOSE, f"{entry('hush_schema', SCHEMA_VERSION)}\n", unit, *sections])


@dataclass(frozen=True, slots=True)
class GuessedColumn:
    """A column of a source, and the kind that its type declares or its name suggests; or why it is better left out."""

    name: str
    kind: str
    left_out: str = ""


def guessed_columns(source: Any, *, table: str | None = None, query: str | None = None) -> list[GuessedColumn]:
    """The columns of a source that `hush.read` takes, in order.

    Privacy: reads names and declared types, and no row.
    """
    opened = whole_source(source, table=table, query=query)
    return [_guessed(name, kind) for name, kind in zip(opened.columns, declared_kinds(opened), strict=True)]


def whole_source(
    data: Any, *, table: str | None = None, query: str | None = None, where: str | None = None
) -> RowSource:
    """All columns of a source that `hush.read` takes, or of an open `RowSource`; private rows stay off the disk.

    Privacy: reads no row of files and databases, and converts frames as a whole.
    """
    connect = partial(DUCKDB.connect, DRAFT_MEMORY, spill=False)
    dialect = next((dialect for dialect in DIALECTS if dialect.holds(data)), None)
    frame = None if isinstance(data, str | Path | RowSource) else frames.recognised(data)
    if isinstance(data, RowSource):
        source = data
    elif dialect is not None:
        source = dialect.open_table(data, table, query)
    elif frame is not None and not isinstance(data, pa.RecordBatchReader):
        name, columns, convert = frame
        source = DUCKDB.open_frame(name, columns, convert(data, range(len(columns)), frames.PLAIN_SPELLING), connect())
    elif isinstance(data, str | Path):
        source = file_source(data, (), connect, table=table, query=query)
    else:
        raise DataError(f"data of type {type(data).__name__}: {_EXPECTED_DATA}")
    _check_names(source)
    return source if where is None else RowFilter.parse(where).applied(source, {})


def declared_kinds(source: RowSource) -> list[str]:
    """The kind of column that the type of each column suggests; unknown in a file of texts."""
    families = (source.dialect.family(kind) for kind in source.types)
    return [DECLARED_KINDS.get(family, UNSUPPORTED) if source.typed else UNKNOWN for family in families]


def _guessed(name: str, declared: str) -> GuessedColumn:
    """What the name and the declared type of a column say about its kind."""
    kind = kind_from_name(name) if declared in (UNKNOWN, UNSUPPORTED) else declared
    if declared == UNSUPPORTED:
        return GuessedColumn(name, kind, "hush cannot count its type")
    if names_a_unit(name):
        return GuessedColumn(name, kind, "it looks like an id, which says who is protected and is not counted")
    return GuessedColumn(name, kind)


def _check_names(source: RowSource) -> None:
    """Refuse unnamed and repeated columns. Messages give positions: if the file has no header, names are private."""
    if not source.columns:
        raise DataError(f"{source.name}: there are no columns; expected at least one")
    first_position: dict[str, int] = {}
    for position, name in enumerate(source.columns, start=1):
        if not name.strip():
            raise DataError(f"{source.name}: column {position} has no name; give every column a name")
        first = first_position.setdefault(name, position)
        if first != position:
            raise DataError(f"{source.name}: columns {first} and {position} have the same name; rename one")


def _skeleton(name: str, declared: str) -> str:
    guessed = _guessed(name, declared)
    if guessed.left_out:
        return _left_out(name, guessed.left_out)
    kind = guessed.kind
    rest = ", ".join(f'"{choice}"' for choice in _COLUMN_TEMPLATES if choice != kind)
    choice = f"a guess; or {rest}" if declared == UNKNOWN else "the declared type"
    lines = [line.format(choice=choice) for line in _COLUMN_TEMPLATES[kind]]
    return "\n".join([header(("columns", name)), *lines, _MISSING_TEMPLATE]) + "\n"


def _from_rows(name: str, profile: ColumnProfile | None, *, public: bool) -> str:
    if profile is None:
        return _left_out(name, "hush cannot count its type")
    if not profile.kind:
        return _left_out(name, "no cell holds a value")
    if names_a_unit(name) and profile.distinct > MOST_VALUES // 10:
        return _left_out(name, "it looks like an id, which says who is protected and is not counted")
    if profile.near_unique and profile.values is not None:
        return _left_out(name, "nearly every row has a different text, such as a name or a ticket")
    if profile.kind == "categorical" and profile.values is None:
        return _left_out(
            name, f"it has more than {MOST_VALUES} different texts, or some of more than {LONGEST_VALUE} characters"
        )
    column = column_from_profile(name, profile, public=public)
    if column is None:
        return _left_out(name, "no kind of column holds its values; declare it by hand")
    return table(("columns", name), entries_of(column))


def _left_out(name: str, reason: str) -> str:
    return f"# {header(('columns', name))}\n# left out: {reason}\n"


def drafted(data: Any, *, public: bool = False) -> Schema:
    """The schema that the rows of a file or a frame suggest, marked `from_private_data` unless the rows are public.

    Ids, texts with too many values, and columns that no kind can hold are left out.

    Privacy: values and bounds are exact facts about the rows, and releases refuse the marked schema.
    """
    if not isinstance(data, str | Path) and (frames.recognised(data) is None or isinstance(data, pa.RecordBatchReader)):
        raise DataError(f"data of type {type(data).__name__}: {_EXPECTED_DATA}")
    return read_toml(draft_schema(data, from_data=True, public=public))
