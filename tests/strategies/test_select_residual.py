import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from dense_twins import powerset
from hush import queries
from hush.core.domain import Domain
from hush.core.errors import BudgetError, ConvergenceError, WorkloadError
from hush.linops import Dense, Total
from hush.privacy.sensitivity import Neighbours
from hush.strategies.noise_allocation import MaxOfSums, MaxVariance, SumOfVariances
from hush.strategies.residual_basis import ResidualBasis
from hush.strategies.residual_strategy import ResidualStrategy
from hush.strategies.select_residual import select_for_target, select_residual
from hush.strategies.term_table import TermTable
from hush.strategies.variance_forms import mean_variances
from hush.workloads import ProductTerm, Workload

DOMAIN = Domain({"a": 2, "b": 3, "c": 4, "d": 3})
WORKLOAD = Workload.marginals(DOMAIN, [("a", "b"), ("b", "c", "d"), ("a",), ()], [1.0, 2.0, 5.0, 0.1])
MIXED = WORKLOAD + Workload.product(DOMAIN, {"c": queries.prefix, "a": queries.identity})


@dataclass(frozen=True)
class SumOfPowers:
    """sum_i Var_i^q, convex for q >= 1."""

    power: float

    def value(self, variances: np.ndarray) -> float:
        return float(np.sum(variances**self.power))

    def gradient(self, variances: np.ndarray) -> np.ndarray:
        return self.power * variances ** (self.power - 1)


@dataclass(frozen=True)
class Offset:
    """A loss that is not homogeneous: 3 + sum of squares + the first variance."""

    def value(self, variances: np.ndarray) -> float:
        return float(3 + np.sum(variances**2) + variances[0])

    def gradient(self, variances: np.ndarray) -> np.ndarray:
        return 2 * variances + np.eye(len(variances))[0]


@dataclass(frozen=True)
class Wrong:
    """A loss with a broken gradient."""

    slope: np.ndarray

    def value(self, variances: np.ndarray) -> float:
        return float(variances.sum())

    def gradient(self, variances: np.ndarray) -> np.ndarray:
        return self.slope


def variances(strategy: ResidualStrategy, workload: Workload) -> np.ndarray:
    return mean_variances(TermTable.of(workload), strategy.closure, strategy.bases) @ strategy.sigma_squared


def brute_force(strategy: ResidualStrategy, workload: Workload, loss) -> float:
    """The smallest loss of (term variances), over log sigma^2 with the budget spent, by a general solver."""
    rows = mean_variances(TermTable.of(workload), strategy.closure, strategy.bases).toarray()
    privacy = strategy.privacy

    def objective(z: np.ndarray) -> float:
        s = np.exp(z) * np.sum(privacy / np.exp(z))
        return loss(rows @ s)

    return general_solver(objective, np.log(strategy.sigma_squared))


def general_solver(objective: Callable[[np.ndarray], float], start: np.ndarray) -> float:
    """The smallest value found from several starts away from the one that is to be checked."""
    options = {"maxiter": 40000, "maxfev": 40000, "xatol": 1e-10, "fatol": 1e-12, "adaptive": True}
    random = np.random.default_rng(0)
    best, z = math.inf, start + 0.3 * random.normal(size=len(start))
    for _ in range(6):
        found = optimize.minimize(objective, z, method="Nelder-Mead", options=options)
        best, z = min(best, found.fun), found.x
    return best


def test_the_budget_is_spent_and_variances_go_as_its_inverse() -> None:
    for loss in ("rmse", "maxvar", MaxOfSums([WORKLOAD])):
        one = select_residual(WORKLOAD, rho=0.5, loss=loss, tolerance=1e-8).value
        five = select_residual(WORKLOAD, rho=2.5, loss=loss, tolerance=1e-8).value
        assert one.pcost == pytest.approx(1, rel=1e-12)
        np.testing.assert_allclose(one.sigma_squared, 5 * five.sigma_squared, rtol=1e-6)


def test_the_closed_form_attains_its_total_and_no_perturbation_is_better() -> None:
    found = select_residual(MIXED, rho=0.5)
    plan = found.value
    total = plan.rmse(MIXED) ** 2 * sum(term.weight * term.queries for term in MIXED)
    assert found.stats["value"] == pytest.approx(total)
    assert found.stats["lower_bound"] == pytest.approx(total, rel=1e-8)
    random = np.random.default_rng(5)
    for _ in range(20):
        noise = plan.sigma_squared * np.exp(0.1 * random.normal(size=len(plan.closure)))
        noise *= np.sum(plan.privacy / noise)
        other = ResidualStrategy(plan.domain, plan.bases, plan.closure, noise, plan.rho)
        assert other.rmse(MIXED) > plan.rmse(MIXED)


