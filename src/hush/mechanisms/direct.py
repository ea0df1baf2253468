"""direct: noise on the queries of the workload themselves; the yardstick that every strategy should beat."""

from __future__ import annotations

from dataclasses import dataclass

from hush.mechanisms.linear import LinearPlan, LinearRelease, recovered
from hush.mechanisms.noise_choice import choose_noise, per_row
from hush.privacy.budget import Budget
from hush.privacy.neighbours import Neighbours
from hush.strategies.integers import round_draft
from hush.strategies.opt_hdmm import direct_draft
from hush.strategies.term_grams import TermGrams
from hush.workloads import Workload

NAME = "direct"


class DirectRelease(LinearRelease):
    """Noisy answers to the workload's own queries."""

    mechanism = NAME


class DirectPlan(LinearPlan):
    """Noise on the workload's own queries, for a budget."""

    mechanism = NAME
    release_class = DirectRelease


@dataclass(frozen=True, slots=True)
class Direct:
    """Measures every term of the workload as it is, each with the share of the budget that suits its error.

    Answers within a term are made consistent by least squares, which costs nothing and lowers their error;
    `least_squares="global"` does so across terms, with the data vector over all attributes in memory.

    Reference: [Li 2013, Prop. 2.5], with the optimal split of the budget among terms.
    """

    noise: str = "auto"
    least_squares: str = "local"

    def plan(
        self,
        workload: Workload,
        budget: Budget,
        *,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        max_rows_per_unit: int = 1,
    ) -> DirectPlan:
        """Every term with its share of the budget."""
        kind, spent = choose_noise(self.noise, budget)
        draft = recovered(direct_draft(TermGrams.of(workload), kind), self.least_squares)
        return DirectPlan(
            strategy=round_draft(draft, budget=per_row(kind, spent, max_rows_per_unit), neighbours=neighbours),
            workload=workload,
            budget=spent,
            neighbours=neighbours,
            max_rows_per_unit=max_rows_per_unit,
            loss="rmse",
        )
