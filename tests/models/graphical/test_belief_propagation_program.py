import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.domain import Clique, Domain
from hush.core.errors import DomainError
from hush.inference.factors import Factors
from hush.models.graphical import _kernels as kernels
from hush.models.graphical.belief_propagation import TreeProgram, compile_program, in_tree_order, with_domain
from hush.models.graphical.junction_tree import JunctionTree

DOMAIN = Domain({"a": 5, "b": 4, "one": 1, "c": 3, "d": 2})


def compiled(
    domain: Domain, cliques: list[Clique], fixed: list[Clique] | None = None
) -> tuple[JunctionTree, TreeProgram]:
    tree = in_tree_order(JunctionTree.build(domain, [*cliques, *(fixed or [])]))
    return tree, compile_program(tree, Factors(tree.domain, cliques), [tree.domain.clique(c) for c in fixed or []])


def visits(program: TreeProgram, node: int, table: int) -> list[int]:
    """Where a table is read at every cell of a node: by the odometer, written out."""
    row = program.nodes[node]
    place = row[kernels.FIRST] + table
    axes, length = row[kernels.AXES], row[kernels.LENGTH]
    step = int(table < row[kernels.UNIT])
    found = []
    for index in itertools.product(*(range(size) for size in program.shapes[node, :axes])):
        base = program.starts[place] + int(np.dot(index, program.strides[place, :axes]))
        found += [base + step * j for j in range(length)]
    return found


def test_tree_order_makes_axes_follow_the_domain() -> None:
    cliques = [("d", "c"), ("c", "b"), ("b", "a"), ("a", "one")]
    tree = JunctionTree.build(DOMAIN, cliques)
    ordered = in_tree_order(tree)
    assert set(ordered.domain) == set(DOMAIN)
    assert ordered.cells == tree.cells
    for node, before in zip(ordered.nodes, tree.nodes, strict=True):
        assert node.axes == ordered.domain.clique(before.clique)
        assert node.parent == before.parent
    seen: set[str] = set()
    for node in ordered.nodes:
        assert set(node.separator) <= seen
        seen |= set(node.rest)


def test_with_domain_goes_back() -> None:
    tree = JunctionTree.build(DOMAIN, [("a", "b"), ("b", "c"), ("c", "d")])
    again = with_domain(in_tree_order(tree), DOMAIN)
    assert again.nodes == tree.nodes
    assert again.domain == tree.domain


CLIQUES = [c for k in range(4) for c in itertools.combinations(DOMAIN, k)]


@given(st.lists(st.sampled_from(CLIQUES), max_size=6), st.lists(st.sampled_from(CLIQUES[1:]), max_size=2, unique=True))
def test_every_table_meets_its_cells(cliques: list[Clique], fixed: list[Clique]) -> None:
    """The tables that meet a node, read along its runs, are the broadcast of the tables over its axes."""
    tree, program = compiled(DOMAIN, cliques, fixed)
    domain, factors = tree.domain, Factors(tree.domain, cliques)
    starts = dict(zip(((kernels.FACTOR, int(s)) for s in factors.offsets), factors.cliques, strict=False))
    at = 0
    for clique in fixed:
        starts[kernels.FIXED, at] = domain.clique(clique)
        at += domain.size(clique)
    assert len(program.nodes) == len(tree)  # too small for sums beforehand
    for node, row in zip(tree.nodes[1:], program.nodes[1:], strict=True):
        starts[kernels.MESSAGE, int(row[kernels.MESSAGES])] = node.separator
    met = 0
    for k, node in enumerate(tree.nodes):
        row = program.nodes[k]
        assert row[kernels.CELLS] == domain.size(node.axes)
        assert row[kernels.ROWS] == domain.size(node.separator)
        assert row[kernels.COLUMNS] == domain.size(node.rest)
        for s in range(row[kernels.TABLES]):
            place = row[kernels.FIRST] + s
            start = int(program.starts[place])
            clique = starts[int(program.kinds[place]), start]
            shape = [domain[name] if name in clique else 1 for name in node.axes]
            cells = np.arange(start, start + domain.size(clique)).reshape(shape)
            assert visits(program, k, s) == np.broadcast_to(cells, domain.sizes(node.axes)).ravel().tolist()
            met += 1
    assert met == len(factors) + len(fixed) + len(tree) - 1


@pytest.mark.parametrize(
    ("sizes", "cliques", "chunk", "tiles"),
    [
        # (cells of a chunk, tiles of a row) of the root
        ({"a": 10, "b": 7}, [("a", "b")], 2030, 1),  # whole rows that fit
        ({"a": 3, "b": 900}, [("a", "b"), ("a",)], 1800, 2),  # two runs of 900, then the third
        ({"a": 2, "b": 3000}, [("a", "b"), ("a",)], 3000, 2),  # a run is never cut
        ({"a": 2, "b": 3000}, [("a", "b")], 6000, 1),  # nor are merged axes
        ({"a": 4, "b": 5}, [], 2045, 1),  # nodes of one attribute each
    ],
)
def test_chunks(sizes: dict[str, int], cliques: list[Clique], chunk: int, tiles: int) -> None:
    _, program = compiled(Domain(sizes), cliques)
    root = program.nodes[0]
    assert (root[kernels.CHUNK], root[kernels.TILES]) == (chunk, tiles)
    assert root[kernels.CHUNK] % root[kernels.LENGTH] == 0
    assert program.tiles >= tiles


def test_axes_that_no_table_tells_apart_are_one_run() -> None:
    _, program = compiled(Domain({"a": 3, "b": 4, "c": 5}), [("a", "b", "c"), ("a",)])
    assert program.nodes[0, kernels.LENGTH] == 20
    _, program = compiled(Domain({"a": 3, "b": 4, "c": 5}), [("a", "b", "c"), ("b",)])
    assert program.nodes[0, kernels.LENGTH] == 5


def test_a_clique_that_the_tree_does_not_hold_is_refused() -> None:
    tree = in_tree_order(JunctionTree.build(DOMAIN, [("a", "b")]))
    other: Any = Factors(tree.domain, [("a", "c")])
    with pytest.raises(DomainError, match="inside no node"):
        compile_program(tree, other, [])
