"""CachedTable: a table that keeps its counts in memory once they have been paid for and taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hush.domain import Clique
from hush.memory import available_memory
from hush.tables.table import Counts, Table

SHARE = 0.25  # of the memory that is free, for counts that are kept
BYTES = 8


class CachedTable:
    """A table that counts each clique once, as long as the counts fit into memory; adaptive mechanisms ask often.

    Privacy: counts are exact and private, and live as long as this object; nothing is counted before it is asked for.
    """

    def __init__(self, table: Table, *, memory: float | None = None) -> None:
        self.schema, self.domain, self.unit = table.schema, table.domain, table.unit
        self._table = table
        self._known: dict[Clique, Counts] = {}
        self._left = SHARE * available_memory() if memory is None else memory

    def require(self, cliques: Iterable[Sequence[str]]) -> None:
        """Refuse what cannot be counted; reads no row."""
        self._table.require([clique for clique in cliques if tuple(clique) not in self._known])

    def check(self) -> None:
        """Refuse rows that the schema does not allow."""
        self._table.check()

    def counts(self, cliques: Iterable[Sequence[str]]) -> dict[Clique, Counts]:
        """Exact counts of each clique, read-only where they are kept."""
        wanted = [tuple(clique) for clique in cliques]
        missing = [clique for clique in dict.fromkeys(wanted) if clique not in self._known]
        fresh = self._table.counts(missing) if missing else {}
        for clique, counts in fresh.items():
            if BYTES * counts.size <= self._left:
                self._left -= BYTES * counts.size
                counts.setflags(write=False)
                self._known[clique] = counts
        return {clique: self._known[clique] if clique in self._known else fresh[clique] for clique in wanted}
