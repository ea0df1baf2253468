import pytest

from hush.errors import QueryError
from hush.sql.parsing import parse, statements


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
        with pytest.raises(QueryError, match="a query is text, found int"):
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
