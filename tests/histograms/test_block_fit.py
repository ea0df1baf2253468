"""BlockFit: least squares over nested blocks and cuts, against dense matrices."""

from fractions import Fraction

import numpy as np
import pytest

from hush.histograms.axis_grid import AxisForm, AxisGrid
from hush.histograms.block_cut import BlockCut, CutQuery
from hush.histograms.block_fit import BlockFit
from hush.histograms.block_tree import BlockTree
from hush.histograms.hats import HatQuery
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteLaplace

# Buckets along the axes, levels measured whole, and the level whose blocks are cut unevenly; None: all buckets instead.
CASES = [
    ((6, 5), (5, 3, 1), None),
    ((8, 8), (6, 4), None),
    ((11,), (4, 2, 0), None),
    ((4, 3), (4,), None),
    ((6, 5), (3, 1), 3),
    ((8, 8), (4, 2), 4),
    ((11,), (2,), 2),
    ((4, 3), (), 0),
]


def uneven_cut(tree: BlockTree, level: int) -> BlockCut:
    """Blocks of a level, every other one cut into buckets."""
    nodes: list[int] = []
    for number, node in enumerate(BlockCut.at_level(tree, level).nodes):
        below = tree.depth - level
        own = tree.leaves[tree.leaves >> below == node]
        nodes += own.tolist() if number % 2 == 0 and level else [node]
    return BlockCut(tree, np.array(nodes))


def measured(
    shape: tuple[int, ...], levels: tuple[int, ...], cut_level: int | None, others: tuple[int, ...] = ()
) -> tuple[list[Measurement], tuple[AxisGrid, ...], np.ndarray, np.ndarray, np.ndarray]:
    """Noisy tables of blocks, the grids, the dense matrix of all tables over the smallest blocks, their precisions,
    and the share of the rows of each smallest block that every bucket holds.
    """
    tree, random = BlockTree(shape), np.random.default_rng(3)
    grids = tuple(AxisGrid(np.append(0, np.cumsum(1 + np.arange(count) % 3))) for count in shape)
    names = tuple("abc"[: len(shape) + len(others)])
    cells = tuple(grid.size for grid in grids)
    x = random.integers(0, 40, (*cells, *others))
    cut = BlockCut.at_level(tree, tree.depth) if cut_level is None else uneven_cut(tree, cut_level)
    asked: list[tuple[HatQuery | CutQuery, BlockCut]] = []
    if cut_level is None:
        asked.append((HatQuery(names, grids), cut))
    for level in (level for level in levels if level < tree.depth):
        asked += [(HatQuery(names, tree.grids(level, grids)), BlockCut.at_level(tree, level))]
    if cut_level is not None:
        asked.append((CutQuery(names, grids, cut), cut))
    area = np.ones(())
    for grid in grids:
        area = np.multiply.outer(area, grid.lengths)
    share = np.zeros((area.size, len(cut.nodes)))
    share[np.arange(area.size), cut.block_of.ravel()] = area.ravel()
    share /= share.sum(axis=0)
    tables, rows, precisions = [], [], []
    for number, (query, own) in enumerate(asked):
        law = DiscreteLaplace(Fraction(5 + 3 * number))
        exact = query.answer({names: x})
        tables.append(Measurement.of(query, exact + random.integers(-9, 9, exact.shape), law))
        joined = np.zeros((len(own.nodes), len(cut.nodes)))
        joined[own.block_of.ravel(), cut.block_of.ravel()] = 1
        if isinstance(query, HatQuery):  # its blocks are in the order of the table
            joined = joined[np.argsort(np.argsort(tree.places(tree.level_of(exact.shape[: len(shape)])).ravel()))]
        rows.append(joined)
        precisions += [law.stddev**-2] * len(joined)
    return tables, grids, np.concatenate(rows), np.array(precisions), share


@pytest.mark.parametrize(("shape", "levels", "cut"), CASES)
@pytest.mark.parametrize("others", [(), (2,)])
def test_buckets_are_weighted_least_squares(
    shape: tuple[int, ...], levels: tuple[int, ...], cut: int | None, others: tuple[int, ...]
) -> None:
    tables, grids, a, p, share = measured(shape, levels, cut, others)
    fit = BlockFit.of(tables, grids)
    y = np.concatenate([table.raw.reshape(-1, int(np.prod(others))) for table in tables])
    x = share @ np.linalg.solve((a.T * p) @ a, (a.T * p) @ y)
    assert fit.buckets.shape == (*shape, *others)
    np.testing.assert_allclose(fit.buckets.reshape(x.shape), x, atol=1e-8)


@pytest.mark.parametrize(("shape", "levels", "cut"), CASES)
def test_covariances_are_those_of_least_squares(
    shape: tuple[int, ...], levels: tuple[int, ...], cut: int | None
) -> None:
    tables, grids, a, p, share = measured(shape, levels, cut)
    fit, random = BlockFit.of(tables, grids), np.random.default_rng(5)
    dense = share @ np.linalg.inv((a.T * p) @ a) @ share.T
    np.testing.assert_allclose(fit.bucket_variances().ravel(), np.diag(dense), rtol=1e-9)
    f, s = random.normal(size=(2, *shape, 4))
    flat = [side.reshape(-1, 4) for side in (f, s)]
    np.testing.assert_allclose(fit.sums(f, s), np.einsum("kq,kl,lq->q", flat[0], dense, flat[1]), rtol=1e-8)
    first, second = ([random.normal(size=(3 + axis, count)) for axis, count in enumerate(shape)] for _ in range(2))
    joined = []
    for rows in (first, second):
        whole = rows[0]
        for row in rows[1:]:
            whole = np.kron(whole, row)
        joined.append(whole)
    for left, right, rows in ((first, second, joined), (first, first, joined[:1] * 2)):
        wanted = np.einsum("qk,kl,ql->q", rows[0], dense, rows[1])
        np.testing.assert_allclose(fit.products(left, right).ravel(), wanted, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("queries", ["ranges", "prefix"])
@pytest.mark.parametrize(("shape", "levels", "cut"), [case for case in CASES if len(case[0]) == 2])
def test_the_noise_of_all_queries_is_that_of_dense_forms(
    shape: tuple[int, ...], levels: tuple[int, ...], cut: int | None, queries: str
) -> None:
    tables, grids, a, p, share = measured(shape, levels, cut)
    fit, forms = BlockFit.of(tables, grids), [AxisForm(grid, queries) for grid in grids]
    dense = share @ np.linalg.inv((a.T * p) @ a) @ share.T
    form = np.kron(forms[0].apply(np.eye(shape[0])), forms[1].apply(np.eye(shape[1])))
    assert fit.noise(forms) == pytest.approx(np.trace(form @ dense), rel=1e-8)
