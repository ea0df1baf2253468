"""Engine tables: rows that an engine counts, in the way that is predicted to be fastest for each call."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hush.core.arrays import Integers
from hush.core.domain import Clique
from hush.core.errors import DataError, SizeError
from hush.schema import Column, Schema
from hush.tables.counted_tables import MemoryTable, SourceTable, line_bytes
from hush.tables.counting import as_numpy, fold_cliques, split_results
from hush.tables.dialects.dialect import Dialect, Family
from hush.tables.rows_per_unit import CappedRows
from hush.tables.scan_plan import ScanPlan, Way, plan_scans
from hush.tables.sources import COUNT_NAME, RowSource
from hush.tables.summing import sum_values
from hush.tables.table import CoarseTable, Counts, Progress

if TYPE_CHECKING:
    from hush.privacy.sum_query import SumQuery

BATCH_ROWS = 2**17
WIRE_FACTOR = 2  # an engine without unsigned integers sends twice as many bytes
REFUSED_KEY = -1  # the key of a row with a refused value
SQL_WAYS = (Way.SEPARATE, Way.SETS, Way.UNPIVOT)


class EngineTable(SourceTable):
    """Counts in its engine, or from coded columns that the engine sends, whichever is predicted to be faster.

    Each scan of the plan has one key, the number of the cell. Within `snapshot` the coded rows are held in memory, if
    they fit into half of the memory limit: `check` then reads the rows once, and all counts are taken from the held
    ones. An engine that keeps the coded rows itself sends them only if that is predicted to be fastest.

    Privacy: see `Table`. Only counts, or codes, leave the engine; codes stay in memory.
    """

    def __init__(
        self,
        source: RowSource,
        schema: Schema,
        *,
        ways: Sequence[Way] = tuple(Way),
        memory_limit: int,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(source, schema, memory_limit=memory_limit, progress=progress)
        self._ways = tuple(way for way in ways if way in source.dialect.costs.scans)
        self._held: MemoryTable | None = None
        self._summed: tuple[Column, ...] = ()  # columns whose numbers the engine keeps too
        self.way: Way | None = None  # of the last call of `counts`

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        try:
            with super().snapshot():
                yield
        finally:
            if not self._depth:
                self._held, self._summed = None, ()

    @property
    def _kept(self) -> bool:
        """Whether the engine keeps the coded rows of all columns, until the snapshot ends."""
        return self._depth > 0 and self._source.dialect.keeps

    def _capped_rows(self, cliques: Sequence[Clique]) -> CappedRows:
        if self._kept:
            return CappedRows(self._source, self.schema, self.schema.columns, numbers=self._summed, keep=True)
        return super()._capped_rows(cliques)

    @property
    def _fits(self) -> bool:
        """Whether the coded rows are known to fit into half of the memory limit and into a result of the engine."""
        rows, most = self._source.rows, self._source.dialect.most_collected
        size = math.inf if rows is None else rows * line_bytes(self.schema.columns, self._source.counts)
        return size <= self._memory_limit // 2 and (most is None or WIRE_FACTOR * size <= most)

    @property
    def sends(self) -> bool:
        return self._source.dialect.most_collected is None or self._fits

    def coarse(self, codes: Mapping[str, Integers]) -> CoarseTable:
        return super().coarse(codes) if self._held is None else self._held.coarse(codes)

    def _check_rows(self) -> None:
        if self._kept:
            # Check the rows that the engine keeps from now on, and note how many there are.
            rows, dialect = self._capped_rows(()), self._source.dialect
            self._total = rows.check_all()
            with rows.session() as session:
                count = f"SELECT count(*) FROM ({rows.selected(session)}) AS coded"
                (lines,) = dialect.fetch_row(session, count, self._source.failure)
            self._source = replace(self._source, rows=float(lines))
        elif not (self._depth and self._fits and Way.STREAM in self._ways and self._hold()):
            with self._source.snapshot():
                super()._check_rows()

    def _hold(self) -> bool:
        """Hold the coded rows in memory; False if there are more than the engine estimated."""
        try:
            held = MemoryTable.load(
                self._source,
                self.schema,
                memory_limit=self._memory_limit,
                rows=self._capped_rows([self.domain.attributes]),
            )
        except SizeError:
            return False
        self._held, self._total = held, held._total
        return True

    def _count(self, cliques: Sequence[Clique], progress: Progress | None) -> dict[Clique, Counts]:
        if self._held is not None:
            return self._held._count(cliques, progress)
        if self._source.dialect.keeps and not self._depth:
            # If the call takes several statements, let the engine keep the coded rows between them.
            way, plan = self.choose(cliques)
            at_once = 1 if way is Way.SEPARATE else self._source.dialect.most_keys
            statements = 1 if way is Way.STREAM else -(-len(plan.scans) // at_once)
            if statements + (self._source.counts is not None) > 1:
                with self.snapshot():
                    return self._count(cliques, progress)
        with self._source.snapshot():
            if self._source.counts is not None:
                self.check()  # if a sum of counts overflows, an engine does not say why it fails
            self.way, plan = self.choose(cliques)
            if self.way is Way.STREAM and self._kept and self._fits and self._hold():
                return self._count(cliques, progress)
            if self.way is Way.STREAM:
                return self.streamed(cliques, progress)
            return self._grouped(cliques, plan, self.way, progress)

    def require_sums(self, queries: Sequence[SumQuery]) -> None:
        super().require_sums(queries)
        if self._kept and not self._checked:
            names = {query.grid.column for query in queries} | {column.name for column in self._summed}
            self._summed = tuple(column for column in self.schema if column.name in names)

    def _sum(self, queries: Sequence[SumQuery]) -> dict[SumQuery, Counts]:
        return sum_values(self._source, self.schema, queries, kept=self._summed if self._kept else ())

    def choose(self, cliques: Sequence[Clique], ways: Sequence[Way] | None = None) -> tuple[Way, ScanPlan]:
        """The way of least predicted time, and its plan of scans; reads no row."""
        predicted = self.predict(cliques, ways)
        fastest = min(predicted, key=lambda way: predicted[way][0])
        return fastest, predicted[fastest][1]

    def predict(
        self, cliques: Sequence[Clique], ways: Sequence[Way] | None = None
    ) -> dict[Way, tuple[float, ScanPlan]]:
        """The nanoseconds that each way is predicted to take, and its plan of scans; reads no row."""
        rows = self._capped_rows(cliques)
        source, names = self._source, [column.name for column in rows.columns]
        engine, lines = source.dialect.costs, self._rows
        families = [source.dialect.family(source.types[source.position(column.source)]) for column in rows.columns]
        coding = [engine.text if family is Family.TEXT else engine.value for family in families]
        if self._kept:
            coding = [0.0] * len(coding)
        positions = [[names.index(name) for name in clique] for clique in cliques]
        able = [way for way in self._ways if way is not Way.STREAM or self.sends]
        predicted = {}
        for way in (able or self._ways) if ways is None else ways:
            plan = plan_scans(self.domain.sizes(names), positions, rows=lines, costs=engine.scans[way])
            passes = 1 if way is Way.STREAM else -(-len(plan.scans) // source.dialect.most_keys)
            capped = self.unit.column is not None and not self._kept
            time = engine.predicted(way, plan, rows=lines, coding=coding, capped=capped, passes=passes)
            predicted[way] = time, plan
        return predicted

    def _grouped(
        self, cliques: Sequence[Clique], plan: ScanPlan, way: Way, progress: Progress | None
    ) -> dict[Clique, Counts]:
        """Counts by GROUP BY; one statement for a few hundred scans."""
        rows, dialect = self._capped_rows(cliques), self._source.dialect
        counters = np.zeros(int(plan.scan_cells.sum()), np.int64)
        at_once = 1 if way is Way.SEPARATE else dialect.most_keys
        with rows.session() as session:
            for first in range(0, len(plan.scans), at_once):
                numbers = range(first, min(first + at_once, len(plan.scans)))
                weight = None if self._source.counts is None else COUNT_NAME
                query = statement(way, plan, numbers, rows, dialect, weight, rows.selected(session))
                batches = dialect.stream(session, query, BATCH_ROWS, self._source.failure)
                if not all(add(plan, batch, counters) for batch in batches):
                    rows.check_all()
                    raise DataError(f"{self._source.name} changed while it was read; count again when it is at rest")
                if progress is not None:
                    progress(numbers.stop / len(plan.scans))
        results = np.empty(int(plan.cells.sum()), np.int64)
        fold_cliques(plan, counters, results)
        return dict(zip(cliques, split_results(plan, results), strict=True))


def statement(
    way: Way,
    plan: ScanPlan,
    numbers: range,
    rows: CappedRows,
    dialect: Dialect,
    weight: str | None = None,
    selected: str | None = None,
) -> str:
    """The statement that counts some scans; its lines are the number of a scan, of a cell, and the rows in that cell.

    `selected` is the SQL of the rows if the engine keeps them.
    """
    keys = {number: key_of(plan, number) for number in numbers}
    used = sorted({int(column) for number in numbers for column in plan.scans[number] if column >= 0})
    codes = "".join(f"k{column}, " for column in used) + ("" if weight is None else f"{weight}, ")
    coded = f"SELECT {codes}{rows.refused_by(used)} AS refused FROM ({selected or rows.sql}) AS capped {dialect.fence}"
    if way is Way.SETS:
        return dialect.grouped_counts(keys, coded, weight)
    if way is Way.UNPIVOT:
        return dialect.unpivoted_counts(keys, coded, weight)
    return dialect.separate_counts(numbers.start, keys[numbers.start], coded, weight)


def key_of(plan: ScanPlan, number: int) -> str:
    """SQL of the number of a row's cell in a scan."""
    key = "CAST(0 AS BIGINT)"
    for attribute in plan.scans[number, : plan.scan_lengths[number]].tolist():
        key = f"({key} * {plan.sizes[attribute]} + k{attribute})"
    return f"CASE WHEN refused THEN {REFUSED_KEY} ELSE {key} END"


def add(plan: ScanPlan, batch: pa.RecordBatch, counters: Counts) -> bool:
    """Add the counts of a batch to the counters; False if one of them is of refused rows."""
    scans, cells, rows = (as_numpy(batch.column(position)) for position in range(3))
    if not len(scans):
        return True
    if cells.min() < 0 or bool((cells >= plan.scan_cells[scans]).any()):
        return False
    counters[plan.scan_offsets[scans] + cells] += rows
    return True
