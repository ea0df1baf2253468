"""direct: noise on the queries of the workload themselves; the yardstick that every strategy should beat."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hush.mechanisms.linear import LinearMechanism, LinearPlan, LinearRelease, recovered
from hush.optimizers.opt_hdmm import direct_strategy
from hush.privacy.sensitivity import Neighbours
from hush.strategies.integer_strategies import round_strategy
from hush.strategies.linear_strategy import LinearStrategy
from hush.strategies.noise_kind import NoiseKind
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


@dataclass(frozen=True)
class Direct(LinearMechanism[DirectPlan]):
    """Measures every term of the workload as it is, each with the share of the budget that suits its error.

    Answers within a term are made consistent by least squares, which costs nothing and lowers their error;
    `least_squares="global"` does so across terms, with the data vector over all attributes in memory.

    Reference: [Li 2013, Prop. 2.5], with the optimal split of the budget among terms.
    """

    plan_class = DirectPlan

    noise: str = "auto"
    least_squares: str = "local"

    def _select(self, workload: Workload, noise: NoiseKind, budget: Fraction, neighbours: Neighbours) -> LinearStrategy:
        strategy = recovered(direct_strategy(TermGrams.of(workload), noise), self.least_squares)
        return round_strategy(strategy, budget=budget, neighbours=neighbours)
