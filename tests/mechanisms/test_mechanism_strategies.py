"""matrix, hdmm and direct: what they promise, what they cost, and what they release."""

import itertools
import math
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hush
from hush import Budget, Domain, Ledger, Neighbours, Workload, queries
from hush.core.errors import ArchiveError, BudgetError, InterruptedRelease, SizeError, WorkloadError
from hush.mechanisms import HDMM, Direct, Matrix, Residual
from hush.mechanisms.plan import Plan
from hush.privacy.events import ComposedEvent, GaussianEvent, LaplaceEvent
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.noise import DiscreteGaussian
from hush.release.answers import Answers
from hush.schema import Unit
from hush.testing import StoppingTable, TinyTable, check_replay, neighbours_of

DOMAIN = Domain({"a": 2, "b": 5, "c": 3})
ROWS = [(0, 0, 0), (1, 2, 1), (1, 4, 0), (0, 1, 2), (1, 0, 0), (1, 4, 1), (0, 3, 2)]
TABLE = TinyTable(DOMAIN, ROWS)
PLAIN = Workload.marginals(DOMAIN, [("a", "b"), ("b", "c"), ("a",)], weights=[1.0, 3.0, 0.5])
RANGES = Workload.product(DOMAIN, {"b": queries.ranges})
MIXED = (
    PLAIN
    + Workload.product(DOMAIN, {"b": queries.prefix, "c": queries.identity})
    + Workload.product(DOMAIN, {"a": queries.levels_and_total, "b": queries.width(2)})
)
ZCDP, PURE = Budget(rho=0.4), Budget(epsilon=1.0)
SHARP = {"gaussian": Budget(rho=900.0), "laplace": Budget(epsilon=60.0)}
MECHANISMS = [
    HDMM(noise="gaussian"),
    HDMM(noise="laplace"),
    HDMM(noise="laplace", operators=("marginals",)),
    Direct(noise="gaussian", least_squares="global"),
    Matrix(noise="gaussian"),
    Matrix(noise="laplace"),
    Matrix(noise="gaussian", design="eigen", relative=True),
    Matrix(noise="laplace", design="fourier", complete=False),
    Direct(noise="gaussian"),
    Direct(noise="laplace"),
]


def budget_of(mechanism) -> Budget:
    return PURE if mechanism.noise == "laplace" else ZCDP


@cache
def plan_of(mechanism, workload: Workload = MIXED, budget: Budget | None = None, **options) -> Plan:
    """A plan, made once: HDMM searches for seconds."""
    return hush.plan(workload, budget or budget_of(mechanism), mechanism=mechanism, **options)


def spent(event: object) -> Fraction:
    """rho or epsilon recomputed from what was measured."""
    event_parts = event.parts if isinstance(event, ComposedEvent) else ((event, 1),)
    total = Fraction(0)
    for event_part, count in event_parts:
        if isinstance(event_part, GaussianEvent):
            total += count * event_part.sensitivity_l2_squared / (2 * event_part.variance)
        else:
            assert isinstance(event_part, LaplaceEvent)
            total += count * event_part.sensitivity_l1 / event_part.scale
    return total


def limit(budget: Budget) -> Fraction:
    return Fraction(budget.epsilon) if budget.pure else Fraction(budget.rho)


