import itertools
from typing import Any

import numpy as np
import pytest

from hush.models.graphical.descent import mirror_descent, subgradient_descent
from hush.privacy.measurement import Measurement


@pytest.mark.parametrize("seed", range(6))
def test_it_reaches_the_exact_optimum(make_case: Any, counts_at: Any, seed: int) -> None:
    case = make_case(seed, 30.0)
    problem = case.problem()
    found = mirror_descent(problem, case.start(), tolerance=0.05)
    assert found.solved
    assert case.distance(counts_at(problem, found.value.potentials), case.optimum()) <= 0.06


@pytest.mark.parametrize("seed", range(6))
def test_the_loss_never_rises(make_case: Any, seed: int) -> None:
    values: list[float] = []
    case = make_case(seed, 100.0)
    problem = case.problem(callback=lambda iteration, value, tables: values.append(value))
    found = mirror_descent(problem, case.start(), iterations=300)
    assert len(values) == found.stats["iterations"] + 1
    assert all(later < earlier for earlier, later in itertools.pairwise(values))


def test_a_step_is_one_along_the_gradient_in_counts(make_case: Any) -> None:
    case = make_case(0)
    problem = case.problem()
    start = case.start(0, 1.0)
    point = problem.point(start)
    found = mirror_descent(problem, start, iterations=1)
    moved = found.value.potentials - start
    step = -float(moved @ point.gradient) / float(point.gradient @ point.gradient)
    assert step > 0
    np.testing.assert_allclose(moved, -step * point.gradient, rtol=1e-9)


def test_a_limit_of_iterations_is_told(make_case: Any) -> None:
    case = make_case(1)
    found = mirror_descent(case.problem(), case.start(), iterations=5)
    assert "5 iterations were not enough; allow more, or raise tolerance=0.01" in found.status


def test_subgradients_near_the_least_absolute_loss(make_case: Any) -> None:
    """O(1 / sqrt(t)) only: within a tenth of the way from the start."""
    case = make_case(1, 300.0, deviations=(2.0,))
    problem = case.problem("laplace")
    start = case.start()
    least = case.dense.least_absolute(case.measurements, case.total)
    first = problem.point(start).value
    found = subgradient_descent(problem, start, iterations=1500)
    assert least - 1e-9 <= found.value.value <= least + 0.1 * (first - least)
    assert found.stats["lower_bound"] <= least + 1e-9
    assert "above the least possible" in found.status
    assert "lipschitz=" in found.status


def test_subgradients_keep_the_best_point(make_case: Any) -> None:
    values: list[float] = []
    case = make_case(1, 100.0)
    problem = case.problem("laplace", callback=lambda iteration, value, tables: values.append(value))
    found = subgradient_descent(problem, case.start(), iterations=50)
    assert values == sorted(values, reverse=True)
    assert found.value.value == values[-1] == problem.point(found.value.potentials).value


def test_subgradients_stop_where_a_bound_says_so(make_case: Any) -> None:
    """Measured exactly, the start has a gradient of zero."""
    case = make_case(0, 90.0, cliques=[("b",)], deviations=(1.0,))
    case.measurements = [Measurement(("b",), [30.0, 30.0, 30.0], 1.0)]
    problem = case.problem("gaussian")
    found = subgradient_descent(problem, case.start())
    assert found.solved
    assert found.stats["iterations"] == 0
