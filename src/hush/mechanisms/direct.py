"""direct: noise on the queries of the workload themselves; a baseline that every strategy should beat."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from hush.mechanisms.mechanism import StrategyMechanism
from hush.optimizers.opt_hdmm import direct_strategy
from hush.privacy.sensitivity import Neighbours
from hush.strategies.integer_strategies import round_strategy
from hush.strategies.linear_strategy import LinearStrategy
from hush.strategies.product_strategy import recovered
from hush.strategies.strategy import NoiseKind
from hush.strategies.term_table import TermGrams
from hush.workloads import Workload

NAME = "direct"


@dataclass(frozen=True)
class Direct(StrategyMechanism):
    """Measures every term of the workload as it is, with the split of the budget that makes their error smallest.

    Least squares makes the answers within a term consistent, which costs nothing and lowers their error.
    `least_squares="global"` does so across terms, with the data vector over all attributes in memory.

    Reference: [Li 2013, Prop. 2.5], with the optimal split of the budget among terms.
    """

    name: ClassVar[str] = NAME
    description: ClassVar[str] = "the asked queries themselves; a yardstick"
    reference: ClassVar[str] = "Li 2013, Prop. 2.5"

    noise: str = "auto"
    least_squares: str = "local"

    def select(self, workload: Workload, noise: NoiseKind, cost: Fraction, neighbours: Neighbours) -> LinearStrategy:
        strategy = recovered(direct_strategy(TermGrams.of(workload), noise), self.least_squares)
        return round_strategy(strategy, budget=cost, neighbours=neighbours)