def close(answers: Answers, truth: np.ndarray) -> None:
    """Small errors, as large as they are said to be; a miss has a chance below one in a million."""
    assert np.asarray(answers.std_error).max() < 1.0
    gaps = np.abs(np.asarray(answers.estimate) - truth.ravel())
    assert (gaps <= 12 * np.asarray(answers.std_error) + 1e-6).all()


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_the_charge_is_what_was_measured_and_fits_the_budget_closely(mechanism, relation) -> None:
    plan = plan_of(mechanism, neighbours=relation)
    total = spent(plan.release(TABLE).statement.event)
    assert total <= limit(plan.budget)
    assert total >= limit(plan.budget) * (1 - Fraction(1, 10**8))
    assert (plan.epsilon if plan.budget.pure else plan.rho) <= limit(plan.budget)


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_no_neighbour_is_further_than_the_charge(mechanism, relation) -> None:
    """The exact loss on every neighbour: sum d2^2 / (2 sigma^2), or sum d1 / scale."""
    plan = plan_of(mechanism, neighbours=relation)
    requests = plan.requests()
    cliques = [clique for request in requests for clique in request.query.cliques]

    def answers(table: TinyTable) -> list[np.ndarray]:
        counts = table.counts(cliques)
        return [request.query.answer(counts) for request in requests]

    worst = Fraction(0)
    for table in [TABLE, TinyTable(DOMAIN, []), TinyTable(DOMAIN, [(1, 2, 1)] * 3)]:
        before = answers(table)
        for other in neighbours_of(table, relation):
            loss = Fraction(0)
            for request, x, y in zip(requests, before, answers(other), strict=True):
                gaps = [abs(int(gap)) for gap in (x - y).ravel()]
                if isinstance(request.noise, DiscreteGaussian):
                    loss += Fraction(sum(gap**2 for gap in gaps)) / (2 * request.noise.variance_parameter)
                else:
                    loss += Fraction(sum(gaps)) / request.noise.scale
            worst = max(worst, loss)
    assert worst <= limit(plan.budget)
    assert worst > limit(plan.budget) * (Fraction(9, 10) if relation is Neighbours.ADD_REMOVE else Fraction(1, 4))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_replay_finds_nothing_beside_the_gate(mechanism, tmp_path: Path) -> None:
    plan = plan_of(mechanism)

    def run(table: TinyTable) -> object:
        release = plan.release(table)
        release.save(tmp_path / "x.hush", overwrite=True)
        return {
            "file": tmp_path / "x.hush",
            "repr": repr(release),
            "table": str(release.marginal("a", "b")),
            "terms": [str(release.term(index)) for index in range(len(MIXED))],
            "sql": str(release.sql("SELECT COUNT(*) FROM t WHERE a = 1")),
        }

    run(TABLE)  # fills what the plan computes once and keeps
    assert check_replay(run, TABLE, neighbours_of(TABLE)) == len(ROWS) + DOMAIN.size()


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_next_to_no_noise_gives_the_counts_back(mechanism) -> None:
    release = plan_of(mechanism, budget=SHARP[mechanism.noise]).release(TABLE)
    for clique in PLAIN.cliques:
        for order in itertools.permutations(clique):
            answers = release.marginal(*order)
            close(answers, TABLE.counts([order])[order])
    for index, term in enumerate(MIXED):
        truth = TABLE.counts([term.clique])[term.clique].astype(float)
        for axis, block in enumerate(term.blocks):
            truth = np.moveaxis(np.tensordot(block.dense(), truth, axes=(1, axis)), 0, axis)
        close(release.term(index), truth)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_releases_are_unbiased_with_the_promised_variance_and_coverage(mechanism) -> None:
    """300 releases: means within 5 standard errors, root mean squared errors within 6 % (almost 5 standard errors).

    Negative control: a plan with 10 % less noise is 3 standard errors outside the accepted band.
    """
    plan = plan_of(mechanism)
    truths, deviations, covered = [], [[] for _ in MIXED], []
    for term in MIXED:
        truth = TABLE.counts([term.clique])[term.clique].astype(float)
        for axis, block in enumerate(term.blocks):
            truth = np.moveaxis(np.tensordot(block.dense(), truth, axes=(1, axis)), 0, axis)
        truths.append(truth.ravel())
    halves: dict[int, Any] = {}  # half the widths of the intervals, which do not depend on the noise
    for seed in range(300):
        release = plan.release(TABLE, entropy=NotPrivateEntropy(seed))
        for index, truth in enumerate(truths):
            answers = release.term(index)
            deviations[index].append(np.asarray(answers.estimate) - truth)
            if index not in halves:
                halves[index] = answers.upper - answers.estimate
            covered.append(np.abs(deviations[index][-1]) <= halves[index] + 1e-9)
    for index, term in enumerate(MIXED):
        promised = plan.strategy.term_variances(term).ravel()
        errors = np.stack(deviations[index])
        assert (np.abs(errors.mean(axis=0)) < 5 * np.sqrt(promised / len(errors))).all()
        assert np.mean(errors**2) == pytest.approx(np.mean(promised), rel=0.17)
        assert np.mean(promised) == pytest.approx(plan.term_variances[index], rel=1e-9)
    total = math.sqrt(
        sum(t.weight * np.sum(np.mean(np.stack(d) ** 2, axis=0)) for t, d in zip(MIXED, deviations, strict=True))
        / sum(t.weight * t.queries for t in MIXED)
    )
    assert total == pytest.approx(plan.rmse, rel=0.06)
    assert total != pytest.approx(plan.rmse * 0.9, rel=0.045)
    assert 0.94 <= np.mean(np.concatenate(covered)) <= 0.98


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_files_keep_everything(mechanism, tmp_path: Path) -> None:
    plan = plan_of(mechanism)
    plan.save(tmp_path / "p.hush")
    again = hush.load(tmp_path / "p.hush")
    assert isinstance(again, Plan)
    assert again.details() == plan.details()
    assert [(r.query, r.noise) for r in again.requests()] == [(r.query, r.noise) for r in plan.requests()]
    release = again.release(TABLE)
    release.save(tmp_path / "x.hush")
    loaded = hush.load(tmp_path / "x.hush")
    assert isinstance(loaded, hush.Release)
    assert loaded.statement == release.statement
    np.testing.assert_array_equal(loaded.counts(("a", "b")), release.counts(("a", "b")))
    assert str(loaded.term(3)) == str(release.term(3))
    loaded.save(tmp_path / "y.hush")
    assert (tmp_path / "x.hush").read_bytes() == (tmp_path / "y.hush").read_bytes()
    (tmp_path / "z.hush").write_bytes((tmp_path / "x.hush").read_bytes()[:-30])
    with pytest.raises(ArchiveError):
        hush.load(tmp_path / "z.hush")


