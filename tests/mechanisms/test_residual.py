import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Ledger, Neighbours, Workload, queries
from hush.core.errors import (
    ArchiveError,
    BudgetError,
    DataError,
    HushError,
    InterruptedRelease,
    SizeError,
    WorkloadError,
)
from hush.mechanisms import Residual
from hush.mechanisms.plan import Plan
from hush.privacy.events import ComposedEvent, GaussianEvent
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.gaussian_domination import Demand
from hush.privacy.total_epsilon import total_epsilon
from hush.schema import Unit
from hush.testing import StoppingTable, TinyTable, check_replay, neighbours_of

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
ROWS = [(0, 0, 0), (1, 2, 1), (1, 2, 0), (0, 1, 1), (1, 0, 0), (1, 2, 1)]
TABLE = TinyTable(DOMAIN, ROWS)
PLAIN = Workload.marginals(DOMAIN, [("a", "b"), ("b", "c"), ("a",)], weights=[1.0, 3.0, 0.5])
MIXED = PLAIN + Workload.product(DOMAIN, {"b": queries.prefix, "c": queries.identity})
BUDGET = Budget(rho=0.4)
EXACT = Budget(rho=800.0)  # noise so small that every draw is zero with all but vanishing probability


def residual_plan(*arguments: Any, **options: Any) -> Plan:
    return hush.plan(*arguments, mechanism="residual", **options)  # type: ignore[return-value]


def spent(event: object) -> Fraction:
    """zCDP recomputed from what was measured, by nothing but Delta^2 / (2 sigma^2)."""
    event_parts = event.parts if isinstance(event, ComposedEvent) else ((event, 1),)
    total = Fraction(0)
    for event_part, count in event_parts:
        assert isinstance(event_part, GaussianEvent)
        total += count * event_part.sensitivity_l2_squared / (2 * event_part.variance)
    return total


@pytest.mark.parametrize("workload", [PLAIN, MIXED, Workload.upto(DOMAIN, 3)], ids=["plain", "mixed", "all"])
@pytest.mark.parametrize("budget", [BUDGET, Budget(epsilon=1.0, delta=1e-9), Budget(mu=0.7)], ids=str)
@pytest.mark.parametrize("relation", list(Neighbours))
def test_the_charge_is_what_was_measured_and_fits_the_budget_closely(
    workload: Workload, budget: Budget, relation: Neighbours
) -> None:
    plan = residual_plan(workload, budget, neighbours=relation)
    release = plan.release(TABLE)
    total = spent(release.statement.event)
    if budget.approximate:  # calibrated to the discrete noise that is drawn, whose privacy loss is exact
        demand, by_losses = Demand.of(release.statement.event), total_epsilon(release.statement.event, budget.delta)
        assert demand is not None
        assert budget.fixed_limit * (1 - Fraction(1, 10**5)) <= demand.gaussian <= budget.fixed_limit
        assert budget.epsilon * (1 - 1e-5) <= by_losses.epsilon <= budget.epsilon
        assert total <= plan.rho <= budget.fixed_limit
        return
    assert total <= Fraction(budget.rho)
    assert total >= Fraction(budget.rho) * (1 - Fraction(1, 10**9))
    assert plan.rho == Fraction(budget.rho)


@pytest.mark.parametrize("workload", [PLAIN, MIXED], ids=["plain", "mixed"])
@pytest.mark.parametrize("relation", list(Neighbours))
def test_no_neighbour_is_further_than_the_charge(workload: Workload, relation: Neighbours) -> None:
    """The exact zCDP of Gaussian answers, sum of squared distance / (2 sigma^2), on every neighbour."""
    plan = residual_plan(workload, BUDGET, neighbours=relation)
    requests = plan.requests()
    cliques = [clique for request in requests for clique in request.query.cliques]

    def answers(table: TinyTable) -> list[np.ndarray]:
        counts = table.counts(cliques)
        return [request.query.answer(counts) for request in requests]

    tables = [TABLE, TinyTable(DOMAIN, []), TinyTable(DOMAIN, [(1, 2, 1)] * 3)]
    worst = Fraction(0)
    for table in tables:
        before = answers(table)
        for other in neighbours_of(table, relation):
            loss = Fraction(0)
            for request, x, y in zip(requests, before, answers(other), strict=True):
                distance = sum(int(gap) ** 2 for gap in (x - y).ravel())
                loss += Fraction(distance) / (2 * request.noise.variance_parameter)  # type: ignore[attr-defined]
            worst = max(worst, loss)
    assert worst <= Fraction(BUDGET.rho)
    assert worst > Fraction(BUDGET.rho) * (Fraction(999, 1000) if relation is Neighbours.ADD_REMOVE else Fraction(1, 3))


