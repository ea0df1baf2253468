"""SQL on estimates: what is computed, from which table, with which error."""

from __future__ import annotations

import datetime as dt
from typing import Any

import duckdb
import numpy as np
import pytest

from dense_twins import DenseEstimates
from hush.core.domain import Domain
from hush.core.errors import DomainError, QueryError
from hush.release.answers import Answers
from hush.release.sql_answers import answer_sql
from hush.schema import Boolean, Categorical, Integer, Numeric, Schema

SCHEMA = Schema(
    [
        Integer(name="age", low=0, high=2, missing=True),
        Categorical(name="sex", values=("f", "m"), other=True),
        Boolean(name="smoker"),
        Numeric(name="income", edges=(0, 10, 30), outside="clamp"),
    ]
)
DOMAIN = SCHEMA.domain
CELLS = DOMAIN.size()


def random_table(seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(20, 90, DOMAIN.shape).astype(float)


def random_covariance(seed: int) -> np.ndarray[Any, Any]:
    root = np.random.default_rng(seed).normal(size=(CELLS, CELLS))
    return root @ root.T / CELLS


def ask(text: str, **options: Any) -> Answers:
    return answer_sql(text, SCHEMA, DenseEstimates(DOMAIN, random_table(1), random_covariance(2)), **options)


LINEAR = [
    "COUNT(*)",
    "COUNT(age)",
    "SUM(age)",
    "SUM(income)",
    "SUM(smoker)",
    "SUM(CASE WHEN age >= 1 AND NOT smoker THEN 1 ELSE 0 END)",
    "COUNT(*) FILTER (WHERE sex = 'f') - 2 * COUNT(*) FILTER (WHERE age IS NULL) + 7",
    "(SUM(age) + SUM(income)) / 4",
    "COUNT_IF(income >= 10)",
]
RATIOS = [
    "AVG(age)",
    "AVG(income)",
    "100.0 * COUNT(*) FILTER (WHERE smoker) / COUNT(*)",
    "SUM(income) / NULLIF(SUM(age), 0)",
    "AVG(age) - AVG(age) FILTER (WHERE smoker)",
    "CAST(COUNT(*) AS DOUBLE) / (COUNT(*) - 2 * COUNT(age))",
    "1000 / COUNT(*)",
    "AVG(age) / AVG(income)",
]
TAILS = ["", "WHERE income < 10 OR sex <> 'm'", "WHERE age > 0 AND (smoker OR income >= 10)"]


def query_of(items: list[str], tail: str, group: str) -> str:
    values = ", ".join(f"{item} AS v{place}" for place, item in enumerate(items))
    return f"SELECT {values} FROM t {tail}" + (f" GROUP BY {group}" if group else "")


def kinds(items: list[str], known: str) -> list[str]:
    """The kind of error of every item: incomes are known up to their bins."""
    return ["binned" if "SUM(income)" in item or "AVG(income)" in item else known for item in items]


def estimates_of(text: str, table: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(answer_sql(text, SCHEMA, DenseEstimates(DOMAIN, table)))  # (groups, items)


@pytest.mark.parametrize(
    ("tail", "group"), [(TAILS[0], "smoker, age"), *zip(TAILS, ["", "sex", "smoker, age"], strict=True)]
)
def test_errors_of_sums_are_those_of_their_coefficients(tail: str, group: str) -> None:
    """The coefficients are found by asking the query of one cell at a time."""
    text = query_of(LINEAR, tail, group)
    origin = estimates_of(text, np.zeros(DOMAIN.shape))
    units = np.eye(CELLS).reshape(CELLS, *DOMAIN.shape)
    coefficients = np.array([estimates_of(text, unit) - origin for unit in units])
    answers = ask(text)
    expected = origin + np.einsum("c,cgi->gi", random_table(1).ravel(), coefficients)
    np.testing.assert_allclose(np.asarray(answers), expected, rtol=1e-12)
    variances = np.einsum("cgi,cd,dgi->gi", coefficients, random_covariance(2), coefficients)
    found = np.stack([quantity.std_error**2 for quantity in answers.quantities], axis=1)
    np.testing.assert_allclose(found, variances, rtol=1e-9, atol=1e-12)
    assert [quantity.error_kind for quantity in answers.quantities] == kinds(LINEAR, "exact")


@pytest.mark.parametrize(("tail", "group"), [*zip(TAILS[1:], ["", "sex"], strict=True)])
def test_errors_of_ratios_are_those_of_their_slopes(tail: str, group: str) -> None:
    """The slopes are found by moving one cell at a time a little, both ways."""
    text = query_of(RATIOS, tail, group)
    table, step = random_table(1), 1e-3
    units = step * np.eye(CELLS).reshape(CELLS, *DOMAIN.shape)
    slopes = np.array([estimates_of(text, table + unit) - estimates_of(text, table - unit) for unit in units])
    answers = ask(text)
    variances = np.einsum("cgi,cd,dgi->gi", slopes, random_covariance(2), slopes) / (2 * step) ** 2
    found = np.stack([quantity.std_error**2 for quantity in answers.quantities], axis=1)
    np.testing.assert_allclose(found, variances, rtol=1e-4)
    assert [quantity.error_kind for quantity in answers.quantities] == kinds(RATIOS, "approximate")
    assert "delta method" in str(answers)


def test_a_ratio_has_the_variance_of_the_delta_method() -> None:
    above, below = (ask(f"SELECT COUNT(*) FROM t {tail}") for tail in ("WHERE smoker", ""))
    both = ask("SELECT COUNT(*) + COUNT(*) FILTER (WHERE smoker) FROM t")
    variance_a, variance_b = above.std_error[0] ** 2, below.std_error[0] ** 2
    covariance = (both.std_error[0] ** 2 - variance_a - variance_b) / 2
    ratio = above.estimate[0] / below.estimate[0]
    expected = (variance_a - 2 * ratio * covariance + ratio**2 * variance_b) / below.estimate[0] ** 2
    answer = ask("SELECT COUNT(*) FILTER (WHERE smoker) / COUNT(*) FROM t")
    np.testing.assert_allclose(answer.estimate, [ratio])
    np.testing.assert_allclose(answer.std_error**2, [expected])


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("SELECT COUNT(*) FROM t", ()),
        ("SELECT COUNT(*) FROM t WHERE age >= 0 OR age IS NULL", ()),
        ("SELECT COUNT(*) FROM t WHERE age > 0 AND smoker OR age > 0 AND NOT smoker", ("age",)),
        ("SELECT COUNT(sex) FROM t", ()),
        ("SELECT COUNT(*) FILTER (WHERE smoker) + COUNT(*) FILTER (WHERE NOT smoker) FROM t", ()),
        ("SELECT COUNT(*) FROM t WHERE age = 1 AND sex = 'f'", ("age", "sex")),
        ("SELECT smoker, COUNT(*) FROM t WHERE age = 1 GROUP BY smoker", ("smoker", "age")),
        ("SELECT smoker, sex, COUNT(*) FROM t WHERE smoker GROUP BY smoker, sex", ("smoker", "sex")),
        ("SELECT sex, SUM(age) FROM t WHERE FALSE GROUP BY sex", ("sex",)),
        ("SELECT AVG(age) FROM t WHERE smoker IS NOT NULL", ("age",)),
    ],
)
def test_the_smallest_table_is_asked(text: str, table: tuple[str, ...]) -> None:
    estimates = DenseEstimates(DOMAIN, random_table(1))
    answer_sql(text, SCHEMA, estimates)
    assert estimates.asked == [table]


