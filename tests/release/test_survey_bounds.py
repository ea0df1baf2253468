"""Bounds from surveyed distances: they hold as often as they say, widen together, survive files and make intervals."""

from fractions import Fraction
from itertools import combinations
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Workload
from hush.core.domain import Clique
from hush.inference import l1_bounds
from hush.mechanisms import Scout
from hush.mechanisms.candidates import on_grid
from hush.models.shrunk.shrunk_fit import fit_shrunk
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.noise import DiscreteGaussian
from hush.release.error_bounds import BoundTable, ErrorBounds
from hush.release.survey_record import Survey
from hush.testing import TinyTable

DOMAIN = Domain({"a": 3, "b": 4, "c": 2, "d": 3})
RUNS = 150


def generated(rows: int) -> Any:
    """a goes with b and c with d, both loosely."""
    random = np.random.default_rng(0)
    a, c = random.integers(0, 3, rows), random.integers(0, 2, rows)
    b = np.where(random.random(rows) < 0.5, a, random.integers(0, 4, rows))
    d = np.where(random.random(rows) < 0.4, c, random.integers(0, 3, rows))
    return TinyTable(DOMAIN, np.stack([a, b, c, d], axis=1).tolist())


TABLE = generated(400)
PLAN = Scout().plan(Workload.kway(DOMAIN, 3), Budget(rho=0.02))
EXACT = TABLE.counts([clique for k in (1, 2, 3) for clique in combinations(DOMAIN, k)])


@pytest.fixture(scope="module")
def release() -> hush.Release:
    return PLAN.release(TABLE, entropy=NotPrivateEntropy(0))


@pytest.fixture(scope="module")
def releases() -> list[hush.Release]:
    return [PLAN.release(TABLE, entropy=NotPrivateEntropy(seed)) for seed in range(RUNS)]


def off(release: hush.Release, clique: Clique) -> float:
    return float(np.abs(EXACT[clique] - release.model().counts(clique)).sum())


def failures(releases: list[hush.Release], kind: str, level: float) -> tuple[int, int]:
    """How many bounds of a kind are exceeded, and how many there are."""
    rows = [(release, row) for release in releases for row in release.error_bounds(level=level) if row.kind == kind]
    return sum(off(release, row.clique) > row.bound for release, row in rows), len(rows)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_surveyed_bounds_hold_at_least_as_often_as_stated(releases: list[hush.Release], level: float) -> None:
    failed, count = failures(releases, "surveyed", level)
    assert count > 3 * RUNS
    assert failed <= (1 - level) * count + 3 * (level * (1 - level) * count) ** 0.5
    assert failures(releases, "supported", level)[0] <= (1 - level) * RUNS * len(EXACT)


@pytest.mark.slow
def test_simultaneous_bounds_hold_together(releases: list[hush.Release]) -> None:
    failed = 0
    for release in releases:
        bounds = release.error_bounds(level=0.8, simultaneous=True)
        failed += any(off(release, row.clique) > row.bound for row in bounds if row.kind != "none")
    assert failed <= 0.2 * RUNS + 3 * (0.16 * RUNS) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("deviations", [0.0, -3.0])
