r"""Unbiased estimates from residual answers: marginals in one pass per axis, exact covariances of any sums of cells.

Every marginal A of the closure is estimated from the answers of its subsets,

    v_A = sum_{A' subset A} kron_{i in A} ( (M_i / L_i)^+ if i in A' else 1 / l_i )  y_{A'} / L_{A'}.

The estimate is unbiased, equals generalised least squares from all measurements, and agrees with every other marginal
on the attributes they share, up to rounding of floats.

An extended tensor has one axis per attribute, with k + 1 levels: level 0 means "attribute absent", the others are the
rows of the attribute's basis. Its levels >= 1 on the axes of A', and 0 elsewhere, belong to residual set A'. With
N = M / L, and m = 1 / l unless the basis is tilted, the step for one axis and its transpose are

    expand:    t -> N^+ t_{1..k} + m t_0                (l)
    collapse:  x -> [ m^T x ;  (N^+)^T x ]              (k + 1)

Expanding every axis of the residual answers gives the estimate of the marginal; collapsing coefficients on counts gives
coefficients on residual answers.

The residual estimate of set A' has covariance sigma^2_{A'} kron_{i in A'} G_i^+, independent of all others. So the
cells a of marginal A and b of marginal B have, with A' over the subsets of both A and B,

    Cov = sum_{A'} sigma^2_{A'} prod_{i in A'} G_i^+[a_i, b_i] prod_{j in A \ A'} 1 / l_j prod_{j in B \ A'} 1 / l_j;

where G^+ = I - 1 1^T / l on plain attributes. Coefficients on the cells of several marginals are collapsed onto
residual sets and added up there: Var = sum_{A'} sigma^2_{A'} |coefficients of A'|^2.

Reference: [ResidualPlanner, Alg. 2 and Thm 4.7].
Differs from [ResidualPlanner, Alg. 2]: one pass per axis, O(|A| cells), in place of 2^|A| Kronecker products.
Differs from [ResidualPlanner, Thm 4.7]: the covariance printed there holds only for two cells that differ in every
attribute; this one holds for any two, and across marginals.
"""

from __future__ import annotations

import itertools
import math
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hush.core.arrays import Floats, apply_each, reordered
from hush.core.domain import Clique, Domain, clique_batches
from hush.core.errors import DataError, WorkloadError
from hush.core.memory import require_memory
from hush.inference._kernels import expand_plain
from hush.inference.error_law import ErrorLaw, Law, Part, largest_of, product_part, rounding_error
from hush.linops import Identity, LinearOperator
from hush.linops.along import along
from hush.privacy.measurement import Measurements
from hush.privacy.noise import DiscreteGaussian
from hush.strategies.residual_basis import ResidualBasis
from hush.strategies.residual_strategy import ResidualStrategy

if TYPE_CHECKING:
    from concurrent.futures import Future

Levels = tuple[slice | int, ...]
Batch = list[Clique]
Combination: TypeAlias = Sequence[tuple[Iterable[str], Any]]

BATCH_CELLS = 1 << 18
SMALL_CELLS = 1 << 16  # loading the compiled loop takes longer than computing one table of this size in numpy
LARGE_CELLS = 1 << 24  # below this the free memory is not checked


def expand(extended: Floats, bases: Sequence[ResidualBasis]) -> Floats:
    """Counts from an extended tensor of residual answers, divided by L: axes of k_i + 1 levels become axes of l_i."""
    tensor = extended
    for axis, basis in enumerate(bases):
        absent, present = _take(tensor, axis, slice(0, 1)), _take(tensor, axis, slice(1, None))
        tensor = basis.estimate(present, axis) + basis.spread(absent, axis)
    return tensor


def collapse(coefficients: Floats, bases: Sequence[ResidualBasis], *, start: int = 0) -> Floats:
    """Coefficients on residual answers from coefficients on counts: the transpose of `expand`, from axis `start` on."""
    tensor = coefficients
    for axis, basis in enumerate(bases[start:], start=start):
        tensor = np.concatenate([basis.mean(tensor, axis), basis.adjoint(tensor, axis)], axis=axis)
    return tensor


def subset_levels(attributes: int) -> Iterator[tuple[int, Levels]]:
    """Every subset of the axes as a mask, bit i for axis i, with its levels of an extended tensor."""
    for mask in range(1 << attributes):
        yield mask, tuple(slice(1, None) if mask >> axis & 1 else 0 for axis in range(attributes))


def _take(tensor: Floats, axis: int, levels: slice) -> Floats:
    return tensor[(slice(None),) * axis + (levels,)]


