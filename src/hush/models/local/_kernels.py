"""Compiled loops of row descent: give each row, one attribute at a time, the level that brings the tables nearest.

A table is kept once for each of its attributes, with this attribute as the last axis, so that the levels a row may take
are neighbours in memory. A membership is an attribute of a table, and so also names a copy of the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.core.compiled import njit


@njit(cache=True, nogil=True)
def move_rows(
    codes: Any,  # (rows, attributes) int32: in and out
    order: Any,  # (visited,) int64: the rows to visit, in this order
    sizes: Any,  # (attributes,) int64: the number of levels
    excess: Any,  # (cells of all copies,) float64: in and out, rows in a cell beyond its target
    starts: Any,  # (memberships,) int64: where the cells of each copy begin
    counted: Any,  # (tables,) bool: whether the table has targets; the excess of others is infinite where forbidden
    members: Any,  # (memberships,) int64: the attributes of each table, table after table
    strides: Any,  # (memberships, attributes of a table) int64: of each copy, how far apart neighbouring levels are
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
    for row in order:
        for a in range(codes.shape[1]):
            # Add up the excess that the row would meet at every level.
            met[: sizes[a]] = 0.0
            least_fall = 0.0
            for h in range(holder_first[a], holder_first[a + 1]):
                here = holders[h]
                begin = first[tables[here]]
                cell = starts[here]
                for m in range(begin, first[tables[here] + 1]):
                    if m != here:
                        cell += strides[here, m - begin] * codes[row, members[m]]
                least_fall += counted[tables[here]]
                levels = excess[cell : cell + sizes[a]]
                for level in range(sizes[a]):
                    met[level] += levels[level]
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
                if not counted[tables[here]]:
                    continue
                begin = first[tables[here]]
                for copy in range(begin, first[tables[here] + 1]):
                    cell = starts[copy]
                    for m in range(begin, first[tables[here] + 1]):
                        cell += strides[copy, m - begin] * codes[row, members[m]]
                    excess[cell] -= 1.0
                    excess[cell + strides[copy, here - begin] * (best - before)] += 1.0
            codes[row, a] = best
            changes += 1
    return changes


@njit(cache=True, nogil=True)
def excess_of_rows(codes: Any, excess: Any, starts: Any, counted: Any, members: Any, strides: Any, first: Any) -> Any:
    """The excess in the cells of each row, added up over all tables with targets. The arguments are as above."""
    met = np.zeros(codes.shape[0])
    for row in range(codes.shape[0]):
        for table in range(len(counted)):
            begin = first[table]
            if counted[table] and begin < first[table + 1]:
                cell = starts[begin]
                for m in range(begin, first[table + 1]):
                    cell += strides[begin, m - begin] * codes[row, members[m]]
                met[row] += excess[cell]
    return met
