import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

import hush
from hush import Budget, Domain, Ledger, Neighbours, Workload
from hush.core.constraints import Constraint
from hush.core.errors import ArchiveError, BudgetError, HushError, InterruptedRelease, SizeError, WorkloadError
from hush.files.codec import unpack
from hush.mechanisms.published import dualquery
from hush.mechanisms.published.dualquery import CellScorer, DrawLikelihood, DualQuery, QueryGame, best_row
from hush.privacy.gaussian_domination import Demand
from hush.privacy.selection import ExponentialMechanism, Scores
from hush.release.noisy_tables_record import DrawsFile
from hush.release.record import Draw, Round
from hush.schema import Unit
from hush.testing import StoppingTable, TinyTable, check_selection_privacy, neighbours_of, scores_of, selection_law
from hush.testing.laws import DivergenceError
from hush.testing.mechanism_contract import spent

DOMAIN = Domain({"a": 2, "b": 3, "c": 2, "d": 2})
ROWS = [(0, 0, 0, 1), (1, 2, 1, 0), (1, 2, 0, 1), (0, 1, 1, 1), (1, 0, 0, 0), (1, 2, 1, 1)]
TABLE = TinyTable(DOMAIN, ROWS)
RULE = Constraint.forbid(DOMAIN, ("a", "b"), [(0, 2)])
WORKLOAD = Workload.kway(DOMAIN, 2)
BUDGET = Budget(rho=0.4)
SHORT = DualQuery(turns=3, draws=2)
CLIQUES = (("a", "b"), ("c",))


def released(mechanism: DualQuery = SHORT, table: Any = TABLE, budget: Budget = BUDGET, **how: Any) -> Any:
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


def draw(clique: tuple[str, ...], cell: int, sign: float, turn: int, epsilon: float) -> Draw:
    return Draw(
        clique=clique,
        epsilon=epsilon,
        stddev=0.0,
        candidates=16,
        misfit=0.0,
        penalty=0.0,
        weight=sign,
        annealed=False,
        size_mb=0.0,
        turn=turn,
        cell=cell,
    )


@pytest.mark.parametrize("mechanism", [SHORT, DualQuery(), DualQuery(turns=2, draws=1)], ids=repr)
@pytest.mark.parametrize("budget", [BUDGET, Budget(epsilon=1.0, delta=1e-9), Budget(rho=1e-7)], ids=str)
@pytest.mark.parametrize("relation", list(Neighbours))
def test_all_of_the_budget_is_spent_and_no_more(
    mechanism: DualQuery, budget: Budget, relation: Neighbours, tmp_path: Path
) -> None:
    plan = mechanism.plan(WORKLOAD, budget, neighbours=relation)
    release = plan.release(TABLE, ledger=tmp_path / "budget.db")
    check_spent(release, budget)
    assert Ledger.open(tmp_path / "budget.db").total.rho == spent(release.statement.event).rho
    assert release.complete
    assert release.inconsistency() is None


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("relation", list(Neighbours))
def test_draws_cost_what_constant_steps_of_the_weights_do(rows: int, relation: Neighbours) -> None:
    """r_t = eta (t-1) / N with one eta for all turns, and eta as the docstring has it."""
    unit = Unit(column="id", max_rows=rows)
    table = TinyTable(DOMAIN, ROWS, unit=unit)
    mechanism = DualQuery(turns=5, draws=3)
    release = mechanism.plan(WORKLOAD, BUDGET, neighbours=relation, max_rows_per_unit=rows).release(table)
    assert [draw.turn for draw in release.rounds] == [2] * 3 + [3] * 3 + [4] * 3 + [5] * 3  # type: ignore[attr-defined]
    steps = [draw.epsilon / (2 * rows) / (draw.turn - 1) for draw in release.rounds]  # type: ignore[attr-defined]
    expected = np.sqrt(12 * 0.9 * 0.4 / (3 * 4 * 5 * 9)) / rows
    np.testing.assert_allclose(steps, expected, rtol=1e-6)


def test_turns_follow_the_accuracy_that_the_budget_allows() -> None:
    settings = DualQuery(accuracy=0.05)
    cells, total = 5000, 20_000.0
    for rho in (0.003, 0.006, 0.012):
        turns, draws = settings.planned(rho, total, cells, 1)
        assert turns == draws
        eta = total * np.sqrt(6 * rho / (draws * turns**3))
        assert np.log(2 * cells) / (eta * turns) == pytest.approx(0.05, rel=0.2)
        assert settings.planned(rho, total, cells, 2)[0] <= turns / 2 + 1
    assert settings.planned(1e-9, total, cells, 1) == (4, 4)
    assert settings.planned(1e9, total, cells, 1) == (32, 32)