@pytest.mark.parametrize("mechanism", [HDMM(noise="gaussian"), HDMM(noise="laplace")], ids=str)
def test_units_of_several_rows_are_paid_for(mechanism) -> None:
    table = TinyTable(DOMAIN, ROWS, unit=Unit(column="id", max_rows=3), units=[1, 1, 1, 1, 2, 3, 3])
    plan, single_rows = plan_of(mechanism, max_rows_per_unit=3), plan_of(mechanism)
    assert spent(plan.release(table).statement.event) <= limit(plan.budget)
    assert plan.rmse == pytest.approx(3 * single_rows.rmse, rel=0.05)


def test_an_interrupt_keeps_what_was_paid_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hush.privacy.gate.BATCH_CELLS", 5)
    plan = plan_of(Direct(noise="laplace"))
    with pytest.raises(InterruptedRelease, match="paid for and kept") as stopped:
        plan.release(StoppingTable(DOMAIN, ROWS), ledger=tmp_path / "budget.db")
    partial = stopped.value.release
    assert not partial.complete
    assert Ledger.open(tmp_path / "budget.db").remaining < Fraction(1, 10**7)
    partial.save(tmp_path / "x.hush")
    assert not hush.load(tmp_path / "x.hush").complete


@pytest.mark.parametrize("mechanism", [*MECHANISMS, Residual()], ids=str)
def test_a_strategy_is_used_again_with_another_budget(mechanism) -> None:
    pure = getattr(mechanism, "noise", "gaussian") == "laplace"
    first, second = (Budget(epsilon=0.02), Budget(epsilon=0.01)) if pure else (Budget(rho=2e-4), Budget(rho=5e-5))
    plan = hush.plan(MIXED, first, mechanism=mechanism, max_rows_per_unit=2)
    again = plan.with_budget(second)
    assert again.budget == second
    assert again.rmse == pytest.approx(2 * plan.rmse, rel=1e-3)
    table = TinyTable(DOMAIN, ROWS, unit=Unit(column="id", max_rows=2))
    total = spent(again.release(table).statement.event)
    assert limit(second) * (1 - Fraction(1, 10**8)) <= total <= limit(second)
    for index in range(len(MIXED)):
        assert np.mean(again.query_variances(index)) == pytest.approx(again.term_variances[index])
    with pytest.raises(WorkloadError, match="term=9"):
        plan.query_variances(9)


def test_laplace_noise_gives_pure_privacy_and_says_so() -> None:
    plan = plan_of(HDMM(noise="laplace"), budget=Budget(epsilon=1.0, delta=1e-9))
    assert plan.budget == Budget(epsilon=1.0)
    assert "pure DP" in plan.details()
    with pytest.raises(BudgetError, match="pure epsilon"):
        plan_of(HDMM(noise="laplace"), budget=ZCDP)
    with pytest.raises(BudgetError, match="Gaussian noise cannot give"):
        plan_of(Matrix(noise="gaussian"), budget=PURE)


