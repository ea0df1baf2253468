r"""Decision diagrams: a query phi that is true or false in each cell, and its extension to rows of probabilities.

A relaxed row has for each column i probabilities x_i over its levels. The extension is the probability that a record
with independent columns satisfies the query,

    phi^(x) = sum over satisfying patterns of  prod_i (the probability of the pattern's levels of column i).

It is a polynomial, linear in each column's probabilities, and on a row of certain levels it is phi. Levels that the
query does not tell apart form one class. Columns are decided one after the other; what is left to decide is a node, and
equal nodes are one. So the cost is O(nodes x classes) a row, in place of a sum over all patterns; r of k tests take at
most r (k - r + 1) nodes.

Reference: [Avent 2023, sec. 4.4], where extensions are found by hand, one class of queries at a time; Bryant,
"Graph-Based Algorithms for Boolean Function Manipulation", 1986, for reduced ordered diagrams.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hush.core.arrays import Booleans, Floats, Integers
from hush.core.domain import Clique, Domain
from hush.core.errors import SizeError, WorkloadError
from hush.linops import LinearOperator
from hush.schema.proposition import ALWAYS, NEVER, Proposition

MOST_NODES = 1 << 16
FALSE, TRUE = 0, 1  # the two nodes at which all is decided
Blocks: TypeAlias = Mapping[str, Floats] | Sequence[Floats]


@dataclass(frozen=True, eq=False)
class DecisionDiagram:
    """A query over the columns of a clique, as nodes that decide one column each.

    `classes[i]` has the class of each level of column i. Node 2 + j decides column `decides[j]`; a row whose level is
    in class c goes on to node `children[j, c]`, where 0 is false and 1 is true. Children come before their parents.

    >>> from hush.schema.proposition import at_least, test
    >>> domain = Domain({"a": 2, "b": 3, "c": 2})
    >>> diagram = DecisionDiagram.of(domain, at_least(2, test("a", 1), test("b", 2), test("c", 0)))
    >>> diagram.nodes, diagram.holds([1, 1, 0]).item(), diagram.holds([1, 1, 1]).item()
    (4, True, False)
    >>> half = [np.full((1, size), 1 / size) for size in domain.shape]
    >>> round(float(diagram.value(half)[0]), 6)
    0.416667
    """

    clique: Clique
    classes: tuple[Integers, ...]  # one per column, (size,)
    decides: Integers  # (nodes,)
    children: Integers  # (nodes, most classes of a column)
    root: int

    @classmethod
    def of(cls, domain: Domain, proposition: Proposition) -> DecisionDiagram:
        """The diagram of a proposition, over the columns that it tests, in domain order."""
        settled = proposition.settled(domain)
        clique = domain.clique(settled.columns)
        sets: dict[str, dict[frozenset[int], None]] = {name: {} for name in clique}
        for leaf in settled.tests():
            sets[leaf.column].setdefault(leaf.levels)
        # levels that are in the same of the tested sets are one class
        classes = tuple(
            _numbered([tuple(level in tested for tested in sets[name]) for level in range(domain[name])])
            for name in clique
        )
        firsts = [_first_levels(level_classes) for level_classes in classes]
        position = {name: index for index, name in enumerate(clique)}

        def decided(state: Proposition) -> int | None:
            return TRUE if state == ALWAYS else FALSE if state == NEVER else None

        def column(state: Proposition, _: int) -> int:
            return min(position[name] for name in state.columns)

        def step(state: Proposition, index: int, number: int) -> Proposition:
            return state.given(clique[index], firsts[index][number])

        return _reduced(clique, classes, settled, decided, column, step)

    @classmethod
    def of_cells(cls, clique: Clique, inside: Booleans) -> DecisionDiagram:
        """The diagram of the cells where a query is true, one axis per column."""
        classes = []
        for axis in range(inside.ndim):
            slices = np.moveaxis(inside, axis, 0).reshape(inside.shape[axis], -1)
            packed = np.packbits(slices, axis=1)
            classes.append(_numbered([row.tobytes() for row in packed]))
        firsts = [_first_levels(level_classes) for level_classes in classes]
        small = np.ascontiguousarray(inside[np.ix_(*firsts)]) if clique else np.asarray(inside)
        shape = small.shape

        def decided(state: bytes) -> int | None:
            return TRUE if state == b"\x01" * len(state) else FALSE if not any(state) else None

        def column(_: bytes, index: int) -> int:
            return index

        def step(state: bytes, index: int, number: int) -> bytes:
            length = math.prod(shape[index + 1 :])
            return state[number * length : (number + 1) * length]

        return _reduced(clique, tuple(classes), small.astype(np.uint8).tobytes(), decided, column, step)

    def check(self) -> None:
        """Refuse nodes that do not fit together, as a changed file may hold them."""
        counts = [int(level_classes.max(initial=-1)) + 1 for level_classes in self.classes]
        inside = len(counts) == len(self.clique) and all(
            level_classes.ndim == 1 and np.array_equal(np.unique(level_classes), np.arange(count))
            for level_classes, count in zip(self.classes, counts, strict=True)
        )
        n = self.nodes
        if not (
            inside
            and n <= MOST_NODES
            and self.children.shape == (n, max(counts, default=1))
            and ((self.decides >= 0) & (self.decides < len(counts))).all()
            and (self.children >= 0).all()
            and 0 <= self.root < n + 2
        ):
            raise WorkloadError("the nodes of a decision diagram do not fit together; build it anew")
        columns, numbers = np.concatenate([[len(counts)] * 2, self.decides]), np.arange(2, n + 2)[:, None]
        if (n and (columns[self.children].min(axis=1) <= self.decides).any()) or (self.children >= numbers).any():
            raise WorkloadError("the nodes of a decision diagram are not in order; build it anew")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The levels of each column."""
        return tuple(map(len, self.classes))

    @property
    def nodes(self) -> int:
        """How many nodes decide a column."""
        return len(self.decides)

    def holds(self, codes: Sequence[Any]) -> Booleans:
        """Whether the query is true of codes, one array for each column; arrays are broadcast."""
        arrays = np.broadcast_arrays(*codes) if self.clique else []
        columns = np.concatenate([[-1, -1], self.decides])  # none of the two nodes at which all is decided
        state = np.full(arrays[0].shape if arrays else (), self.root, dtype=np.int64)
        for index, levels in enumerate(arrays):
            here = columns[state] == index
            state[here] = self.children[state[here] - 2, self.classes[index][np.asarray(levels)[here]]]
        return np.asarray(state == TRUE)

    def inside(self) -> Booleans:
        """The query in every cell of its columns, one axis per column."""
        return self.holds(np.ix_(*(np.arange(size) for size in self.sizes)))

    def value(self, blocks: Blocks) -> Floats:
        """phi^ of relaxed rows, (rows,), from the probabilities of each column, (rows, size)."""
        return np.asarray(self._values(self._masses(blocks))[self.root])

    def value_and_gradient(self, blocks: Blocks) -> tuple[Floats, list[Floats]]:
        """phi^ and its derivatives by the probabilities of each column, (rows, size) each.

        A node contributes the probability of reaching it times phi^ of each child. Where a path does not decide a
        column, a number that is the same for all of its levels is left out: it changes nothing on the simplex.
        """
        masses = self._masses(blocks)
        values = self._values(masses)
        reached = np.zeros_like(values)
        reached[self.root] = 1.0
        slopes = [np.zeros_like(mass) for mass in masses]
        for number in range(self.root, TRUE, -1):
            index, children = self._node(number)
            for level_class, child in enumerate(children):
                reached[child] += reached[number] * masses[index][:, level_class]
                slopes[index][:, level_class] += reached[number] * values[child]
        by_level = zip(slopes, self.classes, strict=True)
        return values[self.root], [slope[:, level_classes] for slope, level_classes in by_level]

    def _values(self, masses: list[Floats]) -> Floats:
        rows = len(masses[0]) if masses else 1
        values = np.zeros((self.nodes + 2, rows))
        values[TRUE] = 1.0
        for number in range(2, self.nodes + 2):
            index, children = self._node(number)
            values[number] = np.einsum("rc,cr->r", masses[index], values[children])
        return values

    def _masses(self, blocks: Blocks) -> list[Floats]:
        """The probability of each class of each column: (rows, classes)."""
        given = [blocks[name] for name in self.clique] if isinstance(blocks, Mapping) else list(blocks)
        if len(given) != len(self.clique):
            raise WorkloadError(f"probabilities of {len(given)} columns for a query over {len(self.clique)}")
        masses = []
        for name, block, level_classes in zip(self.clique, given, self.classes, strict=True):
            levels = len(level_classes)
            if block.ndim != 2 or block.shape[1] != levels:
                raise WorkloadError(f"probabilities of {name!r} of shape {block.shape}: expected (rows, {levels})")
            masses.append(np.asarray(block @ np.eye(int(level_classes.max()) + 1)[level_classes]))
        return masses

    def _node(self, number: int) -> tuple[int, Integers]:
        index = int(self.decides[number - 2])
        return index, self.children[number - 2, : int(self.classes[index].max()) + 1]

    @property
    def _key(self) -> tuple[Hashable, ...]:
        arrays = (*self.classes, self.decides, self.children)
        return self.clique, self.root, tuple(array.tobytes() for array in arrays)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DecisionDiagram) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"DecisionDiagram({self.nodes} nodes over {', '.join(self.clique) or 'no column'})"


