"""Ways to count: which statements an engine is asked, and how long each way is predicted to take.

    separate   a GROUP BY for each scan
    sets       one GROUP BY of all scans by GROUPING SETS
    unpivot    one GROUP BY over a line for each scan of each row
    stream     no GROUP BY: coded columns are sent to the kernels

The prediction decides about speed alone: every way gives the same counts. It is

    statements * start + rows * (passes * (read + coding + cap) + scans * per_scan + sent * ship) + cells * per_cell

nanoseconds, with the scans that `plan_scans` merges at the way's own costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hush.tables.scan_plan import GROUPING_SETS, KERNEL, Costs, ScanPlan


class Way(StrEnum):
    """How an engine's rows are counted."""

    SEPARATE = "separate"
    SETS = "sets"
    UNPIVOT = "unpivot"
    STREAM = "stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCosts:
    """Predicted nanoseconds of one engine, measured by `benchmarks.engines`; they affect speed only."""

    start: float  # of a statement, until its first row
    read: float  # a row
    text: float  # coding a text
    value: float  # coding a value that is no text
    cap: float  # a row, where units have ids: it is sorted
    ship: float  # a coded value, sent
    scans: Mapping[Way, Costs]  # of each way that the engine has

    def predicted(
        self, way: Way, plan: ScanPlan, *, rows: float, coding: Sequence[float], capped: bool, passes: int = 1
    ) -> float:
        """Nanoseconds of a way; `coding` are those of each column of the plan."""
        costs, scans = self.scans[way], len(plan.scans)
        fixed = self.read + (self.cap + sum(coding) if capped else 0.0)
        if way is Way.SEPARATE:
            used = plan.scans[plan.scans >= 0].tolist()
            passed = scans * fixed + (0.0 if capped else sum(coding[column] for column in used))
            statements = scans
        else:
            passed = passes * (fixed + (0.0 if capped else sum(coding)))
            statements = passes
        sent = len(coding) * self.ship if way is Way.STREAM else 0.0
        cells = float(plan.scan_cells.clip(max=int(max(rows, 1))).sum()) * costs.per_cell
        return statements * self.start + rows * (passed + scans * costs.per_row + sent) + cells


EMBEDDED = EngineCosts(
    start=1e6, read=1.0, text=8.0, value=4.0, cap=150.0, ship=1.0, scans={Way.SETS: GROUPING_SETS, Way.STREAM: KERNEL}
)
