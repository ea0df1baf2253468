"""auto: compare the mechanisms that fit the workload and the budget; take the least predicted error.

For synthetic rows it takes `scout`, whose error depends on the data and is not known beforehand.

Closed forms come first. A search starts only if it may win: no unbiased linear mechanism has an RMSE below the singular
value bound of its noise, so a search whose bound is within 5 % of the best so far is not worth its time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from hush.core.errors import HushError, WorkloadError
from hush.core.validation import check_choice, check_flag
from hush.linops import Identity, Total
from hush.mechanisms.baselines import Direct
from hush.mechanisms.hdmm import HDMM
from hush.mechanisms.matrix import LARGEST_CELLS, Matrix
from hush.mechanisms.mechanism import Mechanism, StrategyMechanism
from hush.mechanisms.plan import Plan, Progress, Ranked, choose_noise, per_row, spendable, split_sums
from hush.mechanisms.plan_errors import rmse_bound
from hush.mechanisms.residual import Residual
from hush.mechanisms.scout import Scout
from hush.privacy.budget import Budget
from hush.privacy.sensitivity import Neighbours
from hush.strategies.noise_allocation import Loss, MaxVariance, SumOfVariances, loss_of
from hush.strategies.strategy import NoiseKind
from hush.strategies.term_table import TermGrams
from hush.workloads import Workload

if TYPE_CHECKING:
    from hush.mechanisms.session import Session

LARGEST_MATRIX, LARGEST_QUICK_MATRIX = 1024, 256  # cells up to which an explicit strategy is tried unasked
MOST_TERMS, MOST_QUICK_TERMS = 1000, 150  # terms up to which HDMM is tried unasked
MOST_QUICK_LEVELS = 128  # of a column with prefix sums or ranges that HDMM designs a strategy for
TIE_MARGIN = 1e-3  # the first of the list wins unless another is better by this much
LEAST_SEARCH_GAIN = 0.05  # a search that cannot lower the RMSE by this much is not started
GOALS = ("answers", "rows")
FOR_ROWS = "taken for synthetic rows: it measures the tables that rows would otherwise get wrong"
FOR_ANSWERS = (
    "measures every asked table with a known error of {error} rows on a typical count; --goal answers (goal='answers') "
    "takes the best mechanism for answers"
)
TRIED_IF_THOROUGH = "--thorough (thorough=True) tries it"


@dataclass(frozen=True)
class Auto(Mechanism):
    """Compares residual, matrix, hdmm and direct noise by predicted error; the plan's `ranking` says how each did.

    Under (epsilon, delta) it also compares Laplace noise of that epsilon, which is a stronger promise and often more
    accurate. The best plan with the other noise is then its `alternative`. `thorough` also runs long searches, and
    those that can win little. `progress` gets the share of the mechanisms that are done.

    `goal="rows"` is for synthetic rows: `scout` measures what rows would otherwise get wrong. Under pure epsilon, which
    its Gaussian noise rules out, the mechanisms for answers are compared, and rows are drawn from what they measure.
    """

    name: ClassVar[str] = "auto"
    description: ClassVar[str] = "the best of residual, hdmm, matrix and direct for answers; scout for rows"
    workload_aware: ClassVar[bool] = True
    synthetic: ClassVar[bool] = False
    noise_words: ClassVar[str] = "Gaussian or Laplace"
    errors_known: ClassVar[str] = "all, known beforehand"
    adaptive: ClassVar[bool] = False

    loss: str | Loss = "rmse"
    thorough: bool = False
    goal: str = "answers"
    progress: Progress | None = field(default=None, compare=False, metadata={"stored": False})

    def accounted(self, budget: Budget) -> Budget:
        """The budget itself: under pure epsilon, mechanisms with Laplace noise are compared."""
        return budget

    def run(self, session: Session, plan: Plan) -> None:
        """Run the plan's own mechanism, which is never this one."""
        plan.settings.run(session, plan)

    def plan(
        self,
        workload: Workload,
        budget: Budget,
        *,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        max_rows_per_unit: int = 1,
    ) -> Plan:
        """The plan of least predicted error; reads no data, so comparing several costs no privacy."""
        check_flag(WorkloadError, "thorough", self.thorough)
        check_choice(WorkloadError, "goal", self.goal, GOALS)
        options: dict[str, Any] = {"neighbours": neighbours, "max_rows_per_unit": max_rows_per_unit}
        loss = loss_of(self.loss)
        if self.goal == "rows" and not budget.pure:
            for_rows = Scout().plan(workload, budget, **options)
            try:
                error = Residual(loss=self.loss).plan(workload, budget, **options).rmse
                instead = FOR_ANSWERS.format(error=f"{error:,.3g}")
            except HushError as refusal:
                instead = str(refusal)
            for_rows.ranking = (Ranked("scout", None, FOR_ROWS), Ranked("residual", None, instead))
            return for_rows
        plans: list[tuple[PlanCandidate, Plan]] = []
        left_out: list[Ranked] = []
        problem: HushError | None = None
        candidates = plan_candidates(workload, budget, self.loss, thorough=self.thorough)
        # Plan with every candidate, but for searches that cannot win.
        for done, candidate in enumerate(candidates):
            if self.progress is not None:
                self.progress(done / len(candidates))
            best = min((_error(plan, loss) for _, plan in plans), default=math.inf)
            reason = candidate.reason or self._cannot_win(candidate, workload, budget, best, options)
            if reason:
                skipped = reason.endswith(TRIED_IF_THOROUGH)
                left_out.append(Ranked(candidate.name, None, reason, skipped=skipped))
                continue
            try:
                plan = candidate.settings.plan(workload, budget, **options).stated_as(budget)
                _error(plan, loss)  # raises if the budget does not allow the noise
                plans.append((candidate, plan))
            except HushError as error:
                problem = problem or error
                left_out.append(Ranked(candidate.name, None, str(error)))
        # Take the best; rank the others, and keep the best plan with the other kind of noise.
        if not plans:
            raise problem or HushError("no mechanism fits the workload")
        best_plan = _least(plans, loss)
        noise = best_plan.strategy.noise if best_plan.strategy is not None else None
        others = [pair for pair in plans if pair[0].noise is not noise]
        best_plan.alternative = _least(others, loss) if others else None
        ranked = sorted((Ranked(c.name, plan.rmse) for c, plan in plans), key=lambda entry: entry.rmse or math.inf)
        best_plan.ranking = (*ranked, *left_out)
        return best_plan

    def _cannot_win(
        self, candidate: PlanCandidate, workload: Workload, budget: Budget, best: float, options: dict[str, Any]
    ) -> str:
        """Why a search is not worth its time; nothing if it may be."""
        if self.thorough or not candidate.searches or math.isinf(best) or isinstance(loss_of(self.loss), MaxVariance):
            return ""
        kind, spent = choose_noise(candidate.noise.value, budget)
        rows, neighbours = options["max_rows_per_unit"], options["neighbours"]
        counts, _ = split_sums(workload, spendable(spent, adaptive=False), kind, neighbours, rows)
        bound = rmse_bound(workload, kind, per_row(kind, counts, rows), neighbours)
        if bound is None or bound[0] < best * (1 - LEAST_SEARCH_GAIN):
            return ""
        gain = max(1 - bound[0] / best, 0.0)
        win = "no better" if gain < 5e-4 else f"at most {math.ceil(gain * 1000) / 10:g} % better"
        return f"{win}; {TRIED_IF_THOROUGH}"


