"""Cell priors: shrink noisy tables toward predicted ones, by as much as all tables together show to be right.

A cell with the predicted count e has the count c = e f with an unknown factor f, up to the chance of sampling rows:

    y = c + noise of variance s^2,    c ~ N(e f, e f),    f ~ a spread.

A spread is a law of factors: a share z is zero, and log2 of the others is normal with standard deviation tau. Tau = 0
leaves the prediction as it is; large tau and z fit tables with few occupied cells. Each table has one of the spreads in
`SPREADS`, unknown which. How many tables have which spread is found by maximum likelihood over all tables; then each
cell becomes its posterior mean. So a table that looks like its prediction plus noise stays at the prediction, and a
table whose cells stand out of the noise follows its noisy counts. There is nothing to set.

The law of f is a sum over a grid of factors, half a power of two apart. Each grid point stands for the factors around
it, so it has a relative width.

Privacy: post-processing of noisy counts.
Reference: [Robbins 1956] and [Efron 2010] for empirical Bayes; its use for tables of counts is ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats
from hush.models.shrunk._kernels import posterior_means, spread_likelihoods

GRID_STEP = 0.5  # of log2 f
LEAST_EXPONENT, LARGEST_EXPONENT = -6.0, 10.0  # of the factors in the grid, as powers of two
GRID_WIDTH = 0.17  # the relative width of a grid point: about half the distance to the next
STANDARD_DEVIATIONS = (0.0, 0.06, 0.12, 0.25, 0.5, 0.8, 1.2, 1.8, 2.6)  # tau
ZERO_SHARES = (0.0, 0.15, 0.4, 0.7)  # z
LEAST_PREDICTED = 1e-9  # keeps logarithms finite
LEAST_GRID_TAU = 0.15  # narrower laws fall between grid points; they are mixed with f = 1 instead
NARROW_TAU = 0.25  # narrower laws have no zeros
OUTLIER_SHARE = 1e-4  # of the cells of any table that follow the widest law, so that no count is ruled out
SHARE_STEPS = 20  # of the iteration that finds how many tables have which spread
UNSEEN_TABLES = 0.5  # added in equal parts to the tables with each spread, so that none is ruled out


def _factor_grid() -> tuple[Floats, Floats, Floats]:
    """The factors of the grid, their widths, and the weights of every spread on them, (spreads, factors).

    The first factor is 0, and the second is 1 without any width, the prediction itself.
    """
    exponents = np.arange(LEAST_EXPONENT, LARGEST_EXPONENT + GRID_STEP, GRID_STEP)
    factors = np.concatenate([[0.0, 1.0], 2.0**exponents])
    widths = np.concatenate([[0.0, 0.0], np.full(len(exponents), GRID_WIDTH)])
    exact = np.zeros(len(factors))
    exact[1] = 1.0
    spreads = [exact]
    for tau in STANDARD_DEVIATIONS[1:]:
        for zeros in ZERO_SHARES if tau >= NARROW_TAU else (0.0,):
            # The mean of f is 1: that of a lognormal factor is 2^(mu + tau^2 log(2) / 2), times the share above zero.
            mu = -(tau**2) * math.log(2) / 2 - math.log2(1 - zeros)
            weights = np.zeros(len(factors))
            weights[2:] = np.exp(-0.5 * ((exponents - mu) / max(tau, LEAST_GRID_TAU)) ** 2)
            weights /= weights.sum()
            if tau < NARROW_TAU:
                weights = tau / NARROW_TAU * weights + (1 - tau / NARROW_TAU) * exact
            weights *= 1 - zeros
            weights[0] = zeros
            spreads.append(weights)
    return factors, widths, (1 - OUTLIER_SHARE) * np.array(spreads) + OUTLIER_SHARE * spreads[-len(ZERO_SHARES)]


FACTORS, WIDTHS, SPREADS = _factor_grid()


@dataclass(frozen=True, slots=True, eq=False)
class NoisyCells:
    """The cells of one table in a row: noisy counts, what was predicted, and the most that each count can be."""

    noisy: Floats
    predicted: Floats
    largest: Floats
    variance: float  # of the noise of a cell


def shrink(tables: Sequence[NoisyCells]) -> list[Floats]:
    """The posterior mean of every cell, for each table.

    >>> predicted, most = np.full(6, 50.0), np.full(6, 300.0)
    >>> noisy = [[61.0, 44.0, 52.0, 40.0, 55.0, 48.0], [9.0, -8.0, 3.0, 290.0, -2.0, 8.0]]  # standard deviation 10
    >>> [table.round().tolist() for table in shrink([NoisyCells(np.array(y), predicted, most, 100.0) for y in noisy])]
    [[54.0, 48.0, 51.0, 47.0, 52.0, 49.0], [2.0, 0.0, 1.0, 290.0, 0.0, 1.0]]
    """
    if not tables:
        return []
    logarithms = np.zeros((len(tables), len(SPREADS)))
    for table, row in zip(tables, logarithms, strict=True):
        spread_likelihoods(*_arguments(table), FACTORS, WIDTHS, SPREADS, row)

    # The share of tables with each spread, by expectation maximisation; and the probability of each for every table.
    likelihoods = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    shares = np.full(len(SPREADS), 1 / len(SPREADS))
    for _ in range(SHARE_STEPS):
        probabilities = likelihoods * shares
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        shares = (probabilities.sum(axis=0) + UNSEEN_TABLES / len(SPREADS)) / (len(tables) + UNSEEN_TABLES)

    shrunk = []
    for table, probability in zip(tables, probabilities, strict=True):
        means = np.empty(len(table.noisy))
        posterior_means(*_arguments(table), FACTORS, WIDTHS, probability @ SPREADS, means)
        shrunk.append(means)
    return shrunk


def best_prediction(
    predict: Callable[[Floats], Sequence[Floats]], table: NoisyCells, generator: np.random.Generator
) -> Floats:
    """The prediction that shrinks a table best, of those that `predict` makes from noisy counts; the first by default.

    Two copies of the counts with independent noise, y + z and y - z for z of the same variance, tell: predictions and
    shrunk counts from the one are compared with the other, which does not have their noise. Another prediction than
    the first must be nearer by more than twice the standard error of the comparison.

    Reference: [Oliveira, Lei and Tibshirani 2021].
    """
    predictions = predict(table.noisy)
    if len(predictions) == 1:
        return predictions[0]
    z = np.asarray(math.sqrt(table.variance) * generator.standard_normal(table.noisy.shape))
    fitted, compared = table.noisy + z, table.noisy - z
    found = [
        shrink([NoisyCells(fitted, predicted, table.largest, 2 * table.variance)])[0] for predicted in predict(fitted)
    ]
    gains = np.zeros(len(found))  # of the squared distance from the other copy, beyond twice its standard error
    for index, shrunk in enumerate(found[1:], start=1):
        gap = shrunk - found[0]
        nearer = float(np.sum(gap * (2 * compared - shrunk - found[0])))
        gains[index] = nearer - 4 * math.sqrt(2 * table.variance * float(gap @ gap))
    return predictions[int(np.argmax(gains))]


def _arguments(table: NoisyCells) -> tuple[Floats, Floats, Floats, float]:
    return table.noisy, np.maximum(table.predicted, LEAST_PREDICTED), table.largest, table.variance
