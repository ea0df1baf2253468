"""Trees over buckets: workloads on buckets, golden errors, estimates against dense matrices, and shares that add up."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from benchmarks.tree_budgets import geometric_tree, least_error_tree, level_tree, plain_tree

from hush.core.domain import Domain
from hush.core.errors import WorkloadError
from hush.histograms.bucket_trees import (
    AllRanges,
    BucketTree,
    BucketTreeQuery,
    LinearQueries,
    PrefixSums,
    SingleCells,
    TreeFit,
    carried_over,
    expanded,
    greedy_tree,
    nodes_by_height,
)
from hush.histograms.interval_costs import cell_order
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.events import LaplaceEvent
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.gate import Gate, Request
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteLaplace
from hush.privacy.sensitivity import Neighbours, sensitivity
from hush.testing import TinyTable, check_replay, neighbours_of

TEN_CELLS = np.array([0, 2, 3, 7, 10])


def all_ranges(cells: int) -> np.ndarray:
    return np.array([[a <= j < b for j in range(cells)] for a in range(cells) for b in range(a + 1, cells + 1)], float)


def test_answers_on_buckets_are_those_on_expanded_cells() -> None:
    """The document's example, and random queries of any coefficients."""
    counts = np.array([6.3, 7.1, 3.6, 8.4])
    assert expanded(counts, TEN_CELLS) == pytest.approx([3.15, 3.15, 7.1, 0.9, 0.9, 0.9, 0.9, 2.8, 2.8, 2.8])
    queries = np.random.default_rng(0).normal(size=(6, 10))
    assert carried_over(queries, TEN_CELLS) @ counts == pytest.approx(queries @ expanded(counts, TEN_CELLS))
    with pytest.raises(WorkloadError, match="queries on 9 cells, buckets on 10"):
        carried_over(queries[:, :9], TEN_CELLS)


@pytest.mark.parametrize(
    ("workload", "matrix"),
    [
        (PrefixSums(), np.tri(10)),
        (AllRanges(), all_ranges(10)),
        (SingleCells(), np.eye(10)),
        (LinearQueries(np.arange(30.0).reshape(3, 10) % 7), np.arange(30.0).reshape(3, 10) % 7),
    ],
    ids=["prefix sums", "ranges", "cells", "queries"],
)
@pytest.mark.parametrize("starts", [[0], [0, 1, 2, 3], [0, 3], [0, 2]])
def test_energies_are_those_of_the_matrix(workload: Any, matrix: np.ndarray, starts: list[int]) -> None:
    counts = np.random.default_rng(1).normal(size=4)
    plain = []
    for first, end in zip(starts, [*starts[1:], 4], strict=True):
        inside = (np.arange(4) >= first) & (np.arange(4) < end)
        plain.append(((carried_over(matrix, TEN_CELLS) @ np.where(inside, counts, 0)) ** 2).sum())
    assert workload.energies(TEN_CELLS, counts, np.array(starts)) == pytest.approx(plain)


CUTS = np.array([0, 2, 3, 7, 10, 11, 16, 20])


