"""What every adaptive mechanism owes: its budget and no more, nothing beside the gate, files, resuming, rows."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Ledger, Neighbours, Workload
from hush.core.constraints import Constraint
from hush.core.errors import BudgetError, InterruptedRelease
from hush.mechanisms import AIM, MST, MWEM, Independent
from hush.mechanisms.mechanism import Mechanism
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.gaussian_domination import Demand
from hush.schema import Unit
from hush.testing import StoppingTable, TinyTable
from hush.testing.mechanism_contract import spent

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
ROWS = [(0, 0, 0), (1, 2, 1), (1, 2, 0), (0, 1, 1), (1, 0, 0), (1, 2, 1)]
TABLE = TinyTable(DOMAIN, ROWS)
RULE = Constraint.forbid(DOMAIN, ("a", "b"), [(0, 2)])
WORKLOAD = Workload.upto(DOMAIN, 2)
BUDGET = Budget(rho=0.4)
EXACT = Budget(rho=800.0)  # noise so small that every draw is zero with all but vanishing probability
MECHANISMS: dict[str, Mechanism] = {
    "independent": Independent(),
    "aim, merging": AIM(merge_rare=True),
    "mwem": MWEM(),
    "mwem, one round": MWEM(rounds=1),
    "mst": MST(),
    "mst, merging": MST(merge_rare=True),
    "mst, one pair fits": MST(max_size_mb=6.5e-5),
}
EVERY = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)


def released(mechanism: Mechanism, table: Any = TABLE, budget: Budget = BUDGET, **how: Any) -> hush.Release:
    return mechanism.plan(WORKLOAD, budget).release(table, **how)


def check_spent(release: hush.Release, budget: Budget) -> None:
    """All of the budget is spent: in zCDP, or in Gaussian DP, where the order of choices and noise matters."""
    demand, nearly = Demand.of(release.statement.event), 1 - Fraction(1, 2**29)
    assert demand is not None
    if budget.approximate:
        assert demand.least <= budget.fixed_limit
        assert demand.cost(Fraction(0)) >= budget.limit * nearly
        return
    total = spent(release.statement.event).rho
    assert Fraction(budget.rho) * nearly <= total <= Fraction(budget.rho)


@EVERY
@pytest.mark.parametrize(
    ("budget", "relation"),
    [
        (Budget(epsilon=1.0, delta=1e-9), Neighbours.ADD_REMOVE),
        (Budget(rho=1e-7), Neighbours.ADD_REMOVE),
        (BUDGET, Neighbours.REPLACE),
    ],
    ids=str,
)
def test_all_of_the_budget_is_spent_and_no_more(
    mechanism: Mechanism, budget: Budget, relation: Neighbours, tmp_path: Path
) -> None:
    plan = mechanism.plan(WORKLOAD, budget, neighbours=relation)
    release = plan.release(TABLE, ledger=tmp_path / "budget.db")
    check_spent(release, budget)
    assert Ledger.open(tmp_path / "budget.db").total.rho == spent(release.statement.event).rho
    assert plan.rho == budget.limit
    assert release.complete
    assert release.inconsistency() is None


@EVERY
def test_units_of_several_rows_are_paid_for(mechanism: Mechanism) -> None:
    table = TinyTable(DOMAIN, ROWS, unit=Unit(column="id", max_rows=3), units=[1, 1, 1, 1, 2, 3])
    release = mechanism.plan(WORKLOAD, BUDGET, max_rows_per_unit=3).release(table)
    check_spent(release, BUDGET)
    assert release.noisy_tables[0].stddev == pytest.approx(3 * released(mechanism).noisy_tables[0].stddev, rel=1e-6)


@EVERY
def test_a_stopped_run_is_gone_on_with_from_what_was_taken(mechanism: Mechanism, tmp_path: Path) -> None:
    plan = mechanism.plan(WORKLOAD, BUDGET)
    stops = 0
    for reads in range(1, 6):
        ledger = tmp_path / f"{reads}.db"
        table = StoppingTable(DOMAIN, ROWS, reads_left=reads)
        try:
            plan.release(table, ledger=ledger)
            break
        except InterruptedRelease as stopped:
            stops += 1
            partial = stopped.release
        partial.save(tmp_path / "part.hush", overwrite=True)
        partial = hush.load(tmp_path / "part.hush")
        before = len(partial.noisy_tables)
        whole = plan.release(TABLE, ledger=ledger, resume=partial)
        assert [noisy.clique for noisy in whole.noisy_tables[:before]] == [
            noisy.clique for noisy in partial.noisy_tables
        ]
        for ours, theirs in zip(whole.noisy_tables, partial.noisy_tables, strict=False):
            np.testing.assert_array_equal(ours.values, theirs.values)
        check_spent(whole, BUDGET)
        assert Ledger.open(ledger).total.rho == spent(whole.statement.event).rho
    assert stops >= (0 if isinstance(mechanism, Independent) else 1)


@EVERY
def test_a_run_that_was_stopped_after_its_last_table_measures_nothing_more(mechanism: Mechanism) -> None:
    plan = mechanism.plan(WORKLOAD, BUDGET)

    def stop(played: object, share: float) -> None:
        if share > 1 - 1e-9:
            raise KeyboardInterrupt

    try:
        plan.release(TABLE, progress=lambda share: stop(None, share))
    except InterruptedRelease as stopped:
        partial = stopped.release
    whole = plan.release(TABLE, resume=partial)
    assert len(whole.noisy_tables) == len(partial.noisy_tables)
    assert whole.complete


@EVERY
def test_with_next_to_no_noise_measured_tables_come_back(mechanism: Mechanism) -> None:
    release = released(mechanism, budget=EXACT)
    model = release.model()
    for table in release.noisy_tables:
        exact = TABLE.counts([table.clique])[table.clique]
        np.testing.assert_allclose(release.counts(table.clique), exact, atol=0.5)
        np.testing.assert_allclose(model.tables([table.clique])[table.clique], exact, atol=0.2)


@EVERY
def test_rows_keep_the_domain_and_the_seed(mechanism: Mechanism) -> None:
    release = released(mechanism, budget=EXACT)
    rows = release.synthesize(rows=50, seed=3)
    assert rows.num_rows == 50
    assert rows.column_names == list(DOMAIN)
    for name in DOMAIN:
        assert set(rows[name].to_pylist()) <= set(range(DOMAIN[name]))
    assert rows.equals(release.synthesize(rows=50, seed=3))


@EVERY
def test_rules_of_the_schema_hold(mechanism: Mechanism) -> None:
    release = mechanism.plan(WORKLOAD, BUDGET).release(TinyTable(DOMAIN, ROWS, constraints=[RULE]))
    check_spent(release, BUDGET)
    assert release.model().tables([("a", "b")])[("a", "b")][0, 2] == 0


@EVERY
@pytest.mark.parametrize(
    ("workload", "budget", "error", "word"),
    [
        (WORKLOAD, Budget(epsilon=1.0), BudgetError, "delta"),
    ],
)
def test_what_cannot_be_done_is_refused(
    mechanism: Mechanism, workload: Workload, budget: Budget, error: type, word: str
) -> None:
    with pytest.raises(error, match=word):
        mechanism.plan(workload, budget)


@EVERY
def test_plans_say_what_they_do(mechanism: Mechanism) -> None:
    plan = mechanism.plan(WORKLOAD, BUDGET)
    assert mechanism.name in str(plan)
    assert "not known" not in plan.work
    assert all(name and text for name, text in plan.settings.describe(plan))


def test_seeded_runs_are_stamped() -> None:
    release = released(MST(), entropy=NotPrivateEntropy(1))
    assert "NOT PRIVATE" in repr(release)