def test_a_release_is_asked_for_what_it_covers_only() -> None:
    estimates = DenseEstimates(DOMAIN, random_table(1), None, (("age", "sex"), ("sex", "income")))
    answers = answer_sql("SELECT sex, AVG(age) a, SUM(income) i FROM t GROUP BY sex", SCHEMA, estimates)
    assert set(estimates.asked) == {("sex", "age"), ("sex", "income")}
    assert answers.names == ("a", "i")


def test_columns_that_differ_by_item_need_not_share_a_table() -> None:
    names = [f"c{k}" for k in range(30)]
    domain = Domain(dict.fromkeys(names, 3))
    schema = Schema.from_domain(domain)

    class Single:
        """Holds one-way tables of a domain that nobody could list."""

        def __init__(self) -> None:
            self.domain = domain
            self.cliques = tuple((name,) for name in names)

        def covers(self, clique: tuple[str, ...]) -> bool:
            return len(clique) <= 1

        def counts(self, clique: tuple[str, ...]) -> np.ndarray[Any, Any]:
            return np.full(domain.sizes(clique), 5.0)

        def covariance(self, clique: tuple[str, ...], first: Any, second: Any, groups: int) -> np.ndarray[Any, Any]:
            return (first * second).sum(axis=tuple(range(groups, len(clique))))

        laplace = False

        def alike(self, name: str) -> bool:
            return False

        def error_law(self, clique: tuple[str, ...], coefficients: Any, blocks: Any = None) -> None:
            return None

    totals = ", ".join(f"SUM({name})" for name in names)
    answers = answer_sql(f"SELECT {totals} FROM t", schema, Single())
    assert np.asarray(answers).tolist() == [[15.0] * 30]
    assert answers["sum_c7"].std_error.tolist() == [5**0.5]


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("age = 1", [1]),
        ("NOT age = 1", [0, 2]),
        ("age <> 1", [0, 2]),
        ("age IN (1, NULL)", [1]),
        ("age NOT IN (1, 2)", [0]),
        ("age NOT IN (1, NULL)", []),
        ("age = NULL", []),
        ("NOT (age = NULL)", []),
        ("age IS NULL", [3]),
        ("age = 1 OR age IS NULL", [1, 3]),
        ("NOT (age = 1 AND smoker IS NULL)", [0, 1, 2, 3]),
        ("(age = 1) IS NULL", [3]),
        ("(age = 1) IS NOT TRUE", [0, 2, 3]),
        ("(age = 1) IS UNKNOWN", [3]),
        ("age IS DISTINCT FROM 1", [0, 2, 3]),
        ("age IS NOT DISTINCT FROM NULL", [3]),
        ("age > 0 OR TRUE", [0, 1, 2, 3]),
        ("age > 0 AND NULL", []),
        ("age BETWEEN 1 AND NULL", []),
        ("age NOT BETWEEN 1 AND NULL", [0]),
        ("age IS NOT NULL AND NULL IS NULL", [0, 1, 2]),
    ],
)
def test_missing_is_null_in_three_valued_logic(condition: str, kept: list[int]) -> None:
    answers = ask(f"SELECT age, COUNT(*) FROM t WHERE {condition} GROUP BY age")
    assert answers.codes["age"].tolist() == kept
    np.testing.assert_array_equal(answers.estimate, random_table(1).sum(axis=(1, 2, 3))[kept])


