"""Rounds: what an adaptive mechanism measured and in which order."""

from __future__ import annotations

from collections import Counter

from hush.memory import readable as size_text
from hush.release.measured import MeasuredRelease
from hush.report.labels import count, error_text, table_name
from hush.report.markup import Markup, lines, tag
from hush.report.tables import table

MOST_ROUNDS = 400
SHOWN = 24  # rounds that are shown without being asked for
ADAPTIVE = (
    "This release chose what to measure as it went along. It began with {first}. Then every round chose, at random but "
    "in favour of tables that the model so far got wrong, one more table, measured it with noise, and fitted the model "
    "to all noisy tables again. Choices and noise were paid for from one budget."
)
ANNEALED = (
    "A round that taught less than its noise is followed by rounds with half the noise, which cost four times as much."
)
PLAIN = "This release measured {tables} with noise and fitted one model to all of them."


def rounds_section(release: MeasuredRelease) -> Markup:
    """The tables at the start and the rounds; of mechanisms without rounds, all tables."""
    first = release.taken[: len(release.taken) - len(release.rounds)]
    intro = (
        ADAPTIVE.format(first=count(len(first), "noisy table"))
        if release.rounds
        else PLAIN.format(tables=_all(release))
    )
    heads = ("table", "cells", "standard deviation of the noise")
    rows = [(table_name(one.clique), f"{one.values.size:,}", error_text(one.stddev)) for one in first[:MOST_ROUNDS]]
    began = table(heads, rows, numbers=(1, 2), caption="Measured first" if release.rounds else None)
    return lines(
        tag("h2", "How it was made", id="made"),
        tag("p", intro),
        tag("p", ANNEALED) if any(one.annealed for one in release.rounds) else None,
        _folded(_rounds(release), len(release.rounds), "round") if release.rounds else None,
        _folded(began, len(first), "table") if not release.rounds else tag("details", _summary(first), began),
    )


def _rounds(release: MeasuredRelease) -> Markup:
    heads = ("round", "measured", "chosen among", "standard deviation of the noise", "model", "next rounds cost more")
    rows = [
        (
            f"{number:,}",
            table_name(one.clique),
            count(one.candidates, "table"),
            error_text(one.stddev),
            size_text(1e6 * one.size_mb),
            "yes" if one.annealed else "",
        )
        for number, one in enumerate(release.rounds[:MOST_ROUNDS], start=1)
    ]
    return table(heads, rows, numbers=(2, 3, 4))


def _folded(inner: Markup, length: int, noun: str) -> Markup:
    return inner if length <= SHOWN else tag("details", tag("summary", f"All {count(length, noun)}"), inner)


def _summary(first: tuple[object, ...]) -> Markup:
    return tag("summary", f"The {count(len(first), 'table')} measured first")


def _all(release: MeasuredRelease) -> str:
    """How many tables there are of each number of columns."""
    orders = Counter(len(one.clique) for one in release.taken)
    return " and ".join(f"{count(tables, f'{order}-way table')}" for order, tables in sorted(orders.items()))
