"""Names and labels may hold anything; none of it acts on the page."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from hush.release.release import Release
from hush.render.labels import LONGEST_LABEL, named, readable
from hush.render.markup import Markup, join, tag
from hush.report import report_html
from hush.schema import Categorical, Integer, Schema, Unit

NAMES = (
    "<script>alert('x')</script>",
    '"><img src=x onerror=alert(1)>',
    "</svg></style><b>",
    "&lt;b&gt; &amp;",
    "\u202eright to left\u2066",
    "line\nbreak\x00\x1b[31m",
    "long " * 400,
    "שלום 日本語 🙂",
    "';DROP TABLE t;--",
    "{unit} {errors} %s",
)
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "nav", "a", "dl", "dt", "dd"),
    *("div", "b", "span", "strong", "table", "caption", "thead", "tbody", "tr", "th", "td", "bdi", "ul", "li", "pre"),
    *("code", "figure", "figcaption", "details", "summary", "svg", "desc", "g", "rect", "line", "path", "text"),
}


@pytest.fixture(scope="module")
def html(make: Callable[..., Release]) -> str:
    columns = [Categorical(name=name, values=NAMES, other=True, missing=True) for name in NAMES]
    schema = Schema([*columns, Integer(name="select", low=0, high=20)])
    return report_html(make(schema, unit=Unit(column=NAMES[1] + "id", max_rows=2)))


def test_no_name_becomes_an_element_or_an_attribute(html: str, read_page: Any) -> None:
    page = read_page(html)
    assert {tag for tag, _, _ in page.elements} <= ALLOWED
    attributes = {name for _, attrs, _ in page.elements for name in attrs}
    assert "src" not in attributes
    assert not {name for name in attributes if name.startswith("on")}
    assert [text for text in page.texts("b") if not re.fullmatch(r"-?[\d,.]+( %)?", text)] == []


def test_names_are_shown_as_they_are_written(html: str, read_page: Any) -> None:
    shown = set(read_page(html).texts("bdi"))
    for name in (NAMES[0], NAMES[1], NAMES[2], NAMES[3], NAMES[7], NAMES[8], NAMES[9]):
        assert name in shown


def test_invisible_characters_are_spelled_out(html: str) -> None:
    assert not set(html) & {"\u202e", "\u2066", "\x00", "\x1b"}
    assert r"\u202eright to left\u2066" in html
    assert r"line\nbreak\x00\x1b[31m" in html


def test_long_names_are_cut(html: str, read_page: Any) -> None:
    assert "long " * 30 not in html
    assert max(map(len, read_page(html).texts("bdi"))) <= LONGEST_LABEL


def test_examples_quote_what_sql_would_misread(html: str, read_page: Any) -> None:
    queries = [text for text in read_page(html).texts("code") if text.startswith("SELECT")]
    assert [query for query in queries if '"select" BETWEEN 5 AND 15' in query]


def test_joiners_that_words_need_are_kept() -> None:
    assert readable("می\u200cخواهم") == "می\u200cخواهم"
    assert named("<b>") == "<bdi>&lt;b&gt;</bdi>"


def test_only_what_was_made_as_markup_goes_through() -> None:
    assert join("<i>", Markup("<i>"), None) == "&lt;i&gt;<i>"
    assert tag("p", "a", title='"<', data_x=None) == '<p title="&quot;&lt;">a</p>'
    assert type(Markup("a") + "<b>") is str  # sums of markup are text again, and escaped
