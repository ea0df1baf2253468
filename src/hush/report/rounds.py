"""Rounds: what an adaptive mechanism measured and in which order."""

from __future__ import annotations

from collections import Counter

from hush.memory import readable as size_text
from hush.release.measured import MeasuredRelease
from hush.report.labels import count, error_text, table_name
from hush.report.markup import Markup, lines, tag
from hush.report.summary import order_name
from hush.report.tables import table

MOST_ROUNDS = 400
SHOWN = 24  # rounds that are shown without being asked for
ADAPTIVE = (
    "This release chose what to measure as it went along. It began with {first}. Then every round chose, at random but "
    "in favour of tables that the model so far got wrong, one more table, measured it with noise, and fitted the model "
    "to all noisy tables again. Choices and noise were paid for from one budget."
)
ANNEALED = "Where rounds taught less than their noise, the rounds that follow have less noise and cost more."
CHOSEN = (
    "This release measured {tables} with noise and fitted one model to all that it learned. What follows was chosen at "
    "random in favour of what the data showed. Choices and noise were paid for from one budget."
)
PLAIN = "This release measured {tables} with noise and fitted one model to all of them."
IN_ROUNDS = ("aim", "mwem")  # every round measures what it chose and fits again


def rounds_section(release: MeasuredRelease) -> Markup:
    """What was measured first and in rounds; of mechanisms that choose beforehand, or nothing, all tables."""
    played = release.mechanism in IN_ROUNDS and bool(release.rounds)
    first = release.taken[: max(len(release.taken) - len(release.rounds), 0)] if played else release.taken
    if played:
        intro = ADAPTIVE.format(first=count(len(first), "noisy table"))
    else:
        intro = (CHOSEN if release.rounds else PLAIN).format(tables=_all(release))
    heads = ("table", "cells", "standard deviation of the noise")
    rows = [(table_name(one.clique), f"{one.values.size:,}", error_text(one.stddev)) for one in first[:MOST_ROUNDS]]
    began = table(heads, rows, numbers=(1, 2))
    said = f"The {count(len(first), 'table')} measured{' first' if played else ''}"
    return lines(
        tag("h2", "How it was made", id="made"),
        tag("p", intro),
        tag("p", ANNEALED) if any(one.annealed for one in release.rounds) else None,
        _folded(_rounds(release), len(release.rounds)) if release.rounds else None,
        tag("details", tag("summary", said), began) if release.rounds or len(first) > SHOWN else began,
    )


def _rounds(release: MeasuredRelease) -> Markup:
    annealed = any(one.annealed for one in release.rounds)
    heads = ["round", "chosen", "candidates", "standard deviation of the noise", "model"]
    heads += ["next rounds cost more"] if annealed else []
    rows = [
        (
            f"{number:,}",
            table_name(one.clique),
            f"{one.candidates:,}",
            error_text(one.stddev) if one.stddev else "not measured",
            size_text(1e6 * one.size_mb) if one.size_mb else "",
            *(["yes" if one.annealed else ""] if annealed else []),
        )
        for number, one in enumerate(release.rounds[:MOST_ROUNDS], start=1)
    ]
    left_out = len(release.rounds) > MOST_ROUNDS
    caption = f"The first {MOST_ROUNDS} of {len(release.rounds):,} rounds." if left_out else None
    return table(heads, rows, numbers=(2, 3, 4), caption=caption)


def _folded(inner: Markup, length: int) -> Markup:
    return inner if length <= SHOWN else tag("details", tag("summary", f"The {count(length, 'round')}"), inner)


def _all(release: MeasuredRelease) -> str:
    """How many tables there are of each number of columns."""
    orders = Counter(len(one.clique) for one in release.taken)
    (first, tables), *more = sorted(orders.items())
    said = [f"{count(tables, 'table')} over {order_name(first)}"]
    return " and ".join([*said, *(f"{tables:,} over {order_name(order)}" for order, tables in more)])
