"""Answers to thresholds from any estimates: exact errors target by target, or bounds that hold."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import hush
from dense_twins import DenseEstimates
from hush import Budget, Workload, queries
from hush.release import term_answers as module
from hush.release.term_answers import term_estimates
from hush.workloads import ThresholdTerm

SCHEMA = hush.datasets.people_schema()
DOMAIN = SCHEMA.domain
CLIQUE = ("region", "sex", "employed")
OTHER = ("education", "sex", "region")
BUDGET = Budget(rho=0.5)


@functools.cache
def table():
    return hush.read(hush.datasets.people(800, seed=3), SCHEMA)


@functools.cache
def released(name: str) -> hush.Release:
    marginals = Workload.marginals(DOMAIN, [CLIQUE, OTHER])
    prefixes = Workload.product(
        DOMAIN, {"region": queries.prefix, "sex": queries.identity, "employed": queries.identity}
    )
    plans = {
        "residual": (marginals, "residual"),
        "bases": (prefixes, "residual"),
        "hdmm": (marginals, hush.mechanisms.HDMM(quick=True)),
        "kron": (prefixes, hush.mechanisms.HDMM(quick=True, operators=("kron",))),
        "global": (
            Workload.marginals(DOMAIN, [CLIQUE]),
            hush.mechanisms.Direct(least_squares="global"),
        ),
        "matrix": (Workload.marginals(DOMAIN, [CLIQUE, ("sex",)]), "matrix"),
        "gaussian": (marginals, "gaussian"),
        "thresholds": (Workload.thresholds(DOMAIN, 3, 2, [CLIQUE, OTHER]), "residual"),
    }
    workload, mechanism = plans[name]
    return hush.plan(workload, BUDGET, mechanism=mechanism).release(table())


def one_by_one(estimates, term, sizes, queries):
    """The variances of the first queries, from the covariances of the cells."""
    coefficients = [term.coefficients(query, sizes) for query in range(queries)]
    return np.array([float(estimates.covariance(term.clique, row, row, 0)) for row in coefficients])


@pytest.mark.parametrize("at_least", [1, 2])
@pytest.mark.parametrize("name", ["residual", "bases", "hdmm", "kron", "global", "matrix", "gaussian", "thresholds"])
def test_errors_are_those_of_the_covariances(name, at_least) -> None:
    """The standard error of a target is that of its cells, whichever way the release knows them."""
    estimates = released(name).estimates
    term = ThresholdTerm(CLIQUE, DOMAIN.sizes(CLIQUE), at_least)
    found = term_estimates(estimates, term)
    assert found.exact
    np.testing.assert_allclose(found.values, term.exact_answers(estimates.counts(CLIQUE)).ravel())
    variances = one_by_one(estimates, term, term.sizes, term.queries)
    np.testing.assert_allclose(found.std_error**2, variances, rtol=1e-6)
    bound = module._bounded(estimates, term, term.signed_counts, term.sizes).ravel()
    assert (bound >= variances * (1 - 1e-9)).all()


def first_query_alone(coefficients):
    def first(term, query, sizes):
        assert query == 0
        return coefficients(term, query, sizes)

    return first


def test_levels_that_are_alike_need_the_variance_of_one_target_alone(monkeypatch) -> None:
    estimates = released("gaussian").estimates
    term = ThresholdTerm(CLIQUE, DOMAIN.sizes(CLIQUE), 2)
    variances = one_by_one(estimates, term, term.sizes, term.queries)
    monkeypatch.setattr(ThresholdTerm, "coefficients", first_query_alone(ThresholdTerm.coefficients))
    np.testing.assert_allclose(term_estimates(estimates, term).std_error ** 2, variances, rtol=1e-9)
    assert term_estimates(released("residual").estimates, term).exact


def test_many_uneven_targets_get_a_bound(monkeypatch) -> None:
    estimates = released("matrix").estimates  # measures its columns together, so their levels are not known to be alike
    term = ThresholdTerm(CLIQUE, DOMAIN.sizes(CLIQUE), 2)
    exact = term_estimates(estimates, term)
    monkeypatch.setattr(module, "MOST_QUERIES", 1)
    bounded = term_estimates(estimates, term)
    assert (exact.exact, bounded.exact) == (True, False)
    assert (bounded.std_error >= exact.std_error * (1 - 1e-9)).all()
    assert (bounded.margins.at(0.95) >= exact.margins.at(0.95) * (1 - 1e-9)).all()


def test_the_margin_is_that_of_the_exact_law() -> None:
    estimates = released("residual").estimates
    term = ThresholdTerm(CLIQUE, DOMAIN.sizes(CLIQUE), 2)
    laws, places = term_estimates(estimates, term).margins.known
    assert len(laws) == 1
    assert not places.any()
    assert laws[0].stddev == pytest.approx(float(term_estimates(estimates, term).std_error[0]), rel=1e-6)


def test_the_order_of_columns_does_not_matter() -> None:
    release = released("bases")
    first = release.threshold(CLIQUE, r=2)
    turned = release.threshold("employed", "region", "sex", r=2)
    shape = DOMAIN.sizes(("employed", "region", "sex"))
    for values in ("estimate", "std_error"):
        back = getattr(turned, values).reshape(shape).transpose(1, 2, 0).ravel()
        np.testing.assert_allclose(getattr(first, values), back, rtol=1e-9)


def test_estimates_without_noise_give_the_answers() -> None:
    counts = table().counts([DOMAIN.attributes[1:5]])[DOMAIN.attributes[1:5]]
    domain = DOMAIN.project(DOMAIN.attributes[1:5])
    term = ThresholdTerm(("sex", "region", "employed"), domain.sizes(("sex", "region", "employed")), 2)
    found = term_estimates(DenseEstimates(domain, counts), term)
    exact = term.exact_answers(counts.sum(axis=domain.attributes.index("education")))
    np.testing.assert_allclose(found.values, exact.ravel())