def test_averages_leave_missing_out_and_counts_of_a_column_too() -> None:
    by_age = random_table(1).sum(axis=(1, 2, 3))
    answers = ask("SELECT COUNT(age) c, AVG(age) m, COUNT(*) n FROM t")
    assert answers["c"].estimate[0] == by_age[:3].sum()
    assert answers["n"].estimate[0] == by_age.sum()
    assert answers["m"].estimate[0] == pytest.approx((by_age[:3] * [0, 1, 2]).sum() / by_age[:3].sum())


def test_every_combination_of_groups_is_answered_even_at_zero() -> None:
    answers = answer_sql(
        "SELECT sex, age, COUNT(*) FROM t GROUP BY 1, 2", SCHEMA, DenseEstimates(DOMAIN, 0 * random_table(1))
    )
    assert len(answers) == 12
    assert answers.estimate.tolist() == [0.0] * 12
    assert answers.labels["sex"][::4] == ["f", "m", "other"]
    assert answers.labels["age"][:4] == [0, 1, 2, None]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT COUNT(*) FROM t GROUP BY sex", ["sex", "estimate", "std_error", "lower", "upper", "basis"]),
        ("SELECT COUNT(*) n, sex s FROM t GROUP BY s", ["s", "n", "n_std_error", "n_lower", "n_upper", "n_basis"]),
        (
            "SELECT T.SEX, COUNT(*) FROM t AS T GROUP BY t.sex",
            ["sex", "estimate", "std_error", "lower", "upper", "basis"],
        ),
        (
            'SELECT "Sex" AS "s x", COUNT(*) FROM db.x.t GROUP BY 1;',
            ["s x", "estimate", "std_error", "lower", "upper", "basis"],
        ),
        ("FROM t SELECT COUNT(*)", ["estimate", "std_error", "lower", "upper", "basis"]),
    ],
)
def test_names_of_columns(text: str, columns: list[str]) -> None:
    assert ask(text).to_arrow().column_names == columns


