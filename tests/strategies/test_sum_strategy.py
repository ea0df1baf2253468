"""The noise of sums: what it costs, how a budget is split, and what files keep of it."""

from fractions import Fraction

import numpy as np
import pytest

import hush
from hush.core.errors import ArchiveError, BudgetError, WorkloadError
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.privacy.sensitivity import Neighbours
from hush.strategies.strategy import NoiseKind
from hush.strategies.strategy_files import SumStrategyFile, sums_inconsistency
from hush.strategies.sum_strategy import LEAST_OF_ALL, LEAST_SHARE, SumStrategy, sums_share
from hush.workloads import Workload

SCHEMA = hush.datasets.people_schema()
WORKLOAD = Workload.upto(SCHEMA, 1) + Workload.sums(SCHEMA, "income", by=["sex"])


@pytest.mark.parametrize("kind", list(NoiseKind))
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_noise_costs_what_was_given_and_no_more(kind: NoiseKind, neighbours: Neighbours) -> None:
    cost = Fraction(1, 7)
    sums = SumStrategy.for_cost(WORKLOAD.sum_terms, kind, cost, neighbours)
    assert sums.noise is kind
    assert cost * (1 - Fraction(1, 10**9)) < sums.cost <= cost
    factor = {Neighbours.ADD_REMOVE: 1, Neighbours.REPLACE: 2}[neighbours]
    law, grid = sums.laws[0], sums.terms[0].grid
    share = cost * Fraction(4, 5)  # weights 1 and 1/4
    if kind is NoiseKind.GAUSSIAN:
        assert isinstance(law, DiscreteGaussian)
        assert float(law.variance_parameter) == pytest.approx(float((factor * grid.steps) ** 2 / (2 * share)))
    else:
        assert isinstance(law, DiscreteLaplace)
        assert float(law.scale) == pytest.approx(float(factor * grid.steps / share))


def test_errors_are_in_the_unit_of_the_values() -> None:
    sums = SumStrategy.for_cost(WORKLOAD.sum_terms, NoiseKind.GAUSSIAN, Fraction(1, 2), Neighbours.ADD_REMOVE)
    column = SCHEMA["income"]
    half = (column.high - column.low) / 2
    assert sums.std_errors[0] == pytest.approx(half / np.sqrt(2 * 0.4))


def test_sums_get_the_share_of_their_weights_and_not_too_little() -> None:
    alone = Workload.sums(SCHEMA, "income", by=["sex"])
    assert sums_share(alone) == Fraction(1.25) / (Fraction(1.25) + 3)
    many = Workload.upto(SCHEMA, 3) + alone
    assert sums_share(many) == Fraction(1.25) * LEAST_SHARE
    assert sums_share(many + Workload.sums(SCHEMA, "age", by=["region"], variance=True)) == LEAST_OF_ALL
    assert sums_share(Workload.upto(SCHEMA, 1)) == 0


@pytest.mark.parametrize("budget", [{"rho": 0.3}, {"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-9}, {"mu": 0.4}])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_plan_spends_its_budget_on_counts_and_sums_together(budget: dict, rows: int) -> None:
    stated = hush.Budget(**budget)
    plan = hush.plan(WORKLOAD, stated, max_rows_per_unit=rows)
    spent = plan.epsilon if plan.epsilon is not None else plan.rho
    limit = plan.budget.limit if plan.epsilon is None else Fraction(stated.epsilon)
    assert plan.sums is not None
    assert plan.affordable
    assert limit * (1 - Fraction(1, 10**6)) < spent <= limit
    half = plan.with_budget(
        hush.Budget(epsilon=0.5) if plan.epsilon is not None else hush.Budget(rho=plan.budget.rho / 4)
    )
    assert half.sums is not None
    assert half.affordable
    np.testing.assert_allclose(half.sums.std_errors, 2 * plan.sums.std_errors, rtol=1e-6)


def test_plans_show_the_error_of_sums_and_the_split() -> None:
    plan = hush.plan(WORKLOAD, hush.Budget(rho=0.5))
    text = plan.details()
    assert "sum(income) by sex: " in text
    assert "of noise in each" in text
    share = float(sums_share(WORKLOAD))
    assert f"{1 - share:.0%} of the budget for counts, {share:.0%} for sums" in text
    pure = hush.plan(WORKLOAD, hush.Budget(epsilon=1.0, delta=1e-9), max_rows_per_unit=3).details()
    assert f"{1 - share:.0%} of the budget for counts, {share:.0%} for sums" in pure
    adaptive = hush.plan(WORKLOAD, hush.Budget(rho=0.5), "aim", max_rows_per_unit=3).details()
    assert f"{1 - share:.0%} of the budget for counts, {share:.0%} for sums" in adaptive
    entry = plan.to_dict()["sums"][0]
    assert entry["by"] == ["sex"]
    assert entry["std_error"] == pytest.approx(plan.sums.std_errors[0])


def test_files_keep_the_noise() -> None:
    sums = SumStrategy.for_cost(WORKLOAD.sum_terms, NoiseKind.LAPLACE, Fraction(1, 3), Neighbours.ADD_REMOVE)
    stored = SumStrategyFile.of(sums)
    assert stored.build(WORKLOAD) == sums
    with pytest.raises(ArchiveError, match="do not fit"):
        stored.build(Workload.upto(SCHEMA, 1))
    assert sums_inconsistency(sums, WORKLOAD, Neighbours.ADD_REMOVE) is None
    assert "neighbours" in str(sums_inconsistency(sums, WORKLOAD, Neighbours.REPLACE))
    assert "not those" in str(sums_inconsistency(None, WORKLOAD, Neighbours.ADD_REMOVE))


def test_one_law_each_and_all_of_one_kind() -> None:
    laws = (DiscreteGaussian(Fraction(4)), DiscreteLaplace(Fraction(4)))
    with pytest.raises(BudgetError, match="one kind"):
        SumStrategy(WORKLOAD.sum_terms, laws, Neighbours.ADD_REMOVE)


def test_a_target_is_for_counts_alone() -> None:
    with pytest.raises(WorkloadError, match="own units"):
        hush.plan_for_error(WORKLOAD, 5.0)
