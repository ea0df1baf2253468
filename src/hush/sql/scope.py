"""Scope: the columns that names in a query refer to, and notes for the reader of its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sqlglot import ErrorLevel, exp

from hush.core.domain import Clique, Domain
from hush.core.errors import QueryError, close_match
from hush.schema import Categorical, Column, Schema
from hush.sql.formula import Cells, KnownSum, check_size

LONGEST_QUOTE = 60


class Scope:
    """The columns of the schema by name, the measured sums, and the notes collected while a query is read."""

    __slots__ = ("_columns", "_counted", "domain", "groups", "notes", "sums", "tables")

    def __init__(
        self,
        schema: Schema,
        tables: Iterable[str],
        sums: Iterable[KnownSum] = (),
        counted: Callable[[Clique], bool] = lambda _: True,
    ) -> None:
        self.sums = tuple(sums)
        self._counted = counted  # whether the counts over a clique are known with their errors
        self.groups: Clique = ()  # the columns of GROUP BY, once they are known
        self.domain: Domain = schema.domain
        self.tables = {table.casefold() for table in tables}
        self.notes: list[str] = []
        self._columns = {column.name: column for column in schema}

    def note(self, sentence: str) -> None:
        """Add a sentence for the reader of the answers, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def column(self, node: exp.Column) -> Column:
        """The column that a reference names; case matters only if two columns differ by case alone."""
        if isinstance(node.this, exp.Star):
            raise refusal(node, "name the columns")
        # Refuse a reference to another table, such as b.age if FROM names only a.
        names = [identifier.name for identifier in node.parts]
        if len(names) > 1 and names[-2].casefold() not in self.tables:
            whole = self.find(".".join(names))
            if whole is not None:
                raise QueryError(
                    f'column {whole.name!r} has a dot in its name; write it in double quotes: "{whole.name}"'
                )
            raise QueryError(
                f"{quote(node)} names the table {names[-2]!r}, which is not the one in FROM; a release holds one table"
            )
        column = self.find(node.name)
        if column is None:
            advice = nearest(node.name, self._columns)
            for other in self._columns.values():
                if (
                    isinstance(other, Categorical) and other.compared(node.name) in other.texts
                ):  # a value without quotes
                    text = node.name.replace("'", "''")
                    advice = f"it is a value of {other.name!r}: put texts in single quotes: '{text}'"
                    break
            raise QueryError(f"column {node.name!r} is not in the schema; {advice}")
        check_size(self.domain, (column.name,))
        return column

    def find(self, name: str) -> Column | None:
        """The column of a name, ignoring case unless several match; None if there is none."""
        if name in self._columns:
            return self._columns[name]
        alike = [known for known in self._columns if known.casefold() == name.casefold()]
        if len(alike) > 1:
            raise QueryError(f"column {name!r} may be any of {', '.join(alike)}; write it in the right case")
        return self._columns[alike[0]] if alike else None

    def cells(self, column: Column, values: Any) -> Cells:
        """Numbers over the codes of a column."""
        return Cells((column.name,), values, self.domain).reduced()

    def measured_sum(self, column: Column, where: Cells, power: int = 1) -> KnownSum | None:
        """The most accurate measured sum of a column over the rows of a condition in each group.

        A sum by the column's own bins comes last: it also needs the counts of bins, which have more noise.
        """
        needed = {*self.groups, *where.names}
        usable = (
            known
            for known in self.sums
            if known.grid.column == column.name and known.grid.power == power and needed <= set(known.clique)
        )
        return min(
            usable,
            key=lambda known: (known.grid.by_level, known.stddev**2 * self.domain.size(known.clique)),
            default=None,
        )

    def rows_sum(self, where: Cells) -> KnownSum | None:
        """A measured number of rows, from a column whose values are never missing."""
        needed = {*self.groups, *where.names}
        rows = (known for known in self.sums if known.grid.power == 0 and known.grid.missing is None)
        return next((known for known in rows if needed <= set(known.clique)), None)

    def named(self, name: str) -> Column:
        """The column of exactly this name."""
        return self._columns[name]

    def counts_known(self, names: Iterable[str]) -> bool:
        """Whether the counts by the groups and these columns are known with their errors."""
        return self._counted(self.domain.clique({*self.groups, *names}))


def quote(node: exp.Expr) -> str:
    """An expression of the query as one short line."""
    text = " ".join(node.sql(dialect="duckdb", unsupported_level=ErrorLevel.IGNORE).split())
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 3] + "..."


def refusal(node: exp.Expr, advice: str) -> QueryError:
    """The error for an unsupported expression of the query, with advice on what to write instead."""
    return QueryError(f"{quote(node)} is not supported in a query on a release; {advice}")


def nearest(name: str, known: Iterable[str]) -> str:
    """The closest of the known names, or the first few of them."""
    names = list(known)
    near = close_match(name, names)
    if near is not None:
        return f"did you mean {near!r}?"
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return f"known: {', '.join(names[:12])}{more}"
