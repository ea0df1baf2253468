"""Hierarchical strategies on one ordered attribute: Haar, the wavelet, and Tree, the sums of all nodes of a tree."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import WorkloadError
from hush.core.validation import check_whole
from hush.linops.explicit import Diagonal
from hush.linops.operator import EqualColumns, LinearOperator, Symmetric, Transposed, check_fits, check_norm


@dataclass(frozen=True, slots=True)
class Haar(EqualColumns):
    """The total, then for each inner node of the binary tree, from the root down, its left half minus its right half.

    n orthogonal rows; every column has log2(n) + 1 entries of +1 or -1. `matmat` and `adjoint` take O(n) per column.

    Reference: [Li 2013, Sec. 3.3]; Y_n.

    >>> Haar(4).dense().astype(int).tolist()
    [[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]]
    """

    size: int

    def __post_init__(self) -> None:
        if self.size < 1 or self.size & (self.size - 1):
            raise WorkloadError(f"Haar: size={self.size}: expected a power of two; use Tree for other sizes")

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    def matmat(self, x: Floats) -> Floats:
        answers = np.empty((self.size, x.shape[1]))
        sums = x
        while len(sums) > 1:
            half = len(sums) // 2
            np.subtract(sums[0::2], sums[1::2], out=answers[half : 2 * half])
            sums = sums[0::2] + sums[1::2]
        answers[0] = sums[0]
        return answers

    def adjoint(self, y: Floats) -> Floats:
        levels = np.array(y[:1], dtype=np.float64)
        while len(levels) < self.size:
            details = y[len(levels) : 2 * len(levels)]
            levels = np.stack([levels + details, levels - details], axis=1).reshape(-1, y.shape[1])
        return levels

    def pinv(self) -> LinearOperator:
        """A^T diag(1 / |row|^2): the rows are orthogonal."""
        depth = np.frexp(np.maximum(np.arange(self.size), 1))[1] - 1
        return Transposed(self) @ Diagonal(np.ldexp(1.0, depth) / self.size)

    def sensitivity(self, p: int) -> float:
        check_norm(p)
        levels = float(self.size.bit_length())
        return levels if p == 1 else math.sqrt(levels)


@dataclass(frozen=True, slots=True)
class Tree(EqualColumns):
    """The sums of all nodes of a b-ary tree over n levels, from the root down to the levels themselves.

    The last node of a depth may have fewer children. Every level lies under one node of each depth, so all column norms
    are equal. Without the root, the tree starts at the root's children. `matmat` and `adjoint` take O(n) per column.

    Reference: [Li 2013, Sec. 3.3]; H_n.

    >>> Tree(3).dense().astype(int).tolist()
    [[1, 1, 1], [1, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    """

    size: int
    branching: int = 2
    root: bool = True

    def __post_init__(self) -> None:
        check_whole(WorkloadError, "Tree: size", self.size, least=1)
        check_whole(WorkloadError, "Tree: branching", self.branching, least=2)

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
        """The number of depths at which two levels lie under the same node."""
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
class TreeGramInverse(Symmetric):
    """(A^T A)^-1 of a tree A, in O(n) per column.

    The Gram matrix of a node is G_v = diag(G_c over its children c) + 1 1^T, and 1 for a level. With T the sum of
    1^T G_c^-1 1 and s that of 1^T G_c^-1 z over the children, Sherman-Morrison gives
    G_v^-1 z = diag(G_c^-1)(z - 1 s / (1 + T)): one pass up the tree for T and s, one down for what is subtracted.
    """

    tree: Tree

    @property
    def shape(self) -> tuple[int, int]:
        return self.tree.size, self.tree.size

    def matmat(self, x: Floats) -> Floats:
        b, depths = self.tree.branching, self.tree.depths
        # Up: T and s of every inner node, where a child v passes 1^T G_v^-1 1 = T / (1 + T) on to its parent.
        t, s = np.ones((self.tree.size, 1)), x
        sums = []
        for _ in depths[1:]:
            t, s = _parents(t, b), _parents(s, b)
            sums.append((t, s))
            t, s = t / (1 + t), s / (1 + t)
        # Down: what the nodes above a node subtract from each of its levels.
        shift = np.zeros((depths[0], x.shape[1]))
        for nodes, (t, s) in zip(depths[1:], reversed(sums), strict=True):
            shift = _children((shift + s) / (1 + t), b, nodes)
        return x - shift

    def pinv(self) -> LinearOperator:
        return self.tree.gram()


def _parents(x: Floats, branching: int) -> Floats:
    """The sum of the children of every parent."""
    return np.asarray(np.add.reduceat(x, np.arange(0, len(x), branching), axis=0))


def _children(x: Floats, branching: int, nodes: int) -> Floats:
    """The value of the parent, for every child."""
    return np.repeat(x, branching, axis=0)[:nodes]
