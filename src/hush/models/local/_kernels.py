"""Compiled loop of row descent: give each row, one attribute at a time, the level that brings the tables nearest."""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.core.compiled import njit


@njit(cache=True, nogil=True)
def move_rows(
    codes: Any,  # (rows, attributes) int32: in and out
    order: Any,  # (visited,) int64: the rows to visit, in this order
    sizes: Any,  # (attributes,) int64: the number of levels
    excess: Any,  # (cells of all tables,) float64: in and out, rows in a cell beyond its target
    starts: Any,  # (tables,) int64: where the cells of each table begin
    counted: Any,  # (tables,) bool: whether the table has targets; the excess of others is infinite where forbidden
    members: Any,  # (memberships,) int64: the attributes of each table, table after table
    strides: Any,  # (memberships,) int64: how far apart neighbouring levels of that attribute are
    first: Any,  # (tables + 1,) int64: where the memberships of each table begin
    holders: Any,  # (memberships,) int64: the memberships of each attribute, attribute after attribute
    holder_first: Any,  # (attributes + 1,) int64: where those of each attribute begin
    tables: Any,  # (memberships,) int64: the table of each membership
) -> int:
    """The number of changes made. O(visited sum_a n_a t_a), with t_a tables that have attribute a.

    The sum of squares of the excess falls by 2 (excess[x] - excess[v] - 1) in every table if a row leaves level x for
    level v; the row takes the level with the largest fall over all tables, if there is any.
    """
    changes = 0
    met = np.empty(sizes.max())  # by level: the excess in all cells that the row would be in
    cells = np.empty(len(starts), dtype=np.int64)  # of this row in each table, without the attribute at hand
    for row in order:
        for a in range(codes.shape[1]):
            # Add up the excess that the row would meet at every level.
            met[: sizes[a]] = 0.0
            least_fall = 0.0
            for h in range(holder_first[a], holder_first[a + 1]):
                here = holders[h]
                table = tables[here]
                cell = starts[table]
                for m in range(first[table], first[table + 1]):
                    if m != here:
                        cell += strides[m] * codes[row, members[m]]
                cells[table] = cell
                least_fall += counted[table]
                for level in range(sizes[a]):
                    met[level] += excess[cell + strides[here] * level]
            # Move the row to the level of least excess.
            before = codes[row, a]
            best, least = before, met[before] - least_fall
            for level in range(sizes[a]):
                if met[level] < least:
                    best, least = level, met[level]
            if best == before:
                continue
            for h in range(holder_first[a], holder_first[a + 1]):
                here = holders[h]
                if counted[tables[here]]:
                    excess[cells[tables[here]] + strides[here] * before] -= 1.0
                    excess[cells[tables[here]] + strides[here] * best] += 1.0
            codes[row, a] = best
            changes += 1
    return changes