@pytest.mark.parametrize("workload", [WORKLOAD, Workload.upto(DOMAIN, 3), Workload.kway(DOMAIN, 2)], ids=repr)
def test_the_closed_form_equals_the_svd_bound_of_the_dense_workload(workload: Workload) -> None:
    plan = select_residual(workload, rho=0.5).value
    stacked = []
    for term in workload:
        product = np.ones((1, 1))
        for name, size in zip(DOMAIN, DOMAIN.shape, strict=True):
            product = np.kron(product, np.eye(size) if name in term.clique else np.ones((1, size)))
        stacked.append(math.sqrt(term.weight) * product)
    singular = np.linalg.svd(np.vstack(stacked), compute_uv=False)
    bound = singular.sum() ** 2 / DOMAIN.size()
    total = plan.rmse(workload) ** 2 * sum(term.weight * term.queries for term in workload)
    assert total == pytest.approx(bound)
    assert plan.lower_bound(workload) == pytest.approx(bound)


def test_the_svd_bound_is_only_claimed_where_it_is_known() -> None:
    assert select_residual(MIXED, rho=0.5).value.lower_bound(MIXED) is None
    replaced = select_residual(WORKLOAD, rho=0.5, neighbours=Neighbours.REPLACE).value
    assert replaced.lower_bound(WORKLOAD) is None


@pytest.mark.parametrize("clique", powerset("abc"))
def test_a_single_marginal_gets_plain_noise(clique: tuple[str, ...]) -> None:
    workload = Workload.marginals(DOMAIN, [clique])
    for loss in ("rmse", "maxvar"):
        plan = select_residual(workload, rho=0.5, loss=loss).value
        assert plan.variance(clique) == pytest.approx(1)


@pytest.mark.parametrize("workload", [WORKLOAD, MIXED], ids=["plain", "mixed"])
def test_each_loss_is_best_at_its_own(workload: Workload) -> None:
    total = select_residual(workload, rho=0.5).value
    largest = select_residual(workload, rho=0.5, loss="maxvar", tolerance=1e-7).value
    assert largest.max_variance(workload) < total.max_variance(workload)
    assert total.rmse(workload) < largest.rmse(workload)


def test_names_order_and_labels_do_not_matter() -> None:
    turned = Domain({"d": 3, "c": 4, "b": 3, "a": 2})
    other = Workload.marginals(turned, WORKLOAD.cliques, WORKLOAD.weights)
    for loss in ("rmse", "maxvar"):
        one = select_residual(WORKLOAD, rho=0.5, loss=loss, tolerance=1e-9).value
        two = select_residual(other, rho=0.5, loss=loss, tolerance=1e-9).value
        for clique in one.closure:
            assert one.sigma_squared_of(clique) == pytest.approx(two.sigma_squared_of(clique), rel=1e-6)
            assert one.variance(clique) == pytest.approx(two.variance(clique), rel=1e-6)


@settings(max_examples=40)
@given(
    st.lists(st.integers(2, 12), min_size=2, max_size=8),
    st.floats(0, 6),
    st.integers(0, 2**32 - 1),
)
def test_wild_weights_reach_the_gap_in_a_few_hundred_steps(sizes: list[int], spread: float, seed: int) -> None:
    domain = Domain({f"a{i}": size for i, size in enumerate(sizes)})
    cliques = powerset(domain.attributes)
    random = np.random.default_rng(seed)
    weights = np.exp(spread * random.normal(size=len(cliques)))
    workload = Workload.marginals(domain, cliques, weights.tolist())
    found = select_residual(workload, rho=0.5, loss="maxvar", tolerance=1e-4, iterations=500)
    assert found.solved, found
    assert 0 <= found.stats["gap"] + 1e-12 <= 1e-4 + 1e-12
    plan = found.value
    assert plan.pcost == pytest.approx(1)
    assert plan.max_variance(workload) == pytest.approx(found.stats["value"])


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_the_lower_bound_of_the_largest_variance_holds_for_other_noise(seed: int) -> None:
    random = np.random.default_rng(seed)
    workload = Workload.marginals(DOMAIN, powerset("abcd"), np.exp(2 * random.normal(size=16)).tolist())
    found = select_residual(workload, rho=0.5, loss="maxvar", tolerance=1e-6)
    plan = found.value
    for _ in range(30):
        noise = plan.sigma_squared * np.exp(0.3 * random.normal(size=16))
        noise *= np.sum(plan.privacy / noise)
        other = ResidualStrategy(DOMAIN, plan.bases, plan.closure, noise, plan.rho)
        assert other.max_variance(workload) >= found.stats["lower_bound"] * (1 - 1e-12)


