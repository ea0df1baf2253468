"""Names in quotes of any kind, and names that lack them."""

from __future__ import annotations

import pytest
from sqlglot import exp

from hush.core.errors import QueryError
from hush.sql.parsing import parse
from hush.sql.quoting import quotes_advised, unquoted

NAMES = ["age", "hours-per-week", "Marital Status", "income>50K", "a", "b", "a-b", "2nd", "état civil"]


@pytest.mark.parametrize("name", ['"Marital Status"', "`Marital Status`", "[Marital Status]", "t.[Marital Status]"])
def test_any_quotes_hold_a_name(name: str) -> None:
    query = parse(f"SELECT {name}, COUNT(*) FROM [my table] AS t WHERE {name} = '[x]' GROUP BY {name}")
    assert [query.items[0].name, query.groups[0].name, query.tables] == ["Marital Status"] * 2 + [("my table", "t")]
    assert query.where is not None
    assert query.where.expression.this == "[x]"


@pytest.mark.parametrize("text", ["a[1] = 2", "f(a)[1] = 2", "a IN ['x', 'y']"])
def test_brackets_of_indices_and_lists_are_no_names(text: str) -> None:
    where = parse(f"SELECT COUNT(*) FROM t WHERE {text}").where
    assert where is not None
    assert [column.name for column in where.find_all(exp.Column)] == ["a"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SELECT SUM(hours-per-week) FROM t", "hours-per-week"),
        ("SELECT SUM(Hours - Per - WEEK) FROM t", "hours-per-week"),
        ("SELECT marital  status, COUNT(*) FROM t", "Marital Status"),
        ("SELECT COUNT(*) FROM t WHERE income>50K = 'yes'", "income>50K"),
        ("SELECT COUNT(*) FROM t WHERE 2nd", "2nd"),
        ("SELECT COUNT(*) FROM t WHERE état civil = 1", "état civil"),
        ("SELECT SUM(a-b) FROM t", None),
        ("SELECT COUNT(*) FROM t WHERE age = 'hours-per-week'", None),
        ('SELECT SUM("hours-per-week") FROM t', None),
        ("SELECT SUM(`hours-per-week`) FROM t", None),
        ("SELECT SUM(xhours-per-weeks) FROM t", None),
        ("SELECT 'open", None),
    ],
)
def test_names_without_their_quotes_are_found(text: str, name: str | None) -> None:
    assert unquoted(text, NAMES) == name


def test_the_advice_shows_the_quoting() -> None:
    said = "^column 'a-b' needs quotes in SQL, .*; write \"a-b\"$"
    with pytest.raises(QueryError, match=said), quotes_advised("SELECT a-b FROM t", ["a-b"]):
        raise QueryError("column 'a' is not in the schema")
    with pytest.raises(QueryError, match='^write "a-b"$'), quotes_advised("SELECT a-b FROM t", ["a-b"]):
        raise QueryError('write "a-b"')
    with pytest.raises(QueryError, match="^something else$"), quotes_advised('SELECT "a-b" FROM t', ["a-b"]):
        raise QueryError("something else")


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("SELECT limit, COUNT(*) FROM t GROUP BY limit", '"limit"'),
        ("SELECT COUNT(*) FROM t WHERE case = 1", '"Case"'),
        ("SELECT limit, when, COUNT(*) FROM t GROUP BY limit, when", '"limit", "when"'),
    ],
)
def test_columns_named_like_words_of_sql_are_shown_in_quotes(text: str, listed: str) -> None:
    with (
        pytest.raises(QueryError, match=f"not valid SQL.*; columns named like a keyword of SQL need quotes: {listed}$"),
        quotes_advised(text, ["age", "limit", "when", "Case", "group"]),
    ):
        parse(text)


@pytest.mark.parametrize(
    "text", ["SELECT COUNT(*) FORM t", "SELECT COUNT(*) FROM t WHERE 'limit", "SELECT COUNT(*) FROM t WHERE 'limit' ="]
)
def test_words_that_are_not_in_the_query_are_not_advised(text: str) -> None:
    with pytest.raises(QueryError, match="not valid SQL") as refused, quotes_advised(text, ["limit", "group"]):
        parse(text)
    assert "need quotes" not in str(refused.value)


def test_a_query_refused_for_its_meaning_keeps_its_message() -> None:
    text = "SELECT sex, COUNT(*) FROM t GROUP BY sex QUALIFY COUNT(*) > 5 LIMIT 3"
    with (
        pytest.raises(QueryError, match="^QUALIFY is not supported") as refused,
        quotes_advised(text, ["sex", "limit"]),
    ):
        parse(text)
    assert "quotes" not in str(refused.value)


def test_messages_name_no_class_of_the_parser() -> None:
    for text in ("SELECT from, COUNT(*) FROM t", "SELECT COUNT(*) FROM t WHERE and = 1"):
        with pytest.raises(QueryError, match="not valid SQL: it cannot be parsed") as refused:
            parse(text)
        assert "<" not in str(refused.value)
