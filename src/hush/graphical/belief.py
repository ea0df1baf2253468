"""Belief: exact marginals of a graphical model by two passes over its junction tree.

p(x) = exp(sum_r theta_r(x_r)) / Z. From the leaves to the root every node turns the sum of its tables and of its
children's messages into p(rest | separator), row by row, each row scaled by its own largest value,

    b(s, t) = sum of tables,   message(s) = log sum_t exp b(s, t),   p(t | s) = exp(b(s, t) - message(s));

from the root to the leaves the counts of separators come down, and count(s, t) = count(s) p(t | s). Conditional
probabilities are at most one and every row has one near it, so that no potential, however extreme, overflows or makes
a row vanish, and a forbidden combination (-inf) is exactly zero. A cell costs one exponential.

The derivative of the counts along a direction g is their covariance with G(x) = sum_r g_r(x_r),

    d count_r(x_r) = count_r(x_r) (E[G | x_r] - E[G]),

and takes two further passes without exponentials: means of G given separators up, then down.

Reference: [HDMM, sec. 4.4] for the oracle; the conditional form of its messages is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hush.domain import Clique
from hush.errors import DomainError
from hush.graphical import _kernels as kernels
from hush.graphical.factors import Factors
from hush.graphical.junction_tree import JunctionTree
from hush.graphical.program import compile_program

Floats = np.ndarray[Any, np.dtype[np.float64]]


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
        """Cells of all nodes."""
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
        made = []
        for node in self._program.nodes:
            rows, columns, cell = int(node[kernels.ROWS]), int(node[kernels.COLUMNS]), int(node[kernels.CELL])
            if columns:
                made.append(self._cells[cell : cell + rows * columns].reshape(rows, columns))
        return made

    def separators(self, total: float) -> list[Floats]:
        """The counts of every node's separator, flat, which add up to `total`; after `condition` or `marginals`."""
        unused = np.empty(self.factors.size)
        kernels.distribute(*self._program.tables, self._cells, self._weights, total, self._separators, unused)
        made = []
        for node in self._program.nodes:
            if node[kernels.COLUMNS]:
                place, rows = int(node[kernels.MESSAGES]), int(node[kernels.ROWS])
                made.append(self._separators[place : place + rows])
        return made
