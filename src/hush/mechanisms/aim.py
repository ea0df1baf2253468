"""aim: chooses, round by round, the table that the model so far answers worst, measures it and fits again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from hush.domain import Clique
from hush.errors import BudgetError, SizeError, WorkloadError, is_number, shown
from hush.graphical.model import GraphicalModel
from hush.graphical.model_size import sizes_with
from hush.graphical.program import with_domain
from hush.graphical.stopping import TOLERANCE
from hush.mechanisms import aim_outlook
from hush.mechanisms.adaptive import AdaptiveMechanism, AdaptivePlan, check_capacity
from hush.mechanisms.candidates import Candidates
from hush.mechanisms.last_scores import LastScores
from hush.mechanisms.misfit_scorer import MisfitScorer, on_grid
from hush.mechanisms.session import Session
from hush.privacy.account import used_up
from hush.privacy.budget import Budget
from hush.release.measured import MeasuredRelease
from hush.release.rounds import Round
from hush.schema import Schema
from hush.workloads import Workload

Floats = np.ndarray[Any, np.dtype[np.float64]]
NAME = "aim"
ROUNDS_PER_COLUMN = 16  # T = 16 d
MEAN_ABSOLUTE = math.sqrt(2 / math.pi)  # E|z| of a standard normal z
PRESETS = {"fast": 4.0, "balanced": 16.0, "best": 80.0}
CELL_MB = 8e-6


class AIMRelease(MeasuredRelease):
    """Noisy tables chosen by AIM, and the model of them."""

    mechanism = NAME


@dataclass(frozen=True, kw_only=True)
class AIM(AdaptiveMechanism):
    """An adaptive and iterative mechanism: every round chooses, measures and fits, within a limit on the model's size.

    Starts from noisy one-way tables. In each round the candidates are all subsets of the workload's tables that keep
    the model within the share of `max_size_mb` that the budget spent allows; one is chosen by the exponential
    mechanism with the score w_r (||M_r(D) - M_r(p)||_1 - sqrt(2/pi) sigma n_r), w_r = sum_s c_s |r and s|. Where a
    round taught less than its noise, the next ones get four times the budget. The last round spends what is left.

    `share` of every round goes to measuring, the rest to choosing; `rounds` is T, the number of rounds that the first
    shares are made for. `paper=True` is the document's own form.

    Privacy: rho-zCDP of the budget, by the account's filter; candidates depend on noisy values alone.
    Reference: [AIM, Alg. 1-3]. Differs from [AIM]: the check for a last round is made before the first round too, for
    with T = d and few columns the printed loop overspends; weights of the fit are 1/sigma^2, as the likelihood has it.
    """

    name: ClassVar[str] = NAME

    preset: str = "balanced"
    max_size_mb: float | None = None
    share: float = 0.9
    rounds: int | None = None
    paper: bool = False
    tolerance: float = 0.1  # of the fits between rounds
    warm: bool = False
    merge_rare: bool = False  # whether levels that seem rarer than their noise are counted together after the columns

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise WorkloadError(f"preset={shown(self.preset)}: expected one of {', '.join(PRESETS)}")
        if self.max_size_mb is not None and not (is_number(self.max_size_mb) and self.max_size_mb > 0):
            raise SizeError(f"max_size_mb={shown(self.max_size_mb)}: expected megabytes, a number above 0")
        if not (is_number(self.share) and 0 < self.share < 1):
            raise BudgetError(f"share={shown(self.share)}: expected a number between 0 and 1, the part for measuring")
        if not isinstance(self.merge_rare, bool):
            raise WorkloadError(f"merge_rare={shown(self.merge_rare)}: expected True or False")

    @property
    def limit_mb(self) -> float:
        """The size of the model at the end, at most."""
        return PRESETS[self.preset] if self.max_size_mb is None else float(self.max_size_mb)

    @property
    def loss(self) -> str:
        """What the model is fitted by: the likelihood, or the document's weights 1/sigma."""
        return "paper" if self.paper else "auto"

    def columns(self, workload: Workload) -> list[str]:
        """The columns that are measured by themselves first: all of them, so that rows have no made-up column.

        The document's form measures only those that the workload asks for.
        """
        asked = {name for clique in workload.cliques for name in clique}
        return [name for name in workload.domain if not self.paper or name in asked]

    def planned_rounds(self, workload: Workload) -> int:
        """T: the rounds that the first shares of the budget are made for."""
        return self.rounds or ROUNDS_PER_COLUMN * len(self.columns(workload))

    def check(self, workload: Workload, budget: Budget) -> None:
        """Refuse a T that would not leave the first tables and one round their shares, and a model too small."""
        columns, rounds = self.columns(workload), self.rounds
        least = math.ceil(Fraction(self.share) * len(columns) + 1)
        if rounds is not None and (isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < least):
            raise BudgetError(
                f"rounds={shown(rounds)}: expected a whole number of at least share * columns + 1 = {least}, so that "
                f"{len(columns)} columns and one round can be paid for; leave it out for {ROUNDS_PER_COLUMN} a column"
            )
        check_capacity(workload.domain, [(name,) for name in columns], self.limit_mb)

    def check_table(self, workload: Workload, schema: Schema) -> None:
        """Refuse a limit that the model of single columns and the schema's rules does not keep."""
        check_capacity(workload.domain, [(name,) for name in self.columns(workload)], self.limit_mb, schema)

    def describe(self, plan: AdaptivePlan) -> list[tuple[str, str]]:
        """How a run begins, among how many tables it chooses, and where it ends at the latest."""
        return aim_outlook.describe(self, plan)

    def work(self, workload: Workload) -> str:
        """Memory and time that releasing will take, roughly."""
        return aim_outlook.work(self, workload)

    def run(self, session: Session, workload: Workload) -> None:
        """All rounds, or those that are left of a run that was stopped."""
        AIMRun(self, session, workload).run()


