"""Reports of adaptive releases: bounds and rounds."""

import math
import re
from typing import Any

import pytest

import hush
from hush.mechanisms import AIM, MST
from hush.mechanisms.registry import BUILT_IN
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.release.noisy_tables_record import NoisyTablesRecord
from hush.render.labels import error_text
from hush.report import report_html
from hush.report.optional_sections import MOST_ROUNDS, share_text
from hush.report.quality import card_number
from hush.strategies.rare_levels import MergedQuery

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
        record=release.record,
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


def test_tables_without_a_bound_are_said_to_have_none() -> None:
    release = hush.plan(PAIRS, hush.Budget(rho=0.02), mechanism="independent").release(TABLE)
    text = report_html(release)
    assert "no bound below 200 % is known" in text
    assert "How it was made" in text


def test_tables_with_merged_levels_are_told_from_whole_ones(read_page: Any) -> None:
    release = hush.plan(PAIRS, hush.Budget(rho=0.02), mechanism="scout").release(TABLE, entropy=NotPrivateEntropy(1))
    merged = [table for table in release.noisy_tables if isinstance(table.asked, MergedQuery)]
    assert merged
    rows = rows_of(read_page(report_html(release)), "tablecellsstandard deviation")[1:]
    assert sum(" with merged levels" in row for row in rows) == len(merged)
    for table in merged:
        assert f"{' × '.join(table.clique)} with merged levels{table.values.size}{error_text(table.stddev)}" in rows


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
        record=NoisyTablesRecord(release.domain, release.noisy_tables[:9], rounds=release.rounds[:2]),
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
    assert card_number(2_647_508) == "2,647,508"
    assert card_number(123_456_789_012) == "123.5bn"
