"""Dry run: how the rows of a source fit a schema, column by column, for the eyes of their owner.

A first pass counts the codes of every column. A second pass, over columns with refused values only, groups these values
by cause, each with a remedy.

Privacy: counts and examples are exact and private. They never enter an error message, a log or a release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from hush.core.domain import Domain
from hush.core.errors import DataError, printable
from hush.core.memory import memory_limit as bytes_of
from hush.render.text_table import TextColumn, TextTable, number_columns
from hush.schema import Column, Date, Integer, Numeric, Outside, Schema, Timestamp, Unit
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.encoding import Encoding, Names
from hush.tables.read import open_source, schema_of
from hush.tables.refusal_causes import RefusalCauses
from hush.tables.rows_per_unit import declare_texts, encoded_rows, encoding_in, unit_id
from hush.tables.sources import (
    COUNT_IS_REFUSED,
    COUNT_NAME,
    LARGEST_TOTAL,
    RowSource,
    count_cause,
    row_count,
    too_many_rows,
)

BATCH_ROWS = 2**14
MOST_EXAMPLES = 3
COMPARED_CAPS = (1, 2, 5, 10, 20, 50)  # values of max_rows
LINE_ROWS = "line_rows"  # the SQL column that says how many rows a line stands for
PRIVATE_NOTICE = (
    "PRIVATE: exact counts and values of the rows, for the eyes of their owner only. Do not publish or log them."
)
PUBLIC_SCHEMA = (
    "The schema is public. Fix it by what is publicly known, not by the values above, or let it take anything: "
    'other = true, outside = "clamp", missing = true.'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedValues:
    """Why some values of a column are refused, how many there are, and the most frequent ones."""

    cause: str
    count: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFit:
    """How many values of a column have a level, are clamped, missing, other, or refused; private.

    `problem` says why the column cannot be read at all.
    """

    name: str
    kind: str
    levels: int = 0
    clamped: int = 0
    missing: int = 0
    other: int = 0
    refused: tuple[RefusedValues, ...] = ()
    problem: str = ""

    @property
    def fits(self) -> bool:
        """Whether a release would take the column as it is."""
        return not self.problem and not self.refused

    @property
    def refusals(self) -> int:
        """How many values are refused."""
        return sum(values.count for values in self.refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsPerUnit:
    """How many rows would be used for each choice of `max_rows`, and how many units there are; private."""

    unit: str
    max_rows: int
    units: int
    kept: dict[int, int]

    def lines(self, rows: int) -> Iterator[str]:
        """A table to choose `max_rows` by."""
        yield f"Rows used, for each max_rows (there are {self.units:,} values of {printable(self.unit)!r}):"
        yield ""
        listed = []
        for most, kept in self.kept.items():
            now = "now" if most == self.max_rows else ""
            listed.append((f"{most:,}", f"{kept:,}", f"{kept / max(rows, 1):.1%}", f"{most:,}x", now))
        columns = (*number_columns("max_rows", "rows used", "of all rows", "noise"), TextColumn(heading=""))
        yield TextTable(columns=columns, rows=listed).text()
        yield ""
        yield "Rows above max_rows are left out, and noise grows in proportion to it. max_rows is public: choose it by"
        yield "what is publicly known."


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """The outcome for all columns; prints as a table with the causes below.

    Privacy: exact and private, as the text says in its first line.
    """

    source: str
    rows: int
    columns: tuple[ColumnFit, ...] = field(default=())
    rows_per_unit: RowsPerUnit | None = None

    @property
    def fits(self) -> bool:
        """Whether a release would take the rows as they are."""
        return all(column.fits for column in self.columns)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, private."""
        return {"private": True, "fits": self.fits, **asdict(self)}

    def __str__(self) -> str:
        headings = (TextColumn(heading="column", fit="fold"), TextColumn(heading="kind"))
        numbers = number_columns("in a level", "clamped", "missing", "other", "refused")
        rows: list[tuple[str, ...]] = []
        for column in self.columns:
            counts = (column.levels, column.clamped, column.missing, column.other, column.refusals)
            cells = ("", "", "", "", "all") if column.problem else tuple(f"{count:,}" for count in counts)
            rows.append((column.name, column.kind, *cells))
        table = TextTable(columns=(*headings, *numbers), rows=rows)
        lines = [PRIVATE_NOTICE, "", f"{self.source}, {self.rows:,} rows", "", table.text()]
        if self.rows_per_unit is not None:
            lines += ["", *self.rows_per_unit.lines(self.rows)]
        for column in self.columns:
            if not column.fits:
                lines += ["", f"column {column.name!r}:", *([f"  {column.problem}"] if column.problem else [])]
            for values in column.refused:
                examples = ", ".join(f"`{printable(example)}`" for example in values.examples)
                lines.append(f"  {values.count:,} {values.cause}" + (f" (such as {examples})" if examples else ""))
        misfits = sum(not column.fits for column in self.columns)
        if misfits:
            lines += ["", f"{misfits} of {len(self.columns)} columns do not fit the schema.", PUBLIC_SCHEMA]
        else:
            lines += ["", "All columns fit the schema."]
        return "\n".join(printable(line) for text in lines for line in text.split("\n"))


