"""Node tables: sums of the tables of a junction tree's nodes, each made from the smallest one that is still there."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from hush.domain import Clique
from hush.graphical._sums import sum_middle
from hush.graphical.belief import Floats
from hush.graphical.junction_tree import JunctionTree

Integers = np.ndarray[Any, np.dtype[np.int64]]

KEPT_CELLS = 1 << 24  # of tables that may be asked for again, or twice the model where that is more


class Sized(Protocol):
    """Anything that has a number of cells."""

    @property
    def size(self) -> int: ...


Key = TypeVar("Key", bound=Hashable)
Table = TypeVar("Table", bound=Sized)


class Kept(Generic[Key, Table]):
    """Tables by key, the last used ones up to some number of cells."""

    def __init__(self, cells: int) -> None:
        self._room = cells
        self._tables: OrderedDict[Key, Table] = OrderedDict()

    def get(self, key: Key) -> Table | None:
        """The table, if it is still there."""
        found = self._tables.get(key)
        if found is not None:
            self._tables.move_to_end(key)
        return found

    def put(self, key: Key, table: Table) -> list[Key]:
        """Keep a table; the keys of those that make room for it."""
        self._tables[key] = table
        self._room -= table.size
        gone = []
        while self._room < 0 and len(self._tables) > 1:
            old, dropped = self._tables.popitem(last=False)
            self._room += dropped.size
            gone.append(old)
        return gone


class NodeTables:
    """The counts of a node's attributes, or p(rest | separator), summed over what is not asked.

    Where `codes` lists some codes of an attribute, its axis has those alone.
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
        self._kept: Kept[tuple[int, bool, frozenset[str]], Floats] = Kept(max(KEPT_CELLS, 2 * tree.cells))
        self._known: dict[tuple[int, bool], dict[frozenset[str], int]] = {}

    def table(self, k: int, counts: bool, own: Clique) -> Floats:
        """Node k's counts, or probabilities given its separator, over attributes in the order of the node's axes."""
        wanted = frozenset(own)
        known = self._known.setdefault((k, counts), {})
        axes, found = self._start(k, counts, wanted, known)
        sizes = self._tree.domain
        while len(axes) > len(own):
            drop = max((name for name in axes if name not in wanted), key=lambda name: sizes[name])
            place = axes.index(drop)
            found = summed(found, place)
            axes = axes[:place] + axes[place + 1 :]
            self._keep(k, counts, frozenset(axes), found)
        return found

    def _start(
        self, k: int, counts: bool, wanted: frozenset[str], known: dict[frozenset[str], int]
    ) -> tuple[Clique, Floats]:
        """The smallest table there is that holds what is wanted."""
        node = self._tree.nodes[k]
        best = min((names for names in known if wanted <= names), key=known.__getitem__, default=None)
        found = None if best is None else self._kept.get((k, counts, best))
        if best is None or found is None:
            best, found = frozenset(node.axes), self._whole(k, counts)
            self._keep(k, counts, best, found)
        return tuple(name for name in node.axes if name in best), found

    def _keep(self, k: int, counts: bool, names: frozenset[str], table: Floats) -> None:
        gone = self._kept.put((k, counts, names), table)
        self._known[k, counts][names] = table.size
        for other, kind, dropped in gone:
            del self._known[other, kind][dropped]

    def _whole(self, k: int, counts: bool) -> Floats:
        node, domain = self._tree.nodes[k], self._tree.domain
        table = self._restricted(self._conditionals[k].reshape(domain.sizes(node.axes)), node.axes)
        if not counts:
            return table
        rows = self._restricted(self._separators[k].reshape(domain.sizes(node.separator)), node.separator)
        return table * rows.reshape(rows.shape + (1,) * len(node.rest))

    def _restricted(self, table: Floats, axes: Clique) -> Floats:
        for axis, name in enumerate(axes):
            if name in self._codes:
                table = table.take(self._codes[name], axis=axis)
        return table


def summed(table: Floats, axis: int) -> Floats:
    """The sum over one axis of a contiguous table."""
    shape = table.shape
    left, n, right = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    made = np.empty((left, right))
    if right == 1:
        made = table.reshape(left, n) @ np.ones(n)
    elif left == 1:
        made = np.ones(n) @ table.reshape(n, right)
    else:
        sum_middle(table.reshape(left, n, right), made)
    return made.reshape(shape[:axis] + shape[axis + 1 :])
