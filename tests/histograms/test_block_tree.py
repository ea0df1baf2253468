"""BlockTree and BlockFit: halves of halves and what is measured of them; least squares against dense matrices."""

from fractions import Fraction

import numpy as np
import pytest

from hush.core.errors import WorkloadError
from hush.histograms.axis_grid import AxisGrid
from hush.histograms.block_tree import BlockFit, BlockTree, design_blocks
from hush.histograms.hats import HatQuery
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteLaplace
from hush.strategies.strategy import NoiseKind

SHAPES = [(1,), (7,), (8, 8), (5, 3), (1, 6), (16, 3)]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_block_lies_in_the_block_of_half_its_number(shape: tuple[int, ...]) -> None:
    tree = BlockTree(shape)
    buckets = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1)
    for level in range(tree.depth + 1):
        places = tree.places(level)
        assert places.shape == tree.shape(level)
        assert len(np.unique(places)) == places.size
        assert ((places >= 1 << level) & (places < 2 << level)).all()
        own = places[tuple(np.moveaxis(buckets // tree.runs(level), -1, 0))]
        np.testing.assert_array_equal(own, tree.places(tree.depth) >> (tree.depth - level))


@pytest.mark.parametrize("shape", SHAPES)
def test_levels_are_told_apart_by_their_blocks(shape: tuple[int, ...]) -> None:
    tree = BlockTree(shape)
    assert [tree.level_of(tree.shape(level)) for level in range(tree.depth + 1)] == list(range(tree.depth + 1))
    with pytest.raises(WorkloadError, match="no level of the tree"):
        tree.level_of(tuple(count + 1 for count in shape))


def test_areas_are_cells_of_the_table() -> None:
    grids = (AxisGrid(np.array([0, 1, 4, 6])), AxisGrid(np.array([0, 2, 3])))
    tree = BlockTree((3, 2))
    area = tree.areas(grids)
    assert area[1] == 18
    assert area[tree.places(tree.depth)].tolist() == [[2, 1], [6, 3], [4, 2]]
    assert (area[1 : 1 << tree.depth] == area[2:].reshape(-1, 2).sum(axis=1)).all()


@pytest.mark.parametrize("noise", NoiseKind)
@pytest.mark.parametrize("shape", [(2, 2), (128, 128), (300, 400), (64, 3)])
def test_shares_add_up_and_levels_grow_coarser(shape: tuple[int, ...], noise: NoiseKind) -> None:
    tree = BlockTree(shape)
    design = design_blocks(tree, noise)
    assert sum(design.shares, Fraction(0)) == 1
    assert min(design.shares) > 0
    assert design.levels[0] == tree.depth
    assert list(design.levels) == sorted(set(design.levels), reverse=True)
    assert len(design.levels) == {4: 1, 16384: 3, 120000: 3, 192: 2}[int(np.prod(shape))]


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
