"""The posterior of counts on a tree of blocks, compiled; tests hold the plain twin.

The model. Node v of a binary tree holds c_v rows; its halves are the nodes 2 v and 2 v + 1. Given c_v, a block is one
of

    flat     with probability `flat`: every node below holds rows in proportion to its cells;
    half     with probability `empty`: one half, either with equal chance, holds all rows, and the other none;
    split    else: the first half holds a share of c_v with the density that `split` tabulates, times its probability.

Halves of split and half-empty blocks are blocks again. Noisy counts y_v = c_v + N(0, variance_v) are known of some
nodes.

Upwards. Let L_v(c) be the likelihood of all noisy counts at v and below it, given c_v = c, and B_v(c) that of the
noisy counts strictly below. With N_v the likelihood if v has no rows, F_v(c) that of the noisy counts below a flat
block, and l, r the halves of v,

    L_v(c) = exp(-(y_v - c)^2 / 2 variance_v) B_v(c),                   leaves have B_v = 1;
    B_v(c) = flat F_v(c) + empty/2 (L_l(c) N_r + N_l L_r(c)) + integral over a of split(a/c) / c  L_l(a) L_r(c - a).

L_v is kept as masses on `points` counts around the least squares count of v. Every pair of masses of the halves, at a
and b, puts the product of masses times split(a/c) / c at c = a + b. A mass between two points goes to both, so that
none is lost and means stay. F_v is a normal density in c, tried at a few counts around its mean.

Downwards. Let A_v(c) be the posterior mass of c_v = c together with "no block above v is flat"; at the root A = L /
sum L. Every case that put mass into B_v(c) gets the part A_v(c) / B_v(c) of its mass: for pairs of the halves' counts
it goes to A_l and A_r, for flat blocks to the first two moments that the nodes below inherit in proportion to their
cells. The posterior moments of c_v are those of A_v plus those inherited.

All likelihoods are relative to exp(log_scale[v]), which keeps exp from overflowing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hush.core.compiled import njit

GRID_REACH = 5.0  # standard errors of least squares to either side that a grid of counts extends
LARGEST_LOG_RATIO = 300.0  # keeps exp from overflowing
NEGLIGIBLE_MASS = 1e-5  # masses below this share of the largest are left out of pairs
NEGLIGIBLE_LOG_FLAT = -60.0  # flat blocks below this log ratio to the halves' likelihood are left out
FLAT_STEPS = 6  # half standard errors to either side at which a flat block's count is tried


@njit(cache=True, nogil=True)
def is_leaf(v: int, area: Any) -> bool:
    """Whether no node below v has cells: a leaf of the whole tree, or a block that was not measured in parts."""
    return bool(2 * v >= area.size or area[2 * v] + area[2 * v + 1] == 0)


@njit(cache=True, nogil=True)
def least_squares(y: Any, variance: Any, area: Any, mean: Any, spread: Any, loose: Any) -> None:
    """Means and variances of the counts of all nodes given their noisy counts; variance 0 is not measured.

    `loose` gets the variances given the noisy counts at a node and below it alone.
    """
    nodes = y.size
    leaves = nodes // 2
    # Upwards: the best estimate of a node from the noisy counts at it and below it, and its variance.
    up = np.zeros(nodes)
    for v in range(nodes - 1, 0, -1):
        if area[v] == 0:
            continue
        if is_leaf(v, area):
            up[v], loose[v] = y[v], variance[v]
            continue
        up[v], loose[v] = up[2 * v] + up[2 * v + 1], loose[2 * v] + loose[2 * v + 1]
        if variance[v] > 0:
            both = loose[v] + variance[v]
            up[v] = (y[v] * loose[v] + up[v] * variance[v]) / both
            loose[v] = loose[v] * variance[v] / both
    # Downwards: the halves share what they lack of their node in proportion to their variances.
    mean[1], spread[1] = up[1], loose[1]
    for v in range(1, leaves):
        a, b = loose[2 * v], loose[2 * v + 1]
        if a + b == 0:
            continue
        rest = mean[v] - up[2 * v] - up[2 * v + 1]
        for half, half_variance in ((2 * v, a), (2 * v + 1, b)):
            share = half_variance / (a + b)
            mean[half] = up[half] + rest * share
            spread[half] = half_variance - half_variance * share + share * share * spread[v]


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
def fit_grids(y: Any, variance: Any, area: Any, points: int, low: Any, step: Any) -> None:
    """The grid of counts of every node, around its least squares count; never below zero."""
    centre, spread, loose = np.zeros(y.size), np.zeros(y.size), np.zeros(y.size)
    least_squares(y, variance, area, centre, spread, loose)
    for v in range(1, y.size):
        if area[v] > 0:
            reach = GRID_REACH * math.sqrt(spread[v])
            low[v] = max(0.0, centre[v] - reach)
            step[v] = (max(centre[v] + reach, 0.6 * reach) - low[v]) / (points - 1)


@njit(cache=True, nogil=True)
def fit_flat_blocks(y: Any, variance: Any, area: Any, log_empty: Any, mean: Any, error: Any, log_flat: Any) -> None:
    """log N_v of all nodes, and F_v of those with two halves: its mean, its standard error, and its logarithm.

    In a flat block of c rows, node u below expects c area_u / area_v rows. So log F_v is a parabola in c: noisy counts
    below v have the summed precision sum of (area_u / area_v)^2 / variance_u. log F_v is taken at the mean, or at zero
    if that is negative.
    """
    nodes = y.size
    precision, weighted = np.zeros(nodes), np.zeros(nodes)  # of F_v with v's own noisy count, and times its mean
    for v in range(nodes - 1, 0, -1):
        if area[v] == 0:
            continue
        if 2 * v < nodes:
            log_empty[v] = log_empty[2 * v] + log_empty[2 * v + 1]
            for half in (2 * v, 2 * v + 1):
                share = area[half] / area[v]
                precision[v] += precision[half] * share * share
                weighted[v] += weighted[half] * share
            if area[2 * v] > 0 and area[2 * v + 1] > 0:
                mean[v], error[v] = weighted[v] / precision[v], 1 / math.sqrt(precision[v])
                count, first, end = max(mean[v], 0.0), 2 * v, 2 * v + 2
                while first < nodes:
                    for u in range(first, end):
                        if variance[u] > 0 and area[u] > 0:
                            log_flat[v] -= 0.5 * (y[u] - count * area[u] / area[v]) ** 2 / variance[u]
                    first, end = 2 * first, 2 * end
        if variance[v] > 0:
            log_empty[v] -= 0.5 * y[v] ** 2 / variance[v]
            precision[v] += 1 / variance[v]
            weighted[v] += y[v] / variance[v]


@njit(cache=True, nogil=True)
def empty_half_weights(v: int, empty: float, area: Any, log_empty: Any, log_scale: Any) -> tuple[float, float]:
    """empty/2 N_r and empty/2 N_l: factors of the masses of the first half and of the second.

    A node with cells in one half only is that half.
    """
    left, right = 2 * v, 2 * v + 1
    if area[right] == 0:
        return 1.0, 0.0
    if area[left] == 0:
        return 0.0, 1.0
    return (
        0.5 * empty * math.exp(min(log_empty[right] - log_scale[right], LARGEST_LOG_RATIO)),
        0.5 * empty * math.exp(min(log_empty[left] - log_scale[left], LARGEST_LOG_RATIO)),
    )


@njit(cache=True, nogil=True)
def pair_weight(split: Any, first: float, count: float, step: float) -> float:
    """split(a/c) / c for a first half of a rows in a block of c rows."""
    shares = split.size
    return float(split[min(int(shares * first / (count + 1e-9)), shares - 1)] / (count + 0.5 * step))


@njit(cache=True, nogil=True)
def flat_mass(flat: float, log_ratio: float, k: int, mean: float, error: float) -> float:
    """The mass of a flat block whose count is k / 2 standard errors from its mean; `log_ratio` is at max(mean, 0)."""
    below_zero = min(mean, 0.0) / error
    log_mass = min(log_ratio, LARGEST_LOG_RATIO) - 0.125 * k * k + 0.5 * below_zero * below_zero
    return 0.5 * error * flat * math.exp(log_mass)


@njit(cache=True, nogil=True)
def collect_halves(v: int, weights: Any, split: Any, masses: Any, low: Any, step: Any, out: Any) -> None:
    """Add the cases "half" and "split" of B_v to the masses `out`."""
    left, right, points = 2 * v, 2 * v + 1, masses.shape[1]
    least_left, least_right = NEGLIGIBLE_MASS * masses[left].max(), NEGLIGIBLE_MASS * masses[right].max()
    for i in range(points):
        mass = masses[left, i]
        if mass <= least_left:
            continue
        a = low[left] + i * step[left]
        put(out, low[v], step[v], a, weights[0] * mass)
        for j in range(points):
            if masses[right, j] > least_right:
                c = a + low[right] + j * step[right]
                put(out, low[v], step[v], c, pair_weight(split, a, c, step[v]) * mass * masses[right, j])
    for j in range(points):
        if masses[right, j] > least_right:
            put(out, low[v], step[v], low[right] + j * step[right], weights[1] * masses[right, j])


@njit(cache=True, nogil=True)
def hand_to_halves(v: int, weights: Any, split: Any, masses: Any, low: Any, step: Any, ratio: Any, after: Any) -> None:
    """The transpose of `collect_halves`: add to A_l and A_r the part `ratio` = A_v / B_v of every case's mass."""
    left, right, points = 2 * v, 2 * v + 1, masses.shape[1]
    least_left, least_right = NEGLIGIBLE_MASS * masses[left].max(), NEGLIGIBLE_MASS * masses[right].max()
    for i in range(points):
        mass = masses[left, i]
        if mass <= least_left:
            continue
        a = low[left] + i * step[left]
        total = weights[0] * mass * read(ratio, low[v], step[v], a)
        for j in range(points):
            if masses[right, j] > least_right:
                c = a + low[right] + j * step[right]
                pair = pair_weight(split, a, c, step[v]) * mass * masses[right, j] * read(ratio, low[v], step[v], c)
                total += pair
                after[right, j] += pair
        after[left, i] += total
    for j in range(points):
        if masses[right, j] > least_right:
            c = low[right] + j * step[right]
            after[right, j] += weights[1] * masses[right, j] * read(ratio, low[v], step[v], c)


