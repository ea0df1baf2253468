"""Workload error: by its definition, for marginals and products, streamed and not."""

import itertools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hush import Domain, Workload, queries
from hush.core.domain import Clique
from hush.core.errors import DataError, DomainError, SizeError, WorkloadError
from hush.evaluation import largest_error, term_errors, workload_error
from hush.evaluation.workload_error import largest_errors
from hush.linops import Equivalent
from hush.testing import TinyTable
from hush.workloads import ProductTerm

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})


def rows(seed: int, count: int) -> TinyTable:
    random = np.random.Generator(np.random.PCG64(seed))
    return TinyTable(DOMAIN, random.integers(0, DOMAIN.shape, size=(count, 3)).tolist())


REAL, OTHER = rows(1, 60), rows(2, 45)


def test_the_error_is_that_of_the_definition() -> None:
    workload = Workload.kway(DOMAIN, 2) + 2.5 * Workload.marginals(DOMAIN, [("c",), ()])
    exact, other = (table.counts(workload.cliques) for table in (REAL, OTHER))
    by_term = [np.abs(exact[clique] - other[clique]).sum() for clique in workload.cliques]
    found = term_errors(workload, REAL.counts, OTHER.counts)
    assert found.absolute.tolist() == by_term
    assert found.error == pytest.approx(sum(np.array([1, 1, 1, 2.5, 2.5]) * by_term) / (5 * 60))
    halves = [0.5 * np.abs(exact[clique] / 60 - other[clique] / 45).sum() for clique in workload.cliques]
    assert found.distances == pytest.approx(halves)
    assert found.mean_distance == pytest.approx(np.mean(halves))
    assert found.share_error == pytest.approx(2 * np.dot([1, 1, 1, 2.5, 2.5], halves) / 5)
    assert workload_error(workload, exact, other) == found.error


def test_errors_are_0_for_the_same_rows_and_2_for_none_in_common() -> None:
    workload = Workload.kway(DOMAIN, 1)
    low, high = TinyTable(DOMAIN, [(0, 0, 0)] * 7), TinyTable(DOMAIN, [(1, 1, 1)] * 7)
    assert workload_error(workload, low.counts, low.counts) == 0
    found = term_errors(workload, low.counts, high.counts)
    assert (found.error, found.mean_distance) == (2, 1)


def test_products_are_answered_by_their_blocks() -> None:
    workload = Workload.product(DOMAIN, {"a": queries.prefix, "b": queries.ranges})
    blocks = np.kron(*(block.dense() for block in workload.terms[0].blocks))
    exact, other = (table.counts([("a", "b")])[("a", "b")].ravel() for table in (REAL, OTHER))
    found = term_errors(workload, REAL.counts, OTHER.counts)
    assert found.absolute[0] == pytest.approx(np.abs(blocks @ exact - blocks @ other).sum())
    assert found.distances[0] == pytest.approx(np.abs(blocks @ exact / 60 - blocks @ other / 45).sum() / 2)


def test_terms_that_share_a_clique_share_its_table() -> None:
    prefix = Workload.product(DOMAIN, {"a": queries.prefix})
    workload = Workload.marginals(DOMAIN, [("a",)]) + prefix
    asked: list[Clique] = []

    def counts(cliques: Sequence[Clique]) -> Any:
        asked.extend(cliques)
        return REAL.counts(cliques)

    found = term_errors(workload, counts, OTHER.counts)
    assert asked == [("a",)]
    assert found.absolute[1] == workload_error(prefix, REAL.counts, OTHER.counts) * 60


def test_tables_are_asked_for_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = Workload.kway(DOMAIN, 2)  # 12, 6 and 8 cells
    whole, batches, fractions = workload_error(workload, REAL.counts, OTHER.counts), [], []
    monkeypatch.setattr(sys.modules["hush.evaluation.workload_error"], "BATCH_CELLS", 14)

    def counts(cliques: Sequence[Clique]) -> Any:
        batches.append(len(cliques))
        return REAL.counts(cliques)

    assert term_errors(workload, counts, OTHER.counts, progress=fractions.append).error == whole
    assert batches == [1, 2]
    assert fractions == pytest.approx([1 / 3, 2 / 3, 1])


def test_exact_answers_are_seen_once() -> None:
    workload = Workload.kway(DOMAIN, 1) + 3 * Workload.product(DOMAIN, {"a": queries.prefix})
    seen = {}
    term_errors(workload, REAL.counts, OTHER.counts, seen=lambda term, answers: seen.update({term: answers}))
    assert set(seen) == set(workload)
    assert seen[workload.terms[3]].tolist() == np.cumsum(REAL.counts([("a",)])[("a",)]).tolist()