def test_bounds_without_the_noise_of_the_distance_fail_too_often(
    releases: list[hush.Release], deviations: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(l1_bounds, "above", lambda variance, failure, step=0.0: deviations * variance**0.5)
    failed, count = failures(releases, "surveyed", 0.9)
    assert failed > 0.1 * count + 3 * (0.09 * count) ** 0.5
    if deviations < 0:
        assert failed > 0.4 * count


def kinds(bounds: BoundTable) -> dict[Clique, str]:
    return {row.clique: row.kind for row in bounds}


def test_every_surveyed_or_measured_table_has_a_bound(release: hush.Release) -> None:
    bounds = release.error_bounds()
    assert set(kinds(bounds)) == set(EXACT)
    assert set(kinds(bounds).values()) == {"supported", "surveyed"}
    unbiased = release.record.unbiased()  # type: ignore[attr-defined]
    for row in bounds:
        assert (row.kind == "supported") == unbiased.covers(row.clique)
        assert row.share == pytest.approx(row.bound / release.model().total)
    assert "its noisy distance" in repr(bounds)


def test_a_surveyed_bound_is_the_distance_with_its_noise_and_what_the_model_moved(release: hush.Release) -> None:
    last = release.record.surveys[-1]  # type: ignore[attr-defined]
    for row in release.error_bounds(level=0.9):
        if row.kind == "surveyed":
            index = last.cliques.index(row.clique)
            # a twentieth of the failure probability is for the number of rows
            noise = NormalDist().inv_cdf(1 - 0.95 * 0.1) * float(last.law.variance_parameter) ** 0.5 + 0.5
            distance = max(float(last.values[index]) + 1 + noise, 0.0)
            assert row.bound == pytest.approx(distance + last.moved[index])


def test_what_the_model_moved_is_its_distance_from_what_was_surveyed(release: hush.Release) -> None:
    tables = Scout().tables(PLAN.workload)
    last = release.model()
    for survey in release.record.surveys:  # type: ignore[attr-defined]
        noisy = release.record.measurements()[: survey.tables_before]
        before = fit_shrunk(DOMAIN, noisy, cliques=tables, relaxed=False).value
        surveyed = on_grid(before.many(survey.cliques))  # distances are from tables on a grid
        moved = [float(np.abs(surveyed[clique] - last.counts(clique)).sum()) for clique in survey.cliques]
        np.testing.assert_allclose(survey.moved, moved, rtol=1e-9, atol=1e-9)


def test_higher_levels_and_simultaneous_bounds_are_wider(release: hush.Release) -> None:
    alone, wide = release.error_bounds(level=0.9), release.error_bounds(level=0.99)
    together = release.error_bounds(level=0.9, simultaneous=True)
    assert kinds(alone) == kinds(together)
    assert all(one.bound < other.bound for one, other in zip(alone, together, strict=True))
    assert all(one.bound < other.bound for one, other in zip(alone, wide, strict=True))
    failure = 0.1 / len(alone)  # a share for each table, measured or surveyed
    apart = {row.clique: row.bound for row in release.error_bounds(level=1 - failure)}
    for row in together:
        if row.kind == "surveyed":
            assert row.bound == pytest.approx(apart[row.clique])


def test_a_table_inside_a_surveyed_one_has_its_bound() -> None:
    counts = np.full((3, 4, 2), 5.0)
    survey = Survey((("a", "b", "c"), ("a", "b")), np.array([40, 30]), DiscreteGaussian(Fraction(25)), 0, np.zeros(2))
    earlier = Survey((("c", "d"),), np.array([7]), DiscreteGaussian(Fraction(25)), 0, np.array([3.0]))
    unfinished = Survey((("b", "d"),), np.array([7]), DiscreteGaussian(Fraction(25)), 0)
    bounds = ErrorBounds(DOMAIN, lambda clique: counts, None, (), None, 120.0)
    bounds.surveys = (earlier, survey, unfinished)
    assert bounds.of(("a",)) == bounds.of(("a",), 0.95)
    assert bounds.of(("a",)).bound == bounds.of(("b", "a")).bound  # the smallest that contains it
    assert bounds.of(("a", "c")).bound == bounds.of(("a", "b", "c")).bound == bounds.of(("a", "b")).bound + 10
    assert bounds.of(("d",)).kind == "surveyed"  # from the earlier survey
    assert bounds.of(("c",)).bound == bounds.of(("a", "b", "c")).bound  # the last survey goes first
    assert bounds.of(("b", "d")).kind == "none"  # its survey does not know how far the model moved
    assert bounds.of(("a", "d")).kind == "none"


def test_a_distance_far_below_zero_bounds_nothing_below_zero() -> None:
    survey = Survey((("a", "b"),), np.array([-500]), DiscreteGaussian(Fraction(25)), 0, np.array([4.0]))
    bounds = ErrorBounds(DOMAIN, lambda clique: np.ones((3, 4)), None, (), None, 12.0)
    bounds.surveys = (survey,)
    assert bounds.of(("a", "b")).bound == 4.0


def test_bounds_survive_files(release: hush.Release, tmp_path: Path) -> None:
    release.save(tmp_path / "x.hush")
    loaded = hush.load(tmp_path / "x.hush")
    assert isinstance(loaded, hush.Release)
    for options in ({"level": 0.9}, {"level": 0.9, "simultaneous": True}):
        ours, theirs = release.error_bounds(**options), loaded.error_bounds(**options)  # type: ignore[arg-type]
        assert kinds(ours) == kinds(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert one.bound == pytest.approx(other.bound, rel=1e-6)


def test_intervals_of_unmeasured_tables_use_the_bounds(release: hush.Release) -> None:
    bounds = {row.clique: row for row in release.error_bounds(level=0.9)}
    surveyed = [clique for clique, row in bounds.items() if row.kind == "surveyed"]
    assert surveyed
    for clique in surveyed:
        answers = release.marginal(clique, level=0.9)
        model = release.model().counts(clique).ravel()
        margin = float(release.bounds.margin(clique, np.array(0.0), np.array(1.0), 0.9))
        assert bounds[clique].bound / 2 <= margin <= bounds[clique].bound
        np.testing.assert_allclose(answers.estimate, model)
        np.testing.assert_allclose(answers.upper - model, margin)
        np.testing.assert_allclose(model - answers.lower, margin)
        assert any("from the fitted model; the error of the whole table is at most" in note for note in answers.notes)


def test_the_failure_probabilities_of_a_margin_add_up_to_what_is_stated(
    release: hush.Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent: list[float] = []
    above, total_error = l1_bounds.above, l1_bounds.total_error

    def above_noted(variance: float, failure: float, step: float = 0.0) -> float:
        spent.append(failure)
        return above(variance, failure, step)

    def total_noted(estimate: float, variance: float, total: float, failure: float, step: float = 0.0) -> float:
        spent.append(failure)
        return total_error(estimate, variance, total, failure, step)

    monkeypatch.setattr(l1_bounds, "above", above_noted)
    monkeypatch.setattr(l1_bounds, "total_error", total_noted)
    clique = next(row.clique for row in release.error_bounds(level=0.9) if row.kind == "surveyed")
    spent.clear()
    release.bounds.margin(clique, np.array(0.0), np.array(1.0), 0.9)
    assert 0 < sum(spent) <= 0.1 * (1 + 1e-9)
