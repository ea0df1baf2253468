"""SWIFT: what it spends, which tables it scores and measures, its tree, and how it goes on."""

from itertools import combinations

import numpy as np
import pytest

import hush
from hush import Budget, Constraint, Domain, Workload
from hush.core.errors import BudgetError, InterruptedRelease, SizeError
from hush.mechanisms import SWIFT, ReleaseJob
from hush.mechanisms.mechanism import CELL_MB
from hush.mechanisms.published.swift import inside
from hush.models.graphical.graphical_model import GraphicalModel
from hush.models.graphical.junction_tree import JunctionTree
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.testing import TinyTable
from hush.testing.mechanism_contract import spent

DOMAIN = Domain({"a": 2, "b": 3, "c": 2, "d": 4})
WORKLOAD = Workload.kway(DOMAIN, 2)
ROWS = [(i % 2, (i % 2) + (i % 5 == 0), (i // 2) % 2, 2 * ((i // 2) % 2) + (i % 7 == 0)) for i in range(2000)]
TABLE = TinyTable(DOMAIN, ROWS)  # a goes with b, c goes with d


def released(
    budget: Budget, table: TinyTable = TABLE, workload: Workload | None = None, settings: SWIFT | None = None
) -> hush.Release:
    plan = (settings or SWIFT()).plan(workload or Workload.kway(table.domain, min(2, len(table.domain))), budget)
    return plan.release(table, entropy=NotPrivateEntropy(1))  # type: ignore[return-value]


def test_the_whole_budget_is_spent_and_no_more() -> None:
    for budget in (Budget(rho=0.01), Budget(rho=1.0), Budget(epsilon=1.0, delta=1e-9)):
        plan = SWIFT().plan(WORKLOAD, budget)
        rho = spent(plan.release(TABLE).statement.event).rho
        assert rho is not None
        assert plan.rho * 0.99 <= rho <= plan.rho  # discrete noise spends Gaussian DP a little faster


def test_the_pairs_that_belong_together_are_measured_once() -> None:
    release = released(Budget(rho=0.05))
    tables = [table.clique for table in release.noisy_tables]
    assert tables[:4] == [("a",), ("b",), ("c",), ("d",)]
    assert {("a", "b"), ("c", "d")} <= set(tables)
    assert len(set(tables)) == len(tables)
    assert not release.rounds
    assert isinstance(release.model().distribution, GraphicalModel)
    exact, model = TABLE.counts([("a", "b")])[("a", "b")], release.model().counts(("a", "b"))
    assert np.abs(exact - model).sum() < 150


def test_candidates_are_the_subsets_of_asked_tables_with_their_weights() -> None:
    asked = Workload.marginals(DOMAIN, [("a", "b", "d"), ("c",)], [2.0, 1.0])
    assert SWIFT().candidates(asked) == {
        ("a", "b"): 4.0,
        ("a", "d"): 4.0,
        ("b", "d"): 4.0,
        ("a", "b", "d"): 6.0,
    }
    release = released(Budget(rho=0.5), workload=asked)
    assert set(release.record.surveys[0].cliques) == set(SWIFT().candidates(asked))  # type: ignore[attr-defined]


def test_shares_grow_with_the_noise_of_a_table_to_two_thirds() -> None:
    domain = Domain({"a": 4, "b": 4, "c": 12, "d": 12})
    rows = [(i % 4, i % 4, i // 4 % 12, i // 4 % 12) for i in range(2400)]
    asked = Workload.marginals(domain, [("a", "b"), ("c", "d")], [8.0, 1.0])
    release = released(Budget(rho=0.01), TinyTable(domain, rows), asked)
    noise = {table.clique: table.stddev**2 for table in release.noisy_tables if len(table.clique) == 2}
    assert set(noise) == {("a", "b"), ("c", "d")}
    # The cells differ by a factor of 9, the weights by 8.
    assert noise[("a", "b")] / noise[("c", "d")] == pytest.approx((9 / 8) ** (2 / 3), rel=1e-6)


def test_a_triple_that_its_pairs_do_not_explain_is_measured() -> None:
    random = np.random.default_rng(5)
    bits = random.integers(0, 2, (2, 4000))
    table = TinyTable(Domain(dict.fromkeys("abcd", 2)), np.vstack([bits, bits.sum(axis=0) % 2, bits[:1]]).T.tolist())
    asked = Workload.kway(table.domain, 3)
    release = released(Budget(rho=2.0), table, asked)
    assert ("a", "b", "c") in [noisy.clique for noisy in release.noisy_tables]
    exact, model = table.counts([("a", "b", "c")])[("a", "b", "c")], release.model().counts(("a", "b", "c"))
    assert np.abs(exact - model).sum() < 100


def test_independent_columns_get_the_budget_of_tables_that_are_not_worth_their_noise() -> None:
    domain = Domain(dict.fromkeys("abcd", 12))
    rows = np.random.default_rng(2).integers(0, 12, size=(400, 4)).tolist()
    release = released(Budget(rho=0.002), TinyTable(domain, rows))
    cliques = [table.clique for table in release.noisy_tables]
    assert cliques == 2 * [("a",), ("b",), ("c",), ("d",)]
    assert release.noisy_tables[4].stddev < release.noisy_tables[0].stddev


def test_one_column_gets_all_of_the_budget() -> None:
    release = released(Budget(rho=0.5), TinyTable(Domain({"a": 5}), [(1,), (2,)]))
    assert release.record.surveys == []  # type: ignore[attr-defined]
    precision = sum(1 / noisy.stddev**2 for noisy in release.noisy_tables)
    assert precision == pytest.approx(1.0, rel=1e-3)


def test_the_tree_and_all_measured_tables_stay_within_the_limit() -> None:
    random = np.random.default_rng(3)
    hidden = random.integers(0, 4, 3000)
    rows = np.stack([np.where(random.random(3000) < 0.7, hidden, random.integers(0, 4, 3000)) for _ in range(6)], 1)
    table = TinyTable(Domain(dict.fromkeys("abcdef", 4)), rows.tolist())
    limit = CELL_MB * 100  # a tree of pairs takes 80 cells; all columns together take 4,096
    release = released(Budget(rho=5.0), table, settings=SWIFT(max_size_mb=limit))
    pairs = [noisy.clique for noisy in release.noisy_tables if len(noisy.clique) == 2]
    assert len(pairs) >= 4
    assert JunctionTree.build(table.domain, pairs).cells <= 100
    free = released(Budget(rho=5.0), table)
    assert len([noisy for noisy in free.noisy_tables if len(noisy.clique) == 2]) > len(pairs)
    with pytest.raises(SizeError, match="starts with"):
        SWIFT(max_size_mb=CELL_MB).plan(WORKLOAD, Budget(rho=1.0))


def test_tables_inside_a_tree_are_found() -> None:
    tree = JunctionTree.build(DOMAIN, [("a", "b", "c"), ("c", "d")])
    pairs = list(combinations(DOMAIN.attributes, 2))
    assert inside(tree, pairs) == [("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")]


def test_an_interrupted_run_keeps_its_scores_and_chooses_by_them() -> None:
    plan = SWIFT().plan(WORKLOAD, Budget(rho=0.2))
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


def test_rules_hold_in_the_model_and_count_for_its_size() -> None:
    rule = Constraint.forbid(DOMAIN, ("a", "c"), [(0, 1)])
    table = TinyTable(DOMAIN, [row for row in ROWS if (row[0], row[2]) != (0, 1)], constraints=[rule])
    release = released(Budget(rho=0.5), table)
    assert release.model().counts(("a", "c"))[0, 1] == 0


def test_impossible_shares_are_refused() -> None:
    with pytest.raises(BudgetError, match="column_share=0"):
        SWIFT(column_share=0.0)
    with pytest.raises(BudgetError, match="leave nothing to measure tables with"):
        SWIFT(column_share=0.5, score_share=0.5)
    with pytest.raises(BudgetError, match="never pure epsilon"):
        SWIFT().plan(WORKLOAD, Budget(epsilon=1.0))
