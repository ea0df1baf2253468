"""Propositions: joints, NOT and constants mean what they do in logic, and what cannot be read is refused."""

from __future__ import annotations

import pytest

from hush import Domain, queries
from hush.core.errors import DomainError, WorkloadError
from hush.schema.proposition import ALWAYS, NEVER, AtLeast, LevelsIn

DOMAIN = Domain({"a": 2, "b": 3, "c": 4})
A, B, C = queries.test("a", 1), queries.test("b", [0, 2]), queries.test("c", range(1, 4))


@pytest.mark.parametrize(
    ("proposition", "text"),
    [
        (A, "a = 1"),
        (~A, "a = 0"),
        (B, "b <> 1"),
        (queries.test("c", [0, 2]), "c in (0, 2)"),
        (A & B & C, "a = 1 and b <> 1 and c <> 0"),
        (A | (B & ~C), "a = 1 or (b <> 1 and c = 0)"),
        (~(A | (B & ~C)), "a = 0 and (b = 1 or c <> 0)"),
        (queries.at_least(2, A, B, C), "at least 2 of a = 1, b <> 1, c <> 0"),
        (~queries.at_least(2, A, B, C), "at least 2 of a = 0, b = 1, c = 0"),
        (A & queries.test("b", [0, 1, 2]), "a = 1"),
        (A | queries.test("b", [0, 1, 2]), "true"),
        (A & ~queries.test("b", [0, 1, 2]), "false"),
        (A & A, "a = 1"),
    ],
)
def test_what_is_left_of_it(proposition, text) -> None:
    assert str(proposition.settled(DOMAIN)) == text


def test_a_level_that_is_known_is_put_in() -> None:
    settled = queries.at_least(2, A, B, C).settled(DOMAIN)
    assert str(settled.given("a", 1)) == "b <> 1 or c <> 0"
    assert str(settled.given("a", 0)) == "b <> 1 and c <> 0"
    assert settled.given("a", 1).given("b", 0) == ALWAYS
    assert settled.given("a", 0).given("b", 1) == NEVER
    assert settled.columns == {"a", "b", "c"}
    assert [type(leaf) for leaf in settled.tests()] == [LevelsIn] * 3


def test_python_cannot_join_it_by_words() -> None:
    with pytest.raises(WorkloadError, match="join conditions by &, | and ~"):
        bool(A and B)
    with pytest.raises(TypeError):
        A & True


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: queries.test("x", 1).settled(DOMAIN), DomainError, "'x' is not in the domain"),
        (lambda: queries.test("a", 2).settled(DOMAIN), WorkloadError, r"expected codes within 0 .. 1"),
        (lambda: queries.test("a", -1).settled(DOMAIN), WorkloadError, r"expected codes within 0 .. 1"),
        (lambda: queries.test("a", "yes").settled(DOMAIN), WorkloadError, "real values need a schema"),
        (lambda: queries.test("a", []).settled(DOMAIN), WorkloadError, "expected a code or a list of codes"),
        (lambda: queries.test(1, 1), WorkloadError, "expected the name of a column"),
        (lambda: queries.at_least(3, A, B), WorkloadError, "at least 3 of 2 conditions: expected 1 to 2"),
        (lambda: queries.at_least(0, A), WorkloadError, "at least 0 of 1 conditions: expected 1 to 1"),
        (lambda: queries.at_least(1, A, "b"), WorkloadError, "'b' is no condition; write it with queries.test"),
        (
            lambda: LevelsIn("a", frozenset([1]), 3).settled(DOMAIN),
            WorkloadError,
            "'a' has 2 levels, a test of it 3; write it anew",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(make, error, message) -> None:
    with pytest.raises(error, match=message):
        make()


def test_equal_propositions_are_equal() -> None:
    assert (A & B).settled(DOMAIN) == AtLeast(2, (A.settled(DOMAIN), B.settled(DOMAIN)))
