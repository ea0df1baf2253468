"""BlockTree: halves of halves, and what is measured of them first."""

from fractions import Fraction

import numpy as np
import pytest

from hush.core.errors import WorkloadError
from hush.histograms.axis_grid import AxisGrid
from hush.histograms.block_tree import BlockTree, block_rounds

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


@pytest.mark.parametrize(
    ("shape", "levels"), [((2, 2), []), ((8, 4), [3]), ((16, 16), [5, 3]), ((128, 128), [8, 3]), ((300, 400), [10, 3])]
)
def test_the_first_round_leaves_budget_and_finer_blocks_for_the_second(
    shape: tuple[int, ...], levels: list[int]
) -> None:
    tree = BlockTree(shape)
    asked, ((left, _),) = block_rounds(tree)
    assert list(asked) == levels
    assert left == 1 - sum(asked.values(), Fraction(0))
    assert sum(asked.values(), Fraction(0)) <= Fraction(1, 2)
    assert all(share > 0 and level < tree.depth for level, share in asked.items())


def test_few_rows_are_counted_in_few_blocks() -> None:
    tree = BlockTree((128, 128))
    assert [list(block_rounds(tree, signal).levels) for signal in (0.0, 40.0, 100.0, 1e5)] == [
        [3],
        [4, 3],
        [5, 3],
        [8, 3],
    ]
    assert block_rounds(BlockTree((2, 2)), 0.0).levels == {}


@pytest.mark.parametrize("size", [1, 3, 4096])
def test_lines_are_cut_twice_with_all_of_the_budget(size: int) -> None:
    levels, cuts = block_rounds(BlockTree((size,)), 10.0)
    assert list(levels) == [min(2, (size - 1).bit_length())]
    assert len(cuts) == 2
    assert sum(levels.values(), Fraction(0)) + sum(share for share, _ in cuts) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_blocks_are_runs_in_the_order_of_the_tree(shape: tuple[int, ...]) -> None:
    tree = BlockTree(shape)
    assert (np.diff(tree.leaves) > 0).all()
    np.testing.assert_array_equal(tree.places(tree.depth).ravel()[tree.order], tree.leaves)
