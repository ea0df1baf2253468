"""Candidates against the definition, set by set."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush import Domain, Workload
from hush.mechanisms.candidates import Candidates

DOMAIN = Domain({"a": 2, "b": 3, "c": 2, "d": 4, "e": 2})
CLIQUES = st.lists(st.sampled_from(DOMAIN.attributes), max_size=4, unique=True).map(tuple)


@given(
    st.lists(
        st.tuples(CLIQUES, st.floats(1e-3, 1e3)), min_size=1, max_size=6, unique_by=lambda entry: frozenset(entry[0])
    )
)
def test_all_subsets_of_what_is_asked_weighted_by_what_they_share_with_it(asked):
    workload = Workload.marginals(DOMAIN, [clique for clique, _ in asked], weights=[weight for _, weight in asked])
    candidates = Candidates.of(workload)
    below = {
        frozenset(clique_below) for clique, _ in asked for k in range(1, 5) for clique_below in combinations(clique, k)
    }
    assert {frozenset(clique_below) for clique_below in candidates.cliques} == below
    assert len(candidates.cliques) == len(below)
    assert [len(clique_below) for clique_below in candidates.cliques] == sorted(
        len(clique_below) for clique_below in candidates.cliques
    )
    for clique_below, weight in zip(candidates.cliques, candidates.weights, strict=True):
        assert clique_below == DOMAIN.clique(clique_below)
        assert weight == pytest.approx(sum(c * len(set(clique_below) & set(clique)) for clique, c in asked))
        assert weight > 0


@pytest.mark.parametrize(("columns", "weights"), [(15, (91, 182, 273)), (9, (28, 56, 84))])
def test_weights_of_all_tables_of_three_columns(columns, weights):
    domain = Domain({f"x{i:02}": 2 for i in range(columns)})
    candidates = Candidates.of(Workload.kway(domain, 3))
    sizes = np.array([len(clique_below) for clique_below in candidates.cliques])
    for order, weight in enumerate(weights, start=1):
        assert set(candidates.weights[sizes == order]) == {float(weight)}


def test_the_total_is_no_candidate():
    assert Candidates.of(Workload.marginals(DOMAIN, [(), ("b", "a")])).cliques == (("a",), ("b",), ("a", "b"))
    assert Candidates.of(Workload.marginals(DOMAIN, [()])).cliques == ()
