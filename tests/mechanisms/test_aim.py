"""AIM: the budget to the last bit, the rounds of the paper, and one round against a plain twin."""

import math
import tempfile
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import hush
from hush import Budget, Domain, Ledger, Neighbours, Workload
from hush.core.constraints import Constraint
from hush.core.errors import BudgetError, DataError, DomainError, HushError, SizeError, WorkloadError
from hush.core.solution import Solution
from hush.mechanisms import AIM
from hush.mechanisms.aim import AIMRun
from hush.mechanisms.candidates import Candidates
from hush.mechanisms.session import Session
from hush.models.graphical.graphical_model import GraphicalModel
from hush.models.graphical.junction_tree import JunctionTree
from hush.models.relaxed.relaxed_rows import RelaxedRows
from hush.privacy.account import Allowance, used_up
from hush.privacy.events import SelectionEvent
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.gate import Gate, watch
from hush.privacy.selection import ExponentialMechanism
from hush.schema import Schema, Unit
from hush.testing import TinyTable, check_replay
from hush.testing.replay import Recorder

DOMAIN = Domain({"a": 4, "b": 5, "c": 6, "d": 3})
ROWS = [(i % 4, (i % 4) + (i % 7 == 0), (i // 4) % 6, ((i // 4) % 6) // 2) for i in range(400)]
RULE = Constraint.forbid(DOMAIN, ("a", "d"), [(0, 2)])
TABLE = TinyTable(DOMAIN, ROWS)  # a goes with b, c goes with d
WORKLOAD = Workload.kway(DOMAIN, 2)
MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
TINY = Domain({"a": 2, "b": 3, "c": 2})
TINY_ROWS = [(0, 0, 0), (1, 2, 1), (1, 2, 0), (0, 1, 1), (1, 0, 0), (1, 2, 1)]


def parts_of(release: hush.Release) -> Fraction:
    """zCDP recomputed from the tables that were taken and the choices on record."""
    event = release.statement.event
    choices = sum(
        (
            count * event_part.epsilon**2 / 8
            for event_part, count in event.parts
            if isinstance(event_part, SelectionEvent)
        ),
        start=Fraction(0),
    )
    return choices + sum((1 / (2 * table.law.variance_parameter) for table in release.noisy_tables), start=Fraction(0))


def check_schedule(release: hush.Release, rho: Fraction, columns: int, rounds: int, alpha: Fraction) -> None:
    """Every round costs what the rule says, given which rounds annealed; a plain twin in shares of rho / T."""
    close = {"rel": 1e-8}
    growth = 4 if release.settings["paper"] else 2
    share = before = rho / rounds
    for table in release.noisy_tables[:columns]:
        assert float(1 / (2 * table.law.variance_parameter)) == pytest.approx(float(alpha * rho / rounds), **close)
    columns = len(release.noisy_tables) - len(release.rounds)  # once, or twice where they are noisy
    left = rho - sum(
        (1 / (2 * table.law.variance_parameter) for table in release.noisy_tables[:columns]), start=Fraction(0)
    )
    assert left >= min(rho / 2, rho * (1 - alpha * columns / rounds)) * (1 - Fraction(1, 10**9))
    count = len(release.rounds)
    assert count <= rounds
    for number, (played, table) in enumerate(zip(release.rounds, release.noisy_tables[columns:], strict=True), start=1):
        assert played.clique == table.clique
        edge = abs(left - 2 * share) < rho / 10**9  # rounding against the spender decides
        final = number == count if edge else left <= 2 * share
        assert final == (number == count)
        cost = left if final else share
        assert cost >= before * (1 - Fraction(1, 10**9))  # the last round is no worse than the one before
        before = cost
        assert played.epsilon**2 / 8 == pytest.approx(float((1 - alpha) * cost), rel=1e-6)
        assert float(1 / (2 * table.law.variance_parameter)) == pytest.approx(float(alpha * cost), rel=1e-6)
        left -= cost
        share *= growth if played.annealed else 1
        assert not (final and played.annealed)
    assert abs(left) < rho / 10**9
    noise = [table.law.variance_parameter for table in release.noisy_tables[columns:]]
    assert all(later <= before * (1 + Fraction(1, 10**9)) for before, later in pairwise(noise))
    assert all(later.epsilon >= before.epsilon * (1 - 1e-9) for before, later in pairwise(release.rounds))


@settings(max_examples=20)
@given(
    sizes=st.lists(st.integers(2, 3), min_size=1, max_size=3),
    exponent=st.floats(-5, 2),
    share=st.floats(0.05, 0.95),
    more=st.none() | st.integers(0, 20),
    seed=st.integers(0, 10**6),
)
def test_the_budget_is_kept_to_and_used_up(sizes, exponent, share, more, seed):
    domain, rho = Domain({f"x{i}": size for i, size in enumerate(sizes)}), 10.0**exponent
    table = TinyTable(domain, [tuple(i % size for size in sizes) for i in range(30)])
    alpha = Fraction(share)
    rounds = None if more is None else math.ceil(alpha * len(sizes) + 1) + more
    plan = AIM(share=share, rounds=rounds).plan(Workload.upto(domain, min(len(sizes), 2)), Budget(rho=rho))
    with tempfile.TemporaryDirectory() as folder:
        release = plan.release(table, ledger=Path(folder, "budget.db"), entropy=NotPrivateEntropy(seed))
        total = Ledger.open(Path(folder, "budget.db")).total.rho
    assert total == parts_of(release)
    assert total <= Fraction(rho)
    assert used_up(Fraction(rho) - total, Fraction(rho))
    check_schedule(release, Fraction(rho), len(sizes), rounds or 16 * len(sizes), alpha)


@pytest.mark.parametrize("columns", range(1, 13))
def test_as_few_rounds_as_can_be_paid_for(columns):
    domain = Domain({f"x{i:02}": 2 for i in range(columns)})
    table, workload, budget = TinyTable(domain, [(0,) * columns] * 9), Workload.kway(domain, 1), Budget(rho=0.5)
    least = math.ceil(Fraction(0.9) * columns + 1)
    release = AIM(rounds=least).plan(workload, budget).release(table)
    assert parts_of(release) <= Fraction(0.5)
    check_schedule(release, Fraction(0.5), columns, least, Fraction(0.9))
    with pytest.raises(BudgetError, match=rf"rounds={least - 1}: .* share \* columns \+ 1 = {least}, .*16 a column"):
        AIM(rounds=least - 1).plan(workload, budget)


def printed_loop(columns: int, rounds: int) -> Fraction:
    """What the loop spends as it is printed, without annealing: the check for a last round comes after a round."""
    alpha, cost = Fraction(9, 10), Fraction(1, rounds)
    spent = alpha * columns / rounds
    while spent < 1:
        spent += cost
        if 1 - spent <= 2 * cost:
            cost = 1 - spent
    return spent


def test_the_printed_loop_overspends():
    assert float(printed_loop(5, 5)) == pytest.approx(1.10)
    assert float(printed_loop(9, 9)) == pytest.approx(1.011, abs=5e-4)
    for columns in range(1, 13):
        assert printed_loop(columns, 16 * columns) == 1
        assert printed_loop(columns, math.ceil(Fraction(9, 10) * columns + 1)) == 1


@pytest.mark.parametrize(
    ("rounds", "share"),
    [(3, 0.5), (3, 0.49), (3, 0.51), (4, 0.5), (4, 0.499), (4, 0.501), (5, 0.5)],
    ids=lambda value: str(value),
)
def test_the_last_round_at_its_edges(rounds, share):
    """Two columns leave T - 2 share rounds: 2 exactly, just above and just below, at once or after one round."""
    domain = Domain({"a": 3, "b": 3})
    table = TinyTable(domain, [(i % 3, i % 3) for i in range(3000)])
    release = AIM(rounds=rounds, share=share).plan(Workload.kway(domain, 2), Budget(rho=0.1)).release(table)
    check_schedule(release, Fraction(0.1), 2, rounds, Fraction(share))
    if not any(played.annealed for played in release.rounds):
        worth = rounds - 2 * Fraction(share)
        fewest = max(math.ceil(worth) - 1, 1)
        assert len(release.rounds) in ((fewest, fewest + 1) if worth.denominator == 1 else (fewest,))


VECTORS = [
    (0.01, 7976.9, 8.3575e-5),
    (0.0316227766, 2633.9, 2.5311e-4),
    (0.1, 867.59, 7.6841e-4),
    (0.316227766, 285.59, 2.3343e-3),
    (1.0, 94.366, 7.0647e-3),
    (3.16227766, 31.651, 2.1063e-2),
    (10.0, 11.056, 6.0299e-2),
    (31.6227766, 4.1892, 0.15914),
    (100.0, 1.7737, 0.37586),
]


@pytest.mark.parametrize(("epsilon", "stddev", "first"), VECTORS)
def test_first_shares_of_fifteen_columns(epsilon, stddev, first):
    domain = Domain({f"x{i:02}": 2 for i in range(15)})
    account = Allowance(Budget(rho=Budget(epsilon=epsilon, delta=1e-9).rho))
    session = Session(Gate(TinyTable(domain, []), account), account, domain=domain, max_rows=1)
    run = AIMRun(AIM(), session, Workload.kway(domain, 3))
    assert session.law(run.measuring).stddev == pytest.approx(stddev, rel=1e-4)
    assert float(ExponentialMechanism.for_rho(run.choosing).epsilon) == pytest.approx(first, rel=1e-4)
    assert run.measuring + run.choosing == account.budget.limit / 240


@dataclass
class Choices(Recorder):
    """Keeps the scorer and the scores of every choice."""

    seen: list[tuple[Any, Any]] = field(default_factory=list)

    def selected(self, scorer: Any, law: Any, scores: Any, draw: Any) -> Any:
        self.seen.append((scorer, scores))
        return super().selected(scorer, law, scores, draw)


@dataclass
class Trace:
    """A run with all its models and scores."""

    release: hush.Release
    models: list[GraphicalModel]
    tolerances: list[float]
    choices: list[tuple[Any, Any]]


def trace(
    settings: AIM, table: TinyTable = TABLE, rho: float = 0.3, seed: int = 1, losses: list | None = None
) -> Trace:
    models, tolerances, watcher, fit = [], [], Choices(), Session.fit

    def kept(self: Session, **how: Any) -> Solution[GraphicalModel]:
        if losses is not None:
            losses.append(how["loss"])
        solution = fit(self, **how)
        models.append(solution.value)
        tolerances.append(how["tolerance"])
        return solution

    with pytest.MonkeyPatch.context() as patch, watch(watcher):
        patch.setattr(Session, "fit", kept)
        release = settings.plan(WORKLOAD, Budget(rho=rho)).release(table, entropy=NotPrivateEntropy(seed))
    between = len(release.rounds)
    assert release.record.fitted is not None
    return Trace(release, [*models[:between], release.record.fitted.value], tolerances[:between], watcher.seen)


LIMIT = 8e-6 * 70  # cells; single columns take 18, all pairs more than 70
TRACES = {
    "default": (AIM(max_size_mb=LIMIT), TABLE),
    "paper": (AIM(paper=True, max_size_mb=LIMIT), TABLE),
    "roomy": (AIM(), TABLE),
    "rules": (AIM(max_size_mb=LIMIT), TinyTable(DOMAIN, ROWS, constraints=[RULE])),
}


@pytest.fixture(scope="module", params=TRACES)
def traced(request: pytest.FixtureRequest) -> tuple[AIM, TinyTable, Trace]:
    mechanism, table = TRACES[request.param]
    return mechanism, table, trace(mechanism, table)


def grid(table: np.ndarray) -> np.ndarray:
    return np.round(table * 1024) / 1024


def test_every_round_against_a_plain_twin(traced):
    mechanism, table, run = traced
    release, rho = run.release, 0.3
    columns = len(release.noisy_tables) - len(release.rounds)
    rules = [rule.clique for rule in table.schema.constraints]
    pool = Candidates.of(WORKLOAD)
    weights = dict(zip(pool.cliques, pool.weights, strict=True))
    exact = {clique: table.counts([clique])[clique] for clique in pool.cliques}
    assert len(run.models) == len(release.rounds) + 1 == len(run.choices) + 1
    spent = sum(float(1 / (2 * noisy.law.variance_parameter)) for noisy in release.noisy_tables[:columns])
    dull = 0
    for number, (scorer, scores) in enumerate(run.choices):
        model, played, noisy_tables = (
            run.models[number],
            release.rounds[number],
            release.noisy_tables[: columns + number],
        )
        measured = release.noisy_tables[columns + number]
        spent += played.epsilon**2 / 8 + float(1 / (2 * measured.law.variance_parameter))
        limit = max(spent / rho * mechanism.limit_mb, model.size_mb)
        known = [*(noisy.clique for noisy in noisy_tables), *rules]
        fitting = [c for c in pool.cliques if JunctionTree.build(DOMAIN, [*known, c]).size_mb <= limit * (1 + 1e-9)]
        assert set(scorer.cliques) <= set(fitting)
        assert len(scorer.cliques) == played.candidates
        assert {c for c in pool.cliques if any(set(c) <= set(node.clique) for node in model.tree.nodes)} <= set(
            scorer.cliques
        )
        expected = []
        for clique in scorer.cliques:
            cells = exact[clique].size
            precision = 1 / measured.stddev**2
            if not mechanism.paper:
                for noisy in noisy_tables:
                    if set(clique) <= set(noisy.clique):
                        precision += cells / (noisy.values.size * noisy.stddev**2)
            penalty = MEAN_ABSOLUTE * cells / math.sqrt(precision)
            expected.append(weights[clique] * (np.abs(exact[clique] - grid(model.counts(clique))).sum() - penalty))
        np.testing.assert_allclose(scores.values, expected, rtol=1e-6, atol=1e-2)
        assert scores.sensitivity == max(weights[clique] for clique in scorer.cliques)
        assert run.models[number + 1].size_mb <= limit * (1 + 1e-9)
        assert played.size_mb == run.models[number + 1].size_mb
        moved = np.abs(run.models[number + 1].counts(played.clique) - model.counts(played.clique)).sum()
        noise = MEAN_ABSOLUTE * played.stddev * exact[played.clique].size
        last = number + 1 == len(run.choices)
        dull = dull + 1 if moved <= noise else 0
        if abs(moved - noise) > 0.1:
            assert played.annealed == (not last and dull == (1 if mechanism.paper else 2))
        dull = 0 if played.annealed else dull
        misfit = np.abs(grid(model.counts(played.clique)) - measured.values).sum()
        assert played.misfit == pytest.approx(misfit, abs=0.05)
        assert played.weight == weights[played.clique]
    assert spent == pytest.approx(rho)


def test_fits_between_rounds_are_rough(traced):
    assert set(traced[2].tolerances) == {0.2}


def test_models_stay_within_the_limit(traced):
    mechanism, _, run = traced
    sizes = [model.size_mb for model in run.models]
    assert sizes == sorted(sizes)
    assert max(sizes) <= mechanism.limit_mb


def test_the_limit_is_felt():
    small, large = trace(AIM(max_size_mb=LIMIT), rho=30.0), trace(AIM(), rho=30.0)
    assert small.models[-1].size_mb <= LIMIT < large.models[-1].size_mb
    assert small.release.rounds[0].candidates < large.release.rounds[0].candidates <= 10


def test_rules_hold_in_model_and_rows_and_count_in_the_size():
    run = trace(AIM(max_size_mb=LIMIT), TinyTable(DOMAIN, ROWS, constraints=[RULE]))
    assert run.models[0].size_mb == pytest.approx(8e-6 * (4 * 3 + 5 + 6))
    assert all(model.counts(("a", "d"))[0, 2] == 0 for model in run.models)
    rows = run.release.synthesize(rows=500, seed=1)
    assert (0, 2) not in set(zip(rows["a"].to_pylist(), rows["d"].to_pylist(), strict=True))


def test_rounds_anneal_and_rounds_do_not():
    """Where there is nothing to learn rounds anneal and are few; where there is much the first ones do not."""
    flat = TinyTable(DOMAIN, [(a, b, c, d) for a in range(4) for b in range(5) for c in range(6) for d in range(3)])
    dull = trace(AIM(), flat, rho=0.05)
    assert sum(played.annealed for played in dull.release.rounds) >= 2
    lively = trace(AIM(), TinyTable(DOMAIN, ROWS * 50), rho=0.3)
    assert not lively.release.rounds[0].annealed
    assert len(lively.release.rounds) > len(dull.release.rounds)


def test_the_papers_form_and_ours():
    asked = Workload.marginals(DOMAIN, [("a", "b"), ("d",)])
    for mechanism, first in ((AIM(paper=True), "abd"), (AIM(), "abcd")):
        release = mechanism.plan(asked, Budget(rho=0.5)).release(TABLE)
        assert [table.clique for table in release.noisy_tables[: len(first)]] == [(name,) for name in first]
        assert mechanism.planned_rounds(asked) == 16 * len(first)
        check_schedule(release, Fraction(0.5), len(first), 16 * len(first), Fraction(0.9))
    for mechanism, loss in ((AIM(paper=True), "paper"), (AIM(), "auto")):
        losses: list[str] = []
        trace(mechanism, losses=losses)
        assert set(losses) == {loss}


REPLAYED: dict[str, tuple[AIM, dict[str, Any], Any]] = {
    "generalized": (AIM(selection="generalized"), {}, {}),
    "paper": (AIM(paper=True), {}, {}),
    "merging": (AIM(merge_rare=True), {}, {}),
    "small model": (AIM(max_size_mb=8e-6 * 10), {}, {}),
    "replaced rows": (AIM(), {"neighbours": Neighbours.REPLACE}, {}),
    "units": (AIM(), {"max_rows_per_unit": 3}, {"unit": Unit(column="id", max_rows=3), "units": [1, 1, 1, 1, 2, 3]}),
    "units, generalized": (
        AIM(selection="generalized", merge_rare=True),
        {"max_rows_per_unit": 3},
        {"unit": Unit(column="id", max_rows=3), "units": [1, 1, 1, 1, 2, 3]},
    ),
}


class RuledTiny(TinyTable):
    """A tiny table whose schema forbids a = 0 with b = 2."""

    @property
    def schema(self) -> Schema:
        plain = super().schema
        return Schema(plain.columns, unit=plain.unit, constraints=[Constraint.forbid(TINY, ("a", "b"), [(0, 2)])])


@pytest.mark.parametrize("kind", [TinyTable, RuledTiny], ids=["plain", "rules"])
@pytest.mark.parametrize("what", REPLAYED)
def test_replay_finds_nothing_beside_the_gate(what, kind, tmp_path):
    mechanism, planned, how = REPLAYED[what]
    plan = mechanism.plan(Workload.upto(TINY, 2), Budget(rho=0.4), **planned)

    def run(table: TinyTable) -> object:
        release = plan.release(table)
        release.save(tmp_path / "x.hush", overwrite=True)
        return {"file": tmp_path / "x.hush", "rounds": release.rounds, "bounds": str(release.error_bounds())}

    units = how.get("units", [])
    if "neighbours" in planned:
        others = [([*TINY_ROWS[1:], (0, 2, 1)], {}), ([(1, 0, 1), *TINY_ROWS[1:]], {})]
    else:
        fewer = how | ({"units": [unit for unit in units if unit != 1]} if units else {})
        left = [row for row, unit in zip(TINY_ROWS, units or [1, *[0] * 5], strict=True) if unit != 1]
        more = how | ({"units": [*units, 9, 9, 9]} if units else {})
        others = [(left, fewer), ([*TINY_ROWS, *[(0, 2, 1)] * (3 if units else 1)], more)]
    nearby = [kind(TINY, rows, **own_how) for rows, own_how in others]
    assert check_replay(run, kind(TINY, TINY_ROWS, **how), nearby) == 2


@pytest.mark.parametrize("selection", ["exponential", "generalized"])
def test_a_large_budget_brings_the_tables_back(selection):
    """Noise that is next to nothing in some tables and small in others does not keep the model from fitting them."""
    plan = AIM(selection=selection, rounds=12).plan(WORKLOAD, Budget(rho=1e3))
    release = plan.release(TABLE, entropy=NotPrivateEntropy(2))
    exact = TABLE.counts([("a", "b"), ("c", "d")])
    for clique, model in release.model().tables(list(exact)).items():
        np.testing.assert_allclose(model, exact[clique], atol=0.5)
    rows = release.synthesize(rows=400, seed=4)
    synthetic = np.zeros((4, 5))
    np.add.at(synthetic, (rows["a"].to_numpy(), rows["b"].to_numpy()), 1)
    assert rows.num_rows == 400
    assert np.abs(synthetic - exact[("a", "b")]).sum() <= 30


def test_budgets_beyond_the_least_noise_are_kept_to_or_refused_at_once():
    domain = Domain({"a": 2, "b": 2})
    table, workload = TinyTable(domain, [(0, 0), (1, 1)] * 9), Workload.kway(domain, 2)
    release = AIM(rounds=5).plan(workload, Budget(rho=1e4)).release(table)  # the last round alone has more
    assert parts_of(release) <= 10**4
    assert len(release.rounds) <= 5
    for noisy_table in release.noisy_tables:
        np.testing.assert_array_equal(noisy_table.values, table.counts([noisy_table.clique])[noisy_table.clique])
    with pytest.raises(BudgetError, match="too large to mean anything"):
        AIM(rounds=5).plan(workload, Budget(rho=1e6))
    with pytest.raises(BudgetError, match="too small to be of use"):
        AIM().plan(workload, Budget(rho=1e-26))


@pytest.mark.slow
def test_bounds_hold_with_the_generalised_choice():
    """One table of each kind a run, picked at random, so that failures are binomial."""
    domain = Domain({"a": 2, "b": 3, "c": 4, "d": 3})
    plan = AIM(selection="generalized").plan(Workload.kway(domain, 3), Budget(rho=0.02))
    failed, counted, runs = {"supported": 0, "unsupported": 0}, {"supported": 0, "unsupported": 0}, 60
    for run in range(runs):
        random = np.random.Generator(np.random.PCG64(run))
        first = random.integers(0, 12, size=300)
        table = TinyTable(domain, [(f % 2, f % 3, f % 4, int(random.integers(0, 3))) for f in first])
        release = plan.release(table, entropy=NotPrivateEntropy(run))
        bounds = list(release.error_bounds(level=0.9))
        for kind in failed:
            of_kind = [bound for bound in bounds if bound.kind == kind]
            if of_kind:
                bound = of_kind[int(random.integers(len(of_kind)))]
                exact = table.counts([bound.clique])[bound.clique]
                error = np.abs(exact - release.model().tables([bound.clique])[bound.clique]).sum()
                failed[kind] += bool(error > bound.bound)
                counted[kind] += 1
    for kind, times in failed.items():
        assert counted[kind] > 20
        assert times <= binom.isf(1e-3, counted[kind], 0.1)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"share": 0}, BudgetError, "share=0: expected a number between 0 and 1"),
        ({"share": 1.0}, BudgetError, "share=1.0"),
        ({"share": math.nan}, BudgetError, "share=nan"),
        ({"share": "0.9"}, BudgetError, "share='0.9'"),
        ({"selection": "best"}, WorkloadError, "selection='best': expected one of 'exponential', 'generalized'"),
        ({"paper": 1}, WorkloadError, "paper=1: expected True or False"),
        ({"merge_rare": None}, WorkloadError, "merge_rare=None: expected True or False"),
        ({"preset": "slow"}, WorkloadError, "preset='slow': expected one of 'fast', 'balanced', 'best'"),
        ({"max_size_mb": 0}, SizeError, "max_size_mb=0: expected a number above 0, in megabytes"),
        ({"max_size_mb": "80"}, SizeError, "max_size_mb='80'"),
    ],
)
def test_settings_that_are_none_are_refused(settings, error, words):
    with pytest.raises(error, match=words):
        AIM(**settings)


