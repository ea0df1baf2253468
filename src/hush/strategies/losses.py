"""Losses: what a plan makes small. Weights multiply variance, as in `Workload`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from hush.arrays import Floats
from hush.errors import WorkloadError, shown
from hush.workloads import Workload


@dataclass(frozen=True, slots=True)
class SumOfVariances:
    """sum_i weight_i * (variances of the queries of term i, added up); "rmse" for short. Solved in closed form."""


@dataclass(frozen=True, slots=True)
class MaxVariance:
    """max_i weight_i * (largest variance of a query of term i); "maxvar" for short."""


@dataclass(frozen=True, slots=True)
class MaxOfSums:
    """The largest of several stakeholders' own weighted sums of variances.

    A stakeholder is a workload within the planned one, or one weight >= 0 for each term of the planned one.
    """

    stakeholders: tuple[Workload | tuple[float, ...], ...]

    def __init__(self, stakeholders: Sequence[Workload | Sequence[float]]) -> None:
        if not stakeholders:
            raise WorkloadError("MaxOfSums: expected at least one stakeholder")
        checked: list[Workload | tuple[float, ...]] = []
        for stakeholder in stakeholders:
            if isinstance(stakeholder, Workload):
                checked.append(stakeholder)
                continue
            weights = tuple(float(weight) for weight in stakeholder)
            if not weights or min(weights) < 0 or max(weights) <= 0 or not np.isfinite(weights).all():
                raise WorkloadError(f"MaxOfSums: weights {shown(weights)}: expected numbers >= 0, one of them > 0")
            checked.append(weights)
        object.__setattr__(self, "stakeholders", tuple(checked))


@runtime_checkable
class ConvexLoss(Protocol):
    """A convex loss of the variances, one per term: the variance of each cell of a marginal, or the mean over the
    queries of another term. It must not fall where a variance rises, and must have a gradient everywhere.
    """

    def value(self, variances: Floats) -> float: ...
    def gradient(self, variances: Floats) -> Floats: ...


Loss: TypeAlias = SumOfVariances | MaxVariance | MaxOfSums | ConvexLoss

_NAMED: dict[str, Loss] = {"rmse": SumOfVariances(), "maxvar": MaxVariance()}


def loss_of(loss: str | Loss) -> Loss:
    """A loss by name, "rmse" or "maxvar", or the loss itself."""
    if isinstance(loss, str):
        if loss not in _NAMED:
            raise WorkloadError(f"loss={loss!r}: expected 'rmse', 'maxvar' or a loss object")
        return _NAMED[loss]
    if isinstance(loss, SumOfVariances | MaxVariance | MaxOfSums | ConvexLoss):
        return loss
    raise WorkloadError(f"loss={shown(loss)}: expected 'rmse', 'maxvar' or an object with value and gradient")
