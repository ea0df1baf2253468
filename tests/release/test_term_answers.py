"""Answers to terms of a workload: values, exact errors and labels."""

from __future__ import annotations

import numpy as np
import pytest

import hush
from dense_twins import DenseEstimates, DenseResidual
from hush import Budget, Schema, Workload, queries
from hush.core.errors import SizeError, WorkloadError
from hush.inference.residual_estimates import ResidualEstimates
from hush.linops import (
    AllRange,
    Dense,
    Equivalent,
    Haar,
    Identity,
    LevelsAndTotal,
    LinearOperator,
    Permuted,
    Prefix,
    Scaled,
    Stack,
    Total,
    WidthRange,
)
from hush.release import release as module
from hush.release.term_answers import row_labels
from hush.schema import Boolean, Categorical, Integer
from hush.workloads import ProductTerm

SCHEMA = Schema(
    [
        Integer(name="age", low=20, high=23),
        Categorical(name="sex", values=("f", "m"), missing=True),
        Boolean(name="count"),
    ]
)
WORKLOAD = (
    Workload.product(SCHEMA.domain, {"age": queries.prefix, "sex": queries.identity})
    + Workload.product(SCHEMA.domain, {"age": queries.ranges})
    + Workload.product(SCHEMA.domain, {"age": queries.width(2), "count": queries.matrix([[1, 1], [1, -1]])})
    + Workload.kway(SCHEMA.domain, 0)
)


@pytest.fixture(scope="module")
def release() -> hush.Release:
    rng = np.random.default_rng(3)
    rows = SCHEMA.decode({column.name: rng.integers(0, column.size, 400) for column in SCHEMA})
    return hush.plan(WORKLOAD, Budget(rho=0.5), mechanism="residual").release(hush.read(rows, SCHEMA))


def applied(values: np.ndarray, blocks: tuple[LinearOperator, ...]) -> np.ndarray:
    for axis, block in enumerate(blocks):
        values = np.moveaxis(np.tensordot(block.dense(), values, axes=(1, axis)), 0, axis)
    return values


@pytest.mark.parametrize("place", range(4))
def test_values_are_the_blocks_applied_to_the_counts(release: hush.Release, place: int) -> None:
    term = WORKLOAD.terms[place]
    answers = release.term(place)
    assert len(answers) == term.queries
    np.testing.assert_allclose(answers.estimate, applied(release.counts(term.clique), term.blocks).ravel(), atol=1e-8)
    assert answers == release.term(term)


@pytest.mark.parametrize("place", range(4))
def test_errors_are_those_of_the_whole_covariance(release: hush.Release, place: int) -> None:
    term = WORKLOAD.terms[place]
    assert isinstance(release.estimates, ResidualEstimates)
    twin = DenseResidual(release.estimates.strategy)
    wanted = twin.marginal(term.clique, term.blocks)
    variances = np.diag(twin.covariance(wanted, wanted))
    np.testing.assert_allclose(release.term(place).std_error, np.sqrt(variances), rtol=1e-8)


def test_dense_estimates_answer_products_by_the_formula() -> None:
    rng = np.random.default_rng(5)
    factor = rng.normal(size=(24, 24))
    estimates = DenseEstimates(SCHEMA.domain, rng.normal(size=SCHEMA.domain.shape), factor @ factor.T)
    blocks = (Dense(rng.normal(size=(2, 2))), Prefix(4))
    values, variances = estimates.product(("count", "age"), blocks)
    table = estimates.counts(("count", "age"))
    np.testing.assert_allclose(values, applied(table, blocks))
    for i, j in np.ndindex(2, 4):
        row = np.multiply.outer(blocks[0].dense()[i], blocks[1].dense()[j])
        assert variances[i, j] == pytest.approx(float(estimates.covariance(("count", "age"), row, row, 0)))