def _reduced(
    clique: Clique,
    classes: tuple[Integers, ...],
    start: Any,
    decided: Callable[[Any], int | None],
    column: Callable[[Any, int], int],
    step: Callable[[Any, int, int], Any],
) -> DecisionDiagram:
    """The diagram of a state machine: `decided` ends it, `column` says what to decide next, `step` decides it."""
    counts = [int(level_classes.max()) + 1 for level_classes in classes]
    known: dict[tuple[int, Any], int] = {}
    unique: dict[tuple[int, tuple[int, ...]], int] = {}

    def node(state: Any, index: int) -> int:
        end = decided(state)
        if end is not None:
            return end
        index = column(state, index)
        if (index, state) not in known:
            children = tuple(node(step(state, index, number), index + 1) for number in range(counts[index]))
            if len(set(children)) == 1:
                known[index, state] = children[0]
            else:
                known[index, state] = unique.setdefault((index, children), len(unique) + 2)
            if len(known) > MOST_NODES:
                raise SizeError(
                    f"a query over {', '.join(clique)} needs more than {MOST_NODES:,} nodes to decide; ask for "
                    "parts of it, or test fewer columns"
                )
        return known[index, state]

    root = node(start, 0)
    table = np.zeros((len(unique), max(counts, default=1)), dtype=np.int64)
    for (_, children), number in unique.items():
        table[number - 2, : len(children)] = children
    return _smallest(clique, classes, np.array([index for index, _ in unique], dtype=np.int64), table, root)


