"""Constraint: forms, checks, and tables in domain order whatever the caller's order."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.constraints import LARGEST_TABLE, Constraint, check_constraints, merge
from hush.core.domain import Domain
from hush.core.errors import DomainError, SizeError
from hush.schema import Schema

DOMAIN = Domain({"a": 2, "b": 3, "c": 4, "one": 1})


@st.composite
def combinations(draw: st.DrawFn) -> tuple[tuple[str, ...], list[tuple[int, ...]]]:
    """A clique in any order, with some of its combinations in that order."""
    names = tuple(draw(st.permutations(draw(st.lists(st.sampled_from(list(DOMAIN)), min_size=1, unique=True)))))
    row = st.tuples(*(st.integers(0, DOMAIN[name] - 1) for name in names))
    return names, draw(st.lists(row, min_size=1, max_size=8))


def reference(names: tuple[str, ...], rows: list[tuple[int, ...]]) -> np.ndarray:
    """Where the rows are, cell by cell, in domain order."""
    ordered = DOMAIN.clique(names)
    table = np.zeros(DOMAIN.sizes(ordered), dtype=bool)
    for cell in itertools.product(*(range(DOMAIN[name]) for name in ordered)):
        table[cell] = tuple(cell[ordered.index(name)] for name in names) in rows
    return table


@given(combinations())
def test_allow_and_forbid_are_each_others_complement(case: tuple) -> None:
    names, rows = case
    listed = reference(names, rows)
    allowed = Constraint.allow(DOMAIN, names, rows)
    np.testing.assert_array_equal(allowed.allowed, listed)
    assert allowed.clique == DOMAIN.clique(names)
    assert (allowed.cells, allowed.forbidden) == (listed.size, listed.size - listed.sum())
    if listed.all():
        with pytest.raises(DomainError, match="forbids every combination"):
            Constraint.forbid(DOMAIN, names, rows)
    else:
        np.testing.assert_array_equal(Constraint.forbid(DOMAIN, names, np.array(rows)).allowed, ~listed)


@given(st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 1)), st.integers(0, 2)))
def test_a_dependency_fixes_what_it_maps_and_nothing_else(mapping: dict) -> None:
    found = Constraint.depends(DOMAIN, "b", ("c", "a"), mapping)
    assert found.clique == ("a", "b", "c")
    for a, b, c in itertools.product(range(2), range(3), range(4)):
        assert found.allowed[a, b, c] == (mapping.get((c, a), b) == b)


def test_one_given_attribute_needs_no_tuples() -> None:
    one = Constraint.depends(DOMAIN, "a", "b", {0: 1, 2: 0})
    assert one == Constraint.depends(DOMAIN, "a", ["b"], {(0,): 1, (2,): 0})
    assert one == Constraint.forbid(DOMAIN, ("a", "b"), [(0, 0), (1, 2)])


def test_potentials_are_zero_or_minus_infinity() -> None:
    found = Constraint.forbid(DOMAIN, ("b", "a"), [(2, 0), (2, 0)]).potentials()
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [[0, 0, -np.inf], [0, 0, 0]])


def test_tables_are_own_copies_that_cannot_be_written() -> None:
    table = np.array([True, False])
    found = Constraint(("a",), table)
    table[:] = False
    assert found.allowed.tolist() == [True, False]
    with pytest.raises(ValueError, match="read-only"):
        found.allowed[0] = False


def test_equality_hash_and_repr() -> None:
    first, same = (Constraint.forbid(DOMAIN, ("a", "b"), [(0, 1)]) for _ in range(2))
    other = Constraint.forbid(DOMAIN, ("a", "b"), [(0, 2)])
    assert first == same
    assert len({first, same, other, Constraint(("a", "b"), np.ones((2, 3), dtype=bool))}) == 3
    assert first != "a"
    assert repr(first) == "Constraint(a × b: 1 of 6 combinations forbidden)"


def test_merging_joins_by_and_in_the_order_of_the_domain() -> None:
    rules = [
        Constraint.forbid(DOMAIN, ("b", "c"), [(0, 0)]),
        Constraint.forbid(DOMAIN, ("a", "b"), [(0, 0)]),
        Constraint.forbid(DOMAIN, ("c", "b"), [(3, 2)]),
        Constraint.forbid(DOMAIN, ("a",), []),
    ]
    assert merge(DOMAIN, rules) == (rules[1], Constraint.forbid(DOMAIN, ("b", "c"), [(0, 0), (2, 3)]))
    assert check_constraints(DOMAIN, rules) == tuple(rules)


def test_merging_refuses_what_leaves_nothing() -> None:
    rules = [Constraint.allow(DOMAIN, ("a",), [(code,)]) for code in range(2)]
    with pytest.raises(DomainError, match=r"over \('a',\) forbids every combination"):
        merge(DOMAIN, rules)
    with pytest.raises(DomainError, match=r"over \('a',\) and \('b',\) are not over the same table"):
        rules[0] & Constraint.allow(DOMAIN, ("b",), [(0,)])


BAD = {
    "unknown attribute": (("a", "bb"), [(0, 0)], "'bb' is not in the domain; did you mean 'b'?"),
    "repeated attribute": (("a", "a"), [(0, 0)], "names an attribute twice"),
    "clique as a text": ("a", [(0,)], r"expected a tuple of names, such as \('a',\)"),
    "code too large": (("b", "a"), [(0, 0), (3, 1)], r"code 3 of 'b': expected 0 \.\. 2"),
    "negative code": (("b",), [(-1,)], r"code -1 of 'b': expected 0 \.\. 2"),
    "wrong length": (("a", "b"), [(0, 0), (1,)], r"combination \(1,\): expected 2 codes, such as \(0, 0\)"),
    "bare codes": (("a",), [1], r"expected combinations of 1 codes each, such as \(0,\)"),
    "bare codes in an array": (("a",), np.array([1]), "expected 1 codes"),
    "fractions": (("a",), [(0.5,)], "expected integer codes, found float64"),
    "truth values": (("a",), [(True,)], "expected integer codes, found bool"),
    "huge codes": (("a",), [(2**70,)], "expected integer codes, found object"),
    "texts": (("a",), [("x",)], "expected integer codes"),
    "no combination": (("a",), [], "allows no combination; list at least one"),
    "no attribute": ((), [()], "at least one attribute"),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes_are_named(case: str) -> None:
    clique, rows, message = BAD[case]
    with pytest.raises(DomainError, match=message):
        Constraint.allow(DOMAIN, clique, rows)


def test_a_dependency_on_nothing_or_itself_is_refused() -> None:
    with pytest.raises(DomainError, match="'a' depends on no attribute"):
        Constraint.depends(DOMAIN, "a", (), {})
    with pytest.raises(DomainError, match="names an attribute twice"):
        Constraint.depends(DOMAIN, "a", ("b", "a"), {(0, 0): 1})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.ones((2, 3)), "found a table of float64 with 2 axes"),
        (np.ones(2, dtype=bool), "found a table of bool with 1 axes"),
        (np.zeros((2, 3), dtype=bool), "forbids every combination, so no row is possible"),
    ],
)
def test_tables_that_are_none_are_refused(table: np.ndarray, message: str) -> None:
    with pytest.raises(DomainError, match=message):
        Constraint(("a", "b"), table)


def test_tables_of_another_shape_or_domain_are_refused() -> None:
    with pytest.raises(DomainError, match=r"table of shape \(3, 2\), expected \(2, 3\)"):
        Constraint.of_table(DOMAIN, ("a", "b"), np.ones((3, 2), dtype=bool))
    swapped = Constraint(("b", "a"), np.ones((3, 2), dtype=bool))
    with pytest.raises(DomainError, match=r"the domain has \('a', 'b'\) of shape \(2, 3\)"):
        merge(DOMAIN, [swapped])
    with pytest.raises(DomainError, match="expected a Constraint"):
        merge(DOMAIN, [("a", "b")])


def test_tables_too_large_are_refused_before_they_are_made() -> None:
    wide = Domain({f"x{k}": 2**10 for k in range(4)} | {"huge": 2**31})
    with pytest.raises(SizeError, match="need 8.6 GB as potentials, most for .*constrain fewer attributes together"):
        Constraint.forbid(wide, ("x0", "x1", "x2"), [(0, 0, 0)])
    with pytest.raises(SizeError, match="at most 33,554,432 cells"):
        Constraint.depends(wide, "x0", ("x1", "x2", "x3", "huge"), {})
    pairs = [Constraint.forbid(wide, pair, [(0, 0)]) for pair in itertools.combinations(list(wide)[:4], 2)]
    assert sum(pair.cells for pair in pairs) < LARGEST_TABLE
    assert len(merge(wide, pairs)) == 6


def test_a_schema_will_do_for_its_domain() -> None:
    schema = Schema.from_domain(DOMAIN)
    rows = [(0, 1)]
    assert Constraint.forbid(schema, ("a", "b"), rows) == Constraint.forbid(DOMAIN, ("a", "b"), rows)
    assert Constraint.allow(schema, ("a", "b"), rows) == Constraint.allow(DOMAIN, ("a", "b"), rows)
    assert Constraint.depends(schema, "a", "b", {0: 1}) == Constraint.depends(DOMAIN, "a", "b", {0: 1})
    with pytest.raises(DomainError, match="^domain of type dict: expected a Domain or a Schema, or a table$"):
        Constraint.forbid({"a": 2}, ("a",), [(0,)])  # type: ignore[arg-type]  # its values may be private


def test_a_dependency_may_be_given_by_pairs() -> None:
    assert Constraint.depends(DOMAIN, "a", "b", [(0, 1), (1, 0)]) == Constraint.depends(DOMAIN, "a", "b", {0: 1, 1: 0})
    for wrong in ([0, 1], [(0, 1, 2)], 5):
        with pytest.raises(DomainError, match="expected codes and the code that each determines"):
            Constraint.depends(DOMAIN, "a", "b", wrong)  # type: ignore[arg-type]


def test_more_attributes_than_arrays_have_axes_are_refused() -> None:
    domain = Domain({f"a{i}": 1 for i in range(64)})
    for make in (Constraint.forbid, Constraint.allow):
        with pytest.raises(SizeError, match="64 attributes: expected 63 at most; leave out those of one level"):
            make(domain, tuple(domain), [(0,) * 64])
