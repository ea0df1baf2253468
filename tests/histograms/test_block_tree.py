"""BlockTree: halves of halves, their numbers, and what is measured of them."""

from fractions import Fraction

import numpy as np
import pytest

from hush.core.errors import WorkloadError
from hush.histograms.axis_grid import AxisGrid
from hush.histograms.block_tree import BlockTree, design_blocks
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
