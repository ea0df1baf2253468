"""MergedQuery: a table of counts whose rare levels are counted together.

Session: one run of an adaptive mechanism, which asks the table only through the gate and within one account.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from hush.arrays import Floats
from hush.constraints import Constraint
from hush.domain import Clique, Domain
from hush.graphical.fitting import fit_model
from hush.graphical.graphical_model import GraphicalModel
from hush.graphical.measurement import Measurement
from hush.privacy.account import Allowance
from hush.privacy.gate import Counts, Gate, MarginalQuery, Query, Request, Scorer
from hush.privacy.noise import SMALLEST_SCALE, DiscreteGaussian
from hush.privacy.selection import ExponentialMechanism
from hush.privacy.sensitivity import ONE_CELL, RowNorms, Sensitivity, sensitivity
from hush.rare_levels import Merging, merge_rare
from hush.release.rounds import Round, Scored, Taken
from hush.solution import Solution


@dataclass(frozen=True, slots=True)
class MergedQuery:
    """The table over a clique with merged levels: each row adds one to one cell."""

    clique: Clique
    merging: Merging

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The one clique it reads."""
        return (self.clique,)

    @property
    def row_norms(self) -> RowNorms:
        """One in one cell."""
        return ONE_CELL

    def answer(self, counts: Counts) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The counts, added up over merged levels."""
        return self.merging.table(self.clique, counts[self.clique])


Watch = Callable[[Round | None, float], None]


class Session:
    """What a mechanism may do in one run: ask what is left, measure tables, choose among candidates.

    `taken`, `rounds` and `scored` are the record, from which a release is made whenever the run ends or is stopped.
    Costs are shares of zCDP; there is no other count of what was spent than the account's.

    Privacy: the account is a filter; whatever is asked, and however it was chosen, stays within its budget.
    """

    def __init__(
        self,
        gate: Gate,
        account: Allowance,
        *,
        domain: Domain,
        max_rows: int,
        constraints: Sequence[Constraint] = (),
        taken: Iterable[Taken] = (),
        rounds: Iterable[Round] = (),
        private: bool = True,
        watch: Watch | None = None,
    ) -> None:
        self._gate = gate
        self._account = account
        self._watch = watch
        self.domain = domain
        self.constraints = tuple(constraints)
        self.taken = list(taken)
        self.rounds = list(rounds)
        self.private = private  # whether every noisy value so far was, those of a resumed run among them
        self.merging: Merging | None = None  # of levels, in all tables from here on
        self.scored: Scored | None = None
        self.model: Solution[GraphicalModel] | None = None
        self.bound: Sensitivity = sensitivity(ONE_CELL, max_rows=max_rows, neighbours=gate.neighbours)

    @property
    def limit(self) -> Fraction:
        """The zCDP that the whole run may spend."""
        return self._account.budget.limit

    @property
    def remaining(self) -> Fraction:
        """The zCDP that is left."""
        return self._account.remaining

    @property
    def spent(self) -> float:
        """The share of the budget that is spent."""
        return float(1 - self.remaining / self.limit)

    @property
    def measurements(self) -> list[Measurement]:
        """All noisy tables so far, as evidence for a model."""
        return [one.measurement() for one in self.taken]

    @property
    def cliques(self) -> list[Clique]:
        """The cliques of a model of all that was measured, those of constraints among them."""
        return [*(one.clique for one in self.taken), *(one.clique for one in self.constraints)]

    def law(self, rho: Fraction) -> DiscreteGaussian:
        """The noise of a table that is measured at a cost; never less than the least noise there is."""
        return DiscreteGaussian.for_rho(min(rho, self.bound.l2_squared / (2 * SMALLEST_SCALE**2)), self.bound)

    def measure(self, cliques: Sequence[Clique], rho: Fraction | Sequence[Fraction], *, note: str) -> list[Taken]:
        """Noisy tables over some cliques, each at the cost `rho` or at its own; charged together, before the first."""
        shares = [rho] * len(cliques) if isinstance(rho, Fraction) else rho
        laws = [self.law(share) for share in shares]
        requests = [Request(self._query(own), law) for own, law in zip(cliques, laws, strict=True)]
        fresh = []
        for clique, law, answer in zip(cliques, laws, self._gate.measure(requests, note=note), strict=True):
            self.private &= answer.private
            fresh.append(Taken(clique, law.variance_parameter, answer.values, self._merging_of(clique)))
            self.taken.append(fresh[-1])
        self.tell(None)
        return fresh

    def merge_rare(self) -> None:
        """Count rare levels together from here on, by the first noisy table of every column; see `merge_rare`."""
        first: dict[Clique, Taken] = {}
        for one in self.taken:
            if len(one.clique) == 1 and one.merging is None:
                first.setdefault(one.clique, one)
        self.merging = merge_rare((clique[0], one.values, one.stddev) for clique, one in first.items())

    def merged(self, tables: Mapping[Clique, Floats]) -> dict[Clique, Floats]:
        """Tables of a model as they would be measured: with merged levels, where there are some."""
        return {own: table if self.merging is None else self.merging.table(own, table) for own, table in tables.items()}

    def cells(self, clique: Clique) -> int:
        """How many numbers a table over a clique has, as it would be measured."""
        sizes = self.domain.sizes(clique)
        return math.prod(sizes if self.merging is None else self.merging.sizes(clique, sizes))

    def _query(self, clique: Clique) -> Query:
        merging = self._merging_of(clique)
        return MarginalQuery(clique) if merging is None else MergedQuery(clique, merging)

    def _merging_of(self, clique: Clique) -> Merging | None:
        return self.merging if self.merging is not None and self.merging.touches(clique) else None

    def select(self, scorer: Scorer, rho: Fraction, *, note: str) -> tuple[int, ExponentialMechanism]:
        """A private choice among the candidates of a scorer, at a cost, and the law that it was drawn from."""
        law = ExponentialMechanism.for_rho(rho)
        self.private &= self._gate.private
        return self._gate.select(scorer, law, note=note), law

    def ended(self, played: Round) -> None:
        """Put a round on record and tell whoever watches."""
        self.rounds.append(played)
        self.tell(played)

    def tell(self, played: Round | None) -> None:
        """Tell whoever watches how much of the budget is spent; public facts only."""
        if self._watch is not None:
            self._watch(played, self.spent)

    def fit(self, *, start: GraphicalModel | None = None, **options: Any) -> Solution[GraphicalModel]:
        """The model of all noisy tables so far, within the constraints; post-processing."""
        self.model = fit_model(self.domain, self.measurements, constraints=self.constraints, start=start, **options)
        return self.model

    def restrained_fit(self, restraint: float, **options: Any) -> Solution[GraphicalModel]:
        """The model, short of where it would follow the noise of the tables more than their content; post-processing.

        The loss of the true tables is expected to be m / 2 for m noisy numbers, and the least loss L is below it by
        what only fits noise. The descent from independent columns is ended at L + restraint (m / 2 - L).

        Reference: after the discrepancy principle of [Morozov 1966], which ends it at m / 2 and so too early here.
        """
        best = self.fit(**options)
        least = best.stats["value"]
        enough = least + restraint * (0.5 * sum(one.numbers for one in self.measurements) - least)
        if enough <= least:
            return best
        found = self.fit(callback=lambda _, value, __: value <= enough, **options)
        self.model = replace(found, status=best.status, stats={**found.stats, "least": least})
        return self.model
