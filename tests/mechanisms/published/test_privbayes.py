import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Ledger, Neighbours, Workload
from hush.core.constraints import Constraint
from hush.core.errors import BudgetError, InterruptedRelease, SizeError, WorkloadError
from hush.mechanisms.published import privbayes
from hush.mechanisms.published.privbayes import LARGEST_SCORE, DependenceScorer, PrivBayes, maximal_sets, useful_cells
from hush.privacy.gaussian_domination import Demand
from hush.privacy.selection import ExponentialMechanism, Scores
from hush.schema import Unit
from hush.testing import StoppingTable, TinyTable, check_selection_privacy, neighbours_of, scores_of
from hush.testing.laws import DivergenceError
from hush.testing.mechanism_contract import spent

DOMAIN = Domain({"a": 2, "b": 3, "c": 2, "d": 2})
ROWS = [(0, 0, 0, 1), (1, 2, 1, 0), (1, 2, 0, 1), (0, 1, 1, 1), (1, 0, 0, 0), (1, 2, 1, 1)]
TABLE = TinyTable(DOMAIN, ROWS)
RULE = Constraint.forbid(DOMAIN, ("a", "b"), [(0, 2)])
WORKLOAD = Workload.kway(DOMAIN, 2)
BUDGET = Budget(rho=0.4)
USEFUL = PrivBayes(usefulness=1e-3)  # with few rows no table has counts above its noise, and there would be no choice


def released(mechanism: PrivBayes = USEFUL, table: Any = TABLE, budget: Budget = BUDGET, **how: Any) -> Any:
    return mechanism.plan(WORKLOAD, budget).release(table, **how)


def check_spent(release: Any, budget: Budget) -> None:
    """All of the budget is spent: in zCDP, or in Gaussian DP, where the order of choices and noise matters."""
    demand, nearly = Demand.of(release.statement.event), 1 - Fraction(1, 2**29)
    assert demand is not None
    if budget.approximate:
        assert demand.least <= budget.fixed_limit
        assert demand.cost(Fraction(0)) >= budget.limit * nearly
        return
    total = spent(release.statement.event).rho
    assert Fraction(budget.rho) * nearly <= total <= Fraction(budget.rho)


