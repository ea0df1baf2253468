"""Row filter: a condition that says which rows of a file or a frame are read, such as `age >= 18 AND sex = 'f'`.

The condition is parsed, checked node by node against what is listed here, and written anew, so that it can hold nothing
else. DuckDB evaluates it inside TRY: where it cannot be decided, because a value is missing or is no number, the row is
left out.

Privacy: whether a row is read depends on that row alone, so a person's rows change nothing about the rows of others.
This is why subqueries, aggregates, window functions, random numbers and clocks are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hush.core.errors import DataError
from hush.schema.number_spelling import NumberSpelling
from hush.tables.dialects.dialect import NUMBERS, Family, attempt
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.sources import RowSource

if TYPE_CHECKING:
    from sqlglot import exp

LONGEST = 10_000  # characters
MOST_NODES = 1_000
TAKES = (
    "a condition takes columns and values with =, <>, <, <=, >, >=, BETWEEN, IN, LIKE, IS NULL, AND, OR, NOT, "
    "+, -, *, CAST, lower, upper, trim, length, abs and coalesce"
)
MIXED = (
    "where= compares values of different kinds, or is no condition; compare numbers with numbers, dates with "
    "DATE '2020-01-31' and texts with 'texts'"
)
_DAYS = frozenset({Family.DATE, Family.TIMESTAMP, Family.INSTANT})
_LISTED = (
    *("And", "Or", "Not", "Paren", "EQ", "NEQ", "GT", "GTE", "LT", "LTE", "NullSafeEQ", "NullSafeNEQ", "Between", "In"),
    *("Is", "Null", "Boolean", "Literal", "Column", "Identifier", "Neg", "Add", "Sub", "Mul", "Like", "ILike", "Cast"),
    *("TryCast", "DataType", "DataTypeParam", "Lower", "Upper", "Trim", "Length", "Abs", "Coalesce"),
)
_ARITHMETIC = ("Neg", "Add", "Sub", "Mul", "Abs")
_COMPARISONS = ("EQ", "NEQ", "GT", "GTE", "LT", "LTE", "NullSafeEQ", "NullSafeNEQ", "Between", "In", "Coalesce")


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A checked condition and the columns it names."""

    condition: exp.Expr
    columns: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> RowFilter:
        """The filter of a text; DataError where it is not a single condition on the values of one row."""
        from sqlglot import exp, parse_one

        if not text.strip() or len(text) > LONGEST:
            raise DataError(f"where= has {len(text):,} characters: expected a condition such as age >= 18")
        unread = "where= cannot be read as one condition; write it like age >= 18 AND sex = 'f'"
        parsed = attempt(lambda: parse_one(text, dialect="duckdb", into=exp.Condition), unread)
        nodes = list(parsed.walk())
        if len(nodes) > MOST_NODES:
            raise DataError(f"where= has more than {MOST_NODES:,} parts; write a shorter condition")
        for node in nodes:
            if type(node).__name__ not in _LISTED or (isinstance(node, exp.In) and not _is_list(node)):
                raise DataError(f"where= holds {node.key.upper()!r}, which is not a test of one row's values; {TAKES}")
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
        nothing = ", ".join(f"CAST(NULL AS {source.types[at]}) AS c{at}" for at in places.values())
        session = attempt(lambda: DUCKDB.open_session(source.connection, {}), source.failure)
        try:
            _, (kind,) = DUCKDB.describe(session, f"SELECT TRY({condition}) AS kept FROM (SELECT {nothing})", MIXED)
        finally:
            session.close()
        if kind != "BOOLEAN":
            raise DataError(MIXED)
        aliases = ", ".join(f"c{at}" for at in range(len(source.columns)))
        select = f"SELECT * FROM ({source.select}) AS held({aliases}) WHERE TRY({condition})"
        return replace(source, select=select)


def _is_list(node: exp.Expr) -> bool:
    """Whether IN has a list of values, and no query."""
    return bool(node.args.get("expressions")) and not any(node.args.get(key) for key in ("query", "unnest", "field"))


def _typed(
    condition: exp.Expr,
    places: Mapping[str, int],
    families: Mapping[str, Family],
    spellings: Mapping[str, NumberSpelling],
) -> exp.Expr:
    """The condition over columns by their positions; casts cannot fail, and texts beside numbers are read as numbers.

    A text beside a date is read as a day.
    """
    from sqlglot import exp

    def read_as(column: exp.Column, wanted: str) -> exp.Expr:
        x = DUCKDB.trimmed(f"c{places[column.name]}")
        if wanted == "day":
            return _raw(DUCKDB.day_or_null(x, x))
        spelling = spellings.get(column.name)
        return _raw(DUCKDB.number_or_null(x) if spelling is None else DUCKDB.spelled_number_or_null(x, spelling))

    def visit(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column):
            return exp.column(f"c{places[node.name]}")
        kind = type(node).__name__
        children = [child for child in node.iter_expressions() if not isinstance(child, exp.DataType)]
        wanted = "number" if kind in _ARITHMETIC else None
        if kind in _COMPARISONS:
            wanted = next(filter(None, map(_kind, children)), None)
        for child in children:
            bare = child.unnest()
            if wanted and isinstance(bare, exp.Column) and families[bare.name] is Family.TEXT:
                child.replace(read_as(bare, wanted))
            elif (
                wanted
                and isinstance(bare, exp.Column)
                and families[bare.name] in (_DAYS if wanted == "number" else NUMBERS)
            ):
                raise DataError(MIXED)  # DuckDB would leave out every row
            else:
                child.replace(visit(child))
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
    return "number" if number or type(bare).__name__ in (*_ARITHMETIC, "Length") else None


def _raw(sql: str) -> exp.Expr:
    """SQL of our own as a part of an expression."""
    from sqlglot import exp

    return exp.Var(this=f"({sql})")
