"""Reconstruction: marginals and query answers from residual answers, one pass per axis.

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

Reference: [ResidualPlanner, Alg. 2 and Thm 4.7].
Differs from [ResidualPlanner, Alg. 2]: one pass per axis, O(|A| cells), in place of 2^|A| Kronecker products.
"""

from __future__ import annotations

import itertools
import math
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hush.core.arrays import Floats, apply_each, reordered
from hush.core.domain import Clique, clique_batches
from hush.core.errors import DataError, WorkloadError
from hush.core.memory import require_memory
from hush.inference._kernels import expand_plain
from hush.linops import LinearOperator
from hush.privacy.measurement import Measurements
from hush.strategies.residual_basis import ResidualBasis
from hush.strategies.residual_strategy import ResidualStrategy

if TYPE_CHECKING:
    from concurrent.futures import Future

Levels = tuple[slice | int, ...]
Batch = list[Clique]

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


@dataclass(frozen=True, slots=True, eq=False)
class Reconstruction:
    """Marginals from residual answers, on demand or all of them in a stream."""

    answers: Measurements[ResidualStrategy]

    @property
    def strategy(self) -> ResidualStrategy:
        return self.answers.strategy

    def marginal(self, clique: Iterable[str]) -> Floats:
        """The estimated counts over a clique of the closure: one axis per attribute, in the order given."""
        names = self.strategy.domain.check(clique)
        ordered = self.strategy.domain.clique(names)
        return reordered(self._compute([ordered])[0], ordered, names)

    def query(self, clique: Iterable[str], blocks: Sequence[LinearOperator]) -> Floats:
        """The estimated answers to a product of query blocks on a clique, one axis per block."""
        values = self.marginal(clique)
        if len(blocks) != values.ndim:
            raise WorkloadError(f"{len(blocks)} query blocks for {values.ndim} attributes; give one each")
        return apply_each(blocks, values)

    def estimate_of(self, combination: Sequence[tuple[Iterable[str], Any]]) -> float:
        """The estimate of a linear combination of cells; see `variance_of` for its variance."""
        return float(sum(np.sum(self.marginal(clique) * np.asarray(given)) for clique, given in combination))

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