def test_values_without_alias_are_named_after_their_aggregate() -> None:
    items = "COUNT(*), COUNT(age), SUM(age), AVG(income), COUNT(*) FILTER (WHERE smoker), 2 * COUNT(*), -COUNT(*)"
    assert ask(f"SELECT {items} FROM t").names == (
        "count",
        "count_age",
        "sum_age",
        "avg_income",
        "count_2",
        "value",
        "value_2",
    )


def test_odd_names_and_values_are_reached_by_quoting() -> None:
    schema = Schema([Categorical(name='say "hi", a.b', values=("it's", "100 %", "é"))])
    estimates = DenseEstimates(schema.domain, np.array([1.0, 2.0, 4.0]))
    text = """SELECT "say ""hi"", a.b", COUNT(*) FROM t WHERE "SAY ""HI"", A.B" IN ('it''s', 'é') GROUP BY 1"""
    answers = answer_sql(text, schema, estimates)
    assert answers.labels == {'say "hi", a.b': ["it's", "é"]}
    assert answers.estimate.tolist() == [1.0, 4.0]


def test_declared_values_of_any_type_match_their_text() -> None:
    schema = Schema([Categorical(name="c", values=(3, 0.5, True, dt.date(2020, 1, 31), "x"))])
    estimates = DenseEstimates(schema.domain, 2.0 ** np.arange(5))
    for literal, count in (
        ("3", 1),
        ("3.0", 1),
        ("'3'", 1),
        ("0.5", 2),
        ("TRUE", 4),
        ("DATE '2020-01-31'", 8),
        ("'x'", 16),
    ):
        assert answer_sql(f"SELECT COUNT(*) FROM t WHERE c = {literal}", schema, estimates).estimate[0] == count


def test_booleans_compare_with_their_spellings() -> None:
    smokers = random_table(1).sum(axis=(0, 1, 3))
    for condition in ("smoker", "smoker = TRUE", "smoker = 1", "smoker = 'true'", "NOT smoker = FALSE", "0 <> smoker"):
        assert ask(f"SELECT COUNT(*) FROM t WHERE {condition}").estimate[0] == smokers[1]


ORDERS = [
    ("ORDER BY sex", ["f", "m", "other"]),
    ("ORDER BY sex DESC", ["other", "m", "f"]),
    ("ORDER BY 2", ["m", "other", "f"]),
    ("ORDER BY n DESC", ["f", "other", "m"]),
    ("ORDER BY COUNT(*) DESC LIMIT 1", ["f"]),
    ("ORDER BY t.sex LIMIT 2 OFFSET 1", ["m", "other"]),
    ("ORDER BY sex OFFSET 2", ["other"]),
    ("LIMIT 2", ["f", "m"]),
    ("LIMIT 0", []),
    ("FETCH FIRST 1 ROWS ONLY", ["f"]),
    ("LIMIT 99 OFFSET 99", []),
]


