import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dense_twins import DenseResidual, basis_matrix, powerset
from hush import queries
from hush.core.domain import Domain
from hush.core.errors import SizeError, WorkloadError
from hush.linops import AllRange, Dense, Identity, Prefix
from hush.privacy.sensitivity import Neighbours
from hush.strategies import variance_forms as coefficients
from hush.strategies.residual_strategy import ResidualStrategy
from hush.strategies.select_residual import select_residual
from hush.strategies.term_table import TermTable
from hush.strategies.variance_forms import (
    VarianceProfile,
    largest_variances,
    mean_variances,
    privacy_coefficients,
    upper_right_hull,
)
from hush.workloads import ProductTerm, Workload

DOMAIN = Domain({"age": 5, "sex": 2, "race": 3, "work": 5})
MIXED = (
    Workload.product(DOMAIN, {"age": queries.prefix, "sex": queries.identity})
    + 2.0 * Workload.product(DOMAIN, {"age": queries.identity, "race": queries.identity})
    + Workload.product(DOMAIN, {"work": queries.ranges, "sex": queries.identity})
    + 0.5 * Workload.marginals(DOMAIN, [("sex", "race"), ()])
)
PLAIN = Workload.marginals(DOMAIN, [("age", "sex"), ("sex", "race", "work"), ()], [1.0, 3.0, 0.5])


def strategy_of(workload: Workload, seed: int = 0) -> ResidualStrategy:
    """The workload's closure and bases, with noise that is not optimal for anything."""
    found = select_residual(workload, rho=0.5).value
    random = np.random.default_rng(seed)
    noise = found.sigma_squared * random.uniform(1, 3, size=len(found.closure))
    return ResidualStrategy(found.domain, found.bases, found.closure, noise, found.rho)


@pytest.mark.parametrize("workload", [MIXED, PLAIN], ids=["mixed", "plain"])
def test_cost_is_the_largest_diagonal_entry_of_gamma(workload: Workload) -> None:
    strategy = strategy_of(workload)
    dense = DenseResidual(strategy)
    diagonal = dense.gamma.diagonal()
    assert diagonal.max() == pytest.approx(strategy.pcost)
    each = [np.sum(dense.residual(clique) ** 2, axis=0).max() for clique in strategy.closure]
    np.testing.assert_allclose(strategy.privacy, each)


def test_gamma_of_a_plain_strategy_has_a_constant_diagonal_and_residuals_as_eigenvectors() -> None:
    strategy = strategy_of(PLAIN)
    dense = DenseResidual(strategy)
    np.testing.assert_allclose(dense.gamma.diagonal(), strategy.pcost)
    for clique in strategy.closure:
        outside = DOMAIN.size() / DOMAIN.size(clique)
        rows = dense.residual(clique)
        scale = outside / strategy.sigma_squared_of(clique)
        np.testing.assert_allclose(dense.gamma @ rows.T, scale * rows.T, atol=1e-9)


@pytest.mark.parametrize("workload", [MIXED, PLAIN], ids=["mixed", "plain"])
def test_residual_sets_are_orthogonal_and_span_the_marginals(workload: Workload) -> None:
    strategy = strategy_of(workload)
    dense = DenseResidual(strategy)
    for first, second in itertools.combinations(strategy.closure, 2):
        assert np.abs(dense.residual(first) @ dense.residual(second).T).max() < 1e-9
    for clique in workload.cliques:
        within = np.vstack([dense.residual(subset) for subset in powerset(clique)])
        ranks = [np.linalg.matrix_rank(dense.residual(subset)) for subset in powerset(clique)]
        assert sum(ranks) == DOMAIN.size(clique) == np.linalg.matrix_rank(within)
        assert np.linalg.matrix_rank(np.vstack([within, dense.marginal(clique)])) == DOMAIN.size(clique)


