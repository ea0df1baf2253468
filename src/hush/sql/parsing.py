"""Parsing: the text of a query cut into its clauses; every clause outside the supported part of SQL is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from hush.errors import QueryError
from hush.sql.scope import refusal

DIALECT = "duckdb"
EXAMPLE = "SELECT sex, COUNT(*) FROM t WHERE age >= 40 GROUP BY sex"
READ = {"expressions", "from", "from_", "where", "group", "order", "limit", "offset"}
CLAUSES = {
    "joins": ("a join", "a release holds one table; name only that one in FROM"),
    "laterals": ("a join", "a release holds one table; name only that one in FROM"),
    "with": ("WITH", "put the conditions into WHERE"),
    "with_": ("WITH", "put the conditions into WHERE"),
    "distinct": ("SELECT DISTINCT", "use GROUP BY"),
    "having": ("HAVING", "leave it out and keep the rows you want from the answers"),
    "qualify": ("QUALIFY", "leave it out and keep the rows you want from the answers"),
    "windows": ("WINDOW", "leave it out and compute from the answers"),
    "sample": ("a sample", "leave it out; the answers are about the whole table"),
    "into": ("INTO", "leave it out and keep the answers"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuery:
    """The clauses of one SELECT over one table."""

    items: tuple[exp.Expr, ...]
    tables: tuple[str, ...]  # what columns may be qualified with
    where: exp.Expr | None
    groups: tuple[exp.Expr, ...]
    group_all: bool
    order: tuple[exp.Expr, ...]
    limit: int | None
    offset: int


def parse(text: str) -> ParsedQuery:
    """The clauses of the query; QueryError where it is no SQL or not in the supported part."""
    select = _select(text)
    for key, value in select.args.items():
        if value and key not in READ:
            name, advice = CLAUSES.get(key, (key.strip("_").upper(), "leave it out"))
            raise QueryError(f"{name} is not supported in a query on a release; {advice}")
    if not select.expressions:
        raise QueryError(f"the query selects nothing; write, for example, {EXAMPLE}")
    group, order = select.args.get("group"), select.args.get("order")
    return ParsedQuery(
        items=tuple(select.expressions),
        tables=_tables(select),
        where=None if select.args.get("where") is None else select.args["where"].this,
        groups=_groups(group),
        group_all=bool(group is not None and group.args.get("all")),
        order=() if order is None else tuple(order.expressions),
        limit=_limit(select.args.get("limit")),
        offset=_count(select.args.get("offset"), "OFFSET") or 0,
    )


def statements(text: str) -> list[str]:
    """The statements of a text, divided by semicolons; empty ones and comments left out.

    >>> statements("SELECT COUNT(*) FROM t; -- one; or\\n SELECT a, COUNT(*) FROM t WHERE a <> ';' GROUP BY a;")
    ['SELECT COUNT(*) FROM t', "SELECT a, COUNT(*) FROM t WHERE a <> ';' GROUP BY a"]
    """
    texts: list[str] = []
    run: list[sqlglot.Token] = []
    for token in [*_tokens(text), None]:
        if token is not None and token.token_type is not sqlglot.TokenType.SEMICOLON:
            run.append(token)
        elif run:
            texts.append(text[run[0].start : run[-1].end + 1])
            run = []
    return texts


def _tokens(text: str) -> list[sqlglot.Token]:
    if not isinstance(text, str):
        raise QueryError(f"a query is text, found {type(text).__name__}; write, for example, {EXAMPLE}")
    try:
        return sqlglot.tokenize(text, read=DIALECT)
    except SqlglotError:
        raise QueryError("the query is not valid SQL; check that every quote and comment is closed") from None


def _select(text: str) -> exp.Select:
    _check_tokens(_tokens(text))
    try:
        parsed = sqlglot.parse(text, read=DIALECT)[0]
    except ParseError as error:
        raise QueryError(_syntax(error)) from None
    except SqlglotError:
        raise QueryError(f"the query is not valid SQL; write, for example, {EXAMPLE}") from None
    if isinstance(parsed, exp.SetOperation):
        raise QueryError(
            f"{type(parsed).__name__.upper()} is not supported in a query on a release; ask one SELECT at a time"
        )
    if not isinstance(parsed, exp.Select):
        raise QueryError(f"only one SELECT can be asked of a release; write, for example, {EXAMPLE}")
    return parsed


def _check_tokens(tokens: list[sqlglot.Token]) -> None:
    """Refuse what does not begin like a query before it is parsed: the parser logs what it does not know."""
    ends = [place for place, token in enumerate(tokens) if token.token_type is sqlglot.TokenType.SEMICOLON]
    body = tokens[: ends[0]] if ends else tokens
    if not body:
        raise QueryError(f"the query is empty; write, for example, {EXAMPLE}")
    if ends and any(token.token_type is not sqlglot.TokenType.SEMICOLON for token in tokens[ends[0] :]):
        raise QueryError("several statements in one query; ask one SELECT at a time")
    if body[0].token_type not in {
        sqlglot.TokenType.SELECT,
        sqlglot.TokenType.FROM,
        sqlglot.TokenType.WITH,
        sqlglot.TokenType.L_PAREN,
    }:
        raise QueryError(
            f"only a SELECT can be asked of a release, found {body[0].text[:20].upper()}; for example, {EXAMPLE}"
        )


def _syntax(error: ParseError) -> str:
    """What the parser found, and how names are written where it stopped within a word such as income>50K."""
    first = error.errors[0] if error.errors else {}
    near = " ".join(str(first.get("highlight") or "").split())[:30]
    where = f" near {near!r}" if near else ""
    what = str(first.get("description") or "it cannot be parsed").rstrip(".")
    said = f"the query is not valid SQL: {what}{where} (line {first.get('line')}, column {first.get('col')})"
    word = re.search(r"[^\W\d][^\s()',;\"]*[^\s\w()',;\"]\w*$", str(first.get("start_context") or ""))
    if word is None or not near[:1].isalnum():
        return said
    return (
        f'{said}; a name with other marks than letters, digits and _ is written in double quotes, as "{word[0]}{near}"'
    )


def _tables(select: exp.Select) -> tuple[str, ...]:
    source = select.args.get("from_") or select.args.get("from")
    if source is None:
        raise QueryError(f"the query has no FROM; write, for example, {EXAMPLE}")
    table = source.this
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise refusal(source, "name one table in FROM; any name will do")
    extra = {key for key, value in table.args.items() if value} - {"this", "db", "catalog", "alias"}
    alias = table.args.get("alias")
    if extra or (alias is not None and alias.args.get("columns")):
        raise refusal(source, "name one table in FROM, with nothing but an alias behind it")
    return (table.name,) if alias is None else (table.name, alias.name)


def _groups(group: exp.Expr | None) -> tuple[exp.Expr, ...]:
    if group is None:
        return ()
    odd = {key for key, value in group.args.items() if value} - {"expressions", "all"}
    if odd:
        raise refusal(group, "group by columns, one query for each grouping")
    return tuple(group.expressions)


def _limit(node: exp.Expr | None) -> int | None:
    if node is None:
        return None
    options = node.args.get("limit_options")
    plain = options is None or not (options.args.get("percent") or options.args.get("with_ties"))
    if not plain or node.expressions:
        raise refusal(node, "write LIMIT with a number of rows")
    return _count(node, "LIMIT")


def _count(node: exp.Expr | None, clause: str) -> int | None:
    if node is None:
        return None
    number = node.args.get("count") if isinstance(node, exp.Fetch) else node.expression
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdecimal():
        raise QueryError(f"{clause} takes a whole number of rows; write, for example, {clause} 10")
    return int(number.name)