@pytest.mark.parametrize(("tail", "labels"), ORDERS)
def test_rows_come_in_the_order_asked_for(tail: str, labels: list[str]) -> None:
    table = np.zeros(DOMAIN.shape)
    table[0, :, 0, 0] = [9, 2, 5]
    answers = answer_sql(f"SELECT sex, COUNT(*) AS n FROM t GROUP BY sex {tail}", SCHEMA, DenseEstimates(DOMAIN, table))
    assert answers.labels["sex"] == labels


def test_rows_chosen_by_their_estimates_say_so() -> None:
    text = "SELECT sex, COUNT(*) n FROM t GROUP BY sex ORDER BY "
    assert any("rows were chosen by their estimates" in note for note in ask(f"{text} n DESC LIMIT 1").notes)
    assert ask(f"{text} n DESC").notes == ask(f"{text} sex LIMIT 1").notes == ask(f"{text} n LIMIT 9").notes == ()


def test_texts_are_ordered_as_texts_and_numbers_as_numbers() -> None:
    schema = Schema(
        [Categorical(name="a", values=(10, 9, 2)), Categorical(name="b", values=("10", "9", "2"), missing=True)]
    )
    estimates = DenseEstimates(schema.domain, np.ones(schema.domain.shape))
    assert answer_sql("SELECT a, COUNT(*) FROM t GROUP BY a ORDER BY a", schema, estimates).labels["a"] == [2, 9, 10]
    text = "SELECT b, COUNT(*) FROM t GROUP BY b ORDER BY b NULLS FIRST"
    assert answer_sql(text, schema, estimates).labels["b"] == [None, "10", "2", "9"]


def test_rows_without_an_answer_come_last() -> None:
    table = np.zeros(DOMAIN.shape)
    table[1, 0], table[2, 2] = 1, 1
    text = "SELECT sex, AVG(age) a FROM t GROUP BY sex ORDER BY a DESC"
    answers = answer_sql(text, SCHEMA, DenseEstimates(DOMAIN, table))
    assert answers.labels["sex"] == ["other", "f", "m"]
    assert np.isnan(answers.estimate).tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("count", "clear"), [(100.0, True), (21.0, True), (19.0, False), (0.0, False), (-100.0, False)]
)
def test_a_denominator_near_zero_gives_an_interval_alone(count: float, clear: bool) -> None:
    """The denominator has a standard error of 10 here, so that it must be at least 20."""
    schema = Schema([Boolean(name="x")])
    estimates = DenseEstimates(schema.domain, np.array([count - 5.0, 5.0]), np.diag([50.0, 50.0]))
    answers = answer_sql("SELECT AVG(x) a, COUNT(*) n FROM t", schema, estimates)
    assert np.isfinite(answers["a"].std_error).tolist() == [clear]
    assert np.isfinite(np.asarray(answers["a"])).tolist() == [count > 0]
    assert 0 <= answers["a"].lower[0] <= answers["a"].upper[0] <= 1
    assert (answers["a"].upper[0] == 1) == (count == 0)
    assert answers["a"].basis.tolist() == ["approximate"]
    assert answers["n"].basis.tolist() == ["exact"]
    said = any(note.startswith("a: The group has too few rows") for note in answers.notes)
    assert said == (not clear)


def test_rows_with_unclear_denominators_are_counted_in_a_note() -> None:
    schema = Schema([Boolean(name="x"), Integer(name="g", low=0, high=2)])
    estimates = DenseEstimates(schema.domain, np.array([[0.0, 50, 1], [1, 50, 0]]), np.eye(6))
    answers = answer_sql("SELECT g, AVG(x) a FROM t GROUP BY g", schema, estimates)
    assert np.isfinite(answers.std_error).tolist() == [False, True, False]
    assert [answers.lower[0], answers.upper[0]] == [answers.lower[2], answers.upper[2]] == [0, 1]
    assert any(note.startswith("a: 2 of 3 groups have too few rows") for note in answers.notes)


BINNED = Schema([Numeric(name="x", edges=(0.0, 10.0, 30.0, 100.0)), Boolean(name="g")])


