"""Queries of one's own: from formulas, SQL and functions; hand-written extensions are checked cell by cell."""

from __future__ import annotations

import numpy as np
import pytest

import hush
from hush import Domain, Workload, queries
from hush.core.errors import DomainError, HushError, QueryError, SizeError, WorkloadError
from hush.workloads import FormulaTerm, OwnQuery, check_extension
from hush.workloads.formula_term import formula_term

DOMAIN = Domain({"a": 2, "b": 3, "c": 4})
COUNTS = np.random.Generator(np.random.PCG64(1)).integers(0, 50, (2, 3))
EITHER = queries.test("a", 1) | queries.test("b", 0)
EMPLOYED = queries.test("employed", True)
SCHEMA = hush.datasets.people_schema()


def good(blocks):
    """1 - (1 - x_a1)(1 - x_b0), for a = 1 or b = 0."""
    a, b = blocks["a"][:, 1], blocks["b"][:, 0]
    slopes = {"a": np.zeros_like(blocks["a"]), "b": np.zeros_like(blocks["b"])}
    slopes["a"][:, 1], slopes["b"][:, 0] = 1 - b, 1 - a
    return 1 - (1 - a) * (1 - b), slopes


def bad(blocks):
    """x_a1 + x_b0, which is 2 where both hold."""
    _, slopes = good(blocks)
    return blocks["a"][:, 1] + blocks["b"][:, 0], slopes


def badly_sloped(blocks):
    value, slopes = good(blocks)
    return value, {**slopes, "b": 2 * slopes["b"]}


def test_it_counts_the_rows_that_satisfy_it() -> None:
    term = formula_term(DOMAIN, EITHER)
    assert term.exact_answers(COUNTS).tolist() == [COUNTS[1].sum() + COUNTS[0, 0]]
    assert (term.clique, term.queries, term.sensitivity(1), term.sensitivity(2)) == (("a", "b"), 1, 1.0, 1.0)


def test_formulas_are_terms_of_a_workload() -> None:
    other = (queries.test("b", 0) & queries.test("a", 0)) | queries.test("a", 1)  # says the same
    workload = Workload.formulas(DOMAIN, [EITHER, queries.test("c", 2)]) + 2 * Workload.formulas(DOMAIN, other)
    assert workload.weights == (3.0, 1.0)
    assert workload.cliques == (("a", "b"), ("c",))
    assert repr(workload) == "Workload(2 formulas, 2 queries over 3 attributes)"
    assert Workload.formulas(DOMAIN, EITHER).queries == 1


def test_functions_of_codes_are_formulas_too() -> None:
    own = OwnQuery(("b", "a"), lambda b, a: (a == 1) | (b == 0))
    assert formula_term(DOMAIN, own).diagram == formula_term(DOMAIN, EITHER).diagram
    assert formula_term(DOMAIN, own).text == "a function of b, a"
    with pytest.raises(WorkloadError, match=r"returned int64 of shape \(2, 3\) .*: expected true or false for each"):
        formula_term(DOMAIN, OwnQuery(("a", "b"), lambda a, b: a + b))
    with pytest.raises(SizeError, match="write it as a formula with queries.test, or as SQL"):
        formula_term(Domain({f"c{i}": 100 for i in range(4)}), OwnQuery(("c0", "c1", "c2", "c3"), lambda *c: c[0] > 1))


def test_an_extension_of_ones_own_is_used_and_checked() -> None:
    term = formula_term(DOMAIN, OwnQuery(("a", "b"), lambda a, b: (a == 1) | (b == 0), good))
    blocks = {"a": np.array([[0.3, 0.7]]), "b": np.array([[0.2, 0.5, 0.3]])}
    value, slopes = term.value_and_gradient(blocks)
    assert value == pytest.approx(1 - 0.3 * 0.8)
    assert slopes[0][0, 1] == pytest.approx(0.8)
    derived, own = formula_term(DOMAIN, EITHER).value_and_gradient(blocks), term.value_and_gradient(blocks)
    np.testing.assert_allclose(derived[0], own[0])
    for left, right in zip(derived[1], own[1], strict=True):  # alike on the simplex: up to a number for all levels
        np.testing.assert_allclose(left - left.mean(axis=1, keepdims=True), right - right.mean(axis=1, keepdims=True))


@pytest.mark.parametrize(
    ("extension", "message"),
    [
        (lambda blocks: (good(blocks)[0], {"a": 0.0, "b": 0.0}), r"derivatives by 'a' of shape \(\): expected"),
        (lambda blocks: (np.nan * good(blocks)[0], good(blocks)[1]), "disagrees with its query in 6 of 6 cells"),
        (bad, r"disagrees with its query in 1 of 6 cells: at a = 1, b = 0 the query is 1 and the extension 2; correct"),
        (badly_sloped, "derivatives of the extension by the probabilities of 'b' are .* off its differences"),
        (lambda blocks: (np.zeros(3), good(blocks)[1]), r"returned values of shape \(3,\) for 6 rows"),
        (
            lambda blocks: (good(blocks)[0], {"a": 0.0, "b": 0.0}),
            r"derivatives by 'a' of shape \(\): expected \(6, 2\)",
        ),
        (
            lambda blocks: (np.full(len(blocks["a"]), np.nan), good(blocks)[1]),
            "disagrees with its query in 6 of 6 cells",
        ),
    ],
)
def test_an_extension_that_disagrees_is_refused(extension, message) -> None:
    with pytest.raises(WorkloadError, match=message):
        Workload.formulas(DOMAIN, OwnQuery(("a", "b"), lambda a, b: (a == 1) | (b == 0), extension))