@pytest.mark.parametrize("spread", [0.5, 1.0, 3.0])
def test_wild_weights_on_a_large_domain_at_a_tight_gap(spread: float) -> None:
    sizes = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
    cliques = Workload.upto(Domain({f"a{i}": size for i, size in enumerate(sizes)}), 3).cliques
    weights = np.exp(spread * np.random.default_rng(1).normal(size=len(cliques)))
    workload = Workload.marginals(Domain({f"a{i}": size for i, size in enumerate(sizes)}), cliques, weights.tolist())
    found = select_residual(workload, rho=0.5, loss="maxvar", tolerance=1e-6)
    assert found.solved
    assert found.stats["iterations"] < 500


def test_largest_variance_against_a_general_solver() -> None:
    workload = Workload.marginals(DOMAIN, [("a", "b"), ("b", "c"), ("c",)], [1.0, 7.0, 0.2])
    found = select_residual(workload, rho=0.5, loss="maxvar", tolerance=1e-8)
    weights = np.array(workload.weights)
    assert found.stats["value"] == pytest.approx(
        brute_force(found.value, workload, lambda v: np.max(weights * v)), rel=1e-4
    )


def test_stakeholders_against_a_general_solver() -> None:
    workload = Workload.marginals(DOMAIN, [("a", "b"), ("b", "c"), ("c",)])
    alicia, bob = Workload.marginals(DOMAIN, [("a", "b"), ("b",)]), [0.0, 1.0, 4.0]
    found = select_residual(workload, rho=0.5, loss=MaxOfSums([alicia, bob]), tolerance=1e-8)
    plan = found.value

    def theirs(own: Workload) -> float:
        return plan.rmse(own) ** 2 * own.queries

    second = Workload.marginals(DOMAIN, [("b", "c"), ("c",)], [1.0, 4.0])
    sums = [theirs(alicia), plan.rmse(second) ** 2 * (12 + 4 * 4)]
    assert max(sums) == pytest.approx(found.stats["value"])

    rows = TermTable.of(workload)
    own = TermTable.of(alicia)
    first = mean_variances(own, plan.closure, plan.bases).T @ own.queries
    other = mean_variances(rows, plan.closure, plan.bases).T @ (np.array(bob) * rows.queries)

    def objective(z: np.ndarray) -> float:
        s = np.exp(z) * np.sum(plan.privacy / np.exp(z))
        return max(first @ s, other @ s)

    best = general_solver(objective, np.log(plan.sigma_squared))
    assert found.stats["lower_bound"] <= best * (1 + 1e-12)
    assert found.stats["value"] == pytest.approx(best, rel=1e-4)


def test_one_stakeholder_is_the_sum_of_variances() -> None:
    alone = select_residual(WORKLOAD, rho=0.5, loss=MaxOfSums([WORKLOAD])).value
    np.testing.assert_allclose(alone.sigma_squared, select_residual(WORKLOAD, rho=0.5).value.sigma_squared)


@pytest.mark.parametrize("power", [1.0, 1.5, 3.0])
def test_a_convex_loss_against_a_general_solver(power: float) -> None:
    workload = Workload.marginals(DOMAIN, [("a", "b"), ("b", "c"), ("c",)])
    found = select_residual(workload, rho=0.5, loss=SumOfPowers(power), tolerance=1e-6)
    assert found.solved
    plan = found.value
    assert plan.pcost == pytest.approx(1)
    assert found.stats["value"] == pytest.approx(np.sum(variances(plan, workload) ** power), rel=1e-6)
    best = brute_force(plan, workload, lambda v: np.sum(v**power))
    assert found.stats["lower_bound"] <= best * (1 + 1e-9)
    assert found.stats["value"] == pytest.approx(best, rel=1e-4)


