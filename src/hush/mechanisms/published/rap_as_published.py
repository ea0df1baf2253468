"""RAP as published: rounds that choose and measure K single answers, and rows that are projected to all answers so far.

Every round of T spends an equal share, half of it on the choice. K answers are chosen at once by their noisy errors, or
one after the other, which is the same law at the same cost. Answers that were measured before are left out by name.

Privacy: as RAP; see `hush.mechanisms.rap`. A choice of K answers with rho_t / 2 has Gumbel noise of scale
sqrt(K / rho_t) on counts; the document prints sqrt(K / (2 rho_t)), which would spend 1.5 rho_t.
Reference: [Avent 2023, Alg. 4.1 to 4.4].
Differs from [Avent 2023]: neighbours may add or remove a row, so a hundredth of the budget measures the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np

from hush.core.domain import Clique, Domain
from hush.core.errors import WorkloadError
from hush.mechanisms.candidates import MODEL_COUNT_STEP, TargetScorer, threshold_answers
from hush.mechanisms.session import Session
from hush.models.relaxed.projected_rows import fit_projected
from hush.models.relaxed.relaxed_rows import RelaxedRows
from hush.privacy.account import used_up
from hush.privacy.selection import ExponentialMechanism, TopK
from hush.release.record import Round
from hush.release.release import Release
from hush.workloads.threshold_term import TargetQuery

PUBLISHED_ROUNDS, PUBLISHED_QUERIES = 16, 4  # T and K of the document's comparison of resources
TOTAL_SHARE = Fraction(1, 100)
MOST_ANSWERS_AT_ONCE = 1 << 12
Asked = tuple[tuple[Clique, int], ...]


class PublishedSettings(Protocol):
    """The settings of RAP that the published form has."""

    @property
    def measure(self) -> str: ...
    @property
    def rounds(self) -> int | None: ...
    @property
    def queries(self) -> int | None: ...
    @property
    def rows(self) -> int: ...
    @property
    def selection(self) -> str: ...
    @property
    def distance(self) -> str: ...
    @property
    def seed(self) -> int: ...


def answers_of(domain: Domain, asked: Asked) -> int:
    """m: the number of answers that are asked for."""
    return sum(domain.size(clique) for clique, _ in asked)


def check_at_once(domain: Domain, asked: Asked) -> None:
    """Refuse the non-adaptive form for more answers than can be measured one by one."""
    if (count := answers_of(domain, asked)) > MOST_ANSWERS_AT_ONCE:
        raise WorkloadError(
            f"measure='all' as published measures {count:,} answers one by one, more than {MOST_ANSWERS_AT_ONCE:,}; "
            "leave paper out, which measures whole tables at the price of one answer"
        )


def run_as_published(settings: PublishedSettings, session: Session, asked: Asked) -> None:
    """All rounds, or those that an interrupted run has left."""
    domain = session.domain
    if not any(table.clique == () for table in session.noisy_tables):
        share = min(TOTAL_SHARE * session.limit, session.remaining) if asked else session.remaining
        session.measure([()], share, note="rap: number of rows")
    count = settings.queries or PUBLISHED_QUERIES
    rounds = settings.rounds or PUBLISHED_ROUNDS
    model = _fit(settings, session, None)
    if settings.measure == "all" and asked and not used_up(session.remaining, session.limit):
        every = [(clique, least, np.ndindex(*domain.sizes(clique))) for clique, least in asked]
        queries = [TargetQuery(c, domain.sizes(c), target, least) for c, least, targets in every for target in targets]
        session.measure(queries, session.remaining / len(queries), note=f"rap: {len(queries)} answers")
        model = _fit(settings, session, None)
    while not used_up(session.remaining, session.limit):
        if not asked:
            session.measure([()], session.remaining, note="rap: number of rows")
            continue
        number = len(session.record.rounds) // count
        left = max(rounds - number, 1)
        _round(settings, session, asked, model, session.remaining / left, number + 1, last=left == 1)
        model = _fit(settings, session, model)


class RoundFit(NamedTuple):
    """The rows after a round, and their distance from the noisy answers at every step that led to them."""

    rows: RelaxedRows
    distances: list[float]


def replayed_fits(settings: PublishedSettings, release: Release, asked: Asked) -> Iterator[RoundFit]:
    """The fits of a release, made again from its noisy answers: the start of the rows, then each round."""
    total, *answers = release.measurements()
    every = answers_of(release.domain, asked)
    each = every if settings.measure == "all" else settings.queries or PUBLISHED_QUERIES
    rows: RelaxedRows | None = None
    fitted, stop = -1, 0
    while fitted < len(answers):
        steps: dict[int, float] = {}
        fitted = min(stop, len(answers))
        noisy = [total, *answers[:fitted]]
        rows = fit_projected(release.domain, noisy, start=rows, trace=steps.__setitem__, **_fit_options(settings)).value
        yield RoundFit(rows, list(steps.values()))
        # A round chooses among answers that no round measured, or among all once there are none.
        stop += max(min(each, every - stop if stop < every else every), 1)


def _fit_options(settings: PublishedSettings) -> dict[str, Any]:
    return {"rows": settings.rows, "distance": settings.distance, "seed": settings.seed}


def _fit(settings: PublishedSettings, session: Session, start: RelaxedRows | None) -> RelaxedRows:
    return session.fit_with(fit_projected, start=start, **_fit_options(settings)).value


def _round(
    settings: PublishedSettings,
    session: Session,
    asked: Asked,
    model: RelaxedRows,
    share: Fraction,
    number: int,
    *,
    last: bool,
) -> None:
    """Choose K answers with half of the share, measure them with the rest, and record them."""
    domain, kept = session.domain, dict(zip(session.domain, session.domain.shape, strict=True))
    answers = []
    for clique, at_least in asked:
        predicted = threshold_answers(model.counts(clique), at_least)
        answers.append(np.rint(predicted / MODEL_COUNT_STEP) * MODEL_COUNT_STEP)
    flat = np.concatenate([table.ravel() for table in answers])
    measured = _measured(session, asked)
    count = min(settings.queries or PUBLISHED_QUERIES, answers_of(domain, asked) - len(measured))
    choosing = share / 2
    epsilon = ExponentialMechanism.for_rho(session.choice_rho(choosing, count)).epsilon
    # K at once, or K times one; both leave out what was chosen before.
    at_once = count if settings.selection == "one-shot" else 1
    law = TopK(at_once, epsilon)
    chosen: list[TargetQuery] = []
    expected: list[float] = []  # by the rows before this round
    for pick in range(count // at_once):
        scorer = TargetScorer(asked, tuple(answers), kept, tuple(sorted(measured)))
        positions = scorer.positions()
        for choice in session.gate.select(scorer, law, note=f"rap: choice {number}.{pick + 1}"):
            measured.add(int(positions[choice]))
            expected.append(float(flat[positions[choice]]))
            clique, at_least, target = scorer.target(int(positions[choice]))
            chosen.append(TargetQuery(clique, domain.sizes(clique), target, at_least))
    measuring = session.remaining if last else share - choosing
    noisy = session.measure(chosen, measuring / count, note=f"rap: {number}")
    for answer, before in zip(noisy, expected, strict=True):
        session.ended(
            Round(
                clique=answer.clique,
                epsilon=float(law.epsilon),
                stddev=answer.stddev,
                candidates=answers_of(domain, asked) - len(measured) + count,
                misfit=abs(float(answer.values[0]) - before),
                penalty=0.0,
                weight=1.0,
                annealed=False,
                size_mb=model.size_mb,
            )
        )


def _measured(session: Session, asked: Asked) -> set[int]:
    """The positions of the answers that were measured before; none if all were, so that rounds choose anew."""
    starts, start = {}, 0
    for clique, at_least in asked:
        starts[clique, at_least] = start
        start += session.domain.size(clique)
    measured = set()
    for table in session.noisy_tables:
        query = table.asked
        if isinstance(query, TargetQuery) and (query.clique, query.at_least) in starts:
            position = int(np.ravel_multi_index(query.target, query.sizes))
            measured.add(starts[query.clique, query.at_least] + position)
    return measured if len(measured) < start else set()


def published_sizes(domain: Domain, asked: Asked) -> tuple[int, int]:
    """All answers that are scored at once, and the cells of the largest table."""
    return answers_of(domain, asked), max((math.prod(domain.sizes(clique)) for clique, _ in asked), default=1)


def counted_at_once(asked: Asked) -> Sequence[Clique]:
    """The tables that one choice counts."""
    return list(dict.fromkeys(clique for clique, _ in asked))