def covariance_of(strategy: ResidualStrategy, first: Combination, second: Combination) -> float:
    """The covariance of two sums of cells, given as cliques and coefficients on their marginals in the clique's order.

    Exact for any number of overlapping marginals. O(sum of |A| cells(A)) for plain attributes.

    >>> from hush.strategies.select_residual import select_residual
    >>> from hush.workloads import Workload
    >>> plan = select_residual(Workload.kway(Domain({"a": 2, "b": 3}), 2), rho=0.5).value
    >>> zero = [(("a", "b"), np.ones((2, 3))), ((), -1.0)]
    >>> round(covariance_of(plan, zero, zero), 12)
    0.0
    """
    left = _collapsed(strategy, first)
    right = left if second is first else _collapsed(strategy, second)
    shared = left.keys() & right.keys()
    return float(sum(strategy.sigma_squared[index] * np.sum(left[index] * right[index]) for index in shared))


def combination_law(answers: Measurements[ResidualStrategy], combination: Combination) -> ErrorLaw:
    """The law of the error of a sum of cells."""
    return set_law(answers, _collapsed(answers.strategy, combination))


def set_law(answers: Measurements[ResidualStrategy], coefficients: Mapping[int, Floats]) -> ErrorLaw:
    """The law of the error of a sum with coefficients on residual answers, by position of the set."""
    strategy, rounding = answers.strategy, 0.0
    parts: list[Part] = []
    for index, values in coefficients.items():
        scale = strategy.query(index).scale
        law = DiscreteGaussian(Fraction(strategy.sigma_squared[index]) * scale**2)
        parts.append((values / scale, np.ones(1), law))
        rounding += rounding_error(values / scale, np.ones(1), largest_of(answers[index]))
    return ErrorLaw(parts, rounding)


def _collapsed(strategy: ResidualStrategy, combination: Combination) -> dict[int, Floats]:
    """Coefficients on the residual answers of each set, added up over the marginals of a combination."""
    total: dict[int, Floats] = {}
    for clique, coefficients in combination:
        names = strategy.domain.check(clique)
        ordered = strategy.domain.clique(names)
        shape, given = strategy.domain.sizes(names), np.asarray(coefficients, dtype=np.float64)
        if given.shape != shape or not np.isfinite(given).all():
            raise WorkloadError(
                f"coefficients on {names!r}: expected finite numbers of shape {shape}, got {given.shape}"
            )
        extended = collapse(reordered(given, names, ordered), strategy.clique_bases(ordered))
        subsets = strategy.closure.subsets(ordered)
        for mask, levels in subset_levels(len(ordered)):
            index = int(subsets[mask])
            total[index] = total[index] + extended[levels] if index in total else np.asarray(extended[levels])
    return total


@dataclass(frozen=True, slots=True)
class NoisySource:
    """A noisy table that residual answers combine: the variance of its numbers, and the law of its integers.

    With `residual`, only the residual of the clique itself was measured.
    """

    clique: Clique
    variance: float
    law: Law
    scale: int = 1
    residual: bool = False


