"""Membership audit: release a generated table with and without one person, many times, and try to tell which is which.

The attacker knows every row but one, as the promise allows. The person sits in a cell that nobody else is in. The score
of a release is the log-likelihood ratio of its noisy answers,

    sum over noisy numbers y of log P(y - answer with) - log P(y - answer without).

What private choices give away is left out. A quarter of the runs choose the threshold, the others count how often the
test is right, so the lower bound on what was lost holds with its confidence however the threshold was found. A bound
above what the releases state is a fault.

The control repeats the audit on noise that costs several times what it is held to; the audit must catch it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.audit.findings import Finding
from hush.audit.lower_bounds import Bound, Rates, best_threshold, provable, rates_of
from hush.core.domain import Clique, Domain
from hush.core.errors import BudgetError, shown
from hush.core.rational import float_up, shown_down, shown_up
from hush.mechanisms.mechanism import Mechanism
from hush.mechanisms.plan import Plan
from hush.mechanisms.registry import mechanism_of
from hush.planning import plan as make_plan
from hush.privacy.budget import Budget
from hush.privacy.events import price
from hush.privacy.measurement import Measurement
from hush.release.accounting import contradiction
from hush.release.release import Release
from hush.schema import ROW, Schema, Unit
from hush.tables.read import read
from hush.tables.table import Table
from hush.workloads import Workload

SECTION = "Membership audit on a generated table"
DOMAIN = Domain({"age": 4, "sex": 2, "region": 3, "ill": 2})
CANARY = (3, 1, 2, 1)  # nobody else is in the last age group
PEOPLE = 200
RUNS, ADAPTIVE_RUNS = 600, 200
FEWEST_RUNS = 20
TRIALS = 3
CONTROLS = (4.0, 40.0)  # times what is just provable, until one is found
CHOOSING = 4  # every so many runs one chooses the threshold
Progress = Callable[[float], None]


def generated_table(*, canary: bool, max_rows_per_unit: int = 1) -> Table:
    """The same invented people each time, with or without the one who is looked for; public."""
    import pyarrow as pa

    i = np.arange(PEOPLE)
    codes = {"age": (i * 7 // 5) % 3, "sex": i % 2, "region": (i // 3) % 3, "ill": (i % 11 == 0).astype(np.int64)}
    extra = max_rows_per_unit if canary else 0
    columns = {name: np.append(codes[name], [code] * extra) for name, code in zip(DOMAIN, CANARY, strict=True)}
    unit = ROW if max_rows_per_unit == 1 else Unit(column="person", max_rows=max_rows_per_unit)
    ids = {} if unit is ROW else {"person": np.append(i, [PEOPLE] * extra)}
    return read(pa.table(ids | columns), Schema(Schema.from_domain(DOMAIN).columns, unit=unit))


@dataclass(frozen=True, slots=True)
class Attacker:
    """Someone who knows the exact counts of both tables, and scores releases."""

    absent: dict[Clique, Any]
    present: dict[Clique, Any]

    @classmethod
    def on(cls, absent: Table, present: Table) -> Attacker:
        """An attacker on two tables; they are generated, so their counts are public."""
        cliques = list(Workload.upto(DOMAIN, len(DOMAIN)).cliques)
        return cls(dict(absent.counts(cliques)), dict(present.counts(cliques)))

    def score(self, release: Release) -> float:
        """The larger, the more the release looks as if the person were present."""
        return sum(map(self._table_score, release.measurements()))

    def _table_score(self, table: Measurement) -> float:
        asked: Any = table.asked
        from_absent, from_present = (table.raw - asked.answer(counts) for counts in (self.absent, self.present))
        if table.noise == "laplace":
            ratio = (np.abs(from_absent) - np.abs(from_present)) * math.sqrt(2) / table.law.stddev
        else:
            ratio = (from_absent.astype(float) ** 2 - from_present.astype(float) ** 2) / (2 * table.law.stddev**2)
        return float(ratio.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What an attacker proved about the privacy that a mechanism lost, beside what its releases state.

    `stated` and `proven` are pure epsilon where `pure`, else rho of zCDP. `problem` is set if a release did not pay for
    what it holds.
    """

    mechanism: str
    budget: Budget
    runs: int
    confidence: float
    pure: bool
    stated: float
    rates: Rates
    problem: str | None = None

    @property
    def proven(self) -> float:
        """The lower bound on what was lost."""
        return _bound(pure=self.pure)(self.rates)

    @property
    def kept(self) -> bool:
        """Whether nothing was found that contradicts the statement."""
        return self.problem is None and self.proven <= self.stated

    @property
    def unit(self) -> str:
        return "epsilon" if self.pure else "rho"


