"""The section on queries: the tables and columns of a release, how to ask, and examples with answers."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sqlglot.tokens import Tokenizer

from hush.core.errors import HushError
from hush.release.answers import GroupColumn, QueryColumn
from hush.render.html_page import page_table
from hush.render.labels import bound_text, error_text, interval_text, named, order_name, readable, rounded, table_name
from hush.render.markup import Markup, join, lines, tag
from hush.render.text_table import counted
from hush.report.figures import Departure
from hush.report.level_groups import level_label, number_text
from hush.schema import Boolean, Categorical, Column, Date, Integer, Numeric, Outside, Schema
from hush.schema.column import MISSING_LABEL, OTHER_LABEL, Value

if TYPE_CHECKING:
    from hush.release.answers import Answers
    from hush.release.release import Release

MOST_VALUES = 8  # of a column, in the list of columns
MOST_COLUMNS = 200
MOST_CLIQUES = 60
MOST_ANSWER_ROWS = 12
LONGEST_WRITTEN_NAME = 40  # longer names are not written into examples
SQL_KEYWORDS = {word for key in Tokenizer.KEYWORDS for word in key.split()}
PLAIN_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,60}")  # needs no quotes in a terminal
PLAIN_SQL_NAME = re.compile(r"[a-z_][a-z0-9_]*")  # needs no quotes in SQL


def column_table(schema: Schema) -> Markup:
    """One row per column: name, kind, levels, and how other and missing values were counted."""
    rows = []
    for column in schema.columns[:MOST_COLUMNS]:
        missing = f"counted as {MISSING_LABEL}" if column.missing else "refused"
        beyond = "refused" if column.other_code is None else f"counted as {OTHER_LABEL}"
        if isinstance(column, Integer | Numeric | Date) and column.outside is Outside.CLAMP:
            beyond = "counted at the nearer end"
        rows.append((named(column.name), column.kind, levels_of(column), f"{column.size:,}", beyond, missing))
    heads = ("column", "kind", "levels", "size", "any other value", "missing")
    left_out = len(schema) - len(rows)
    caption = f"The first {MOST_COLUMNS} of {len(schema):,} columns." if left_out else ""
    return page_table(heads, rows, numbers=(3,), caption=caption)


def levels_of(column: Column) -> Markup:
    """The ordinary levels in a few words."""
    match column:
        case Integer() if not column.binned:
            return join(f"every integer from {level_label(column, 0)} to {level_label(column, column.levels - 1)}")
        case Integer() | Numeric():
            bins = [code for code in range(column.levels) if not column.is_point(code)]
            first = f", the first {level_label(column, bins[0])}" if bins else ""
            points = "".join(f", and exactly {number_text(column, point)}" for point in column.points)
            ends = " to ".join(number_text(column, end) for end in (column.low, column.high))
            return join(f"{ends} in {counted(len(bins), 'bin')}{first}{points}")
        case Date():
            return join(f"{column.start} to {column.end} by {column.granularity}")
        case _:
            labels = [named(column.label(code), 30) for code in range(min(column.levels, MOST_VALUES))]
            more = column.levels - len(labels)
            return join(Markup(", ".join(labels)), f" and {more:,} more" if more else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A question in words and in SQL, with its answer."""

    question: str
    sql: str
    answers: Answers


@dataclass(frozen=True, slots=True)
class _Condition:
    words: str
    sql: str