class ResidualEstimates:
    """Unbiased counts of every measured clique, mutually consistent; implements `Estimates`."""

    def __init__(self, answers: Measurements[ResidualStrategy], sources: Sequence[NoisySource] | None = None) -> None:
        self.answers = answers
        self._sources = sources  # the tables that the answers combine; None if the answers were measured themselves

    @property
    def _whole(self) -> bool:
        return bool(self.answers.filled.all())

    @cached_property
    def _largest(self) -> float:
        """The largest answer."""
        return largest_of(self.answers.flat)

    @property
    def strategy(self) -> ResidualStrategy:
        """The measured sets, and their noise."""
        return self.answers.strategy

    @property
    def domain(self) -> Domain:
        return self.strategy.domain

    @cached_property
    def cliques(self) -> tuple[Clique, ...]:
        largest: list[Clique] = []
        inner: set[Clique] = set()
        for clique in reversed(self.strategy.closure.cliques):
            if not (self._whole or self.covers(clique)):
                continue
            if clique not in inner:
                largest.append(clique)
            inner.update(clique[:i] + clique[i + 1 :] for i in range(len(clique)))
        return tuple(reversed(largest))

    def covers(self, clique: Iterable[str]) -> bool:
        """Whether the clique and all its subsets were measured."""
        names = self.domain.clique(clique)
        if names not in self.strategy.closure:
            return False
        return self._whole or bool(self.answers.filled[self.strategy.closure.subsets(names)].all())

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> None:
        """None, because a set is measured cell by cell or not at all."""

    def counts(self, clique: Iterable[str]) -> Floats:
        names = self.domain.check(clique)
        ordered = self.domain.clique(names)
        return np.asarray(reordered(self._compute([ordered])[0], ordered, names), order="C")

    def estimate_of(self, combination: Sequence[tuple[Iterable[str], Any]]) -> float:
        """The estimate of a linear combination of cells; see `combination_law` for its error."""
        return float(sum(np.sum(self.counts(clique) * np.asarray(given)) for clique, given in combination))

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        """The covariance of two sums over cells for every combination of levels of the first `groups` attributes.

        The noise of residual set A' enters a sum through its coefficients c, centred along A' and averaged along the
        other axes: cov = sum_{A'} sigma^2_{A'} <first_{A'}, second_{A'}>. Along a grouped axis the coefficients are
        those of one level, and its centred and mean parts are known for every level. O(k cells + 2^k prod groups).
        """
        # The variance of every residual set, for every combination of levels of the grouped attributes.
        names = self.domain.check(clique)
        bases = self.strategy.clique_bases(names)
        ordered = self.domain.clique(names)
        weights = reordered(self.strategy.subset_variances(ordered), ordered, names)
        for axis, (basis, size) in enumerate(zip(bases[:groups], self.domain.sizes(names), strict=False)):
            level = Identity(size)
            pair = np.column_stack([basis.query_mean(level), basis.query_variances(level)])
            weights = along(pair, weights, axis)

        # The inner products of both sums' coefficients on every residual set.
        products = collapse(np.asarray(first, dtype=np.float64), bases, start=groups)
        products = products * (
            products if second is first else collapse(np.asarray(second, dtype=np.float64), bases, start=groups)
        )
        for axis in range(groups, len(names)):
            kept = np.take(products, [0], axis=axis)
            rest = np.take(products, range(1, products.shape[axis]), axis=axis).sum(axis=axis, keepdims=True)
            products = np.concatenate([kept, rest], axis=axis)
        return np.asarray((weights * products).sum(axis=tuple(range(groups, len(names)))))

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        values = self.counts(clique)
        if len(blocks) != values.ndim:
            raise WorkloadError(f"{len(blocks)} query blocks for {values.ndim} attributes; give one each")
        return apply_each(blocks, values), self.strategy.query_variances(clique, blocks)

    @property
    def laplace(self) -> bool:
        return any(source.law.name == "laplace" for source in self._sources or ())

    def alike(self, name: str) -> bool:
        return self.strategy.basis(name).is_plain

    def error_law(
        self, clique: Clique, coefficients: Floats, blocks: Sequence[LinearOperator] | None = None
    ) -> ErrorLaw:
        """The law of the error of a sum, from the noise of the residual answers or of the tables they combine.

        A combined answer of set A averages those of the tables t with the weights w_tA of `marginal_noise`, so that
        cell x of t has the coefficient sum_{A in t} w_tA c_A[x_A].
        """
        names = self.domain.check(clique)
        ordered = self.domain.clique(names)
        bases = self.strategy.clique_bases(ordered)
        extended = collapse(reordered(np.asarray(coefficients, dtype=np.float64), names, ordered), bases)
        sets = list(zip(self.strategy.closure.subsets(ordered).tolist(), subset_levels(len(ordered)), strict=True))
        if self._sources is None:
            return set_law(self.answers, {index: np.asarray(extended[levels]) for index, (_, levels) in sets})
        # A residual source is noise of its own set alone, so of thousands only those of subsets of the clique count.
        coefficients_of = [(index, mask, np.asarray(extended[levels])) for index, (mask, levels) in sets]
        parts = [
            self._part(source, ordered, coefficients_of)
            for source in self._sources
            if not source.residual or set(source.clique) <= set(ordered)
        ]
        return ErrorLaw(parts, rounding_error(extended, np.ones(1), self._largest))

    def _part(self, source: NoisySource, clique: Clique, sets: list[tuple[int, int, Floats]]) -> Part:
        """The coefficients of a source's noise in a sum, given by its coefficients on residual sets."""
        shared = [name for name in clique if name in source.clique]
        total = {name: self.strategy.basis(name).total_weights for name in shared}
        table = np.zeros([len(total[name]) for name in shared])
        for index, mask, coefficients in sets:
            inside = [name for axis, name in enumerate(clique) if mask >> axis & 1]
            if not set(inside) <= set(shared) or (source.residual and len(inside) < len(source.clique)):
                continue
            outside = math.prod(self.strategy.basis(n).total_variance_factor for n in source.clique if n not in inside)
            weight = self.strategy.sigma_squared[index] / (source.variance * outside)
            for name in shared:
                if name not in inside:
                    coefficients = np.multiply.outer(coefficients, total[name])
                    inside = [*inside, name]
            table += weight * reordered(coefficients, inside, shared)
        others = [self.strategy.basis(name).total_weights for name in source.clique if name not in shared]
        return product_part(table / source.scale, others, source.law)

    def marginals(
        self, cliques: Iterable[Iterable[str]] | None = None, *, threads: int | None = None
    ) -> Iterator[tuple[Clique, Floats]]:
        """Each clique, in domain order of its names, with its estimated counts; the whole closure by default.

        A stream: about `threads` batches of `BATCH_CELLS` cells are in memory at a time. Arrays are views into their
        batch; copy those to keep.
        """
        from concurrent.futures import ThreadPoolExecutor

        domain = self.strategy.domain
        requested = self.strategy.closure.cliques if cliques is None else tuple(domain.clique(c) for c in cliques)
        runs = (run for _, run in itertools.groupby(requested, key=len))
        batches = (batch for run in runs for batch in clique_batches(domain, run, BATCH_CELLS))
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        workers = threads or processors
        with ThreadPoolExecutor(workers) as pool:
            pending: deque[tuple[Batch, Future[list[Floats]]]] = deque()
            for batch in batches:
                pending.append((batch, pool.submit(self._compute, batch)))
                if len(pending) > 2 * workers:
                    done, future = pending.popleft()
                    yield from zip(done, future.result(), strict=True)
            for done, future in pending:
                yield from zip(done, future.result(), strict=True)

    def _compute(self, batch: Batch) -> list[Floats]:
        """The marginals of cliques of one length, each in domain order."""
        # The positions of all subsets of every clique; refuse what was not measured.
        closure, flat = self.strategy.closure, self.answers.flat
        k = len(batch[0])
        rows = np.array([closure.axes(clique) for clique in batch], dtype=np.int32).reshape(len(batch), k)
        subsets = np.empty((len(batch), 1 << k), dtype=np.int64)
        for mask in range(1 << k):
            subsets[:, mask] = closure.lookup(rows[:, [bit for bit in range(k) if mask >> bit & 1]])
        if subsets.min() < 0:
            for clique in batch:
                closure.index(clique)
        filled = self.answers.filled[subsets]
        if not filled.all():
            raise DataError(self.answers.missing(int(subsets[~filled][0])))

        # Axis by axis on general bases; in numpy for one small table; else by the compiled loop.
        if not all(
            basis.is_plain for basis in self.strategy.clique_bases({name for clique in batch for name in clique})
        ):
            return [self._general(clique, subsets[i]) for i, clique in enumerate(batch)]
        sizes = np.array(self.strategy.domain.shape, dtype=np.int64)[rows].reshape(len(batch), k)
        cells = np.prod(sizes, axis=1)
        ends = np.cumsum(cells)
        if ends[-1] > LARGE_CELLS:
            table = f"the table over {', '.join(batch[0])}"
            require_memory(40 * int(ends[-1]), table, "ask for fewer attributes", share=0.8)
        if len(batch) == 1 and ends[-1] <= SMALL_CELLS:
            return [self._small(batch[0], subsets[0])]
        out = np.empty(int(ends[-1]))
        expand_plain(flat, self.answers.starts[subsets], sizes, out, ends - cells)
        spans = zip((ends - cells).tolist(), ends.tolist(), sizes.tolist(), strict=True)
        return [out[start:end].reshape(shape) for start, end, shape in spans]

    def _small(self, clique: Clique, subsets: np.ndarray[Any, np.dtype[np.int64]]) -> Floats:
        """One marginal of plain attributes: the numpy twin of `expand_plain`, with its operations in the same order."""
        sizes, starts, flat = self.strategy.domain.sizes(clique), self.answers.starts, self.answers.flat
        tensor = np.empty(tuple(size + 1 for size in sizes))
        for mask, levels in subset_levels(len(sizes)):
            present = [size for axis, size in enumerate(sizes) if mask >> axis & 1]
            scale = 1.0
            for size in present:
                scale /= size
            start = int(starts[subsets[mask]])
            tensor[levels] = flat[start : start + math.prod(present)].reshape(present) * scale
        for axis, size in enumerate(sizes):
            absent, counted = _take(tensor, axis, slice(0, 1)), _take(tensor, axis, slice(1, None))
            if axis < len(sizes) - 1:
                rest = np.subtract.accumulate(tensor, axis)
            else:
                rest = absent - np.add.accumulate(counted, axis)
            tensor = counted + _take(rest, axis, slice(-1, None)) / size
        return tensor

    def _general(self, clique: Clique, subsets: np.ndarray[Any, np.dtype[np.int64]]) -> Floats:
        """One marginal on any bases: fill the extended tensor, then expand every axis."""
        bases = self.strategy.clique_bases(clique)
        extended = np.empty(tuple(basis.rows + 1 for basis in bases))
        starts, flat = self.answers.starts, self.answers.flat
        for mask, levels in subset_levels(len(bases)):
            present = [basis for axis, basis in enumerate(bases) if mask >> axis & 1]
            values = flat[starts[subsets[mask]] : starts[subsets[mask] + 1]].reshape([basis.rows for basis in present])
            extended[levels] = values / math.prod(float(basis.scale) for basis in present)
        return expand(extended, bases)
