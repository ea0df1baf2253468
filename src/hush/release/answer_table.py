"""Answers as an aligned table of plain text, at most 80 cells wide.

Answers as an HTML table, for notebooks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from rich.cells import cell_len, chop_cells, set_cell_size

from hush.arrays import Floats
from hush.errors import printable
from hush.release.answer_columns import Basis, Quantity

if TYPE_CHECKING:
    from hush.release.answers import Answers

WIDTH = 80
ROWS = 20
GAP = 2  # between columns
SHORTEST_LABEL = 8
LONGEST_VALUE = 60
NO_NUMBER = "n/a"
SAID = {
    Basis.EXACT: "exact",
    Basis.APPROXIMATE: "approximate (delta method)",
    Basis.BOUND: "an upper bound",
}
Cells = list[str]  # a column: its heading, then one text per row


def text_table(answers: Answers, width: int = WIDTH, rows: int = ROWS) -> str:
    """The first rows, what the errors are, and the notes."""
    shown = min(len(answers), rows)
    labels = [label_cells(answers, place, shown) for place in range(len(answers.groups))]
    values = [_value_cells(quantity, shown) for quantity in answers.quantities]
    intervals = [
        interval_cells(answers, quantity, shown) if has_errors(quantity) else None for quantity in answers.quantities
    ]
    names = [printable(name) for name in (*(group.name for group in answers.groups), *answers.names)]
    columns, left_out = _fit(labels, values, intervals, names, width)
    lines = [(" " * GAP).join(line).rstrip() for line in zip(*columns, strict=True)]
    if len(answers) > shown:
        lines.append(f"... {len(answers) - shown:,} more rows")
    if not len(answers):
        lines.append("(no rows)")
    footer = [f"not shown: {', '.join(left_out)}"] if left_out else []
    footer += [error_line(answers), *(f"note: {printable(note)}" for note in answers.notes)]
    return "\n".join([*lines, *(line for text in footer for line in wrapped(text, width))])


def has_errors(quantity: Quantity) -> bool:
    """Whether its errors are known at all; without them only estimates are shown."""
    return quantity.basis is not Basis.NONE or bool(quantity.bounded.any())


def has_std_errors(quantity: Quantity) -> bool:
    """Whether its standard errors are shown: not where all that is known are intervals by a bound."""
    only_bounds = bool(quantity.bounded.any()) and bool(np.isnan(quantity.std_error).all())
    return quantity.basis is not Basis.NONE and not only_bounds


def error_line(answers: Answers) -> str:
    """What stands behind the ± sign, and behind intervals without one."""
    kinds = dict.fromkeys(SAID[quantity.basis] for quantity in answers.quantities if has_std_errors(quantity))
    bounded = [printable(quantity.name) for quantity in answers.quantities if quantity.bounded.any()]
    said = [f"± one standard error, {' or '.join(kinds)}"] if kinds else []
    if bounded:
        whose = f" of {', '.join(bounded)}" if len(answers.quantities) > 1 else ""
        level = f"{100 * answers.level:.6g} %"
        said.append(f"intervals{whose} hold with {level}, by a bound on the error of the whole table")
    return "; ".join(said) or "standard errors are not known"


def label_cells(answers: Answers, place: int, shown: int) -> Cells:
    """A group column: its name, then its labels."""
    group = answers.groups[place]
    return [printable(group.name), *(printable(group.label(row)) for row in range(shown))]


def _value_cells(quantity: Quantity, shown: int) -> Cells:
    """`estimate ± std_error`, aligned at the sign."""
    left, right = value_texts(quantity, shown)
    if not has_std_errors(quantity):
        return [printable(quantity.name), *left]
    wide, narrow = max(map(cell_len, left), default=0), max(map(cell_len, right), default=0)
    return [printable(quantity.name), *(f"{a:>{wide}} ± {b:>{narrow}}" for a, b in zip(left, right, strict=True))]


def value_texts(quantity: Quantity, shown: int) -> tuple[Cells, Cells]:
    """The estimates and standard errors of the first rows as texts."""
    digits = _digits(quantity, shown)
    return (
        [number_text(number, digits) for number in quantity.estimate[:shown]],
        [number_text(number, digits) for number in quantity.std_error[:shown]],
    )


def interval_cells(answers: Answers, quantity: Quantity, shown: int) -> Cells:
    """`lower to upper`, aligned at the word."""
    digits = _digits(quantity, shown)
    lower, upper = ([number_text(x, digits) for x in end[:shown]] for end in answers.interval(quantity))
    wide, narrow = max(map(len, lower), default=0), max(map(len, upper), default=0)
    heading = f"{100 * answers.level:.6g} % interval"
    return [heading, *(f"{a:>{wide}} to {b:<{narrow}}" for a, b in zip(lower, upper, strict=True))]


def _digits(quantity: Quantity, shown: int) -> int:
    errors = quantity.std_error if quantity.margin is None else np.fmax(quantity.std_error, quantity.margin)
    return decimals(quantity.estimate[:shown], errors[:shown])


def decimals(estimates: Floats, std_errors: Floats) -> int:
    """Decimals that show three digits of the typical standard error, or of the estimates where it is zero."""
    known = std_errors[np.isfinite(std_errors) & (std_errors > 0)]
    if not len(known):
        finite = np.abs(estimates[np.isfinite(estimates)])
        if not len(finite) or np.all(finite == np.round(finite)):
            return 0
        known = finite[finite > 0]
    return min(max(2 - math.floor(math.log10(float(np.median(known)))), 0), 12)


def number_text(number: float, digits: int) -> str:
    """A number with thousands separators; with an exponent where it would be too long.

    >>> number_text(1234.56, 1), number_text(-0.001, 1), number_text(3.2e17, 0), number_text(float("nan"), 1)
    ('1,234.6', '0.0', '3.2e+17', 'n/a')
    """
    if not math.isfinite(number):
        return NO_NUMBER if math.isnan(number) else f"{number}"
    if abs(number) >= 1e15 or digits > 9:
        return f"{number:.4g}"
    return f"{round(float(number), digits) + 0.0:,.{digits}f}"


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` cells, the later ones indented."""
    lines = [""]
    for piece in (piece for word in text.split() for piece in chop_cells(word, width - 4)):
        if cell_len(lines[-1]) + 1 + cell_len(piece) > width:
            lines.append(" ")
        lines[-1] += f" {piece}" if lines[-1] else piece
    return lines


