import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.models.graphical import elimination_order
from hush.models.graphical.elimination_order import GreedyOrder, bits, cells_of, eliminate, graph


@st.composite
def graphs(draw: st.DrawFn, largest: int = 9, least: int = 1) -> tuple[list[int], list[int]]:
    size = draw(st.integers(1, largest))
    sizes = draw(st.lists(st.integers(least, 6), min_size=size, max_size=size))
    members = st.integers(0, 2**size - 1).filter(lambda clique: clique.bit_count() <= 3)
    return graph(size, draw(st.lists(members, max_size=14))), sizes


def width(adjacent: list[int]) -> int:
    return max(clique.bit_count() for clique in eliminate(adjacent, [2] * len(adjacent)).cliques) - 1


def grid(rows: int, columns: int) -> list[int]:
    across = [1 << (i * columns + j) | 1 << (i * columns + j + 1) for i in range(rows) for j in range(columns - 1)]
    down = [1 << (i * columns + j) | 1 << ((i + 1) * columns + j) for i in range(rows - 1) for j in range(columns)]
    return graph(rows * columns, across + down)


def ring(count: int) -> list[int]:
    return graph(count, [1 << i | 1 << (i + 1) % count for i in range(count)])


@pytest.mark.parametrize(
    ("adjacent", "expected"),
    [
        (graph(5, []), 0),
        (graph(30, [3 << i for i in range(29)]), 1),
        (graph(30, [7 << i for i in range(28)]), 2),
        (graph(9, [1 | 1 << i for i in range(1, 9)]), 1),
        (ring(12), 2),
        (grid(3, 9), 3),
        (grid(4, 4), 4),
        (grid(5, 5), 5),
        (graph(8, [0xFF]), 7),
        (graph(8, [1 << i | 1 << j for i in range(8) for j in range(i)]), 7),
        (graph(6, [1 << i | 1 << j for i in range(3) for j in range(3, 6)]), 3),
    ],
    ids=["empty", "path", "chain", "star", "ring", "ladder", "grid4", "grid5", "clique", "pairs", "bipartite"],
)
def test_treewidth_of_known_graphs(adjacent, expected):
    assert width(adjacent) == expected


@given(graphs(largest=6, least=2))
def test_no_smaller_than_the_best_of_all_orders_and_equal_with_restarts(case):
    adjacent, sizes = case
    order = GreedyOrder(adjacent, sizes)
    ranks = itertools.permutations(range(len(sizes)))
    assert eliminate(adjacent, sizes).cells == min(order.run("fill", ranks=rank).cells for rank in ranks)


@given(graphs())
def test_tables_cover_the_edges_and_none_is_inside_another(case):
    adjacent, sizes = case
    found = eliminate(adjacent, sizes)
    assert found.cells == sum(cells_of(clique, sizes) for clique in found.cliques)
    for v, near in enumerate(adjacent):
        assert all(any(clique >> v & clique >> a & 1 for clique in found.cliques) for a in (*bits(near), v))
    assert all(one & ~other for one in found.cliques for other in found.cliques if one is not other)


@given(graphs())
def test_the_result_is_chordal_and_eliminating_it_again_changes_nothing(case):
    adjacent, sizes = case
    found = eliminate(adjacent, sizes)
    again = eliminate(graph(len(sizes), found.cliques), sizes, criteria=(), restarts=0)
    assert set(again.cliques) == set(found.cliques)


@given(graphs(), st.integers(0, 9))
def test_same_seed_same_result_and_restarts_never_hurt(case, seed):
    adjacent, sizes = case
    few, many = (eliminate(adjacent, sizes, restarts=count, seed=seed) for count in (0, 6))
    assert many == eliminate(adjacent, sizes, restarts=6, seed=seed)
    assert many.cells <= few.cells


def test_the_start_is_among_the_orders():
    adjacent, sizes = ring(6), [2, 9, 2, 9, 2, 9]
    start = eliminate(adjacent, sizes, criteria=(), restarts=0, start=[1, 3, 5, 0, 2, 4])
    assert sorted(start.cliques) == [0b000111, 0b010101, 0b011100, 0b110001]
    assert start.cells == 3 * 36 + 8
    assert eliminate(adjacent, sizes, start=[0, 1, 2, 3, 4, 5]).cells <= start.cells


def test_chordal_graphs_are_not_searched(monkeypatch):
    monkeypatch.setattr(elimination_order, "_search", None)
    assert eliminate(graph(50, [7 << i for i in range(48)]), [10] * 50).cells == 48_000


def test_components_are_searched_apart(monkeypatch):
    seen = []
    search = elimination_order._search

    def spy(order, *rest):
        seen.append(len(order.sizes))
        return search(order, *rest)

    monkeypatch.setattr(elimination_order, "_search", spy)
    rings = graph(11, [1 << i | 1 << (i + 1) % 4 for i in range(4)] + [16 << i | 16 << (i + 1) % 6 for i in range(6)])
    assert eliminate(rings, [2] * 11).cells == 2 * 8 + 4 * 8 + 2
    assert sorted(seen) == [4, 6]


def test_large_graphs_get_fewer_restarts_and_idle_ones_end(monkeypatch):
    runs = []
    run = GreedyOrder.run

    def spy(self, criterion, best=None, **options):
        runs.append("noise" in options)
        return run(self, criterion, best, **options)

    monkeypatch.setattr(GreedyOrder, "run", spy)
    eliminate(ring(8), [2] * 8, restarts=1000)
    assert sum(runs) == elimination_order.MOST_IDLE_RESTARTS
    runs.clear()
    monkeypatch.setattr(elimination_order, "RESTART_EDGES", 1)
    eliminate(ring(8), [2] * 8, restarts=1000)
    assert sum(runs) == elimination_order.FEWEST_RESTARTS


def test_a_bridge_inside_a_table_of_the_chordal_part_is_not_counted_again():
    """Two rings of four, 0-3 and 4-7, joined by the edge (3, 4), which is part of the triangle (3, 4, 8)."""
    rings = [1 << i | 1 << (i + 1) % 4 for i in range(4)] + [16 << i | 16 << (i + 1) % 4 for i in range(4)]
    found = eliminate(graph(9, [*rings, 1 << 3 | 1 << 4 | 1 << 8]), [2] * 9)
    assert 1 << 3 | 1 << 4 not in found.cliques
    assert found.cells == 5 * 8
