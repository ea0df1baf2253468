"""Labels: names and numbers as text on a page, safe for any characters."""

from __future__ import annotations

import math
import unicodedata

from rich.cells import cell_len, set_cell_size

from hush.render.markup import Markup, tag

LONGEST_LABEL = 120
JOINERS = "\u200c\u200d"  # invisible, but words of several scripts and emoji are spelled with them
INVISIBLE = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}  # Unicode categories
ORDER_NAMES = ("the total", "one column", "two columns", "three columns", "four columns", "five columns", "six columns")


def readable(text: str, longest: int = LONGEST_LABEL) -> str:
    r"""The text on one line, cut to a length, with its invisible characters spelled out.

    A mark that changes the direction of writing could rearrange the words around a label.

    >>> readable("a\u202eb\n"), readable("abcdefgh", 5)
    ('a\\u202eb\\n', 'abcd…')
    """
    spelled = "".join(
        mark
        if mark in JOINERS or unicodedata.category(mark) not in INVISIBLE
        else mark.encode("unicode_escape").decode()
        for mark in text[: longest + 1]
    )
    return spelled if cell_len(spelled) <= longest else set_cell_size(spelled, longest - 1).rstrip() + "…"


def named(text: str, longest: int = LONGEST_LABEL) -> Markup:
    """A name or label as an element with its own direction of writing."""
    return tag("bdi", readable(text, longest))


def table_name(clique: tuple[str, ...]) -> Markup:
    """The columns of a table, joined; "total" if there are none."""
    return Markup(" × ".join(named(name, 60) for name in clique)) if clique else Markup("total")


def width(text: str, size: float) -> float:
    """An estimate of the width of a text at a font size, in the same unit; a little too wide for most fonts."""
    return 0.6 * size * cell_len(text)


def compact(number: float) -> str:
    """A number for an axis: separators up to a million, words beyond.

    >>> [compact(x) for x in (0, 0.25, 1500, -250_000, 2_500_000, 3e9, 1e15)]
    ['0', '0.25', '1,500', '-250,000', '2.5M', '3bn', '1e+15']
    """
    if number == 0:
        return "0"
    size = abs(number)
    if size >= 1e12 or size < 1e-3:
        return f"{number:.3g}"
    for unit, name in ((1e9, "bn"), (1e6, "M")):
        if size >= unit:
            return f"{number / unit:.6g}{name}"
    return f"{number:,.6g}"


def rounded(number: float, error: float) -> str:
    """An estimate with no more digits than its standard error supports; whole if the error is above two.

    >>> rounded(1234.56, 12.3), rounded(1.2345, 0.2), rounded(-0.2, 5.0), rounded(float("nan"), 1.0)
    ('1,235', '1.23', '0', 'n/a')
    """
    if not math.isfinite(number):
        return "n/a"
    digits = 0
    if math.isfinite(error) and 0 < error < 2:
        digits = min(1 - math.floor(math.log10(error)), 9)
    return f"{number:.4g}" if abs(number) >= 1e15 else f"{round(number, digits) + 0.0:,.{digits}f}"


def error_text(error: float) -> str:
    """A standard error in three digits, or "not known".

    >>> [error_text(x) for x in (28.0, 1234.5, 0.0, 3.2e16, float("nan"))]
    ['28.0', '1,234', '0', '3.2e+16', 'not known']
    """
    if not math.isfinite(error):
        return "not known"
    if error <= 0 or error >= 1e15:
        return f"{error:.3g}"
    return f"{error:,.{min(max(2 - math.floor(math.log10(error)), 0), 9)}f}"


def order_name(order: int | None) -> str:
    """A number of columns in words."""
    if order is None:
        return "all together"
    return ORDER_NAMES[order] if order < len(ORDER_NAMES) else f"{order} columns"


def interval_text(low: float, high: float, error: float) -> str:
    """An interval in words; empty if no error is known."""
    return f"{rounded(low, error)} to {rounded(high, error)}" if math.isfinite(error) else ""


def bound_text(low: float, high: float) -> str:
    """An interval from a bound, rounded outwards to whole numbers; empty if no bound is known."""
    whole = math.isfinite(low) and math.isfinite(high)
    return f"{rounded(math.floor(low), math.nan)} to {rounded(math.ceil(high), math.nan)}" if whole else ""
