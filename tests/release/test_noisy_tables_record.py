"""Releases of chosen tables: what they answer from, and whether their noise is accounted for."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Neighbours, Workload
from hush.core.errors import DomainError
from hush.mechanisms import MST, MWEM
from hush.mechanisms.aim import AIM
from hush.privacy.events import GaussianEvent, SelectionEvent, compose
from hush.privacy.gate import MarginalQuery
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian
from hush.release.noisy_tables_record import NoisyTablesRecord
from hush.release.record import Round
from hush.release.statement import Statement
from hush.schema import ROW, Schema, Unit
from hush.testing import TinyTable

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
ROWS = [(i % 2, (i % 2) + (i % 5 == 0), (i // 2) % 2) for i in range(60)]
TABLE = TinyTable(DOMAIN, ROWS)
NOISE = GaussianEvent(Fraction(4), Fraction(1), True)


def made(event=NOISE, tables=1, variance=Fraction(4), relation=Neighbours.ADD_REMOVE, unit=ROW) -> hush.Release:
    statement = Statement(budget=Budget(rho=5.0), neighbours=relation, unit=unit, event=event, seeded=False)
    noisy = Measurement.of(MarginalQuery(("a",)), np.array([3, 4]), DiscreteGaussian(variance))
    return hush.Release(
        mechanism="aim",
        schema=Schema(Schema.from_domain(DOMAIN).columns, unit=unit),
        workload=Workload.kway(DOMAIN, 1),
        statement=statement,
        record=NoisyTablesRecord(DOMAIN, [noisy] * tables),
    )


def test_noise_that_is_accounted_for_is_no_contradiction():
    assert made().inconsistency() is None
    assert made(compose([NOISE, SelectionEvent(Fraction(1)), NOISE]), tables=2).inconsistency() is None
    assert made(compose([NOISE, NOISE]), tables=1).inconsistency() is None  # a stopped run paid for more than it got
    replaced = GaussianEvent(Fraction(4), Fraction(2))
    assert made(replaced, relation=Neighbours.REPLACE).inconsistency() is None
    several = Unit(column="id", max_rows=3)
    assert made(GaussianEvent(Fraction(4), Fraction(9)), unit=several).inconsistency() is None


@pytest.mark.parametrize(
    "release",
    [
        lambda: made(tables=2),
        lambda: made(variance=Fraction(399, 100)),
        lambda: made(SelectionEvent(Fraction(1))),
        lambda: made(relation=Neighbours.REPLACE),
        lambda: made(unit=Unit(column="id", max_rows=3)),
        lambda: made(compose([NOISE, SelectionEvent(Fraction(1))]), tables=2),
    ],
    ids=["twice", "less noise", "no noise", "other neighbours", "larger units", "once for two"],
)
def test_a_table_whose_noise_is_not_accounted_for_is_a_contradiction(release):
    assert release().inconsistency() == "it holds a table whose noise it does not account for"


def test_a_release_without_a_table_is_a_contradiction():
    assert made(tables=0).inconsistency() == "it holds no table"
    stopped = made(tables=0)
    stopped.complete = False
    assert stopped.inconsistency() is None


def played(epsilon):
    return Round(
        clique=("a",), epsilon=epsilon, stddev=2.0, candidates=3, misfit=1.0, penalty=0.0, weight=1.0, annealed=False,
        size_mb=0.0,
    )  # fmt: skip


def test_every_choice_is_accounted_for_once():
    half, third = SelectionEvent(Fraction(1, 2)), SelectionEvent(Fraction(1, 3))
    release = made(compose([NOISE, half, third, third]))
    for rounds in ([], [1 / 2], [1 / 3, 1 / 2, 1 / 3], [0.0, 0.0, 1 / 2]):
        release.record.rounds = tuple(map(played, rounds))
        assert release.inconsistency() is None
    for rounds in ([1 / 2, 1 / 2], [1 / 4], [1 / 3, 1 / 3, 1 / 3], [1e300]):
        release.record.rounds = tuple(map(played, rounds))
        assert release.inconsistency() == "it holds a choice that it does not account for"
    endless = made(compose([NOISE, SelectionEvent(Fraction(10**400))]))
    endless.record.rounds = (played(1e300),)
    assert endless.inconsistency() is not None


def test_a_cost_beyond_the_budget_is_a_contradiction():
    release = made()
    release.statement = replace(release.statement, budget=Budget(rho=0.125))
    assert release.inconsistency() is None
    release.statement = replace(release.statement, budget=Budget(rho=0.12))
    assert release.inconsistency() == "it spent more than its budget"


@pytest.mark.parametrize("mechanism", [AIM(), AIM(selection="generalized"), AIM(paper=True), MWEM(), MST()], ids=str)
@pytest.mark.parametrize("relation", list(Neighbours))
def test_scores_promise_no_more_than_choices_can(mechanism, relation):
    domain = Domain({"a": 2, "b": 3, "c": 2, "d": 2})
    workload = Workload.marginals(domain, [("a", "b", "c"), ("c", "d"), ("a",)], weights=[5.0, 1.0, 0.3])
    table = TinyTable(domain, [(*row, 0) for row in ROWS])
    own = mechanism.plan(workload, Budget(rho=0.3), neighbours=relation).release(table)
    assert own.inconsistency() is None
    scored = own.record.scored
    for change in ({"slopes": scored.slopes * 0.4}, {"slacks": scored.slacks - 0.1 * scored.slopes}):
        own.record.scored = replace(scored, **change)
        assert own.inconsistency() == "its scores promise more than its choices can"


@pytest.fixture(scope="module")
def release() -> hush.Release:
    return AIM().plan(Workload.kway(DOMAIN, 2), Budget(rho=3.0)).release(TABLE)


def test_measured_tables_are_answered_by_what_was_measured(release):
    last = release.noisy_tables[-1]
    unbiased = release.record.unbiased()
    assert unbiased is not None
    np.testing.assert_allclose(release.counts(last.clique, unbiased=True), unbiased.counts(last.clique))
    assert len(release.measurements()) == len(release.noisy_tables)
    assert [one.stddev for one in release.measurements()] == [max(one.stddev, 0.1) for one in release.noisy_tables]


def test_the_model_is_the_one_that_was_fitted_unless_another_is_wished_for(release):
    assert release.model().distribution is release.record.fitted.value
    assert release.model(tolerance=0.5).distribution is release.record.fitted.value
    assert release.model(max_size_mb=1.0).distribution is not release.record.fitted.value
    assert release.model([("a", "b")]).distribution is not release.record.fitted.value


def test_bounds_are_asked_by_name(release):
    assert release.error_bound("b", "a").clique == ("b", "a")
    assert {bound.clique for bound in release.error_bounds()} >= {("a",), ("a", "b"), ("b", "c")}
    with pytest.raises(DomainError, match="'z'"):
        release.error_bound("z")


def test_an_interrupted_release_answers_with_what_it_has(release):
    part = hush.Release(
        mechanism="aim",
        schema=release.schema,
        workload=release.workload,
        statement=replace(release.statement),
        complete=False,
        record=NoisyTablesRecord(DOMAIN, release.noisy_tables[:2]),
        settings=release.settings,
    )
    assert part.record.fitted is None
    assert part.model().tables([("a", "c")])[("a", "c")].sum() == pytest.approx(part.model().total)
    assert "interrupted" in repr(part)
    assert any("missing" in note for note in part.marginal("a").notes)
