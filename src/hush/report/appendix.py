"""How to read a report, and its appendix: the privacy statement in full, and a glossary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hush.render.html_page import fact_list
from hush.render.labels import readable
from hush.render.markup import Markup, join, lines, tag
from hush.schema import Date, Integer, Numeric, Outside

if TYPE_CHECKING:
    from hush.release.release import Release

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
        fact_list([*statement.lines(), ("Made by", maker)]),
    )


def terms_section() -> Markup:
    """The terms, in plain words."""
    terms = join(*(join(tag("dt", name), tag("dd", text)) for name, text in GLOSSARY))
    return lines(tag("h3", "Terms", id="terms"), tag("dl", terms, class_="terms"))