@dataclass(frozen=True)
class PlanCandidate:
    """A mechanism to compare: its name, its noise, why it is left out if it is, and whether it searches."""

    name: str
    noise: NoiseKind
    settings: StrategyMechanism
    reason: str = ""
    searches: bool = False


def plan_candidates(workload: Workload, budget: Budget, loss: str | Loss, *, thorough: bool) -> list[PlanCandidate]:
    """Mechanisms in order of preference, closed forms first; under (epsilon, delta) with both kinds of noise."""
    kind = loss_of(loss)
    total = isinstance(kind, SumOfVariances)
    direct = "" if total and len(workload) <= MOST_TERMS else "it is for rmse and fewer terms"
    # Gaussian noise, for which residual is the best on marginals and thresholds.
    noise = NoiseKind.GAUSSIAN
    if budget.pure:
        closed = [PlanCandidate("residual", noise, Residual(loss=loss), "Gaussian noise needs a delta")]
        searches = []
    else:
        best = ""
        if workload.symmetric:
            kinds = "marginals" if workload.plain else "marginals and thresholds"
            best = f"no linear mechanism with Gaussian noise beats residual on {kinds}"
        bad_loss = not (total or isinstance(kind, MaxVariance))
        matrix = best or _matrix_reason(workload, bad_loss=bad_loss, thorough=thorough)
        hdmm = best or _hdmm_reason(workload, total=total, thorough=thorough)
        closed = [
            PlanCandidate("residual", noise, Residual(loss=loss)),
            PlanCandidate("direct", noise, Direct(noise="gaussian"), direct),
        ]
        searches = [
            PlanCandidate("matrix", noise, Matrix(noise="gaussian", loss=loss), matrix, searches=True),
            PlanCandidate("hdmm", noise, HDMM(noise="gaussian", quick=not thorough), hdmm, searches=True),
        ]
    if budget.epsilon is None or not (total or budget.pure):
        return [*closed, *searches]
    # Laplace noise, under any epsilon.
    noise, suffix = NoiseKind.LAPLACE, "" if budget.pure else " with Laplace noise"
    matrix = _matrix_reason(workload, bad_loss=not total, thorough=thorough)
    hdmm = _hdmm_reason(workload, total=total, thorough=thorough)
    laplace = [
        PlanCandidate(f"direct{suffix}", noise, Direct(noise="laplace"), direct),
        PlanCandidate(f"hdmm{suffix}", noise, HDMM(noise="laplace", quick=not thorough), hdmm, searches=True),
        PlanCandidate(f"matrix{suffix}", noise, Matrix(noise="laplace", loss=loss), matrix, searches=True),
    ]
    return [*closed, *laplace, *searches]


