"""Going on with a stopped run: only with what it belongs to, and nothing is paid for twice or made on the way."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Ledger, Neighbours, Workload
from hush.constraints import Constraint
from hush.errors import BudgetError, DataError, InterruptedRelease, LedgerError
from hush.mechanisms import AIM, MWEM
from hush.mechanisms.adaptive import AdaptivePlan
from hush.mechanisms.misfit_scorer import MisfitScorer
from hush.privacy.account import used_up
from hush.privacy.events import GaussianEvent, price
from hush.release.measured import MeasuredRelease
from hush.schema import Schema, Unit
from hush.testing import TinyTable

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
ROWS = [(0, 0, 0), (1, 2, 1), (1, 2, 0), (0, 1, 1), (1, 0, 0), (1, 2, 1)]
TABLE = TinyTable(DOMAIN, ROWS)
WORKLOAD = Workload.kway(DOMAIN, 2)
BUDGET = Budget(rho=0.4)
PLAN = AIM().plan(WORKLOAD, BUDGET)


class Stopping(TinyTable):
    """A table that fails at one of its reads."""

    left = 10**9
    failure: type[BaseException] = KeyboardInterrupt

    def counts(self, cliques: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise self.failure
        return super().counts(cliques)


def stopping(reads: int, failure: type[BaseException] = KeyboardInterrupt) -> Stopping:
    table = Stopping(DOMAIN, ROWS)
    table.left, table.failure = reads, failure
    return table


def stopped(plan: AdaptivePlan = PLAN, reads: int = 1, **how: Any) -> MeasuredRelease:
    with pytest.raises(InterruptedRelease) as caught:
        plan.release(stopping(reads), **how)
    assert isinstance(caught.value.release, MeasuredRelease)
    return caught.value.release


class Ruled(TinyTable):
    @property
    def schema(self) -> Schema:
        plain = super().schema
        return Schema(plain.columns, unit=plain.unit, constraints=[Constraint.forbid(DOMAIN, ("a", "b"), [(0, 2)])])


OTHERS: dict[str, tuple[AdaptivePlan, TinyTable]] = {
    "mechanism": (MWEM().plan(WORKLOAD, BUDGET), TABLE),
    "settings": (AIM(share=0.8).plan(WORKLOAD, BUDGET), TABLE),
    "workload": (AIM().plan(Workload.kway(DOMAIN, 1), BUDGET), TABLE),
    "budget": (AIM().plan(WORKLOAD, Budget(rho=0.5)), TABLE),
    "neighbours": (AIM().plan(WORKLOAD, BUDGET, neighbours=Neighbours.REPLACE), TABLE),
    "unit": (PLAN, TinyTable(DOMAIN, ROWS, unit=Unit(column="id", max_rows=1))),
    "schema": (PLAN, Ruled(DOMAIN, ROWS)),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_belongs_to_another_plan_is_refused(what: str, tmp_path: Path) -> None:
    part = stopped(ledger=tmp_path / "budget.db")
    before = Ledger.open(tmp_path / "budget.db").total
    plan, table = OTHERS[what]
    table.reads = 0
    with pytest.raises(DataError, match=f"another plan: .*{'mechanism' if what == 'settings' else what}.*started with"):
        plan.release(table, ledger=tmp_path / "budget.db", resume=part)
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
    part = stopped(ledger=tmp_path / "own.db")
    PLAN.release(TABLE, ledger=tmp_path / "other.db", name="another")
    other = Ledger.open(tmp_path / "other.db").total
    with pytest.raises(LedgerError, match="was charged to a ledger; resume it with that ledger"):
        PLAN.release(TABLE, resume=part)
    with pytest.raises(LedgerError, match="charged to another ledger; resume it with that one"):
        PLAN.release(TABLE, resume=part, ledger=tmp_path / "other.db")
    with pytest.raises(LedgerError, match="charged to another ledger"):
        PLAN.release(TABLE, resume=part, ledger=Ledger.open(tmp_path / "other.db"))
    assert Ledger.open(tmp_path / "other.db").total == other
    with pytest.raises(LedgerError):
        PLAN.release(TABLE, resume=part, ledger=tmp_path / "own.db", dataset="another")
    whole = PLAN.release(TABLE, resume=part, ledger=Ledger.open(tmp_path / "own.db"))
    assert Ledger.open(tmp_path / "own.db").total == price(whole.statement.event)


def test_no_ledger_is_made_by_resuming(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="charged to no ledger; resume it without one"):
        PLAN.release(TABLE, resume=stopped(), ledger=tmp_path / "none.db")
    part = stopped(ledger=tmp_path / "own.db")
    with pytest.raises(LedgerError, match="charged to another ledger"):
        PLAN.release(TABLE, resume=part, ledger=tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("plan", [PLAN, AIM(rounds=4).plan(WORKLOAD, BUDGET)], ids=["usual", "least rounds"])
@pytest.mark.parametrize("reads", [0, 1, 2])
def test_nothing_is_paid_for_twice(plan: AdaptivePlan, reads: int, tmp_path: Path) -> None:
    """Also where the run was stopped between a charge and what was paid for."""
    ledger = tmp_path / "budget.db"
    try:
        whole = plan.release(stopping(reads), ledger=ledger)
    except InterruptedRelease as caught:
        part = caught.release
        assert isinstance(part, MeasuredRelease)
        whole = plan.release(TABLE, ledger=ledger, resume=part)
        assert whole.taken[: len(part.taken)] == part.taken
        for event in (part.statement.event, whole.statement.event):
            assert price(event).rho <= BUDGET.limit
    total = Ledger.open(ledger).total.rho
    assert total == price(whole.statement.event).rho
    assert total <= BUDGET.limit
    assert used_up(BUDGET.limit - total, BUDGET.limit)
    assert {one.clique for one in whole.taken} >= {("a",), ("b",), ("c",)}
    assert whole.complete


class Killed(Exception):
    """What stands for a process that ends at once."""


def test_a_killed_run_goes_on_from_its_file(tmp_path: Path) -> None:
    file, ledger, played = tmp_path / "part.hush", tmp_path / "budget.db", []

    def kill(one: Any, spent: float) -> None:
        played.append(one)
        raise Killed

    with pytest.raises(Killed):
        PLAN.release(TABLE, ledger=ledger, checkpoint=file, on_round=kill)
    part = hush.load(file)
    assert isinstance(part, MeasuredRelease)
    assert not part.complete
    assert part.rounds == tuple(played)
    assert len(part.taken) == 4
    whole = PLAN.release(TABLE, ledger=ledger, resume=part, checkpoint=file)
    assert whole.rounds[:1] == part.rounds
    for ours, theirs in zip(whole.taken, part.taken, strict=False):
        np.testing.assert_array_equal(ours.values, theirs.values)
    total = Ledger.open(ledger).total.rho
    assert total == price(whole.statement.event).rho
    assert used_up(BUDGET.limit - total, BUDGET.limit)
    assert len(hush.load(file).taken) == len(whole.taken)  # type: ignore[union-attr]


@pytest.mark.parametrize("choice", [1, 2])
def test_a_run_that_was_killed_between_a_charge_and_its_file_spends_what_the_ledger_has(
    choice: int, tmp_path: Path
) -> None:
    file, ledger = tmp_path / "part.hush", tmp_path / "budget.db"
    with pytest.raises(Killed):
        killed_in_a_choice(choice, ledger, file)
    part = hush.load(file)
    assert isinstance(part, MeasuredRelease)
    known = price(part.statement.event).rho
    lost = Ledger.open(ledger).total.rho - known
    assert lost > 0
    whole = PLAN.release(TABLE, ledger=ledger, resume=part)
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
    part = stopped(ledger=book)
    book.charge(GaussianEvent(1 / (2 * book.remaining), Fraction(1)))
    with pytest.raises(BudgetError, match="budget.db.*nothing is left"):
        PLAN.release(TABLE, resume=part, ledger=book)


def test_a_ledger_with_too_little_left_is_told_of_before_a_charge(tmp_path: Path) -> None:
    book, table = Ledger(tmp_path / "budget.db", cap=Budget(rho=0.3)), TinyTable(DOMAIN, ROWS)
    with pytest.raises(BudgetError, match=r"rho=0.4 exceeds the 0.3 left"):
        PLAN.release(table, ledger=book)
    assert book.total.rho == 0
    assert table.reads == 0


def test_annealing_is_gone_on_with() -> None:
    """Shares of a resumed run are those that the run had come to."""
    for _ in range(20):
        part = None
        try:
            PLAN.release(TABLE, on_round=lambda played, spent: (_ for _ in ()).throw(KeyboardInterrupt()))
        except InterruptedRelease as caught:
            part = caught.release
        assert isinstance(part, MeasuredRelease)
        whole = PLAN.release(TABLE, resume=part)
        first, second = (Fraction(one.epsilon) ** 2 for one in whole.rounds[:2])
        final = len(whole.rounds) == 2
        factor = 4 if part.rounds[0].annealed else 1
        assert float(second / first) == pytest.approx(factor, rel=1e-9) or final
        if part.rounds[0].annealed:
            return
    pytest.fail("no round of twenty runs taught less than its noise")
