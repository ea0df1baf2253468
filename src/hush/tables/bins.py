"""The bin of a number, as SQL: how many inner edges lie at or below it, exactly.

Three ways, each the fastest where it is used: a guess that is put right where bins have equal width, O(1) per row; a
tree of comparisons for few bins, which costs O(bins) in DuckDB; bisection for many, O(log bins).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hush.tables.physical import double

LARGEST_TREE = 24
Edges = tuple[float, ...]
Step = Callable[[int], str]  # the name that the query gives to a step


def locate(edges: Edges, p: str, step: Step) -> tuple[tuple[str, ...], str, str | None]:
    """Steps that may each name the one before, the bin of p within the bounds, and a test for being within them.

    The test is None where it has to be spelled out.
    """
    scale = equal_width_scale(edges)
    if scale is not None:
        return _guess(edges, scale, p, step)
    if len(edges) - 1 <= LARGEST_TREE:
        return (), _tree(edges, p, 0, len(edges) - 1), None
    return _bisection(edges, p, step)


def equal_width_scale(edges: Edges) -> float | None:
    """A factor s for which floor((x - e_0) s) is the bin of each x or the one before; None where there is none.

    s is a little below 1 / width. The guess is monotone in x (each of its operations is, also in floating point), so
    it is enough to look at the first and the last number of every bin.
    """
    bins = len(edges) - 1
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        scale = float(bins / (np.float64(edges[-1]) - np.float64(edges[0])) * (1 - 2.0**-40))
        if not (math.isfinite(scale) and scale > 0):
            return None
        first = np.array(edges[:-1])
        final = np.append(np.nextafter(edges[1:-1], -np.inf), edges[-1])
        low = np.floor((first - edges[0]) * scale)
        high = np.floor((final - edges[0]) * scale)
    position = np.arange(bins)
    return scale if bool(np.all(low >= np.maximum(position - 1, 0)) and np.all(high <= position)) else None


def _guess(edges: Edges, scale: float, p: str, step: Step) -> tuple[tuple[str, ...], str, str]:
    g = step(0)
    guess = f"CAST(floor(({p} - {double(edges[0])}) * {double(scale)}) AS INTEGER)"
    within = f"{p} BETWEEN {double(edges[0])} AND {double(edges[-1])}"
    following = ", ".join([*map(double, edges[1:-1]), double(math.inf)])  # the last bin is closed
    place = f"{g} + CAST({p} >= [{following}][{g} + 1] AS INTEGER)"
    return (f"CASE WHEN {within} THEN {guess} END",), place, f"{g} IS NOT NULL"


def _tree(edges: Edges, p: str, low: int, high: int) -> str:
    if high - low == 1:
        return str(low)
    middle = (low + high) // 2
    left, right = _tree(edges, p, low, middle), _tree(edges, p, middle, high)
    return f"CASE WHEN {p} < {double(edges[middle])} THEN {left} ELSE {right} END"


def _bisection(edges: Edges, p: str, step: Step) -> tuple[tuple[str, ...], str, None]:
    """g_0 = 0, g_{k+1} = 2 g_k + [p >= e_{(2 g_k + 1) s}] with s halved at each step, down to 1."""
    bins = len(edges) - 1
    whole = 1 << (bins - 1).bit_length()
    steps: list[str] = []
    stride = whole // 2
    while stride:
        before = step(len(steps) - 1) if steps else "0"
        places = range(stride, whole, 2 * stride)
        listed = ", ".join(double(edges[place] if place < bins else math.inf) for place in places)
        steps.append(f"2 * {before} + CAST({p} >= [{listed}][{before} + 1] AS INTEGER)")
        stride //= 2
    return tuple(steps), step(len(steps) - 1), None
