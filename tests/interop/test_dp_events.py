"""What dp_accounting makes of our events is never less than was spent, and not much more."""

from __future__ import annotations

from fractions import Fraction

import pytest

import hush
from hush.errors import BudgetError
from hush.interop import dp_accounting_event
from hush.privacy.events import ComposedEvent, LaplaceEvent, LocalEvent, SelectionEvent

dp_accounting = pytest.importorskip("dp_accounting")
from dp_accounting import rdp  # noqa: E402

ORDERS = [1 + x / 10 for x in range(1, 100)] + list(range(11, 200))
BUDGETS = [hush.Budget(rho=0.3), hush.Budget(epsilon=1.0, delta=1e-6)]


def rdp_epsilon(event: object, delta: float) -> float:
    accountant = rdp.RdpAccountant(ORDERS)
    accountant.compose(event)
    return accountant.get_epsilon(delta)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_a_release_costs_at_least_what_it_states_and_at_most_a_third_more(budget: hush.Budget) -> None:
    table = hush.read(hush.datasets.people(100, seed=1), hush.datasets.people_schema())
    release = hush.plan("sex; region,education", budget, "residual", schema=table.schema).release(table)
    stated, delta = release.statement.spent
    assert 0.95 * stated <= rdp_epsilon(dp_accounting_event(release), delta) <= 1.35 * stated


def test_a_ledger_is_the_sum_of_its_charges(tmp_path) -> None:
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(rho=1.0))
    table = hush.read(hush.datasets.people(100, seed=1), hush.datasets.people_schema())
    plan = hush.plan("sex", hush.Budget(rho=0.25), schema=table.schema)
    once = dp_accounting_event(plan.release(table, ledger=ledger))
    plan.release(table, ledger=ledger)
    assert dp_accounting_event(ledger).rho == pytest.approx(2 * once.rho)
    assert once.rho == pytest.approx(0.25)


def test_laplace_noise_and_choices_count_by_their_zcdp_rounded_up() -> None:
    laplace = LaplaceEvent(scale=Fraction(3), sensitivity_l1=Fraction(1))
    event = ComposedEvent(((laplace, 1), (SelectionEvent(Fraction(1)), 3)))
    rho = Fraction(1, 18) + 3 * Fraction(1, 8)
    assert rho <= Fraction(dp_accounting_event(event).rho) <= rho * (1 + Fraction(1, 2**50))


def test_a_promise_of_epsilon_and_delta_is_refused() -> None:
    with pytest.raises(BudgetError, match="no bound in zCDP"):
        dp_accounting_event(LocalEvent(Fraction(1), Fraction(1, 10**6)))
