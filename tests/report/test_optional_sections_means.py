"""The section on means: there where sums were measured, with the numbers of the release."""

import hush
from hush.report.optional_sections import means_section
from hush.report.page import report_html

SCHEMA = hush.datasets.people_schema()


def released(workload: str) -> hush.Release:
    table = hush.read(hush.datasets.people(600, seed=1), SCHEMA)
    return hush.plan(workload, hush.Budget(rho=1.0), "residual", schema=SCHEMA).release(table)


def test_means_are_shown_with_their_intervals() -> None:
    release = released("<=1-way + sum(income) by sex")
    page = report_html(release)
    assert '<a href="#means">' in page
    assert page.count('id="means"') == 1
    section = str(means_section(release))
    answers = release.mean("income", ["sex"])
    assert f"{answers.estimate[0]:,.0f}" in section
    assert "female" in section
    assert "by income" not in section  # sums by the column's own bins are for synthetic rows


def test_without_sums_there_is_no_section() -> None:
    release = released("<=1-way")
    assert means_section(release) is None
    assert '<a href="#means">' not in report_html(release)
