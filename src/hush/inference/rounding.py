"""Whole tables: non-negative integers near a table, with its leading margins kept; biased post-processing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hush.domain import Clique, Domain
from hush.errors import DataError
from hush.inference.nonnegative import checked_tables

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]


def whole_tables(domain: Domain, tables: Mapping[Clique, Any], *, total: int | None = None) -> dict[Clique, Integers]:
    """Non-negative integers within one of each cell of non-negative tables that agree with one another.

    What agrees afterwards, exactly: every table has the total, and two tables whose cliques, in domain order, begin
    with the same attributes agree on the margin over those. What does not: other shared margins, each of which is
    within its number of added cells of the value before. `total` is the rounded sum of the first table by default.

    >>> from hush.domain import Domain
    >>> whole_tables(Domain({"a": 2, "b": 2}), {("a", "b"): [[0.4, 0.3], [0.2, 2.1]]})[("a", "b")].tolist()
    [[1, 0], [0, 2]]
    """
    checked = checked_tables(domain, tables)
    for clique, table in checked.items():
        if table.min() < 0:
            raise DataError(f"the table over {clique!r} has negative cells; make it non-negative first")
    wanted = round(float(next(iter(checked.values())).sum())) if total is None else total
    for clique, table in checked.items():
        if abs(float(table.sum()) - wanted) >= 1:
            raise DataError(f"the table over {clique!r} does not add up to {wanted}; scale it first")
    return {clique: round_nested(table, wanted) for clique, table in checked.items()}


def round_nested(table: Floats, total: int) -> Integers:
    """Integers within one of each cell, and of each sum over trailing axes, that add up to the total.

    Axis by axis: the integers of the margin over the first j axes are shared out among the levels of the next one by
    largest remainder. A margin is within one of its integer, so that the levels' integer parts leave between none and
    all of the levels one more to be given, and no cell moves by one or more.

    Complexity: O(cells log l).
    """
    whole: Integers = np.array(total, dtype=np.int64)
    for axis in range(table.ndim):
        margin = table.sum(axis=tuple(range(axis + 1, table.ndim)))
        # margins that are equal up to float error must be rounded alike in every table that has them
        margin = np.round(margin, 7)
        low = np.floor(margin)
        spare = margin - low
        left = (whole - low.sum(axis=-1).astype(np.int64))[..., None]
        given = _rank(-spare) < left
        taken = _rank(np.where(low > 0, spare, 2)) < -left  # only where rounding of floats left one too many
        whole = low.astype(np.int64) + given - taken
    return whole


def _rank(values: Floats) -> Integers:
    """The place of each value in ascending order along the last axis, ties by position."""
    order = np.argsort(values, axis=-1, kind="stable")
    return np.argsort(order, axis=-1, kind="stable")
