"""Merging cliques into scans: every clique is inside its scan, whatever the costs."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hush.tables.scan_plan import GROUPING_SETS_COSTS, KERNEL_COSTS, SPARE_CELLS, plan_scans


def members(rows, lengths):
    return [frozenset(row[:length].tolist()) for row, length in zip(rows, lengths, strict=True)]


@given(
    data=st.data(), rows=st.sampled_from([0, 1, 1e3, 1e9]), costs=st.sampled_from([KERNEL_COSTS, GROUPING_SETS_COSTS])
)
def test_every_clique_lies_in_its_scan(data, rows, costs) -> None:
    sizes = data.draw(st.lists(st.integers(1, 50), min_size=1, max_size=8))
    subset = st.lists(st.sampled_from(range(len(sizes))), unique=True, max_size=4).map(sorted).map(tuple)
    cliques = data.draw(st.lists(subset, min_size=1, max_size=30, unique=True))
    plan = plan_scans(sizes, cliques, rows=rows, costs=costs)
    scans = members(plan.scans, plan.scan_lengths)
    assert members(plan.cliques, plan.lengths) == [frozenset(clique) for clique in cliques]
    assert all(set(clique) <= scans[s] for clique, s in zip(cliques, plan.chosen, strict=True))
    assert plan.cells.tolist() == [int(np.prod([sizes[a] for a in clique])) for clique in cliques]
    assert plan.scan_cells.tolist() == [int(np.prod([sizes[a] for a in sorted(scan)])) for scan in scans]
    assert plan.scan_cells.max() <= max(plan.cells.max(), costs.largest)
    for before, after, shared in zip(plan.scans, plan.scans[1:], plan.shared[1:], strict=False):
        assert before[:shared].tolist() == after[:shared].tolist()
        assert (after[:shared] >= 0).all()


def test_what_lies_in_a_larger_clique_is_not_counted_from_rows() -> None:
    cliques = [clique for k in range(4) for clique in itertools.combinations(range(6), k)]
    plan = plan_scans([4] * 6, cliques, rows=10_000)
    assert (plan.scan_lengths >= 3).all()


def test_small_cliques_are_merged_when_there_are_many_rows() -> None:
    pairs = list(itertools.combinations(range(10), 2))
    assert len(plan_scans([10] * 10, pairs, rows=1e8).scans) < len(pairs) / 2
    assert len(plan_scans([10] * 10, pairs, rows=1).scans) == len(pairs)


def test_merging_keeps_to_its_share_of_memory() -> None:
    pairs = list(itertools.combinations(range(60), 2))
    plan = plan_scans([40] * 60, pairs, rows=1e12)
    assert plan.scan_cells.sum() <= 2 * plan.cells.sum() + SPARE_CELLS


def test_more_attributes_than_bits_in_a_word() -> None:
    plan = plan_scans([3] * 200, [(0, 199), (64, 128), (5,)], rows=1000)
    assert {frozenset(row[:2].tolist()) for row in plan.cliques[:2]} == {frozenset({0, 199}), frozenset({64, 128})}
