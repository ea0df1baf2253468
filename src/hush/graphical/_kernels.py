"""Compiled passes of exact inference over a junction tree; `belief.py` says what they compute.

A `Program` lists, for every node, the runs of cells along its last axis and the tables that meet it there. A table is
a factor (kind 0), a fixed table (kind 1) or the message of a child (kind 2); along a run it has stride 0 or 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]

FACTOR, FIXED, MESSAGE = 0, 1, 2
# columns of the table of nodes
CELL, ROWS, LENGTH, RUNS, TILE_RUNS, TILES, AXES, FIRST, TABLES, UNIT, MESSAGES, WEIGHT = range(12)
COLUMNS = 12
BLOCK = 4096

_LOG2E = 1.0 / math.log(2.0)
_MAGIC = 1.5 * 2.0**52
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_LEAST = -700.0


@njit(nogil=True, cache=True, fastmath={"contract"})
def exp_cells(x: Floats, scratch: Floats) -> None:
    """x = exp(x) in place for x <= 0, below -700 exactly 0; about one unit in the last place."""
    shifts = scratch.view(np.int64)
    for begin in range(0, x.size, scratch.size):
        cells = x[begin : min(begin + scratch.size, x.size)]
        for j in range(cells.size):
            v = cells[j]
            dead = v < _LEAST
            v = 0.0 if dead else v
            t = v * _LOG2E + _MAGIC
            scratch[j] = t
            k = t - _MAGIC
            r = (v - k * _LN2_HIGH) - k * _LN2_LOW
            p = 1.0 / 6227020800.0
            p = p * r + 1.0 / 479001600.0
            p = p * r + 1.0 / 39916800.0
            p = p * r + 1.0 / 3628800.0
            p = p * r + 1.0 / 362880.0
            p = p * r + 1.0 / 40320.0
            p = p * r + 1.0 / 5040.0
            p = p * r + 1.0 / 720.0
            p = p * r + 1.0 / 120.0
            p = p * r + 1.0 / 24.0
            p = p * r + 1.0 / 6.0
            p = p * r + 0.5
            p = p * r + 1.0
            p = p * r + 1.0
            cells[j] = 0.0 if dead else p
        bits = cells.view(np.int64)
        for j in range(bits.size):
            bits[j] += shifts[j] << 52


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def _largest(x: Floats) -> float:
    found = -np.inf
    for j in range(x.size):
        v = x[j]
        found = v if v > found else found
    return found


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def _total(x: Floats) -> float:
    found = 0.0
    for j in range(x.size):
        found += x[j]
    return found


@njit(nogil=True, cache=True)
def _start(node: Integers, starts: Integers, count: Integers, bases: Integers) -> None:
    first, tables = node[FIRST], node[TABLES]
    count[:] = 0
    for s in range(tables):
        bases[s] = starts[first + s]


@njit(nogil=True, cache=True)
def _advance(node: Integers, shape: Integers, strides: Integers, count: Integers, bases: Integers) -> None:
    """The bases of all tables at the next run: an odometer over the axes before the last."""
    first, tables, axis = node[FIRST], node[TABLES], node[AXES] - 1
    while axis >= 0:
        count[axis] += 1
        if count[axis] < shape[axis]:
            for s in range(tables):
                bases[s] += strides[first + s, axis]
            return
        count[axis] = 0
        for s in range(tables):
            bases[s] -= strides[first + s, axis] * (shape[axis] - 1)
        axis -= 1


@njit(nogil=True, cache=True)
def _fill(
    cells: Floats, node: Integers, kinds: Integers, bases: Integers, theta: Floats, fixed: Floats, messages: Floats
) -> None:
    """The sum of all tables along one run; the first UNIT tables have stride 1 there, the others 0."""
    first, unit, tables = node[FIRST], node[UNIT], node[TABLES]
    c = 0.0
    for s in range(unit, tables):
        kind = kinds[first + s]
        source = theta if kind == FACTOR else (fixed if kind == FIXED else messages)
        c += source[bases[s]]
    if unit == 0:
        cells[:] = c
    for s in range(unit):
        kind = kinds[first + s]
        source = theta if kind == FACTOR else (fixed if kind == FIXED else messages)
        run = source[bases[s] : bases[s] + cells.size]
        if s == 0:
            for j in range(cells.size):
                cells[j] = run[j] + c
        else:
            for j in range(cells.size):
                cells[j] += run[j]


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _spread(
    cells: Floats, factor: float, node: Integers, kinds: Integers, bases: Integers, mu: Floats, separators: Floats
) -> None:
    """Add factor * cells of one run to every table that is wanted."""
    first, unit, tables = node[FIRST], node[UNIT], node[TABLES]
    for s in range(unit):
        kind = kinds[first + s]
        if kind != FIXED:
            target = mu if kind == FACTOR else separators
            run = target[bases[s] : bases[s] + cells.size]
            for j in range(cells.size):
                run[j] += factor * cells[j]
    if unit < tables:
        c = 0.0
        for j in range(cells.size):
            c += cells[j]
        c *= factor
        for s in range(unit, tables):
            kind = kinds[first + s]
            if kind == FACTOR:
                mu[bases[s]] += c
            elif kind == MESSAGE:
                separators[bases[s]] += c


@njit(nogil=True, cache=True)
def collect(
    nodes: Integers, shapes: Integers, kinds: Integers, starts: Integers, strides: Integers,
    theta: Floats, fixed: Floats, x: Floats, weights: Floats, messages: Floats,
) -> None:  # fmt: skip
    """Leaves to root: x and weights with p(rest | separator) = x * weight of the tile, and the messages upward."""
    count, bases = np.zeros(shapes.shape[1] + 1, np.int64), np.zeros(starts.size + 1, np.int64)
    scratch = np.empty(BLOCK)
    for k in range(nodes.shape[0] - 1, -1, -1):
        node, shape = nodes[k], shapes[k]
        length, per_row, per_tile = node[LENGTH], node[RUNS], node[TILE_RUNS]
        _start(node, starts, count, bases)
        at, tile = node[CELL], node[WEIGHT]
        rows_at_once = max(1, BLOCK // (length * per_row))
        for row in range(0, node[ROWS], rows_at_once):
            rows = min(rows_at_once, node[ROWS] - row)
            first_tile = tile
            block = at
            for _ in range(rows):
                run = 0
                while run < per_row:
                    begin, last = at, min(run + per_tile, per_row)
                    while run < last:
                        _fill(x[at : at + length], node, kinds, bases, theta, fixed, messages)
                        _advance(node, shape, strides, count, bases)
                        at += length
                        run += 1
                    largest = _largest(x[begin:at])
                    weights[tile] = largest
                    cells = x[begin:at]
                    if largest == -np.inf:
                        cells[:] = -np.inf
                    else:
                        for j in range(cells.size):
                            cells[j] -= largest
                    tile += 1
                    if rows == 1:
                        exp_cells(cells, scratch)
            if rows > 1:
                exp_cells(x[block:at], scratch)
            _normalise(x, block, node, rows, weights, first_tile, messages, node[MESSAGES] + row)


@njit(nogil=True, cache=True)
def _normalise(
    x: Floats, at: int, node: Integers, rows: int, weights: Floats, tile: int, messages: Floats, message: int
) -> None:
    """Weights from the largest logs of tiles, and the log of every row's sum."""
    length, per_row, per_tile, tiles = node[LENGTH], node[RUNS], node[TILE_RUNS], node[TILES]
    for row in range(rows):
        largest = _largest(weights[tile : tile + tiles])
        total = 0.0
        run = 0
        for t in range(tile, tile + tiles):
            size = length * (min(run + per_tile, per_row) - run)
            run += per_tile
            if weights[t] > -np.inf:
                weights[t] = math.exp(weights[t] - largest) if tiles > 1 else 1.0
                total += weights[t] * _total(x[at : at + size])
            else:
                weights[t] = 0.0
            at += size
        if largest == -np.inf:
            messages[message + row] = -np.inf
        else:
            messages[message + row] = largest + math.log(total)
            for t in range(tile, tile + tiles):
                weights[t] /= total
        tile += tiles


