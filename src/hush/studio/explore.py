"""Explore: a release as pages, for its owner and for the public: tables with charts, SQL, rows, privacy.

Every page here is post-processing of a release and costs nothing. Questions come in the address (GET), so a page can be
kept and shared.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hush.core.errors import HushError, QueryError, SizeError, WorkloadError, shown
from hush.release.release import Release
from hush.render.html_page import fact_list, page_table
from hush.render.labels import named, readable
from hush.render.markup import Markup, join, tag
from hush.report.figures import figure_of
from hush.report.page import promise
from hush.report.questions import covered, identifier, literal
from hush.schema import Schema
from hush.studio.layout import NO_COLUMN, ORDINALS, meaning, notice, select, text_field

MOST_CELLS = 100_000  # of a table that is asked for on a page
MOST_SHOWN_ROWS = 200  # of answers on a page
TABLE_HINT = "Choose up to four columns. One or two columns are drawn as a chart too."
LONGEST_QUERY = 4096  # characters
MOST_COMPLETIONS = 5000  # names and values for the completion of SQL
MOST_LEVELS_COMPLETED = 40  # of a column
DEFAULT_ROWS = 1000
NO_TABLE = (
    'The release has no table of these columns together. The list "All tables that can be asked", below, has those '
    "that it has; synthetic rows answer any other question, but without an interval."
)
EXAMPLE_SQL = "SELECT COUNT(*) FROM t"


@dataclass(frozen=True, kw_only=True)
class ExploredRelease:
    """A release, the address of its pages, and how many rows may be drawn at once."""

    release: Release
    base: str  # of the addresses of its pages, without a slash at the end
    most_rows: int

    @property
    def schema(self) -> Schema:
        """Its columns."""
        return self.release.schema

    @cached_property
    def promise(self) -> Markup:
        """What it promises to one person, and warnings; the same on every page."""
        release = self.release
        warnings = [notice(warning) for warning in release.statement.warnings]
        if not release.complete:
            warnings.append(notice("The release was interrupted; what was measured until then is good."))
        return join(*warnings, tag("p", promise(release), class_="lead"))

    @cached_property
    def papers(self) -> Markup:
        """Its report, its statement, and the tables that can be asked; the same on every page."""
        report = tag(
            "p", tag("a", "Read the report", href=f"{self.base}/report", id="report"), ", to read or to print."
        )
        statement = fact_list(self.release.statement_lines())
        return tag(
            "section",
            tag("h2", "Report and privacy statement"),
            report,
            tag("details", tag("summary", "The privacy statement"), statement, id="statement"),
            tag("details", tag("summary", "All tables that can be asked"), covered(self.release)),
        )


def explore_markup(explored: ExploredRelease, query: Mapping[str, str]) -> Markup:
    """The page of a release: what it promises, a table that was asked for, a query that was asked, its rows."""
    return join(
        explored.promise,
        table_section(explored, query),
        sql_section(explored, query),
        rows_section(explored),
        explored.papers,
    )


def table_section(explored: ExploredRelease, query: Mapping[str, str]) -> Markup:
    """Choose columns; the table over them as a picture and as numbers with intervals."""
    names = list(explored.release.domain)
    chosen = columns_of(query.get("columns", ""))
    fields = [
        select(
            "column",
            [("", nothing), *((name, name) for name in names)],
            chosen[index] if index < len(chosen) else "",
            aria_label=f"{ordinal} of the table",
        )
        for index, (ordinal, nothing) in enumerate(zip(ORDINALS, NO_COLUMN, strict=True))
    ]
    ask = tag("button", "Show the table", type="submit")
    choose = tag(
        "form", tag("div", *fields, ask, class_="row"), method="get", action=explored.base or "/", class_="ask"
    )
    content = tag("p", TABLE_HINT, class_="hint")
    if chosen:
        content = answered(lambda: table_markup(explored.release, chosen), "table")
    return tag("section", tag("h2", "Tables"), meaning("interval"), choose, content, id="tables")


def table_markup(release: Release, columns: Sequence[str]) -> Markup:
    """A table as a picture, if it has one or two columns, and as numbers."""
    answers = release.marginal(*checked_table(release, columns))
    figure = figure_of(release, tuple(columns), 1)
    numbers = tag("div", answers.cells(MOST_SHOWN_ROWS).html(page=True), class_="scroll", tabindex="0")
    return join(tag("div", figure, class_="picture") if figure is not None else None, numbers)


def checked_table(release: Release, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of a table, known, at most a few, and with not too many cells."""
    if not columns:
        raise QueryError("name the columns of the table, such as age,sex")
    clique = release.domain.check(tuple(dict.fromkeys(columns)))
    cells = math.prod(release.domain.sizes(clique))
    if cells > MOST_CELLS:
        raise SizeError(
            f"the table has {cells:,} cells: at most {MOST_CELLS:,} are shown; ask for fewer columns, or SQL with WHERE"
        )
    return clique


