"""Names in quotes of any kind, and names that lack them."""

from __future__ import annotations

import pytest
from sqlglot import exp

from hush.errors import QueryError
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
