"""The report: a release as one self-contained HTML page, for a screen or for paper.

The page has no scripts and loads nothing; the same release and heading give the same page, byte for byte.

To add a section, write a function that returns its markup, or None where a release has nothing to show, and add one
line to SECTIONS.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hush.files.atomic_write import write_whole
from hush.render.html_page import page_html
from hush.render.markup import Markup, lines
from hush.report.adaptive_section import bounds_section, rounds_section
from hush.report.appendix import caveats_section, statement_section, terms_section
from hush.report.figures import (
    Departure,
    Figure,
    bar_figures,
    bars_section,
    folded_figures,
    map_figures,
    maps_section,
    rank_columns,
    rank_pairs,
)
from hush.report.heading import Heading, opening
from hush.report.optional_sections import buckets_section, means_section, sample_section
from hush.report.precision import by_order, by_table, comparison_section
from hush.report.quality import OrderQuality, headline, quality
from hush.report.questions import examples, questions_section

if TYPE_CHECKING:
    from hush.release.release import Release

Progress: TypeAlias = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFacts:
    """What sections are made from: the release, what its owner says of it, and what was computed once for all."""

    release: Release
    heading: Heading
    columns: list[Departure]
    pairs: list[Departure]
    bars: list[Figure]
    folded: list[Figure]
    maps: list[Figure]
    quality: list[OrderQuality]

    @property
    def known(self) -> bool:
        """Whether every number in sight has a standard error."""
        return all(figure.known for figure in (*self.bars, *self.maps))

    @property
    def first_map(self) -> int:
        """The number of the first heat map; pictures are numbered from 1 to tell them apart."""
        return 1 + len(self.bars) + len(self.folded)


class Section(NamedTuple):
    """A part of the page: what makes it, or None for nothing; and its anchor and name in the contents, if any."""

    make: Callable[[ReportFacts], Markup | None]
    anchor: str = ""
    name: str = ""


SECTIONS = (
    Section(lambda facts: sample_section(facts.release), "rows", "Some of its rows"),
    Section(lambda facts: headline(facts.release, facts.quality), "glance", "At a glance"),
    Section(lambda facts: bars_section(facts.release, facts.bars, facts.folded, 1), "columns", "One column"),
    Section(lambda facts: maps_section(facts.maps, facts.first_map, len(facts.columns)), "pairs", "Two columns"),
    Section(lambda facts: buckets_section(facts.release, 1000), "buckets", "Buckets"),
    Section(lambda facts: means_section(facts.release), "means", "Means"),
    Section(
        lambda facts: questions_section(
            facts.release, examples(facts.release, facts.columns, facts.pairs), facts.heading.file_name
        ),
        "questions",
        "What can be asked",
    ),
    Section(lambda facts: caveats_section(facts.release, known=facts.known), "caveats", "How to read it"),
    Section(lambda facts: statement_section(facts.release), "appendix", "Appendix"),
    Section(lambda facts: _errors(facts.release, facts.first_map + len(facts.maps))),
    Section(lambda facts: terms_section()),
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
    facts = ReportFacts(
        release=release,
        heading=heading,
        columns=columns,
        pairs=pairs,
        bars=bar_figures(release, columns),
        folded=folded_figures(release, columns),
        maps=map_figures(release, pairs),
        quality=quality(release, progress=lambda fraction: done(0.3 + 0.3 * fraction)),
    )
    sections = []
    for number, section in enumerate(SECTIONS, start=1):
        sections.append((section, section.make(facts)))
        done(0.6 + 0.4 * number / len(SECTIONS))
    links = [(section.anchor, section.name) for section, text in sections if section.anchor and text is not None]
    start = opening(release, heading, (("privacy", "Privacy"), *links), known=facts.known)
    return page_html(lines(start, *(text for _, text in sections)), title=heading.title)


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
