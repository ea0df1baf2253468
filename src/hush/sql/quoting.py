"""Quoting: names in double quotes, backticks or square brackets, and advice on names that lack quotes.

Without quotes hours-per-week is a difference of three columns, and limit is a keyword of SQL. If a query is refused,
hush looks for such names in it and shows how to write them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from hush.core.errors import QueryError, printable

INDEXED_TOKENS = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.R_BRACKET}  # before an index
PLAIN_NAME = re.compile(r"[^\W\d]\w*")
LONGEST_NAME, MOST_NAMES = 200, 2000  # names that are searched for in a query
NO_KEYWORDS = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER}
NOT_SQL = "the query is not valid SQL"  # begins the message about a text that cannot be parsed


class QueryDialect(DuckDB):
    """DuckDB's SQL, where backticks quote names as double quotes do."""

    class Tokenizer(DuckDB.Tokenizer):
        """The tokens of DuckDB, and backticks."""

        IDENTIFIERS: ClassVar = ['"', "`"]


def tokens_of(text: str) -> list[sqlglot.Token]:
    """The tokens of a query; SqlglotError if a quote or a comment is not closed."""
    return sqlglot.tokenize(text, read=QueryDialect)


def bracketed(text: str, tokens: list[sqlglot.Token]) -> str:
    """The text with names in square brackets put in double quotes; its length does not change.

    A bracket after a name or a parenthesis is an index, and one with a quote in it is a list: both are left alone.

    >>> text = "SELECT COUNT(*) FROM t WHERE [hours per week] > 40"
    >>> bracketed(text, tokens_of(text))
    'SELECT COUNT(*) FROM t WHERE "hours per week" > 40'
    """
    pieces, done = [], 0
    before: sqlglot.Token | None = None
    for token in tokens:
        if token.start < done:
            continue
        if token.token_type is TokenType.L_BRACKET and (before is None or before.token_type not in INDEXED_TOKENS):
            end = text.find("]", token.end)
            name = text[token.end + 1 : end] if end > 0 else ""
            if name.strip() and not set(name) & set("'\"[;"):
                pieces += [text[done : token.start], f'"{name}"']
                done = end + 1
        before = token
    return "".join([*pieces, text[done:]])


def quoted(name: str) -> str:
    """A name in double quotes.

    >>> quoted("hours-per-week")
    '"hours-per-week"'
    """
    return exp.to_identifier(name, quoted=True).sql(dialect="duckdb")


@contextmanager
def quotes_advised(text: str, names: Iterable[str]) -> Iterator[None]:
    """If a query is refused and lacks the quotes around one of the names, raise that advice instead."""
    try:
        yield
    except QueryError as error:
        known = list(names)
        name = unquoted(text, known)
        words = words_of_sql(text, known) if name is None and str(error).startswith(NOT_SQL) else []
        if words:
            listed = ", ".join(printable(quoted(word)) for word in words)
            raise QueryError(f"{error}; columns named like a keyword of SQL need quotes: {listed}") from None
        if name is None or quoted(name) in str(error):
            raise
        raise QueryError(
            f"column {name!r} needs quotes in SQL, because its name is more than one plain word; "
            f"write {printable(quoted(name))}"
        ) from None


def unquoted(text: str, names: Iterable[str]) -> str | None:
    """The longest name that needs quotes and is in the query without them; None if there is none.

    A name made up of other names is left out, because it may be arithmetic.

    >>> unquoted("SELECT SUM(hours-per-week) FROM t", ["hours-per-week", "age"])
    'hours-per-week'
    """
    known = list(names)[:MOST_NAMES] if isinstance(text, str) else []
    candidates = [
        name for name in known if len(name) <= LONGEST_NAME and not PLAIN_NAME.fullmatch(name) and name.strip()
    ]
    if not candidates:
        return None
    try:
        tokens = tokens_of(text)
    except SqlglotError:
        return None
    characters = list(text)  # with blanks in place of all that is quoted
    for token in tokens:
        if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            characters[token.start : token.end + 1] = " " * (token.end + 1 - token.start)
    plain = "".join(characters)
    columns = {name.casefold() for name in known}
    present = []
    for name in candidates:
        # The name with any blanks around its marks, and not as a part of a longer word.
        parts = [r"\s*".join(map(re.escape, re.findall(r"\w+|[^\w\s]", part))) for part in name.split()]
        words = {word.casefold() for word in PLAIN_NAME.findall(name)}
        pattern = r"(?<!\w)" + r"\s+".join(parts) + r"(?!\w)"
        if not words <= columns - {name.casefold()} and re.search(pattern, plain, re.IGNORECASE):
            present.append(name)
    return max(present, key=len, default=None)


def words_of_sql(text: str, names: Iterable[str]) -> list[str]:
    """The names that are in the query without quotes, where SQL reads them as keywords.

    >>> words_of_sql("SELECT limit, COUNT(*) FROM t GROUP BY limit", ["limit", "group", "age"])
    ['limit']
    """
    try:
        used = {token.text.casefold() for token in tokens_of(text) if token.token_type not in NO_KEYWORDS}
    except SqlglotError:
        return []
    return [name for name in list(names)[:MOST_NAMES] if name.casefold() in used]
