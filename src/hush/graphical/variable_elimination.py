"""Buffers: memory of large tables that is used again once nobody looks at it, as new pages cost more than sums.

Routes: through which nodes of a junction tree a table is computed, in which order, and how large it gets on the way.

A message crosses an edge between a node and its parent. Upward it is p(far | separator), downward it is
count(far, separator), where `far` are the asked attributes on the side it comes from, without the separator. Sides
where nothing is asked sum to one or to the separator's counts, and are never visited. The node where messages meet may
be any: the tables p(rest | separator) serve every direction, as count(far, separator) takes the place of the
separator's counts. Everything here is known before a number is computed.

Reference: [HDMM, sec. 4.4.1 and Alg. 4]; variable elimination over the nodes of the tree.

Contraction: tables with named axes, multiplied and summed as matrices.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hush.arrays import Floats, NamedTable
from hush.domain import Clique
from hush.graphical._kernels import small_products
from hush.graphical.junction_tree import JunctionTree

LEAST_CELLS = 1 << 15
SLACK = 2  # a buffer is taken for a table of at least half its cells
UNUSED_CELLS = 1 << 25  # of buffers that wait to be used again
_SAMPLE = [np.empty(0)]
_ALONE = sys.getrefcount(_SAMPLE[0])  # references to what a list alone holds


class Buffers:
    """Arrays that share memory with those made before them and gone since.

    >>> buffers = Buffers()
    >>> first = buffers.empty((300, 200))
    >>> address = first.ctypes.data
    >>> buffers.empty((300, 200)).ctypes.data == address
    False
    >>> del first
    >>> buffers.empty((200, 200)).ctypes.data == address
    True
    """

    def __init__(self) -> None:
        self._owners: list[Floats] = []

    def empty(self, shape: Sequence[int]) -> Floats:
        """An array whose values are not set."""
        cells = math.prod(shape)
        if cells < LEAST_CELLS:
            return np.empty(shape)
        unused = [i for i in range(len(self._owners)) if sys.getrefcount(self._owners[i]) <= _ALONE]
        fitting = [i for i in unused if cells <= self._owners[i].size <= SLACK * cells]
        if fitting:
            found = self._owners[min(fitting, key=lambda i: self._owners[i].size)]
        else:
            self._forget(unused)
            found = np.empty(cells)
            self._owners.append(found)
        return found[:cells].reshape(shape)

    def _forget(self, unused: Sequence[int]) -> None:
        """Give unused buffers back, the oldest first, down to the limit."""
        waiting = sum(self._owners[i].size for i in unused)
        gone = set()
        for i in unused:
            if waiting <= UNUSED_CELLS:
                break
            waiting -= self._owners[i].size
            gone.add(i)
        self._owners = [owner for i, owner in enumerate(self._owners) if i not in gone]


Names = frozenset[str]

MOVING = 4  # multiplications that take as long as moving a cell
LITTLE = 1 << 20  # cells; tables up to this size are all equally welcome


class Message(NamedTuple):
    """What crosses the edge above a node, up or down, and the asked attributes that it brings."""

    node: int
    upward: bool
    far: Names


@dataclass(frozen=True, slots=True)
class Join:
    """live(batch, others, summed) times message(batch, summed, far), summed; then the blocks of `shrunk`."""

    message: Message
    batch: Clique
    others: Clique
    summed: Clique
    far: Clique
    shrunk: Clique


@dataclass(frozen=True, slots=True)
class Step:
    """A node's own table over `own`, shrunk by the blocks of `first`, joined with messages one after the other.

    `counts` tells whether the own table holds counts, or probabilities given the separator. `peak` are the cells held
    at once, here or in any step before, and `cost` estimates the work of all of them.
    """

    node: int
    counts: bool
    own: Clique
    first: Clique
    joins: tuple[Join, ...]
    peak: int
    cost: int


class Routes:
    """Plans over one tree; `levels` are the lengths of axes as they come, `rows` those after an attribute's block."""

    def __init__(self, tree: JunctionTree, levels: Mapping[str, int], rows: Mapping[str, int]) -> None:
        self._tree = tree
        self._levels = levels
        self._rows = rows
        self._steps: dict[Message, Step] = {}
        self._separators = [frozenset(node.separator) for node in tree.nodes]
        self._entries = {name: k for k, node in enumerate(tree.nodes) for name in node.rest}

    def last(self, asked: Names) -> Step:
        """The step that gives the table over `asked`, at the node where it takes the least memory, then work."""
        if asked in self._tree:
            return self._step(self._tree.home(asked), None, asked, [])
        part = _Part(self._tree, self._entries, asked)
        for message in part.messages():
            if message not in self._steps:
                sender = message.node if message.upward else self._tree.nodes[message.node].parent
                self._steps[message] = self._step(sender, message, message.far, part.into(sender, message))
        finals = (self._step(k, None, asked, part.into(k, None)) for k in part.far)
        return min(finals, key=lambda step: (max(step.peak, LITTLE), step.cost))

    def step(self, message: Message) -> Step:
        """The step that gives a message of a table that `last` has planned."""
        return self._steps[message]

    def _step(self, k: int, message: Message | None, asked: Names, incoming: Sequence[Message]) -> Step:
        node = self._tree.nodes[k]
        kept = Names() if message is None else self._separators[message.node]
        upward = message is not None and message.upward
        counts = not upward and all(one.upward for one in incoming)
        needed = asked.union(kept, *(self._separators[one.node] for one in incoming))
        own = tuple(name for name in node.axes if name in needed or (not counts and name in self._separators[k]))
        length = {name: self._levels[name] for name in own}
        waiting = list(incoming)
        first = self._shrink(own, length, kept, waiting)
        whole = math.prod(self._levels[name] for name in node.clique)
        peak = (whole if counts or len(own) < len(node.clique) else 0) + math.prod(self._levels[name] for name in own)
        cost = MOVING * peak
        held = sum(self._size(one) for one in incoming)
        joins = []
        while waiting:
            best = waiting.pop(self._smallest(length, asked, kept, waiting))
            join, during, work = self._join(best, length, asked, kept, waiting)
            joins.append(join)
            peak, cost = max(peak, during), cost + work
        before = [self._steps[one] for one in incoming]
        return Step(
            k, counts, own, first, tuple(joins),
            max((peak + held, *(one.peak for one in before))), cost + sum(one.cost for one in before),
        )  # fmt: skip

    def _size(self, message: Message) -> int:
        """Cells of a message."""
        raw = math.prod(self._levels[name] for name in self._separators[message.node])
        return raw * math.prod(self._rows[name] for name in message.far)

    def _smallest(self, length: dict[str, int], asked: Names, kept: Names, waiting: Sequence[Message]) -> int:
        """The place of the message after which the fewest cells are live."""
        sizes = []
        for i, one in enumerate(waiting if len(waiting) > 1 else ()):
            trial = dict(length)
            self._join(one, trial, asked, kept, [*waiting[:i], *waiting[i + 1 :]])
            sizes.append(math.prod(trial.values()))
        return sizes.index(min(sizes)) if sizes else 0

    def _join(
        self, one: Message, length: dict[str, int], asked: Names, kept: Names, waiting: Sequence[Message]
    ) -> tuple[Join, int, int]:
        """The join with a message, cells held during it and work; `length` becomes what is live after it."""
        shared = self._separators[one.node]
        later = asked.union(kept, *(self._separators[other.node] for other in waiting))
        batch = tuple(name for name in length if name in shared and name in later)
        summed = tuple(name for name in length if name in shared and name not in later)
        others = tuple(name for name in length if name not in shared)
        far = tuple(sorted(one.far))
        live, message = math.prod(length.values()), self._size(one)
        for name in summed:
            del length[name]
        length.update((name, self._rows[name]) for name in far)
        made = math.prod(length.values())
        work = made * math.prod(self._levels[name] for name in summed) + MOVING * (live + message + made)
        shrunk = self._shrink(batch, length, kept, waiting)
        return Join(one, batch, others, summed, far, shrunk), 2 * live + message + made, work

    def _shrink(self, names: Iterable[str], length: dict[str, int], kept: Names, waiting: Sequence[Message]) -> Clique:
        """Attributes among `names` that no other table tells apart any more, and whose blocks are applied now."""
        later = kept.union(*(self._separators[other.node] for other in waiting))
        now = tuple(name for name in names if self._rows[name] != self._levels[name] and name not in later)
        length.update((name, self._rows[name]) for name in now)
        return now


