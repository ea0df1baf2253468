"""hdmm: the best strategy known for any union of products of queries, measured exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from hush.core.errors import WorkloadError, shown
from hush.core.validation import check_whole
from hush.mechanisms.mechanism import StrategyMechanism
from hush.optimizers.opt_hdmm import OPERATORS, opt_hdmm
from hush.optimizers.opt_plus import check_groups
from hush.optimizers.p_identity import SEARCH_SEED
from hush.privacy.budget import Budget
from hush.privacy.sensitivity import Neighbours
from hush.strategies.integer_strategies import round_strategy
from hush.strategies.linear_strategy import LinearStrategy
from hush.strategies.product_strategy import recovered
from hush.strategies.strategy import NoiseKind
from hush.strategies.term_table import TermGrams
from hush.workloads import Workload

MOST_CELLS = 2.0**28  # measured by one product over several terms


@dataclass(frozen=True)
class HDMM(StrategyMechanism):
    """Selects one product, a union of products or weighted marginals by predicted error.

    `noise` is "auto" (Laplace for pure epsilon, else Gaussian), "gaussian" or "laplace". `operators` limits the search.
    `least_squares="global"` combines all products, for answers that agree and smaller errors; it needs the data
    vector over all attributes in memory. `groups` lists the terms of the workload, by position, that each product of a
    union is for; by default the search forms the groups. `restarts` and `seed` steer the public search, not the noise;
    `quick` shortens it, at a few percent of error.

    Reference: [HDMM].
    """

    name: ClassVar[str] = "hdmm"
    description: ClassVar[str] = "the best of products, unions of products and weighted marginals that it finds"
    reference: ClassVar[str] = "HDMM"

    noise: str = "auto"
    operators: Sequence[str] = OPERATORS
    least_squares: str = "local"
    restarts: int = 2
    seed: int = SEARCH_SEED
    groups: Sequence[Sequence[int]] = ()
    quick: bool = field(default=False, metadata={"stored": False})  # what it finds is in the strategy

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "groups", tuple(tuple(group) for group in self.groups))
        except TypeError:
            raise WorkloadError(
                f"groups={shown(self.groups)}: expected lists of positions of terms, such as [[0, 1], [2]]"
            ) from None

    def check(self, workload: Workload, budget: Budget) -> None:
        """Refuse `restarts` and `seed` unless they are whole numbers, and groups that do not hold every term once."""
        for name, value in (("restarts", self.restarts), ("seed", self.seed)):
            check_whole(WorkloadError, name, value, least=0)
        if not self.groups:
            return
        for position in (position for group in self.groups for position in group):
            check_whole(WorkloadError, "groups: a position", position, least=0, most=len(workload) - 1)
        check_groups(self.groups, len(workload))
        if "plus" not in self.operators or any(term.product is None for term in workload):
            raise WorkloadError("groups are for unions of products ('plus'), over terms that are products of queries")

    def select(self, workload: Workload, noise: NoiseKind, cost: Fraction, neighbours: Neighbours) -> LinearStrategy:
        """The best strategy that still supports the workload after rounding; no unions of products for thresholds."""
        operators = self.operators
        if any(term.product is None for term in workload):  # a threshold would need several products
            operators = [name for name in operators if name != "plus"]
        strategies = opt_hdmm(
            TermGrams.of(workload),
            noise,
            operators=operators,
            cells=MOST_CELLS,
            restarts=self.restarts,
            seed=self.seed,
            quick=self.quick,
            groups=self.groups or None,
        )
        ready = (recovered(strategy, self.least_squares) for strategy in strategies)
        rounded = (round_strategy(strategy, budget=cost, neighbours=neighbours) for strategy in ready)
        able = (strategy for strategy in rounded if all(strategy.supports(term) for term in workload))
        strategy = next(able, None)
        if strategy is None:
            raise WorkloadError("the search found no strategy that supports the workload; use mechanism='residual'")
        return strategy
