"""Table: exact counts of cliques, a check that they fit in memory, and a table that caches them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hush.core.arrays import Integers, merged_along, reordered
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError, DomainError, SizeError
from hush.core.memory import available_memory, readable
from hush.schema import Schema
from hush.tables.sources import BYTES_PER_COUNT, LARGEST_TOTAL, RowSource, too_many_rows
from hush.tables.summing import check_sum, sum_values, unreadable

if TYPE_CHECKING:
    from hush.privacy.sum_query import SumQuery

BYTES_PER_CELL = 16  # an int64 result, its uint32 counter, and one more for merged scans
BYTES_PER_WEIGHTED_CELL = 24  # the same with int64 counters
CACHE_SHARE = 0.25  # of the free memory, for counts that are kept
LARGEST_CLIQUE = 2**32  # cells are numbered by uint32
Counts = npt.NDArray[np.int64]
Progress = Callable[[float], None]


def check_counts(domain: Domain, cliques: Iterable[Clique], limit: int, *, cell_bytes: int = BYTES_PER_CELL) -> None:
    """Refuse cliques whose counts, `cell_bytes` for each cell, do not fit into half of the limit.

    The other half is for reading rows. The outcome does not depend on the data.
    """
    extent = dict(zip(domain.attributes, domain.shape, strict=True))
    sizes = {clique: math.prod(map(extent.__getitem__, clique)) for clique in cliques}
    if not sizes:
        return
    largest = max(sizes, key=lambda clique: sizes[clique])
    advice = "drop an attribute, use wider bins, or ask for cliques of fewer attributes"
    if sizes[largest] > LARGEST_CLIQUE:
        raise SizeError(
            f"the table over {', '.join(largest)} has {sizes[largest]:,} cells, at most {LARGEST_CLIQUE:,} can be "
            f"counted; {advice}"
        )
    needed = cell_bytes * sum(sizes.values())
    if needed > limit // 2:
        raise SizeError(
            f"counting {len(sizes)} cliques needs {readable(needed)}, more than the {readable(limit // 2)} that "
            f"memory_limit = {readable(limit)} leaves for counts; the largest is {', '.join(largest) or '()'} with "
            f"{sizes[largest]:,} cells; {advice}, or raise memory_limit"
        )


def in_given_order(exact: Mapping[Clique, Counts], wanted: Mapping[Clique, Clique]) -> dict[Clique, Counts]:
    """The counts of each clique as it was given, from the counts with its attributes in domain order."""
    return {
        clique: exact[ordered] if clique == ordered else reordered(exact[ordered], ordered, clique).copy(order="C")
        for clique, ordered in wanted.items()
    }


class Table(ABC):
    """A source of exact counts for a list of cliques: all that mechanisms ask of data.

    A subclass defines `_count`. Rows are counted as the schema encodes them, and at most `unit.max_rows` rows of a
    privacy unit are used, chosen by that unit's own rows only.

    Privacy: a table is private. Its counts are exact and go only into a mechanism. The number of rows is private too,
    so a table has no length and does not show it.
    """

    def __init__(self, schema: Schema, *, memory_limit: int, progress: Progress | None = None) -> None:
        self.schema, self.domain, self.unit = schema, schema.domain, schema.unit
        self._memory_limit = memory_limit
        self._progress = progress
        self._checked = False
        self._source: RowSource | None = None  # from which rows can be read again
        self._total: int | None = None  # sum of the counts column, once it is read; private

    def counts(self, cliques: Iterable[Sequence[str]], *, progress: Progress | None = None) -> dict[Clique, Counts]:
        """Exact counts of each clique, int64, with one axis per attribute in the order given.

        `()` gives the total. Unknown names and requests too large for memory are refused before any row is read.
        `progress` is called with the fraction done, from 0 to 1. Arrays of one call may share a buffer.

        Privacy: exact, hence private. One unit changes the counts of a clique by at most `unit.max_rows` in L1.
        """
        wanted = self._wanted(cliques)
        distinct = list(dict.fromkeys(wanted.values()))
        check_counts(self.domain, distinct, self._memory_limit, cell_bytes=self._cell_bytes)
        return in_given_order(self._count(distinct, progress or self._progress), wanted) if distinct else {}

    def require(self, cliques: Iterable[Sequence[str]]) -> None:
        """Refuse unknown names, and cliques whose counts would not fit in memory together; reads no row."""
        distinct = set(self._wanted(cliques).values())
        check_counts(self.domain, distinct, self._memory_limit, cell_bytes=self._cell_bytes)

    @property
    def countable_cells(self) -> float:
        """How many cells can be counted at once within the memory limit; public."""
        return self._memory_limit // 2 / self._cell_bytes

    @property
    def _cell_bytes(self) -> int:
        weighted = self._source is not None and self._source.counts is not None
        return BYTES_PER_WEIGHTED_CELL if weighted else BYTES_PER_CELL

    def coarse(self, codes: Mapping[str, Integers]) -> CoarseTable:
        """The same rows with merged levels: for some columns, `codes` has the merged level of each code."""
        return CoarseTable(self, codes)

    def require_sums(self, queries: Sequence[SumQuery]) -> None:
        """Refuse sums of values that this table cannot compute; reads no row."""
        self.require([query.clique for query in queries])
        for query in queries:
            check_sum(query, self.schema)
        if self._source is None or self._source.once:
            raise unreadable([query.clique for query in queries])

    def sums(self, queries: Sequence[SumQuery]) -> dict[SumQuery, Counts]:
        """Exact sums of values, as integers on the grid of each query; reads the source anew.

        Privacy: exact, hence private. One unit moves a sum by at most `unit.max_rows` times the grid's steps.
        """
        self.require_sums(queries)
        if queries and self._source is not None and self._source.counts is not None:
            self.check(LARGEST_TOTAL // max(query.largest_factor for query in queries))
        return self._sum(queries)

    def _sum(self, queries: Sequence[SumQuery]) -> dict[SumQuery, Counts]:
        """Exact sums of queries that were checked."""
        assert self._source is not None  # noqa: S101
        return sum_values(self._source, self.schema, queries)

    def check(self, most_rows: int = LARGEST_TOTAL) -> None:
        """Read every row, and raise DataError if a value is refused, before a budget is charged.

        Done once, and not at all for a table that was checked when it was read. A sum of counts above `most_rows` is
        refused too.

        Privacy: whether the table is refused depends on private data, and is for the data owner only.
        """
        if not self._checked:
            self._check_rows()
            self._checked = True
        if self._total is not None and self._total > most_rows:
            raise DataError(too_many_rows(str(self._source and self._source.counts), most_rows))

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A context in which all checks and counts see one state of the rows; may be nested."""
        yield

    def _check_rows(self) -> None:
        """Read the rows for `check`."""
        return

    @abstractmethod
    def _count(self, cliques: Sequence[Clique], progress: Progress | None) -> dict[Clique, Counts]:
        """Exact counts of distinct cliques, each with its attributes in domain order."""

    def _wanted(self, cliques: Iterable[Sequence[str]]) -> dict[Clique, Clique]:
        """Each clique as given, with its attributes in domain order."""
        if isinstance(cliques, str):
            raise DomainError(f"cliques = {cliques!r}: expected a list of tuples, such as [({cliques!r},)]")
        position = {name: number for number, name in enumerate(self.domain)}
        wanted = {}
        for names in cliques:
            clique = self.domain.check(names)
            wanted[clique] = tuple(sorted(clique, key=position.__getitem__))
        return wanted

    def __repr__(self) -> str:
        unit = "row" if self.unit.column is None else f"{self.unit.column} (at most {self.unit.max_rows} rows)"
        return f"{type(self).__name__}({', '.join(self.domain)}; unit: {unit})"