class _Part:
    """The smallest part of the tree that holds every asked attribute, as far as no node holds them all."""

    def __init__(self, tree: JunctionTree, entries: Mapping[str, int], asked: Names) -> None:
        self.tree = tree
        self.asked = asked
        self.far: dict[int, Names] = {0: frozenset()}  # asked attributes of a node's rest and below it
        for name in asked:
            k = entries[name]
            while k not in self.far:
                self.far[k] = frozenset()
                k = tree.nodes[k].parent
        self.children: dict[int, list[int]] = {k: [] for k in self.far}
        for k in sorted(self.far, reverse=True):
            self.far[k] |= asked.intersection(tree.nodes[k].rest)
            if k:
                parent = tree.nodes[k].parent
                self.far[parent] |= self.far[k]
                self.children[parent].append(k)
        self.top = 0
        while len(self.children[self.top]) == 1:
            child = self.children[self.top][0]
            if not asked.intersection(tree.nodes[self.top].clique) <= set(tree.nodes[child].separator):
                break
            del self.far[self.top]
            self.top = child

    def messages(self) -> Iterator[Message]:
        """Every message that may be asked for, each after those that it needs."""
        below = [k for k in self.far if k != self.top]
        yield from (self._upward(k) for k in sorted(below, reverse=True))
        yield from (self._downward(k) for k in sorted(below))

    def into(self, k: int, message: Message | None) -> list[Message]:
        """The messages that a node needs to give `message`, or the table itself."""
        target = -1 if message is None or message.upward else message.node
        found = [self._upward(child) for child in self.children[k] if child != target]
        if k != self.top and (message is None or not message.upward):
            found.append(self._downward(k))
        return found

    def _upward(self, k: int) -> Message:
        return Message(k, True, self.far[k])

    def _downward(self, k: int) -> Message:
        return Message(k, False, self.asked - self.far[k] - set(self.tree.nodes[k].separator))


