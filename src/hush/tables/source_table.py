"""SourceTable: a table whose rows stay in their source and are read anew for each count."""

from __future__ import annotations

from collections.abc import Sequence

from hush.domain import Clique
from hush.schema import Schema
from hush.tables.selection import Selection, check_rows
from hush.tables.source import Source
from hush.tables.table import Progress, Table

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
