"""Answers as an HTML table, for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from hush.printable import printable
from hush.release.text_table import error_line, has_errors, has_std_errors, interval_cells, label_cells, value_texts

if TYPE_CHECKING:
    from hush.release.answers import Answers

ROWS = 50


def html_table(answers: Answers, rows: int = ROWS) -> str:
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
