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
ITERATIONS = (10, 60)  # of a fit between rounds
SECONDS_PER_CANDIDATE = (0.5e-3, 1.4e-3)  # of a round: sizes, counting, scoring, and a fit of a small model
ROUNDS_PER_COLUMN = (2.5, 6.0)  # that are played, of all that could be
MEAN_SIZE = (0.0, 0.2)  # of the models of a run, over the largest allowed
MEMORY_PER_MODEL = 10
TABLES = 2  # of all candidates, held at once
MEMORY_BASE = 3e8


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
    """Memory and time, from the figures of runs on tables of 8 to 15 columns with epsilons of 0.1 to 1.

    How many rounds there are, and how large their models become, depends on the data and the budget: with an epsilon of
    10 all models may be nearly as large as allowed, five times the mean that is taken here, and rounds are more.
    """
    domain, columns = workload.domain, settings.columns(workload)
    cliques = Candidates.of(workload).cliques
    counts = sum(domain.size(clique) for clique in cliques)
    largest = min(1e6 * settings.limit_mb / CELL_BYTES, float(domain.size(domain.attributes)))
    low, high = (
        rounds * len(columns) * (scoring * len(cliques) + iterations * SECONDS_PER_CELL * size * largest)
        for rounds, scoring, iterations, size in zip(
            ROUNDS_PER_COLUMN, SECONDS_PER_CANDIDATE, ITERATIONS, MEAN_SIZE, strict=True
        )
    )
    memory = readable(MEMORY_PER_MODEL * CELL_BYTES * largest + TABLES * CELL_BYTES * counts + MEMORY_BASE)
    time = f"about {_time(low)} to {_time(high)} on one core, depending on the data, with epsilon up to 1"
    return f"{time}, and up to ten times that with 10; up to {memory} of memory"


def _origin(settings: AIM) -> str:
    return f"preset {settings.preset}" if settings.max_size_mb is None else "max_size_mb"


def _time(seconds: float) -> str:
    """A duration in one unit, rounded as roughly as it is known.

    >>> [_time(seconds) for seconds in (0.2, 14.2, 115.0, 200.0, 9000.0, 4e5)]
    ['1 s', '14 s', '120 s', '3.3 min', '2.5 h', '110 h']
    """
    if seconds < 120:
        return f"{_two_digits(max(seconds, 1))} s"
    return f"{_two_digits(seconds / 60)} min" if seconds < 7200 else f"{_two_digits(seconds / 3600)} h"


def _two_digits(number: float) -> str:
    return f"{float(f'{number:.2g}'):g}"
