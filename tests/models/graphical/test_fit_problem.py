from typing import Any

import numpy as np
import pytest

from dense_twins import DenseModel
from hush.models.graphical.fit_problem import FitProblem
from hush.privacy.measurement import Measurement

LOSSES = ["gaussian", "paper"]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_in_potentials_by_differences(make_case: Any, seed: int, loss: Any) -> None:
    """d L(mu(theta)) = (J g) . d theta with g the gradient in mu and J the derivative of the counts."""
    case = make_case(seed)
    problem = case.problem(loss)
    theta = case.start(seed, 1.0)
    point = problem.point(theta)
    slope = problem.tangent(point.gradient, np.empty(theta.size))
    h = 1e-6
    for cell in range(theta.size):
        up, down = theta.copy(), theta.copy()
        up[cell] += h
        down[cell] -= h
        change = (problem.point(up).value - problem.point(down).value) / (2 * h)
        assert slope[cell] == pytest.approx(change, rel=1e-5, abs=1e-7 * np.abs(slope).max())


def test_a_point_is_what_the_loss_says(make_case: Any, counts_at: Any) -> None:
    case = make_case(1)
    problem = case.problem()
    theta = case.start(3, 1.0)
    point = problem.point(theta)
    whole = counts_at(problem, theta)
    assert point.value == pytest.approx(case.loss(whole), rel=1e-10)
    assert point.potentials is not theta
    gradient = np.empty(theta.size)
    assert problem.loss.value_and_gradient(point.counts, gradient) == point.value
    np.testing.assert_array_equal(gradient, point.gradient)


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_is_the_tangent_at_its_best_record(make_case: Any, seed: int) -> None:
    case = make_case(seed)
    problem = case.problem()
    point = problem.point(case.start(seed, 1.0))
    records = DenseModel(problem.loss.factors).sums(point.gradient)
    expected = point.value + case.total * records.min() - point.gradient @ point.counts
    assert problem.lower_bound(point) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_is_never_above_the_least_loss(make_case: Any, seed: int) -> None:
    case = make_case(seed)
    problem = case.problem()
    least = case.loss(case.optimum())
    for scale in (0.0, 1.0, 10.0):
        assert problem.lower_bound(problem.point(case.start(seed, scale))) <= least + 1e-9


def test_the_bound_meets_an_optimum_inside(make_case: Any) -> None:
    """At a model whose own counts were measured the gradient is zero, so the bound is the loss."""
    case = make_case(1, flatness=5.0)
    problem = case.problem()
    theta = case.start(5, 1.0)
    counts = problem.point(theta).counts
    factors = problem.loss.factors
    case.measurements = [Measurement(clique, factors.table(counts, i), 2.0) for i, clique in enumerate(factors.cliques)]
    exact = case.problem()
    point = exact.point(theta)
    assert point.value == pytest.approx(0.0, abs=1e-20)
    assert exact.lower_bound(point) == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_the_first_step_is_the_best_for_a_linearised_model(make_case: Any, seed: int) -> None:
    """L(mu - s J g) is least there; the loss is a parabola along it."""
    case = make_case(seed)
    problem = case.problem()
    point = problem.point(case.start(seed, 1.0))
    step = problem.smooth_step(point)
    change = problem.tangent(point.gradient, np.empty(point.gradient.size))
    values = [problem.loss.value(point.counts - s * step * change) for s in (0.99, 1.0, 1.01)]
    assert values[1] < min(values[0], values[2])


def test_a_step_for_losses_that_are_not_smooth(make_case: Any) -> None:
    problem = make_case(0).problem("laplace")
    point = problem.point(make_case(0).start())
    assert problem.smooth_step(point) * np.abs(point.gradient).max() == pytest.approx(1.0)


def test_calls_are_counted_and_told(make_case: Any) -> None:
    case = make_case(1)
    told: list[Any] = []
    problem: FitProblem = case.problem(callback=lambda *what: told.append(what))
    point = problem.point(case.start())
    problem.tangent(point.gradient, np.empty(point.gradient.size))
    problem.report(7, point)
    iteration, value, tables = told[0]
    assert (iteration, value) == (7, point.value)
    factors = problem.loss.factors
    assert {clique: table.shape for clique, table in tables.items()} == {
        clique: factors.shape(i) for i, clique in enumerate(factors.cliques)
    }
    assert all(table.sum() == pytest.approx(case.total) for table in tables.values())
    stats = problem.stats(point, 3, 0.5)
    assert (stats["iterations"], stats["oracles"], stats["tangents"], stats["remaining"]) == (3, 1, 1, 0.5)
    assert stats["gap"] == pytest.approx(stats["value"] - stats["lower_bound"])


def test_a_callback_cannot_write_to_the_tables(make_case: Any) -> None:
    told: list[Any] = []
    problem: FitProblem = make_case(3).problem(callback=lambda _i, _v, tables: told.append(tables))
    point = problem.point(np.zeros(problem.loss.factors.size))
    problem.report(0, point)
    table = next(iter(told[0].values()))
    with pytest.raises(ValueError, match="read-only"):
        table[...] = 0.0
    assert np.shares_memory(table, point.counts)
    assert point.counts.flags.writeable
