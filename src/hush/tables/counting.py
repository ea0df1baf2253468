"""Exact counts of many cliques from blocks of encoded rows, on every core."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hush.core.arrays import Integers
from hush.tables import _kernels
from hush.tables.scan_plan import ScanPlan

Counts = npt.NDArray[np.int64]
Counters = npt.NDArray[np.uint32] | Counts  # of rows, or of their weights
Codes = npt.NDArray[np.unsignedinteger[Any]]
CODE_TYPES = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))
SMALL_WORK = 2**17  # pairs of a row and a scan, below which threads cost more than they save
LARGEST_COUNTER = 2**32 - 1
LARGEST_COPIES = 2**24  # counters of all threads together, if each has its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where a block holds the codes of each attribute: in which of three matrices, and in which line of it."""

    width: Integers  # (attributes,) 0, 1, 2 for uint8, uint16, uint32
    line: Integers  # (attributes,)

    @classmethod
    def of(cls, dtypes: Sequence[np.dtype[Any]]) -> Layout:
        """The layout of attributes with these types, in order."""
        width = np.array([CODE_TYPES.index(dtype) for dtype in dtypes], dtype=np.int64)
        line = np.zeros(len(width), dtype=np.int64)
        for kind in range(len(CODE_TYPES)):
            line[width == kind] = np.arange(np.count_nonzero(width == kind))
        return cls(width=width, line=line)

    def block(self, columns: Sequence[Codes], weights: Counts | None = None) -> Block:
        """Copy the codes of each attribute, in order and of one length, into a block, and the weights of the rows."""
        rows = len(columns[0])
        matrices = tuple(
            np.empty((np.count_nonzero(self.width == kind), rows), dtype) for kind, dtype in enumerate(CODE_TYPES)
        )
        for column, width, line in zip(columns, self.width, self.line, strict=True):
            matrices[width][line] = column
        return Block(matrices=matrices, rows=rows, weights=None if weights is None else weights.copy())


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Encoded rows; private. Each row counts once, or as often as its weight says."""

    matrices: tuple[npt.NDArray[Any], ...]  # uint8, uint16 and uint32, each (attributes of that width, rows)
    rows: int
    weights: Counts | None = None  # (rows,)

    @property
    def nbytes(self) -> int:
        """Bytes of codes and weights."""
        return sum(matrix.nbytes for matrix in self.matrices) + (0 if self.weights is None else self.weights.nbytes)

    @property
    def total(self) -> int:
        """How many rows the block stands for."""
        return self.rows if self.weights is None else exact_sum(self.weights)


class Accumulator:
    """Counts of all cliques of a plan over the blocks added so far.

    Threads divide the scans among them, or the rows if there are fewer scans than threads; each then has its own
    counters. `add` returns while its block is still being counted, so that the caller can fetch the next one.
    `weighted` blocks are counted in 64 bits; the caller checks that their total fits.

    Privacy: the results are exact and private.
    """

    def __init__(self, plan: ScanPlan, layout: Layout, *, weighted: bool = False, threads: int | None = None) -> None:
        self._plan = plan
        self._layout = layout
        usable_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._threads = threads or usable_cores
        self._pool: ThreadPoolExecutor | None = None
        self._pending: list[Future[None]] = []
        self._results = np.empty(int(plan.cells.sum()), np.int64)
        self._fresh = True
        counters = int(plan.scan_cells.sum())
        few = len(plan.scans) < self._threads
        self._by_rows = self._threads > 1 and few and counters * self._threads <= LARGEST_COPIES
        copies = self._threads if self._by_rows else 1
        self._weighted = weighted
        self._counters: list[Counters] = [
            np.zeros(counters, np.int64) if weighted else np.zeros(counters, np.uint32) for _ in range(copies)
        ]
        self._undrained = 0  # rows that are in the counters, but not in the results yet
        self._finished = False

    def __enter__(self) -> Accumulator:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def add(self, block: Block) -> None:
        """Count the rows of a block: O(rows x scans)."""
        self._wait()
        if self._undrained + block.rows >= LARGEST_COUNTER and not self._weighted:
            self._drain()
            for counters in self._counters:
                counters[:] = 0
            self._undrained = 0
        self._undrained += block.rows
        scans = len(self._plan.scans)
        if self._by_rows:
            cuts = [block.rows * worker // self._threads for worker in range(self._threads + 1)]
            shares = zip(self._counters, cuts, cuts[1:], strict=False)
            work = [(0, scans, counters, first, last) for counters, first, last in shares]
        else:
            ranges = _split(np.ones(scans), 4 * self._threads)
            work = [(*bounds, self._counters[0], 0, block.rows) for bounds in ranges]
        self._run([partial(self._scan, block, *piece) for piece in work], work=block.rows * scans)

    def results(self) -> list[Counts]:
        """The counts of each clique, in the order of the plan: O(cells). No block can be added afterwards."""
        self._wait()
        if not self._finished:
            self._drain()
            self._finished = True
        return split_results(self._plan, self._results)

    def _scan(self, block: Block, begin: int, end: int, counters: Counters, first: int, last: int) -> None:
        plan, layout = self._plan, self._layout
        shared = plan.shared[begin:end].copy()
        shared[:1] = 0  # the scan before belongs to another thread
        scans = tuple(array[begin:end] for array in plan.scan_arrays)
        where = (layout.width, layout.line)
        _kernels.scan(block.matrices, block.weights, where, plan.sizes, scans, shared, counters, first, last)

    def _drain(self) -> None:
        """Add the counters to the int64 results."""
        for counters in self._counters:
            sources = self._plan.scan_cells[self._plan.chosen].astype(np.float64)
            tasks = [
                partial(fold_cliques, self._plan, counters, self._results, begin, end, fresh=self._fresh)
                for begin, end in _split(sources, 4 * self._threads)
            ]
            self._run(tasks, work=int(sources.sum()))
            self._wait()
            self._fresh = False

    def _run(self, tasks: Sequence[Callable[[], None]], *, work: int) -> None:
        if work < SMALL_WORK or self._threads == 1 or len(tasks) == 1:
            for task in tasks:
                task()
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="hush-count")
        self._pending = [self._pool.submit(task) for task in tasks]

    def _wait(self) -> None:
        for future in self._pending:
            future.result()
        self._pending = []


def fold_cliques(
    plan: ScanPlan,
    counters: npt.NDArray[Any],
    results: Counts,
    begin: int = 0,
    end: int | None = None,
    *,
    fresh: bool = True,
) -> None:
    """Add the counters of the scans (one after the other) onto the results of cliques begin .. end-1."""
    last = len(plan.cells) if end is None else end
    cliques = plan.clique_arrays
    _kernels.drain(begin, last, fresh, counters, plan.sizes, plan.scan_arrays, plan.chosen, cliques, results)


def split_results(plan: ScanPlan, results: Counts) -> list[Counts]:
    """The results of each clique, shaped: one axis per attribute in domain order."""
    sizes = plan.sizes.tolist()
    shapes = [
        [sizes[a] for a in clique[:length]]
        for clique, length in zip(plan.cliques.tolist(), plan.lengths.tolist(), strict=True)
    ]
    starts, ends = plan.offsets.tolist(), (plan.offsets + plan.cells).tolist()
    return [results[a:b].reshape(shape) for a, b, shape in zip(starts, ends, shapes, strict=True)]


def as_numpy(column: pa.Array) -> npt.NDArray[Any]:
    """The numbers of an Arrow array without nulls, not copied; Arrow's own method would import pandas."""
    numbers: npt.NDArray[Any] = np.frombuffer(column.buffers()[1] or b"", dtype=str(column.type))
    return numbers[column.offset : column.offset + len(column)]


def exact_sum(weights: Counts) -> int:
    """The sum of nonnegative integers, exact beyond 64 bits: upper and lower halves are added separately."""
    return (int((weights >> 32).sum()) << 32) + int((weights & 0xFFFFFFFF).sum())


def _split(weights: npt.NDArray[np.float64], pieces: int) -> list[tuple[int, int]]:
    """Consecutive ranges of about equal total weight, none of them empty."""
    if not len(weights):
        return []
    reached = np.cumsum(weights)
    cuts = np.searchsorted(reached, reached[-1] * np.arange(1, pieces) / pieces) + 1
    bounds = np.unique(np.concatenate([[0], cuts, [len(weights)]]))
    return [(int(a), int(b)) for a, b in pairwise(bounds)]