@pytest.mark.parametrize(
    ("item", "low", "high"),
    [
        ("SUM(x)", 0, 1),
        ("-SUM(x)", 1, 0),
        ("SUM(-2 * x + 3)", 1, 0),
        ("SUM(x * x)", 0, 1),
        ("SUM(x / -4)", 1, 0),
        ("SUM(CASE WHEN g THEN x ELSE 1 END)", 0, 1),
        ("SUM(x) FILTER (WHERE NOT g) - 2 * COUNT(*)", 0, 1),
        ("AVG(x)", 0, 1),
        ("3 - 2 * AVG(x)", 1, 0),
        ("SUM(CASE WHEN g THEN 1 ELSE 0 END) / SUM(x)", 1, 0),
    ],
)
def test_intervals_reach_to_the_ends_of_the_bins(item: str, low: int, high: int) -> None:
    """Without noise the interval is what the query gives if every value is at one end of its bin."""
    counts = np.array([[3.0, 4.0], [2.0, 1.0], [5.0, 2.0]])
    answers = answer_sql(f"SELECT {item} FROM t", BINNED, DenseEstimates(BINNED.domain, counts))
    assert answers.basis.tolist() == ["binned"]
    edges, rows = np.array([[0.0, 10.0], [10.0, 30.0], [30.0, 100.0]]), counts.astype(int)
    ends = []
    for end in (0, 1):
        values = [(edges[b, end], bool(g)) for b in range(3) for g in range(2) for _ in range(rows[b, g])]
        with duckdb.connect() as connection:
            connection.execute("CREATE TABLE t (x DOUBLE, g BOOLEAN)")
            connection.executemany("INSERT INTO t VALUES (?, ?)", values)
            ends.append(float(connection.execute(f"SELECT {item} FROM t").fetchone()[0]))  # type: ignore[index]
    assert answers.lower[0] == pytest.approx(ends[low])
    assert answers.upper[0] == pytest.approx(ends[high])


def test_no_interval_where_the_ends_of_a_quotient_are_not_known() -> None:
    counts = np.array([[3.0, 4.0], [2.0, 1.0], [5.0, 2.0]])
    estimates = DenseEstimates(BINNED.domain, counts)
    answers = answer_sql("SELECT SUM(50 - x) / SUM(x) AS r, COUNT(*) AS n FROM t", BINNED, estimates)
    assert np.isnan(answers["r"].lower).all()
    assert np.isfinite(answers["r"].estimate).all()
    assert answers["n"].basis.tolist() == ["exact"]


def test_means_keep_to_the_bounds_of_their_column() -> None:
    wild = DenseEstimates(BINNED.domain, np.array([[-40.0, 0.0], [0.0, 0.0], [60.0, 0.0]]), np.eye(6))
    answers = answer_sql("SELECT AVG(x) FROM t", BINNED, wild)
    assert 0 <= answers.lower[0] <= answers.estimate[0] <= answers.upper[0] <= 100
    table = answers.to_dict()["rows"][0]
    assert table["basis"] == "binned"


