"""Thresholds answer, weigh and move as their matrix of targets and cells does, at every r and k."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from hush import Domain, Workload
from hush.core.errors import DomainError, SizeError, WorkloadError
from hush.linops import MarginalGram
from hush.workloads import ThresholdTerm
from hush.workloads.threshold_term import threshold_term

SIZES = [(2, 3), (3, 2, 4), (2, 2, 2), (2, 3, 2, 4), (3, 2, 2, 2, 2)]
CASES = [(sizes, r) for sizes in SIZES for r in range(1, len(sizes))]
DOMAIN = Domain({"a": 2, "b": 3, "c": 4, "d": 2})


def matrix(sizes: tuple[int, ...], at_least: int) -> np.ndarray:
    """One row per target, one column per cell: whether they agree often enough."""
    cells = np.array(list(itertools.product(*map(range, sizes))))
    return ((cells[:, None] == cells).sum(axis=2) >= at_least).astype(float)


def term_of(sizes: tuple[int, ...], at_least: int) -> ThresholdTerm:
    return ThresholdTerm(tuple("abcdef"[: len(sizes)]), sizes, at_least)


@pytest.mark.parametrize(("sizes", "at_least"), CASES)
def test_answers_and_sensitivities_are_those_of_the_matrix(sizes, at_least) -> None:
    term, dense = term_of(sizes, at_least), matrix(sizes, at_least)
    counts = np.random.Generator(np.random.PCG64(1)).integers(0, 2**20, sizes)
    before = counts.copy()
    assert np.array_equal(term.exact_answers(counts).ravel(), dense @ counts.ravel())  # whole numbers: not nearly
    assert np.array_equal(counts, before)
    assert term.queries == len(dense)
    assert term.agreeing == dense[0].sum()
    for p in (1, 2):
        assert term.sensitivity(p) == pytest.approx(np.linalg.norm(dense, ord=p, axis=0).max(), rel=1e-15)


@pytest.mark.parametrize(("sizes", "at_least"), CASES)
def test_it_multiplies_what_depends_on_some_columns_by_one_number(sizes, at_least) -> None:
    term = term_of(sizes, at_least)
    operator = MarginalGram.of_eigenvalues(sizes, term.eigenvalues)
    np.testing.assert_allclose(operator.dense(), matrix(sizes, at_least), atol=1e-12)
    assert term.eigenvalues[0] == term.agreeing


def test_the_majority_of_three_yes_or_no_columns_says_nothing_of_pairs() -> None:
    eigenvalues = ThresholdTerm(("a", "b", "c"), (2, 2, 2), 2).eigenvalues
    assert eigenvalues.tolist() == [4, 2, 2, 0, 2, 0, 0, -2]


def test_answers_of_all_targets_add_up_to_the_rows_times_those_that_one_row_agrees_with() -> None:
    counts = np.random.Generator(np.random.PCG64(2)).integers(0, 9, (9, 16, 7))
    for at_least, agreeing in ((1, 288), (2, 30)):
        term = ThresholdTerm(("a", "b", "c"), (9, 16, 7), at_least)
        assert term.agreeing == agreeing
        assert term.exact_answers(counts).sum() == counts.sum() * agreeing


def test_many_columns_need_no_subsets() -> None:
    term = ThresholdTerm(tuple(f"c{i}" for i in range(40)), (2,) * 40, 20)
    assert term.agreeing == sum(math.comb(40, j) for j in range(20, 41))
    assert term.sensitivity(2) == math.sqrt(term.agreeing)


def test_a_workload_lists_every_set_or_those_given() -> None:
    workload = Workload.thresholds(DOMAIN, 3, 2)
    assert [term.text for term in workload] == ["2 of a, b, c", "2 of a, b, d", "2 of a, c, d", "2 of b, c, d"]
    assert workload.queries == 24 + 12 + 16 + 24
    assert repr(workload) == "Workload(4 thresholds, 76 queries over 4 attributes)"
    some = Workload.thresholds(DOMAIN, 2, 1, [("c", "a"), ("b", "d")])
    assert some.cliques == (("a", "c"), ("b", "d"))


def test_thresholds_add_and_have_weights() -> None:
    one = Workload.thresholds(DOMAIN, 2, 1, [("a", "b")])
    together = one + 3 * one + 2 * Workload.kway(DOMAIN, 2) + Workload.thresholds(DOMAIN, 3, 1, [("a", "b", "c")])
    assert together.weights == (4.0, *[2.0] * 6, 1.0)
    assert Workload.thresholds(DOMAIN, 2, 2) == Workload.kway(DOMAIN, 2)
    assert Workload.thresholds(DOMAIN, 1, 1) == Workload.kway(DOMAIN, 1)


@pytest.mark.parametrize(
    ("columns", "at_least", "cliques", "message"),
    [
        (3, 4, None, "at least 4 of 3 attributes: expected a whole number from 1 to 3"),
        (3, 0, None, "at least 0 of 3 attributes: expected a whole number from 1 to 3"),
        (3, True, None, "at least True of 3 attributes: expected a whole number from 1 to 3"),
        (5, 2, None, "order=5: expected a whole number from 0 to 4, the number of attributes"),
        (3, 2, [("a", "b")], r"\('a', 'b'\) has 2 columns: expected 3"),
        (2, 1, [("a", "b"), ("b", "a")], "is listed 2 times; list it once, with a larger weight"),
    ],
)
def test_what_cannot_be_asked_is_refused(columns, at_least, cliques, message) -> None:
    with pytest.raises(WorkloadError, match=message):
        Workload.thresholds(DOMAIN, columns, at_least, cliques)


def test_unknown_and_repeated_columns_are_refused() -> None:
    with pytest.raises(DomainError, match="names an attribute twice; give each name once"):
        Workload.thresholds(DOMAIN, 2, 1, [("a", "a")])
    with pytest.raises(DomainError, match="'x' is not in the domain"):
        Workload.thresholds(DOMAIN, 2, 1, [("a", "x")])
    with pytest.raises(DomainError, match="expected a list of cliques"):
        Workload.thresholds(DOMAIN, 2, 1, "ab")


def test_terms_that_do_not_fit_are_refused() -> None:
    with pytest.raises(WorkloadError, match=r"have \(2, 3\) levels, not \(2, 4\)"):
        Workload(DOMAIN, [ThresholdTerm(("a", "b"), (2, 4), 1)])
    with pytest.raises(WorkloadError, match="that is their marginal, so ask for that"):
        Workload(DOMAIN, [ThresholdTerm(("a", "b"), (2, 3), 2)])
    with pytest.raises(WorkloadError, match="'b' has a single level, which every row has; leave it out"):
        Workload.thresholds(Domain({"a": 2, "b": 1, "c": 2}), 3, 1, [("a", "b", "c")])
    with pytest.raises(WorkloadError, match=r"p=3: expected 1 or 2"):
        ThresholdTerm(("a", "b"), (2, 3), 1).sensitivity(3)


def test_more_than_2_to_the_63_answers_are_refused() -> None:
    wide = Domain({f"c{i}": 2**9 for i in range(8)})
    assert Workload.thresholds(wide, 6, 2, [tuple(wide)[:6]]).queries == 2**54
    with pytest.raises(SizeError, match=r"answers, more than 2\^63; use fewer sets of columns"):
        Workload.thresholds(wide, 7, 2)
    with pytest.raises(SizeError, match=r"answers, more than 2\^63; use fewer attributes"):
        Workload(wide, [threshold_term(wide, wide, 2)])


def test_answers_that_do_not_fit_into_memory_are_refused(monkeypatch) -> None:
    monkeypatch.setattr("hush.core.memory.UNCHECKED_BYTES", 0)
    monkeypatch.setattr("hush.core.memory.available_memory", lambda: 100)
    with pytest.raises(SizeError, match="the answers of 1 of a, b: 192 B needed, 100 B free; use"):
        ThresholdTerm(("a", "b"), (3, 4), 1).exact_answers(np.ones((3, 4)))
