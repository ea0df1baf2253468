from typing import Any

import numpy as np
import pytest

from hush.core.errors import WorkloadError
from hush.models.graphical.descent import dual_averaging, natural_descent


@pytest.mark.parametrize("seed", range(6))
def test_solved_is_certain(make_case: Any, counts_at: Any, seed: int) -> None:
    """Unlike the others it stops on a bound, so the claim of `stopping` holds always."""
    case, tolerance = make_case(seed, 30.0), 0.03
    problem = case.problem()
    found = dual_averaging(problem, case.start(), tolerance=tolerance)
    least = case.loss(case.optimum())
    assert found.solved
    assert found.stats["lower_bound"] <= least + 1e-9
    assert found.value.value - least <= 0.5 * tolerance**2 * problem.loss.numbers
    assert case.distance(counts_at(problem, found.value.potentials), case.optimum()) <= tolerance
    assert found.stats["gap"] == found.stats["remaining"] == found.value.value - found.stats["lower_bound"]


@pytest.mark.parametrize("total", [1000.0, 1e5])
def test_what_is_far_is_not_called_solved(make_case: Any, total: float) -> None:
    """Losses rise and fall along the way: a rule that reads them off would stop hundreds of deviations away."""
    case = make_case(0, total)
    found = dual_averaging(case.problem(), case.start(), iterations=300)
    assert not found.solved
    assert "300 iterations were not enough; allow more, or raise tolerance=0.01" in found.status


@pytest.mark.parametrize("seed", range(3))
def test_the_rate_of_the_average(make_case: Any, seed: int) -> None:
    """L(mu_t) - L(mu*) <= 4 K N^2 log(cells) / (t (t + 1)) for the distance of entropies, from the uniform start."""
    case = make_case(seed, 100.0)
    least = case.loss(case.optimum())
    for t in (10, 100, 1000):
        problem = case.problem()
        found = dual_averaging(problem, case.start(), iterations=t, tolerance=1e-6)
        steps = found.stats["iterations"]
        bound = 4 * problem.loss.lipschitz * case.total**2 * np.log(case.domain.size()) / (steps * (steps + 1))
        assert -1e-9 <= found.stats["average"] - least <= bound


def test_the_first_step_by_hand(make_case: Any) -> None:
    """At t = 1 all of omega is nu and theta = -2 / (4 K N) grad L(nu)."""
    case = make_case(0)
    problem = case.problem()
    start = case.start(1, 1.0)
    gradient = problem.point(start).gradient.copy()
    found = dual_averaging(problem, start, iterations=1)
    expected = start - gradient / (2 * problem.loss.lipschitz * case.total)
    np.testing.assert_allclose(found.value.potentials, expected, rtol=1e-12)


def test_it_agrees_with_natural_descent(make_case: Any, counts_at: Any) -> None:
    case = make_case(2, 30.0)
    problem = case.problem()
    first = dual_averaging(problem, case.start(), tolerance=0.02)
    second = natural_descent(problem, case.start(), tolerance=0.002)
    assert case.distance(*(counts_at(problem, found.value.potentials) for found in (first, second))) < 0.03


def test_losses_that_are_not_smooth_are_refused(make_case: Any) -> None:
    case = make_case(0)
    with pytest.raises(WorkloadError, match="needs a smooth loss; use estimator='mirror'"):
        dual_averaging(case.problem("laplace"), case.start())
