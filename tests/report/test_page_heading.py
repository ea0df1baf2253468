"""The heading: what the owner gives and nothing else, and what epsilon means for one person."""

import datetime as dt
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from hush.core.errors import HushError
from hush.privacy.budget import Budget
from hush.privacy.sensitivity import Neighbours
from hush.release.release import Release
from hush.report import report_html, write_report
from hush.report.page import promise, success
from hush.schema import Boolean, Categorical, Schema, Unit

SCHEMA = Schema([Categorical(name="team", values=("a", "b", "c")), Boolean(name="in")])


def test_the_heading_shows_what_was_given(make: Callable[..., Release], read_page: Any) -> None:
    text = report_html(
        make(SCHEMA), dataset="Tram <riders>", owner="City & Co", date=dt.date(2026, 3, 9), file_name="riders.hush"
    )
    page = read_page(text)
    assert page.texts("h1") == ["Tram <riders>"]
    assert page.texts("title")[0] == "Tram <riders>: what this release says"
    (byline,) = page.texts("dl", "byline")
    assert byline == "OwnerCity & CoDate of this report2026-03-09Fileriders.hush"
    assert 'hush query riders.hush "SELECT ..."' in page.texts("code")[0]


def test_nothing_is_shown_that_was_not_given(make: Callable[..., Release], read_page: Any) -> None:
    release = make(SCHEMA)
    release.dataset = "secret project"
    text = report_html(release)
    page = read_page(text)
    assert page.texts("h1") == ["What this release says"]
    assert page.count("dl", "byline") == 0
    assert "secret project" not in text


def test_a_file_name_that_a_terminal_would_read_otherwise_is_not_part_of_a_command(
    make: Callable[..., Release], read_page: Any
) -> None:
    page = read_page(report_html(make(SCHEMA), file_name="$(rm -rf x); a.hush"))
    assert page.texts("code")[0].startswith('hush query release.hush "SELECT ..."')
    assert "File$(rm -rf x); a.hush" in page.texts("dl", "byline")[0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dataset": " "}, r"dataset=' ': expected some text; omit it"),
        ({"owner": 3}, r"owner=3: expected some text"),
        ({"date": "2026-01-01"}, r"date='2026-01-01': expected a date such as"),
    ],
)
def test_what_cannot_be_a_heading_is_refused(
    make: Callable[..., Release], given: dict[str, Any], message: str, tmp_path: Any
) -> None:
    with pytest.raises(HushError, match=message):
        write_report(make(SCHEMA), tmp_path / "page.html", **given)
    assert not (tmp_path / "page.html").exists()


def test_no_test_tells_neighbours_apart_more_often() -> None:
    # the best guesser between two Gaussians is right with Phi(mu / 2), and never more often than (epsilon, delta) allow
    for rho in (0.01, 0.1, 1.0):
        mu = math.sqrt(2 * rho)
        best = norm.cdf(mu / 2)
        for delta in (1e-9, 1e-3):
            assert best <= success(Budget(rho=rho).epsilon_at(delta), delta)
    # randomised response reaches the limit
    epsilon = 1.5
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert success(epsilon, 0.0) == pytest.approx(truth)
    assert success(0.0, 0.2) == pytest.approx(0.6)
    assert np.isfinite(success(1e6, 0.0))


def test_the_promise_in_plain_words(make: Callable[..., Release], read_page: Any) -> None:
    release = make(SCHEMA, rho=Fraction(1, 100))
    assert release.statement.spent is not None
    most = math.ceil(100 * success(*release.statement.spent))
    said = promise(release)
    assert f"they are right in at most {most} of 100 cases." in said
    assert "whether that person is in the table" in said
    assert said.endswith("The promise is to one row of the table; somebody with several rows is protected less.")
    assert said in read_page(report_html(release)).texts("p")
    assert "weak" not in said


def test_the_promise_names_units_and_replaced_records(make: Callable[..., Release]) -> None:
    release = make(SCHEMA, unit=Unit(column="patient", max_rows=4), neighbours=Neighbours.REPLACE)
    assert "which of two records that person has" in promise(release)
    assert promise(release).endswith(
        "The promise is to one patient, with up to 4 rows of theirs; their other rows were left out. How many rows "
        "were left out is not in this release."
    )


def test_a_large_epsilon_is_called_weak_and_no_privacy_is_not_promised(make: Callable[..., Release]) -> None:
    said = promise(make(SCHEMA, rho=Fraction(50)))
    assert "right in practically every case" in said
    assert "That is a weak promise" in said
    assert promise(make(SCHEMA, private=False)).startswith("This release promises nothing to anybody")
