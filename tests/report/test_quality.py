"""How good a release is, in words: figures by their definitions, and no claim where nothing is known."""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hush
from hush.mechanisms import AIM
from hush.release.release import Release
from hush.report import report_html
from hush.report.quality import OrderQuality, quality, quality_text
from hush.schema import Boolean, Categorical, Schema
from hush.workloads import Workload

SCHEMA = Schema([Categorical(name="team", values=("a", "b", "c", "d")), Boolean(name="in")])
TEAM = np.array([6000.0, 3000.0, 900.0, 100.0])
COUNTS = {(): 10_000.0, ("team",): TEAM, ("in",): [9990.0, 10.0], ("team", "in"): np.outer(TEAM, [0.5, 0.5])}
PEOPLE = hush.datasets.people_schema()
TABLE = hush.read(hush.datasets.people(3000, seed=4), PEOPLE)


def test_figures_by_their_definitions(make: Callable[..., Release]) -> None:
    one, two = quality(make(SCHEMA, counts=COUNTS, variance=400.0))
    # 1.96 * 20 = 39.2, a little more for whole numbers: 5 % of counts above about 790
    assert (one.order, one.tables, one.measured, one.sampled, one.cells) == (1, 2, 2, 2, 6)
    assert one.close == pytest.approx(4 / 6)
    assert one.rows_close == pytest.approx((0.99 + 0.999) / 2)
    assert one.misplaced == pytest.approx(math.sqrt(2 / math.pi) * 20 * 3 / (2 * 10_000))  # 3 cells in the middle
    assert 39 < one.least < 41
    assert (two.order, two.tables, two.cells) == (2, 1, 8)
    assert two.close == pytest.approx(4 / 8)
    assert two.rows_close == pytest.approx(0.9)
    assert two.misplaced == pytest.approx(math.sqrt(2 / math.pi) * 20 * 8 / (2 * 10_000))
    assert math.isnan(two.bound)


def test_misplaced_rows_are_those_of_simulated_noise() -> None:
    random = np.random.default_rng(1)
    noise = random.normal(0, 20.0, (20_000, 8))
    assert np.abs(noise).sum(axis=1).mean() / 2 == pytest.approx(math.sqrt(2 / math.pi) * 20 * 8 / 2, rel=0.01)


@pytest.mark.parametrize(
    ("misplaced", "rows_close", "word"),
    [
        (0.004, 0.9, "very accurate"),
        (0.05, 0.9, "accurate"),
        (0.1, 0.9, "rough"),
        (0.7, 0.9, "too noisy to rely on"),
        (0.004, 0.6, "accurate"),  # few rows misplaced, but many of them in numbers that are not close
        (0.004, 0.15, "rough"),
        (0.004, math.nan, "very accurate"),
    ],
)
def test_the_verdict(make: Callable[..., Release], misplaced: float, rows_close: float, word: str) -> None:
    entry = OrderQuality(
        order=1,
        tables=2,
        measured=2,
        sampled=2,
        cells=6,
        close=0.5,
        rows_close=rows_close,
        misplaced=misplaced,
        least=30.2,
        bound=math.nan,
    )
    text = quality_text(make(SCHEMA), [entry])
    assert f"Tables over one column are {word}." in text
    assert "Counts below about 31 cannot be told from zero" in text


def test_the_page_says_it_in_words_and_nowhere_as_a_sample(make: Callable[..., Release], read_page: Any) -> None:
    page = read_page(report_html(make(SCHEMA, counts=COUNTS, variance=400.0)))
    said = " ".join(page.texts("li"))
    assert (
        "Tables over one column are very accurate. A typical table has about 0.2 % of the rows in a wrong cell." in said
    )
    assert "Two thirds of the counts, covering 99 % of rows, are within 5 % of the truth, with 95 % certainty." in said
    assert "random sample" not in " ".join(page.texts("body"))
    assert "as little accurate" not in " ".join(page.texts("body"))


def test_noise_that_hides_the_total_is_said_so(make: Callable[..., Release]) -> None:
    release = make(SCHEMA, counts={**COUNTS, (): 10.0}, variance=400.0)
    assert quality(release) == []
    assert "it hides even the number of rows" in quality_text(release, [])


def test_unknown_errors_are_unknown_quality(make: Callable[..., Release]) -> None:
    release = make(SCHEMA, counts=COUNTS, variance=math.nan)
    text = quality_text(release, quality(release))
    assert "The release alone cannot tell: no error is known." in text


