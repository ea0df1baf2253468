"""HTML pages: the frame with the one stylesheet, and the parts that several pages have.

A page is one file without scripts that loads nothing, so it can be mailed, printed and kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

from hush._version import __version__
from hush.render.labels import readable
from hush.render.markup import Markup, join, lines, tag
from hush.render.text_table import TextColumn, TextTable


@cache
def stylesheet() -> str:
    """The style of all pages."""
    return files("hush.render").joinpath("style.css").read_text(encoding="utf-8")


def page_html(body: Markup, *, title: str) -> str:
    """A whole page. Its security policy forbids scripts and anything from elsewhere."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = lines(
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        tag("title", title),
        tag("style", "\n", Markup(stylesheet())),
    )
    page = tag("html", "\n", tag("head", head), "\n", tag("body", tag("main", body)), "\n", lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def scrolling(table: TextTable) -> Markup:
    """A table that scrolls sideways where a screen is too narrow."""
    return tag("div", table.html(page=True), class_="scroll", tabindex="0")


def page_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = (), caption: str = ""
) -> Markup:
    """A table whose first column names the rows; the columns in `numbers` are right-aligned."""
    columns = [
        TextColumn(heading=heading, align="right" if i in numbers else "left") for i, heading in enumerate(headings)
    ]
    return scrolling(TextTable(columns=columns, rows=list(rows), title=caption))


def fact_list(facts: Iterable[tuple[str, str]]) -> Markup:
    """Names and facts in a box."""
    pairs = (join(tag("dt", readable(name, 40)), tag("dd", readable(text, 300))) for name, text in facts)
    return tag("dl", *pairs, class_="facts")


def made_by() -> Markup:
    """The last line of a page: the version of hush."""
    return tag("p", f"Made by hush {__version__}.", class_="soft")
