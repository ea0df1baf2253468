"""Compiled loops of graphical models: the passes of belief propagation, the step of natural descent, sums of tables.

`belief_propagation.py` describes what the passes compute, and the `TreeProgram` that they interpret. For every node
the program lists its runs of cells and the tables that it reads. A table is a factor, a fixed table or the message of a
child; along a run it has stride 1 (the first UNIT tables) or 0. Chunks fit in the first cache. A node without columns
is a sum: its message is the sum of its tables, and the counts that come down to it are passed on unchanged.

`step_direction` serves `descent.py`, `sum_middle` serves `marginals.py`, `small_products` `variable_elimination.py`.
"""

from __future__ import annotations

import math

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.compiled import njit

FACTOR, FIXED, MESSAGE = 0, 1, 2
# The columns of `nodes`: start of its cells, cells, rows, columns, length of a run, cells of a chunk, tiles of a row,
# outer axes, first table, tables, tables with stride 1, start of its message, start of its weights.
CELL, CELLS, ROWS, COLUMNS, LENGTH, CHUNK, TILES, AXES, FIRST, TABLES, UNIT, MESSAGES, WEIGHT = range(13)
CHUNK_CELLS = 2048

_LOG2E = 1.0 / math.log(2.0)
_ROUNDING_SHIFT = 1.5 * 2.0**52  # adding it to a small float rounds to an integer, held in the lowest bits
_LN2_HIGH = 6.93147180369123816490e-01  # ln 2 in two parts, whose sum is more precise than one float
_LN2_LOW = 1.90821492927058770002e-10
_LOWEST_EXPONENT = -700.0  # exp underflows below about -708


@njit(nogil=True, cache=True, fastmath={"contract"})
def exp_cells(x: Floats, scratch: Floats) -> None:
    """x = exp(x) in place for x <= 0, exactly 0 below -700; accurate to about one unit in the last place.

    exp(v) = 2^k exp(r) with k = round(v / ln 2) and |r| <= ln 2 / 2. exp(r) is its Taylor polynomial of degree 13, and
    2^k is added to the exponent bits of the result.
    """
    shifts = scratch.view(np.int64)
    for begin in range(0, x.size, scratch.size):
        cells = x[begin : min(begin + scratch.size, x.size)]
        for j in range(cells.size):
            v = cells[j]
            dead = v < _LOWEST_EXPONENT
            v = 0.0 if dead else v
            t = v * _LOG2E + _ROUNDING_SHIFT
            scratch[j] = t
            k = t - _ROUNDING_SHIFT
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
    largest = -np.inf
    for j in range(x.size):
        v = x[j]
        largest = v if v > largest else largest
    return largest


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def _total(x: Floats) -> float:
    total = 0.0
    for j in range(x.size):
        total += x[j]
    return total


@njit(nogil=True, cache=True)
def _start(node: Integers, starts: Integers, count: Integers, bases: Integers) -> None:
    first, tables = node[FIRST], node[TABLES]
    count[:] = 0
    for s in range(tables):
        bases[s] = starts[first + s]


@njit(nogil=True, cache=True)
def _advance(node: Integers, shape: Integers, strides: Integers, count: Integers, bases: Integers) -> None:
    """Move the bases of all tables to the next run: an odometer over the axes before the last."""
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
def _spread(cells: Floats, node: Integers, kinds: Integers, bases: Integers, mu: Floats, separators: Floats) -> None:
    """Add the cells of one run to every factor and message; fixed tables are skipped."""
    first, unit, tables = node[FIRST], node[UNIT], node[TABLES]
    for s in range(unit):
        kind = kinds[first + s]
        if kind != FIXED:
            target = mu if kind == FACTOR else separators
            run = target[bases[s] : bases[s] + cells.size]
            for j in range(cells.size):
                run[j] += cells[j]
    if unit < tables:
        c = 0.0
        for j in range(cells.size):
            c += cells[j]
        for s in range(unit, tables):
            kind = kinds[first + s]
            if kind == FACTOR:
                mu[bases[s]] += c
            elif kind == MESSAGE:
                separators[bases[s]] += c


