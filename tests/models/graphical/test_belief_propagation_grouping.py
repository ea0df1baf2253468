import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hush.core.domain import Clique, Domain
from hush.models.graphical.belief_propagation import (
    GROUP_REDUCTION,
    LEAST_GROUPED_CELLS,
    LEAST_RUN,
    TableGroup,
    group_tables,
)

LETTERS = "abcdefg"


def spread(groups: list[TableGroup], met: list[int], tables: int) -> list[int]:
    """How often each table is added to the node, through all sums."""
    times = np.zeros(tables + len(groups), dtype=int)
    times[met] += 1
    for k in reversed(range(len(groups))):
        for member in groups[k].members:
            times[member] += times[tables + k]
    return times[:tables].tolist()


@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=7),
    st.lists(st.sets(st.sampled_from(LETTERS), max_size=4), max_size=12),
)
def test_every_table_is_added_once(sizes: list[int], drawn: list[set[str]]) -> None:
    domain = Domain(dict(zip(LETTERS, sizes, strict=False)))
    axes = domain.attributes
    tables: list[Clique] = [domain.clique(names & set(axes)) for names in drawn]
    groups, met = group_tables(domain, axes, tables)
    assert spread(groups, met, len(tables)) == [1] * len(tables)
    cliques = [*tables, *(group.clique for group in groups)]
    for k, group in enumerate(groups):
        assert group.members
        assert all(member < len(tables) + k for member in group.members)
        assert all(set(cliques[member]) <= set(group.clique) for member in group.members)
        assert group.clique == domain.clique(group.clique)
        assert domain.size(group.clique) * GROUP_REDUCTION <= domain.size()


def test_all_pairs_of_a_large_node_meet_it_as_few_tables_in_long_runs() -> None:
    domain = Domain(dict.fromkeys("abcdef", 6))
    groups, met = group_tables(domain, domain.attributes, list(itertools.combinations("abcdef", 2)))
    assert groups
    assert len(met) <= 5
    run = 1
    for name in reversed(domain.attributes):
        if run >= LEAST_RUN:
            break
        run *= domain[name]
    cliques = [*itertools.combinations("abcdef", 2), *(group.clique for group in groups)]
    last = {"e", "f", "d"}
    assert all(not set(cliques[place]) & last or last <= set(cliques[place]) for place in met)


def test_small_nodes_and_single_tables_are_left_alone() -> None:
    small = Domain(dict.fromkeys("abc", 7))
    assert small.size() < LEAST_GROUPED_CELLS
    pairs = list(itertools.combinations("abc", 2))
    assert group_tables(small, small.attributes, pairs) == ([], [0, 1, 2])
    large = Domain(dict.fromkeys("abcd", 9))
    assert group_tables(large, large.attributes, [("a", "d")]) == ([], [0])
    assert group_tables(large, large.attributes, []) == ([], [])
