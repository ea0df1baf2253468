"""Scout: what it spends in which stage, which tables it surveys and measures, what it refuses, and how it goes on."""

import math
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hush
from hush import Budget, Constraint, Domain, Workload
from hush.core.domain import Clique
from hush.core.errors import BudgetError, InterruptedRelease
from hush.core.spanning_tree import spanning_tree
from hush.mechanisms import MST, Independent, Mechanism, ReleaseJob, Scout, mechanism, scout
from hush.mechanisms.scout import MERGED_LEVELS
from hush.models.local.local_model import LocalModel
from hush.privacy.account import used_up
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.ledger import Ledger
from hush.privacy.sensitivity import Neighbours
from hush.release.survey_record import Survey
from hush.schema import Unit
from hush.strategies.rare_levels import MergedQuery
from hush.strategies.residual_strategy import is_residual
from hush.testing import TinyTable, check_replay
from hush.testing.mechanism_contract import spent

DOMAIN = Domain({"a": 4, "b": 5, "c": 4, "d": 6})  # so many levels that surveys pay
PAIRS, TRIPLES = (list(combinations(DOMAIN.attributes, order)) for order in (2, 3))
ROWS = [(i % 2, (i % 2) + (i % 5 == 0), (i // 2) % 2, 2 * ((i // 2) % 2) + (i % 7 == 0)) for i in range(2000)]
TABLE: Any = TinyTable(DOMAIN, ROWS)  # a goes with b, c goes with d
SMALL, HUGE = Budget(rho=0.005), Budget(rho=1e4)


def released(
    workload: Workload, budget: Budget, table: Any = TABLE, seed: int = 1, settings: Mechanism | None = None
) -> hush.Release:
    return (settings or Scout()).plan(workload, budget).release(table, entropy=NotPrivateEntropy(seed))


def surveys_of(release: hush.Release) -> list[Survey]:
    return release.record.surveys  # type: ignore[attr-defined,no-any-return]


def spent_all(release: hush.Release, plan: Any) -> bool:
    """Whether the budget was spent to the last of it, and never above."""
    rho = spent(release.statement.event).rho
    assert rho is not None
    assert rho <= plan.rho
    return used_up(plan.rho - rho, plan.rho)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("budget", [Budget(rho=0.002), Budget(rho=0.3), Budget(rho=50)], ids=str)
def test_the_whole_budget_is_spent_and_no_more(budget: Budget, order: int, tmp_path: Any) -> None:
    plan = Scout().plan(Workload.kway(DOMAIN, order), budget)
    release = plan.release(TABLE, ledger=tmp_path / "budget.db", entropy=NotPrivateEntropy(order))
    assert spent_all(release, plan)
    assert Ledger.open(tmp_path / "budget.db").total == spent(release.statement.event)


def test_a_budget_of_epsilon_and_delta_is_spent() -> None:
    plan = Scout().plan(Workload.kway(DOMAIN, 2), Budget(epsilon=1.0, delta=1e-9))
    rho = spent(plan.release(TABLE).statement.event).rho
    assert rho is not None
    assert plan.rho * 0.99 <= rho <= plan.rho  # discrete noise spends Gaussian DP a little faster


def test_the_stages_of_a_small_budget_are_on_record() -> None:
    release = released(Workload.kway(DOMAIN, 3), SMALL)
    first, second = surveys_of(release)
    assert set(first.cliques) == set(PAIRS)
    assert set(second.cliques) == {*PAIRS, *TRIPLES}
    columns = release.noisy_tables[:4]
    assert [table.clique for table in columns] == [("a",), ("b",), ("c",), ("d",)]
    assert not any(is_residual(table.asked) for table in columns)
    assert all(is_residual(table.asked) for table in release.noisy_tables[4:])
    # the first survey comes after the columns, the second after the tree, the last stage after both
    assert first.tables_before == 4
    assert 4 < second.tables_before < len(release.noisy_tables)
    tree = [table.clique for table in release.noisy_tables[4 : second.tables_before] if len(table.clique) > 1]
    strongest_first = [first.cliques[index] for index in np.argsort(-first.values, kind="stable")]
    assert set(tree) <= set(spanning_tree(strongest_first))
    assert len(set(tree)) == len(tree) <= 3
    assert first.law.variance_parameter * 10 == pytest.approx(float(second.law.variance_parameter * 6))
    assert not release.rounds
    assert isinstance(release.model().distribution, LocalModel)


def test_a_huge_budget_needs_one_survey_and_no_tree() -> None:
    release = released(Workload.kway(DOMAIN, 2), HUGE)
    (only,) = surveys_of(release)
    assert only.tables_before == 4
    assert set(only.cliques) == set(PAIRS)
    last = [table.clique for table in release.noisy_tables[4:]]
    assert len(last) == len(set(last))  # one stage, which measures no set twice
    assert {("a", "b"), ("c", "d")} <= set(last)
    exact = TABLE.counts(PAIRS)
    for pair in PAIRS:
        assert np.abs(release.model().counts(pair) - exact[pair]).sum() < 2


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("budget", [SMALL, HUGE], ids=str)
def test_columns_of_few_levels_are_measured_at_once_without_a_survey(budget: Budget, order: int) -> None:
    domain = Domain(dict.fromkeys("abcdefg", 2))
    table: Any = TinyTable(domain, [[(i >> place) % 2 for place in range(5)] + [i % 2] * 2 for i in range(2000)])
    plan = Scout().plan(Workload.kway(domain, order), budget)
    partial, steps = stopped_after(plan, 1, table)
    assert steps == pytest.approx([0.08])
    for release in (
        plan.release(table, entropy=NotPrivateEntropy(1)),
        plan.release(table, resume=partial, entropy=NotPrivateEntropy(2)),
    ):
        assert surveys_of(release) == []
        assert spent_all(release, plan)
        residuals = [measured.clique for measured in release.noisy_tables[len(domain) :]]
        assert len(residuals) == len(set(residuals))  # each set once
        if budget is HUGE:
            assert {clique for clique in residuals if len(clique) > 1} == set(Scout().tables(plan.workload))


def test_triples_are_surveyed_whatever_the_budget() -> None:
    surveys = surveys_of(released(Workload.kway(DOMAIN, 3), HUGE))
    assert [len(survey.cliques) for survey in surveys] == [6, 10]


@pytest.mark.parametrize(
    "asked", [[("a", "b", "c", "d")], [("a", "b"), ("b", "c", "d")], [("a",), ("c", "b")]], ids=str
)
def test_surveyed_tables_are_the_subsets_of_asked_ones(asked: list[Clique]) -> None:
    workload = Workload.marginals(DOMAIN, asked)
    subsets = {names for order in (2, 3) for clique in asked for names in combinations(DOMAIN.clique(clique), order)}
    tables = Scout().tables(workload)
    assert set(tables) == subsets
    assert len(tables) == len(subsets)
    sizes = [(len(names), DOMAIN.size(names)) for names in tables]
    assert sizes == sorted(sizes)
    release = released(workload, SMALL)
    assert {clique for survey in surveys_of(release) for clique in survey.cliques} <= subsets
    assert {table.clique for table in release.noisy_tables if len(table.clique) > 1} <= subsets


def test_tables_above_the_cell_limits_are_left_out() -> None:
    wide = Domain({"a": 2000, "b": 2000, "c": 3, "d": 2})
    kept = Scout().tables(Workload.kway(wide, 3))
    assert ("a", "b") not in kept
    assert {("a", "c", "d"), ("b", "c", "d"), ("a", "c")} <= set(kept)
    assert all(wide.size(names) <= scout.MOST_TABLE_CELLS for names in kept)
    many = Domain({f"x{i}": 1000 for i in range(8)})
    kept = Scout().tables(Workload.kway(many, 2))
    assert len(kept) == scout.MOST_CELLS // 10**6
    assert sum(map(many.size, kept)) <= scout.MOST_CELLS


def test_a_workload_of_single_columns_measures_the_columns_twice() -> None:
    release = released(Workload.kway(DOMAIN, 1), Budget(rho=0.1))
    assert surveys_of(release) == []
    cliques = [table.clique for table in release.noisy_tables]
    assert cliques == 2 * [("a",), ("b",), ("c",), ("d",)]
    assert release.model().counts(("a", "b")).shape == (4, 5)


def test_one_asked_column_gets_the_rest_of_the_budget() -> None:
    release = released(Workload.marginals(DOMAIN, [("b",)]), Budget(rho=0.1))
    assert [table.clique for table in release.noisy_tables[4:]] == [("b",)]


def test_a_workload_of_the_total_alone() -> None:
    plan = Scout().plan(Workload.kway(DOMAIN, 0), Budget(rho=0.1))
    release = plan.release(TABLE, entropy=NotPrivateEntropy(1))
    assert release.model().total == pytest.approx(2000, abs=300)
    assert spent_all(release, plan)


@pytest.mark.parametrize("names", ["a", "ab"])
def test_a_domain_of_columns_of_one_level(names: str) -> None:
    domain = Domain(dict.fromkeys(names, 1))
    release = released(Workload.upto(domain, 0), Budget(rho=0.1), TinyTable(domain, [(0,) * len(names)] * 50))
    assert release.counts(tuple(names)).size == 1


def test_columns_of_one_level_are_left_out() -> None:
    domain = Domain({"one": 1, "a": 5, "two": 1, "b": 6})
    table: Any = TinyTable(domain, [(0, i % 2, 0, i % 2 + (i % 5 == 0)) for i in range(1000)])
    workload = Workload.marginals(domain, [("one", "a", "b"), ("two", "b")])
    assert Scout().tables(workload) == [("a", "b")]
    plan = Scout().plan(workload, Budget(rho=0.05))
    release = plan.release(table, entropy=NotPrivateEntropy(1))
    assert {clique for survey in surveys_of(release) for clique in survey.cliques} == {("a", "b")}
    assert spent_all(release, plan)
    exact = table.counts([("one", "a", "b")])["one", "a", "b"]
    assert np.abs(release.model().counts(("one", "a", "b")) - exact).sum() < 200
    assert set(release.synthesize(rows=20, seed=1)["two"].to_pylist()) == {0}


def test_a_domain_of_one_column() -> None:
    domain = Domain({"a": 5})
    plan = Scout().plan(Workload.kway(domain, 1), Budget(rho=0.5))
    table: Any = TinyTable(domain, [(1,)] * 30 + [(2,)] * 70)
    release = plan.release(table, entropy=NotPrivateEntropy(1))
    assert surveys_of(release) == []
    assert spent_all(release, plan)
    np.testing.assert_allclose(release.model().counts(("a",)), [0, 30, 70, 0, 0], atol=12)


def test_a_table_without_rows() -> None:
    release = released(Workload.kway(DOMAIN, 2), Budget(rho=1.0), TinyTable(DOMAIN, []))
    assert 1 <= release.model().total < 40
    assert len(release.synthesize(rows=5, seed=1)) == 5


ROW_COUNT = 3000


def one_dependent_pair() -> Any:
    """c goes with f, and all other columns are independent."""
    random = np.random.default_rng(2)
    codes = random.integers(0, 4, (8, ROW_COUNT))
    codes[5] = np.where(random.random(ROW_COUNT) < 0.8, codes[2], codes[5])
    return TinyTable(Domain(dict.fromkeys("abcdefgh", 4)), codes.T.tolist())


@pytest.mark.parametrize("rho", [0.005, 0.02])
def test_a_strong_pair_among_independent_ones_is_found_and_measured(rho: float) -> None:
    table, pair = one_dependent_pair(), ("c", "f")
    exact = table.counts([pair])[pair]
    apart = np.abs(exact - np.outer(exact.sum(axis=1), exact.sum(axis=0)) / ROW_COUNT).sum()
    for seed in range(3):
        release = released(Workload.kway(table.domain, 2), Budget(rho=rho), table, seed)
        first = surveys_of(release)[0]
        assert first.cliques[int(np.argmax(first.values))] == pair
        assert pair in [table.clique for table in release.noisy_tables]
        assert np.abs(release.model().counts(pair) - exact).sum() < 0.3 * apart


def test_columns_of_many_levels_do_not_take_the_budget_of_the_others() -> None:
    """A noisy column of 200 levels is wrong by at most all 600 rows, so measuring it again is worth no more."""
    random = np.random.default_rng(3)
    label = random.integers(0, 2, 600)
    other = np.where(random.random(600) < 0.8, label, 1 - label)
    rows = np.column_stack([label, other, *random.integers(0, 200, (2, 600))]).tolist()
    table: Any = TinyTable(Domain({"label": 2, "other": 2, "wide": 200, "wider": 200}), rows)
    exact = table.counts([("label", "other")])["label", "other"]
    for seed in range(3):
        release = released(Workload.kway(table.domain, 2), Budget(rho=0.005), table, seed)
        assert ("label", "other") in [noisy.clique for noisy in release.noisy_tables]
        # Independent columns would be wrong by 0.6 of the rows.
        assert np.abs(release.model().counts(("label", "other")) - exact).sum() < 0.3 * 600


def loop_of_dependences() -> Any:
    """Each column shares a bit with the next, and the last with the first, so that no tree holds all pairs."""
    random = np.random.default_rng(1)
    bits = random.integers(0, 2, (5, ROW_COUNT))
    codes = 2 * bits + np.roll(bits, -1, axis=0)
    codes = np.where(random.random(codes.shape) < 0.1, random.integers(0, 4, codes.shape), codes)
    return TinyTable(Domain(dict.fromkeys("abcde", 4)), codes.T.tolist())


@pytest.mark.parametrize("rho", [0.01, 0.05])
def test_a_loop_of_dependences_is_modelled_better_than_by_a_tree(rho: float) -> None:
    table = loop_of_dependences()
    pairs = list(combinations(table.domain.attributes, 2))
    exact = table.counts(pairs)
    errors = {}
    for settings in (Scout(), MST(), Independent()):
        models = [
            released(Workload.kway(table.domain, 2), Budget(rho=rho), table, seed, settings).model()
            for seed in range(2)
        ]
        errors[settings.name] = sum(np.abs(m.counts(pair) - exact[pair]).sum() for m in models for pair in pairs)
    assert errors["scout"] < 0.7 * errors["mst"]
    assert errors["mst"] < errors["independent"]


def test_rows_follow_the_tables() -> None:
    table = loop_of_dependences()
    release = released(Workload.kway(table.domain, 2), Budget(rho=0.05), table)
    codes = release.synthesize(rows=ROW_COUNT, seed=1)
    drawn = TinyTable(table.domain, list(zip(*(codes[name].to_pylist() for name in table.domain), strict=True)))
    pairs = list(combinations(table.domain.attributes, 2))
    exact, made = table.counts(pairs), drawn.counts(pairs)
    apart = {pair: np.outer(t.sum(axis=1), t.sum(axis=0)) / ROW_COUNT for pair, t in exact.items()}
    error, worst = (sum(np.abs(other[pair] - exact[pair]).sum() for pair in pairs) for other in (made, apart))
    assert error < 0.3 * worst


def test_rules_hold_in_tables_and_rows() -> None:
    rule = Constraint.forbid(DOMAIN, ("a", "b"), [(0, 2)])
    table: Any = TinyTable(DOMAIN, [row for row in ROWS if row[:2] != (0, 2)], constraints=[rule])
    for budget in (SMALL, Budget(rho=0.5)):
        release = released(Workload.kway(DOMAIN, 3), budget, table)
        assert release.model().counts(("a", "b"))[0, 2] == pytest.approx(0, abs=1e-6)
        rows = release.synthesize(rows=500, seed=1)
        assert (0, 2) not in set(zip(rows["a"].to_pylist(), rows["b"].to_pylist(), strict=True))


def stopped_after(plan: Any, stages: int, table: Any = TABLE) -> tuple[hush.Release, list[float]]:
    """A run that is interrupted at the end of a stage: columns, survey, tree, survey, last stage."""
    steps: list[float] = []

    def stop(share: float) -> None:
        steps.append(share)
        if len(steps) == stages:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRelease) as stopped:
        ReleaseJob(plan, entropy=NotPrivateEntropy(5)).run(table, progress=stop)
    partial = stopped.value.release
    assert isinstance(partial, hush.Release)
    return partial, steps


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5])
def test_an_interrupted_run_keeps_its_surveys_and_tables_and_spends_the_rest(stages: int) -> None:
    plan = Scout().plan(Workload.kway(DOMAIN, 3), Budget(rho=0.01))
    partial, steps = stopped_after(plan, stages)
    assert steps == pytest.approx([0.08, 0.12, 0.37, 0.41, 1.0][:stages], rel=1e-6)
    kept, tables = surveys_of(partial), partial.noisy_tables
    assert len(kept) == [0, 1, 1, 2, 2][stages - 1]
    whole = plan.release(TABLE, resume=partial, entropy=NotPrivateEntropy(6))
    assert len(surveys_of(whole)) == 2
    for ours, theirs in zip(kept, surveys_of(whole), strict=False):
        np.testing.assert_array_equal(ours.values, theirs.values)
        assert (ours.law, ours.tables_before, ours.cliques) == (theirs.law, theirs.tables_before, theirs.cliques)
    for before, after in zip(tables, whole.noisy_tables, strict=False):
        assert before.clique == after.clique
        np.testing.assert_array_equal(before.raw, after.raw)
    assert len(whole.noisy_tables) > len(tables) or stages == 5
    assert all(survey.moved is not None for survey in surveys_of(whole))
    assert whole.complete
    assert spent_all(whole, plan)