@pytest.mark.parametrize("rounds", [0, -1, 4, True, 70.0, "70"])
def test_rounds_that_are_none_are_refused(rounds):
    with pytest.raises(BudgetError, match=r"rounds=.*at least share \* columns \+ 1 = 5"):
        AIM(rounds=rounds).plan(WORKLOAD, Budget(rho=1.0))


def test_prefix_sums_and_ranges_are_answered_from_the_tables_they_are_made_of():
    """The seam for other queries: rounds measure the marginals, and terms are answered from those or from the model."""
    asked = Workload.product(DOMAIN, {"b": hush.queries.prefix, "a": hush.queries.identity})
    asked += Workload.product(DOMAIN, {"b": hush.queries.ranges})
    plan = AIM().plan(asked, Budget(rho=500.0))
    assert "a x b" in plan.details() or "2-way" in plan.details()
    assert np.isnan(plan.query_variances(0)).all()
    release = plan.release(TABLE)
    exact = TABLE.counts([("b", "a")])[("b", "a")]
    cumulated = release.term(0)
    order = asked.terms[0].clique
    expected = np.cumsum(exact, axis=0) if order == ("b", "a") else np.cumsum(exact, axis=0).T
    np.testing.assert_allclose(cumulated.estimate, expected.ravel(), atol=1.0)
    assert len(release.term(1)) == asked.terms[1].queries
    assert release.sql("SELECT COUNT(*) FROM t WHERE b <= 1").estimate[0] == pytest.approx(exact[:2].sum(), abs=1.0)


