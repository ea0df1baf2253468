import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.models.graphical.elimination_order import CRITERIA, Elimination, GreedyOrder, bits, cells_of, graph


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    size = draw(st.integers(1, 9))
    sizes = draw(st.lists(st.integers(1, 6), min_size=size, max_size=size))
    members = st.integers(0, 2**size - 1).filter(lambda clique: clique.bit_count() <= 3)
    return graph(size, draw(st.lists(members, max_size=14))), sizes


def naive(adjacent: list[int], sizes: list[int], criterion: str) -> Elimination:
    """The same rule, with every cost computed anew at every step."""
    near = {v: set(bits(own)) for v, own in enumerate(adjacent)}

    def key(v: int) -> tuple[float, float, int]:
        lacking = [(a, b) for a in near[v] for b in near[v] if a < b and b not in near[a]]
        cells = math.log(math.prod(sizes[i] for i in near[v] | {v}))
        if not lacking:
            return (-math.inf, 0.0, v)
        cost = {
            "fill": len(lacking),
            "weighted fill": sum(sizes[a] * sizes[b] for a, b in lacking),
            "degree": len(near[v]),
        }
        return (cells, 0.0, v) if criterion == "size" else (math.log(cost[criterion]), cells, v)

    cliques: list[set[int]] = []
    while near:
        v = min(key(v) for v in near)[2]
        own = near[v]
        if not any(own | {v} <= clique for clique in cliques):
            cliques.append(own | {v})
        for a in own:
            near[a] |= own
        free = {a for a in own if near[a] <= own | {v}} | {v}
        near = {a: others - free - {a} for a, others in near.items() if a not in free}
    found = tuple(sum(1 << i for i in clique) for clique in cliques)
    return Elimination(found, sum(cells_of(clique, sizes) for clique in found))


@given(graphs(), st.sampled_from(CRITERIA))
def test_costs_kept_up_to_date_give_the_order_of_costs_computed_anew(case, criterion):
    adjacent, sizes = case
    assert GreedyOrder(adjacent, sizes).run(criterion) == naive(adjacent, sizes, criterion)


@given(graphs(), st.sampled_from(CRITERIA), st.integers(0, 99))
def test_tables_cover_the_edges_and_none_is_inside_another(case, criterion, seed):
    adjacent, sizes = case
    noise = np.random.Generator(np.random.PCG64(seed)).gumbel(size=5).tolist()
    found = GreedyOrder(adjacent, sizes).run(criterion, noise=noise)
    assert found.cells == sum(cells_of(clique, sizes) for clique in found.cliques)
    for v, near in enumerate(adjacent):
        assert all(any(clique >> v & clique >> a & 1 for clique in found.cliques) for a in (*bits(near), v))
    assert all(one & ~other for one in found.cliques for other in found.cliques if one is not other)


def test_ranks_are_followed():
    star = graph(4, [0b0011, 0b0101, 0b1001])
    order = GreedyOrder(star, [2, 3, 5, 7])
    assert order.run("fill").cliques == (0b0011, 0b0101, 0b1001)
    assert order.run("fill", ranks=[0, 1, 2, 3]).cliques == (0b1111,)


def test_ends_once_it_is_no_smaller():
    cycle = GreedyOrder(graph(4, [0b0011, 0b0110, 0b1100, 0b1001]), [2, 2, 2, 2])
    assert cycle.run("fill", Elimination((), 17)).cells == 16
    assert cycle.run("fill", Elimination((), 16)) is None


def test_tables_inside_what_is_kept_cost_nothing():
    square = graph(3, [0b011, 0b110])
    assert GreedyOrder(square, [2, 3, 5], kept=[0b110]).run("fill") == Elimination((0b011,), 6)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_cells_beyond_floats_are_exact(criterion):
    count = 60
    ring = graph(count, [1 << i | 1 << (i + 1) % count for i in range(count)])
    found = GreedyOrder(ring, [10**40] * count).run(criterion)
    assert found.cells == (count - 2) * 10**120