WIDE = Domain({"x": 30, "y": 24, "z": 3})
WIDE_PAIRS = list(combinations(WIDE.attributes, 2))


def wide_table(rows: int = 4000) -> Any:
    """Two columns of many levels that rise together, and a third that follows the first."""
    random = np.random.Generator(np.random.PCG64(3))
    first = random.normal(size=rows)
    second = 0.8 * first + 0.6 * random.normal(size=rows)
    cuts = [np.clip((values + 3) / 6 * size, 0, size - 1) for values, size in ((first, 30), (second, 24), (first, 3))]
    return TinyTable(WIDE, np.stack(cuts, axis=1).astype(int).tolist())


WIDE_TABLE: Any = wide_table()


def merged_tables(release: hush.Release) -> list[Clique]:
    return [table.clique for table in release.noisy_tables if isinstance(table.asked, MergedQuery)]


def test_wide_pairs_are_surveyed_and_measured_with_merged_levels(tmp_path: Path) -> None:
    plan = Scout().plan(Workload.kway(WIDE, 2), Budget(rho=0.02))
    release = plan.release(WIDE_TABLE, entropy=NotPrivateEntropy(1))
    assert spent_all(release, plan)
    last = surveys_of(release)[-1]
    assert set(last.merged) == set(WIDE_PAIRS)
    assert len(last.merged_values) == 3
    assert ("x", "y") in merged_tables(release)
    merging = next(table.asked.merging for table in release.noisy_tables if isinstance(table.asked, MergedQuery))
    assert set(merging.codes) == {"x", "y"}
    for codes in merging.codes.values():
        assert codes.max() == MERGED_LEVELS - 1
        assert (np.diff(codes) >= 0).all()
    # files keep surveys and merged tables, and a loaded release answers alike
    release.save(tmp_path / "x.hush")
    loaded = hush.load(tmp_path / "x.hush")
    assert isinstance(loaded, hush.Release)
    np.testing.assert_array_equal(surveys_of(loaded)[-1].merged_values, last.merged_values)
    assert merged_tables(loaded) == merged_tables(release)
    for pair in WIDE_PAIRS:
        np.testing.assert_array_equal(loaded.model().counts(pair), release.model().counts(pair))


