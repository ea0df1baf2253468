"""Front page: one or several fronts as one self-contained HTML page with a picture and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hush._version import __version__
from hush.atomic_write import write_whole
from hush.errors import SearchError
from hush.markup import Markup, join, lines, tag
from hush.pareto.front import Front
from hush.pareto.front_chart import SHARE, front_chart, legend
from hush.report.labels import readable
from hush.report.page import page_html
from hush.text_table import TextTable

LEAD = (
    "A smaller epsilon protects people better and makes answers worse. The front shows the least error that was found "
    "for each epsilon: nothing that was tried is better in both."
)
NOTE = (
    "The front itself is not differentially private. It is as private as the rows that its errors were computed from."
)


def fronts_html(
    fronts: Sequence[Front],
    *,
    title: str = "Privacy and error",
    marks: Sequence[tuple[float, float, str]] = (),
    table: TextTable | None = None,
) -> str:
    """The fronts as the text of an HTML page; `marks` are places that the picture points out.

    A `table` takes the place of one for each front.
    """
    if not fronts:
        raise SearchError("there is no front to draw; give at least one")
    stamps = list(dict.fromkeys(front.stamp for front in fronts if front.stamp))
    exact = all(front.search.get("method") == "exact" for front in fronts)
    caption = (
        "Every curve is exact: the errors are known before any data is read."
        if exact
        else f"Dots are settings that were tried, the line is the front; the shade holds {SHARE:.0%} of single runs."
    )
    body = lines(
        tag("h1", readable(title, 100)),
        tag("p", LEAD, class_="lead"),
        *(tag("div", readable(stamp, 300), class_="notice") for stamp in stamps),
        tag(
            "figure",
            front_chart(fronts, 1, marks),
            legend(fronts) if any(front.name for front in fronts) else None,
            tag("figcaption", caption),
            class_="single",
        ),
        tag("ul", *(tag("li", text) for _, _, text in marks)) if marks else None,
        *([_section(front) for front in fronts] if table is None else [_scrolled(table)]),
        None if exact else tag("p", NOTE, class_="note"),
        tag("p", f"Made by hush {__version__}.", class_="soft"),
    )
    return page_html(body, title=title)


def write_fronts(
    fronts: Sequence[Front],
    path: str | Path,
    *,
    title: str = "Privacy and error",
    marks: Sequence[tuple[float, float, str]] = (),
    table: TextTable | None = None,
) -> None:
    """Write the page to a file, replacing any other."""
    write_whole(path, fronts_html(fronts, title=title, marks=marks, table=table).encode())


def _section(front: Front) -> Markup:
    table = replace(front.table(), title="", notes=())
    failed = [evaluation for evaluation in front.evaluations if evaluation.problem]
    problems = list(dict.fromkeys(evaluation.problem for evaluation in failed))[:5]
    return join(
        tag("h2", readable(front.name, 100) or "The front"),
        _scrolled(table),
        tag("p", f"{len(failed)} evaluations failed: {readable('; '.join(problems), 300)}.", class_="note")
        if failed
        else None,
    )


def _scrolled(table: TextTable) -> Markup:
    return tag("div", table.html(page=True), class_="scroll")