@njit(cache=True, nogil=True)
def messages_up(
    y: Any,
    variance: Any,
    area: Any,
    flat: float,
    empty: float,
    split: Any,
    low: Any,
    step: Any,
    log_empty: Any,
    flat_mean: Any,
    flat_error: Any,
    log_flat: Any,
    masses: Any,  # (2 leaves, points): out, L_v relative to exp(log_scale)
    before: Any,  # (leaves, points): out, B_v relative to the scales of the halves
    log_scale: Any,  # (2 leaves,): out
) -> None:
    """B_v of every node from the masses of its halves and its flat case, then L_v."""
    nodes, points = masses.shape
    logs = np.zeros(points)
    for v in range(nodes - 1, 0, -1):
        if area[v] == 0:
            continue
        # B_v; the scale of a node starts from those of its halves.
        logs[:] = 0.0
        if not is_leaf(v, area):
            log_scale[v] = log_scale[2 * v] + log_scale[2 * v + 1]
            weights = empty_half_weights(v, empty, area, log_empty, log_scale)
            collect_halves(v, weights, split, masses, low, step, before[v])
            log_ratio = log_flat[v] - log_scale[v]
            if flat_error[v] > 0 and log_ratio > NEGLIGIBLE_LOG_FLAT:
                for k in range(-FLAT_STEPS, FLAT_STEPS + 1):
                    c = flat_mean[v] + 0.5 * k * flat_error[v]
                    if c >= 0:
                        put(before[v], low[v], step[v], c, flat_mass(flat, log_ratio, k, flat_mean[v], flat_error[v]))
            for i in range(points):
                logs[i] = math.log(before[v, i]) if before[v, i] > 0 else -1e5
        # L_v: times the likelihood of the node's own noisy count.
        if variance[v] > 0:
            for i in range(points):
                logs[i] -= 0.5 * (y[v] - low[v] - i * step[v]) ** 2 / variance[v]
        largest = logs.max()
        log_scale[v] += largest
        for i in range(points):
            masses[v, i] = math.exp(max(logs[i] - largest, -700.0))
        if is_leaf(v, area):  # a density becomes masses; the first point has half an interval
            masses[v] *= step[v]
            masses[v, 0] *= 0.5


