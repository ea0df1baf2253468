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
LEAD = (
    "This page shows counts from a table of records. Random noise was added, so that the numbers hardly depend on "
    "{unit}{errors}. It was made from the released file alone; no record was read to write it."
)
LEAD_OF_MODEL = (
    "This page describes made-up rows that stand for a table of records, and counts from that table. Random noise was "
    "added, so that both hardly depend on {unit}{errors}. It was made from the released file alone; no record was read "
    "to write it."
)
LEAD_OF_TEST = (
    "This page shows counts from a table of records with noise that was made for a test and protects nobody{errors}. "
    "It was made from the released file alone; no record was read to write it."
)
LEAD_OF_DRAFT = (
    "This page shows counts from a table of records. Random noise was added to the counts{errors}. But parts of the "
    "schema, which lists values and bounds, were read from the records themselves, and no noise protects those. "
    "It was made from the released file alone; no record was read to write it."
)
WITH_ERRORS = ", and each comes with the error that the noise causes"
WITH_BOUNDS = ", and each number comes with the error that the noise causes, or with a bound on it where one is known"
ALARM = (
    "The noise in this release came from a seed or was watched, which is for tests only. "
    "Whoever knows the seed can undo it. Do not publish this page if the records are real."
)
ALARM_OF_DRAFT = (
    "Parts of the schema were {drafted}. Its levels, bounds and rules stand on this page as they are and may show "
    "single people: an extreme age, a rare diagnosis. The release was made on the owner's word that they are public. "
    "Do not publish this page unless that is so."
)
INTERRUPTED = (
    "The release was interrupted before every table was measured. "
    "What was measured is shown and is still good; the budget was charged in full."
)
STOPPED = (
    "The release was interrupted before it had spent its budget. What was measured is shown and is still good; the "
    "release can continue with what is left."
)


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
    lead = LEAD_OF_MODEL if release.bounded else LEAD
    lead = lead if statement.private else LEAD_OF_TEST if statement.seeded else LEAD_OF_DRAFT
    alarms = [ALARM] if statement.seeded else []
    if statement.drafted:
        alarms.append(ALARM_OF_DRAFT.format(drafted=readable(drafted_text(statement.drafted), 300)))
    return lines(
        heading.markup(),
        *(tag("p", tag("strong", STAMP), alarm, class_="alarm") for alarm in alarms),
        tag("p", lead.format(unit=_unit(release), errors=_with_errors(release, known=known)), class_="lead"),
        None if release.complete else tag("p", STOPPED if release.bounded else INTERRUPTED, class_="notice"),
        tag("nav", *(tag("a", name, href=f"#{anchor}") for anchor, name in sections), aria_label="Contents"),
        tag("h2", "The privacy promise" if statement.private else "No privacy promise", id="privacy"),
        tag("p", promise(release)),
        tag("p", "The appendix has the ", tag("a", "full statement", href="#statement"), ".", class_="soft"),
    )


def _with_errors(release: Release, *, known: bool) -> str:
    if release.bounded:
        return WITH_BOUNDS
    return WITH_ERRORS if known else ""


def _unit(release: Release) -> str:
    """Whom the promise protects."""
    column = release.statement.unit.column
    return "any one row" if column is None else f"the rows of any one {readable(column, 60)}"


PROMISE = (
    "What epsilon = {epsilon} means for one person: suppose somebody knows everybody else's records and tries to find "
    "out from this release {aim}. Tossing a coin, they would be right in 50 of 100 cases. With this release they are "
    "right in at most {most}. "
)
IN_OR_OUT = "whether that person is in the table"
WHICH_OF_TWO = "which of two records that person has"
WEAK = "That is a weak promise: the larger epsilon is, the weaker. "
ONE_ROW = "The promise is to one row of the table; somebody with several rows is protected less."
ONE_UNIT = "The promise is to one {column}, with up to {rows} of theirs; their other rows were left out. {left_out}"
NONE = "This release promises nothing to anybody, for the reason given above."
UNBOUNDED = "This release promises nothing to anybody: no budget covers what it cost."
WEAK_FROM = 0.95


def promise(release: Release) -> str:
    """What epsilon means for one person, in plain words."""
    statement = release.statement
    if not statement.private:
        return NONE
    if statement.spent is None:
        return UNBOUNDED
    epsilon, delta = statement.spent
    chance = success(epsilon, delta)
    aim = WHICH_OF_TWO if statement.neighbours is Neighbours.REPLACE else IN_OR_OUT
    text = PROMISE.format(epsilon=_short(epsilon), aim=aim, most=_of_100(chance))
    unit = statement.unit
    rows = "1 row" if unit.max_rows == 1 else f"{unit.max_rows:,} rows"
    column = "" if unit.column is None else readable(unit.column, 60)
    whose = ONE_ROW if unit.column is None else ONE_UNIT.format(column=column, rows=rows, left_out=LEFT_OUT)
    return text + (WEAK if chance > WEAK_FROM else "") + whose


def _short(epsilon: float) -> str:
    """Epsilon rounded up, without zeros at its end."""
    text = shown_up(epsilon)
    return text.rstrip("0").rstrip(".") if "." in text else text


def success(epsilon: float, delta: float) -> float:
    """How often somebody is right, at best, who tells two equally likely neighbouring tables apart by a release.

    (e^eps + delta) / (1 + e^eps), for every (eps, delta)-differentially private release.

    Reference: [Kairouz, Oh and Viswanath 2015, Thm. 2.1].

    >>> round(success(1.0, 0.0), 3), success(0.0, 0.0), success(1000.0, 0.0)
    (0.731, 0.5, 1.0)
    """
    rest = math.exp(-epsilon)
    return (1 + delta * rest) / (1 + rest)


def _of_100(chance: float) -> str:
    """A chance as cases out of 100, rounded up."""
    if chance > 0.999:
        return "practically every case"
    digits = 0 if chance <= 0.99 else 1
    return f"{math.ceil(100 * chance * 10**digits - 1e-9) / 10**digits:.{digits}f} of 100"
