"""LevelSums: the sums of levels that count as one, never written out however many levels there are."""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.core.arrays import Floats, Integers, Numbers, merged_along
from hush.core.errors import WorkloadError
from hush.linops.blocks import Diagonal
from hush.linops.operator import EqualColumns, LinearOperator, check_norm


class LevelSums(EqualColumns):
    """x -> the sums of x over the codes of each level; every code counts in one level, and every level has codes.

    >>> LevelSums([0, 1, 1]).dense().tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]
    """

    __slots__ = ("codes", "levels")

    def __init__(self, codes: Any) -> None:
        level: Integers = np.array(codes, dtype=np.int64)
        if level.ndim != 1 or not level.size or not np.array_equal(np.unique(level), np.arange(level.max() + 1)):
            raise WorkloadError("merged levels: expected the level of each code, 0 .. k-1, all of them in use")
        level.setflags(write=False)
        self.codes, self.levels = level, int(level.max()) + 1

    @property
    def shape(self) -> tuple[int, int]:
        return self.levels, len(self.codes)

    def matmat(self, x: Floats) -> Floats:
        if x.shape[1] == 1:
            return np.bincount(self.codes, weights=x[:, 0], minlength=self.levels).astype(np.float64)[:, None]
        return merged_along(x, self.codes, 0)

    def along(self, values: Numbers, axis: int) -> Numbers:
        return merged_along(values, self.codes, axis)

    def adjoint(self, y: Floats) -> Floats:
        return np.asarray(y[self.codes], dtype=np.float64)

    def gram_dense(self) -> Floats:
        return np.equal.outer(self.codes, self.codes).astype(np.float64)

    def pinv(self) -> LinearOperator:
        """A^T (A A^T)^-1: a level's number spread evenly over its codes."""
        return self.transpose() @ Diagonal(1.0 / np.bincount(self.codes))

    def sensitivity(self, p: int) -> float:
        check_norm(p)
        return 1.0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LevelSums) and np.array_equal(self.codes, other.codes)

    def __hash__(self) -> int:
        return hash((self.shape, self.codes.tobytes()))

    def __repr__(self) -> str:
        return f"LevelSums({self.levels} of {len(self.codes)} levels)"
