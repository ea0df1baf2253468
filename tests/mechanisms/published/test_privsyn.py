"""PrivSyn: what it spends, which pairs it chooses, how pairs are combined, and rows that fit them."""

from itertools import combinations

import numpy as np
import pytest

import hush
from hush import Budget, Constraint, Domain, Workload
from hush.core.errors import BudgetError, InterruptedRelease, SizeError
from hush.mechanisms import PrivSyn, ReleaseJob
from hush.mechanisms.mechanism import CELL_MB
from hush.mechanisms.published.privsyn import combined
from hush.models.local.local_model import LocalModel
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.testing import TinyTable
from hush.testing.mechanism_contract import spent

DOMAIN = Domain({"a": 2, "b": 3, "c": 2, "d": 4})
WORKLOAD = Workload.kway(DOMAIN, 2)
ROWS = [(i % 2, (i % 2) + (i % 5 == 0), (i // 2) % 2, 2 * ((i // 2) % 2) + (i % 7 == 0)) for i in range(2000)]
TABLE = TinyTable(DOMAIN, ROWS)  # a goes with b, c goes with d


def released(mechanism: PrivSyn, budget: Budget, table: TinyTable = TABLE, seed: int = 1) -> hush.Release:
    plan = mechanism.plan(Workload.kway(table.domain, min(2, len(table.domain))), budget)
    return plan.release(table, entropy=NotPrivateEntropy(seed))  # type: ignore[return-value]


def test_the_whole_budget_is_spent_and_no_more() -> None:
    for budget in (Budget(rho=0.01), Budget(rho=1.0), Budget(epsilon=1.0, delta=1e-9)):
        plan = PrivSyn().plan(WORKLOAD, budget)
        rho = spent(plan.release(TABLE).statement.event).rho
        assert rho is not None
        assert plan.rho * 0.99 <= rho <= plan.rho  # discrete noise spends Gaussian DP a little faster


def test_the_pairs_that_belong_together_are_measured() -> None:
    release = released(PrivSyn(), Budget(rho=0.05))
    tables = [table.clique for table in release.noisy_tables]
    assert tables[:4] == [("a",), ("b",), ("c",), ("d",)]
    assert {("a", "b"), ("c", "d")} <= set(tables)
    assert not release.rounds
    exact, model = TABLE.counts([("a", "b")])[("a", "b")], release.model().counts(("a", "b"))
    assert np.abs(exact - model).sum() < 150


def test_more_noise_leaves_out_pairs() -> None:
    counts = [len(released(PrivSyn(), Budget(rho=rho)).noisy_tables) for rho in (1e-4, 5e-3, 50.0)]
    assert counts[0] <= counts[1] <= counts[2] + 1  # with little noise, pairs may be combined
    assert counts[0] < 8


def test_shares_grow_with_the_cells_to_two_thirds() -> None:
    domain = Domain({"a": 4, "b": 4, "c": 12, "d": 12})
    rows = [(i % 4, i % 4, i // 4 % 12, i // 4 % 12) for i in range(2400)]
    release = released(PrivSyn(), Budget(rho=0.01), TinyTable(domain, rows))
    noise = {table.clique: table.stddev**2 for table in release.noisy_tables if len(table.clique) == 2}
    assert set(noise) == {("a", "b"), ("c", "d")}
    assert noise[("a", "b")] / noise[("c", "d")] == pytest.approx(9 ** (2 / 3), rel=1e-6)


def test_independent_columns_get_the_budget_of_pairs_that_are_not_worth_their_noise() -> None:
    domain = Domain(dict.fromkeys("abcd", 12))
    rows = np.random.default_rng(2).integers(0, 12, size=(400, 4)).tolist()
    release = released(PrivSyn(), Budget(rho=0.01), TinyTable(domain, rows))
    cliques = [table.clique for table in release.noisy_tables]
    assert cliques == 2 * [("a",), ("b",), ("c",), ("d",)]
    assert release.noisy_tables[4].stddev < release.noisy_tables[0].stddev


def test_one_column_gets_all_of_the_budget() -> None:
    table = TinyTable(Domain({"a": 5}), [(1,), (2,)])
    release = released(PrivSyn(), Budget(rho=0.5), table)
    assert release.record.surveys == []  # type: ignore[attr-defined]
    precision = sum(1 / noisy.stddev**2 for noisy in release.noisy_tables)
    assert precision == pytest.approx(1.0, rel=1e-3)


def total_error(domain: Domain, tables: dict[tuple[str, ...], float]) -> float:
    return sum(weight ** (2 / 3) for weight in tables.values()) ** 1.5


@pytest.mark.parametrize("sizes", [(2, 2, 2, 2), (2, 2, 3, 9), (5, 5, 5, 5), (1, 2, 2, 2)])
def test_combined_tables_hold_every_pair_with_less_noise_and_no_more_cells(sizes: tuple[int, ...]) -> None:
    domain = Domain(dict(zip("abcd", sizes, strict=True)))
    pairs = list(combinations("abcd", 2))
    tables = combined(domain, pairs)
    assert all(any(set(pair) <= set(table) for table in tables) for pair in pairs)
    apart = {pair: float(domain.size(pair)) for pair in pairs}
    assert total_error(domain, tables) <= total_error(domain, apart) * (1 + 1e-12)
    assert sum(map(domain.size, tables)) <= sum(map(domain.size, pairs))


def test_binary_pairs_are_combined_and_wide_ones_are_not() -> None:
    binary, wide = (Domain(dict.fromkeys("abc", size)) for size in (2, 5))
    pairs = list(combinations("abc", 2))
    assert list(combined(binary, pairs)) == [("a", "b", "c")]
    assert list(combined(wide, pairs)) == pairs
    assert list(combined(binary, pairs[:2])) == pairs[:2]  # b and c were not chosen together


def test_rows_fit_tables_that_no_junction_tree_of_the_same_size_holds() -> None:
    domain = Domain(dict.fromkeys("abcdef", 3))
    random = np.random.default_rng(4)
    hidden = random.integers(0, 3, 3000)
    rows = np.stack([np.where(random.random(3000) < 0.6, hidden, random.integers(0, 3, 3000)) for _ in range(6)], 1)
    table = TinyTable(domain, rows.tolist())
    release = released(PrivSyn(), Budget(rho=0.5), table)
    assert isinstance(release.model().distribution, LocalModel)
    codes = release.synthesize(rows=3000, seed=1)
    drawn = TinyTable(domain, list(zip(*(codes[name].to_pylist() for name in domain), strict=True)))
    pairs = list(combinations(domain.attributes, 2))
    exact, made = table.counts(pairs), drawn.counts(pairs)
    apart = {pair: np.outer(t.sum(axis=1), t.sum(axis=0)) / 3000 for pair, t in exact.items()}
    error, worst = (sum(np.abs(other[pair] - exact[pair]).sum() for pair in pairs) for other in (made, apart))
    assert error < 0.3 * worst


def test_an_interrupted_run_keeps_its_scores_and_chooses_by_them() -> None:
    plan = PrivSyn().plan(WORKLOAD, Budget(rho=0.2))
    steps: list[float] = []

    def stop(share: float) -> None:
        steps.append(share)
        if len(steps) == 2:  # columns, scores
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRelease) as stopped:
        ReleaseJob(plan).run(TABLE, progress=stop)  # type: ignore[arg-type]
    assert steps == pytest.approx([0.1, 0.2], rel=1e-3)
    partial = stopped.value.release
    scores = partial.record.surveys[0]  # type: ignore[union-attr]
    whole = plan.release(TABLE, resume=partial)  # type: ignore[arg-type]
    np.testing.assert_array_equal(whole.record.surveys[0].values, scores.values)
    assert spent(whole.statement.event).rho <= plan.rho * (1 + 1e-9)  # type: ignore[operator]


def test_pairs_beyond_the_limit_are_left_out() -> None:
    limit = CELL_MB * 11  # the columns alone; a x b takes 6 of them, c x d takes 8
    release = released(PrivSyn(max_size_mb=limit), Budget(rho=10.0))
    pairs = [table for table in release.noisy_tables if len(table.clique) > 1]
    assert 0 < sum(table.values.size for table in pairs) <= 11
    with pytest.raises(SizeError, match="starts with"):
        PrivSyn(max_size_mb=CELL_MB).plan(WORKLOAD, Budget(rho=1.0))


def test_impossible_shares_are_refused() -> None:
    with pytest.raises(BudgetError, match="column_share=0"):
        PrivSyn(column_share=0.0)
    with pytest.raises(BudgetError, match="leave nothing to measure tables with"):
        PrivSyn(column_share=0.5, score_share=0.5)
    with pytest.raises(BudgetError, match="never pure epsilon"):
        PrivSyn().plan(WORKLOAD, Budget(epsilon=1.0))


def test_rules_hold_in_tables_and_rows() -> None:
    rule = Constraint.forbid(DOMAIN, ("a", "b"), [(0, 2)])
    table = TinyTable(DOMAIN, [row for row in ROWS if row[:2] != (0, 2)], constraints=[rule])
    release = released(PrivSyn(), Budget(rho=0.1), table)
    assert release.model().counts(("a", "b"))[0, 2] == 0
    rows = release.synthesize(rows=500, seed=1)
    assert (0, 2) not in set(zip(rows["a"].to_pylist(), rows["b"].to_pylist(), strict=True))