def test_a_synthetic_release_says_what_was_measured_and_what_nobody_can_know(read_page: Any) -> None:
    pairs = Workload.marginals(PEOPLE.domain, [("sex", "region"), ("region", "education"), ("education", "employed")])
    release = hush.plan(pairs, hush.Budget(rho=0.1), mechanism=AIM(preset="fast")).release(TABLE)
    one, two = quality(release)
    assert one.measured == one.tables == 7
    assert two.tables == 21
    assert two.measured == sum(
        release.estimates.has_covariance(clique) for clique in Workload.kway(PEOPLE.domain, 2).cliques
    )  # type: ignore[attr-defined]
    assert 0 < two.measured < 21
    bounds = release.bounds.all([(name,) for name in PEOPLE.domain])
    assert one.bound == pytest.approx(np.median([bound.share for bound in bounds]) / 2)
    said = " ".join(read_page(report_html(release)).texts("li"))
    assert f"A typical table that was measured ({two.measured} of 21) has about " in said
    assert f"The model fills in the other {21 - two.measured} tables over two columns" in said
    assert re.search(r"at most [\d.]+ % of the rows of a typical measured table in a wrong cell, with 95 %", said)


def test_counts_are_of_all_tables_and_not_of_the_sampled_ones(monkeypatch: pytest.MonkeyPatch, read_page: Any) -> None:
    """Of 21 pairs some are sampled: the page counts all 21 tables and their cells, and says how many were sampled."""
    monkeypatch.setattr("hush.report.quality.SAMPLED_TABLES", 3)
    domain = PEOPLE.domain
    chosen = [("sex", "region"), ("region", "education"), ("education", "employed"), ("sex", "employed")]
    release = hush.plan(Workload.marginals(domain, chosen), hush.Budget(rho=5.0), mechanism="rap").release(TABLE)
    estimates: Any = release.estimates
    pairs = Workload.kway(domain, 2).cliques
    measured = sum(map(estimates.has_covariance, pairs))
    two = quality(release)[1]
    assert 3 < measured < 18
    assert (two.tables, two.measured, two.sampled) == (21, measured, 6)
    assert two.cells == sum(map(domain.size, pairs))
    page = read_page(report_html(release))
    said = " ".join([*page.texts("li"), *page.texts("p")])
    assert f"A typical table that was measured ({measured} of 21) has about " in said
    assert f"The model fills in the other {21 - measured} tables over two columns" in said
    assert "computed from 3 of the 7 tables over one column and 6 of the 21 tables over two columns" in said


def test_few_measured_tables_among_many_are_found() -> None:
    """One pair of 190 was measured, and its error is known however few pairs are sampled."""
    domain = hush.Domain({f"c{i}": 2 for i in range(20)})
    rows = np.random.default_rng(3).integers(0, 2, (500, 20))
    columns = {name: rows[:, i] for i, name in enumerate(domain)}
    table = hush.read(pa.table(columns), hush.Schema.from_domain(domain))
    workload = Workload.marginals(domain, [("c11", "c17")])
    release = hush.plan(workload, hush.Budget(rho=5.0), mechanism="rap").release(table)
    two = quality(release)[1]
    assert (two.tables, two.measured) == (190, 1)
    assert math.isfinite(two.misplaced)


def test_a_release_without_a_model_counts_only_the_tables_that_it_has() -> None:
    workload = Workload.marginals(PEOPLE.domain, [("sex", "region"), ("region", "education")])
    one, two = quality(hush.plan(workload, hush.Budget(rho=0.5), mechanism="residual").release(TABLE))
    assert (one.tables, one.measured, two.tables, two.measured) == (3, 3, 2, 2)
    assert two.cells == sum(map(PEOPLE.domain.size, workload.cliques))


def test_a_release_of_one_way_tables_does_not_claim_two_way_ones() -> None:
    release = hush.plan(Workload.kway(PEOPLE.domain, 1), hush.Budget(rho=0.5), mechanism="residual").release(TABLE)
    (one,) = quality(release)
    assert one.order == 1
    assert "Tables over two columns" not in quality_text(release, [one])


def test_less_noise_is_never_worse() -> None:
    columns = Workload.kway(PEOPLE.domain, 1)
    found = [quality(hush.plan(columns, hush.Budget(rho=rho)).release(TABLE))[0] for rho in (0.01, 0.1, 1.0)]
    assert [entry.misplaced for entry in found] == sorted((entry.misplaced for entry in found), reverse=True)
    assert found[0].rows_close < found[-1].rows_close
