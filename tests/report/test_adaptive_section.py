"""Reports of adaptive releases: bounds, rounds, and the sample that is as good."""

import math
import re
from dataclasses import replace
from typing import Any

import pytest

import hush
from hush.mechanisms import AIM, MST
from hush.mechanisms.registry import BUILT_IN
from hush.release.table_content import TableContent
from hush.report import report_html
from hush.report.adaptive_section import MOST_ROUNDS, share_text
from hush.report.labels import error_text
from hush.report.quality import Quality, quality
from hush.report.summary import _whole

SCHEMA = hush.datasets.people_schema()
TABLE = hush.read(hush.datasets.people(3000, seed=4), SCHEMA)
PAIRS = hush.Workload.marginals(
    SCHEMA.domain,
    [("sex", "region"), ("region", "education"), ("education", "employed"), ("sex", "moved"), ("age", "income")],
)


@pytest.fixture(scope="module")
def release() -> hush.Release:
    made = hush.plan(PAIRS, hush.Budget(rho=0.02), mechanism=AIM(preset="fast")).release(TABLE)
    assert isinstance(made, hush.Release)
    return made


@pytest.fixture(scope="module")
def page(release: hush.Release, read_page: Any) -> Any:
    return read_page(report_html(release))


def rows_of(page: Any, first: str) -> list[str]:
    """The texts of the rows of the table whose head begins with a word."""
    found = [text for text in page.texts("table") if text.startswith(first)]
    assert len(found) == 1
    return [text for text in page.texts("tr") if text in found[0]]


def test_the_page_has_no_number_that_is_none(page: Any) -> None:
    text = " ".join(page.texts("body"))
    assert not re.search(r"\bnan\b|\binf\b", text)
    assert "Predicted error" not in text
    assert "known before any record was read" not in text


def test_every_round_is_told(page: Any, release: hush.Release) -> None:
    rows = rows_of(page, "roundchosen")[1:]
    assert len(rows) == len(release.rounds)
    for number, (row, one) in enumerate(zip(rows, release.rounds, strict=True), start=1):
        assert row.startswith(f"{number}{' × '.join(one.clique)}{one.candidates}{error_text(one.stddev)}")
        assert row.endswith("yes") == one.annealed
    first = len(release.noisy_tables) - len(release.rounds)
    assert f"It began with {first} noisy tables" in " ".join(page.texts("p"))


def test_bounds_are_those_of_the_release_each_and_together(page: Any, release: hush.Release) -> None:
    each, together = release.error_bounds(), release.error_bounds(simultaneous=True)
    rows = rows_of(page, "tableknown from")[1:]
    assert len(rows) == len(each)
    for row, one, other in zip(rows, each, together, strict=True):
        assert row == f"{' × '.join(one.clique)}{_kind(one.kind)}{share_text(one.share)}{share_text(other.share)}"
        assert not other.share < one.share


def _kind(kind: str) -> str:
    return "no bound below 200 % is known" if kind == "none" else kind


def test_the_equivalent_sample_comes_from_bounds_that_hold_together(page: Any, release: hush.Release) -> None:
    found = quality(release)
    assert found is not None
    assert found.bounded
    assert (found.looked_at, found.tables) == (5, 5)
    assert found.sentence in page.texts("p")
    bounds = release.bounds.all([term.clique for term in PAIRS], simultaneous=True)
    assert found.unbounded == sum(one.kind == "none" for one in bounds)
    error = sum(2.0 if one.kind == "none" else one.share for one in bounds) / len(bounds)
    model = release.model()
    tables = [model.counts(term.clique).clip(0, model.total) for term in PAIRS]
    assert found.fraction == pytest.approx(hush.evaluation.equivalent_fraction(tables, error, model.total), rel=2e-3)


@pytest.mark.parametrize("mechanism", ["mst", "privbayes", "dualquery"])
def test_mechanisms_that_do_not_play_rounds_say_what_they_chose(mechanism: str, read_page: Any) -> None:
    made = hush.plan(PAIRS, hush.Budget(rho=0.02), mechanism=mechanism).release(TABLE)
    assert isinstance(made, hush.Release)
    page = read_page(report_html(made))
    said = " ".join(page.texts("p"))
    assert "It began with" not in said
    assert re.search(r"This release measured \d+ tables over one column", said)
    if made.rounds:
        rows = rows_of(page, "roundchosen")[1:]
        for row, one in zip(rows, made.rounds[:MOST_ROUNDS], strict=True):
            assert ("not measured" in row) == (not one.stddev)
    assert not re.search(r"\bnan\b|\binf\b", " ".join(page.texts("body")))


def renamed(release: hush.Release, mechanism: str) -> hush.Release:
    return hush.Release(
        mechanism=mechanism,
        schema=release.schema,
        workload=release.workload,
        statement=release.statement,
        complete=True,
        content=release.content,
    )


