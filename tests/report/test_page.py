"""The page as a whole: its sections, that it needs nothing from outside, is the same every time and stays small."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hush.core.errors import HushError
from hush.loading import load_release
from hush.release.release import Release
from hush.render.html_page import stylesheet
from hush.report import report_html, write_report
from hush.report.figures import MAP_SIDE, MOST_BARS, MOST_CHARTS, MOST_MAPS
from hush.schema import Categorical, Integer, Schema
from hush.workloads import Workload

HEADINGS = [
    "The privacy promise",
    "At a glance",
    "One column at a time",
    "Two columns at a time",
    "What can be asked",
    "How to read it",
    "Appendix: technical details",
]
WIDE = Schema(
    [
        *(Integer(name=f"n{i}", low=0, high=999) for i in range(6)),
        *(Categorical(name=f"c{i}", values=tuple(f"v{j}" for j in range(300)), missing=True) for i in range(6)),
    ]
)


@pytest.fixture(scope="module")
def html(people_release: Release) -> str:
    return report_html(people_release)


def test_the_page_is_well_formed_and_has_every_section_in_order(html: str, read_page: Any) -> None:
    page = read_page(html)
    assert html.startswith("<!DOCTYPE html>\n<html lang")
    assert page.texts("h1") == ["What this release says"]
    assert page.texts("h2") == HEADINGS
    ids = [attrs["id"] for _, attrs, _ in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = {attrs["href"] for tag, attrs, _ in page.elements if tag == "a"}
    assert {link.removeprefix("#") for link in links} <= set(ids)


def test_the_page_refers_to_nothing_outside_itself(html: str) -> None:
    for part in ("http:", "https:", "//", "src=", "@import", "url(", "<script", "<link", "<img", "javascript:"):
        assert part not in html, part
    assert set(re.findall(r'href="(.)', html)) == {"#"}
    assert not re.search(r"\son\w+=", html)


def test_every_rule_of_the_style_is_closed() -> None:
    depth = 0
    for mark in re.findall(r"[{}]", stylesheet()):
        depth += 1 if mark == "{" else -1
        assert 0 <= depth <= 2
    assert depth == 0


def test_pictures_have_a_title_and_a_description(html: str, people_release: Release, read_page: Any) -> None:
    page = read_page(html)
    ids = {attrs.get("id"): text for _, attrs, text in page.elements}
    pictures = [attrs for tag, attrs, _ in page.elements if tag == "svg"]
    one_each = len(people_release.domain) + 1  # a picture for every column, and that of the errors
    assert one_each < len(pictures) <= one_each + MOST_MAPS  # maps whose pattern stands out of the noise
    for attrs in pictures:
        assert attrs["role"] == "img"
        title, description = (attrs["aria-labelledby"] or "").split()
        assert ids[title]
        assert ids[description].endswith(("every number.", "same numbers."))
    assert page.count("figure") == len(pictures)
    assert page.count("summary") == len(pictures) - 1  # the last has its table in sight


def test_the_same_release_gives_the_same_page(people_release: Release, html: str, tmp_path: Path) -> None:
    assert report_html(people_release) == html
    people_release.save(tmp_path / "people.hush")
    write_report(load_release(tmp_path / "people.hush"), tmp_path / "people.html")
    assert (tmp_path / "people.html").read_bytes() == html.encode()


def test_the_page_states_the_promise_of_the_release(people_release: Release, html: str, read_page: Any) -> None:
    page = read_page(html)
    names, values = page.texts("dt"), page.texts("dd")
    stated = people_release.statement.lines()
    facts = list(zip(names, values, strict=True))
    assert facts[: len(stated)] == stated
    assert facts[len(stated)][1].endswith("mechanism residual")
    assert html.index("Appendix") < html.index("zCDP")  # technical terms stand nowhere before
    assert "NOT PRIVATE" not in html
    assert page.count("p", "notice") == 0


def test_many_and_large_columns_stay_within_the_caps(make: Callable[..., Release], read_page: Any) -> None:
    html = report_html(make(WIDE, workload=Workload.upto(WIDE.domain, 1)))
    page = read_page(html)
    assert page.count("svg") <= len(WIDE) + MOST_MAPS + 1
    pictures = [part.split("</svg>")[0] for part in html.split("<svg")[1:]]
    bars = [picture.count('class="bar') for picture in pictures]
    cells = [picture.count('class="cell"') for picture in pictures]
    assert max(bars) <= MOST_BARS
    assert max(cells) <= (MAP_SIDE + 2) ** 2 + 7
    assert len(html) < 700_000
    assert "1,000 levels drawn in steps of 20" in html
    assert "the 14 levels with the largest estimates are shown and the other 286 added up" in html.lower()


def test_every_column_can_be_reached(make: Callable[..., Release], read_page: Any) -> None:
    page = read_page(report_html(make(WIDE, workload=Workload.upto(WIDE.domain, 1))))
    drawn = [text for text in page.texts("title") if text.startswith("Estimated counts by ")]
    assert {f"Estimated counts by {name}" for name in WIDE.domain} <= set(drawn)
    folded = page.texts("details", "column")
    assert len(folded) == len(WIDE) - MOST_CHARTS
    assert [text for text in page.texts("h3") if text == f"{len(folded)} more columns"]
    assert "The numbers" in folded[0]


def test_columns_that_no_table_has_are_named(make: Callable[..., Release], read_page: Any) -> None:
    schema = Schema([Integer(name="n", low=0, high=20), Integer(name="one", low=5, high=5)])
    workload = Workload.marginals(schema.domain, [("n",)])
    page = read_page(report_html(make(schema, order=1, workload=workload)))
    why = "(no table of the release has them, or they have one level or very many)"
    assert f"Not drawn {why}: one." in page.texts("p")


def test_a_release_of_totals_only_has_little_to_say(make: Callable[..., Release], read_page: Any) -> None:
    schema = Schema([Categorical(name="sex", values=("f", "m"))])
    total = Workload.marginals(schema.domain, [()])
    page = read_page(report_html(make(schema, order=0, workload=total)))
    assert "The release has no one-way table to draw." in page.texts("p")
    assert "The release has no two-way table to draw." in page.texts("p")
    assert page.texts("h2") == HEADINGS


def test_writing_over_a_file_and_where_nothing_can_be_written(people_release: Release, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    write_report(people_release, str(path))
    assert path.read_text(encoding="utf-8").endswith("</html>\n")
    with pytest.raises(HushError, match=r"cannot write .*: No such file or directory; choose another place"):
        write_report(people_release, tmp_path / "none" / "report.html")
