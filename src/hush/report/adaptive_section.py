"""The sections on an adaptive release: bounds on the error of its model, and what each round measured."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from hush.core.errors import WorkloadError
from hush.core.memory import readable as size_text
from hush.mechanisms.registry import mechanism_class
from hush.release.error_bounds import ErrorBound
from hush.release.release import Release
from hush.render.html_page import page_table
from hush.render.labels import error_text, order_name, table_name
from hush.render.markup import Markup, lines, tag
from hush.render.text_table import counted
from hush.report.level_groups import CONFIDENCE_LEVEL

MOST_TABLES = 200
MOST_ROUNDS = 400
UNFOLDED_ROUNDS = 24  # more rounds are folded away
BOUND_KINDS = {
    "supported": "supported: measured, or part of a measured table",
    "unsupported": "unsupported: could have been measured and was not chosen",
    "none": "no bound below 200 % is known",
}


def bounds_section(release: Release) -> Markup:
    """Bounds of all tables measured, scored or asked for: by number of columns and kind, then table by table."""
    requested = (release.domain.clique(clique) for clique in release.workload.cliques if clique)
    cliques = sorted(dict.fromkeys([*release.bounds.cliques, *requested]), key=len)
    each, together = (release.bounds.all(cliques, level=CONFIDENCE_LEVEL, simultaneous=both) for both in (False, True))
    pairs = list(zip(each, together, strict=True))
    heads = ("tables over", "known from", "tables", "middle error", "largest error", "largest, all together")
    rows = []
    groups = {(len(bound.clique), bound.kind) for bound in each}
    for order, kind in sorted(groups, key=lambda group: (group[0], list(BOUND_KINDS).index(group[1]))):
        group = [pair for pair in pairs if (len(pair[0].clique), pair[0].kind) == (order, kind)]
        shares = sorted(bound.share for bound, _ in group)
        numbers = ("", "", "")
        if kind != "none":
            joint = [both.share for _, both in group]
            largest = math.nan if any(map(math.isnan, joint)) else max(joint)
            numbers = (share_text(shares[len(shares) // 2]), share_text(shares[-1]), share_text(largest))
        rows.append((order_name(order), BOUND_KINDS[kind], f"{len(group):,}", *numbers))
    return lines(
        tag("h3", "How far off it can be", id="bounds"),
        tag(
            "p",
            "This release chose what to measure while measuring, so its errors were not known beforehand. They can be "
            "bounded now, at no cost to privacy. The error of a table is the sum, over its cells, of the distance "
            "between the count in the model and the true count, here as a share of the rows. Each bound holds with "
            "95 %; those in the last column hold with 95 % all together. Tables without a common cell are 200 % apart, "
            "so a bound of 200 % or more is shown as not known. The bounds treat the measured tables as if they had "
            "been named beforehand, and their noise as nearly Gaussian. That is not proven, but in simulations the "
            "bounds failed less often than they say.",
        ),
        page_table(heads, rows, numbers=(2, 3, 4, 5)),
        tag(
            "p",
            "A supported table was measured, by itself or inside a larger one, and its noisy values say how far the "
            "model can be off. An unsupported one could have been measured and was not chosen; had the model been far "
            "off there, it would probably have been chosen. Such bounds are wide, and the truth is often much closer.",
        ),
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
        (
            table_name(bound.clique),
            BOUND_KINDS[bound.kind].partition(":")[0],
            share_text(bound.share),
            share_text(joint.share),
        )
        for bound, joint in pairs[:MOST_TABLES]
    ]
    caption = f"The first {MOST_TABLES} of {len(pairs):,} tables." if len(pairs) > MOST_TABLES else ""
    inner = page_table(heads, rows, numbers=(2, 3), caption=caption)
    return tag("details", tag("summary", f"The bounds of {counted(len(rows), 'table')}"), inner)


def rounds_section(release: Release) -> Markup:
    """What was measured before and in the rounds; all tables of mechanisms without such rounds."""
    try:
        played = bool(release.rounds) and mechanism_class(release.mechanism).refits
    except WorkloadError:  # the mechanism is not installed here, so nothing is claimed of it
        played = False
    tables = release.noisy_tables
    first = tables[: max(len(tables) - len(release.rounds), 0)] if played else tables
    if played:
        intro = (
            f"This release chose what to measure as it went along. It began with {counted(len(first), 'noisy table')}. "
            "Every round then chose one more table at random, preferring tables that the model got wrong so far, "
            "measured it with noise, and fitted the model to all noisy tables again. One budget paid for choices and "
            "noise."
        )
    else:
        intro = f"This release measured {_tables_by_order(release)} with noise and fitted one model to all of them."
        if release.rounds:
            intro += " It chose the tables below at random, guided by the data. One budget paid for choices and noise."
    heads = ("table", "cells", "standard deviation of the noise")
    rows = [
        (table_name(noisy.clique), f"{noisy.values.size:,}", error_text(noisy.stddev)) for noisy in first[:MOST_ROUNDS]
    ]
    caption = f"The first {MOST_ROUNDS} of {counted(len(first), 'table')}." if len(first) > MOST_ROUNDS else ""
    began = page_table(heads, rows, numbers=(1, 2), caption=caption)
    title = f"The {counted(len(first), 'table')} measured{' first' if played else ''}"
    return lines(
        tag("h3", "How it was made", id="made"),
        tag("p", intro),
        tag("p", "After a round that changed the model by less than its noise, rounds have less noise and cost more.")
        if any(round.annealed for round in release.rounds)
        else None,
        _rounds(release) if release.rounds else None,
        tag("details", tag("summary", title), began) if release.rounds or len(first) > UNFOLDED_ROUNDS else began,
    )


def _rounds(release: Release) -> Markup:
    annealed = any(round.annealed for round in release.rounds)
    heads = ["round", "chosen", "candidates", "standard deviation of the noise", "model"]
    heads += ["next rounds cost more"] if annealed else []
    rows = [
        (
            f"{number:,}",
            table_name(round.clique),
            f"{round.candidates:,}",
            error_text(round.stddev) if round.stddev else "not measured",
            size_text(1e6 * round.size_mb) if round.size_mb else "",
            *(["yes" if round.annealed else ""] if annealed else []),
        )
        for number, round in enumerate(release.rounds[:MOST_ROUNDS], start=1)
    ]
    left_out = len(release.rounds) > MOST_ROUNDS
    caption = f"The first {MOST_ROUNDS} of {len(release.rounds):,} rounds." if left_out else ""
    inner = page_table(heads, rows, numbers=(2, 3, 4), caption=caption)
    if len(release.rounds) <= UNFOLDED_ROUNDS:
        return inner
    return tag("details", tag("summary", f"The {counted(len(release.rounds), 'round')}"), inner)


def _tables_by_order(release: Release) -> str:
    """The number of tables for each number of columns."""
    orders = Counter(len(noisy.clique) for noisy in release.noisy_tables)
    (first, tables), *more = sorted(orders.items())
    texts = [f"{counted(tables, 'table')} over {order_name(first)}"]
    return " and ".join([*texts, *(f"{tables:,} over {order_name(order)}" for order, tables in more)])
