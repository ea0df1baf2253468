"""What a query may not ask, and what it is told to ask instead."""

from __future__ import annotations

import datetime as dt
import re

import numpy as np
import pytest

from dense_twins import DenseEstimates
from hush.core.domain import Domain
from hush.core.errors import HushError, QueryError, SizeError, WorkloadError
from hush.release.sql_answers import answer_sql
from hush.schema import Boolean, Categorical, Date, Integer, Numeric, Schema

SCHEMA = Schema(
    [
        Integer(name="age", low=0, high=3, missing=True, missing_values=("-9",)),
        Categorical(name="sex", values=("female", "male"), missing=True, missing_values=("?",)),
        Categorical(name="city", values=("Bern", "Basel"), other=True),
        Boolean(name="smoker"),
        Numeric(name="income", edges=(0, 1000, 2500, 10000)),
        Date(name="month", start=dt.date(2020, 1, 15), end=dt.date(2020, 3, 31), granularity="month"),
        Integer(name="a.b", low=0, high=1),
    ]
)
HELD = (("age", "sex", "smoker"), ("age", "income"), ("city", "month"))
ESTIMATES = DenseEstimates(SCHEMA.domain, np.ones(SCHEMA.domain.shape), None, HELD)


def refused(text: str) -> str:
    with pytest.raises(HushError) as caught:
        answer_sql(text, SCHEMA, ESTIMATES)
    assert isinstance(caught.value, QueryError)
    assert "\n" not in str(caught.value)
    return str(caught.value)


