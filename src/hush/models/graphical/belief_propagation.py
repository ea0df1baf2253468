"""Belief propagation: exact marginals of a graphical model by two passes over its junction tree.

p(x) = exp(sum_r theta_r(x_r)) / Z. From the leaves to the root every node turns the sum of its tables and of its
children's messages into p(rest | separator), row by row, each row scaled by its own largest value,

    b(s, t) = sum of tables,   message(s) = log sum_t exp b(s, t),   p(t | s) = exp(b(s, t) - message(s));

from the root to the leaves the counts of separators come down, and count(s, t) = count(s) p(t | s). Conditional
probabilities are at most one and every row has one near it, so that no potential, however extreme, overflows or makes
a row vanish, and a forbidden combination (-inf) is exactly zero. A cell costs one exponential.

The derivative of the counts along a direction g is their covariance with G(x) = sum_r g_r(x_r),

    d count_r(x_r) = count_r(x_r) (E[G | x_r] - E[G]),

and takes two further passes without exponentials: means of G given separators up, then down.

Layout for the compiled passes (`TreeProgram`): the cells of a node lie in C order over its axes, separator first, so
that row s of a node is p(rest | separator = s). Adjacent axes that no table tells apart are merged; what is left of the
last axis is a *run*, which may be part of a row or several rows. Runs are worked on in *chunks* of about 2048 cells:
whole rows, or a *tile* of one longer row, which has a scale of its own. New cliques need no new compilation.

Grouping: a node of many cells meets each of its tables at every cell. Two tables over A and B can be added up first,
over A | B, so that the node meets one table instead of two. Tables that hold only some of the node's last axes are
widened to all of them, so that runs are long. What comes down is summed the same way.

Reference: [HDMM, sec. 4.4] for the oracle; the conditional form of its messages is ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique, Domain
from hush.core.errors import DomainError
from hush.inference.factors import Factors
from hush.models.graphical import _kernels as kernels
from hush.models.graphical.junction_tree import JunctionTree, Node

LEAST_RUN = 48
FEWEST_CELLS = 512
SHARE = 4  # a sum has at most a quarter of the cells of what it is for
OVERHEAD = 12.0  # cells along a run that take as long as starting one


@dataclass(frozen=True, slots=True)
class TableGroup:
    """Tables that are added up over one clique, by index; indices after those of all tables are earlier groups."""

    clique: Clique
    members: tuple[int, ...]


def group_tables(domain: Domain, axes: Clique, tables: Sequence[Clique]) -> tuple[list[TableGroup], list[int]]:
    """Groups, each of tables and earlier groups, and the indices of tables and groups that the node itself meets.

    Indices count the tables first, then the groups in their order.
    """
    cells = domain.size(axes)
    if cells < FEWEST_CELLS or len(tables) < 2:
        return [], list(range(len(tables)))
    cliques = [frozenset(table) for table in tables]
    groups: list[TableGroup] = []
    live = list(range(len(tables)))
    order = {name: i for i, name in enumerate(axes)}

    def add_group(members: Sequence[int], over: frozenset[str]) -> None:
        groups.append(TableGroup(tuple(sorted(over, key=order.__getitem__)), tuple(members)))
        cliques.append(over)
        for member in members:
            live.remove(member)
        live.append(len(cliques) - 1)

    suffix = _suffix(domain, axes, cells)
    for index in list(live):
        if cliques[index] & suffix and not suffix <= cliques[index]:
            over = cliques[index] | suffix
            if domain.size(over) * SHARE <= cells:
                same = [p for p in live if cliques[p] <= over and cliques[p] & suffix]
                if index in same:
                    add_group(same, over)
    run = domain.size(suffix)
    while len(live) > 1:
        best, pair = 0.0, None
        for i, first in enumerate(live):
            for second in live[i + 1 :]:
                over = cliques[first] | cliques[second]
                size = domain.size(over)
                if size * SHARE > cells:
                    continue
                gain = _meeting(cells, cliques, (first, second), suffix, run)
                gain -= _meeting(cells, [over], (0,), suffix, run) + 2.0 * size
                if gain > best:
                    best, pair = gain, (first, second)
        if pair is None:
            break
        add_group(pair, cliques[pair[0]] | cliques[pair[1]])
    return groups, live


def _meeting(
    cells: int, cliques: Sequence[frozenset[str]], members: Sequence[int], suffix: frozenset[str], run: int
) -> float:
    """The cost of meeting some tables at every cell of a node: along each run, and at its start."""
    whole = sum(1 for member in members if cliques[member] & suffix)
    return cells * whole + cells / run * OVERHEAD * len(members)


def _suffix(domain: Domain, axes: Clique, cells: int) -> frozenset[str]:
    """The last axes that make a run of at least `LEAST_RUN` cells together."""
    names: list[str] = []
    for name in reversed(axes):
        if math.prod(domain[other] for other in names) >= LEAST_RUN:
            break
        names.append(name)
    return frozenset(names)


@dataclass(frozen=True, slots=True)
class TreeProgram:
    """Tables of integers that the passes of `_kernels` read, and the sizes of the buffers they need."""

    nodes: Integers
    shapes: Integers
    kinds: Integers
    starts: Integers
    strides: Integers
    cells: int
    rows: int
    tiles: int

    @property
    def tables(self) -> tuple[Integers, Integers, Integers, Integers, Integers]:
        """The leading arguments of every pass."""
        return self.nodes, self.shapes, self.kinds, self.starts, self.strides


def in_tree_order(tree: JunctionTree) -> JunctionTree:
    """The same tree with its domain in the order in which attributes first appear from the root.

    By the running intersection property the attributes of a separator all appear before the rest of their node, so
    the axes of every node are in domain order, and every table meets every node in the order of its own axes.
    """
    return with_domain(tree, tree.domain.project([name for node in tree.nodes for name in node.rest]))


def with_domain(tree: JunctionTree, domain: Domain) -> JunctionTree:
    """The same tree over the same attributes in another order."""
    return JunctionTree(
        domain,
        [
            Node(domain.clique(node.clique), domain.clique(node.separator), node.rest, node.parent)
            for node in tree.nodes
        ],
    )


@dataclass(frozen=True, slots=True)
class _NodeTable:
    """A table that meets a node: its kind, where it starts in its buffer, and its attributes in domain order."""

    kind: int
    start: int
    clique: Clique


@dataclass(slots=True)
class _ProgramWriter:
    """Rows of the program under construction."""

    domain: Domain
    nodes: list[list[int]]
    shapes: list[list[int]]
    kinds: list[int]
    starts: list[int]
    strides: list[list[int]]
    cells: int = 0
    rows: int = 0
    tiles: int = 0

    def room(self, size: int) -> int:
        """Where a message of this size is kept."""
        self.rows += size
        return self.rows - size

    def node(self, axes: Clique, columns: int, message: int, tables: Sequence[_NodeTable]) -> None:
        """A node over its axes, rows first, or a sum where `columns` is 0."""
        shape, strides = _merge(self.domain, axes, [table.clique for table in tables])
        cells = math.prod(shape)
        length = shape[-1]
        rows = cells // columns if columns else 0
        fitting = max(length, kernels.BLOCK // length * length)
        if columns <= fitting:
            chunk, tiles = max(fitting // columns, 1) * columns if columns >= length else fitting, 1
        else:
            chunk, tiles = fitting, -(-columns // fitting)
        order = sorted(range(len(tables)), key=lambda s: strides[s][-1] == 0)
        unit = sum(1 for steps in strides if steps[-1])
        run = [self.cells, cells, rows, columns, length, chunk, tiles, len(shape) - 1]
        self.nodes.append([*run, len(self.kinds), len(tables), unit, message, self.tiles])
        self.shapes.append(shape)
        for s in order:
            self.kinds.append(tables[s].kind)
            self.starts.append(tables[s].start)
            self.strides.append(strides[s])
        if columns:
            self.cells += cells
            self.tiles += rows * tiles


def compile_program(tree: JunctionTree, factors: Factors, fixed: Sequence[Clique]) -> TreeProgram:
    """Place every factor and fixed table in the smallest node that holds it, and every message in the parent."""
    writer = _ProgramWriter(tree.domain, [], [], [], [], [])
    meet: list[list[_NodeTable]] = [[] for _ in tree.nodes]
    for index, clique in enumerate(factors.cliques):
        meet[tree.home(clique)].append(_NodeTable(kernels.FACTOR, int(factors.offsets[index]), clique))
    start = 0
    for clique in fixed:
        meet[tree.home(clique)].append(_NodeTable(kernels.FIXED, start, clique))
        start += tree.domain.size(clique)
    messages = [writer.room(tree.domain.size(node.separator)) for node in tree.nodes]
    for node, message in zip(tree.nodes[1:], messages[1:], strict=True):
        meet[node.parent].append(_NodeTable(kernels.MESSAGE, message, node.separator))
    for node, message, tables in zip(tree.nodes, messages, meet, strict=True):
        groups, met = group_tables(tree.domain, node.axes, [table.clique for table in tables])
        sums = [
            _NodeTable(kernels.MESSAGE, writer.room(tree.domain.size(group.clique)), group.clique) for group in groups
        ]
        everything = [*tables, *sums]
        writer.node(node.axes, tree.domain.size(node.rest), message, [everything[index] for index in met])
        for group, total in zip(reversed(groups), reversed(sums), strict=True):
            writer.node(group.clique, 0, total.start, [everything[index] for index in group.members])
    return _packed(writer)


def _packed(writer: _ProgramWriter) -> TreeProgram:
    width = max(len(shape) for shape in writer.shapes)
    strides = [steps + [0] * (width - len(steps)) for steps in writer.strides]
    return TreeProgram(
        np.array(writer.nodes, dtype=np.int64),
        np.array([shape + [1] * (width - len(shape)) for shape in writer.shapes], dtype=np.int64),
        np.array(writer.kinds, dtype=np.int64),
        np.array(writer.starts, dtype=np.int64),
        np.array(strides, dtype=np.int64).reshape(len(strides), width),
        writer.cells,
        writer.rows,
        writer.tiles,
    )


def _merge(domain: Domain, axes: Clique, cliques: Sequence[Clique]) -> tuple[list[int], list[list[int]]]:
    """Sizes after joining neighbouring axes that are in the same tables, and the strides of every table along them."""
    sets = [frozenset(clique) for clique in cliques]
    shape: list[int] = []
    held: list[tuple[bool, ...]] = []
    for name in axes:
        holding = tuple(name in members for members in sets)
        if held and (holding == held[-1] or domain[name] == 1):
            shape[-1] *= domain[name]
        elif held and shape[-1] == 1:
            shape[-1], held[-1] = domain[name], holding
        else:
            shape.append(domain[name])
            held.append(holding)
    if not shape:
        shape, held = [1], [tuple(False for _ in sets)]
    strides = []
    for s in range(len(cliques)):
        steps, step = [0] * len(shape), 1
        for axis in range(len(shape) - 1, -1, -1):
            if held[axis][s]:
                steps[axis] = step
                step *= shape[axis]
        strides.append(steps)
    return shape, strides


class Belief:
    """Buffers of one junction tree, filled anew by every `marginals`; `tree` is in tree order.

    `fixed` are tables of logarithms that do not change: 0 where a combination is possible and -inf where not.
    """

    def __init__(self, tree: JunctionTree, factors: Factors, fixed: Sequence[tuple[Clique, Floats]] = ()) -> None:
        if any(tree.domain.clique(node.clique) != node.axes for node in tree.nodes) or factors.domain != tree.domain:
            raise DomainError(
                "the tree is not in tree order, or the factors have another order; use in_tree_order(tree)"
            )
        self.tree = tree
        self.factors = factors
        self._program = compile_program(tree, factors, [clique for clique, _ in fixed])
        self._fixed = np.concatenate([np.ravel(table) for _, table in fixed]) if fixed else np.zeros(1)
        self._zeros = np.zeros(self._fixed.size)
        self._cells = np.empty(self._program.cells)
        self._weights = np.empty(self._program.tiles)
        self._messages = np.empty(self._program.rows)
        self._separators = np.empty(self._program.rows)
        self._means = np.empty(self._program.rows)
        self._sums = np.empty(self._program.rows)

    @property
    def cells(self) -> int:
        return self._program.cells

    @property
    def log_partition(self) -> float:
        """log Z of the last potentials; -inf where the fixed tables leave nothing possible."""
        return float(self._messages[0])

    def marginals(self, potentials: Floats, total: float, out: Floats) -> Floats:
        """The counts of every factor under the potentials, which add up to `total`, into `out`."""
        self.condition(potentials)
        kernels.distribute(*self._program.tables, self._cells, self._weights, total, self._separators, out)
        return out

    def condition(self, potentials: Floats) -> None:
        """The pass to the root alone: conditionals and log Z."""
        kernels.collect(
            *self._program.tables, potentials, self._fixed, self._cells, self._weights, self._messages
        )  # fmt: skip

    def tangent(self, direction: Floats, out: Floats) -> Floats:
        """The derivative of the last marginals along a direction of potentials, into `out`."""
        tables = self._program.tables
        kernels.collect_tangent(*tables, direction, self._zeros, self._cells, self._weights, self._means)
        kernels.distribute_tangent(
            *tables, direction, self._zeros, self._cells, self._weights, self._separators, self._means, self._sums, out
        )
        return out

    def largest(self, potentials: Floats) -> float:
        """The largest sum of potentials that a possible record can have."""
        kernels.collect_largest(*self._program.tables, potentials, self._fixed, self._means)
        return float(self._means[0])

    def conditionals(self) -> list[Floats]:
        """p(rest | separator) of every node, of shape (cells of the separator, cells of the rest); rows sum to one.

        They are views, valid until the next potentials; a row that cannot be reached is all zero.
        """
        kernels.normalise(self._program.nodes, self._cells, self._weights)
        tables = []
        for node in self._program.nodes:
            rows, columns, cell = int(node[kernels.ROWS]), int(node[kernels.COLUMNS]), int(node[kernels.CELL])
            if columns:
                tables.append(self._cells[cell : cell + rows * columns].reshape(rows, columns))
        return tables

    def separators(self, total: float) -> list[Floats]:
        """The counts of every node's separator, flat, which add up to `total`; after `condition` or `marginals`."""
        unused = np.empty(self.factors.size)
        kernels.distribute(*self._program.tables, self._cells, self._weights, total, self._separators, unused)
        tables = []
        for node in self._program.nodes:
            if node[kernels.COLUMNS]:
                start, rows = int(node[kernels.MESSAGES]), int(node[kernels.ROWS])
                tables.append(self._separators[start : start + rows])
        return tables
