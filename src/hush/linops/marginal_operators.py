"""MarginalSet, weighted marginals one below the other, and MarginalGram, which holds their Gram matrices.

A set of attributes is a number a whose bit i says whether attribute i is in it; C(a) = kron_i [I if i in a else 1 1^T],
and c(a) is the product of the sizes of the attributes outside a. All G(v) = sum_a v(a) C(a) commute. On the space of
functions that depend on exactly the attributes of a, G(v) has the eigenvalue

    kappa(a) = sum_{b containing a} v(b) c(b),    with multiplicity prod_{i in a} (n_i - 1).

Sums over all supersets or subsets (zeta transforms) and their inverses (Moebius transforms) take O(d 2^d).

Reference: [HDMM, Sec. 3.6 and App.].
Differs from [HDMM]: multiplicities are prod (n_i - 1), not prod n_i. The generalised inverse printed there is not the
Moore-Penrose inverse; we use G(v)^+ = G(Y^-1 kappa^+) with Y v = kappa, in O(d 2^d).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import SizeError, WorkloadError, shown
from hush.linops.operator import ComparedByValue, EqualColumns, LinearOperator, Symmetric, check_fits, check_norm


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
    """A new array, where `step` (add or subtract) merged the other half of each attribute's axis into half `target`."""
    x = np.array(values, dtype=np.float64)
    if x.shape != (1 << attributes,):
        raise WorkloadError(
            f"values of shape {x.shape}: expected a number for each of the 2^{attributes} subsets of attributes"
        )
    for i in range(attributes):
        pairs = x.reshape(-1, 2, 1 << i)
        step(pairs[:, target], pairs[:, 1 - target], out=pairs[:, target])
    return x


LARGEST_DIMENSION = 24  # attributes: 2^24 coefficients take 128 MB


class MarginalGram(ComparedByValue, EqualColumns, Symmetric):
    """G(v) over attributes of the given sizes, with a coefficient v(a) for each of the 2^d sets of attributes.

    `matmat` takes O(d n) per column and one copy; every other member takes O(d 2^d), whatever the sizes.

    >>> gram = MarginalGram((2, 3), [0, 1, 1, 0])  # of both one-way marginals
    >>> gram.dense()[0].tolist(), gram.eigenvalues.tolist(), gram.trace()
    ([2.0, 1.0, 1.0, 1.0, 0.0, 0.0], [5.0, 3.0, 2.0, 0.0], 12.0)
    """

    __slots__ = ("coefficients", "eigenvalues", "shape", "sizes")
    shape: tuple[int, int]
    compared = ("sizes", "coefficients")

    def __init__(self, sizes: Sequence[int], coefficients: Any) -> None:
        self._set_sizes(sizes)
        self.coefficients = self._checked(coefficients)
        d = len(self.sizes)
        terms = self.coefficients * complement_sizes(self.sizes)
        # kappa = Y v, where a sum within its rounding error of zero becomes exactly zero.
        self.eigenvalues = superset_sums(terms, d)
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
        gram._set_sizes(sizes)
        gram.eigenvalues = gram._checked(eigenvalues)
        d = len(gram.sizes)
        gram.coefficients = superset_differences(gram.eigenvalues, d) / complement_sizes(gram.sizes)
        gram.coefficients.setflags(write=False)
        return gram

    def _set_sizes(self, sizes: Sequence[int]) -> None:
        self.sizes = check_sizes(sizes)
        self.shape = math.prod(self.sizes), math.prod(self.sizes)

    @property
    def multiplicities(self) -> Floats:
        """prod_{i in a} (n_i - 1) for every a; they add up to n."""
        return _outer([(1.0, n - 1.0) for n in self.sizes])

    def matmat(self, x: Floats) -> Floats:
        cells = np.array(x, dtype=np.float64, order="C").reshape((*self.sizes, x.shape[1]))
        kappa = self.eigenvalues.reshape((2,) * len(self.sizes)).T  # axis i is bit i
        # Change to a basis where index 0 along each axis is the mean and the other indices have mean zero, scale by the
        # eigenvalues, and change back.
        for axis in range(len(self.sizes)):
            _split_means(np.moveaxis(cells, axis, 0))
        cells *= kappa[np.ix_(*[np.minimum(np.arange(n), 1) for n in self.sizes])][..., None]
        for axis in range(len(self.sizes)):
            _join_means(np.moveaxis(cells, axis, 0))
        return cells.reshape(-1, x.shape[1])

    def dense(self) -> Floats:
        check_fits(self.shape, "keep it implicit: its other members work on the coefficients")
        # The entry of two cells depends on the set of attributes on which they agree, one bit per attribute.
        agreed = np.zeros((1, 1), dtype=np.int64)
        for i, n in enumerate(self.sizes):
            agreement = np.eye(n, dtype=np.int64) << i
            agreed = (agreed[:, None, :, None] + agreement[None, :, None, :]).reshape(len(agreed) * n, -1)
        return self._entries()[agreed]

    def times(self, other: LinearOperator) -> LinearOperator:
        """G(u) G(v) has the products of the eigenvalues."""
        if isinstance(other, MarginalGram) and other.sizes == self.sizes:
            return MarginalGram.of_eigenvalues(self.sizes, self.eigenvalues * other.eigenvalues)
        return LinearOperator.times(self, other)

    def gram(self) -> LinearOperator:
        return self.times(self)

    def pinv(self) -> MarginalGram:
        """The exact Moore-Penrose inverse: 1 / kappa where kappa is not zero."""
        kappa = self.eigenvalues
        inverse = np.divide(1.0, kappa, out=np.zeros_like(kappa), where=kappa != 0)
        return MarginalGram.of_eigenvalues(self.sizes, inverse)

    def sensitivity(self, p: int) -> float:
        """From the entries of any column: a cell agrees on exactly s with prod_{i not in s} (n_i - 1) cells."""
        check_norm(p)
        entries = np.abs(self._entries())
        counts = _outer([(n - 1.0, 1.0) for n in self.sizes])
        return float(np.sum(counts * entries**p) ** (1 / p))

    def trace(self) -> float:
        return float(self.shape[0] * self.coefficients.sum())

    def _entries(self) -> Floats:
        """The entry of two cells that agree on exactly s, for every s: sum_{a within s} v(a)."""
        return subset_sums(self.coefficients, len(self.sizes))

    def _checked(self, values: Any) -> Floats:
        numbers = np.array(values, dtype=np.float64)
        if numbers.shape != (1 << len(self.sizes),) or not np.isfinite(numbers).all():
            raise WorkloadError(
                f"coefficients of shape {numbers.shape}: expected a finite number for each of the "
                f"{1 << len(self.sizes)} sets of {len(self.sizes)} attributes"
            )
        numbers.setflags(write=False)
        return numbers