def test_what_cannot_be_planned_is_refused_in_words():
    with pytest.raises(BudgetError, match=r"aim adds Gaussian noise.*Budget\(epsilon=1.0, delta=1e-9\)"):
        AIM().plan(WORKLOAD, Budget(epsilon=1.0))
    with pytest.raises(WorkloadError, match="the total alone, and there is nothing to choose; use 'residual'"):
        AIM().plan(Workload.marginals(DOMAIN, [()]), Budget(rho=1.0))
    with pytest.raises(SizeError, match="the model that the run starts with: .*coarsen that column, or raise max_size"):
        AIM(max_size_mb=8e-6 * 17).plan(WORKLOAD, Budget(rho=1.0))
    with pytest.raises(DomainError, match="'z' is not in the domain"):
        AIM().plan(Workload.marginals(DOMAIN, [("a", "z")]), Budget(rho=1.0))


class Looped(TinyTable):
    """A table whose rules pass in pairs and together allow no row: a = b, b = c and a is not c."""

    @property
    def schema(self) -> Schema:
        plain, other = super().schema, [(0, 1), (1, 0)]
        rules = [
            Constraint.forbid(self.domain, ("a", "b"), other),
            Constraint.forbid(self.domain, ("b", "c"), other),
            Constraint.allow(self.domain, ("a", "c"), other),
        ]
        return Schema(plain.columns, unit=plain.unit, constraints=rules)


