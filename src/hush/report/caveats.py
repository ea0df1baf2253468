"""Caveats: how to read the numbers of a report, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hush.release.measured import MeasuredRelease
from hush.report.markup import Markup, lines, tag
from hush.schema import Date, Integer, Numeric, Outside

if TYPE_CHECKING:
    from hush.release.release import Release

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
    "Numbers share noise, so errors of sums are not sums of errors. Ask the release for the sum; it gives the exact "
    "error of that."
)
MODEL = (
    "The estimates come from a model that was fitted to noisy tables. They may be off by more than the noise, to one "
    "side, and no exact standard error is known where none is given."
)
MIXED = (
    "Tables that were measured have exact standard errors. Any other comes from the model that was fitted to the "
    "measured ones: it may be off to one side, and an interval around it, where there is one, follows from the bound "
    "on the error of the whole table, so it is wide."
)
BINS = (
    "Numbers are counted in bins. A bin holds its lower end and not its upper end, but for the last, which holds both. "
    "Where within a bin a value lay is not in the release."
)
CLAMPED = "Where a column says so, values beyond its ends were counted at the nearer end."
DATES = "Dates are counted by the period that the column names; a period is written by its first day or its name."
NOTHING_ELSE = (
    "This page holds nothing but released values and what was computed from them. Reading, copying or publishing it "
    "costs no further privacy."
)
NOT_PRIVATE = "This release is not private, and so neither is this page."


def caveats_section(release: Release, *, known: bool) -> Markup:
    """What intervals mean, how bins count, and that nothing private is on the page."""
    kinds = list(release.schema)
    ordered = [column for column in kinds if isinstance(column, Integer | Numeric | Date)]
    adaptive = isinstance(release, MeasuredRelease)
    items = [
        *((INTERVALS, MANY, UNBIASED, SHARED) if known or adaptive else (MODEL,)),
        MIXED if adaptive else None,
        AGREE if known and not adaptive and release.consistent else None,
        BINS if any(isinstance(column, Numeric) for column in kinds) else None,
        CLAMPED if any(column.outside is Outside.CLAMP for column in ordered) else None,
        DATES if any(isinstance(column, Date) for column in kinds) else None,
        NOTHING_ELSE if release.statement.private else NOT_PRIVATE,
    ]
    return lines(
        tag("h2", "How to read it", id="caveats"), tag("ul", *(tag("li", item) for item in items if item is not None))
    )
