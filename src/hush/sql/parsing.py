"""Parsing: the clauses of a query, the labels and values that it selects, and the condition of HAVING.

Every clause outside the supported part of SQL is refused here.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from hush.core.arrays import Floats, Numbers
from hush.core.domain import Clique
from hush.core.errors import QueryError
from hush.schema import Column
from hush.sql.constants import constant_number, is_literal
from hush.sql.formula import FALSE, TRUE, UNKNOWN
from hush.sql.quoting import NOT_SQL, QueryDialect, bracketed, tokens_of
from hush.sql.scope import Scope, nearest, quote, refusal

EXAMPLE_QUERY = "SELECT sex, COUNT(*) FROM t WHERE age >= 40 GROUP BY sex"
READ_CLAUSES = {"expressions", "from", "from_", "where", "group", "having", "order", "limit", "offset"}
LONGEST_TEXT, LONGEST_QUERY = 2**20, 2**18  # characters, of several queries and of one
MOST_TOKENS = 20_000
MOST_NESTED = 50
FIRST_TOKENS = {TokenType.SELECT, TokenType.FROM, TokenType.WITH, TokenType.L_PAREN}
OPENING_TOKENS = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
CLOSING_TOKENS = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
SIGN_TOKENS = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}
WRAPPING_TOKENS = {TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.DCOLON}  # each wraps the expression before it
REFUSED_CLAUSES = {
    "joins": ("a join", "a release holds one table; name only that one in FROM"),
    "laterals": ("a join", "a release holds one table; name only that one in FROM"),
    "with": ("WITH", "put the conditions into WHERE"),
    "with_": ("WITH", "put the conditions into WHERE"),
    "distinct": ("SELECT DISTINCT", "use GROUP BY"),
    "qualify": ("QUALIFY", "leave it out and keep the rows you want from the answers"),
    "windows": ("WINDOW", "leave it out and compute from the answers"),
    "sample": ("a sample", "leave it out; the answers are about the whole table"),
    "into": ("INTO", "leave it out and keep the answers"),
}
COMPARISONS: dict[type[exp.Expr], Callable[[Floats, Floats], Numbers]] = {
    exp.EQ: np.equal,
    exp.NEQ: np.not_equal,
    exp.LT: np.less,
    exp.LTE: np.less_equal,
    exp.GT: np.greater,
    exp.GTE: np.greater_equal,
}
Rewrite = Callable[[exp.Expr], exp.Expr]
HAVING_ADVICE = "write HAVING with comparisons of aggregates, such as COUNT(*) > 100"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuery:
    """The clauses of one SELECT over one table."""

    items: tuple[exp.Expr, ...]
    tables: tuple[str, ...]  # names that may qualify columns
    where: exp.Expr | None
    groups: tuple[exp.Expr, ...]
    group_all: bool
    having: exp.Expr | None
    order: tuple[exp.Expr, ...]
    limit: int | None
    offset: int

    def rewritten(self, rewrite: Rewrite, positions: Rewrite | None = None) -> ParsedQuery:
        """The query with every expression rewritten; those of GROUP BY and ORDER BY by `positions`, if given."""
        return replace(
            self,
            items=tuple(map(rewrite, self.items)),
            where=None if self.where is None else rewrite(self.where),
            having=None if self.having is None else rewrite(self.having),
            groups=tuple(map(positions or rewrite, self.groups)),
            order=tuple(map(positions or rewrite, self.order)),
        )


def parse(text: str) -> ParsedQuery:
    """The clauses of a query; QueryError if it is not SQL, or not supported."""
    select = _select(text)
    for key, value in select.args.items():
        if value and key not in READ_CLAUSES:
            name, advice = REFUSED_CLAUSES.get(key, (key.strip("_").upper(), "leave it out"))
            raise QueryError(f"{name} is not supported in a query on a release; {advice}")
    if not select.expressions:
        raise QueryError(f"the query selects nothing; write, for example, {EXAMPLE_QUERY}")
    group, order = select.args.get("group"), select.args.get("order")
    if group is not None:
        odd = {key for key, value in group.args.items() if value} - {"expressions", "all"}
        if odd or any(isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets) for node in group.expressions):
            raise refusal(group, "group by columns, one query for each grouping")
    limit = select.args.get("limit")
    if limit is not None:
        options = limit.args.get("limit_options")
        plain = options is None or not (options.args.get("percent") or options.args.get("with_ties"))
        if not plain or limit.expressions:
            raise refusal(limit, "write LIMIT with a number of rows")
    return ParsedQuery(
        items=tuple(select.expressions),
        tables=_tables(select),
        where=None if select.args.get("where") is None else select.args["where"].this,
        groups=() if group is None else tuple(group.expressions),
        having=None if select.args.get("having") is None else select.args["having"].this,
        group_all=bool(group is not None and group.args.get("all")),
        order=() if order is None else tuple(order.expressions),
        limit=_count(limit, "LIMIT"),
        offset=_count(select.args.get("offset"), "OFFSET") or 0,
    )


def statements(text: str) -> list[str]:
    """The statements of a text, separated by semicolons, without empty ones and comments.

    >>> statements("SELECT COUNT(*) FROM t; -- one; or\\n SELECT a, COUNT(*) FROM t WHERE a <> ';' GROUP BY a;")
    ['SELECT COUNT(*) FROM t', "SELECT a, COUNT(*) FROM t WHERE a <> ';' GROUP BY a"]
    """
    texts: list[str] = []
    run: list[sqlglot.Token] = []
    for token in [*_tokens(text, LONGEST_TEXT), None]:
        if token is not None and token.token_type is not TokenType.SEMICOLON:
            run.append(token)
        elif run:
            texts.append(text[run[0].start : run[-1].end + 1])
            run = []
    return texts


def _tokens(text: str, longest: int) -> list[sqlglot.Token]:
    """The tokens of a text of limited length."""
    if not isinstance(text, str):
        raise QueryError(f"query of type {type(text).__name__}: expected a text; write, for example, {EXAMPLE_QUERY}")
    if len(text) > longest:
        raise QueryError(f"the query has {len(text):,} characters: at most {longest:,} are possible; ask for less")
    try:
        return tokens_of(text)
    except SqlglotError:
        raise QueryError(f"{NOT_SQL}; check that every quote and comment is closed") from None


def _select(text: str) -> exp.Select:
    """The parsed SELECT of a query, once its tokens are known to be harmless to parse."""
    tokens = _tokens(text, LONGEST_QUERY)
    if any(token.token_type is TokenType.L_BRACKET for token in tokens):
        text = bracketed(text, tokens)
        tokens = _tokens(text, LONGEST_QUERY)
    # Refuse several statements, and one that does not begin like a query, which the parser would log.
    ends = [index for index, token in enumerate(tokens) if token.token_type is TokenType.SEMICOLON]
    body = tokens[: ends[0]] if ends else tokens
    if not body:
        raise QueryError(f"the query is empty; write, for example, {EXAMPLE_QUERY}")
    _check_shape(body)
    if ends and any(token.token_type is not TokenType.SEMICOLON for token in tokens[ends[0] :]):
        raise QueryError("several statements in one query; ask one SELECT at a time")
    if body[0].token_type not in FIRST_TOKENS:
        raise QueryError(
            f"only a SELECT can be asked of a release, found {body[0].text[:20].upper()}; for example, {EXAMPLE_QUERY}"
        )
    # Parse the text, and refuse what is not one SELECT.
    try:
        parsed = sqlglot.parse(text, read=QueryDialect)[0]
    except ParseError as error:
        raise QueryError(_syntax(error)) from None
    except SqlglotError:
        raise QueryError(f"{NOT_SQL}; write, for example, {EXAMPLE_QUERY}") from None
    if isinstance(parsed, exp.SetOperation):
        raise QueryError(
            f"{type(parsed).__name__.upper()} is not supported in a query on a release; ask one SELECT at a time"
        )
    if not isinstance(parsed, exp.Select):
        raise QueryError(f"only one SELECT can be asked of a release; write, for example, {EXAMPLE_QUERY}")
    return parsed


def _check_shape(tokens: list[sqlglot.Token]) -> None:
    """Refuse queries that are too long or too deeply nested for the parser."""
    if len(tokens) > MOST_TOKENS:
        raise QueryError(
            f"the query has {len(tokens):,} words and marks: at most {MOST_TOKENS:,} are possible; write BETWEEN "
            "for ranges, or ask several queries"
        )
    depth = signs = brackets = 0
    for token in tokens:
        kind = token.token_type
        depth = max(depth + (kind in OPENING_TOKENS) - (kind in CLOSING_TOKENS), 0)
        signs = signs + 1 if kind in SIGN_TOKENS else 0
        brackets += kind in WRAPPING_TOKENS
        if max(depth, signs, brackets) > MOST_NESTED:
            raise QueryError("the query is nested too deeply; write it with fewer parentheses")


def _syntax(error: ParseError) -> str:
    """The parser's message, and advice on quotes if it stopped inside a word such as income>50K."""
    first = error.errors[0] if error.errors else {}
    near = " ".join(str(first.get("highlight") or "").split())[:30]
    where = f" near {near!r}" if near else ""
    what = str(first.get("description") or "").rstrip(".")
    if not what or "<" in what:  # a message that names the parser's classes
        what = "it cannot be parsed"
    message = f"{NOT_SQL}: {what}{where} (line {first.get('line')}, column {first.get('col')})"
    word = re.search(r"[^\W\d][^\s()',;\"]*[^\s\w()',;\"]\w*$", str(first.get("start_context") or ""))
    if word is None or not near[:1].isalnum():
        return message
    return f'{message}; put names with marks other than letters, digits and _ in double quotes, as in "{word[0]}{near}"'


