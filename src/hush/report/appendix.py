"""The appendix: the privacy statement in full, and the technical terms of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hush.render.labels import readable
from hush.render.markup import Markup, join, lines, tag

if TYPE_CHECKING:
    from hush.release.release import Release

TERMS = (
    (
        "Differential privacy",
        "The promise that a release is nearly as likely with one person's records as without them, whatever they are "
        "and whatever else is known. Noise keeps it.",
    ),
    (
        "Epsilon and delta",
        "How nearly. With epsilon, nothing becomes more likely than by the factor e^epsilon when one person joins the "
        "table; delta is a small probability that this fails. Smaller is more private.",
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
        "How far off a number typically is because of the noise. About two estimates in three lie within one standard "
        "error of the true count, 19 in 20 within two.",
    ),
    ("95 % interval", "A range that contains the true count in at least 19 of 20 cases."),
    (
        "Rows in a wrong cell",
        "Half the sum, over the cells of a table, of how far each is off, as a share of all rows: what would have to "
        "be moved to get the true table.",
    ),
)


def statement_section(release: Release) -> Markup:
    """The head of the appendix, and the statement of what was promised and spent."""
    statement = release.statement
    facts = join(*(join(tag("dt", name), tag("dd", readable(value, 300))) for name, value in statement.lines()))
    maker = join(
        tag("dt", "Made by"), tag("dd", f"hush {readable(statement.version)}, mechanism {readable(release.mechanism)}")
    )
    return lines(
        tag("h2", "Appendix: technical details", id="appendix"),
        tag("h3", "The privacy statement", id="statement"),
        tag("dl", facts, maker, class_="facts"),
    )


def terms_section() -> Markup:
    """The terms, in plain words."""
    terms = join(*(join(tag("dt", name), tag("dd", text)) for name, text in TERMS))
    return lines(tag("h3", "Terms", id="terms"), tag("dl", terms, class_="terms"))
