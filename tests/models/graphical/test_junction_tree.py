import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.domain import Clique, Domain
from hush.core.errors import DomainError
from hush.models.graphical.junction_tree import JunctionTree, Node

DOMAIN = Domain({"a": 3, "b": 4, "one": 1, "c": 2, "d": 5, "e": 3, "alone": 6})
CLIQUES = {
    "tree": [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e")],
    "chain": [("a", "b", "c"), ("b", "c", "d"), ("c", "d", "e")],
    "loop": [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")],
    "nested": [("a",), ("a", "b"), ("a", "b", "c"), ("c",), ()],
    "disconnected": [("a", "b"), ("d", "e")],
    "duplicate and permuted": [("a", "b"), ("b", "a"), ("a", "b")],
    "size 1": [("one",), ("a", "one"), ("one", "d")],
    "full": [tuple(DOMAIN)],
    "no cliques": [],
    "the total alone": [()],
}


@st.composite
def cases(draw: st.DrawFn) -> tuple[Domain, list[Clique]]:
    sizes = draw(st.lists(st.integers(1, 6), max_size=9))
    domain = Domain({f"x{i}": size for i, size in enumerate(sizes)})
    if not sizes:
        return domain, draw(st.sampled_from([[], [()]]))
    clique = st.lists(st.sampled_from(domain.attributes), max_size=3, unique=True).map(tuple)
    return domain, draw(st.lists(clique, max_size=12))


def check(tree: JunctionTree, cliques: list[Clique]) -> None:
    """All that the rest of the room relies on."""
    domain, nodes = tree.domain, tree.nodes
    assert nodes[0].parent == -1
    assert nodes[0].separator == ()
    assert all(0 <= node.parent < k for k, node in enumerate(nodes) if k)
    assert domain.size(nodes[0].clique) == max(domain.size(node.clique) for node in nodes)
    for node in nodes:
        assert node.clique == domain.clique(node.axes)
        assert node.separator == domain.clique(node.separator)
        assert list(node.rest) == sorted(node.rest, key=lambda name: (domain[name], domain.attributes.index(name)))
    for node in nodes[1:]:
        assert set(node.separator) == set(node.clique) & set(nodes[node.parent].clique)
    for name in domain:  # connected, since it enters the tree once
        assert sum(name in node.rest for node in nodes) == 1
    for one, other in itertools.permutations(nodes, 2):
        assert not set(one.clique) <= set(other.clique)
    assert tree.cells == sum(math.prod(domain[name] for name in node.clique) for node in nodes)
    for clique in cliques:
        holding = [domain.size(node.clique) for node in nodes if set(clique) <= set(node.clique)]
        assert domain.size(nodes[tree.home(clique)].clique) == min(holding)


@pytest.mark.parametrize("cliques", CLIQUES.values(), ids=list(CLIQUES))
def test_every_structure_gives_a_junction_tree(cliques):
    check(JunctionTree.build(DOMAIN, cliques), cliques)


@given(cases())
def test_random_cliques_give_a_junction_tree(case):
    domain, cliques = case
    tree = JunctionTree.build(domain, cliques)
    check(tree, cliques)
    if min(domain.shape, default=1) > 1:  # a full table is the worst
        assert tree.cells <= domain.size()


@given(cases(), st.integers(0, 5))
def test_the_same_seed_gives_the_same_tree_whatever_the_order_and_spelling_of_cliques(case, seed):
    domain, cliques = case
    other = [tuple(reversed(clique)) for clique in reversed(cliques)] * 2
    assert JunctionTree.build(domain, cliques, seed=seed).nodes == JunctionTree.build(domain, other, seed=seed).nodes


def test_chordal_input_gives_its_maximal_cliques():
    tree = JunctionTree.build(DOMAIN, [*CLIQUES["chain"], ("a", "c"), ("alone",), ("one",)])
    assert {node.clique for node in tree.nodes} == {*CLIQUES["chain"], ("alone",), ("one",)}


def test_nodes_of_a_chain():
    domain = Domain({"a": 4, "b": 3, "c": 2, "d": 9})
    assert JunctionTree.build(domain, [("a", "b", "c"), ("c", "d", "b")]).nodes == (
        Node(("b", "c", "d"), (), ("c", "b", "d"), -1),
        Node(("a", "b", "c"), ("b", "c"), ("a",), 0),
    )


def test_messages_pass_through_small_nodes():
    """All three nodes share b alone; the two small ones hang on each other, not both on the large one."""
    domain = Domain({"a": 50, "b": 2, "c": 3, "d": 4})
    tree = JunctionTree.build(domain, [("a", "b"), ("b", "c"), ("b", "d")])
    assert [(node.clique, node.parent) for node in tree.nodes] == [
        (("a", "b"), -1),
        (("b", "c"), 0),
        (("b", "d"), 1),
    ]


def test_components_hang_together_by_empty_separators():
    tree = JunctionTree.build(DOMAIN, CLIQUES["disconnected"])
    assert len(tree) == 5
    assert all(node.separator == () and node.rest for node in tree.nodes)


@pytest.mark.parametrize("cliques", [[], [()]])
def test_an_empty_domain_has_one_node_with_one_cell(cliques):
    tree = JunctionTree.build(Domain({}), cliques)
    assert tree.nodes == (Node((), (), (), -1),)
    assert (tree.cells, tree.home(())) == (1, 0)


def test_the_empty_clique_lives_in_the_smallest_node():
    tree = JunctionTree.build(DOMAIN, [("a", "b")])
    assert tree.nodes[tree.home(())].clique == ("one",)


def test_sizes_in_decimal_megabytes_without_overflow():
    assert JunctionTree.build(Domain({"a": 1000, "b": 10_000}), [("a", "b")]).size_mb == 80.0
    huge = JunctionTree.build(Domain({f"x{i}": 10 for i in range(400)}), [[f"x{i}" for i in range(400)]])
    assert huge.cells == 10**400
    assert huge.size_mb == math.inf


@given(cases())
def test_a_clique_that_the_tree_holds_changes_nothing(case):
    domain, cliques = case
    tree = JunctionTree.build(domain, cliques)
    held = [clique for node in tree.nodes for clique in itertools.combinations(node.clique, 2)]
    for clique in held[:3]:
        again = JunctionTree.build(domain, [*cliques, clique], start=tree)
        assert again is tree or again.cells < tree.cells


def test_a_tree_is_not_kept_when_a_smaller_one_is_found_or_a_clique_is_missing():
    full = JunctionTree.build(DOMAIN, CLIQUES["full"])
    tree = JunctionTree.build(DOMAIN, CLIQUES["tree"], start=full)
    assert tree.cells < full.cells
    assert JunctionTree.build(DOMAIN, CLIQUES["full"], start=tree).nodes == full.nodes


def test_whether_a_clique_is_held():
    tree = JunctionTree.build(DOMAIN, CLIQUES["tree"])
    assert ("b", "a") in tree
    assert ("a", "c") not in tree
    with pytest.raises(DomainError, match=r"clique \('c', 'a'\) is inside no node of the tree; build the tree with it"):
        tree.home(("c", "a"))


@pytest.mark.parametrize(
    ("cliques", "message"),
    [
        ([("a", "z")], "attribute 'z' is not in the domain"),
        ([("a", "a")], "names an attribute twice"),
        (["a"], "expected a tuple of names"),
    ],
)
def test_cliques_that_the_domain_does_not_know_are_refused(cliques, message):
    with pytest.raises(DomainError, match=message):
        JunctionTree.build(DOMAIN, cliques)


def test_a_thousand_attributes():
    domain = Domain({f"x{i}": 10 for i in range(1000)})
    names = domain.attributes
    tree = JunctionTree.build(domain, [names[i : i + 3] for i in range(998)])
    assert tree.size_mb == 7.984
    assert all(len(node.separator) == 2 for node in tree.nodes[1:])
