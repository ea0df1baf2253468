"""Front page: one or several fronts as one self-contained HTML page with a picture and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hush.core.errors import SearchError
from hush.pareto.front import Front
from hush.pareto.front_chart import SHARE, front_chart, legend
from hush.render.html_page import fact_list, made_by, page_html, scrolling
from hush.render.labels import readable
from hush.render.markup import Markup, join, lines, tag
from hush.render.text_table import TextTable

LEAD = "A smaller epsilon protects people better and makes answers worse. "
SEARCHED = "The front shows the least error that was found for each epsilon: nothing that was tried is better in both."
KNOWN = (
    "Each curve shows the RMSE of one mechanism: the square root of the mean squared error of a count, in rows. It is "
    "known exactly before any data is read."
)
NOTE = (
    "The front itself is not differentially private. It is as private as the rows that its errors were computed from."
)


def fronts_html(
    fronts: Sequence[Front],
    *,
    title: str = "Privacy and error",
    about: Mapping[str, str] | None = None,
    answers: Sequence[str] = (),
    marks: Sequence[tuple[float, float, str]] = (),
    table: TextTable | None = None,
) -> str:
    """The fronts as the text of an HTML page; `marks` are places that the picture points out.

    The page begins with `answers`, sentences, and `about`, what the fronts are made from. A `table` takes the place of
    one for each front.
    """
    if not fronts:
        raise SearchError("there is no front to draw; give at least one")
    stamps = list(dict.fromkeys(front.stamp for front in fronts if front.stamp))
    exact = all(front.search.get("method") == "exact" for front in fronts)
    caption = f"Dots are settings that were tried, the line is the front; the shade holds {SHARE:.0%} of single runs."
    facts = [(name, text) for name, text in (about or {}).items() if text]
    body = lines(
        tag("h1", readable(title, 100)),
        *(tag("p", readable(answer, 300), class_="lead") for answer in answers),
        fact_list(facts) if facts else None,
        tag("p", LEAD + (KNOWN if exact else SEARCHED)),
        *(tag("div", readable(stamp, 300), class_="notice") for stamp in stamps),
        tag(
            "figure",
            tag("div", front_chart(fronts, 1, marks), class_="scroll"),
            legend(fronts) if any(front.name for front in fronts) else None,
            None if exact else tag("figcaption", caption),
            class_="single",
        ),
        *([_section(front) for front in fronts] if table is None else [scrolling(table)]),
        None if exact else tag("p", NOTE, class_="note"),
        made_by(),
    )
    return page_html(body, title=title)


def _section(front: Front) -> Markup:
    table = replace(front.table(), title="", notes=())
    failed = [evaluation for evaluation in front.evaluations if evaluation.problem]
    problems = list(dict.fromkeys(evaluation.problem for evaluation in failed))[:5]
    return join(
        tag("h2", readable(front.name, 100) or "The front"),
        scrolling(table),
        tag("p", f"{len(failed)} evaluations failed: {readable('; '.join(problems), 300)}.", class_="note")
        if failed
        else None,
    )