SCORER = CellScorer(CLIQUES, np.array([3, 0, 0, 0, 1, 2, 4, 2]))


def scores(table: TinyTable, relation: Neighbours = Neighbours.ADD_REMOVE) -> Scores:
    return scores_of(SCORER, table, relation)


def test_scores_are_gaps_and_their_negatives() -> None:
    counts = TABLE.counts(CLIQUES)
    gaps = np.concatenate([counts[clique].ravel() for clique in CLIQUES]) - SCORER.expected
    np.testing.assert_array_equal(scores(TABLE).values, [*gaps, *-gaps])
    assert SCORER.candidates == 16


def test_counts_far_from_what_is_thought_are_cut_off_and_not_told_of() -> None:
    far = CellScorer((("c",),), np.array([2**60, 0]))
    cut_off = scores_of(far, TABLE)
    assert cut_off.values[0] == -(2.0**36)
    assert cut_off.values[2] == 2.0**36
    assert np.isfinite(cut_off.steps()[0]).all()


@pytest.mark.parametrize("relation", list(Neighbours))
def test_draws_are_as_private_as_they_are_charged(relation: Neighbours) -> None:
    """All neighbours; a row raises a cell and lowers its complement, so that what is charged is nearly reached."""
    law = ExponentialMechanism(Fraction(1))
    for table in (TinyTable(DOMAIN, ROWS[:3]), TinyTable(DOMAIN, [(0, 0, 0, 0)] * 2)):
        others = list(neighbours_of(table, relation))
        check_selection_privacy(law, lambda tiny: scores(tiny, relation), table, others, alphas=(1.5, 16.0))
    column_scorer = CellScorer((("c",),), np.array([3, 3]))
    worst = check_selection_privacy(
        law,
        lambda tiny: scores_of(column_scorer, tiny, relation),
        TinyTable(DOMAIN, [(0, 0, 0, 0)] * 3 + [(0, 0, 1, 0)] * 3),
        neighbours_of(TinyTable(DOMAIN, [(0, 0, 0, 0)] * 3 + [(0, 0, 1, 0)] * 3), relation),
    )
    assert worst > 0.4


def test_an_understated_sensitivity_is_found() -> None:
    def understated(table: TinyTable) -> Scores:
        return Scores(scores(table).values, 0.4)

    with pytest.raises(DivergenceError):
        check_selection_privacy(ExponentialMechanism(Fraction(1)), understated, TABLE, neighbours_of(TABLE))


def played(rows: int = 3) -> QueryGame:
    game = QueryGame(DOMAIN, CLIQUES)
    for turn in range(rows):
        game.answer([turn, 8 + turn, 2 * turn])
    return game


def test_queries_have_one_number_each() -> None:
    game = QueryGame(DOMAIN, [("b", "a"), ("c",)])
    assert game.cells == 8
    for number in range(16):
        clique, cell, sign = game.query(number)
        assert game.number(clique, cell, sign) == number
    assert game.query(8 + 7) == (("c",), 1, -1.0)
    drawn = game.uniform(500)
    assert drawn == game.uniform(500)
    assert set(drawn) == set(range(16))


def test_what_is_thought_is_what_the_rows_have() -> None:
    game = played(4)
    rows = TinyTable(DOMAIN, [tuple(row) for row in game.rows[:3]])
    counts = rows.counts(CLIQUES)
    held = np.concatenate([counts[clique].ravel() for clique in CLIQUES])
    np.testing.assert_array_equal(game.expected(600, 3), 200 * held)


@pytest.mark.parametrize("seed", range(5))
def test_the_row_that_is_added_is_the_best_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = np.where(rng.random((12, 4)) < 0.5, rng.integers(DOMAIN.shape, size=(12, 4)), -1)
    signs = rng.choice([-1.0, 1.0], size=12)

    def value(row: Any) -> float:
        return float(signs[((codes < 0) | (codes == row)).all(axis=1)].sum())

    best = max(value(np.array(row)) for row in itertools.product(*(range(size) for size in DOMAIN.shape)))
    assert value(best_row(DOMAIN.shape, codes, signs, rng)) == best