@pytest.mark.parametrize("workload", [PLAIN, MIXED], ids=["plain", "mixed"])
def test_replay_finds_nothing_beside_the_gate(workload: Workload, tmp_path: Path) -> None:
    def run(table: TinyTable) -> object:
        plan = residual_plan(workload, BUDGET)
        ledger = tmp_path / "budget.db"
        ledger.unlink(missing_ok=True)
        release = plan.release(table, ledger=None)
        release.save(tmp_path / "x.hush", overwrite=True)
        return {
            "file": tmp_path / "x.hush",
            "plan": plan.details(),
            "repr": repr(release),
            "table": str(release.marginal("a", "b")),
            "sql": str(release.sql("SELECT COUNT(*) FROM t WHERE a = 1")),
        }

    assert check_replay(run, TABLE, neighbours_of(TABLE)) == len(ROWS) + DOMAIN.size()


def test_replay_on_the_neighbours_by_exchange() -> None:
    def run(table: TinyTable) -> object:
        release = residual_plan(PLAIN, BUDGET, neighbours=Neighbours.REPLACE).release(table)
        return [release.counts(clique) for clique in PLAIN.cliques]

    assert check_replay(run, TABLE, neighbours_of(TABLE, Neighbours.REPLACE)) == len(ROWS) * DOMAIN.size()


@pytest.mark.parametrize("workload", [PLAIN, MIXED, Workload.upto(DOMAIN, 3)], ids=["plain", "mixed", "all"])
def test_next_to_no_noise_gives_the_counts_back(workload: Workload) -> None:
    release = residual_plan(workload, EXACT).release(TABLE)
    for clique in workload.cliques:
        for order in itertools.permutations(clique):
            np.testing.assert_allclose(release.counts(order), TABLE.counts([order])[order], atol=0.5)


def test_tables_agree_on_what_they_share() -> None:
    release = residual_plan(Workload.upto(DOMAIN, 3), BUDGET).release(TABLE)
    whole = release.counts(("a", "b", "c"))
    np.testing.assert_allclose(release.counts(("b", "a")), whole.sum(axis=2).T, atol=1e-9)
    np.testing.assert_allclose(release.counts(()), whole.sum(), atol=1e-9)