def sql_section(explored: ExploredRelease, query: Mapping[str, str]) -> Markup:
    """A query, its answer, and names to complete it with."""
    text = query.get("sql", "")
    area = tag(
        "textarea",
        text or EXAMPLE_SQL,
        name="sql",
        id="sql",
        rows="3",
        spellcheck="false",
        autocomplete="off",
        data_words=f"{explored.base}/words.json",
        aria_describedby="sql-hint",
    )
    label = tag("label", "A counting query in SQL", for_="sql")
    hint = tag(
        "p",
        "Names of columns and values are completed as you type; the Tab key takes a suggestion.",
        class_="hint",
        id="sql-hint",
    )
    ask = tag("button", "Ask", type="submit", id="ask")
    form = tag("form", label, area, hint, ask, method="get", action=f"{explored.base or '/'}#query", class_="ask")
    answer = answered(lambda: sql_markup(explored.release, text), "answer") if text else None
    return tag("section", tag("h2", "SQL"), form, answer, id="query")


def sql_markup(release: Release, text: str) -> Markup:
    """The answer to a query."""
    if len(text) > LONGEST_QUERY:
        raise QueryError(f"the query has {len(text):,} characters: at most {LONGEST_QUERY:,} are possible; shorten it")
    return tag("div", release.sql(text).cells(MOST_SHOWN_ROWS).html(page=True), class_="scroll", tabindex="0")


def rows_section(explored: ExploredRelease) -> Markup:
    """Synthetic rows to download."""
    hint = (
        f"At most {explored.most_rows:,} at a time. Do not compute standard errors as if these rows were real "
        "people: the errors would be too small."
    )
    form = tag(
        "form",
        text_field("rows", "How many rows", str(min(DEFAULT_ROWS, explored.most_rows)), hint=hint, inputmode="numeric"),
        tag("button", "Download CSV", type="submit", formaction=f"{explored.base}/rows.csv"),
        tag("button", "Download Parquet", type="submit", formaction=f"{explored.base}/rows.parquet", class_="plain"),
        method="get",
        action=f"{explored.base}/rows.csv",
    )
    return tag("section", tag("h2", "Synthetic rows"), meaning("synthetic"), form, id="rows-section")


def answered(answer: Callable[[], Markup], what: str) -> Markup:
    """An answer, or why there is none."""
    try:
        return tag("div", answer(), id=what, class_="answer")
    except WorkloadError:
        return tag("div", notice(NO_TABLE), id=what)
    except HushError as error:
        return tag("div", notice(str(error)), id=what)


def columns_of(text: str) -> list[str]:
    """The columns of a text: between commas, or in JSON if a name has a comma."""
    if text.startswith("["):
        try:
            names = json.loads(text)
        except (ValueError, RecursionError):
            names = None
        if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise QueryError(
                f'columns={shown(text)}: expected names between commas, or a list in JSON such as ["a", "b"]'
            )
        return list(names)
    return [name.strip() for name in text.split(",") if name.strip()]


def completion_words(schema: Schema) -> list[str]:
    """What the completion of SQL suggests: names of columns and values, as SQL spells them."""
    words = [identifier(column.name) for column in schema]
    words += ["SELECT", "COUNT(*)", "FROM t", "WHERE", "GROUP BY", "ORDER BY", "AVG(", "SUM(", "MEDIAN(", "BETWEEN"]
    for column in schema:
        if column.kind == "categorical":
            words += [literal(column.value(code)) for code in range(min(column.levels, MOST_LEVELS_COMPLETED))]
    return list(dict.fromkeys(words))[:MOST_COMPLETIONS]


def asked_rows(text: str, most: int) -> int:
    """A number of rows that was asked for."""
    if not (text.isascii() and text.isdigit() and len(text) < 12 and 1 <= int(text) <= most):
        raise QueryError(f"rows={shown(text)}: expected a whole number from 1 to {most:,}")
    return int(text)


def drawn_rows(release: Release, rows: int, form: str, seed: int | None = None) -> bytes:
    """Synthetic rows as a file of CSV or Parquet; the same seed gives the same rows."""
    from hush.schema.number_spelling import spelled_numbers

    drawn = release.synthesize(rows, seed=seed)
    sink = io.BytesIO()
    if form == "parquet":
        from pyarrow.parquet import write_table

        write_table(drawn, sink)
        return sink.getvalue()
    from hush.files.csv_cells import csv_bytes

    return csv_bytes(spelled_numbers(drawn, release.schema.spellings))


def columns_markup(schema: Schema) -> Markup:
    """The columns of a release, with their kinds."""
    rows = [(named(column.name, 60), column.kind, f"{column.size:,}") for column in schema]
    return page_table(("column", "kind", "levels"), rows, numbers=(2,))


def release_title(name: str) -> str:
    """The name of a release as a heading."""
    return readable(name, 80)
