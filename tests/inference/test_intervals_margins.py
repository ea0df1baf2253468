"""Margins of many sums: every estimator's laws have the variances it states, and equal laws are found once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hush import Budget, Domain, Workload, plan, queries
from hush.inference import intervals
from hush.inference.error_law import two_sided_quantile
from hush.inference.estimates import Estimates
from hush.inference.intervals import largest_coefficients, product_margins, sum_margins
from hush.linops import AllRange, Dense, Identity, LinearOperator, Prefix
from hush.mechanisms import AIM, HDMM, Direct, Residual
from hush.testing import TinyTable

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})
ROWS = [(i % 3, i % 4, i % 2) for i in range(40)]
PLAIN = Workload.kway(DOMAIN, 2)
PREFIXES = Workload.product(DOMAIN, {"a": queries.identity, "b": queries.prefix, "c": queries.identity})
KINDS: dict[str, tuple[Any, Workload, Budget]] = {
    "residual": (Residual(), PLAIN, Budget(rho=1.0)),
    "residual, prefix": (Residual(), PREFIXES, Budget(rho=1.0)),
    "local": (HDMM(restarts=1, noise="laplace"), PREFIXES, Budget(epsilon=2.0)),
    "marginals": (Direct(noise="laplace"), PLAIN, Budget(epsilon=2.0)),
    "global": (HDMM(restarts=1, least_squares="global"), PREFIXES + PLAIN, Budget(rho=1.0)),
    "aim": (AIM(), PLAIN, Budget(rho=1.0)),
}


@pytest.fixture(scope="module", params=KINDS, ids=str)
def estimates(request: pytest.FixtureRequest) -> Estimates:
    mechanism, workload, budget = KINDS[request.param]
    return plan(workload, budget, mechanism=mechanism).release(TinyTable(DOMAIN, ROWS)).estimates


def largest(estimates: Estimates) -> tuple[str, ...]:
    return max(estimates.cliques, key=len)


def test_laws_have_the_variance_that_is_stated(estimates: Estimates) -> None:
    chance = np.random.Generator(np.random.PCG64(5))
    clique = largest(estimates)
    for size in range(len(clique) + 1):
        names = clique[:size]
        f = chance.normal(size=DOMAIN.sizes(names))
        law = estimates.error_law(names, f)
        assert law is not None
        assert law.stddev**2 == pytest.approx(float(estimates.covariance(names, f, f, 0)), rel=1e-6)
        assert law.laplace == estimates.laplace


def test_levels_that_are_alike_have_the_same_law(estimates: Estimates) -> None:
    clique = largest(estimates)
    table = np.ones(DOMAIN.sizes(clique))
    errors = np.sqrt(estimates.covariance(clique, table, table, len(clique)))
    margins = sum_margins(estimates, clique, table, len(clique), errors)
    assert margins.known is not None
    laws, places = margins.known
    assert len(laws) <= table.size
    np.testing.assert_allclose([laws[k].stddev for k in places], errors.ravel(), rtol=1e-6)
    for level in (0.5, 0.95):
        each = [estimates.error_law(clique, unit(table.shape, cell)).margin(level) for cell in range(table.size)]  # type: ignore[union-attr]
        np.testing.assert_allclose(margins.at(level), each, rtol=1e-6)


def unit(shape: tuple[int, ...], cell: int) -> np.ndarray[Any, Any]:
    table = np.zeros(shape)
    table.flat[cell] = 1.0
    return table


@pytest.mark.parametrize("blocks", [(Prefix, Identity), (AllRange, AllRange)])
def test_margins_of_products_are_those_of_their_queries(estimates: Estimates, blocks: Sequence[Any]) -> None:
    clique = largest(estimates)[:2]
    made: list[LinearOperator] = [block(DOMAIN[name]) for block, name in zip(blocks, clique, strict=True)]
    _, variances = estimates.product(clique, made)
    margins = product_margins(estimates, clique, made, np.sqrt(variances))
    rows = [block.dense() for block in made]
    each = [estimates.error_law(clique, np.multiply.outer(r, s)).margin(0.9) for r in rows[0] for s in rows[1]]  # type: ignore[union-attr]
    np.testing.assert_allclose(margins.at(0.9), each, rtol=1e-6)


def test_groups_with_their_own_coefficients_have_their_own_laws(estimates: Estimates) -> None:
    clique = largest(estimates)[:2]
    f = np.arange(np.prod(DOMAIN.sizes(clique)), dtype=float).reshape(DOMAIN.sizes(clique))
    errors = np.sqrt(estimates.covariance(clique, f, f, 1))
    margins = sum_margins(estimates, clique, f, 1, errors)
    for row in range(len(f)):
        alone = np.zeros(f.shape)
        alone[row] = f[row]
        law = estimates.error_law(clique, alone)
        assert law is not None
        assert margins.at(0.95)[row] == pytest.approx(law.margin(0.95))


def test_too_much_work_gives_the_normal_quantile_and_half_a_count(
    estimates: Estimates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intervals, "MOST_WORK", 1)
    clique = largest(estimates)
    ones = np.ones(DOMAIN.sizes(clique))
    errors = np.sqrt(estimates.covariance(clique, ones, ones, len(clique)))
    margins = sum_margins(estimates, clique, 3 * ones, len(clique), 3 * errors)
    z = two_sided_quantile(0.9, laplace=estimates.laplace)
    np.testing.assert_allclose(margins.at(0.9), 3 * z * errors.ravel() + 1.5)
    assert margins.take(np.array([1])).at(0.9).tolist() == [margins.at(0.9)[1]]


def test_queries_of_a_workload_have_laws_where_their_cells_are_not_known() -> None:
    """Ranges of one width do not tell single levels."""
    workload = Workload.product(DOMAIN, {"b": queries.width(2), "c": queries.identity})
    release = plan(workload, Budget(epsilon=2.0), mechanism=Direct(noise="laplace")).release(TinyTable(DOMAIN, ROWS))
    (term,) = workload.products
    assert not release.estimates.covers(term.clique)
    _, variances = release.estimates.product(term.clique, term.blocks)
    margins = product_margins(release.estimates, term.clique, term.blocks, np.sqrt(variances))
    assert margins.known is not None
    laws, places = margins.known
    np.testing.assert_allclose([laws[k].stddev for k in places], np.sqrt(variances).ravel(), rtol=1e-6)


def test_the_largest_coefficients_of_a_block() -> None:
    assert largest_coefficients(Dense([[1.0, -3.0], [0.0, 2.0]])).tolist() == [3.0, 2.0]
