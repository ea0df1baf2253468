"""Hats: sums of buckets weighted by hat functions, the piecewise-linear basis.

`HatQuery` measures them, `design_hats` chooses which to measure in addition to the counts of buckets, and `HatFit`
combines both by least squares.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hush.core.arrays import Floats, Integers, Numbers
from hush.core.domain import Clique
from hush.histograms.axis_grid import AxisForm, AxisGrid, added
from hush.privacy.gate import Counts
from hush.privacy.measurement import Measurement
from hush.privacy.sensitivity import ONE_CELL, RowNorms
from hush.strategies.strategy import NoiseKind

HAT_UNIT = 64  # the weights of a bucket in all hats of an axis add up to this
BUCKETS_AT_ONCE = 1 << 16  # an axis may have millions of buckets, whose hats are never all held


@dataclass(frozen=True)
class Hats:
    """`count` triangles over k buckets, each as wide as two of them are apart; whole weights that add up to `HAT_UNIT`.

    >>> Hats(2, 4).spread(np.eye(2, dtype=np.int64), 1).tolist()
    [[64, 48, 16, 0], [0, 16, 48, 64]]
    """

    count: int
    buckets: int

    def _parts(self) -> Iterator[tuple[slice, list[tuple[Integers, Integers]]]]:
        """Some buckets at a time, with the hat to their left and the one to their right, and the weights in both."""
        for start in range(0, self.buckets, BUCKETS_AT_ONCE):
            part = slice(start, min(start + BUCKETS_AT_ONCE, self.buckets))
            middle = (np.arange(part.start, part.stop) + 0.5) * self.count / self.buckets - 0.5
            place = np.clip(middle, 0, self.count - 1)
            left = np.minimum(place.astype(np.int64), max(self.count - 2, 0))
            weight = np.rint(HAT_UNIT * (place - left)).astype(np.int64)
            yield part, [(left, HAT_UNIT - weight), (np.minimum(left + 1, self.count - 1), weight)]

    def sums(self, table: Numbers, axis: int) -> Numbers:
        """Weighted sums of an axis of buckets, one for each hat: W x."""
        over = np.moveaxis(table, axis, -1)
        out = np.zeros((*over.shape[:-1], self.count), dtype=over.dtype)
        for part, sides in self._parts():
            for hats, weights in sides:
                present, starts = np.unique(hats, return_index=True)  # hats are in order
                out[..., present] += np.add.reduceat(over[..., part] * weights, starts, axis=-1)
        return np.moveaxis(out, -1, axis)

    def spread(self, values: Numbers, axis: int) -> Numbers:
        """Weighted sums of an axis of hats, one for each bucket: W^T y."""
        over = np.moveaxis(values, axis, -1)
        out = np.empty((*over.shape[:-1], self.buckets), dtype=over.dtype)
        for part, sides in self._parts():
            out[..., part] = sum(over[..., hats] * weights for hats, weights in sides)
        return np.moveaxis(out, -1, axis)

    def overlaps(self, other: Hats) -> Floats:
        """Sums over the buckets of products of weights in two sets of hats: W V^T."""
        out = np.zeros(self.count * other.count)
        for (_, sides), (_, others) in zip(self._parts(), other._parts(), strict=True):
            for (hats, weights), (columns, factors) in itertools.product(sides, others):
                out += np.bincount(hats * other.count + columns, weights=weights * factors, minlength=len(out))
        return out.reshape(self.count, other.count)

    @property
    def largest_square(self) -> int:
        """The largest sum of squared weights of a bucket."""
        return max(int(np.sum([weights**2 for _, weights in sides], axis=0).max()) for _, sides in self._parts())


@dataclass(frozen=True, eq=False)
class HatQuery:
    """Counts of buckets on the leading axes of a clique, by the levels of its other attributes.

    With `hats`, sums of these counts weighted by hats on every gridded axis.

    Privacy: a row is in one bucket. It adds one to one count, or `HAT_UNIT`^d in all to the sums of d axes of hats.
    Weights are never negative, so two rows differ by at most twice that, and twice the largest sum of squares.
    """

    clique: Clique
    grids: tuple[AxisGrid, ...]
    hats: tuple[int, ...] = ()

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    @cached_property
    def shapes(self) -> tuple[Hats, ...]:
        """The hats of every gridded axis; none for counts of buckets."""
        return tuple(Hats(count, grid.buckets) for count, grid in zip(self.hats, self.grids, strict=bool(self.hats)))

    @property
    def scale(self) -> int:
        """What the answers are to be divided by."""
        return int(HAT_UNIT ** len(self.hats))

    @property
    def largest_factor(self) -> int:
        """The most that one row adds to an answer."""
        return self.scale

    @property
    def row_norms(self) -> RowNorms:
        if not self.hats:
            return ONE_CELL
        l1, l2_squared = Fraction(self.scale), Fraction(math.prod(hat.largest_square for hat in self.shapes))
        return RowNorms(l1, l2_squared, 2 * l1, 2 * l2_squared)

    def answer(self, counts: Counts) -> Integers:
        table = added(counts[self.clique], self.grids)
        for axis, hat in enumerate(self.shapes):
            table = hat.sums(table, axis)
        return np.ascontiguousarray(table, dtype=np.int64)

    def shape(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the answers, from that of the table."""
        leading = self.hats or tuple(grid.buckets for grid in self.grids)
        return (*leading, *sizes[len(self.grids) :])


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
        hats = Hats(count, even[axis].buckets).spread(np.eye(count), 1) / HAT_UNIT
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


def _spread(hats: Sequence[Hats], values: Floats) -> Floats:
    """Values of hats over buckets, along all axes, in shares of buckets."""
    part = values / HAT_UNIT ** len(hats)
    for axis, hat in enumerate(hats):
        part = hat.spread(part, axis)
    return np.asarray(part)