SYNTAX = [
    ("", "the query is empty; write, for example, SELECT sex, COUNT(*)"),
    (" ; ", "the query is empty"),
    ("-- nothing", "the query is empty"),
    ("SELECT", "selects nothing"),
    ("SELECT COUNT(*) FROM t WHERE (age = 1", "the query is not valid SQL: Expecting ) near '1' (line 1, column 37)"),
    ("SELECT COUNT(*) FORM t WHERE age = 1", "the query is not valid SQL: Invalid expression"),
    ("SELECT COUNT(*) FROM t WHERE sex = 'fem", "check that every quote and comment is closed"),
    ("SELECT COUNT(*) FROM t; SELECT COUNT(*) FROM t", "several statements in one query; ask one SELECT at a time"),
    ("SELECT COUNT(*) FROM t; DROP TABLE t", "several statements"),
    ("DROP TABLE t", "only a SELECT can be asked of a release, found DROP"),
    ("INSERT INTO t VALUES (1)", "found INSERT"),
    ("EXPLAIN SELECT 1", "found EXPLAIN"),
    ("(SELECT COUNT(*) FROM t)", "only one SELECT can be asked of a release"),
    ("SELECT COUNT(*) FROM t UNION SELECT COUNT(*) FROM t", "UNION is not supported in a query on a release"),
    ("SELECT COUNT(*)", "the query has no FROM"),
]
CLAUSES = [
    (
        "SELECT COUNT(*) FROM t JOIN u USING (age)",
        "a join is not supported in a query on a release; a release holds one table",
    ),
    ("SELECT COUNT(*) FROM t, u", "a join is not supported"),
    ("SELECT COUNT(*) FROM t, LATERAL (SELECT 1)", "a join is not supported"),
    ("SELECT COUNT(*) FROM (SELECT * FROM t)", "name one table in FROM; any name will do"),
    ("SELECT COUNT(*) FROM read_csv('x.csv')", "name one table in FROM"),
    ("SELECT COUNT(*) FROM t AS u(a, b)", "nothing but an alias"),
    ("SELECT COUNT(*) FROM t TABLESAMPLE 10 PERCENT", "nothing but an alias"),
    ("SELECT COUNT(*) FROM t USING SAMPLE 10%", "a sample is not supported"),
    ("WITH x AS (SELECT 1) SELECT COUNT(*) FROM x", "WITH is not supported"),
    (
        "SELECT DISTINCT sex, COUNT(*) FROM t GROUP BY sex",
        "SELECT DISTINCT is not supported in a query on a release; use GROUP BY",
    ),
    ("SELECT sex, COUNT(*) FROM t GROUP BY sex HAVING sex = 'male'", "put conditions on columns into WHERE"),
    ("SELECT sex, COUNT(*) FROM t GROUP BY sex HAVING COUNT(*)", "write HAVING with comparisons of aggregates"),
    ("SELECT sex, COUNT(*) AS n FROM t GROUP BY sex HAVING m > 5", "HAVING m is not a column of the answers"),
    ("SELECT COUNT(DISTINCT sex) FROM t", "noisy counts do not show how many different values occur"),
    ("SELECT COUNT(*) FROM t QUALIFY 1", "QUALIFY is not supported"),
    ("SELECT COUNT(*) INTO x FROM t", "INTO is not supported"),
    ("SELECT COUNT(*) FROM t WINDOW w AS ()", "WINDOW is not supported"),
    ("SELECT COUNT(*) FROM t FOR UPDATE", "LOCKS is not supported in a query on a release; leave it out"),
    ("SELECT COUNT(*) FROM t LIMIT 10%", "write LIMIT with a number of rows"),
    ("SELECT COUNT(*) FROM t LIMIT 3 WITH TIES", "write LIMIT with a number of rows"),
    ("SELECT COUNT(*) FROM t LIMIT (SELECT 3)", "LIMIT takes a whole number of rows"),
    ("SELECT COUNT(*) FROM t LIMIT 1.5", "LIMIT takes a whole number of rows"),
    ("SELECT COUNT(*) FROM t OFFSET 'a'", "OFFSET takes a whole number of rows"),
]
ITEMS = [
    ("SELECT * FROM t", "SELECT * asks for rows, and only counts can be asked for"),
    ("SELECT t.* FROM t", "name the columns"),
    ("SELECT sex FROM t GROUP BY sex", "the query selects no aggregate; add one, such as COUNT(*)"),
    ("SELECT 1 FROM t", "1 has no aggregate in it"),
    ("SELECT sex, COUNT(*) FROM t", "column 'sex' is selected but not grouped; add it to GROUP BY"),
    ("SELECT age + COUNT(*) FROM t GROUP BY age", "column 'age' stands outside an aggregate"),
    (
        "SELECT COUNT(DISTINCT age) FROM t",
        "COUNT(DISTINCT age) is not supported in a query on a release; noisy counts do not show",
    ),
    ("SELECT MAX(age) FROM t", "extremes cannot be read from counts"),
    ("SELECT SKEWNESS(age) FROM t", "COUNT, SUM, AVG, VARIANCE, and their sums, differences, multiples and ratios"),
    ("SELECT foo(age) FROM t", "FOO(age) is not supported"),
    ("SELECT COUNT(*) OVER () FROM t", "window functions are outside"),
    ("SELECT (SELECT 1) + COUNT(*) FROM t", "subqueries are outside"),
    ("SELECT ROUND(AVG(age), 2) FROM t", "leave it out and round the answers"),
    ("SELECT CAST(AVG(age) AS INTEGER) FROM t", "leave the cast out"),
    ("SELECT COUNT(*) // 2 FROM t", "write / for a ratio"),
    ("SELECT COUNT(*) * SUM(age) FROM t", "multiplies two aggregates; ask for each and multiply the answers"),
    ("SELECT COUNT(*) / 0 FROM t", "COUNT(*) / 0 divides by zero"),
    ("SELECT SUM(age / 0) FROM t", "division by zero"),
    ("SELECT SUM(SUM(age)) FROM t", "an aggregate cannot stand inside another one"),
    ("SELECT SUM(sex) FROM t", "column 'sex' is categorical and cannot be added up; COUNT it instead"),
    ("SELECT AVG(month) FROM t", "column 'month' is date and cannot be added up"),
    ("SELECT SUM(LN(age)) FROM t", "add up columns, numbers, CASE WHEN"),
    ("SELECT SUM('x') FROM t", "'x': expected a number here"),
    (
        "SELECT SUM(income::INT) FROM t",
        "column 'income' was counted by bins, so arithmetic on it has no single value in [0, 1000)",
    ),
    ("SELECT COUNT(age, sex) FROM t", "give the aggregate one argument"),
    ("SELECT SUM(*) FROM t", "write COUNT(*), or name a column"),
    ("SELECT SUM() FROM t", ""),
    ("SELECT COUNT(* EXCLUDE (age)) FROM t", "write COUNT(*)"),
    ("SELECT SUM(age ORDER BY age) FROM t", "give the aggregate one argument"),
    ("SELECT CASE WHEN smoker THEN 1 END, COUNT(*) FROM t", "put CASE inside an aggregate"),
    ("SELECT 1e308 * 10 * COUNT(*) FROM t", "1e308 * 10 is too large to represent"),
    ("SELECT SUM(1e999) FROM t", "'1e999' is not a finite number"),
    (
        "SELECT COUNT(*) n, SUM(age) N FROM t",
        "two columns of the answers are called 'N'; give each an alias of its own",
    ),
    ("SELECT sex, sex AS s, COUNT(*) FROM t GROUP BY sex", "a column is selected twice"),
]
GROUPS = [
    ("SELECT COUNT(*) FROM t GROUP BY MD5(sex)", "MD5(sex) is not supported in a query on a release; use columns"),
    ("SELECT COUNT(*) FROM t GROUP BY age + COUNT(*)", "GROUP BY age + COUNT(*) is an aggregate; group by columns"),
    ("SELECT income / 2 AS h, COUNT(*) FROM t GROUP BY h", "column 'income' was counted by bins, so arithmetic on it"),
    ("SELECT COUNT(*) FROM t GROUP BY CASE WHEN income < 7 THEN 1 END", "cuts through the bin [0, 1000); write income"),
    ("SELECT COUNT(*) FROM t GROUP BY sex + 1", "sex + 1: arithmetic takes numbers"),
    ("SELECT COUNT(*) FROM t GROUP BY YEAR(age)", "takes a part of column 'age', which is integer; only a date column"),
    (
        "SELECT EXTRACT(DAY FROM month) AS d, COUNT(*) FROM t GROUP BY d",
        "EXTRACT(DAY FROM month) is not known: column 'month' counts each month as one level, and 2020-01-15 to "
        "2020-01-31 has more than one day; give it a finer granularity in the schema",
    ),
    ("SELECT COUNT(*) FROM t GROUP BY EXTRACT(EPOCH FROM month)", "the parts of a date are YEAR, QUARTER, MONTH"),
    (
        "SELECT COUNT(*) FROM t GROUP BY CASE WHEN smoker THEN 1 ELSE 'x' END",
        "values of several kinds: numbers and text",
    ),
    ("SELECT COUNT(*) FROM t GROUP BY age / 0", "division by zero"),
    ("SELECT COUNT(*) FROM t GROUP BY age * 1e300", "has numbers beyond 9,007,199,254,740,992"),
    ("SELECT EXTRACT(YEAR FROM month), COUNT(*) FROM t", "put it into GROUP BY too"),
    ("SELECT sex, COUNT(*) FROM t GROUP BY ROLLUP(sex)", "group by columns"),
    ("SELECT sex, COUNT(*) FROM t GROUP BY 3", "GROUP BY 3: SELECT has 2 items"),
    ("SELECT sex, COUNT(*) FROM t GROUP BY 2", "GROUP BY 2 is an aggregate"),
    ("SELECT sex, COUNT(*) n FROM t GROUP BY n", "GROUP BY n is an aggregate"),
    ("SELECT sex, COUNT(*) FROM t GROUP BY sexx", "column 'sexx' is not in the schema; did you mean 'sex'?"),
    (
        "SELECT sex, COUNT(*) num FROM t GROUP BY sex ORDER BY nu",
        "ORDER BY nu is not a column of the answers; did you mean 'num'?",
    ),
    (
        "SELECT sex, COUNT(*) n FROM t GROUP BY sex ORDER BY SUM(age)",
        "ORDER BY SUM(age) is not a column of the answers",
    ),
    ("SELECT sex, COUNT(*) n FROM t GROUP BY sex ORDER BY 7", "position 7 is not in SELECT, which has 2 items"),
    ("SELECT sex, COUNT(*) n FROM t GROUP BY sex ORDER BY 'n'", "ORDER BY 'n' is a constant"),
    ("SELECT sex, COUNT(*) n FROM t GROUP BY ALL ORDER BY ALL", "order by columns of the answers"),
]
CONDITIONS = [
    ("agee = 1", "column 'agee' is not in the schema; did you mean 'age'?"),
    ("zzz = 1", "column 'zzz' is not in the schema; known: age, sex, city, smoker, income, month, a.b"),
    ("u.age = 1", "u.age names the table 'u', which is not the one in FROM"),
    ("a.b = 1", "column 'a.b' has a dot in its name; write it in double quotes: \"a.b\""),
    ("age", "column 'age' is integer, not a condition; compare it with a value"),
    ("1", "write a comparison, such as age >= 40"),
    ("age = income", "compares the columns 'age' and 'income'; compare each with a constant"),
    ("income + 1 > 2", "column 'income' was counted by bins, so arithmetic on it has no single value in [0, 1000)"),
    ("month + 1 > '2020-02-02'", "counts each month as one level, so arithmetic on it has no single value"),
    ("age + sex > 2", "age + sex: arithmetic takes numbers"),
    ("age > 1 / 0", "division by zero"),
    ("age > (SELECT 1)", "subqueries are outside; write the constant"),
    ("age > AVG(age)", "aggregates belong in SELECT"),
    ("age IN (SELECT 1)", "subqueries are outside; list the values"),
    ("age IN ()", "list the values between parentheses"),
    ("age IN (sex)", "compares the columns 'age' and 'sex'"),
    ("EXISTS (SELECT 1)", "subqueries are outside"),
    ("age BETWEEN SYMMETRIC 2 AND 1", "leave SYMMETRIC out"),
    ("sex GLOB 'f*'", "is not supported in a query on a release; list the values you want with IN"),
    ("city LIKE 'B%'", "their texts are not known; list the values you want with IN"),
    ("age LIKE '1%'", "is not a text; compare it with =, < or >"),
    ("sex LIKE city", "write LIKE with a pattern in single quotes"),
    ("age = ?", "is not supported in a query on a release; use columns"),
    ("DAY(month) = 20", "has more than one day; give it a finer granularity"),
    ("month < DATE '2020-01-01' + INTERVAL 5 HOUR", "write a whole number of days, weeks, months, quarters or years"),
    ("1 = 'a'", "compares constants of different kinds"),
    ("age IS DISTINCT FROM income", "compares the columns 'age' and 'income'"),
    ("age = 'old'", "column 'age' holds numbers: 'old' is not one; compare it with a number"),
    ("age = TRUE", "column 'age' holds numbers: True is not one"),
    ("age = -9", "-9 means missing in column 'age'; write age IS NULL"),
    ("sex = '?'", "'?' means missing in column 'sex'; write sex IS NULL"),
    ("sex = 'femal'", "'femal' is not a declared value of column 'sex'; did you mean 'female'?"),
    ("sex = 'MALE'", "'MALE' is not a declared value of column 'sex'; did you mean 'male'?"),
    ("sex IN ('male', 'x')", "'x' is not a declared value of column 'sex'; known: female, male"),
    (
        "city = 'Genf'",
        "'Genf' is not a declared value of column 'city': it is part of (other), which 'other' stands for",
    ),
    ("city > 'B'", "column 'city' is categorical and has no order for >; list the values you want with IN"),
    ("smoker < TRUE", "column 'smoker' is boolean and has no order for <"),
    ("smoker = 2", "column 'smoker' is boolean: 2 is neither TRUE nor FALSE"),
    ("smoker IS 3", ""),
    ("income >= 1200", "income >= 1200 cuts through the bin [1000, 2500); write income >= 1000 or income >= 2500"),
    ("income > 1000", "income > 1000 cuts through the bin [1000, 2500); write income >= 1000 or income >= 2500"),
    ("income <= 2500", "income <= 2500 cuts through the bin [2500, 10000]; write income < 2500 or income <= 10000"),
    ("500.5 > income", "income < 500.5 cuts through the bin [0, 1000); write income < 0 or income < 1000"),
    ("income >= 10000", "cuts through the bin [2500, 10000]; write income >= 2500"),
    (
        "income BETWEEN 0 AND 1000",
        "income <= 1000 cuts through the bin [1000, 2500); write income < 1000 or income < 2500",
    ),
    ("income = 3", "income = 3 asks for one value inside the bin [0, 1000); write income >= 0 AND income < 1000"),
    ("income <> 10000", "inside the bin [2500, 10000]; write income >= 2500 AND income <= 10000"),
    ("income IN (1000)", "inside the bin [1000, 2500)"),
    (
        "month >= '2020-02-10'",
        "cuts through the month 2020-02-01 to 2020-02-29; write month >= '2020-02-01' or month >= '2020-03-01'",
    ),
    ("month > '2020-01-20'", "cuts through the month 2020-01-15 to 2020-01-31; write month > '2020-01-31'"),
    ("month <= '2020-02-10'", "write month <= '2020-01-31' or month <= '2020-02-29'"),
    ("month < DATE '2020-03-31'", "cuts through the month 2020-03-01 to 2020-03-31; write month < '2020-03-01'"),
    ("month = '2020-02-10'", "write month BETWEEN '2020-02-01' AND '2020-02-29'"),
    ("month = '2020-02-30'", "'2020-02-30' is not a date; write it as '2020-01-31'"),
    ("month = 'February'", "'February' is not a date"),
    ("month = 2020", "column 'month' holds dates: 2020 is not one; write it as '2020-01-31'"),
    ("month = TIMESTAMP '2020-01-01 10:00'", "'2020-01-01 10:00' is not a date"),
]


