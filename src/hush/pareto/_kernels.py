"""Inner loops of private training, compiled: clipped sums over lots of sparse rows, and steps of SGD and Adam."""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.compiled import njit

FIRST, SECOND, TINY = 0.9, 0.999, 1e-8  # of Adam


@njit(cache=True, nogil=True)
def private_steps(
    starts: Any,  # (n + 1,) int64: where the entries of each row begin
    columns: Any,  # (entries,) int32
    values: Any,  # (entries,)
    norms: Any,  # (n,) with the 1 of the intercept
    labels: Any,  # (n,) -1 or 1
    lots: Any,  # (all members,) int64: the rows of all lots, one lot after the other
    ends: Any,  # (steps + 1,) int64
    noise: Any,  # (steps, d + 1), for the sum over a lot
    weights: Any,  # (d + 1,) changed in place; the last is the intercept
    moments: Any,  # (2, d + 1) of Adam, changed in place
    before: int,  # steps taken already
    lot: float,
    clip: float,
    rate: float,
    hinge: bool,
    adam: bool,
) -> None:
    """w -= eta (sum_i clip_L(grad_i) + noise) / m, for every lot; Adam uses the same noisy gradient."""
    size = len(weights)
    gradient = np.zeros(size)
    for step in range(len(ends) - 1):
        for j in range(size):
            gradient[j] = noise[step, j]
        for member in range(ends[step], ends[step + 1]):
            row = lots[member]
            score = weights[size - 1]
            for entry in range(starts[row], starts[row + 1]):
                score += weights[columns[entry]] * values[entry]
            margin = labels[row] * score
            if hinge:
                slope = -labels[row] if margin < 1.0 else 0.0
            elif margin > 0:
                slope = -labels[row] * np.exp(-margin) / (1.0 + np.exp(-margin))
            else:
                slope = -labels[row] / (1.0 + np.exp(margin))
            norm = abs(slope) * norms[row]
            if norm > clip:
                slope *= clip / norm
            for entry in range(starts[row], starts[row + 1]):
                gradient[columns[entry]] += slope * values[entry]
            gradient[size - 1] += slope
        if adam:
            count = before + step + 1
            for j in range(size):
                g = gradient[j] / lot
                moments[0, j] = FIRST * moments[0, j] + (1 - FIRST) * g
                moments[1, j] = SECOND * moments[1, j] + (1 - SECOND) * g * g
                mean, square = moments[0, j] / (1 - FIRST**count), moments[1, j] / (1 - SECOND**count)
                weights[j] -= rate * mean / (np.sqrt(square) + TINY)
        else:
            for j in range(size):
                weights[j] -= rate * gradient[j] / lot


@njit(cache=True, nogil=True)
def projected_pass(
    starts: Any,  # as above
    columns: Any,
    values: Any,
    labels: Any,  # (n,) -1 or 1
    order: Any,  # (n,) int64: a permutation of the rows
    weights: Any,  # (d,) changed in place
    gamma: float,
    before: int,  # steps taken already
) -> None:
    """One pass of projected SGD on the regularised logistic loss; steps min(1/(1 + gamma), 1/(gamma t))."""
    size, radius = len(weights), 1.0 / gamma
    for place in range(len(order)):
        row = order[place]
        rate = min(1.0 / (1.0 + gamma), 1.0 / (gamma * (before + place + 1)))
        score = 0.0
        for entry in range(starts[row], starts[row + 1]):
            score += weights[columns[entry]] * values[entry]
        slope = -labels[row] / (1.0 + np.exp(labels[row] * score))
        total = 0.0
        for j in range(size):
            weights[j] *= 1.0 - rate * gamma
        for entry in range(starts[row], starts[row + 1]):
            weights[columns[entry]] -= rate * slope * values[entry]
        for j in range(size):
            total += weights[j] * weights[j]
        if total > radius * radius:
            shrink = radius / np.sqrt(total)
            for j in range(size):
                weights[j] *= shrink