@pytest.mark.parametrize(
    ("run", "error", "text"),
    [
        (lambda: plan_of(HDMM(noise="gauss")), BudgetError, "noise='gauss'"),
        (lambda: plan_of(HDMM(least_squares="best")), WorkloadError, "least_squares='best'"),
        (lambda: plan_of(Matrix(strategy="magic")), WorkloadError, "strategy='magic'"),
        (lambda: plan_of(Matrix(strategy="wavelet"), RANGES), WorkloadError, "power of two"),
        (lambda: hush.plan(MIXED, ZCDP, mechanism="hdmm", loss="maxvar"), WorkloadError, "makes 'rmse' small"),
        (
            lambda: plan_of(Matrix(noise="gaussian"), Workload.kway(Domain({"x": 100, "y": 100, "z": 100}), 2)),
            SizeError,
            "use mechanism='hdmm'",
        ),
        (
            lambda: plan_of(
                HDMM(noise="gaussian"), Workload.product(Domain({"x": 10_000, "y": 2}), {"x": queries.prefix})
            ),
            SizeError,
            "'x'",
        ),
    ],
)
def test_bad_input_is_refused_with_the_remedy(run, error, text) -> None:
    with pytest.raises(error, match=text):
        run()


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("strategy", ["identity", "hierarchical", "hb", "wavelet", "eigen", "l2", "singular"])
def test_every_named_strategy_can_be_planned_and_released(strategy, noise) -> None:
    domain = Domain({"x": 8})
    workload = Workload.product(domain, {"x": queries.ranges})
    table = TinyTable(domain, [(0,), (3,), (3,), (7,)])
    plan = plan_of(Matrix(strategy=strategy, noise=noise), workload)
    best = plan_of(Matrix(noise=noise), workload)
    assert best.rmse <= plan.rmse * 1.001
    assert plan.lower_bound[0] <= best.rmse
    sharp = plan_of(Matrix(strategy=strategy, noise=noise), workload, budget=SHARP[noise]).release(table)
    close(sharp.marginal("x"), table.counts([("x",)])[("x",)])


def test_the_largest_error_can_be_made_small() -> None:
    workload = Workload.product(Domain({"x": 16}), {"x": queries.prefix})
    total = hush.plan(workload, ZCDP, mechanism="matrix")
    largest = hush.plan(workload, ZCDP, mechanism="matrix", loss="maxvar")
    assert largest.max_variance < total.max_variance * 0.99
    assert total.rmse < largest.rmse


blocks = st.sampled_from([queries.identity, queries.prefix, queries.ranges, queries.levels_and_total, queries.width(2)])


@settings(max_examples=10)
@given(
    terms=st.lists(st.dictionaries(st.sampled_from("abc"), blocks, min_size=1, max_size=2), min_size=1, max_size=4),
    noise=st.sampled_from(["gaussian", "laplace"]),
    weights=st.lists(st.sampled_from([0.2, 1.0, 7.0]), min_size=4, max_size=4),
)
def test_never_worse_than_identity_or_direct_noise_nor_better_than_the_bound(terms, noise, weights) -> None:
    workload = weights[0] * Workload.product(DOMAIN, terms[0])
    for blocks_of, weight in zip(terms[1:], weights[1:], strict=False):
        workload = workload + weight * Workload.product(DOMAIN, blocks_of)
    plan = plan_of(HDMM(noise=noise), workload)
    asked = {name for term in workload for name in term.clique}
    unit = 1 / (2 * ZCDP.rho) if noise == "gaussian" else 2 / PURE.epsilon**2
    total = plan.rmse**2 * sum(term.weight * term.queries for term in workload)
    identity = direct = 0.0
    for term in workload:
        others = math.prod(DOMAIN[name] for name in asked if name not in term.clique)
        identity += term.weight * others * math.prod(float((b.dense() ** 2).sum()) for b in term.blocks)
        norm = math.prod(b.sensitivity(2 if noise == "gaussian" else 1) for b in term.blocks)
        each = term.weight * term.queries * norm**2
        direct += each ** (1 / 2) if noise == "gaussian" else each ** (1 / 3)
    direct = direct**2 if noise == "gaussian" else direct**3
    assert total <= unit * min(identity, direct) * 1.01
    assert total >= plan.lower_bound[0] ** 2 * sum(term.weight * term.queries for term in workload) * (1 - 1e-6)


@pytest.mark.parametrize(
    "budget", [Budget(rho=0.5), Budget(rho=2.0), Budget(epsilon=1.0), Budget(epsilon=3.0)], ids=str
)
def test_intervals_hold_where_the_noise_is_about_one_count(budget: Budget) -> None:
    """1,200 answers each; without the half step of the noise 78 to 93 % would be inside."""
    domain = Domain({"x": 6})
    table = TinyTable(domain, [(0,), (2,), (2,)])
    truth = table.counts([("x",)])[("x",)]
    plan = hush.plan(Workload.marginals(domain, [("x",)]), budget, mechanism="direct")
    inside = []
    for seed in range(200):
        answers = plan.release(table, entropy=NotPrivateEntropy(seed)).marginal("x")
        inside.append((np.asarray(answers.lower) <= truth) & (truth <= np.asarray(answers.upper)))
    assert np.mean(inside) > 0.94


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_global_least_squares_is_never_worse_than_local(noise: str) -> None:
    """Parts of long integers beside plain ones, and weights that differ by orders of magnitude."""
    domain = Domain({"x": 4, "y": 4})
    rows = np.random.Generator(np.random.PCG64(5)).normal(size=(2, 4, 4))
    product = Workload.product(domain, {"x": queries.matrix(rows[0]), "y": queries.matrix(rows[1])})
    for weight in (1.0, 1e6, 1e12):
        asked = product + weight * Workload.marginals(domain, [("x",)])
        local, together = (plan_of(Direct(noise=noise, least_squares=way), asked) for way in ("local", "global"))
        assert (together.term_variances <= local.term_variances * (1 + 1e-6)).all()