@njit(nogil=True, cache=True)
def _fill_chunk(
    cells: Floats, node: Integers, shape: Integers, kinds: Integers, strides: Integers,
    count: Integers, bases: Integers, theta: Floats, fixed: Floats, messages: Floats,
) -> None:  # fmt: skip
    length = node[LENGTH]
    for at in range(0, cells.size, length):
        _fill(cells[at : at + length], node, kinds, bases, theta, fixed, messages)
        _advance(node, shape, strides, count, bases)


@njit(nogil=True, cache=True)
def _spread_chunk(
    cells: Floats, node: Integers, shape: Integers, kinds: Integers, strides: Integers,
    count: Integers, bases: Integers, mu: Floats, separators: Floats,
) -> None:  # fmt: skip
    length = node[LENGTH]
    for at in range(0, cells.size, length):
        _spread(cells[at : at + length], node, kinds, bases, mu, separators)
        _advance(node, shape, strides, count, bases)


@njit(nogil=True, cache=True)
def _soften(cells: Floats, columns: int, weights: Floats, messages: Floats, scratch: Floats) -> None:
    """Replace rows of logs by exp(row - largest); write weights that make rows sum to one, and logs of the sums."""
    for row in range(weights.size):
        row_cells = cells[row * columns : (row + 1) * columns]
        largest = _largest(row_cells)
        weights[row] = largest
        if largest == -np.inf:
            row_cells[:] = -np.inf
        else:
            for j in range(row_cells.size):
                row_cells[j] -= largest
    exp_cells(cells, scratch)
    for row in range(weights.size):
        largest = weights[row]
        if largest == -np.inf:
            weights[row], messages[row] = 0.0, -np.inf
        else:
            total = _total(cells[row * columns : (row + 1) * columns])
            weights[row], messages[row] = 1.0 / total, largest + math.log(total)


@njit(nogil=True, cache=True)
def _join(weights: Floats, sums: Floats) -> float:
    """The log of a row's sum, from its tiles' largest logs and sums; `weights` then make the row sum to one."""
    largest: float = _largest(weights)
    total = 0.0
    for t in range(weights.size):
        weights[t] = math.exp(weights[t] - largest) if weights[t] > -np.inf else 0.0
        total += weights[t] * sums[t]
    if largest == -np.inf:
        return -np.inf
    for t in range(weights.size):
        weights[t] /= total
    return largest + math.log(total)


@njit(nogil=True, cache=True)
def collect(
    nodes: Integers, shapes: Integers, kinds: Integers, starts: Integers, strides: Integers,
    theta: Floats, fixed: Floats, x: Floats, weights: Floats, messages: Floats,
) -> None:  # fmt: skip
    """Leaves to root: messages, and x and weights such that p(rest | separator) = x * weight of the row or tile."""
    count, bases = np.zeros(shapes.shape[1] + 1, np.int64), np.zeros(starts.size + 1, np.int64)
    scratch = np.empty(CHUNK_CELLS)
    for k in range(nodes.shape[0] - 1, -1, -1):
        node, shape = nodes[k], shapes[k]
        columns, message, tile, chunk = node[COLUMNS], node[MESSAGES], node[WEIGHT], node[CHUNK]
        _start(node, starts, count, bases)
        if columns == 0:
            cells = messages[message : message + node[CELLS]]
            _fill_chunk(cells, node, shape, kinds, strides, count, bases, theta, fixed, messages)
        elif node[TILES] == 1:
            for at in range(0, node[CELLS], chunk):
                cells = x[node[CELL] + at : node[CELL] + min(at + chunk, node[CELLS])]
                _fill_chunk(cells, node, shape, kinds, strides, count, bases, theta, fixed, messages)
                rows = cells.size // columns
                _soften(cells, columns, weights[tile : tile + rows], messages[message : message + rows], scratch)
                tile += rows
                message += rows
        else:
            sums = np.empty(node[TILES])
            largest = np.empty(1)
            for row in range(node[ROWS]):
                begin = node[CELL] + row * columns
                for t in range(node[TILES]):
                    cells = x[begin + t * chunk : begin + min((t + 1) * chunk, columns)]
                    _fill_chunk(cells, node, shape, kinds, strides, count, bases, theta, fixed, messages)
                    largest[0] = _largest(cells)
                    _soften(cells, cells.size, weights[tile + t : tile + t + 1], sums[t : t + 1], scratch)
                    weights[tile + t], sums[t] = largest[0], _total(cells)
                messages[message + row] = _join(weights[tile : tile + node[TILES]], sums)
                tile += node[TILES]


