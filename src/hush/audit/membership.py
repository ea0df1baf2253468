"""Membership audit: release a generated table many times with and without one person, and try to tell which is which.

The attacker knows every row but one, as the promise allows. The person is alone in a cell. The score of a release is
the log-likelihood ratio of its noisy answers,

    sum over noisy numbers y of log P(y - answer with) - log P(y - answer without).

What private choices reveal is not scored. A quarter of the runs choose the threshold and the others count how often the
test is right, so the lower bound on the loss has its confidence however the threshold was chosen. A bound above the
stated cost is a fault.

The control repeats the audit on noise that costs several times the stated cost; the audit must detect it.
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
from hush.core.errors import BudgetError
from hush.core.rational import float_up, shown_down, shown_up
from hush.core.validation import check_number, check_whole
from hush.mechanisms.mechanism import Mechanism
from hush.mechanisms.plan import Plan
from hush.mechanisms.registry import mechanism_of
from hush.planning import plan as make_plan
from hush.privacy.budget import Budget
from hush.privacy.events import price
from hush.release.release import Release
from hush.release.statement import contradiction
from hush.schema import ROW, Schema, Unit
from hush.tables.read import read
from hush.tables.table import Table
from hush.workloads import Workload

AUDIT_DOMAIN = Domain({"age": 4, "sex": 2, "region": 3, "ill": 2})
CANARY_CODES = (3, 1, 2, 1)  # of the person; nobody else is in the last age group
GENERATED_PEOPLE = 200
RUNS, ADAPTIVE_RUNS = 600, 200  # by default
FEWEST_RUNS = 20
TIMED_RELEASES = 3
CONTROL_FACTORS = (4.0, 40.0)  # times the least provable cost, tried until the control is detected
CHOOSING_STRIDE = 4  # every fourth run chooses the threshold
AUDIT_SECTION = "Membership audit on a generated table"
Progress = Callable[[float], None]


def generated_table(*, canary: bool, max_rows_per_unit: int = 1) -> Table:
    """The same invented people each time, with or without the canary, the person whom the attack looks for; public."""
    import pyarrow as pa

    i = np.arange(GENERATED_PEOPLE)
    codes = {"age": (i * 7 // 5) % 3, "sex": i % 2, "region": (i // 3) % 3, "ill": (i % 11 == 0).astype(np.int64)}
    extra = max_rows_per_unit if canary else 0
    canary_codes = dict(zip(AUDIT_DOMAIN, CANARY_CODES, strict=True))
    columns = {name: np.append(codes[name], [code] * extra) for name, code in canary_codes.items()}
    unit = ROW if max_rows_per_unit == 1 else Unit(column="person", max_rows=max_rows_per_unit)
    ids = {} if unit is ROW else {"person": np.append(i, [GENERATED_PEOPLE] * extra)}
    return read(pa.table(ids | columns), Schema(Schema.from_domain(AUDIT_DOMAIN).columns, unit=unit))


@dataclass(frozen=True, slots=True)
class Attacker:
    """An attacker who knows the exact counts of both tables, and scores releases."""

    absent: dict[Clique, Any]
    present: dict[Clique, Any]

    @classmethod
    def on(cls, absent: Table, present: Table) -> Attacker:
        """An attacker on two tables; they are generated, so their counts are public."""
        cliques = list(Workload.upto(AUDIT_DOMAIN, len(AUDIT_DOMAIN)).cliques)
        return cls(dict(absent.counts(cliques)), dict(present.counts(cliques)))

    def score(self, release: Release) -> float:
        """The log-likelihood ratio of a release: large if the person seems to be present."""
        total = 0.0
        for table in release.measurements():
            asked: Any = table.asked
            from_absent, from_present = (table.raw - asked.answer(counts) for counts in (self.absent, self.present))
            if table.noise == "laplace":
                ratio = (np.abs(from_absent) - np.abs(from_present)) * math.sqrt(2) / table.law.stddev
            else:
                ratio = (from_absent.astype(float) ** 2 - from_present.astype(float) ** 2) / (2 * table.law.stddev**2)
            total += float(ratio.sum())
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The privacy loss that an attacker proved, and the cost that the releases state.

    `stated` and `proven` are pure epsilon if `pure`, else rho of zCDP. `problem` says how a release contradicts its own
    statement.
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
        """The lower bound on the loss."""
        return _bound(pure=self.pure)(self.rates)

    @property
    def kept(self) -> bool:
        """Whether nothing contradicts the statement."""
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
                f"mechanism={self.mechanism.name!r} measures nothing, so no attack can succeed; name another, or give "
                "--runs 0"
            )
        default = ADAPTIVE_RUNS if self.plan.adaptive else RUNS
        self.runs = check_whole(BudgetError, "runs", default if runs is None else runs, least=FEWEST_RUNS)
        self.confidence = check_number(
            BudgetError, "confidence", confidence, least=0.5, below=1, hint=", such as 0.999"
        )
        self.absent, self.present = (generated_table(canary=c, max_rows_per_unit=self.rows) for c in (False, True))
        self.attacker = Attacker.on(self.absent, self.present)
        # how large a loss these runs can prove
        pure = self.plan.epsilon is not None
        self.stated = float_up(self.plan.epsilon if self.plan.epsilon is not None else self.plan.rho)
        tested = self.runs - len(range(0, self.runs, CHOOSING_STRIDE))
        self.factor = provable(self.stated, pure=pure, runs=tested, confidence=confidence)
        if math.isinf(self.factor):
            raise BudgetError(
                f"runs={self.runs}: too few to prove anything about a loss of {'epsilon' if pure else 'rho'}="
                f"{shown_up(self.stated)}; ask for more runs, or audit a smaller budget: the mechanism is the same"
            )

    def seconds(self) -> float:
        """Roughly how long the audit will take, from a few releases that are thrown away."""
        self.plan.release(self.absent)
        start = time.perf_counter()
        for _ in range(TIMED_RELEASES):
            self.attacker.score(self.plan.release(self.present))
        return 4 * self.runs * (time.perf_counter() - start) / TIMED_RELEASES

    def run(self, progress: Progress | None = None) -> list[Finding]:
        """Findings on the mechanism and on its control."""
        report = progress or (lambda _: None)
        result = self.attack(self.plan, lambda share: report(share / 2))
        budget = self.plan.budget
        for factor in (times * self.factor for times in CONTROL_FACTORS):
            larger = (
                Budget(epsilon=(budget.epsilon or 0.0) * factor) if result.pure else Budget(rho=budget.rho * factor)
            )
            control = self.attack(self._planned(larger), lambda share: report((1 + share) / 2), stated=result.stated)
            if not control.kept:
                break
        return [self._finding(result), self._control_finding(control)]

    def attack(self, plan: Plan, progress: Progress, *, stated: float | None = None) -> Membership:
        """Release both tables many times and test most of the releases; `stated` replaces the cost that they state."""
        # release and score both tables
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
        # some runs choose the threshold, the others test it
        choosing = np.arange(self.runs) % CHOOSING_STRIDE == 0
        threshold = best_threshold(
            scores[1, choosing], scores[0, choosing], _bound(pure=pure), self.confidence, times=CHOOSING_STRIDE - 1
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
        return make_plan(Workload.upto(AUDIT_DOMAIN, 2), budget, self.mechanism, max_rows_per_unit=self.rows)

    def _finding(self, result: Membership) -> Finding:
        units = f"units of {self.rows} rows, " if self.rows > 1 else ""
        lost = f"at least {result.unit}={shown_down(result.proven)} was lost" if result.proven else "no loss was proven"
        roughly = "at best" if self.plan.adaptive else "about"  # a budget that also pays for choices shows less
        detail = (
            f"{units}{2 * self.runs:,} releases: {lost}, with {100 * result.confidence:.6g} % confidence; the releases "
            f"state {result.unit}={shown_up(result.stated)}; this test detects a loss from {roughly} "
            f"{result.unit}={self.factor * result.stated:.2g}"
        )
        if result.problem is not None:
            detail = f"a release contradicts its own statement: {result.problem}"
        elif not result.kept:
            detail = "MORE IS LOST THAN STATED: " + detail
        return Finding(
            section=AUDIT_SECTION,
            check=f"{result.mechanism}, {result.budget}",
            passed=result.kept,
            detail=detail,
            facts=_facts(result) | {"provable_factor": self.factor},
        )

    def _control_finding(self, control: Membership) -> Finding:
        detected = control.proven > control.stated
        verdict = "found" if detected else "NOT found, so these runs show nothing; ask for more"
        unit, noise = control.unit, float(control.budget.limit)
        return Finding(
            section=AUDIT_SECTION,
            check=f"control: {control.mechanism} with too little noise",
            passed=detected,
            detail=f"noise for {unit}={noise:.3g}, stated as {unit}={shown_up(control.stated)}: at least "
            f"{unit}={shown_down(control.proven)} was lost; {verdict}",
            facts=_facts(control) | {"control": True},
        )


def _bound(*, pure: bool) -> Bound:
    return (lambda rates: rates.epsilon) if pure else (lambda rates: rates.rho)


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