def test_a_denominator_that_may_be_negative_is_judged_by_its_size() -> None:
    schema = Schema([Boolean(name="x")])
    estimates = DenseEstimates(schema.domain, np.array([80.0, 10.0]), np.eye(2))
    text = "SELECT COUNT(*) / (COUNT(*) FILTER (WHERE x) - COUNT(*) FILTER (WHERE NOT x)) FROM t"
    assert answer_sql(text, schema, estimates).estimate[0] == pytest.approx(90 / -70)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "SELECT SUM(income) FROM t",
            "income: only the bins were counted, so every value counts as the middle of its bin, such as 5 in [0, 10)",
        ),
        (
            "SELECT AVG(income) FROM t",
            "income: values beyond its bounds were clamped, so the levels [0, 10) and [10, 30]",
        ),
        ("SELECT income, COUNT(*) FROM t GROUP BY 1", "income: values beyond its bounds were clamped"),
        ("SELECT COUNT(*) FROM t WHERE income <= 30", "income: values beyond its bounds were clamped"),
        ("SELECT COUNT(*) FROM t WHERE income < 0", "income: values beyond its bounds were clamped"),
        ("SELECT COUNT(*) FROM t WHERE age > 7", "age > 7 is true for all declared levels of age, or for none."),
        ("SELECT COUNT(*) FROM t WHERE age = 7", "age = 7 is true for all declared levels of age, or for none."),
        (
            "SELECT COUNT(*) FROM t WHERE age > 7",
            "The condition of WHERE is true for no level that the schema declares.",
        ),
        ("SELECT COUNT(*) FROM t WHERE age <> NULL", "age <> NULL is never true; write IS NULL or IS NOT NULL"),
        (
            "SELECT AVG(age) a FROM t",
            "a: a ratio; its standard error is by the delta method, its interval by Fieller's method.",
        ),
    ],
)
def test_notes_say_what_a_number_means(text: str, sentence: str) -> None:
    assert any(note.startswith(sentence) for note in ask(text).notes)


@pytest.mark.parametrize(
    "text",
    ["SELECT COUNT(*) FROM t WHERE income >= 10", "SELECT COUNT(*) FROM t WHERE age < 2", "SELECT SUM(age) FROM t"],
)
def test_plain_queries_have_no_notes(text: str) -> None:
    assert ask(text).notes == ()


def test_an_edge_may_be_written_as_it_is_shown() -> None:
    schema = Schema([Numeric.equal_width(name="x", low=0, high=1, bins=3)])
    estimates = DenseEstimates(schema.domain, np.array([1.0, 2.0, 4.0]))
    answers = answer_sql("SELECT COUNT(*) FROM t WHERE x >= 0.333333 AND x < 0.666667", schema, estimates)
    assert answers.estimate.tolist() == [2.0]
    assert answers.notes[0] == "x: 0.333333 is read as the bin edge 0.3333333333333333."


def test_levels_and_bases_reach_the_answers() -> None:
    answers = ask("SELECT COUNT(*) n, AVG(age) a FROM t", level=0.5, error_kind="bound")
    assert answers.level == 0.5
    assert answers["n"].basis.tolist() == ["bound"]
    assert answers["a"].basis.tolist() == ["approximate"]


def test_the_schema_must_be_that_of_the_estimates() -> None:
    with pytest.raises(DomainError, match="different domains"):
        answer_sql(
            "SELECT COUNT(*) FROM t", Schema.from_domain(Domain({"x": 2})), DenseEstimates(DOMAIN, random_table(1))
        )


@pytest.mark.parametrize(
    "null", ["NULL", "(NULL)", "CAST(NULL AS INTEGER)", "CAST((NULL) AS INTEGER)", "CAST(NULL AS DOUBLE)"]
)
def test_nothing_adds_up_to_nothing(null: str) -> None:
    answers = ask(f"SELECT SUM({null}) FROM t")
    assert (float(answers.estimate[0]), float(answers.std_error[0])) == (0.0, 0.0)


POINTS = Schema(
    [
        Numeric(name="gain", edges=(0.0, 10.0, 30.0), points=(0.0,)),
        Integer(name="hours", low=0, high=9, starts=(0, 5), points=(7,)),
    ]
)