@njit(nogil=True, cache=True)
def distribute(
    nodes: Integers, shapes: Integers, kinds: Integers, starts: Integers, strides: Integers,
    x: Floats, weights: Floats, total: float, separators: Floats, mu: Floats,
) -> None:  # fmt: skip
    """Root to leaves: the counts of every separator and of every factor, which add up to `total`."""
    count, bases = np.zeros(shapes.shape[1] + 1, np.int64), np.zeros(starts.size + 1, np.int64)
    mu[:] = 0.0
    separators[:] = 0.0
    separators[nodes[0, MESSAGES]] = total
    for k in range(nodes.shape[0]):
        node, shape = nodes[k], shapes[k]
        length, per_row, per_tile, tiles = node[LENGTH], node[RUNS], node[TILE_RUNS], node[TILES]
        _start(node, starts, count, bases)
        at, tile = node[CELL], node[WEIGHT]
        for row in range(node[ROWS]):
            mass = separators[node[MESSAGES] + row]
            for run in range(per_row):
                factor = mass * weights[tile + run // per_tile]
                if factor > 0.0:
                    _spread(x[at : at + length], factor, node, kinds, bases, mu, separators)
                _advance(node, shape, strides, count, bases)
                at += length
            tile += tiles


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _dot(first: Floats, second: Floats) -> float:
    found = 0.0
    for j in range(first.size):
        found += first[j] * second[j]
    return found


@njit(nogil=True, cache=True)
def collect_tangent(
    nodes: Integers, shapes: Integers, kinds: Integers, starts: Integers, strides: Integers,
    direction: Floats, zeros: Floats, x: Floats, weights: Floats, means: Floats,
) -> None:  # fmt: skip
    """Leaves to root: the mean of the direction's sum over a node and all below it, given the separator."""
    count, bases = np.zeros(shapes.shape[1] + 1, np.int64), np.zeros(starts.size + 1, np.int64)
    for k in range(nodes.shape[0] - 1, -1, -1):
        node, shape = nodes[k], shapes[k]
        length, per_row, per_tile, tiles = node[LENGTH], node[RUNS], node[TILE_RUNS], node[TILES]
        delta = np.empty(length)
        _start(node, starts, count, bases)
        at, tile = node[CELL], node[WEIGHT]
        for row in range(node[ROWS]):
            mean = 0.0
            for run in range(per_row):
                weight = weights[tile + run // per_tile]
                if weight > 0.0:
                    _fill(delta, node, kinds, bases, direction, zeros, means)
                    mean += weight * _dot(x[at : at + length], delta)
                _advance(node, shape, strides, count, bases)
                at += length
            means[node[MESSAGES] + row] = mean
            tile += tiles


@njit(nogil=True, cache=True)
def distribute_tangent(
    nodes: Integers, shapes: Integers, kinds: Integers, starts: Integers, strides: Integers,
    direction: Floats, zeros: Floats, x: Floats, weights: Floats, separators: Floats,
    means: Floats, sums: Floats, change: Floats,
) -> None:  # fmt: skip
    """Root to leaves: the derivative of the counts of every factor along the direction."""
    count, bases = np.zeros(shapes.shape[1] + 1, np.int64), np.zeros(starts.size + 1, np.int64)
    change[:] = 0.0
    sums[:] = 0.0
    for k in range(nodes.shape[0]):
        node, shape = nodes[k], shapes[k]
        length, per_row, per_tile, tiles = node[LENGTH], node[RUNS], node[TILE_RUNS], node[TILES]
        delta = np.empty(length)
        _start(node, starts, count, bases)
        at, tile = node[CELL], node[WEIGHT]
        for row in range(node[ROWS]):
            place = node[MESSAGES] + row
            mass = separators[place]
            shift = (sums[place] / mass if mass > 0.0 else 0.0) - means[place]
            for run in range(per_row):
                factor = mass * weights[tile + run // per_tile]
                if factor > 0.0:
                    _fill(delta, node, kinds, bases, direction, zeros, means)
                    cells = x[at : at + length]
                    for j in range(length):
                        delta[j] = cells[j] * (delta[j] + shift)
                    _spread(delta, factor, node, kinds, bases, change, sums)
                _advance(node, shape, strides, count, bases)
                at += length
            tile += tiles


@njit(nogil=True, cache=True)
def collect_largest(
    nodes: Integers, shapes: Integers, kinds: Integers, starts: Integers, strides: Integers,
    theta: Floats, fixed: Floats, messages: Floats,
) -> None:  # fmt: skip
    """Leaves to root: the largest sum of all tables over a node and all below it, given the separator."""
    count, bases = np.zeros(shapes.shape[1] + 1, np.int64), np.zeros(starts.size + 1, np.int64)
    for k in range(nodes.shape[0] - 1, -1, -1):
        node, shape = nodes[k], shapes[k]
        cells = np.empty(node[LENGTH])
        _start(node, starts, count, bases)
        for row in range(node[ROWS]):
            largest = -np.inf
            for _ in range(node[RUNS]):
                _fill(cells, node, kinds, bases, theta, fixed, messages)
                _advance(node, shape, strides, count, bases)
                largest = max(largest, _largest(cells))
            messages[node[MESSAGES] + row] = largest
