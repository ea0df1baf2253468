"""gaussian, direct, independent, all-zero: noise on what was asked, on every column, or nothing at all; yardsticks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hush.core.domain import Clique
from hush.core.errors import WorkloadError
from hush.mechanisms.mechanism import MEASURED_BYTES, Mechanism, StrategyMechanism
from hush.mechanisms.plan import CALIBRATION_MARGIN, Plan
from hush.mechanisms.session import Session
from hush.models.graphical.junction_tree import JunctionTree
from hush.models.graphical.model_size import fit_bytes
from hush.optimizers.opt_hdmm import direct_strategy
from hush.privacy.budget import Budget
from hush.privacy.sensitivity import Neighbours
from hush.release.record import ZeroRecord
from hush.schema import Schema
from hush.strategies.integer_strategies import round_strategy
from hush.strategies.linear_strategy import LinearStrategy
from hush.strategies.product_strategy import recovered
from hush.strategies.residual_strategy import ResidualStrategy
from hush.strategies.select_residual import direct_residual
from hush.strategies.strategy import NoiseKind, Strategy
from hush.strategies.term_table import TermGrams
from hush.workloads import Workload


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

    name: ClassVar[str] = "gaussian"
    description: ClassVar[str] = "every asked table, each with the share of the budget that suits it; a yardstick"
    noise_words: ClassVar[str] = "Gaussian"
    reference: ClassVar[str] = "AIM, Table 1"

    def check(self, workload: Workload, budget: Budget) -> None:
        """Refuse queries other than marginals."""
        if not workload.plain:
            raise WorkloadError(
                f"mechanism={self.name!r} is for workloads of marginals, and this one asks other queries; use 'direct' "
                "for noise on those, 'hdmm' or 'residual' for less of it"
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
    `least_squares="global"` does so across terms, with the data vector over all attributes in memory. Thresholds, and
    marginals beside them, are always made consistent across terms: see `direct_residual`. They take Gaussian noise.

    Reference: [Li 2013, Prop. 2.5], with the optimal split of the budget among terms.
    """

    name: ClassVar[str] = "direct"
    description: ClassVar[str] = "the asked queries themselves, thresholds too; a yardstick"
    reference: ClassVar[str] = "Li 2013, Prop. 2.5"

    noise: str = "auto"
    least_squares: str = "local"

    def select(self, workload: Workload, noise: NoiseKind, cost: Fraction, neighbours: Neighbours) -> Strategy:
        threshold = next((term for term in workload if term.symmetric and not term.plain), None)
        if threshold is not None:
            if noise is NoiseKind.LAPLACE or not workload.symmetric:
                raise WorkloadError(
                    f"mechanism={self.name!r} measures {threshold.text} with Gaussian noise, beside marginals and "
                    "other thresholds alone; give a delta and leave other queries out, or use 'hdmm'"
                )
            return direct_residual(workload, rho=cost, neighbours=neighbours)
        workload = Workload(workload.domain, workload.products)
        strategy = recovered(direct_strategy(TermGrams.of(workload), noise), self.least_squares)
        return round_strategy(strategy, budget=cost, neighbours=neighbours)

    def claim(self, plan: Plan) -> str | None:
        """Not the claim of the residuals in which thresholds are measured: their noise is not the best."""
        return f"noise on every answer{plan.beside_bound()}" if isinstance(plan.strategy, ResidualStrategy) else None


