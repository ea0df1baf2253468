"""PrivMRF: what it spends, the graph and the tables that it chooses, its rounds, and refusals."""

import numpy as np
import pytest

import hush
from hush import Budget, Constraint, Domain, Workload
from hush.core.errors import BudgetError, InterruptedRelease, SizeError, WorkloadError
from hush.mechanisms import MST, PrivMRF, ReleaseJob
from hush.mechanisms.mechanism import CELL_MB
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.testing import TinyTable
from hush.testing.mechanism_contract import spent

DOMAIN = Domain({"a": 2, "b": 3, "c": 2, "d": 4})
WORKLOAD = Workload.kway(DOMAIN, 2)
ROWS = [(i % 2, (i % 2) + (i % 5 == 0), (i // 2) % 2, 2 * ((i // 2) % 2) + (i % 7 == 0)) for i in range(2000)]
TABLE = TinyTable(DOMAIN, ROWS)  # a goes with b, c goes with d


def released(mechanism: PrivMRF, budget: Budget, table: TinyTable = TABLE, seed: int = 1) -> hush.Release:
    plan = mechanism.plan(Workload.kway(table.domain, min(2, len(table.domain))), budget)
    return plan.release(table, entropy=NotPrivateEntropy(seed))  # type: ignore[return-value]


def test_the_whole_budget_is_spent_and_no_more() -> None:
    for budget in (Budget(rho=0.01), Budget(rho=1.0), Budget(epsilon=1.0, delta=1e-9)):
        plan = PrivMRF().plan(WORKLOAD, budget)
        rho = spent(plan.release(TABLE).statement.event).rho
        assert rho is not None
        assert plan.rho * 0.99 <= rho <= plan.rho  # discrete noise spends Gaussian DP a little faster


def test_the_pairs_that_belong_together_are_measured_first() -> None:
    release = released(PrivMRF(), Budget(rho=0.05))
    first = release.noisy_tables[4 : len(release.noisy_tables) - len(release.rounds)]
    held = [set(table.clique) for table in first]
    assert any({"a", "b"} <= table for table in held)
    assert any({"c", "d"} <= table for table in held)
    assert len(release.rounds) == 4
    model = release.model()
    for pair, exact in TABLE.counts([("a", "b"), ("c", "d")]).items():
        assert np.abs(exact - model.counts(pair)).sum() < 200


def test_rounds_choose_inside_the_graph() -> None:
    release = released(PrivMRF(), Budget(rho=0.05))
    linked = ({"a", "b"}, {"c", "d"})
    assert all(any(set(played.clique) <= pair for pair in linked) for played in release.rounds)
    assert release.error_bound("a", "b").kind == "supported"


def test_a_dependence_of_three_columns_is_found_by_triples() -> None:
    domain = Domain(dict.fromkeys("abc", 2))
    random = np.random.default_rng(3)
    a, b = random.integers(0, 2, (2, 4000))
    c = np.where(random.random(4000) < 0.8, a & b, random.integers(0, 2, 4000))
    table = TinyTable(domain, np.stack([a, b, c], 1).tolist())
    release = released(PrivMRF(), Budget(rho=0.5), table)
    assert ("a", "b", "c") in {noisy.clique for noisy in release.noisy_tables}
    exact = table.counts([("a", "b", "c")])[("a", "b", "c")]
    assert np.abs(release.model().counts(("a", "b", "c")) - exact).sum() < 100


def test_loops_are_fitted_better_than_by_a_tree() -> None:
    domain = Domain(dict.fromkeys("abcdef", 3))
    random = np.random.default_rng(4)
    hidden = random.integers(0, 3, 5000)
    rows = np.stack([np.where(random.random(5000) < 0.6, hidden, random.integers(0, 3, 5000)) for _ in range(6)], 1)
    table = TinyTable(domain, rows.tolist())
    workload = Workload.kway(domain, 2)
    errors = []
    for mechanism in (MST(), PrivMRF()):
        release = mechanism.plan(workload, Budget(rho=0.5)).release(table, entropy=NotPrivateEntropy(2))
        tables, exact = release.model().tables(workload.cliques), table.counts(workload.cliques)
        errors.append(sum(np.abs(tables[pair] - exact[pair]).sum() for pair in exact))
    assert errors[1] < 0.7 * errors[0]


def test_independent_columns_get_the_budget_of_tables_that_are_not_found() -> None:
    rows = np.random.default_rng(2).integers(0, (2, 3, 2, 4), size=(60, 4)).tolist()
    release = released(PrivMRF(), Budget(rho=0.01), TinyTable(DOMAIN, rows))
    cliques = [table.clique for table in release.noisy_tables]
    assert cliques == 2 * [("a",), ("b",), ("c",), ("d",)]
    assert not release.rounds
    assert release.record.scored is None


def test_one_column_gets_all_of_the_budget() -> None:
    release = released(PrivMRF(), Budget(rho=0.5), TinyTable(Domain({"a": 5}), [(1,), (2,)]))
    precision = sum(1 / noisy.stddev**2 for noisy in release.noisy_tables)
    assert precision == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("last", range(2, 8))
def test_an_interrupted_run_goes_on_where_it_stopped(last: int) -> None:
    plan, steps = PrivMRF(rounds=3).plan(WORKLOAD, Budget(rho=0.2)), []

    def stop(share: float) -> None:
        steps.append(share)
        if len(steps) == last:  # columns, scores, first tables; then twice a round
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRelease) as stopped:
        ReleaseJob(plan).run(TABLE, progress=stop)  # type: ignore[arg-type]
    partial = stopped.value.release
    whole = plan.release(TABLE, resume=partial)  # type: ignore[arg-type]
    assert whole.record.surveys[0].values.tolist() == partial.record.surveys[0].values.tolist()  # type: ignore
    assert len(whole.rounds) == 3
    assert whole.rounds[: len(partial.rounds)] == partial.rounds  # type: ignore[union-attr]
    assert plan.rho * (1 - 1e-6) <= spent(whole.statement.event).rho <= plan.rho  # type: ignore[operator]


def test_the_model_stays_within_its_limit() -> None:
    limit = CELL_MB * 14
    release = released(PrivMRF(max_size_mb=limit), Budget(rho=1.0))
    assert release.record.fitted is not None
    assert release.record.fitted.value.size_mb <= limit
    with pytest.raises(SizeError, match="starts with"):
        PrivMRF(max_size_mb=CELL_MB).plan(WORKLOAD, Budget(rho=1.0))


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(BudgetError, match="initial_share=1"):
        PrivMRF(initial_share=1.0)
    with pytest.raises(BudgetError, match="leave nothing for rounds"):
        PrivMRF(initial_share=0.8)
    with pytest.raises(BudgetError, match="rounds=0"):
        PrivMRF(rounds=0)
    with pytest.raises(WorkloadError, match="usefulness=0"):
        PrivMRF(usefulness=0.0)
    with pytest.raises(BudgetError, match="never pure epsilon"):
        PrivMRF().plan(WORKLOAD, Budget(epsilon=1.0))


def test_rules_hold_in_tables_and_rows() -> None:
    rule = Constraint.forbid(DOMAIN, ("a", "b"), [(0, 2)])
    table = TinyTable(DOMAIN, [row for row in ROWS if row[:2] != (0, 2)], constraints=[rule])
    release = released(PrivMRF(), Budget(rho=0.1), table)
    assert release.model().counts(("a", "b"))[0, 2] == 0
    rows = release.synthesize(rows=500, seed=1)
    assert (0, 2) not in set(zip(rows["a"].to_pylist(), rows["b"].to_pylist(), strict=True))
