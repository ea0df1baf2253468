"""Cuts of block trees: what covers a map, what is refused, which cut is chosen, and what its counts are."""

import numpy as np
import pytest

from hush.core.errors import WorkloadError
from hush.histograms.axis_grid import AxisGrid
from hush.histograms.block_cut import BlockCut, CutQuery, refined_cut
from hush.histograms.block_tree import BlockTree


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([4, 5, 6], id="a bucket is left out"),
        pytest.param([2, 4, 5, 6, 7], id="a bucket is in two blocks"),
        pytest.param([1, 2, 3], id="blocks within a block"),
        pytest.param([3, 2], id="not from left to right"),
        pytest.param([4, 5, 6, 7, 8], id="no node of the tree"),
        pytest.param([0], id="no node at all"),
        pytest.param([], id="none"),
    ],
)
def test_what_does_not_cover_every_bucket_once_is_refused(nodes: list[int]) -> None:
    with pytest.raises(WorkloadError, match="blocks of a cut must"):
        BlockCut(BlockTree((4,)), np.array(nodes, dtype=np.int64))


def test_blocks_without_buckets_are_refused() -> None:
    """Three buckets take a tree of four leaves, the last of which holds nothing."""
    BlockCut(BlockTree((3,)), np.array([2, 6]))
    with pytest.raises(WorkloadError, match="cover every bucket"):
        BlockCut(BlockTree((3,)), np.array([2, 6, 7]))


def test_a_cut_counts_the_rows_of_its_blocks() -> None:
    tree = BlockTree((4, 2))  # the first axis is halved twice, then the second
    cut = BlockCut(tree, np.array([2, 6, 14, 15]))
    grids = (AxisGrid(np.array([0, 1, 2, 4, 5])), AxisGrid(np.array([0, 3, 4])))
    assert cut.block_of.tolist() == [[0, 0], [0, 0], [1, 1], [2, 3]]
    x = np.random.default_rng(1).integers(0, 9, (5, 4, 3))
    counts = CutQuery(("a", "b", "c"), grids, cut).answer({("a", "b", "c"): x})
    wanted = [x[:2], x[2:4], x[4:, :3], x[4:, 3:]]
    assert counts.tolist() == [block.sum(axis=(0, 1)).tolist() for block in wanted]
    assert CutQuery(("a", "b", "c"), grids, cut).shape((5, 4, 3)) == counts.shape


@pytest.mark.parametrize("shape", [(16, 16), (13, 9), (32, 3)])
def test_blocks_are_cut_by_what_they_hold(shape: tuple[int, int]) -> None:
    tree, random = BlockTree(shape), np.random.default_rng(2)
    coarse = BlockCut.at_level(tree, 3)
    counts = np.zeros(2 << tree.depth)
    assert refined_cut(coarse, counts, 1.0, 0.7).nodes.tolist() == coarse.nodes.tolist()
    counts[coarse.nodes[0]] = 4 / 0.7
    cut = refined_cut(coarse, counts, 1.0, 0.7)
    within = cut.nodes >> 2 == coarse.nodes[0]
    assert within.sum() == 4  # two halvings, all of whose parts hold buckets
    assert set(cut.nodes[~within]) == set(coarse.nodes[1:])
    counts[coarse.nodes] = random.exponential(20, len(coarse.nodes))
    uneven = refined_cut(coarse, counts, 1.0, 0.7)  # refused unless it covers all
    assert uneven.refines(coarse)
    assert not coarse.refines(uneven)
    counts[:] = 1e9
    assert refined_cut(coarse, counts, 1.0, 0.7).whole
