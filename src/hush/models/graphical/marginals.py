"""Marginals: tables over any cliques from a calibrated junction tree, and answers to products of query blocks."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np

from hush.core.arrays import Floats, Integers, NamedTable, apply_each
from hush.core.domain import Clique, Domain
from hush.core.errors import SizeError, WorkloadError, shown
from hush.core.memory import cached_cells, require_memory
from hush.linops import Dense, Identity, LinearOperator
from hush.models.graphical._kernels import sum_middle
from hush.models.graphical.junction_tree import JunctionTree
from hush.models.graphical.variable_elimination import UNUSED_CELLS, Buffers, Message, Routes, Step, joined

MOST_AXES = 64  # of a numpy array
CACHED_CELLS = 1 << 24  # of tables kept for later requests, if memory allows


Key = TypeVar("Key", bound=Hashable)
Table = TypeVar("Table", Floats, NamedTable)


class TableCache(Generic[Key, Table]):
    """The most recently used tables, up to some number of cells."""

    def __init__(self, cells: int) -> None:
        self._room = cells
        self._tables: OrderedDict[Key, Table] = OrderedDict()

    def get(self, key: Key) -> Table | None:
        table = self._tables.get(key)
        if table is not None:
            self._tables.move_to_end(key)
        return table

    def put(self, key: Key, table: Table) -> list[Key]:
        """Keep a table, and return the keys of the tables dropped to make room."""
        self._tables[key] = table
        self._room -= table.size
        dropped_keys = []
        while self._room < 0 and len(self._tables) > 1:
            old, dropped = self._tables.popitem(last=False)
            self._room += dropped.size
            dropped_keys.append(old)
        return dropped_keys


class NodeTables:
    """The counts of a node's attributes, or p(rest | separator), summed over attributes that are not requested.

    If `codes` lists some codes of an attribute, its axis has only those.
    """

    def __init__(
        self,
        tree: JunctionTree,
        conditionals: Sequence[Floats],  # of every node, (cells of the separator, cells of the rest)
        separators: Sequence[Floats],  # counts of every node's separator
        codes: Mapping[str, Integers],
    ) -> None:
        self._tree = tree
        self._conditionals = conditionals
        self._separators = separators
        self._codes = codes
        self._kept: TableCache[tuple[int, bool, frozenset[str]], Floats] = TableCache(
            cached_cells(max(CACHED_CELLS, 2 * tree.cells))
        )
        self._known: dict[tuple[int, bool], dict[frozenset[str], int]] = {}

    def table(self, k: int, counts: bool, names: Clique) -> Floats:
        """Node k's counts, or probabilities given its separator, over attributes in the order of the node's axes."""
        requested = frozenset(names)
        node, domain = self._tree.nodes[k], self._tree.domain
        known = self._known.setdefault((k, counts), {})

        # Start from the smallest cached table that contains the attributes, else from the node's whole table.
        best = min((cached for cached in known if requested <= cached), key=known.__getitem__, default=None)
        table = None if best is None else self._kept.get((k, counts, best))
        if best is None or table is None:
            table = self._restricted(self._conditionals[k].reshape(domain.sizes(node.axes)), node.axes)
            if counts:
                rows = self._restricted(self._separators[k].reshape(domain.sizes(node.separator)), node.separator)
                table = table * rows.reshape(rows.shape + (1,) * len(node.rest))
            best = frozenset(node.axes)
            self._keep(k, counts, best, table)
        axes = tuple(name for name in node.axes if name in best)

        # Sum over the longest axis first, and cache every table on the way.
        while len(axes) > len(names):
            drop = max((name for name in axes if name not in requested), key=domain.__getitem__)
            axis = axes.index(drop)
            table = summed(table, axis)
            axes = axes[:axis] + axes[axis + 1 :]
            self._keep(k, counts, frozenset(axes), table)
        return table

    def _keep(self, k: int, counts: bool, names: frozenset[str], table: Floats) -> None:
        dropped_keys = self._kept.put((k, counts, names), table)
        self._known[k, counts][names] = table.size
        for other, kind, dropped in dropped_keys:
            del self._known[other, kind][dropped]

    def _restricted(self, table: Floats, axes: Clique) -> Floats:
        for axis, name in enumerate(axes):
            if name in self._codes:
                table = table.take(self._codes[name], axis=axis)
        return table


def summed(table: Floats, axis: int) -> Floats:
    """The sum over one axis of a contiguous table."""
    shape = table.shape
    left, n, right = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    sums = np.empty((left, right))
    if right == 1:
        sums = table.reshape(left, n) @ np.ones(n)
    elif left == 1:
        sums = np.ones(n) @ table.reshape(n, right)
    else:
        sum_middle(table.reshape(left, n, right), sums)
    return sums.reshape(shape[:axis] + shape[axis + 1 :])


class Marginals:
    """Tables of p(x) = prod_k p(rest_k | separator_k), times the number of records.

    `tree` is in tree order, which may differ from the order of `domain`.

    Reference: [HDMM, sec. 4.4.1 and 4.4.2].

    >>> domain = Domain({"sex": 2, "smokes": 2})
    >>> tree = JunctionTree.build(domain, [("sex",), ("smokes",)])
    >>> conditionals = [np.array([[0.25, 0.75]])] * 2
    >>> Marginals(domain, tree, conditionals, [np.array([80.0])] * 2).counts(("smokes", "sex")).tolist()
    [[5.0, 15.0], [15.0, 45.0]]
    """

    def __init__(
        self,
        domain: Domain,
        tree: JunctionTree,
        conditionals: Sequence[Floats],  # of every node, (cells of the separator, cells of the rest)
        separators: Sequence[Floats],  # counts of every node's separator
    ) -> None:
        self._domain = domain
        self._tree = tree
        self._conditionals = conditionals
        self._separators = separators

    def counts(self, clique: Iterable[str]) -> Floats:
        """The table of counts over any clique, with one axis per attribute in the order given.

        Inside a node, a sum over the node's table; otherwise variable elimination over the part of the tree that
        matters. Memory is predicted first: a table that is too large is refused.
        """
        names = self._checked(clique)
        return self.many([names])[names]

    def many(self, cliques: Iterable[Iterable[str]]) -> dict[Clique, Floats]:
        """The tables of many cliques, by clique as given; sums and messages that they share are computed once."""
        asked = list(dict.fromkeys(self._checked(clique) for clique in cliques))
        _check_cells(sum(map(self._domain.size, asked)), _of(*asked), "ask for fewer attributes or tables")
        work = _TreeMarginals(self._tree, self._conditionals, self._separators)
        spellings: dict[frozenset[str], list[Clique]] = {}
        for names in sorted(asked, key=self._domain.size, reverse=True):
            spellings.setdefault(frozenset(names), []).append(names)
        tables: dict[Clique, Floats] = {}
        for same in spellings.values():
            table = work.table(same[0])
            tables.update((names, table.ordered(names)) for names in same)
        return {names: tables[names] for names in asked}

    def product(self, clique: Iterable[str], blocks: Sequence[LinearOperator]) -> Floats:
        """Answers to B_1 kron B_2 kron ... on a clique, one block per attribute, of any sign; one axis per block.

        A block with fewer rows than levels is applied as soon as nothing else needs the attribute, and levels that a
        single row leaves out are never computed, so that the table over the clique need not fit in memory.

        Reference: [HDMM, Alg. 4].
        """
        names = self._checked(clique)
        _check_blocks(self._domain, names, blocks)
        rows = [block.shape[0] for block in blocks]
        _check_cells(math.prod(rows), f"{_of(names)} in {' x '.join(map(str, rows))} answers", "use fewer rows")
        early: dict[str, LinearOperator] = {}
        late: list[LinearOperator | None] = []
        codes: dict[str, Integers] = {}
        for name, block in zip(names, blocks, strict=True):
            if block.shape[0] == 1 < block.shape[1]:
                row = block.dense()
                codes[name] = np.flatnonzero(row[0]) if row.any() else np.zeros(1, dtype=np.int64)
                block = Dense(row[:, codes[name]])
            if block.shape[0] < block.shape[1]:
                early[name] = block
            late.append(None if name in early or isinstance(block, Identity) else block)
        work = _TreeMarginals(self._tree, self._conditionals, self._separators, codes, early)
        table = work.table(names).ordered(names)
        return apply_each(late, table)

    def restricted(self, clique: Iterable[str], codes: Mapping[str, Integers]) -> Floats:
        """The counts over a clique of the records that have one of the given codes in each of some other attributes."""
        names = self._checked(clique)
        _check_cells(self._domain.size(names), _of(names), "ask for fewer attributes")
        sums = {name: Dense(np.ones((1, len(listed)))) for name, listed in codes.items() if len(listed) > 1}
        work = _TreeMarginals(self._tree, self._conditionals, self._separators, codes, sums)
        return work.table((*names, *codes)).ordered(names)

    def _checked(self, clique: Iterable[str]) -> Clique:
        names = self._domain.check(clique)
        if len(names) > MOST_AXES:
            raise SizeError(
                f"{_of(names)} has {len(names)} axes, and an array at most {MOST_AXES}; leave out attributes that are "
                "summed over"
            )
        return names


class _TreeMarginals:
    """Tables over one tree, with some axes restricted to given codes, or transformed by blocks on the way."""

    def __init__(
        self,
        tree: JunctionTree,
        conditionals: Sequence[Floats],
        separators: Sequence[Floats],
        codes: Mapping[str, Integers] | None = None,
        blocks: Mapping[str, LinearOperator] | None = None,
    ) -> None:
        self._blocks = {} if blocks is None else blocks
        restricted = {} if codes is None else codes
        levels = {name: len(restricted[name]) if name in restricted else tree.domain[name] for name in tree.domain}
        rows = levels | {name: block.shape[0] for name, block in self._blocks.items()}
        self._axes = [node.separator for node in tree.nodes]
        self._routes = Routes(tree, levels, rows)
        self._tables = NodeTables(tree, conditionals, separators, restricted)
        self._buffers = Buffers(cached_cells(UNUSED_CELLS))
        self._kept: TableCache[Message, NamedTable] = TableCache(cached_cells(CACHED_CELLS))

    def table(self, names: Clique) -> NamedTable:
        last = self._routes.last(frozenset(names))
        _check_cells(
            last.peak, f"{_of(names)} with intermediate tables",
            "ask for fewer attributes, give codes of some, or ask for a product with few rows",
        )  # fmt: skip
        at_hand: dict[Message, NamedTable] = {}
        missing: list[tuple[Message | None, Step]] = [(None, last)]
        for _, step in missing:  # grows while iterated: messages that a step needs and the cache lacks
            for join in step.joins:
                cached = self._kept.get(join.message)
                if cached is None:
                    missing.append((join.message, self._routes.step(join.message)))
                else:
                    at_hand[join.message] = cached
        for message, step in reversed(missing[1:]):
            assert message is not None  # noqa: S101
            table = self._run(step, at_hand)
            at_hand[message] = table
            self._kept.put(message, table)
        return self._run(last, at_hand)

    def _run(self, step: Step, messages: dict[Message, NamedTable]) -> NamedTable:
        table = self._tables.table(step.node, step.counts, step.names)
        live = NamedTable.of(step.names, table.shape, table)
        live = self._shrunk(live, step.first)
        for join in step.joins:
            live = self._shrunk(joined(live, messages.pop(join.message), join, self._buffers), join.shrunk)
        return live

    def _shrunk(self, live: NamedTable, names: Clique) -> NamedTable:
        return live.apply({name: self._blocks[name] for name in names}) if names else live


def _of(*cliques: Clique) -> str:
    return f"the table over {shown(cliques[0])}" if len(cliques) == 1 else f"{len(cliques)} tables"


def _check_blocks(domain: Domain, names: Clique, blocks: Sequence[LinearOperator]) -> None:
    if len(blocks) != len(names):
        raise WorkloadError(f"{len(blocks)} blocks for {len(names)} attributes {names!r}; give one for each")
    for name, block in zip(names, blocks, strict=True):
        if not isinstance(block, LinearOperator):
            raise WorkloadError(f"block {shown(block)} of {name!r}: expected a linear operator, such as Prefix(n)")
        if block.shape[1] != domain[name]:
            raise WorkloadError(
                f"the block of {name!r} has {block.shape[1]} columns; expected one per level, {domain[name]}"
            )


def _check_cells(cells: int, what: str, remedy: str) -> None:
    require_memory(8 * cells, f"{what} ({shown(cells)} cells)", remedy)
