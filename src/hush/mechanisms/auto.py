"""auto: plan with every mechanism that fits the workload and the budget; take the least predicted error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from hush.errors import HushError
from hush.mechanisms.direct import Direct
from hush.mechanisms.hdmm import HDMM
from hush.mechanisms.matrix import Matrix
from hush.mechanisms.mechanism import Mechanism
from hush.mechanisms.plan import Plan, Ranked
from hush.mechanisms.residual import Residual
from hush.privacy.budget import Budget
from hush.privacy.sensitivity import Neighbours
from hush.strategies.noise_allocation import Loss, MaxVariance, SumOfVariances, loss_of
from hush.workloads import Workload

if TYPE_CHECKING:
    from hush.mechanisms.session import Session

NAME = "auto"
LARGEST_MATRIX = 1024  # cells up to which an explicit strategy is tried unasked
MOST_TERMS = 1000  # terms up to which HDMM is tried unasked
MOST_QUICK_TERMS, MOST_QUICK_LEVELS = 60, 300
TIE = 1e-3  # the first of the list wins unless another is better by this much


@dataclass(frozen=True)
class Auto(Mechanism):
    """Compares residual, matrix, hdmm and direct noise by predicted error; the plan's `ranking` says how each did."""

    name: ClassVar[str] = NAME
    description: ClassVar[str] = "the one of residual, hdmm, matrix and direct that predicts the least error"
    workload_aware: ClassVar[bool] = True
    synthetic: ClassVar[bool] = False
    noise_words: ClassVar[str] = "Gaussian or Laplace"
    errors_known: ClassVar[str] = "all, known beforehand"
    adaptive: ClassVar[bool] = False

    loss: str | Loss = "rmse"

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
        options: dict[str, Any] = {"neighbours": neighbours, "max_rows_per_unit": max_rows_per_unit}
        loss = loss_of(self.loss)
        plans: list[tuple[str, Plan]] = []
        left_out: list[Ranked] = []
        problem: HushError | None = None
        for name, reason, make_plan in _candidates(workload, budget, self.loss, options):
            if reason:
                left_out.append(Ranked(name, None, reason))
                continue
            try:
                plan = make_plan()
                _error(plan, loss)  # raises if the budget does not allow the noise
                plans.append((name, plan))
            except HushError as error:
                problem = problem or error
                left_out.append(Ranked(name, None, str(error)))
        if not plans:
            raise problem or HushError("no mechanism fits the workload")
        best = plans[0][1]
        for _, plan in plans[1:]:
            if _error(plan, loss) < _error(best, loss) * (1 - TIE):
                best = plan
        ranked = sorted((Ranked(name, plan.rmse) for name, plan in plans), key=lambda entry: entry.rmse or math.inf)
        best.ranking = (*ranked, *left_out, *_with_laplace(workload, budget, loss, options))
        return best


def _candidates(
    workload: Workload, budget: Budget, loss: str | Loss, options: dict[str, Any]
) -> list[tuple[str, str, Callable[[], Plan]]]:
    """Mechanisms in order of preference: the name, why it is left out (or nothing), and how to plan with it."""
    kind = loss_of(loss)
    total = isinstance(kind, SumOfVariances)
    asked = {name for term in workload for name in term.clique}
    cells = math.prod(workload.domain[name] for name in asked)
    optimal = workload.plain and not budget.pure
    skipped = "" if not optimal else "no linear mechanism with Gaussian noise beats residual on marginals"
    matrix = skipped
    if not matrix and not (total or (isinstance(kind, MaxVariance) and not budget.pure)):
        matrix = "it makes rmse or maxvar small, nothing else"
    if not matrix and cells > LARGEST_MATRIX:
        why = "which take long; name it to try" if cells <= 4096 else "above its limit of 4,096"
        matrix = f"{cells:,} cells, {why}"
    hdmm = skipped or ("" if total else "it makes rmse small, nothing else")
    if not hdmm and len(workload) > MOST_TERMS:
        hdmm = f"{len(workload):,} terms take long; name it to try"
    residual = "Gaussian noise needs a delta" if budget.pure else ""
    direct = "" if total and len(workload) <= MOST_TERMS else "it is for rmse and fewer terms"
    return [
        ("residual", residual, lambda: Residual(loss=loss).plan(workload, budget, **options)),
        ("matrix", matrix, lambda: Matrix(loss=loss).plan(workload, budget, **options)),
        ("hdmm", hdmm, lambda: HDMM().plan(workload, budget, **options)),
        ("direct", direct, lambda: Direct().plan(workload, budget, **options)),
    ]


def _with_laplace(workload: Workload, budget: Budget, loss: Loss, options: dict[str, Any]) -> list[Ranked]:
    """What pure epsilon would give if (epsilon, delta) was stated and the search is quick: often less error.

    It is never chosen unasked: ledgers count (epsilon, delta) in zCDP, where pure epsilon is expensive.
    """
    asked = {name for term in workload for name in term.clique}
    quick = len(workload) <= MOST_QUICK_TERMS and sum(workload.domain[name] for name in asked) <= MOST_QUICK_LEVELS
    if budget.pure or budget.epsilon is None or not quick or not isinstance(loss, SumOfVariances):
        return []
    try:
        plan = HDMM(noise="laplace").plan(workload, budget, **options)
        return [Ranked(f"{plan.budget} without delta", plan.rmse, "pure")]
    except HushError:
        return []


def _error(plan: Plan, loss: Loss) -> float:
    error = plan.max_variance if isinstance(loss, MaxVariance) else plan.rmse
    return math.inf if error is None else error