@pytest.mark.parametrize(("text", "message"), SYNTAX + CLAUSES + ITEMS + GROUPS)
def test_queries_outside_the_subset_say_what_to_write(text: str, message: str) -> None:
    assert message in refused(text)


@pytest.mark.parametrize(("condition", "message"), CONDITIONS)
def test_conditions_outside_the_subset_say_what_to_write(condition: str, message: str) -> None:
    assert message in refused(f"SELECT COUNT(*) FROM t WHERE {condition}")


def test_suggestions_of_a_refusal_are_answered() -> None:
    refusals = [
        refused(f"SELECT COUNT(*) FROM t WHERE {text}")
        for text, said in CONDITIONS
        if "write income" in said or "write month" in said
    ]
    suggestions = [each for said in refusals for each in re.split(" or ", said.split("; write ")[1])]
    answers = [answer_sql(f"SELECT COUNT(*) FROM t WHERE {each}", SCHEMA, ESTIMATES) for each in suggestions]
    assert len(answers) >= 15
    assert all(np.isfinite(answer.estimate).all() for answer in answers)


def test_an_uncovered_query_names_the_nearest_tables_and_the_workload() -> None:
    said = refused("SELECT sex, COUNT(*) FROM t WHERE income < 1000 AND smoker GROUP BY sex")
    assert said == (
        "COUNT(*) needs a table over sex, smoker, income, which this release does not hold; the nearest it holds: "
        '("age", "sex", "smoker") without income; add ("sex", "smoker", "income") to the workload of the next release, '
        "or leave a column out of the query; `hush model` or release.model() estimates it, without an error bar"
    )
    assert 'add ("a.b",) to the workload' in refused('SELECT COUNT(*) FROM t WHERE "a.b" = 1')
    nothing = DenseEstimates(SCHEMA.domain, np.ones(SCHEMA.domain.shape), None, ())
    with pytest.raises(
        QueryError,
        match="needs the total, which this release does not hold; it only holds answers to the queries",
    ):
        answer_sql("SELECT COUNT(*) FROM t", SCHEMA, nothing)