@dataclass(frozen=True, kw_only=True)
class Independent(Mechanism):
    """Measures all one-way tables with the same noise, sigma = sqrt(d / (2 rho)); the model is their product.

    It ignores the workload. If the schema has rules, the model keeps them and is no longer a product.

    Privacy: rho-zCDP of the budget, d tables at rho / d each.
    Reference: [AIM, sec. 4.1], with equal shares.

    >>> import hush
    >>> hush.plan(hush.Workload.kway(hush.Domain({"a": 2, "b": 3}), 2), hush.Budget(rho=0.5), mechanism=Independent())
    Plan(independent, 1 tables, rho=0.5)
    """

    name: ClassVar[str] = "independent"
    description: ClassVar[str] = "every column by itself, as if none depended on another; a yardstick"
    efficiency_aware: ClassVar[bool] = True
    reference: ClassVar[str] = "AIM, Table 1"

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        columns = len(plan.domain)
        return [
            ("Measures", f"the counts of each of {columns} columns, at rho = {float(plan.rho / columns):.3g} each"),
            ("Model", "columns as if none depended on another; what is asked changes nothing"),
        ]

    def work(self, workload: Workload) -> str:
        return f"{len(workload.domain):,} noisy tables; about 1 s, plus counting"

    def memory(self, plan: Plan, schema: Schema) -> int:
        """The columns, and the fit of their model within the schema's rules."""
        cliques = [(name,) for name in plan.domain]
        numbers = sum(plan.domain.shape)
        tree = JunctionTree.build(plan.domain, [*cliques, *(rule.clique for rule in schema.constraints)])
        return MEASURED_BYTES * numbers + fit_bytes(tree.cells, numbers)

    def run(self, session: Session, plan: Plan) -> None:
        """Measure all columns at once, unless an interrupted run did."""
        columns = [(name,) for name in session.domain]
        if not session.noisy_tables:
            alone = plan.budget.approximate and plan.sums is None  # one charge, fixed beforehand: the whole delta
            most = plan.budget.fixed_limit * (1 - CALIBRATION_MARGIN) if alone else session.limit
            session.measure(columns, most / len(columns), note=f"{self.name}: {len(columns)} columns")
        session.fit()


@dataclass(frozen=True, kw_only=True)
class AllZero(Mechanism):
    """Answers 0 to every count; what any mechanism must beat to be worth its budget.

    Its error is the true count, so it is small where counts are. No error is known without the rows, so there are no
    intervals. There is no model to draw rows from.

    Privacy: it reads no row, adds no noise and is charged nothing, whatever the budget.
    Reference: [Avent 2023, chapter 4] for the baseline.

    >>> import hush
    >>> table = hush.read(hush.datasets.people(1000, seed=1), hush.datasets.people_schema())
    >>> release = hush.plan("2-of-3", hush.Budget(rho=0.5), mechanism="all-zero", schema=table.schema).release(table)
    >>> release.counts(("sex",)).tolist(), release.statement.rho
    ([0.0, 0.0], 0.0)
    """

    name: ClassVar[str] = "all-zero"
    description: ClassVar[str] = "nothing: answers 0 to every count, reads no row and costs nothing; a yardstick"
    synthetic: ClassVar[bool] = False
    noise_words: ClassVar[str] = "none"
    errors_known: ClassVar[str] = "none"
    reference: ClassVar[str] = "Avent 2023, chapter 4"
    adaptive: ClassVar[bool] = False
    measures: ClassVar[bool] = False
    states: ClassVar[str] = "every answer is 0, so its error is the true count"

    def accounted(self, budget: Budget) -> Budget:
        return budget

    def check(self, workload: Workload, budget: Budget) -> None:
        """Refuse sums of values."""
        if workload.sum_terms:
            raise WorkloadError(
                f"mechanism={self.name!r} answers 0 to counts, and this workload asks for sums of values; leave the "
                "sums out"
            )

    def new_record(self, plan: Plan) -> ZeroRecord:
        return ZeroRecord()

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        return [("Measures", "nothing; every count is given as 0")]

    def work(self, workload: Workload) -> str:
        return "none"

    def memory(self, plan: Plan, schema: Schema) -> int:
        return 0

    def counted(self, plan: Plan, schema: Schema) -> Sequence[Clique]:
        return ()

    def run(self, session: Session, plan: Plan) -> None:
        """Ask for nothing."""
