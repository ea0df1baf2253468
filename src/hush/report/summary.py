"""The first and last sections: what the report is, its privacy, the headline numbers, and how to read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hush.markup import Markup, join, lines, tag
from hush.release.statement import STAMP
from hush.report.labels import compact, error_text, interval_text, order_name, page_table, readable, rounded
from hush.report.precision import Precision
from hush.schema import Date, Integer, Numeric, Outside
from hush.schema.provenance import drafted_text
from hush.text_table import counted

if TYPE_CHECKING:
    from hush.release.release import Release
    from hush.report.quality import Quality

LEAD = (
    "This page shows counts from a table of records, released under differential privacy: random noise was added so "
    "that the numbers hardly depend on {unit}{errors}. "
    "It was made from the released file alone; no record was read to write it."
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
WITH_BOUNDS = ", and each comes with the error that the noise causes, or with a bound on it where one is known"
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
TYPICAL = (
    "How far off a number is depends on its table. About two estimates in three lie within one standard error of the "
    "true count, 19 in 20 within two."
)


def opening(release: Release, sections: Sequence[tuple[str, str]], *, known: bool) -> Markup:
    """The title, the introduction, warnings, links to the sections, and the privacy statement."""
    statement = release.statement
    lead = LEAD if statement.private else LEAD_OF_TEST if statement.seeded else LEAD_OF_DRAFT
    alarms = [ALARM] if statement.seeded else []
    if statement.drafted:
        alarms.append(ALARM_OF_DRAFT.format(drafted=readable(drafted_text(statement.drafted), 300)))
    facts = join(*(join(tag("dt", name), tag("dd", readable(value, 300))) for name, value in statement.lines()))
    maker = join(
        tag("dt", "Made by"), tag("dd", f"hush {readable(statement.version)}, mechanism {readable(release.mechanism)}")
    )
    return lines(
        tag("h1", "What this release says"),
        *(tag("p", tag("strong", STAMP), alarm, class_="alarm") for alarm in alarms),
        tag("p", lead.format(unit=_unit(release), errors=_with_errors(release, known=known)), class_="lead"),
        None if release.complete else tag("p", STOPPED if release.bounded else INTERRUPTED, class_="notice"),
        tag("nav", *(tag("a", name, href=f"#{anchor}") for anchor, name in sections), aria_label="Contents"),
        tag("h2", "The privacy promise" if statement.private else "No privacy promise", id="privacy"),
        tag("dl", facts, maker, class_="facts"),
    )


def headline(release: Release, orders: Sequence[Precision], sample: Quality | None) -> Markup:
    """The size, the estimated total, the quality, and the typical error for each number of columns."""
    workload = release.workload
    columns = counted(len(release.domain), "column")
    cards = [
        _card(f"{len(workload):,}", f"{'table' if len(workload) == 1 else 'tables'} of counts over {columns}"),
        _card(_whole(workload.queries), "numbers asked for"),
        _total(release),
    ]
    if sample is not None and sample.known:
        text = "of the rows: a random sample of that size is as accurate" + (" as the model" if sample.bounded else "")
        cards.append(_card(sample.text, text, kind="quality"))
    finite = [entry for entry in orders if entry.planned == entry.planned]
    rows = [
        (order_name(entry.order), f"{entry.tables:,}", f"{entry.queries:,}", error_text(entry.planned))
        for entry in finite
    ]
    heads = ("tables over", "tables", "numbers", "typical standard error")
    return lines(
        tag("h2", "At a glance", id="glance"),
        tag("div", *cards, class_="headline"),
        None if sample is None else tag("p", sample.sentence),
        tag("p", TYPICAL) if rows else None,
        page_table(heads, rows, numbers=(1, 2, 3)) if rows else None,
    )


def _with_errors(release: Release, *, known: bool) -> str:
    if release.bounded:
        return WITH_BOUNDS
    return WITH_ERRORS if known else ""


def _total(release: Release) -> Markup:
    if not release.estimates.covers(()):
        return _card("n/a", "the total was not released")
    answers = release.marginal()
    value, error = float(answers.estimate[0]), float(answers.std_error[0])
    interval = interval_text(float(answers.lower[0]), float(answers.upper[0]), error)
    text = f"rows, estimated; 95 % interval {interval}" if interval else "rows, estimated; no error is known"
    return _card(rounded(value, error), text, kind="total")


def _whole(number: int) -> str:
    """All digits if they fit a card."""
    return f"{number:,}" if number < 10**10 else compact(float(f"{number:.4g}"))


def _card(value: str, text: str, kind: str | None = None) -> Markup:
    return tag("div", tag("b", value), tag("span", text), data_kind=kind)


def _unit(release: Release) -> str:
    """Whom the promise protects."""
    column = release.statement.unit.column
    return "any one row" if column is None else f"the rows of any one {readable(column, 60)}"


INTERVALS = (
    "A 95 % interval covers the count in the table in 19 of 20 cases. It speaks of the noise that was added and of "
    "nothing else: not of mistakes in the data, of people who did not answer, or of sampling."
)
MANY = (
    "Of many intervals on one page some miss. One bar in twenty is expected to, and a picture that was chosen because "
    "it stands out tends to stand out a little too much."
)
UNBIASED = (
    "Estimates are unbiased: over repeated releases their average is the true count. They are therefore neither whole "
    "nor kept above zero."
)
AGREE = "Tables agree with each other: adding up one table gives the other."
SHARED = (
    "Numbers share noise, so the error of a sum is not the sum of the errors. Ask the release for the sum itself; it "
    "gives the exact error."
)
MODEL = (
    "The estimates come from a model that was fitted to noisy tables. They may be biased, by more than the noise, and "
    "no exact standard error is known where none is given."
)
MIXED = (
    "Tables that were measured have exact standard errors. Any other table comes from the model that was fitted to the "
    "measured ones. It may be biased, and an interval around it, where there is one, follows from the bound on the "
    "error of the whole table, so it is wide."
)
BINS = (
    "Numbers are counted in bins. A bin includes its lower end but not its upper end; the last bin includes both. "
    "Where a value lay within its bin is not in the release."
)
CLAMPED = "Where a column says so, values beyond its ends were counted at the nearer end."
DATES = "Dates are counted by the period that the column names; a period is written by its first day or its name."
NOTHING_ELSE = (
    "This page holds nothing but released values and what was computed from them. Reading, copying or publishing it "
    "costs no further privacy."
)
NOT_PRIVATE = "This release is not private, and so neither is this page."


def caveats_section(release: Release, *, known: bool) -> Markup:
    """How to read intervals and bins, and that the page holds nothing private."""
    kinds = list(release.schema)
    ordered = [column for column in kinds if isinstance(column, Integer | Numeric | Date)]
    adaptive = release.bounded
    items = [
        *((INTERVALS, MANY, UNBIASED, SHARED) if known or adaptive else (MODEL,)),
        MIXED if adaptive else None,
        AGREE if known and not adaptive and release.consistent else None,
        BINS if any(column.binned for column in kinds) else None,
        CLAMPED if any(column.outside is Outside.CLAMP for column in ordered) else None,
        DATES if any(isinstance(column, Date) for column in kinds) else None,
        NOTHING_ELSE if release.statement.private else NOT_PRIVATE,
    ]
    return lines(
        tag("h2", "How to read it", id="caveats"), tag("ul", *(tag("li", item) for item in items if item is not None))
    )