def dense(tree: BucketTree) -> np.ndarray:
    """What is measured, on buckets: a row of the tree for every node with a share."""
    leaves = np.arange(tree.buckets)
    rows = [
        w * (leaves // tree.branching**height == node)
        for height, level in enumerate(tree.weights)
        for node, w in enumerate(level)
        if w > 0
    ]
    return np.array(rows, dtype=float)


TREES = {
    "greedy": greedy_tree(CUTS, PrefixSums()),
    "greedy of three": greedy_tree(CUTS, AllRanges(), 3),
    "uniform": geometric_tree(CUTS, 2, 1.0),
    "geometric": geometric_tree(CUTS, 3),
    "plain": plain_tree(CUTS),
    "one bucket": greedy_tree(np.array([0, 20]), PrefixSums()),
}


@pytest.mark.parametrize(("cells", "published"), [(64, 41221), (256, 1601673), (1024, 51602046)])
def test_the_greedy_tree_has_the_published_error_on_all_ranges(cells: int, published: int) -> None:
    tree = greedy_tree(np.arange(cells + 1), AllRanges())
    assert tree.error(AllRanges()) * tree.units**2 == pytest.approx(published, rel=3e-5)


def test_without_the_discount_the_greedy_tree_is_twice_as_bad() -> None:
    tree = greedy_tree(np.arange(1025), AllRanges(), decay=0.0)
    assert tree.error(AllRanges()) * tree.units**2 == pytest.approx(100426138, rel=3e-5)


@pytest.mark.parametrize(("cells", "plain", "uniform"), [(64, 45760, 132336), (256, 2829056, 4355106)])
def test_plain_and_uniform_trees_have_the_published_errors(cells: int, plain: int, uniform: int) -> None:
    cuts = np.arange(cells + 1)
    assert plain_tree(cuts).error(AllRanges()) == pytest.approx(plain, rel=1e-9)
    tree = geometric_tree(cuts, ratio=1.0, units=10**6)
    assert tree.error(AllRanges()) * tree.units**2 == pytest.approx(uniform, rel=1e-4)


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())
@pytest.mark.parametrize("workload", [PrefixSums(), SingleCells()], ids=["prefix sums", "cells"])
def test_the_error_is_the_trace_of_dense_matrices(tree: BucketTree, workload: Any) -> None:
    matrix = np.tri(20) if isinstance(workload, PrefixSums) else np.eye(20)
    queries, measured = carried_over(matrix, tree.cuts), dense(tree)
    trace = np.trace(queries @ np.linalg.inv(measured.T @ measured) @ queries.T)
    assert tree.error(workload) == pytest.approx(trace, rel=1e-9)


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())
def test_estimates_are_weighted_least_squares(tree: BucketTree) -> None:
    measured = dense(tree)
    noisy = np.random.default_rng(4).normal(size=len(measured)) * 1000
    assert tree.estimates(noisy) == pytest.approx(np.linalg.lstsq(measured, noisy, rcond=None)[0], rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())
def test_shares_add_up_exactly_along_every_path(tree: BucketTree) -> None:
    paths = np.abs(dense(tree)).sum(axis=0)
    assert set(paths) == {tree.units}
    norms = BucketTreeQuery(("x",), tree).row_norms
    assert (norms.l1, norms.l2_squared) == (tree.units, (dense(tree) ** 2).sum(axis=0).max())


def test_single_cells_need_no_tree() -> None:
    tree = greedy_tree(CUTS, SingleCells())
    assert all((level == 0).all() for level in tree.weights[1:])
    assert len(set(tree.weights[0])) == 1


def test_greedy_trees_beat_the_others_on_uneven_buckets() -> None:
    cuts = np.unique(np.random.default_rng(7).integers(0, 4096, 500))
    cuts = np.concatenate([[0], cuts[cuts > 0], [4096]])
    errors = [
        tree.error(PrefixSums()) * tree.units**2
        for tree in (greedy_tree(cuts, PrefixSums()), geometric_tree(cuts), geometric_tree(cuts, ratio=1.0))
    ]
    assert errors[0] < 0.8 * min(errors[1:])


def test_the_tree_of_least_error_is_no_worse_than_any() -> None:
    """Plain for cells; the published hierarchy for prefix sums of thousands of cells; greedy for uneven buckets."""
    for cuts, workload in ((CUTS, SingleCells()), (np.arange(4097), PrefixSums()), (CUTS, AllRanges())):
        best = least_error_tree(cuts, workload)
        others = [plain_tree(cuts), greedy_tree(cuts, workload), geometric_tree(cuts, 4), level_tree(cuts, 16)]
        assert all(
            best.error(workload) * best.units**2 <= tree.error(workload) * tree.units**2 * (1 + 1e-12)
            for tree in others
        )
    assert least_error_tree(CUTS, SingleCells()).units == 1


def test_a_measured_tree_is_charged_exactly_and_replays() -> None:
    domain = Domain({"x": 6})
    tree = greedy_tree(np.array([0, 1, 3, 6]), PrefixSums())
    query = BucketTreeQuery(("x",), tree)
    bound = sensitivity(query.row_norms, max_rows=1, neighbours=Neighbours.ADD_REMOVE)
    noise = DiscreteLaplace(bound.l1 / Fraction(1, 2))
    table, account = TinyTable(domain, [(0,), (2,), (2,), (5,)]), Allowance(Budget(epsilon=0.5))
    (measured,) = Gate(table, account).measure([Request(query, noise)])
    assert account.events == (LaplaceEvent(noise.scale, Fraction(tree.units)),)
    assert account.events[0].cost.epsilon == Fraction(1, 2)
    assert len(measured.raw) == sum(np.count_nonzero(level) for level in tree.weights)

    def run(one: TinyTable) -> list[int]:
        gate = Gate(one, Allowance(Budget(epsilon=0.5)))
        return [int(value) for answer in gate.measure([Request(query, noise)]) for value in answer.raw]

    assert check_replay(run, table, neighbours_of(table)) == 10


