"""The posterior of maps: against integration over small trees, its plain twin, and maps of known kinds."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from hush.histograms import _posterior_kernels, block_posterior
from hush.histograms.axis_grid import AxisGrid
from hush.histograms.block_fit import BlockFit
from hush.histograms.block_tree import BlockTree
from hush.histograms.hats import HatQuery
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian

FLAT, EMPTY = 0.3, 0.3
EVEN = np.full(64, 0.4)  # shares of a split are all alike


def integrated(y: np.ndarray, variance: np.ndarray, points: int = 101) -> np.ndarray:
    """Means of the counts of four leaves by summing over all cases and a fine grid of counts."""

    def likelihood(v: int, count: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * (y[v] - count) ** 2 / variance[v]) if variance[v] > 0 else np.ones_like(count)

    def halves(v: int) -> list[tuple[str, float]]:
        return [("flat", FLAT), ("left", EMPTY / 2), ("right", EMPTY / 2), ("split", 0.4)]

    total, sums = 0.0, np.zeros(4)
    grid = np.linspace(0, 130, points)
    step = grid[1]
    shares = (np.arange(24) + 0.5) / 24
    for (top, p), (one, p1), (two, p2) in itertools.product(halves(1), halves(2), halves(3)):
        weight = p * (1.0 if top in ("flat", "right") else p1) * (1.0 if top in ("flat", "left") else p2)
        if (top in ("flat", "right") and one != "flat") or (top in ("flat", "left") and two != "flat"):
            continue  # halves of what is even or empty have no case of their own
        r = {"flat": [0.5], "left": [1.0], "right": [0.0], "split": shares}
        c, a, b, e = np.meshgrid(grid, r[top], r[one], r[two], indexing="ij")
        left, right = c * a, c * (1 - a)
        leaves = [left * b, left * (1 - b), right * e, right * (1 - e)]
        density = weight * step / (np.size(r[top]) * np.size(r[one]) * np.size(r[two]))
        mass = density * likelihood(1, c) * likelihood(2, left) * likelihood(3, right)
        for v, leaf in enumerate(leaves):
            mass = mass * likelihood(4 + v, leaf)
        total += mass.sum()
        sums += [(mass * leaf).sum() for leaf in leaves]
    return sums / total


def kernel_means(y: np.ndarray, variance: np.ndarray, points: int = 64, plain: bool = False) -> np.ndarray:
    area = np.array([0, 4, 2, 2, 1, 1, 1, 1.0])
    means, spreads = np.zeros((2, 8))
    kernel = _posterior_kernels.tree_posterior
    kernel(y, variance, area, FLAT, EMPTY, EVEN, points, means, spreads)  # compiled from here on
    if plain:
        means, spreads = np.zeros((2, 8))
        with pytest.MonkeyPatch.context() as patch:
            for name, compiled in list(vars(_posterior_kernels).items()):
                if hasattr(compiled, "py_func"):
                    patch.setattr(_posterior_kernels, name, compiled.py_func)
            _posterior_kernels.tree_posterior(y, variance, area, FLAT, EMPTY, EVEN, points, means, spreads)
    assert (spreads >= 0).all()
    return block_posterior._adding_up(means, spreads)[4:]


@pytest.mark.parametrize(
    "y",
    [
        [0, 80, 0, 0, 72, 5, 1, -4],
        [0, 40, 0, 0, 9, 12, 11, 8],
        [0, 60, 0, 0, 55, -9, 20, 3],
        [0, 30, 0, 0, 2, 3, -1, 25],
    ],
)
def test_means_are_those_of_the_posterior(y: list[float]) -> None:
    variance = np.array([0, 60, 0, 0, 40, 40, 40, 40.0])
    found = kernel_means(np.array(y, dtype=float), variance)
    np.testing.assert_allclose(found, integrated(np.array(y, dtype=float), variance), atol=1.0)
    least = np.array(y[4:]) + (y[1] - sum(y[4:])) * 40 / (4 * 40 + 60)
    assert np.abs(found - least).max() > 1.5  # the prior matters here


def test_the_compiled_kernel_is_its_plain_twin() -> None:
    y, variance = np.array([0, 50, 0, 20, 31, 2, 9, 14.0]), np.array([0, 90, 0, 70, 40, 40, 40, 40.0])
    np.testing.assert_allclose(kernel_means(y, variance), kernel_means(y, variance, plain=True), rtol=1e-9)


def noisy(x: np.ndarray, deviation: float, seed: int = 2) -> list[Measurement]:
    """Tables of the buckets and of nested blocks with normal noise, rounded."""
    grids = tuple(AxisGrid(np.arange(count + 1)) for count in x.shape)
    tree, random = BlockTree(x.shape), np.random.default_rng(seed)
    tables = []
    for level in (tree.depth, round(4 / 7 * tree.depth), 3):
        query = HatQuery(("a", "b"), tree.grids(level, grids))
        exact = query.answer({("a", "b"): x})
        noise = np.rint(random.normal(0, deviation, exact.shape)).astype(np.int64)
        tables.append(Measurement.of(query, exact + noise, DiscreteGaussian(Fraction(deviation**2))))
    return tables


def fitted(tables: list[Measurement]) -> BlockFit:
    return BlockFit.of(tables, tables[0].asked.grids)  # type: ignore[union-attr]


def root_mean_square(rows: np.ndarray) -> float:
    return float(np.sqrt(np.square(rows).mean()))


@pytest.mark.parametrize("shape", [(64, 64), (50, 33)])
def test_empty_even_and_few_full_cells_are_found(shape: tuple[int, int]) -> None:
    random = np.random.default_rng(1)
    few = np.zeros(shape, dtype=np.int64)
    few.ravel()[random.choice(few.size, 9, replace=False)] = 900
    for x, better in ((np.zeros(shape, dtype=np.int64), 20), (np.full(shape, 3), 10), (few, 5)):
        tables = noisy(x, 30)
        fit = fitted(tables)
        settled = fit.over_buckets(block_posterior.settled_blocks(fit, "ranges"))
        assert root_mean_square(settled - x) * better < root_mean_square(fit.buckets - x)


def test_least_squares_correct_the_posterior_where_the_prior_does_not_fit() -> None:
    """On a slope every block looks even by itself, and errors of one sign add up: the queries show it."""
    x = np.rint(np.add.outer(np.arange(64) * 6.0, np.arange(64) * 3.0)).astype(np.int64)
    tables = noisy(x, 40)
    fit = fitted(tables)
    posterior = fit.over_buckets(block_posterior.posterior_counts(fit)[fit.cut.nodes])

    def error(counts: np.ndarray) -> float:
        return root_mean_square((counts - x).cumsum(axis=0).cumsum(axis=1))

    settled = fit.over_buckets(block_posterior.settled_blocks(fit, "ranges"))
    assert root_mean_square(posterior - x) < 0.5 * root_mean_square(fit.buckets - x)
    assert error(settled) < 0.75 * error(posterior)
    assert error(settled) < 1.2 * error(fit.buckets)
