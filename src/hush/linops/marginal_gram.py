"""MarginalGram: the matrices that treat all levels of an attribute alike, and the transforms that diagonalise them.

A set of attributes is a number a whose bit i says whether attribute i is in it; C(a) = kron_i [I if i in a else 1 1^T],
and c(a) is the product of the sizes outside a. All G(v) = sum_a v(a) C(a) commute: the projection onto what depends on
exactly the attributes of a has in each of them the eigenvalue

    kappa(a) = sum_{b containing a} v(b) c(b),    with multiplicity prod_{i in a} (n_i - 1).

Sums over all supersets or subsets, and their inverses, are zeta and Moebius transforms along d axes: O(d 2^d).

Reference: [HDMM, Sec. 3.6 and App.].
Differs from [HDMM]: multiplicities are prod (n_i - 1), not prod n_i; the generalised inverse printed there holds for
group inverses alone, and G(v)^+ = G(Y^-1 kappa^+) is used, with Y v = kappa, in O(d 2^d).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import SizeError, WorkloadError
from hush.linops.operator import EqualColumns, LinearOperator, check_fits, check_norm


def superset_sums(values: Floats, attributes: int) -> Floats:
    """z(a) = sum over b containing a of x(b).

    >>> superset_sums(np.array([1.0, 2.0, 3.0, 4.0]), 2).tolist()
    [10.0, 6.0, 7.0, 4.0]
    """
    return _along_axes(values, attributes, np.add, 0)


def subset_sums(values: Floats, attributes: int) -> Floats:
    """z(a) = sum over b within a of x(b).

    >>> subset_sums(np.array([1.0, 2.0, 3.0, 4.0]), 2).tolist()
    [1.0, 3.0, 4.0, 10.0]
    """
    return _along_axes(values, attributes, np.add, 1)


def superset_differences(values: Floats, attributes: int) -> Floats:
    """The x whose superset sums are given: x(a) = sum over b containing a of (-1)^|b \\ a| z(b)."""
    return _along_axes(values, attributes, np.subtract, 0)


def subset_differences(values: Floats, attributes: int) -> Floats:
    """The x whose subset sums are given: x(a) = sum over b within a of (-1)^|a \\ b| z(b)."""
    return _along_axes(values, attributes, np.subtract, 1)


def _along_axes(values: Floats, attributes: int, step: np.ufunc, target: int) -> Floats:
    """A new array; along each attribute's axis, `step` takes the other level into level `target`."""
    x = np.array(values, dtype=np.float64)
    if x.shape != (1 << attributes,):
        raise WorkloadError(f"{x.shape}: expected one number for each of the 2^{attributes} sets of attributes")
    for i in range(attributes):
        pairs = x.reshape(-1, 2, 1 << i)
        step(pairs[:, target], pairs[:, 1 - target], out=pairs[:, target])
    return x


LARGEST_DIMENSION = 24


