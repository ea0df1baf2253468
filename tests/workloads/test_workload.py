import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush import Domain, Schema, Workload, queries
from hush.core.errors import DomainError, SizeError, WorkloadError
from hush.linops import Equivalent, Identity, Prefix, Stack
from hush.workloads import ProductTerm

DOMAIN = Domain({"a": 2, "b": 3, "c": 4, "d": 5})


@pytest.mark.parametrize("order", [0, 1, 2, 3, 4])
def test_k_way_is_every_subset_of_that_size(order: int) -> None:
    workload = Workload.kway(DOMAIN, order)
    assert workload.cliques == tuple(itertools.combinations("abcd", order))
    assert workload.queries == sum(DOMAIN.size(clique) for clique in workload.cliques)


def test_what_is_not_a_term_is_refused() -> None:
    with pytest.raises(WorkloadError, match="'a' is not a term"):
        Workload(DOMAIN, ["a"])  # type: ignore[list-item]


def test_up_to_includes_the_total() -> None:
    workload = Workload.upto(DOMAIN, 2)
    assert workload.cliques[0] == ()
    assert len(workload) == 1 + 4 + 6


@given(st.dictionaries(st.text(min_size=1, max_size=3), st.integers(2, 9), min_size=1, max_size=6), st.integers(1, 200))
def test_small_is_every_marginal_within_the_limit(sizes: dict[str, int], cells: int) -> None:
    domain = Domain(sizes)
    every = itertools.chain.from_iterable(itertools.combinations(domain.attributes, k) for k in range(len(domain) + 1))
    assert set(Workload.small(domain, cells).cliques) == {clique for clique in every if domain.size(clique) <= cells}


def test_target_has_the_attribute_everywhere() -> None:
    workload = Workload.target(DOMAIN, "c", 2)
    assert workload.cliques == (("a", "c"), ("b", "c"), ("c", "d"))


def test_predict_asks_for_pairs_and_triples_with_the_label() -> None:
    workload = Workload.predict(DOMAIN, "c")
    assert workload.cliques == (("a", "c"), ("b", "c"), ("c", "d"), ("a", "b", "c"), ("a", "c", "d"), ("b", "c", "d"))
    assert workload.weights == (3.0, 3.0, 3.0, 1.0, 1.0, 1.0)
    pair = Workload.predict(Domain({"a": 2, "b": 3, "c": 1}), "a")
    assert (pair.cliques, pair.weights) == ((("a", "b"),), (1.0,))


def test_predict_refuses_a_label_that_nothing_can_predict() -> None:
    domain = Domain({"a": 2, "b": 1})
    with pytest.raises(WorkloadError, match="label 'b' has a single level, so there is nothing to predict"):
        Workload.predict(domain, "b")
    with pytest.raises(WorkloadError, match="label 'a' is the only column with several levels; add one"):
        Workload.predict(domain, "a")
    with pytest.raises(DomainError, match="'income' is not in the domain"):
        Workload.predict(domain, "income")


