"""Draft bins: bins with round edges for the numbers of a column, narrow where rows are many.

Bins of equal width serve most columns. Where one of them would hold a good part of the rows, as in a column with a long
tail, crowded bins are cut into narrower ones, and bins with few rows are joined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from itertools import pairwise

BINS = 32
FEWEST_ROWS = 100  # that bins can follow
CROWDED = 0.25  # share of the rows in one bin of equal width from which bins follow the rows
SHARE, SMALLEST_SHARE = 1 / 24, 1 / 1000  # of the rows in a bin: where it is full, and where a wide one may end
WIDENING = 2  # times the width of the bin before, where a bin with few rows ends
TURNS = 8
CountBelow = Callable[[Sequence[float]], Sequence[int]]  # how many rows hold a number below each of some


def round_bins(low: float, high: float, *, least: float = 0.0) -> tuple[float, float, int]:
    """Bounds around two numbers, and a number of bins whose width is 1, 2 or 5 times a power of ten, at least `least`.

    >>> round_bins(0.13, 97.2), round_bins(0, 99999), round_bins(1234.0, 1234.0)
    ((0.0, 100.0, 20), (0.0, 100000.0, 20), (1234.0, 1235.0, 1))
    """
    grid = _grid(low, high, least)
    if grid is None:
        top = math.nextafter(low, math.inf) if abs(low) > 2**52 else low + 1
        return (low, top, 1) if low == high else (low, high, BINS)
    step, first, last = grid
    with localcontext(prec=800):
        return float(first * step), float(last * step), last - first


def crowded_edges(low: float, high: float, below: CountBelow, *, least: float = 0.0) -> tuple[float, ...]:
    """Edges of bins that follow the rows, no narrower than `least`; empty where bins of equal width serve.

    Privacy: the edges depend on exact counts, as all of a draft does.
    """
    grid = _grid(low, high, least)
    if grid is None:
        return ()
    with localcontext(prec=800):
        step, first, last = grid
        width = {Decimal(k) * step: step for k in range(first, last)}  # of each bin, by its lower edge
        top = Decimal(last) * step
        counts = _counted([*width, top], below)
        rows = sum(counts)
        if rows < FEWEST_ROWS or max(counts) < CROWDED * rows:
            return ()
        for _ in range(TURNS):
            crowded = [edge for edge, held in zip(sorted(width), counts, strict=True) if held > SHARE * rows]
            cuts = {edge: _narrower(width[edge]) for edge in crowded}
            cuts = {edge: narrow for edge, narrow in cuts.items() if narrow >= Decimal(repr(least))}
            if not cuts:
                break
            for edge, narrow in cuts.items():
                parts = int(width[edge] / narrow)
                width |= {edge + narrow * part: narrow for part in range(parts)}
            counts = _counted([*sorted(width), top], below)
        return _joined([*sorted(width), top], counts, rows)


def _grid(low: float, high: float, least: float) -> tuple[Decimal, int, int] | None:
    """A round step, and the multiples of it that bound two numbers; None where there is none."""
    span = high - low
    if not math.isfinite(span) or span < 1e-300:
        return None
    with localcontext(prec=800):  # enough for any float to be exact
        power = Decimal(10) ** (math.floor(math.log10(span)) - 2)
        for step in (power * factor for factor in (1, 2, 5, 10, 20, 50, 100, 200)):
            first = (Decimal(low) / step).to_integral_value(ROUND_FLOOR)
            last = (Decimal(high) / step).to_integral_value(ROUND_CEILING)
            if last - first <= BINS and step >= Decimal(repr(least)):
                break
        return step, int(first), int(last)


def _narrower(width: Decimal) -> Decimal:
    """A quarter or a fifth of a round width, which is round too: 5 -> 1, 2 -> 0.5, 1 -> 0.2."""
    return width / 4 if width.normalize().as_tuple().digits == (2,) else width / 5


def _counted(edges: Sequence[Decimal], below: CountBelow) -> list[int]:
    """The rows in each bin; the last one is closed."""
    totals = below([*map(float, edges[:-1]), math.inf])
    return [after - before for before, after in pairwise(totals)]


def _joined(edges: Sequence[Decimal], counts: Sequence[int], rows: int) -> tuple[float, ...]:
    """The edges at which a bin is full, or wide enough."""
    kept, held = [edges[0]], 0
    for edge, count in zip(edges[1:-1], counts, strict=False):
        held += count
        wide = len(kept) > 1 and edge - kept[-1] >= WIDENING * (kept[-1] - kept[-2])
        if held >= SHARE * rows or (wide and held >= SMALLEST_SHARE * rows):
            kept.append(edge)
            held = 0
    return tuple(map(float, (*kept, edges[-1])))