@pytest.mark.parametrize(
    ("exact", "other", "error", "message"),
    [
        ({}, {("a",): [1, 1, 1]}, WorkloadError, r"no table over \('a',\)"),
        ({("a",): [1, 1]}, {("a",): [1, 1, 1]}, DataError, r"expected \(3,\)"),
        ({("a",): [0, 0, 0]}, {("a",): [1, 1, 1]}, DataError, "the exact table has no rows"),
        ({("a",): [1, 1, 1]}, {("a",): [0, 0, 0]}, DataError, "the estimated table has no rows"),
    ],
)
def test_tables_that_do_not_fit_are_refused(exact: dict, other: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        workload_error(Workload.marginals(DOMAIN, [("a",)]), exact, other)


def test_queries_that_are_not_listed_have_no_absolute_errors() -> None:
    workload = Workload(DOMAIN, [ProductTerm(("a",), (Equivalent(np.eye(3) + 1, queries=8),))])
    with pytest.raises(WorkloadError, match="Gram matrix alone"):
        workload_error(workload, REAL.counts, OTHER.counts)


def test_too_many_answers_are_refused_before_any_table_is_read() -> None:
    wide = Domain({"a": 1000, "b": 1000})
    workload = Workload.product(wide, {"a": queries.ranges, "b": queries.ranges})
    table = TinyTable(wide, [(0, 0)])
    with pytest.raises(SizeError, match="250,500,250,000 numbers"):
        workload_error(workload, table.counts, table.counts)
    assert table.reads == 0


def test_another_domain_is_noticed() -> None:
    with pytest.raises(DomainError, match="'z' is not in the domain"):
        workload_error(Workload.kway(Domain({"z": 2}), 1), REAL.counts, OTHER.counts)


def test_the_largest_error_is_that_of_counting_row_by_row() -> None:
    formula = queries.test("a", 1) | ~queries.test("b", [0, 3])
    workload = (
        Workload.kway(DOMAIN, 2)
        + 9 * Workload.thresholds(DOMAIN, 3, 2)
        + Workload.thresholds(DOMAIN, 2, 1, [("b", "c")])
        + Workload.formulas(DOMAIN, formula)
        + Workload.product(DOMAIN, {"a": queries.prefix})
    )
    real, other = (np.array(table.rows) for table in (REAL, OTHER))

    def worst(counts) -> float:
        return max(abs(int(counts(real, target)) - int(counts(other, target))) for target in CELLS) / 60

    def agreeing(columns, r):
        return worst(lambda rows, target: ((rows == target)[:, columns].sum(axis=1) >= r).sum())

    def where_true(rows, target):
        return ((rows[:, 0] == 1) | ~np.isin(rows[:, 1], (0, 3))).sum()

    expected = [*(agreeing(pair, 2) for pair in ([0, 1], [0, 2], [1, 2])), agreeing([0, 1, 2], 2), agreeing([1, 2], 1)]
    expected += [worst(where_true), worst(lambda rows, target: (rows[:, 0] <= target[0]).sum())]
    found = largest_errors(workload, REAL.counts, OTHER.counts)
    assert found == pytest.approx(expected)
    assert largest_error(workload, REAL.counts, OTHER.counts) == found.max()
    assert largest_error(5 * workload, REAL.counts, OTHER.counts) == found.max()  # weights play no part


CELLS = list(itertools.product(*map(range, DOMAIN.shape)))


def test_zeros_have_the_largest_answer_as_their_error() -> None:
    def zeros(cliques: Sequence[Clique]) -> dict[Clique, Any]:
        return {clique: np.zeros(DOMAIN.sizes(clique)) for clique in cliques}

    workload = Workload.thresholds(DOMAIN, 3, 1)
    answers = workload.terms[0].exact_answers(REAL.counts(workload.cliques)[workload.cliques[0]])
    assert largest_error(workload, REAL.counts, zeros) == answers.max() / 60
    with pytest.raises(DataError, match="the exact table has no rows"):
        largest_error(workload, zeros, REAL.counts)


@pytest.mark.parametrize("measure", [workload_error, largest_error], ids=["workload", "largest"])
def test_tables_beyond_memory_are_refused_before_any_is_read(measure) -> None:
    wide = Domain(dict.fromkeys("abcd", 2000))
    table = TinyTable(wide, [(0, 0, 0, 0)])
    formula = queries.test("a", 0) | queries.test("b", 0) | queries.test("c", 0) | queries.test("d", 0)
    workload = Workload.marginals(wide, [("c",)]) + Workload.formulas(wide, formula)
    with pytest.raises(SizeError, match=r"the errors of a = 0 or b = 0 .* needed, .* ask for fewer attributes"):
        measure(workload, table.counts, table.counts)
    assert table.reads == 0
