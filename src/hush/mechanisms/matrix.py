"""matrix: the matrix mechanism with an explicit strategy over the cells of all attributes in the workload."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique
from hush.core.errors import SizeError, WorkloadError
from hush.core.validation import check_choice, check_flag, check_number, check_whole
from hush.histograms.bucket_trees import LinearQueries, greedy_tree
from hush.linops import Dense, Equivalent, Haar, Identity, LinearOperator, Tree
from hush.mechanisms.mechanism import StrategyMechanism
from hush.optimizers import explicit_strategy as hierarchy
from hush.optimizers.eigen_design import (
    eigen_design,
    fourier_basis,
    l2_approximation,
    principal,
    relative_gram,
    separation,
    singular_value_approximation,
    weighted_design,
)
from hush.optimizers.explicit_strategy import total_error
from hush.optimizers.max_error import least_max_error
from hush.optimizers.p_identity import optimise_theta
from hush.optimizers.p_identity import strategy as p_identity
from hush.privacy.budget import Budget
from hush.privacy.sensitivity import Neighbours
from hush.strategies.integer_strategies import round_strategy
from hush.strategies.linear_strategy import LinearStrategy
from hush.strategies.noise_allocation import Loss, MaxVariance, SumOfVariances, loss_of
from hush.strategies.optimum import gram_factor, optimal_gram
from hush.strategies.product_strategy import FloatProduct, FloatStrategy, Recovery
from hush.strategies.strategy import NoiseKind
from hush.strategies.term_table import TermGrams
from hush.workloads import Workload

LARGEST_CELLS = 4096
SUPPORT_RIDGE = 1e-6  # times the mean of the Gram matrix's diagonal, so that rounding to integers cannot break support


@dataclass(frozen=True)
class Matrix(StrategyMechanism):
    """The matrix mechanism on a domain of up to 4096 cells, or on each attribute of one product of queries.

    `strategy` is "best" or a name in `STRATEGIES`. `noise` is "auto" (Laplace for pure epsilon, else Gaussian),
    "gaussian" or "laplace". `loss` is "rmse", or "maxvar" under Gaussian noise. Under Gaussian noise "best" is the
    certified optimum: no strategy has a smaller error, up to 1e-4.

    `design` measures weighted rows of "eigen" (the eigenvectors of the workload), "fourier" or "wavelet" instead, each
    with its best weight. `complete` then adds rows that cost nothing. `group` and `principal` shorten the search for
    the weights of eigenvectors: groups of so many, or a share of them with one weight for the rest. `relative` weighs
    every query by its size, for relative errors.

    Reference: [Li 2013, chapters 3 and 5].
    """

    name: ClassVar[str] = "matrix"
    description: ClassVar[str] = "an explicit strategy over few cells, at its certified optimum"
    reference: ClassVar[str] = "Li 2013"

    strategy: str = "best"
    noise: str = "auto"
    loss: str | Loss = "rmse"
    design: str = ""
    group: int = 0
    principal: float = 1.0
    complete: bool = True
    relative: bool = False

    def check(self, workload: Workload, budget: Budget) -> None:
        """Refuse an unknown strategy, queries other than products, and a workload of the total alone."""
        if self.strategy != "best" and self.strategy not in STRATEGIES:
            raise WorkloadError(f"strategy={self.strategy!r}: expected best, {', '.join(STRATEGIES)}")
        self._check_design()
        if not any(term.clique for term in workload.products):
            raise WorkloadError("the workload asks for the total alone; use mechanism='residual' or 'direct'")

    def _check_design(self) -> None:
        """Refuse settings of a design that contradict each other."""
        check_flag(WorkloadError, "complete", self.complete)
        check_flag(WorkloadError, "relative", self.relative)
        check_whole(WorkloadError, "group", self.group, least=0, hint=" eigenvectors, 0 for no groups")
        check_number(WorkloadError, "principal", self.principal, above=0, most=1, hint=", a share of the eigenvectors")
        if self.design:
            check_choice(WorkloadError, "design", self.design, DESIGNS)
            if self.strategy != "best" or isinstance(loss_of(self.loss), MaxVariance):
                raise WorkloadError("a design has weights for the total error; leave out strategy and loss")
        searched = self.group > 0 or self.principal < 1
        if searched and self.design != "eigen":
            raise WorkloadError("group and principal are for the weights of eigenvectors; give design='eigen'")
        if self.group > 0 and self.principal < 1:
            raise WorkloadError("group and principal both shorten the search for weights; give one of them")
        if not self.design and (self.relative or not self.complete):
            raise WorkloadError("complete and relative are for designs; give design='eigen', 'fourier' or 'wavelet'")

    def select(self, workload: Workload, noise: NoiseKind, cost: Fraction, neighbours: Neighbours) -> LinearStrategy:
        return round_strategy(self._float_strategy(workload, noise), budget=cost, neighbours=neighbours)

    def _float_strategy(self, workload: Workload, noise: NoiseKind) -> FloatStrategy:
        loss = loss_of(self.loss)
        if isinstance(loss, MaxVariance):
            return _least_maximum(workload, noise)
        if not isinstance(loss, SumOfVariances):
            raise WorkloadError("the matrix mechanism makes 'rmse' or 'maxvar' small; use mechanism='residual'")
        grams = TermGrams.of(workload)
        sizes = [workload.domain.shape[axis] for axis in grams.asked]
        names = [workload.domain.attributes[axis] for axis in grams.asked]
        if len(grams) == 1:
            factors = [
                self._factor(grams.gram(axis, block), noise, (size,), self._designed_for(grams, axis, block))
                for axis, size, block in zip(
                    grams.asked, sizes, grams.index[0, list(grams.asked)].tolist(), strict=True
                )
            ]
            groups: tuple[Clique, ...] = tuple((name,) for name in names)
            error = float(grams.weights[0]) * math.prod(error for _, error, _ in factors)
        else:
            # sum_j w_j kron_i V_i^(j) over the attributes of the workload
            check_cells(cells := math.prod(sizes))
            gram, designed_for = np.zeros((cells, cells)), np.zeros((cells, cells))
            for weight, index in zip(grams.weights, grams.index, strict=True):
                product_gram = relative = np.full((1, 1), weight)
                for axis in grams.asked:
                    product_gram = np.kron(product_gram, grams.gram(axis, int(index[axis])))
                    relative = np.kron(relative, self._designed_for(grams, axis, int(index[axis])))
                gram += product_gram
                designed_for += relative
            factors, groups = [self._factor(gram, noise, tuple(sizes), designed_for)], (tuple(names),)
            error = factors[0][1]
        method = " x ".join(dict.fromkeys(name for _, _, name in factors))
        product = FloatProduct(groups, tuple(factor for factor, _, _ in factors), 1.0, tuple(range(len(grams))))
        return FloatStrategy(workload.domain, (product,), noise, Recovery.LOCAL, error, method)

    def _designed_for(self, grams: TermGrams, axis: int, block: int) -> Floats:
        """The Gram matrix of one block that the design is for: each query scaled to size one, if relative."""
        if not self.relative:
            return grams.gram(axis, block)
        queries = grams.blocks[axis][block]
        if isinstance(queries, Equivalent) or math.prod(queries.shape) > LARGEST_RELATIVE:
            raise SizeError("relative=True needs the queries of each column one by one, and these are too many")
        return relative_gram(queries.dense())

    def _factor(
        self, gram: Floats, noise: NoiseKind, sizes: tuple[int, ...], designed_for: Floats
    ) -> tuple[LinearOperator, float, str]:
        """A strategy of sensitivity one for the cells of some attributes, its error and its name."""
        n = len(gram)
        check_cells(n)
        if self.design:
            # Full rank, so that rounding to integers keeps the support.
            ridged = designed_for + SUPPORT_RIDGE * np.trace(designed_for) / n * np.eye(n)
            designed = self._weighted(ridged, noise, sizes)
            scaled = Dense(designed.dense() / designed.sensitivity(noise.norm))
            return scaled, total_error(gram, scaled, noise), f"{self.design} design"
        if self.strategy == "best":
            tried = BEST_STRATEGIES[noise] if n & (n - 1) else (*BEST_STRATEGIES[noise], *POWERS[noise])
        else:
            tried = (self.strategy,)
        best: tuple[LinearOperator, float, str] | None = None
        for name in tried:
            strategy = STRATEGIES[name](gram, noise)
            error = total_error(gram, strategy, noise)
            if best is None or error < best[1]:
                best = (Dense(strategy.dense() / strategy.sensitivity(noise.norm)), error, name)
        if best is None:
            raise WorkloadError("no strategy was tried; name one")
        return best

    def _weighted(self, gram: Floats, noise: NoiseKind, sizes: tuple[int, ...]) -> LinearOperator:
        """The rows of the design with their best weights."""
        complete = self.complete
        if self.design == "eigen" and noise is NoiseKind.GAUSSIAN:
            if self.group:
                return separation(gram, group=self.group, complete=complete).checked()
            if self.principal < 1:
                return principal(gram, share=self.principal, complete=complete).checked()
            return eigen_design(gram, complete=complete).checked()
        if self.group or self.principal < 1:
            raise WorkloadError("group and principal are for Gaussian noise; leave them out under Laplace noise")
        return weighted_design(gram, DESIGNS[self.design](gram, sizes), noise=noise, complete=complete).checked()


def _wavelets(gram: Floats, sizes: tuple[int, ...]) -> Floats:
    """The wavelet of each attribute, multiplied."""
    rows: Floats = np.ones((1, 1))
    for size in sizes:
        rows = np.asarray(np.kron(rows, Haar(size).dense()))
    return rows


DESIGNS: dict[str, Callable[[Floats, tuple[int, ...]], Floats]] = {
    "eigen": lambda gram, sizes: np.linalg.eigh(gram)[1].T,
    "fourier": lambda gram, sizes: fourier_basis(*sizes),
    "wavelet": _wavelets,
}
LARGEST_RELATIVE = 1 << 26  # entries of the queries on one column: 512 MB


def _optimal(gram: Floats, noise: NoiseKind) -> LinearOperator:
    """The certified optimum for Gaussian noise."""
    n = len(gram)
    ridge = SUPPORT_RIDGE * np.trace(gram) / n * np.eye(n)
    return optimal_gram(gram_factor(gram + ridge)).checked().strategy


STRATEGIES: dict[str, Callable[[Floats, NoiseKind], LinearOperator]] = {
    "optimal": _optimal,
    "p-identity": lambda gram, noise: p_identity(optimise_theta(gram).value),
    "eigen": lambda gram, noise: eigen_design(gram).checked(),
    "l2": lambda gram, noise: l2_approximation(gram).checked(),
    "singular": lambda gram, noise: singular_value_approximation(gram),
    "identity": lambda gram, noise: Identity(len(gram)),
    "hierarchical": lambda gram, noise: Tree(len(gram)),
    "hb": lambda gram, noise: hierarchy.hb(len(gram)),
    "wavelet": lambda gram, noise: Haar(len(gram)),
    "short-wavelet": lambda gram, noise: hierarchy.short_wavelet(len(gram)),
    "greedy-h": lambda gram, noise: _greedy_hierarchy(gram),
}
BEST_STRATEGIES = {
    NoiseKind.GAUSSIAN: ("optimal", "identity"),
    NoiseKind.LAPLACE: ("p-identity", "l2", "hb", "hierarchical", "identity"),
}
POWERS: dict[NoiseKind, tuple[str, ...]] = {NoiseKind.GAUSSIAN: (), NoiseKind.LAPLACE: ("short-wavelet",)}


def _greedy_hierarchy(gram: Floats) -> LinearOperator:
    """GreedyH: the binary tree whose nodes get the shares that a greedy search finds good for the workload.

    Reference: [Li 2013, Program 6.4.1] over single cells.
    """
    tree = greedy_tree(np.arange(len(gram) + 1), LinearQueries(gram_factor(gram).T))
    nodes, rows = np.eye(len(gram)), []
    for shares in tree.weights:
        rows.append((shares[:, None] * nodes)[shares > 0])
        pairs = np.arange(0, len(nodes), tree.branching)
        nodes = np.add.reduceat(nodes, pairs, axis=0)
    return Dense(np.concatenate(rows))


def _least_maximum(workload: Workload, noise: NoiseKind) -> FloatStrategy:
    """The strategy with the smallest largest weighted variance of a query, under Gaussian noise."""
    if noise is not NoiseKind.GAUSSIAN:
        raise WorkloadError("the least maximum error is known for Gaussian noise alone; use loss='rmse'")
    grams = TermGrams.of(workload)
    names = tuple(workload.domain.attributes[axis] for axis in grams.asked)
    check_cells(math.prod(workload.domain.sizes(names)))
    rows = []
    for term in workload.products:
        blocks = dict(zip(term.clique, term.blocks, strict=True))
        queries = np.full((1, 1), math.sqrt(term.weight))
        for name in names:
            queries = np.kron(queries, blocks[name].dense() if name in blocks else np.ones((1, workload.domain[name])))
        rows.append(queries)
    optimum = least_max_error(np.concatenate(rows)).checked()
    factor = Dense(np.linalg.cholesky(optimum.gram).T)
    product = FloatProduct((names,), (factor,), 1.0, tuple(range(len(grams))))
    return FloatStrategy(workload.domain, (product,), noise, Recovery.LOCAL, math.nan, "optimal for the largest error")


def check_cells(cells: int) -> None:
    """Refuse more cells than an explicit strategy can have."""
    if cells > LARGEST_CELLS:
        raise SizeError(
            f"an explicit strategy over {cells:,} cells is too large (limit {LARGEST_CELLS:,}); use mechanism='hdmm' "
            "for a union of products, or coarsen the bins"
        )