def test_queries_that_rounding_would_change_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    domain = Domain({"x": 3})
    workload = Workload.product(domain, {"x": queries.matrix([[1, 0.70710678, 0.3]])})
    with pytest.raises(WorkloadError, match="rounded to integers"):
        plan_of(Direct(noise="gaussian"), workload)
    for budget in (ZCDP, PURE):
        plan = hush.plan(workload, budget)
        assert np.isfinite(plan.release(TinyTable(domain, [(1,)])).term(0).std_error).all()


@pytest.mark.parametrize(
    ("run", "error"),
    [
        (lambda: queries.matrix([["x", "y"]]), WorkloadError),
        (lambda: queries.matrix([[1j, 2.0]]), WorkloadError),
        (lambda: Workload.product(DOMAIN, {"a": queries.matrix([[0.0, 0.0]])}), WorkloadError),
        (lambda: Workload.product(DOMAIN, {"a": queries.matrix([[1e300, 1.0]])}), WorkloadError),
        (lambda: 1e300 * PLAIN, WorkloadError),
        (lambda: plan_of(HDMM(noise="gaussian"), budget=Budget(rho=1e-300)), BudgetError),
        (lambda: plan_of(HDMM(restarts=-1)), WorkloadError),
        (lambda: plan_of(Matrix(loss="maxvar"), Workload.kway(DOMAIN, 0)), WorkloadError),
    ],
)
def test_hopeless_numbers_are_refused(run, error) -> None:
    with pytest.raises(error):
        run()


def test_small_budgets_round_to_shorter_integers() -> None:
    domain = Domain({"x": 16, "y": 16})
    workload = Workload.product(domain, {"x": queries.prefix, "y": queries.prefix})
    tiny, small = (plan_of(HDMM(noise="laplace"), workload, Budget(epsilon=e)) for e in (1e-4, 0.1))
    assert tiny.rmse == pytest.approx(1000 * small.rmse, rel=0.02)


def test_clusters_of_a_union_of_products_can_be_given(tmp_path: Path) -> None:
    domain = Domain({"a": 8, "b": 5, "c": 6})
    workload = Workload.product(domain, {"a": queries.prefix, "b": queries.identity}) + Workload.product(
        domain, {"c": queries.ranges}
    )
    settings = HDMM(noise="gaussian", operators=("plus",), groups=[[0], [1]])
    plan = hush.plan(workload, ZCDP, mechanism=settings)
    assert [product.clique for product in plan.strategy.products] == [("a", "b"), ("c",)]
    single = hush.plan(workload, ZCDP, mechanism=HDMM(noise="gaussian", operators=("plus",), groups=[[0, 1]]))
    assert single.rmse > plan.rmse  # one product over three columns measures combinations that nobody asks for
    plan.save(tmp_path / "plan.hush")
    assert hush.load(tmp_path / "plan.hush").settings == settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"groups": [[0]]}, "every one of the terms 0 .. 1"),
        ({"groups": [[0, 1], [1]]}, "every one of the terms"),
        ({"groups": [[0, 2]]}, "from 0 to 1"),
        ({"groups": [["a"], [1]]}, "whole number"),
        ({"groups": [[0], [1]], "operators": ("kron",)}, "unions of products"),
    ],
)
def test_clusters_that_do_not_hold_every_term_once_are_refused(settings: dict[str, Any], message: str) -> None:
    workload = Workload.marginals(DOMAIN, [("a",), ("b",)])
    with pytest.raises(WorkloadError, match=message):
        hush.plan(workload, ZCDP, mechanism=HDMM(**settings))


def test_clusters_that_are_no_lists_are_refused() -> None:
    with pytest.raises(WorkloadError, match="such as"):
        HDMM(groups=[0, 1])  # type: ignore[list-item]
