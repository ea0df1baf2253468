"""Each kernel against its plain numpy twin."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.tables import _kernels
from hush.tables.counting import Accumulator, Block, Layout, fold_cliques, split_results
from hush.tables.scan_plan import plan_scans

WIDTHS = {7: np.uint8, 300: np.uint16, 70_000: np.uint32}


def numpy_sums(columns, weights, sizes, clique):
    """The twin of weighted scans."""
    shape = tuple(sizes[a] for a in clique)
    sums = np.zeros(int(np.prod(shape, dtype=int)), np.int64)
    cells = np.ravel_multi_index(tuple(columns[a] for a in clique), shape) if clique else np.zeros(len(weights), int)
    np.add.at(sums, cells, weights)
    return sums.reshape(shape)


def numpy_counts(columns, sizes, clique):
    """The twin: one flat cell number per row, then bincount."""
    shape = tuple(sizes[a] for a in clique)
    if not clique:
        return np.array(len(columns[0]))
    cells = np.ravel_multi_index(tuple(columns[a] for a in clique), shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)


@given(data=st.data())
def test_a_fold_is_a_sum_over_axes(data) -> None:
    sizes = np.array(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=6)), np.int64)
    outer = data.draw(st.lists(st.sampled_from(range(len(sizes))), unique=True).map(sorted))
    inner = [a for a in outer if data.draw(st.booleans())]
    source = np.arange(int(np.prod(sizes[outer])), dtype=np.uint32) ** 2 % 101
    target = np.ones(int(np.prod(sizes[inner])), np.int64)
    _kernels.fold(source, sizes, np.array([*outer, -1]), len(outer), np.array([*inner, -1]), len(inner), target)
    axes = tuple(k for k, a in enumerate(outer) if a not in inner)
    expected = 1 + source.reshape(sizes[outer]).sum(axis=axes, dtype=np.int64)
    np.testing.assert_array_equal(target.reshape(sizes[inner]), expected)


@pytest.mark.parametrize("rows", [0, 1, _kernels.BLOCK_ROWS - 1, _kernels.BLOCK_ROWS, 3 * _kernels.BLOCK_ROWS + 17])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_scans_count_every_width_of_code(rows, threads) -> None:
    random = np.random.default_rng(rows)
    sizes = [7, 300, 70_000, 7, 7, 7]
    columns = [random.integers(0, n, rows).astype(WIDTHS[n]) for n in sizes]
    cliques = [(), (0,), (1,), (2,), (0, 1), (0, 2), (0, 3, 4), (0, 3, 5), (1, 4), (3,), (3, 4, 5)]
    layout = Layout.of([column.dtype for column in columns])
    plan = plan_scans(sizes, cliques, rows=rows)
    with Accumulator(plan, layout, threads=threads) as accumulator:
        accumulator.add(layout.block(columns))
        accumulator.add(layout.block([column[: rows // 2] for column in columns]))
        results = accumulator.results()
        again = accumulator.results()
    for clique, counts, same in zip(cliques, results, again, strict=True):
        twice = numpy_counts(columns, sizes, clique) + numpy_counts([c[: rows // 2] for c in columns], sizes, clique)
        assert counts.dtype == np.int64
        assert counts.flags.c_contiguous
        np.testing.assert_array_equal(counts, twice)
        np.testing.assert_array_equal(same, twice)


@pytest.mark.parametrize("rows", [0, 1, _kernels.BLOCK_ROWS, 2 * _kernels.BLOCK_ROWS + 17])
@pytest.mark.parametrize("threads", [1, 3])
def test_weighted_scans_add_in_64_bits(rows, threads) -> None:
    random = np.random.default_rng(rows)
    sizes = [7, 300, 70_000, 7, 7, 7]
    columns = [random.integers(0, n, rows).astype(WIDTHS[n]) for n in sizes]
    weights = random.integers(0, 2**40, rows) * random.integers(0, 2, rows)
    cliques = [(), (0,), (2,), (0, 1), (0, 3, 4), (0, 3, 5), (1, 4), (3, 4, 5)]
    layout = Layout.of([column.dtype for column in columns])
    with Accumulator(plan_scans(sizes, cliques, rows=rows), layout, weighted=True, threads=threads) as accumulator:
        accumulator.add(layout.block(columns, weights))
        accumulator.add(layout.block([column[: rows // 2] for column in columns], weights[: rows // 2]))
        results = accumulator.results()
    weights[: rows // 2] *= 2
    for clique, sums in zip(cliques, results, strict=True):
        np.testing.assert_array_equal(sums, numpy_sums(columns, weights, sizes, clique))


def test_one_clique_is_shared_out_by_rows() -> None:
    random = np.random.default_rng(1)
    columns = [random.integers(0, 5, 200_000).astype(np.uint8) for _ in range(3)]
    layout = Layout.of([column.dtype for column in columns])
    plan = plan_scans([5, 5, 5], [(0, 1, 2)], rows=200_000)
    with Accumulator(plan, layout, threads=3) as accumulator:
        accumulator.add(layout.block(columns))
        (counts,) = accumulator.results()
    np.testing.assert_array_equal(counts, numpy_counts(columns, [5, 5, 5], (0, 1, 2)))


def test_counters_do_not_overflow(monkeypatch) -> None:
    monkeypatch.setattr("hush.tables.counting.LARGEST_COUNTER", 100)
    block = Layout.of([np.dtype(np.uint8)]).block([np.arange(60, dtype=np.uint8) % 3])
    with Accumulator(plan_scans([3], [(0,), ()], rows=60), Layout.of([np.dtype(np.uint8)])) as accumulator:
        for _ in range(7):
            accumulator.add(block)
        counts, total = accumulator.results()
    assert counts.tolist() == [140, 140, 140]
    assert total == 420


def test_many_scans_with_shared_prefixes() -> None:
    random = np.random.default_rng(2)
    sizes = [2, 3, 4, 5, 6, 7, 8]
    columns = [random.integers(0, n, 20_000).astype(np.uint8) for n in sizes]
    cliques = list(itertools.combinations(range(7), 4))
    layout = Layout.of([column.dtype for column in columns])
    with Accumulator(plan_scans(sizes, cliques, rows=20_000), layout, threads=2) as accumulator:
        accumulator.add(layout.block(columns))
        results = accumulator.results()
    for clique, counts in zip(cliques, results, strict=True):
        np.testing.assert_array_equal(counts, numpy_counts(columns, sizes, clique))


def test_counters_of_64_bits_fold_too() -> None:
    plan = plan_scans([2, 3], [(0, 1), (1,)], rows=1e9)
    counters = np.arange(6, dtype=np.int64) * 2**40
    results = np.empty(int(plan.cells.sum()), np.int64)
    fold_cliques(plan, counters, results)
    both, second = split_results(plan, results)
    assert second.tolist() == both.sum(axis=0).tolist() == [3 * 2**40, 5 * 2**40, 7 * 2**40]


def test_a_block_knows_its_size() -> None:
    block = Layout.of([np.dtype(np.uint8), np.dtype(np.uint32)]).block(
        [np.zeros(10, np.uint8), np.zeros(10, np.uint32)]
    )
    assert isinstance(block, Block)
    assert block.nbytes == 50
    weighted = Layout.of([np.dtype(np.uint8)]).block([np.zeros(3, np.uint8)], np.array([2**62, 2**62, 2**62 + 1]))
    assert (block.total, weighted.nbytes, weighted.total) == (10, 27, 3 * 2**62 + 1)
