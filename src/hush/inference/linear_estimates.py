"""LocalEstimates: each question answered from one product of a strategy, by the pseudo-inverse of its factors.

From answers y of a product with factors Q_g, the counts are (kron_g Q_g^+) y and a sum with coefficients f has variance
s^2 |(kron_g (Q_g^+)^T) f|^2, with s^2 the variance of the product's noise; factor by factor, axis by axis.

Reference: [HDMM, sec. 3.6], local least squares.

GlobalEstimates: every question answered by least squares from everything that was measured.

The estimate minimises sum_j |Q_j x - y_j|^2 / s_j^2, by LSMR with nothing but products with the factors; answers of all
tables agree. A sum with coefficients f has variance f^T N^+ f, exact: see `strategies.joint`.

Reference: [Fong and Saunders 2011] for LSMR; [HDMM, sec. 3.6] names global least squares as the better recovery.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from hush.arrays import Floats, apply_each, reordered, spread, summed
from hush.domain import Clique, Domain
from hush.errors import ConvergenceError, WorkloadError
from hush.linops import Identity, LinearOperator
from hush.linops.along import along_all
from hush.privacy.measurement import Measurements
from hush.strategies.axis_strategy import AxisStrategy
from hush.strategies.linear_strategy import JointPrecision, LinearStrategy
from hush.strategies.product_strategy import ProductStrategy

LinearMeasurements: TypeAlias = Measurements[LinearStrategy]


def measured_products(answers: LinearMeasurements) -> list[ProductStrategy]:
    """The products of a strategy whose answers are there."""
    return [
        product for product, filled in zip(answers.strategy.products, answers.filled.tolist(), strict=True) if filled
    ]


def answers_of(answers: LinearMeasurements, product: ProductStrategy) -> Floats:
    """The answers of a product over the scale of its integers."""
    return answers[answers.strategy.products.index(product)] / product.query.scale


class LocalEstimates:
    """Unbiased counts from the product that knows them best; tables of two products may differ within their errors.

    Implements `Estimates`.
    """

    def __init__(self, answers: LinearMeasurements, *, only: ProductStrategy | None = None) -> None:
        self._answers = answers
        self._only = only
        self._products = measured_products(answers) if only is None else [only]

    @property
    def domain(self) -> Domain:
        """The attributes and their sizes."""
        return self._answers.strategy.domain

    @cached_property
    def cliques(self) -> tuple[Clique, ...]:
        """The largest cliques whose every cell can be estimated."""
        full = list(dict.fromkeys(product.clique for product in self._products if product.full))
        return tuple(c for c in full if not any(set(c) < set(other) for other in full))

    def covers(self, clique: Clique) -> bool:
        """Whether one product supports every cell of a clique."""
        return any(product.supports(clique, self._levels(clique)) for product in self._products)

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> LocalEstimates | None:
        """Estimates from the product that knows these sums best; its counts have least norm."""
        able = [product for product in self._products if product.supports_sums(clique, coefficients, groups)]
        views = [LocalEstimates(self._answers, only=product) for product in able]
        return min(
            views, key=lambda own: float(own.covariance(clique, coefficients, coefficients, groups).sum()), default=None
        )

    def counts(self, clique: Clique) -> Floats:
        """Estimated counts over a clique, in the order of its names."""
        names = self.domain.check(clique)
        return self._values(self._best(names, self._levels(names)), names)

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        """Answers to a product of query blocks and their variances, one axis per block."""
        names = self.domain.check(clique)
        product = self._best(names, blocks)
        values = apply_each(blocks, self._values(product, names))
        return values, product.variances(names, blocks)

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        """The covariance of two sums over cells for every combination of levels of the first `groups` attributes."""
        names = self.domain.check(clique)
        product = self._best(names, self._levels(names))
        letters = iter(string.ascii_letters)
        left = {name: next(letters) for name in names}
        right = {name: left[name] if place < groups else next(letters) for place, name in enumerate(names)}
        operands: list[tuple[Floats, str]] = []
        pair = [np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)]
        scale = product.variance
        for group, sizes, factor in zip(product.groups, product.sizes, product.factors, strict=True):
            inside = [name for name in group if name in left]
            if not inside:
                scale *= factor.total_variance(product.blocks_of((), ())[product.groups.index(group)])
            elif len(group) == 1:
                axis = names.index(inside[0])
                if axis < groups:
                    operands.append((factor.query_variances(Identity(sizes[0])), left[inside[0]]))
                else:
                    pair = [factor.adjoint(values, axis) for values in pair]
                    right[inside[0]] = left[inside[0]]
            else:
                operands.append(_joint(factor, group, sizes, inside, left, right))
        for values, own in zip(pair, (left, right), strict=True):
            operands.append((values, "".join(own[name] for name in names)))
        out = "".join(left[name] for name in names[:groups])
        subscripts = ",".join(own for _, own in operands) + "->" + out
        return np.asarray(scale * np.einsum(subscripts, *(values for values, _ in operands), optimize=True))

    def _values(self, product: ProductStrategy, names: Clique) -> Floats:
        """The estimated counts over some attributes of a product; totals come first, while they shrink the work."""
        tensor: np.ndarray[Any, Any] = self._answers[self._answers.strategy.products.index(product)]
        kept: list[tuple[AxisStrategy, Clique, tuple[int, ...]]] = []
        for axis in reversed(range(len(product.factors))):
            group, factor = product.groups[axis], product.factors[axis]
            if set(group) & set(names):
                kept.insert(0, (factor, group, product.sizes[axis]))
            else:
                tensor = np.tensordot(tensor, factor.adjoint(np.ones(factor.size), 0), axes=(axis, 0))
        tensor = along_all([own.estimate for own, _, _ in kept], tensor, [own.size for own, _, _ in kept], np.float64)
        tensor = np.divide(tensor, product.query.scale, out=tensor if tensor.dtype.kind == "f" else None)
        tensor = tensor.reshape([size for _, _, sizes in kept for size in sizes])
        axes = [name for _, group, _ in kept for name in group]
        margin = summed(tensor, axes, names) if len(axes) > len(names) else reordered(tensor, axes, names)
        return np.asarray(margin, order="C")

    def _best(self, names: Clique, blocks: Sequence[LinearOperator]) -> ProductStrategy:
        able = [product for product in self._products if product is self._only or product.supports(names, blocks)]
        if not able:
            raise WorkloadError(
                f"the queries on {', '.join(names) or 'the total'} are no combination of what was measured; "
                "a workload with them would have supported them"
            )
        return able[0] if len(able) == 1 else min(able, key=lambda product: product.total(names, blocks))

    def _levels(self, clique: Clique) -> list[LinearOperator]:
        return [Identity(size) for size in self.domain.sizes(clique)]


def _joint(
    factor: AxisStrategy,
    group: Clique,
    sizes: tuple[int, ...],
    inside: list[str],
    left: dict[str, str],
    right: dict[str, str],
) -> tuple[Floats, str]:
    """The covariance of the cells of one group of attributes, others summed out, with the subscripts of its axes."""
    tensor = factor.inverse_gram.reshape(sizes + sizes)
    gone = [place for place, name in enumerate(group) if name not in inside]
    tensor = tensor.sum(axis=tuple(gone + [place + len(group) for place in gone]))
    return tensor, "".join(left[name] for name in inside) + "".join(right[name] for name in inside)


_CONVERGED = (0, 1, 2, 4, 5)  # LSMR's reasons to stop that mean a solution


class GlobalEstimates:
    """Unbiased counts from all products together, mutually consistent; implements `Estimates`."""

    def __init__(self, answers: LinearMeasurements, *, sums: bool = False) -> None:
        self._answers = answers
        self._sums = sums  # whether it is asked for sums that are known to be supported
        strategy = answers.strategy
        whole = answers.filled.all()
        self._joint = strategy.joint if whole else JointPrecision(strategy.domain, measured_products(answers))

    @property
    def domain(self) -> Domain:
        """The attributes and their sizes."""
        return self._answers.strategy.domain

    @cached_property
    def cliques(self) -> tuple[Clique, ...]:
        """The largest cliques whose every cell one product supports."""
        full = list(dict.fromkeys(product.clique for product in self._joint.products if product.full))
        return tuple(c for c in full if not any(set(c) < set(other) for other in full))

    def covers(self, clique: Clique) -> bool:
        """Whether some product supports every cell of a clique."""
        return self._supported(clique, [Identity(size) for size in self.domain.sizes(clique)])

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> GlobalEstimates | None:
        """The same estimates, where some product knows these sums; their counts have least norm."""
        known = any(product.supports_sums(clique, coefficients, groups) for product in self._joint.products)
        return GlobalEstimates(self._answers, sums=True) if known else None

    @cached_property
    def cells(self) -> Floats:
        """The estimated counts over all measured attributes; those that no product supports have least norm."""
        joint, products = self._joint, self._joint.products
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
            pieces = zip(products, scales, np.split(y, ends[:-1]), strict=True)
            total = np.zeros(joint.sizes)
            for product, scale, own in pieces:
                total += joint.spread(product, own.reshape(product.query.shape) * scale)
            return total.ravel()

        shape = (int(ends[-1]), joint.cells)
        operator = SparseOperator(shape, matvec=forward, rmatvec=backward, dtype=np.float64)
        noisy = np.concatenate(
            [answers_of(self._answers, p).ravel() * s for p, s in zip(products, scales, strict=True)]
        )
        found, stop, *_ = lsmr(operator, noisy, atol=1e-11, btol=1e-11, conlim=0.0, maxiter=20_000)
        if stop not in _CONVERGED:
            raise ConvergenceError("least squares over all tables did not converge; use local least squares")
        return np.asarray(found.reshape(joint.sizes))

    def counts(self, clique: Clique) -> Floats:
        """Estimated counts over a clique, in the order of its names."""
        names = self.domain.check(clique)
        self._require(names, [Identity(size) for size in self.domain.sizes(names)])
        return self._marginal(names)

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        """Answers to a product of query blocks and their variances, one axis per block."""
        names = self.domain.check(clique)
        self._require(names, blocks)
        values = apply_each(blocks, self._marginal(names))
        if self._joint.small:
            return values, self._joint.variances(names, blocks)
        rows = [block.dense() for block in blocks]
        variances = np.empty(values.shape)
        for place in itertools.product(*(range(len(own)) for own in rows)):
            coefficients = np.ones(())
            for own, row in zip(rows, place, strict=True):
                coefficients = np.multiply.outer(coefficients, own[row])
            variances[place] = self._inner(names, coefficients, coefficients)
        return values, variances

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        """The covariance of two sums over cells for every combination of levels of the first `groups` attributes."""
        names = self.domain.check(clique)
        self._require(names, [Identity(size) for size in self.domain.sizes(names)])
        if self._joint.small:
            return _grouped(self._joint.marginal(names), first, second, groups)
        shape = self.domain.sizes(names)[:groups]
        found = np.empty(shape)
        for place in itertools.product(*(range(size) for size in shape)):
            left, right = (np.zeros(side.shape) for side in (first, second))
            left[place], right[place] = first[place], second[place]
            found[place] = self._inner(names, left, right)
        return found

    def _inner(self, names: Clique, first: Floats, second: Floats) -> float:
        """f^T N^+ s for coefficients on the cells of a clique."""
        left, right = (self._spread(names, side) for side in (first, second))
        return float(np.sum(left * self._joint.solve(right)))

    def _spread(self, names: Clique, coefficients: Floats) -> Floats:
        """Coefficients on a clique's cells as coefficients on all cells."""
        return np.broadcast_to(spread(coefficients, names, self._joint.clique), self._joint.sizes)

    def _marginal(self, names: Clique) -> Floats:
        return np.asarray(summed(self.cells, self._joint.clique, names), order="C")

    def _supported(self, names: Clique, blocks: Sequence[LinearOperator]) -> bool:
        return any(product.supports(names, blocks) for product in self._joint.products)

    def _require(self, names: Clique, blocks: Sequence[LinearOperator]) -> None:
        if not (self._sums or self._supported(names, blocks)):
            raise WorkloadError(
                f"the queries on {', '.join(names) or 'the total'} are no combination of what was measured; "
                "a workload with them would have supported them"
            )


def _grouped(covariance: Floats, first: Floats, second: Floats, groups: int) -> Floats:
    """The covariance of two sums for every level of the leading axes; `covariance` has every axis twice."""
    k = first.ndim
    left, right = string.ascii_lowercase[:k], string.ascii_lowercase[:groups] + string.ascii_uppercase[groups:k]
    return np.asarray(
        np.einsum(f"{left},{left}{right},{right}->{left[:groups]}", first, covariance, second, optimize=True)
    )
