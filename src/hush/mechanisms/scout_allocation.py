"""What is worth measuring: how strong each table's own signal is, and how to share a budget among tables.

A table t is wrong by what its columns, its pairs and itself are wrong by. With L_s the L1 error of the residual of a
set s of columns, these errors are nearly unrelated, so

    L_t^2 = sum over subsets s of t of L_s^2.

A set that is not measured is wrong by its signal, L_s^2 = P_s. Measured at the cost x with noise of variance b / x per
cell, and shrunk toward its prediction, it is wrong by 1 / L_s^2 = 1 / P_s + x / Q_s, where Q_s = (2/pi) n_s^2 b is the
squared L1 norm of the noise at cost 1 over n_s effective cells. `allocate` makes the weighted sum of all asked L_t
least. `signals` finds P_s from surveyed distances.

Everything here is public: it is computed from noisy numbers, sizes and the workload.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique

MEAN_ABSOLUTE = math.sqrt(2 / math.pi)  # E|z| of a standard normal z
TYPICAL_SIGNAL = 0.15  # of the rows: the expected signal of a pair before anything is known
NEXT_ORDER = 0.3  # of TYPICAL_SIGNAL, for each further column of a table
TYPICAL_TABLES = 3.0  # the expectation counts like so many surveyed tables
NO_SIGNAL_SHARE = 0.1  # of tables, before anything is known
SIGNAL_STEPS = 100  # of the iteration that finds how many tables have which signal
GRID_POINTS, GRID_POINTS_PER_DOUBLING = 40, 4  # of signals
GRID_WIDTH = 0.09  # the relative width of a grid point: about half the distance to the next
OTHER_ERROR_DOUBT = 0.1  # the relative error of what is known about the error of smaller tables
LEAST_SIGNAL = 1e-3  # rows
ALLOCATION_STEPS = 200
LEAST_GAIN = 0.1  # precision gained over precision known; below it, a set is not measured


def effective_cells(counts: Floats) -> float:
    """(sum sqrt(c))^2 / sum c: the number of cells that hold most rows, between 1 and all.

    Noise in nearly empty cells is shrunk away, so only cells with rows stay wrong.
    """
    total = float(counts.sum())
    return float(np.sqrt(np.maximum(counts, 0.0)).sum() ** 2 / total) if total > 0 else float(counts.size)


def typical_signal(order: int) -> float:
    """The share of the rows that a table of so many columns is expected to move, before anything is known; 1 for one.

    >>> typical_signal(1), typical_signal(2), round(typical_signal(3), 3)
    (1.0, 0.15, 0.045)
    """
    return TYPICAL_SIGNAL * NEXT_ORDER ** (order - 2) if order > 1 else 1.0


def signals(distances: Floats, stddev: float, other_errors: Floats, rows: float) -> Floats:
    """The expected signal S of every table, from its noisy distance d = sqrt(S^2 + G^2) + noise.

    G are the L1 errors of smaller tables in the model that distances are from. How many tables have which signal is
    found by maximum likelihood over all tables, from a first guess with a mean of `TYPICAL_SIGNAL`; S is the posterior
    mean. So one large distance among many small ones counts less if noise may explain it.

    Reference: [Robbins 1956].

    >>> found = signals(np.array([400.0, 2.0, -3.0, 1.0, 410.0]), 5.0, np.zeros(5), 1000.0)
    >>> (found[[0, 4]] > 350).all(), (found[1:4] < 10).all()
    (np.True_, np.True_)
    """
    largest = min(max(float(distances.max(initial=0.0)), rows / 2), 2 * rows)  # no two tables are farther apart
    grid = np.concatenate([[0.0], largest * 2.0 ** (-np.arange(GRID_POINTS)[::-1] / GRID_POINTS_PER_DOUBLING)])
    means = np.hypot(grid, other_errors[:, None])
    spreads = np.sqrt(stddev**2 + (OTHER_ERROR_DOUBT * other_errors[:, None]) ** 2 + (GRID_WIDTH * grid) ** 2)
    logarithms = -0.5 * ((distances[:, None] - means) / spreads) ** 2 - np.log(spreads)
    likelihoods = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    guess = grid * np.exp(-grid / (TYPICAL_SIGNAL * rows))  # per grid point, whose distance grows with the signal
    guess *= (1 - NO_SIGNAL_SHARE) / guess.sum()
    guess[0] = NO_SIGNAL_SHARE
    shares = guess
    for _ in range(SIGNAL_STEPS):
        weights = likelihoods * shares
        weights /= weights.sum(axis=1, keepdims=True)
        shares = (weights.sum(axis=0) + TYPICAL_TABLES * guess) / (len(distances) + TYPICAL_TABLES)
    weights = likelihoods * shares
    return np.asarray(weights @ grid / weights.sum(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class Incidence:
    """Which sets are inside which asked tables: entry k says that set `sets[k]` is inside table `tables[k]`."""

    tables: Integers
    sets: Integers
    weights: Floats  # (asked tables,)

    @classmethod
    def of(cls, asked: Mapping[Clique, float], sets: Sequence[Clique]) -> Incidence:
        """Asked tables by weight; sets of columns in the order of their shares."""
        holders: dict[str, list[int]] = {}
        for index, clique in enumerate(asked):
            for name in clique:
                holders.setdefault(name, []).append(index)
        members = [set(clique) for clique in asked]
        tables: list[int] = []
        inside: list[int] = []
        for position, names in enumerate(sets):
            shortest = min((holders.get(name, []) for name in names), key=len)
            found = [index for index in shortest if members[index].issuperset(names)]
            tables += found
            inside += [position] * len(found)
        return cls(np.array(tables, np.int64), np.array(inside, np.int64), np.array(list(asked.values()), np.float64))

    def joined(self, other: Incidence, sets: int) -> Incidence:
        """The `sets` sets of this incidence, followed by those of another; both are about the same asked tables."""
        tables, inside = np.concatenate([self.tables, other.tables]), np.concatenate([self.sets, other.sets + sets])
        return Incidence(tables, inside, self.weights)

    def other_errors(self, squares: Floats) -> Floats:
        """sum of L_s^2 over the sets inside every asked table."""
        return np.bincount(self.tables, squares[self.sets], minlength=len(self.weights)).astype(np.float64)


def expected_errors(incidence: Incidence, signal_squares: Floats, noise_squares: Floats, shares: Floats) -> Floats:
    """L_t of every asked table if a budget is shared out like this."""
    errors = 1 / (1 / np.maximum(signal_squares, LEAST_SIGNAL**2) + shares / noise_squares)
    return np.sqrt(np.maximum(incidence.other_errors(errors), LEAST_SIGNAL**2))


def allocate(incidence: Incidence, signal_squares: Floats, noise_squares: Floats) -> Floats:
    """The shares of a budget, adding up to one, for which the weighted sum of the asked L_t is least.

    `signal_squares` are P_s, and `noise_squares` Q_s if the whole budget goes to s; a set without a signal gets none.
    The gradient of the objective in x_s is -g_s with g_s = L_s^4 / Q_s sum_t w_t / (2 L_t). At the optimum g_s is the
    same for all sets with a share. The iteration x_s <- x_s sqrt(g_s / lambda) reaches it, with lambda such that shares
    add up to one. Shares that would tell little are then left out.

    >>> pair, columns = ("a", "b"), [("a",), ("b",)]
    >>> incidence = Incidence.of({pair: 1.0}, [*columns, pair])
    >>> allocate(incidence, np.array([100.0, 100.0, 1e6]), np.array([25.0, 25.0, 100.0])).round(2).tolist()
    [0.13, 0.13, 0.75]
    """
    signal_squares = np.maximum(signal_squares, LEAST_SIGNAL**2)
    count = len(signal_squares)
    shares = np.full(count, 1 / count)
    for _ in range(ALLOCATION_STEPS):
        errors = 1 / (1 / signal_squares + shares / noise_squares)
        totals = expected_errors(incidence, signal_squares, noise_squares, shares)
        slopes = np.bincount(incidence.sets, (incidence.weights / (2 * totals))[incidence.tables], minlength=count)
        gradient = slopes * errors**2 / noise_squares
        shares = shares * np.sqrt(gradient)
        shares /= shares.sum()
    kept = shares / noise_squares > LEAST_GAIN / signal_squares
    if not kept.any():
        kept = shares == shares.max()
    shares = np.where(kept, shares, 0.0)
    return np.asarray(shares / shares.sum())
