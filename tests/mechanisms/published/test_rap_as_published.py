"""RAP as published: what its rounds choose, measure and cost."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Workload
from hush.core.errors import WorkloadError
from hush.mechanisms import RAP
from hush.privacy.selection import TopK
from hush.testing import TinyTable
from hush.workloads.threshold_term import TargetQuery

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
GENERATOR = np.random.Generator(np.random.PCG64(3))
TABLE = TinyTable(DOMAIN, [tuple(int(GENERATOR.integers(size)) for size in DOMAIN.shape) for _ in range(500)])
PAIRS = Workload.kway(DOMAIN, 2)
BUDGET = Budget(rho=0.4)


@pytest.mark.parametrize("selection", ["one-shot", "iterative"])
def test_rounds_choose_single_answers_and_measure_each_once(selection: str) -> None:
    mechanism = RAP(paper=True, rounds=3, queries=4, rows=30, selection=selection)
    release = hush.plan(PAIRS, BUDGET, mechanism=mechanism).release(TABLE)
    total, *answers = release.noisy_tables
    assert total.clique == ()
    queries = [answer.asked for answer in answers]
    assert all(isinstance(query, TargetQuery) for query in queries)
    assert len({(query.clique, query.target) for query in queries}) == len(queries) == 12
    assert len(release.rounds) == 12


@pytest.mark.parametrize(("selection", "counts"), [("one-shot", [4, 4]), ("iterative", [1] * 8)])
def test_half_of_each_round_pays_for_the_choice_at_the_corrected_scale(
    monkeypatch: pytest.MonkeyPatch, selection: str, counts: list[int]
) -> None:
    laws: list[TopK] = []
    choose = TopK.choose
    monkeypatch.setattr(TopK, "choose", lambda law, *rest: laws.append(law) or choose(law, *rest))
    mechanism = RAP(paper=True, rounds=2, queries=4, rows=20, selection=selection)
    release = hush.plan(PAIRS, BUDGET, mechanism=mechanism).release(TABLE)
    share = 0.99 * BUDGET.rho / 2  # rho_t, after a hundredth for the number of rows
    assert [law.count for law in laws] == counts
    for law in laws:
        # Gumbel noise of scale 2 / epsilon on counts: sqrt(K / rho_t), not the printed sqrt(K / (2 rho_t)).
        assert 2 / float(law.epsilon) == pytest.approx(math.sqrt(4 / share), rel=1e-6)
    for answer in release.noisy_tables[1:]:
        assert answer.stddev == pytest.approx(math.sqrt(4 / share), rel=1e-3)  # the same scale
    choices = sum(Fraction(law.count) * law.epsilon**2 / 8 for law in laws)
    measured = sum(1 / (2 * answer.variance) for answer in release.noisy_tables)
    assert float(choices) + measured <= BUDGET.rho * (1 + 1e-9)
    assert float(choices) + measured == pytest.approx(BUDGET.rho, rel=1e-3)


def test_all_answers_at_once_are_measured_one_by_one() -> None:
    release = hush.plan(PAIRS, BUDGET, mechanism=RAP(paper=True, measure="all", rows=20)).release(TABLE)
    assert len(release.noisy_tables) == 1 + PAIRS.queries
    assert not release.rounds
    with pytest.raises(WorkloadError, match="one by one"):
        hush.plan(Workload.kway(Domain({"x": 100, "y": 100}), 2), BUDGET, mechanism=RAP(paper=True, measure="all"))


def test_the_fits_of_a_release_can_be_followed_step_by_step(tmp_path: Path) -> None:
    mechanism = RAP(paper=True, rounds=3, queries=4, rows=30)
    released = hush.plan(PAIRS, BUDGET, mechanism=mechanism).release(TABLE)
    released.save(tmp_path / "rap.hush")
    release = hush.load(tmp_path / "rap.hush")
    start, *rounds = RAP.fits(release)
    assert not start.distances
    assert len(rounds) == 3
    for fit in rounds:
        assert min(fit.distances) < fit.distances[0]
    # the last fit is that of the release, and the distance of a round before its answers is on record
    np.testing.assert_allclose(rounds[-1].rows.counts(("a", "b")), released.model().counts(("a", "b")), rtol=1e-9)
    for before, chosen in zip((start, *rounds), np.arange(12).reshape(3, 4), strict=False):
        for number in chosen.tolist():
            query, noisy = release.noisy_tables[1 + number].asked, release.noisy_tables[1 + number].values[0]
            gap = abs(before.rows.counts(query.clique)[query.target] - noisy)
            assert release.rounds[number].misfit == pytest.approx(gap, abs=0.01)  # answers of rows are rounded


def test_fits_of_rounds_that_run_out_of_answers_and_of_no_rounds() -> None:
    few = Workload.marginals(DOMAIN, [("a", "b")])  # six answers: four, two, then four anew, twice
    for workload, mechanism, fits in (
        (few, RAP(paper=True, rounds=3, queries=4, rows=20), 5),
        (PAIRS, RAP(paper=True, measure="all", rows=20), 2),
    ):
        release = hush.plan(workload, BUDGET, mechanism=mechanism).release(TABLE)
        found = list(RAP.fits(release))
        assert len(found) == fits
        np.testing.assert_allclose(found[-1].rows.counts(("a", "b")), release.model().counts(("a", "b")), rtol=1e-9)


def test_fits_of_another_release_are_refused() -> None:
    releases = [hush.plan(PAIRS, BUDGET, mechanism=each).release(TABLE) for each in ("residual", RAP(rows=20))]
    for release, name in ((releases[0], "residual"), (releases[1], "rap"), ("rap.hush", "str")):
        with pytest.raises(WorkloadError, match=rf"{name}: expected a release of RAP\(paper=True\)"):
            RAP.fits(release)  # type: ignore[arg-type]


def test_errors_fall_with_the_budget_and_thresholds_are_answered() -> None:
    workload = Workload.thresholds(DOMAIN, 3, 2)
    term = workload.terms[0]
    errors = []
    for rho in (1e-4, 50.0):
        mechanism = RAP(paper=True, rounds=6, queries=4, rows=100)
        model = hush.plan(workload, Budget(rho=rho), mechanism=mechanism).release(TABLE).model()
        exact = term.exact_answers(TABLE.counts([term.clique])[term.clique].astype(float))
        errors.append(float(np.abs(model.term(term).estimate - exact.ravel()).max()))
    assert errors[1] < 25 < errors[0]  # of 500 rows


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"paper": True, "measure": "cells"}, "leave measure"),
        ({"paper": True, "column_share": 0.1}, "leave measure, column_share"),
        ({"paper": True, "restraint": 0.5}, "no restraint"),
        ({"paper": 1}, "paper=1"),
        ({"selection": "iterative"}, "add paper=True"),
        ({"distance": "linf"}, "add paper=True"),
        ({"paper": True, "distance": "l0"}, "'l2', 'linf'"),
        ({"paper": True, "selection": "oneshot"}, "did you mean 'one-shot'"),
    ],
)
def test_settings_that_do_not_belong_together_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        RAP(**options)  # type: ignore[arg-type]