FEW = 2048  # multiplications below which calling a matrix product costs more than the product


def matrices(table: NamedTable, groups: Sequence[Clique], buffers: Buffers) -> Floats:
    """A table with every group of attributes as one axis; a copy only where the axes of a group are apart."""
    moved, sizes = table.grouped(groups)
    try:
        return moved.reshape(sizes, copy=False)
    except ValueError:
        copied = buffers.empty(moved.shape)
        copied[:] = moved
        return copied.reshape(sizes)


def joined(live: NamedTable, message: NamedTable, join: Join, buffers: Buffers) -> NamedTable:
    """sum_summed live(batch, others, summed) message(batch, summed, far), by one matrix product for each batch."""
    left = matrices(live, (join.batch, join.others, join.summed), buffers)
    right = matrices(message, (join.batch, join.summed, join.far), buffers)
    b, o, s = left.shape
    z = right.shape[2]
    made = buffers.empty((b, o, z))
    if s == 1:
        np.multiply(left, right, out=made)
    elif b > 1 and o * s * z < FEW:
        small_products(np.ascontiguousarray(left), np.ascontiguousarray(right), made)
    else:
        np.matmul(left, right, out=made)
    sizes = live.sizes(join.batch) + live.sizes(join.others) + message.sizes(join.far)
    return NamedTable.of(join.batch + join.others + join.far, sizes, made)
