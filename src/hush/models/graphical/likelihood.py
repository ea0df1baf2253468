"""Likelihoods: the losses of Gaussian and Laplace noise, which of them to use, and smooth versions.

All are sums over the residuals of noisy numbers, for measurements j and a cost phi of one residual:

    L(mu) = constant + sum_j sum_i phi((Q_j mu_j - y_j)_i, stddev_j^2)

Tables measured cell by cell are read in blocks that stay in the processor's cache, each once, and neighbouring tables
of equal noise together; nothing is allocated for them. For other queries the largest eigenvalue of Q^T Q bounds the
curvature of the loss.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Domain
from hush.core.errors import DomainError, WorkloadError, shown
from hush.core.validation import check_number
from hush.inference.factors import Factors
from hush.linops import Identity, Kronecker, LevelSums, LinearOperator, Scaled, Total
from hush.linops.combination import Reordered
from hush.models.graphical.marginal_loss import CustomLoss, LossFunction, MarginalLoss, ReorderedLoss, SumLoss
from hush.privacy.measurement import Measurement, placed

BLOCK_CELLS = 1 << 15  # fit in the processor's cache
MOST_DENSE_COLUMNS = 512  # of a query whose largest eigenvalue is computed densely
EIGENVALUE_MARGIN = 1.01  # in case power iteration started from a poor vector
POWER_ITERATIONS = 300
MOST_NORMED_COLUMNS = 1 << 12  # of a query whose column norms are computed one by one
__all__ = ["AbsoluteLoss", "CustomLoss", "HuberLoss", "Loss", "MarginalLoss", "SquaredLoss", "SumLoss", "loss_of"]

Weighting: TypeAlias = Literal["likelihood", "paper"]
Loss: TypeAlias = Literal["auto", "gaussian", "laplace", "paper"] | MarginalLoss | LossFunction

SMOOTHING_WIDTHS = (1.0, 0.2, 0.04)  # standard deviations; a loss that is not smooth is fitted with each in turn


def largest_eigenvalue(query: LinearOperator) -> float:
    """lambda_max(Q^T Q): exact for products of small blocks, otherwise an upper bound by power iteration.

    The Rayleigh quotient of a vector plus the norm of its residual bounds the nearest eigenvalue; a margin of 1 %
    covers a poor start vector.

    >>> from hush.linops import Prefix
    >>> round(largest_eigenvalue(Kronecker([Prefix(2), Total(3)])), 3)
    7.854
    """
    if isinstance(query, Identity):
        return 1.0
    if isinstance(query, Total):
        return float(query.shape[1])
    if isinstance(query, LevelSums):
        return float(np.bincount(query.codes).max())
    if isinstance(query, Scaled):
        return query.factor**2 * largest_eigenvalue(query.operator)
    if isinstance(query, Reordered):
        return largest_eigenvalue(query.operator)
    if isinstance(query, Kronecker):
        return math.prod(largest_eigenvalue(factor) for factor in query.factors)
    n = query.shape[1]
    if n <= MOST_DENSE_COLUMNS:
        return float(np.linalg.eigvalsh(query.gram_dense())[-1])
    adjoint = query.transpose()
    v = np.random.Generator(np.random.PCG64(0)).standard_normal((n, 1))
    v += np.sign(v.sum()) * n**-0.5  # queries that add up cells have a nearly constant leading vector
    eigenvalue = 0.0
    for _ in range(POWER_ITERATIONS):
        v /= np.linalg.norm(v)
        moved = adjoint.matmat(query.matmat(v))
        eigenvalue = float(v[:, 0] @ moved[:, 0])
        residual = float(np.linalg.norm(moved - eigenvalue * v))
        if residual <= 1e-3 * eigenvalue:
            break
        v = moved
    return EIGENVALUE_MARGIN * (eigenvalue + residual)


@dataclass(frozen=True, slots=True, eq=False)
class TableMisfit:
    """Noisy answers of a query on one table (of the table itself for None), and the variance of their noise."""

    index: int
    values: Floats  # (m,)
    variance: float
    query: LinearOperator | None

    @classmethod
    def of(cls, factors: Factors, measurement: Measurement, variance: float) -> TableMisfit:
        """The misfit of a placed measurement, with noise of this variance."""
        query = measurement.query if isinstance(measurement.query, LinearOperator) else None
        return cls(factors.index(measurement.clique), measurement.values.ravel(), variance, query)


@dataclass(frozen=True, slots=True, eq=False)
class _CellBlock:
    """Neighbouring cells of equal variance; `first` if this block is the first to write their gradient."""

    cells: slice
    values: Floats
    variance: float
    first: bool


class ResidualLoss(MarginalLoss):
    """The base of losses that are sums over residuals; a subclass gives the cost of one residual."""

    def __init__(
        self,
        factors: Factors,
        misfits: Sequence[TableMisfit],
        merged: Sequence[TableMisfit] | None = None,
        constant: float = 0.0,
    ) -> None:
        self.factors = factors
        self._misfits = tuple(misfits)
        self._constant = constant
        self.numbers = sum(misfit.values.size for misfit in self._misfits)
        used = self._misfits if merged is None else merged
        self._queries = [(misfit, misfit.query) for misfit in used if misfit.query is not None]
        self._plain = [misfit for misfit in used if misfit.query is None]
        self._blocks, self._gaps = _blocks(factors, self._plain)
        self._scratch = np.empty(BLOCK_CELLS)
        self._spare = np.empty(BLOCK_CELLS)

    @abstractmethod
    def _cost(self, residual: Floats, variance: float) -> float:
        """The sum of the costs of residuals; their derivatives are written over `residual`."""

    @abstractmethod
    def _second_derivative(self, residual: Floats, variance: float) -> Floats | float:
        """The second derivatives of the costs; may overwrite `residual`, which is arbitrary if quadratic."""

    @abstractmethod
    def _largest_second_derivative(self, variance: float) -> float:
        """The largest second derivative of a cost, over all residuals."""

    def parts(self, flat: Floats) -> list[float]:
        losses = []
        for misfit in self._misfits:
            table = flat[self.factors.span(misfit.index)]
            predicted = table if misfit.query is None else misfit.query @ table
            losses.append(self._cost(predicted - misfit.values, misfit.variance))
        return losses

    def value_and_gradient(self, flat: Floats, gradient: Floats) -> float:
        value = self._constant
        for gap in self._gaps:
            gradient[gap] = 0.0
        for block in self._blocks:
            residuals = gradient[block.cells] if block.first else self._scratch[: block.values.size]
            np.subtract(flat[block.cells], block.values, out=residuals)
            value += self._cost(residuals, block.variance)
            if not block.first:
                gradient[block.cells] += residuals
        for misfit, query in self._queries:
            span = self.factors.span(misfit.index)
            residual = query @ flat[span] - misfit.values
            value += self._cost(residual, misfit.variance)
            gradient[span] += query.transpose() @ residual
        return value

    def curvature(self, flat: Floats, vector: Floats, out: Floats | None = None) -> Floats:
        product = np.empty(self.factors.size) if out is None else out
        for gap in self._gaps:
            product[gap] = 0.0
        for block in self._blocks:
            residuals = self._scratch[: block.values.size]
            if not self.quadratic:
                np.subtract(flat[block.cells], block.values, out=residuals)
            second = self._second_derivative(residuals, block.variance)
            if block.first:
                np.multiply(vector[block.cells], second, out=product[block.cells])
            else:
                product[block.cells] += np.multiply(vector[block.cells], second, out=residuals)
        for misfit, query in self._queries:
            span = self.factors.span(misfit.index)
            residual = misfit.values if self.quadratic else query @ flat[span] - misfit.values
            second = self._second_derivative(residual, misfit.variance)
            product[span] += query.transpose() @ (second * (query @ vector[span]))
        return product

    def diagonal(self, flat: Floats) -> Floats:
        """Exact for tables; an upper bound for queries, from their column norms and the largest second derivative."""
        diagonal = np.zeros(self.factors.size)
        for block in self._blocks:
            residual = np.subtract(flat[block.cells], block.values, out=self._scratch[: block.values.size])
            diagonal[block.cells] += self._second_derivative(residual, block.variance)
        for (misfit, _), (norms, _) in zip(self._queries, self._norms, strict=True):
            diagonal[self.factors.span(misfit.index)] += self._largest_second_derivative(misfit.variance) * norms
        return diagonal

    @cached_property
    def lipschitz(self) -> float:
        """The largest over the cliques, because the Hessian is block-diagonal by clique."""
        if not self.smooth:
            return np.inf
        steepest = np.zeros(len(self.factors))
        for misfit in self._plain:
            steepest[misfit.index] += self._largest_second_derivative(misfit.variance)
        for (misfit, _), (_, largest) in zip(self._queries, self._norms, strict=True):
            steepest[misfit.index] += self._largest_second_derivative(misfit.variance) * largest
        return float(steepest.max(initial=0.0))

    @cached_property
    def _norms(self) -> list[tuple[Floats | float, float]]:
        """For each query the squared norms of its columns, or a bound of them, and the largest eigenvalue of Q^T Q."""
        norms: list[tuple[Floats | float, float]] = []
        for _, query in self._queries:
            largest = largest_eigenvalue(query)
            inner = query.operator if isinstance(query, Reordered) else query
            known = type(inner).column_norms is not LinearOperator.column_norms
            norms.append(
                (query.column_norms(2) ** 2 if known or query.shape[1] <= MOST_NORMED_COLUMNS else largest, largest)
            )
        return norms

    def _buffer(self, size: int) -> Floats:
        """Work space: reused for at most a block of numbers, else new."""
        return self._spare[:size] if size <= len(self._spare) else np.empty(size)


def shared_factors(domain: Domain, measurements: Sequence[Measurement], factors: Factors | None) -> Factors:
    """The factors of placed measurements, or the given ones, which must contain every clique."""
    if factors is None:
        return Factors(domain, [measurement.clique for measurement in measurements])
    if factors.domain != domain:
        raise WorkloadError("factors: expected the factors of the same domain as the measurements")
    for measurement in measurements:
        factors.index(measurement.clique)
    return factors


def _blocks(factors: Factors, plain: Sequence[TableMisfit]) -> tuple[list[_CellBlock], list[slice]]:
    """Tables as blocks of cells, and the spans of cells that no table covers.

    Layer d holds the tables that are the d-th over their clique, so that the first layer writes the gradient and later
    ones add to it. Runs of neighbouring tables of equal variance in a layer are joined before they are cut into blocks.
    """
    layers: list[dict[int, TableMisfit]] = []
    for misfit in plain:
        layer = next((misfits for misfits in layers if misfit.index not in misfits), None)
        if layer is None:
            layer = {}
            layers.append(layer)
        layer[misfit.index] = misfit
    blocks: list[_CellBlock] = []
    for depth, layer in enumerate(layers):
        run: list[TableMisfit] = []
        for index in sorted(layer):
            if run and (run[-1].index + 1 != index or run[-1].variance != layer[index].variance):
                blocks.extend(_split(factors, run, depth == 0))
                run = []
            run.append(layer[index])
        blocks.extend(_split(factors, run, depth == 0))
    written = layers[0] if layers else {}
    return blocks, [factors.span(index) for index in range(len(factors)) if index not in written]


def _split(factors: Factors, run: list[TableMisfit], first: bool) -> list[_CellBlock]:
    """A run of neighbouring tables of equal variance, cut into blocks."""
    start = factors.span(run[0].index).start
    values = run[0].values if len(run) == 1 else np.concatenate([misfit.values for misfit in run])
    pieces = [(start + at, values[at : at + BLOCK_CELLS]) for at in range(0, values.size, BLOCK_CELLS)]
    return [_CellBlock(slice(at, at + piece.size), piece, run[0].variance, first) for at, piece in pieces]


class SquaredLoss(ResidualLoss):
    """sum_j |Q_j mu_j - y_j|_2^2 / (2 stddev_j^2): the Gaussian negative log-likelihood up to a constant.

    Several tables of one clique are merged into their weighted mean; the loss differs by a constant, which is added.
    `weighting="paper"` is sum_j |Q_j mu_j - y_j|_2^2 / stddev_j instead.

    Reference: [HDMM, sec. 4.2]; [AIM, sec. 2.3].
    Differs from [AIM, sec. 2.3]: the weights 1 / stddev printed there, with a squared norm, are not those of maximum
    likelihood, 1 / (2 stddev^2); the latter are the default here and the former an option.

    >>> domain = Domain({"a": 2})
    >>> twice = [Measurement(("a",), [4.0, 6.0], 1.0), Measurement(("a",), [6.0, 8.0], 1.0)]
    >>> loss, gradient = SquaredLoss(domain, twice), np.empty(2)
    >>> loss.value_and_gradient(np.array([5.0, 6.0]), gradient), gradient.tolist()
    (3.0, [0.0, -2.0])
    """

    smooth = True
    quadratic = True

    def __init__(
        self,
        domain: Domain,
        measurements: Iterable[Measurement],
        weighting: Weighting = "likelihood",
        *,
        factors: Factors | None = None,
    ) -> None:
        if weighting not in ("likelihood", "paper"):
            raise WorkloadError(f"weighting={shown(weighting)}: expected 'likelihood' or 'paper'")
        listed = placed(domain, measurements)
        factors = shared_factors(domain, listed, factors)
        variances = [m.variance if weighting == "likelihood" else m.stddev / 2 for m in listed]
        misfits = [TableMisfit.of(factors, m, variance) for m, variance in zip(listed, variances, strict=True)]
        super().__init__(factors, misfits, *_merged(misfits))

    def _cost(self, residual: Floats, variance: float) -> float:
        square = float(residual @ residual)
        residual *= 1 / variance
        return 0.5 / variance * square

    def _second_derivative(self, residual: Floats, variance: float) -> float:
        return 1 / variance

    def _largest_second_derivative(self, variance: float) -> float:
        return 1 / variance


class AbsoluteLoss(ResidualLoss):
    """sum_j sqrt(2) / stddev_j |Q_j mu_j - y_j|_1: the Laplace negative log-likelihood up to a constant.

    Not smooth; a subgradient is sqrt(2) / stddev Q^T sign(Q mu - y). `smoothed` gives a smooth loss close to it.

    Reference: [HDMM, sec. 4.2].
    """

    smooth = False

    def __init__(self, domain: Domain, measurements: Iterable[Measurement], *, factors: Factors | None = None) -> None:
        listed = placed(domain, measurements)
        factors = shared_factors(domain, listed, factors)
        super().__init__(factors, [TableMisfit.of(factors, m, m.variance) for m in listed])

    def smoothed(self, width: float) -> HuberLoss:
        """The same loss, quadratic for residuals within `width` standard deviations."""
        return HuberLoss(self.factors, self._misfits, width)

    def curvature(self, flat: Floats, vector: Floats, out: Floats | None = None) -> Floats:
        raise self.refuse_curvature()

    def diagonal(self, flat: Floats) -> Floats:
        raise self.refuse_curvature()

    def _cost(self, residual: Floats, variance: float) -> float:
        steepness = math.sqrt(2 / variance)
        signs = np.copysign(steepness, residual, out=self._buffer(residual.size))  # several times faster than sign
        value = float(signs @ residual)
        np.multiply(signs, residual != 0, out=residual)
        return value

    def _second_derivative(self, residual: Floats, variance: float) -> float:
        raise self.refuse_curvature()

    def _largest_second_derivative(self, variance: float) -> float:
        return math.inf


class HuberLoss(ResidualLoss):
    """AbsoluteLoss with |t| replaced by t^2 / (2 w) for |t| <= w and |t| - w / 2 beyond, with w = width * stddev.

    Never above the absolute loss, and at most `gap` below it: w / 2 per number, which is weighted by sqrt(2) / stddev.
    """

    smooth = True

    def __init__(self, factors: Factors, misfits: Sequence[TableMisfit], width: float) -> None:
        super().__init__(factors, misfits)
        self.width = check_number(WorkloadError, "width", width, above=0, hint=" of standard deviations")

    @property
    def gap(self) -> float:
        """The largest possible distance below the absolute loss."""
        return self.numbers * self.width / math.sqrt(2)

    def _cost(self, residual: Floats, variance: float) -> float:
        """With c = t clipped to [-w, w], the cost is c (t - c / 2) / w and its derivative c / w, both weighted."""
        w = self.width * math.sqrt(variance)
        clipped = np.clip(residual, -w, w, out=self._buffer(residual.size))
        value = float(clipped @ residual) - 0.5 * float(clipped @ clipped)
        np.multiply(clipped, self._largest_second_derivative(variance), out=residual)
        return self._largest_second_derivative(variance) * value

    def _second_derivative(self, residual: Floats, variance: float) -> Floats:
        inside = np.abs(residual, out=residual) <= self.width * math.sqrt(variance)
        return np.multiply(inside, self._largest_second_derivative(variance), out=residual)

    def _largest_second_derivative(self, variance: float) -> float:
        return math.sqrt(2) / (self.width * variance)


def loss_of(
    domain: Domain, measurements: Iterable[Measurement], loss: Loss = "auto", *, factors: Factors | None = None
) -> MarginalLoss:
    """The loss to minimise: the likelihood of each measurement's noise ("auto"), or the given one.

    "gaussian" and "laplace" treat every measurement as having that noise; "paper" is the weighting printed for AIM. A
    function gets one table per measurement, in the same order and with the same axes, and returns a value and a list
    of gradients; see `CustomLoss`.
    """
    if isinstance(loss, MarginalLoss):
        if loss.factors.domain != domain:
            raise DomainError(f"loss over {loss.factors.domain!r}: expected a loss over the domain of the measurements")
        return loss
    listed = list(measurements) if not isinstance(measurements, Measurement) else measurements
    if callable(loss):
        placed(domain, listed)
        return CustomLoss(domain, [measurement.clique for measurement in listed], loss, factors=factors)
    if loss not in ("auto", "gaussian", "laplace", "paper"):
        raise WorkloadError(
            f"loss={shown(loss)}: expected 'auto', 'gaussian', 'laplace', 'paper', a MarginalLoss or a function"
        )
    if loss != "auto":
        return LIKELIHOODS[loss](domain, listed, factors)
    ordered = placed(domain, listed)
    factors = shared_factors(domain, ordered, factors)
    kinds = {kind: [m for m in ordered if m.noise == kind] for kind in ("gaussian", "laplace")}
    losses = [LIKELIHOODS[kind](domain, same_noise, factors) for kind, same_noise in kinds.items() if same_noise]
    return losses[0] if len(losses) == 1 else SumLoss(losses)


LIKELIHOODS: dict[str, Callable[[Domain, Any, Factors | None], MarginalLoss]] = {
    "gaussian": lambda domain, listed, factors: SquaredLoss(domain, listed, factors=factors),
    "laplace": lambda domain, listed, factors: AbsoluteLoss(domain, listed, factors=factors),
    "paper": lambda domain, listed, factors: SquaredLoss(domain, listed, "paper", factors=factors),
}


def _merged(misfits: Sequence[TableMisfit]) -> tuple[list[TableMisfit], float]:
    """Misfits with all tables of a clique merged into one, and the constant by which the losses differ.

    sum_j |x - y_j|^2 / s_j^2 = |x - y|^2 / s^2 + sum_j |y_j - y|^2 / s_j^2, where y is the mean with weights 1 / s_j^2
    and 1 / s^2 is their sum.
    """
    tables: dict[int, list[TableMisfit]] = {}
    merged: list[TableMisfit] = []
    for misfit in misfits:
        if misfit.query is None:
            tables.setdefault(misfit.index, []).append(misfit)
        else:
            merged.append(misfit)
    constant = 0.0
    for index, same_table in tables.items():
        if len(same_table) == 1:
            merged.append(same_table[0])
            continue
        weights = np.array([1 / misfit.variance for misfit in same_table])
        mean = np.average([misfit.values for misfit in same_table], axis=0, weights=weights)
        constant += 0.5 * sum(float(np.sum((misfit.values - mean) ** 2)) / misfit.variance for misfit in same_table)
        merged.append(TableMisfit(index, mean, 1 / float(weights.sum()), None))
    return merged, constant


def smoothed_loss(loss: MarginalLoss, width: float) -> MarginalLoss | None:
    """A smooth loss near the given one: the loss itself if it is smooth, None if no smooth version is known."""
    if loss.smooth:
        return loss
    if isinstance(loss, AbsoluteLoss):
        return loss.smoothed(width)
    if isinstance(loss, ReorderedLoss):
        inner = smoothed_loss(loss.loss, width)
        return None if inner is None else ReorderedLoss(inner, loss.factors.domain)
    if isinstance(loss, SumLoss):
        losses = [smoothed_loss(term, width) for term in loss.losses]
        return SumLoss([term for term in losses if term is not None]) if all(losses) else None
    return None
