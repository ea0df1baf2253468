"""Bounds: how far the model of an adaptive release can be off, table by table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hush.release.bound_table import ErrorBound
from hush.release.measured import MeasuredRelease
from hush.report.labels import count, table_name
from hush.report.markup import Markup, lines, tag
from hush.report.summary import order_name
from hush.report.sums import LEVEL
from hush.report.tables import table

MOST_TABLES = 200
INTRO = (
    "What was measured was chosen while measuring, so the errors of this release were not known beforehand. Now they "
    "can be bounded, at no cost to privacy. The error of a table is the sum, over its cells, of the distances between "
    "the count in the model and the true count, here as a share of the rows. Each bound holds with 95 %; those in the "
    "last column hold with 95 % all together. A bound of 200 % or more would say nothing, for so far apart are tables "
    "without a common cell; it is shown as not known. The measured tables are taken as if they had been named "
    "beforehand, and their noise as nearly Gaussian: that is not proven, but in simulations the bounds failed less "
    "often than they say."
)
KINDS = {
    "supported": "supported: measured, or part of a measured table",
    "unsupported": "unsupported: could have been measured and was not chosen",
    "none": "no bound below 200 % is known",
}
WHY = (
    "A supported table was measured, by itself or inside a larger one, and its noisy values say how far the model can "
    "be off. An unsupported one stood to be measured and was not chosen; had the model been far off there, it would "
    "probably have been chosen. Such bounds are wide, and the truth is often much nearer."
)


def bounds_section(release: MeasuredRelease) -> Markup:
    """Bounds by number of columns and by what they are known from; then table by table.

    Of all tables that were measured, could have been chosen, or were asked for.
    """
    asked = (release.domain.clique(clique) for clique in release.workload.cliques if clique)
    cliques = sorted(dict.fromkeys([*release.bounds.cliques, *asked]), key=len)
    each, together = (release.bounds.all(cliques, level=LEVEL, simultaneous=both) for both in (False, True))
    pairs = list(zip(each, together, strict=True))
    heads = ("tables over", "known from", "tables", "middle error", "largest error", "largest, all together")
    rows = []
    for order, kind in sorted({(len(one.clique), one.kind) for one in each}, key=lambda own: (own[0], _place(own[1]))):
        own = [pair for pair in pairs if (len(pair[0].clique), pair[0].kind) == (order, kind)]
        shares = sorted(one.share for one, _ in own)
        numbers = ("", "", "")
        if kind != "none":
            numbers = (share_text(shares[len(shares) // 2]), share_text(shares[-1]), share_text(_most(own)))
        rows.append((order_name(order), KINDS[kind], f"{len(own):,}", *numbers))
    return lines(
        tag("h2", "How far off it can be", id="bounds"),
        tag("p", INTRO),
        table(heads, rows, numbers=(2, 3, 4, 5)),
        tag("p", WHY),
        _listed(pairs),
    )


def share_text(share: float) -> str:
    """A bound as a percentage of the rows, rounded up.

    >>> share_text(0.01234), share_text(0.5), share_text(float("nan"))
    ('1.3 %', '50.0 %', 'not known')
    """
    return "not known" if math.isnan(share) else f"{math.ceil(1000 * share - 1e-9) / 10:.1f} %"


def _listed(pairs: Sequence[tuple[ErrorBound, ErrorBound]]) -> Markup:
    heads = ("table", "known from", "error at most", "all together")
    rows = [
        (table_name(one.clique), KINDS[one.kind].partition(":")[0], share_text(one.share), share_text(other.share))
        for one, other in pairs[:MOST_TABLES]
    ]
    caption = f"The first {MOST_TABLES} of {len(pairs):,} tables." if len(pairs) > MOST_TABLES else None
    inner = table(heads, rows, numbers=(2, 3), caption=caption)
    return tag("details", tag("summary", f"The bounds of {count(len(rows), 'table')}"), inner)


def _most(pairs: Sequence[tuple[ErrorBound, ErrorBound]]) -> float:
    """NaN where one of them has no bound that holds with all others."""
    shares = [other.share for _, other in pairs]
    return math.nan if any(map(math.isnan, shares)) else max(shares)


def _place(kind: str) -> int:
    return list(KINDS).index(kind)
