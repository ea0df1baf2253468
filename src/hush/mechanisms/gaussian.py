"""gaussian: noise on every table of the workload, with the split of the budget that suits their L1 error."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hush.errors import DataError, WorkloadError, is_number, shown
from hush.mechanisms.linear import LinearMechanism, LinearPlan, LinearRelease
from hush.optimizers.opt_hdmm import direct_strategy
from hush.privacy.sensitivity import Neighbours
from hush.strategies.integer_strategies import round_strategy
from hush.strategies.linear_strategy import LinearStrategy
from hush.strategies.noise_kind import NoiseKind
from hush.strategies.term_grams import TermGrams
from hush.workloads import Workload

NAME = "gaussian"
MEAN_ABSOLUTE = math.sqrt(2 / math.pi)  # E|z| of a standard normal z


class GaussianRelease(LinearRelease):
    """Noisy answers to the workload's own tables."""

    mechanism = NAME


class GaussianPlan(LinearPlan):
    """Noise on the workload's own tables, for a budget."""

    mechanism = NAME
    release_class = GaussianRelease

    def workload_error(self, total: float) -> float:
        """The expected workload error (1 / (k N)) sum_i c_i ||M_i(D) - y_i||_1 for a table of N = `total` rows.

        It is (1 / (k N)) sum_i c_i sqrt(2/pi) n_i sigma_i, known before anything is measured.

        Reference: [AIM, Def. 2 and Thm 5].
        """
        if not (is_number(total) and total > 0):
            raise DataError(f"total={shown(total)}: expected a number of rows above 0")
        terms = self.workload.terms
        sizes = np.array([term.weight * term.queries for term in terms])
        return float(MEAN_ABSOLUTE * (sizes * np.sqrt(self.term_variances)).sum() / (len(terms) * total))


@dataclass(frozen=True)
class Gaussian(LinearMechanism[GaussianPlan]):
    """Measures every table of the workload by itself, the table i of n_i cells with rho_i ~ (c_i n_i)^(2/3).

    Of all splits of the budget this makes sum_i c_i n_i sigma_i smallest, the expected L1 error; `Direct` makes the
    squared error smallest. Tables are not made to agree; one inside another is answered from that with less noise.

    Privacy: rho-zCDP of the budget, the sum of all rho_i.
    Reference: [PrivSyn, sec. 3.3] for the split; [AIM, sec. 4.1] for the yardstick.

    >>> import hush
    >>> workload = hush.Workload.marginals(hush.Domain({"a": 16, "b": 2}), [("a",), ("b",)])
    >>> plan = hush.plan(workload, hush.Budget(rho=0.5), mechanism=Gaussian())
    >>> [round(float(own), 2) for own in plan.term_variances]  # shares of 4 / 5 and 1 / 5
    [1.25, 5.0]
    """

    plan_class = GaussianPlan
    noise = "gaussian"

    def _select(self, workload: Workload, noise: NoiseKind, budget: Fraction, neighbours: Neighbours) -> LinearStrategy:
        if not workload.plain:
            raise WorkloadError(
                f"mechanism={NAME!r} is for workloads of marginals, and this one asks other queries; use 'direct' for "
                "noise on those, 'hdmm' or 'residual' for less of it"
            )
        strategy = direct_strategy(TermGrams.of(workload), noise)
        weights = np.array(
            [sum(workload.terms[index].weight for index in product.terms) for product in strategy.products]
        )
        cells = np.array([float(workload.domain.size(product.clique)) for product in strategy.products])
        shares = np.exp(2 / 3 * (np.log(weights) + np.log(cells)))
        shares /= shares.sum()
        products = tuple(
            replace(product, share=float(own)) for product, own in zip(strategy.products, shares, strict=True)
        )
        split = replace(strategy, products=products, error=float((weights * cells / shares).sum()))
        return round_strategy(split, budget=budget, neighbours=neighbours)
