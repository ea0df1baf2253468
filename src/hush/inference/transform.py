"""Residual transforms along axes: from residual answers to counts, and back by the transpose.

An extended tensor has one axis per attribute, with k + 1 levels: level 0 stands for "attribute absent", the others for
the rows of the attribute's basis. The part with levels >= 1 on the axes of A' and 0 elsewhere belongs to residual set
A'. With N = M / L the step for one axis and its transpose are

    expand:    t -> N^+ t_{1..k} + m t_0                (l)
    collapse:  x -> [ m^T x ;  (N^+)^T x ]              (k + 1)

with m = 1 / l unless the basis is tilted,

so that expanding every axis of the residual answers gives the best linear unbiased estimate of the marginal, and
collapsing coefficients on counts gives coefficients on residual answers.

Reference: [ResidualPlanner, Alg. 2 and Thm 4.7].
Differs from [ResidualPlanner, Alg. 2]: one pass per axis, O(|A| cells), in place of 2^|A| Kronecker products.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hush.strategies.basis import Basis

Floats = np.ndarray[Any, np.dtype[np.float64]]
Part = tuple[slice | int, ...]


def expand(extended: Floats, bases: Sequence[Basis]) -> Floats:
    """Counts from an extended tensor of residual answers over L: axes of k_i + 1 levels become axes of l_i."""
    tensor = extended
    for axis, basis in enumerate(bases):
        absent, present = _take(tensor, axis, slice(0, 1)), _take(tensor, axis, slice(1, None))
        tensor = basis.estimate(present, axis) + basis.spread(absent, axis)
    return tensor


def collapse(coefficients: Floats, bases: Sequence[Basis]) -> Floats:
    """Coefficients on residual answers from coefficients on counts: the transpose of `expand`."""
    tensor = coefficients
    for axis, basis in enumerate(bases):
        tensor = np.concatenate([basis.mean(tensor, axis), basis.adjoint(tensor, axis)], axis=axis)
    return tensor


def parts(attributes: int) -> Iterator[tuple[int, Part]]:
    """Every subset of the axes as a mask, bit i for axis i, with its part of an extended tensor."""
    for mask in range(1 << attributes):
        yield mask, tuple(slice(1, None) if mask >> axis & 1 else 0 for axis in range(attributes))


def _take(tensor: Floats, axis: int, levels: slice) -> Floats:
    return tensor[(slice(None),) * axis + (levels,)]
