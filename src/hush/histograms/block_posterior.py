"""Counts of blocks given noisy counts of nested blocks, for maps that are empty here, even there and rough elsewhere.

Most maps of people are like that. Least squares cannot use this fact; a prior can. Where the noisy counts contradict
the prior, least squares are taken instead.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from hush.core.arrays import Floats
from hush.histograms._posterior_kernels import least_squares, tree_posterior
from hush.histograms.axis_grid import AxisForm
from hush.histograms.block_fit import BlockFit

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


class _Nodes(NamedTuple):
    """All nodes of a tree: noisy counts by levels of other attributes, their variances, and cells.

    Variance 0 is not measured. Nodes below the smallest blocks have no cells.
    """

    y: Floats
    variance: Floats
    area: Floats

    @classmethod
    def of(cls, fit: BlockFit) -> _Nodes:
        tree, area = fit.tree, fit.tree.areas(fit.grids)
        within = np.zeros(area.size, dtype=bool)  # one of the smallest blocks, or a part of one
        within[fit.cut.nodes] = True
        for level in range(1, tree.depth + 1):
            nodes = np.arange(1 << level, 2 << level)
            within[nodes] |= within[nodes >> 1]
        within[fit.cut.nodes] = False
        area[within] = 0
        # A block that was measured twice has the mean of its counts, by their precisions.
        precision, weighted = np.zeros(area.size), np.zeros((area.size, fit.blocks.shape[1]))
        for table in fit.tables:
            precision[table.cut.nodes] += 1 / table.variance
            weighted[table.cut.nodes] += table.values / table.variance
        variance = np.divide(1.0, precision, out=np.zeros(area.size), where=precision > 0)
        return cls(weighted * variance[:, None], variance, area)


def posterior_counts(fit: BlockFit) -> Floats:
    """The posterior means of the counts of all nodes of the tree, by levels of other attributes; see `_posterior`."""
    return _posterior(_Nodes.of(fit))


def _posterior(nodes: _Nodes) -> Floats:
    """The means of the counts of all nodes under a prior over trees, by levels of other attributes.

    A block is even, with rows in proportion to cells; or one half is empty, and the other holds all rows; or its halves
    share the rows by a symmetric beta law. The halves are blocks again. Noise is taken as normal. Likelihoods pass from
    the smallest blocks up and come down as means, which are then made to add up: the difference between a block and its
    halves goes to the halves in proportion to their variances.

    Reference: belief propagation on a tree [Pearl 1988, sec. 4.2]; a prior that extends Polya trees [Wong and Ma 2010,
    sec. 2].
    """
    out = np.empty_like(nodes.y)
    for column in range(out.shape[1]):
        y, (means, spreads) = np.ascontiguousarray(nodes.y[:, column]), np.zeros((2, len(out)))
        split = _split_density()
        tree_posterior(y, nodes.variance, nodes.area, FLAT, EMPTY, split, COUNTS_PER_NODE, means, spreads)
        out[:, column] = _adding_up(means, spreads)
    return out


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


def settled_blocks(fit: BlockFit, queries: str) -> Floats:
    """The posterior, corrected by least squares where the two differ by more than noise.

    With D their difference and N the expected |W D|^2 of noise alone, least squares are taken where |W D|^2 > 2 N: the
    posterior then has the larger error. Else D is taken apart by the levels of the tree. In least squares a block of x
    rows gives its first half the share s x and a detail; details of all blocks are independent, with known variances.
    A level's details have a part that is common to all, and the rest. Let E be the energy of a part and V that of
    noise. If noise alone would reach E less than once in a hundred times, the share 1 - V / E of the part is added: the
    estimator of James and Stein.
    """
    nodes = _Nodes.of(fit)
    posterior = _posterior(nodes)
    out = posterior[fit.cut.nodes]
    forms = [AxisForm(grid, queries) for grid in fit.grids]
    noise = fit.noise(forms)
    rest = fit.blocks - out
    weighted = whole = fit.over_buckets(rest)
    for axis, form in enumerate(forms):
        weighted = np.moveaxis(form.apply(np.moveaxis(weighted, axis, -1)), -1, axis)
    differs = (whole * weighted).reshape(-1, out.shape[1]).sum(axis=0)
    for column in range(out.shape[1]):
        kept = rest[:, column]
        if differs[column] <= 2 * noise:
            kept = _kept(nodes, nodes.y[:, column], posterior[:, column])[fit.cut.nodes]
        out[:, column] += kept
    return out


def _kept(nodes: _Nodes, y: Floats, posterior: Floats) -> Floats:
    """What every level adds of the difference of least squares from the posterior, as counts of all nodes."""
    means, spreads, loose = np.zeros((3, y.size))
    least_squares(np.ascontiguousarray(y), nodes.variance, nodes.area, means, spreads, loose)
    rest, kept = means - posterior, np.zeros(y.size)
    kept[1] = _shrunk(rest[1:2], spreads[1:2])[0]
    first = 1
    while 2 * first < y.size:
        parents, halves = slice(first, 2 * first), slice(2 * first, 4 * first)
        a, b = loose[halves].reshape(-1, 2).T
        both = (nodes.area[halves].reshape(-1, 2) > 0).all(axis=1)
        share = np.divide(a, a + b, out=(nodes.area[halves].reshape(-1, 2)[:, 0] > 0).astype(float), where=both)
        details = np.zeros(first)
        details[both] = _shrunk((rest[halves][::2] - share * rest[parents])[both], (share * b)[both])
        kept[halves] = np.stack([share * kept[parents] + details, (1 - share) * kept[parents] - details], 1).ravel()
        first *= 2
    return kept


def _shrunk(details: Floats, variances: Floats) -> Floats:
    """The details of a level, or the share of them that is not noise: of what is common to all, then of the rest.

    On a slope, all details of a level have the same sign, each of them well within its noise.
    """
    from scipy.special import chdtri

    if not details.size:
        return details
    common = np.full(details.size, (details / variances).sum() / (1 / variances).sum())
    kept, freedom = np.zeros(details.size), 1
    for part in (common, details - common):
        energy = float((part**2 / variances).sum())
        if freedom and energy > chdtri(freedom, FALSE_BAND_CHANCE):
            kept += part * max(0.0, 1 - freedom / energy)
        freedom = details.size - 1
    return kept
