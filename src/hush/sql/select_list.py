"""The list of SELECT: which items are labels and which are values, and what each is called."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from hush.domain import Clique
from hush.errors import QueryError
from hush.schema import Column
from hush.sql.parsing import ParsedQuery
from hush.sql.scope import Scope, nearest, quote, refusal

NAMES: dict[type[exp.Expr], str] = {exp.Count: "count", exp.CountIf: "count", exp.Sum: "sum", exp.Avg: "avg"}


@dataclass(frozen=True, slots=True)
class Item:
    """One item of SELECT: a label if it has a column, else a value."""

    name: str
    node: exp.Expr
    column: Column | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """The columns of the answers: labels first, and the items in the order of SELECT for positions."""

    labels: tuple[Item, ...]
    values: tuple[Item, ...]
    items: tuple[Item, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that the labels show."""
        return tuple(item.column for item in self.labels if item.column is not None)

    @property
    def groups(self) -> Clique:
        """The names of those columns in the schema."""
        return tuple(column.name for column in self.columns)

    def find(self, node: exp.Expr, scope: Scope) -> Item | None:
        """The item that a position, an alias, a column or a repeated expression means."""
        inner = node.unnest()
        if isinstance(inner, exp.Literal) and not inner.is_string:
            place = int(inner.name) if inner.name.isdecimal() else 0
            if not 1 <= place <= len(self.items):
                raise QueryError(f"position {inner.name} is not in SELECT, which has {len(self.items)} items")
            return self.items[place - 1]
        everything = (*self.items, *self.labels)
        if isinstance(inner, exp.Column):
            named = [item for item in everything if item.name.casefold() == inner.name.casefold()]
            if named and len(inner.parts) == 1:
                return named[0]
            column = scope.find(inner.name)
            return next((item for item in everything if item.column is not None and item.column is column), None)
        return next((item for item in self.items if item.node == inner), None)


def read_output(query: ParsedQuery, scope: Scope) -> Output:
    """The labels and values of the query; every label is a column of GROUP BY."""
    items = _items(query, scope)
    grouped = _grouped(query, items, scope)
    for item in items:
        if item.column is not None and item.column.name not in grouped:
            raise QueryError(f"column {item.column.name!r} is selected but not grouped; add it to GROUP BY")
    values = tuple(item for item in items if item.column is None)
    if not values:
        raise QueryError("the query selects no aggregate; add one, such as COUNT(*)")
    selected = [item for item in items if item.column is not None]
    names = {item.column.name for item in selected if item.column is not None}
    unselected = [Item(name, exp.column(name), column) for name, column in grouped.items() if name not in names]
    labels = (*selected, *unselected)
    _check_names([*labels, *values])
    if len(names) != len(selected):
        raise QueryError("a column is selected twice; select each once")
    return Output(labels, values, items)


def _items(query: ParsedQuery, scope: Scope) -> tuple[Item, ...]:
    items: list[Item] = []
    for node in query.items:
        inner = node.this if isinstance(node, exp.Alias) else node
        bare = inner.unnest()
        if isinstance(bare, exp.Star):
            raise QueryError("SELECT * asks for rows, and only counts can be asked for; select columns and aggregates")
        if isinstance(bare, exp.Column):
            column = scope.column(bare)
            items.append(Item(node.alias or column.name, bare, column))
        else:
            name = node.alias or _name(bare, [item.name for item in items])
            items.append(Item(name, bare))
    return tuple(items)


def _grouped(query: ParsedQuery, items: tuple[Item, ...], scope: Scope) -> dict[str, Column]:
    if query.group_all:
        return {item.column.name: item.column for item in items if item.column is not None}
    grouped: dict[str, Column] = {}
    for node in query.groups:
        column = _group_column(node.unnest(), items, scope)
        grouped[column.name] = column
    return grouped


def _group_column(node: exp.Expr, items: tuple[Item, ...], scope: Scope) -> Column:
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal():
        place = int(node.name)
        if not 1 <= place <= len(items):
            raise QueryError(f"GROUP BY {place}: SELECT has {len(items)} items")
        column = items[place - 1].column
        if column is None:
            raise QueryError(f"GROUP BY {place} is an aggregate; group by columns")
        return column
    if not isinstance(node, exp.Column):
        raise refusal(node, "group by columns; coarsen a column in its schema, or add up levels of the answers")
    if scope.find(node.name) is None and len(node.parts) == 1:
        named = [item for item in items if item.name.casefold() == node.name.casefold()]
        if named and named[0].column is not None:
            return named[0].column
        if named:
            raise QueryError(f"GROUP BY {node.name} is an aggregate; group by columns")
    return scope.column(node)


def _name(node: exp.Expr, others: Iterable[str]) -> str:
    """A name for a value without alias: count, sum_age, avg_age, or value."""
    call = node.this if isinstance(node, exp.Filter) else node
    name = NAMES.get(type(call), "value")
    argument = call.this if type(call) in NAMES else None
    if isinstance(argument, exp.Column):
        name = f"{name}_{argument.name}"
    used, fresh, number = {other.casefold() for other in others}, name, 1
    while fresh.casefold() in used:
        number += 1
        fresh = f"{name}_{number}"
    return fresh


def _check_names(items: list[Item]) -> None:
    seen: set[str] = set()
    for item in items:
        if item.name.casefold() in seen:
            raise QueryError(
                f"two columns of the answers are called {item.name!r}; give each an alias of its own with AS"
            )
        seen.add(item.name.casefold())


def unknown_order(node: exp.Expr, output: Output) -> QueryError:
    """That ORDER BY names nothing that is put out."""
    names = dict.fromkeys(item.name for item in (*output.items, *output.labels))
    hint = nearest(node.name, names) if isinstance(node, exp.Column) else f"known: {', '.join(names)}"
    return QueryError(f"ORDER BY {quote(node)} is not a column of the answers; {hint}")