TWOS = Domain({"a": 2, "b": 2, "c": 2})
REFUSED: dict[str, tuple[AIM, Workload, TinyTable, type[HushError], str]] = {
    "rules without a row": (AIM(), Workload.kway(TWOS, 2), Looped(TWOS, [(0, 0, 0)]), DomainError, "contradict"),
    "rules too large": (
        AIM(max_size_mb=8e-6 * 20),
        WORKLOAD,
        TinyTable(DOMAIN, ROWS, constraints=[RULE]),
        SizeError,
        "the model that the run starts with: .*a, d",
    ),
    "columns that the schema has not": (
        AIM(),
        Workload.kway(Domain({"a": 2, "z": 2}), 2),
        TinyTable(TWOS, [(0, 0, 0)]),
        DataError,
        "the plan has the attribute 'z', the table's schema has not; use the schema",
    ),
    "units of several rows": (
        AIM(),
        Workload.kway(TWOS, 2),
        TinyTable(TWOS, [(0, 0, 0)], unit=Unit(column="id", max_rows=2)),
        DataError,
        "max_rows_per_unit=2",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_released_is_refused_before_a_charge(what, tmp_path):
    mechanism, workload, table, error, words = REFUSED[what]
    with pytest.raises(error, match=words):
        mechanism.plan(workload, Budget(rho=1.0)).release(table, ledger=tmp_path / "budget.db")
    assert not (tmp_path / "budget.db").exists()
    assert table.reads == 0


@pytest.mark.parametrize(("rows", "rho", "times"), [(20_000, 0.01, 1), (200, 0.01, 2)])
def test_noisy_columns_are_measured_once_more(rows, rho, times):
    """Noise of a tenth of the counts is the aim, half of the budget the most; the document's form measures once."""
    table = TinyTable(DOMAIN, [(i % 4, i % 5, i % 6, i % 3) for i in range(rows)])
    for mechanism, expected in ((AIM(), times), (AIM(paper=True), 1)):
        release = mechanism.plan(WORKLOAD, Budget(rho=rho)).release(table, entropy=NotPrivateEntropy(1))
        before = release.noisy_tables[: len(release.noisy_tables) - len(release.rounds)]
        columns = [noisy for noisy in before if len(noisy.clique) == 1]
        assert len(columns) == expected * len(DOMAIN)
        spent = sum(float(1 / (2 * noisy.law.variance_parameter)) for noisy in columns)
        assert spent <= 0.5 * rho * (1 + 1e-9)
        if expected == 2:
            known = sum(1 / noisy.law.variance_parameter for noisy in columns) / len(DOMAIN)
            error = MEAN_ABSOLUTE * 4.5 / math.sqrt(known) / rows
            assert error == pytest.approx(0.1, rel=0.3) or spent == pytest.approx(0.5 * rho)


def test_relaxed_rows_take_tables_that_no_junction_tree_holds() -> None:
    """All pairs of 12 columns of 20 levels: their tree has 20^12 cells, and AIM alone may measure few of them."""
    domain = hush.Domain({f"x{index}": 20 for index in range(12)})
    generator = np.random.Generator(np.random.PCG64(4))
    hidden = generator.integers(0, 20, 2000)
    codes = {name: np.where(generator.random(2000) < 0.7, hidden, generator.integers(0, 20, 2000)) for name in domain}
    table = hush.read(pa.table(codes), hush.Schema.from_domain(domain))
    workload = hush.Workload.kway(domain, 2)
    mechanism = hush.mechanisms.AIM(estimator="relaxed", rows=60, rounds=24)
    release = hush.plan(workload, hush.Budget(rho=20.0), mechanism=mechanism).release(table)
    assert isinstance(release.model().distribution, RelaxedRows)
    exact = table.counts([("x3", "x9")])["x3", "x9"]
    alike, independent = release.model().counts(("x3", "x9")), np.outer(exact.sum(axis=1), exact.sum(axis=0)) / 2000
    assert np.abs(alike - exact).sum() < 0.8 * np.abs(independent - exact).sum()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": "rows"}, "estimator='rows': expected one of 'graphical', 'relaxed'"),
        ({"estimator": "relaxed", "rows": 0}, "rows=0"),
        ({"estimator": "relaxed", "paper": True}, "paper=True is AIM with a graphical model"),
    ],
)
def test_impossible_estimators_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        hush.mechanisms.AIM(**options)  # type: ignore[arg-type]