def chain(rows: int, columns: int = 6, levels: int = 3, seed: int = 5) -> TinyTable:
    """Rows in which every column repeats the one before in nine of ten."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(levels, size=rows)]
    for _ in range(columns - 1):
        codes.append(np.where(rng.random(rows) < 0.9, codes[-1], rng.integers(levels, size=rows)))
    domain = Domain({f"x{i}": levels for i in range(columns)})
    return TinyTable(domain, np.stack(codes, axis=1).tolist())


def error(model: Any, table: TinyTable, workload: Workload) -> float:
    exact, fitted = table.counts(workload.cliques), model.tables(workload.cliques)
    return float(np.mean([np.abs(exact[clique] - fitted[clique]).sum() for clique in workload.cliques])) / len(
        table.rows
    )


@pytest.mark.parametrize("mechanism", [USEFUL, PrivBayes(), PrivBayes(degree=1, usefulness=0.01)], ids=repr)
@pytest.mark.parametrize("budget", [BUDGET, Budget(epsilon=1.0, delta=1e-9), Budget(rho=1e-7)], ids=str)
@pytest.mark.parametrize("relation", list(Neighbours))
def test_all_of_the_budget_is_spent_and_no_more(
    mechanism: PrivBayes, budget: Budget, relation: Neighbours, tmp_path: Path
) -> None:
    plan = mechanism.plan(WORKLOAD, budget, neighbours=relation)
    release = plan.release(TABLE, ledger=tmp_path / "budget.db")
    check_spent(release, budget)
    assert Ledger.open(tmp_path / "budget.db").total.rho == spent(release.statement.event).rho
    assert release.complete
    assert release.inconsistency() is None


@pytest.mark.parametrize("sizes", [{"a": 5}, {"a": 1, "b": 2}, {"a": 2, "b": 2}], ids=str)
def test_tables_of_few_columns(sizes: dict[str, int]) -> None:
    domain = Domain(sizes)
    table = TinyTable(domain, [(0,) * len(sizes)] * 9)
    release = (
        PrivBayes(usefulness=0.01).plan(Workload.marginals(domain, [(domain.attributes[-1],)]), BUDGET).release(table)
    )
    check_spent(release, BUDGET)
    assert release.model().total > 0


SCORER = DependenceScorer(("a", "b", "c", "b", "d"), (("a", "b"), ("a", "b"), ("b", "c"), ("a", "b", "c"), ("c", "d")))


def scores(table: TinyTable, relation: Neighbours = Neighbours.ADD_REMOVE) -> Scores:
    return scores_of(SCORER, table, relation)


def test_the_score_is_half_the_distance_from_independence() -> None:
    for child, clique, score in zip(SCORER.children, SCORER.tables, scores(TABLE).values, strict=True):
        c = np.moveaxis(TABLE.counts([clique])[clique], clique.index(child), 0).reshape(DOMAIN[child], -1) / len(ROWS)
        expected = len(ROWS) / 2 * np.abs(c - np.outer(c.sum(axis=1), c.sum(axis=0))).sum()
        assert score == pytest.approx(expected, abs=1e-12)
    assert not scores(TinyTable(DOMAIN, [])).values.any()


def test_a_score_is_within_the_error_that_it_admits() -> None:
    random = np.random.default_rng(5)
    scorer, off = DependenceScorer(("a",), (("a", "b"),)), []
    for _ in range(50):
        cells = random.integers(0, 10 ** random.integers(1, 8), size=(2, 3))
        computed = scorer.scores({("a", "b"): cells}, Fraction(2))
        table = [[int(cell) for cell in row] for row in cells]
        n, rows, columns = int(cells.sum()), [sum(row) for row in table], [sum(c) for c in zip(*table, strict=True)]
        exact = sum(
            abs(Fraction(cell) - Fraction(rows[x] * columns[y], n))
            for x, row in enumerate(table)
            for y, cell in enumerate(row)
        )
        off.append(abs(Fraction(float(computed.values[0])) - exact / 2) / Fraction(computed.error))
    assert 0 < max(off) <= 1


def test_no_row_moves_a_score_by_more_than_two_and_one_nearly_does() -> None:
    """All tables of two binary columns with at most six rows, exactly, and the one that shows that 2 is needed."""
    domain, scorer = Domain({"a": 2, "b": 2}), DependenceScorer(("a",), (("a", "b"),))

    def score(cells: tuple[int, ...]) -> float:
        counts = {("a", "b"): np.array(cells, dtype=np.int64).reshape(2, 2)}
        return float(scorer.scores(counts, Fraction(2)).values[0])

    worst = 0.0
    for cells in itertools.product(range(7), repeat=4):
        if sum(cells) <= 6:
            for cell in range(4):
                more = tuple(count + (cell == other) for other, count in enumerate(cells))
                worst = max(worst, abs(score(more) - score(cells)))
    assert worst == pytest.approx(2 * 6 / 7)
    far = score((10**6, 0, 0, 1)) - score((10**6, 0, 0, 0))
    assert 1.99999 < far < 2.0
    assert scorer.cliques == (domain.clique(("b", "a")),)


@pytest.mark.parametrize("relation", list(Neighbours))
def test_choices_are_as_private_as_they_are_charged(relation: Neighbours) -> None:
    law = ExponentialMechanism(Fraction(1))
    tables = [TABLE, TinyTable(DOMAIN, [(0, 0, 0, 0)] * 4), TinyTable(DOMAIN, [])]
    for table in tables:
        others = list(neighbours_of(table, relation))
        if others:
            check_selection_privacy(law, lambda tiny: scores(tiny, relation), table, others, alphas=(1.5, 16.0))


def test_an_understated_sensitivity_is_found() -> None:
    def understated(table: TinyTable) -> Scores:
        return Scores(scores(table).values, 0.4)

    table = TinyTable(DOMAIN, [(0, 0, 0, 0)] * 8)
    with pytest.raises(DivergenceError):
        check_selection_privacy(ExponentialMechanism(Fraction(1)), understated, table, neighbours_of(table))


def test_units_of_several_rows_are_paid_for() -> None:
    unit = Unit(column="id", max_rows=3)
    table = TinyTable(DOMAIN, ROWS, unit=unit, units=[1, 1, 1, 1, 2, 3])
    check_spent(USEFUL.plan(WORKLOAD, BUDGET, max_rows_per_unit=3).release(table), BUDGET)
    assert scores(table).sensitivity == 6.0
    assert scores(table, Neighbours.REPLACE).sensitivity == 12.0


def test_many_rows_are_scored_exactly_and_too_many_cut_off() -> None:
    scorer = DependenceScorer(("a",), (("a", "b"),))

    def score(cells: list[list[int]]) -> float:
        counts = {("a", "b"): np.array(cells, dtype=np.int64)}
        return float(scorer.scores(counts, Fraction(2)).values[0])

    n = 2**34
    assert score([[n, 0], [0, n]]) == n / 2 * 2
    m = LARGEST_SCORE
    assert score([[m, 0], [0, 1]]) == pytest.approx(2 * m / (m + 1))
    assert score([[m, 0], [0, m]]) == m
    assert score([[2**58, 0], [0, 2**58]]) == m


def test_parents_are_the_largest_sets_that_are_small_enough() -> None:
    sizes = {"a": 2, "b": 3, "c": 5, "d": 7, "e": 2}
    for cells, degree in itertools.product((1, 2, 6, 14, 30, 500), (1, 2, 5)):
        feasible = [
            set(names)
            for k in range(degree + 1)
            for names in itertools.combinations(sizes, k)
            if np.prod([sizes[name] for name in names]) <= cells
        ]
        largest = [names for names in feasible if not any(names < other for other in feasible)]
        maximal = maximal_sets(sizes, cells, degree, 1000)
        assert maximal is not None
        assert sorted(map(sorted, maximal)) == sorted(map(sorted, largest))
    assert maximal_sets({f"x{i}": 2 for i in range(40)}, 2.0**20, 20, 100) is None
    assert useful_cells(1000, 10, 4) == pytest.approx(1000 / 40 / np.sqrt(2 / np.pi))


def test_tables_grow_with_the_budget_and_stay_useful() -> None:
    table = chain(3000)
    workload = Workload.kway(table.domain, 3)
    widths = []
    for rho in (1e-4, 0.01, 0.3, 30.0):
        release = PrivBayes().plan(workload, Budget(rho=rho)).release(table)
        widths.append(max(len(noisy.clique) for noisy in release.noisy_tables))
        for noisy in release.noisy_tables[len(table.domain) :]:
            limit = useful_cells(1.1 * len(table.rows), noisy.stddev, 4.0)
            assert len(noisy.clique) == 1 or noisy.values.size <= limit * 1.2
    assert widths == sorted(widths)
    assert widths[0] == 1
    assert widths[-1] >= 4


def test_a_chain_is_found_and_better_than_columns_alone() -> None:
    table = chain(2000)
    workload = Workload.kway(table.domain, 3)
    release = PrivBayes(degree=1).plan(workload, Budget(rho=20.0)).release(table)
    edges = {frozenset(played.clique) for played in release.rounds}
    assert edges == {frozenset((f"x{i}", f"x{i + 1}")) for i in range(5)}
    alone = PrivBayes(usefulness=1e9).plan(workload, Budget(rho=20.0)).release(table)
    assert not alone.rounds
    assert error(release.model(), table, workload) < 0.2 * error(alone.model(), table, workload)
    wide = PrivBayes().plan(workload, Budget(rho=20.0)).release(table)
    assert error(wide.model(), table, workload) < error(release.model(), table, workload)


def test_the_model_stays_within_its_limit() -> None:
    table = chain(2000)
    workload = Workload.kway(table.domain, 3)
    for limit in (1.5e-4, 5e-4, 2e-3):
        release = PrivBayes(max_size_mb=limit).plan(workload, Budget(rho=20.0)).release(table)
        assert release.record.fitted is not None
        assert release.record.fitted.value.size_mb <= limit
        check_spent(release, Budget(rho=20.0))


@pytest.mark.parametrize(("name", "value"), [("MOST_CANDIDATES", 2), ("MOST_CELLS", 60)])
def test_too_many_candidates_lower_the_degree(monkeypatch: pytest.MonkeyPatch, name: str, value: int) -> None:
    monkeypatch.setattr(privbayes, name, value)
    table = chain(200)
    plan = PrivBayes(usefulness=1e-6).plan(Workload.kway(table.domain, 2), BUDGET)
    release = plan.release(table)
    assert len(release.rounds) == 5
    assert all(played.candidates <= 6 for played in release.rounds)
    assert any(len(played.clique) == 2 for played in release.rounds[1:])
    check_spent(release, BUDGET)


def test_the_record_says_what_was_measured() -> None:
    release = released()
    assert isinstance(release, hush.Release)
    placed = {"a"}
    for played in release.rounds:
        assert set(played.clique[1:]) <= placed
        assert played.clique[0] not in placed
        assert played.misfit > 0
        placed.add(played.clique[0])
    held = [set(table.clique) for table in release.noisy_tables[len(DOMAIN) :]]
    assert all(any(set(played.clique) <= clique for clique in held) for played in release.rounds)
    assert not any(clique < other for clique in held for other in held)


@pytest.mark.parametrize("reads", range(1, 4))
def test_a_stopped_run_goes_on_within_the_budget(reads: int, tmp_path: Path) -> None:
    plan = USEFUL.plan(WORKLOAD, BUDGET)
    table = StoppingTable(DOMAIN, ROWS, reads_left=reads)
    with pytest.raises(InterruptedRelease) as stopped:
        plan.release(table, ledger=tmp_path / "budget.db")
    partial = stopped.value.release
    partial.save(tmp_path / "part.hush")
    whole = plan.release(TABLE, ledger=tmp_path / "budget.db", resume=hush.load(tmp_path / "part.hush"))  # type: ignore[arg-type]
    assert [played.clique for played in whole.rounds[: len(partial.rounds)]] == [
        earlier.clique for earlier in partial.rounds
    ]
    np.testing.assert_array_equal(whole.noisy_tables[0].values, partial.noisy_tables[0].values)
    check_spent(whole, BUDGET)
    assert Ledger.open(tmp_path / "budget.db").total.rho == spent(whole.statement.event).rho


def test_a_run_that_was_stopped_among_its_first_columns_measures_those_that_are_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hush.privacy.gate.BATCH_CELLS", 4)
    plan = USEFUL.plan(WORKLOAD, BUDGET)
    table = StoppingTable(DOMAIN, ROWS, reads_left=2)
    with pytest.raises(InterruptedRelease) as stopped:
        plan.release(table)
    whole = plan.release(TABLE, resume=stopped.value.release)
    assert {noisy.clique for noisy in whole.noisy_tables} >= {(name,) for name in DOMAIN}
    check_spent(whole, BUDGET)


def test_rows_keep_the_domain_and_the_rules() -> None:
    release = released(table=TinyTable(DOMAIN, ROWS, constraints=[RULE]))
    check_spent(release, BUDGET)
    rows = release.synthesize(rows=80, seed=3)
    assert rows.column_names == list(DOMAIN)
    pairs = list(zip(rows["a"].to_pylist(), rows["b"].to_pylist(), strict=True))
    assert len(pairs) == 80
    assert (0, 2) not in pairs


@pytest.mark.parametrize(
    ("settings", "kind", "word"),
    [
        ({"choice_share": 0.0}, BudgetError, "choice_share"),
        ({"column_share": "x"}, BudgetError, "column_share"),
        ({"choice_share": 0.6, "column_share": 0.4}, BudgetError, "leave nothing"),
        ({"usefulness": -1.0}, WorkloadError, "usefulness"),
        ({"degree": 0}, WorkloadError, "independent"),
        ({"degree": 1.5}, WorkloadError, "degree"),
        ({"max_size_mb": 0}, SizeError, "max_size_mb"),
        ({"preset": "huge"}, WorkloadError, "preset"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], kind: type, word: str) -> None:
    with pytest.raises(kind, match=word):
        PrivBayes(**settings)


def test_what_cannot_be_done_is_refused_before_any_charge(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="delta"):
        PrivBayes().plan(WORKLOAD, Budget(epsilon=1.0))
    with pytest.raises(SizeError, match="starts with"):
        PrivBayes(max_size_mb=1e-6).plan(WORKLOAD, BUDGET)
    small = PrivBayes(max_size_mb=7.5e-5)
    with pytest.raises(SizeError, match="starts with"):
        small.plan(WORKLOAD, BUDGET).release(TinyTable(DOMAIN, ROWS, constraints=[RULE]), ledger=tmp_path / "budget.db")
    assert not (tmp_path / "budget.db").exists() or Ledger.open(tmp_path / "budget.db").total.rho == 0
