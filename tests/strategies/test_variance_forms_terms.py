"""Thresholds and formulas planned: errors are those of the dense covariance, and no linear mechanism does better."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Workload, queries
from hush.core.errors import SizeError, WorkloadError
from hush.strategies import variance_forms as module
from hush.strategies.optimum import gram_factor, optimal_gram
from hush.strategies.select_residual import select_residual
from hush.strategies.term_table import TermGrams
from hush.workloads import ThresholdTerm, threshold_term
from hush.workloads.formula_term import formula_term

DOMAIN = Domain({"a": 2, "b": 3, "c": 4})
PREFIX = Workload.product(DOMAIN, {"b": queries.prefix, "a": queries.identity})
FORMULA = Workload.formulas(
    DOMAIN, queries.at_least(2, *(queries.test(name, [0, 1][: DOMAIN[name] - 1]) for name in DOMAIN))
)
THRESHOLDS = [Workload.thresholds(DOMAIN, 3, r) for r in (1, 2)] + [Workload.thresholds(DOMAIN, 2, 1)]


def rows_of(term) -> np.ndarray:
    """The queries of a term over all cells of the domain."""
    rows = []
    for cell in itertools.product(*map(range, DOMAIN.shape)):
        counts = np.zeros(DOMAIN.shape)
        counts[cell] = 1
        outside = tuple(axis for axis, name in enumerate(DOMAIN) if name not in term.clique)
        rows.append(np.ravel(term.exact_answers(counts.sum(axis=outside))))
    return np.array(rows).T


def covariance(strategy) -> np.ndarray:
    """Of the estimated cells, from the measured queries as matrices; what is not measured has a huge variance."""
    information = np.zeros((math.prod(DOMAIN.shape),) * 2)
    for index, clique in enumerate(strategy.closure):
        matrix = np.ones((1, 1))
        for name in DOMAIN:
            basis = strategy.basis(name) if name in clique else None
            block = np.ones((1, DOMAIN[name])) if basis is None else basis.operator.dense() / basis.scale
            matrix = np.kron(matrix, block)
        information += matrix.T @ matrix / strategy.sigma_squared[index]
    return np.linalg.pinv(information, rcond=1e-13)


@pytest.mark.parametrize("workload", [*THRESHOLDS, FORMULA, THRESHOLDS[0] + PREFIX, FORMULA + PREFIX + THRESHOLDS[2]])
def test_residual_variances_are_those_of_the_matrices(workload) -> None:
    strategy = select_residual(workload, rho=0.5).value
    dense, errors = covariance(strategy), strategy.errors(workload)
    largest = []
    for index, term in enumerate(workload):
        queries_of = rows_of(term)
        expected = np.einsum("qi,ij,qj->q", queries_of, dense, queries_of)
        np.testing.assert_allclose(strategy.term_variances(term).ravel(), expected, rtol=1e-6)
        assert errors.means[index] == pytest.approx(expected.mean(), rel=1e-6)
        largest.append(expected.max())
    assert errors.largest == pytest.approx(max(largest), rel=1e-6)


@pytest.mark.parametrize("workload", [*THRESHOLDS, THRESHOLDS[1] + 3 * Workload.kway(DOMAIN, 1)])
def test_no_linear_mechanism_with_gaussian_noise_does_better(workload) -> None:
    """Against the certified optimum over all strategies on the cells, within its own tolerance."""
    strategy = select_residual(workload, rho=0.5).value
    total = sum(t.weight * t.queries * v for t, v in zip(workload, strategy.errors(workload).means, strict=True))
    gram = sum(term.weight * rows_of(term).T @ rows_of(term) for term in workload)
    best = optimal_gram(gram_factor(gram + 1e-9 * np.eye(len(gram))), tolerance=1e-6).checked()
    least = float(np.trace(np.linalg.solve(best.gram, gram))) * best.gram.diagonal().max()
    assert total == pytest.approx(least, rel=1e-4)
    assert strategy.lower_bound(workload) == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("workload", THRESHOLDS)
def test_the_least_maximum_is_that_of_all_targets(workload) -> None:
    maxvar = select_residual(workload, rho=0.5, loss="maxvar").value
    rmse = select_residual(workload, rho=0.5).value
    assert maxvar.max_variance(workload) <= rmse.max_variance(workload) * (1 + 1e-6)


def test_thresholds_are_measured_for_less_than_their_marginals() -> None:
    """2 of three columns of 10 levels: noise planned for them has 0.55 of the variance of noise for the marginal."""
    domain = Domain({"a": 10, "b": 10, "c": 10})
    asked, cells = Workload.thresholds(domain, 3, 2), Workload.kway(domain, 3)
    planned = select_residual(asked, rho=0.5).value.errors(asked).means[0]
    unplanned = select_residual(cells, rho=0.5).value.errors(asked).means[0]
    assert planned == pytest.approx(0.5477 * unplanned, rel=1e-3)


def test_the_gram_products_have_the_gram_matrix() -> None:
    for workload in THRESHOLDS:
        gram = sum(term.weight * rows_of(term).T @ rows_of(term) for term in workload)
        equal = np.zeros_like(gram)
        for product in workload.gram_products:
            matrix = np.ones((1, 1))
            for name in DOMAIN:
                inside = name in product.clique
                block = product.blocks[product.clique.index(name)].dense() if inside else np.ones((1, DOMAIN[name]))
                matrix = np.kron(matrix, block)
            equal += product.weight * matrix.T @ matrix
        np.testing.assert_allclose(equal, gram, atol=1e-9)
        grams = TermGrams.of(workload)
        assert all(grams.alike(axis) for axis in range(3))
        for axis, (_, size) in enumerate(zip(DOMAIN, DOMAIN.shape, strict=True)):
            blocks = grams.blocks[axis]
            assert grams.traces(axis).tolist() == pytest.approx([np.trace(b.gram_dense()) for b in blocks])
            assert grams.sums(axis).tolist() == pytest.approx([b.gram_dense().sum() for b in blocks], abs=1e-12)
            assert len(blocks) <= 2
            assert size == blocks[0].shape[1]


@pytest.mark.parametrize(
    ("workload", "noise"),
    [
        (THRESHOLDS[1], Budget(rho=0.5)),
        (THRESHOLDS[1], Budget(epsilon=1.0)),
        (THRESHOLDS[0] + PREFIX, Budget(rho=0.5)),
        pytest.param(THRESHOLDS[0] + PREFIX, Budget(epsilon=1.0), marks=pytest.mark.slow),
    ],
)
def test_hdmm_promises_what_its_products_have(workload, noise) -> None:
    plan = hush.plan(workload, noise, mechanism=hush.mechanisms.HDMM(quick=True))
    for index in range(len(workload)):
        variances = plan.query_variances(index)
        assert plan.term_variances[index] == pytest.approx(variances.mean(), rel=1e-9)
    assert plan.max_variance == pytest.approx(max(plan.query_variances(i).max() for i in range(len(workload))))
    assert isinstance(workload.terms[0], ThresholdTerm)


def test_pure_epsilon_answers_thresholds() -> None:
    """Residual noise is Gaussian, so that under pure epsilon the default takes hdmm."""
    plan = hush.plan(THRESHOLDS[1], Budget(epsilon=1.0))
    assert plan.mechanism == "hdmm"
    assert plan.epsilon <= 1


def test_signed_counts_are_inclusion_and_exclusion() -> None:
    for k, r in [(3, 1), (4, 2), (5, 3), (6, 6)]:
        tau = threshold_term.signed_counts(k, r)
        for agreeing in range(k + 1):
            counted = sum(tau[a] * math.comb(agreeing, a) for a in range(k + 1))
            assert counted == (agreeing >= r)


def test_what_is_not_known_is_refused(monkeypatch) -> None:
    with pytest.raises(WorkloadError, match="differ in variance: 'b' is asked for more than its levels"):
        select_residual(THRESHOLDS[0] + PREFIX, rho=0.5, loss="maxvar")
    monkeypatch.setattr(module, "LARGEST_CELLS", 10)
    with pytest.raises(SizeError, match="is over 24 cells: at most 10 can be planned for; leave it out"):
        select_residual(FORMULA, rho=0.5)


def test_the_order_of_attributes_does_not_matter() -> None:
    term = ThresholdTerm(("c", "a", "b"), (4, 2, 3), 2)
    ordered = Workload.thresholds(DOMAIN, 3, 2)
    turned = Workload(DOMAIN, [term]) + PREFIX
    first, second = (select_residual(each, rho=0.5).value.errors(each) for each in (ordered + PREFIX, turned))
    np.testing.assert_allclose(first.means, second.means, rtol=1e-9)


def test_even_levels_have_a_form_of_their_own() -> None:
    means = tuple((1 / n, (1 / n) ** 2, (n - 1) / n) for n in (2, 3, 5, 4))
    for r in range(1, 5):
        term = ThresholdTerm(("a", "b", "c", "d"), (2, 3, 5, 4), r)
        uneven = tuple((mean, float(np.nextafter(square, 1)), residual) for mean, square, residual in means)
        np.testing.assert_allclose(term.residual_shares(means), term.residual_shares(uneven), rtol=1e-9, atol=1e-15)


def test_many_columns_are_planned_in_closed_form() -> None:
    domain = Domain({f"c{i}": 2 for i in range(13)})
    workload = Workload.thresholds(domain, 10, 5, [tuple(domain)[:10]])
    strategy = select_residual(workload, rho=0.5).value
    assert strategy.lower_bound(workload) == pytest.approx(strategy.errors(workload).means[0] * 2**10, rel=1e-6)
    with pytest.raises(SizeError, match=r"has 2\^13 subsets of attributes, more than 2\^12; use fewer attributes, or"):
        hush.plan(Workload.thresholds(domain, 13, 5), Budget(rho=0.5), mechanism="hdmm")


def test_formulas_claim_no_optimum() -> None:
    plan = hush.plan(FORMULA, Budget(rho=0.5))
    assert plan.mechanism == "residual"
    assert plan.optimality == "the best noise for what it measures; another strategy may answer its formulas better"
    assert formula_term(DOMAIN, queries.test("a", 0)).queries == 1
