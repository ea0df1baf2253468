"""Kernels of counting: arrays in, arrays out, without the interpreter's lock; `hush.tables.counting` calls them.

Codes lie in three matrices, one row per attribute: uint8, uint16 and uint32. `width[a]` says which matrix holds
attribute a, `line[a]` which of its rows. Cells are numbered in C order over the attributes of a scan.
"""

from __future__ import annotations

import math

import numpy as np

from hush.core.compiled import njit

BLOCK_ROWS = 8192  # prefixes of so many rows are shared by scans, and stay in the second-level cache
MOST_LANES = 4  # scans counted side by side: an addition need not wait for the one before in the same scan
NEAR_CELLS = 8192  # counters of the scans side by side, which should stay in the first-level cache


@njit(nogil=True, cache=True)
def _start(cells, codes):  # type: ignore[no-untyped-def]
    for i in range(codes.shape[0]):
        cells[i] = np.uint32(codes[i])


@njit(nogil=True, cache=True)
def _extend(cells, prefix, codes, size):  # type: ignore[no-untyped-def]
    n = np.uint32(size)
    for i in range(codes.shape[0]):
        cells[i] = prefix[i] * n + np.uint32(codes[i])


@njit(nogil=True, cache=True)
def _append(cells, prefix, depth, matrices, width, line, size, first, last):  # type: ignore[no-untyped-def]
    """cells = prefix * size + code; at depth 0 there is no prefix."""
    narrow, middle, wide = matrices
    if depth == 0:
        if width == 0:
            _start(cells, narrow[line, first:last])
        elif width == 1:
            _start(cells, middle[line, first:last])
        else:
            _start(cells, wide[line, first:last])
    elif width == 0:
        _extend(cells, prefix, narrow[line, first:last], size)
    elif width == 1:
        _extend(cells, prefix, middle[line, first:last], size)
    else:
        _extend(cells, prefix, wide[line, first:last], size)


@njit(nogil=True, cache=True)
def _count(counters, base, cells, lanes, rows):  # type: ignore[no-untyped-def]
    """Add one for each row to each of the scans side by side."""
    increment = np.uint32(1)
    c0, c1, c2, c3 = cells[0], cells[1], cells[2], cells[3]
    h0, h1, h2, h3 = counters[base[0] :], counters[base[1] :], counters[base[2] :], counters[base[3] :]
    if lanes == 4:
        for i in range(rows):
            h0[c0[i]] += increment
            h1[c1[i]] += increment
            h2[c2[i]] += increment
            h3[c3[i]] += increment
    elif lanes == 3:
        for i in range(rows):
            h0[c0[i]] += increment
            h1[c1[i]] += increment
            h2[c2[i]] += increment
    elif lanes == 2:
        for i in range(rows):
            h0[c0[i]] += increment
            h1[c1[i]] += increment
    elif lanes == 1:
        for i in range(rows):
            h0[c0[i]] += increment


@njit(nogil=True, cache=True)
def _add(counters, base, cells, lanes, weights):  # type: ignore[no-untyped-def]
    """Add the weight of each row to each of the scans side by side."""
    for lane in range(lanes):
        h, c = counters[base[lane] :], cells[lane]
        for i in range(weights.shape[0]):
            h[c[i]] += weights[i]


@njit(nogil=True, cache=True)
def scan(matrices, weights, layout, sizes, scans, shared, counters, first, last):  # type: ignore[no-untyped-def]
    """Add rows first .. last-1 to the counters of every scan: O(rows x scans).

    A row counts once, in uint32 counters, or as often as its weight says, in int64 counters; `weights` is None or
    int64. `scans` are attributes (padded), lengths, cells and offsets into the counters, sorted by attributes; scan s
    shares its first `shared[s]` attributes with the scan before it, whose combined codes are still in `prefixes`.
    """
    width, line = layout
    attributes, lengths, extents, offsets = scans
    prefixes = np.empty((max(1, attributes.shape[1]), BLOCK_ROWS), np.uint32)
    cells = np.empty((MOST_LANES, BLOCK_ROWS), np.uint32)
    base = np.zeros(MOST_LANES, np.int64)
    for start in range(first, last, BLOCK_ROWS):
        rows = min(BLOCK_ROWS, last - start)
        lane = 0
        used = 0
        for s in range(lengths.shape[0]):
            # The empty clique has one cell, the total.
            length = lengths[s]
            if length == 0:
                if weights is None:
                    counters[offsets[s]] += np.uint32(rows)
                else:
                    counters[offsets[s]] += weights[start : start + rows].sum()
                continue
            # Count the scans side by side once no other fits beside them.
            if lane == MOST_LANES or (lane > 0 and used + extents[s] > NEAR_CELLS):
                if weights is None:
                    _count(counters, base, cells, lane, rows)
                else:
                    _add(counters, base, cells, lane, weights[start : start + rows])
                lane = 0
                used = 0
            # The cell of each row, from the shared prefix on; longer prefixes are kept for the next scan.
            for depth in range(min(shared[s], length - 1), length):
                a = attributes[s, depth]
                written = prefixes[depth] if depth < length - 1 else cells[lane]
                prefix = prefixes[max(0, depth - 1)]
                _append(written, prefix, depth, matrices, width[a], line[a], sizes[a], start, start + rows)
            base[lane] = offsets[s]
            used += extents[s]
            lane += 1
        if weights is None:
            _count(counters, base, cells, lane, rows)
        else:
            _add(counters, base, cells, lane, weights[start : start + rows])


