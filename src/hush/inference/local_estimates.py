"""LocalEstimates: each question answered from one part of a strategy, by the pseudo-inverse of its factors.

From answers y of a part with factors Q_g, the counts are (kron_g Q_g^+) y and a sum with coefficients f has variance
s^2 |(kron_g (Q_g^+)^T) f|^2, with s^2 the variance of the part's noise; factor by factor, axis by axis.

Reference: [HDMM, sec. 3.6], local least squares.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hush.domain import Clique, Domain
from hush.errors import WorkloadError
from hush.inference.linear_answers import LinearAnswers
from hush.linops import Identity, LinearOperator
from hush.linops.along import along_all
from hush.strategies.factor import Factor
from hush.strategies.part import Part

Floats = np.ndarray[Any, np.dtype[np.float64]]


class LocalEstimates:
    """Unbiased counts from the part that knows them best; tables from different parts may disagree within their errors.

    Implements `Estimates`.
    """

    def __init__(self, answers: LinearAnswers, *, only: Part | None = None) -> None:
        self._answers = answers
        self._only = only
        self._parts = answers.filled if only is None else [only]

    @property
    def domain(self) -> Domain:
        """The attributes and their sizes."""
        return self._answers.strategy.domain

    @cached_property
    def cliques(self) -> tuple[Clique, ...]:
        """The largest cliques whose every cell can be estimated."""
        full = list(dict.fromkeys(part.clique for part in self._parts if part.full))
        return tuple(c for c in full if not any(set(c) < set(other) for other in full))

    def covers(self, clique: Clique) -> bool:
        """Whether one part supports every cell of a clique."""
        return any(part.supports(clique, self._levels(clique)) for part in self._parts)

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> LocalEstimates | None:
        """Estimates from the part that knows these sums best; its counts have least norm."""
        able = [part for part in self._parts if part.supports_sums(clique, coefficients, groups)]
        views = [LocalEstimates(self._answers, only=part) for part in able]
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
        part = self._best(names, blocks)
        values = self._values(part, names)
        for axis, block in enumerate(blocks):
            moved = np.moveaxis(values, axis, 0)
            answered = block.matmat(moved.reshape(moved.shape[0], -1))
            values = np.moveaxis(answered.reshape((-1, *moved.shape[1:])), 0, axis)
        return values, part.variances(names, blocks)

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        """The covariance of two sums over cells for every combination of levels of the first `groups` attributes."""
        names = self.domain.check(clique)
        part = self._best(names, self._levels(names))
        letters = iter(string.ascii_letters)
        left = {name: next(letters) for name in names}
        right = {name: left[name] if place < groups else next(letters) for place, name in enumerate(names)}
        operands: list[tuple[Floats, str]] = []
        pair = [np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)]
        scale = part.variance
        for group, sizes, factor in zip(part.groups, part.sizes, part.factors, strict=True):
            inside = [name for name in group if name in left]
            if not inside:
                scale *= factor.total_variance(part.blocks_of((), ())[part.groups.index(group)])
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

    def _values(self, part: Part, names: Clique) -> Floats:
        """The estimated counts over some attributes of a part: totals are taken first, while they shrink the work."""
        tensor: np.ndarray[Any, Any] = self._answers.integers(part)
        kept: list[tuple[Factor, Clique, tuple[int, ...]]] = []
        for axis in reversed(range(len(part.factors))):
            group, factor = part.groups[axis], part.factors[axis]
            if set(group) & set(names):
                kept.insert(0, (factor, group, part.sizes[axis]))
            else:
                tensor = np.tensordot(tensor, factor.adjoint(np.ones(factor.size), 0), axes=(axis, 0))
        tensor = along_all([own.estimate for own, _, _ in kept], tensor, [own.size for own, _, _ in kept], np.float64)
        tensor = np.divide(tensor, part.query.scale, out=tensor if tensor.dtype.kind == "f" else None)
        tensor = tensor.reshape([size for _, _, sizes in kept for size in sizes])
        axes = [name for _, group, _ in kept for name in group]
        gone = tuple(place for place, name in enumerate(axes) if name not in names)
        tensor = tensor.sum(axis=gone) if gone else tensor
        axes = [name for name in axes if name in names]
        return np.asarray(np.transpose(tensor, [axes.index(name) for name in names]), order="C")

    def _best(self, names: Clique, blocks: Sequence[LinearOperator]) -> Part:
        able = [part for part in self._parts if part is self._only or part.supports(names, blocks)]
        if not able:
            raise WorkloadError(
                f"the queries on {', '.join(names) or 'the total'} are no combination of what was measured; "
                "a workload with them would have supported them"
            )
        return able[0] if len(able) == 1 else min(able, key=lambda part: part.total(names, blocks))

    def _levels(self, clique: Clique) -> list[LinearOperator]:
        return [Identity(size) for size in self.domain.sizes(clique)]


def _joint(
    factor: Factor,
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
