"""Belief propagation: exact marginals of a graphical model by two passes over its junction tree.

p(x) = exp(sum_r theta_r(x_r)) / Z. From the leaves to the root, every node turns the sum of its tables and of its
children's messages into p(rest | separator), row by row, each row scaled by its own largest value:

    b(s, t) = sum of tables,   message(s) = log sum_t exp b(s, t),   p(t | s) = exp(b(s, t) - message(s)).

From the root to the leaves, every node computes count(s, t) = count(s) p(t | s) and sums it to the separators of its
children. Conditional probabilities are at most one, and the largest of a row is not small, so that no potential can
overflow or make a row vanish; a forbidden combination (-inf) is exactly zero. A cell costs one exponential.

The derivative of the counts along a direction g is their covariance with G(x) = sum_r g_r(x_r),

    d count_r(x_r) = count_r(x_r) (E[G | x_r] - E[G]),

and takes two further passes without exponentials: means of G given separators go up, then down.

Layout for the compiled passes (`TreeProgram`): the cells of a node are in C order over its axes, separator first, so
that row s of a node is p(rest | separator = s). Adjacent axes that are in the same tables are merged. One pass along
the last axis is a *run*; it may be part of a row, or several rows. Runs are processed in *chunks* of about 2048 cells:
whole rows, or a *tile* of one longer row, with a scale of its own. New cliques need no new compilation.

Grouping: a large node reads each of its tables at every cell. Two tables over A and B can be added up first, over
A | B, so that the node reads one table instead of two. Tables that contain only some of the node's last axes are
widened to all of them, which makes runs long. On the way down, counts are summed in the same groups.

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

LEAST_RUN = 48  # cells
LEAST_GROUPED_CELLS = 512  # smaller nodes are not worth grouping
GROUP_REDUCTION = 4  # a group has at most a quarter of the cells of its node
CELLS_PER_RUN_START = 12.0  # that take as long as starting a run


@dataclass(frozen=True, slots=True)
class TableGroup:
    """Tables that are added up over one clique, by index; indices beyond the tables are earlier groups."""

    clique: Clique
    members: tuple[int, ...]


def group_tables(domain: Domain, axes: Clique, tables: Sequence[Clique]) -> tuple[list[TableGroup], list[int]]:
    """Groups of tables and earlier groups, and the indices of the tables and groups that the node itself reads.

    Indices count the tables first, then the groups in order.
    """
    cells = domain.size(axes)
    if cells < LEAST_GROUPED_CELLS or len(tables) < 2:
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

    # Widen tables that contain only some of the last axes that make up a run.
    last_axes: list[str] = []
    for name in reversed(axes):
        if math.prod(domain[other] for other in last_axes) >= LEAST_RUN:
            break
        last_axes.append(name)
    suffix = frozenset(last_axes)
    for index in list(live):
        if cliques[index] & suffix and not suffix <= cliques[index]:
            over = cliques[index] | suffix
            if domain.size(over) * GROUP_REDUCTION <= cells:
                same = [p for p in live if cliques[p] <= over and cliques[p] & suffix]
                if index in same:
                    add_group(same, over)

    # Join the pair that saves most reads, as long as one saves more than its sum costs.
    run = domain.size(suffix)
    while len(live) > 1:
        best, pair = 0.0, None
        for i, first in enumerate(live):
            for second in live[i + 1 :]:
                over = cliques[first] | cliques[second]
                size = domain.size(over)
                if size * GROUP_REDUCTION > cells:
                    continue
                gain = _reading_cost(cells, cliques, (first, second), suffix, run)
                gain -= _reading_cost(cells, [over], (0,), suffix, run) + 2.0 * size
                if gain > best:
                    best, pair = gain, (first, second)
        if pair is None:
            break
        add_group(pair, cliques[pair[0]] | cliques[pair[1]])
    return groups, live


def _reading_cost(
    cells: int, cliques: Sequence[frozenset[str]], members: Sequence[int], suffix: frozenset[str], run: int
) -> float:
    """The cost of reading some tables at every cell of a node: along each run, and at its start."""
    whole = sum(1 for member in members if cliques[member] & suffix)
    return cells * whole + cells / run * CELLS_PER_RUN_START * len(members)


@dataclass(frozen=True, slots=True)
class TreeProgram:
    """Arrays of integers that the passes of `_kernels` interpret, and the sizes of the buffers that they need."""

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

    By the running intersection property the attributes of a separator all appear before the rest of their node. So the
    axes of every node are in domain order, like those of every table.
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
    """A table that a node reads: its kind, its start in its buffer, and its attributes in domain order."""

    kind: int
    start: int
    clique: Clique


@dataclass(slots=True)
class _ProgramWriter:
    """A program under construction."""

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
        """Reserve space for a message of this size, and return its start."""
        self.rows += size
        return self.rows - size

    def node(self, axes: Clique, columns: int, message: int, tables: Sequence[_NodeTable]) -> None:
        """Append a node over its axes, rows first, or a sum of tables if `columns` is 0."""
        shape, strides = _merge(self.domain, axes, [table.clique for table in tables])
        cells = math.prod(shape)
        length = shape[-1]
        rows = cells // columns if columns else 0
        fitting = max(length, kernels.CHUNK_CELLS // length * length)
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
    """Place every factor and fixed table in the smallest node that contains it, and every message in the parent."""
    writer = _ProgramWriter(tree.domain, [], [], [], [], [])
    # Which tables each node reads.
    read_by: list[list[_NodeTable]] = [[] for _ in tree.nodes]
    for index, clique in enumerate(factors.cliques):
        read_by[tree.home(clique)].append(_NodeTable(kernels.FACTOR, int(factors.offsets[index]), clique))
    start = 0
    for clique in fixed:
        read_by[tree.home(clique)].append(_NodeTable(kernels.FIXED, start, clique))
        start += tree.domain.size(clique)
    messages = [writer.room(tree.domain.size(node.separator)) for node in tree.nodes]
    for node, message in zip(tree.nodes[1:], messages[1:], strict=True):
        read_by[node.parent].append(_NodeTable(kernels.MESSAGE, message, node.separator))

    # Every node, followed by the sums that it reads, each after those that read it.
    for node, message, tables in zip(tree.nodes, messages, read_by, strict=True):
        groups, read = group_tables(tree.domain, node.axes, [table.clique for table in tables])
        sums = [
            _NodeTable(kernels.MESSAGE, writer.room(tree.domain.size(group.clique)), group.clique) for group in groups
        ]
        everything = [*tables, *sums]
        writer.node(node.axes, tree.domain.size(node.rest), message, [everything[index] for index in read])
        for group, total in zip(reversed(groups), reversed(sums), strict=True):
            writer.node(group.clique, 0, total.start, [everything[index] for index in group.members])

    # Pad shapes and strides to the largest number of axes.
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
    """The shape after merging adjacent axes that are in the same tables, and the strides of every table along it."""
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
    """Belief propagation on one junction tree in tree order; every call of `marginals` overwrites its buffers.

    `fixed` are tables of logarithms that do not change: 0 for a possible combination and -inf for a forbidden one.
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
        """log Z of the last potentials; -inf if the fixed tables forbid everything."""
        return float(self._messages[0])

    def marginals(self, potentials: Floats, total: float, out: Floats) -> Floats:
        """The counts of every factor under the potentials, which add up to `total`, into `out`."""
        self.condition(potentials)
        kernels.distribute(*self._program.tables, self._cells, self._weights, total, self._separators, out)
        return out

    def condition(self, potentials: Floats) -> None:
        """Only the pass to the root: conditionals and log Z."""
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

        Views, valid until the next potentials; a row whose separator cell is impossible is all zero.
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