@pytest.mark.parametrize("workload", [MIXED, PLAIN], ids=["mixed", "plain"])
def test_variances_are_those_of_least_squares(workload: Workload) -> None:
    strategy = strategy_of(workload)
    dense = DenseResidual(strategy)
    weighted, counts, largest = [], [], []
    for term in workload:
        w = dense.marginal(term.clique, term.blocks)
        variances = dense.covariance(w, w).diagonal()
        found = strategy.query_variances(term.clique, term.blocks)
        assert found.shape == tuple(block.shape[0] for block in term.blocks)
        np.testing.assert_allclose(found.ravel(), variances, rtol=1e-7)
        weighted.append(term.weight * variances.sum())
        counts.append(term.weight * len(variances))
        largest.append(variances.max())
    assert strategy.rmse(workload) == pytest.approx(np.sqrt(sum(weighted) / sum(counts)))
    wanted = max(term.weight * own for term, own in zip(workload, largest, strict=True))
    assert strategy.max_variance(workload) == pytest.approx(wanted)
    assert strategy.max_variance(workload, weighted=False) == pytest.approx(max(largest))
    unweighted = Workload(DOMAIN, [ProductTerm(term.clique, term.blocks) for term in workload])
    assert strategy.rmse(workload, weighted=False) == pytest.approx(strategy.rmse(unweighted))


def test_the_variance_of_a_plain_marginal_is_one_number() -> None:
    strategy = strategy_of(PLAIN)
    for clique in strategy.closure:
        np.testing.assert_allclose(strategy.query_variances(clique), strategy.variance(clique))


def test_cliques_may_be_given_in_any_order() -> None:
    strategy = strategy_of(MIXED)
    there = strategy.query_variances(("age", "sex"), [Prefix(5), Identity(2)])
    back = strategy.query_variances(("sex", "age"), [Identity(2), Prefix(5)])
    np.testing.assert_allclose(back, there.T)
    turned = Workload(DOMAIN, [ProductTerm(("sex", "age"), (Identity(2), Prefix(5)))])
    assert strategy.rmse(turned) == pytest.approx(np.sqrt(there.mean()))


def test_attributes_of_one_size_keep_their_own_bases() -> None:
    strategy = strategy_of(MIXED)
    age, work = strategy.basis("age"), strategy.basis("work")
    assert age.size == work.size == 5
    assert age != work
    alone = select_residual(Workload.product(DOMAIN, {"work": queries.ranges}), rho=0.5).value
    assert alone.basis("work") == work
    swapped = strategy.query_variances(("work", "sex"), [Prefix(5), Identity(2)])
    assert not np.allclose(swapped, strategy.query_variances(("age", "sex"), [Prefix(5), Identity(2)]))


@pytest.mark.parametrize("workload", [MIXED, PLAIN], ids=["mixed", "plain"])
def test_the_cost_of_replacing_a_row_is_bounded_for_every_pair_of_records(workload: Workload) -> None:
    strategy = strategy_of(workload)
    dense = DenseResidual(strategy)
    bound = privacy_coefficients(strategy.closure, strategy.bases, Neighbours.REPLACE)
    for index, clique in enumerate(strategy.closure):
        gram = dense.residual(clique).T @ dense.residual(clique)
        apart = (gram.diagonal()[:, None] + gram.diagonal() - 2 * gram).max()
        own = gram.diagonal().max()
        assert bound[index] >= max(apart, own) * (1 - 1e-12)
        if strategy.plain:
            assert bound[index] == pytest.approx(max(apart, own))


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), min_size=1, max_size=30), st.floats(0, 1))
def test_the_hull_has_the_best_point_for_any_weights(points: list[tuple[float, float]], share: float) -> None:
    array = np.array(points)
    hull = upper_right_hull(array)
    weights = np.array([share, 1 - share])
    assert (hull @ weights).max() == pytest.approx((array @ weights).max(), rel=1e-9, abs=1e-9)
    assert {tuple(point) for point in hull} <= {tuple(point) for point in array}


def test_hulls_are_much_shorter_than_blocks() -> None:
    basis = select_residual(Workload.product(DOMAIN, {"age": queries.prefix}), rho=0.5).value.basis("age")
    assert len(VarianceProfile.of(basis, Prefix(5)).frontier) <= 4
    assert len(VarianceProfile.of(basis, AllRange(5)).frontier) < 15


