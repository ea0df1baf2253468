"""Domain: order kept, sizes exact, unknown names refused with a suggestion."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush import Domain
from hush.core.domain import maximal_cliques
from hush.core.errors import DomainError

sizes = st.dictionaries(st.text(min_size=1, max_size=5), st.integers(1, 10**30), max_size=6)


@given(sizes)
def test_order_and_sizes_are_kept(given_sizes: dict[str, int]) -> None:
    domain = Domain(given_sizes)
    assert domain.attributes == tuple(given_sizes) == tuple(domain)
    assert domain.shape == tuple(given_sizes.values())
    assert len(domain) == len(given_sizes)


@given(sizes, st.data())
def test_size_is_an_exact_product(given_sizes: dict[str, int], data: st.DataObject) -> None:
    domain = Domain(given_sizes)
    clique = data.draw(st.permutations(list(given_sizes)))[:3]
    product = 1
    for name in clique:
        product *= given_sizes[name]
    assert domain.size(clique) == product == domain.project(clique).size()
    assert domain.sizes(clique) == tuple(given_sizes[name] for name in clique)


@given(sizes, st.data())
def test_a_set_of_attributes_has_one_spelling(given_sizes: dict[str, int], data: st.DataObject) -> None:
    domain = Domain(given_sizes)
    names = data.draw(st.permutations(list(given_sizes)))[:3]
    assert domain.clique(names) == domain.clique(reversed(names))
    assert set(domain.clique(names)) == set(names)
    assert domain.project(names).attributes == tuple(names)


def test_the_empty_clique_has_one_cell() -> None:
    assert Domain({"a": 3}).size(()) == 1


def test_order_matters_for_equality() -> None:
    assert Domain({"a": 1, "b": 2}) == Domain({"a": 1, "b": 2})
    assert Domain({"a": 1, "b": 2}) != Domain({"b": 2, "a": 1})
    assert hash(Domain({"a": 1})) == hash(Domain({"a": np.int64(1)}))
    assert repr(Domain({"a": np.int64(1)})) == "Domain({'a': 1})"


@pytest.mark.parametrize("size", [0, -1, 1.0, True, "3", None])
def test_sizes_that_are_none(size: object) -> None:
    with pytest.raises(DomainError, match="'a': size=.*: expected a whole number of at least 1"):
        Domain({"a": size})


@pytest.mark.parametrize("name", ["", 3, None])
def test_names_that_are_none(name: object) -> None:
    with pytest.raises(DomainError, match="expected a non-empty name"):
        Domain({name: 3})


def test_unknown_and_repeated_names() -> None:
    domain = Domain({"age": 3, "sex": 2})
    with pytest.raises(DomainError, match=r"'agee' is not in the domain; did you mean 'age'\?"):
        domain.check(("agee",))
    with pytest.raises(DomainError, match="'nope' is not in the domain; known: income, age"):
        Domain({"income": 3, "age": 2}).check(("nope",))
    with pytest.raises(DomainError, match="'zzz' is not in the domain; known: age, sex"):
        domain["zzz"]
    with pytest.raises(DomainError, match="names an attribute twice"):
        domain.check(("age", "age"))
    with pytest.raises(DomainError, match=r"clique 'age': expected a tuple of names, such as \('age',\)"):
        domain.check("age")
    with pytest.raises(DomainError, match="and 3 more"):
        Domain({f"a{k:02}": 2 for k in range(15)}).check(("zzz",))


def test_what_is_no_domain_or_clique() -> None:
    with pytest.raises(DomainError, match="expected names and sizes"):
        Domain([("age", 3)])
    with pytest.raises(DomainError, match=r"attribute \['age'\] is not in the domain"):
        Domain({"age": 3}).check((["age"],))
    with pytest.raises(DomainError, match="an integer of 16610 bits"):
        Domain({"age": -(10**5000)})


def test_membership() -> None:
    domain = Domain({"age": 3})
    assert "age" in domain
    assert "sex" not in domain


def test_maximal_keeps_the_empty_clique_only_alone() -> None:
    assert maximal_cliques([()]) == [()]
    assert maximal_cliques([(), ("a",)]) == [("a",)]
    assert maximal_cliques([]) == []