@pytest.mark.parametrize("text", ["male", '"male"', "t.male"])
def test_a_text_without_its_quotes(text: str) -> None:
    said = refused(f"SELECT COUNT(*) FROM t WHERE sex = {text}")
    assert said == "column 'male' is not in the schema; it is a value of 'sex': put texts in single quotes: 'male'"


def test_names_that_differ_by_case_must_be_written_exactly() -> None:
    schema = Schema([Boolean(name="ab"), Boolean(name="AB")])
    estimates = DenseEstimates(schema.domain, np.array([[1, 2], [4, 8]]))
    assert answer_sql("SELECT COUNT(*) FROM t WHERE AB", schema, estimates).estimate[0] == 10
    with pytest.raises(QueryError, match="column 'Ab' may be any of ab, AB; write it in the right case"):
        answer_sql("SELECT COUNT(*) FROM t WHERE Ab", schema, estimates)


class Promises:
    """Estimates that claim to hold some tables; to read them would be an error."""

    def __init__(self, domain: Domain, *cliques: tuple[str, ...]) -> None:
        self.domain = domain
        self.cliques = cliques

    def covers(self, clique: tuple[str, ...]) -> bool:
        return any(set(clique) <= set(held) for held in self.cliques)

    def counts(self, clique: tuple[str, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        raise AssertionError(clique)

    covariance = counts

    def product(self, clique: tuple[str, ...], blocks: object) -> None:
        raise WorkloadError("no such product")


LARGE = Domain({"a": 2**10, "b": 2**10, "c": 2**10, "d": 2**30})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT a, b, c, COUNT(*) FROM t GROUP BY a, b, c", "a table over a, b, c with 1,073,741,824 cells"),
        (
            "SELECT COUNT(*) FROM t WHERE a = 1 AND b = 1 AND c = 1",
            "name fewer columns, or coarsen their bins in the schema",
        ),
        ("SELECT SUM(a * b * c) FROM t", "at most 268,435,456 are possible"),
        ("SELECT COUNT(*) FROM t WHERE d = 1", "a table over d"),
    ],
)
def test_tables_too_large_are_refused_before_they_are_made(text: str, message: str) -> None:
    estimates = Promises(LARGE, tuple(LARGE))
    with pytest.raises(SizeError, match=message):
        answer_sql(text, Schema.from_domain(LARGE), estimates)


