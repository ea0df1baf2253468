"""Tree: the hierarchical strategy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import WorkloadError
from hush.linops.operator import EqualColumns, LinearOperator, Transposed, check_fits, check_norm


@dataclass(frozen=True, slots=True)
class Tree(EqualColumns):
    """The sums of all nodes of a b-ary tree over n levels, from the root down to the levels themselves.

    The last node of a depth may have fewer children. Every level has one node above it at each depth, so that all
    column norms are equal. Without the root, the tree starts at the root's children. O(n) per column, both ways.

    Reference: [Li 2013, Sec. 3.3]; H_n.

    >>> Tree(3).dense().astype(int).tolist()
    [[1, 1, 1], [1, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    """

    size: int
    branching: int = 2
    root: bool = True

    def __post_init__(self) -> None:
        if self.size < 1 or self.branching < 2:
            raise WorkloadError(
                f"Tree({self.size}, {self.branching}): expected at least one level and two children of a node"
            )

    @property
    def depths(self) -> tuple[int, ...]:
        """Nodes at each depth, from the top."""
        nodes = [self.size]
        while nodes[-1] > 1:
            nodes.append(-(-nodes[-1] // self.branching))
        return tuple(reversed(nodes if self.root or len(nodes) == 1 else nodes[:-1]))

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.depths), self.size

    def matmat(self, x: Floats) -> Floats:
        answers = np.empty((self.shape[0], x.shape[1]))
        end = len(answers)
        for nodes in reversed(self.depths):
            x = x if len(x) == nodes else _parents(x, self.branching)
            answers[end - nodes : end] = x
            end -= nodes
        return answers

    def adjoint(self, y: Floats) -> Floats:
        first, *below = self.depths
        levels, start = np.array(y[:first], dtype=np.float64), first
        for nodes in below:
            levels = _children(levels, self.branching, nodes) + y[start : start + nodes]
            start += nodes
        return levels

    def gram_dense(self) -> Floats:
        """At how many depths two levels have the same node above them."""
        check_fits((self.size, self.size), "use gram(), which stays implicit")
        gram, above = np.zeros((self.size, self.size)), np.arange(self.size)
        for _ in self.depths:
            gram += np.equal.outer(above, above)
            above = above // self.branching
        return gram

    def pinv(self) -> LinearOperator:
        return TreeGramInverse(self) @ Transposed(self)

    def sensitivity(self, p: int) -> float:
        check_norm(p)
        return float(len(self.depths)) if p == 1 else math.sqrt(len(self.depths))


@dataclass(frozen=True, slots=True)
class TreeGramInverse(LinearOperator):
    """(A^T A)^-1 of a tree A, in O(n) per column.

    The Gram matrix of a node is G_v = diag(G_c over its children c) + 1 1^T, and 1 for a level. With T the sum of
    1^T G_c^-1 1 and s that of 1^T G_c^-1 z over the children, G_v^-1 z = diag(G_c^-1)(z - 1 s / (1 + T)): sums go up,
    then what is subtracted goes down.
    """

    tree: Tree

    @property
    def shape(self) -> tuple[int, int]:
        return self.tree.size, self.tree.size

    def matmat(self, x: Floats) -> Floats:
        b, depths = self.tree.branching, self.tree.depths
        t, s = np.ones((self.tree.size, 1)), x
        sums = []
        for _ in depths[1:]:
            t, s = _parents(t, b), _parents(s, b)
            sums.append((t, s))
            t, s = t / (1 + t), s / (1 + t)
        shift = np.zeros((depths[0], x.shape[1]))
        for nodes, (t, s) in zip(depths[1:], reversed(sums), strict=True):
            shift = _children((shift + s) / (1 + t), b, nodes)
        return x - shift

    def transpose(self) -> LinearOperator:
        return self

    def pinv(self) -> LinearOperator:
        return self.tree.gram()


def _parents(x: Floats, branching: int) -> Floats:
    """Sums over groups of children."""
    return np.asarray(np.add.reduceat(x, np.arange(0, len(x), branching), axis=0))


def _children(x: Floats, branching: int, nodes: int) -> Floats:
    """The value of its parent, for each of the nodes below."""
    return np.repeat(x, branching, axis=0)[:nodes]