@njit(nogil=True, cache=True, fastmath={"contract"})
def _scale(x: Floats, columns: int, weights: Floats, masses: Floats, out: Floats) -> None:
    """out = x * weight * mass, row by row."""
    for row in range(weights.size):
        factor = weights[row] * masses[row]
        source, target = x[row * columns : (row + 1) * columns], out[row * columns : (row + 1) * columns]
        for j in range(source.size):
            target[j] = source[j] * factor


@njit(nogil=True, cache=True)
def distribute(
    nodes: Integers, shapes: Integers, kinds: Integers, starts: Integers, strides: Integers,
    x: Floats, weights: Floats, total: float, separators: Floats, mu: Floats,
) -> None:  # fmt: skip
    """Root to leaves: the counts of every separator and of every factor, which add up to `total`."""
    count, bases = np.zeros(shapes.shape[1] + 1, np.int64), np.zeros(starts.size + 1, np.int64)
    scratch = np.empty(nodes[:, CHUNK].max())
    mu[:] = 0.0
    separators[:] = 0.0
    separators[nodes[0, MESSAGES]] = total
    for k in range(nodes.shape[0]):
        node, shape = nodes[k], shapes[k]
        columns, message, tile, chunk = node[COLUMNS], node[MESSAGES], node[WEIGHT], node[CHUNK]
        _start(node, starts, count, bases)
        if columns == 0:
            cells = separators[message : message + node[CELLS]]
            _spread_chunk(cells, node, shape, kinds, strides, count, bases, mu, separators)
        elif node[TILES] == 1:
            for at in range(0, node[CELLS], chunk):
                cells = x[node[CELL] + at : node[CELL] + min(at + chunk, node[CELLS])]
                rows, counts = cells.size // columns, scratch[: cells.size]
                _scale(cells, columns, weights[tile : tile + rows], separators[message : message + rows], counts)
                _spread_chunk(counts, node, shape, kinds, strides, count, bases, mu, separators)
                tile += rows
                message += rows
        else:
            for row in range(node[ROWS]):
                begin, mass = node[CELL] + row * columns, separators[message + row : message + row + 1]
                for t in range(node[TILES]):
                    cells = x[begin + t * chunk : begin + min((t + 1) * chunk, columns)]
                    counts = scratch[: cells.size]
                    _scale(cells, cells.size, weights[tile : tile + 1], mass, counts)
                    _spread_chunk(counts, node, shape, kinds, strides, count, bases, mu, separators)
                    tile += 1


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def dot(first: Floats, second: Floats) -> float:
    """The inner product."""
    product = 0.0
    for j in range(first.size):
        product += first[j] * second[j]
    return product