def test_merged_levels_bring_pairs_of_ordered_columns_nearer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wide pair's errors are .200 with merged levels and .257 without; runs spread by .011 and .033."""
    exact = WIDE_TABLE.counts(WIDE_PAIRS)["x", "y"]

    def error() -> float:
        found = [released(Workload.kway(WIDE, 2), Budget(rho=0.005), WIDE_TABLE, seed) for seed in range(6)]
        return float(np.mean([np.abs(one.model().counts(("x", "y")) - exact).sum() / 8000 for one in found]))

    merged = error()
    monkeypatch.setattr(scout, "MERGED_LEVELS", 1000)
    assert merged < 0.93 * error()  # 6 runs each, so the ratio is .78 with a standard error of .05


@pytest.mark.parametrize("stages", [3, 4, 5])
def test_a_run_with_merged_levels_is_resumed_with_the_same_ones(stages: int, tmp_path: Path) -> None:
    plan = Scout().plan(Workload.kway(WIDE, 2), Budget(rho=0.02))
    partial, _ = stopped_after(plan, stages, WIDE_TABLE)
    partial.save(tmp_path / "x.partial")
    loaded = hush.load(tmp_path / "x.partial")
    whole = plan.release(WIDE_TABLE, resume=loaded, entropy=NotPrivateEntropy(6))
    assert spent_all(whole, plan)
    assert merged_tables(whole)
    for ours, theirs in zip(surveys_of(partial), surveys_of(whole), strict=False):
        np.testing.assert_array_equal(ours.merged_values, theirs.merged_values)
    uninterrupted = plan.release(WIDE_TABLE, entropy=NotPrivateEntropy(5))
    codes = [
        next(table.asked.merging.codes["x"] for table in one.noisy_tables if isinstance(table.asked, MergedQuery))
        for one in (whole, uninterrupted)
    ]
    np.testing.assert_array_equal(*codes)  # they follow from the columns, which both runs drew alike