def test_the_check_says_whether_it_saw_every_cell() -> None:
    term = formula_term(DOMAIN, EITHER)
    every = check_extension(term, good)
    assert every.every
    assert repr(every) == "ExtensionCheck(6 of 6 cells, every one)"
    some = check_extension(term.diagram, good, cells=4)
    assert not some.every
    assert repr(some) == "ExtensionCheck(4 of 6 cells, drawn at random, so it may still disagree on others)"


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("employed AND sex = 'female'", EMPLOYED & queries.test("sex", "female")),
        ("NOT (employed OR age < 40)", ~(EMPLOYED | queries.test("age", {"to": 39}))),
        (
            "(employed) + (sex = 'female') + (region IN ('North', 'South')) >= 2",
            queries.at_least(
                2,
                queries.test("employed", True),
                queries.test("sex", "female"),
                queries.test("region", ["North", "South"]),
            ),
        ),
        ("age BETWEEN 18 AND 29", queries.test("age", {"from": 18, "to": 29})),
    ],
)
def test_sql_conditions_are_formulas(text, python) -> None:
    assert formula_term(SCHEMA, text).diagram == formula_term(SCHEMA, python).diagram
    assert formula_term(SCHEMA, text).text == text


@pytest.mark.parametrize(
    "text",
    [
        "(employed) + (sex = 'female') = 1",
        "(employed) + (sex = 'female') <> 1",
        "1 < (employed) + (sex = 'female') + (region = 'North')",
        "NOT (employed) + (sex = 'female') + (region = 'North') <= 1",
        "CAST(employed AS INT) + (sex = 'female')::INTEGER >= 1",
        "(income IS NULL) + (income < 20000) >= 1",
        "(income < 20000) + (sex = 'female') < 2",
        "income < 20000 OR NOT income < 20000",
        "CASE WHEN employed THEN sex = 'female' ELSE region = 'North' END",
        "(employed) + (sex = 'female') + (region = 'North') BETWEEN 1 AND 2",
        "TRUE AND employed IS NOT TRUE",
    ],
)
def test_sql_conditions_are_true_where_where_is(text) -> None:
    """The formula, column by column, against the truth value that queries on a release compute cell by cell."""
    from hush.sql.formula import TRUE
    from hush.sql.parsing import parse
    from hush.sql.predicate import truth
    from hush.sql.scope import Scope

    query = parse(f"SELECT COUNT(*) FROM t WHERE {text}")
    cells = truth(query.where, Scope(SCHEMA, query.tables))
    term = formula_term(SCHEMA, text)
    names = SCHEMA.domain.clique({*cells.names, *term.clique})
    expected = np.broadcast_to(cells.spread(names) == TRUE, SCHEMA.domain.sizes(names))
    mine = term.diagram.inside()
    shape = [SCHEMA.domain[name] if name in term.clique else 1 for name in names]
    assert np.array_equal(np.broadcast_to(mine.reshape(shape), expected.shape), expected)


@pytest.mark.parametrize(
    ("over", "query", "error", "message"),
    [
        (SCHEMA, "agee > 3", QueryError, "column 'agee' is not in the schema"),
        (SCHEMA, "sex = 'f'", HushError, "'f'"),
        (SCHEMA, "age > 3 LIMIT 2", QueryError, "is more than one condition; give what follows WHERE"),
        (SCHEMA, "age + sex >= 40", QueryError, "arithmetic takes numbers"),
        (SCHEMA, queries.test("sex", "f"), HushError, "'f'"),
        (DOMAIN, "a = 1", WorkloadError, "compares real values, and a domain has codes alone; give the schema"),
        (DOMAIN, queries.test("x", 1), DomainError, "'x' is not in the domain"),
        (DOMAIN, 3, WorkloadError, "int: expected a condition of queries.test, an OwnQuery or SQL text"),
        (DOMAIN, queries.test("a", 1) | ~queries.test("a", 1), WorkloadError, "is true of every row, so it asks"),
        (SCHEMA, "age < 18 AND age > 60", WorkloadError, "is true of no row, so it asks"),
    ],
)
def test_what_cannot_be_asked_is_refused(over, query, error, message) -> None:
    with pytest.raises(error, match=message):
        Workload.formulas(over, [query])


def test_a_formula_of_another_domain_is_refused() -> None:
    term = formula_term(DOMAIN, EITHER)
    with pytest.raises(WorkloadError, match="is over other levels than the domain's"):
        Workload(Domain({"a": 2, "b": 4}), [term])
    assert isinstance(term, FormulaTerm)
    with pytest.raises(WorkloadError, match=r"p=0: expected 1 or 2"):
        term.sensitivity(0)


def test_deep_formulas_are_refused() -> None:
    deep = queries.test("a", 1)
    for _ in range(100_000):
        deep = ~deep
    with pytest.raises(WorkloadError, match="nested too deeply"):
        Workload.formulas(DOMAIN, deep)
