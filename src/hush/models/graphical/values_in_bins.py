"""Where in its bin the value of a synthetic row lies, so that the values of every bin have a given mean.

On a bin from 0 to 1 the density is proportional to exp(a x), the least informative one with its mean,

    mean(a) = 1 / (1 - exp(-a)) - 1 / a,    x(u) = log(1 + u (exp(a) - 1)) / a,

uniform for a mean of 1/2. The u of the rows of a bin are one from each of n equal parts of [0, 1), in random order, so
that the mean of n rows is off by less than 1 / n of the bin.

Reference: [Jaynes 1957] for the maximum entropy; systematic sampling for the draws.
"""

from __future__ import annotations

import numpy as np

from hush.core.arrays import Floats, Integers

STEEPEST = 60.0  # a tilt beyond it leaves one level alone
EXTREME = 0.002  # means nearer than this to an end of the bin are drawn from here
TURNS = 60


def tilts(means: Floats) -> Floats:
    """The a for which the density exp(a x) on [0, 1] has each of these means, by bisection.

    >>> tilts(np.array([0.1, 0.9])).round(3).tolist()
    [-9.995, 9.995]
    """
    wanted = np.clip(means, EXTREME, 1 - EXTREME)
    low, high = np.full(wanted.shape, -2 / EXTREME), np.full(wanted.shape, 2 / EXTREME)
    for _ in range(TURNS):
        middle = (low + high) / 2
        below = _mean(middle) < wanted
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)


def shares_in_bins(
    levels: Integers,  # (rows,) the level of every row; levels beyond the last mean are placed anywhere
    means: Floats,  # (levels,) the mean of each level as a share of its width
    generator: np.random.Generator,
) -> Floats:
    """A share of the width for every row, from 0 to below 1.

    Privacy: post-processing; the generator may be seeded.
    """
    rows = len(levels)
    order = np.lexsort((generator.random(rows), levels))
    counts = np.bincount(levels, minlength=len(means))
    means = np.concatenate([means, np.full(len(counts) - len(means), 0.5)])
    rank = np.empty(rows, dtype=np.int64)
    rank[order] = np.arange(rows) - np.repeat(np.cumsum(counts) - counts, counts)
    u = (rank + generator.random(rows)) / counts[levels]
    a = tilts(means)[levels]
    flat = np.abs(a) < 1e-6
    safe = np.where(flat, 1.0, np.abs(a))
    # exp(-|a|) does not overflow, and x(u; a) = 1 - x(1 - u; -a)
    falling = -np.log1p(np.where(a < 0, u, 1 - u) * np.expm1(-safe)) / safe
    shares = np.where(flat, u, np.where(a < 0, falling, 1 - falling))
    return np.asarray(np.clip(shares, 0.0, np.nextafter(1.0, 0.0)))


def mean_tilts(
    counts: Floats,  # (groups, levels) rows of a model, in levels that have values
    values: Floats,  # (levels,) the mean value of each level
    measured: Floats,  # (groups,) means
    errors: Floats,  # (groups,) their standard errors
) -> Floats:
    """Logarithms of the least change of shares within each group that brings its mean to a measured one, within error.

    Where the mean of the model is d from the measured one, whose error is s, its own squared error is taken for
    t^2 = max(d^2 - s^2, 0), and the target is the mean of both by precision, d s^2 / (s^2 + t^2) from the measured
    one. Shares are multiplied by exp(a_g v) / Z_g: of all changes with that mean the one of least relative entropy. The
    number of rows in each group stays; groups without rows are left alone.

    Reference: [Csiszar 1975] for the projection; [Efron and Morris 1973] for the weight.
    """
    rows = counts.sum(axis=1)
    reach = max(float(np.abs(values - values.mean()).max(initial=0.0)), 1e-300)
    v = (values - values.mean()) / reach
    shares = counts / np.where(rows > 0, rows, 1.0)[:, None]
    d, s = shares @ values - measured, np.maximum(errors, 1e-300)
    weight = s**2 / (s**2 + np.maximum(d**2 - s**2, 0.0))
    target = (np.clip(measured + weight * d, values.min(), values.max()) - values.mean()) / reach
    low, high = np.full(len(rows), -STEEPEST), np.full(len(rows), STEEPEST)
    for _ in range(TURNS):
        a = (low + high) / 2
        weights = shares * np.exp(a[:, None] * v - np.abs(a)[:, None])
        mean = weights @ v / np.maximum(weights.sum(axis=1), 1e-300)
        low, high = np.where(mean < target, a, low), np.where(mean < target, high, a)
    moved = (rows > 0) & (np.abs(shares @ v - target) > 1e-12)  # not where nothing was measured, which is NaN
    a = np.where(moved, (low + high) / 2, 0.0)
    scale = np.log(np.maximum((shares * np.exp(a[:, None] * v)).sum(axis=1), 1e-300))
    return np.asarray(a[:, None] * v - np.where(rows > 0, scale, 0.0)[:, None])


def _mean(a: Floats) -> Floats:
    """mean(a), by its series near 0."""
    near = np.abs(a) < 1e-4
    safe = np.where(near, 1.0, a)
    with np.errstate(over="ignore"):
        return np.asarray(np.where(near, 0.5 + a / 12, -1 / np.expm1(-safe) - 1 / safe))
