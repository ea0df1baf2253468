"""A table of text cells, with one text renderer for terminals and one HTML renderer for notebooks and pages.

Text keeps to a width. A table that is too wide first loses its optional columns, then folds cells, then clips them.
Last, it drops whole columns from the right, numbers first, and names them below.

Privacy: every cell is made printable, so that no name or label from a file can control a terminal or a page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from rich.cells import cell_len, chop_cells, set_cell_size

from hush.core.errors import printable
from hush.render.markup import Markup, join, tag

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

TEXT_WIDTH = 80
COLUMN_GAP = 2  # between columns
NARROWEST_WIDTHS = {"clip": 8, "fold": 6, "fixed": 60}  # to which columns of a wide table shrink
SHORT_TABLE_ROWS = 16  # a printed page keeps tables of at most this many rows together
NO_NUMBER = "n/a"
Span: TypeAlias = tuple[str, str]  # a text and its style


@dataclass(frozen=True, slots=True, kw_only=True)
class TextColumn:
    """The heading of a column, its alignment, and how its cells are shortened."""

    heading: str = ""
    align: Literal["left", "right", "center"] = "left"
    fit: Literal["fixed", "clip", "fold"] = "fixed"
    optional: bool = False  # left out before anything is shortened
    widest: int | None = None
    style: str = ""  # of rich, such as "bold"


def number_columns(*headings: str) -> tuple[TextColumn, ...]:
    """Columns of numbers."""
    return tuple(TextColumn(heading=heading, align="right") for heading in headings)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """Rows of text cells under their columns, with an optional title above and notes below.

    A cell that is `Markup` goes into HTML as it is; any other is escaped. `more` says how many rows are not shown.

    >>> columns = (TextColumn(heading="table", fit="clip"), *number_columns("cells"))
    >>> TextTable(columns=columns, rows=[("age", "100"), ("sex", "2")], more="... 1 more table", notes=["A note."])
    table  cells
    age      100
    sex        2
    ... 1 more table
    A note.
    """

    columns: Sequence[TextColumn]
    rows: Sequence[Sequence[str]]
    title: str = ""
    more: str = ""
    notes: Sequence[str] = ()

    @classmethod
    def facts(cls, lines: Iterable[tuple[str, str]], style: str = "") -> TextTable:
        """A table of names and facts."""
        columns = (TextColumn(style=style or "bold"), TextColumn(fit="fold", style=style))
        return cls(columns=columns, rows=list(lines))

    @property
    def width(self) -> int:
        """The width at which nothing is shortened."""
        return _total([self._natural(index) for index in range(len(self.columns))])

    @property
    def least_width(self) -> int:
        """The width at which all columns but the optional ones are shown, though shortened."""
        return _total([self._least(index) for index, column in enumerate(self.columns) if not column.optional])

    def text(self, width: int = TEXT_WIDTH) -> str:
        """The table as plain text, in lines of at most `width` cells."""
        return "\n".join("".join(text for text, _ in line).rstrip() for line in self._lines(width))

    def __repr__(self) -> str:
        return self.text()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """The table in the styles and the width of a terminal."""
        from rich.text import Text

        for line in self._lines(options.max_width):
            text = Text.assemble(*line, no_wrap=True, overflow="ignore")
            text.rstrip()
            yield text

    def html(self, *, page: bool = False) -> Markup:
        """The table as HTML: with the classes of a report's `page`, else with styles of its own for a notebook."""
        sides: list[dict[str, str | None]] = [
            {"class_": "number" if column.align == "right" else None}
            if page
            else {
                "style": f"text-align: {column.align}; vertical-align: top"
                + ("; white-space: nowrap" if column.fit == "fixed" else "")
            }
            for column in self.columns
        ]
        heads = [
            tag("th", _shown(column.heading), scope="col" if page else None, **side)
            for column, side in zip(self.columns, sides, strict=True)
        ]
        body = [
            tag(
                "tr",
                *(
                    tag("th", _shown(cell), scope="row", **side) if page and not i else tag("td", _shown(cell), **side)
                    for i, (cell, side) in enumerate(zip(row, sides, strict=True))
                ),
            )
            for row in self.rows
        ]
        table = tag(
            "table",
            tag("caption", _shown(self.title), style=None if page else "text-align: left") if self.title else None,
            tag("thead", tag("tr", *heads)) if any(column.heading for column in self.columns) else None,
            tag("tbody", *body),
            class_="short" if page and len(body) <= SHORT_TABLE_ROWS else None,
        )
        notes = [join(_shown(note)) for note in (self.more, *self.notes) if note]
        return join(table, tag("p", Markup("<br>".join(notes))) if notes else None)

    def _lines(self, width: int) -> Iterator[list[Span]]:
        """Each line as texts with their styles."""
        if self.title:
            yield from ([(line, "bold")] for line in wrapped(printable(self.title), width))
        columns, widths, left_out = self._fitted(width)
        styles = [self.columns[index].style for index in columns]
        if any(column.heading for column in self.columns):
            headings = [self.columns[index].heading for index in columns]
            yield from self._row(columns, headings, widths, ["bold"] * len(columns))
        for row in self.rows:
            yield from self._row(columns, [row[index] for index in columns], widths, styles)
        if self.more:
            yield [(self.more, "")]
        named = [f"not shown: {', '.join(left_out)}"] if left_out else []
        for note in (*named, *self.notes):
            yield from ([(line, "")] for line in wrapped(printable(note), width, indent="  "))

    def _row(
        self, columns: Sequence[int], cells: Sequence[str], widths: Sequence[int], styles: Sequence[str]
    ) -> Iterator[list[Span]]:
        """The lines of one row: as many as its longest cell needs."""
        lines = []
        for index, cell, width in zip(columns, map(printable, cells), widths, strict=True):
            fold = self.columns[index].fit == "fold" and cell_len(cell) > width
            lines.append(wrapped(cell, width) if fold else [clipped(cell, width)])
        for number in range(max(map(len, lines))):
            spans: list[Span] = []
            for i, (index, width, style) in enumerate(zip(columns, widths, styles, strict=True)):
                text = lines[i][number] if number < len(lines[i]) else ""
                spans += [(" " * COLUMN_GAP, "")] if i else []
                free = width - cell_len(text)
                left = {"left": 0, "right": free, "center": free // 2}[self.columns[index].align]
                spans.append((" " * left + text + " " * (free - left), style))
            yield spans

    def _fitted(self, width: int) -> tuple[list[int], list[int], list[str]]:
        """The indices of the columns that fit, their widths, and the names of the others."""
        # Nothing is shortened where everything fits; otherwise optional columns go first.
        natural = [self._natural(index) for index in range(len(self.columns))]
        indices = list(range(len(self.columns)))
        if _total(natural) <= width:
            return indices, natural, []
        indices = [index for index in indices if not self.columns[index].optional]
        least = [self._least(index) for index in range(len(self.columns))]

        # Drop columns from the right, numbers first, until the rest can be shortened to fit; the first number stays.
        kept = list(indices)
        while len(kept) > 1 and _total([least[index] for index in kept]) > width:
            numbers = [index for index in kept if self.columns[index].align == "right"]
            kept.remove(numbers[-1] if len(numbers) > 1 else max(set(kept) - set(numbers[:1])))

        # Shorten the widest column by one until all fit: columns that fold before columns that are clipped.
        widths = [least[index] if self.columns[index].fit == "fixed" else natural[index] for index in kept]
        for fit in ("fold", "clip"):
            flexible = [i for i, index in enumerate(kept) if self.columns[index].fit == fit]
            while _total(widths) > width and any(widths[i] > NARROWEST_WIDTHS[fit] for i in flexible):
                widths[max(flexible, key=widths.__getitem__)] -= 1
        widths = [min(wide, width) for wide in widths]
        return kept, widths, [printable(self.columns[index].heading) for index in indices if index not in kept]

    def _least(self, index: int) -> int:
        return min(self._natural(index), NARROWEST_WIDTHS[self.columns[index].fit])

    def _natural(self, index: int) -> int:
        column = self.columns[index]
        texts = (column.heading, *(row[index] for row in self.rows))
        width = max(cell_len(printable(text)) for text in texts)
        return width if column.widest is None else min(width, column.widest)


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """The text in lines of at most `width` cells, the later ones indented."""
    lines = [""]
    for piece in (piece for word in text.split() for piece in chop_cells(word, width - len(indent))):
        if lines[-1].strip() and cell_len(lines[-1]) + 1 + cell_len(piece) > width:
            lines.append(indent)
        lines[-1] += f" {piece}" if lines[-1].strip() else piece
    return lines


def clipped(text: str, width: int) -> str:
    """The text, cut to a width and marked with an ellipsis."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def fixed_text(number: float, digits: int) -> str:
    """A number with thousands separators; with an exponent where it would be too long.

    >>> fixed_text(1234.56, 1), fixed_text(-0.001, 1), fixed_text(3.2e17, 0), fixed_text(float("nan"), 1)
    ('1,234.6', '0.0', '3.2e+17', 'n/a')
    """
    if not math.isfinite(number):
        return NO_NUMBER if math.isnan(number) else f"{number}"
    if abs(number) >= 1e15 or digits > 9:
        return f"{number:.4g}"
    return f"{round(float(number), digits) + 0.0:,.{digits}f}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> counted(1, "table"), counted(1200, "table"), counted(2, "query", "queries")
    ('1 table', '1,200 tables', '2 queries')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + COLUMN_GAP * (len(widths) - 1)


def _shown(cell: str) -> str:
    return cell if isinstance(cell, Markup) else printable(cell).strip()
