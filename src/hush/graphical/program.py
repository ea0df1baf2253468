"""Program: where every table meets every run of cells of a junction tree, as plain arrays for the compiled passes.

Cells of a node lie in C order over its axes, separator first: row s of a node is the table p(rest | separator = s).
Adjacent axes that no table tells apart are merged; what is left of the last axis is a *run*. A *tile* is some whole
runs of one row, about 4096 cells, which share one scale. Nothing is compiled anew when the cliques change.
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
    domain = tree.domain.project([name for node in tree.nodes for name in node.rest])
    nodes = [
        Node(domain.clique(node.clique), domain.clique(node.separator), node.rest, node.parent) for node in tree.nodes
    ]
    return JunctionTree(domain, nodes)


def compile_program(tree: JunctionTree, factors: Factors, fixed: Sequence[Clique]) -> Program:
    """Place every factor and fixed table in the smallest node that holds it, and every message in the parent."""
    meet: list[list[tuple[int, int, Clique]]] = [[] for _ in tree.nodes]
    for index, clique in enumerate(factors.cliques):
        meet[tree.home(clique)].append((kernels.FACTOR, int(factors.offsets[index]), clique))
    start = 0
    for clique in fixed:
        meet[tree.home(clique)].append((kernels.FIXED, start, clique))
        start += tree.domain.size(clique)
    place = 0
    for node in tree.nodes:
        if node.parent >= 0:
            meet[node.parent].append((kernels.MESSAGE, place, node.separator))
        place += tree.domain.size(node.separator)
    return _assemble(tree, meet)


def _assemble(tree: JunctionTree, meet: list[list[tuple[int, int, Clique]]]) -> Program:
    merged = [
        _merge(tree.domain, node, [clique for _, _, clique in own]) for node, own in zip(tree.nodes, meet, strict=True)
    ]
    widest = max(1, *(len(axes.shape) for axes in merged))
    nodes = np.zeros((len(meet), kernels.COLUMNS), dtype=np.int64)
    shapes = np.ones((len(meet), widest), dtype=np.int64)
    kinds, starts, strides = [], [], []
    cell = row = tile = 0
    for k, (node, axes, own) in enumerate(zip(tree.nodes, merged, meet, strict=True)):
        rows, columns = tree.domain.size(node.separator), tree.domain.size(node.rest)
        length = axes.shape[-1] if node.rest else 1
        outer = len(axes.shape) - 1 if node.rest else len(axes.shape)
        runs = columns // length
        tile_runs = max(1, kernels.BLOCK // length)
        tiles = -(-runs // tile_runs)
        order = sorted(range(len(own)), key=lambda s, axes=axes, node=node: not (node.rest and axes.strides[s][-1]))
        unit = sum(1 for s in order if node.rest and axes.strides[s][-1])
        nodes[k] = [cell, rows, length, runs, tile_runs, tiles, outer, len(kinds), len(own), unit, row, tile]
        shapes[k, : len(axes.shape)] = axes.shape
        for s in order:
            kinds.append(own[s][0])
            starts.append(own[s][1])
            strides.append([*axes.strides[s], *([0] * (widest - len(axes.shape)))])
        cell += rows * columns
        row += rows
        tile += rows * tiles
    made = np.array(strides, dtype=np.int64).reshape(len(kinds), widest)
    return Program(
        nodes, shapes, np.array(kinds, dtype=np.int64), np.array(starts, dtype=np.int64), made, cell, row, tile
    )


@dataclass(frozen=True, slots=True)
class _Axes:
    """Merged axes of a node, and the strides of every table along them."""

    shape: list[int]
    strides: list[list[int]]


def _merge(domain: Domain, node: Node, cliques: Sequence[Clique]) -> _Axes:
    """Join neighbouring axes that are in the same tables and on the same side of the separator."""
    groups: list[list[str]] = []
    held: list[tuple[bool, ...]] = []
    sets = [frozenset(node.separator), *(frozenset(clique) for clique in cliques)]
    for name in node.axes:
        own = tuple(name in members for members in sets)
        if groups and own == held[-1]:
            groups[-1].append(name)
        else:
            groups.append([name])
            held.append(own)
    shape = [math.prod(domain[name] for name in group) for group in groups]
    strides = []
    for s in range(len(cliques)):
        steps, step = [0] * len(groups), 1
        for axis in range(len(groups) - 1, -1, -1):
            if held[axis][s + 1]:
                steps[axis] = step
                step *= shape[axis]
        strides.append(steps)
    return _Axes(shape, strides)
