"""Session: one run of an adaptive mechanism, which asks the table only through the gate and within one account."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hush.arrays import Floats
from hush.constraints import Constraint
from hush.domain import Clique, Domain
from hush.graphical.fitting import fit_model
from hush.graphical.graphical_model import GraphicalModel
from hush.privacy.account import Allowance
from hush.privacy.gate import Gate, LinearQuery, MarginalQuery, Request, Scorer
from hush.privacy.measurement import Measurement
from hush.privacy.noise import SMALLEST_SCALE, DiscreteGaussian
from hush.privacy.selection import ExponentialMechanism, Scores
from hush.privacy.sensitivity import ONE_CELL, Sensitivity, sensitivity
from hush.release.rounds import LEAST_STDDEV, Round, Scored
from hush.solution import Solution
from hush.strategies.rare_levels import MergedQuery, Merging, merge_rare

Watch = Callable[[Round | None, float], None]


class Session:
    """What a mechanism may do in one run: ask what is left, measure tables, choose among candidates.

    `noisy_tables`, `rounds` and `scored` are the record, from which a release is made whenever the run ends or is
    stopped. Costs are shares of zCDP; there is no other count of what was spent than the account's.

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
        noisy_tables: Iterable[Measurement] = (),
        rounds: Iterable[Round] = (),
        private: bool = True,
        watch: Watch | None = None,
    ) -> None:
        self._gate = gate
        self._account = account
        self._watch = watch
        self.domain = domain
        self.constraints = tuple(constraints)
        self.noisy_tables = list(noisy_tables)
        self.rounds = list(rounds)
        self._private_before = private  # whether every noisy value of a resumed run was
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
    def private(self) -> bool:
        """Whether every noisy value so far was, those of a resumed run among them."""
        return self._private_before and self._gate.private

    @property
    def measurements(self) -> list[Measurement]:
        """All noisy tables so far, as evidence for a model."""
        return [table.floored(LEAST_STDDEV) for table in self.noisy_tables]

    @property
    def cliques(self) -> list[Clique]:
        """The cliques of a model of all that was measured, those of constraints among them."""
        return [*(table.clique for table in self.noisy_tables), *(rule.clique for rule in self.constraints)]

    def law(self, rho: Fraction) -> DiscreteGaussian:
        """The noise of a table that is measured at a cost; never less than the least noise there is."""
        return DiscreteGaussian.for_rho(min(rho, self.bound.l2_squared / (2 * SMALLEST_SCALE**2)), self.bound)

    def measure(self, cliques: Sequence[Clique], rho: Fraction | Sequence[Fraction], *, note: str) -> list[Measurement]:
        """Noisy tables over some cliques, each at the cost `rho` or at its own; charged together, before the first."""
        shares = [rho] * len(cliques) if isinstance(rho, Fraction) else rho
        paired = zip(cliques, shares, strict=True)
        requests = [Request(self._query(clique), self.law(share)) for clique, share in paired]
        before = len(self.noisy_tables)
        for table in self._gate.measure(requests, note=note):
            self.noisy_tables.append(table)
        self.tell(None)
        return self.noisy_tables[before:]

    def merge_rare(self) -> None:
        """Count rare levels together from here on, by the first noisy table of every column; see `merge_rare`."""
        first: dict[Clique, Measurement] = {}
        for table in self.noisy_tables:
            if len(table.clique) == 1 and not isinstance(table.asked, MergedQuery):
                first.setdefault(table.clique, table)
        self.merging = merge_rare((clique[0], table.values, table.stddev) for clique, table in first.items())

    def merged(self, tables: Mapping[Clique, Floats]) -> dict[Clique, Floats]:
        """Tables of a model as they would be measured: with merged levels, where there are some."""
        return {own: table if self.merging is None else self.merging.table(own, table) for own, table in tables.items()}

    def cells(self, clique: Clique) -> int:
        """How many numbers a table over a clique has, as it would be measured."""
        sizes = self.domain.sizes(clique)
        return math.prod(sizes if self.merging is None else self.merging.sizes(clique, sizes))

    def _query(self, clique: Clique) -> LinearQuery:
        if self.merging is None or not self.merging.touches(clique):
            return MarginalQuery(clique)
        return MergedQuery(clique, self.domain.sizes(clique), self.merging)

    def select(self, scorer: Scorer[Scores], rho: Fraction, *, note: str) -> tuple[int, ExponentialMechanism]:
        """A private choice among the candidates of a scorer, at a cost, and the law that it was drawn from."""
        law = ExponentialMechanism.for_rho(rho)
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