def test_a_plug_in_says_itself_whether_its_rounds_fit_again(
    release: hush.Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUILT_IN, "plugin", AIM)
    assert "It began with" in report_html(renamed(release, "plugin"))
    monkeypatch.setitem(BUILT_IN, "plugin", MST)
    assert "It began with" not in report_html(renamed(release, "plugin"))


def test_rounds_of_a_mechanism_that_is_not_installed_are_choices(release: hush.Release) -> None:
    text = report_html(renamed(release, "elsewhere"))
    assert "It began with" not in text
    assert "It chose the tables below at random" in text


def test_tables_without_a_bound_count_as_unknown() -> None:
    release = hush.plan(PAIRS, hush.Budget(rho=0.02), mechanism="independent").release(TABLE)
    found = quality(release)
    assert found is not None
    assert found.unbounded == 5
    assert "no bound below 200 % is known" in report_html(release)
    assert not found.known
    assert "The release alone cannot tell" in found.sentence
    assert "(5 tables without a bound below 200 % count as if" in found.sentence
    assert 'data-kind="quality"' not in report_html(release)
    assert "How it was made" in report_html(release)


def test_other_releases_are_about_as_good_as_a_sample(people_release: hush.Release) -> None:
    found = quality(people_release)
    assert found is not None
    assert not found.bounded
    assert found.sentence in report_html(people_release).replace("&#x27;", "'")
    columns = hush.Workload.kway(SCHEMA.domain, 1)
    fractions = []
    for rho in (1e-4, 1e-3, 1e-2):
        made = quality(hush.plan(columns, hush.Budget(rho=rho)).release(TABLE))
        fractions.append(0.0 if made is None else made.fraction)
    assert fractions == sorted(fractions)
    assert fractions[-1] > 3 * fractions[-2] > 0  # about ten times: a tenth of the noise's variance


@pytest.mark.parametrize(
    ("fraction", "bounded", "text", "sentence"),
    [
        (0.0719, True, "≥ 7.1 %", "at least as accurate as a random sample of 7.1 % of the rows"),
        (0.0719, False, "≈ 7.2 %", "about as accurate as those from a random sample of 7.2 % of the rows"),
        (0.0719, True, "≥ 7.1 %", "holds with 95 %; the model is likely to be better"),
        (0.0719, True, "≥ 7.1 %", "estimated from the release's model"),
        (0.0719, True, "≥ 7.1 %", "Rows drawn from the model add their own error."),
        (0.00057, True, "not known", "The release alone cannot tell"),
        (0.00057, True, "not known", "as little accurate as a random sample of 0.057 % of the rows, and it may be far"),
        (0.0, True, "not known", "less accurate than even a small sample"),
        (0.00057, False, "≈ 0.057 %", "random sample of 0.057 % of the rows"),
        (3.0, True, "≥ 100 %", "the model of this release is more accurate than a random sample with as many rows as"),
        (3.0, True, "≥ 100 %", "That is a bound and holds with 95 %."),
        (3.0, False, "≥ 100 %", "the numbers of this release are more accurate than a random sample with as many"),
        (0.0, False, "≈ 0 %", "even a small sample of the rows would say more"),
    ],
)
def test_the_sample_in_words(fraction: float, bounded: bool, text: str, sentence: str) -> None:
    made = Quality(fraction=fraction, bounded=bounded, looked_at=4, tables=9)
    assert made.text == text
    assert sentence in made.sentence
    assert "4 of 9 tables were looked at, spread evenly, and none above 200,000 cells" in made.sentence
    assert "looked at" not in replace(made, looked_at=9).sentence


def test_shares_are_rounded_up_and_unknown_ones_are_words() -> None:
    assert [share_text(value) for value in (0.1, 0.10001, 2.0, math.nan)] == [
        "10.0 %",
        "10.1 %",
        "200.0 %",
        "not known",
    ]


def test_an_interrupted_release_has_a_report(release: hush.Release) -> None:
    half = hush.Release(
        mechanism=release.mechanism,
        schema=release.schema,
        workload=release.workload,
        statement=release.statement,
        complete=False,
        content=TableContent(release.domain, release.noisy_tables[:9], rounds=release.rounds[:2]),
    )
    text = report_html(half)
    assert "interrupted before it had spent its budget" in text
    assert "charged in full" not in text
    assert "How far off it can be" in text


def test_the_page_says_what_is_not_proven_and_that_rows_have_their_own_error(page: Any) -> None:
    said = " ".join(page.texts("p"))
    assert "That is not proven, but in simulations the bounds failed less often than they say" in said
    assert "rows drawn from it, are" not in said


def test_progress_goes_from_the_start_to_the_end(release: hush.Release) -> None:
    seen: list[float] = []
    assert report_html(release, progress=seen.append) == report_html(release)
    assert seen == sorted(seen)
    assert seen[0] < 0.1
    assert seen[-1] == 1.0


def test_all_digits_of_the_numbers_that_were_asked_for() -> None:
    assert _whole(2_647_508) == "2,647,508"
    assert _whole(123_456_789_012) == "123.5bn"