def test_terms_that_share_an_attribute_but_not_a_block_are_told_apart() -> None:
    table = TermTable.of(MIXED)
    assert {(place, type(block).__name__) for place, block in table.blocks} == {
        (0, "Prefix"), (0, "Identity"), (1, "Identity"), (2, "Identity"), (3, "AllRange"),
    }  # fmt: skip
    assert table.queries.tolist() == [float(term.queries) for term in MIXED]


def test_workloads_that_are_not_planned_for_are_refused() -> None:
    strategy = strategy_of(PLAIN)
    with pytest.raises(WorkloadError, match=r"\('age', 'race'\) is not within the plan"):
        strategy.rmse(Workload.marginals(DOMAIN, [("age", "race")]))
    only = select_residual(Workload.marginals(DOMAIN, [("age",)]), rho=0.5).value
    with pytest.raises(WorkloadError, match="attribute 'sex' was not planned for"):
        only.rmse(Workload.marginals(DOMAIN, [("sex",)]))
    with pytest.raises(WorkloadError, match="'sex' is in no set of the plan"):
        only.basis("sex")


def test_too_many_coefficients_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coefficients, "LARGEST_COEFFICIENTS", 20)
    table = TermTable.of(MIXED)
    closure, bases = table.closure(), table.bases()
    with pytest.raises(SizeError, match="coefficients, above the limit of 20"):
        largest_variances(table, closure, bases)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_mean_and_largest_rows_agree_with_each_query(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = random.integers(-1, 3, size=(4, 5)).astype(float)
    workload = MIXED + Workload.product(DOMAIN, {"age": Dense(rows), "work": Prefix(5)})
    table = TermTable.of(workload)
    closure, bases = table.closure(), table.bases()
    noise = random.uniform(0.1, 10, size=len(closure))
    strategy = ResidualStrategy(DOMAIN, bases, closure, noise, 10**6)
    each = [strategy.query_variances(term.clique, term.blocks) for term in workload]
    means = mean_variances(table, closure, bases) @ noise
    np.testing.assert_allclose(means, [own.mean() for own in each])
    largest, terms = largest_variances(table, closure, bases)
    found = [np.max((largest @ noise)[terms == number]) for number in range(len(workload))]
    np.testing.assert_allclose(found, [own.max() for own in each])


def test_plain_bases_written_out() -> None:
    strategy = strategy_of(PLAIN)
    np.testing.assert_allclose(basis_matrix(strategy.basis("sex")), [[0.5, -0.5], [-0.5, 0.5]])


BLOCKS = [queries.identity, queries.identity, queries.prefix, queries.ranges, queries.width(2)]


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Products of random blocks on random cliques of a small random domain, with weights over six orders."""
    sizes = draw(st.lists(st.integers(2, 4), min_size=2, max_size=4))
    domain = Domain({f"a{i}": size for i, size in enumerate(sizes)})
    whole = Workload.marginals(domain, [()], [draw(st.floats(1e-3, 1e3))])
    for _ in range(draw(st.integers(1, 4))):
        clique = draw(st.sets(st.sampled_from(domain.attributes), min_size=1, max_size=3))
        blocks = {name: draw(st.sampled_from(BLOCKS)) for name in clique}
        whole = whole + draw(st.floats(1e-3, 1e3)) * Workload.product(domain, blocks)
    return whole


@settings(max_examples=40)
@given(workloads(), st.sampled_from(["rmse", "maxvar"]))
def test_any_small_workload_agrees_with_dense_least_squares(workload: Workload, loss: str) -> None:
    found = select_residual(workload, rho=0.5, loss=loss)
    assert found.solved
    strategy = found.value
    dense = DenseResidual(strategy)
    assert dense.gamma.diagonal().max() == pytest.approx(1)
    each = []
    for term in workload:
        w = dense.marginal(term.clique, term.blocks)
        each.append(term.weight * dense.covariance(w, w).diagonal())
    value = {"rmse": sum(own.sum() for own in each), "maxvar": max(own.max() for own in each)}[loss]
    assert found.stats["value"] == pytest.approx(value, rel=1e-5)
