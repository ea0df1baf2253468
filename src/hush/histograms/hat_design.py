"""Which hats to measure beside the counts of buckets, and how to share the budget: the least predicted error."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hush.core.arrays import Floats
from hush.histograms.axis_grid import AxisForm, AxisGrid
from hush.histograms.hat_query import HAT_UNIT, Hats
from hush.strategies.strategy import NoiseKind

LARGEST_DESIGN = 4096  # buckets of an axis; longer axes take the design of an even grid of so many
# Numbers of hats that are tried: in one level, in two, and along each axis of a map.
ONE_LEVEL = (2, 4, 8, 16)
TWO_LEVELS = ((3, 12), (4, 32), (6, 48), (8, 64), (8, 128), (12, 160))
SQUARE_LEVELS = (3, 4, 6, 8, 12, 16)
HAT_BUDGET_RATIOS = (0.15, 0.25, 0.4, 0.6, 0.8, 1.1, 1.6)  # of the budget of a level of hats to that of the buckets
SHARE_UNITS = 1 << 16  # shares are whole multiples of this fraction of the budget


@dataclass(frozen=True)
class HatDesign:
    """Counts of buckets with the share `shares[0]` of a budget, and levels of hats with the others.

    `error` is the root of the summed variances of all queries, at a budget where the noise of a count has variance 2:
    epsilon = 1, or rho = 1/4. Both kinds of noise so have one unit, the scale of Laplace noise of the same variance.
    """

    levels: tuple[tuple[int, ...], ...]
    shares: tuple[Fraction, ...]
    error: float


def design_hats(grids: Sequence[AxisGrid], queries: str, noise: NoiseKind) -> HatDesign:
    """The design with the least error among levels of hats of several counts and shares.

    With precisions p_0 of the buckets' counts and p_l of level l, theta_l = sqrt(p_l / p_0) H_l and G the form of the
    queries, the summed variance is (tr G - tr (I + theta theta^T)^{-1} theta G theta^T) / p_0: p-Identity with hats in
    place of a search. Everything is a Kronecker product over the axes.

    Reference: [HDMM, sec. 3.2.2, Def. 11] for p-Identity.
    """
    largest = AxisGrid(np.arange(LARGEST_DESIGN + 1))
    even = [grid if grid.buckets <= LARGEST_DESIGN else largest for grid in grids]
    forms = [AxisForm(grid, queries) for grid in even]
    whole = math.prod(form.trace for form in forms)
    plain = (whole / _precision(1.0, 1.0, noise), (), (1.0,))
    parts: dict[tuple[int, int], tuple[Floats, Floats]] = {}  # hats of an axis, and their form
    counts = sorted({count for levels in _candidates(even) for count in levels})
    for (axis, form), count in itertools.product(enumerate(forms), counts):
        hats = Hats(count, even[axis].buckets).matrix().toarray() / HAT_UNIT
        parts[axis, count] = hats, form.apply(hats)
    designs = [_best(levels, parts, len(even), whole, noise) for levels in _candidates(even)]
    loss, levels, ratios = min([plain, *designs], key=lambda design: design[0])
    shares = [Fraction(round(SHARE_UNITS * ratio / sum(ratios)), SHARE_UNITS) for ratio in ratios[1:]]
    shape = tuple((count,) * len(grids) for count in levels)
    scale = math.prod(grid.size / other.size for grid, other in zip(grids, even, strict=True))
    return HatDesign(shape, (1 - sum(shares, Fraction(0)), *shares), math.sqrt(loss * scale))


def _candidates(grids: Sequence[AxisGrid]) -> Iterator[tuple[int, ...]]:
    """Counts of hats per level, the same on every axis, at most half as many as buckets."""
    most = min(grid.buckets for grid in grids) // 2
    listed = [(count,) for count in (ONE_LEVEL if len(grids) == 1 else SQUARE_LEVELS)]
    for levels in [*listed, *(TWO_LEVELS if len(grids) == 1 else ())]:
        if max(levels) <= most:
            yield levels


def _precision(share: float, largest_square: float, noise: NoiseKind) -> float:
    """The inverse variance of answers to queries whose columns have this largest square, at a share of the budget."""
    return (share**2 if noise is NoiseKind.LAPLACE else share / largest_square) / 2


def _best(
    levels: tuple[int, ...],
    parts: dict[tuple[int, int], tuple[Floats, Floats]],
    axes: int,
    whole: float,
    noise: NoiseKind,
) -> tuple[float, tuple[int, ...], tuple[float, ...]]:
    """The least loss over the shares of some levels of hats, by moving one at a time, and the shares."""
    # H_l H_m^T and H_l G H_m^T of all pairs of levels, as Kronecker products over the axes.
    ends = np.cumsum([count**axes for count in levels])
    inner, formed = np.empty((ends[-1], ends[-1])), np.empty((ends[-1], ends[-1]))
    squares = [math.prod(float((parts[axis, c][0] ** 2).sum(axis=0).max()) for axis in range(axes)) for c in levels]
    for (i, first), (j, second) in itertools.product(enumerate(levels), repeat=2):
        block = np.ix_(range(ends[i] - first**axes, ends[i]), range(ends[j] - second**axes, ends[j]))
        left: Floats = np.ones((1, 1))
        right: Floats = np.ones((1, 1))
        for axis in range(axes):
            left = np.asarray(np.kron(left, parts[axis, first][0] @ parts[axis, second][0].T), dtype=np.float64)
            right = np.asarray(np.kron(right, parts[axis, first][0] @ parts[axis, second][1].T), dtype=np.float64)
        inner[block], formed[block] = left, right
    known: dict[tuple[int, ...], float] = {}

    def loss(places: tuple[int, ...]) -> float:
        if places not in known:
            ratios = [HAT_BUDGET_RATIOS[place] for place in places]
            total = 1 + sum(ratios)
            p = _precision(1 / total, 1.0, noise)
            thetas = [math.sqrt(_precision(r / total, s, noise) / p) for r, s in zip(ratios, squares, strict=True)]
            scale = np.repeat(thetas, [count**axes for count in levels])
            core = np.eye(len(inner)) + scale[:, None] * inner * scale
            gained = float(np.trace(np.linalg.solve(core, scale[:, None] * formed * scale)))
            known[places] = (whole - gained) / p
        return known[places]

    # Coordinate descent over the listed ratios.
    best = (len(HAT_BUDGET_RATIOS) // 2,) * len(levels)
    while True:
        moves = [(*best[:i], best[i] + d, *best[i + 1 :]) for i in range(len(best)) for d in (-1, 1)]
        near = min((move for move in moves if min(move) >= 0 and max(move) < len(HAT_BUDGET_RATIOS)), key=loss)
        if loss(near) >= loss(best):
            return loss(best), levels, (1.0, *(HAT_BUDGET_RATIOS[place] for place in best))
        best = near
