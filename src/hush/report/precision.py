"""Precision: the standard errors of a release beside those of a plan without thought, both known before any data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from hush.domain import Clique
from hush.inference.estimates import Estimates
from hush.privacy.events import price
from hush.privacy.sensitivity import ONE_CELL, sensitivity
from hush.report.sums import cell_errors
from hush.workloads.workload import Term

if TYPE_CHECKING:
    from hush.release.release import Release

MOST_TABLES = 12
LOOKED_AT = 30
LARGEST_TABLE = 200_000
QUERIES = 48
LARGEST_BLOCK = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """The typical standard error of some tables of the workload, planned and naive.

    Typical is the root mean square over all their numbers. `clique` is set where it is one table; else all have `order`
    columns, or any number of them where that is None. `looked_at` tables stand for all `tables`.
    """

    order: int | None
    clique: Clique | None
    tables: int
    looked_at: int
    queries: int
    planned: float
    naive: float

    @property
    def ratio(self) -> float:
        """The naive plan's error in units of the release's."""
        return self.naive / self.planned if self.planned > 0 else math.nan


def naive_stddev(release: Release) -> float:
    """The noise of a plan that measures every table of the workload by itself with an equal share of what was spent.

    A table of counts with Gaussian noise of variance s^2 costs rho = D^2 / (2 s^2), where D^2 is the squared L2
    sensitivity of one table; k tables at rho / k each have s = D sqrt(k / (2 rho)). With Laplace noise k tables at
    epsilon / k each have s = sqrt(2) k D_1 / epsilon.
    """
    statement = release.statement
    if not 0 < statement.rho < math.inf:
        return math.nan
    moved = sensitivity(ONE_CELL, max_rows=statement.unit.max_rows, neighbours=statement.neighbours)
    epsilon = price(statement.event).epsilon
    if epsilon:
        return math.sqrt(2) * len(release.workload) * float(moved.l1 / epsilon)
    return math.sqrt(len(release.workload) * float(moved.l2_squared) / (2 * statement.rho))


def by_order(release: Release) -> list[Precision]:
    """One entry for the tables of each number of columns."""
    orders: dict[int, list[Term]] = {}
    for term in release.workload:
        orders.setdefault(len(term.clique), []).append(term)
    naive = naive_stddev(release)
    return [_typical(release.estimates, orders[order], naive, None) for order in sorted(orders)]


def by_table(release: Release) -> list[Precision]:
    """One entry for each table of the workload, where they are few; otherwise none."""
    terms = release.workload.terms
    if len(terms) > MOST_TABLES or len({term.clique for term in terms}) < len(terms):
        return []
    naive = naive_stddev(release)
    return [_typical(release.estimates, [term], naive, term.clique) for term in terms]


def overall(entries: Sequence[Precision]) -> Precision:
    """All the tables of some entries together."""
    known = [entry for entry in entries if math.isfinite(entry.planned) and math.isfinite(entry.naive)]
    weights = [entry.queries for entry in known]
    return Precision(
        order=None,
        clique=None,
        tables=sum(entry.tables for entry in known),
        looked_at=sum(entry.looked_at for entry in known),
        queries=sum(weights),
        planned=_root_mean([entry.planned**2 for entry in known], weights),
        naive=_root_mean([entry.naive**2 for entry in known], weights),
    )


def _typical(estimates: Estimates, terms: Sequence[Term], naive: float, clique: Clique | None) -> Precision:
    candidates = [terms[place] for place in spread(len(terms), 4 * LOOKED_AT)]  # coverage is not free to find out
    usable = [term for term in candidates if _usable(estimates, term)]
    looked_at = [usable[place] for place in spread(len(usable), LOOKED_AT)]
    pairs = [_variances(estimates, term, naive) for term in looked_at]
    weights = [term.queries for term in looked_at]
    return Precision(
        order=len(terms[0].clique),
        clique=clique,
        tables=len(terms),
        looked_at=len(looked_at),
        queries=sum(term.queries for term in terms),
        planned=_root_mean([planned for planned, _ in pairs], weights),
        naive=_root_mean([unplanned for _, unplanned in pairs], weights),
    )


def _usable(estimates: Estimates, term: Term) -> bool:
    return (
        estimates.domain.size(term.clique) <= LARGEST_TABLE
        and estimates.covers(term.clique)
        and (term.plain or all(math.prod(block.shape) <= LARGEST_BLOCK for block in term.blocks))
    )


def _variances(estimates: Estimates, term: Term, naive: float) -> tuple[float, float]:
    """The mean variance of the answers of a term: as released, and with independent noise on every cell.

    Of a term with ranges and the like some queries, evenly spread, stand for all.
    """
    if term.plain:
        return float(np.mean(cell_errors(estimates, term.clique) ** 2)), naive**2
    rows = [block.dense() for block in term.blocks]
    planned, unplanned = [], []
    for query in spread(term.queries, QUERIES):
        places = np.unravel_index(query, tuple(len(row) for row in rows))
        coefficients = reduce(np.multiply.outer, [row[i] for row, i in zip(rows, places, strict=True)], np.ones(()))
        planned.append(float(estimates.covariance(term.clique, coefficients, coefficients, 0)))
        unplanned.append(naive**2 * float(np.sum(coefficients**2)))
    return float(np.mean(planned)), float(np.mean(unplanned))


def spread(length: int, most: int) -> list[int]:
    """At most `most` places out of `length`, evenly spread, the first and the last among them.

    >>> spread(3, 5), spread(9, 3)
    ([0, 1, 2], [0, 4, 8])
    """
    if length <= most:
        return list(range(length))
    return [place * (length - 1) // (most - 1) for place in range(most)]


def _root_mean(variances: Sequence[float], weights: Sequence[int]) -> float:
    return math.sqrt(np.average(variances, weights=weights)) if len(variances) else math.nan
