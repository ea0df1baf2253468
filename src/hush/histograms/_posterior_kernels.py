"""Messages up and down a tree of counts, compiled; tests hold the plain twin.

Every node has a grid of `points` counts around its least squares count, and the likelihood of all that was measured in
its subtree as masses on that grid. A mass between two points goes to both, so that none is lost and means stay.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hush.core.compiled import njit

REACH = 5.0  # standard errors of least squares that a grid extends to either side
FAR = 300.0  # logarithms of ratios are cut off here
SLIGHT = 1e-5  # masses below this share of the largest are left out
SHAPE_STEPS = 6  # half standard errors to either side at which a flat block's count is tried


@njit(cache=True, nogil=True)
def least_squares(y: Any, variance: Any, area: Any, mean: Any, spread: Any) -> None:
    """Means and variances of the counts of all nodes given what was measured; variance 0 is not measured."""
    nodes = y.size
    leaves = nodes // 2
    up, loose = np.zeros(nodes), np.zeros(nodes)
    for v in range(nodes - 1, 0, -1):
        if area[v] == 0:
            continue
        if v >= leaves:
            up[v], loose[v] = y[v], variance[v]
            continue
        up[v], loose[v] = up[2 * v] + up[2 * v + 1], loose[2 * v] + loose[2 * v + 1]
        if variance[v] > 0:
            both = loose[v] + variance[v]
            up[v] = (y[v] * loose[v] + up[v] * variance[v]) / both
            loose[v] = loose[v] * variance[v] / both
    mean[1], spread[1] = up[1], loose[1]
    for v in range(1, leaves):
        a, b = loose[2 * v], loose[2 * v + 1]
        if a + b == 0:
            continue
        rest = mean[v] - up[2 * v] - up[2 * v + 1]
        for child, own in ((2 * v, a), (2 * v + 1, b)):
            share = own / (a + b)
            mean[child] = up[child] + rest * share
            spread[child] = own - own * share + share * share * spread[v]


@njit(cache=True, nogil=True)
def put(masses: Any, low: float, step: float, count: float, mass: float) -> None:
    """Add a mass at a count to the two points beside it."""
    place = (count - low) / step
    last = masses.size - 1
    if place <= 0:
        masses[0] += mass
    elif place >= last:
        masses[last] += mass
    else:
        i = int(place)
        masses[i] += mass * (1 - (place - i))
        masses[i + 1] += mass * (place - i)


@njit(cache=True, nogil=True)
def read(values: Any, low: float, step: float, count: float) -> float:
    """The value at a count, in a straight line between points: the transpose of `put`."""
    place = (count - low) / step
    last = values.size - 1
    if place <= 0:
        return float(values[0])
    if place >= last:
        return float(values[last])
    i = int(place)
    return float(values[i] * (1 - (place - i)) + values[i + 1] * (place - i))


@njit(cache=True, nogil=True)
def flat_likelihood(v: int, count: float, y: Any, variance: Any, area: Any) -> float:
    """The logarithm of the likelihood of all below a node if its count is spread evenly over its cells."""
    total, first, end = 0.0, 2 * v, 2 * v + 2
    while first < y.size:
        for u in range(first, end):
            if variance[u] > 0 and area[u] > 0:
                total -= 0.5 * (y[u] - count * area[u] / area[v]) ** 2 / variance[u]
        first, end = 2 * first, 2 * end
    return total


@njit(cache=True, nogil=True)
def tree_posterior(
    y: Any,  # (2 leaves,) float64: what was measured of every node, by its number
    variance: Any,  # (2 leaves,) float64: of its noise; 0 is not measured
    area: Any,  # (2 leaves,) float64: cells of every node; 0 holds nothing
    flat: float,
    empty: float,
    split: Any,  # (shares,) float64: density of the share of the first half, times the probability of a split
    points: int,
    means: Any,  # (2 leaves,) float64: the means of the counts given all that was measured
    spreads: Any,  # (2 leaves,) float64: and their variances
) -> None:
    """See `block_posterior.posterior_buckets`."""
    nodes = y.size
    leaves = nodes // 2
    shares = split.size
    centre, width = np.zeros(nodes), np.zeros(nodes)
    least_squares(y, variance, area, centre, width)
    low, step = np.zeros(nodes), np.ones(nodes)
    masses, before, after = np.zeros((nodes, points)), np.zeros((leaves, points)), np.zeros((nodes, points))
    largest = np.zeros(nodes)  # logarithm of what masses are relative to
    nothing = np.zeros(nodes)  # logarithm of the likelihood if there are no rows
    evenly, even_sum = np.zeros(nodes), np.zeros(nodes)  # precision of a flat node's count, and times its mean
    logs, ratio = np.zeros(points), np.zeros(points)
    for v in range(nodes - 1, 0, -1):
        if area[v] == 0:
            continue
        deviation = math.sqrt(width[v])
        low[v] = max(0.0, centre[v] - REACH * deviation)
        step[v] = (max(centre[v] + REACH * deviation, 0.6 * REACH * deviation) - low[v]) / (points - 1)
        if v >= leaves:
            nothing[v] = -0.5 * y[v] ** 2 / variance[v]
            evenly[v], even_sum[v] = 1 / variance[v], y[v] / variance[v]
            for i in range(points):
                logs[i] = -0.5 * (y[v] - low[v] - i * step[v]) ** 2 / variance[v]
            largest[v] = logs.max()
            for i in range(points):
                masses[v, i] = math.exp(logs[i] - largest[v]) * step[v]
            masses[v, 0] *= 0.5
            continue
        left, right = 2 * v, 2 * v + 1
        base = largest[left] + largest[right]
        alone = area[left] == 0 or area[right] == 0
        one, other = _weights(v, alone, empty, area, nothing, largest)
        most_left, most_right = SLIGHT * masses[left].max(), SLIGHT * masses[right].max()
        sums = before[v]
        for i in range(points):
            mass = masses[left, i]
            if mass <= most_left:
                continue
            a = low[left] + i * step[left]
            put(sums, low[v], step[v], a, one * mass)
            if alone:
                continue
            for j in range(points):
                if masses[right, j] <= most_right:
                    continue
                c = a + low[right] + j * step[right]
                density = split[min(int(shares * a / (c + 1e-9)), shares - 1)] / (c + 0.5 * step[v])
                put(sums, low[v], step[v], c, density * mass * masses[right, j])
        for j in range(points):
            if masses[right, j] > most_right:
                put(sums, low[v], step[v], low[right] + j * step[right], other * masses[right, j])
        nothing[v] = nothing[left] + nothing[right]
        for child in (left, right):
            share = area[child] / area[v]
            evenly[v] += evenly[child] * share * share
            even_sum[v] += even_sum[child] * share
        if not alone:
            best = max(even_sum[v] / evenly[v], 0.0)
            fit = flat_likelihood(v, best, y, variance, area) - base
            if fit > -60:
                error = 1 / math.sqrt(evenly[v])
                for k in range(-SHAPE_STEPS, SHAPE_STEPS + 1):
                    c = even_sum[v] / evenly[v] + 0.5 * k * error
                    if c >= 0:
                        put(sums, low[v], step[v], c, _flat_mass(flat, fit, k, error, even_sum[v] / evenly[v], best))
        if variance[v] > 0:
            nothing[v] -= 0.5 * y[v] ** 2 / variance[v]
            evenly[v] += 1 / variance[v]
            even_sum[v] += y[v] / variance[v]
        for i in range(points):
            logs[i] = math.log(sums[i]) if sums[i] > 0 else -1e5
            if variance[v] > 0:
                logs[i] -= 0.5 * (y[v] - low[v] - i * step[v]) ** 2 / variance[v]
        top = logs.max()
        largest[v] = base + top
        for i in range(points):
            masses[v, i] = math.exp(max(logs[i] - top, -700.0))
    after[1] = masses[1] / masses[1].sum()
    held, squares = np.zeros(nodes), np.zeros(nodes)  # first and second moments of what flat blocks above hold
    for v in range(1, nodes):
        if area[v] == 0:
            continue
        if v > 1:
            share = area[v] / area[v // 2]
            held[v], squares[v] = held[v] + held[v // 2] * share, squares[v] + squares[v // 2] * share * share
        mean, square = held[v], squares[v]
        for i in range(points):
            c = low[v] + i * step[v]
            mean += after[v, i] * c
            square += after[v, i] * c * c
        means[v], spreads[v] = mean, max(square - mean * mean, 0.0)
        if v >= leaves:
            continue
        left, right = 2 * v, 2 * v + 1
        for i in range(points):
            ratio[i] = after[v, i] / before[v, i] if before[v, i] > 0 else 0.0
        base = largest[left] + largest[right]
        alone = area[left] == 0 or area[right] == 0
        one, other = _weights(v, alone, empty, area, nothing, largest)
        most_left, most_right = SLIGHT * masses[left].max(), SLIGHT * masses[right].max()
        for i in range(points):
            mass = masses[left, i]
            if mass <= most_left:
                continue
            a = low[left] + i * step[left]
            total = one * mass * read(ratio, low[v], step[v], a)
            if not alone:
                for j in range(points):
                    if masses[right, j] <= most_right:
                        continue
                    c = a + low[right] + j * step[right]
                    density = split[min(int(shares * a / (c + 1e-9)), shares - 1)] / (c + 0.5 * step[v])
                    both = density * mass * masses[right, j] * read(ratio, low[v], step[v], c)
                    total += both
                    after[right, j] += both
            after[left, i] += total
        for j in range(points):
            if masses[right, j] > most_right:
                c = low[right] + j * step[right]
                after[right, j] += other * masses[right, j] * read(ratio, low[v], step[v], c)
        if alone:
            continue
        own, own_sum = evenly[v], even_sum[v]
        if variance[v] > 0:
            own, own_sum = own - 1 / variance[v], own_sum - y[v] / variance[v]
        best = max(own_sum / own, 0.0)
        fit = flat_likelihood(v, best, y, variance, area) - base
        if fit > -60:
            error = 1 / math.sqrt(own)
            for k in range(-SHAPE_STEPS, SHAPE_STEPS + 1):
                c = own_sum / own + 0.5 * k * error
                if c >= 0:
                    mass = _flat_mass(flat, fit, k, error, own_sum / own, best) * read(ratio, low[v], step[v], c)
                    held[v] += mass * c
                    squares[v] += mass * c * c


@njit(cache=True, nogil=True)
def _weights(v: int, alone: bool, empty: float, area: Any, nothing: Any, largest: Any) -> tuple[float, float]:
    """What multiplies the masses of the first half if the second is empty, and the other way round."""
    left, right = 2 * v, 2 * v + 1
    if alone:
        return (1.0, 0.0) if area[right] == 0 else (0.0, 1.0)
    return (
        0.5 * empty * math.exp(min(nothing[right] - largest[right], FAR)),
        0.5 * empty * math.exp(min(nothing[left] - largest[left], FAR)),
    )


@njit(cache=True, nogil=True)
def _flat_mass(flat: float, fit: float, k: int, error: float, mean: float, best: float) -> float:
    """The mass of a flat block whose count is k / 2 standard errors from its mean."""
    return 0.5 * error * flat * math.exp(min(fit, FAR) - 0.125 * k * k + 0.5 * ((mean - best) / error) ** 2)