def check_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """The sizes of attributes, of which there are few enough to hold a number for each set of them."""
    checked = _positive_sizes(sizes)
    if len(checked) > LARGEST_DIMENSION:
        raise SizeError(
            f"{len(checked)} attributes have 2^{len(checked)} subsets, more than 2^{LARGEST_DIMENSION}; "
            "use fewer attributes, or mechanism='residual', which uses only the subsets that the workload needs"
        )
    return checked


def _positive_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    whole = tuple(int(n) for n in sizes)
    if not whole or min(whole) < 1:
        raise WorkloadError(f"sizes={whole}: expected at least one attribute, each with at least one level")
    return whole


def complement_sizes(sizes: Sequence[int]) -> Floats:
    """c(a) = prod_{i not in a} n_i for every a, (2^d,)."""
    return _outer([(float(n), 1.0) for n in sizes])


def _split_means(x: Floats) -> None:
    """In place: the first level becomes the mean of all levels, every other level loses the mean of those before.

    The differences span the vectors of mean zero. Unlike coefficients in an orthonormal basis they have the magnitude
    of the entries, so rounding errors are relative to each entry. Running means are taken of deviations from the mean
    of all levels, so that rounding errors do not accumulate.
    """
    mean = x.mean(axis=0)
    x -= mean
    means = np.cumsum(x, axis=0)
    means /= _counted(x, 1)
    x[1:] -= means[:-1]
    x[0] = mean + means[-1]


def _join_means(x: Floats) -> None:
    """Undo `_split_means`: the mean of the first j levels is the mean of all, minus x_i / (i + 1) for every i >= j."""
    mean = x[0].copy()
    x[0] = 0.0
    if len(x) > 1:
        tails = np.cumsum((x[1:] / _counted(x, 2))[::-1], axis=0)[::-1]
        x[1:] -= tails
        x[0] = -tails[0]
    x += mean


def _counted(x: Floats, first: int) -> Floats:
    """first, first + 1, ..., len(x), shaped to divide x along its first axis."""
    return np.arange(float(first), len(x) + 1).reshape(-1, *[1] * (x.ndim - 1))


def _outer(pairs: Sequence[tuple[float, float]]) -> Floats:
    """For every set a, the product over all i of the second number of pair i if i is in a, else of the first."""
    products = np.ones(1)
    for pair in pairs:
        products = np.multiply.outer(pair, products).ravel()
    return products