def _smallest(
    clique: Clique, classes: Sequence[Integers], decides: Integers, children: Integers, root: int
) -> DecisionDiagram:
    """The same without columns that no node decides, and with classes that no node tells apart as one.

    So equal queries over one domain have equal diagrams.
    """
    names: list[str] = []
    kept: list[Integers] = []
    smaller, renamed = np.zeros_like(children), np.zeros_like(decides)
    for index, name in enumerate(clique):
        here = np.flatnonzero(decides == index)
        if not len(here):
            continue
        columns = children[here, : int(classes[index].max()) + 1]
        merged = _numbered([column.tobytes() for column in columns.T])
        distinct = columns[:, _first_levels(merged)]
        smaller[here, : distinct.shape[1]] = distinct
        renamed[here] = len(names)
        names.append(name)
        kept.append(merged[classes[index]])
    width = max((int(level_classes.max()) + 1 for level_classes in kept), default=1)
    smaller = np.ascontiguousarray(smaller[:, :width])
    return DecisionDiagram(tuple(names), tuple(kept), renamed, smaller, root)


def _numbered(keys: Sequence[Hashable]) -> Integers:
    """A number for each key, equal for equal ones, in order of first appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _first_levels(classes: Integers) -> list[int]:
    """One level of each class."""
    return np.unique(classes, return_index=True)[1].tolist()  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class FormulaRow(LinearOperator):
    """One line of a matrix: a one for each cell that satisfies a query. Relaxed rows are fitted to it by its diagram.

    >>> from hush.schema.proposition import test
    >>> diagram = DecisionDiagram.of(Domain({"a": 2, "b": 3}), test("a", 1) | test("b", 0))
    >>> FormulaRow(diagram).dense().astype(int).tolist()
    [[1, 0, 0, 1, 1, 1]]
    """

    diagram: DecisionDiagram

    @property
    def shape(self) -> tuple[int, int]:
        return 1, math.prod(self.diagram.sizes)

    def matmat(self, x: Floats) -> Floats:
        return np.asarray(x[self.diagram.inside().reshape(-1)].sum(axis=0))[None, :]

    def adjoint(self, y: Floats) -> Floats:
        return np.asarray(self.diagram.inside().reshape(-1, 1) * y)
