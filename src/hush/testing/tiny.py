"""TinyTable: a small table of codes without protection, and all its neighbours."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hush.core.constraints import Constraint
from hush.core.domain import Clique, Domain
from hush.privacy.gate import LARGEST_ANSWER
from hush.privacy.sensitivity import Neighbours
from hush.privacy.sum_query import SumQuery
from hush.schema import ROW, Schema, Unit


class TinyTable:
    """A table for tests: the plain twin of real sources, without regard for privacy or speed.

    `units[i]` is the unit of row i; every row is its own by default. A unit keeps its first rows in code order.
    """

    def __init__(
        self,
        domain: Domain,
        rows: Sequence[Sequence[int]],
        *,
        unit: Unit = ROW,
        units: Sequence[int] | None = None,
        constraints: Sequence[Constraint] = (),
    ) -> None:
        self.domain = domain
        self.constraints = constraints
        self.unit = unit
        self.rows = [tuple(int(code) for code in row) for row in rows]
        self.units = list(range(len(self.rows))) if units is None else list(units)
        self.reads = 0

    @property
    def schema(self) -> Schema:
        """The schema of a table of codes."""
        return Schema(Schema.from_domain(self.domain).columns, unit=self.unit, constraints=self.constraints)

    def kept(self) -> list[tuple[int, ...]]:
        """The rows that count, once each unit is cut to `max_rows`."""
        if self.unit.column is None:
            return self.rows
        by_unit: dict[int, list[tuple[int, ...]]] = {}
        for unit, row in zip(self.units, self.rows, strict=True):
            by_unit.setdefault(unit, []).append(row)
        return [row for rows in by_unit.values() for row in sorted(rows)[: self.unit.max_rows]]

    def require(self, cliques: Sequence[Clique]) -> None:
        for clique in cliques:
            self.domain.check(clique)

    def check(self, most_rows: int = LARGEST_ANSWER) -> None:
        """Tiny tables hold nothing that could be refused."""

    def counts(self, cliques: Sequence[Clique]) -> dict[Clique, np.ndarray[Any, np.dtype[np.int64]]]:
        """Exact counts over each clique, in the caller's attribute order."""
        self.reads += 1
        answers = {}
        for clique in cliques:
            cells = np.zeros(self.domain.sizes(clique), dtype=np.int64)
            axes = [self.domain.attributes.index(name) for name in clique]
            for row in self.kept():
                cells[tuple(row[axis] for axis in axes)] += 1
            answers[tuple(clique)] = cells
        return answers

    def require_sums(self, queries: Sequence[SumQuery]) -> None:
        self.require([query.clique for query in queries])

    def sums(self, queries: Sequence[SumQuery]) -> dict[SumQuery, np.ndarray[Any, np.dtype[np.int64]]]:
        """Exact sums of the codes, which are the values of a table of codes, as integers on each query's grid."""
        self.reads += 1
        answers = {}
        for query in queries:
            cells = np.zeros(self.domain.sizes(query.clique), dtype=np.int64)
            axes = [self.domain.attributes.index(name) for name in query.clique]
            at = self.domain.attributes.index(query.grid.column)
            for row in self.kept():
                cells[tuple(row[axis] for axis in axes)] += int(query.grid.integers(row[at], row[at]))
            answers[query] = cells
        return answers

    def __repr__(self) -> str:
        return f"TinyTable({self.domain!r})"


class StoppingTable(TinyTable):
    """A table whose counts fail after some reads, by default as if the user had pressed Ctrl-C at the second read."""

    def __init__(
        self,
        domain: Domain,
        rows: Sequence[Sequence[int]],
        *,
        reads_left: int = 1,
        failure: type[BaseException] = KeyboardInterrupt,
    ) -> None:
        super().__init__(domain, rows)
        self.reads_left, self.failure = reads_left, failure

    def counts(self, cliques: Sequence[Clique]) -> dict[Clique, np.ndarray[Any, np.dtype[np.int64]]]:
        self.reads_left -= 1
        if self.reads_left < 0:
            raise self.failure
        return super().counts(cliques)


def neighbours_of(table: TinyTable, relation: Neighbours = Neighbours.ADD_REMOVE) -> Iterator[TinyTable]:
    """Every neighbour of a table whose units are rows: each row removed, each possible row added, or each exchanged."""
    every_row = list(itertools.product(*(range(size) for size in table.domain.shape)))
    rows = table.rows
    without = [rows[:i] + rows[i + 1 :] for i in range(len(rows))]
    if relation is Neighbours.ADD_REMOVE:
        changed = without + [[*rows, row] for row in every_row]
    else:
        changed = [[*rest, row] for rest in without for row in every_row]
    for other in changed:
        yield TinyTable(table.domain, other, unit=table.unit)
