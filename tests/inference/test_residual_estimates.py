import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dense_twins import DenseResidual, powerset
from hush import queries
from hush.core.domain import Clique, Domain
from hush.core.errors import WorkloadError
from hush.inference.residual_estimates import Combination, covariance_of
from hush.linops import Dense
from hush.strategies.residual_strategy import ResidualStrategy
from hush.strategies.select_residual import select_residual
from hush.workloads import Workload

DOMAIN = Domain({"age": 4, "sex": 2, "race": 3, "work": 4})
MIXED = select_residual(
    Workload.product(DOMAIN, {"age": queries.prefix, "sex": queries.identity, "race": queries.identity})
    + Workload.product(DOMAIN, {"work": queries.ranges, "sex": queries.identity}),
    rho=0.5,
).value
PLAIN = select_residual(Workload.marginals(DOMAIN, [("age", "sex", "race"), ("sex", "work")]), rho=0.5).value
PLANS = pytest.mark.parametrize("plan", [MIXED, PLAIN], ids=["mixed", "plain"])


def variance_of(plan: ResidualStrategy, combination: Combination) -> float:
    return covariance_of(plan, combination, combination)


def cells_of(clique: Clique) -> list[list[tuple[Clique, np.ndarray]]]:
    """Each cell of a marginal by itself, as a combination."""
    sizes = DOMAIN.sizes(clique)
    return [[(clique, unit.reshape(sizes))] for unit in np.eye(DOMAIN.size(clique))]


def covariance_matrix(plan: ResidualStrategy, rows: Clique, columns: Clique | None = None) -> np.ndarray:
    """The covariances of all cells of a marginal with all cells of another, or of itself."""
    others = cells_of(rows if columns is None else columns)
    return np.array([[covariance_of(plan, one, two) for two in others] for one in cells_of(rows)])


@PLANS
def test_covariances_within_and_across_marginals_are_those_of_least_squares(plan: ResidualStrategy) -> None:
    dense = DenseResidual(plan)
    for one, two in itertools.product(plan.closure, plan.closure):
        wanted = dense.covariance(dense.marginal(one), dense.marginal(two))
        np.testing.assert_allclose(covariance_matrix(plan, one, two), wanted, atol=1e-8)


@PLANS
def test_the_covariance_of_a_marginal_has_the_variances_of_its_cells(plan: ResidualStrategy) -> None:
    for clique in [*plan.closure, ("race", "age"), ("sex", "race", "age")]:
        found = covariance_matrix(plan, clique)
        np.testing.assert_allclose(found, found.T, atol=1e-9)
        np.testing.assert_allclose(found.diagonal(), plan.query_variances(clique).ravel())


def test_the_printed_covariance_holds_only_for_cells_that_differ_everywhere() -> None:
    """Cells agreeing on S: sum_{A'} s prod_{A' and S} (l-1)/l prod_{A' - S} (-1/l) prod_{A - A'} 1/l^2."""
    clique = ("age", "race")
    noise = PLAIN.sigma_squared * np.linspace(1, 3, len(PLAIN.closure))
    plan = ResidualStrategy(DOMAIN, PLAIN.bases, PLAIN.closure, noise, PLAIN.rho)
    sizes = dict(zip(clique, DOMAIN.sizes(clique), strict=True))
    found = covariance_matrix(plan, clique).reshape(4, 3, 4, 3)

    def formula(same: set[str]) -> float:
        total = 0.0
        for subset in powerset(clique):
            term = plan.sigma_squared_of(subset)
            for name in clique:
                size = sizes[name]
                inside = (size - 1) / size if name in same else -1 / size
                term *= inside if name in subset else 1 / size**2
            total += term
        return total

    assert found[0, 0, 1, 1] == pytest.approx(formula(set()))
    assert found[2, 1, 2, 0] == pytest.approx(formula({"age"}))
    assert found[2, 1, 0, 1] == pytest.approx(formula({"race"}))
    assert found[2, 1, 2, 1] == pytest.approx(formula({"age", "race"})) == pytest.approx(plan.variance(clique))
    assert formula({"age"}) != pytest.approx(formula(set()))


@settings(max_examples=25)
@given(st.sampled_from([MIXED, PLAIN]), st.integers(0, 2**32 - 1))
def test_the_variance_of_any_combination(plan: ResidualStrategy, seed: int) -> None:
    random = np.random.default_rng(seed)
    chosen = random.choice(len(plan.closure), size=4)
    dense = DenseResidual(plan)
    sides = []
    vectors = []
    for _ in range(2):
        own = [(plan.closure.cliques[i], random.normal(size=DOMAIN.sizes(plan.closure.cliques[i]))) for i in chosen]
        sides.append(own)
        vectors.append(sum(c.ravel() @ dense.marginal(clique) for clique, c in own))
    wanted = dense.covariance(np.array(vectors), np.array(vectors))
    assert variance_of(plan, sides[0]) == pytest.approx(wanted[0, 0])
    assert covariance_of(plan, sides[0], sides[1]) == pytest.approx(wanted[0, 1], abs=1e-9)
    assert covariance_of(plan, sides[0], sides[0]) == pytest.approx(wanted[0, 0])


@settings(max_examples=25)
@given(st.sampled_from([MIXED, PLAIN]), st.integers(0, 2**32 - 1))
def test_product_form_agrees_with_the_full_array(plan: ResidualStrategy, seed: int) -> None:
    random = np.random.default_rng(seed)
    clique = ("race", "age", "sex")
    vectors = [random.normal(size=size) for size in DOMAIN.sizes(clique)]
    full = np.einsum("i,j,k->ijk", *vectors)
    blocks = [Dense(vector[None]) for vector in vectors]
    assert variance_of(plan, [(clique, full)]) == pytest.approx(plan.query_variances(clique, blocks).item())


def test_what_is_the_same_in_two_marginals_has_no_variance_between_them() -> None:
    both = [(("age", "sex"), np.ones((4, 2))), (("sex", "work"), -np.ones((2, 4)))]
    assert variance_of(MIXED, both) == pytest.approx(0, abs=1e-12)
    levels = [(("age", "sex"), np.array([[1.0, 0]] * 4)), (("sex", "work"), -np.array([[1.0] * 4, [0] * 4]))]
    assert variance_of(PLAIN, levels) == pytest.approx(0, abs=1e-12)
    assert variance_of(PLAIN, []) == 0
    assert variance_of(PLAIN, [((), 1.0)]) == pytest.approx(PLAIN.sigma_squared[0])


@pytest.mark.parametrize(
    "call",
    [
        lambda: variance_of(PLAIN, [(("age",), np.ones(3))]),
        lambda: variance_of(PLAIN, [(("age",), np.full(4, np.nan))]),
        lambda: variance_of(PLAIN, [(("age", "work"), np.ones((4, 4)))]),
        lambda: covariance_of(PLAIN, [(("age",), np.ones(4))], [(("age", "work"), np.ones((4, 4)))]),
    ],
)
def test_misfits_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(WorkloadError):
        call()