def test_skewed_is_the_same_for_the_same_seed_and_counts_repeats() -> None:
    first, again, other = (Workload.skewed(DOMAIN, 2, 50, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert sum(first.weights) == 50
    assert len(first) <= 6


def test_marginals_are_put_in_domain_order_and_keep_their_weights() -> None:
    workload = Workload.marginals(DOMAIN, [("c", "a"), ("b",)], weights=[2.0, 0.5])
    assert workload.cliques == (("a", "c"), ("b",))
    assert workload.weights == (2.0, 0.5)


def test_union_adds_weights_of_equal_terms() -> None:
    one, two = Workload.marginals(DOMAIN, [("a",), ("b",)]), Workload.marginals(DOMAIN, [("b",), ("c",)])
    union = one + 3.0 * two
    assert dict(zip(union.cliques, union.weights, strict=True)) == {("a",): 1.0, ("b",): 4.0, ("c",): 3.0}


def test_products_keep_their_blocks_and_leave_totals_out() -> None:
    workload = Workload.product(DOMAIN, {"c": queries.prefix, "a": queries.identity, "b": queries.total})
    assert workload.terms == (ProductTerm(("a", "c"), (Identity(2), Prefix(4))),)
    assert workload.queries == 8
    assert not workload.plain
    explicit = Workload.product(DOMAIN, {"a": queries.matrix([[1, -1]])})
    assert explicit.queries == 1


@pytest.mark.parametrize(
    ("block", "asked"),
    [
        (queries.levels_and_total, 5),
        (queries.permuted(queries.ranges, [3, 1, 0, 2]), 10),
        (queries.predicates([[0, 2], [1]]), 2),
        (Equivalent(4.0 * (np.eye(4) + 1), queries=16), 16),
        (Stack([Identity(4), Prefix(4)]), 8),
    ],
)
def test_products_take_any_block_and_count_its_queries(block: object, asked: int) -> None:
    workload = Workload.product(DOMAIN, {"c": block, "a": queries.identity})
    assert workload.queries == 2 * asked
    assert workload == Workload.product(DOMAIN, {"c": block, "a": queries.identity})


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: Workload(DOMAIN, []), WorkloadError, "empty"),
        (lambda: Workload.marginals(DOMAIN, []), WorkloadError, "empty"),
        (lambda: Workload.marginals(DOMAIN, [("x",)]), DomainError, "'x'"),
        (lambda: Workload.marginals(DOMAIN, ["a"]), DomainError, r"\('a',\)"),
        (lambda: Workload.marginals(DOMAIN, [("a", "a")]), DomainError, "twice"),
        (lambda: Workload.marginals(DOMAIN, [("a", "b"), ("b", "a")]), WorkloadError, "larger weight"),
        (lambda: Workload.marginals(DOMAIN, [("a",)], weights=[1.0, 2.0]), WorkloadError, "2 weights for 1"),
        (lambda: Workload.marginals(DOMAIN, [("a",)], weights=[0.0]), WorkloadError, "weight 0.0"),
        (lambda: Workload.marginals(DOMAIN, [("a",)], weights=[-1.0]), WorkloadError, "weight -1.0"),
        (lambda: Workload.marginals(DOMAIN, [("a",)], weights=[math.nan]), WorkloadError, "weight nan"),
        (lambda: Workload.kway(DOMAIN, 5), WorkloadError, "order=5"),
        (lambda: Workload.kway(DOMAIN, -1), WorkloadError, "order=-1"),
        (lambda: Workload.upto(DOMAIN, True), WorkloadError, "order=True"),
        (lambda: Workload.small(DOMAIN, 0), WorkloadError, "cells=0"),
        (lambda: Workload.target(DOMAIN, "x", 2), DomainError, "'x'"),
        (lambda: Workload.target(DOMAIN, "a", 0), WorkloadError, "empty"),
        (lambda: Workload.skewed(DOMAIN, 2, 0, seed=1), WorkloadError, "draws=0"),
        (
            lambda: Workload.kway(Domain({"a": 2, "b": 1}), 2),
            WorkloadError,
            "from 0 to 1, the number of attributes with more than one level",
        ),
        (lambda: Workload.product(DOMAIN, {"a": queries.matrix([[1, 2, 3]])}), WorkloadError, "3 columns"),
        (lambda: Workload.product(DOMAIN, {"a": Identity(3)}), WorkloadError, "3 columns"),
        (lambda: Workload.product(DOMAIN, {"a": queries.matrix([[np.nan, 1]])}), WorkloadError, "finite"),
        (lambda: Workload.product(DOMAIN, {"a": queries.width(3)}), WorkloadError, "width=3"),
        (lambda: Workload.kway(DOMAIN, 1) + Workload.kway(Domain({"a": 3}), 1), WorkloadError, "different domains"),
        (lambda: Workload.kway(Domain({f"x{i}": 2 for i in range(200)}), 5), SizeError, "lower the order"),
    ],
)
def test_bad_workloads_are_refused(build: object, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        build()  # type: ignore[operator]


def test_schemas_and_tables_stand_for_their_domains() -> None:
    schema = Schema.from_domain(DOMAIN)
    assert Workload.upto(schema, 2) == Workload.upto(DOMAIN, 2)  # type: ignore[arg-type]
    with pytest.raises(WorkloadError, match="domain of type list: expected a Domain or a Schema, or a table"):
        Workload.kway(["a", "b"], 1)  # type: ignore[arg-type]


CONSTANT = Domain({"country": 1, "age": 4, "sex": 2, "year": 1})


def test_workloads_leave_columns_of_a_single_level_out() -> None:
    assert Workload.kway(CONSTANT, 2).cliques == (("age", "sex"),)
    assert Workload.upto(CONSTANT, 2).cliques == ((), ("age",), ("sex",), ("age", "sex"))
    assert Workload.small(CONSTANT, 4).cliques == ((), ("age",), ("sex",))
    assert Workload.target(CONSTANT, "sex", 2).cliques == (("age", "sex"),)
    assert Workload.thresholds(CONSTANT, 2, 1).cliques == (("age", "sex"),)
    assert Workload.product(CONSTANT, {"age": queries.prefix, "year": queries.prefix}).cliques == (("age",),)
    with pytest.raises(WorkloadError, match="from 0 to 2, the number of attributes with more than one level"):
        Workload.kway(CONSTANT, 3)
    with pytest.raises(WorkloadError, match="target 'year' has a single level"):
        Workload.target(CONSTANT, "year", 1)


def test_tables_that_become_the_same_add_their_weights() -> None:
    workload = Workload.marginals(CONSTANT, [("country", "sex"), ("sex",), ("year",)], weights=[2.0, 1.0, 5.0])
    assert workload.cliques == (("sex",), ())
    assert workload.weights == (3.0, 5.0)
    twice = Workload.product(CONSTANT, {"sex": queries.identity, "year": queries.levels_and_total})
    assert (twice.cliques, twice.weights) == ((("sex",),), (2.0,))  # two equal queries on the one level


def test_a_threshold_over_a_column_of_a_single_level_asks_for_one_less_of_the_others() -> None:
    workload = Workload.thresholds(CONSTANT, 3, 2, [("country", "age", "sex")])
    assert workload == Workload.thresholds(CONSTANT, 2, 1, [("age", "sex")])
    with pytest.raises(WorkloadError, match="'country' has a single level, which every row has; leave it out$"):
        Workload.thresholds(CONSTANT, 2, 1, [("country", "age")])


def test_queries_with_other_coefficients_on_a_single_level_are_refused() -> None:
    with pytest.raises(WorkloadError, match="attribute 'year' has a single level"):
        Workload.product(CONSTANT, {"year": queries.matrix([[2.0]])})
