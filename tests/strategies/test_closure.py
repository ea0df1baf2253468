import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.domain import Domain
from hush.core.errors import DomainError, SizeError, WorkloadError
from hush.strategies.closure import Closure

DOMAIN = Domain(dict.fromkeys("abcdef", 2))


@given(st.lists(st.sets(st.sampled_from("abcdef")), min_size=1, max_size=8))
def test_the_closure_is_every_subset_by_size_then_domain_order(cliques: list[set[str]]) -> None:
    closure = Closure.of(DOMAIN, [tuple(clique) for clique in cliques])
    wanted = {
        subset
        for clique in cliques
        for k in range(len(clique) + 1)
        for subset in itertools.combinations(sorted(clique), k)
    }
    assert list(closure) == sorted(wanted, key=lambda c: (len(c), c))
    assert [closure.index(clique) for clique in closure] == list(range(len(closure)))
    assert all(clique in closure for clique in wanted)


def test_subsets_are_numbered_by_bits_of_the_ascending_places() -> None:
    closure = Closure.of(DOMAIN, [("f", "a", "c")])
    found = [closure.cliques[i] for i in closure.subsets(("c", "f", "a"))]
    assert found == [(), ("a",), ("c",), ("a", "c"), ("f",), ("a", "f"), ("c", "f"), ("a", "c", "f")]


def test_products_and_largest_over_sets() -> None:
    closure = Closure.of(DOMAIN, [("a", "c"), ("f",)])
    values = np.array([2.0, 3, 5, 7, 11, 13])
    assert closure.cliques == ((), ("a",), ("c",), ("f",), ("a", "c"))
    assert closure.products(values).tolist() == [1, 2, 5, 13, 10]
    assert closure.largest(values).tolist() == [0, 2, 5, 13, 5]


def test_sets_too_long_for_a_64_bit_key_are_found_too() -> None:
    domain = Domain({f"a{i:03}": 2 for i in range(300)})
    wide = tuple(f"a{i:03}" for i in (0, 5, 17, 40, 99, 255, 256, 299))
    closure = Closure.of(domain, [wide, (*wide[:7], "a298"), ("a001",)])
    assert len(closure) == 2**8 + 2**7 + 1
    assert closure.index(wide[::-1]) == len(closure) - 1
    assert closure.cliques[closure.index((*wide[:7], "a298"))] == (*wide[:7], "a298")
    assert (*wide[:6], "a298", "a299") not in closure


def test_closures_compare_by_content() -> None:
    assert Closure.of(DOMAIN, [("a", "b")]) == Closure.of(DOMAIN, [("b", "a"), ("b",)])
    assert Closure.of(DOMAIN, [("a", "b")]) != Closure.of(DOMAIN, [("a", "c")])
    assert hash(Closure.of(DOMAIN, [("a", "b")])) == hash(Closure.of(DOMAIN, [("b", "a")]))


def test_what_is_not_there_is_refused() -> None:
    closure = Closure.of(DOMAIN, [("a", "b")])
    assert ("c",) not in closure
    with pytest.raises(WorkloadError, match=r"\('a', 'c'\) is not a subset of any set of the workload"):
        closure.index(("a", "c"))
    with pytest.raises(WorkloadError, match="add it to the workload"):
        closure.index(("a", "b", "c"))
    with pytest.raises(DomainError, match="'z' is not in the domain"):
        closure.index(("z",))


def test_a_closure_too_large_is_refused_before_it_is_made() -> None:
    domain = Domain({f"a{i}": 2 for i in range(60)})
    with pytest.raises(SizeError, match="lower the order"):
        Closure.of(domain, [tuple(f"a{i}" for i in range(40))])


def test_all_three_way_sets_of_two_hundred_attributes() -> None:
    domain = Domain({f"a{i}": 10 for i in range(200)})
    rows = np.array(list(itertools.combinations(range(200), 3)), dtype=np.int32)
    closure = Closure.of_axes(domain, [rows])
    assert len(closure) == 1_333_501
    np.testing.assert_array_equal(closure.lookup(rows[::1000]), np.arange(len(rows))[::1000] + 1 + 200 + 19_900)
