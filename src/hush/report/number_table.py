"""Tables: the numbers behind a picture, and any other list, as an HTML table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from hush.markup import Markup, join, tag
from hush.report.labels import error_text, named, rounded
from hush.report.level_groups import Sums

SHORT = 16  # rows, at most, of a table that is kept on one page


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = (), caption: str | None = None
) -> Markup:
    """A table whose first column names the rows; the columns in `numbers` are set to the right."""
    sides = ["number" if place in numbers else None for place in range(len(heads))]
    head = tag("tr", *(tag("th", text, scope="col", class_=side) for text, side in zip(heads, sides, strict=True)))
    body = [
        tag(
            "tr",
            tag("th", cells[0], scope="row", class_=sides[0]),
            *(tag("td", text, class_=side) for text, side in zip(cells[1:], sides[1:], strict=True)),
        )
        for cells in rows
    ]
    inner = [tag("caption", caption) if caption else None, tag("thead", head), tag("tbody", *body)]
    kind = "short" if len(body) <= SHORT else None
    return tag("div", tag("table", *inner, class_=kind), class_="scroll")


def numbers_of(sums: Sums) -> Markup:
    """The numbers of a one- or two-way picture, folded away until asked for."""
    body = _one_way(sums) if sums.estimate.ndim == 1 else _two_way(sums)
    return tag("details", tag("summary", "The numbers"), body)


def interval_text(low: float, high: float, error: float) -> str:
    """An interval in words; nothing where no error is known."""
    return f"{rounded(low, error)} to {rounded(high, error)}" if math.isfinite(error) else ""


def bound_text(low: float, high: float) -> str:
    """An interval that follows from a bound, to whole numbers; nothing where none is known."""
    whole = math.isfinite(low) and math.isfinite(high)
    return f"{rounded(math.floor(low), math.nan)} to {rounded(math.ceil(high), math.nan)}" if whole else ""


def _one_way(sums: Sums) -> Markup:
    rows = [
        (
            named(label),
            rounded(sums.estimate[place], sums.std_error[place]),
            error_text(sums.std_error[place]),
            interval_text(sums.lower[place], sums.upper[place], sums.std_error[place]),
        )
        for place, label in enumerate(sums.groupings[0].labels)
    ]
    return table((named(sums.names[0]), "estimate", "standard error", "95 % interval"), rows, numbers=(1, 2, 3))


def _two_way(sums: Sums) -> Markup:
    first, second = sums.groupings
    heads = (join(named(sums.names[0]), " \\ ", named(sums.names[1])), *(named(label) for label in second.labels))
    rows = [
        (named(label), *(rounded(value, error) for value, error in zip(*pair, strict=True)))
        for label, *pair in zip(first.labels, sums.estimate, sums.std_error, strict=True)
    ]
    return table(heads, rows, numbers=range(1, len(heads)), caption=f"Estimates; {errors_of(sums)}.")


def errors_of(sums: Sums) -> str:
    """The standard errors of a picture in a few words."""
    known = sums.std_error[np.isfinite(sums.std_error)]
    if not known.size:
        return "no standard error is known"
    low, high = float(known.min()), float(known.max())
    if high <= 1.005 * low:
        return f"standard error {error_text(high)}"
    return f"standard errors {error_text(low)} to {error_text(high)}"
