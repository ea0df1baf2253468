import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.constraints import Constraint
from hush.core.domain import Clique, Domain
from hush.core.errors import DomainError, SizeError
from hush.models.graphical import model_size
from hush.models.graphical.junction_tree import JunctionTree
from hush.models.graphical.model_size import check_fits, model_size_mb, sizes_with
from hush.schema import Schema
from hush.workloads import Workload

DOMAIN = Domain({"a": 10, "b": 20, "c": 30, "d": 40, "e": 50})
RING = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("a", "e")]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Domain, list[Clique], list[Clique]]:
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    domain = Domain({f"x{i}": size for i, size in enumerate(sizes)})
    clique = st.lists(st.sampled_from(domain.attributes), max_size=3, unique=True).map(tuple)
    return domain, draw(st.lists(clique, max_size=9)), draw(st.lists(clique, max_size=6))


def test_size_is_that_of_the_tree():
    assert model_size_mb(DOMAIN, RING) == JunctionTree.build(DOMAIN, RING).size_mb == 8 * (6000 + 12000 + 20000) / 1e6


def test_size_of_the_papers_limit():
    assert model_size_mb(Domain({"a": 1000, "b": 10_000}), [("a", "b")]) == 80.0


def test_size_beyond_floats_is_infinite():
    domain = Domain({f"x{i}": 10 for i in range(400)})
    assert model_size_mb(domain, itertools.combinations(domain, 2)) == math.inf


@given(cases())
def test_candidates_are_never_said_to_be_smaller_than_what_is_built(case):
    domain, cliques, candidates = case
    tree = JunctionTree.build(domain, cliques)
    said = sizes_with(domain, cliques, candidates, tree=tree)
    assert len(said) == len(candidates)
    for candidate, cells in zip(candidates, said, strict=True):
        assert JunctionTree.build(domain, [*cliques, candidate], start=tree).cells <= cells
        if candidate in tree:
            assert cells == tree.cells
        else:
            assert JunctionTree.build(domain, [*cliques, candidate], start=tree, restarts=0).cells == cells


@given(cases())
def test_candidates_of_a_tree_that_is_not_given(case):
    domain, cliques, candidates = case
    tree = JunctionTree.build(domain, cliques)
    assert sizes_with(domain, iter(cliques), candidates) == sizes_with(domain, cliques, candidates, tree=tree)


def test_candidates_of_chordal_models_are_exact():
    cliques = [("a", "b"), ("b", "c"), ("c", "d")]
    candidates = [("a", "c"), ("c", "b"), ("e", "d"), ("a", "b", "c"), ("a", "d", "c")]
    expected = [round(model_size_mb(DOMAIN, [*cliques, one]) * 1e6 / 8) for one in candidates]
    assert sizes_with(DOMAIN, cliques, candidates) == expected
    assert expected[0] == 10 * 20 * 30 + 30 * 40 + 50


def test_candidates_inside_a_node_take_no_search(monkeypatch):
    tree = JunctionTree.build(DOMAIN, [("a", "b", "c"), ("c", "d", "e")])
    monkeypatch.setattr(model_size, "eliminate", None)
    inside = [(), ("a",), ("c", "a"), ("a", "b", "c"), ("e", "d")]
    assert sizes_with(DOMAIN, [("a", "b", "c"), ("c", "d", "e")], inside, tree=tree) == [tree.cells] * 5


def test_candidates_profit_from_the_search_that_found_the_tree():
    domain = Domain({f"x{i}": 2 + 7 * i % 5 for i in range(36)})
    names = domain.attributes
    across = [(names[6 * i + j], names[6 * i + j + 1]) for i in range(6) for j in range(5)]
    grid = across + [(names[6 * i + j], names[6 * i + 6 + j]) for i in range(5) for j in range(6)]
    tree = JunctionTree.build(domain, grid)
    candidate = next(pair for pair in itertools.combinations(names, 2) if pair not in tree)
    (cells,) = sizes_with(domain, grid, [candidate], tree=tree)
    assert cells < JunctionTree.build(domain, [*grid, candidate], restarts=0).cells


def test_unknown_candidates_are_refused():
    with pytest.raises(DomainError, match="attribute 'z' is not in the domain"):
        sizes_with(DOMAIN, RING, [("a", "z")])