LARGEST_WORK = 1 << 27  # numbers held while variances of many sums are computed


class HatFit:
    """Least squares over buckets: x minimises sum_l p_l |H_l x - y_l|^2, p_l = 1 / variance, H_0 = I.

    With theta_l = sqrt(p_l / p_0) H_l and R = (I + theta theta^T)^{-1}, x = z - theta^T R theta z for
    z = y_0 + sum_l (p_l / p_0) H_l^T y_l, and the covariance of x is (I - theta^T R theta) / p_0.
    """

    def __init__(self, measured: Sequence[Measurement], levels: tuple[int, ...]) -> None:
        queries: list[HatQuery] = [table.asked for table in measured]  # type: ignore[misc]
        self.grids = queries[0].grids
        self._levels = levels  # of other attributes
        values = [table.raw / query.scale for table, query in zip(measured, queries, strict=True)]
        variances = [(table.law.stddev / query.scale) ** 2 for table, query in zip(measured, queries, strict=True)]
        self.variance = max(variances[0], 1e-12)
        self._hats = [query.shapes for query in queries[1:]]
        self._ratios = [self.variance / max(variance, 1e-12) for variance in variances[1:]]
        blocks = []
        for first, p in zip(self._hats, self._ratios, strict=True):
            row = []
            for second, q in zip(self._hats, self._ratios, strict=True):
                block: Floats = np.ones((1, 1))
                for left, right in zip(first, second, strict=True):
                    block = np.asarray(np.kron(block, left.overlaps(right)) / HAT_UNIT**2)
                row.append(math.sqrt(p * q) * block)
            blocks.append(row)
        self._core = np.linalg.inv(np.eye(sum(len(row[0]) for row in blocks)) + np.block(blocks)) if blocks else None
        z: Floats = values[0]  # an array of its own, since the division made it
        for hats, ratio, y in zip(self._hats, self._ratios, values[1:], strict=True):
            z += _spread(hats, y * ratio)
        if blocks:
            z -= self.back(self.theta(z))
        self.buckets = z

    def theta(self, x: Floats) -> Floats:
        """theta x over the leading axes, as rows by everything else."""
        d, parts = len(self.grids), []
        for hats, ratio in zip(self._hats, self._ratios, strict=True):
            part = x
            for axis, hat in enumerate(hats):
                part = hat.sums(part, axis)
            parts.append(math.sqrt(ratio) / HAT_UNIT**d * part.reshape(math.prod(part.shape[:d]), -1))
        return np.concatenate(parts)

    def back(self, rows: Floats) -> Floats:
        """theta^T R applied to rows of `theta`."""
        shape = tuple(grid.buckets for grid in self.grids)
        rows = rows if self._core is None else self._core @ rows
        total = np.zeros((*shape, rows.shape[1]))
        start = 0
        for hats, ratio in zip(self._hats, self._ratios, strict=True):
            counts = [hat.count for hat in hats]
            part = rows[start : start + math.prod(counts)].reshape(*counts, -1)
            start += math.prod(counts)
            total += _spread(hats, math.sqrt(ratio) * part)
        return total.reshape(*shape, *self._levels)

    @property
    def rows(self) -> int:
        """The rows of theta, and one."""
        return 1 if self._core is None else 1 + len(self._core)

    def products(self, first: list[Floats], second: list[Floats]) -> Floats:
        """Covariances of sums whose coefficients are products over the axes: rows f_a of coefficients on axis a.

        Every combination of rows, one for each axis.
        """
        total: Floats = np.ones(())
        for f, s in zip(first, second, strict=True):
            total = np.multiply.outer(total, np.einsum("qk,qk->q", f, s))
        if self._core is None:
            return np.asarray(total * self.variance)
        left, right = self._crossed(first), self._crossed(second)
        gained = np.einsum("qp,qp->q", left @ self._core, right)
        return np.asarray((total - gained.reshape(total.shape)) * self.variance)

    def _crossed(self, rows: list[Floats]) -> Floats:
        """theta f of every combination of rows, (combinations, rows of theta)."""
        parts = []
        for hats, ratio in zip(self._hats, self._ratios, strict=True):
            part = np.ones((1, 1))
            for axis, hat in enumerate(hats):
                own = hat.sums(rows[axis], 1) / HAT_UNIT
                part = np.einsum("ap,bq->abpq", part, own).reshape(len(part) * len(own), -1)
            parts.append(math.sqrt(ratio) * part)
        return np.concatenate(parts, axis=1)

    def bucket_variances(self) -> Floats:
        """The variance of the count of every bucket."""
        variances = np.empty([grid.buckets for grid in self.grids])
        others = [np.eye(grid.buckets) for grid in self.grids[1:]]
        step = max(1, LARGEST_WORK // (8 * math.prod(grid.buckets for grid in self.grids[1:]) * self.rows))
        for start in range(0, self.grids[0].buckets, step):
            count = min(step, self.grids[0].buckets - start)
            rows = [np.eye(count, self.grids[0].buckets, start), *others]
            variances[start : start + count] = self.products(rows, rows)
        return variances

    def sums(self, first: Floats, second: Floats) -> Floats:
        """Covariances of sums with coefficients over buckets: `first[..., q]` are those of sum q."""
        flat = (-1, first.shape[-1])
        total = np.einsum("kq,kq->q", first.reshape(flat), second.reshape(flat))
        if self._core is not None:
            total = total - np.einsum("pq,pr,rq->q", self.theta(first), self._core, self.theta(second), optimize=True)
        return np.asarray(total * self.variance)