def examples(release: Release, columns: Sequence[Departure], pairs: Sequence[Departure]) -> list[Example]:
    """Up to three examples, answered by the release: counts by a category, a range, and two conditions at once."""
    # A name can be written into a query if it is short and has no invisible characters.
    names = [ranked.clique[0] for ranked in columns]
    writable = {name for name in release.domain if readable(name, LONGEST_WRITTEN_NAME) == name}
    shown = [release.schema[name] for name in names if name in writable]
    small = [column for column in shown if column.size <= MOST_ANSWER_ROWS]

    def by_category() -> Iterator[tuple[str, str]]:
        for column in (*(column for column in small if isinstance(column, Categorical)), *small):
            name = identifier(column.name)
            yield f"How many rows by {column.name}?", f"SELECT {name}, COUNT(*) FROM t GROUP BY {name}"

    def in_range() -> Iterator[tuple[str, str]]:
        for kinds in ((Integer, Numeric), (Date,)):
            for column in shown:
                if isinstance(column, kinds) and column.levels >= 4 and (condition := _condition(release, column)):
                    yield f"How many rows have {condition.words}?", f"SELECT COUNT(*) FROM t WHERE {condition.sql}"

    def two_filters() -> Iterator[tuple[str, str]]:
        for ranked in pairs:
            conditions = [_condition(release, release.schema[name]) for name in ranked.clique if name in writable]
            first, second = (*conditions, None, None)[:2]
            if first and second:
                question = f"How many rows have {first.words} and {second.words}?"
                yield question, f"SELECT COUNT(*) FROM t WHERE {first.sql} AND {second.sql}"

    # The first candidate of each kind that the release answers; SQL may be unable to spell a name or value.
    answered = []
    for candidates in (by_category(), in_range(), two_filters()):
        for question, sql in candidates:
            try:
                answered.append(Example(question=question, sql=sql, answers=release.sql(sql)))
                break
            except HushError:
                continue
    return answered