@njit(nogil=True, cache=True)
def collect_tangent(
    nodes: Integers, shapes: Integers, kinds: Integers, starts: Integers, strides: Integers,
    direction: Floats, zeros: Floats, x: Floats, weights: Floats, means: Floats,
) -> None:  # fmt: skip
    """Leaves to root: the mean of the direction's sum over a node and its descendants, given the separator."""
    count, bases = np.zeros(shapes.shape[1] + 1, np.int64), np.zeros(starts.size + 1, np.int64)
    scratch = np.empty(nodes[:, CHUNK].max())
    for k in range(nodes.shape[0] - 1, -1, -1):
        node, shape = nodes[k], shapes[k]
        columns, message, tile, chunk = node[COLUMNS], node[MESSAGES], node[WEIGHT], node[CHUNK]
        _start(node, starts, count, bases)
        if columns == 0:
            cells = means[message : message + node[CELLS]]
            _fill_chunk(cells, node, shape, kinds, strides, count, bases, direction, zeros, means)
        elif node[TILES] == 1:
            for at in range(0, node[CELLS], chunk):
                cells = x[node[CELL] + at : node[CELL] + min(at + chunk, node[CELLS])]
                delta = scratch[: cells.size]
                _fill_chunk(delta, node, shape, kinds, strides, count, bases, direction, zeros, means)
                for row in range(0, cells.size, columns):
                    means[message] = weights[tile] * dot(cells[row : row + columns], delta[row : row + columns])
                    tile += 1
                    message += 1
        else:
            for row in range(node[ROWS]):
                begin, mean = node[CELL] + row * columns, 0.0
                for t in range(node[TILES]):
                    cells = x[begin + t * chunk : begin + min((t + 1) * chunk, columns)]
                    delta = scratch[: cells.size]
                    _fill_chunk(delta, node, shape, kinds, strides, count, bases, direction, zeros, means)
                    mean += weights[tile] * dot(cells, delta)
                    tile += 1
                means[message + row] = mean


@njit(nogil=True, cache=True)
def _tilt(cells: Floats, factor: float, shift: float, delta: Floats) -> None:
    """delta = factor * cells * (delta + shift)."""
    for j in range(delta.size):
        delta[j] = factor * cells[j] * (delta[j] + shift)


@njit(nogil=True, cache=True)
def distribute_tangent(
    nodes: Integers, shapes: Integers, kinds: Integers, starts: Integers, strides: Integers,
    direction: Floats, zeros: Floats, x: Floats, weights: Floats, separators: Floats,
    means: Floats, sums: Floats, change: Floats,
) -> None:  # fmt: skip
    """Root to leaves: the derivative of the counts of every factor along the direction."""
    count, bases = np.zeros(shapes.shape[1] + 1, np.int64), np.zeros(starts.size + 1, np.int64)
    recount, restart = np.zeros(shapes.shape[1] + 1, np.int64), np.zeros(starts.size + 1, np.int64)
    scratch = np.empty(nodes[:, CHUNK].max())
    change[:] = 0.0
    sums[:] = 0.0
    for k in range(nodes.shape[0]):
        node, shape = nodes[k], shapes[k]
        columns, message, tile, chunk = node[COLUMNS], node[MESSAGES], node[WEIGHT], node[CHUNK]
        _start(node, starts, count, bases)
        _start(node, starts, recount, restart)
        if columns == 0:
            cells = sums[message : message + node[CELLS]]
            _spread_chunk(cells, node, shape, kinds, strides, count, bases, change, sums)
            continue
        row_cells = columns if node[TILES] == 1 else chunk
        for begin in range(0, node[CELLS], chunk if node[TILES] == 1 else columns):
            stop = min(begin + chunk, node[CELLS]) if node[TILES] == 1 else begin + columns
            for at in range(begin, stop, chunk):
                cells = x[node[CELL] + at : node[CELL] + min(at + chunk, stop)]
                delta = scratch[: cells.size]
                _fill_chunk(delta, node, shape, kinds, strides, count, bases, direction, zeros, means)
                for row in range(0, cells.size, row_cells):
                    mass = separators[message]
                    shift = (sums[message] / mass if mass > 0.0 else 0.0) - means[message]
                    row_of_cells = cells[row : row + row_cells]
                    _tilt(row_of_cells, mass * weights[tile], shift, delta[row : row + row_cells])
                    tile += 1
                    if node[TILES] == 1:
                        message += 1
                _spread_chunk(delta, node, shape, kinds, strides, recount, restart, change, sums)
            if node[TILES] > 1:
                message += 1