def test_the_loss_is_the_negative_log_likelihood_of_the_draws() -> None:
    game, total = played(), 6
    drawn = [draw(("a", "b"), 5, 1.0, 2, 1.5), draw(("c",), 0, -1.0, 3, 3.0), draw(("a", "b"), 0, -1.0, 3, 3.0)]
    counts = TABLE.counts(CLIQUES)
    expected = mpmath.mpf(0)
    for query in drawn:
        scorer = CellScorer(CLIQUES, game.expected(total, query.turn - 1))
        law = selection_law(
            ExponentialMechanism(Fraction(query.epsilon)),
            scorer.scores(counts, Fraction(1)),
        )
        expected -= mpmath.log(law[game.number(query.clique, query.cell, query.weight)])
    loss = DrawLikelihood(game, total, drawn, 1)
    assert loss([counts[clique].astype(float) for clique in CLIQUES])[0] == pytest.approx(float(expected), rel=1e-4)


def test_the_loss_is_convex_with_the_gradient_and_the_bend_it_states() -> None:
    game = played()
    loss = DrawLikelihood(game, 6, [draw(("a", "b"), 5, 1.0, 2, 1.5), draw(("c",), 0, -1.0, 3, 3.0)], 1)

    def at(flat: Any) -> tuple[float, Any]:
        value, slopes = loss(game.factors.tables(flat))
        return value, np.concatenate([slope.ravel() for slope in slopes])

    rng = np.random.default_rng(0)
    for _ in range(50):
        x, y = rng.normal(2, 2, 8), rng.normal(2, 2, 8)
        (fx, gx), (fy, gy) = at(x), at(y)
        gap = fy - fx - gx @ (y - x)
        assert -1e-9 <= gap <= 0.5 * loss.bend * float((y - x) @ (y - x)) + 1e-9
        h = 1e-5 * (y - x)
        assert (at(x + h)[0] - at(x - h)[0]) / 2e-5 == pytest.approx(gx @ (y - x), abs=1e-4)
        assert np.linalg.norm(gx - gy) <= loss.bend * np.linalg.norm(x - y) + 1e-9