def test_a_linear_loss_given_by_its_gradient_is_the_closed_form() -> None:
    table = TermTable.of(WORKLOAD)

    class Linear:
        def value(self, own: np.ndarray) -> float:
            return float(own @ (table.weights * table.queries))

        def gradient(self, own: np.ndarray) -> np.ndarray:
            return table.weights * table.queries

    found = select_residual(WORKLOAD, rho=0.5, loss=Linear(), tolerance=1e-8).value
    np.testing.assert_allclose(found.sigma_squared, select_residual(WORKLOAD, rho=0.5).value.sigma_squared, rtol=1e-3)
    assert found.rmse(WORKLOAD) == pytest.approx(select_residual(WORKLOAD, rho=0.5).value.rmse(WORKLOAD), rel=1e-8)


def test_a_convex_loss_at_scale_is_certified() -> None:
    workload = Workload.upto(Domain({f"a{i}": 3 + i % 5 for i in range(20)}), 3)
    found = select_residual(workload, rho=0.5, loss=SumOfPowers(2.0))
    assert found.solved
    assert found.stats["iterations"] < 500


@pytest.mark.parametrize(
    ("loss", "target"),
    [("rmse", 3.0), ("rmse", 0.01), ("maxvar", 2.0), (MaxOfSums([WORKLOAD, [1.0, 0.0, 0.0, 0.0]]), 100.0)],
)
def test_the_budget_for_a_target_is_the_inverse_of_planning(loss: object, target: float) -> None:
    found = select_for_target(WORKLOAD, target=target, loss=loss, tolerance=1e-6)
    plan = found.value
    reached = {
        "rmse": lambda: plan.rmse(WORKLOAD),
        "maxvar": lambda: math.sqrt(plan.max_variance(WORKLOAD)),
    }.get(str(loss), lambda: found.stats["value"])()
    assert reached <= target
    assert reached == pytest.approx(target, rel=1e-5)
    assert float(plan.rho) >= found.stats["rho_lower_bound"] >= float(plan.rho) * (1 - 1e-5)
    again = select_residual(WORKLOAD, rho=plan.rho, loss=loss, tolerance=1e-6).value
    np.testing.assert_allclose(again.sigma_squared, plan.sigma_squared, rtol=1e-6)


def test_the_budget_for_a_target_of_any_loss() -> None:
    found = select_for_target(WORKLOAD, target=10.0, loss=Offset(), tolerance=1e-5)
    assert 10 * (1 - 1e-3) < found.stats["value"] <= 10
    assert float(found.value.rho) >= found.stats["rho_lower_bound"] >= float(found.value.rho) * (1 - 1e-3)
    with pytest.raises(WorkloadError, match="no budget reaches"):
        select_for_target(WORKLOAD, target=2.0, loss=Offset())


def test_replacing_rows_costs_what_its_coefficients_say() -> None:
    add = select_residual(WORKLOAD, rho=0.5).value
    replace = select_residual(WORKLOAD, rho=0.5, neighbours=Neighbours.REPLACE).value
    assert replace.pcost == pytest.approx(1)
    assert add.rmse(WORKLOAD) < replace.rmse(WORKLOAD) < 2 * add.rmse(WORKLOAD)


def test_sets_that_the_loss_does_not_need_are_measured_all_the_same() -> None:
    """Differences of levels need no total, and totals no levels; both stay in the closure at next to no cost."""
    contrasts = Workload(DOMAIN, [ProductTerm(("b",), (Dense([[1.0, -1.0, 0.0]]),)), ProductTerm(("a",), (Total(2),))])
    for loss in ("rmse", "maxvar"):
        found = select_residual(contrasts, rho=0.5, loss=loss)
        assert found.solved
        plan = found.value
        assert plan.closure.cliques == ((), ("a",), ("b",))
        assert plan.variance(("a",)) > 1e3
        assert plan.pcost == pytest.approx(1)


def test_a_basis_may_be_given() -> None:
    plan = select_residual(MIXED, rho=0.5, bases={"c": ResidualBasis.plain(4)}).value
    assert plan.plain
    assert not select_residual(MIXED, rho=0.5).value.plain
    assert select_residual(MIXED, rho=0.5).value.rmse(MIXED) < plan.rmse(MIXED)


