"""The report: a release as one self-contained HTML page, for a screen or for paper.

The page has no scripts and loads nothing; the same release and heading give the same page, byte for byte.

To add a section, write a function that returns its markup, or None if a release has nothing to show, and add one line
to SECTIONS. This file has the heading, the privacy promise, how to read the page, and the appendix.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hush.core.errors import HushError, shown
from hush.core.rational import shown_up
from hush.files.atomic_write import write_whole
from hush.privacy.sensitivity import Neighbours
from hush.release.statement import STAMP
from hush.render.html_page import fact_list, page_html
from hush.render.labels import named, readable
from hush.render.markup import Markup, join, lines, tag
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
from hush.report.optional_sections import (
    bounds_section,
    buckets_section,
    discovery_section,
    means_section,
    rounds_section,
    sample_section,
)
from hush.report.precision import by_order, by_table, comparison_section
from hush.report.quality import OrderQuality, headline, quality
from hush.report.questions import examples, questions_section
from hush.schema import Date, Integer, Numeric, Outside
from hush.schema.schema import drafted_text

if TYPE_CHECKING:
    from hush.release.release import Release

Progress: TypeAlias = Callable[[float], None]

TITLE = "What this release says"
MADE_FROM_FILE = "This page was made from the released file alone; no record was read to write it."
WEAK_CHANCE = 0.95  # of telling two tables apart; a promise that allows more is called weak


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What the owner says about a release; texts that are not given are left out. The date is that of the report.

    Privacy: public texts, shown as they are.
    """

    dataset: str | None = None
    owner: str | None = None
    date: dt.date | None = None
    file_name: str | None = None

    def __post_init__(self) -> None:
        for name in ("dataset", "owner", "file_name"):
            text = getattr(self, name)
            if text is not None and not (isinstance(text, str) and text.strip()):
                raise HushError(f"{name}={shown(text)}: expected some text; omit it to leave it out of the report")
        if self.date is not None and not isinstance(self.date, dt.date):
            raise HushError(f"date={shown(self.date)}: expected a date such as datetime.date(2026, 1, 31)")

    @property
    def title(self) -> str:
        """The title of the page."""
        return TITLE if self.dataset is None else f"{readable(self.dataset)}: {TITLE[0].lower()}{TITLE[1:]}"

    def markup(self) -> Markup:
        """The title, and below it the facts that are known."""
        day = None if self.date is None else self.date.isoformat()[:10]
        facts = (("Owner", self.owner), ("Date of this report", day), ("File", self.file_name))
        given = [tag("div", tag("dt", name), tag("dd", named(text))) for name, text in facts if text is not None]
        return lines(
            tag("h1", TITLE if self.dataset is None else named(self.dataset)),
            None if self.dataset is None else tag("p", TITLE, class_="subtitle"),
            tag("dl", *given, class_="byline") if given else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFacts:
    """What sections are made from: the release, what its owner says about it, and results that several sections use."""

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
        """Whether every number in an unfolded chart has a standard error."""
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
    Section(lambda facts: discovery_section(facts.release), "discovered", "What was discovered"),
    Section(lambda facts: caveats_section(facts.release, known=facts.known), "caveats", "How to read it"),
    Section(lambda facts: statement_section(facts.release), "appendix", "Appendix"),
    Section(lambda facts: errors_section(facts.release, facts.first_map + len(facts.maps))),
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


def errors_section(release: Release, number: int) -> Markup:
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


def opening(release: Release, heading: Heading, sections: Sequence[tuple[str, str]], *, known: bool) -> Markup:
    """The heading, the introduction, warnings, links to the sections, and the promise to one person."""
    statement = release.statement
    alarms = []
    if statement.seeded:
        alarms.append(
            "The noise in this release came from a seed or was watched, which is for tests only. "
            "Whoever knows the seed can undo it. Do not publish this page if the records are real."
        )
    if statement.drafted:
        drafted = readable(drafted_text(statement.drafted), 300)
        alarms.append(
            f"Parts of the schema were {drafted}. Its levels, bounds and rules are on this page without noise and may "
            "show single people: an extreme age, a rare diagnosis. The owner asserts that they are public. Do not "
            "publish this page unless they are."
        )
    interrupted = (
        "The release was interrupted before it had spent its budget. What was measured is shown and is still good; the "
        "release can continue with what is left."
        if release.bounded
        else "The release was interrupted before every table was measured. "
        "What was measured is shown and is still good; the budget was charged in full."
    )
    return lines(
        heading.markup(),
        *(tag("p", tag("strong", STAMP), alarm, class_="alarm") for alarm in alarms),
        tag("p", f"{_lead(release, known=known)} {MADE_FROM_FILE}", class_="lead"),
        None if release.complete else tag("p", interrupted, class_="notice"),
        tag("nav", *(tag("a", name, href=f"#{anchor}") for anchor, name in sections), aria_label="Contents"),
        tag("h2", "The privacy promise" if statement.private else "No privacy promise", id="privacy"),
        tag("p", promise(release)),
        tag("p", "The appendix has the ", tag("a", "full statement", href="#statement"), ".", class_="soft"),
    )


def _lead(release: Release, *, known: bool) -> str:
    """What the page shows, what the noise protects, and whether numbers come with errors."""
    statement, column = release.statement, release.statement.unit.column
    errors = ", and each comes with the error that the noise causes" if known else ""
    if release.bounded:
        errors = ", and each number comes with the error that the noise causes, or with a bound on it if one is known"
    if statement.private:
        unit = "any one row" if column is None else f"the rows of any one {readable(column, 60)}"
        if release.bounded:
            what = "describes made-up rows that stand for a table of records, and counts from that table"
            return f"This page {what}. Random noise was added, so that both hardly depend on {unit}{errors}."
        counts = "This page shows counts from a table of records."
        return f"{counts} Random noise was added, so that the numbers hardly depend on {unit}{errors}."
    if statement.seeded:
        counts = "This page shows counts from a table of records with noise"
        return f"{counts} that was made for a test and protects nobody{errors}."
    return (
        f"This page shows counts from a table of records. Random noise was added to the counts{errors}. But parts of "
        "the schema, which lists values and bounds, were read from the records themselves, and no noise protects those."
    )


def promise(release: Release) -> str:
    """What epsilon means for one person, in plain words."""
    statement, unit = release.statement, release.statement.unit
    if not statement.private:
        return "This release promises nothing to anybody, for the reason given above."
    if release.spent is None:
        return "This release promises nothing to anybody: no budget covers what it cost."

    epsilon, delta = release.spent
    chance = success(epsilon, delta)
    amount = shown_up(epsilon)
    amount = amount.rstrip("0").rstrip(".") if "." in amount else amount
    replaced = statement.neighbours is Neighbours.REPLACE
    aim = "which of two records that person has" if replaced else "whether that person is in the table"
    text = (
        f"What epsilon = {amount} means for one person: suppose somebody knows everybody else's records and tries to "
        f"find out from this release {aim}. Tossing a coin, they would be right in 50 of 100 cases. With this release "
        f"they are right in {cases_right(chance)}. "
    )
    weak = "That is a weak promise: the larger epsilon is, the weaker. " if chance > WEAK_CHANCE else ""
    if unit.column is None:
        whose = "The promise is to one row of the table; somebody with several rows is protected less."
    else:
        rows = "1 row" if unit.max_rows == 1 else f"{unit.max_rows:,} rows"
        name = readable(unit.column, 60)
        whose = (
            f"The promise is to one {name}, with up to {rows} of theirs; their other rows were left out. How many rows "
            "were left out is not in this release."
        )
    return text + weak + whose


def cases_right(chance: float) -> str:
    """How often somebody is right who is right with a chance, in cases out of 100, rounded up.

    >>> cases_right(0.731), cases_right(0.9995)
    ('at most 74 of 100 cases', 'practically every case')
    """
    digits = 0 if chance <= 0.99 else 1
    cases = f"at most {math.ceil(100 * chance * 10**digits - 1e-9) / 10**digits:.{digits}f} of 100 cases"
    return "practically every case" if chance > 0.999 else cases


def success(epsilon: float, delta: float) -> float:
    """How often somebody is right, at best, who tells two equally likely neighbouring tables apart by a release.

    (e^eps + delta) / (1 + e^eps), for every (eps, delta)-differentially private release.

    Reference: [Kairouz, Oh and Viswanath 2015, Thm. 2.1].

    >>> round(success(1.0, 0.0), 3), success(0.0, 0.0), success(1000.0, 0.0)
    (0.731, 0.5, 1.0)
    """
    rest = math.exp(-epsilon)
    return (1 + delta * rest) / (1 + rest)


ABOUT_INTERVALS = (
    "A 95 % interval covers the count in the table in 19 of 20 cases. It covers the added noise and "
    "nothing else: not mistakes in the data, people who did not answer, or sampling."
)
SOME_INTERVALS_MISS = (
    "Of many intervals on one page some miss: expect one bar in twenty. A picture chosen because it stands out tends "
    "to stand out a little too much."
)
ESTIMATES_UNBIASED = (
    "Estimates are unbiased: over repeated releases their average is the true count. So they are not rounded and may "
    "be negative."
)
TABLES_AGREE = "Tables agree with each other: adding up one table gives the other."
NOISE_IS_SHARED = (
    "Numbers share noise, so the error of a sum is not the sum of the errors. Ask the release for the sum itself; it "
    "gives the exact error."
)
MODEL_MAY_BE_BIASED = (
    "The estimates come from a model that was fitted to noisy tables. They may be biased, by more than the noise, and "
    "no exact standard error is known where none is given."
)
MEASURED_OR_MODEL = (
    "Tables that were measured have exact standard errors. Any other table comes from the model that was fitted to the "
    "measured ones. It may be biased. Its interval, if any, is wide: it comes from a bound on the error of the whole "
    "table."
)
ABOUT_BINS = (
    "Numbers are counted in bins. A bin includes its lower end but not its upper end; the last bin includes both. "
    "Where a value lay within its bin is not in the release."
)
ABOUT_CLAMPING = "Where a column says so, values beyond its ends were counted at the nearer end."
ABOUT_DATES = "Dates are counted by the period that the column names; a period is written by its first day or its name."
NOTHING_ELSE = (
    "This page holds nothing but released values and what was computed from them. Reading, copying or publishing it "
    "costs no further privacy."
)
NOT_PRIVATE = "This release is not private, and so neither is this page."


def caveats_section(release: Release, *, known: bool) -> Markup:
    """How to read intervals and bins, and that the page holds nothing private."""
    columns = list(release.schema)
    ordered = [column for column in columns if isinstance(column, Integer | Numeric | Date)]
    adaptive = release.bounded
    items = [
        *(
            (ABOUT_INTERVALS, SOME_INTERVALS_MISS, ESTIMATES_UNBIASED, NOISE_IS_SHARED)
            if known or adaptive
            else (MODEL_MAY_BE_BIASED,)
        ),
        MEASURED_OR_MODEL if adaptive else None,
        TABLES_AGREE if known and not adaptive and release.record.consistent else None,
        ABOUT_BINS if any(column.binned for column in columns) else None,
        ABOUT_CLAMPING if any(column.outside is Outside.CLAMP for column in ordered) else None,
        ABOUT_DATES if any(isinstance(column, Date) for column in columns) else None,
        NOTHING_ELSE if release.statement.private else NOT_PRIVATE,
    ]
    return lines(
        tag("h2", "How to read it", id="caveats"), tag("ul", *(tag("li", item) for item in items if item is not None))
    )


GLOSSARY = (
    (
        "Differential privacy",
        "The promise that a release is nearly as likely with one person's records as without them, whatever the "
        "records are and whatever else is known. The noise makes it true.",
    ),
    (
        "Epsilon and delta",
        "How strong the promise is. When one person joins the table, no result becomes more likely by more than the "
        "factor e^epsilon; delta is a small probability that this fails. Smaller is more private.",
    ),
    (
        "Rho, zCDP and mu",
        "Other measures of the same promise, in which the cost of several releases adds up exactly. They can be turned "
        "into epsilon and delta.",
    ),
    ("Budget", "The most privacy that may be lost, fixed beforehand. What was spent is never more."),
    (
        "Neighbours",
        "The two tables that the promise compares: with and without one person's records, or with other ones instead.",
    ),
    (
        "Standard error",
        "How far off a number typically is because of the noise. About two estimates in three are within one standard "
        "error of the true count, 19 in 20 within two.",
    ),
    ("95 % interval", "A range that contains the true count in at least 19 of 20 cases."),
    (
        "Rows in a wrong cell",
        "The share of all rows that would have to move to another cell to get the true table: half the sum of the "
        "errors of its cells.",
    ),
)


def statement_section(release: Release) -> Markup:
    """The head of the appendix, and the statement of what was promised and spent."""
    statement = release.statement
    maker = f"hush {readable(statement.version)}, mechanism {readable(release.mechanism)}"
    return lines(
        tag("h2", "Appendix: technical details", id="appendix"),
        tag("h3", "The privacy statement", id="statement"),
        fact_list([*release.statement_lines(), ("Made by", maker)]),
    )


def terms_section() -> Markup:
    """The terms, in plain words."""
    terms = join(*(join(tag("dt", name), tag("dd", text)) for name, text in GLOSSARY))
    return lines(tag("h3", "Terms", id="terms"), tag("dl", terms, class_="terms"))
