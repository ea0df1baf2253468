"""Budgets at the ends of what floats hold: every mechanism works with them, or refuses them before any charge."""

from contextlib import suppress
from pathlib import Path

import pytest

from hush import Budget, Domain, Workload
from hush.core.errors import BudgetError
from hush.mechanisms import GEM, HDMM, RAP, DualQuery
from hush.mechanisms.mechanism import Mechanism
from hush.mechanisms.registry import mechanisms
from hush.privacy.budget import Cost
from hush.privacy.ledger import Ledger
from hush.testing import TinyTable

QUICK = {
    "hdmm": HDMM(restarts=1, quick=True),
    "dualquery": DualQuery(turns=3, draws=2),
    "rap": RAP(rounds=3, rows=20),
    "gem": GEM(rounds=3, rows=20, hidden=8),
}
EVERY: dict[str, Mechanism] = {name: QUICK[name] if name in QUICK else kind() for name, kind in mechanisms().items()}
WORKLOAD = Workload.kway(Domain({"a": 2, "b": 2}), 1)
TINY, HUGE = (5e-324, 1e-300, 1e-160, 1e-40), (1e20, 1e154, 1e300, 1.7e308)
NOTIONS = [("rho", {}), ("mu", {}), ("epsilon", {}), ("epsilon", {"delta": 1e-9}), ("epsilon", {"delta": 5e-324})]


def release(mechanism: Mechanism, budget: Budget, book: Path) -> None:
    """Plan, print, release and answer; BudgetError if the budget is refused, when nothing may be on the ledger."""
    try:
        plan = mechanism.plan(WORKLOAD, budget)
        str(plan)
        released = plan.release(TinyTable(WORKLOAD.domain, [(0, 1), (1, 1)] * 20), ledger=book)
    except BudgetError:
        assert not book.exists() or Ledger.open(book).total == Cost()
        raise
    str(released.marginal("a"))


@pytest.mark.parametrize("name", [name for name, mechanism in EVERY.items() if mechanism.measures])
def test_budgets_that_no_noise_can_spend_are_refused_when_they_are_planned(name: str) -> None:
    """A small epsilon with a delta is worth the zCDP of that delta, which may be of use."""
    for notion, more in NOTIONS:
        for value in (*(() if more else TINY), *HUGE):
            with pytest.raises(BudgetError):
                EVERY[name].plan(WORKLOAD, Budget(**{notion: value}, **more))


@pytest.mark.filterwarnings("ignore:delta=")  # noise of more rows than the delta is for
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    "budget",
    [
        Budget(rho=2e-27),
        Budget(rho=1e-25),
        Budget(rho=1e5),
        Budget(rho=1e9),
        Budget(epsilon=1e-11),
        Budget(epsilon=60.0),
        Budget(epsilon=5e-324, delta=1e-9),
        Budget(epsilon=1e-20, delta=5e-324),
    ],
    ids=repr,
)
def test_a_budget_near_the_ends_works_or_is_refused_before_the_charge(
    name: str, budget: Budget, tmp_path: Path
) -> None:
    book = tmp_path / "budget.db"
    with suppress(BudgetError):
        release(EVERY[name], budget, book)
        assert name == "all-zero" or Ledger.open(book).total != Cost()


@pytest.mark.parametrize("budget", [Budget(rho=1e-15), Budget(rho=300.0)], ids=repr)
def test_a_budget_of_some_use_is_not_refused(budget: Budget, tmp_path: Path) -> None:
    for name, mechanism in EVERY.items():
        release(mechanism, budget, tmp_path / f"{name}.db")
