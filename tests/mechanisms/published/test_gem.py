"""gem: what it spends, what it chooses and measures, and how near its rows come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hush
from hush import Budget, Domain, Workload
from hush.core.errors import BudgetError, HushError, SizeError, WorkloadError
from hush.mechanisms import GEM, Independent
from hush.mechanisms.mechanism import Mechanism
from hush.models.relaxed.relaxed_rows import RelaxedRows
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.schema import Schema
from hush.testing import TinyTable

DOMAIN = Domain({"a": 2, "b": 3, "c": 2, "d": 3})
WORKLOAD = Workload.kway(DOMAIN, 2)
QUICK = GEM(rounds=3, rows=40, hidden=16)


@pytest.fixture(scope="module")
def pairs() -> TinyTable:
    """A table in which b repeats a and d repeats c, most of the time."""
    random = np.random.Generator(np.random.PCG64(4))
    a, c = random.integers(2, size=(2, 2000))
    b, d = (np.where(random.random(2000) < 0.9, column, 2) for column in (a, c))
    return TinyTable(DOMAIN, list(zip(a.tolist(), b.tolist(), c.tolist(), d.tolist(), strict=True)))


def error(mechanism: Mechanism, table: TinyTable, rho: float = 0.5) -> float:
    """The mean over tables of the total absolute error, as a share of the rows."""
    plan = hush.plan(WORKLOAD, Budget(rho=rho), mechanism=mechanism)
    release = plan.release(table, entropy=NotPrivateEntropy(7))  # type: ignore[arg-type]
    exact, model = table.counts(WORKLOAD.cliques), release.model().tables(WORKLOAD.cliques)
    return float(np.mean([np.abs(exact[clique] - model[clique]).sum() for clique in WORKLOAD.cliques])) / 2000


def test_strong_pairs_are_found_which_independent_columns_miss(pairs: TinyTable) -> None:
    assert error(GEM(rows=100, hidden=32), pairs) < 0.3 * error(Independent(), pairs)


def test_a_run_spends_its_budget_on_columns_choices_and_tables(pairs: TinyTable) -> None:
    rho = 0.2
    release = hush.plan(WORKLOAD, Budget(rho=rho), mechanism=QUICK).release(pairs)  # type: ignore[arg-type]
    columns, chosen = release.noisy_tables[:4], release.noisy_tables[4:]
    assert [table.clique for table in columns] == [(name,) for name in DOMAIN]
    assert [table.clique for table in chosen] == [played.clique for played in release.rounds]
    assert {table.clique for table in chosen} <= set(WORKLOAD.cliques)
    spent = [sum(0.5 / table.stddev**2 for table in tables) for tables in (columns, chosen)]
    choices = sum(played.epsilon**2 / 8 for played in release.rounds)
    assert spent[0] == pytest.approx(0.3 * rho, rel=1e-6)
    assert choices == pytest.approx(0.25 * 0.7 * rho, rel=1e-6)
    assert sum(spent) + choices == pytest.approx(rho, rel=1e-6)
    assert sum(spent) + choices <= rho * (1 + 1e-12)


def test_the_model_is_relaxed_rows_and_answers_as_others_do(pairs: TinyTable, tmp_path: Any) -> None:
    release = hush.plan(WORKLOAD, Budget(rho=0.5), mechanism=QUICK).release(pairs)  # type: ignore[arg-type]
    model = release.model()
    assert isinstance(model.distribution, RelaxedRows)
    assert len(model.distribution.rows) == 40
    release.save(tmp_path / "gem.hush")
    loaded = hush.load(tmp_path / "gem.hush")
    assert isinstance(loaded, hush.Release)
    assert np.array_equal(loaded.model().counts(("a", "b")), model.counts(("a", "b")))
    assert loaded.synthesize(rows=100, seed=1).num_rows == 100


def test_bounds_hold_for_tables_that_were_not_chosen(pairs: TinyTable) -> None:
    plan = hush.plan(WORKLOAD, Budget(rho=5.0), mechanism=QUICK)
    release = plan.release(pairs, entropy=NotPrivateEntropy(2))  # type: ignore[arg-type]
    exact, model = pairs.counts(WORKLOAD.cliques), release.model().tables(WORKLOAD.cliques)
    bounds = {clique: release.error_bound(*clique) for clique in WORKLOAD.cliques}
    assert {bound.kind for bound in bounds.values()} == {"supported", "unsupported"}
    for clique, bound in bounds.items():
        assert np.abs(exact[clique] - model[clique]).sum() <= bound.bound


@pytest.mark.parametrize(
    ("workload", "rounds"),
    [
        (WORKLOAD, 6),
        (Workload.kway(Domain(dict.fromkeys("abcdefgh", 2)), 3), 48),
        (Workload.kway(Domain(dict.fromkeys("abcdefghijkl", 2)), 3), 64),
        (Workload.marginals(DOMAIN, [("a", "b"), ()]), 1),
    ],
)
def test_by_default_rounds_follow_from_columns_and_tables(workload: Workload, rounds: int) -> None:
    assert GEM().planned_rounds(workload) == rounds


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, "rounds=0: expected a whole number of at least 1"),
        ({"rows": None}, "rows=None"),
        ({"hidden": 1.5}, "hidden=1.5"),
        ({"seed": -1}, "seed=-1"),
        ({"column_share": 1.0}, "column_share=1.0: expected a number between 0 and 1"),
        ({"choice_share": 0}, "choice_share=0"),
    ],
)
def test_impossible_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(HushError, match=message):
        GEM(**options)


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(WorkloadError, match="nothing to choose"):
        GEM().plan(Workload.marginals(DOMAIN, [()]), Budget(rho=1.0))
    wide = Domain({"a": 2000, "b": 2000})
    with pytest.raises(SizeError, match="more than 1,048,576 cells"):
        GEM().plan(Workload.kway(wide, 2), Budget(rho=1.0))
    with pytest.raises(BudgetError, match="never pure epsilon"):
        GEM().plan(WORKLOAD, Budget(epsilon=1.0))


def test_rules_are_refused_before_anything_is_charged(tmp_path: Any) -> None:
    columns = Schema.from_domain(DOMAIN).columns
    schema = Schema(columns, constraints=[hush.Constraint.forbid(DOMAIN, ("a", "b"), [(0, 0)])])
    table = hush.read(pa.table({"a": [0], "b": [1], "c": [1], "d": [2]}), schema)
    plan = hush.plan(Workload.kway(schema.domain, 2), Budget(rho=0.5), mechanism=GEM())
    with pytest.raises(WorkloadError, match="the schema has rules"):
        plan.release(table, ledger=tmp_path / "budget.db")
    assert not (tmp_path / "budget.db").exists()
