"""SourceTable: a table whose rows stay in their source and are read anew for each count.

StreamTable: rows that stay where they are, counted by the kernels as DuckDB reads and encodes them.

SqlTable: counts answered by the database that holds the rows, with GROUPING SETS.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hush.domain import Clique
from hush.errors import DataError
from hush.schema import Schema
from hush.tables import engine
from hush.tables.counting import Layout, fold_cliques, split_results
from hush.tables.memory_table import encoded_blocks, tally
from hush.tables.rows_per_unit import Selection, check_rows
from hush.tables.scan_plan import GROUPING_SETS, ScanPlan, plan_scans
from hush.tables.sources import Source
from hush.tables.table import Counts, Progress, Table

MANY_ROWS = 1e8  # what a plan assumes of a source that does not say how many rows it has


class SourceTable(Table):
    """What streams and databases share: only the columns that a call asks for are read, and `check` reads all.

    The source must not change between calls.
    """

    def __init__(self, source: Source, schema: Schema, *, memory_limit: int, progress: Progress | None = None) -> None:
        super().__init__(schema, memory_limit=memory_limit, progress=progress)
        self._source = source
        Selection(source, schema, schema.columns)  # every column is there and of a type that can be read

    @property
    def _rows(self) -> float:
        """How many rows a plan of scans should assume."""
        return MANY_ROWS if self._source.rows is None else self._source.rows

    def _selection(self, cliques: Sequence[Clique]) -> Selection:
        """The columns that some cliques need."""
        used = {name for clique in cliques for name in clique} or {self._domain.attributes[0]}
        return Selection(self._source, self._schema, [column for column in self._schema if column.name in used])

    def _check_rows(self) -> None:
        check_rows(self._source, self._schema)


class StreamTable(SourceTable):
    """Reads the source anew for each call of `counts`, in memory that does not grow with its rows.

    Only the columns that a call asks for are read, and checked (all of them, where the unit has an id); `check` reads
    all. The source must not change between calls.

    Privacy: see `Table`.
    """

    def _count(self, cliques: Sequence[Clique], progress: Progress | None) -> dict[Clique, Counts]:
        selection = self._selection(cliques)
        domain = self._domain.project([column.name for column in selection.columns])
        layout = Layout.of([column.dtype for column in selection.columns])
        return tally(domain, cliques, layout, encoded_blocks(selection, layout, progress), rows=self._rows)


BATCH_ROWS = 2**17
MOST_SETS = 256  # grouping sets of one query; there may be thousands of cliques
REFUSED = -1  # the key of a row with a refused value


class SqlTable(SourceTable):
    """One query per few hundred scans; only counts leave the database.

    Each scan of the plan is one grouping set over one key, the number of the cell. The rest is as for `StreamTable`.

    Privacy: see `Table`.
    """

    def _count(self, cliques: Sequence[Clique], progress: Progress | None) -> dict[Clique, Counts]:
        selection = self._selection(cliques)
        names = [column.name for column in selection.columns]
        plan = plan_scans(
            self._domain.sizes(names),
            [[names.index(name) for name in clique] for clique in cliques],
            rows=self._rows,
            costs=GROUPING_SETS,
        )
        counters = np.zeros(int(plan.scan_cells.sum()), np.int64)
        for first in range(0, len(plan.scans), MOST_SETS):
            numbers = range(first, min(first + MOST_SETS, len(plan.scans)))
            if not self._ask(plan, numbers, selection, counters):
                with selection.session() as session:
                    selection.check_all(session)
                raise DataError(f"{self._source.name} changed while it was read; count again when it is at rest")
            if progress is not None:
                progress(numbers.stop / len(plan.scans))
        results = np.empty(int(plan.cells.sum()), np.int64)
        fold_cliques(plan, counters, results)
        return dict(zip(cliques, split_results(plan, results), strict=True))

    def _ask(self, plan: ScanPlan, numbers: range, selection: Selection, counters: Counts) -> bool:
        """Count some of the scans; False where rows are refused."""
        query = grouping_sets(plan, numbers, selection.sql, selection.refused)
        with selection.session() as session:
            batches = engine.stream(session, query, BATCH_ROWS, self._source.failure)
            return all(_add(plan, numbers, batch, counters) for batch in batches)


def grouping_sets(plan: ScanPlan, numbers: range, encoded: str, refused: str) -> str:
    """The query: a column for each scan, of which one is not null: the cell of that scan; and how many rows it has."""
    keys = []
    for number in numbers:
        key = "CAST(0 AS BIGINT)"
        for attribute in plan.scans[number, : plan.scan_lengths[number]].tolist():
            key = f"({key} * {plan.sizes[attribute]} + k{attribute})"
        keys.append(f"CASE WHEN refused THEN {REFUSED} ELSE {key} END AS s{number}")
    names = [f"s{number}" for number in numbers]
    sets = ", ".join(f"({name})" for name in names)
    return (
        f"SELECT {', '.join(names)}, count(*) AS n FROM "
        f"(SELECT {', '.join(keys)} FROM (SELECT *, {refused} AS refused FROM ({encoded}))) "
        f"GROUP BY GROUPING SETS ({sets})"
    )


def _add(plan: ScanPlan, numbers: range, batch: pa.RecordBatch, counters: Counts) -> bool:
    """Add the counts of a batch; False where one belongs to refused rows."""
    found = batch.column(len(numbers))
    offsets = plan.scan_offsets
    for place, number in enumerate(numbers):
        column = batch.column(place)
        chosen = pc.is_valid(column)
        cells = engine.as_numpy(column.filter(chosen))
        if not len(cells):
            continue
        if cells.min() < 0 or cells.max() >= plan.scan_cells[number]:
            return False
        counters[offsets[number] + cells] += engine.as_numpy(found.filter(chosen))
    return True
