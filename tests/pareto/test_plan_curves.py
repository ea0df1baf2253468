"""Exact curves of plans: they are what plans say, their crossings are where the best changes, and nothing is read."""

import json
import math

import pytest

import hush
from hush.core.errors import SearchError, WorkloadError
from hush.pareto import PlanCurves, of_plan

SCHEMA = hush.datasets.people_schema()


@pytest.fixture(scope="module")
def curves() -> PlanCurves:
    return of_plan("<=2-way", SCHEMA, epsilons=(0.01, 10), points=7)


def test_a_curve_is_what_plans_of_its_mechanism_say(curves: PlanCurves) -> None:
    for front in curves.fronts:
        for epsilon, error in front.curve():
            plan = curves.plans[front.name].with_budget(hush.Budget(epsilon=epsilon, delta=1e-9))
            assert error == plan.rmse
    fresh = hush.plan("<=2-way", hush.Budget(epsilon=10.0, delta=1e-9), "residual", schema=SCHEMA)
    assert curves.error("residual", 10.0) == pytest.approx(fresh.rmse, rel=1e-6)


def test_the_best_is_the_choice_of_auto(curves: PlanCurves) -> None:
    for epsilon in (0.01, 0.1, 10.0):
        best = curves.best_at(epsilon)
        chosen = hush.plan("<=2-way", hush.Budget(epsilon=epsilon, delta=1e-9), schema=SCHEMA)
        assert best.error <= chosen.rmse * 1.01


def test_curves_cross_where_the_best_mechanism_changes(curves: PlanCurves) -> None:
    (crossing, *_) = curves.crossings
    for factor, better, worse in ((0.9, crossing.below, crossing.above), (1.1, crossing.above, crossing.below)):
        assert curves.error(better, crossing.epsilon * factor) < curves.error(worse, crossing.epsilon * factor)
    assert curves.error(crossing.below, crossing.epsilon) == pytest.approx(crossing.error, rel=1e-3)
    assert f"up to epsilon {crossing.epsilon:.3g}, {crossing.below} is best" in " ".join(str(curves).split())


def test_the_least_epsilon_reaches_the_error_and_hardly_less_does_not(curves: PlanCurves) -> None:
    found = curves.least_epsilon(50.0)
    assert found.error <= 50.0
    assert curves.best_at(found.epsilon * 0.999).error > 50.0


def test_errors_fall_with_epsilon(curves: PlanCurves) -> None:
    for front in curves.fronts:
        errors = [error for _, error in front.curve()]
        assert len(errors) == 7
        assert errors == sorted(errors, reverse=True)


def test_pure_epsilon_leaves_laplace_noise_alone() -> None:
    curves = of_plan("1-way", SCHEMA, delta=0, epsilons=(0.1, 1), points=3)
    assert "residual" not in curves.plans
    assert dict(curves.left_out)["residual"] == "Gaussian noise needs a delta"
    assert math.isfinite(curves.best_at(1.0).error)


def test_units_of_several_rows_cost_more() -> None:
    one, three = (of_plan("1-way", SCHEMA, max_rows_per_unit=rows, points=2).best_at(1.0).error for rows in (1, 3))
    assert three > 2.5 * one


def test_named_mechanisms_have_curves_and_the_rest_have_none() -> None:
    assert list(of_plan("1-way", SCHEMA, mechanisms=["residual"], points=2).plans) == ["residual"]


def test_plain_data_and_pages_hold_every_curve(curves: PlanCurves) -> None:
    plain = json.loads(json.dumps(curves.to_dict(), allow_nan=False))
    assert set(plain["curves"]) == set(curves.plans)
    assert plain["crossings"][0]["epsilon"] == curves.crossings[0].epsilon
    page = curves.html()
    assert "It is known exactly before any data is read." in page
    assert page.count("stroke-width: 1.5") == len(curves.crossings)
    assert "RMSE (log scale)" in page


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"epsilons": (1, 0.1)}, SearchError, "the smaller first"),
        ({"epsilons": (0, 1)}, SearchError, "above 0"),
        ({"points": 1}, SearchError, "points=1"),
        ({"mechanisms": ["aim"]}, SearchError, "its error depends on the data"),
        ({"mechanisms": ["aims"]}, WorkloadError, "did you mean 'aim'"),
        ({"mechanisms": []}, SearchError, "no mechanism was named"),
        ({"mechanisms": ["residual"], "delta": 0}, SearchError, "no mechanism can be planned"),
    ],
)
def test_bad_input_is_one_line(options, kind, says: str) -> None:
    with pytest.raises(kind, match=says) as caught:
        of_plan("1-way", SCHEMA, **options)
    assert "\n" not in str(caught.value)


def test_questions_out_of_reach_say_so(curves: PlanCurves) -> None:
    with pytest.raises(SearchError, match=r"no mechanism reaches an RMSE of 1e-06 by epsilon 10; the least is"):
        curves.least_epsilon(1e-6)
    with pytest.raises(SearchError, match="epsilon=0"):
        curves.best_at(0)
    assert curves.least_epsilon(1e9).epsilon == 0.01
