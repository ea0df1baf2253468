"""contradiction: never a false alarm, and nothing missed where the cliques form a junction tree."""

import itertools
import random
from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core import constraints
from hush.core.arrays import axes_outside
from hush.core.constraints import Constraint, contradiction
from hush.core.domain import Domain

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


def thinned_pair_by_pair(domain: Domain, rules: list[Constraint]) -> bool:
    """Whether something of every table is left once each is thinned by each other until none changes."""
    remaining = [rule.allowed.copy() for rule in rules]
    queue = deque(itertools.permutations(range(len(rules)), 2))
    while queue:
        j, k = queue.popleft()
        both = tuple(name for name in rules[j].clique if name in rules[k].clique)
        possible = remaining[k].any(axis=axes_outside(rules[k].clique, both))
        thinned = remaining[j] & possible.reshape([domain[n] if n in both else 1 for n in rules[j].clique])
        if not np.array_equal(thinned, remaining[j]):
            remaining[j] = thinned
            queue.extend((i, j) for i in range(len(rules)) if i != j)
    return all(table.any() for table in remaining)


def random_rules(draw: random.Random, domain: Domain) -> list[Constraint]:
    rules = []
    share = draw.choice([0.3, 0.6, 0.9])
    for _ in range(draw.randint(1, 8)):
        clique = domain.clique(draw.sample(list(domain), draw.randint(1, min(4, len(domain)))))
        allowed = np.array([draw.random() < share for _ in range(domain.size(clique))])
        allowed[draw.randrange(len(allowed))] = True
        rules.append(Constraint(clique, allowed.reshape(domain.sizes(clique))))
    return rules


def test_verdicts_are_those_of_every_pair() -> None:
    draw, verdicts = random.Random(1), []
    for _ in range(400):
        domain = Domain({f"x{k}": draw.choice([1, 2, 2, 3]) for k in range(draw.randint(2, 7))})
        rules = random_rules(draw, domain)
        verdicts.append(contradiction(domain, rules) is None)
        assert verdicts[-1] == thinned_pair_by_pair(domain, rules)
    assert 80 < sum(verdicts) < 320  # both are common


def test_what_cliques_share_are_their_intersections() -> None:
    draw = random.Random(2)
    for _ in range(200):
        domain = Domain({f"x{k}": draw.choice([1, 2]) for k in range(7)})
        cliques = list({domain.clique(draw.sample(list(domain), draw.randint(1, 6))) for _ in range(8)})
        wide = [{name for name in clique if domain[name] > 1} for clique in cliques]
        found = constraints._shared(domain, cliques)
        for j, k in itertools.combinations(range(len(cliques)), 2):
            both = domain.clique(wide[j] & wide[k])
            assert not both or {cliques[j], cliques[k]} <= set(found[both])
        for names, holders in found.items():
            assert holders == [clique for clique in cliques if set(names) <= set(clique)]


@pytest.mark.parametrize("kind", ["over one clique", "that share a column", "that share two columns", "in a chain"])
def test_the_work_is_linear_in_the_number_of_rules(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Counted, not timed: tables looked at, and the sets that they are compared on."""
    columns = {"over one clique": "ab", "that share a column": "a", "that share two columns": "ab", "in a chain": ""}
    looks = {}
    for count in (100, 200):
        domain = Domain({"a": 2, "b": 2} | {f"c{k}": 2 for k in range(count + 1)})
        own = [[f"c{k}", f"c{k + 1}"] if kind == "in a chain" else [f"c{k}"] for k in range(count)]
        cliques = [(*columns[kind], *([] if kind == "over one clique" else names)) for names in own]
        rules = [Constraint.forbid(domain, clique, [(0,) * len(clique)]) for clique in cliques]
        calls: list[object] = []
        monkeypatch.setattr(
            constraints, "axes_outside", lambda *names, calls=calls: calls.append(1) or axes_outside(*names)
        )
        assert contradiction(domain, rules) is None
        sets = constraints._shared(domain, list(dict.fromkeys(cliques)))
        looks[count] = 1 + len(calls) + sum(map(len, sets.values()))
    assert looks[200] <= 2.1 * looks[100]


def test_a_search_that_goes_on_for_long_ends_without_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pass around the loop a = b = c = a + 1 takes one level away."""
    domain = Domain({"a": 50, "b": 50, "c": 50})
    equal, after = np.eye(50, dtype=np.bool_), np.eye(50, k=1, dtype=np.bool_)
    rules = [Constraint(("a", "b"), equal), Constraint(("b", "c"), equal), Constraint(("a", "c"), after)]
    assert contradiction(domain, rules) is not None
    monkeypatch.setattr(constraints, "_MOST_WORK", 0)
    assert contradiction(domain, rules) is None
