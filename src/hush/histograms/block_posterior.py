"""Counts of buckets given noisy counts of nested blocks, for maps that are empty here, even there and rough elsewhere.

Most maps of people are like that. Least squares cannot use it; a prior can. Where the prior does not fit the map, the
noisy counts contradict it, and least squares are taken there instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Self

import numpy as np

from hush.core.arrays import Floats
from hush.histograms._posterior_kernels import tree_posterior
from hush.histograms.axis_grid import AxisForm, AxisGrid
from hush.histograms.block_tree import BlockFit, BlockTree
from hush.privacy.measurement import Measurement

FLAT, EMPTY, SPLIT = 0.25, 0.25, 0.5  # prior of a block: even, one half empty, or neither
BETA_CONCENTRATIONS = (1, 8, 64)  # of the symmetric beta laws of the first half's share, one third each
SHARE_STEPS = 128  # at which the density of that share is tabulated
COUNTS_PER_NODE = 32  # at which the likelihood of every node is tabulated
FALSE_BAND_CHANCE = 0.01  # the chance that noise alone moves a band away from the posterior


@lru_cache(maxsize=1)
def _split_density() -> Floats:
    """SPLIT times the density of the share of the first half, in steps."""
    from scipy.special import betainc

    edges = np.linspace(0, 1, SHARE_STEPS + 1)
    laws = [np.diff(betainc(a, a, edges)) * SHARE_STEPS for a in BETA_CONCENTRATIONS]
    return np.asarray(SPLIT * np.mean(laws, axis=0))


def posterior_buckets(measured: Sequence[Measurement], grids: Sequence[AxisGrid]) -> Floats:
    """The means of the counts of buckets under a prior over trees, given tables of blocks, the buckets first.

    A block is even, with rows in proportion to cells; or one half is empty, and the other holds all rows; or its halves
    share the rows by a symmetric beta law. The halves are blocks again. Noise is taken as normal. Likelihoods pass from
    the buckets up and come down as means, which are then made to add up: the difference between a block and its halves
    goes to the halves in proportion to their variances.

    Reference: belief propagation on a tree [Pearl 1988, sec. 4.2]; a prior that extends Polya trees [Wong and Ma 2010,
    sec. 2].
    """
    tree = BlockTree(tuple(grid.buckets for grid in grids))
    area = tree.areas(grids)
    places = [tree.places(tree.level_of(tuple(g.buckets for g in each.asked.grids))) for each in measured]  # type: ignore[union-attr]
    others = math.prod(measured[0].raw.shape[len(grids) :])
    out = np.empty((*tree.buckets, others))
    for column in range(others):
        y, variance, means, spreads = np.zeros((4, area.size))
        for table, place in zip(measured, places, strict=True):
            y[place] = table.raw.reshape(*place.shape, others)[..., column]
            variance[place] = max(table.law.stddev**2, 1e-12)
        tree_posterior(y, variance, area, FLAT, EMPTY, _split_density(), COUNTS_PER_NODE, means, spreads)
        out[..., column] = _adding_up(means, spreads)[tree.places(tree.depth)]
    return out.reshape(*tree.buckets, *measured[0].raw.shape[len(grids) :])


def _adding_up(means: Floats, spreads: Floats) -> Floats:
    """Means of all nodes whose halves add up to them, from the top down; never negative."""
    first = 1
    while 2 * first < means.size:
        parents, halves = means[first : 2 * first], means[2 * first : 4 * first].reshape(-1, 2)
        weights = spreads[2 * first : 4 * first].reshape(-1, 2)
        whole = weights.sum(axis=1, keepdims=True)
        shares = np.divide(weights, whole, out=np.full_like(weights, 0.5), where=whole > 0)
        moved = halves + shares * (parents - halves.sum(axis=1))[:, None]
        lacking = np.minimum(moved, 0.0)
        means[2 * first : 4 * first] = (np.maximum(moved, 0.0) + lacking[:, ::-1]).ravel()
        first *= 2
    return means


def settled_buckets(measured: Sequence[Measurement], fit: BlockFit, queries: str) -> Floats:
    """The posterior, corrected by least squares where the two differ by more than noise.

    With D their difference and N the expected |W D|^2 of noise alone, least squares are taken where |W D|^2 > 2 N: the
    posterior then has the larger error. Else D is split into bands of Haar wavelets, one for each pair of scales.
    Let E be the energy of a band and V that of noise. If noise alone would reach E less than once in a hundred times,
    the band adds the share 1 - V / E of itself: the estimator of James and Stein. Wavelets are eigenvectors of the
    covariance of least squares on full blocks: their variance is 1 / sum p_t r_t over the levels t whose blocks, of r_t
    buckets, they do not cut.
    """
    posterior = posterior_buckets(measured, fit.grids)
    shape = posterior.shape[: len(fit.grids)]
    out, flat = np.empty_like(posterior).reshape(*shape, -1), fit.buckets.reshape(*shape, -1)
    bands = _Bands.of(measured, fit.grids)
    forms = [AxisForm(grid, queries) for grid in fit.grids]
    noise = bands.noise(forms)
    for column, means in enumerate(np.moveaxis(posterior.reshape(*shape, -1), -1, 0)):
        rest = flat[..., column] - means
        weighted = rest
        for axis, form in enumerate(forms):
            weighted = np.moveaxis(form.apply(np.moveaxis(weighted, axis, -1)), -1, axis)
        differs = float((rest * weighted).sum())
        out[..., column] = flat[..., column] if differs > 2 * noise else means + bands.kept(rest)
    return out.reshape(posterior.shape)


def blocks_noise(grids: Sequence[AxisGrid], variances: Mapping[int, float], queries: str) -> float:
    """The sum over all queries of the variance of least squares, from the variances of counts at levels of the tree."""
    tree = BlockTree(tuple(grid.buckets for grid in grids))
    return _Bands(tree, variances).noise([AxisForm(grid, queries) for grid in grids])


class _Bands:
    """Haar wavelets of all pairs of scales over the buckets, and the noise of least squares in each."""

    def __init__(self, tree: BlockTree, variances: Mapping[int, float]) -> None:
        """Bands over the buckets of a tree, with the variances of the counts at the levels that are measured."""
        self._shape, self._bits = tree.buckets, tree.bits
        levels = [(tree.runs(level), math.prod(tree.runs(level)) / variance) for level, variance in variances.items()]
        self.variances = np.empty([bits + 1 for bits in self._bits])
        for scales in np.ndindex(*self.variances.shape):
            halves = [1 << (bits - scale) for bits, scale in zip(self._bits, scales, strict=True)]
            uncut = [p for runs, p in levels if all(half >= run for half, run in zip(halves, runs, strict=True))]
            self.variances[scales] = 1 / sum(uncut)

    @classmethod
    def of(cls, measured: Sequence[Measurement], grids: Sequence[AxisGrid]) -> Self:
        tree = BlockTree(tuple(grid.buckets for grid in grids))
        shapes = [tuple(grid.buckets for grid in table.asked.grids) for table in measured]  # type: ignore[union-attr]
        laws = [max(table.law.stddev**2, 1e-12) for table in measured]
        return cls(tree, dict(zip(map(tree.level_of, shapes), laws, strict=True)))

    def _scale(self, axis: int) -> list[slice]:
        """Where the wavelets of every scale are along an axis: the constant, then ever shorter ones."""
        return [slice(0, 1), *(slice(1 << k, 2 << k) for k in range(self._bits[axis]))]

    def noise(self, forms: Sequence[AxisForm]) -> float:
        """The expected form of the noise of least squares.

        Wavelets of one scale do not overlap and each sums to zero, so prefix sums keep them apart: the sum of their
        forms is the form of their sum g, except for the part - a a^T, which takes each wavelet by itself.
        """
        total = self.variances
        for axis, form in enumerate(forms):
            apart = np.zeros(1 << self._bits[axis])
            apart[: self._shape[axis]] = form.taken
            apart, sums = haar(apart, 0), []
            for part in self._scale(axis):
                g = np.zeros(len(apart))
                g[part] = 1.0
                g = unhaar(g, 0)[: self._shape[axis]]
                sums.append(float(g @ form.apply(g) + (g @ form.taken) ** 2 - np.square(apart[part]).sum()))
            total = np.moveaxis(np.tensordot(sums, total, axes=(0, axis))[None], 0, axis)
        return float(total.sum())

    def kept(self, rest: Floats) -> Floats:
        """What every band adds of a difference."""
        from scipy.special import chdtri

        wide = np.zeros([1 << bits for bits in self._bits])
        inside = tuple(slice(0, count) for count in self._shape)
        wide[inside] = rest
        for axis in range(wide.ndim):
            wide = haar(wide, axis)
        filled = math.prod(self._shape) / wide.size
        for scales in np.ndindex(*self.variances.shape):
            band = tuple(self._scale(axis)[scale] for axis, scale in enumerate(scales))
            freedom = wide[band].size * filled
            energy = float(np.square(wide[band]).sum()) / self.variances[scales]
            wide[band] *= max(0.0, 1 - freedom / energy) if energy > chdtri(freedom, FALSE_BAND_CHANCE) else 0.0
        for axis in range(wide.ndim):
            wide = unhaar(wide, axis)
        return wide[inside]


def haar(table: Floats, axis: int) -> Floats:
    """Orthonormal Haar coefficients along an axis of 2^k numbers: the constant first, then ever shorter wavelets.

    >>> haar(np.array([1.0, 3.0]), 0).round(3).tolist()
    [2.828, -1.414]
    """
    table, details = np.moveaxis(table, axis, 0), []
    while len(table) > 1:
        details.append((table[::2] - table[1::2]) * math.sqrt(0.5))
        table = (table[::2] + table[1::2]) * math.sqrt(0.5)
    return np.moveaxis(np.concatenate([table, *details[::-1]]), 0, axis)


def unhaar(coefficients: Floats, axis: int) -> Floats:
    """The inverse of `haar`."""
    rows = np.moveaxis(coefficients, axis, 0)
    table = rows[:1]
    while len(table) < len(rows):
        details = rows[len(table) : 2 * len(table)]
        both = np.stack([table + details, table - details], axis=1) * math.sqrt(0.5)
        table = both.reshape(2 * len(table), *table.shape[1:])
    return np.moveaxis(table, 0, axis)
