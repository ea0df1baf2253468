"""Unbiased estimates from the noisy answers to a linear strategy: least squares, local or global.

Local: each question is answered from one product of the strategy. From answers y of a product with factors Q_g, the
counts are (kron_g Q_g^+) y, and a sum with coefficients f has variance s^2 |(kron_g (Q_g^+)^T) f|^2, where s^2 is the
variance of the product's noise. Both are computed factor by factor.

Global: every question is answered from all products together. The estimate minimises sum_j |Q_j x - y_j|^2 / s_j^2, by
LSMR without any matrix, so that all tables agree. A sum with coefficients f has the exact variance f^T N^+ f; see
`JointPrecision`.

Reference: [HDMM, sec. 3.6] for both; it prefers the global estimate. [Fong and Saunders 2011] for LSMR.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np

from hush.core.arrays import Floats, apply_each, axes_outside, reordered, spread, summed
from hush.core.domain import Clique, Domain, maximal_cliques
from hush.core.errors import ConvergenceError, WorkloadError
from hush.inference.error_law import ErrorLaw, Part, largest_of, product_part, rounding_error
from hush.linops import Identity, LinearOperator
from hush.linops.along import along_all
from hush.privacy.measurement import Measurements
from hush.strategies.axis_strategy import AxisStrategy
from hush.strategies.linear_strategy import JointPrecision, LinearStrategy
from hush.strategies.product_strategy import ProductStrategy
from hush.strategies.strategy import NoiseKind

LinearMeasurements: TypeAlias = Measurements[LinearStrategy]


def measured_products(answers: LinearMeasurements) -> list[ProductStrategy]:
    """The products of a strategy that were measured."""
    products = answers.strategy.products
    return [product for product, filled in zip(products, answers.filled.tolist(), strict=True) if filled]


def answers_of(answers: LinearMeasurements, product: ProductStrategy) -> Floats:
    """The answers of a product, divided by the scale of its integers."""
    return answers[answers.strategy.products.index(product)] / product.query.scale


class _ProductEstimates:
    """The common part of local and global estimates: the answers, and the products that they belong to."""

    def __init__(self, answers: LinearMeasurements, products: Sequence[ProductStrategy]) -> None:
        self._answers = answers
        self._products = products
        self._largest_known: dict[int, float] = {}

    @property
    def domain(self) -> Domain:
        return self._answers.strategy.domain

    @cached_property
    def cliques(self) -> tuple[Clique, ...]:
        """The largest cliques whose every cell one product supports."""
        return tuple(maximal_cliques(product.clique for product in self._products if product.full))

    def covers(self, clique: Clique) -> bool:
        """Whether one product supports every cell of a clique."""
        return any(product.supports(clique, self._levels(clique)) for product in self._products)

    @property
    def laplace(self) -> bool:
        return self._answers.strategy.noise is NoiseKind.LAPLACE

    def _largest(self, product: ProductStrategy) -> float:
        """The largest noisy integer of a product."""
        index = self._answers.strategy.products.index(product)
        if index not in self._largest_known:
            self._largest_known[index] = largest_of(self._answers[index])
        return self._largest_known[index]

    def _levels(self, clique: Clique) -> list[LinearOperator]:
        return [Identity(size) for size in self.domain.sizes(clique)]


class LocalEstimates(_ProductEstimates):
    """Unbiased counts, each table from the product of least variance; implements `Estimates`.

    Tables from different products need not agree.
    """

    def __init__(self, answers: LinearMeasurements, *, only: ProductStrategy | None = None) -> None:
        super().__init__(answers, measured_products(answers) if only is None else [only])
        self._only = only

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> LocalEstimates | None:
        """Estimates from the product of least variance for these sums; undetermined counts have least norm."""
        able = [product for product in self._products if product.supports_sums(clique, coefficients, groups)]
        views = [LocalEstimates(self._answers, only=product) for product in able]
        return min(
            views,
            key=lambda view: float(view.covariance(clique, coefficients, coefficients, groups).sum()),
            default=None,
        )

    def counts(self, clique: Clique) -> Floats:
        names = self.domain.check(clique)
        return self._values(self._best(names, self._levels(names)), names)

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        names = self.domain.check(clique)
        product = self._best(names, blocks)
        values = apply_each(blocks, self._values(product, names))
        return values, product.variances(names, blocks)

    def product_of_levels(self, clique: Clique) -> ProductStrategy | None:
        """The product that the counts of a clique are estimated from; None if a factor covers several columns."""
        product = self._best(clique, self._levels(clique))
        apart = all(len(group) == 1 for group in product.groups if set(group) & set(clique))
        return product if apart else None

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        # cov = s^2 first^T (kron_g inverse Gram_g) second, as one einsum. `left` and `right` have the subscripts of the
        # two sums' attributes, which are the same for grouped attributes.
        names = self.domain.check(clique)
        product = self._best(names, self._levels(names))
        letters = iter(string.ascii_letters)
        left = {name: next(letters) for name in names}
        right = {name: left[name] if axis < groups else next(letters) for axis, name in enumerate(names)}
        operands: list[tuple[Floats, str]] = []
        pair = [np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)]
        scale = product.variance
        for group, sizes, factor in zip(product.groups, product.sizes, product.factors, strict=True):
            inside = [name for name in group if name in left]
            if not inside:  # the variance of the total over this group
                scale *= factor.total_variance(product.blocks_of((), ())[product.groups.index(group)])
            elif len(group) == 1:  # variances of its levels if grouped, else (Q^+)^T applied to both sums
                axis = names.index(inside[0])
                if axis < groups:
                    operands.append((factor.query_variances(Identity(sizes[0])), left[inside[0]]))
                else:
                    pair = [factor.adjoint(values, axis) for values in pair]
                    right[inside[0]] = left[inside[0]]
            else:  # the covariance of the factor's cells, attributes outside the clique summed out
                outside = axes_outside(group, inside)
                tensor = factor.inverse_gram.reshape(sizes + sizes)
                tensor = tensor.sum(axis=(*outside, *(axis + len(group) for axis in outside)))
                operands.append((tensor, "".join([left[name] for name in inside] + [right[name] for name in inside])))
        for values, letter in zip(pair, (left, right), strict=True):
            operands.append((values, "".join(letter[name] for name in names)))
        out = "".join(left[name] for name in names[:groups])
        subscripts = ",".join(axes for _, axes in operands) + "->" + out
        return np.asarray(scale * np.einsum(subscripts, *(values for values, _ in operands), optimize=True))

    def alike(self, name: str) -> bool:
        return all(
            group == (name,) and factor.levels_alike
            for product in self._products
            for group, factor in zip(product.groups, product.factors, strict=True)
            if name in group
        )

    def error_law(
        self, clique: Clique, coefficients: Floats, blocks: Sequence[LinearOperator] | None = None
    ) -> ErrorLaw:
        names = self.domain.check(clique)
        product = self._best(names, self._levels(names) if blocks is None else blocks)
        pairs = list(zip(product.groups, product.factors, strict=True))
        inside = [(group, factor) for group, factor in pairs if set(group) & set(names)]
        attributes = [name for group, _ in inside for name in group]
        table = spread(np.asarray(coefficients, dtype=np.float64), names, attributes)
        tensor = np.broadcast_to(table, self.domain.sizes(attributes)).reshape([factor.size for _, factor in inside])
        for axis, (_, factor) in enumerate(inside):
            tensor = factor.adjoint(tensor, axis)
        totals = [factor.adjoint(np.ones(factor.size), 0) for group, factor in pairs if not set(group) & set(names)]
        part = product_part(tensor / product.query.scale, totals, product.law)
        return ErrorLaw([part], rounding_error(part[0], part[1], self._largest(product)))

    def _values(self, product: ProductStrategy, names: Clique) -> Floats:
        """The estimated counts over some attributes of a product; others are summed out first, to save work."""
        tensor = self._answers[self._answers.strategy.products.index(product)]
        kept: list[tuple[AxisStrategy, Clique, tuple[int, ...]]] = []
        for axis in reversed(range(len(product.factors))):
            group, factor = product.groups[axis], product.factors[axis]
            if set(group) & set(names):
                kept.insert(0, (factor, group, product.sizes[axis]))
            else:
                tensor = np.tensordot(tensor, factor.adjoint(np.ones(factor.size), 0), axes=(axis, 0))
        factors = [factor for factor, _, _ in kept]
        tensor = along_all([f.estimate for f in factors], tensor, [f.size for f in factors], np.float64)
        tensor = np.divide(tensor, product.query.scale, out=tensor if tensor.dtype.kind == "f" else None)
        tensor = tensor.reshape([size for _, _, sizes in kept for size in sizes])
        axes = [name for _, group, _ in kept for name in group]
        marginal = reordered(tensor, axes, names) if len(axes) == len(names) else summed(tensor, axes, names)
        return np.asarray(marginal, order="C")

    def _best(self, names: Clique, blocks: Sequence[LinearOperator]) -> ProductStrategy:
        able = [product for product in self._products if product is self._only or product.supports(names, blocks)]
        if not able:
            raise _unsupported(names)
        return able[0] if len(able) == 1 else min(able, key=lambda product: product.total(names, blocks))


def _unsupported(names: Clique) -> WorkloadError:
    return WorkloadError(
        f"the queries on {', '.join(names) or 'the total'} cannot be answered from what was measured; include them in "
        "the workload of the next release"
    )


class GlobalEstimates(_ProductEstimates):
    """Unbiased counts from all products together, mutually consistent; implements `Estimates`."""

    def __init__(self, answers: LinearMeasurements, *, sums: bool = False) -> None:
        strategy = answers.strategy
        whole = answers.filled.all()
        self._joint = strategy.joint if whole else JointPrecision(strategy.domain, measured_products(answers))
        super().__init__(answers, self._joint.products)
        self._sums = sums  # whether only supported sums will be requested

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> GlobalEstimates | None:
        """The same estimates, if some product determines these sums; undetermined counts have least norm."""
        known = any(product.supports_sums(clique, coefficients, groups) for product in self._products)
        return GlobalEstimates(self._answers, sums=True) if known else None

    @cached_property
    def cells(self) -> Floats:
        """The estimated counts over all measured attributes; undetermined counts have least norm."""
        joint, products = self._joint, self._products
        if joint.small:
            weighted = zip(products, joint.noise_variances, strict=True)
            return joint.solve(np.sum([joint.spread(p, answers_of(self._answers, p)) / v for p, v in weighted], axis=0))
        from scipy.sparse.linalg import LinearOperator as SparseOperator
        from scipy.sparse.linalg import lsmr

        scales = [variance**-0.5 for variance in joint.noise_variances]
        ends = np.cumsum([int(np.prod(product.query.shape)) for product in products])

        def forward(x: Floats) -> Floats:
            return np.concatenate([joint.measure(p, x).ravel() * s for p, s in zip(products, scales, strict=True)])

        def backward(y: Floats) -> Floats:
            total = np.zeros(joint.sizes)
            for product, scale, answers in zip(products, scales, np.split(y, ends[:-1]), strict=True):
                total += joint.spread(product, answers.reshape(product.query.shape) * scale)
            return total.ravel()

        shape = (int(ends[-1]), joint.cells)
        operator = SparseOperator(shape, matvec=forward, rmatvec=backward, dtype=np.float64)
        noisy = np.concatenate(
            [answers_of(self._answers, p).ravel() * s for p, s in zip(products, scales, strict=True)]
        )
        cells, stop, *_ = lsmr(operator, noisy, atol=1e-11, btol=1e-11, conlim=0.0, maxiter=20_000)
        if stop not in (0, 1, 2, 4, 5):  # the others mean that LSMR found no solution
            raise ConvergenceError("global least squares did not converge; use local least squares")
        return np.asarray(cells.reshape(joint.sizes))

    def counts(self, clique: Clique) -> Floats:
        names = self.domain.check(clique)
        self._require(names, self._levels(names))
        return np.asarray(summed(self.cells, self._joint.clique, names), order="C")

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        names = self.domain.check(clique)
        self._require(names, blocks)
        values = apply_each(blocks, np.asarray(summed(self.cells, self._joint.clique, names), order="C"))
        if self._joint.small:
            return values, self._joint.variances(names, blocks)
        matrices = [block.dense() for block in blocks]
        variances = np.empty(values.shape)
        for query in np.ndindex(values.shape):
            coefficients = np.ones(())
            for matrix, row in zip(matrices, query, strict=True):
                coefficients = np.multiply.outer(coefficients, matrix[row])
            variances[query] = self._inner(names, coefficients, coefficients)
        return values, variances

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        names = self.domain.check(clique)
        self._require(names, self._levels(names))
        if self._joint.small:
            k, letters = first.ndim, string.ascii_letters
            rows, columns = letters[:k], letters[:groups] + letters[k : 2 * k - groups]
            subscripts = f"{rows},{rows}{columns},{columns}->{rows[:groups]}"
            return np.asarray(np.einsum(subscripts, first, self._joint.marginal(names), second, optimize=True))
        covariances = np.empty(self.domain.sizes(names)[:groups])
        for group in np.ndindex(covariances.shape):
            left, right = (np.zeros(side.shape) for side in (first, second))
            left[group], right[group] = first[group], second[group]
            covariances[group] = self._inner(names, left, right)
        return covariances

    def alike(self, name: str) -> bool:
        return False

    def error_law(
        self, clique: Clique, coefficients: Floats, blocks: Sequence[LinearOperator] | None = None
    ) -> ErrorLaw | None:
        """The law with the coefficients of N^+ f on all answers; None unless N^+ is held as a matrix."""
        joint, names = self._joint, self.domain.check(clique)
        if not joint.small:
            return None
        counts = spread(np.asarray(coefficients, dtype=np.float64), names, joint.clique)
        solved = joint.solve(np.broadcast_to(counts, joint.sizes))
        parts: list[Part] = [
            (joint.measure(product, solved) / (variance * product.query.scale), np.ones(1), product.law)
            for product, variance in zip(self._products, joint.noise_variances, strict=True)
        ]
        pairs = zip(parts, self._products, strict=True)
        return ErrorLaw(parts, sum(rounding_error(c, n, self._largest(product)) for (c, n, _), product in pairs))

    def _inner(self, names: Clique, first: Floats, second: Floats) -> float:
        """f^T N^+ s for coefficients on the cells of a clique."""
        left, right = (
            np.broadcast_to(spread(side, names, self._joint.clique), self._joint.sizes) for side in (first, second)
        )
        return float(np.sum(left * self._joint.solve(right)))

    def _require(self, names: Clique, blocks: Sequence[LinearOperator]) -> None:
        """Refuse queries that no product supports."""
        if not (self._sums or any(product.supports(names, blocks) for product in self._products)):
            raise _unsupported(names)
