"""Variable elimination over a junction tree: plan which messages a table needs, then multiply and sum them.

A message crosses the edge between a node and its parent. Upward it is p(far | separator), downward it is
count(far, separator), where `far` are the requested attributes on the sender's side, without the separator. A side
without requested attributes sums to one, or to the separator's counts, and is never visited. Messages may meet at any
node: the same tables p(rest | separator) serve both directions, because count(far, separator) replaces the separator's
counts. `Routes` plans all steps, and predicts their memory, before any number is computed.

Reference: [HDMM, sec. 4.4.1 and Alg. 4].
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from hush.core.arrays import Floats, NamedTable
from hush.core.domain import Clique
from hush.models.graphical._kernels import small_products
from hush.models.graphical.junction_tree import JunctionTree

Names = frozenset[str]

MULTIPLICATIONS_PER_MOVE = 4  # that take as long as moving a cell in memory
SMALL_PRODUCT = 2048  # multiplications below which calling BLAS takes longer than the product
EQUALLY_SMALL_CELLS = 1 << 20  # memory matters less than work up to here
LEAST_BUFFERED_CELLS = 1 << 15
LARGEST_BUFFER_RATIO = 2  # a buffer serves tables of at least half its cells
UNUSED_CELLS = 1 << 25  # of buffers that wait to be reused
_only_in_a_list = [np.empty(0)]
REFERENCES_OF_UNUSED = sys.getrefcount(_only_in_a_list[0])  # to an array that only a list holds


class Buffers:
    """Buffers that are reused between tables: allocating new pages takes longer than the sums in them.

    >>> buffers = Buffers()
    >>> first = buffers.empty((300, 200))
    >>> address = first.ctypes.data
    >>> buffers.empty((300, 200)).ctypes.data == address
    False
    >>> del first
    >>> buffers.empty((200, 200)).ctypes.data == address
    True
    """

    def __init__(self, unused_cells: int = UNUSED_CELLS) -> None:
        self._owners: list[Floats] = []
        self._most_unused = unused_cells

    def empty(self, shape: Sequence[int]) -> Floats:
        """An uninitialised array."""
        cells = math.prod(shape)
        if cells < LEAST_BUFFERED_CELLS:
            return np.empty(shape)
        unused = [i for i in range(len(self._owners)) if sys.getrefcount(self._owners[i]) <= REFERENCES_OF_UNUSED]
        fitting = [i for i in unused if cells <= self._owners[i].size <= LARGEST_BUFFER_RATIO * cells]
        if fitting:
            owner = self._owners[min(fitting, key=lambda i: self._owners[i].size)]
        else:
            # Release unused buffers, the oldest first, down to the limit.
            excess = sum(self._owners[i].size for i in unused) - self._most_unused
            released = set()
            for i in unused:
                if excess <= 0:
                    break
                excess -= self._owners[i].size
                released.add(i)
            self._owners = [owner for i, owner in enumerate(self._owners) if i not in released]
            owner = np.empty(cells)
            self._owners.append(owner)
        return owner[:cells].reshape(shape)


class Message(NamedTuple):
    """A message across the edge above a node, up or down, and the requested attributes that it brings."""

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
    """A node's table over `names`, shrunk by the blocks of `first`, then joined with one message after the other.

    The table holds counts if `counts`, else probabilities given the separator. `peak` is the most cells held at a time,
    here or in any step before, and `cost` estimates the work of all these steps.
    """

    node: int
    counts: bool
    names: Clique
    first: Clique
    joins: tuple[Join, ...]
    peak: int
    cost: int


class Routes:
    """Plans over one tree; `levels` are the lengths of axes, `rows` their lengths after the attribute's block."""

    def __init__(self, tree: JunctionTree, levels: Mapping[str, int], rows: Mapping[str, int]) -> None:
        self._tree = tree
        self._levels = levels
        self._rows = rows
        self._steps: dict[Message, Step] = {}
        self._separators = [frozenset(node.separator) for node in tree.nodes]
        self._entries = {name: k for k, node in enumerate(tree.nodes) for name in node.rest}

    def last(self, asked: Names) -> Step:
        """The step that gives the table over `asked`, at the node where that takes the least memory, then work."""
        if asked in self._tree:
            return self._step(self._tree.home(asked), None, asked, [])
        subtree = _Subtree(self._tree, self._entries, asked)
        for message in subtree.messages():
            if message not in self._steps:
                sender = message.node if message.upward else self._tree.nodes[message.node].parent
                self._steps[message] = self._step(sender, message, message.far, subtree.into(sender, message))
        finals = (self._step(k, None, asked, subtree.into(k, None)) for k in subtree.far)
        return min(finals, key=lambda step: (max(step.peak, EQUALLY_SMALL_CELLS), step.cost))

    def step(self, message: Message) -> Step:
        """The step that computes a message, which `last` has planned."""
        return self._steps[message]

    def _step(self, k: int, message: Message | None, asked: Names, incoming: Sequence[Message]) -> Step:
        """The step at node k that computes a message, or the table itself for None."""
        # The node's table: counts if all messages come from below, and the attributes that anything later needs.
        node = self._tree.nodes[k]
        kept = Names() if message is None else self._separators[message.node]
        upward = message is not None and message.upward
        counts = not upward and all(arriving.upward for arriving in incoming)
        needed = asked.union(kept, *(self._separators[arriving.node] for arriving in incoming))
        names = tuple(name for name in node.axes if name in needed or (not counts and name in self._separators[k]))
        length = {name: self._levels[name] for name in names}
        waiting = list(incoming)
        first = self._shrink(names, length, kept, waiting)

        # Join the messages, always the one that leaves the fewest live cells, and track memory and work.
        whole = math.prod(self._levels[name] for name in node.clique)
        peak = math.prod(self._levels[name] for name in names)
        if counts or len(names) < len(node.clique):
            peak += whole
        cost = MULTIPLICATIONS_PER_MOVE * peak
        held = sum(self._size(arriving) for arriving in incoming)
        joins = []
        while waiting:
            sizes = []
            for i, arriving in enumerate(waiting if len(waiting) > 1 else ()):
                trial = dict(length)
                self._join(arriving, trial, asked, kept, [*waiting[:i], *waiting[i + 1 :]])
                sizes.append(math.prod(trial.values()))
            best = waiting.pop(sizes.index(min(sizes)) if sizes else 0)
            join, during, work = self._join(best, length, asked, kept, waiting)
            joins.append(join)
            peak, cost = max(peak, during), cost + work
        before = [self._steps[arriving] for arriving in incoming]
        peak = max(peak + held, *(step.peak for step in before)) if before else peak + held
        return Step(k, counts, names, first, tuple(joins), peak, cost + sum(step.cost for step in before))

    def _size(self, message: Message) -> int:
        """The cells of a message."""
        raw = math.prod(self._levels[name] for name in self._separators[message.node])
        return raw * math.prod(self._rows[name] for name in message.far)

    def _join(
        self, message: Message, length: dict[str, int], asked: Names, kept: Names, waiting: Sequence[Message]
    ) -> tuple[Join, int, int]:
        """The join with a message, the cells held during it, and its work; `length` becomes the axes left after it."""
        shared = self._separators[message.node]
        later = asked.union(kept, *(self._separators[other.node] for other in waiting))
        batch = tuple(name for name in length if name in shared and name in later)
        summed = tuple(name for name in length if name in shared and name not in later)
        others = tuple(name for name in length if name not in shared)
        far = tuple(sorted(message.far))
        live, message_cells = math.prod(length.values()), self._size(message)
        for name in summed:
            del length[name]
        length.update((name, self._rows[name]) for name in far)
        cells = math.prod(length.values())
        work = cells * math.prod(self._levels[name] for name in summed) + MULTIPLICATIONS_PER_MOVE * (
            live + message_cells + cells
        )
        shrunk = self._shrink(batch, length, kept, waiting)
        return Join(message, batch, others, summed, far, shrunk), 2 * live + message_cells + cells, work

    def _shrink(self, names: Iterable[str], length: dict[str, int], kept: Names, waiting: Sequence[Message]) -> Clique:
        """The attributes among `names` that no later message contains; their blocks are applied now."""
        later = kept.union(*(self._separators[other.node] for other in waiting))
        now = tuple(name for name in names if self._rows[name] != self._levels[name] and name not in later)
        length.update((name, self._rows[name]) for name in now)
        return now


