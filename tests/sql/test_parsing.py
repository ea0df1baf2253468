import pytest

from hush.core.errors import QueryError
from hush.datasets import people_schema
from hush.sql.constants import number
from hush.sql.parsing import parse, read_output, statements
from hush.sql.scope import Scope


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ; ;", []),
        ("-- nothing\n", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;\nSELECT 2 ;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';' AS \"a;b\" /* ; */ FROM t; SELECT 'é'", ["SELECT ';' AS \"a;b\" /* ; */ FROM t", "SELECT 'é'"]),
    ],
)
def test_semicolons_divide_statements_except_in_quotes_and_comments(text: str, expected: list[str]) -> None:
    assert statements(text) == expected


@pytest.mark.parametrize("text", ["SELECT 'open", 'SELECT "open', "SELECT /* open"])
def test_open_quotes_are_refused(text: str) -> None:
    with pytest.raises(QueryError, match="every quote and comment is closed"):
        statements(text)


def test_only_text_is_read() -> None:
    for read in (statements, parse):
        with pytest.raises(QueryError, match="query of type int: expected a text"):
            read(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SELECT COUNT(*) FROM t WHERE income>50K = 'yes'", "income>50K"),
        ("SELECT income>50K, COUNT(*) FROM t GROUP BY income>50K", "income>50K"),
        ("SELECT COUNT(*) FROM t WHERE (sex = 1) AND native.2country = 1", "native.2country"),
        ("SELECT COUNT(*) FROM t WHERE age >= 40 sex = 1", None),
        ("SELECT COUNT(* FROM t", None),
    ],
)
def test_names_that_need_quotes_are_shown_with_them(text: str, name: str | None) -> None:
    with pytest.raises(QueryError, match="not valid SQL") as refused:
        parse(text)
    assert str(refused.value).endswith(f'in double quotes, as in "{name}"') == (name is not None)
    assert ("double quotes" in str(refused.value)) == (name is not None)


WHERE = "SELECT COUNT(*) FROM t WHERE "


@pytest.mark.parametrize(
    "text",
    [
        WHERE + "(" * 51 + "a = 1" + ")" * 51,
        WHERE + "NOT " * 51 + "a = 1",
        WHERE + "a = " + "- " * 51 + "1",
        WHERE + "a" + "::int" * 51 + " = 1",
        WHERE + "a" + "[1]" * 51 + " = 1",
        WHERE + "CASE WHEN a = 1 THEN " * 51 + "1" + " END" * 51 + " = 1",
    ],
)
def test_deep_nesting_is_refused_before_parsing(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    def parser(*_: object, **__: object) -> None:
        raise AssertionError("the parser was asked")

    monkeypatch.setattr("sqlglot.parse", parser)
    with pytest.raises(QueryError, match="nested too deeply; write it with fewer parentheses"):
        parse(text)


def test_conditions_side_by_side_are_not_nested() -> None:
    assert parse(WHERE + " AND ".join(["(a = -1 OR NOT (b = 2))"] * 200)).where is not None
    cases = ", ".join(f"COUNT(CASE WHEN a = {k} THEN 1 END) AS c{k}" for k in range(200))
    assert len(parse(f"SELECT {cases} FROM t").items) == 200


def test_long_queries_are_refused() -> None:
    with pytest.raises(QueryError, match=r"the query has 300,0\d\d characters: at most 262,144 are possible; ask for"):
        parse(WHERE + "a = '" + "x" * 300_000 + "'")
    with pytest.raises(QueryError, match=r"the query has 40,0\d\d words and marks: at most 20,000 are possible; write"):
        parse(WHERE + f"a IN ({','.join(['1'] * 20_000)})")
    with pytest.raises(QueryError, match="at most 1,048,576 are possible"):
        statements(";" * (2**20 + 1))
    assert len(statements("SELECT 1;" * 3000)) == 3000


def test_numbers_of_rows_may_have_any_number_of_digits() -> None:
    assert parse(f"SELECT COUNT(*) FROM t LIMIT {'9' * 5000}").limit == 10**15
    assert parse("SELECT COUNT(*) FROM t LIMIT 7 OFFSET 3").limit == 7


def test_values_without_names_are_numbered() -> None:
    schema = people_schema()
    query = parse("SELECT COUNT(*), AVG(age), COUNT(*), COUNT(*) AS count_3, AVG(age), COUNT(*) FROM t")
    output = read_output(query, Scope(schema, query.tables))
    assert [item.name for item in output.values] == ["count", "avg_age", "count_2", "count_3", "avg_age_2", "count_4"]


def test_positions_beyond_any_list_are_refused() -> None:
    schema = people_schema()
    query = parse(f"SELECT sex, COUNT(*) FROM t GROUP BY {'9' * 5000}")
    with pytest.raises(QueryError, match="GROUP BY 1000000000000000: SELECT has 2 items"):
        read_output(query, Scope(schema, query.tables))


def test_numbers_beyond_floats_are_refused() -> None:
    for text in ("9" * 400, "-" + "9" * 400, "1e400", "9" * 5000):
        with pytest.raises(QueryError, match="is not a (finite )?number"):
            number(text)
    assert number("9" * 300) == int("9" * 300)
