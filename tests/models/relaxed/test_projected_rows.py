"""Rows fitted as RAP was published, against slow twins."""

import numpy as np
import pytest

from hush import Domain, Measurement
from hush.core.arrays import simplex_projection
from hush.core.errors import WorkloadError
from hush.models.relaxed._kernels import project_blocks
from hush.models.relaxed.projected_rows import distance_and_slope, distance_power, fit_projected
from hush.workloads.threshold_term import TargetQuery

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})


def answer(clique: tuple[str, ...], target: tuple[int, ...], value: float, at_least: int | None = None) -> Measurement:
    query = TargetQuery(clique, DOMAIN.sizes(clique), target, len(clique) if at_least is None else at_least)
    return Measurement(clique, [value], 1.0, query=query.operator)


NOISY = [
    answer(("a", "b"), (0, 1), 30.0),
    answer(("b", "c"), (1, 3), 55.0),
    answer(("a", "b", "c"), (2, 0, 1), 80.0, at_least=1),
    answer(("a", "c"), (1, 2), -4.0),
]


def test_blocks_are_projected_onto_the_simplex() -> None:
    random = np.random.Generator(np.random.PCG64(2))
    levels = random.normal(size=(9, 40)) * 3
    levels[0, 0] = levels[1, 0]  # a tie
    expected = levels.copy()
    offsets = np.array([0, 3, 5, 9])
    for start, stop in ((0, 3), (3, 5), (5, 9)):
        for row in range(40):
            expected[start:stop, row] = simplex_projection(levels[start:stop, row])
    project_blocks(levels, offsets)
    np.testing.assert_allclose(levels, expected, atol=1e-12)
    before = levels.copy()
    project_blocks(levels, offsets)
    np.testing.assert_allclose(levels, before, atol=1e-12)


@pytest.mark.parametrize("distance", ["l1", "l2", "l3", "l5", "linf"])
def test_slopes_are_those_of_the_distance(distance: str) -> None:
    power = distance_power(distance)
    differences = np.array([0.3, -0.7, 0.05, -0.2])
    value, slope = distance_and_slope(differences, power)
    for index in range(4):
        moved = differences.copy()
        moved[index] += 1e-7
        assert (distance_and_slope(moved, power)[0] - value) / 1e-7 == pytest.approx(slope[index], abs=1e-5)


@pytest.mark.parametrize("distance", ["l2", "l5", "linf"])
def test_rows_fit_answers_that_agree_and_stay_distributions(distance: str) -> None:
    fitted = fit_projected(DOMAIN, NOISY, total=100.0, rows=60, distance=distance).value
    assert fitted.counts(("a", "b"))[0, 1] == pytest.approx(30, abs=1.5)
    assert fitted.counts(("b", "c"))[1, 3] == pytest.approx(55, abs=1.5)
    assert fitted.counts(("a", "c"))[1, 2] == pytest.approx(0, abs=1.5)  # -4 is cut to 0
    assert fitted.rows.min() >= 0
    for name in DOMAIN:
        np.testing.assert_allclose(fitted.block(name).sum(axis=1), 1.0)


def test_the_trace_falls_and_a_start_is_continued() -> None:
    seen: list[tuple[int, float]] = []
    first = fit_projected(DOMAIN, NOISY, total=100.0, rows=40, trace=lambda *step: seen.append(step))
    assert [number for number, _ in seen] == list(range(1, len(seen) + 1))
    assert min(value for _, value in seen) == first.stats["value"] < seen[0][1] / 10
    again = fit_projected(DOMAIN, NOISY, total=100.0, start=first.value)
    assert again.stats["value"] <= first.stats["value"]
    same = fit_projected(DOMAIN, NOISY, total=100.0, rows=40)
    np.testing.assert_array_equal(same.value.rows, first.value.rows)


@pytest.mark.parametrize("distance", ["", "l0", "l", "L2", "l2.5", 2])
def test_other_words_are_no_distance(distance: str) -> None:
    with pytest.raises(WorkloadError, match="expected 'l2', 'linf'"):
        distance_power(distance)