def test_prefix_sums_of_a_large_attribute_gain_much_from_their_basis() -> None:
    domain = Domain({"age": 100, "sex": 2})
    workload = Workload.product(domain, {"age": queries.prefix, "sex": queries.identity})
    designed = select_residual(workload, rho=0.5).value
    plain = select_residual(workload, rho=0.5, bases={"age": ResidualBasis.plain(100)}).value
    assert designed.rmse(workload) < 0.6 * plain.rmse(workload)
    with pytest.raises(WorkloadError, match="use query_variances"):
        designed.variance(("age",))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rho": 0.0}, BudgetError, "rho=0.0"),
        ({"rho": math.inf}, BudgetError, "rho=inf"),
        ({"rho": 0.5, "loss": "best"}, WorkloadError, "'rmse', 'maxvar' or a loss object"),
        ({"rho": 0.5, "loss": 3}, WorkloadError, "an object with value and gradient"),
        ({"rho": 0.5, "loss": Wrong(np.ones(2))}, WorkloadError, "one entry per term"),
        ({"rho": 0.5, "loss": Wrong(-np.ones(4))}, WorkloadError, "falls when a variance rises"),
        ({"rho": 0.5, "loss": Wrong(np.full(4, np.nan))}, WorkloadError, "not a finite number"),
        ({"rho": 0.5, "loss": MaxOfSums([[1.0, 2.0]])}, WorkloadError, "gives 2 weights for 4 terms"),
        ({"rho": 0.5, "loss": MaxOfSums([Workload.kway(DOMAIN, 4)])}, WorkloadError, "not within the plan"),
        ({"rho": 0.5, "loss": MaxOfSums([Workload.kway(Domain({"a": 2}), 1)])}, WorkloadError, "another domain"),
        ({"rho": 0.5, "bases": {"a": ResidualBasis.plain(3)}}, WorkloadError, "'a' has 2 levels, its basis 3"),
    ],
)
def test_bad_requests_are_refused(options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        select_residual(WORKLOAD, **options)


@pytest.mark.parametrize("own", [[], [[]], [[-1.0]], [[0.0, 0.0]], [[math.nan]]])
def test_bad_stakeholders_are_refused(own: list) -> None:
    with pytest.raises(WorkloadError, match="MaxOfSums"):
        MaxOfSums(own)


@pytest.mark.parametrize("target", [0.0, -1.0, math.inf, math.nan])
def test_bad_targets_are_refused(target: float) -> None:
    with pytest.raises(WorkloadError, match="target="):
        select_for_target(WORKLOAD, target=target)


def test_a_gap_that_is_not_reached_is_said_with_its_remedy() -> None:
    for loss in ("maxvar", SumOfPowers(4.0)):
        found = select_residual(WORKLOAD, rho=0.5, loss=loss, tolerance=1e-13, iterations=3)
        assert not found.solved
        assert found.stats["gap"] > 1e-13
        assert found.value.pcost == pytest.approx(1)  # still within the budget
        with pytest.raises(ConvergenceError, match="raise iterations or the tolerance"):
            found.checked()


def test_a_strategy_that_contradicts_itself_is_refused() -> None:
    plan = select_residual(WORKLOAD, rho=0.5).value
    good = {"domain": DOMAIN, "bases": plan.bases, "closure": plan.closure, "sigma_squared": plan.sigma_squared}
    assert ResidualStrategy(**good, rho=Fraction(1, 2)).pcost == pytest.approx(1)
    with pytest.raises(BudgetError, match="costs rho=0.5, above the 0.25"):
        ResidualStrategy(**good, rho=Fraction(1, 4))
    with pytest.raises(WorkloadError, match="one per set"):
        ResidualStrategy(**good | {"sigma_squared": plan.sigma_squared[1:]}, rho=Fraction(1, 2))
    with pytest.raises(WorkloadError, match="one per set"):
        ResidualStrategy(**good | {"sigma_squared": -plan.sigma_squared}, rho=Fraction(1, 2))
    with pytest.raises(WorkloadError, match="belong to its domain"):
        ResidualStrategy(**good | {"bases": plan.bases[1:]}, rho=Fraction(1, 2))
    with pytest.raises(WorkloadError, match="needs a basis"):
        ResidualStrategy(**good | {"bases": (None, *plan.bases[1:])}, rho=Fraction(1, 2))
    assert SumOfVariances() != MaxVariance()
