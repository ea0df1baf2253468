"""The census examples against the figures that their authors print."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from hush import Workload
from hush.workloads import ProductTerm, census

SIGMA = 4.224678889  # of the analytic Gaussian mechanism at epsilon 1, delta 1e-6


def product(workload: Workload, term: ProductTerm, figure: Callable, absent: Callable) -> float:
    """A figure that multiplies over attributes."""
    own = dict(zip(term.clique, term.blocks, strict=True))
    return math.prod(figure(own[name]) if name in own else absent(size) for name, size in _sizes(workload))


def _sizes(workload: Workload) -> list[tuple[str, int]]:
    return list(zip(workload.domain, workload.domain.shape, strict=True))


@pytest.mark.parametrize(
    ("build", "queries", "cells", "identity", "laplace", "gaussian"),
    [
        (census.sf1, 4_151, 29_440, 23.20, 70.71, 29.87),
        (census.sf1_plus, 215_852, 1_501_440, 32.50, 141.42, 42.25),
    ],
)
def test_figures_of_the_dissertation(
    build: Callable[[], Workload], queries: int, cells: int, identity: float, laplace: float, gaussian: float
) -> None:
    workload = build()
    assert (len(workload), workload.queries, workload.domain.size()) == (33, queries, cells)
    squares = sum(product(workload, term, lambda b: np.trace(b.gram_dense()), float) for term in workload)
    l1 = sum(product(workload, term, lambda b: b.column_norms(1).max(), lambda _: 1.0) for term in workload)
    l2 = sum(product(workload, term, lambda b: b.column_norms(2).max() ** 2, lambda _: 1.0) for term in workload)
    assert math.sqrt(2 * squares / queries) == pytest.approx(identity, abs=0.005)
    assert math.sqrt(2) * l1 == pytest.approx(laplace, abs=0.005)
    assert SIGMA * math.sqrt(l2) == pytest.approx(gaussian, abs=0.005)


def test_counts_that_tables_share_are_asked_for_as_often_as_they_are_printed() -> None:
    workload = census.sf1()
    assert sum(term.clique == () for term in workload) == 5
    assert set(workload.weights) == {1.0}
    assert len(workload + workload) < 33
    assert (workload + workload).equivalent(2.0 * workload)


def test_a_table_by_hand() -> None:
    """P12I, males aged 18 and 19, not hispanic, white alone, is one of the queries."""
    rows = {}
    for term in census.sf1():
        if term.clique == ("sex", "hispanic", "race", "age") and term.queries == 46:
            rows = dict(zip(term.clique, (block.dense() for block in term.blocks), strict=True))
    assert rows["hispanic"].tolist() == [[0, 1]]
    assert np.flatnonzero(rows["race"][0]).tolist() == [1]
    assert np.flatnonzero(rows["age"][4]).tolist() == [18, 19]
    assert rows["age"].sum() == 115
