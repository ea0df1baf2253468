"""Going on with a stopped run: only with what it belongs to, and nothing is paid for twice or made on the way."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import hush
from hush import Budget, Domain, Ledger, Neighbours, Workload
from hush.core.constraints import Constraint
from hush.core.errors import ArchiveError, BudgetError, DataError, InterruptedRelease, LedgerError, QueryError
from hush.mechanisms import AIM, MST, MWEM, Direct, DualQuery, Independent, PrivBayes, PrivMRF, PrivSyn, Residual, Scout
from hush.mechanisms.candidates import MisfitScorer
from hush.mechanisms.plan import Plan
from hush.mechanisms.release_job import ReleaseJob, finished
from hush.privacy.account import used_up
from hush.privacy.events import GaussianEvent, price
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.schema import Unit
from hush.testing import StoppingTable, TinyTable

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
ROWS = [(0, 0, 0), (1, 2, 1), (1, 2, 0), (0, 1, 1), (1, 0, 0), (1, 2, 1)]
TABLE = TinyTable(DOMAIN, ROWS)
RULE = Constraint.forbid(DOMAIN, ("a", "b"), [(0, 2)])
WORKLOAD = Workload.kway(DOMAIN, 2)
BUDGET = Budget(rho=0.4)
PLAN = AIM().plan(WORKLOAD, BUDGET)


def stopping(reads: int, failure: type[BaseException] = KeyboardInterrupt) -> StoppingTable:
    return StoppingTable(DOMAIN, ROWS, reads_left=reads, failure=failure)


def stopped(plan: Plan = PLAN, reads: int = 1, **how: Any) -> hush.Release:
    with pytest.raises(InterruptedRelease) as caught:
        plan.release(stopping(reads), **how)
    assert isinstance(caught.value.release, hush.Release)
    return caught.value.release


OTHERS: dict[str, tuple[Plan, TinyTable]] = {
    "mechanism": (MWEM().plan(WORKLOAD, BUDGET), TABLE),
    "settings": (AIM(share=0.8).plan(WORKLOAD, BUDGET), TABLE),
    "workload": (AIM().plan(Workload.kway(DOMAIN, 1), BUDGET), TABLE),
    "budget": (AIM().plan(WORKLOAD, Budget(rho=0.5)), TABLE),
    "neighbours": (AIM().plan(WORKLOAD, BUDGET, neighbours=Neighbours.REPLACE), TABLE),
    "unit": (PLAN, TinyTable(DOMAIN, ROWS, unit=Unit(column="id", max_rows=1))),
    "schema": (PLAN, TinyTable(DOMAIN, ROWS, constraints=[RULE])),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_belongs_to_another_plan_is_refused(what: str, tmp_path: Path) -> None:
    partial = stopped(ledger=tmp_path / "budget.db")
    before = Ledger.open(tmp_path / "budget.db").total
    plan, table = OTHERS[what]
    table.reads = 0
    with pytest.raises(DataError, match=f"another plan: .*{'mechanism' if what == 'settings' else what}.*started with"):
        plan.release(table, ledger=tmp_path / "budget.db", resume=partial)
    assert Ledger.open(tmp_path / "budget.db").total == before
    assert table.reads == 0


def test_what_is_complete_is_refused() -> None:
    whole = PLAN.release(TABLE)
    with pytest.raises(BudgetError, match="complete: its budget is spent"):
        PLAN.release(TABLE, resume=whole)


@pytest.mark.parametrize("thing", ["part.hush", 7, hush.plan(Workload.kway(DOMAIN, 1), BUDGET)])
def test_what_is_no_release_is_refused(thing: Any) -> None:
    with pytest.raises(DataError, match="resume: expected an interrupted release of aim, got"):
        PLAN.release(TABLE, resume=thing)


def test_a_release_of_a_ledger_goes_on_with_that_one_alone(tmp_path: Path) -> None:
    partial = stopped(ledger=tmp_path / "own.db")
    PLAN.release(TABLE, ledger=tmp_path / "other.db", name="another")
    other = Ledger.open(tmp_path / "other.db").total
    with pytest.raises(LedgerError, match="was charged to a ledger; resume it with that ledger"):
        PLAN.release(TABLE, resume=partial)
    with pytest.raises(
        LedgerError, match="other.db lacks the head .*charged to another ledger; resume it with that one"
    ):
        PLAN.release(TABLE, resume=partial, ledger=tmp_path / "other.db")
    with pytest.raises(LedgerError, match="charged to another ledger"):
        PLAN.release(TABLE, resume=partial, ledger=Ledger.open(tmp_path / "other.db"))
    assert Ledger.open(tmp_path / "other.db").total == other
    with pytest.raises(LedgerError, match=r"dataset 'default' of .*own.db, not to 'another'.*--dataset"):
        PLAN.release(TABLE, resume=partial, ledger=tmp_path / "own.db", dataset="another")
    whole = PLAN.release(TABLE, resume=partial, ledger=Ledger.open(tmp_path / "own.db"))
    assert Ledger.open(tmp_path / "own.db").total == price(whole.statement.event)


def test_no_ledger_is_made_by_resuming(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="charged to no ledger; resume it without one"):
        PLAN.release(TABLE, resume=stopped(), ledger=tmp_path / "none.db")
    partial = stopped(ledger=tmp_path / "own.db")
    with pytest.raises(LedgerError, match="none.db does not exist: .*charged to another ledger"):
        PLAN.release(TABLE, resume=partial, ledger=tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("plan", [PLAN, AIM(rounds=4).plan(WORKLOAD, BUDGET)], ids=["usual", "least rounds"])
@pytest.mark.parametrize("reads", [0, 1, 2])
def test_nothing_is_paid_for_twice(plan: Plan, reads: int, tmp_path: Path) -> None:
    """Also where the run was stopped between a charge and what was paid for."""
    ledger = tmp_path / "budget.db"
    try:
        whole = plan.release(stopping(reads), ledger=ledger)
    except InterruptedRelease as caught:
        partial = caught.release
        assert isinstance(partial, hush.Release)
        whole = plan.release(TABLE, ledger=ledger, resume=partial)
        assert whole.noisy_tables[: len(partial.noisy_tables)] == partial.noisy_tables
        for event in (partial.statement.event, whole.statement.event):
            assert price(event).rho <= BUDGET.limit
    total = Ledger.open(ledger).total.rho
    assert total == price(whole.statement.event).rho
    assert total <= BUDGET.limit
    assert used_up(BUDGET.limit - total, BUDGET.limit)
    assert {table.clique for table in whole.noisy_tables} >= {("a",), ("b",), ("c",)}
    assert whole.complete


@pytest.mark.parametrize("place", ["missing/part.hush", ".", "\0"])
@pytest.mark.parametrize("kept", ["checkpoint", "output"])
def test_a_file_that_cannot_keep_what_is_paid_for_is_refused_before_the_charge(
    place: str, kept: str, tmp_path: Path
) -> None:
    ledger = Ledger.create(tmp_path / "budget.db", BUDGET)
    with pytest.raises(ArchiveError, match="cannot write"):
        ReleaseJob(PLAN, ledger=ledger, **{kept: tmp_path / place}).run(TABLE)
    assert ledger.remaining == ledger.limit
    assert [file.name for file in tmp_path.iterdir()] == ["budget.db"]


def test_a_disk_that_fills_up_during_a_run_loses_nothing_that_is_paid_for(tmp_path: Path) -> None:
    place = tmp_path / "gone"
    place.mkdir()
    with pytest.raises(InterruptedRelease, match="cannot write .* paid for") as caught:
        ReleaseJob(PLAN, checkpoint=place / "part.hush").run(TABLE, on_start=place.rmdir)
    stopped: Any = caught.value.release
    assert stopped.noisy_tables
    whole = PLAN.release(TABLE, resume=stopped)
    np.testing.assert_array_equal(whole.noisy_tables[0].values, stopped.noisy_tables[0].values)
    assert whole.complete


class Killed(BaseException):
    """What stands for a process that ends at once; nothing may catch it, as nothing catches the end of a process."""


def test_a_killed_run_goes_on_from_its_file(tmp_path: Path) -> None:
    file, ledger, played = tmp_path / "part.hush", tmp_path / "budget.db", []

    def kill(played_round: Any, spent: float) -> None:
        played.append(played_round)
        raise Killed

    with pytest.raises(Killed):
        PLAN.release(TABLE, ledger=ledger, checkpoint=file, on_round=kill)
    partial = hush.load(file)
    assert isinstance(partial, hush.Release)
    assert not partial.complete
    assert partial.rounds == tuple(played)
    assert len(partial.noisy_tables) > len(DOMAIN)
    whole = PLAN.release(TABLE, ledger=ledger, resume=partial, checkpoint=file)
    assert whole.rounds[:1] == partial.rounds
    for ours, theirs in zip(whole.noisy_tables, partial.noisy_tables, strict=False):
        np.testing.assert_array_equal(ours.values, theirs.values)
    total = Ledger.open(ledger).total.rho
    assert total == price(whole.statement.event).rho
    assert used_up(BUDGET.limit - total, BUDGET.limit)
    assert len(hush.load(file).noisy_tables) == len(whole.noisy_tables)  # type: ignore[union-attr]


@pytest.mark.parametrize("mechanism", [Residual(), Direct()])
@pytest.mark.parametrize("shares", [0.0, 1.0])
def test_a_run_with_one_charge_keeps_what_it_measured_before_it_was_killed(
    mechanism: Residual | Direct, shares: float, tmp_path: Path
) -> None:
    """Cut off after the last table it is complete; cut off before, the tables that lack are never drawn again."""
    file, ledger = tmp_path / "part.hush", tmp_path / "budget.db"

    def kill(share: float) -> None:
        if share >= shares:
            raise Killed

    with pytest.raises(Killed):
        mechanism.plan(WORKLOAD, BUDGET).release(TABLE, ledger=ledger, checkpoint=file, progress=kill)
    kept = hush.load(file)
    assert isinstance(kept, hush.Release)
    assert not kept.complete
    before = Ledger.open(ledger).head
    whole = finished(kept)
    if shares < 1.0:
        assert whole is None
        with pytest.raises(BudgetError, match="cannot be resumed"):
            ReleaseJob.resumed(kept, ledger=ledger)
    else:
        assert whole is not None
        assert whole.complete
        whole.save(tmp_path / "whole.hush")
        again = hush.load(tmp_path / "whole.hush")
        assert isinstance(again, hush.Release)
        np.testing.assert_array_equal(again.counts(("a", "b")), kept.counts(("a", "b")))
        assert finished(whole) is None
    assert Ledger.open(ledger).head == before


@pytest.mark.parametrize("choice", [1, 2])
def test_a_run_that_was_killed_between_a_charge_and_its_file_spends_what_the_ledger_has(
    choice: int, tmp_path: Path
) -> None:
    file, ledger = tmp_path / "part.hush", tmp_path / "budget.db"
    with pytest.raises(Killed):
        killed_in_a_choice(choice, ledger, file)
    partial = hush.load(file)
    assert isinstance(partial, hush.Release)
    known = price(partial.statement.event).rho
    lost = Ledger.open(ledger).total.rho - known
    assert lost > 0
    whole = PLAN.release(TABLE, ledger=ledger, resume=partial)
    assert used_up(Ledger.open(ledger).remaining, BUDGET.limit)
    assert Ledger.open(ledger).total.rho == price(whole.statement.event).rho + lost <= BUDGET.limit


def killed_in_a_choice(number: int, ledger: Path, file: Path) -> None:
    """Charges are on record before scores are made."""
    calls, original = [], MisfitScorer.scores

    def scores(self: MisfitScorer, *args: Any, **how: Any) -> Any:
        calls.append(self)
        if len(calls) == number:
            raise Killed
        return original(self, *args, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MisfitScorer, "scores", scores)
        PLAN.release(TABLE, ledger=ledger, checkpoint=file)


def test_a_ledger_that_others_have_used_up_is_told_of(tmp_path: Path) -> None:
    book = Ledger(tmp_path / "budget.db", cap=Budget(rho=0.5))
    partial = stopped(ledger=book)
    book.charge(GaussianEvent(1 / (2 * book.remaining), Fraction(1)))
    with pytest.raises(BudgetError, match="budget.db.*nothing is left"):
        PLAN.release(TABLE, resume=partial, ledger=book)


def test_a_ledger_with_too_little_left_is_told_of_before_a_charge(tmp_path: Path) -> None:
    book, table = Ledger(tmp_path / "budget.db", cap=Budget(rho=0.3)), TinyTable(DOMAIN, ROWS)
    with pytest.raises(BudgetError, match=r"rho=0.4 exceeds the 0.3 left"):
        PLAN.release(table, ledger=book)
    assert book.total.rho == 0
    assert table.reads == 0


def test_annealing_is_gone_on_with() -> None:
    """Shares of a resumed run are those that the run had come to."""
    plan = AIM(paper=True).plan(WORKLOAD, BUDGET)
    for _ in range(20):
        partial = None
        try:
            plan.release(TABLE, on_round=lambda played, spent: (_ for _ in ()).throw(KeyboardInterrupt()))
        except InterruptedRelease as caught:
            partial = caught.release
        assert isinstance(partial, hush.Release)
        whole = plan.release(TABLE, resume=partial)
        first, second = (Fraction(played_round.epsilon) ** 2 for played_round in whole.rounds[:2])
        final = len(whole.rounds) == 2
        factor = 4 if partial.rounds[0].annealed else 1
        assert float(second / first) == pytest.approx(factor, rel=1e-9) or final
        if partial.rounds[0].annealed:
            return
    pytest.fail("no round of twenty runs taught less than its noise")


def test_what_is_not_private_stays_so(tmp_path: Path) -> None:
    partial = stopped(entropy=NotPrivateEntropy(1))
    assert not partial.statement.private
    partial.save(tmp_path / "part.hush")
    whole = PLAN.release(TABLE, resume=hush.load(tmp_path / "part.hush"))  # type: ignore[arg-type]
    assert whole.complete
    assert not whole.statement.private
    assert "NOT PRIVATE" in repr(whole)
    assert PLAN.release(TABLE, resume=stopped()).statement.private


@pytest.mark.parametrize("named", [True, False], ids=["named", "from before names were kept"])
def test_a_release_goes_on_with_its_own_dataset_alone(named: bool, tmp_path: Path) -> None:
    file = tmp_path / "budget.db"
    first, second = (Ledger(file, dataset=name, cap=Budget(rho=0.5)) for name in ("one", "two"))
    partial = stopped(ledger=first)
    second.charge(GaussianEvent(Fraction(100), Fraction(1)))
    assert partial.dataset == "one"
    if not named:
        partial.dataset = None
    for wrong in (second, file):
        with pytest.raises(LedgerError, match=r"charged to the dataset '(one|two)' of .*budget.db") as refused:
            PLAN.release(TABLE, ledger=wrong, dataset="two", resume=partial)
        assert "another ledger" not in str(refused.value)
    with pytest.raises(LedgerError, match="dataset"):
        PLAN.release(TABLE, ledger=file, dataset="three", resume=partial)
    assert second.total.rho == Fraction(1, 200)
    whole = PLAN.release(TABLE, ledger=file, dataset="one", resume=partial)
    assert first.total == price(whole.statement.event)
    assert whole.dataset is None


def test_the_name_of_the_dataset_is_kept_in_files(tmp_path: Path) -> None:
    partial = stopped(ledger=Ledger(tmp_path / "budget.db", dataset="people", cap=BUDGET))
    partial.save(tmp_path / "part.hush")
    assert hush.load(tmp_path / "part.hush").dataset == "people"  # type: ignore[union-attr]


def test_charges_to_others_meanwhile_are_no_obstacle(tmp_path: Path) -> None:
    """The head of a partial may be a charge to another dataset."""
    file = tmp_path / "budget.db"
    first, second = (Ledger(file, dataset=name, cap=Budget(rho=0.5)) for name in ("one", "two"))

    def meanwhile(played: Any, spent: float) -> None:
        second.charge(GaussianEvent(Fraction(100), Fraction(1)))
        raise KeyboardInterrupt

    with pytest.raises(InterruptedRelease) as caught:
        PLAN.release(TABLE, ledger=first, on_round=meanwhile)
    partial = caught.value.release
    assert isinstance(partial, hush.Release)
    assert PLAN.release(TABLE, ledger=first, resume=partial).complete


@pytest.mark.parametrize(
    "mechanism",
    [AIM(), MST(), MWEM(), PrivBayes(), PrivMRF(), PrivSyn(), Scout(), DualQuery(turns=4, draws=2)],
    ids=str,
)
def test_a_run_that_was_stopped_before_its_first_table_goes_on(mechanism: Any, tmp_path: Path) -> None:
    plan, ledger = mechanism.plan(WORKLOAD, BUDGET), tmp_path / "budget.db"
    with pytest.raises(InterruptedRelease, match="before the first noisy table") as caught:
        plan.release(stopping(0), ledger=ledger)
    caught.value.release.save(tmp_path / "part.hush")  # type: ignore[attr-defined]
    partial = hush.load(tmp_path / "part.hush")
    assert isinstance(partial, hush.Release)
    assert partial.noisy_tables == ()
    lost = Ledger.open(ledger).total.rho
    assert lost == price(partial.statement.event).rho > 0
    whole = plan.release(TABLE, ledger=ledger, resume=partial)
    assert Ledger.open(ledger).total.rho == price(whole.statement.event).rho <= BUDGET.limit
    assert whole.counts(("a",)).shape == (2,)


def test_a_release_without_a_table_answers_nothing() -> None:
    partial = stopped(reads=0)
    asked: list[Any] = [
        lambda: partial.marginal("a"),
        lambda: partial.counts(("a",)),
        lambda: partial.model(),
        lambda: partial.sql("SELECT COUNT(*) FROM t"),
        lambda: partial.term(0),
        lambda: partial.synthesize(rows=3),
        lambda: partial.error_bounds(),
        lambda: partial.error_bound("a"),
        lambda: partial.tables(),
    ]
    for ask in asked:
        with pytest.raises(QueryError, match="before its first noisy table and answers nothing.*--resume"):
            ask()
    assert "interrupted" in repr(partial)


def test_where_all_is_spent_and_no_table_was_taken_there_is_nothing_to_go_on_with() -> None:
    plan = Independent().plan(WORKLOAD, BUDGET)
    with pytest.raises(BudgetError, match="nothing is left to measure one with"):
        plan.release(TABLE, resume=stopped(plan, reads=0))


def played(mechanism: Any, rounds: int = 2) -> tuple[Plan, hush.Release]:
    """A run that was stopped after some rounds."""
    plan, seen = mechanism.plan(WORKLOAD, BUDGET), []

    def stop(played_round: Any, spent: float) -> None:
        seen.append(played_round)
        if len(seen) == rounds:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRelease) as caught:
        plan.release(TABLE, on_round=stop)
    assert isinstance(caught.value.release, hush.Release)
    return plan, caught.value.release


GAME = DualQuery(turns=4, draws=3)
NETWORK = PrivBayes(usefulness=1e-6, degree=1)
STRANGE: dict[str, tuple[Any, Any]] = {
    "rounds without their tables": (AIM(), lambda rounds: [replace(rounds[0], epsilon=0.0, annealed=True)] * 20_000),
    "a round of another table": (AIM(), lambda rounds: [replace(rounds[0], clique=("a", "b", "c")), rounds[1]]),
    "a choice that is not paid for": (MST(), lambda rounds: [replace(rounds[0], epsilon=1.0)]),
    "a column of nothing": (NETWORK, lambda rounds: [replace(rounds[0], clique=())]),
    "a column without parents": (NETWORK, lambda rounds: [replace(rounds[0], clique=rounds[0].clique[:1])]),
    "a column twice": (NETWORK, lambda rounds: [rounds[0], replace(rounds[0], epsilon=0.0)]),
    "parents that are not in": (NETWORK, lambda rounds: [replace(rounds[0], clique=("b", "c"))]),
    "a draw of a turn that is none": (GAME, lambda rounds: [replace(rounds[0], turn=1000)]),
    "too many draws of a turn": (
        DualQuery(turns=4, draws=2),
        lambda rounds: [replace(draw, turn=2) for draw in rounds],
    ),
    "a draw of a table that is not in the game": (GAME, lambda rounds: [replace(rounds[0], clique=("a",), cell=0)]),
    "a draw of endless epsilon": (GAME, lambda rounds: [replace(rounds[0], epsilon=1e300)]),
}


@pytest.mark.parametrize("what", STRANGE)
def test_rounds_that_no_run_plays_are_refused_before_a_charge(what: str) -> None:
    mechanism, change = STRANGE[what]
    plan, partial = played(mechanism, 3 if "too many" in what else 2)
    plan.settings.check_rounds(partial)
    partial.record.rounds = tuple(change(partial.rounds))
    table = TinyTable(DOMAIN, ROWS)
    with pytest.raises(DataError, match=r"the release to resume (holds rounds that|is damaged)"):
        plan.release(table, resume=partial)
    assert table.reads == 0


def test_the_start_is_told_after_all_refusals(tmp_path: Path) -> None:
    calls: list[str] = []
    book = Ledger(tmp_path / "budget.db", cap=Budget(rho=0.3))
    with pytest.raises(BudgetError):
        PLAN.release(TABLE, ledger=book, on_start=lambda: calls.append("start"))
    with pytest.raises(LedgerError):
        PLAN.release(TABLE, ledger=book, resume=stopped(), on_start=lambda: calls.append("start"))
    assert calls == []
    PLAN.release(TABLE, on_start=lambda: calls.append("start"), progress=lambda share: calls.append("share"))
    assert calls[0] == "start"
    assert calls.count("start") == 1
