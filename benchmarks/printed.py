"""What a printed table is: its numbers, our numbers, and what differs and why.

A printed number is in the document. A recomputed number follows from the document's formulas, computed without
hush; it is given where the document prints no number, or a wrong one. Our number comes from hush.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

DIFFERENCE = 0.01  # relative; larger ones are marked
NAN = math.nan


class Row(NamedTuple):
    """One number of a table, by its name."""

    name: str
    printed: float | str | None
    recomputed: float | None
    ours: float


@dataclass(frozen=True, slots=True)
class Options:
    """What a run of the tables may use."""

    quick: bool = False
    data: Path | None = None


@dataclass(frozen=True, kw_only=True)
class PrintedTable:
    """A table or figure of a document that hush recomputes."""

    document: str  # 000 to 004, see `DOCUMENTS`
    place: str  # the table, figure or section
    title: str
    rows: Callable[[Options], Iterable[Row]]
    seconds: float  # of the whole table, about
    quick_seconds: float | None = None  # None: not part of a quick run
    unit: str = ""
    note: str = ""  # what differs, and why
    needs_data: bool = False
    less_is_better: bool = False  # a smaller number of ours is then no difference to mark
    random: bool = False  # one run or a few of something random, so that no difference is marked


DOCUMENTS = {
    "000": "McKenna, HDMM, Private-PGM and AIM (dissertation)",
    "001": "McKenna et al., AIM",
    "002": "Li, the matrix mechanism and DAWA (dissertation)",
    "003": "Avent, hybrid trust, DPareto and RAP (dissertation)",
    "004": "Xiao et al., ResidualPlanner",
}


def grid(
    names: Sequence[str], columns: Sequence[str], printed: Sequence[Sequence[float]], ours: Callable[[int, int], float]
) -> Iterator[Row]:
    """The numbers of a table with rows and columns, cell by cell; NaN where nothing is printed."""
    for i, name in enumerate(names):
        for j, column in enumerate(columns):
            value = printed[i][j]
            yield Row(f"{name}, {column}", None if math.isnan(value) else value, None, ours(i, j))


def differs(row: Row, table: PrintedTable) -> bool:
    """Whether ours is off from both the printed and the recomputed number, by more than a printed number is rounded."""
    if isinstance(row.printed, str) and not table.random and not math.isnan(row.ours):
        relation, _, bound = row.printed.partition(" ")
        holds = {"<": row.ours < float(bound), ">": row.ours > float(bound)} if relation in ("<", ">") else {}
        return not holds.get(relation, True)
    known = [value for value in (row.printed, row.recomputed) if isinstance(value, int | float)]
    if table.random or not known or math.isnan(row.ours):
        return False
    gaps = [row.ours - value if table.less_is_better else abs(row.ours - value) for value in known]
    return all(gap > max(DIFFERENCE * abs(value), _rounding(value)) for gap, value in zip(gaps, known, strict=True))


def _rounding(value: float) -> float:
    """Half of the last printed digit."""
    digits = f"{value!r}".partition("e")[0].partition(".")[2]
    return 0.5000001 * 10.0 ** -len(digits) if 1e-4 <= abs(value) < 1e6 and digits != "0" else 0.0


def number(value: float | str | None, digits: int = 5) -> str:
    """So many digits, all of a whole number, or a dash."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 10.0 ** (digits - 1) else f"{value:.{digits}g}"
