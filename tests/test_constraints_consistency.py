"""contradiction: never a false alarm, and nothing missed where the cliques form a junction tree."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hush.constraints import Constraint, contradiction
from hush.domain import Domain

DOMAIN = Domain({"a": 2, "b": 3, "c": 2, "d": 2})
TREES = [
    [("a", "b"), ("b", "c"), ("c", "d")],
    [("a", "b", "c"), ("b", "c", "d"), ("b", "c"), ("d",)],
    [("a", "b"), ("a", "b"), ("a",), ("d",)],
]


def rows_exist(rules: list[Constraint]) -> bool:
    """Whether some row is possible, by trying all of them."""
    return any(
        all(rule.allowed[tuple(row[DOMAIN.attributes.index(name)] for name in rule.clique)] for rule in rules)
        for row in itertools.product(*(range(size) for size in DOMAIN.shape))
    )


@st.composite
def rules_over(draw: st.DrawFn, cliques: list[tuple[str, ...]]) -> list[Constraint]:
    made = []
    for clique in cliques:
        shape = DOMAIN.sizes(clique)
        size = DOMAIN.size(clique)
        kept = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=3))
        made.append(Constraint(clique, np.isin(np.arange(size), kept).reshape(shape)))
    return made


@given(st.sampled_from(TREES).flatmap(rules_over))
def test_on_junction_trees_it_decides(rules: list[Constraint]) -> None:
    assert (contradiction(DOMAIN, rules) is None) == rows_exist(rules)


@given(st.just(list(itertools.combinations(DOMAIN, 2))).flatmap(rules_over))
def test_it_is_never_a_false_alarm(rules: list[Constraint]) -> None:
    assert contradiction(DOMAIN, rules) is None or not rows_exist(rules)


def test_it_is_not_sufficient_on_a_loop() -> None:
    domain = Domain({"a": 2, "b": 2, "c": 2})
    differ = [Constraint.forbid(domain, pair, [(0, 0), (1, 1)]) for pair in itertools.combinations(domain, 2)]
    assert contradiction(domain, differ) is None


def test_a_long_chain_of_implications_is_followed() -> None:
    domain = Domain({f"x{k}": 2 for k in range(60)})
    names = list(domain)
    equal = [Constraint.depends(domain, b, a, {0: 0, 1: 1}) for a, b in itertools.pairwise(names)]
    ends = [Constraint.forbid(domain, ("x0",), [(0,)]), Constraint.forbid(domain, ("x59",), [(1,)])]
    assert contradiction(domain, [*equal, ends[0]]) is None
    assert "leave no possible" in str(contradiction(domain, [*equal, *ends]))


def test_the_message_names_what_to_relax() -> None:
    rules = [Constraint.allow(DOMAIN, ("a", "b"), [(0, 0)]), Constraint.allow(DOMAIN, ("a", "b"), [(1, 1)])]
    assert contradiction(DOMAIN, rules) == (
        "the constraints leave no possible combination of 'a', 'b'; relax one of those over ('a', 'b')"
    )
    assert contradiction(DOMAIN, []) is None
