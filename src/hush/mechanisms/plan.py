"""Plan: what will be measured and how accurate it will be, before any data is read; and how it is released."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hush.core.domain import Domain
from hush.core.errors import ArchiveError, BudgetError, HushError, WorkloadError
from hush.core.rational import float_down
from hush.core.validation import check_whole
from hush.files.archive import VERSIONS, ArchiveReader, write_archive
from hush.files.atomic_write import check_new
from hush.files.codec import Stored, pack, unpack
from hush.mechanisms.plan_errors import PlanErrors, released_delta_warning
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.events import ComposedEvent, Event
from hush.privacy.exact_sampling import Entropy
from hush.privacy.gate import Request
from hush.privacy.gaussian_domination import Demand
from hush.privacy.ledger import Ledger
from hush.privacy.sensitivity import Neighbours, sensitivity
from hush.privacy.total_epsilon import total_epsilon
from hush.release.record import Round
from hush.release.release import Release
from hush.release.strategy_record import strategy_inconsistency
from hush.render.progress_bar import SECONDS_BEFORE_BAR, progress_bar
from hush.strategies.strategy import NoiseKind, Strategy
from hush.strategies.strategy_files import StrategyFile, SumStrategyFile, store_strategy, sums_inconsistency
from hush.strategies.sum_strategy import SumStrategy, sums_share
from hush.workloads import Workload
from hush.workloads.sum_term import row_terms
from hush.workloads.workload_files import WorkloadFile

if TYPE_CHECKING:
    from hush.mechanisms.mechanism import Mechanism
    from hush.tables.table import Table


Progress = Callable[[float], None]
OnRound = Callable[[Round, float], None]
PLAN_KIND = "plan"
PLAN_VERSION = VERSIONS[PLAN_KIND]
NOISE_CHOICES = ("auto", *NoiseKind)
BUDGET_ROUNDING = Fraction(1, 10**9)  # the rho of an epsilon may differ in its last digits between versions
CALIBRATION_MARGIN = Fraction(1, 2**30)  # left unspent, for other machines that round differently
CALIBRATION_STEPS = 12  # of a bisection, for narrow noise
NARROW_EXCESS = Fraction(1, 500)  # what discrete noise costs beyond continuous noise, from which it counts as narrow


def choose_noise(noise: str, budget: Budget) -> tuple[NoiseKind, Budget]:
    """The kind of noise, and the budget as that noise is accounted: pure epsilon for Laplace noise.

    "auto" takes Laplace noise for pure epsilon and Gaussian noise otherwise. Laplace noise asked for under
    (epsilon, delta) is planned as pure epsilon, which is the stronger promise.
    """
    if noise not in NOISE_CHOICES:
        raise BudgetError(f"noise={noise!r}: expected one of {', '.join(NOISE_CHOICES)}")
    kind = NoiseKind(noise) if noise != "auto" else (NoiseKind.LAPLACE if budget.pure else NoiseKind.GAUSSIAN)
    if kind is NoiseKind.LAPLACE:
        if budget.epsilon is None:
            raise BudgetError(
                f"Laplace noise is accounted in pure epsilon, and the budget states {budget}; "
                "state Budget(epsilon=...), or use Gaussian noise"
            )
        return kind, Budget(epsilon=budget.epsilon)
    budget.rho  # noqa: B018 - refuses pure epsilon, with the remedy
    return kind, budget


def per_row(kind: NoiseKind, budget: Budget, max_rows_per_unit: int) -> Fraction:
    """The budget for units of one row that suits units of m rows: rho / m^2, or epsilon / m."""
    if kind is NoiseKind.LAPLACE:
        return Fraction(budget.epsilon or 0.0) / max_rows_per_unit
    return Fraction(budget.rho) / max_rows_per_unit**2


def spendable(budget: Budget, *, adaptive: bool) -> Budget:
    """A budget as mechanisms share it out: (epsilon, delta) as the mu^2/2 of Gaussian DP, which is a rho for noise."""
    if not budget.approximate:
        return budget
    return Budget(rho=float_down(budget.limit if adaptive else budget.fixed_limit))


def split_sums(
    workload: Workload,
    budget: Budget,
    kind: NoiseKind,
    neighbours: Neighbours,
    max_rows_per_unit: int,
    *,
    adaptive: bool = False,
) -> tuple[Budget, SumStrategy | None]:
    """The budget of the counts of a workload, and its sums with theirs; the whole budget and None without sums.

    `adaptive` mechanisms may leave out the counts that make means of the sums, so these are measured with the sums.
    """
    if not workload.sum_terms:
        return budget, None
    share = sums_share(workload)
    counts, sums = budget.split([1 - share, share])  # type: ignore[list-item]
    cost = per_row(kind, sums, max_rows_per_unit)
    terms = (*workload.sum_terms, *(row_terms(workload.sum_terms) if adaptive else ()))
    return counts, SumStrategy.for_cost(terms, kind, cost, neighbours)


def rows_per_unit(rows: int) -> int:
    """The number of rows that a privacy unit may have, checked."""
    return check_whole(BudgetError, "max_rows_per_unit", rows, least=1)


@dataclass(frozen=True, slots=True)
class Ranked:
    """One mechanism in a comparison: its predicted RMSE, or why it was left out.

    `skipped` says that it fits, and was not tried because it would take long or could win little.
    """

    name: str
    rmse: float | None
    reason: str = ""
    skipped: bool = False


class PlanFile(Stored):
    """The file of a plan; without a strategy, what is measured is known only during the release."""

    mechanism: str
    settings: dict[str, Any]
    loss: str
    budget: dict[str, float]
    neighbours: Neighbours
    max_rows_per_unit: int
    domain: Domain
    from_private_data: list[str]
    workload: WorkloadFile
    strategy: StrategyFile | None
    sums: SumStrategyFile | None = None


class Plan(PlanErrors):
    """A mechanism's settings for a workload and a budget; holds no data and may be published.

    `strategy` is what will be measured, with the error of every answer known. It is None if that depends on the data;
    predictions are then None, or NaN in arrays. `max_rows_per_unit` is the number of rows that one privacy unit may
    have; the table must state the same. A plan for a schema that was drafted from private data says so in its domain
    and in its file, and cannot be released. `sums` are the sums of values that are measured with their share of the
    budget; the counts get the rest.
    """

    def __init__(
        self,
        *,
        settings: Mechanism,
        strategy: Strategy | None,
        workload: Workload,
        budget: Budget,
        neighbours: Neighbours,
        max_rows_per_unit: int,
        loss: str,
        sums: SumStrategy | None = None,
    ) -> None:
        self.settings = settings
        self.strategy = strategy
        self.sums = sums
        self.workload = workload
        self.budget = budget
        self.neighbours = neighbours
        self.max_rows_per_unit = max_rows_per_unit
        self.loss = loss
        self.ranking: tuple[Ranked, ...] = ()  # the mechanisms that were compared, best first
        self.alternative: Plan | None = None  # the best plan with the other kind of noise, if both were compared
        if strategy is not None:
            strategy.check(workload)

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""
        return self.settings.name

    @property
    def adaptive(self) -> bool:
        """Whether what is measured depends on earlier noisy answers, so no error is known beforehand."""
        return self.strategy is None and self.settings.measures

    @property
    def domain(self) -> Domain:
        """The attributes and their sizes."""
        return self.workload.domain

    def requests(self) -> list[Request]:
        """The requests to the gate, as far as they are known beforehand: sums, then counts."""
        sums = [] if self.sums is None else self.sums.requests()
        return sums if self.strategy is None else [*sums, *self.strategy.requests()]

    @cached_property
    def event(self) -> ComposedEvent:
        """Everything that is measured as one event, as far as it is known beforehand."""
        events: Counter[Event] = Counter()
        for part in (self.sums, self.strategy):
            for (norms, law), count in Counter() if part is None else part.law_counts().items():
                bound = sensitivity(norms, max_rows=self.max_rows_per_unit, neighbours=self.neighbours)
                events[law.event(bound)] += count
        return ComposedEvent(tuple(events.items()))

    def calibrated(self) -> Plan:
        """The same plan with the least noise, in the same proportions, that keeps the (epsilon, delta) of its budget.

        The cost of the discrete noise in Gaussian DP, all of it together, becomes that of the budget with its whole
        delta. If the noise is narrow, privacy loss distributions allow less.
        """
        factor = min(self._allowed, Fraction(1))
        if factor > 1 - NARROW_EXCESS:
            return self if factor == 1 else self._scaled(factor)
        low, high = factor, Fraction(1)
        for _ in range(CALIBRATION_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._scaled(middle)._keeps(self.budget) else (low, middle)
        return self._scaled(low)

    def fitting(self, account: Ledger | Allowance) -> Plan:
        """This plan, or one of more noise for which an account of several charges has room; this one if none has.

        Tried are the other kind of noise, and noise that costs no more in Gaussian DP than the budget: what narrow
        noise saves by privacy loss distributions does not add up with other charges.
        """
        plans = [self] if self.alternative is None else [self, self.alternative]
        plans += [plan._scaled(plan._allowed) for plan in plans if plan._allowed < 1]
        return next((plan for plan in plans if plan.payable(account)), self)

    @property
    def _allowed(self) -> Fraction:
        """What the budget allows in Gaussian DP over what the noise costs; 1 for noise that is not Gaussian alone."""
        demand = Demand.of(self.event)
        if self.strategy is None or not self.budget.approximate or demand is None or demand.bounded:
            return Fraction(1)
        return self.budget.fixed_limit * (1 - CALIBRATION_MARGIN) / demand.gaussian

    def _scaled(self, factor: Fraction) -> Plan:
        """The same plan with noise that costs `factor` times as much in zCDP."""
        parts = {"strategy": self.strategy, "sums": self.sums}
        return self._changed(**{n: part and part.costing(part.cost * factor) for n, part in parts.items()})

    def _keeps(self, budget: Budget) -> bool:
        """Whether noise that is fixed beforehand keeps (epsilon, delta), by the tightest route."""
        epsilon = (budget.epsilon or 0.0) * (1 - float(CALIBRATION_MARGIN))
        return total_epsilon(self.event, budget.delta or 0.0).epsilon <= epsilon

    @property
    def epsilon(self) -> Fraction | None:
        """The most pure epsilon that releasing costs under Laplace noise, 0 without any; None for other noise."""
        if not self.settings.measures:
            return Fraction(0)
        if self.strategy is None:
            return self.budget.limit if self.budget.pure else None
        if self.strategy.noise is not NoiseKind.LAPLACE:
            return None
        sums = 0 if self.sums is None else self.sums.cost
        return (self.strategy.cost + sums) * self.max_rows_per_unit

    @property
    def rho(self) -> Fraction:
        """The most that releasing costs in zCDP, epsilon^2 / 2 under Laplace noise; all of the budget if adaptive.

        An adaptive release under (epsilon, delta) spends mu^2/2 of Gaussian DP, and at most that in zCDP.
        """
        if self.epsilon is not None:
            return self.epsilon**2 / 2
        if self.strategy is None:
            return self.budget.limit
        sums = 0 if self.sums is None else self.sums.cost
        return (self.strategy.cost + sums) * self.max_rows_per_unit**2

    def with_budget(self, budget: Budget) -> Plan:
        """The same strategy with the noise of another budget; nothing is optimised again."""
        neighbours, rows = self.neighbours, self.max_rows_per_unit
        if self.strategy is None:
            return self.settings.plan(self.workload, budget, neighbours=neighbours, max_rows_per_unit=rows)
        kind, spent = choose_noise(self.strategy.noise.value, budget)
        counts, sums = split_sums(self.workload, spendable(spent, adaptive=False), kind, neighbours, rows)
        strategy = self.strategy.costing(per_row(kind, counts, rows))
        plan = self._changed(strategy=strategy, budget=spent, sums=sums).calibrated()
        return plan if self.budget.pure else plan.stated_as(budget)

    def stated_as(self, budget: Budget) -> Plan:
        """The same plan under a budget that covers it: Laplace noise of epsilon also keeps (epsilon, delta)."""
        return self if budget == self.budget or not self.within(budget) else self._changed(budget=budget)

    def _changed(self, **changes: Any) -> Plan:
        """A plan with some arguments changed."""
        names = ("settings", "strategy", "workload", "budget", "neighbours", "max_rows_per_unit", "loss", "sums")
        return Plan(**{name: getattr(self, name) for name in names} | changes)

    @property
    def affordable(self) -> bool:
        """Whether the plan's own budget covers the cost."""
        return self.within(self.budget)

    def within(self, budget: Budget) -> bool:
        """Whether releasing keeps the promise of a budget, in its own notion of privacy.

        Pure epsilon-DP is also (epsilon, delta)-DP, for any delta; no amount of zCDP is pure.
        """
        most = None if budget.epsilon is None else Fraction(budget.epsilon) * (1 + BUDGET_ROUNDING)
        if self.epsilon is not None and most is not None and self.epsilon <= most:
            return True
        if budget.pure:
            return False
        if not budget.approximate or self.strategy is None:
            return self.rho <= budget.limit * (1 + BUDGET_ROUNDING)
        demand = Demand.of(self.event)
        if demand is not None and demand.cost(Fraction(0)) <= budget.fixed_limit * (1 + BUDGET_ROUNDING):
            return True
        total = total_epsilon(self.event, budget.delta or 0.0)
        return total.epsilon <= (budget.epsilon or 0.0) * (1 + float(BUDGET_ROUNDING))

    def payable(self, account: Ledger | Allowance) -> bool:
        """Whether a ledger, or the account of one release, has room for what the plan is known to measure.

        Charges nothing.
        """
        if self.strategy is None:
            return True
        try:
            account.require(self.event)
        except BudgetError:
            return False
        return True

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the plan to a new file that `hush.load` reads; `overwrite` replaces another. It holds no data."""
        check_new(path, overwrite=overwrite)
        content = PlanFile(
            mechanism=self.mechanism,
            settings=self.settings.pack_settings(),
            loss=self.loss,
            budget=self.budget.to_dict(),
            neighbours=self.neighbours,
            max_rows_per_unit=self.max_rows_per_unit,
            domain=self.domain,
            from_private_data=list(self.domain.clique(self.domain.from_private_data)),
            workload=WorkloadFile.of(self.workload),
            strategy=None if self.strategy is None else store_strategy(self.strategy),
            sums=None if self.sums is None else SumStrategyFile.of(self.sums),
        )
        manifest, arrays = pack(content)
        write_archive(path, kind=PLAN_KIND, version=PLAN_VERSION, manifest=manifest, arrays=arrays)

    @classmethod
    def unpack(cls, archive: ArchiveReader, mechanism: type[Mechanism]) -> Self:
        """The plan that `save` wrote, of a mechanism that is installed."""
        stored: PlanFile = unpack(PlanFile, archive.content, archive, "plan")
        domain = stored.domain.marked(stored.from_private_data)
        workload = stored.workload.build(domain)
        try:
            return cls(
                settings=mechanism.from_settings(stored.settings),
                strategy=None if stored.strategy is None else stored.strategy.build(domain),
                workload=workload,
                budget=Budget.from_dict(stored.budget),
                neighbours=stored.neighbours,
                max_rows_per_unit=stored.max_rows_per_unit,
                loss=stored.loss,
                sums=None if stored.sums is None else stored.sums.build(workload),
            )
        except (BudgetError, WorkloadError):
            raise ArchiveError("the file's plan contradicts itself; make it anew") from None

    def inconsistency(self) -> str | None:
        """Explain why a plan from a file cannot run; None if it can."""
        if (self.strategy is None) != (self.settings.adaptive or not self.settings.measures):
            return "its mechanism does not go with what it measures"
        try:
            rows_per_unit(self.max_rows_per_unit)
            self.settings.accounted(self.budget)
            self.settings.check(self.workload, self.budget)
        except HushError as error:
            return str(error)
        if (reason := sums_inconsistency(self.sums, self.workload, self.neighbours)) is not None:
            return reason
        if self.strategy is None:
            return None
        return strategy_inconsistency(self.strategy, self.workload, self.neighbours)

    def to_dict(self) -> dict[str, Any]:
        """What the plan asks, its errors and its cost as texts, numbers and lists, for JSON; see `save` for a file."""
        from hush.mechanisms.plan_table import plan_dict

        return plan_dict(self)

    def details(self, *, rows: int | None = None) -> str:
        """Everything known about the plan as text: every table, the comparison, the privacy.

        `rows` is the expected number of rows, a public guess: errors are then relative to a uniform table.
        """
        from hush.mechanisms.plan_table import plan_text

        return plan_text(self, rows=rows)

    def __str__(self) -> str:
        """The lines to decide by; `details` has the rest."""
        from hush.mechanisms.plan_table import plan_text

        return plan_text(self, details=False)

    def _repr_html_(self) -> str:
        from hush.mechanisms.plan_table import plan_summary

        return plan_summary(self).html()

    def plot(self, *, axes: Any = None) -> Any:
        """The standard error of every table as a matplotlib plot, least error first; of many tables, an even choice.

        Refused for adaptive plans, whose errors nobody knows beforehand.
        """
        from hush.mechanisms.plan_table import plan_plot

        return plan_plot(self, axes=axes)

    def __repr__(self) -> str:
        return f"Plan({self.mechanism}, {len(self.workload)} tables, {self.budget})"

    def release(
        self,
        table: Table,
        *,
        ledger: str | Path | Ledger | None = None,
        dataset: str = "default",
        name: str = "",
        progress: Progress | None = None,
        schema_is_public: bool = False,
        entropy: Entropy | None = None,
        resume: Release | None = None,
        on_round: OnRound | None = None,
        checkpoint: str | Path | None = None,
        on_start: Callable[[], None] | None = None,
    ) -> Release:
        """Spend the budget: check, charge, count, add noise; round by round where the plan is adaptive.

        `ledger` is a file that records every charge for good; a new one is created with this plan's budget as its cap.
        `name` is what the ledger calls this release. A schema that was drafted from private data is refused, unless
        `schema_is_public` asserts that its levels and rules are public; the release is then stamped as not private.
        `entropy` is for tests.

        For adaptive plans: `resume` is an interrupted release of this plan. Its noisy tables are paid for and kept, and
        only the rest of the budget is spent, or of the ledger if that holds charges of a killed run that the file does
        not know of. `on_round` gets every round and the share of the budget spent, public facts only. `checkpoint` is a
        file that keeps everything measured so far, rewritten after every measurement. `on_start` is called after the
        last check, before the first charge.

        A delta above one over the number of rows, as the release estimates it, is a warning.

        Privacy: the plan's budget, under its neighbours, for units of at most `max_rows_per_unit` rows.
        """
        from hush.mechanisms.release_job import ReleaseJob

        # Run the job; a bar shows up if it takes long.
        job = ReleaseJob(
            self,
            ledger=ledger,
            dataset=dataset,
            name=name,
            resume=resume,
            checkpoint=checkpoint,
            schema_is_public=schema_is_public,
            entropy=entropy,
        )
        with progress_bar("measuring", after=SECONDS_BEFORE_BAR) as shown_progress:
            release = job.run(table, progress=progress or shown_progress, on_round=on_round, on_start=on_start)
        # Warn of a large delta. Where warnings are errors, what was paid for must not be lost.
        if (warning := released_delta_warning(release)) is not None:
            try:
                warnings.warn(warning, stacklevel=2)
            except UserWarning:
                with warnings.catch_warnings():
                    warnings.simplefilter("always")
                    warnings.warn(warning, stacklevel=2)
        return release