class AIMRun:
    """The state of one run: the shares of the next round, the model, and what the last choices said."""

    def __init__(self, settings: AIM, session: Session, workload: Workload) -> None:
        self.settings = settings
        self.session = session
        self.pool = Candidates.of(workload)
        self.first = settings.columns(workload)
        rounds = settings.planned_rounds(workload)
        alpha = Fraction(settings.share)
        self.measuring = alpha * session.limit / rounds
        self.choosing = (1 - alpha) * session.limit / rounds
        for played in session.rounds:
            if played.annealed:
                self._anneal()
        self.last = LastScores(self.pool)

    def run(self) -> None:
        session, settings = self.session, self.settings
        if not session.taken:
            session.measure([(name,) for name in self.first], self.measuring, note=f"{NAME}: {len(self.first)} columns")
        if settings.merge_rare:
            session.merge_rare()
        model = session.fit(loss=settings.loss, tolerance=settings.tolerance).value
        final = used_up(session.remaining, session.limit)
        while not final:
            final = session.remaining <= 2 * (self.measuring + self.choosing)
            if final:
                alpha = Fraction(settings.share)
                self.measuring, self.choosing = alpha * session.remaining, (1 - alpha) * session.remaining
            model = self._round(model, final)
        self._finish(model)

    def _round(self, model: GraphicalModel, final: bool) -> GraphicalModel:
        session = self.session
        places = self._candidates(model)
        cliques = [self.pool.cliques[place] for place in places]
        law = session.law(self.measuring)
        penalties = self._penalties(cliques, law.stddev)
        tables = on_grid(session.merged(model.many(cliques)))
        weights = self.pool.weights[places]
        number = len(session.rounds)
        pick, choice = session.select(
            MisfitScorer(tuple(cliques), tables, weights, penalties, session.merging),
            self.choosing,
            note=f"{NAME}: choice {number + 1}",
        )
        self.last.note(number, places, tables, penalties, weights, float(choice.epsilon), float(session.bound.l1))
        cost = session.remaining if final else self.measuring
        taken = session.measure([cliques[pick]], cost, note=f"{NAME}: round {number + 1}")[0]
        fitted = session.fit(
            loss=self.settings.loss,
            start=model if self.settings.warm else None,
            tolerance=TOLERANCE if final else self.settings.tolerance,
        ).value
        after = session.merged({cliques[pick]: fitted.counts(cliques[pick])})
        moved = float(np.abs(after[cliques[pick]] - tables[cliques[pick]]).sum())
        annealed = not final and moved <= MEAN_ABSOLUTE * taken.stddev * taken.values.size
        if annealed:
            self._anneal()
        session.ended(
            Round(
                clique=cliques[pick],
                epsilon=float(choice.epsilon),
                stddev=taken.stddev,
                candidates=len(cliques),
                misfit=float(np.abs(tables[cliques[pick]] - taken.values).sum()),
                penalty=float(penalties[pick]),
                weight=float(weights[pick]),
                annealed=annealed,
                size_mb=fitted.size_mb,
            )
        )
        return fitted

    def _anneal(self) -> None:
        """Half the noise and twice the epsilon, for the rounds to come."""
        self.measuring *= 4
        self.choosing *= 4

    def _candidates(self, model: GraphicalModel) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The places of the tables that keep the model within the limit of this round.

        Tables inside a node of the model add nothing to it, so that there are always some.
        """
        session = self.session
        used = session.limit - session.remaining + self.measuring + self.choosing
        cells = max(float(used / session.limit), 0.0) * self.settings.limit_mb / CELL_MB
        tree = model.tree
        sizes = sizes_with(session.domain, session.cliques, self.pool.cliques, tree=with_domain(tree, session.domain))
        places = np.flatnonzero(np.array(sizes, dtype=np.float64) <= max(cells, tree.cells))
        return places

    def _penalties(self, cliques: Sequence[Clique], stddev: float) -> Floats:
        """sqrt(2/pi) sigma n_r: the L1 error of a noisy table."""
        return MEAN_ABSOLUTE * stddev * np.array([float(self.session.cells(own)) for own in cliques])

    def _finish(self, model: GraphicalModel) -> None:
        self.session.scored = self.last.scored(model, self.session.merging)


class AIMPlan(AdaptivePlan):
    """AIM for a workload and a budget."""

    mechanism = NAME
    made_by = AIM
    release_class = AIMRelease


AIM.plan_class = AIMPlan