class MarginalSet(ComparedByValue, EqualColumns):
    """M(u): the marginal of every set of attributes in `weights`, given by its axes, times its weight u.

    Marginals are in the order of the mapping, the cells of each in row-major order. Each marginal is summed from the
    smallest other marginal that contains it.

    Reference: [HDMM, Sec. 3.6]; |M(u)|_1 = |u|_1, |M(u)|_2 = |u|_2, M(u)^T M(u) = G(u^2).

    >>> pairs = MarginalSet((2, 3), {(0,): 1.0, (): -2.0})
    >>> pairs.dense().tolist()
    [[1.0, 1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 1.0, 1.0], [-2.0, -2.0, -2.0, -2.0, -2.0, -2.0]]
    """

    __slots__ = ("_parents", "_rows", "_weight_items", "shape", "sizes", "weights")
    shape: tuple[int, int]
    compared = ("sizes", "_weight_items")

    def __init__(self, sizes: Sequence[int], weights: Mapping[tuple[int, ...], float]) -> None:
        self.sizes = _positive_sizes(sizes)
        self.weights = {}
        for given_axes, weight in weights.items():
            axes, d = tuple(int(i) for i in given_axes), len(self.sizes)
            if any(a >= b for a, b in pairwise(axes)) or (axes and not 0 <= axes[0] <= axes[-1] < d):
                raise WorkloadError(f"marginal {shown(given_axes)}: expected ascending axes within 0 .. {d - 1}")
            if not math.isfinite(weight) or weight == 0:
                raise WorkloadError(f"weight {weight} of {axes}: expected a finite number, or leave the marginal out")
            self.weights[axes] = float(weight)
        if not self.weights:
            raise WorkloadError("a set of no marginals: expected at least one")
        self._weight_items = tuple(self.weights.items())
        cells = {axes: math.prod(self.sizes[i] for i in axes) for axes in self.weights}
        self.shape = sum(cells.values()), math.prod(self.sizes)
        ends = pairwise(accumulate(cells.values(), initial=0))
        self._rows = {axes: slice(start, stop) for axes, (start, stop) in zip(cells, ends, strict=True)}

        # For every marginal, largest first, the smallest earlier marginal that contains it; None if none does.
        self._parents: dict[tuple[int, ...], tuple[int, ...] | None] = {}
        masks: dict[tuple[int, ...], int] = {}
        for axes in sorted(self.weights, key=lambda axes: (-cells[axes], -len(axes))):
            mask = _mask(axes)
            containing = (other for other in reversed(masks) if mask & masks[other] == mask)
            self._parents[axes] = next(containing, None)
            masks[axes] = mask

    def matmat(self, x: Floats) -> Floats:
        k = x.shape[1]
        whole = x.reshape((*self.sizes, k))
        answers = np.empty((self.shape[0], k))
        tables: dict[tuple[int, ...], Floats] = {}
        for axes, parent in self._parents.items():
            table = whole if parent is None else tables[parent]
            summed_axes = tuple(i for i in range(len(self.sizes)) if i not in axes and table.shape[i] > 1)
            tables[axes] = table.sum(axis=summed_axes, keepdims=True) if summed_axes else table
            np.multiply(tables[axes].reshape(-1, k), self.weights[axes], out=answers[self._rows[axes]])
        return answers

    def adjoint(self, y: Floats) -> Floats:
        k = y.shape[1]
        whole = np.zeros((*self.sizes, k))
        tables = {
            axes: weight * y[self._rows[axes]].reshape((*(n if i in axes else 1 for i, n in enumerate(self.sizes)), k))
            for axes, weight in self.weights.items()
        }
        for axes, parent in reversed(self._parents.items()):
            target = whole if parent is None else tables[parent]
            target += tables.pop(axes)
        return whole.reshape(-1, k)

    def gram(self) -> MarginalGram:
        """G(u^2); 2^d coefficients."""
        coefficients = np.zeros(1 << len(check_sizes(self.sizes)))
        for axes, weight in self.weights.items():
            coefficients[_mask(axes)] = weight**2
        return MarginalGram(self.sizes, coefficients)

    def pinv(self) -> LinearOperator:
        """G(u^2)^+ M(u)^T."""
        return self.gram().pinv() @ self.transpose()

    def sensitivity(self, p: int) -> float:
        """|u|_p, since every cell counts in exactly one cell of each marginal."""
        check_norm(p)
        weights = [abs(weight) for weight in self.weights.values()]
        return math.fsum(weights) if p == 1 else math.hypot(*weights)

    def __repr__(self) -> str:
        return f"MarginalSet({len(self.weights)} marginals over {self.sizes})"


def _mask(axes: tuple[int, ...]) -> int:
    return sum(1 << i for i in axes)