def test_a_model_within_the_limit_is_returned():
    assert check_fits(DOMAIN, RING, 0.304).nodes == JunctionTree.build(DOMAIN, RING).nodes
    tree = JunctionTree.build(DOMAIN, RING)
    assert check_fits(DOMAIN, RING, 1, tree=tree) is tree


def test_a_model_beyond_the_limit_is_refused_with_the_clique_that_closes_the_ring():
    with pytest.raises(SizeError) as caught:
        check_fits(DOMAIN, RING, 0.05)
    assert str(caught.value) == (
        "the model of 5 cliques takes 304.0 KB, more than max_size_mb = 0.05 (50 KB); its largest table is over a, d, "
        "e and takes 160.0 KB; without ('d', 'e') the model takes 20.0 KB: drop it, raise max_size_mb, coarsen large "
        'columns, or use method="approximate"'
    )


def test_one_large_clique_among_small_ones_is_the_one_named():
    domain = Domain({f"x{i}": 8 for i in range(10)})
    pairs = [(f"x{i}", f"x{i + 1}") for i in range(9)]
    large = ("x0", "x2", "x4", "x6", "x8")
    with pytest.raises(SizeError, match=r"without \('x0', 'x2', 'x4', 'x6', 'x8'\) the model takes 4.6 KB: drop it,"):
        check_fits(domain, [*pairs, large], 0.1)


def test_more_cliques_than_can_be_named():
    domain = Domain({f"x{i}": 8 for i in range(12)})
    with pytest.raises(SizeError, match=r"is over x\d.* and 4 more and takes .*: drop these and others, raise"):
        check_fits(domain, itertools.combinations(domain, 2), 1)


def test_where_no_few_cliques_are_to_blame():
    domain = Domain({f"x{i}": 8 for i in range(7)})
    with pytest.raises(SizeError, match="it is due to many cliques at once: use fewer of them, raise max_size_mb"):
        check_fits(domain, itertools.combinations(domain, 4), 1)


def test_a_column_that_is_too_large_by_itself():
    with pytest.raises(SizeError, match="is over a and takes 8.0 MB; coarsen that column, or raise max_size_mb"):
        check_fits(Domain({"a": 10**6, "b": 2}), [("b",)], 1)


def test_a_refusal_of_a_model_beyond_floats():
    domain = Domain({f"x{i}": 10 for i in range(400)})
    with pytest.raises(SizeError, match=r"8 bytes for each of about 10\^400 cells"):
        check_fits(domain, [tuple(domain)], 80)


@pytest.mark.parametrize("limit", [0, -1.0, math.nan, True, "80"])
def test_limits_that_are_none(limit):
    with pytest.raises(SizeError, match="max_size_mb=.*: expected a.* number above 0, in megabytes"):
        check_fits(DOMAIN, RING, limit)


def test_a_schema_counts_with_its_constraints_and_a_workload_with_its_cliques():
    domain = Domain({"a": 10, "b": 10, "c": 10})
    schema = Schema.from_domain(domain)
    pairs = [("a", "b"), ("b", "c")]
    assert model_size_mb(schema, Workload.marginals(domain, pairs)) == model_size_mb(domain, pairs) == 0.0016
    bound = schema.with_constraints(Constraint.forbid(domain, ("a", "c"), [(0, 0)]))
    assert model_size_mb(bound, pairs) == 0.008


@pytest.mark.parametrize("cliques", ["age", {"a": 1}, ["a", "b"], 5, [5]])
def test_what_is_no_list_of_cliques_is_refused_in_words(cliques):
    with pytest.raises(DomainError, match="expected a list of cliques"):
        model_size_mb(DOMAIN, cliques)


def test_what_is_no_domain_is_refused_in_words():
    with pytest.raises(DomainError, match="expected a Domain or a Schema"):
        model_size_mb({"a": 2}, [("a",)])


@given(cases(), st.integers(1, 3000))
def test_sizes_that_are_enough_are_quick_and_never_below_the_true_ones(case, enough):
    domain, cliques, candidates = case
    tree = JunctionTree.build(domain, cliques)
    exact = sizes_with(domain, cliques, candidates, tree=tree)
    for candidate, quick, slow in zip(
        candidates, sizes_with(domain, cliques, candidates, tree=tree, enough=enough), exact, strict=True
    ):
        assert slow <= quick  # never below what is built
        assert quick <= enough or quick == slow  # and above the limit only where the search agrees
        assert JunctionTree.build(domain, [*cliques, candidate], start=tree).cells <= quick
        assert (quick <= enough) == (slow <= enough)
