"""Noise on every answer, written as residuals: the same law as the answers measured one by one, at the same cost."""

from fractions import Fraction

import numpy as np
import pytest

from hush import Domain, Neighbours, Workload
from hush.strategies.select_residual import direct_residual, select_residual
from hush.workloads import ThresholdTerm
from hush.workloads.threshold_term import TargetRow

DOMAIN = Domain({"a": 2, "b": 3, "c": 4})
RHO = Fraction(1, 50)


def matrix(workload: Workload, index: int) -> np.ndarray:
    """The queries of a term over all cells of the domain, target by target."""
    term, shape = workload.terms[index], workload.domain.shape
    r = term.at_least if isinstance(term, ThresholdTerm) else len(term.clique)
    sizes = workload.domain.sizes(term.clique)
    rows = []
    for target in np.ndindex(*sizes):
        own = TargetRow(sizes, target, r).dense().reshape(sizes)
        axes = [slice(None) if name in term.clique else None for name in workload.domain]
        rows.append(np.broadcast_to(own[tuple(axes)], shape).ravel())
    return np.array(rows)


BINARY = Domain({"x": 2, "y": 2, "z": 2})
WORKLOADS = {
    "2 of 3": Workload.thresholds(DOMAIN, 3, 2),
    "1 of 2": Workload.thresholds(DOMAIN, 2, 1),
    "beside marginals": Workload.thresholds(DOMAIN, 3, 1) + Workload.kway(DOMAIN, 2),
    "no pair is known": Workload.thresholds(BINARY, 3, 2),  # 2 of 3 is the same for x = y as for x != y, on average
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_variances_are_those_of_least_squares_on_all_noisy_answers(name: str) -> None:
    workload = WORKLOADS[name]
    queries = [matrix(workload, index) for index in range(len(workload))]
    moved = np.array([(query**2).sum(axis=0).max() for query in queries])
    shares = np.sqrt([term.weight * len(q) * g for term, q, g in zip(workload, queries, moved, strict=True)])
    variances = moved / (2 * float(RHO) * shares / shares.sum())
    information = sum(query.T @ query / variance for query, variance in zip(queries, variances, strict=True))
    covariance = np.linalg.pinv(information)
    strategy = direct_residual(workload, rho=RHO)
    for index, term in enumerate(workload):
        expected = np.diag(queries[index] @ covariance @ queries[index].T)
        np.testing.assert_allclose(strategy.term_variances(term).ravel(), expected, rtol=1e-6)
    assert strategy.pcost / 2 == pytest.approx(float(RHO), rel=1e-9)


@pytest.mark.parametrize("r", [1, 2])
def test_every_answer_of_one_threshold_has_the_noise_of_its_sensitivity(r: int) -> None:
    workload = Workload.thresholds(Domain({"a": 3, "b": 4, "c": 5}), 3, r)  # least squares changes nothing there
    (term,) = workload.terms
    assert isinstance(term, ThresholdTerm)
    variances = direct_residual(workload, rho=RHO).term_variances(term)
    np.testing.assert_allclose(variances, term.agreeing / (2 * float(RHO)), rtol=1e-6)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("name", WORKLOADS)
def test_it_costs_the_budget_and_is_no_better_than_the_best(name: str, neighbours: Neighbours) -> None:
    workload = WORKLOADS[name]
    direct = direct_residual(workload, rho=RHO, neighbours=neighbours)
    best = select_residual(workload, rho=RHO, neighbours=neighbours).checked()
    assert direct.pcost / 2 == pytest.approx(float(RHO), rel=1e-9)
    assert direct.rmse(workload) >= best.rmse(workload) * (1 - 1e-9)
