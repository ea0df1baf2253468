"""Dominance, Pareto fronts, step curves, hypervolumes, and how much a candidate is expected to add to a hypervolume.

Smaller coordinates are better. u dominates v if u_i <= v_i for every i. The front are the points that no other
dominates. The hypervolume is the volume that the front dominates up to a reference point, the worst of interest.

Epsilon is known exactly before a mechanism runs; only its error is uncertain. With the front a_1 < ... < a_N and
b_1 > ... > b_N, a_0 = -inf, b_0 = r_2 and a_{N+1} = r_1, a candidate at epsilon a whose error is Normal(m, s^2) is
expected to add

    sum_{i=0..N} (a_{i+1} - max(a_i, a))_+  E(b_i - Y)_+,   E(b - Y)_+ = (b - m) Phi(z) + s phi(z),  z = (b - m) / s.

`hvpoi` is the paper's rule, for which both objectives are uncertain.

Reference: [DPareto, sec. 3.2 and 3.2.3]; [Couckuyt et al. 2014] for the probability of improvement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.errors import SearchError, shown
from hush.core.validation import check_number


def dominates(first: Sequence[float], second: Sequence[float]) -> bool:
    """Whether every coordinate of the first point is at most that of the second.

    >>> dominates((1, 0.2), (2, 0.2)), dominates((1, 0.3), (2, 0.2))
    (True, False)
    """
    if len(first) != len(second):
        raise SearchError(f"points of {len(first)} and {len(second)} objectives: expected the same number")
    return all(a <= b for a, b in zip(first, second, strict=True))


def front_indices(points: Any) -> Integers:
    """The indices of the points on the front, by rising first coordinate; of equal points, the first.

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
    front: list[int] = []
    for index in order:
        if not any((values[other] <= values[index]).all() for other in front):
            front.append(int(index))
    return np.array(front, dtype=np.int64)


def hypervolume(points: Any, reference: Sequence[float]) -> float:
    """The volume that points in two or three dimensions dominate up to a reference point, exactly.

    In two dimensions, with the front sorted: sum_i (a_{i+1} - a_i)(r_2 - b_i) and a_{N+1} = r_1. In three, the sum of
    slices along the last coordinate, O(n^2 log n). Points that are not better than the reference in every coordinate
    add nothing.

    >>> hypervolume([(1, 0.5), (2, 0.25)], (4, 1))
    2.0
    """
    values, bound = _points(points), np.asarray(reference, dtype=np.float64)
    dimensions = values.shape[1]
    if bound.shape != (dimensions,) or not np.isfinite(bound).all():
        raise SearchError(f"reference={shown(reference)}: expected {dimensions} finite numbers, one per objective")
    inside = values[(values < bound).all(axis=1)]
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


def step_values(points: Any, places: Any) -> Floats:
    """The least second coordinate among the points whose first is at most each place; infinite if there are none.

    >>> step_values([(1, 0.5), (2, 0.25)], [0.5, 1, 9]).tolist()
    [inf, 0.5, 0.25]
    """
    values = _points(points)
    front = values[front_indices(values)]
    steps = np.append(math.inf, front[:, 1])
    return np.asarray(steps[np.searchsorted(front[:, 0], np.asarray(places, dtype=np.float64), side="right")])


def attained_by(fronts: Sequence[Any], share: float, places: Any) -> Floats:
    """The error that at least a share of several fronts attains at each place: typical, not lucky.

    >>> attained_by([[(1, 0.5)], [(1, 0.3)], [(2, 0.4)]], 0.5, [1, 2]).tolist()
    [0.5, 0.4]
    """
    check_number(SearchError, "share", share, above=0, most=1)
    if not fronts:
        raise SearchError("no fronts: expected at least one")
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


def expected_improvement(
    front: Floats,  # (N, 2) points, on a front or not
    reference: tuple[float, float],
    epsilon: Floats,  # (m,) of each candidate
    mean: Floats,  # (m,) of its error
    deviation: Floats,  # (m,)
) -> Floats:
    """The hypervolume that each candidate is expected to add, in closed form.

    >>> front, none = np.array([(1.0, 0.5)]), np.zeros(2)
    >>> expected_improvement(front, (3.0, 1.0), np.array([2.0, 0.5]), np.array([0.25, 0.75]), none + 1e-12).tolist()
    [0.25, 0.125]
    """
    widths, levels = _added_widths(front, reference, epsilon)
    gaps = levels[None, :] - mean[:, None]
    z = gaps / deviation[:, None]
    gains = gaps * _cdf(z) + deviation[:, None] * np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    return np.asarray((widths * np.maximum(gains, 0.0)).sum(axis=1))


def probability_of_improvement(front: Floats, mean: tuple[Floats, Floats], deviation: tuple[Floats, Floats]) -> Floats:
    """The probability that no point of the front dominates a candidate, for each.

    PoI = sum_{i=0..N} [Phi((a_{i+1} - m_1) / s_1) - Phi((a_i - m_1) / s_1)] Phi((b_i - m_2) / s_2), with infinite ends.
    """
    starts, levels = _steps(front, (math.inf, math.inf))
    ends = np.append(starts[1:], math.inf)
    first, second = ((edge[None, :] - mean[0][:, None]) / deviation[0][:, None] for edge in (starts, ends))
    below = _cdf((levels[None, :] - mean[1][:, None]) / deviation[1][:, None])
    return np.asarray(((_cdf(second) - _cdf(first)) * below).sum(axis=1))


def added_hypervolume(front: Floats, reference: tuple[float, float], points: Floats) -> Floats:
    """How much each of (m, 2) points would add to the hypervolume of a front, exactly."""
    widths, levels = _added_widths(front, reference, points[:, 0])
    return np.asarray((widths * np.maximum(levels[None, :] - points[:, 1:], 0.0)).sum(axis=1))


def hvpoi(
    front: Floats, reference: tuple[float, float], mean: tuple[Floats, Floats], deviation: tuple[Floats, Floats]
) -> Floats:
    """The paper's rule: the volume that the predicted means would add, times the probability of any improvement."""
    added = added_hypervolume(front, reference, np.column_stack(mean))
    return added * probability_of_improvement(front, mean, deviation)


def _added_widths(front: Floats, reference: tuple[float, float], epsilon: Floats) -> tuple[Floats, Floats]:
    """How much of each step of the front lies above each epsilon, (m, N + 1), and the heights of the steps."""
    starts, levels = _steps(front, reference)
    ends = np.append(starts[1:], reference[0])
    return np.maximum(ends[None, :] - np.maximum(starts[None, :], epsilon[:, None]), 0.0), levels


def _steps(front: Floats, reference: tuple[float, float]) -> tuple[Floats, Floats]:
    """Where the steps of a front begin, and their heights; the first step begins at -inf, at the reference's height."""
    inside = front[(front[:, 0] < reference[0]) & (front[:, 1] < reference[1])] if len(front) else np.zeros((0, 2))
    corners = inside[front_indices(inside)]
    return np.append(-math.inf, corners[:, 0]), np.append(reference[1], corners[:, 1])


def _cdf(z: Floats) -> Floats:
    from scipy.special import ndtr

    return np.asarray(ndtr(z))
