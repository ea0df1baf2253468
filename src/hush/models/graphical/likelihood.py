"""Likelihoods: Gaussian and Laplace losses of what was measured, which one to use, and smooth forms of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Domain
from hush.core.errors import DomainError, WorkloadError, shown
from hush.inference.factors import Factors
from hush.models.graphical.marginal_loss import CustomLoss, LossFunction, MarginalLoss, ReorderedLoss, SumLoss
from hush.models.graphical.residual_loss import ResidualLoss, TableMisfit, shared_factors
from hush.privacy.measurement import Measurement, placed

__all__ = ["AbsoluteLoss", "CustomLoss", "HuberLoss", "Loss", "MarginalLoss", "SquaredLoss", "SumLoss", "loss_of"]

Weighting: TypeAlias = Literal["likelihood", "paper"]
Loss: TypeAlias = Literal["auto", "gaussian", "laplace", "paper"] | MarginalLoss | LossFunction

WIDTHS = (1.0, 0.2, 0.04)  # of the rounding-off, in standard deviations, one fit after the other


class SquaredLoss(ResidualLoss):
    """sum_j |Q_j mu_j - y_j|_2^2 / (2 stddev_j^2): the Gaussian negative log-likelihood up to a constant.

    Tables of one clique are merged into their weighted mean, whose loss differs by a constant, which is added.
    `weighting="paper"` is sum_j |Q_j mu_j - y_j|_2^2 / stddev_j instead.

    Reference: [HDMM, sec. 4.2]; [AIM, sec. 2.3].
    Differs from [AIM, sec. 2.3]: weights 1 / stddev are printed there with a squared norm and called maximum
    likelihood, which only 1 / (2 stddev^2) is; so that is the default, and theirs an option.

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

    def _bend(self, residual: Floats, variance: float) -> float:
        return 1 / variance

    def _steepest_bend(self, variance: float) -> float:
        return 1 / variance


class AbsoluteLoss(ResidualLoss):
    """sum_j sqrt(2) / stddev_j |Q_j mu_j - y_j|_1: the Laplace negative log-likelihood up to a constant.

    Not smooth; its subgradient is sqrt(2) / stddev Q^T sign(Q mu - y). `smoothed` is close to it and smooth.

    Reference: [HDMM, sec. 4.2].
    """

    smooth = False

    def __init__(self, domain: Domain, measurements: Iterable[Measurement], *, factors: Factors | None = None) -> None:
        listed = placed(domain, measurements)
        factors = shared_factors(domain, listed, factors)
        super().__init__(factors, [TableMisfit.of(factors, m, m.variance) for m in listed])

    def smoothed(self, width: float) -> HuberLoss:
        """The same loss, rounded off where a number is within `width` standard deviations of its measurement."""
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

    def _bend(self, residual: Floats, variance: float) -> float:
        raise self.refuse_curvature()

    def _steepest_bend(self, variance: float) -> float:
        return math.inf


class HuberLoss(ResidualLoss):
    """AbsoluteLoss with |t| replaced by t^2 / (2 w) for |t| <= w and |t| - w / 2 beyond, with w = width * stddev.

    It is never above the absolute loss and at most `gap` below it: w / 2 per number, so width / sqrt(2) each once
    weighted.
    """

    smooth = True

    def __init__(self, factors: Factors, misfits: Sequence[TableMisfit], width: float) -> None:
        if not (math.isfinite(width) and width > 0):
            raise WorkloadError(f"width={shown(width)}: expected a finite number > 0, in standard deviations")
        super().__init__(factors, misfits)
        self.width = width

    @property
    def gap(self) -> float:
        """How far it can be below the absolute loss, at most."""
        return self.numbers * self.width / math.sqrt(2)

    def _cost(self, residual: Floats, variance: float) -> float:
        """With c = t cut to [-w, w] a cost is c (t - c / 2) / w and its derivative c / w."""
        w = self.width * math.sqrt(variance)
        cut = np.clip(residual, -w, w, out=self._buffer(residual.size))
        value = float(cut @ residual) - 0.5 * float(cut @ cut)
        np.multiply(cut, self._steepest_bend(variance), out=residual)
        return self._steepest_bend(variance) * value

    def _bend(self, residual: Floats, variance: float) -> Floats:
        inside = np.abs(residual, out=residual) <= self.width * math.sqrt(variance)
        return np.multiply(inside, self._steepest_bend(variance), out=residual)

    def _steepest_bend(self, variance: float) -> float:
        return math.sqrt(2) / (self.width * variance)


def loss_of(
    domain: Domain, measurements: Iterable[Measurement], loss: Loss = "auto", *, factors: Factors | None = None
) -> MarginalLoss:
    """The loss to minimise: by the noise of each measurement ("auto"), or as asked for.

    "gaussian" and "laplace" treat every measurement as having that noise, "paper" is the weighting printed for AIM. A
    function gets one table per measurement, in their order and with their axes, and returns a value and a list of
    gradients; see `CustomLoss`.
    """
    if isinstance(loss, MarginalLoss):
        if loss.factors.domain != domain:
            raise DomainError(f"the loss is one of {loss.factors.domain!r}: expected the domain of the measurements")
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
        return _LOSSES[loss](domain, listed, factors)
    ordered = placed(domain, listed)
    factors = shared_factors(domain, ordered, factors)
    kinds = {kind: [m for m in ordered if m.noise == kind] for kind in ("gaussian", "laplace")}
    losses = [_LOSSES[kind](domain, same_noise, factors) for kind, same_noise in kinds.items() if same_noise]
    return losses[0] if len(losses) == 1 else SumLoss(losses)


_LOSSES: dict[str, Callable[[Domain, Any, Factors | None], MarginalLoss]] = {
    "gaussian": lambda domain, listed, factors: SquaredLoss(domain, listed, factors=factors),
    "laplace": lambda domain, listed, factors: AbsoluteLoss(domain, listed, factors=factors),
    "paper": lambda domain, listed, factors: SquaredLoss(domain, listed, "paper", factors=factors),
}


def _merged(misfits: Sequence[TableMisfit]) -> tuple[list[TableMisfit], float]:
    """One misfit for all tables of a clique, and the constant by which the losses differ.

    sum_j |x - y_j|^2 / s_j^2 = |x - y|^2 / s^2 + sum_j |y_j - y|^2 / s_j^2 with y the mean by weights 1 / s_j^2 and
    1 / s^2 their sum.
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


def rounded_off(loss: MarginalLoss, width: float) -> MarginalLoss | None:
    """The loss with its corners rounded off, itself where it has none, and None where that is not known."""
    if loss.smooth:
        return loss
    if isinstance(loss, AbsoluteLoss):
        return loss.smoothed(width)
    if isinstance(loss, ReorderedLoss):
        inner = rounded_off(loss.loss, width)
        return None if inner is None else ReorderedLoss(inner, loss.factors.domain)
    if isinstance(loss, SumLoss):
        losses = [rounded_off(term, width) for term in loss.losses]
        return SumLoss([term for term in losses if term is not None]) if all(losses) else None
    return None
