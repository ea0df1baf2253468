"""StreamTable: rows that stay where they are, counted by the kernels as DuckDB reads and encodes them."""

from __future__ import annotations

from collections.abc import Sequence

from hush.domain import Clique
from hush.schema import Schema
from hush.tables.counting import Layout
from hush.tables.memory import encoded_blocks, tally
from hush.tables.selection import Selection, check_rows
from hush.tables.source import Source
from hush.tables.table import Counts, Progress, Table

MANY_ROWS = 1e8  # what a plan assumes of a source that does not say how many rows it has


class StreamTable(Table):
    """Reads the source anew for each call of `counts`, in memory that does not grow with its rows.

    Only the columns that a call asks for are read, and checked (all of them, where the unit has an id); `check` reads
    all. The source must not change between calls.

    Privacy: see `Table`.
    """

    def __init__(self, source: Source, schema: Schema, *, memory_limit: int, progress: Progress | None = None) -> None:
        super().__init__(schema, memory_limit=memory_limit, progress=progress)
        self._source = source
        Selection(source, schema, schema.columns)  # every column is there and of a type that can be read

    def _check_rows(self) -> None:
        check_rows(self._source, self._schema)

    def _count(self, cliques: Sequence[Clique], progress: Progress | None) -> dict[Clique, Counts]:
        used = {name for clique in cliques for name in clique} or {self._domain.attributes[0]}
        selection = Selection(self._source, self._schema, [column for column in self._schema if column.name in used])
        domain = self._domain.project([column.name for column in selection.columns])
        layout = Layout.of([column.dtype for column in selection.columns])
        rows = MANY_ROWS if self._source.rows is None else self._source.rows
        return tally(domain, cliques, layout, encoded_blocks(selection, layout, progress), rows=rows)
