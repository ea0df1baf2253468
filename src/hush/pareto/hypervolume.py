"""Dominance, Pareto fronts, step curves and hypervolumes of points whose coordinates are all to be small.

u dominates v if u_i <= v_i for every i. The front is what nothing else dominates. The hypervolume is the measure of
what the front dominates within a reference point, which is worse than anything worth having: the larger, the better.

Reference: [DPareto, sec. 3.2].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hush.core.arrays import Booleans, Floats, Integers
from hush.core.errors import SearchError, shown


def dominates(first: Sequence[float], second: Sequence[float]) -> bool:
    """Whether every coordinate of the first point is at most that of the second.

    >>> dominates((1, 0.2), (2, 0.2)), dominates((1, 0.3), (2, 0.2))
    (True, False)
    """
    if len(first) != len(second):
        raise SearchError(f"points of {len(first)} and {len(second)} objectives: expected equally many")
    return all(a <= b for a, b in zip(first, second, strict=True))


def front_indices(points: Any) -> Integers:
    """The indices of the points on the front, in order of the first coordinate; of equal points, the first one.

    Points with NaN are on no front.

    >>> front_indices([(3, 0.1), (1, 0.5), (2, 0.6), (1, 0.5)]).tolist()
    [1, 0]
    """
    values = _points(points)
    known = np.flatnonzero(~np.isnan(values).any(axis=1))
    order = known[np.lexsort(values[known].T[::-1])]
    if values.shape[1] == 2:
        second = values[order, 1]
        least = np.minimum.accumulate(np.concatenate([[math.inf], second]))[:-1]
        return order[second < least] if order.size else order
    kept: list[int] = []
    for index in order:
        if not any((values[other] <= values[index]).all() for other in kept):
            kept.append(int(index))
    return np.array(kept, dtype=np.int64)


def hypervolume(points: Any, reference: Sequence[float]) -> float:
    """The measure of what points in two or three dimensions dominate within a reference point, exactly.

    In two dimensions, with the front sorted: sum_i (a_{i+1} - a_i)(r_2 - b_i) and a_{N+1} = r_1. In three, slices along
    the last coordinate are added up, O(n^2 log n). Points that are not better than the reference in every coordinate
    count for nothing.

    >>> hypervolume([(1, 0.5), (2, 0.25)], (4, 1))
    2.0
    """
    values, bound = _points(points), np.asarray(reference, dtype=np.float64)
    dimensions = values.shape[1]
    if bound.shape != (dimensions,) or not np.isfinite(bound).all():
        raise SearchError(f"reference={shown(reference)}: expected {dimensions} finite numbers, one for each objective")
    inside = values[_within(values, bound)]
    front = inside[front_indices(inside)]
    if not len(front):
        return 0.0
    if dimensions == 2:
        ends = np.append(front[1:, 0], bound[0])
        return float(((ends - front[:, 0]) * (bound[1] - front[:, 1])).sum())
    levels = np.unique(front[:, 2])
    heights = np.diff(np.append(levels, bound[2]))
    areas = [hypervolume(front[front[:, 2] <= level, :2], bound[:2].tolist()) for level in levels]
    return float(np.dot(areas, heights))


def contributions(points: Any, reference: Sequence[float]) -> Floats:
    """What the hypervolume would lose without each point."""
    values = _points(points)
    whole = hypervolume(values, reference)
    return np.array([whole - hypervolume(np.delete(values, i, axis=0), reference) for i in range(len(values))])


def step_values(points: Any, places: Any) -> Floats:
    """The least second coordinate among points whose first is at most each place; infinite where there is none.

    >>> step_values([(1, 0.5), (2, 0.25)], [0.5, 1, 9]).tolist()
    [inf, 0.5, 0.25]
    """
    values = _points(points)
    front = values[front_indices(values)]
    steps = np.append(math.inf, front[:, 1])
    return np.asarray(steps[np.searchsorted(front[:, 0], np.asarray(places, dtype=np.float64), side="right")])


def attained_by(fronts: Sequence[Any], share: float, places: Any) -> Floats:
    """The error that a share of several fronts attains at each place: what a search finds by chance, not by luck.

    >>> attained_by([[(1, 0.5)], [(1, 0.3)], [(2, 0.4)]], 0.5, [1, 2]).tolist()
    [0.5, 0.4]
    """
    if not fronts or not 0 < share <= 1:
        raise SearchError(
            f"share={shown(share)} of {len(fronts)} fronts: expected a share above 0 and at most 1 of some"
        )
    curves = np.sort(np.array([step_values(front, places) for front in fronts]), axis=0)
    return np.asarray(curves[math.ceil(share * len(curves)) - 1])


def _points(points: Any) -> Floats:
    try:
        values = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError):
        raise SearchError(f"points={shown(points)}: expected rows of two or three numbers") from None
    if values.size == 0:
        return np.zeros((0, values.shape[1] if values.ndim == 2 and values.shape[1] else 2))
    if values.ndim != 2 or values.shape[1] not in (2, 3):
        raise SearchError(f"points of shape {values.shape}: expected rows of two or three objectives")
    return values


def _within(values: Floats, bound: Floats) -> Booleans:
    return np.asarray((values < bound).all(axis=1))