class CoarseTable:
    """Rows of another table with merged levels, so that wide columns have small tables; counts first, then merges.

    Privacy: exact, hence private. The merging is public, so a unit changes merged counts by no more than exact ones.
    """

    def __init__(self, table: Table, codes: Mapping[str, Integers]) -> None:
        self._table, self._codes = table, dict(codes)
        self.schema, self.unit = table.schema, table.unit
        fine = table.domain
        self.domain = Domain({name: int(codes[name].max()) + 1 if name in codes else fine[name] for name in fine})

    @property
    def countable_cells(self) -> float:
        return self._table.countable_cells

    def require(self, cliques: Iterable[Sequence[str]]) -> None:
        """Refuse cliques that cannot be counted, one at a time; reads no row."""
        for clique in cliques:
            self._table.require([clique])

    def check(self, most_rows: int = LARGEST_TOTAL) -> None:
        self._table.check(most_rows)

    def require_sums(self, queries: Sequence[SumQuery]) -> None:
        raise unreadable([query.clique for query in queries])

    def sums(self, queries: Sequence[SumQuery]) -> dict[SumQuery, Counts]:
        raise unreadable([query.clique for query in queries])

    def counts(self, cliques: Iterable[Sequence[str]]) -> dict[Clique, Counts]:
        """Exact counts of each clique over merged levels."""
        answers: dict[Clique, Counts] = {}
        for names in cliques:
            clique = tuple(names)
            table = self._table.counts([clique])[clique]
            for axis, name in enumerate(clique):
                if name in self._codes:
                    table = merged_along(table, self._codes[name], axis)
            answers[clique] = table
        return answers