def _condition(release: Release, column: Column) -> _Condition | None:
    """A plausible condition: the most common category, or the middle half of a range."""
    name, low, high = identifier(column.name), column.levels // 4, 3 * column.levels // 4
    if isinstance(column, Boolean):
        return _Condition(f"{column.name} {column.label(1)}", f"{name} = TRUE")
    if isinstance(column, Categorical) or column.levels < 4:
        code = int(np.argmax(release.counts((column.name,))[: column.levels]))
        label = column.label(code)
        if column.binned or readable(label, LONGEST_WRITTEN_NAME) != label:
            return None
        return _Condition(f"{column.name} {label}", f"{name} = {literal(column.value(code))}")
    match column:
        case Integer():
            numbers = (column.ends(low)[0], column.ends(high)[1])
            words, ends = [number_text(column, end) for end in numbers], [literal(end) for end in numbers]
            return _Condition(f"{column.name} from {words[0]} to {words[1]}", f"{name} BETWEEN {ends[0]} AND {ends[1]}")
        case Numeric():
            starts = [column.cut(level)[0] for level in (low, high)]
            words, ends = [number_text(column, start) for start in starts], [literal(start) for start in starts]
            return _Condition(
                f"{column.name} of at least {words[0]} and below {words[1]}",
                f"{name} >= {ends[0]} AND {name} < {ends[1]}",
            )
        case _:
            first = column.value(column.levels // 2)
            return _Condition(f"{column.name} on or after {first}", f"{name} >= {literal(first)}")


def identifier(name: str) -> str:
    """A column's name in SQL, in double quotes if it needs them.

    >>> identifier("age"), identifier("order"), identifier('a "b" c')
    ('age', '"order"', '"a ""b"" c"')
    """
    if PLAIN_SQL_NAME.fullmatch(name) and name.upper() not in SQL_KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def literal(value: Value) -> str:
    """A real value in SQL.

    >>> literal("it's"), literal(True), literal(5000.0), literal(0.25), literal(dt.date(2020, 1, 31))
    ("'it''s'", 'TRUE', '5000', '0.25', "DATE '2020-01-31'")
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case str():
            return "'" + value.replace("'", "''") + "'"


def questions_section(release: Release, examples: Sequence[Example], file_name: str | None = None) -> Markup:
    """Covered tables, columns, example queries with their answers, and how to ask."""
    intro = (
        "You can ask for any count over the columns of one of these tables, or over fewer of them, at no further cost "
        "to privacy, in a terminal or in Python. The table may have any name in FROM; t will do."
    )
    if release.bounded:
        intro = (
            "Any count over the columns of one of these tables, or over fewer of them, has an exact standard error. "
            "The model answers any other combination of columns, with a bound on its error where one is known. Asking "
            "costs no further privacy, in a terminal or in Python. The table may have any name in FROM."
        )
    parts = []
    for example in examples:
        notes = [readable(note, 300) for note in example.answers.notes]
        answer = _answer_table(example.answers) if example.answers.groups else _answer_line(example.answers)
        question, sql = tag("p", readable(example.question, 300)), tag("pre", tag("code", example.sql))
        note = tag("p", " ".join(notes), class_="note") if notes else None
        parts.append(tag("div", question, sql, answer, note, class_="example"))
    file = file_name if PLAIN_FILE_NAME.fullmatch(file_name or "") else "release.hush"
    commands = f'hush query {file} "SELECT ..."\n\nimport hush\nhush.load("{file}").sql("SELECT ...")'
    return lines(
        tag("h2", "What can be asked", id="questions"),
        tag("p", intro),
        tag("pre", tag("code", commands)),
        tag("h3", "Tables"),
        covered(release),
        tag("h3", "Columns"),
        column_table(release.schema),
        tag("h3", "Examples") if examples else None,
        *parts,
    )


def covered(release: Release) -> Markup:
    """The largest tables that can be asked; complete orders in a sentence, others one by one up to a limit."""
    cliques, columns = release.estimates.cliques, len(release.domain)
    if not cliques:
        return tag("p", "None.")
    if len(cliques) == 1 and len(cliques[0]) == columns:
        return tag("p", f"Any combination of the {counted(columns, 'column')}.")
    orders = Counter(len(clique) for clique in cliques)
    whole = {order for order, tables in orders.items() if tables > 1 and tables == math.comb(columns, order)}
    items = [f"Every combination of {order_name(order)}: {counted(orders[order], 'table')}." for order in sorted(whole)]
    rest = [clique for clique in cliques if len(clique) not in whole]
    listed = [table_name(clique) for clique in rest[:MOST_CLIQUES]]
    if len(rest) > MOST_CLIQUES:
        more = Counter(len(clique) for clique in rest[MOST_CLIQUES:])
        counts = [f"{tables:,} more over {order_name(order)}" for order, tables in sorted(more.items())]
        listed.append(join(f"and {', '.join(counts)}"))
    return tag("ul", *(tag("li", item) for item in (*items, *listed)), class_="tables" if listed else None)


def _answer_line(answers: Answers) -> Markup:
    (low,), (high,) = answers.interval(answers.quantities[0])
    (value,), (error,) = answers.quantities[0].estimate, answers.quantities[0].std_error
    count = tag("b", rounded(value, error))
    if interval := interval_text(low, high, error):
        margin = error_text((high - low) / 2)
        return tag("p", count, f" ± {margin} rows: 95 % interval {interval}, standard error {error_text(error)}.")
    bound = f", with 95 % interval {bound_text(low, high)}, from a bound." if math.isfinite(low) else "."
    return tag("p", count, " rows", bound)


def _answer_table(answers: Answers) -> Markup:
    lower, upper = answers.interval(answers.quantities[0])
    value, error = answers.quantities[0].estimate, answers.quantities[0].std_error

    def label(group: GroupColumn | QueryColumn, row: int) -> str:
        return level_label(group.column, int(group.codes[row])) if isinstance(group, GroupColumn) else group.label(row)

    rows = [
        (
            *(named(label(group, row)) for group in answers.groups),
            rounded(value[row], error[row]),
            error_text(error[row]),
            interval_text(lower[row], upper[row], error[row]) or bound_text(lower[row], upper[row]),
        )
        for row in range(min(len(answers), MOST_ANSWER_ROWS))
    ]
    groups = len(answers.groups)
    heads = (*(named(group.name) for group in answers.groups), "count", "standard error", "95 % interval")
    return page_table(heads, rows, numbers=range(groups, groups + 3))
