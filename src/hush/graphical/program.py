"""Program: where every table meets every run of cells of a junction tree, as plain arrays for the compiled passes.

Cells of a node lie in C order over its axes, separator first: row s of a node is the table p(rest | separator = s).
Adjacent axes that no table tells apart are merged; what is left of the last axis is a *run*, which may be part of a row
or some rows. Runs are worked on in *chunks* of about 2048 cells: some whole rows, or a *tile* of one longer row, which
has a scale of its own. Nothing is compiled anew when the cliques change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.domain import Clique, Domain
from hush.graphical import _kernels as kernels
from hush.graphical.factors import Factors
from hush.graphical.grouping import group_tables
from hush.graphical.junction_tree import JunctionTree, Node

Integers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Program:
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
class _Table:
    """A table that meets a node: its kind, where it starts in its buffer, and its attributes in domain order."""

    kind: int
    start: int
    clique: Clique


@dataclass(slots=True)
class _Writer:
    """Rows of the program as they are made."""

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

    def node(self, axes: Clique, columns: int, message: int, tables: Sequence[_Table]) -> None:
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
        unit = sum(1 for own in strides if own[-1])
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


def compile_program(tree: JunctionTree, factors: Factors, fixed: Sequence[Clique]) -> Program:
    """Place every factor and fixed table in the smallest node that holds it, and every message in the parent."""
    writer = _Writer(tree.domain, [], [], [], [], [])
    meet: list[list[_Table]] = [[] for _ in tree.nodes]
    for index, clique in enumerate(factors.cliques):
        meet[tree.home(clique)].append(_Table(kernels.FACTOR, int(factors.offsets[index]), clique))
    start = 0
    for clique in fixed:
        meet[tree.home(clique)].append(_Table(kernels.FIXED, start, clique))
        start += tree.domain.size(clique)
    messages = [writer.room(tree.domain.size(node.separator)) for node in tree.nodes]
    for node, message in zip(tree.nodes[1:], messages[1:], strict=True):
        meet[node.parent].append(_Table(kernels.MESSAGE, message, node.separator))
    for node, message, tables in zip(tree.nodes, messages, meet, strict=True):
        groups, met = group_tables(tree.domain, node.axes, [table.clique for table in tables])
        sums = [_Table(kernels.MESSAGE, writer.room(tree.domain.size(group.clique)), group.clique) for group in groups]
        everything = [*tables, *sums]
        writer.node(node.axes, tree.domain.size(node.rest), message, [everything[place] for place in met])
        for group, own in zip(reversed(groups), reversed(sums), strict=True):
            writer.node(group.clique, 0, own.start, [everything[place] for place in group.members])
    return _packed(writer)


def _packed(writer: _Writer) -> Program:
    width = max(len(shape) for shape in writer.shapes)
    strides = [own + [0] * (width - len(own)) for own in writer.strides]
    return Program(
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
        own = tuple(name in members for members in sets)
        if held and (own == held[-1] or domain[name] == 1):
            shape[-1] *= domain[name]
        elif held and shape[-1] == 1:
            shape[-1], held[-1] = domain[name], own
        else:
            shape.append(domain[name])
            held.append(own)
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
