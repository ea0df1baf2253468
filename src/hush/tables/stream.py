"""StreamTable: rows that stay where they are, counted by the kernels as DuckDB reads and encodes them."""

from __future__ import annotations

from collections.abc import Sequence

from hush.domain import Clique
from hush.tables.counting import Layout
from hush.tables.memory import encoded_blocks, tally
from hush.tables.source_table import SourceTable
from hush.tables.table import Counts, Progress


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
