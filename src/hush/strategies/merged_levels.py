"""MergedLevels: levels of one attribute that no query tells apart, measured as one; levels nobody asks for, not at all.

Levels with equal rows in V = W^T W have equal columns in W. With B the 0/1 matrix of classes, W = W' B, so a strategy
A' for the smaller W' gives A = A' B with the same sensitivity and the same error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]

_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class MergedLevels:
    """The class of every level, -1 for those nobody asks for, and one level of each class.

    >>> merged = MergedLevels.of(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    >>> merged.classes.tolist(), merged.members.tolist()
    ([0, 0, -1], [0])
    """

    classes: Integers  # (n,)
    members: Integers  # (classes,)

    @classmethod
    def of(cls, gram: Floats) -> MergedLevels:
        """The classes of a Gram matrix; a level joins one only if its whole row agrees."""
        n = len(gram)
        limit = _TOLERANCE * np.sqrt(np.outer(gram.diagonal(), gram.diagonal())).max(initial=0.0)
        weights = 1 + np.modf(np.arange(1, n + 1) * 0.6180339887498949)[0]  # tell rows apart by one number each
        keys = gram @ weights
        classes = np.full(n, -1, dtype=np.int64)
        members: list[int] = []
        order = np.argsort(keys, kind="stable")
        for level in order.tolist():
            if gram[level, level] <= limit:
                continue
            place = len(members) - 1
            while place >= 0 and keys[level] - keys[members[place]] <= n * limit:
                if np.abs(gram[level] - gram[members[place]]).max() <= limit:
                    break
                place -= 1
            else:
                members.append(level)
                place = len(members) - 1
            classes[level] = place
        rank = np.argsort(members, kind="stable")
        places = np.empty(len(members), dtype=np.int64)
        places[rank] = np.arange(len(members))
        kept = classes >= 0
        classes[kept] = places[classes[kept]]
        return cls(classes, np.array(members, dtype=np.int64)[rank])

    def reduce(self, gram: Floats) -> Floats:
        """V' with V = B^T V' B."""
        return np.asarray(gram[np.ix_(self.members, self.members)])

    def supports(self, gram: Floats) -> bool:
        """Whether another block tells none of its classes apart."""
        if len(self.members) == len(self.classes):
            return True
        kept = self.classes >= 0
        expanded = np.zeros_like(gram)
        expanded[np.ix_(kept, kept)] = self.reduce(gram)[np.ix_(self.classes[kept], self.classes[kept])]
        return bool(np.abs(expanded - gram).max() <= 1e-9 * np.abs(gram).max())

    def expand(self, matrix: Floats) -> Floats:
        """A' B: a column for every level."""
        wide = np.zeros((len(matrix), len(self.classes)))
        kept = self.classes >= 0
        wide[:, kept] = matrix[:, self.classes[kept]]
        return wide