class CachedTable:
    """A table that counts each clique once, as long as the counts fit into memory, for adaptive mechanisms.

    Privacy: counts are exact and private, and live as long as this object; nothing is counted before it is asked for.
    """

    def __init__(self, table: Table | CoarseTable, *, memory: float | None = None, most: float = math.inf) -> None:
        self.schema, self.domain, self.unit = table.schema, table.domain, table.unit
        self._table = table
        self._known: dict[Clique, Counts] = {}
        self._left = min(CACHE_SHARE * available_memory(), most) if memory is None else memory

    @property
    def countable_cells(self) -> float:
        return self._table.countable_cells

    def coarse(self, codes: Mapping[str, Integers]) -> CachedTable:
        """The same rows with levels merged; see `Table.coarse`."""
        table: Any = self._table
        merged = table.coarse(codes) if isinstance(table, Table) else CoarseTable(table, codes)
        return CachedTable(merged, memory=self._left)

    def require(self, cliques: Iterable[Sequence[str]]) -> None:
        self._table.require([clique for clique in cliques if tuple(clique) not in self._known])

    def check(self, most_rows: int = LARGEST_TOTAL) -> None:
        self._table.check(most_rows)

    def require_sums(self, queries: Sequence[SumQuery]) -> None:
        self._table.require_sums(queries)

    def sums(self, queries: Sequence[SumQuery]) -> dict[SumQuery, Counts]:
        """Exact sums; they are asked for once, and not kept."""
        return self._table.sums(queries)

    def counts(self, cliques: Iterable[Sequence[str]]) -> dict[Clique, Counts]:
        """Exact counts of each clique, read-only where they are kept."""
        wanted = [tuple(clique) for clique in cliques]
        missing = [clique for clique in dict.fromkeys(wanted) if clique not in self._known]
        fresh = self._table.counts(missing) if missing else {}
        for clique, counts in fresh.items():
            if BYTES_PER_COUNT * counts.size <= self._left:
                self._left -= BYTES_PER_COUNT * counts.size
                counts.setflags(write=False)
                self._known[clique] = counts
        return {clique: self._known[clique] if clique in self._known else fresh[clique] for clique in wanted}
