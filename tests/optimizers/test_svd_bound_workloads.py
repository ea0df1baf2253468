import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush import queries
from hush.core.domain import Domain
from hush.linops import Total
from hush.optimizers.svd_bound import dominated_bound, lower_bound, svd_bound, svd_bound_of_rows
from hush.queries import Block
from hush.strategies.optimum import optimal_gram
from hush.strategies.term_table import TermGrams
from hush.workloads import Workload

BLOCKS: list[Block] = [queries.total, queries.identity, queries.prefix, queries.ranges]


def explicit(workload: Workload) -> np.ndarray:
    """sqrt(weight) times every query, on the cells of the whole domain."""
    rows = []
    for term in workload:
        own = dict(zip(term.clique, term.blocks, strict=True))
        product = np.full((1, 1), math.sqrt(term.weight))
        for name in workload.domain:
            product = np.kron(product, own.get(name, Total(workload.domain[name])).dense())
        rows.append(product)
    return np.concatenate(rows)


def unions(domain: Domain, order: int, block: Block) -> Workload:
    terms = [Workload.product(domain, dict.fromkeys(clique, block)) for clique in itertools.combinations(domain, order)]
    return Workload(domain, [term for workload in terms for term in workload])


@settings(max_examples=40)
@given(
    st.lists(st.integers(2, 4), min_size=2, max_size=3),
    st.lists(st.tuples(st.lists(st.integers(0, 3), min_size=3, max_size=3), st.floats(0.1, 9)), min_size=1, max_size=4),
)
def test_exact_bounds_are_those_of_the_explicit_matrix(sizes: list[int], picks: list[tuple[list[int], float]]) -> None:
    domain = Domain({f"a{i}": size for i, size in enumerate(sizes)})
    terms = [
        weight * Workload.product(domain, {name: BLOCKS[b] for name, b in zip(domain, pick, strict=False)})
        for pick, weight in picks
    ]
    workload = Workload(domain, [term for own in terms for term in own])
    value, word = lower_bound(TermGrams.of(workload))
    assert word in ("product", "marginals", "exact")
    assert value == pytest.approx(svd_bound_of_rows(explicit(workload)), rel=1e-6)
    below, other = lower_bound(TermGrams.of(workload), largest=0)
    assert 0 < below <= value * (1 + 1e-9)
    assert other in ("product", "marginals", "parts", "dominated")


def test_marginals_are_tight_and_have_the_right_multiplicities() -> None:
    domain = Domain({"a": 3, "b": 4, "c": 2})
    workload = Workload.marginals(domain, [("a", "b"), ("b", "c"), ("a",)], [2.0, 0.5, 7.0])
    value, word = lower_bound(TermGrams.of(workload))
    w = explicit(workload)
    assert word == "marginals"
    assert value == pytest.approx(svd_bound(w.T @ w))
    assert optimal_gram(w.T).checked().error == pytest.approx(value, rel=1e-6)


def test_marginals_of_many_attributes_need_no_cells() -> None:
    domain = Domain({f"a{i}": 10 for i in range(20)})
    value, word = lower_bound(TermGrams.of(Workload.kway(domain, 3)))
    lam = [math.comb(20 - t, 3 - t) * 10.0**-3 for t in range(4)]
    expected = sum(math.comb(20, t) * 9**t * math.sqrt(lam[t]) for t in range(4)) ** 2
    assert word == "marginals"
    assert value == pytest.approx(expected)


def test_what_all_terms_share_factors_out() -> None:
    small = Domain({"a": 3, "b": 2})
    large = Domain({"a": 3, "b": 2, "c": 50})
    blocks = [{"a": queries.prefix}, {"b": queries.identity}]
    plain = Workload(small, [t for own in blocks for t in Workload.product(small, own)])
    wider = Workload(large, [t for own in blocks for t in Workload.product(large, own | {"c": queries.prefix})])
    prefix = svd_bound(queries.prefix(50).gram_dense())
    assert lower_bound(TermGrams.of(wider), largest=10)[0] == pytest.approx(
        lower_bound(TermGrams.of(plain))[0] * prefix
    )
    assert lower_bound(TermGrams.of(wider), largest=10)[1] == "exact"


def test_a_weight_multiplies_variance() -> None:
    domain = Domain({"a": 3, "b": 4})
    workload = unions(domain, 1, queries.prefix)
    assert lower_bound(TermGrams.of(3.0 * workload))[0] == pytest.approx(3 * lower_bound(TermGrams.of(workload))[0])


def test_few_queries_go_through_their_own_products() -> None:
    domain = Domain({"a": 12, "b": 13, "c": 14})
    workload = unions(domain, 1, queries.prefix)
    value, word = lower_bound(TermGrams.of(workload), largest=39)
    assert word == "exact"
    assert value == pytest.approx(svd_bound_of_rows(explicit(workload)), rel=1e-9)


@pytest.mark.parametrize(
    ("order", "word", "share"), [(1, "dominated", 0.65), (2, "dominated", 0.4), (3, "parts", 0.25)]
)
def test_unions_of_prefix_marginals_too_large_for_eigenvalues(order: int, word: str, share: float) -> None:
    domain = Domain({f"a{i}": 6 for i in range(4)})
    grams = TermGrams.of(unions(domain, order, queries.prefix))
    exact, below = lower_bound(grams), lower_bound(grams, largest=0)
    assert exact[1] == "exact"
    assert below[1] == word
    assert share * exact[0] < below[0] < exact[0]


def test_two_kinds_of_harder_queries_on_an_attribute_are_left_to_the_parts() -> None:
    domain = Domain({"a": 5, "b": 5})
    terms = [Workload.product(domain, {"a": b}) for b in (queries.prefix, queries.ranges)]
    grams = TermGrams.of(Workload(domain, [t for own in terms for t in own]))
    assert dominated_bound(grams, (0,), grams.index[:, :1], grams.weights) == 0
    value, word = lower_bound(grams, largest=0)
    assert word == "parts"
    assert value == pytest.approx(sum(svd_bound(b(5).gram_dense()) for b in (queries.prefix, queries.ranges)))
