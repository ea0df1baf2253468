"""Inner loops of private training, compiled: clipped sums over lots of sparse rows, and steps of SGD and Adam."""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.core.compiled import njit

FIRST, SECOND, TINY = 0.9, 0.999, 1e-8  # of Adam


@njit(cache=True, nogil=True)
def fill_lots(
    drawn: Any,  # (k,) uint32: rows, with repeats
    ends: Any,  # (steps + 1,) uint32
    taken: Any,  # (n,) int64: the last lot that has each row, changed in place
    lots: Any,  # (all members,) uint32, changed in place
    filled: int,  # members found already
    step: int,  # the lot that is being filled
) -> tuple[int, int]:
    """Put drawn rows into lots, each at most once into a lot; returns how far it came."""
    for row in drawn:
        while filled >= ends[step + 1]:
            step += 1
        if taken[row] != step:
            taken[row] = step
            lots[filled] = row
            filled += 1
    return filled, step


@njit(cache=True, nogil=True)
def private_steps(
    starts: Any,  # (n + 1,) uint32: where the entries of each row begin
    columns: Any,  # (entries,) uint8, uint16 or uint32
    values: Any,  # (entries,), or empty where every entry is 1
    norms: Any,  # (n,) with the 1 of the intercept
    labels: Any,  # (n,) -1 or 1
    lots: Any,  # (all members,) uint32: the rows of all lots, one lot after the other
    ends: Any,  # (steps + 1,) uint32
    noise: Any,  # (steps, d + 1) for the sum over a lot, changed in place
    weights: Any,  # (d + 1,) changed in place; the last is the intercept
    moments: Any,  # (2, d + 1) of Adam, changed in place
    before: int,  # steps taken already
    lot: float,
    clip: float,
    rate: float,
    hinge: bool,
    adam: bool,
) -> None:
    """w -= eta (sum_i clip_L(grad_i) + noise) / m, for every lot; Adam uses the same noisy gradient.

    The gradient of a row is a multiple of the row, so its norm is known without writing it out. A row whose score or
    norm overflows adds nothing.
    """
    last, ones = len(weights) - 1, len(values) == 0
    for step in range(len(ends) - 1):
        gradient = noise[step]
        for member in range(ends[step], ends[step + 1]):
            row = lots[member]
            begin, end = starts[row], starts[row + 1]
            score = weights[last]
            if ones:
                for entry in range(begin, end):
                    score += weights[columns[entry]]
            else:
                for entry in range(begin, end):
                    score += weights[columns[entry]] * values[entry]
            margin = labels[row] * score
            inside = 1.0 if margin < 1.0 else 0.0
            slope = -labels[row] * (inside if hinge else 1.0 / (1.0 + np.exp(margin)))
            norm = abs(slope) * norms[row]
            if norm > clip:
                slope *= clip / norm
            elif not norm <= clip:  # NaN, where the score or the norm overflowed
                slope = 0.0
            if ones:
                for entry in range(begin, end):
                    gradient[columns[entry]] += slope
            else:
                for entry in range(begin, end):
                    gradient[columns[entry]] += slope * values[entry]
            gradient[last] += slope
        if adam:
            count = before + step + 1
            first, second = 1 / (1 - FIRST**count), 1 / (1 - SECOND**count)
            for j in range(last + 1):
                g = gradient[j] / lot
                mean = FIRST * moments[0, j] + (1 - FIRST) * g
                square = SECOND * moments[1, j] + (1 - SECOND) * g * g
                moments[0, j], moments[1, j] = mean, square
                weights[j] -= rate * mean * first / (np.sqrt(square * second) + TINY)
        else:
            for j in range(last + 1):
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
