"""The report: a release as one self-contained HTML page, for a screen or for paper.

The page has no scripts and loads nothing; the same release and heading give the same page, byte for byte.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from hush.files.atomic_write import write_whole
from hush.render.html_page import page_html
from hush.render.markup import Markup, lines
from hush.report.adaptive_section import bounds_section, rounds_section
from hush.report.appendix import statement_section, terms_section
from hush.report.buckets_section import buckets_section
from hush.report.figures import bar_figures, bars_section, folded_figures, map_figures, maps_section
from hush.report.heading import Heading, opening
from hush.report.means_section import means_section
from hush.report.precision import by_order, by_table, comparison_section
from hush.report.quality import quality
from hush.report.questions import examples, questions_section
from hush.report.ranking import rank_columns, rank_pairs
from hush.report.sample_rows import sample_section
from hush.report.summary import caveats_section, headline

if TYPE_CHECKING:
    from hush.release.release import Release


Progress: TypeAlias = Callable[[float], None]
ROWS = ("rows", "Some of its rows")
SECTIONS = (
    ("glance", "At a glance"),
    ("columns", "One column"),
    ("pairs", "Two columns"),
    ("buckets", "Buckets"),
    ("means", "Means"),
    ("questions", "What can be asked"),
    ("caveats", "How to read it"),
    ("appendix", "Appendix"),
)


def report_html(
    release: Release,
    *,
    dataset: str | None = None,
    owner: str | None = None,
    date: dt.date | None = None,
    file_name: str | None = None,
    progress: Progress | None = None,
) -> str:
    """The report as the text of an HTML page; `progress` is called with the fraction done.

    The name of the dataset, its owner, the date of the report and the name of the released file go into the heading;
    what is not given is left out.

    Privacy: post-processing of the release; no private data is read.
    """
    release.record.require_tables()
    heading = Heading(dataset=dataset, owner=owner, date=date, file_name=file_name)
    done = progress or (lambda _: None)
    columns = rank_columns(release.estimates)
    done(0.05)
    pairs = rank_pairs(release.estimates, columns)
    done(0.15)
    bars, folded, maps = (
        bar_figures(release, columns),
        folded_figures(release, columns),
        map_figures(release, pairs),
    )
    done(0.3)
    found = quality(release, progress=lambda fraction: done(0.3 + 0.3 * fraction))
    rows = sample_section(release) if release.bounded else None
    done(0.8)
    known = all(figure.known for figure in (*bars, *maps))
    means = means_section(release)
    buckets = buckets_section(release, 1000)
    absent = {key for key, section in (("means", means), ("buckets", buckets)) if section is None}
    listed = [(key, text) for key, text in SECTIONS if key not in absent]
    sections = (("privacy", "Privacy"), *((ROWS,) if rows else ()), *listed)
    body = lines(
        opening(release, heading, sections, known=known),
        rows,
        headline(release, found),
        bars_section(release, bars, folded, 1, known=all(figure.known for figure in (*bars, *folded))),
        maps_section(maps, 1 + len(bars) + len(folded), len(columns)),
        buckets,
        means,
        questions_section(release, examples(release, columns, pairs), file_name),
        caveats_section(release, known=known),
        statement_section(release),
        _errors(release, 1 + len(bars) + len(folded) + len(maps)),
        terms_section(),
    )
    done(1.0)
    return page_html(body, title=heading.title)


def _errors(release: Release, number: int) -> Markup:
    """Predicted errors; for an adaptive release, bounds and how it was made."""
    if release.bounded:
        return lines(bounds_section(release), rounds_section(release))
    return comparison_section(release, by_table(release) or by_order(release), number)


def write_report(
    release: Release,
    path: str | Path,
    *,
    dataset: str | None = None,
    owner: str | None = None,
    date: dt.date | None = None,
    file_name: str | None = None,
    progress: Progress | None = None,
) -> None:
    """Write the report to a file, replacing any other; see `report_html`."""
    page = report_html(release, dataset=dataset, owner=owner, date=date, file_name=file_name, progress=progress)
    write_whole(path, page.encode())
