"""Stamp parts: EXTRACT(hour FROM pickup) and the like in a query, as the columns by which times are counted."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from hush.core.errors import QueryError
from hush.schema import Granularity, Schema, Stamp, Timestamp
from hush.schema.stamps import DATE, HOUR, MINUTE, MONTH, OF_TIME, WEEKDAY
from hush.sql.parsing import ParsedQuery
from hush.sql.row_labels import FUNCTIONS as OF_DATES
from hush.sql.scope import quote

FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Hour: HOUR,
    exp.Minute: MINUTE,
    exp.Month: MONTH,
    exp.Dayname: WEEKDAY,
    exp.Date: DATE,
}


def with_stamp_parts(query: ParsedQuery, schema: Schema) -> ParsedQuery:
    """The query with the columns of the parts of times in place of functions of a column of times.

    `pickup.hour` needs no quotes. A part of the day that is no column is taken of the date: its year, its quarter.
    """
    stamps = {column.source.casefold(): column.part.stamp for column in schema if column.part is not None}
    if not stamps:
        return query
    tables = {table.casefold() for table in query.tables}

    def of_table(column: exp.Column) -> bool:
        return not column.table or column.table.casefold() in tables

    def rewritten(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column):
            return column_of(node)
        part, inner = _asked(node)
        stamp = stamps.get(inner.name.casefold()) if isinstance(inner, exp.Column) and of_table(inner) else None
        if inner is None or stamp is None:
            return node
        by_day = isinstance(stamp, Timestamp) and stamp.granularity is Granularity.DAY
        if part in stamp.parts and (part != DATE or by_day):
            return _named(stamp, part)
        if DATE in stamp.parts and part not in (DATE, *OF_TIME):
            inner.replace(_named(stamp, DATE))
            return node
        raise QueryError(f"{quote(node)} is not known: {_advice(stamp)}")

    def column_of(node: exp.Column) -> exp.Expr:
        whole = of_table(node)
        stamp, part = stamps.get((node.name if whole else node.table).casefold()), node.name.casefold()
        if stamp is None or (not whole and part not in stamp.parts):
            return node
        if whole:
            raise QueryError(f"column {stamp.name!r} holds times, which have no level of their own: {_advice(stamp)}")
        return _named(stamp, part)

    return replace(
        query,
        items=tuple(node.transform(rewritten) for node in query.items),
        where=None if query.where is None else query.where.transform(rewritten),
        having=None if query.having is None else query.having.transform(rewritten),
        groups=tuple(node.transform(rewritten) for node in query.groups),
        order=tuple(node.transform(rewritten) for node in query.order),
    )


def _asked(node: exp.Expr) -> tuple[str, exp.Expr | None]:
    """The part that a function takes of a time, and the time; none for anything else."""
    match node:
        case exp.Extract():
            return node.this.name.lower(), node.expression.unnest()
        case exp.Anonymous() if node.name.upper() in ("DATE_PART", "DATEPART") and len(node.expressions) == 2:
            return node.expressions[0].name.lower(), node.expressions[1].unnest()
        case exp.Cast() if node.to.is_type(exp.DataType.Type.DATE):
            return DATE, node.this.unnest()
        case exp.TimestampTrunc() | exp.DateTrunc():
            return "start", node.this.unnest()
    part = FUNCTIONS.get(type(node)) or OF_DATES.get(type(node))
    return ("", None) if part is None or not isinstance(node.this, exp.Expr) else (part.lower(), node.this.unnest())


def _named(stamp: Stamp, part: str) -> exp.Column:
    return exp.column(f"{stamp.name}.{part}", quoted=True)


def _advice(stamp: Stamp) -> str:
    names = ", ".join(f'"{stamp.name}.{part}"' for part in stamp.parts)
    return f"its times are counted by {names}; ask for these"