def test_large_uncovered_queries_are_refused_for_their_coverage() -> None:
    with pytest.raises(QueryError, match='WHERE needs a table over a, b, c, .* add \\("a", "b", "c"\\)'):
        answer_sql(
            "SELECT COUNT(*) FROM t WHERE a = 1 AND b = 1 AND c = 1",
            Schema.from_domain(LARGE),
            Promises(LARGE, ("a", "b")),
        )


def test_deep_nesting_is_refused_and_long_lists_are_not() -> None:
    assert "nested too deeply" in refused(f"SELECT COUNT(*) FROM t WHERE {'NOT ' * 5_000}smoker")
    many = " OR ".join(["age = 1"] * 2_000)
    assert len(answer_sql(f"SELECT COUNT(*) FROM t WHERE {many}", SCHEMA, ESTIMATES)) == 1
    listed = ", ".join(["1"] * 5_000)
    assert len(answer_sql(f"SELECT COUNT(*) FROM t WHERE age IN ({listed})", SCHEMA, ESTIMATES)) == 1


@pytest.mark.parametrize("text", [None, 3, b"SELECT 1"])
def test_a_query_is_text(text: object) -> None:
    with pytest.raises(QueryError, match="expected a text"):
        answer_sql(text, SCHEMA, ESTIMATES)  # type: ignore[arg-type]
