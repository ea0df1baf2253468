"""Quoting: names in double quotes, backticks or square brackets, and names that lack quotes.

A name such as hours-per-week is a difference of three columns unless it is quoted, and one such as limit is a word of
SQL. So hush finds such names in a query that it cannot answer and shows how to write them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from hush.core.errors import QueryError, printable

_KINDS = sqlglot.TokenType
_INDEXED = {_KINDS.VAR, _KINDS.IDENTIFIER, _KINDS.R_PAREN, _KINDS.R_BRACKET}  # what an index may stand behind
_PLAIN = re.compile(r"[^\W\d]\w*")
_LONGEST_NAME, _MOST_NAMES = 200, 2000
_NO_WORDS = {_KINDS.VAR, _KINDS.IDENTIFIER, _KINDS.STRING, _KINDS.NUMBER}
NOT_SQL = "the query is not valid SQL"  # how the refusal of a text that cannot be parsed begins


class QueryDialect(DuckDB):
    """DuckDB's SQL, where backticks quote names as double quotes do."""

    class Tokenizer(DuckDB.Tokenizer):
        """The tokens of DuckDB, and backticks."""

        IDENTIFIERS: ClassVar = ['"', "`"]


def tokens_of(text: str) -> list[sqlglot.Token]:
    """The tokens of a query; SqlglotError where a quote or a comment is not closed."""
    return sqlglot.tokenize(text, read=QueryDialect)


def bracketed(text: str, tokens: list[sqlglot.Token]) -> str:
    """The text with names in square brackets put in double quotes; its length stays the same.

    Behind a name or a parenthesis a bracket is an index, and one with a quote in it is a list: both are left alone.

    >>> text = "SELECT COUNT(*) FROM t WHERE [hours per week] > 40"
    >>> bracketed(text, tokens_of(text))
    'SELECT COUNT(*) FROM t WHERE "hours per week" > 40'
    """
    pieces, done = [], 0
    before: sqlglot.Token | None = None
    for token in tokens:
        if token.start < done:
            continue
        if token.token_type is _KINDS.L_BRACKET and (before is None or before.token_type not in _INDEXED):
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
    """Where a query is refused, and has one of the names without the quotes it needs, say that instead."""
    try:
        yield
    except QueryError as error:
        known = list(names)
        name = unquoted(text, known)
        words = words_of_sql(text, known) if name is None and str(error).startswith(NOT_SQL) else []
        if words:
            listed = ", ".join(printable(quoted(word)) for word in words)
            raise QueryError(f"{error}; columns named like a word of SQL need quotes: {listed}") from None
        if name is None or quoted(name) in str(error):
            raise
        raise QueryError(
            f"column {name!r} needs quotes in SQL, because its name is more than one plain word; "
            f"write {printable(quoted(name))}"
        ) from None


def unquoted(text: str, names: Iterable[str]) -> str | None:
    """The longest of the names that needs quotes, and stands in the query without them; None if there is none.

    A name made of other names of the list is left out: it may well be arithmetic.

    >>> unquoted("SELECT SUM(hours-per-week) FROM t", ["hours-per-week", "age"])
    'hours-per-week'
    """
    known = list(names)[:_MOST_NAMES] if isinstance(text, str) else []
    candidates = [name for name in known if len(name) <= _LONGEST_NAME and not _PLAIN.fullmatch(name) and name.strip()]
    if not candidates:
        return None
    try:
        plain = _without_quotes(text)
    except SqlglotError:
        return None
    columns = {name.casefold() for name in known}
    found = [name for name in candidates if re.search(_pattern(name), plain, re.IGNORECASE)]
    found = [
        name for name in found if not {word.casefold() for word in _PLAIN.findall(name)} <= columns - {name.casefold()}
    ]
    return max(found, key=len, default=None)


def words_of_sql(text: str, names: Iterable[str]) -> list[str]:
    """The names that stand in the query without quotes, where SQL takes them for words of its own.

    >>> words_of_sql("SELECT limit, COUNT(*) FROM t GROUP BY limit", ["limit", "group", "age"])
    ['limit']
    """
    try:
        used = {token.text.casefold() for token in tokens_of(text) if token.token_type not in _NO_WORDS}
    except SqlglotError:
        return []
    return [name for name in list(names)[:_MOST_NAMES] if name.casefold() in used]


def _without_quotes(text: str) -> str:
    """The text with blanks for all that is quoted."""
    plain = list(text)
    for token in tokens_of(text):
        if token.token_type in (_KINDS.STRING, _KINDS.IDENTIFIER):
            plain[token.start : token.end + 1] = " " * (token.end + 1 - token.start)
    return "".join(plain)


def _pattern(name: str) -> str:
    """The name with any blanks around its marks, and not as a part of a longer word."""
    parts = [r"\s*".join(map(re.escape, re.findall(r"\w+|[^\w\s]", part))) for part in name.split()]
    return r"(?<!\w)" + r"\s+".join(parts) + r"(?!\w)"
