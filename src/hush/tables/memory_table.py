"""MemoryTable: encoded rows held in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hush.domain import Clique, Domain
from hush.errors import DataError, SizeError
from hush.schema import Column, Schema
from hush.tables.counting import Accumulator, Block, Codes, Layout, as_numpy
from hush.tables.rows_per_unit import CappedRows
from hush.tables.scan_plan import plan_scans
from hush.tables.sources import RowSource
from hush.tables.table import Counts, Progress, Table

MOST_ROWS = 2**19  # of a block
MOST_BYTES = 2**25


class MemoryTable(Table):
    """Codes in the smallest unsigned type of each column, counted by the kernels; the fastest for repeated counts.

    Privacy: holds the encoded rows; see `Table`.
    """

    def __init__(
        self, schema: Schema, blocks: Sequence[Block], *, memory_limit: int, progress: Progress | None = None
    ) -> None:
        super().__init__(schema, memory_limit=memory_limit, progress=progress)
        self._blocks = tuple(blocks)
        self._layout = Layout.of([column.dtype for column in schema])

    @classmethod
    def load(
        cls, source: RowSource, schema: Schema, *, memory_limit: int, progress: Progress | None = None
    ) -> MemoryTable:
        """Read and encode every row; SizeError where the codes take more than half of the limit.

        Privacy: reads the data. The error does not say how large the table is.
        """
        layout = Layout.of([column.dtype for column in schema])
        blocks: list[Block] = []
        room = memory_limit // 2
        for block in encoded_blocks(CappedRows(source, schema, schema.columns), layout, progress):
            room -= block.nbytes
            if room < 0:
                raise SizeError(
                    f"{source.name} does not fit in memory_limit when encoded; use engine='stream' or raise the limit"
                )
            blocks.append(block)
        return cls(schema, blocks, memory_limit=memory_limit, progress=None)

    def _count(self, cliques: Sequence[Clique], progress: Progress | None) -> dict[Clique, Counts]:
        rows = sum(block.rows for block in self._blocks)
        return tally(self._domain, cliques, self._layout, self._reported(progress), rows=rows)

    def _reported(self, progress: Progress | None) -> Iterator[Block]:
        for number, block in enumerate(self._blocks):
            yield block
            if progress is not None:
                progress((number + 1) / len(self._blocks))


def encoded_blocks(capped: CappedRows, layout: Layout, progress: Progress | None) -> Iterator[Block]:
    """The selected rows as blocks, while they are read.

    Privacy: `progress` learns the fraction done, never how many rows.
    """
    reached = 0.0
    width = sum(column.dtype.itemsize for column in capped.columns)
    rows = max(1024, min(MOST_ROWS, MOST_BYTES // width))
    with capped.session() as session:
        for batch in capped.batches(session, rows):
            if batch.num_rows:
                codes = [as_numpy(column) for column in batch.columns[: len(capped.columns)]]
                check_codes(capped.columns, codes)
                yield layout.block(codes)
            if progress is not None:
                reached = max(reached, capped.source.dialect.fraction_done(session))
                progress(reached)
    if progress is not None:
        progress(1.0)


def check_codes(columns: Sequence[Column], codes: Sequence[Codes]) -> None:
    """Refuse codes beyond a column's levels, which no encoding gives: the kernels do not look where they write."""
    for column, column_codes in zip(columns, codes, strict=True):
        if int(column_codes.max()) >= column.size:
            raise DataError(f"column {column.name!r} was encoded beyond its levels; please report this as a bug")


def tally(
    domain: Domain, cliques: Sequence[Clique], layout: Layout, blocks: Iterator[Block], *, rows: float
) -> dict[Clique, Counts]:
    """Exact counts of cliques in domain order over blocks whose columns are those of the domain."""
    place = {name: number for number, name in enumerate(domain)}
    plan = plan_scans(domain.shape, [[place[name] for name in clique] for clique in cliques], rows=rows)
    with Accumulator(plan, layout) as accumulator:
        for block in blocks:
            accumulator.add(block)
        return dict(zip(cliques, accumulator.results(), strict=True))
