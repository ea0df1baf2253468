"""HistogramEstimates: least squares and covariances against dense matrices, in one and two dimensions and by levels."""

from fractions import Fraction

import numpy as np
import pytest

from hush.core.domain import Domain
from hush.histograms.axis_grid import AxisForm, AxisGrid
from hush.histograms.hats import HatFit, HatQuery
from hush.histograms.histogram_estimates import HistogramEstimates, project_cells
from hush.linops import Identity, Prefix
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteLaplace

ONE = (Domain({"a": 12, "c": 3}), ("a", "c"), (AxisGrid(np.array([0, 1, 2, 5, 9, 12])),), [(), (2,), (3,)])
TWO = (
    Domain({"a": 6, "b": 5}),
    ("a", "b"),
    (AxisGrid(np.array([0, 1, 2, 4, 6])), AxisGrid(np.array([0, 2, 4, 5]))),
    [(), (2, 2)],
)


def measured(case: tuple, seed: int = 1) -> tuple[HistogramEstimates, np.ndarray, np.ndarray]:
    """Estimates from noisy answers, with dense matrices of what was measured and its precisions."""
    domain, clique, grids, levels = case
    random = np.random.default_rng(seed)
    x = random.integers(0, 60, domain.sizes(clique))
    tables, rows, precisions = [], [], []
    for number, hats in enumerate(levels):
        query, law = HatQuery(clique, grids, hats), DiscreteLaplace(Fraction(3 + 40 * number))
        exact = query.answer({clique: x})
        tables.append(Measurement.of(query, exact + random.integers(-9, 9, exact.shape), law))
        units = np.eye(x.size, dtype=np.int64).reshape(x.size, *x.shape)
        rows.append(np.array([query.answer({clique: unit}).ravel() / query.scale for unit in units]).T)
        precisions += [(query.scale / law.stddev) ** 2] * rows[-1].shape[0]
    values = np.concatenate([table.raw.ravel() / table.asked.scale for table in tables])
    return HistogramEstimates(domain, tables, "prefix"), np.concatenate(rows), np.column_stack([precisions, values])


def spread_matrix(case: tuple) -> np.ndarray:
    """From counts of buckets to counts of cells."""
    domain, clique, grids, _ = case
    matrix = np.ones((1, 1))
    for name, grid in zip(clique, grids, strict=False):
        del name
        matrix = np.kron(matrix, np.repeat(np.eye(grid.buckets) / grid.lengths, grid.lengths, axis=1).T)
    rest = int(np.prod(domain.sizes(clique[len(grids) :])))
    return np.kron(matrix, np.eye(rest))


