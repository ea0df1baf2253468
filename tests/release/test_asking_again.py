"""A release is asked as often as anybody likes, and always says the same; making another one is paid for again."""

from fractions import Fraction
from pathlib import Path

import pytest

import hush
from hush import Budget, Domain, Ledger, Workload
from hush.core.errors import BudgetError
from hush.testing import TinyTable

DOMAIN = Domain({"a": 2, "b": 3})
ROWS = [(0, 0), (1, 2)] * 9
SQL = "SELECT a, COUNT(*) FROM t GROUP BY a"


@pytest.mark.parametrize("mechanism", ["residual", "direct", "mst", "dualquery"])
def test_an_answer_asked_for_again_is_the_same_and_costs_nothing(mechanism: str, tmp_path: Path) -> None:
    """Averaging repeated answers gains nothing: noise is drawn once, when the release is made."""
    table, file = TinyTable(DOMAIN, ROWS), tmp_path / "budget.db"
    plan = hush.plan(Workload.kway(DOMAIN, 2), Budget(rho=0.4), mechanism=mechanism)
    release = plan.release(table, ledger=file)
    reads, spent = table.reads, Ledger.open(file).total
    release.save(tmp_path / "release.hush")
    again = hush.load(tmp_path / "release.hush")
    asked = [
        (str(kept.sql(SQL)), str(kept.marginal("a", "b")), kept.synthesize(rows=5, seed=1).to_pylist())  # type: ignore[union-attr]
        for kept in (release, release, again, again)
    ]
    assert all(answer == asked[0] for answer in asked[1:])
    assert (table.reads, Ledger.open(file).total) == (reads, spent)


def test_releases_that_nobody_keeps_are_charged_too(tmp_path: Path) -> None:
    """Whoever runs several times and keeps the best pays for all of them."""
    table, file = TinyTable(DOMAIN, ROWS), tmp_path / "budget.db"
    Ledger(file, cap=Budget(rho=1.0))
    plan = hush.plan(Workload.kway(DOMAIN, 1), Budget(rho=0.4))
    for _ in range(2):
        plan.release(table, ledger=file)
    assert Fraction(0.8) * (1 - Fraction(1, 2**30)) <= Ledger.open(file).total.rho <= Fraction(0.8)
    with pytest.raises(BudgetError):
        plan.release(table, ledger=file)
