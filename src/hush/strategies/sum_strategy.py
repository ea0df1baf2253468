"""SumStrategy: the sums of values that a plan measures besides its counts, each with the noise that its share buys.

Counts and sums have no unit in common, so no total error decides between them. Their weights split the budget. Tables
of counts share measurements and sums do not, so a sum of weight 1 gets at least a tenth of the budget. This minimum is
at most a quarter of the budget for all sums together.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import BudgetError
from hush.privacy.gate import Request
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace, Noise
from hush.privacy.sensitivity import Neighbours, RowNorms, Sensitivity, sensitivity
from hush.strategies.strategy import NoiseKind, split_exactly
from hush.workloads import Workload
from hush.workloads.sum_term import SumTerm

LEAST_SHARE, LEAST_OF_ALL = Fraction(1, 10), Fraction(1, 4)  # of the budget: for a sum of weight 1, for all sums


@dataclass(frozen=True)
class SumStrategy:
    """Sum terms, each with its law of noise; as for any strategy, `cost` is for privacy units of one row."""

    terms: tuple[SumTerm, ...]
    laws: tuple[Noise, ...]
    neighbours: Neighbours

    def __post_init__(self) -> None:
        kinds = {law.name for law in self.laws}
        if not self.terms or len(self.terms) != len(self.laws) or len(kinds) != 1:
            raise BudgetError("sums need one law of noise each, all of one kind")

    @classmethod
    def for_cost(
        cls, terms: tuple[SumTerm, ...], noise: NoiseKind, cost: Fraction, neighbours: Neighbours
    ) -> SumStrategy:
        """The noise that a cost buys, shared out in proportion to the weights."""
        weights = np.array([term.weight for term in terms])
        shares = split_exactly(weights / weights.sum() * float(cost), cost)
        laws: list[Noise] = []
        for term, share in zip(terms, shares, strict=True):
            bound = _bound(term, neighbours)
            if noise is NoiseKind.GAUSSIAN:
                laws.append(DiscreteGaussian.for_rho(share, bound))
            else:
                laws.append(DiscreteLaplace.for_epsilon(share, bound))
        return cls(terms, tuple(laws), neighbours)

    @property
    def noise(self) -> NoiseKind:
        """The kind of noise of all sums."""
        return NoiseKind(self.laws[0].name)

    @cached_property
    def cost(self) -> Fraction:
        """Rho of zCDP under Gaussian noise, epsilon under Laplace noise, for units of one row."""
        total = Fraction(0)
        for term, law in zip(self.terms, self.laws, strict=True):
            spent = law.event(_bound(term, self.neighbours)).cost
            part = spent.epsilon if self.noise is NoiseKind.LAPLACE else spent.rho
            if part is None:
                raise BudgetError(f"{term.text}: its noise has no cost that could be charged")
            total += part
        return total

    def costing(self, cost: Fraction) -> SumStrategy:
        """The same sums with the noise of another cost."""
        return self.for_cost(self.terms, self.noise, cost, self.neighbours)

    def requests(self) -> list[Request]:
        """What will be asked of the gate."""
        return [Request(term.query, law) for term, law in zip(self.terms, self.laws, strict=True)]

    def law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        """How many sums share each pair of row norms and noise law."""
        return Counter((term.query.row_norms, law) for term, law in zip(self.terms, self.laws, strict=True))

    @property
    def std_errors(self) -> Floats:
        """The standard deviation of the noise of each term's sums, in the values' own unit; of the widest level."""
        pairs = zip(self.terms, self.laws, strict=True)
        return np.array([law.stddev * term.largest_unit for term, law in pairs])


def sums_share(workload: Workload) -> Fraction:
    """The share of a budget that a workload's sums get: their share of all weights, or the minimum if that is more."""
    sums, counts = (sum(Fraction(term.weight) for term in kind) for kind in (workload.sum_terms, workload.terms))
    return max(sums / (sums + counts), min(LEAST_SHARE * sums, LEAST_OF_ALL)) if sums else Fraction(0)


def _bound(term: SumTerm, neighbours: Neighbours) -> Sensitivity:
    return sensitivity(term.query.row_norms, max_rows=1, neighbours=neighbours)
