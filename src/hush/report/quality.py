"""At a glance: the headline numbers of a release, how good it is in words, and what nobody can know from it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique
from hush.inference.estimates import BoundedEstimates, Estimates
from hush.inference.intervals import sum_margins
from hush.render.html_page import page_table
from hush.render.labels import compact, interval_text, order_name, rounded
from hush.render.markup import Markup, lines, tag
from hush.render.text_table import counted
from hush.report.level_groups import CONFIDENCE_LEVEL, cell_errors
from hush.report.precision import LARGEST_TABLE, spread

if TYPE_CHECKING:
    from hush.release.release import Release

CLOSE_SHARE = 0.05  # of a count: how far a close number is off at most
JUDGED_ORDERS = (1, 2)  # tables over one column and over two
SAMPLED_TABLES = 60  # of each order with known errors, and as many without
MEAN_ABSOLUTE = math.sqrt(2 / math.pi)  # E|z| of a standard normal z
CLEAR_OF_ZERO = 2.0  # standard errors from zero at which shares of the total mean something
SIMPLE_SHARES = (
    (1 / 4, "A quarter"),
    (1 / 3, "A third"),
    (1 / 2, "Half"),
    (2 / 3, "Two thirds"),
    (3 / 4, "Three quarters"),
)
VERDICTS = (  # misplaced rows at most, rows in close numbers at least, and the word
    (0.01, 0.9, "very accurate"),
    (0.05, 0.5, "accurate"),
    (0.15, 0.0, "rough"),
    (math.inf, 0.0, "too noisy to rely on"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderQuality:
    """The quality of the tables over one column, or over two; shares are of all rows.

    A number is close if its 95 % interval reaches at most 5 % of it to either side: `close` is the share of such
    numbers and `rows_close` the share of rows in them, on average over tables. The other figures are medians over the
    measured tables: `misplaced` is the expected share of rows in a wrong cell, `least` the count below which a number
    cannot be told from zero, and `bound` a bound on the share of rows that the model misplaces; NaN without a model.
    Unknown figures are NaN.

    `tables`, `measured` and `cells` count all tables that the release has; the shares come from `sampled` of them.
    """

    order: int
    tables: int
    measured: int  # of the tables: with known errors
    sampled: int
    cells: int
    close: float
    rows_close: float
    misplaced: float
    least: float
    bound: float

    @property
    def verdict(self) -> str:
        """The misplaced rows in a word, no better than the share of rows in numbers that are close allows."""
        close = 1.0 if math.isnan(self.rows_close) else self.rows_close
        return next(word for most, least, word in VERDICTS if self.misplaced <= most and close >= least)


def quality(release: Release, progress: Callable[[float], None] | None = None) -> list[OrderQuality]:
    """The quality of the tables over one and over two columns; empty if noise hides even the total.

    In expectation a table with standard errors s_x misplaces sqrt(2/pi) sum_x s_x / 2 of its rows.

    Privacy: post-processing of released values.
    """
    estimates = release.estimates
    if not estimates.covers(()):
        return []
    total, error = float(estimates.counts(())), float(cell_errors(estimates, ()))
    if not total > (CLEAR_OF_ZERO * error if math.isfinite(error) else 0.0):
        return []
    entries = []
    for number, order in enumerate(JUDGED_ORDERS, start=1):
        entry = _of_order(release, order, total)
        entries += [] if entry is None else [entry]
        if progress is not None:
            progress(number / len(JUDGED_ORDERS))
    return entries


def _of_order(release: Release, order: int, total: float) -> OrderQuality | None:
    """The quality of the tables over so many columns; None if the release has none."""
    # Which tables the release has, and whether their errors are known.
    estimates, domain, possible = release.estimates, release.domain, math.comb(len(release.domain), order)
    every = max(1, -(-possible // (4 * SAMPLED_TABLES)))
    candidates = list(itertools.islice(itertools.combinations(domain, order), 0, None, every))
    largest = list(estimates.cliques)
    if isinstance(estimates, BoundedEstimates):
        largest = [clique for clique in largest if estimates.has_covariance(clique)]
    known = {inner for clique in largest for inner in itertools.combinations(domain.clique(clique), order)}
    if release.bounded:  # the model has every table
        others = [clique for clique in candidates if clique not in known]
        groups = [(sorted(known), len(known)), (others, possible - len(known))]
        cells = sum(map(domain.size, itertools.combinations(domain, order)))
    else:
        known.update(clique for clique in candidates if clique not in known and estimates.covers(clique))
        groups = [(sorted(known), len(known))]
        cells = sum(map(domain.size, known))

    # Sample evenly from each group; a sampled table stands for as many as its group has per sample.
    tables = sum(size for _, size in groups)
    weights: dict[Clique, float] = {}  # how many tables each sampled one stands for
    for cliques, size in groups:
        usable = [clique for clique in cliques if domain.size(clique) <= LARGEST_TABLE]
        chosen = [usable[i] for i in spread(len(usable), SAMPLED_TABLES)]
        weights |= {clique: size / len(chosen) for clique in chosen}
    if not weights:
        return None

    # Judge the sampled tables.
    numbers, close, rows_close, misplaced, margins = 0.0, 0.0, 0.0, [], []
    measured = []
    for clique, weight in weights.items():
        counts, errors = estimates.counts(clique), cell_errors(estimates, clique)
        margin = cell_margins(estimates, clique, errors)
        near = margin <= CLOSE_SHARE * counts
        numbers += weight * counts.size
        close += weight * int(near.sum())
        rows_close += weight * float(counts[near].sum()) / total
        if np.isfinite(errors).all():
            measured.append(clique)
            misplaced.append(MEAN_ABSOLUTE * float(errors.sum()) / (2 * total))
            margins.append(float(np.median(margin)))
    bounds = release.bounds.all(measured, level=CONFIDENCE_LEVEL) if release.bounded and measured else []
    shares = [bound.share / 2 for bound in bounds if math.isfinite(bound.share)]
    return OrderQuality(
        order=order,
        tables=tables,
        measured=len(known) if measured else 0,
        sampled=len(weights),
        cells=cells,
        close=min(close / numbers, 1.0),
        rows_close=min(rows_close / sum(weights.values()), 1.0),
        misplaced=float(np.median(misplaced)) if misplaced else math.nan,
        least=float(np.median(margins)) if margins else math.nan,
        bound=float(np.median(shares)) if shares else math.nan,
    )


def cell_margins(estimates: Estimates, clique: Clique, errors: Floats) -> Floats:
    """Half the widths of the 95 % intervals of the cells of a table with these standard errors; NaN if unknown."""
    if isinstance(estimates, BoundedEstimates) and not estimates.has_covariance(clique):
        return np.full(errors.shape, estimates.margin(clique, np.zeros(()), np.ones(()), CONFIDENCE_LEVEL))
    margins = sum_margins(estimates, clique, np.ones(errors.shape), len(clique), errors)
    return margins.at(CONFIDENCE_LEVEL).reshape(errors.shape)


NO_ERROR_KNOWN = (
    "How good is it? The release alone cannot tell: no error is known. Whoever has the rows can measure the error "
    "with `hush evaluate`, for internal use."
)


def headline(release: Release, entries: Sequence[OrderQuality]) -> Markup:
    """The size, the estimated total, and the quality."""
    workload = release.workload
    columns = counted(len(release.domain), "column")
    total = _card("n/a", "the total was not released")
    if release.estimates.covers(()):
        answers = release.marginal()
        value, error = float(answers.estimate[0]), float(answers.std_error[0])
        interval = interval_text(float(answers.lower[0]), float(answers.upper[0]), error)
        known = f"95 % interval {interval}" if interval else "no error is known"
        total = _card(rounded(value, error), f"rows, estimated; {known}", kind="total")
    cards = [
        total,
        _card(f"{len(workload):,}", f"{'table' if len(workload) == 1 else 'tables'} of counts over {columns}"),
        _card(card_number(workload.queries), "numbers asked for"),
    ]
    cards += [
        _card(
            percent(entry.rows_close),
            f"of rows are in counts within 5 % of the truth, {order_name(entry.order)} at a time",
        )
        for entry in entries
        if entry.measured
    ]
    return lines(
        tag("h2", "At a glance", id="glance"), tag("div", *cards, class_="headline"), quality_text(release, entries)
    )


def card_number(number: int) -> str:
    """A whole number, with all digits if they fit a card."""
    return f"{number:,}" if number < 10**10 else compact(float(f"{number:.4g}"))


def _card(value: str, text: str, kind: str | None = None) -> Markup:
    words = text.replace(" %", "\N{NO-BREAK SPACE}%")  # cards are narrow
    return tag("div", tag("b", value), tag("span", words), data_kind=kind)


def quality_text(release: Release, entries: Sequence[OrderQuality]) -> Markup:
    """The quality in sentences and as a table."""
    if not entries:
        hidden = "How good is it? The noise is so large that it hides even the number of rows."
        return tag("p", hidden if release.estimates.covers(()) else NO_ERROR_KNOWN)
    if not any(entry.measured for entry in entries):
        return tag("p", NO_ERROR_KNOWN)
    items = [tag("li", *_sentences(release, entry)) for entry in entries]
    heads = ("tables over", "counts", "within 5 %", "rows in these", "rows in a wrong cell", "least count above zero")
    rows = [
        (
            order_name(entry.order),
            f"{entry.cells:,}",
            percent(entry.close),
            percent(entry.rows_close),
            percent(entry.misplaced),
            rounded(math.ceil(entry.least), math.nan) if math.isfinite(entry.least) else "not known",
        )
        for entry in entries
    ]
    some = [entry for entry in entries if entry.sampled < entry.tables]
    note = " and ".join(
        f"{entry.sampled} of the {counted(entry.tables, 'table')} over {order_name(entry.order)}" for entry in some
    )
    return lines(
        tag("h3", "How good is it?"),
        tag("ul", *items),
        page_table(heads, rows, numbers=range(1, len(heads))),
        tag("p", f"The percentages were computed from {note}, evenly spread.", class_="note") if some else None,
        tag("h3", "What cannot be known"),
        tag("ul", *(tag("li", text) for text in _unknown(release, entries))),
    )


def _sentences(release: Release, entry: OrderQuality) -> Iterator[str | Markup]:
    what = order_name(entry.order)
    if math.isfinite(entry.misplaced):
        yield tag("strong", f"Tables over {what} are {entry.verdict}. ")
        only = "" if entry.measured == entry.tables else f" that was measured ({entry.measured:,} of {entry.tables:,})"
        yield f"A typical table{only} has about {percent(entry.misplaced)} of the rows in a wrong cell. "
    else:
        yield tag("strong", f"Of tables over {what}, no error is known. ")
    if entry.close > 0:
        near = [words for share, words in SIMPLE_SHARES if abs(entry.close - share) < 0.015]
        counts = near[0] if near else "Fewer than 0.1 %" if entry.close < 0.001 else percent(entry.close)
        yield (
            f"{counts} of the counts, covering {percent(entry.rows_close)} of rows, are within 5 % of the truth, with "
            "95 % certainty. "
        )
    else:
        yield "No count is within 5 % of the truth with 95 % certainty. "
    if math.isfinite(entry.bound):
        yield (
            f"The model, from which rows are drawn, has at most {percent(entry.bound)} of the rows of a typical "
            "measured table in a wrong cell, with 95 % certainty; usually far fewer. "
        )


def _unknown(release: Release, entries: Sequence[OrderQuality]) -> Iterator[str]:
    known = [entry for entry in entries if math.isfinite(entry.least)]
    if known:
        yield (
            f"Counts below about {rounded(math.ceil(known[-1].least), math.nan)} cannot be told from zero: nobody can "
            "know from this release whether there are such rows at all. Small groups are the price of privacy."
        )
    for entry in entries:
        if release.bounded and entry.measured < entry.tables:
            tables = f"{counted(entry.tables - entry.measured, 'table')} over {order_name(entry.order)}"
            yield (
                f"The model fills in the other {tables} from the measured ones. The rows may miss an association "
                "between two such columns, or invent one, and the release cannot tell. Whoever has the real rows can "
                "measure the difference with `hush evaluate`, for internal use."
            )
    if release.bounded:
        yield "Rows drawn from the model add a sampling error: the fewer rows, the larger."
    else:
        yield "Combinations of columns that are in no table of this release. The section on questions lists the tables."


def percent(share: float) -> str:
    """A share in words: two digits, never 0 for a little, never 100 for nearly all.

    >>> [percent(x) for x in (0.0, 0.0001, 0.0123, 0.5, 0.9996, 1.0, 3.0, float("nan"))]
    ['0 %', 'below 0.1 %', '1.2 %', '50 %', 'nearly 100 %', '100 %', 'more than 100 %', 'not known']
    """
    if math.isnan(share):
        return "not known"
    if share in (0.0, 1.0):
        return f"{100 * share:.0f} %"
    if share < 0.001:
        return "below 0.1 %"
    if share > 1:
        return "more than 100 %"
    return "nearly 100 %" if share > 0.995 else f"{100 * share:.{1 if share < 0.095 else 0}f} %"
