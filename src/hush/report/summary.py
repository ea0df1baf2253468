"""At a glance, and how to read it: the headline numbers of a report, and what they do not say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hush.render.labels import compact, interval_text, order_name, rounded
from hush.render.markup import Markup, lines, tag
from hush.render.text_table import counted
from hush.report.quality import OrderQuality, percent, quality_text
from hush.schema import Date, Integer, Numeric, Outside

if TYPE_CHECKING:
    from hush.release.release import Release


def headline(release: Release, found: Sequence[OrderQuality]) -> Markup:
    """The size, the estimated total, and the quality."""
    workload = release.workload
    columns = counted(len(release.domain), "column")
    cards = [
        _total(release),
        _card(f"{len(workload):,}", f"{'table' if len(workload) == 1 else 'tables'} of counts over {columns}"),
        _card(_whole(workload.queries), "numbers asked for"),
    ]
    cards += [
        _card(percent(entry.rows_close), f"of the rows are counted to within 5 %, {order_name(entry.order)} at a time")
        for entry in found
        if entry.measured
    ]
    return lines(
        tag("h2", "At a glance", id="glance"),
        tag("div", *cards, class_="headline"),
        quality_text(release, found),
    )


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
    words = text.replace(" %", "\N{NO-BREAK SPACE}%")  # cards are narrow
    return tag("div", tag("b", value), tag("span", words), data_kind=kind)


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
        AGREE if known and not adaptive and release.record.consistent else None,
        BINS if any(column.binned for column in kinds) else None,
        CLAMPED if any(column.outside is Outside.CLAMP for column in ordered) else None,
        DATES if any(isinstance(column, Date) for column in kinds) else None,
        NOTHING_ELSE if release.statement.private else NOT_PRIVATE,
    ]
    return lines(
        tag("h2", "How to read it", id="caveats"), tag("ul", *(tag("li", item) for item in items if item is not None))
    )