def _fit(
    labels: Sequence[Cells],
    values: Sequence[Cells],
    intervals: Sequence[Cells | None],
    names: Sequence[str],
    width: int,
) -> tuple[list[Cells], list[str]]:
    """Padded columns that fit the width, and the names of those left out.

    Intervals go first, then labels are shortened, then the last values and at last the last labels are left out.
    """
    both = [cells for pair in zip(values, intervals, strict=True) for cells in pair if cells is not None]
    if _total([*labels, *both]) <= width:
        return _padded(labels, both), []
    heads, tails = list(labels), [_shortened([cells], LONGEST_VALUE)[0] for cells in values]
    while _total([*(_shortened([cells], SHORTEST_LABEL)[0] for cells in heads), *tails]) > width:
        if len(tails) > 1:
            tails.pop()
        else:
            heads.pop()
    left_out = [*names[len(heads) : len(labels)], *names[len(labels) + len(tails) :]]
    return _padded(_shortened(heads, width - GAP - _total(tails)), tails), left_out


def _shortened(columns: Sequence[Cells], room: int) -> list[Cells]:
    """The columns with their widest texts cut until all fit the room."""
    widths = [_width(cells) for cells in columns]
    while widths and sum(widths) + GAP * (len(widths) - 1) > room:
        widths[widths.index(max(widths))] -= 1
    return [[_clip(cell, width) for cell in cells] for cells, width in zip(columns, widths, strict=True)]


def _clip(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def _padded(labels: Sequence[Cells], values: Sequence[Cells]) -> list[Cells]:
    left = [[set_cell_size(cell, _width(cells)) for cell in cells] for cells in labels]
    right = [[" " * (_width(cells) - cell_len(cell)) + cell for cell in cells] for cells in values]
    return left + right


def _width(cells: Cells) -> int:
    return max(map(cell_len, cells))


def _total(columns: Sequence[Cells]) -> int:
    return sum(map(_width, columns)) + GAP * (len(columns) - 1)


HTML_ROWS = 50


def html_table(answers: Answers, rows: int = HTML_ROWS) -> str:
    """The first rows, what the errors are, and the notes; every text is escaped."""
    shown = min(len(answers), rows)
    labels = [label_cells(answers, place, shown) for place in range(len(answers.groups))]
    heads = [_tag("th", cells[0], "left") for cells in labels]
    columns = [[_tag("td", cell, "left") for cell in cells[1:]] for cells in labels]
    for quantity in answers.quantities:
        left, right = value_texts(quantity, shown)
        if not has_errors(quantity):
            heads.append(_tag("th", printable(quantity.name), "right"))
            columns.append([_tag("td", cell, "right") for cell in left])
            continue
        heading, *intervals = interval_cells(answers, quantity, shown)
        heads += [_tag("th", printable(quantity.name), "right"), _tag("th", heading, "right")]
        values = [f"{a} ± {b}" for a, b in zip(left, right, strict=True)] if has_std_errors(quantity) else left
        columns.append([_tag("td", cell, "right") for cell in values])
        columns.append([_tag("td", cell, "right") for cell in intervals])
    body = ["<tr>" + "".join(line) + "</tr>" for line in zip(*columns, strict=True)]
    foot = [f"... {len(answers) - shown:,} more rows"] if len(answers) > shown else []
    foot += [error_line(answers), *map(printable, answers.notes)]
    return (
        f"<table><thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(body)}</tbody></table>"
        f"<p>{'<br>'.join(map(escape, foot))}</p>"
    )


def _tag(name: str, text: str, side: str) -> str:
    return f'<{name} style="text-align: {side}">{escape(text.strip())}</{name}>'
