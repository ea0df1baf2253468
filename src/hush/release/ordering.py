"""Ordering: ORDER BY, LIMIT and OFFSET on the rows of the answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sqlglot import exp

from hush.errors import QueryError
from hush.release.answer_columns import Codes, Group
from hush.release.answers import Answers
from hush.schema import Categorical
from hush.schema.column import OTHER, canonical
from hush.sql.grouping import Item, Output, unknown_order
from hush.sql.query import Query
from hush.sql.scope import Scope, refusal

Key = np.ndarray[Any, Any]
CHOSEN = "{}: rows were chosen by their estimates, which tend to be too extreme then; intervals do not allow for it."


def ordered(answers: Answers, output: Output, query: Query, scope: Scope) -> Answers:
    """The rows in the order asked for, cut to the limit; a copy only where something was asked."""
    if not query.order and query.limit is None and not query.offset:
        return answers
    keys: list[Key] = []
    chosen: list[str] = []
    for node in query.order:
        item = _item(node, output, scope)
        chosen += [item.name] if item.column is None else []
        values, absent = _key(item, answers)
        sign = -1 if node.args.get("desc") else 1
        nulls_first = bool(node.args.get("nulls_first"))
        keys += [absent != nulls_first, np.where(absent, 0, sign * values)]
    rows: Codes = np.lexsort(keys[::-1]) if keys else np.arange(len(answers))
    end = None if query.limit is None else query.offset + query.limit
    kept = answers.take(rows[query.offset : end])
    if chosen and len(kept) < len(answers):
        return replace(kept, notes=(*kept.notes, CHOSEN.format(chosen[0])))
    return kept


def _item(node: exp.Expr, output: Output, scope: Scope) -> Item:
    if not isinstance(node, exp.Ordered) or isinstance(node.this, exp.Var) or node.args.get("with_fill"):
        raise refusal(node, "order by columns of the answers")
    inner = node.this.unnest()
    if isinstance(inner, exp.Literal) and inner.is_string:
        raise QueryError(f"ORDER BY {inner.sql()} is a constant; write column names without or in double quotes")
    item = output.find(inner, scope)
    if item is None:
        raise unknown_order(inner, output)
    return item


def _key(item: Item, answers: Answers) -> tuple[Key, Key]:
    """Numbers that sort like the item, and where it is null or has no answer."""
    for group in answers.groups:
        if isinstance(group, Group) and group.name == item.name:
            return _ranks(group)[group.codes], group.codes == _missing(group)
    values = answers[item.name].estimate
    return values, np.isnan(values)


def _ranks(group: Group) -> Key:
    """The place of every code in the order of real values: that of codes, except where values are unordered."""
    column = group.column
    if not isinstance(column, Categorical):
        return np.arange(column.size)
    values: list[Any] = list(column.values)
    if column.other or len({type(value) for value in values}) > 1:
        values = [canonical(value) for value in values] + [OTHER] * column.other
    order = sorted(range(len(values)), key=lambda code: values[code])
    ranks = np.empty(column.size, dtype=np.int64)
    ranks[order] = np.arange(len(order))
    ranks[len(order) :] = len(order)
    return ranks


def _missing(group: Group) -> int:
    return -1 if group.column.missing_code is None else group.column.missing_code
