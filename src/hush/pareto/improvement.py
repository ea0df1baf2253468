"""Improvement: how much a candidate is expected to add to the hypervolume, and how likely it adds anything.

Epsilon is known exactly before a mechanism runs; only its error is uncertain. With the front a_1 < ... < a_N and
b_1 > ... > b_N, a_0 = -inf, b_0 = r_2 and a_{N+1} = r_1, a candidate at epsilon a whose error is Normal(m, s^2) adds

    sum_{i=0..N} (a_{i+1} - max(a_i, a))_+  E(b_i - Y)_+,   E(b - Y)_+ = (b - m) Phi(z) + s phi(z),  z = (b - m) / s.

`hvpoi` is the document's rule, for which both objectives are uncertain.

Reference: [DPareto, sec. 3.2.3]; [Couckuyt et al. 2014] for the probability of improvement.
"""

from __future__ import annotations

import math

import numpy as np

from hush.core.arrays import Floats
from hush.pareto.hypervolume import front_indices


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
    starts, levels = _steps(front, reference)
    ends = np.append(starts[1:], reference[0])
    widths = np.maximum(ends[None, :] - np.maximum(starts[None, :], epsilon[:, None]), 0.0)
    gaps = levels[None, :] - mean[:, None]
    z = gaps / deviation[:, None]
    gains = gaps * _cdf(z) + deviation[:, None] * np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    return np.asarray((widths * np.maximum(gains, 0.0)).sum(axis=1))


def probability_of_improvement(front: Floats, mean: tuple[Floats, Floats], deviation: tuple[Floats, Floats]) -> Floats:
    """How likely each candidate is dominated by no point of the front.

    PoI = sum_{i=0..N} [Phi((a_{i+1} - m_1) / s_1) - Phi((a_i - m_1) / s_1)] Phi((b_i - m_2) / s_2), with infinite ends.
    """
    starts, levels = _steps(front, (math.inf, math.inf))
    ends = np.append(starts[1:], math.inf)
    first, second = ((edge[None, :] - mean[0][:, None]) / deviation[0][:, None] for edge in (starts, ends))
    below = _cdf((levels[None, :] - mean[1][:, None]) / deviation[1][:, None])
    return np.asarray(((_cdf(second) - _cdf(first)) * below).sum(axis=1))


def added_hypervolume(front: Floats, reference: tuple[float, float], points: Floats) -> Floats:
    """What each of (m, 2) points would add to the hypervolume of a front, exactly."""
    starts, levels = _steps(front, reference)
    ends = np.append(starts[1:], reference[0])
    widths = np.maximum(ends[None, :] - np.maximum(starts[None, :], points[:, :1]), 0.0)
    return np.asarray((widths * np.maximum(levels[None, :] - points[:, 1:], 0.0)).sum(axis=1))


def hvpoi(
    front: Floats, reference: tuple[float, float], mean: tuple[Floats, Floats], deviation: tuple[Floats, Floats]
) -> Floats:
    """The document's rule: what the predicted means would add, times the probability of any improvement."""
    added = added_hypervolume(front, reference, np.column_stack(mean))
    return added * probability_of_improvement(front, mean, deviation)


def _steps(front: Floats, reference: tuple[float, float]) -> tuple[Floats, Floats]:
    """Where the steps of a front begin, and how high each is; the first begins at minus infinity at the reference."""
    inside = front[(front[:, 0] < reference[0]) & (front[:, 1] < reference[1])] if len(front) else np.zeros((0, 2))
    kept = inside[front_indices(inside)]
    return np.append(-math.inf, kept[:, 0]), np.append(reference[1], kept[:, 1])


def _cdf(z: Floats) -> Floats:
    from scipy.special import ndtr

    return np.asarray(ndtr(z))
