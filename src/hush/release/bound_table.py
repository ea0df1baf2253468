"""BoundTable: error bounds of several tables, as rows and for people."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from rich.cells import cell_len, set_cell_size

from hush.domain import Clique
from hush.printable import printable
from hush.release.text_table import NO_NUMBER, WIDTH, number_text, wrapped

ROWS = 20
GAP = 2
NO_INFORMATION = 2.0  # the share at which tables of as many records have no cell in common
KINDS = {
    "supported": "its noisy values",
    "unsupported": "not being chosen",
    "none": "nothing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBound:
    """A bound on ||true table - model table||_1, in counts; NaN where none is known.

    `kind` is "supported" where the table lies inside a measured one, "unsupported" where it could have been chosen for
    measuring, else "none"; `share` is the bound over the number of records of the model. Two tables of as many records
    that have no cell in common are at a share of 2, so a bound of that or more is "none" too.
    """

    clique: Clique
    kind: str
    bound: float
    share: float


class BoundTable(list[ErrorBound]):
    """Error bounds of several tables; `level` is that of each, or of all together where they are `simultaneous`.

    >>> BoundTable([ErrorBound(clique=("age", "sex"), kind="supported", bound=123.4, share=0.01234)], 0.95)
    table     error at most  of the records  known from
    age, sex            124           1.3 %  its noisy values
    the sum over the cells of a table of |true count - model count| is at most this,
      with 95 % each by itself
    """

    def __init__(self, rows: Iterable[ErrorBound], level: float, simultaneous: bool = False) -> None:
        super().__init__(rows)
        self.level = level
        self.simultaneous = simultaneous

    def to_arrow(self) -> pa.Table:
        """The columns `table, kind, bound, share`; names of a table are joined by commas."""
        return pa.table(
            {
                "table": pa.array([", ".join(row.clique) for row in self], pa.string()),
                "kind": pa.array([row.kind for row in self], pa.string()),
                "bound": pa.array([row.bound for row in self], pa.float64()),
                "share": pa.array([row.share for row in self], pa.float64()),
            }
        )

    def __repr__(self) -> str:
        shown = self[:ROWS]
        columns = [
            ["table", *(printable(", ".join(row.clique)) or "(total)" for row in shown)],
            ["error at most", *(_up(row.bound, 0) for row in shown)],
            ["of the records", *(_percent(row.share) for row in shown)],
            ["known from", *(KINDS[row.kind] for row in shown)],
        ]
        widths = [max(map(cell_len, column)) for column in columns]
        widths[0] = min(widths[0], WIDTH - sum(widths[1:]) - GAP * (len(widths) - 1))
        lines = [
            (" " * GAP).join([_left(name, widths[0]), bound.rjust(widths[1]), share.rjust(widths[2]), kind]).rstrip()
            for name, bound, share, kind in zip(*columns, strict=True)
        ]
        if len(self) > len(shown):
            lines.append(f"... {len(self) - len(shown):,} more tables")
        said = "all together" if self.simultaneous else "each by itself"
        footer = (
            f"the sum over the cells of a table of |true count - model count| is at most this, with "
            f"{100 * self.level:.6g} % {said}"
        )
        without = sum(row.kind == "none" for row in self)
        if without:
            tables = "1 table has" if without == 1 else f"{without:,} tables have"
            footer += f"; {tables} no bound below 200 %, which is as far apart as two tables can be"
        return "\n".join([*lines, *wrapped(footer, WIDTH)])


def _percent(share: float) -> str:
    return NO_NUMBER if math.isnan(share) else f"{_up(100 * share, 1)} %"


def _up(number: float, digits: int) -> str:
    """The number rounded up: a bound must not be shown as less than it is."""
    return number_text(math.ceil(number * 10**digits) / 10**digits if math.isfinite(number) else number, digits)


def _left(text: str, width: int) -> str:
    return set_cell_size(text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…", width)
