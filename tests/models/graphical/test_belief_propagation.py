import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dense_twins import DenseModel
from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.core.errors import DomainError
from hush.inference.factors import Factors
from hush.models.graphical import _kernels as kernels
from hush.models.graphical import belief_propagation as program
from hush.models.graphical.belief_propagation import Belief, in_tree_order
from hush.models.graphical.junction_tree import JunctionTree

DOMAIN = Domain({"a": 3, "b": 4, "one": 1, "c": 2, "d": 5, "e": 3})
STRUCTURES: dict[str, list[Clique]] = {
    "tree": [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e")],
    "chain": [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")],
    "three-way chain": [("a", "b", "c"), ("b", "c", "d"), ("c", "d", "e")],
    "star": [("d", "a"), ("d", "b"), ("d", "c"), ("d", "e"), ("d", "one")],
    "loop": [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")],
    "grid": [("a", "b"), ("c", "d"), ("a", "c"), ("b", "d"), ("d", "e"), ("b", "e")],
    "all pairs": list(itertools.combinations("abcde", 2)),
    "nested": [("a", "b", "c"), ("a", "b"), ("b",), (), ("c", "d")],
    "disconnected": [("a", "b"), ("d", "e")],
    "permuted duplicates": [("a", "b"), ("b", "a"), ("b", "c"), ("a", "b")],
    "full": [("e", "d", "c", "one", "b", "a")],
    "empty": [],
    "the empty clique": [()],
    "one attribute": [("c",)],
    "size one alone": [("one",)],
    "size one everywhere": [("a", "one"), ("one", "b"), ("a", "b", "one")],
}
ZEROS: list[tuple[Clique, list[list[int]]]] = [
    (("a", "b"), [[0, 1], [0, 2], [2, 2]]),
    (("d",), [[1]]),
    (("b", "d"), [[3, 0], [3, 2], [3, 3], [3, 4]]),  # with the one above b=3 is left no d at all
]
SCALES = [1.0, 30.0, 300.0, 1e4]
TOTAL = 1000.0


def tables_of(domain: Domain, zeros: Iterable[tuple[Clique, list[list[int]]]]) -> list[tuple[Clique, Floats]]:
    """Forbidden combinations as fixed tables with axes in the order of a domain."""
    made = []
    for clique, cells in zeros:
        table = np.zeros(domain.sizes(clique))
        table[tuple(np.array(cells).T)] = -np.inf
        own = domain.clique(clique)
        made.append((own, np.ascontiguousarray(table.transpose([clique.index(name) for name in own]))))
    return made


def twins(
    domain: Domain, cliques: Sequence[Clique], zeros: Sequence[tuple[Clique, list[list[int]]]] = ()
) -> tuple[Belief, DenseModel]:
    tree = in_tree_order(JunctionTree.build(domain, [*cliques, *(clique for clique, _ in zeros)]))
    factors = Factors(tree.domain, cliques)
    fixed = tables_of(tree.domain, zeros)
    return Belief(tree, factors, fixed), DenseModel(factors, fixed)


def check_oracle(belief: Belief, dense: DenseModel, potentials: Floats, direction: Floats) -> None:
    """Counts, log Z, conditionals, separators, the largest sum and the derivative against the whole table."""
    size = belief.factors.size
    counts = belief.marginals(potentials, TOTAL, np.full(size, np.nan))
    p = dense.probabilities(potentials)
    expected = TOTAL * dense.marginals(p)
    np.testing.assert_allclose(counts, expected, rtol=1e-9, atol=1e-10)
    assert (counts >= 0).all()
    impossible = dense.marginals(np.isfinite(dense.fixed).astype(float)) == 0
    assert (counts[impossible] == 0).all()
    for table in belief.factors.tables(counts):
        assert table.sum() == pytest.approx(TOTAL, rel=1e-12)
    scale = max(1.0, float(np.abs(dense.sums(potentials)).max()))
    assert belief.log_partition == pytest.approx(dense.log_partition(potentials), abs=1e-14 * scale * 10)
    changes = belief.tangent(direction, np.full(size, np.nan))
    reach = max(1.0, float(np.abs(dense.sums(direction)).max()))
    np.testing.assert_allclose(changes, dense.tangent(potentials, direction, TOTAL), rtol=1e-9, atol=1e-9 * reach)
    assert belief.largest(potentials) == pytest.approx(dense.largest(potentials), abs=1e-14 * scale * 10)
    check_conditionals(belief, p)


def check_conditionals(belief: Belief, p: Floats) -> None:
    domain = belief.tree.domain
    masses = belief.separators(TOTAL)
    rows = belief.conditionals()
    assert len(rows) == len(masses) == len(belief.tree)
    for node, mass, table in zip(belief.tree.nodes, masses, rows, strict=True):
        assert table.shape == (domain.size(node.separator), domain.size(node.rest))
        outside = tuple(axis for axis, name in enumerate(domain) if name not in node.axes)
        joint = p.sum(axis=outside).reshape(table.shape)
        np.testing.assert_allclose(mass, TOTAL * joint.sum(axis=1), rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(table * joint.sum(axis=1, keepdims=True), joint, rtol=1e-9, atol=1e-12)
        sums = table.sum(axis=1)
        assert ((np.abs(sums - 1) < 1e-12) | (sums == 0)).all()
        assert (sums[joint.sum(axis=1) > 0] > 0).all()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("zeros", [[], ZEROS], ids=["free", "zeros"])
@pytest.mark.parametrize("name", STRUCTURES)
def test_oracle_is_the_whole_table(name: str, zeros: Any, scale: float) -> None:
    random = np.random.default_rng(len(name))
    belief, dense = twins(DOMAIN, STRUCTURES[name], zeros)
    size = belief.factors.size
    check_oracle(belief, dense, scale * random.normal(size=size), random.normal(size=size))


@pytest.mark.parametrize("name", ["full", "loop", "nested"])
def test_buffers_of_other_potentials_leave_no_trace(name: str) -> None:
    random = np.random.default_rng(0)
    belief, dense = twins(DOMAIN, STRUCTURES[name], ZEROS)
    size = belief.factors.size
    for scale in (1.0, 1e4, 1.0):
        check_oracle(belief, dense, scale * random.normal(size=size), random.normal(size=size))


LONG: dict[str, tuple[Domain, list[Clique], int]] = {
    # the tiles of the node with the most of them
    "one row of several tiles": (Domain({"a": 3, "b": 3000}), [("a",), ("b",), ("a", "b")], 3),
    "tiles by shorter runs": (Domain({"a": 13, "b": 29, "c": 31}), [("a", "b"), ("b", "c"), ("a", "c")], 6),
    "rows shorter than runs": (
        Domain({"s": 40, "a": 5, "b": 6, "t": 90}),
        [("s", "t"), ("s", "a"), ("s", "a", "b")],
        1,
    ),
    "a level of size one between": (Domain({"a": 50, "one": 1, "b": 60}), [("a", "one"), ("one", "b"), ("b",)], 1),
    "an attribute in no clique": (Domain({"a": 3, "b": 5000}), [("a",)], 1),
    "a last tile that is short": (Domain({"a": 7, "b": 11, "c": 47}), [("a", "c"), ("b", "c"), ("a", "b")], 2),
}


@pytest.mark.parametrize("zeros", [False, True], ids=["free", "zeros"])
@pytest.mark.parametrize("name", LONG)
def test_nodes_longer_than_a_chunk(name: str, zeros: bool) -> None:
    domain, cliques, tiles = LONG[name]
    forbidden = [(cliques[-1], [[0] * len(cliques[-1]), [1] * len(cliques[-1])])] if zeros else []
    random = np.random.default_rng(1)
    belief, dense = twins(domain, cliques, [] if "one" in cliques[0] else forbidden)
    assert belief._program.nodes[:, kernels.TILES].max() >= tiles
    size = belief.factors.size
    for scale in (1.0, 300.0):
        check_oracle(belief, dense, scale * random.normal(size=size), random.normal(size=size))


def test_several_rows_of_several_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "CHUNK_CELLS", 64)
    domain = Domain({"s": 3, "a": 10, "b": 12, "t": 130})
    random = np.random.default_rng(12)
    cliques: list[Clique] = [("s", "t"), ("s", "a"), ("a", "b"), ("s", "b"), ("s",)]
    belief, dense = twins(domain, cliques, [(("a", "b"), [[i, j] for i in range(7) for j in range(12)])])
    nodes = belief._program.nodes
    assert ((nodes[:, kernels.TILES] == 2) & (nodes[:, kernels.ROWS] == 3)).any()
    size = belief.factors.size
    for scale in (1.0, 300.0):
        check_oracle(belief, dense, scale * random.normal(size=size), random.normal(size=size))


def test_a_tile_without_any_possible_cell_is_zero() -> None:
    """Whole tiles of a row, and whole rows, may be impossible while others are not."""
    domain = Domain({"a": 13, "b": 29, "c": 31})
    cells = [[i, j] for i in range(6, 13) for j in range(29)]
    random = np.random.default_rng(2)
    belief, dense = twins(domain, [("a", "b"), ("b", "c"), ("a", "c")], [(("a", "b"), cells)])
    assert belief._program.nodes[:, kernels.TILES].max() > 1
    size = belief.factors.size
    check_oracle(belief, dense, random.normal(size=size), random.normal(size=size))


@pytest.mark.parametrize("block", [1, 4, 7, 64])
@pytest.mark.parametrize("name", STRUCTURES)
def test_any_length_of_chunk_gives_the_same(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With chunks of a few cells every small structure has tiles, and rows that are cut by them."""
    monkeypatch.setattr(kernels, "CHUNK_CELLS", block)
    random = np.random.default_rng(3)
    belief, dense = twins(DOMAIN, STRUCTURES[name], ZEROS[:2])
    if block == 1 and name == "full":
        assert belief._program.nodes[:, kernels.TILES].max() > 1
    size = belief.factors.size
    check_oracle(belief, dense, 3 * random.normal(size=size), random.normal(size=size))


GROUPED = {
    "pairs of a large node": (Domain(dict.fromkeys("abcdef", 5)), list(itertools.combinations("abcdef", 2))),
    "triples of a large node": (Domain(dict.fromkeys("abcde", 6)), list(itertools.combinations("abcde", 3))),
    "short last axes": (Domain(dict.fromkeys("abcdefgh", 3)), [*itertools.combinations("abcdefgh", 2), ("h",), ()]),
    "children": (
        Domain({**dict.fromkeys("abcde", 5), "x": 3, "y": 4, "z": 2}),
        [*itertools.combinations("abcde", 2), ("a", "x"), ("b", "c", "y"), ("a", "e", "z")],
    ),
}


@pytest.mark.parametrize("scale", [1.0, 300.0])
@pytest.mark.parametrize("name", GROUPED)
def test_sums_of_tables_beforehand(name: str, scale: float) -> None:
    domain, cliques = GROUPED[name]
    random = np.random.default_rng(4)
    belief, dense = twins(domain, cliques, [(("a", "b"), [[0, 0], [1, 2]])])
    assert (belief._program.nodes[:, kernels.COLUMNS] == 0).any()
    size = belief.factors.size
    check_oracle(belief, dense, scale * random.normal(size=size), random.normal(size=size))


def test_sums_beforehand_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    domain, cliques = GROUPED["pairs of a large node"]
    random = np.random.default_rng(5)
    grouped, _ = twins(domain, cliques)
    monkeypatch.setattr(program, "group_tables", lambda domain, axes, tables: ([], list(range(len(tables)))))
    plain, _ = twins(domain, cliques)
    assert not (plain._program.nodes[:, kernels.COLUMNS] == 0).any()
    potentials = random.normal(size=plain.factors.size)
    found = [belief.marginals(potentials, TOTAL, np.empty(potentials.size)) for belief in (grouped, plain)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-11)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Domain, list[Clique], list[tuple[Clique, list[list[int]]]], int]:
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4, 7]), min_size=1, max_size=6))
    domain = Domain({f"x{i}": size for i, size in enumerate(sizes)})
    subsets = [names for k in range(4) for names in itertools.permutations(domain, k)]
    cliques = draw(st.lists(st.sampled_from(subsets), max_size=7))
    zeros = []
    for clique in draw(st.lists(st.sampled_from(subsets[1:]), max_size=2)):
        cell = [draw(st.integers(0, domain[name] - 1)) for name in clique]
        if any(cell):  # all zeros stays possible, so that something does
            zeros.append((clique, [cell]))
    return domain, cliques, zeros, draw(st.integers(0, 10**6))


@settings(max_examples=100)
@given(cases(), st.sampled_from(SCALES), st.sampled_from([1, 5, 2048]))
def test_random_structures(case: Any, scale: float, block: int) -> None:
    domain, cliques, zeros, seed = case
    random = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "CHUNK_CELLS", block)
        belief, dense = twins(domain, cliques, zeros)
    size = belief.factors.size
    check_oracle(belief, dense, scale * random.normal(size=size), random.normal(size=size))


def plain_passes(belief: Belief, potentials: Floats) -> tuple[float, Floats]:
    """The formulas of the module docstring in numpy, node by node: log Z and the counts of every factor."""
    tree, domain, factors = belief.tree, belief.tree.domain, belief.factors

    def widened(names: Clique, table: Floats, axes: Clique) -> Floats:
        return table.reshape([domain[name] if name in names else 1 for name in axes])

    upward: list[Floats] = [np.zeros(0)] * len(tree)
    conditional: list[Floats] = [np.zeros(0)] * len(tree)
    for k in reversed(range(len(tree))):
        node = tree.nodes[k]
        b = np.zeros(domain.sizes(node.axes))
        for clique, table in zip(factors.cliques, factors.tables(potentials), strict=True):
            if tree.home(clique) == k:
                b = b + widened(clique, table, node.axes)
        for child, other in enumerate(tree.nodes):
            if other.parent == k:
                b = b + widened(other.separator, upward[child], node.axes)
        rest = tuple(range(len(node.separator), len(node.axes)))
        upward[k] = np.logaddexp.reduce(b.reshape(domain.size(node.separator), -1), axis=1)
        conditional[k] = np.exp(b - np.expand_dims(upward[k].reshape(domain.sizes(node.separator)), rest))
    counts = np.zeros(factors.size)
    tables: list[Floats] = []
    for k, node in enumerate(tree.nodes):
        above = np.array(TOTAL)
        if node.parent >= 0:
            axes = tree.nodes[node.parent].axes
            above = tables[node.parent].sum(axis=tuple(i for i, name in enumerate(axes) if name not in node.separator))
        tables.append(conditional[k] * above.reshape(above.shape + (1,) * len(node.rest)))
        for index, clique in enumerate(factors.cliques):
            if tree.home(clique) == k:
                others = tuple(i for i, name in enumerate(node.axes) if name not in clique)
                factors.table(counts, index)[...] = tables[k].sum(axis=others)
    return float(upward[0][0]), counts


@pytest.mark.parametrize("name", ["tree", "three-way chain", "loop", "disconnected", "all pairs"])
def test_passes_follow_their_formulas(name: str) -> None:
    random = np.random.default_rng(6)
    belief, _ = twins(DOMAIN, STRUCTURES[name])
    potentials = random.normal(size=belief.factors.size)
    counts = belief.marginals(potentials, TOTAL, np.empty(potentials.size))
    log_partition, expected = plain_passes(belief, potentials)
    np.testing.assert_allclose(counts, expected, rtol=1e-11)
    assert belief.log_partition == pytest.approx(log_partition, rel=1e-12)


def test_passes_follow_their_formulas_along_tiles_of_many_rows() -> None:
    domain = Domain({"s": 3, "a": 60, "b": 70, "t": 9000})
    cliques = [("s", "t"), ("s", "a"), ("a", "b"), ("s", "b"), ("s",)]
    tree = in_tree_order(JunctionTree.build(domain, cliques))
    belief = Belief(tree, Factors(tree.domain, cliques))
    nodes = belief._program.nodes
    assert ((nodes[:, kernels.TILES] == 3) & (nodes[:, kernels.ROWS] == 3)).any()
    potentials = np.random.default_rng(13).normal(size=belief.factors.size)
    counts = belief.marginals(potentials, TOTAL, np.empty(potentials.size))
    log_partition, expected = plain_passes(belief, potentials)
    np.testing.assert_allclose(counts, expected, rtol=1e-11)
    assert belief.log_partition == pytest.approx(log_partition, rel=1e-12)


@pytest.mark.parametrize("name", ["loop", "all pairs", "nested", "disconnected"])
def test_derivatives_by_differences(name: str) -> None:
    random = np.random.default_rng(7)
    belief, _ = twins(DOMAIN, STRUCTURES[name], ZEROS[:2])
    size = belief.factors.size
    theta, direction, h = random.normal(size=size), random.normal(size=size), 1e-5
    up, down = (belief.marginals(theta + s * h * direction, TOTAL, np.empty(size)) for s in (1, -1))
    logs = []
    for s in (1, -1):
        belief.condition(theta + s * h * direction)
        logs.append(belief.log_partition)
    counts = belief.marginals(theta, TOTAL, np.empty(size))
    np.testing.assert_allclose(belief.tangent(direction, np.empty(size)), (up - down) / (2 * h), atol=1e-4)
    assert (logs[0] - logs[1]) / (2 * h) == pytest.approx(float(counts @ direction) / TOTAL, abs=1e-6)


def test_the_covariance_is_symmetric_and_positive() -> None:
    random = np.random.default_rng(8)
    belief, _ = twins(DOMAIN, STRUCTURES["grid"], ZEROS)
    size = belief.factors.size
    belief.marginals(random.normal(size=size), TOTAL, np.empty(size))
    covariance = np.array([belief.tangent(unit, np.empty(size)) for unit in np.eye(size)])
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-10)
    assert np.linalg.eigvalsh((covariance + covariance.T) / 2).min() > -1e-9


def test_a_shift_of_all_potentials_of_a_clique_changes_nothing() -> None:
    random = np.random.default_rng(9)
    belief, _ = twins(DOMAIN, STRUCTURES["loop"])
    theta = random.normal(size=belief.factors.size)
    before = belief.marginals(theta, TOTAL, np.empty(theta.size))
    log_partition = belief.log_partition
    belief.factors.table(theta, 0)[...] += 700.0
    np.testing.assert_allclose(belief.marginals(theta, TOTAL, np.empty(theta.size)), before, rtol=1e-10)
    assert belief.log_partition == pytest.approx(log_partition + 700.0, rel=1e-13)


def test_one_thousand_attributes_keep_their_sums() -> None:
    """Too large for a whole table; neighbours must agree on what they share."""
    domain = Domain({f"x{i}": 10 for i in range(1000)})
    cliques = [(f"x{i}", f"x{i + 1}") for i in range(999)]
    tree = in_tree_order(JunctionTree.build(domain, cliques, restarts=0))
    belief = Belief(tree, Factors(tree.domain, cliques))
    random = np.random.default_rng(10)
    theta = random.normal(size=belief.factors.size)
    places = [tree.domain.clique(clique) for clique in cliques]
    for scale in (1.0, 1e4):
        counts = belief.marginals(scale * theta, TOTAL, np.empty(theta.size))
        assert math.isfinite(belief.log_partition)
        tables = dict(zip(belief.factors.cliques, belief.factors.tables(counts), strict=True))
        for i, (first, second) in enumerate(itertools.pairwise(places), start=1):
            left = tables[first].sum(axis=1 - first.index(f"x{i}"))
            right = tables[second].sum(axis=1 - second.index(f"x{i}"))
            np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)
            assert left.sum() == pytest.approx(TOTAL, rel=1e-11)


def test_nothing_possible_is_told_by_log_z() -> None:
    """Three attributes of two levels that must all differ: no two tables contradict each other."""
    domain = Domain(dict.fromkeys("abc", 2))
    same = [[0, 0], [1, 1]]
    pairs: list[Clique] = [("a", "b"), ("b", "c"), ("a", "c")]
    belief, _ = twins(domain, pairs, [(pair, same) for pair in pairs])
    size = belief.factors.size
    counts = belief.marginals(np.zeros(size), TOTAL, np.empty(size))
    assert belief.log_partition == -math.inf
    assert belief.largest(np.zeros(size)) == -math.inf
    assert (counts == 0).all()


def test_potentials_of_minus_infinity_are_zeros_too() -> None:
    belief, dense = twins(DOMAIN, STRUCTURES["tree"])
    potentials = np.random.default_rng(11).normal(size=belief.factors.size)
    belief.factors.table(potentials, 0)[0] = -np.inf
    counts = belief.marginals(potentials, TOTAL, np.empty(potentials.size))
    np.testing.assert_allclose(counts, TOTAL * dense.marginals(dense.probabilities(potentials)), atol=1e-9)
    assert (belief.factors.table(counts, 0)[0] == 0).all()


def test_a_tree_in_another_order_is_refused() -> None:
    domain = Domain({"a": 4, "b": 3, "c": 2})
    tree = JunctionTree.build(domain, [("a", "b"), ("b", "c")])
    ordered = in_tree_order(tree)
    assert ordered.domain != domain
    with pytest.raises(DomainError, match="use in_tree_order"):
        Belief(ordered, Factors(domain, [("a", "b")]))
    with pytest.raises(DomainError, match="use in_tree_order"):
        Belief(tree, Factors(domain, [("a", "b")]))
