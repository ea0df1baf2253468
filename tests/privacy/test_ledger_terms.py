from pathlib import Path

import pytest

import hush
from hush import Budget, Domain, Ledger, Neighbours, Workload
from hush.core.errors import BudgetError, LedgerError
from hush.privacy.ledger import open_ledger, terms_of
from hush.schema import Unit
from hush.testing import TinyTable

DOMAIN = Domain({"a": 2, "b": 2})
ROWS = [(0, 0), (1, 1), (1, 0)]
WORKLOAD = Workload.kway(DOMAIN, 1)
SHARE = Budget(rho=0.1)
PEOPLE = TinyTable(DOMAIN, ROWS, unit=Unit(column="id", max_rows=2), units=[1, 1, 2])
PEOPLE_BY_THREE = TinyTable(DOMAIN, ROWS, unit=Unit(column="id", max_rows=3), units=[1, 1, 2])


def test_costs_under_other_terms_are_refused_since_they_do_not_add_up(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.db", cap=Budget(rho=1.0))
    plan = hush.plan(WORKLOAD, SHARE, max_rows_per_unit=2)
    plan.release(PEOPLE, ledger=ledger)
    spent = ledger.total
    rows = TinyTable(DOMAIN, ROWS)
    with pytest.raises(BudgetError, match="do not add up"):
        hush.plan(WORKLOAD, SHARE).release(rows, ledger=ledger)
    with pytest.raises(BudgetError, match="do not add up"):
        hush.plan(WORKLOAD, SHARE, max_rows_per_unit=2, neighbours=Neighbours.REPLACE).release(PEOPLE, ledger=ledger)
    assert (ledger.total, rows.reads) == (spent, 0)
    hush.plan(WORKLOAD, SHARE, max_rows_per_unit=3).release(PEOPLE_BY_THREE, ledger=ledger)
    other = Ledger(tmp_path / "budget.db", dataset="rows", cap=Budget(rho=1.0))
    hush.plan(WORKLOAD, SHARE).release(rows, ledger=other)
    other.verify()
    assert [entry.terms for entry in other.entries() if entry.action == "charge"] == ["add or remove one unit: one row"]


def test_terms_name_the_unit_and_the_relation() -> None:
    assert terms_of(Neighbours.REPLACE, Unit(column="id", max_rows=5)) == "replace one unit: the rows of one 'id'"


def test_a_ledger_is_made_with_the_budget_as_its_cap(tmp_path: Path) -> None:
    made = open_ledger(tmp_path / "budget.db", SHARE, dataset="d")
    assert (made.budget, made.dataset) == (SHARE, "d")
    assert open_ledger(made, SHARE) is made
    assert open_ledger(tmp_path / "budget.db", Budget(rho=9.0), dataset="d").budget == SHARE
    with pytest.raises(LedgerError, match="no dataset 'other'"):
        open_ledger(tmp_path / "budget.db", SHARE, dataset="other")
