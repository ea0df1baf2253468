"""TableDistances: how far many tables are from those of a model, as one noisy vector."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, cast

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique
from hush.core.errors import WorkloadError
from hush.mechanisms.candidates import LARGEST_MISFIT, on_grid
from hush.mechanisms.session import Session
from hush.models.graphical.graphical_fit import fit_model
from hush.models.graphical.graphical_model import GraphicalModel
from hush.privacy.gate import Counts, DeclaredStatistic
from hush.privacy.noise import DiscreteGaussian
from hush.privacy.sensitivity import Neighbours, Sensitivity, sensitivity
from hush.release.survey_record import Survey, SurveyRecord, survey_norms
from hush.strategies.rare_levels import Merging

UNMERGED = Merging({})
MEAN_ABSOLUTE = math.sqrt(2 / math.pi)  # E|z| of a standard normal z


@dataclass(frozen=True, eq=False)
class TableDistances(DeclaredStatistic):
    """floor ||M_r(D) - M_r(p)||_1 for every table r, with M_r(p) public; distances are cut off at 2^36.

    Tables with merged levels, if any, come after the others; which levels are merged is public.

    Privacy: one more row adds one to one cell of each M_r(D), so by the triangle inequality every distance moves by at
    most 1. So does its floor: x <= y <= x + 1 gives floor x <= floor y <= floor x + 1. Cutting off never increases a
    move. A vector of k distances has L1 sensitivity k and squared L2 sensitivity k; a row exchanged is one removed and
    one added; a unit of m rows is m such steps. The distances are exact: counts up to 2^52 are exact as floats, M_r(p)
    has multiples of 2^-10, differences below 2^43 add up exactly in any order, and larger ones are cut off.
    """

    tables: Mapping[Clique, Floats]  # M_r(p) of every table, as `on_grid` rounds them
    merged: Mapping[Clique, Floats] = field(default_factory=dict)  # the same of tables with merged levels
    merging: Merging = UNMERGED
    largest_factor: ClassVar[int] = 1 << 9  # the gate refuses more than 2^52 rows

    def __post_init__(self) -> None:
        for tables in (self.tables, self.merged):
            for clique, rounded in on_grid(tables).items():
                if not np.array_equal(tables[clique], rounded):  # NaN is refused too
                    raise WorkloadError(
                        f"the model's table over {clique!r} is off the grid of 2^-10; round it with on_grid"
                    )

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return tuple(dict.fromkeys((*self.tables, *self.merged)))

    def sensitivity(self, *, max_rows: int, neighbours: Neighbours) -> Sensitivity:
        norms = survey_norms(len(self.tables) + len(self.merged))
        return sensitivity(norms, max_rows=max_rows, neighbours=neighbours)

    def answer(self, counts: Counts) -> Integers:
        distances = np.zeros(len(self.tables) + len(self.merged), dtype=np.int64)
        asked = [(clique, counts[clique], table) for clique, table in self.tables.items()]
        asked += [(clique, self.merging.table(clique, counts[clique]), table) for clique, table in self.merged.items()]
        for index, (clique, exact, table) in enumerate(asked):
            if exact.shape != table.shape:  # a table that is broadcast would count a row several times
                raise WorkloadError(f"the model's table over {clique!r} has another shape than the counts")
            distances[index] = int(min(float(np.abs(exact - table).sum()), LARGEST_MISFIT))
        return distances


def survey_tables(
    session: Session,
    tables: Mapping[Clique, Floats],
    share: Fraction,
    name: str,
    *,
    merged: Sequence[Clique] = (),
    merging: Merging = UNMERGED,
) -> Survey:
    """Noisy distances of tables from those of a model, at a share of the budget; kept in the session's record.

    The tables over `merged` are surveyed with merged levels, too.

    Privacy: one vector with Gaussian noise, see `TableDistances`.
    """
    record = session.record
    if not isinstance(record, SurveyRecord):
        raise WorkloadError(f"{name} keeps surveys, and {type(record).__name__} cannot hold them")
    sums = {clique: merging.table(clique, tables[clique]) for clique in merged}
    asked = TableDistances(on_grid(tables), on_grid(sums), merging)
    (answer,) = session.ask([(asked, share)], note=f"{name}: survey of {len(tables) + len(sums):,} tables")
    distances, rest = np.split(answer.raw, [len(tables)])
    law, before = cast("DiscreteGaussian", answer.law), len(session.noisy_tables)
    record.surveys.append(Survey(tuple(tables), distances, law, before, merged=tuple(sums), merged_values=rest))
    session.tell(None)
    return record.surveys[-1]


@dataclass(frozen=True, slots=True, eq=False)
class PairSurvey:
    """What the noisy columns and the noisy distances say: the model of the columns, and the dependence of each pair."""

    columns: GraphicalModel
    pairs: tuple[Clique, ...]
    dependences: Floats  # (pairs,) estimates of ||M_ij(D) - M_i(D) M_j(D) / N||_1, at least 0
    stddev: float  # of the noise of a distance

    def dependence(self) -> dict[Clique, float]:
        """The dependence of each pair, the strongest first."""
        order = np.argsort(-self.dependences, kind="stable")
        return {self.pairs[index]: float(self.dependences[index]) for index in order}


def survey_pairs(session: Session, pairs: Sequence[Clique], share: Fraction, name: str) -> PairSurvey:
    """Noisy distances of all pairs from the product of their noisy columns, at a share of the budget.

    The columns' noise adds to a distance, and so does the noise s of the score. If these are unrelated, squares add up:
    dependence^2 = score^2 - s^2 - moved^2, with moved = sqrt(2/pi) sum_xy sqrt((s_x q_y)^2 + (p_x s_y)^2) for shares p
    and q of the levels. The noise s_x of a level is that of its column, and at most its fitted count.

    A run that was interrupted later has the scores on record, and asks for nothing.

    Privacy: one vector with Gaussian noise, see `TableDistances`; everything else is computed from noisy numbers.
    """
    record, domain = session.record, session.domain
    singles = [table for table in record.measurements() if len(table.clique) == 1][: len(domain)]
    columns = fit_model(domain, singles, constraints=session.constraints).value
    kept = getattr(record, "surveys", [])
    scores = kept[0] if kept else survey_tables(session, columns.many(pairs), share, name)

    # Take the noise of columns and scores out of the distances.
    noise: dict[str, Floats] = {}
    shares: dict[str, Floats] = {}
    for table in singles:
        counts = columns.counts(table.clique)
        noise[table.clique[0]] = np.minimum(table.stddev, counts)
        shares[table.clique[0]] = counts / columns.total
    moved = np.array(
        [
            MEAN_ABSOLUTE * np.hypot(np.outer(noise[a], shares[b]), np.outer(shares[a], noise[b])).sum()
            for a, b in scores.cliques
        ]
    )
    distances = np.maximum(scores.values.astype(np.float64), 0.0)
    dependences = np.sqrt(np.maximum(distances**2 - scores.law.stddev**2 - moved**2, 0.0))
    return PairSurvey(columns, scores.cliques, dependences, scores.law.stddev)