def scatter_matrix(even: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """The covariance of cells whose rows fall at random within buckets: diag(E n) - E diag(n) E^T."""
    rows = (even > 0).T @ cells
    return np.diag(even @ rows) - even @ np.diag(rows) @ even.T


@pytest.mark.parametrize("case", [ONE, TWO])
def test_counts_of_buckets_are_weighted_least_squares(case: tuple) -> None:
    estimates, a, noisy = measured(case)
    e = spread_matrix(case)
    weighted = (a @ e).T * noisy[:, 0]
    x = np.linalg.solve(weighted @ (a @ e), weighted @ noisy[:, 1])
    assert np.allclose(estimates._fit.buckets.ravel(), x)


@pytest.mark.parametrize("case", [ONE, TWO])
def test_covariances_are_those_of_least_squares_and_of_scattered_rows(case: tuple) -> None:
    estimates, a, noisy = measured(case)
    domain, clique = case[:2]
    e = spread_matrix(case)
    dense = e @ np.linalg.inv((a @ e).T * noisy[:, 0] @ (a @ e)) @ e.T
    dense += scatter_matrix(e, estimates.cells.ravel())
    random, sizes = np.random.default_rng(4), domain.sizes(clique)
    names = tuple(clique)
    for order in (names, names[::-1]):
        axes = [names.index(name) for name in order]
        turned = dense.reshape(*sizes, *sizes).transpose(*axes, *(len(names) + axis for axis in axes))
        shape = domain.sizes(order)
        cov = turned.reshape(int(np.prod(shape)), -1)
        for groups in range(len(order) + 1):
            f, s = random.normal(size=(2, *shape))
            number = int(np.prod(shape[:groups]))
            flat = np.zeros((2, number, *shape))
            for g in range(number):
                place = np.unravel_index(g, shape[:groups]) if groups else ()
                flat[(0, g, *place)], flat[(1, g, *place)] = f[place], s[place]
            left, right = flat.reshape(2, number, -1)
            expected = np.einsum("gi,ij,gj->g", left, cov, right).reshape(shape[:groups])
            assert np.allclose(estimates.covariance(order, f, s, groups), expected)
    alone = (names[-1],)
    ones = np.ones(domain.sizes(alone))
    total = dense.reshape(*sizes, *sizes).sum(axis=tuple(i for i in range(2 * len(sizes)) if i % len(sizes) != 1))
    assert np.allclose(estimates.covariance(alone, ones, ones, 1), np.diag(total))


@pytest.mark.parametrize("case", [ONE, TWO])
def test_variances_of_products_of_queries(case: tuple) -> None:
    estimates, _, _ = measured(case)
    domain, clique = case[:2]
    sizes = domain.sizes(clique)
    blocks = [Prefix(sizes[0]), Identity(sizes[1])]
    values, variances = estimates.product(clique, blocks)
    assert np.allclose(values, np.cumsum(estimates.counts(clique), axis=0))
    for query in ((0, 0), (sizes[0] - 1, 1), (2, 2)):
        f = np.zeros(sizes)
        f[: query[0] + 1, query[1]] = 1.0
        assert variances[query] == pytest.approx(float(estimates.covariance(clique, f, f, 0)))


@pytest.mark.parametrize("case", [ONE, TWO])
def test_counts_are_never_negative_and_tables_agree(case: tuple) -> None:
    estimates, _, _ = measured(case, seed=9)
    clique = case[1]
    cells = estimates.counts(clique)
    assert (cells >= -1e-9).all()
    assert np.allclose(cells.sum(axis=1), estimates.counts(clique[:1]))
    assert np.allclose(cells.T, estimates.counts(clique[::-1]))
    assert estimates.covers(())
    assert estimates.counts(()) == pytest.approx(cells.sum())


def test_without_hats_the_counts_of_buckets_are_those_measured() -> None:
    query = HatQuery(("a",), (AxisGrid(np.array([0, 2, 4])),))
    table = Measurement.of(query, np.array([5, -2]), DiscreteLaplace(Fraction(2)))
    fit = HatFit([table], ())
    assert fit.buckets.tolist() == [5.0, -2.0]
    assert np.allclose(fit.products([np.eye(2)], [np.eye(2)]), table.law.stddev**2)


def test_prefix_sums_come_no_further_from_the_truth() -> None:
    random = np.random.default_rng(1)
    grid = AxisGrid(np.arange(65))
    for _ in range(20):
        truth = random.integers(0, 2, 64) * random.integers(0, 20, 64)
        noisy = truth + random.laplace(0, 10, 64)
        cells = project_cells(noisy, (grid,), "prefix")
        assert (cells >= 0).all()
        before, after = np.cumsum(noisy - truth), np.cumsum(cells - truth)
        assert np.linalg.norm(after) <= np.linalg.norm(before)


def test_clipping_instead_makes_prefix_sums_worse() -> None:
    """A control: the same noise, clipped cell by cell; and single cells stay as they are."""
    random = np.random.default_rng(1)
    grid, noisy = AxisGrid(np.arange(513)), random.laplace(0, 10, 512)
    assert np.array_equal(project_cells(noisy, (grid,), "cells"), noisy)
    assert np.linalg.norm(np.cumsum(np.maximum(noisy, 0))) > 3 * np.linalg.norm(np.cumsum(noisy))


@pytest.mark.parametrize("cuts", [[0, 1, 2, 4, 8, 12, 14, 15, 16], list(range(17))])
def test_rectangles_come_closer_to_the_truth(cuts: list[int]) -> None:
    random = np.random.default_rng(3)
    grid = AxisGrid(np.array(cuts))
    form = AxisForm(grid, "ranges").matrix()

    def error(x: np.ndarray) -> float:
        return float(np.sqrt((x * (form @ x @ form)).sum()))

    truth = np.zeros((grid.buckets, grid.buckets))
    truth[0, 0], truth[3, 4] = 500, 300
    gains = []
    for _ in range(10):
        noisy = truth + random.laplace(0, 10, truth.shape)
        cells = project_cells(noisy, (grid, grid), "ranges")
        assert (cells >= 0).all()
        gains.append(error(grid.added(grid.added(cells, 0), 1) - truth) / error(noisy - truth))
    assert np.mean(gains) < 0.95
    assert max(gains) < 1.5  # alternating directions stop after a number of steps


def test_long_axes_go_the_same_way_as_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    import hush.histograms.histogram_estimates as module

    random, grid = np.random.default_rng(5), AxisGrid(np.arange(33))
    noisy = random.normal(0, 10, (32, 32))
    by_matrices = project_cells(noisy, (grid, grid), "ranges")
    monkeypatch.setattr(module, "LARGEST_BASIS", 8)
    assert np.allclose(project_cells(noisy, (grid, grid), "ranges"), by_matrices, atol=1e-6)


def test_intervals_of_single_levels_cover_rows_that_fall_by_chance() -> None:
    """20,000 rows at random on 1,024 levels, four releases, about 4,000 intervals: at least 90 % hold.

    With the noise of buckets alone, the control, fewer than 70 % would.
    """
    random = np.random.default_rng(12)
    held, control = [], []
    for seed in range(4):
        x = random.multinomial(20_000, np.full(1024, 1 / 1024)).astype(np.int64)
        grid = AxisGrid(np.arange(0, 1025, 32))
        query, law = HatQuery(("a",), (grid,)), DiscreteLaplace(Fraction(20))
        noise = np.random.default_rng(seed).laplace(0, 20, 32).round().astype(np.int64)
        table = Measurement.of(query, query.answer({("a",): x}) + noise, law)
        estimates = HistogramEstimates(Domain({"a": 1024}), [table], "prefix")
        gaps = np.abs(estimates.counts(("a",)) - x)
        ones = np.ones(1024)
        held.append(gaps <= 1.96 * np.sqrt(estimates.covariance(("a",), ones, ones, 1)))
        control.append(gaps <= 1.96 * law.stddev / 32)
    assert np.mean(held) >= 0.9
    assert np.mean(control) < 0.7
