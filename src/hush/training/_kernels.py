"""Inner loops of private training, compiled: clipped sums over lots of sparse rows, and steps of SGD and Adam."""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.core.compiled import njit

# Adam's usual settings: the decay of the mean of gradients and of their squares, and what keeps it from dividing by 0
ADAM_MEAN_DECAY, ADAM_SQUARE_DECAY, ADAM_FLOOR = 0.9, 0.999, 1e-8


@njit(cache=True, nogil=True)
def fill_lots(
    drawn: Any,  # (k,) uint32: rows, with repeats
    ends: Any,  # (steps + 1,) uint32
    taken: Any,  # (n,) int64: the last lot that holds each row, changed in place
    lots: Any,  # (all members,) uint32, changed in place
    filled: int,  # places of `lots` that are filled already
    step: int,  # the lot that is being filled
) -> tuple[int, int]:
    """Put drawn rows into lots, skipping a row that its lot holds already; returns the new `filled` and `step`."""
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
        gradient = noise[step]  # the clipped gradients of the lot are added to the noise
        for member in range(ends[step], ends[step + 1]):
            # the score w x of the row
            row = lots[member]
            begin, end = starts[row], starts[row + 1]
            score = weights[last]
            if ones:
                for entry in range(begin, end):
                    score += weights[columns[entry]]
            else:
                for entry in range(begin, end):
                    score += weights[columns[entry]] * values[entry]
            # the gradient is slope * x; clipping it shortens the slope
            margin = labels[row] * score
            inside = 1.0 if margin < 1.0 else 0.0
            slope = -labels[row] * (inside if hinge else 1.0 / (1.0 + np.exp(margin)))
            norm = abs(slope) * norms[row]
            if norm > clip:
                slope *= clip / norm
            elif not norm <= clip:  # NaN, where the score or the norm overflowed
                slope = 0.0
            # add the clipped gradient
            if ones:
                for entry in range(begin, end):
                    gradient[columns[entry]] += slope
            else:
                for entry in range(begin, end):
                    gradient[columns[entry]] += slope * values[entry]
            gradient[last] += slope
        if adam:
            adam_step(weights, moments, gradient, before + step + 1, lot, rate)
        else:
            for j in range(last + 1):
                weights[j] -= rate * gradient[j] / lot


@njit(cache=True, nogil=True)
def adam_step(weights: Any, moments: Any, gradient: Any, count: int, lot: float, rate: float) -> None:
    """Step number `count` of Adam, from the noisy sum over a lot; changes weights and moments in place."""
    mean_scale = 1 / (1 - ADAM_MEAN_DECAY**count)  # undo the bias of moments that began at 0
    square_scale = 1 / (1 - ADAM_SQUARE_DECAY**count)
    for j in range(len(weights)):
        g = gradient[j] / lot
        mean = ADAM_MEAN_DECAY * moments[0, j] + (1 - ADAM_MEAN_DECAY) * g
        square = ADAM_SQUARE_DECAY * moments[1, j] + (1 - ADAM_SQUARE_DECAY) * g * g
        moments[0, j], moments[1, j] = mean, square
        weights[j] -= rate * mean * mean_scale / (np.sqrt(square * square_scale) + ADAM_FLOOR)


@njit(cache=True, nogil=True)
def projected_pass(
    starts: Any,  # as in `private_steps`
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
        # w -= rate (gamma w + slope x)
        slope = -labels[row] / (1.0 + np.exp(labels[row] * score))
        for j in range(size):
            weights[j] *= 1.0 - rate * gamma
        for entry in range(starts[row], starts[row + 1]):
            weights[columns[entry]] -= rate * slope * values[entry]
        # project onto the ball of radius 1 / gamma
        total = 0.0
        for j in range(size):
            total += weights[j] * weights[j]
        if total > radius * radius:
            shrink = radius / np.sqrt(total)
            for j in range(size):
                weights[j] *= shrink