def test_merged_levels_are_chosen_by_noisy_numbers_alone() -> None:
    plan = Scout().plan(Workload.kway(WIDE, 2), Budget(rho=0.02))
    rows = wide_table(300).rows
    neighbours = [TinyTable(WIDE, rows[1:]), TinyTable(WIDE, [*rows, (29, 0, 2)])]
    assert check_replay(lambda table: plan.release(table), TinyTable(WIDE, rows), neighbours) > 0


@pytest.mark.parametrize(("table", "budget"), [(TABLE, Budget(rho=0.01)), (WIDE_TABLE, Budget(rho=0.02))])
@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("extra", [100, 200_000])
def test_a_run_is_resumed_where_memory_is_short(
    table: Any, budget: Budget, stages: int, extra: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Scout().plan(Workload.kway(table.domain, 3), budget)
    partial, _ = stopped_after(plan, stages, table)
    needed = Scout().memory(plan, table.schema) + extra
    monkeypatch.setattr(mechanism, "available_memory", lambda: math.ceil(needed / mechanism.MEMORY_SHARE))
    assert spent_all(plan.release(table, resume=partial, entropy=NotPrivateEntropy(6)), plan)


@pytest.mark.parametrize(
    ("before", "after"), [(100_000_000, 100_000_000), (100_000_000, 20_000), (60_000, 100_000_000)]
)
@pytest.mark.parametrize("stages", [2, 4])
def test_a_resumed_run_bounds_errors_by_the_models_that_surveys_saw(
    before: int, after: int, stages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With other memory, other tables are fitted, and so the model of the first tables would be another one."""
    plan = Scout().plan(Workload.kway(WIDE, 3), Budget(rho=0.02))
    seen: list[dict[Clique, Any]] = []
    survey_tables = scout.survey_tables

    def watched(session: Any, tables: Any, *rest: Any, **options: Any) -> Survey:
        seen.append(dict(tables))
        return survey_tables(session, tables, *rest, **options)

    def room(extra: int) -> None:
        memory = math.ceil((Scout().memory(plan, WIDE_TABLE.schema) + extra) / mechanism.MEMORY_SHARE)
        monkeypatch.setattr(mechanism, "available_memory", lambda: memory)

    monkeypatch.setattr(scout, "survey_tables", watched)
    room(before)
    partial, _ = stopped_after(plan, stages, WIDE_TABLE)
    room(after)
    whole = plan.release(WIDE_TABLE, resume=partial, entropy=NotPrivateEntropy(6))
    kept = [
        (survey, tables) for survey, tables in zip(surveys_of(whole), seen, strict=True) if survey.moved is not None
    ]
    assert bool(kept) == (after >= before)
    for survey, tables in kept:
        assert survey.moved is not None
        moved = [float(np.abs(tables[pair] - whole.model().counts(pair)).sum()) for pair in survey.cliques]
        np.testing.assert_allclose(survey.moved, moved, atol=2)  # both are rounded to the grid of 2^-10


def test_short_memory_leaves_tables_out(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Scout().plan(Workload.kway(DOMAIN, 3), Budget(rho=0.01))
    needed = Scout().memory(plan, TABLE.schema)
    counts = []
    for extra in (100, 20_000, 1_000_000):
        room = math.ceil((needed + extra) / mechanism.MEMORY_SHARE)
        monkeypatch.setattr(mechanism, "available_memory", lambda room=room: room)
        release = plan.release(TABLE, entropy=NotPrivateEntropy(1))
        assert spent_all(release, plan)
        counts.append(len({clique for survey in surveys_of(release) for clique in survey.cliques}))
    assert counts[0] < counts[1] < counts[2] == 10


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"column_share": 0.0}, "column_share=0.0: expected a number between 0 and 1"),
        ({"survey_share": 1.0}, "survey_share=1.0: expected a number between 0 and 1"),
        ({"tree_share": -0.5}, "tree_share=-0.5: expected a number between 0 and 1"),
        ({"tree_share": math.nan}, "tree_share=nan: expected a finite number between 0 and 1"),
        (
            {"column_share": 0.5, "survey_share": 0.125, "tree_share": 0.25},
            "column_share=0.5, tree_share=0.25 and twice survey_share=0.125 leave nothing for the last stage; "
            "lower one of them",
        ),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, float], text: str) -> None:
    with pytest.raises(BudgetError) as refused:
        Scout(**settings)
    assert str(refused.value) == text


def test_pure_epsilon_is_refused() -> None:
    with pytest.raises(BudgetError, match=r"scout adds Gaussian noise, which is never pure epsilon; give a delta: "):
        Scout().plan(Workload.kway(DOMAIN, 2), Budget(epsilon=1.0))


def test_shares_decide_what_each_stage_gets() -> None:
    settings = Scout(column_share=0.3, survey_share=0.1, tree_share=0.2)
    plan = settings.plan(Workload.kway(DOMAIN, 3), SMALL)
    assert stopped_after(plan, 4)[1] == pytest.approx([0.3, 0.4, 0.6, 0.7], rel=1e-6)


@pytest.mark.parametrize("rho", [1e-8, 1e-10])
def test_a_hopeless_budget_still_gives_a_release(rho: float) -> None:
    for seed in range(8):
        released(Workload.kway(DOMAIN, 2), Budget(rho=rho), seed=seed)


def test_noise_too_large_for_units_of_several_rows_is_refused_before_any_charge(tmp_path: Path) -> None:
    table: Any = TinyTable(DOMAIN, ROWS, unit=Unit(column="id", max_rows=1000), units=[i // 500 for i in range(2000)])
    plan = Scout().plan(Workload.kway(DOMAIN, 2), Budget(rho=1e-19), max_rows_per_unit=1000)
    ledger = Ledger.create(tmp_path / "budget.db", Budget(rho=1))
    with pytest.raises(BudgetError, match="the budget is too small to be of use"):
        plan.release(table, ledger=ledger)
    assert ledger.remaining == ledger.limit


def test_a_budget_that_other_mechanisms_take_is_not_too_large() -> None:
    MST().plan(Workload.kway(DOMAIN, 2), Budget(rho=1e6))
    Scout().plan(Workload.kway(DOMAIN, 2), Budget(rho=1e6))


def test_a_plan_says_what_it_will_do() -> None:
    plan = Scout().plan(Workload.kway(DOMAIN, 3), Budget(rho=0.5))
    told = dict(Scout().describe(plan))
    assert list(told) == ["Starts with", "Surveys", "Then", "Expects", "Model"]
    assert told["Starts with"] == "4 one-way tables, standard error 7.07 of a count"
    assert told["Surveys"] == "10 tables at once, with up to 8% of the budget"
    assert told["Then"].startswith("measures what pays, with 84% or more")
    for rows in (10_000, 100_000):
        assert f"{Scout().expected_error(plan, rows):.2g} % with {rows:,} rows" in told["Expects"]
    columns = Scout().plan(Workload.kway(DOMAIN, 1), Budget(rho=0.5))
    assert dict(Scout().describe(columns))["Then"] == "the columns again: no asked table has two columns"
    assert "Surveys" not in dict(Scout().describe(columns))


def test_the_work_grows_with_the_surveyed_cells() -> None:
    assert Scout().work(Workload.kway(DOMAIN, 2)) == "about 2 s on one core; up to 300.0 MB of memory"
    wide = Workload.kway(Domain(dict.fromkeys("abcdef", 100)), 3)
    seconds = float(Scout().work(wide).split()[1])
    assert seconds > 50
    assert "GB of memory" in Scout().work(wide)


@pytest.mark.parametrize("neighbours", Neighbours)
def test_both_neighbour_relations_spend_the_budget(neighbours: Neighbours) -> None:
    plan = Scout().plan(Workload.kway(DOMAIN, 3), SMALL, neighbours=neighbours)
    release = plan.release(TABLE, entropy=NotPrivateEntropy(1))
    assert spent_all(release, plan)
    exchanged = neighbours is Neighbours.REPLACE
    variance = float(surveys_of(release)[0].law.variance_parameter)
    assert variance == pytest.approx((4 if exchanged else 1) * 6 / (2 * 0.04 * 0.005))
    assert release.noisy_tables[0].variance == pytest.approx((2 if exchanged else 1) * 4 / (2 * 0.08 * 0.005), rel=1e-3)


def test_units_of_several_rows_get_more_noise() -> None:
    table: Any = TinyTable(DOMAIN, ROWS, unit=Unit(column="id", max_rows=3), units=[i // 3 for i in range(2000)])
    plan = Scout().plan(Workload.kway(DOMAIN, 2), Budget(rho=0.1), max_rows_per_unit=3)
    release = plan.release(table, entropy=NotPrivateEntropy(1))
    assert spent_all(release, plan)
    first = surveys_of(release)[0]
    assert float(first.law.variance_parameter) == pytest.approx(9 * 6 / (2 * 0.04 * 0.1))
    pair = ("a", "b")
    assert np.abs(release.model().counts(pair) - table.counts([pair])[pair]).sum() < 400


def test_the_expected_error_falls_with_rows_and_with_the_budget() -> None:
    for order in (1, 2, 3):
        workload = Workload.kway(DOMAIN, order)
        plans = [Scout().plan(workload, Budget(epsilon=epsilon, delta=1e-9)) for epsilon in (0.01, 0.1, 1.0, 10.0)]
        for plan in plans:
            found = [Scout().expected_error(plan, rows) for rows in (1, 10, 100, 1e4, 1e6)]
            assert all(0 < after <= before <= 100 for before, after in pairwise(found))
            assert found[-1] < found[1]
        for rows in (100, 1e4, 1e6):
            found = [Scout().expected_error(plan, rows) for plan in plans]
            assert all(after < before for before, after in pairwise(found))


def test_units_of_several_rows_have_a_larger_expected_error() -> None:
    plans = [Scout().plan(Workload.kway(DOMAIN, 2), SMALL, max_rows_per_unit=rows) for rows in (1, 2, 5)]
    errors = [Scout().expected_error(plan, 1e5) for plan in plans]
    assert errors == pytest.approx([errors[0], 2 * errors[0], 5 * errors[0]], rel=0.05)


def test_exchanged_rows_have_a_larger_expected_error() -> None:
    plans = [Scout().plan(Workload.kway(DOMAIN, 2), SMALL, neighbours=neighbours) for neighbours in Neighbours]
    errors = {plan.neighbours: Scout().expected_error(plan, 1e5) for plan in plans}
    assert errors[Neighbours.REPLACE] > 1.2 * errors[Neighbours.ADD_REMOVE]


def test_the_expected_error_is_of_the_order_of_the_real_one() -> None:
    table = loop_of_dependences()
    pairs = list(combinations(table.domain.attributes, 2))
    exact = table.counts(pairs)
    plan = Scout().plan(Workload.kway(table.domain, 2), Budget(rho=0.02))
    release = plan.release(table, entropy=NotPrivateEntropy(3))
    real = 50 * np.mean([np.abs(release.model().counts(pair) - exact[pair]).sum() for pair in pairs]) / ROW_COUNT
    assert 0.25 * real < Scout().expected_error(plan, ROW_COUNT) < 4 * real


def test_asked_tables_add_up_their_weights_and_leave_out_columns_of_one_level() -> None:
    domain = Domain({"a": 2, "one": 1, "b": 3})
    workload = Workload.marginals(domain, [("a", "b"), ("b", "a", "one"), ("b",)], [1.0, 2.0, 5.0])
    assert scout.asked_tables(workload) == {("a", "b"): 3.0, ("b",): 5.0}


def test_evidence_from_before_the_run_improves_the_model_and_is_no_part_of_the_release() -> None:
    exact = TABLE.counts([("d",)])[("d",)].astype(float)
    evidence = [hush.Measurement(("d",), exact, 0.5)]
    plan = Scout().plan(Workload.kway(DOMAIN, 2), SMALL)
    runs = {}
    for given in ((), evidence):
        job = ReleaseJob(plan, evidence=given, entropy=NotPrivateEntropy(4), schema_is_public=True)
        runs[len(given)] = job.run(TABLE)
    off = [np.abs(release.model().counts(("d",)) - exact).max() for release in runs.values()]
    assert off[1] < 8 < off[0]
    # what leaves as measured, and what it cost, is that of the run alone
    assert all(spent_all(release, plan) for release in runs.values())
    assert all(table.stddev > 1 for table in runs[1].noisy_tables)