class MarginalGram(EqualColumns):
    """G(v) over attributes of the given sizes: a coefficient for each of the 2^d sets of attributes.

    Columns cost O(d n) and one copy; the rest O(d 2^d), whatever the sizes.

    >>> gram = MarginalGram((2, 3), [0, 1, 1, 0])  # of both one-way marginals
    >>> gram.dense()[0].tolist(), gram.eigenvalues.tolist(), gram.trace()
    ([2.0, 1.0, 1.0, 1.0, 0.0, 0.0], [5.0, 3.0, 2.0, 0.0], 12.0)
    """

    __slots__ = ("coefficients", "eigenvalues", "sizes")

    def __init__(self, sizes: Sequence[int], coefficients: Any) -> None:
        self.sizes = check_sizes(sizes)
        self.coefficients = self._checked(coefficients)
        d = len(self.sizes)
        terms = self.coefficients * complement_sizes(self.sizes)
        self.eigenvalues = superset_sums(terms, d)  # kappa = Y v; a sum that is zero up to its rounding is zero
        rounding = 4 * (d + 1) * np.finfo(np.float64).eps * superset_sums(np.abs(terms), d)
        self.eigenvalues[np.abs(self.eigenvalues) <= rounding] = 0.0
        self.eigenvalues.setflags(write=False)

    @classmethod
    def of_eigenvalues(cls, sizes: Sequence[int], eigenvalues: Any) -> MarginalGram:
        """The G(v) with given eigenvalues kappa: v = Y^-1 kappa.

        >>> MarginalGram.of_eigenvalues((3,), [4.0, 1.0]).dense().tolist()
        [[2.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, 2.0]]
        """
        gram = cls.__new__(cls)
        gram.sizes = check_sizes(sizes)
        gram.eigenvalues = gram._checked(eigenvalues)
        d = len(gram.sizes)
        gram.coefficients = superset_differences(gram.eigenvalues, d) / complement_sizes(gram.sizes)
        gram.coefficients.setflags(write=False)
        return gram

    @property
    def shape(self) -> tuple[int, int]:
        n = math.prod(self.sizes)
        return n, n

    @property
    def multiplicities(self) -> Floats:
        """prod_{i in a} (n_i - 1) for every a; they add up to n."""
        return _outer([(1.0, n - 1.0) for n in self.sizes])

    def matmat(self, x: Floats) -> Floats:
        cells = np.array(x, dtype=np.float64, order="C").reshape((*self.sizes, x.shape[1]))
        kappa = self.eigenvalues.reshape((2,) * len(self.sizes)).T  # axis i is bit i
        for axis in range(len(self.sizes)):
            _split_means(np.moveaxis(cells, axis, 0))
        cells *= kappa[np.ix_(*[np.minimum(np.arange(n), 1) for n in self.sizes])][..., None]
        for axis in range(len(self.sizes)):
            _join_means(np.moveaxis(cells, axis, 0))
        return cells.reshape(-1, x.shape[1])

    def dense(self) -> Floats:
        check_fits(self.shape, "keep it implicit: every other member works on the coefficients")
        agreed = np.zeros((1, 1), dtype=np.int64)
        for i, n in enumerate(self.sizes):
            agreement = np.eye(n, dtype=np.int64) << i
            agreed = (agreed[:, None, :, None] + agreement[None, :, None, :]).reshape(len(agreed) * n, -1)
        return self._entries()[agreed]

    def transpose(self) -> LinearOperator:
        return self

    def times(self, other: LinearOperator) -> LinearOperator:
        """G(u) G(v) has the products of the eigenvalues."""
        if isinstance(other, MarginalGram) and other.sizes == self.sizes:
            return MarginalGram.of_eigenvalues(self.sizes, self.eigenvalues * other.eigenvalues)
        return LinearOperator.times(self, other)

    def gram(self) -> LinearOperator:
        return self.times(self)

    def gram_dense(self) -> Floats:
        return self.gram().dense()

    def pinv(self) -> MarginalGram:
        """The exact Moore-Penrose inverse: 1 / kappa where kappa is not zero."""
        kappa = self.eigenvalues
        inverse = np.divide(1.0, kappa, out=np.zeros_like(kappa), where=kappa != 0)
        return MarginalGram.of_eigenvalues(self.sizes, inverse)

    def sensitivity(self, p: int) -> float:
        """A cell agrees on exactly s with prod_{i not in s} (n_i - 1) others."""
        check_norm(p)
        entries = np.abs(self._entries())
        counts = _outer([(n - 1.0, 1.0) for n in self.sizes])
        return float(np.sum(counts * entries**p) ** (1 / p))

    def trace(self) -> float:
        return float(self.shape[0] * self.coefficients.sum())

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, MarginalGram) and self.sizes == other.sizes
        return same and np.array_equal(self.coefficients, other.coefficients)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.sizes, self.coefficients.tobytes()))

    def __repr__(self) -> str:
        return f"MarginalGram({self.sizes})"

    def _entries(self) -> Floats:
        """The entry of two cells that agree on exactly s: sum_{a within s} v(a)."""
        return subset_sums(self.coefficients, len(self.sizes))

    def _checked(self, values: Any) -> Floats:
        given = np.array(values, dtype=np.float64)
        if given.shape != (1 << len(self.sizes),) or not np.isfinite(given).all():
            raise WorkloadError(
                f"coefficients of shape {given.shape}: expected a finite number for each of the "
                f"{1 << len(self.sizes)} sets of {len(self.sizes)} attributes"
            )
        given.setflags(write=False)
        return given


def check_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """Sizes of attributes, few enough for a number for each of their sets."""
    given = tuple(int(n) for n in sizes)
    if not given or min(given) < 1:
        raise WorkloadError(f"sizes={given}: expected at least one attribute, each with at least one level")
    if len(given) > LARGEST_DIMENSION:
        raise SizeError(
            f"{len(given)} attributes have 2^{len(given)} sets, more than 2^{LARGEST_DIMENSION}; use fewer attributes, "
            "or mechanism='residual', which only looks at the sets that are asked for"
        )
    return given


def complement_sizes(sizes: Sequence[int]) -> Floats:
    """c(a) = prod_{i not in a} n_i for every a, (2^d,)."""
    return _outer([(float(n), 1.0) for n in sizes])


def _split_means(x: Floats) -> None:
    """In place, the mean of all levels, then each level less the mean of those before it.

    The differences span the vectors of mean zero. Unlike in an orthonormal basis every entry keeps its magnitude, so
    rounding errors stay relative to the entries. Running means are of deviations, which do not drift.
    """
    mean = x.mean(axis=0)
    x -= mean
    means = np.cumsum(x, axis=0)
    means /= _counted(x, 1)
    x[1:] -= means[:-1]
    x[0] = mean + means[-1]


def _join_means(x: Floats) -> None:
    """Undo `_split_means`: the mean of the first j levels is that of all, less x_i / (i + 1) for every i from j on."""
    mean = x[0].copy()
    x[0] = 0.0
    if len(x) > 1:
        tails = np.cumsum((x[1:] / _counted(x, 2))[::-1], axis=0)[::-1]
        x[1:] -= tails
        x[0] = -tails[0]
    x += mean


def _counted(x: Floats, first: int) -> Floats:
    """first, first + 1, .. as far as there are levels, along the first axis."""
    return np.arange(float(first), len(x) + 1).reshape(-1, *[1] * (x.ndim - 1))


def _outer(pairs: Sequence[tuple[float, float]]) -> Floats:
    """prod_i (second of pair i where i is in a, else first) for every a."""
    products = np.ones(1)
    for pair in pairs:
        products = np.multiply.outer(pair, products).ravel()
    return products
