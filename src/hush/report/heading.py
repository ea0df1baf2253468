"""The heading: what the release is, whose it is, warnings, and what its privacy means for one person."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hush.core.errors import HushError, shown
from hush.core.rational import shown_up
from hush.privacy.sensitivity import Neighbours
from hush.release.statement import LEFT_OUT, STAMP
from hush.render.labels import named, readable
from hush.render.markup import Markup, lines, tag
from hush.schema.schema import drafted_text

if TYPE_CHECKING:
    from hush.release.release import Release

TITLE = "What this release says"
MADE_FROM_FILE = "This page was made from the released file alone; no record was read to write it."
WEAK_CHANCE = 0.95  # of telling two tables apart; a promise that allows more is called weak


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What the owner says of a release; nothing is shown that is not given. The date is that of the report.

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
            f"Parts of the schema were {drafted}. Its levels, bounds and rules stand on this page as they are and may "
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
    if statement.spent is None:
        return "This release promises nothing to anybody: no budget covers what it cost."

    # How often an attacker who knows everything else is right, in cases out of 100, rounded up.
    epsilon, delta = statement.spent
    chance = success(epsilon, delta)
    digits = 0 if chance <= 0.99 else 1
    cases = f"{math.ceil(100 * chance * 10**digits - 1e-9) / 10**digits:.{digits}f} of 100"
    cases = "practically every case" if chance > 0.999 else cases
    told = shown_up(epsilon)
    told = told.rstrip("0").rstrip(".") if "." in told else told
    replaced = statement.neighbours is Neighbours.REPLACE
    aim = "which of two records that person has" if replaced else "whether that person is in the table"
    text = (
        f"What epsilon = {told} means for one person: suppose somebody knows everybody else's records and tries to "
        f"find out from this release {aim}. Tossing a coin, they would be right in 50 of 100 cases. With this release "
        f"they are right in at most {cases}. "
    )
    weak = "That is a weak promise: the larger epsilon is, the weaker. " if chance > WEAK_CHANCE else ""
    if unit.column is None:
        whose = "The promise is to one row of the table; somebody with several rows is protected less."
    else:
        rows = "1 row" if unit.max_rows == 1 else f"{unit.max_rows:,} rows"
        name = readable(unit.column, 60)
        whose = f"The promise is to one {name}, with up to {rows} of theirs; their other rows were left out. {LEFT_OUT}"
    return text + weak + whose


def success(epsilon: float, delta: float) -> float:
    """How often somebody is right, at best, who tells two equally likely neighbouring tables apart by a release.

    (e^eps + delta) / (1 + e^eps), for every (eps, delta)-differentially private release.

    Reference: [Kairouz, Oh and Viswanath 2015, Thm. 2.1].

    >>> round(success(1.0, 0.0), 3), success(0.0, 0.0), success(1000.0, 0.0)
    (0.731, 0.5, 1.0)
    """
    rest = math.exp(-epsilon)
    return (1 + delta * rest) / (1 + rest)
