"""BlockFit: least squares and covariances against dense matrices."""

from fractions import Fraction

import numpy as np
import pytest

from hush.histograms.axis_grid import AxisGrid
from hush.histograms.block_fit import BlockFit
from hush.histograms.block_tree import BlockTree
from hush.histograms.hat_query import HatQuery
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteLaplace

CASES = [((6, 5), (5, 3, 1)), ((8, 8), (6, 4)), ((11,), (4, 2, 0)), ((4, 3), (4,))]


def measured(
    shape: tuple[int, ...], levels: tuple[int, ...], others: tuple[int, ...] = ()
) -> tuple[list[Measurement], np.ndarray, np.ndarray]:
    """Noisy tables of blocks, the dense matrix of all of them over the buckets, and their precisions."""
    tree, random = BlockTree(shape), np.random.default_rng(3)
    grids = tuple(AxisGrid(np.arange(count + 1)) for count in shape)
    names = tuple("abc"[: len(shape) + len(others)])
    x = random.integers(0, 40, (*shape, *others))
    tables, rows, precisions = [], [], []
    for number, level in enumerate(dict.fromkeys((tree.depth, *levels))):
        query, law = HatQuery(names, tree.grids(level, grids)), DiscreteLaplace(Fraction(5 + 3 * number))
        exact = query.answer({names: x})
        tables.append(Measurement.of(query, exact + random.integers(-9, 9, exact.shape), law))
        units = np.eye(int(np.prod(shape)), dtype=np.int64).reshape(-1, *shape)
        plain = HatQuery(names[: len(shape)], tree.grids(level, grids))
        rows.append(np.array([plain.answer({plain.clique: unit}).ravel() for unit in units]).T)
        precisions += [law.stddev**-2] * len(rows[-1])
    return tables, np.concatenate(rows), np.array(precisions)


@pytest.mark.parametrize(("shape", "levels"), CASES)
@pytest.mark.parametrize("others", [(), (2,)])
def test_buckets_are_weighted_least_squares(
    shape: tuple[int, ...], levels: tuple[int, ...], others: tuple[int, ...]
) -> None:
    tables, a, p = measured(shape, levels, others)
    fit = BlockFit(tables)
    y = np.concatenate([table.raw.reshape(-1, int(np.prod(others))) for table in tables])
    x = np.linalg.solve((a.T * p) @ a, (a.T * p) @ y)
    np.testing.assert_allclose(fit.buckets.reshape(x.shape), x, atol=1e-8)


@pytest.mark.parametrize(("shape", "levels"), CASES)
def test_covariances_are_those_of_least_squares(shape: tuple[int, ...], levels: tuple[int, ...]) -> None:
    tables, a, p = measured(shape, levels)
    fit, dense, random = BlockFit(tables), np.linalg.inv((a.T * p) @ a), np.random.default_rng(5)
    np.testing.assert_allclose(fit.bucket_variances().ravel(), np.diag(dense), rtol=1e-9)
    f, s = random.normal(size=(2, *shape, 4))
    flat = [side.reshape(-1, 4) for side in (f, s)]
    np.testing.assert_allclose(fit.sums(f, s), np.einsum("kq,kl,lq->q", flat[0], dense, flat[1]), rtol=1e-9)
    first, second = ([random.normal(size=(3 + axis, count)) for axis, count in enumerate(shape)] for _ in range(2))
    joined = []
    for rows in (first, second):
        whole = rows[0]
        for row in rows[1:]:
            whole = np.kron(whole, row)
        joined.append(whole)
    wanted = np.einsum("qk,kl,ql->q", joined[0], dense, joined[1])
    np.testing.assert_allclose(fit.products(first, second).ravel(), wanted, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(
        fit.products(first, first).ravel(), np.einsum("qk,kl,ql->q", joined[0], dense, joined[0]), rtol=1e-8
    )
