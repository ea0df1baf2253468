"""Counted tables: rows held in memory or streamed from their source, and counted by the kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from hush.core.arrays import Integers
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError, SizeError
from hush.schema import Column, Schema
from hush.tables.counting import Accumulator, Block, Codes, Layout, as_numpy
from hush.tables.rows_per_unit import CappedRows
from hush.tables.scan_plan import plan_scans
from hush.tables.sources import BYTES_PER_COUNT, RowSource
from hush.tables.table import CoarseTable, Counts, Progress, Table, check_counts, in_given_order

MOST_BLOCK_ROWS, MOST_BLOCK_BYTES = 2**19, 2**25


class MemoryTable(Table):
    """Codes in the smallest unsigned type of each column, counted by the kernels; the fastest for repeated counts.

    Privacy: holds the encoded rows; see `Table`.
    """

    def __init__(
        self,
        schema: Schema,
        blocks: Sequence[Block],
        *,
        memory_limit: int,
        progress: Progress | None = None,
        source: RowSource | None = None,
    ) -> None:
        super().__init__(schema, memory_limit=memory_limit, progress=progress)
        self._blocks = tuple(blocks)
        self._source = source
        self._layout = Layout.of([column.dtype for column in schema])
        if source is not None and source.counts is not None:
            self._total = sum(block.total for block in self._blocks)

    @classmethod
    def load(
        cls,
        source: RowSource,
        schema: Schema,
        *,
        memory_limit: int,
        progress: Progress | None = None,
        rows: CappedRows | None = None,
    ) -> MemoryTable:
        """Read and encode every row, or `rows`; SizeError if the codes take more than half of the limit.

        Privacy: reads the data. The error does not say how large the table is.
        """
        layout = Layout.of([column.dtype for column in schema])
        blocks: list[Block] = []
        room = memory_limit // 2
        for block in encoded_blocks(rows or CappedRows(source, schema, schema.columns), layout, progress):
            room -= block.nbytes
            if room < 0:
                raise SizeError(
                    f"{source.name} does not fit in memory_limit when encoded; use engine='stream' or raise the limit"
                )
            blocks.append(block)
        return cls(schema, blocks, memory_limit=memory_limit, progress=None, source=source)

    def _count(self, cliques: Sequence[Clique], progress: Progress | None) -> dict[Clique, Counts]:
        rows = sum(block.rows for block in self._blocks)
        weighted = self._total is not None

        def blocks() -> Iterator[Block]:
            for number, block in enumerate(self._blocks, start=1):
                yield block
                if progress is not None:
                    progress(number / len(self._blocks))

        return tally(self.domain, cliques, self._layout, blocks(), rows=rows, weighted=weighted)

    def coarse(self, codes: Mapping[str, Integers]) -> CoarseTable:
        return _CoarseMemoryTable(self, codes, self._layout, self._blocks)


class _CoarseMemoryTable(CoarseTable):
    """Merged levels of a memory table: every code is replaced once, so that wide tables are never counted."""

    def __init__(self, table: Table, codes: Mapping[str, Integers], layout: Layout, blocks: Sequence[Block]) -> None:
        super().__init__(table, codes)
        self._layout, self._blocks = layout, [_recoded(block, layout, table.domain, codes) for block in blocks]

    def require(self, cliques: Iterable[Sequence[str]]) -> None:
        check_counts(self.domain, [tuple(clique) for clique in cliques], self._table._memory_limit)

    def counts(self, cliques: Iterable[Sequence[str]]) -> dict[Clique, Counts]:
        wanted = {tuple(clique): self.domain.clique(clique) for clique in cliques}
        if not wanted:
            return {}
        rows, weighted = sum(block.rows for block in self._blocks), self._table._total is not None
        distinct = list(dict.fromkeys(wanted.values()))
        exact = tally(self.domain, distinct, self._layout, iter(self._blocks), rows=rows, weighted=weighted)
        return in_given_order(exact, wanted)


def _recoded(block: Block, layout: Layout, domain: Domain, codes: Mapping[str, Integers]) -> Block:
    """The block with merged levels, in the same types."""
    matrices = tuple(matrix.copy() for matrix in block.matrices)
    for index, name in enumerate(domain):
        if name in codes:
            line = matrices[layout.width[index]][layout.line[index]]
            line[:] = codes[name].astype(line.dtype)[line]
    return Block(matrices=matrices, rows=block.rows, weights=block.weights)


def encoded_blocks(capped: CappedRows, layout: Layout, progress: Progress | None) -> Iterator[Block]:
    """The selected rows as blocks, encoded as they are read.

    Privacy: `progress` learns the fraction done, never how many rows.
    """
    reached = 0.0
    width = line_bytes(capped.columns, capped.source.counts)
    rows = max(1024, min(MOST_BLOCK_ROWS, MOST_BLOCK_BYTES // width))
    with capped.session() as session:
        for batch in capped.batches(session, rows):
            if batch.num_rows:
                codes = [as_numpy(column) for column in batch.columns[: len(capped.columns)]]
                check_codes(capped.columns, codes)
                counted = capped.source.counts is not None
                yield layout.block(codes, as_numpy(batch.column(len(codes))) if counted else None)
            if progress is not None:
                reached = max(reached, capped.source.dialect.fraction_done(session))
                progress(reached)
    if progress is not None:
        progress(1.0)


def line_bytes(columns: Sequence[Column], counts: str | None) -> int:
    """Bytes of an encoded line."""
    return sum(column.dtype.itemsize for column in columns) + (0 if counts is None else BYTES_PER_COUNT)


def check_codes(columns: Sequence[Column], codes: Sequence[Codes]) -> None:
    """Refuse codes beyond a column's levels, which would be a bug of hush: the kernels do not check bounds."""
    for column, column_codes in zip(columns, codes, strict=True):
        if int(column_codes.max()) >= column.size:
            raise DataError(f"column {column.name!r} was encoded beyond its levels; please report this as a bug")