def _matrix_reason(workload: Workload, *, bad_loss: bool, thorough: bool) -> str:
    """Why an explicit strategy is left out; nothing if it is not."""
    if bad_loss:
        return "it makes rmse or maxvar small, nothing else"
    cells = math.prod(workload.domain[name] for name in {name for term in workload for name in term.clique})
    if cells > LARGEST_CELLS:
        return f"{cells:,} cells, above its limit of {LARGEST_CELLS:,}"
    if cells > LARGEST_MATRIX:
        return f"{cells:,} cells, which take long; name it to try"
    if cells > LARGEST_QUICK_MATRIX and not thorough:
        return f"{cells:,} cells take long; {TRIED_IF_THOROUGH}"
    return ""


def _hdmm_reason(workload: Workload, *, total: bool, thorough: bool) -> str:
    """Why HDMM is left out; nothing if it is not."""
    if not total:
        return "it makes rmse small, nothing else"
    if not workload.factorises:
        return "it is for products of query blocks and thresholds"
    if len(workload) > MOST_TERMS:
        return f"{len(workload):,} terms take long; name it to try"
    if thorough:
        return ""
    if len(workload) > MOST_QUICK_TERMS:
        return f"{len(workload):,} terms take long; {TRIED_IF_THOROUGH}"
    grams = TermGrams.of(workload)
    designed = [
        block.shape[1]
        for axis in grams.asked
        for block in grams.blocks[axis]
        if not isinstance(block, Identity | Total)
    ]
    if max(designed, default=0) > MOST_QUICK_LEVELS:
        return f"queries other than levels on a column of {max(designed):,} levels take long; {TRIED_IF_THOROUGH}"
    return ""


def _least(plans: list[tuple[PlanCandidate, Plan]], loss: Loss) -> Plan:
    """The plan of least error; of those within a tie, the first."""
    best = plans[0][1]
    for _, plan in plans[1:]:
        if _error(plan, loss) < _error(best, loss) * (1 - TIE_MARGIN):
            best = plan
    return best


def _error(plan: Plan, loss: Loss) -> float:
    error = plan.max_variance if isinstance(loss, MaxVariance) else plan.rmse
    return math.inf if error is None else error