@pytest.mark.parametrize("workload", [PLAIN, MIXED], ids=["plain", "mixed"])
def test_predicted_variances_are_those_of_the_answers(workload: Workload) -> None:
    plan = residual_plan(workload, BUDGET)
    release = plan.release(TABLE)
    for clique in PLAIN.cliques:
        answers = release.marginal(*clique)
        expected = plan.strategy.query_variances(clique)  # type: ignore[attr-defined]
        np.testing.assert_allclose(np.asarray(answers.std_error) ** 2, expected.ravel(), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("workload", [PLAIN, MIXED], ids=["plain", "mixed"])
def test_intervals_cover_the_truth_as_often_as_they_say(workload: Workload) -> None:
    """400 releases; each of the shares below has a standard error of at most 1.1 %, most far less.

    Negative control: intervals made 20 % shorter cover about 88 %, far below the accepted band.
    """
    plan = residual_plan(workload, BUDGET)
    sqls = [
        "SELECT COUNT(*) FROM t",
        "SELECT COUNT(*) FROM t WHERE a = 1 AND b >= 1",
        "SELECT b, COUNT(*) FROM t WHERE c = 0 OR b = 2 GROUP BY b",
        "SELECT SUM(b) FROM t WHERE NOT (c = 1)",
    ]
    with_exact = residual_plan(workload, EXACT).release(TABLE)
    truths = [np.round(np.asarray(with_exact.sql(sql).estimate)) for sql in sqls]
    cells = [TABLE.counts([clique])[clique].ravel() for clique in PLAIN.cliques]
    inside: dict[str, list[np.ndarray]] = {}
    short: list[np.ndarray] = []
    for seed in range(400):
        release = plan.release(TABLE, entropy=NotPrivateEntropy(seed))
        for clique, truth in zip(PLAIN.cliques, cells, strict=True):
            answers = release.marginal(*clique)
            covered = (np.asarray(answers.lower) <= truth) & (truth <= np.asarray(answers.upper))
            inside.setdefault(str(clique), []).append(covered)
            error = np.abs(np.asarray(answers.estimate) - truth)
            short.append(error <= 0.8 * (np.asarray(answers.upper) - np.asarray(answers.estimate)))
        if seed % 4 == 0:
            for sql, truth in zip(sqls, truths, strict=True):
                answers = release.sql(sql)
                covered = (np.asarray(answers.lower) <= truth) & (truth <= np.asarray(answers.upper))
                inside.setdefault(sql, []).append(covered)
    cell_shares = [np.mean(np.concatenate(inside[str(clique)])) for clique in PLAIN.cliques]
    sql_share = np.mean(np.concatenate([covered for sql in sqls for covered in inside[sql]]))
    assert all(0.92 <= share <= 0.98 for share in cell_shares), cell_shares
    assert 0.92 <= sql_share <= 0.98
    assert np.mean(np.concatenate(short)) < 0.92


def test_files_keep_everything(tmp_path: Path) -> None:
    release = residual_plan(MIXED, BUDGET).release(TABLE)
    release.save(tmp_path / "x.hush")
    loaded = hush.load(tmp_path / "x.hush")
    assert isinstance(loaded, hush.Release)
    assert loaded.statement == release.statement
    assert loaded.workload == release.workload
    assert loaded.schema == release.schema
    np.testing.assert_array_equal(loaded.counts(("a", "b")), release.counts(("a", "b")))
    assert str(loaded.marginal("b", "c")) == str(release.marginal("b", "c"))
    loaded.save(tmp_path / "y.hush")
    assert (tmp_path / "x.hush").read_bytes() == (tmp_path / "y.hush").read_bytes()


def test_plans_keep_everything(tmp_path: Path) -> None:
    plan = residual_plan(MIXED, Budget(epsilon=2.0, delta=1e-6), loss="maxvar", max_rows_per_unit=3)
    plan.save(tmp_path / "p.hush")
    loaded = hush.load(tmp_path / "p.hush")
    assert loaded.details() == plan.details()
    assert [r.noise for r in loaded.requests()] == [r.noise for r in plan.requests()]  # type: ignore[union-attr]
    assert [r.query for r in loaded.requests()] == [r.query for r in plan.requests()]  # type: ignore[union-attr]


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", None])
def test_files_that_are_cut_or_foreign_are_refused(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / "x.hush"
    residual_plan(PLAIN, BUDGET).release(TABLE).save(path)
    path.write_bytes(path.read_bytes()[:-40] if damage is None else damage)
    with pytest.raises(ArchiveError, match="not a hush"):
        hush.load(path)


def test_units_of_several_rows_are_paid_for() -> None:
    table = TinyTable(DOMAIN, ROWS, unit=Unit(column="id", max_rows=3), units=[1, 1, 1, 1, 2, 3])
    plan = residual_plan(PLAIN, BUDGET, max_rows_per_unit=3)
    release = plan.release(table)
    assert spent(release.statement.event) <= Fraction(BUDGET.rho)
    single_rows = residual_plan(PLAIN, BUDGET)
    assert plan.rmse == pytest.approx(3 * single_rows.rmse, rel=1e-6)
    with pytest.raises(DataError, match="max_rows_per_unit=3"):
        single_rows.release(table)


def test_the_ledger_is_charged_first_and_once(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    plan = residual_plan(PLAIN, BUDGET)
    release = plan.release(TABLE, ledger=path, name="first")
    ledger = Ledger.open(path)
    assert ledger.budget == BUDGET
    assert ledger.total.rho == spent(release.statement.event)
    assert release.statement.ledger_head == ledger.head
    table = TinyTable(DOMAIN, ROWS)
    with pytest.raises(BudgetError) as refused:
        plan.release(table, ledger=path)
    assert refused.value.remaining == ledger.remaining
    assert table.reads == 0
    assert Ledger.open(path).total == ledger.total


def test_an_interrupt_keeps_what_was_paid_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hush.privacy.gate.BATCH_CELLS", 10)
    plan = residual_plan(PLAIN, BUDGET)
    with pytest.raises(InterruptedRelease, match="paid for and kept") as stopped:
        plan.release(StoppingTable(DOMAIN, ROWS), ledger=tmp_path / "budget.db")
    partial = stopped.value.release
    assert isinstance(partial, hush.Release)
    assert not partial.complete
    assert Ledger.open(tmp_path / "budget.db").remaining < Fraction(1, 10**9)
    partial.save(tmp_path / "x.hush")
    loaded = hush.load(tmp_path / "x.hush")
    assert isinstance(loaded, hush.Release)
    assert not loaded.complete
    assert loaded.counts(("a",)).shape == (2,)
    with pytest.raises(WorkloadError, match="no table over"):
        loaded.counts(("a", "b"))


def test_seeded_releases_are_stamped(tmp_path: Path) -> None:
    release = residual_plan(PLAIN, BUDGET).release(TABLE, entropy=NotPrivateEntropy(1))
    assert "NOT PRIVATE" in repr(release)
    release.save(tmp_path / "x.hush")
    assert "NOT PRIVATE" in repr(hush.load(tmp_path / "x.hush"))
    assert "NOT PRIVATE" not in repr(residual_plan(PLAIN, BUDGET).release(TABLE))


def test_smallest_budget_for_an_error() -> None:
    plan = hush.plan_for_error(PLAIN, 5.0)
    assert plan.rmse == pytest.approx(5.0, rel=1e-6)
    assert plan.rmse <= 5.0
    assert residual_plan(PLAIN, Budget(rho=0.999 * plan.budget.rho)).rmse > 5.0  # type: ignore[operator]
    widest = hush.plan_for_error(Workload.upto(DOMAIN, 2), 5.0, "maxvar", max_rows_per_unit=2)
    assert widest.max_variance**0.5 <= 5.0 * (1 + 1e-9)
    assert spent(
        widest.release(TinyTable(DOMAIN, ROWS, unit=Unit(column="u", max_rows=2))).statement.event
    ) <= Fraction(widest.budget.rho)


def test_max_variance_plans_beat_rmse_plans_at_their_own_game() -> None:
    workload = Workload.upto(DOMAIN, 2)
    total, largest = residual_plan(workload, BUDGET), residual_plan(workload, BUDGET, loss="maxvar")
    assert largest.max_variance <= total.max_variance  # type: ignore[operator]
    assert total.rmse <= largest.rmse  # type: ignore[operator]


OTHER = TinyTable(Domain({"a": 2, "b": 4, "c": 2}), ROWS)


@pytest.mark.parametrize(
    ("run", "error", "text"),
    [
        (lambda: residual_plan(PLAIN, Budget(epsilon=1.0)), BudgetError, "add a delta"),
        (lambda: hush.plan(PLAIN, BUDGET, mechanism="magic"), WorkloadError, "'magic'"),
        (lambda: hush.plan(PLAIN, BUDGET, mechanism=3), WorkloadError, "a Mechanism object"),
        (lambda: residual_plan(PLAIN, BUDGET, loss="l7"), WorkloadError, "'l7'"),
        (lambda: hush.plan(PLAIN, 1.0), BudgetError, "expected a Budget"),
        (lambda: hush.plan([("a",)], BUDGET), WorkloadError, "expected a Workload"),
        (lambda: residual_plan(PLAIN, BUDGET, max_rows_per_unit=0), BudgetError, "max_rows_per_unit=0"),
        (lambda: hush.plan_for_error(PLAIN, 0.0), WorkloadError, "target=0.0"),
        (lambda: residual_plan(PLAIN, BUDGET).release(OTHER), DataError, "'b' has 3 levels in the plan, 4"),
        (
            lambda: residual_plan(Workload.kway(Domain({f"x{i}": 1000 for i in range(6)}), 6), BUDGET).requests(),
            SizeError,
            "fewer attributes",
        ),
    ],
)
def test_bad_input_is_refused_before_anything_is_charged(run: object, error: type, text: str) -> None:
    reads = OTHER.reads
    with pytest.raises(error, match=text):
        run()  # type: ignore[operator]
    assert OTHER.reads == reads


def test_bad_input_makes_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(HushError):
        residual_plan(PLAIN, BUDGET).release(OTHER, ledger=tmp_path / "budget.db")
    assert list(tmp_path.iterdir()) == []


def test_mechanism_objects_go_where_names_go() -> None:
    by_name = hush.plan(PLAIN, BUDGET, mechanism="residual", loss="maxvar")
    by_object = hush.plan(PLAIN, BUDGET, mechanism=Residual(loss="maxvar"))
    assert str(by_name) == str(by_object)


@pytest.mark.parametrize("kind", ["nonnegative", "whole"])
def test_tables_for_display_are_not_negative_and_agree(kind: str) -> None:
    """Rows are few and noise is large, so that unbiased tables have negative cells."""
    release = residual_plan(Workload.upto(DOMAIN, 2), BUDGET).release(TABLE, entropy=NotPrivateEntropy(3))
    raw = release.tables()
    assert min(table.min() for table in raw.values()) < 0
    tables = release.tables(kind=kind)
    assert tables.keys() == raw.keys() == {("a", "b"), ("a", "c"), ("b", "c")}
    assert min(table.min() for table in tables.values()) >= 0
    np.testing.assert_allclose(tables[("a", "b")].sum(axis=1), tables[("a", "c")].sum(axis=1), atol=1e-6)
    sums = [table.sum() for table in tables.values()]
    np.testing.assert_allclose(sums, sums[0], atol=1e-6)
    turned = release.tables([("c", "b")], kind=kind)[("c", "b")]
    assert turned.shape == (2, 3)
    assert (kind == "whole") == all((table == np.round(table)).all() for table in tables.values())


def test_unknown_kinds_of_tables_are_refused() -> None:
    with pytest.raises(WorkloadError, match="kind='rounded'"):
        residual_plan(PLAIN, BUDGET).release(TABLE).tables(kind="rounded")


def test_frames_and_paths_are_not_tables() -> None:
    with pytest.raises(DataError, match="write hush.read"):
        residual_plan(PLAIN, BUDGET).release("people.csv")  # type: ignore[arg-type]


def test_answers_say_that_rows_of_a_unit_were_left_out() -> None:
    table = TinyTable(DOMAIN, ROWS, unit=Unit(column="id", max_rows=2), units=[1, 1, 1, 2, 2, 3])
    plan = residual_plan(PLAIN, BUDGET, max_rows_per_unit=2)
    assert "at most 2 rows, others are left out; noise is 2 times that for 1 row" in " ".join(plan.details().split())
    release = plan.release(table)
    statement = dict(release.statement.lines())["Rows used"]
    assert statement.startswith(
        "at most 2 rows of each id are used and the others left out; noise is 2 times that for "
    )
    assert "How many rows were left out is not in this release" in statement
    assert "at most 2 rows of each id" in str(release.marginal("a"))
    assert "at most 2 rows of each id" in str(release.sql("SELECT COUNT(*) FROM t"))


def test_what_does_not_fit_in_memory_is_refused_before_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hush.mechanisms.mechanism.available_memory", lambda: 100)
    table = TinyTable(DOMAIN, ROWS)
    with pytest.raises(SizeError, match="needs about"):
        residual_plan(PLAIN, BUDGET).release(table, ledger=tmp_path / "budget.db")
    assert table.reads == 0
    assert not (tmp_path / "budget.db").exists()


def test_combinations_across_tables_have_exact_errors() -> None:
    """The share of a = 1 among c = 1 minus that of b = 2: three tables at once, against 300 releases."""
    plan = residual_plan(PLAIN, BUDGET)
    weighted = [(("a",), np.array([0.0, 1.0])), (("b", "c"), np.eye(3, 2)), (("b", "a"), -np.ones((3, 2)))]
    values, errors = [], set()
    for seed in range(300):
        release = plan.release(TABLE, entropy=NotPrivateEntropy(seed))
        assert isinstance(release, hush.Release)
        answer = release.combination(weighted)
        values.append(float(answer.estimate[0]))
        errors.add(round(float(answer.std_error[0]), 9))
    counts = TABLE.counts([clique for clique, _ in weighted])
    truth = sum(float((counts[clique] * weights).sum()) for clique, weights in weighted)
    (error,) = errors
    assert abs(np.mean(values) - truth) < 5 * error / np.sqrt(300)
    assert np.std(values) == pytest.approx(error, rel=0.2)  # five standard errors of a standard deviation
    assert isinstance(release, hush.Release)
    with pytest.raises(WorkloadError, match="no tables"):
        release.combination([])
    with pytest.raises(WorkloadError, match="no table over"):
        release.combination([(("a", "c"), np.ones((2, 2)))])


def test_tables_too_large_to_measure_are_planned_and_their_release_is_refused_unpaid(tmp_path: Path) -> None:
    domain = Domain({f"a{i}": 100 for i in range(5)})
    plan = residual_plan(Workload.kway(domain, 5), Budget(epsilon=1.0, delta=1e-9))
    assert plan.variance(tuple(domain)) == pytest.approx(1 / (2 * float(plan.rho)))  # one table gets the whole budget
    assert "only predicted: measuring a0, a1, a2, a3, a4 exactly" in plan.details()
    assert "only predicted" not in residual_plan(PLAIN, BUDGET).details()
    plan.save(tmp_path / "large.hush")
    loaded = hush.load(tmp_path / "large.hush")
    ledger = Ledger.create(tmp_path / "ledger.db", Budget(epsilon=1.0, delta=1e-9))
    with pytest.raises(SizeError):
        loaded.release(TinyTable(domain, [(0,) * 5]), ledger=ledger)
    assert [entry.action for entry in ledger.entries()] == ["cap"]