class MembershipAudit:
    """The audit of one mechanism at one budget; `runs` is the number of releases of each of the two tables."""

    def __init__(
        self,
        mechanism: str | Mechanism = "residual",
        budget: Budget | None = None,
        *,
        runs: int | None = None,
        max_rows_per_unit: int = 1,
        confidence: float = 0.999,
    ) -> None:
        self.mechanism = mechanism_of(mechanism)
        self.budget = budget or Budget(rho=0.5)
        self.rows = max_rows_per_unit
        self.plan = self._planned(self.budget)
        if not self.mechanism.measures:
            raise BudgetError(
                f"mechanism={self.mechanism.name!r} measures nothing, so nothing can tell two tables apart; name "
                "another, or give --runs 0"
            )
        self.runs = runs if runs is not None else ADAPTIVE_RUNS if self.plan.adaptive else RUNS
        if isinstance(self.runs, bool) or not isinstance(self.runs, int) or self.runs < FEWEST_RUNS:
            raise BudgetError(f"runs={shown(self.runs)}: expected a whole number of at least {FEWEST_RUNS}")
        if not 0.5 <= confidence < 1:
            raise BudgetError(f"confidence={shown(confidence)}: expected a number from 0.5 to below 1, such as 0.999")
        self.confidence = confidence
        self.absent, self.present = (generated_table(canary=c, max_rows_per_unit=self.rows) for c in (False, True))
        self.attacker = Attacker.on(self.absent, self.present)
        pure = self.plan.epsilon is not None
        self.stated = float_up(self.plan.epsilon if self.plan.epsilon is not None else self.plan.rho)
        self.factor = provable(self.stated, pure=pure, runs=self._tested, confidence=confidence)
        if math.isinf(self.factor):
            raise BudgetError(
                f"runs={self.runs}: too few to prove anything about a loss of {self._text(self.stated)}; ask for more "
                "runs, or audit a smaller budget: the mechanism is the same"
            )

    @property
    def _tested(self) -> int:
        """The runs that do not choose the threshold."""
        return self.runs - len(range(0, self.runs, CHOOSING))

    def seconds(self) -> float:
        """How long the audit will take, roughly, by a few releases that are thrown away."""
        self.plan.release(self.absent)
        start = time.perf_counter()
        for _ in range(TRIALS):
            self.attacker.score(self.plan.release(self.present))
        return 4 * self.runs * (time.perf_counter() - start) / TRIALS

    def run(self, progress: Progress | None = None) -> list[Finding]:
        """Findings on the mechanism and on its control."""
        done = progress or (lambda _: None)
        result = self.attack(self.plan, lambda share: done(share / 2))
        for times in CONTROLS:
            worse = self._planned(_times(self.plan.budget, times * self.factor, pure=result.pure))
            control = self.attack(worse, lambda share: done((1 + share) / 2), stated=result.stated)
            if not control.kept:
                break
        return [self._finding(result), self._control_finding(control)]

    def attack(self, plan: Plan, progress: Progress, *, stated: float | None = None) -> Membership:
        """Release both tables many times and test half of the releases; `stated` replaces what they state."""
        scores = np.zeros((2, self.runs))
        largest, problem, pure = 0.0, None, plan.epsilon is not None
        for run in range(self.runs):
            for row, table in enumerate((self.absent, self.present)):
                release = plan.release(table)
                scores[row, run] = self.attacker.score(release)
                cost = price(release.statement.event)
                amount = cost.epsilon if pure else cost.rho
                largest = max(largest, math.inf if amount is None else float_up(amount))
                problem = problem or contradiction(release.statement, release.record)
            progress((run + 1) / self.runs)
        choosing = np.arange(self.runs) % CHOOSING == 0
        threshold = best_threshold(
            scores[1, choosing], scores[0, choosing], _bound(pure=pure), self.confidence, times=CHOOSING - 1
        )
        return Membership(
            mechanism=plan.mechanism,
            budget=plan.budget,
            runs=self.runs,
            confidence=self.confidence,
            pure=pure,
            stated=largest if stated is None else stated,
            rates=rates_of(scores[1, ~choosing], scores[0, ~choosing], threshold, self.confidence),
            problem=problem,
        )

    def _planned(self, budget: Budget) -> Plan:
        return make_plan(Workload.upto(DOMAIN, 2), budget, self.mechanism, max_rows_per_unit=self.rows)

    def _text(self, amount: float) -> str:
        return f"{'rho' if self.plan.epsilon is None else 'epsilon'}={shown_up(amount)}"

    def _finding(self, result: Membership) -> Finding:
        unit = f"units of {self.rows} rows, " if self.rows > 1 else ""
        lost = f"at least {result.unit}={shown_down(result.proven)} was lost" if result.proven else "no loss was proven"
        least = "at best" if self.plan.adaptive else "about"  # a budget that also pays for choices shows less
        detail = (
            f"{unit}{2 * self.runs:,} releases: {lost}, with {100 * result.confidence:.6g} % confidence; "
            f"{result.unit}={shown_up(result.stated)} is stated; this test detects a loss from {least} "
            f"{result.unit}={self.factor * result.stated:.2g}"
        )
        if result.problem is not None:
            detail = f"a release is not what it says: {result.problem}"
        elif not result.kept:
            detail = "MORE IS LOST THAN STATED: " + detail
        return Finding(
            section=SECTION,
            check=f"{result.mechanism}, {result.budget}",
            passed=result.kept,
            detail=detail,
            facts=_facts(result) | {"provable_factor": self.factor},
        )

    def _control_finding(self, control: Membership) -> Finding:
        found = control.proven > control.stated
        verdict = "found" if found else "NOT found, so these runs show nothing; ask for more"
        unit, noise = control.unit, float(control.budget.limit)
        detail = f"noise for {unit}={noise:.3g}, held to {unit}={shown_up(control.stated)}: at least "
        return Finding(
            section=SECTION,
            check=f"control: {control.mechanism} with too little noise",
            passed=found,
            detail=f"{detail}{unit}={shown_down(control.proven)} was lost; {verdict}",
            facts=_facts(control) | {"control": True},
        )


def _bound(*, pure: bool) -> Bound:
    return (lambda rates: rates.epsilon) if pure else (lambda rates: rates.rho)


def _times(budget: Budget, factor: float, *, pure: bool) -> Budget:
    """A budget with so many times the epsilon or the rho."""
    return Budget(epsilon=(budget.epsilon or 0.0) * factor) if pure else Budget(rho=budget.rho * factor)


def _facts(result: Membership) -> dict[str, Any]:
    return {
        "mechanism": result.mechanism,
        "budget": result.budget.to_dict(),
        "runs": result.runs,
        "confidence": result.confidence,
        "unit": result.unit,
        "stated": result.stated,
        "lower_bound": result.proven,
        "lower_bound_epsilon_at_1e-6": result.rates.epsilon_at(1e-6),
        "lower_bound_mu": result.rates.mu,
        "present_at_least": result.rates.present,
        "absent_at_most": result.rates.absent,
    }
