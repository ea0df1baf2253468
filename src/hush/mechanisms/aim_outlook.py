"""Outlook of aim: what a person should know before spending, since errors show only in the release."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hush.mechanisms.candidates import Candidates
from hush.mechanisms.usefulness import OneWay, noise_text
from hush.memory import readable
from hush.workloads import Workload

if TYPE_CHECKING:
    from hush.mechanisms.adaptive import AdaptivePlan
    from hush.mechanisms.aim import AIM

CELL_BYTES = 8
SECONDS_PER_CELL = 20e-9  # of one iteration of a fit
ITERATIONS = (100, 400)  # of a fit
SECONDS_PER_CANDIDATE = 3e-3  # of a round: counting, scoring, and a fit of a small model
ROUNDS_PER_COLUMN = (2, 4)  # that are played, of all that could be
MEAN_SIZE = (0.01, 0.35)  # of the models of a run, over the largest allowed
MEMORY_PER_MODEL = 10
MEMORY_BASE = 2e8


def describe(settings: AIM, plan: AdaptivePlan) -> list[tuple[str, str]]:
    """How a run begins, among how many tables it chooses, and where it ends at the latest."""
    workload = plan.workload
    columns, rounds = settings.columns(workload), settings.planned_rounds(workload)
    alpha = Fraction(settings.share)
    first = OneWay.of(plan, columns, alpha * plan.rho / rounds)
    most = max(int(rounds - alpha * len(columns)), 1)
    among = len(Candidates.of(workload).cliques)
    merges = [("Merges", "levels that seem rarer than their noise, in all tables but the first")]
    return [
        ("Starts with", f"{len(columns):,} one-way tables, standard error {noise_text(first.stddev)} of a count"),
        ("Then", f"at most {most:,} rounds, each of which chooses one of {among:,} candidates and measures it"),
        ("Model", f"{readable(1e6 * settings.limit_mb)} at most ({_origin(settings)})"),
        *(merges if settings.merge_rare else []),
    ]


def work(settings: AIM, workload: Workload) -> str:
    """Memory and time, from the figures of runs on some tables; how many rounds there are depends on the data."""
    domain, columns = workload.domain, settings.columns(workload)
    cliques = Candidates.of(workload).cliques
    counts = sum(domain.size(clique) for clique in cliques)
    largest = min(1e6 * settings.limit_mb / CELL_BYTES, float(domain.size(domain.attributes)))
    low, high = (
        a * len(columns) * (SECONDS_PER_CANDIDATE * len(cliques) + iterations * SECONDS_PER_CELL * size * largest)
        for a, iterations, size in zip(ROUNDS_PER_COLUMN, ITERATIONS, MEAN_SIZE, strict=True)
    )
    memory = readable(MEMORY_PER_MODEL * CELL_BYTES * largest + CELL_BYTES * counts + MEMORY_BASE)
    return f"about {_time(low)} to {_time(high)} on one core, depending on the data; up to {memory} of memory"


def _origin(settings: AIM) -> str:
    return f"preset {settings.preset}" if settings.max_size_mb is None else "max_size_mb"


def _time(seconds: float) -> str:
    """A duration in one unit, rounded as roughly as it is known.

    >>> [_time(seconds) for seconds in (0.2, 14.2, 200.0, 9000.0)]
    ['1 s', '14 s', '3.3 min', '2.5 h']
    """
    if seconds < 120:
        return f"{max(seconds, 1):.2g} s"
    return f"{seconds / 60:.2g} min" if seconds < 7200 else f"{seconds / 3600:.2g} h"
