import pytest

from hush.errors import QueryError
from hush.sql.query import parse, statements


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