@njit(nogil=True, cache=True)
def _alternating_axes(sizes, outer, outer_length, inner, inner_length, extent, step):  # type: ignore[no-untyped-def]
    """Merge neighbouring axes that are both kept or both summed; how many axes are left, the innermost first.

    `extent` gets the length of each axis, `step` its stride in the inner clique, 0 for a summed axis.
    """
    axes = 0
    stride = 1
    i = inner_length - 1
    previous = -1  # of an axis: 1 if it is kept, 0 if it is summed
    for o in range(outer_length - 1, -1, -1):
        kept = i >= 0 and inner[i] == outer[o]
        current = 1 if kept else 0
        n = sizes[outer[o]]
        if current == previous:
            extent[axes - 1] *= n
        else:
            extent[axes] = n
            step[axes] = stride if kept else 0
            axes += 1
            previous = current
        if kept:
            stride *= n
            i -= 1
    return axes


@njit(nogil=True, cache=True)
def fold(source, sizes, outer, outer_length, inner, inner_length, target):  # type: ignore[no-untyped-def]
    """Add the cells of a clique onto those of a clique within it: O(cells of the larger)."""
    extent = np.ones(outer_length + 2, np.int64)
    step = np.zeros(outer_length + 2, np.int64)
    axes = _alternating_axes(sizes, outer, outer_length, inner, inner_length, extent, step)
    # Of the innermost two axes, one is kept and one is summed: a plane is added by plain loops.
    width, height = extent[0], extent[1]
    counter = np.zeros(outer_length + 2, np.int64)
    at = 0
    for begin in range(0, source.shape[0], width * height):
        plane = source[begin : begin + width * height]
        if step[0] == 0:
            sums = target[at : at + height]
            cell = np.uint64(0)
            for i in range(height):
                total = np.int64(0)
                for _ in range(width):
                    total += np.int64(plane[cell])
                    cell += np.uint64(1)
                sums[i] += total
        elif width > 8:
            sums = target[at : at + width]
            for i in range(height):
                line = plane[i * width : (i + 1) * width]
                for j in range(width):
                    sums[j] += np.int64(line[j])
        else:  # too narrow for vectors: down each column instead
            for j in range(width):
                cell = np.uint64(j)
                total = np.int64(0)
                for _ in range(height):
                    total += np.int64(plane[cell])
                    cell += np.uint64(width)
                target[at + j] += total
        # Advance the outer axes like an odometer, and with them the place in the target.
        for axis in range(2, axes):
            counter[axis] += 1
            at += step[axis]
            if counter[axis] < extent[axis]:
                break
            at -= step[axis] * extent[axis]
            counter[axis] = 0


@njit(nogil=True, cache=True)
def drain(first, last, fresh, counters, sizes, scans, chosen, cliques, results):  # type: ignore[no-untyped-def]
    """Fold cliques first .. last-1 from the scans chosen for them, into int64 results that start at zero if fresh.

    `scans` and `cliques` are attributes (padded), lengths, cells and offsets into counters and results.
    """
    outer, outer_lengths, outer_cells, outer_offsets = scans
    inner, inner_lengths, inner_cells, inner_offsets = cliques
    for k in range(first, last):
        s = chosen[k]
        source = counters[outer_offsets[s] : outer_offsets[s] + outer_cells[s]]
        target = results[inner_offsets[k] : inner_offsets[k] + inner_cells[k]]
        if fresh and inner_lengths[k] == outer_lengths[s]:
            for i in range(target.shape[0]):
                target[i] = source[i]
            continue
        if fresh:
            target[:] = 0
        fold(source, sizes, outer[s], outer_lengths[s], inner[k], inner_lengths[k], target)


@njit(nogil=True, cache=True)
def nanoseconds(cells, rows, costs):  # type: ignore[no-untyped-def]
    """Predicted time of one scan; a row takes longer once the counters leave the cache."""
    scan_cost, miss_cost, near, cell_cost = costs
    misses = max(0.0, math.log2(cells / near))
    return rows * (scan_cost + miss_cost * misses) + cell_cost * cells


@njit(nogil=True, cache=True)
def merge(cliques, lengths, cells, sizes, rows, window, largest, spare, costs):  # type: ignore[no-untyped-def]
    """Put each clique, largest first, into the scan where it adds least predicted time, or into a new one.

    Returns the attribute sets of the scans as a boolean matrix and the scan of each clique. O(cliques x window).
    A scan may grow to `largest` cells, and all growth together to `spare` cells.
    """
    cell_cost = costs[3]
    count, attributes = lengths.shape[0], sizes.shape[0]
    member = np.zeros((count, attributes), np.bool_)
    scan_cells = np.zeros(count)
    folds = np.zeros(count)
    chosen = np.zeros(count, np.int64)
    scans = 0
    for k in range(count):
        # The best of a new scan and the latest scans.
        cost = nanoseconds(cells[k], rows, costs)
        best = -1
        grown = 0.0
        for s in range(scans - 1, max(-1, scans - 1 - window), -1):
            union = scan_cells[s]
            for d in range(lengths[k]):
                if not member[s, cliques[k, d]]:
                    union *= sizes[cliques[k, d]]
            if union > scan_cells[s] and (union > largest or union - scan_cells[s] > spare):
                continue
            added = cell_cost * union
            if union > scan_cells[s]:
                added += nanoseconds(union, rows, costs)
                added -= nanoseconds(scan_cells[s], rows, costs)
                added += cell_cost * (union - scan_cells[s]) * folds[s]
            if added < cost:
                cost, best, grown = added, s, union
        # Put the clique there.
        if best < 0:
            best, grown = scans, cells[k]
            scans += 1
        elif grown > scan_cells[best]:
            spare -= grown - scan_cells[best]
        for d in range(lengths[k]):
            member[best, cliques[k, d]] = True
        scan_cells[best] = grown
        folds[best] += 1
        chosen[k] = best
    return member[:scans], chosen