def _tables(select: exp.Select) -> tuple[str, ...]:
    """The name and the alias of the only table in FROM."""
    source = select.args.get("from_") or select.args.get("from")
    if source is None:
        raise QueryError(f"the query has no FROM; write, for example, {EXAMPLE_QUERY}")
    table = source.this
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise refusal(source, "name one table in FROM; any name will do")
    extra = {key for key, value in table.args.items() if value} - {"this", "db", "catalog", "alias"}
    alias = table.args.get("alias")
    if extra or (alias is not None and alias.args.get("columns")):
        raise refusal(source, "name one table in FROM, with nothing but an alias behind it")
    return (table.name,) if alias is None else (table.name, alias.name)


def _count(node: exp.Expr | None, clause: str) -> int | None:
    """The number of rows in LIMIT or OFFSET."""
    if node is None:
        return None
    number = node.args.get("count") if isinstance(node, exp.Fetch) else node.expression
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdecimal():
        raise QueryError(f"{clause} takes a whole number of rows; write, for example, {clause} 10")
    return _whole(number.name)


def _whole(digits: str) -> int:
    """The number, capped above any number of rows or columns, because Python refuses very long ones."""
    return int(digits) if len(digits) < 16 else 10**15


_AGGREGATES_BY_NAME: dict[str, tuple[type[exp.Expr], ...]] = {
    "count": (exp.Count, exp.CountIf),
    "sum": (exp.Sum,),
    "avg": (exp.Avg,),
    "variance": (exp.Variance, exp.VariancePop),
    "stddev": (exp.Stddev, exp.StddevSamp, exp.StddevPop),
    "median": (exp.Median,),
    "quantile": (exp.Quantile, exp.PercentileCont, exp.PercentileDisc, exp.ApproxQuantile),
}
VALUE_NAMES = {aggregate: name for name, aggregates in _AGGREGATES_BY_NAME.items() for aggregate in aggregates}