@njit(nogil=True, cache=True)
def collect_largest(
    nodes: Integers, shapes: Integers, kinds: Integers, starts: Integers, strides: Integers,
    theta: Floats, fixed: Floats, messages: Floats,
) -> None:  # fmt: skip
    """Leaves to root: the largest sum of all tables over a node and its descendants, given the separator."""
    count, bases = np.zeros(shapes.shape[1] + 1, np.int64), np.zeros(starts.size + 1, np.int64)
    scratch = np.empty(nodes[:, CHUNK].max())
    for k in range(nodes.shape[0] - 1, -1, -1):
        node, shape = nodes[k], shapes[k]
        columns, message, chunk = node[COLUMNS], node[MESSAGES], node[CHUNK]
        _start(node, starts, count, bases)
        if columns == 0:
            cells = messages[message : message + node[CELLS]]
            _fill_chunk(cells, node, shape, kinds, strides, count, bases, theta, fixed, messages)
        elif node[TILES] == 1:
            for at in range(0, node[CELLS], chunk):
                cells = scratch[: min(chunk, node[CELLS] - at)]
                _fill_chunk(cells, node, shape, kinds, strides, count, bases, theta, fixed, messages)
                for row in range(0, cells.size, columns):
                    messages[message] = _largest(cells[row : row + columns])
                    message += 1
        else:
            for row in range(node[ROWS]):
                largest = -np.inf
                for at in range(0, columns, chunk):
                    cells = scratch[: min(chunk, columns - at)]
                    _fill_chunk(cells, node, shape, kinds, strides, count, bases, theta, fixed, messages)
                    largest = max(largest, _largest(cells))
                messages[message + row] = largest


@njit(nogil=True, cache=True)
def normalise(nodes: Integers, x: Floats, weights: Floats) -> None:
    """Replace x by x * weight, so that rows sum to one, and weights by one."""
    for k in range(nodes.shape[0]):
        node = nodes[k]
        columns = node[COLUMNS]
        if columns == 0:
            continue
        for row in range(node[ROWS]):
            begin = node[CELL] + row * columns
            step = columns if node[TILES] == 1 else node[CHUNK]
            tile = node[WEIGHT] + row * node[TILES]
            for at in range(0, columns, step):
                cells = x[begin + at : begin + min(at + step, columns)]
                for j in range(cells.size):
                    cells[j] *= weights[tile]
                weights[tile] = 1.0
                tile += 1


@njit(nogil=True, cache=True, fastmath={"contract"})
def add(target: Floats, factor: float, source: Floats) -> None:
    """target += factor * source."""
    for j in range(target.size):
        target[j] += factor * source[j]


@njit(nogil=True, cache=True)
def step_direction(
    order: Integers, steps: Floats, naturals: Floats, changes: Floats, scale: float,
    natural: Floats, gradient: Floats, scratch: Floats, direction: Floats,
) -> None:  # fmt: skip
    """The two loops of L-BFGS over pairs, newest last in `order`, from the natural gradient times `scale`.

    With the first inverse Hessian scale * J^{-1}, whose products with J g and with the changes of J g are the natural
    gradient and `naturals`; so J^{-1} itself is never applied.
    """
    direction[:] = natural
    scratch[:] = gradient
    alphas = np.empty(order.size)
    for i in range(order.size - 1, -1, -1):
        k = order[i]
        alphas[i] = dot(steps[k], scratch) / dot(steps[k], changes[k])
        add(direction, -alphas[i], naturals[k])
        add(scratch, -alphas[i], changes[k])
    for j in range(direction.size):
        direction[j] *= -scale
    for i in range(order.size):
        k = order[i]
        beta = dot(changes[k], direction) / dot(steps[k], changes[k])
        add(direction, -alphas[i] - beta, steps[k])


@njit(nogil=True, cache=True)
def sum_middle(x: Floats, out: Floats) -> None:
    """out[i, j] = sum_k x[i, k, j]."""
    for i in range(x.shape[0]):
        row = out[i]
        row[:] = x[i, 0]
        for k in range(1, x.shape[1]):
            source = x[i, k]
            for j in range(row.size):
                row[j] += source[j]


@njit(nogil=True, cache=True)
def small_products(left: Floats, right: Floats, out: Floats) -> None:
    """out[b] = left[b] @ right[b] for many small matrices."""
    for b in range(left.shape[0]):
        for i in range(left.shape[1]):
            row = out[b, i]
            row[:] = 0.0
            for k in range(left.shape[2]):
                factor, source = left[b, i, k], right[b, k]
                for j in range(row.size):
                    row[j] += factor * source[j]
