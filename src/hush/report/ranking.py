"""Ranking: which tables are worth a picture, judged from the release alone.

A table is compared with one that says nothing: a flat one-way table, or a two-way table of independent columns. The
departure is the root mean square of the differences in units of the cells' standard errors, per degree of freedom;
noise alone gives about 1.

Privacy: post-processing of released values.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from hush.core.arrays import Floats
from hush.core.domain import Clique
from hush.inference.estimates import BoundedEstimates, Estimates
from hush.report.level_groups import cell_errors

LARGEST_TABLE = 50_000
LARGEST_COLUMN = 200_000
MOST_COLUMNS = 500
MOST_PAIRED = 24
BY_CHANCE = 1e-5  # since some hundred pairs are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """A table and how far it departs from saying nothing."""

    clique: Clique
    departure: float
    freedom: int

    @property
    def visible(self) -> bool:
        """Whether noise alone does not explain the departure.

        For pure noise, departure^2 times the freedom is about a chi-square variate of that freedom.
        """
        return self.departure**2 * self.freedom > float(scipy.special.chdtri(self.freedom, BY_CHANCE))


def rank_columns(estimates: Estimates) -> list[Departure]:
    """The one-way tables, the most telling first; of equals, the first of the domain."""
    names = [(name,) for name in estimates.domain.attributes if _fit(estimates, (name,))]
    return _sorted([_column(estimates, clique) for clique in names[:MOST_COLUMNS]])


def rank_pairs(estimates: Estimates, columns: Sequence[Departure]) -> list[Departure]:
    """The two-way tables among the most telling columns, the strongest dependence first."""
    chosen = {ranked.clique[0] for ranked in columns[:MOST_PAIRED]}
    names = [name for name in estimates.domain.attributes if name in chosen]
    pairs = [pair for pair in itertools.combinations(names, 2) if _fit(estimates, pair)]
    if isinstance(estimates, BoundedEstimates):  # departures with and without known errors do not compare
        pairs = [pair for pair in pairs if estimates.has_covariance(pair)] or pairs
    return _sorted([_pair(estimates, pair) for pair in pairs])


def departure(counts: Floats, expected: Floats, errors: Floats, freedom: int) -> float:
    """sqrt(sum ((count - expected) / error)^2 / freedom).

    An unknown error is replaced by that of a count, the root of the expected one.
    """
    usable = np.isfinite(errors) & (errors > 0)
    units = np.where(usable, errors, np.sqrt(np.maximum(np.abs(expected), 1.0)))
    return float(np.sqrt(np.sum(((counts - expected) / units) ** 2) / freedom))


def _column(estimates: Estimates, clique: Clique) -> Departure:
    counts, errors = estimates.counts(clique), cell_errors(estimates, clique)
    freedom = max(counts.size - 1, 1)
    flat = np.full(counts.shape, counts.mean())
    return Departure(clique=clique, departure=departure(counts, flat, errors, freedom), freedom=freedom)


def _pair(estimates: Estimates, clique: Clique) -> Departure:
    """The difference of a cell from r c / n, the product of its row's and column's totals over the total.

    Its variance is that of the cell plus, by the delta method, (c/n)^2 var(r) + (r/n)^2 var(c) + (r c / n^2)^2 var(n);
    their covariances with the cell would lower it and are left out.
    """
    counts, errors = estimates.counts(clique), cell_errors(estimates, clique)
    row_errors, column_errors = (cell_errors(estimates, (name,)) for name in clique)
    total, total_error = float(counts.sum()), float(cell_errors(estimates, ()))
    freedom = max((counts.shape[0] - 1) * (counts.shape[1] - 1), 1)
    if total <= max(2 * total_error, 0.0):  # nothing to compare with: noise hides even the total
        return Departure(clique=clique, departure=0.0, freedom=freedom)
    rows, columns = (counts.sum(axis=axis, keepdims=True) / total for axis in (1, 0))
    expected = total * rows * columns
    spread = (columns * row_errors[:, None]) ** 2 + (rows * column_errors) ** 2 + (rows * columns * total_error) ** 2
    size = departure(counts, expected, np.sqrt(errors**2 + spread), freedom)
    return Departure(clique=clique, departure=size, freedom=freedom)


def _fit(estimates: Estimates, clique: Clique) -> bool:
    largest = LARGEST_COLUMN if len(clique) == 1 else LARGEST_TABLE
    return estimates.covers(clique) and 1 < estimates.domain.size(clique) <= largest


def _sorted(ranked: list[Departure]) -> list[Departure]:
    return sorted(ranked, key=lambda entry: -entry.departure)  # stable: equals keep the order of the domain