def dry_run(
    source: Any,
    schema: Schema | Domain | str | Path,
    *,
    table: str | None = None,
    query: str | None = None,
    where: str | None = None,
    counts: str | None = None,
    memory_limit: int | str | None = None,
) -> DryRun:
    """How the rows of a source that `hush.read` takes fit a schema; all columns at once.

    `where` selects rows. `counts` names the column that says how many rows each line stands for; it is checked too.

    >>> import pyarrow as pa
    >>> from hush.schema import Integer
    >>> found = dry_run(pa.table({"age": ["17", "18.5", "200"]}), Schema([Integer(name="age", low=0, high=99)]))
    >>> [(values.cause.split(":")[0], values.count) for values in found.columns[0].refused]
    [('fractional values in an integer column', 1), ('values above high = 99', 1)]

    Privacy: reads all rows and shows exact counts and values; for their owner only. It charges no budget and releases
    nothing.
    """
    declared = schema_of(schema)
    connect = partial(DUCKDB.connect, bytes_of(memory_limit) // 2)
    opened = open_source(source, declared, table, query, connect, where=where, counts=counts, partly=True)
    if opened.once:
        raise DataError(f"{opened.name} can be read only once, a dry run reads twice; read it into a table first")
    # Which columns can be read. All parts of a time are refused together, so one part stands for all.
    readable: list[Column] = []
    problems: dict[str, str] = {}
    columns = list({column.source: column for column in reversed(declared.columns)}.values())[::-1]
    for column in columns:
        try:
            encoding_in(opened, 0, column)
            readable.append(column)
        except DataError as error:
            problems[column.name] = str(error)
    # Count how the columns fit; if the counts cannot be read, each line counts as a row.
    counts_fit = None if counts is None else _counts_fit(opened, counts)
    if counts_fit is not None and counts_fit.problem:
        opened = replace(opened, counts=None)
    rows, fits = _counted(opened, readable)
    for name, problem in problems.items():
        fits[name] = ColumnFit(name=declared[name].source, kind=declared[name].source_kind, problem=problem)
    # Add the unit and the counts column.
    ordered = [fits[column.name] for column in columns]
    per_unit = None
    if declared.unit.column is not None:
        ordered.append(_unit_fit(opened, declared.unit.column))
        per_unit = _rows_per_unit(opened, declared.unit) if not ordered[-1].problem else None
    if counts_fit is not None:
        too_many = too_many_rows(counts_fit.name, LARGEST_TOTAL) if rows > LARGEST_TOTAL else ""
        ordered.append(replace(counts_fit, problem=counts_fit.problem or too_many))
    return DryRun(source=opened.name, rows=rows, columns=tuple(ordered), rows_per_unit=per_unit)


def _counted(source: RowSource, columns: Sequence[Column]) -> tuple[int, dict[str, ColumnFit]]:
    """How many rows there are, and the fit of each column that can be read.

    Clamped values are those that the same column would refuse without clamping.
    """

    def rows_where(condition: str) -> str:
        return f"coalesce(sum({LINE_ROWS}) FILTER (WHERE {condition}), 0)"

    # Encode every column, and each that clamps once more without clamping; count four conditions on each.
    strict = {k: twin for k, column in enumerate(columns) if (twin := _without_clamping(column)) is not None}
    encodings = [encoding_in(source, i, column) for i, column in enumerate([*columns, *strict.values()])]
    within = {k: f"k{len(columns) + i}" for i, k in enumerate(strict)}
    sums = [rows_where("true")]
    for k, column in enumerate(columns):
        other, missing = ("NULL" if code is None else str(code) for code in (column.other_code, column.missing_code))
        unclamped = f"{within.get(k, f'k{k}')} IS NOT NULL"
        conditions = (f"k{k} IS NOT NULL", f"k{k} = {other}", f"k{k} = {missing}", unclamped)
        sums += map(rows_where, conditions)
    select = f"SELECT {', '.join(sums)} FROM ({encoded_rows(source, encodings, {LINE_ROWS: _weight(source)})}) AS coded"
    with source.session() as session:
        declare_texts(session, source, encodings)
        rows, *counts = source.dialect.fetch_row(session, select, source.failure)
    # Find the causes of refused values, if a column has some.
    fits = {}
    for k, column in enumerate(columns):
        coded, other_rows, missing_rows, within_rows = counts[4 * k : 4 * k + 4]
        refused: tuple[RefusedValues, ...] = ()
        if coded != rows:
            names, encoding = encoding_in(source, 0, column)
            family = source.dialect.family(source.types[source.position(column.source)])
            carried = {"stored": source.dialect.as_text(names.stored, family), LINE_ROWS: _weight(source)}
            lines = encoded_rows(source, [(names, encoding)], carried)
            select = f"SELECT stored, {LINE_ROWS} FROM ({lines}) AS coded WHERE k0 IS NULL AND {LINE_ROWS} > 0"
            refused = _by_cause(source, select, RefusalCauses(column).of, [(names, encoding)])
        fits[column.name] = ColumnFit(
            name=column.source,
            kind=column.source_kind,
            levels=within_rows - other_rows - missing_rows,
            clamped=coded - within_rows,
            missing=missing_rows,
            other=other_rows,
            refused=refused,
        )
    return rows, fits


def _weight(source: RowSource) -> str:
    """SQL of how many rows a line stands for: its count, or one if the count is refused or there is none."""
    return "1" if source.counts is None else f"coalesce({row_count(source)}, 1)"


def _without_clamping(column: Column) -> Column | None:
    """The column as it would be if it refused what it clamps; None if it clamps nothing."""
    if column.part is not None:
        stamp = column.part.stamp
        if isinstance(stamp, Timestamp) and stamp.clamps:
            return replace(stamp, outside=Outside.REFUSE).column(column.part.name)
    elif isinstance(column, Integer | Numeric | Date) and column.outside is Outside.CLAMP:
        return replace(column, outside=Outside.REFUSE)
    return None


def _by_cause(
    source: RowSource, refused: str, cause_of: Callable[[str | None], str], encodings: Sequence[tuple[Names, Encoding]]
) -> tuple[RefusedValues, ...]:
    """The refused values that a SELECT gives with their rows, by cause, the most frequent first."""
    total = f"sum({LINE_ROWS})"
    select = f"SELECT stored, CAST({total} AS VARCHAR) FROM ({refused}) AS refused GROUP BY stored "
    select += f"ORDER BY {total} DESC, stored"
    counts: dict[str, int] = {}
    examples: dict[str, list[str]] = {}
    with source.session() as session:
        declare_texts(session, source, encodings)
        for batch in source.dialect.stream(session, select, BATCH_ROWS, source.failure):
            for text, count in zip(batch.column(0).to_pylist(), map(int, batch.column(1).to_pylist()), strict=True):
                cause = cause_of(text)
                counts[cause] = counts.get(cause, 0) + count
                shown = examples.setdefault(cause, [])
                if text is not None and text.strip() and len(shown) < MOST_EXAMPLES:
                    shown.append(text[:60])
    ordered = sorted(counts, key=lambda cause: -counts[cause])
    return tuple(RefusedValues(cause=cause, count=counts[cause], examples=tuple(examples[cause])) for cause in ordered)


def _counts_fit(source: RowSource, name: str) -> ColumnFit:
    """How many lines have a valid count, and why others have none."""
    try:
        at = source.position(name)
        stored = source.dialect.as_text(f"c{at}", source.dialect.family(source.types[at]))
        rows = encoded_rows(source, [], {COUNT_NAME: row_count(source), "stored": stored, LINE_ROWS: "1"})
    except DataError as error:
        return ColumnFit(name=name, kind="counts", problem=str(error))
    with source.session() as session:
        select = f"SELECT count({COUNT_NAME}) FROM ({rows}) AS coded"
        (valid,) = source.dialect.fetch_row(session, select, source.failure)
    invalid = f"SELECT stored, {LINE_ROWS} FROM ({rows}) AS coded WHERE {COUNT_IS_REFUSED}"
    refused = _by_cause(source, invalid, count_cause, [])
    return ColumnFit(name=name, kind="counts", levels=valid, refused=refused)


def _unit_fit(source: RowSource, name: str) -> ColumnFit:
    """How many rows have an id that was not rounded, and why others have none."""
    try:
        rows = encoded_rows(source, [], {"unit": unit_id(source, name)})
    except DataError as error:
        return ColumnFit(name=name, kind="unit", problem=str(error))
    select = f"SELECT count(*), count(unit), count(*) FILTER (WHERE octet_length(unit) = 0) FROM ({rows}) AS coded"
    with source.session() as session:
        total, present, rounded = source.dialect.fetch_row(session, select, source.failure)
    causes = {
        "rows without an id: fill it in, or leave these rows out": total - present,
        "ids that are too large for floats: store ids as text or integers": rounded,
    }
    refused = tuple(RefusedValues(cause=cause, count=count) for cause, count in causes.items() if count)
    return ColumnFit(name=name, kind="unit", levels=present - rounded, refused=refused)


def _rows_per_unit(source: RowSource, unit: Unit) -> RowsPerUnit:
    """The rows that several values of max_rows would keep: the sum over units of min(rows, max_rows)."""
    caps = sorted({*COMPARED_CAPS, unit.max_rows})
    rows = encoded_rows(source, [], {"unit": unit_id(source, str(unit.column))})
    counted = f"SELECT count(*) AS n FROM ({rows}) AS coded WHERE octet_length(unit) > 0 GROUP BY unit"
    kept = ", ".join(f"CAST(coalesce(sum(CASE WHEN n < {cap} THEN n ELSE {cap} END), 0) AS BIGINT)" for cap in caps)
    with source.session() as session:
        units, *sums = source.dialect.fetch_row(
            session, f"SELECT count(*), {kept} FROM ({counted}) AS u", source.failure
        )
    return RowsPerUnit(
        unit=str(unit.column), max_rows=unit.max_rows, units=units, kept=dict(zip(caps, map(int, sums), strict=True))
    )