def chain(rows: int, columns: int = 5, levels: int = 3, seed: int = 5) -> TinyTable:
    """Rows in which every column repeats the one before in nine of ten."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(levels, size=rows)]
    for _ in range(columns - 1):
        codes.append(np.where(rng.random(rows) < 0.9, codes[-1], rng.integers(levels, size=rows)))
    domain = Domain({f"x{i}": levels for i in range(columns)})
    return TinyTable(domain, np.stack(codes, axis=1).tolist())


def test_a_chain_is_better_fitted_than_by_columns_alone() -> None:
    """About 0.06 against 1.0; without draws every pair of columns is taken for independent."""
    table = chain(2000)
    workload = Workload.kway(table.domain, 2)
    release = DualQuery(turns=16, draws=16).plan(workload, Budget(rho=1.0)).release(table)
    columns = hush.fit(release.schema, release.measurements())
    exact = table.counts(workload.cliques)

    def error(model: Any) -> float:
        fitted = model.tables(workload.cliques)
        return float(np.mean([np.abs(exact[clique] - fitted[clique]).sum() for clique in workload.cliques])) / 2000

    assert error(columns) > 0.5
    assert error(release.model()) < 0.4 * error(columns)


def test_tables_are_taken_while_the_model_has_room() -> None:
    weighted = Workload.marginals(
        DOMAIN, [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")], weights=[1.0, 1.0, 1.0, 9.0]
    )
    assert DualQuery().tables(weighted, []) == [("a", "d"), ("c", "d"), ("a", "b"), ("b", "c")]
    few = DualQuery(max_size_mb=1.2e-4)
    tables = few.tables(weighted, [])
    assert tables[0] == ("a", "d")
    assert 0 < len(tables) < 4
    release = few.plan(weighted, BUDGET).release(TABLE)
    assert release.record.fitted is not None
    assert release.record.fitted.value.size_mb <= 1.2e-4
    assert {draw.clique for draw in release.rounds} <= set(tables)
    check_spent(release, BUDGET)


def test_few_cells_are_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dualquery, "MOST_CELLS", 10)
    assert DualQuery().tables(WORKLOAD, []) == [("a", "c"), ("a", "d")]
    with pytest.raises(SizeError, match="no table"):
        DualQuery().plan(Workload.marginals(DOMAIN, [("a", "b", "c")]), BUDGET)


@pytest.mark.parametrize(
    "damage", [{"cell": 6}, {"cell": -1}, {"turn": 1}, {"turn": 2.0}, {"weight": 0.5}, {"epsilon": 0.0}]
)
def test_draws_that_cannot_be_are_refused(damage: dict[str, Any]) -> None:
    fine = {"clique": ("a", "b"), "epsilon": 1.0, "stddev": 0.0, "candidates": 16, "misfit": 0.0, "penalty": 0.0}
    fine |= {"weight": 1.0, "annealed": False, "size_mb": 0.0, "turn": 2, "cell": 5}

    def read(*draws: dict[str, Any]) -> list[Draw]:
        entry = {"kind": "draws", "tables": [], "merging": [], "scored": None, "fit": None, "model": None}
        record: DrawsFile = unpack(DrawsFile, entry | {"rounds": list(draws)}, None, "draws")
        return list(record.build(hush.Schema.from_domain(DOMAIN))["rounds"])

    assert read(fine) == [draw(("a", "b"), 5, 1.0, 2, 1.0)]
    assert len(read(fine, fine | {"turn": 3})) == 2
    with pytest.raises(ArchiveError, match="draw"):
        read({**fine, **damage})
    for draws in ([{"cell": 1}], [fine | {"turn": 3}, fine], [fine | {"more": 1}], [fine | {"clique": ["a", "z"]}]):
        with pytest.raises(HushError):
            read(*draws)


def test_a_release_with_more_draws_than_it_paid_for_is_contradicted() -> None:
    release = released()
    assert release.inconsistency() is None
    release.record.rounds = release.rounds * 2
    assert release.inconsistency() == "it holds a choice that it does not account for"


@pytest.mark.parametrize("batch", [4, 1 << 24])
def test_a_run_that_was_stopped_at_a_read_goes_on_within_the_budget(
    batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hush.privacy.gate.BATCH_CELLS", batch)
    plan = SHORT.plan(WORKLOAD, BUDGET)
    table = StoppingTable(DOMAIN, ROWS, reads_left=1)
    with pytest.raises(InterruptedRelease) as stopped:
        plan.release(table, ledger=tmp_path / "budget.db")
    whole = plan.release(TABLE, ledger=tmp_path / "budget.db", resume=stopped.value.release)
    assert {noisy.clique for noisy in whole.noisy_tables} == {(name,) for name in DOMAIN}
    assert len(whole.rounds) == 4
    check_spent(whole, BUDGET)
    assert Ledger.open(tmp_path / "budget.db").total.rho == spent(whole.statement.event).rho


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_a_run_that_was_stopped_after_a_draw_goes_on_with_it(after: int, tmp_path: Path) -> None:
    plan = SHORT.plan(WORKLOAD, BUDGET)
    seen: list[Round] = []

    def stop(played: Round, share: float) -> None:
        seen.append(played)
        if len(seen) == after:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRelease) as stopped:
        plan.release(TABLE, on_round=stop)
    stopped.value.release.save(tmp_path / "part.hush")
    whole = plan.release(TABLE, resume=hush.load(tmp_path / "part.hush"))  # type: ignore[arg-type]
    assert len(whole.rounds) == 4
    assert list(whole.rounds[:after]) == seen
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
        ({"column_share": 1.0}, BudgetError, "column_share"),
        ({"accuracy": 0}, BudgetError, "accuracy"),
        ({"turns": 1}, WorkloadError, "turns"),
        ({"draws": 0}, WorkloadError, "draws"),
        ({"seed": None}, WorkloadError, "seed"),
        ({"max_size_mb": -1}, SizeError, "max_size_mb"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], kind: type, word: str) -> None:
    with pytest.raises(kind, match=word):
        DualQuery(**settings)


def test_what_cannot_be_done_is_refused_before_any_charge(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="delta"):
        DualQuery().plan(WORKLOAD, Budget(epsilon=1.0))
    with pytest.raises(SizeError, match="no table"):
        DualQuery(max_size_mb=7.2e-5).plan(Workload.marginals(DOMAIN, [("a", "b")]), BUDGET)
    small = DualQuery(max_size_mb=7.5e-5)
    with pytest.raises(SizeError, match="starts with"):
        small.plan(Workload.marginals(DOMAIN, [("c",)]), BUDGET).release(
            TinyTable(DOMAIN, ROWS, constraints=[RULE]), ledger=tmp_path / "budget.db"
        )
    assert not (tmp_path / "budget.db").exists() or Ledger.open(tmp_path / "budget.db").total.rho == 0