class _Subtree:
    """The smallest subtree that contains every requested attribute."""

    def __init__(self, tree: JunctionTree, entries: Mapping[str, int], asked: Names) -> None:
        self.tree = tree
        self.asked = asked
        self.far: dict[int, Names] = {0: frozenset()}  # requested attributes in a node's rest and below it
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
        # Move the top down as long as it adds no requested attribute to its only child.
        self.top = 0
        while len(self.children[self.top]) == 1:
            child = self.children[self.top][0]
            if not asked.intersection(tree.nodes[self.top].clique) <= set(tree.nodes[child].separator):
                break
            del self.far[self.top]
            self.top = child

    def messages(self) -> Iterator[Message]:
        """Every message that a plan may need, each after those that it depends on."""
        below = [k for k in self.far if k != self.top]
        yield from (self._upward(k) for k in sorted(below, reverse=True))
        yield from (self._downward(k) for k in sorted(below))

    def into(self, k: int, message: Message | None) -> list[Message]:
        """The messages that a node needs to compute `message`, or the table itself for None."""
        target = -1 if message is None or message.upward else message.node
        messages = [self._upward(child) for child in self.children[k] if child != target]
        if k != self.top and (message is None or not message.upward):
            messages.append(self._downward(k))
        return messages

    def _upward(self, k: int) -> Message:
        return Message(k, True, self.far[k])

    def _downward(self, k: int) -> Message:
        return Message(k, False, self.asked - self.far[k] - set(self.tree.nodes[k].separator))


def matrices(table: NamedTable, groups: Sequence[Clique], buffers: Buffers) -> Floats:
    """A table with every group of attributes as one axis; copied only if the axes of a group are not adjacent."""
    moved, sizes = table.grouped(groups)
    axes = zip(moved.shape, moved.strides, strict=True)
    for group in groups:
        steps = [(n, step) for n, step in islice(axes, sum(name in table.names for name in group)) if n > 1]
        if any(step != n * inner for (_, step), (n, inner) in pairwise(steps)):
            copied = buffers.empty(moved.shape)
            copied[:] = moved
            return copied.reshape(sizes)
    return moved.reshape(sizes)


def joined(live: NamedTable, message: NamedTable, join: Join, buffers: Buffers) -> NamedTable:
    """sum_summed live(batch, others, summed) message(batch, summed, far), by one matrix product for each batch."""
    left = matrices(live, (join.batch, join.others, join.summed), buffers)
    right = matrices(message, (join.batch, join.summed, join.far), buffers)
    b, o, s = left.shape
    z = right.shape[2]
    product = buffers.empty((b, o, z))
    if s == 1:
        np.multiply(left, right, out=product)
    elif b > 1 and o * s * z < SMALL_PRODUCT:
        small_products(np.ascontiguousarray(left), np.ascontiguousarray(right), product)
    else:
        np.matmul(left, right, out=product)
    sizes = live.sizes(join.batch) + live.sizes(join.others) + message.sizes(join.far)
    return NamedTable.of(join.batch + join.others + join.far, sizes, product)
