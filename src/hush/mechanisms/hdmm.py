"""hdmm: the best strategy known for any union of products of queries, measured exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hush.errors import WorkloadError
from hush.mechanisms.linear import LinearPlan, LinearRelease, recovered
from hush.mechanisms.noise_choice import choose_noise, per_row
from hush.privacy.budget import Budget
from hush.privacy.neighbours import Neighbours
from hush.strategies.integers import round_draft
from hush.strategies.opt_hdmm import OPERATORS, opt_hdmm
from hush.strategies.p_identity import SEED
from hush.strategies.term_grams import TermGrams
from hush.workloads import Workload

NAME = "hdmm"
MOST_CELLS = 2.0**28  # that one part over several terms may measure


class HDMMRelease(LinearRelease):
    """Noisy answers to a strategy that HDMM selected."""

    mechanism = NAME


class HDMMPlan(LinearPlan):
    """A strategy that HDMM selected, for a workload and a budget."""

    mechanism = NAME
    release_class = HDMMRelease


@dataclass(frozen=True, slots=True)
class HDMM:
    """Selects among one product, a union of products and weighted marginals by predicted error.

    `noise` is "auto" (Laplace for pure epsilon, else Gaussian), "gaussian" or "laplace". `operators` limits the search.
    `least_squares="global"` combines all parts of a union, for answers that agree and smaller errors; it needs the data
    vector over all attributes in memory. `restarts` and `seed` steer the public search, not the noise.

    Reference: [HDMM].
    """

    noise: str = "auto"
    operators: Sequence[str] = OPERATORS
    least_squares: str = "local"
    restarts: int = 2
    seed: int = SEED

    def plan(
        self,
        workload: Workload,
        budget: Budget,
        *,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        max_rows_per_unit: int = 1,
    ) -> HDMMPlan:
        """The strategy of least predicted error within the budget."""
        if min(self.restarts, self.seed) < 0:
            raise WorkloadError(f"restarts={self.restarts}, seed={self.seed}: expected integers >= 0")
        kind, spent = choose_noise(self.noise, budget)
        share = per_row(kind, spent, max_rows_per_unit)
        drafts = opt_hdmm(
            TermGrams.of(workload),
            kind,
            operators=self.operators,
            cells=MOST_CELLS,
            restarts=self.restarts,
            seed=self.seed,
        )
        rounded = (
            round_draft(recovered(draft, self.least_squares), budget=share, neighbours=neighbours) for draft in drafts
        )
        able = (strategy for strategy in rounded if all(strategy.supports(term) for term in workload))
        strategy = next(able, None)
        if strategy is None:
            raise WorkloadError("no strategy that was found supports the workload; use mechanism='residual'")
        return HDMMPlan(
            strategy=strategy,
            workload=workload,
            budget=spent,
            neighbours=neighbours,
            max_rows_per_unit=max_rows_per_unit,
            loss="rmse",
        )
