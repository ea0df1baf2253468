"""Profile: how the queries of one block split into residual and mean on one basis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.linops import Identity, LinearOperator
from hush.strategies.basis import Basis, PlainBasis

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Profile:
    """The pairs (a[w], b[w]) of a query block: their means, and those among them that can have the largest variance.

    The variance of a product query is linear and increasing in each attribute's pair while the others are held, so
    its largest value is at a vertex of the upper right convex hull of the pairs, whatever the noise.
    """

    mean_residual: float
    mean_mean: float
    frontier: Floats  # (h, 2): columns a and b

    @classmethod
    def of(cls, basis: Basis, block: LinearOperator) -> Profile:
        """The profile of a block on an attribute's basis."""
        if isinstance(basis, PlainBasis) and isinstance(block, Identity):
            n = basis.size  # every level alike, so that no array of levels is needed
            a, b = np.array([(n - 1) / n]), np.array([1 / n**2])
        else:
            a, b = basis.query_variances(block), basis.query_mean(block)
        share = block.shape[0] / block.queries  # one, except where queries are known by their Gram matrix alone
        return cls(float(a.mean()) * share, float(b.mean()) * share, upper_right_hull(np.column_stack([a, b])))


def upper_right_hull(points: Floats) -> Floats:  # points: (n, 2)
    """The points that are best for some non-negative weights of the two coordinates, by falling first coordinate.

    Points inside the hull by less than 1e-12 of its extent are left out too.

    >>> upper_right_hull(np.array([[0.0, 1.0], [1.0, 0.0], [0.4, 0.4], [0.9, 0.9]])).tolist()
    [[1.0, 0.0], [0.9, 0.9], [0.0, 1.0]]
    """
    extent = np.maximum(np.abs(points).max(axis=0), 1e-300)
    ordered = points[np.lexsort((-points[:, 1], -points[:, 0]))]
    highest = np.maximum.accumulate(ordered[:, 1] / extent[1])
    ordered = ordered[np.concatenate([[True], np.diff(highest) > 1e-12])]
    scaled = ordered / extent
    hull: list[int] = []
    for i in range(len(scaled)):
        while len(hull) >= 2 and _turn(scaled[hull[-2]], scaled[hull[-1]], scaled[i]) <= 1e-12:
            hull.pop()
        hull.append(i)
    return np.asarray(ordered[hull])


def _turn(a: Floats, b: Floats, c: Floats) -> float:
    """Positive where b lies outside the line from a to c, seen from the origin."""
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))
