"""The error of a strategy as it is actually measured: rounded to integers, with exact discrete noise."""

from __future__ import annotations

import math
from fractions import Fraction

from benchmarks.published import SIGMA
from hush.core.errors import BudgetError, SizeError
from hush.mechanisms.hdmm import MOST_CELLS
from hush.strategies.integer_strategies import round_strategy
from hush.strategies.product_strategy import FloatStrategy
from hush.strategies.strategy import NoiseKind
from hush.workloads import Workload

RHO = 1 / (2 * Fraction(SIGMA) ** 2)
EPSILONS = (Fraction(1, 100), Fraction(1, 10), Fraction(1))  # smaller ones first, at which integers matter least


def measured_rmse(workload: Workload, strategy: FloatStrategy) -> float:
    """The RMSE at the budget of the references; raises HushError if the strategy is too large to measure.

    Laplace noise on integers has a smaller variance than on the real line, which would look like a gain from rounding.
    So its error is computed at a small epsilon and scaled to epsilon = 1.
    """
    if any(workload.domain.size(product.clique) > MOST_CELLS for product in strategy.products):
        raise SizeError(f"a product has more than {MOST_CELLS:.3g} cells")
    if strategy.noise is NoiseKind.GAUSSIAN:
        return round_strategy(strategy, budget=RHO).errors(workload).rmse
    for epsilon in EPSILONS:
        try:
            return round_strategy(strategy, budget=epsilon).errors(workload).rmse * float(epsilon)
        except BudgetError:
            if epsilon == EPSILONS[-1]:
                raise
    return math.nan