@dataclass(frozen=True, slots=True)
class Item:
    """One item of SELECT: a label if it has a column or is an expression of GROUP BY, else a value."""

    name: str
    node: exp.Expr
    column: Column | None = None
    grouped: bool = False  # an expression of GROUP BY, other than a column
    named: bool = False  # by an alias
    hidden: bool = False  # only in HAVING

    @property
    def is_label(self) -> bool:
        """Whether it labels the rows of the answers."""
        return self.column is not None or self.grouped


@dataclass(frozen=True, slots=True)
class Output:
    """The columns of the answers: labels first, then values; and the items in the order of SELECT, for positions."""

    labels: tuple[Item, ...]
    values: tuple[Item, ...]
    items: tuple[Item, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the schema among the labels."""
        return tuple(item.column for item in self.labels if item.column is not None)

    @property
    def expressions(self) -> tuple[Item, ...]:
        """The labels that are expressions of GROUP BY."""
        return tuple(item for item in self.labels if item.grouped)

    @property
    def groups(self) -> Clique:
        """The names of the columns among the labels."""
        return tuple(column.name for column in self.columns)

    def find(self, node: exp.Expr, scope: Scope) -> Item | None:
        """The item that a position, an alias, a column or a repeated expression refers to."""
        inner = node.unnest()
        if isinstance(inner, exp.Literal) and not inner.is_string:
            position = _whole(inner.name) if inner.name.isdecimal() else 0
            if not 1 <= position <= len(self.items):
                raise QueryError(f"position {inner.name[:20]} is not in SELECT, which has {len(self.items)} items")
            return self.items[position - 1]
        everything = (*self.items, *self.labels)
        if isinstance(inner, exp.Column):
            named = [item for item in everything if item.name.casefold() == inner.name.casefold()]
            if named and len(inner.parts) == 1:
                return named[0]
            column = scope.find(inner.name)
            return next((item for item in everything if item.column is not None and item.column is column), None)
        return next((item for item in everything if item.node == inner), None)


def read_output(query: ParsedQuery, scope: Scope) -> Output:
    """The labels and values of the query; every label is in GROUP BY."""
    # The items of SELECT, each in GROUP BY or an aggregate.
    listed = _items(query, scope)
    grouped, expressions = _grouped(query, listed, scope)
    items = tuple(replace(item, grouped=item.column is None and item.node in expressions) for item in listed)
    for item in items:
        if item.column is not None and item.column.name not in grouped:
            raise QueryError(f"column {item.column.name!r} is selected but not grouped; add it to GROUP BY")
    values = tuple(item for item in items if not item.is_label)
    if not values:
        raise QueryError("the query selects no aggregate; add one, such as COUNT(*)")

    # The labels: those selected, then those only in GROUP BY.
    selected = [item for item in items if item.is_label]
    names = [item.column.name for item in selected if item.column is not None]
    shown = [item.node for item in selected if item.grouped]
    if len(set(names)) != len(names) or any(node in shown[:i] for i, node in enumerate(shown)):
        raise QueryError("a column is selected twice; select each once")
    unselected = [Item(name, exp.column(name), column) for name, column in grouped.items() if name not in names]
    unselected += [Item(quote(node), node, grouped=True) for node in expressions if node not in shown]
    labels = (*selected, *unselected)
    seen: set[str] = set()
    for item in (*labels, *values):
        if item.name.casefold() in seen:
            raise QueryError(
                f"two columns of the answers are called {item.name!r}; give each an alias of its own with AS"
            )
        seen.add(item.name.casefold())
    output = Output(labels, values, items)

    # The aggregates that are only in HAVING.
    hidden: list[Item] = []
    for node in () if query.having is None else having_values(query.having):
        if output.find(node, scope) is None and all(item.node != node for item in hidden):
            if not node.find(exp.AggFunc):
                raise unknown_order(node, output, "HAVING")
            hidden.append(Item(f"HAVING {quote(node)}", node, hidden=True))
    return replace(output, values=(*values, *hidden))


def _items(query: ParsedQuery, scope: Scope) -> tuple[Item, ...]:
    """The items of SELECT, with unique names for values without an alias."""
    items: list[Item] = []
    used: set[str] = set()
    numbers: Counter[str] = Counter()

    def fresh(name: str) -> str:
        """The name, with a number appended if it is used already."""
        tried = name
        while tried.casefold() in used:
            numbers[name] += 1
            tried = f"{name}_{numbers[name] + 1}"
        return tried

    for node in query.items:
        inner = node.this if isinstance(node, exp.Alias) else node
        bare = inner.unnest()
        if isinstance(bare, exp.Star):
            raise QueryError("SELECT * asks for rows, and only counts can be asked for; select columns and aggregates")
        if isinstance(bare, exp.Column):
            column = scope.column(bare)
            items.append(Item(node.alias or column.name, bare, column))
        else:
            call = bare.this if isinstance(bare, exp.Filter) else bare
            name = VALUE_NAMES.get(type(call), "value") if bare.find(exp.AggFunc) else quote(bare)
            if type(call) in VALUE_NAMES and isinstance(call.this, exp.Column):
                name = f"{name}_{call.this.name}"  # such as avg_age
            items.append(Item(node.alias or fresh(name), bare, named=bool(node.alias)))
        used.add(items[-1].name.casefold())
    return tuple(items)


def _grouped(
    query: ParsedQuery, items: tuple[Item, ...], scope: Scope
) -> tuple[dict[str, Column], tuple[exp.Expr, ...]]:
    """The columns and the other expressions of GROUP BY."""
    nodes: list[exp.Expr] = [node.unnest() for node in query.groups]
    if query.group_all:
        nodes = [item.node for item in items if item.column is not None or not item.node.find(exp.AggFunc)]
    grouped: dict[str, Column] = {}
    expressions: list[exp.Expr] = []
    for node in nodes:
        # An item of GROUP BY names a column or an expression directly, by its position in SELECT, or by its alias.
        meant = node
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal():
            position = _whole(node.name)
            if not 1 <= position <= len(items):
                raise QueryError(f"GROUP BY {position}: SELECT has {len(items)} items")
            meant = items[position - 1].node
        elif isinstance(node, exp.Column) and scope.find(node.name) is None and len(node.parts) == 1:
            named = (item.node for item in items if item.name.casefold() == node.name.casefold())
            meant = next(named, node)
        if meant.find(exp.AggFunc):
            raise QueryError(f"GROUP BY {quote(node)} is an aggregate; group by columns")
        if isinstance(meant, exp.Column):
            column = scope.column(meant)
            grouped[column.name] = column
        elif meant not in expressions:
            expressions.append(meant)
    return grouped, tuple(expressions)


def unknown_order(node: exp.Expr, output: Output, clause: str = "ORDER BY") -> QueryError:
    """The error for an ORDER BY or HAVING that names no column of the answers."""
    names = dict.fromkeys(item.name for item in (*output.items, *output.labels))
    hint = nearest(node.name, names) if isinstance(node, exp.Column) else f"known: {', '.join(names)}"
    return QueryError(f"{clause} {quote(node)} is not a column of the answers; {hint}")


def having_values(node: exp.Expr) -> Iterator[exp.Expr]:
    """The expressions that HAVING compares, without constants."""
    inner = node.unnest()
    if isinstance(inner, exp.Connector | exp.Not):
        for part in inner.iter_expressions():
            yield from having_values(part)
    elif isinstance(inner, exp.Predicate):
        yield from (side.unnest() for side in inner.iter_expressions() if not is_literal(side))
    else:
        raise refusal(inner, HAVING_ADVICE)


def having_truth(node: exp.Expr, estimates: Callable[[exp.Expr], Floats]) -> Numbers:
    """The truth value (1, 0 for unknown, -1) of HAVING in each group; an unknown estimate counts as null."""
    inner = node.unnest()

    def value(side: exp.Expr) -> Floats:
        if not is_literal(side):
            return estimates(side.unnest())
        return np.array(np.nan if isinstance(side.unnest(), exp.Null) else float(constant_number(side)))

    def compared(left: exp.Expr, sign: type[exp.Expr], right: exp.Expr) -> Numbers:
        a, b = np.broadcast_arrays(value(left), value(right))
        return np.where(np.isnan(a) | np.isnan(b), UNKNOWN, np.where(COMPARISONS[sign](a, b), TRUE, FALSE))

    match inner:
        case exp.And() | exp.Or():
            meet = np.minimum if isinstance(inner, exp.And) else np.maximum
            return functools.reduce(meet, (having_truth(part, estimates) for part in inner.flatten()))
        case exp.Not():
            return -having_truth(inner.this, estimates)
        case exp.Between() if not inner.args.get("symmetric"):
            low, high = inner.args["low"], inner.args["high"]
            return np.minimum(compared(inner.this, exp.GTE, low), compared(inner.this, exp.LTE, high))
        case exp.In() if inner.expressions and all(map(is_literal, inner.expressions)):
            equal = (compared(inner.this, exp.EQ, constant) for constant in inner.expressions)
            return functools.reduce(np.maximum, equal)
        case exp.Is() if isinstance(inner.expression, exp.Null):
            return np.where(np.isnan(value(inner.this)), TRUE, FALSE)
    if type(inner) not in COMPARISONS:
        raise refusal(inner, HAVING_ADVICE)
    return compared(inner.this, type(inner), inner.expression)
