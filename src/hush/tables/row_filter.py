"""Row filter: a condition that selects the rows of a file or a frame to read, such as `age >= 18 AND sex = 'f'`.

hush parses the condition, checks each node against a list of allowed ones, and writes the SQL anew. DuckDB evaluates it
inside TRY: if a value is missing or is no number, so that the condition is undecided, the row is left out.

Privacy: whether a row is read depends on that row alone, so one person's rows do not affect the rows of others. This is
why subqueries, aggregates, window functions, random numbers and clocks are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hush.core.errors import DataError
from hush.schema.number_spelling import NumberSpelling
from hush.tables.dialects.dialect import DAY_FAMILIES, NUMBER_FAMILIES, Family, attempt
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.sources import RowSource

if TYPE_CHECKING:
    from sqlglot import exp

LONGEST_CONDITION = 10_000  # characters
MOST_NODES = 1_000
SUPPORTED = (
    "a condition takes columns and values with =, <>, <, <=, >, >=, BETWEEN, IN, LIKE, IS NULL, AND, OR, NOT, "
    "+, -, *, CAST, lower, upper, trim, length, abs and coalesce"
)
MIXED_KINDS = (
    "where= compares values of different kinds, or is no condition; compare numbers with numbers, dates with "
    "DATE '2020-01-31' and texts with 'texts'"
)
_ALLOWED_NODES = (
    *("And", "Or", "Not", "Paren", "EQ", "NEQ", "GT", "GTE", "LT", "LTE", "NullSafeEQ", "NullSafeNEQ", "Between", "In"),
    *("Is", "Null", "Boolean", "Literal", "Column", "Identifier", "Neg", "Add", "Sub", "Mul", "Like", "ILike", "Cast"),
    *("TryCast", "DataType", "DataTypeParam", "Lower", "Upper", "Trim", "Length", "Abs", "Coalesce"),
)
_ARITHMETIC_NODES = ("Neg", "Add", "Sub", "Mul", "Abs")
_COMPARISON_NODES = ("EQ", "NEQ", "GT", "GTE", "LT", "LTE", "NullSafeEQ", "NullSafeNEQ", "Between", "In", "Coalesce")


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A checked condition and the columns that it names."""

    condition: exp.Expr
    columns: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> RowFilter:
        """The filter of a text; DataError if it is not a single condition on the values of one row."""
        from sqlglot import exp, parse_one

        if not text.strip() or len(text) > LONGEST_CONDITION:
            raise DataError(f"where= has {len(text):,} characters: expected a condition such as age >= 18")
        unread = "where= cannot be read as one condition; write it like age >= 18 AND sex = 'f'"
        parsed = attempt(lambda: parse_one(text, dialect="duckdb", into=exp.Condition), unread)
        nodes = list(parsed.walk())
        if len(nodes) > MOST_NODES:
            raise DataError(f"where= has more than {MOST_NODES:,} parts; write a shorter condition")
        for node in nodes:
            if not _is_allowed(node):
                raise DataError(
                    f"where= holds {node.key.upper()!r}, which is not a test of one row's values; {SUPPORTED}"
                )
            node.comments = None
        named = [node for node in nodes if isinstance(node, exp.Column)]
        if any(isinstance(node.this, exp.Star) or node.table for node in named):
            raise DataError('where= names a column with a dot or a star; write its name alone, or in "double quotes"')
        if not named:
            raise DataError("where= names no column; a condition such as age >= 18 tests the values of a row")
        return cls(parsed, tuple(dict.fromkeys(node.name for node in named)))

    def applied(self, source: RowSource, spellings: Mapping[str, NumberSpelling]) -> RowSource:
        """The rows of a source that meet the condition; reads no row."""
        if source.dialect is not DUCKDB:
            raise DataError(f"where= is for files and frames, and {source.name} is none; write the condition in query=")
        places = {name: source.position(name) for name in self.columns}
        families = {name: DUCKDB.family(source.types[at]) for name, at in places.items()}
        typed = _typed(self.condition.copy(), places, families, spellings)
        condition = typed.sql(dialect="duckdb", comments=False)
        # Let DuckDB check the types on a row of nulls.
        nulls = ", ".join(f"CAST(NULL AS {source.types[at]}) AS c{at}" for at in places.values())
        session = attempt(lambda: DUCKDB.open_session(source.connection, {}), source.failure)
        try:
            _, (kind,) = DUCKDB.describe(session, f"SELECT TRY({condition}) AS kept FROM (SELECT {nulls})", MIXED_KINDS)
        finally:
            session.close()
        if kind != "BOOLEAN":
            raise DataError(MIXED_KINDS)
        aliases = ", ".join(f"c{at}" for at in range(len(source.columns)))
        select = f"SELECT * FROM ({source.select}) AS held({aliases}) WHERE TRY({condition})"
        return replace(source, select=select)


def _is_allowed(node: exp.Expr) -> bool:
    """Whether a node tests the values of one row; IN must have a list of values, and no query."""
    if type(node).__name__ != "In":
        return type(node).__name__ in _ALLOWED_NODES
    return bool(node.args.get("expressions")) and not any(node.args.get(key) for key in ("query", "unnest", "field"))


def _typed(
    condition: exp.Expr,
    places: Mapping[str, int],
    families: Mapping[str, Family],
    spellings: Mapping[str, NumberSpelling],
) -> exp.Expr:
    """The condition with columns by position, casts that cannot fail, and converted texts.

    A column of text that is compared with a number is read as numbers, one that is compared with a date as days.
    """
    from sqlglot import exp

    def text_as(column: exp.Expr, operand: str) -> exp.Expr:
        x = DUCKDB.trimmed(f"c{places[column.name]}")
        spelling = spellings.get(column.name)
        if operand == "day":
            sql = DUCKDB.day_or_null(x, x)
        elif spelling is None:
            sql = DUCKDB.number_or_null(x)
        else:
            sql = DUCKDB.spelled_number_or_null(x, spelling)
        return exp.Var(this=f"({sql})")

    def visit(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column):
            return exp.column(f"c{places[node.name]}")
        # Whether the operands of this node are numbers or days, if it has a literal that tells.
        kind = type(node).__name__
        children = [child for child in node.iter_expressions() if not isinstance(child, exp.DataType)]
        operand = "number" if kind in _ARITHMETIC_NODES else None
        if kind in _COMPARISON_NODES:
            operand = next(filter(None, map(_kind, children)), None)
        # Convert columns of text to that; DuckDB would leave out every row if a number is compared with a day.
        other_families = DAY_FAMILIES if operand == "number" else NUMBER_FAMILIES
        for child in children:
            bare = child.unnest()
            family = families[bare.name] if operand and isinstance(bare, exp.Column) else None
            if family in other_families:
                raise DataError(MIXED_KINDS)
            child.replace(text_as(bare, str(operand)) if family is Family.TEXT else visit(child))
        if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
            return exp.TryCast(this=node.this, to=node.args["to"])
        return node

    return visit(condition)


def _kind(node: exp.Expr) -> str | None:
    """Whether an operand is a number or a day; None for columns and texts."""
    from sqlglot import exp

    bare: Any = node.unnest()
    if isinstance(bare, exp.Cast):
        kind = bare.args["to"].this
        if kind in exp.DataType.NUMERIC_TYPES:
            return "number"
        return "day" if kind is exp.DataType.Type.DATE else None
    if isinstance(bare, exp.Coalesce):
        return next(filter(None, map(_kind, bare.iter_expressions())), None)
    number = isinstance(bare, exp.Literal) and not bare.is_string
    return "number" if number or type(bare).__name__ in (*_ARITHMETIC_NODES, "Length") else None