def tally(
    domain: Domain, cliques: Sequence[Clique], layout: Layout, blocks: Iterator[Block], *, rows: float, weighted: bool
) -> dict[Clique, Counts]:
    """Exact counts of cliques in domain order over blocks, weighted or not, whose columns are those of the domain."""
    index = {name: number for number, name in enumerate(domain)}
    plan = plan_scans(domain.shape, [[index[name] for name in clique] for clique in cliques], rows=rows)
    with Accumulator(plan, layout, weighted=weighted) as accumulator:
        for block in blocks:
            accumulator.add(block)
        return dict(zip(cliques, accumulator.results(), strict=True))


ASSUMED_ROWS = 1e8  # of a source of unknown size, for the plan of scans


class SourceTable(Table):
    """What stream and engine tables share: a call reads, and checks, only the columns of its cliques.

    If the unit has an id, it reads all columns, as `check` does. The source must not change between calls.
    """

    def __init__(
        self, source: RowSource, schema: Schema, *, memory_limit: int, progress: Progress | None = None
    ) -> None:
        super().__init__(schema, memory_limit=memory_limit, progress=progress)
        self._source: RowSource = source
        self._depth = 0  # of snapshots
        CappedRows(source, schema, schema.columns)  # refuses missing columns and types that cannot be read

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        if self._depth:
            yield
            return
        with self._source.snapshot():
            self._depth, self._checked = 1, False  # rows may have changed since they were checked
            try:
                yield
            finally:
                self._depth, self._checked = 0, False

    @property
    def _rows(self) -> float:
        """About how many lines there are, for the plan of scans."""
        return ASSUMED_ROWS if self._source.rows is None else self._source.rows

    def _capped_rows(self, cliques: Sequence[Clique]) -> CappedRows:
        """The rows with the columns that some cliques need."""
        used = {name for clique in cliques for name in clique} or {self.domain.attributes[0]}
        return CappedRows(self._source, self.schema, [column for column in self.schema if column.name in used])

    @property
    def sends(self) -> bool:
        """Whether the source can send coded rows to the kernels."""
        return True

    def coarse(self, codes: Mapping[str, Integers]) -> CoarseTable:
        return _CoarseSourceTable(self, codes)

    def streamed(
        self,
        cliques: Sequence[Clique],
        progress: Progress | None = None,
        merging: tuple[Domain, Mapping[str, Integers]] | None = None,
    ) -> dict[Clique, Counts]:
        """Counts of coded rows that are sent to the kernels; `merging` is a domain of merged levels and their codes."""
        rows = self._capped_rows(cliques)
        names = [column.name for column in rows.columns]
        fine = self.domain.project(names)
        layout = Layout.of([column.dtype for column in rows.columns])
        blocks, domain = encoded_blocks(rows, layout, progress), fine
        if merging is not None:
            domain = merging[0].project(names)
            blocks = (_recoded(block, layout, fine, merging[1]) for block in blocks)
        weighted = self._source.counts is not None
        return tally(domain, cliques, layout, blocks, rows=self._rows, weighted=weighted)

    def _check_rows(self) -> None:
        self._total = CappedRows(self._source, self.schema, self.schema.columns).check_all()


class _CoarseSourceTable(CoarseTable):
    """Merged levels of a source: tables that fit are counted, then merged; for others, codes are replaced as read."""

    _table: SourceTable

    def require(self, cliques: Iterable[Sequence[str]]) -> None:
        wide = self._wide(cliques)
        if wide and not self._table.sends:
            self._table.require(wide[:1])
        check_counts(self.domain, wide, self._table._memory_limit, cell_bytes=self._table._cell_bytes)

    def counts(self, cliques: Iterable[Sequence[str]]) -> dict[Clique, Counts]:
        listed = [tuple(clique) for clique in cliques]
        wide = {clique: self.domain.clique(clique) for clique in self._wide(listed)}
        answers = super().counts([clique for clique in listed if clique not in wide])
        if wide:
            exact = self._table.streamed(list(dict.fromkeys(wide.values())), merging=(self.domain, self._codes))
            answers |= in_given_order(exact, wide)
        return {clique: answers[clique] for clique in listed}

    def _wide(self, cliques: Iterable[Sequence[str]]) -> list[Clique]:
        """The tables that are too large to be counted before their levels are merged."""
        wide = []
        for clique in cliques:
            try:
                self._table.require([clique])
            except SizeError:
                wide.append(tuple(clique))
        return wide


class StreamTable(SourceTable):
    """Reads and encodes the source anew for each call of `counts`, in memory that does not grow with its rows.

    Privacy: see `Table`.
    """

    def _count(self, cliques: Sequence[Clique], progress: Progress | None) -> dict[Clique, Counts]:
        return self.streamed(cliques, progress)
