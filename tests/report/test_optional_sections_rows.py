"""Rows of a synthetic release come first on its page; other releases have none."""

from typing import Any

import pyarrow as pa
import pytest

import hush
from hush.core.errors import SizeError
from hush.mechanisms import MST
from hush.release.release import Release
from hush.report import report_html
from hush.report.optional_sections import SAMPLE_ROWS, sample_section
from hush.schema import Boolean, Categorical, Schema
from hush.workloads import Workload


@pytest.fixture(scope="module")
def release() -> Release:
    schema = Schema([Categorical(name="<team>", values=("<b>", "=1+1"), missing=True), Boolean(name="in")])
    rows = {"<team>": ["<b>", "=1+1", None] * 200, "in": [True, False, True] * 200}
    table = hush.read(pa.table(rows), schema)
    made = hush.plan(Workload.kway(schema.domain, 2), hush.Budget(rho=1.0), mechanism=MST()).release(table)
    assert isinstance(made, Release)
    return made


def test_rows_come_before_the_numbers(release: Release, read_page: Any) -> None:
    page = read_page(report_html(release))
    heads = page.texts("h2")
    assert heads.index("Some of its rows") < heads.index("At a glance")
    (table,) = [text for text in page.texts("table") if text.startswith("<team>in")]
    rows = [text for text in page.texts("tr") if text in table][1:]
    assert len(rows) == SAMPLE_ROWS
    assert set(rows) <= {f"{team}{member}" for team in ("<b>", "=1+1", "(missing)") for member in ("True", "False")}


def test_the_same_rows_every_time(release: Release) -> None:
    assert sample_section(release) == sample_section(release)


def test_a_planned_release_shows_no_rows(people_release: Release, read_page: Any) -> None:
    assert "Some of its rows" not in read_page(report_html(people_release)).texts("h2")


def test_a_model_that_is_too_large_leaves_the_section_out(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise SizeError("too large")

    monkeypatch.setattr(Release, "synthesize", refuse)
    assert sample_section(release) is None
    assert "Some of its rows" not in report_html(release)
