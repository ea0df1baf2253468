import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Workload
from hush.audit.membership import MembershipAudit
from hush.core.errors import BudgetError, DataError, QueryError, SearchError, WorkloadError
from hush.evaluation import compare, future_study
from hush.mechanisms import AllZero
from hush.mechanisms.auto import plan_candidates
from hush.pareto.plan_curves import of_plan
from hush.privacy.ledger import Ledger
from hush.report import report_html
from hush.testing import TinyTable, check_replay, neighbours_of

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
TABLE: Any = TinyTable(DOMAIN, [(0, 0, 0), (1, 2, 1), (1, 2, 0), (0, 1, 1)] * 10)
WORKLOAD = Workload.thresholds(DOMAIN, 3, 2) + Workload.upto(DOMAIN, 2)
BUDGETS = (Budget(rho=0.5), Budget(epsilon=1.0), Budget(epsilon=1.0, delta=1e-9), Budget(mu=1.0))


def released(budget: Budget = BUDGETS[0], **options: Any) -> hush.Release:
    return hush.plan(WORKLOAD, budget, mechanism="all-zero").release(TABLE, **options)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_nothing_is_read_and_nothing_is_charged_whatever_the_budget(budget: Budget, tmp_path: Path) -> None:
    table: Any = TinyTable(DOMAIN, TABLE.rows)
    plan = hush.plan(WORKLOAD, budget, mechanism="all-zero")
    assert plan.rho == plan.epsilon == 0
    assert plan.affordable
    assert plan.rmse is None
    release = plan.release(table, ledger=tmp_path / "b.db")
    assert table.reads == 0
    book = Ledger.open(tmp_path / "b.db")
    assert book.remaining == budget.limit
    assert book.events() == []
    assert release.statement.spent == (0.0, 0.0)
    assert release.statement.ledger_head == book.head
    assert "nothing was measured" in str(release.statement)
    assert "Gaussian" not in str(release.statement)


def test_a_ledger_with_nothing_left_is_enough(tmp_path: Path) -> None:
    hush.plan(WORKLOAD, Budget(rho=0.5), mechanism="residual").release(TABLE, ledger=tmp_path / "b.db")
    with pytest.raises(BudgetError):
        hush.plan(WORKLOAD, Budget(rho=0.5), mechanism="independent").release(TABLE, ledger=tmp_path / "b.db")
    assert released(ledger=tmp_path / "b.db").complete


def test_every_answer_is_zero_without_an_interval() -> None:
    release = released()
    answers = [
        release.marginal("a", "b"),
        release.threshold("a", "b", "c", r=2),
        release.term(0),
        release.term(1),
        release.sql("SELECT COUNT(*) FROM t WHERE (a = 1) + (b = 2) + (c = 0) >= 2"),
        release.sql("SELECT b, COUNT(*) FROM t GROUP BY b"),
    ]
    for each in answers:
        assert not each.estimate.any()
        assert np.isnan([*each.std_error, *each.lower, *each.upper]).all()
        assert (each.basis == "none").all()
        assert any("nothing was measured" in note for note in each.notes)
    assert np.isnan(release.sql("SELECT AVG(a) FROM t").estimate).all()
    for kind in ("unbiased", "nonnegative", "whole"):
        assert not any(table.any() for table in release.tables(kind=kind).values())


def test_rows_models_bounds_and_pages_are_refused() -> None:
    release = released()
    asks: list[Any] = [
        release.model,
        release.synthesize,
        lambda: release.nonnegative_term(1, method="clip"),
        lambda: report_html(release),
    ]
    for ask in asks:
        with pytest.raises(QueryError, match="nothing was measured"):
            ask()
    with pytest.raises(QueryError, match="error bounds are for releases that answer from a model"):
        release.error_bounds()


def test_sums_of_values_and_another_domain_are_refused() -> None:
    with pytest.raises(WorkloadError, match="sums of values"):
        hush.plan("sum(income) by sex", BUDGETS[0], mechanism="all-zero", schema=hush.datasets.people_schema())
    other: Any = TinyTable(Domain({"a": 2, "b": 4, "c": 2}), [])
    with pytest.raises(DataError, match="'b' has 3 levels"):
        hush.plan(WORKLOAD, BUDGETS[0], mechanism="all-zero").release(other)


def test_releases_of_neighbours_are_the_same_to_the_last_byte(tmp_path: Path) -> None:
    def run(table: Any) -> object:
        release = hush.plan(WORKLOAD, BUDGETS[0], mechanism="all-zero").release(table)
        release.save(tmp_path / "x.hush", overwrite=True)
        return tmp_path / "x.hush", str(release.marginal("a", "b")), str(release.statement)

    few: Any = TinyTable(DOMAIN, TABLE.rows[:3])
    assert check_replay(run, few, list(neighbours_of(few))[::3], measures=False) > 2


def test_comparisons_have_the_error_of_zeros() -> None:
    release = released()
    comparison = compare(TABLE, release, Workload.kway(DOMAIN, 2))
    assert comparison.error == comparison.errors.share_error == pytest.approx(1.0)
    assert comparison.synthetic_rows == 0
    assert set(comparison.columns.values()) == {0.5}
    assert "0 synthetic" in str(comparison)
    json.dumps(comparison.to_dict(), allow_nan=False)
    table = hush.read(hush.datasets.people(300, seed=1), hush.datasets.people_schema())
    study = future_study(table, "1-of-2", Budget(rho=0.5), mechanism="all-zero", drifts=(0, 1), draws=8, runs=2)
    for row in study.rows:
        assert row.error.mean == pytest.approx(row.zeros)


def test_the_plan_says_that_it_measures_nothing() -> None:
    plan = hush.plan(WORKLOAD, BUDGETS[1], mechanism="all-zero")
    assert "spends nothing" in plan.details()
    assert "its error is the true count" in str(plan)
    facts = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    assert facts["spends"] == {"rho": 0.0, "epsilon": 0.0}
    assert facts["rmse"] is None
    assert plan.with_budget(BUDGETS[0]).rho == 0
    plan.check_useful(rows=1)


def test_a_plan_without_a_strategy_is_no_plan_of_a_mechanism_that_measures(tmp_path: Path) -> None:
    plan = hush.plan(WORKLOAD, BUDGETS[0], mechanism="residual")
    plan.strategy = None
    plan.save(tmp_path / "x.hush")
    with pytest.raises(hush.core.errors.ArchiveError, match="does not go with what it measures"):
        hush.load(tmp_path / "x.hush")


def test_auto_never_takes_it_and_audits_have_nothing_to_attack() -> None:
    for budget in BUDGETS:
        assert AllZero.name not in {entry.name for entry in hush.plan(WORKLOAD, budget).ranking}
        candidates = plan_candidates(WORKLOAD, budget, "rmse", thorough=True)
        assert not any(isinstance(candidate.settings, AllZero) for candidate in candidates)
    with pytest.raises(BudgetError, match="measures nothing"):
        MembershipAudit(AllZero())
    with pytest.raises(SearchError, match="depends on the data"):
        of_plan(WORKLOAD, mechanisms=["all-zero"])