@njit(cache=True, nogil=True)
def messages_down(
    area: Any,
    flat: float,
    empty: float,
    split: Any,
    low: Any,
    step: Any,
    log_empty: Any,
    flat_mean: Any,
    flat_error: Any,
    log_flat: Any,
    masses: Any,
    before: Any,
    log_scale: Any,
    means: Any,  # (2 leaves,): out
    spreads: Any,  # (2 leaves,): out
) -> None:
    """The moments of every node; then its masses A_v go back to the cases of B_v that they came from."""
    nodes, points = masses.shape
    after, ratio = np.zeros((nodes, points)), np.zeros(points)
    after[1] = masses[1] / masses[1].sum()
    held, squares = np.zeros(nodes), np.zeros(nodes)  # moments of rows of flat blocks, at v or above it
    for v in range(1, nodes):
        if area[v] == 0:
            continue
        # Moments: what flat blocks above leave to this node, and A_v.
        if v > 1:
            share = area[v] / area[v // 2]
            held[v], squares[v] = held[v // 2] * share, squares[v // 2] * share * share
        mean, square = held[v], squares[v]
        for i in range(points):
            c = low[v] + i * step[v]
            mean += after[v, i] * c
            square += after[v, i] * c * c
        means[v], spreads[v] = mean, max(square - mean * mean, 0.0)
        if is_leaf(v, area):
            continue
        # Hand A_v to the halves, and what is flat to the moments below.
        for i in range(points):
            ratio[i] = after[v, i] / before[v, i] if before[v, i] > 0 else 0.0
        weights = empty_half_weights(v, empty, area, log_empty, log_scale)
        hand_to_halves(v, weights, split, masses, low, step, ratio, after)
        log_ratio = log_flat[v] - log_scale[2 * v] - log_scale[2 * v + 1]
        if flat_error[v] > 0 and log_ratio > NEGLIGIBLE_LOG_FLAT:
            for k in range(-FLAT_STEPS, FLAT_STEPS + 1):
                c = flat_mean[v] + 0.5 * k * flat_error[v]
                if c >= 0:
                    mass = flat_mass(flat, log_ratio, k, flat_mean[v], flat_error[v]) * read(ratio, low[v], step[v], c)
                    held[v] += mass * c
                    squares[v] += mass * c * c


@njit(cache=True, nogil=True)
def tree_posterior(
    y: Any,  # (2 leaves,) float64: the noisy count of every node, by its number
    variance: Any,  # (2 leaves,) float64: of its noise; 0 is not measured
    area: Any,  # (2 leaves,) float64: cells of every node; 0 holds nothing
    flat: float,
    empty: float,
    split: Any,  # (shares,) float64
    points: int,
    means: Any,  # (2 leaves,) float64: out, the posterior means of the counts
    spreads: Any,  # (2 leaves,) float64: out, and their variances
) -> None:
    """Posterior means and variances of all counts, by messages up and down; see the module for the derivation."""
    nodes = y.size
    low, step = np.zeros(nodes), np.ones(nodes)
    fit_grids(y, variance, area, points, low, step)
    log_empty, flat_mean, flat_error, log_flat = np.zeros(nodes), np.zeros(nodes), np.zeros(nodes), np.zeros(nodes)
    fit_flat_blocks(y, variance, area, log_empty, flat_mean, flat_error, log_flat)
    masses, before, log_scale = np.zeros((nodes, points)), np.zeros((nodes // 2, points)), np.zeros(nodes)
    messages_up(
        y, variance, area, flat, empty, split, low, step, log_empty, flat_mean, flat_error, log_flat,
        masses, before, log_scale,
    )  # fmt: skip
    messages_down(
        area, flat, empty, split, low, step, log_empty, flat_mean, flat_error, log_flat,
        masses, before, log_scale, means, spreads,
    )  # fmt: skip
