"""gaussian and direct: noise on the tables or the queries that were asked, with no strategy; yardsticks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hush.errors import WorkloadError
from hush.mechanisms.mechanism import StrategyMechanism
from hush.optimizers.opt_hdmm import direct_strategy
from hush.privacy.budget import Budget
from hush.privacy.sensitivity import Neighbours
from hush.strategies.integer_strategies import round_strategy
from hush.strategies.linear_strategy import LinearStrategy
from hush.strategies.product_strategy import recovered
from hush.strategies.strategy import NoiseKind
from hush.strategies.term_table import TermGrams
from hush.workloads import Workload

NAME = "gaussian"


DIRECT = "direct"


@dataclass(frozen=True)
class Gaussian(StrategyMechanism):
    """Measures every table of the workload by itself, the table i of n_i cells with rho_i ~ (c_i n_i)^(2/3).

    This split makes sum_i c_i n_i sigma_i smallest, the expected L1 error; `Direct` makes the squared error smallest.
    Tables are not made consistent; a table inside another is answered from the one with less noise.

    Privacy: rho-zCDP of the budget, the sum of all rho_i.
    Reference: [PrivSyn, sec. 3.3] for the split; [AIM, sec. 4.1] for the baseline.

    >>> import hush
    >>> workload = hush.Workload.marginals(hush.Domain({"a": 16, "b": 2}), [("a",), ("b",)])
    >>> plan = hush.plan(workload, hush.Budget(rho=0.5), mechanism=Gaussian())
    >>> [round(float(variance), 2) for variance in plan.term_variances]  # shares of 4 / 5 and 1 / 5
    [1.25, 5.0]
    """

    name: ClassVar[str] = NAME
    description: ClassVar[str] = "every asked table, each with the share of the budget that suits it; a yardstick"
    noise_words: ClassVar[str] = "Gaussian"
    reference: ClassVar[str] = "AIM, Table 1"

    def check(self, workload: Workload, budget: Budget) -> None:
        """Refuse queries other than marginals."""
        if not workload.plain:
            raise WorkloadError(
                f"mechanism={NAME!r} is for workloads of marginals, and this one asks other queries; use 'direct' for "
                "noise on those, 'hdmm' or 'residual' for less of it"
            )

    def select(self, workload: Workload, noise: NoiseKind, cost: Fraction, neighbours: Neighbours) -> LinearStrategy:
        strategy = direct_strategy(TermGrams.of(workload), noise)
        weights = np.array(
            [sum(workload.terms[index].weight for index in product.terms) for product in strategy.products]
        )
        cells = np.array([float(workload.domain.size(product.clique)) for product in strategy.products])
        shares = np.exp(2 / 3 * (np.log(weights) + np.log(cells)))
        shares /= shares.sum()
        products = tuple(
            replace(product, share=float(share)) for product, share in zip(strategy.products, shares, strict=True)
        )
        split = replace(strategy, products=products, error=float((weights * cells / shares).sum()))
        return round_strategy(split, budget=cost, neighbours=neighbours)


@dataclass(frozen=True)
class Direct(StrategyMechanism):
    """Measures every term of the workload as it is, with the split of the budget that makes their error smallest.

    Least squares makes the answers within a term consistent, which costs nothing and lowers their error.
    `least_squares="global"` does so across terms, with the data vector over all attributes in memory.

    Reference: [Li 2013, Prop. 2.5], with the optimal split of the budget among terms.
    """

    name: ClassVar[str] = DIRECT
    description: ClassVar[str] = "the asked queries themselves; a yardstick"
    reference: ClassVar[str] = "Li 2013, Prop. 2.5"

    noise: str = "auto"
    least_squares: str = "local"

    def select(self, workload: Workload, noise: NoiseKind, cost: Fraction, neighbours: Neighbours) -> LinearStrategy:
        workload = Workload(workload.domain, workload.products)
        strategy = recovered(direct_strategy(TermGrams.of(workload), noise), self.least_squares)
        return round_strategy(strategy, budget=cost, neighbours=neighbours)