def test_labels(release: hush.Release) -> None:
    prefixes = release.term(0)
    assert prefixes.labels["age"][::3] == ["<= 20", "<= 21", "<= 22", "<= 23"]
    assert prefixes.labels["sex"][:3] == ["f", "m", None]
    assert prefixes.names == ("count",)
    assert release.term(1).labels["age"][:5] == ["20", "20 to 21", "20 to 22", "20 to 23", "21"]
    runs = release.term(2)
    assert runs.labels == {
        "age": ["20 to 21", "20 to 21", "21 to 22", "21 to 22", "22 to 23", "22 to 23"],
        "count": ["(total)", "query 2"] * 3,
    }
    assert runs.names == ("count_2",)
    assert release.term(3).labels == {}


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (Identity(3), ["a", "b", "c"]),
        (Total(3), ["(total)"]),
        (Prefix(3), ["<= a", "<= b", "<= c"]),
        (AllRange(3), ["a", "a to b", "a to c", "b", "b to c", "c"]),
        (WidthRange(3, 1), ["a", "b", "c"]),
        (WidthRange(3, 2), ["a to b", "b to c"]),
        (Dense([[0, 0, 1], [1, 1, 0], [1, 1, 1], [1, 0, 1], [2, 0, 0], [0, 0, 0]]),
         ["c", "a to b", "(total)", "query 4", "query 5", "query 6"]),
        (Dense([[1], [2]]), ["a", "query 2"]),
        (LevelsAndTotal(3), ["a", "b", "c", "(total)"]),
        (LevelsAndTotal(2, 1.0, -0.5), ["a", "b", "-0.5 x (total)"]),
        (Permuted(Prefix(3), [2, 0, 1]), ["<= c", "<= a", "<= b"]),
        (Scaled(Total(3), 2.0), ["2 x (total)"]),
        (Stack([Total(3), WidthRange(3, 2)], [1, 3]), ["(total)", "3 x a to b", "3 x b to c"]),
        (Haar(4), ["query 1", "query 2", "query 3", "query 4"]),
    ],
)  # fmt: skip
def test_every_query_has_a_label(block: LinearOperator, expected: list[str]) -> None:
    assert row_labels(block, "abc"[: block.shape[1]]) == expected
    assert len(expected) == block.shape[0]


def test_rows_can_be_shown_taken_and_exported(release: hush.Release) -> None:
    answers = release.term(1, level=0.9)
    assert answers.level == 0.9
    assert answers.to_arrow().column("age").to_pylist() == answers.labels["age"]
    assert answers.to_pandas()["age"].tolist() == answers.labels["age"]
    assert "20 to 22" in repr(answers)
    assert "20 to 22" in answers._repr_html_()
    taken = answers.take(np.array([2, 0]))
    assert taken.labels["age"] == ["20 to 22", "20"]
    assert taken != answers
    assert answers.codes["age"].tolist() == list(range(10))
    (first, *_) = answers
    assert first["age"] == "20"


def test_terms_outside_the_workload_can_be_asked_for_too(release: hush.Release) -> None:
    answers = release.term(ProductTerm(("sex",), (Dense([[1, 1, 0]]),)))
    assert answers.estimate[0] == pytest.approx(release.counts(("sex",))[:2].sum())


def test_levels_in_another_order_are_said_so(release: hush.Release) -> None:
    answers = release.term(ProductTerm(("age",), (Permuted(Prefix(4), [3, 0, 1, 2]),)))
    assert answers.labels["age"] == ["<= 23", "<= 20", "<= 21", "<= 22"]
    assert answers.notes == ("age: its levels stand in the order of the workload: 23, 20, 21, 22.",)
    counts = release.counts(("age",))
    np.testing.assert_allclose(answers.estimate, np.cumsum(counts[[3, 0, 1, 2]]), atol=1e-8)


def test_queries_known_by_their_gram_matrix_alone_are_refused(release: hush.Release) -> None:
    with pytest.raises(WorkloadError, match="cannot be answered one by one"):
        release.term(ProductTerm(("age",), (Equivalent(np.eye(4), queries=100),)))


@pytest.mark.parametrize("which", [4, -1, True, "age", None, 1.0])
def test_places_outside_the_workload_are_refused(release: hush.Release, which: object) -> None:
    with pytest.raises(WorkloadError, match="expected a Term, or an index from 0 to 3"):
        release.term(which)  # type: ignore[arg-type]


def test_terms_that_were_not_measured_or_do_not_fit_are_refused(
    release: hush.Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WorkloadError, match="add it to the workload"):
        release.term(ProductTerm(("sex", "count"), (Identity(3), Identity(2))))
    with pytest.raises(WorkloadError, match="4 levels, its query block 3"):
        release.term(ProductTerm(("age",), (Prefix(3),)))
    monkeypatch.setattr(module, "LARGEST_TABLES", 5)
    with pytest.raises(SizeError, match="10 numbers"):
        release.term(1)