@pytest.mark.parametrize(
    ("item", "estimate", "lower", "upper"),
    [
        ("COUNT(*) FILTER (WHERE gain = 0)", 6, 6, 6),
        ("COUNT(*) FILTER (WHERE gain > 0)", 6, 6, 6),
        ("COUNT(*) FILTER (WHERE gain <> 0)", 6, 6, 6),
        ("SUM(gain) FILTER (WHERE gain = 0)", 0, 0, 0),
        ("SUM(gain)", 3 * 5 + 3 * 20, 3 * 10, 3 * 10 + 3 * 30),
        ("SUM(hours)", 3 * (2 + 5.5 + 7 + 8.5), 3 * (0 + 5 + 7 + 8), 3 * (4 + 6 + 7 + 9)),
        ("SUM(hours) FILTER (WHERE hours = 7)", 21, 21, 21),
        ("COUNT(*) FILTER (WHERE hours BETWEEN 5 AND 7)", 6, 6, 6),
    ],
)
def test_points_are_exact_and_bins_beside_them_are_not(item: str, estimate: float, lower: float, upper: float) -> None:
    """Six rows at gain = 0, three in each bin; three rows in each level of hours: 0 to 4, 5 to 6, 7, 8 to 9."""
    counts = np.array([[1.5] * 4, [0.75] * 4, [0.75] * 4])
    answers = answer_sql(f"SELECT {item} FROM t", POINTS, DenseEstimates(POINTS.domain, counts))
    assert (answers.estimate[0], answers.lower[0], answers.upper[0]) == pytest.approx((estimate, lower, upper))


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("gain > 3", r"gain > 3 cuts through the bin \(0, 10\); write gain > 0 or gain >= 10"),
        ("gain <= 3", r"gain <= 3 cuts through the bin \(0, 10\); write gain <= 0 or gain < 10"),
        ("gain = 3", r"asks for one value inside the bin \(0, 10\); write gain > 0 AND gain < 10"),
        ("gain = 10", r"asks for one value inside the bin \[10, 30\]; write gain >= 10 AND gain <= 30"),
        ("hours >= 6", "hours >= 6 cuts through the bin 5 to 6; write hours >= 5 or hours >= 7"),
        ("hours <= 8", "hours <= 8 cuts through the bin 8 to 9; write hours <= 7 or hours <= 9"),
        ("hours = 3", "hours = 3 asks for one value inside the bin 0 to 4; write hours BETWEEN 0 AND 4"),
    ],
)
def test_comparisons_that_cut_a_bin_name_the_nearest_ones(condition: str, words: str) -> None:
    estimates = DenseEstimates(POINTS.domain, np.ones((3, 4)))
    with pytest.raises(QueryError, match=words):
        answer_sql(f"SELECT COUNT(*) FROM t WHERE {condition}", POINTS, estimates)


def test_bins_of_integers_are_grouped_by_their_labels() -> None:
    answers = answer_sql(
        "SELECT hours, COUNT(*) FROM t GROUP BY hours", POINTS, DenseEstimates(POINTS.domain, np.ones((3, 4)))
    )
    assert answers.to_arrow()["hours"].to_pylist() == ["0 to 4", "5 to 6", "7", "8 to 9"]


@pytest.mark.parametrize("value", ["COUNT(*)", "SUM(income)", "AVG(age)"])
def test_a_group_of_an_expression_is_the_same_query_with_a_condition(value: str) -> None:
    case = "CASE WHEN age >= 1 AND NOT smoker THEN 'b' WHEN sex = 'm' THEN 'a' END"
    answers = ask(f"SELECT {case} AS g, sex, {value} AS v FROM t GROUP BY g, sex ORDER BY g DESC, sex")
    conditions = {
        "b": "age >= 1 AND NOT smoker",
        "a": "sex = 'm' AND (age >= 1 AND NOT smoker) IS NOT TRUE",
        None: "sex <> 'm' AND (age >= 1 AND NOT smoker) IS NOT TRUE",
    }
    assert list(dict.fromkeys(answers.labels["g"])) == list(conditions)
    for label, condition in conditions.items():
        alone = ask(f"SELECT sex, {value} AS v FROM t WHERE {condition} GROUP BY sex ORDER BY sex")
        rows = np.flatnonzero([each == label for each in answers.labels["g"]])
        assert answers.take(rows).labels["sex"] == alone.labels["sex"]
        for part in ("estimate", "std_error", "lower", "upper"):
            np.testing.assert_allclose(getattr(answers.take(rows), part), getattr(alone, part), rtol=1e-12)
        assert set(answers.basis) == set(alone.basis)
    assert answers.at_level(0.5).lower[3] > answers.lower[3]