def test_with_little_noise_counts_come_back() -> None:
    domain = Domain({"x": 6})
    rows = [(cell,) for cell, count in enumerate([4, 2, 2, 1, 1, 1]) for _ in range(count)]
    tree = greedy_tree(np.array([0, 1, 3, 6]), PrefixSums())
    gate = Gate(TinyTable(domain, rows), Allowance(Budget(epsilon=1e7)), entropy=NotPrivateEntropy(1))
    (measured,) = gate.measure([Request(BucketTreeQuery(("x",), tree), DiscreteLaplace.of_scale(Fraction(1, 64)))])
    assert expanded(tree.estimates(measured.raw), tree.cuts) == pytest.approx([4, 2, 2, 1, 1, 1], abs=1e-3)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: BucketTree(np.array([0, 1, 2]), (np.array([1, 1]), np.array([1])), 1), "branching 1"),
        (lambda: BucketTree(np.array([0, 1, 2]), (np.array([1, 1]),)), "one for each node"),
        (lambda: BucketTree(np.array([0, 1, 2]), (np.array([1, 2]), np.array([1]))), "the same sum along every path"),
        (lambda: BucketTree(np.array([0, 1, 2]), (np.array([0, 0]), np.array([1]))), "at least one unit"),
        (lambda: geometric_tree(CUTS, ratio=0.0), "ratio=0"),
    ],
)
def test_shares_that_make_no_tree_are_refused(make: Any, words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        make()


def test_nodes_are_counted_by_height() -> None:
    assert nodes_by_height(7, 2) == [7, 4, 2, 1]
    assert nodes_by_height(1, 2) == [1]


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())
def test_covariances_are_those_of_dense_matrices(tree: BucketTree) -> None:
    inverse = np.linalg.inv(dense(tree).T @ dense(tree))
    columns = np.random.default_rng(5).normal(size=(tree.buckets, 3))
    assert tree.inverse_times(columns) == pytest.approx(inverse @ columns, rel=1e-7, abs=1e-14)
    assert tree.variances() == pytest.approx(np.diagonal(inverse), rel=1e-7)


@pytest.mark.parametrize(("sizes", "curve"), [((20,), "rows"), ((5, 4), "hilbert")])
def test_a_fit_knows_the_covariances_of_cells(sizes: tuple[int, ...], curve: Any) -> None:
    tree = TREES["greedy"]
    query = BucketTreeQuery(("x", "y")[: len(sizes)], tree, curve)
    cells = np.random.default_rng(6).integers(0, 40, sizes)
    law = DiscreteLaplace(Fraction(50))
    fit = TreeFit(Measurement.of(query, query.answer({query.clique: cells}), law), sizes)
    order = cell_order(sizes, curve)
    lengths = np.diff(tree.cuts)
    spread = np.zeros((20, tree.buckets))
    spread[order, np.repeat(np.arange(tree.buckets), lengths)] = np.repeat(1 / lengths, lengths)
    covariance = spread @ np.linalg.inv(dense(tree).T @ dense(tree)) @ spread.T * law.stddev**2
    sums = np.add.reduceat(cells.ravel()[order], tree.cuts[:-1])
    assert fit.buckets.ravel() == pytest.approx(spread @ sums)
    assert fit.bucket_variances().ravel() == pytest.approx(np.diagonal(covariance))
    rows = [np.random.default_rng(7 + axis).normal(size=(2, size)) for axis, size in enumerate(sizes)]
    coefficients = rows[0] if len(sizes) == 1 else np.kron(*rows)
    assert fit.products(rows, rows).ravel() == pytest.approx(
        np.einsum("qi,ij,qj->q", coefficients, covariance, coefficients)
    )
