"""Budgets that are too small for an expected number of rows, and what would be enough."""

import math
import re
import warnings

import numpy as np
import pytest

import hush
from hush.core.errors import BudgetError
from hush.mechanisms.plan_table import plan_text
from hush.testing.tiny import TinyTable

DOMAIN = hush.Domain({"age": 50, "sex": 2, "region": 8})
PAIRS = hush.Workload.kway(DOMAIN, 2)


def best_error(rho: float, rows: int, max_rows: int = 1) -> float:
    """sqrt(2/pi) sigma mean(n_i) / N with sigma^2 = d m^2 / (2 rho)."""
    return math.sqrt(2 / math.pi) * max_rows * math.sqrt(3 / (2 * rho)) * 20 / rows


@pytest.mark.parametrize("max_rows", [1, 3])
def test_adaptive_budgets_are_judged_by_one_way_tables_that_had_all_of_it(max_rows: int) -> None:
    rho = 0.01
    rows = best_error(rho, 1, max_rows)  # at so many rows the error is 100 % of the average cell
    plan = hush.plan(PAIRS, hush.Budget(rho=rho), mechanism="aim", max_rows_per_unit=max_rows)
    plan.check_useful(math.ceil(rows))
    with pytest.raises(BudgetError, match=r"rho=0\.01 is too small .* one-way tables"):
        plan.check_useful(math.floor(rows / 1.01))


def test_the_message_states_a_budget_that_is_enough_and_hardly_more() -> None:
    plan = hush.plan(PAIRS, hush.Budget(epsilon=0.01, delta=1e-9), mechanism="aim")
    with pytest.raises(BudgetError) as refused:
        plan.check_useful(1000)
    share = int(re.search(r"would be ([\d,]+)%", str(refused.value))[1].replace(",", ""))  # type: ignore[index]
    assert share == round(100 * best_error(float(plan.rho), 1000))
    enough = float(re.search(r"at least epsilon=([\d.]+) at delta=1e-09", str(refused.value))[1])  # type: ignore[index]
    plan.with_budget(hush.Budget(epsilon=enough * 1.001, delta=1e-9)).check_useful(1000)
    with pytest.raises(BudgetError):
        plan.with_budget(hush.Budget(epsilon=enough * 0.99, delta=1e-9)).check_useful(1000)


@pytest.mark.parametrize("budget", [hush.Budget(rho=1e-5), hush.Budget(epsilon=1e-3)])
def test_plans_with_known_errors_are_judged_by_their_best_table(budget: hush.Budget) -> None:
    plan = hush.plan(hush.Workload.upto(DOMAIN, 2), budget)
    errors = [
        math.sqrt(2 / math.pi * variance) * term.queries
        for term, variance in zip(plan.workload, plan.term_variances, strict=True)
        if term.clique
    ]
    plan.check_useful(math.ceil(min(errors)))
    with pytest.raises(BudgetError, match=r"too small .* at least (rho|epsilon)="):
        plan.check_useful(math.floor(0.99 * min(errors)))


def test_sums_other_than_counts_are_not_judged() -> None:
    sums = hush.Workload.product(DOMAIN, {"age": hush.queries.prefix})
    hush.plan(sums, hush.Budget(rho=1e-9)).check_useful(1)


@pytest.mark.parametrize("rows", [0, -1, True, 2.5, "many"])
def test_rows_are_a_number_of_rows(rows: object) -> None:
    with pytest.raises(BudgetError, match="expected a whole number of at least 1, the number of rows"):
        hush.plan(PAIRS, hush.Budget(rho=1.0), mechanism="aim").check_useful(rows)  # type: ignore[arg-type]


def test_a_delta_above_one_over_the_rows_is_a_warning_where_rows_are_given() -> None:
    loose = hush.plan(PAIRS, hush.Budget(epsilon=3.0, delta=1e-4))
    with pytest.warns(UserWarning, match="delta=0.0001 is above 1/20,000: showing a person at random would be as"):
        loose.check_useful(20_000)
    loose.check_useful(10_000)  # 1e-4 is not above one over it; a warning would fail the test
    assert "Warning" not in str(loose)
    assert "delta=0.0001 is above 1/20,000" in plan_text(loose, rows=20_000)
    assert "Warning" not in plan_text(loose, rows=10_000)
    assert "delta=0.01 is the chance of an arbitrary leak" in str(loose.with_budget(hush.Budget(epsilon=3, delta=0.01)))
    hush.plan(PAIRS, hush.Budget(rho=1.0)).check_useful(10**6)


def test_a_release_warns_of_a_delta_by_its_noisy_number_of_rows() -> None:
    """Of 100 rows, and delta on either side of 1/100: what is released decides, not what is private.

    The noise of the total has a standard deviation above 10, so that 30 runs miss a verdict with a chance below 1e-7.
    """
    table = TinyTable(DOMAIN, [(row % 50, 0, 0) for row in range(100)])
    verdicts = set()
    for delta in (1 / 100.5, 1 / 99.5):
        plan = hush.plan(hush.Workload.kway(DOMAIN, 1), hush.Budget(epsilon=0.2, delta=delta), "residual")
        assert plan.variance(()) > 100
        for _ in range(30):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                noisy = float(plan.release(table).counts(()))
            told = [str(warning.message) for warning in caught]
            rule = f"delta={delta!r} is above 1/{round(noisy):,}: showing a person at random would be as private; use "
            rule += "far less, such as 1e-9; this release estimates that many rows"
            assert told == [rule] * (noisy * delta > 1)
            verdicts.add((delta, len(told)))
    assert len(verdicts) == 4


def test_where_warnings_are_errors_a_release_that_is_paid_for_is_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    table = TinyTable(DOMAIN, [(0, 0, 0)] * 1000)
    plan = hush.plan(hush.Workload.kway(DOMAIN, 1), hush.Budget(epsilon=20.0, delta=0.1), "residual")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.showwarning = lambda message, *_: print(message)
        release = plan.release(table)
    assert float(release.counts(())) > 100
    assert "this release estimates that many rows" in capsys.readouterr().out


def test_a_release_that_does_not_know_its_number_of_rows_is_not_lost() -> None:
    schema = hush.datasets.people_schema()
    steps = hush.queries.matrix(np.diff(np.eye(schema.domain["education"]), axis=0))  # tells nothing of the total
    workload = hush.Workload.product(schema.domain, {"education": steps})
    table = hush.read(hush.datasets.people(300, seed=4), schema)
    release = hush.plan(workload, hush.Budget(epsilon=1.0, delta=1e-9), mechanism="direct").release(table)
    assert not release.estimates.covers(())
    assert np.isfinite(release.term(0).estimate).all()
