"""auto: what it tries, what it leaves out and why, and that the quick choice is near the thorough one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import hush
from hush.cli.main import main
from hush.core.errors import BudgetError, WorkloadError
from hush.mechanisms import auto
from hush.mechanisms.plan import Plan
from hush.privacy.ledger import Ledger
from hush.strategies.strategy import NoiseKind
from hush.testing import TinyTable

BUDGET = hush.Budget(epsilon=1.0, delta=1e-9)
FEW = hush.Domain({"a": 5, "b": 3})


def ages(levels: int = 32) -> hush.Workload:
    domain = hush.Domain({"age": levels, "sex": 2})
    return hush.Workload.product(domain, {"age": hush.queries.prefix, "sex": hush.queries.identity})


def noise_of(plan: Plan) -> NoiseKind:
    assert plan.strategy is not None
    return plan.strategy.noise


def note(plan: Plan, name: str) -> str:
    (entry,) = [entry for entry in plan.ranking if entry.name == name]
    assert entry.rmse is None
    return entry.reason


def test_laplace_noise_is_taken_where_it_is_more_accurate() -> None:
    plan = hush.plan(hush.Workload.kway(FEW, 1), BUDGET)
    assert noise_of(plan) is NoiseKind.LAPLACE
    assert plan.budget == BUDGET  # what was stated; a new ledger gets it as its cap
    assert plan.epsilon is not None
    assert plan.epsilon <= 1
    assert plan.within(BUDGET)
    assert plan.affordable
    other = plan.alternative
    assert other is not None
    assert noise_of(other) is NoiseKind.GAUSSIAN
    residual = hush.plan(hush.Workload.kway(FEW, 1), BUDGET, "residual")
    assert other.rmse == residual.rmse
    assert plan.rmse is not None
    assert residual.rmse is not None
    assert plan.rmse < residual.rmse / 2


def test_gaussian_noise_is_taken_where_it_is_more_accurate() -> None:
    domain = hush.Domain({f"c{i}": 6 for i in range(10)})
    plan = hush.plan(hush.Workload.kway(domain, 2), BUDGET)
    assert noise_of(plan) is NoiseKind.GAUSSIAN
    assert plan.alternative is not None
    assert noise_of(plan.alternative) is NoiseKind.LAPLACE


@pytest.mark.parametrize("budget", [hush.Budget(rho=0.01), hush.Budget(mu=0.1)])
def test_laplace_noise_is_not_taken_under_a_budget_without_epsilon(budget: hush.Budget) -> None:
    plan = hush.plan(hush.Workload.kway(FEW, 1), budget)
    assert noise_of(plan) is NoiseKind.GAUSSIAN
    assert plan.alternative is None


def test_the_plan_shows_both_choices_with_their_commands() -> None:
    text = " ".join(hush.plan(hush.Workload.kway(FEW, 1), BUDGET).details().split())
    assert "leave delta out to state that" in text
    assert "take Gaussian noise, RMSE" in text
    assert "--mechanism residual, or mechanism='residual'" in text
    gaussian = " ".join(
        hush.plan("2-way", BUDGET, schema=hush.Domain({f"c{i}": 6 for i in range(6)})).details().split()
    )
    assert ("Laplace noise would keep the stronger promise" in gaussian) or ("take Gaussian noise" in gaussian)


def test_a_release_of_the_pure_plan_is_charged_to_a_ledger_of_its_budget(tmp_path: Path) -> None:
    table = TinyTable(FEW, [(0, 0), (1, 1)])
    plan = hush.plan(hush.Workload.kway(FEW, 1), BUDGET)
    release = plan.release(table, ledger=tmp_path / "new.db")
    assert release.statement.budget == BUDGET
    assert release.statement.spent == (pytest.approx(1.0), 0.0)
    ledger = Ledger.open(tmp_path / "new.db")
    assert ledger.budget == BUDGET
    assert ledger.pure_remaining is not None
    assert 0 <= ledger.pure_remaining < 1e-6
    release.save(tmp_path / "pure.hush")
    assert hush.load(tmp_path / "pure.hush").statement == release.statement
    plan.save(tmp_path / "pure.plan")
    assert hush.load(tmp_path / "pure.plan").budget == BUDGET
    with pytest.raises(BudgetError, match="pure epsilon"):
        plan.release(table, ledger=ledger)


def test_a_plan_knows_whether_a_ledger_can_pay(tmp_path: Path) -> None:
    table = TinyTable(FEW, [(0, 0), (1, 1)])
    ledger = Ledger(tmp_path / "budget.db", cap=hush.Budget(epsilon=1.2, delta=1e-9))
    plan = hush.plan(hush.Workload.kway(FEW, 1), BUDGET)
    assert plan.alternative is not None
    assert plan.payable(ledger)
    assert plan.alternative.payable(ledger)
    hush.plan(hush.Workload.kway(FEW, 1), hush.Budget(epsilon=0.5, delta=1e-9), "residual").release(
        table, ledger=ledger
    )
    before = ledger.head
    assert not plan.payable(ledger)
    assert plan.alternative.payable(ledger)
    assert ledger.head == before


def test_hush_release_takes_the_noise_that_the_ledger_can_pay(tmp_path: Path) -> None:
    schema, data, ledger = tmp_path / "s.toml", tmp_path / "d.csv", tmp_path / "budget.db"
    hush.Schema.from_domain(FEW).save(schema)
    data.write_text("a,b\n0,1\n3,2\n", encoding="utf-8")
    Ledger(ledger, cap=hush.Budget(epsilon=1.2, delta=1e-9))
    words = ["release", str(data), "--schema", str(schema), "--workload", "1-way", "--ledger", str(ledger)]
    first = [*words, "--epsilon", "0.5", "--delta", "1e-9", "--mechanism", "residual", "-o", str(tmp_path / "a.hush")]
    second = [*words, "--epsilon", "1", "--delta", "1e-9", "-o", str(tmp_path / "b.hush")]
    assert CliRunner().invoke(main, first).exit_code == 0
    result = CliRunner().invoke(main, second)
    assert result.exit_code == 0, result.output
    assert "has no room left for the plan of least error" in result.output
    assert "takes Gaussian noise instead" in result.output
    assert hush.load(tmp_path / "b.hush").mechanism == "residual"


def test_a_search_that_cannot_win_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = hush.plan(ages(), BUDGET)
    assert noise_of(quick) is NoiseKind.LAPLACE
    assert note(quick, "matrix").startswith("no better; --thorough")  # even the bound of Gaussian noise is above
    assert note(quick, "hdmm").startswith("no better; --thorough")
    assert "Skipped   hdmm: no better" in quick.details()
    rho = hush.Budget(rho=BUDGET.rho)
    monkeypatch.setattr(auto, "LEAST_SEARCH_GAIN", 0.5)
    assert "% better" in note(hush.plan(ages(), rho), "matrix")
    thorough = hush.plan(ages(), BUDGET, thorough=True)
    assert {entry.name for entry in thorough.ranking if entry.rmse is not None} >= {"matrix", "hdmm", "residual"}
    assert not any(entry.skipped for entry in thorough.ranking)


def test_a_bound_that_may_be_beaten_starts_the_search() -> None:
    plan = hush.plan(ages(), hush.Budget(rho=BUDGET.rho))
    assert {"residual", "matrix"} <= {entry.name for entry in plan.ranking if entry.rmse is not None}
    assert plan.mechanism in ("matrix", "hdmm")


def test_long_searches_wait_for_thorough() -> None:
    plan = hush.plan(ages(200), BUDGET)
    reason = note(plan, "hdmm with Laplace noise")
    assert reason.startswith("queries other than levels on a column of 200 levels take long; --thorough")
    assert note(plan, "matrix with Laplace noise").startswith("400 cells take long; --thorough")


def test_thorough_is_for_auto() -> None:
    with pytest.raises(
        WorkloadError, match="thorough=True goes with mechanism='auto', which compares several, not 're"
    ):
        hush.plan(ages(), BUDGET, "residual", thorough=True)
    with pytest.raises(WorkloadError, match="thorough=1: expected True or False"):
        auto.Auto(thorough=1).plan(ages(), BUDGET)  # type: ignore[arg-type]


def test_progress_grows_to_its_end() -> None:
    shares: list[float] = []
    hush.plan(ages(), BUDGET, progress=shares.append)
    assert shares == sorted(shares)
    assert len(set(shares)) == len(shares) >= 5
    assert shares[0] == 0
    assert shares[-1] < 1


CASES: list[tuple[str, dict[str, int], str]] = [
    ("1-way", {"a": 2, "b": 10, "c": 7}, "<=1-way"),
    ("pairs", {"a": 2, "b": 3, "c": 4, "d": 5, "e": 20}, "<=2-way"),
    ("triples", {"a": 2, "b": 3, "c": 4, "d": 5}, "3-way"),
    ("large", {"a": 10_000, "b": 4, "c": 2}, "<=2-way"),
]


@pytest.mark.parametrize(("domain", "text"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@pytest.mark.parametrize("budget", [BUDGET, hush.Budget(epsilon=1.0)], ids=["delta", "pure"])
def test_the_quick_choice_is_near_the_thorough_one(domain: dict[str, int], text: str, budget: hush.Budget) -> None:
    options: dict[str, Any] = {"schema": hush.Domain(domain)}
    quick, thorough = (hush.plan(text, budget, thorough=all_of_it, **options) for all_of_it in (False, True))
    assert quick.rmse is not None
    assert thorough.rmse is not None
    assert quick.rmse <= thorough.rmse * 1.05


def test_the_quick_choice_is_near_the_thorough_one_for_prefix_sums() -> None:
    quick, thorough = hush.plan(ages(), BUDGET), hush.plan(ages(), BUDGET, thorough=True)
    assert quick.rmse is not None
    assert thorough.rmse is not None
    assert quick.rmse <= thorough.rmse * 1.05


def test_hush_plan_has_the_flag(tmp_path: Path) -> None:
    schema = tmp_path / "s.toml"
    hush.Schema.from_domain(hush.Domain({"a": 20, "b": 13})).save(schema)
    words = ["plan", str(schema), "--workload", "1-way", "--epsilon", "1", "--details"]
    quick = CliRunner().invoke(main, words)
    assert quick.exit_code == 0, quick.output
    assert "260 cells take long; --thorough" in " ".join(quick.output.split())
    thorough = CliRunner().invoke(main, [*words, "--thorough"])
    assert thorough.exit_code == 0, thorough.output
    assert "Skipped" not in thorough.output


def test_rows_are_planned_with_scout_and_the_plan_says_why() -> None:
    domain = hush.Domain({"a": 3, "b": 4, "c": 2})
    workload, budget = hush.Workload.kway(domain, 2), hush.Budget(epsilon=1.0, delta=1e-9)
    plan = hush.plan(workload, budget, goal="rows")
    assert plan.mechanism == "scout"
    assert plan.rmse is None
    residual = hush.plan(workload, budget, mechanism="residual")
    assert [entry.name for entry in plan.ranking] == ["scout", "residual"]
    assert f"{residual.rmse:,.3g} rows on a typical count" in plan.ranking[1].reason
    text = " ".join(plan.details().split())
    assert "Chosen scout: taken for synthetic rows" in text
    assert "Expects rows in a wrong cell of an asked table: about" in text


def test_rows_under_pure_epsilon_come_from_the_best_mechanism_for_answers() -> None:
    workload = hush.Workload.kway(hush.Domain({"a": 3, "b": 4, "c": 2}), 2)
    plan = hush.plan(workload, hush.Budget(epsilon=1.0), goal="rows")
    assert plan.mechanism == hush.plan(workload, hush.Budget(epsilon=1.0)).mechanism
    assert plan.rmse is not None


def test_a_label_adds_what_predicting_it_needs() -> None:
    domain, budget = hush.Domain({"a": 3, "b": 4, "c": 2}), hush.Budget(epsilon=1.0, delta=1e-9)
    pairs = hush.Workload.kway(domain, 2)
    plan = hush.plan(pairs, budget, goal="rows", label="c")
    assert plan.mechanism == "scout"
    assert plan.workload == pairs + hush.Workload.predict(domain, "c")
    assert hush.plan(pairs, budget, mechanism="aim", label="c").workload == plan.workload
    pure = hush.plan(pairs, hush.Budget(epsilon=1.0), goal="rows", label="c")
    assert pure.workload == plan.workload
    with pytest.raises(WorkloadError, match="label='c' is for synthetic rows; add --goal rows"):
        hush.plan(pairs, budget, label="c")


def test_a_goal_is_one_of_two_and_goes_with_auto() -> None:
    workload, budget = hush.Workload.kway(hush.Domain({"a": 3, "b": 4}), 2), hush.Budget(epsilon=1.0, delta=1e-9)
    with pytest.raises(WorkloadError, match="goal='row'"):
        hush.plan(workload, budget, goal="row")
    with pytest.raises(WorkloadError, match="goal='rows' goes with mechanism='auto', which chooses by it, not 'aim'"):
        hush.plan(workload, budget, mechanism="aim", goal="rows")
