"""ResidualEstimates: what can be asked of residual answers, with exact covariances of grouped sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hush.domain import Clique, Domain
from hush.inference.answers import ResidualAnswers
from hush.inference.residual import Reconstruction
from hush.linops import Identity, LinearOperator
from hush.strategies.basis import Basis
from hush.strategies.residual import ResidualStrategy

Floats = np.ndarray[Any, np.dtype[np.float64]]


class ResidualEstimates:
    """Unbiased counts of every measured clique, mutually consistent; implements `Estimates`."""

    def __init__(self, answers: ResidualAnswers) -> None:
        self._answers = answers
        self._reconstruction = Reconstruction(answers)

    @property
    def _whole(self) -> bool:
        return bool(self._answers.filled.all())

    @property
    def strategy(self) -> ResidualStrategy:
        """What was measured, and with how much noise."""
        return self._answers.strategy

    @property
    def domain(self) -> Domain:
        """The attributes and their sizes."""
        return self.strategy.domain

    @cached_property
    def cliques(self) -> tuple[Clique, ...]:
        """The largest cliques that can be estimated."""
        found: list[Clique] = []
        inner: set[Clique] = set()
        for clique in reversed(self.strategy.closure.cliques):
            if not (self._whole or self.covers(clique)):
                continue
            if clique not in inner:
                found.append(clique)
            inner.update(clique[:i] + clique[i + 1 :] for i in range(len(clique)))
        return tuple(reversed(found))

    def covers(self, clique: Iterable[str]) -> bool:
        """Whether the clique and all its subsets were measured."""
        names = self.domain.clique(clique)
        if names not in self.strategy.closure:
            return False
        return self._whole or bool(self._answers.filled[self.strategy.closure.subsets(names)].all())

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> None:
        """Every set is known level by level, or not at all."""

    def counts(self, clique: Clique) -> Floats:
        """Estimated counts over a clique, in the order of its names."""
        return np.asarray(self._reconstruction.marginal(clique), order="C")

    def all(self) -> Iterator[tuple[Clique, Floats]]:
        """Every measured clique with its estimated counts, in a stream; copy the arrays that are to be kept."""
        return self._reconstruction.marginals([clique for clique in self.strategy.closure if self.covers(clique)])

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        """The covariance of two sums over cells for every combination of levels of the first `groups` attributes.

        The noise of residual set A' enters a sum with coefficients c through c taken off its mean along A' and averaged
        along the rest, so cov = sum_{A'} sigma^2_{A'} <first_{A'}, second_{A'}>. Along a grouped axis the coefficients
        are those of one level, whose residual and mean parts are known per level. O(k cells + 2^k prod groups).

        Reference: [ResidualPlanner, Thm 4.7]; differs from its covariance of two cells, which holds only for cells that
        differ in every attribute.
        """
        names = self.domain.check(clique)
        bases = self.strategy.clique_bases(names)
        weights = self._sigma_squared(names)  # (2,) * k: present or not, per attribute in the order given
        for axis, (basis, size) in enumerate(zip(bases[:groups], self.domain.sizes(names), strict=False)):
            level = Identity(size)
            pair = np.column_stack([basis.query_mean(level), basis.query_variances(level)])
            weights = np.moveaxis(np.tensordot(pair, weights, axes=(1, axis)), 0, axis)
        products = _split(first, bases, groups)
        products = products * (products if second is first else _split(second, bases, groups))
        for axis in range(groups, len(names)):
            kept = np.take(products, [0], axis=axis)
            rest = np.take(products, range(1, products.shape[axis]), axis=axis).sum(axis=axis, keepdims=True)
            products = np.concatenate([kept, rest], axis=axis)
        return np.asarray((weights * products).sum(axis=tuple(range(groups, len(names)))))

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        """The estimated answers to a product of query blocks and their exact variances, one axis per block."""
        return self._reconstruction.query(clique, blocks), self.strategy.query_variances(clique, blocks)

    def _sigma_squared(self, names: Clique) -> Floats:
        ordered = self.domain.clique(names)
        k = len(names)
        # bit i of a subset's number is attribute i of the ordered clique, so the axes come out in reverse
        tensor = self.strategy.sigma_squared[self.strategy.closure.subsets(ordered)].reshape((2,) * k).T
        return np.transpose(tensor, [ordered.index(name) for name in names])


def _split(coefficients: Floats, bases: tuple[Basis, ...], groups: int) -> Floats:
    """Coefficients along each axis after the groups as their mean part, then their residual part."""
    found = np.asarray(coefficients, dtype=np.float64)
    for axis in range(groups, len(bases)):
        found = np.concatenate([bases[axis].mean(found, axis), bases[axis].adjoint(found, axis)], axis=axis)
    return found
