"""Rules: constraints in real values, as [[forbidden]], [[allowed]] and [[depends]] of a schema file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from hush.core.arrays import Integers
from hush.core.constraints import LARGEST_TABLE, MOST_AXES, Constraint, check_cells
from hush.core.domain import Clique
from hush.core.errors import HushError, SchemaError, SizeError
from hush.schema.conditions import Conditions
from hush.schema.schema import Schema
from hush.schema.section import SchemaSection

FORBIDDEN, ALLOWED, DEPENDS = "forbidden", "allowed", "depends"
RULE_KINDS = (FORBIDDEN, ALLOWED, DEPENDS)
FROM_PRIVATE_DATA = "from_private_data"  # the key that marks a column or a rule as drafted from the rows
MOST_WRITTEN = 2**27  # cells that all rules of a schema may write, repeated ones included
_ROWS_ADVICE = "list combinations, one value for each column"


class Rules:
    """Turns rows of conditions (`hush.schema.conditions`) into constraints of one schema.

    >>> from hush.schema import Categorical, Integer
    >>> marital = Categorical(name="marital", values=("single", "married", "widowed"))
    >>> rules = Rules(Schema([Integer(name="age", low=0, high=99), marital]))
    >>> rules.forbidden(["age", "marital"], [[{"to": 14}, ["married", "widowed"]]])
    Constraint(age × marital: 30 of 300 combinations forbidden)
    """

    __slots__ = ("_cells", "_cliques", "_conditions", "_domain", "_schema", "_written")

    def __init__(self, schema: Schema) -> None:
        self._schema, self._domain = schema, schema.domain
        self._conditions: dict[str, Conditions] = {}
        self._cliques: set[Clique] = set()
        self._cells = self._written = 0

    def forbidden(self, columns: Iterable[str], rows: Iterable[Sequence[Any]]) -> Constraint:
        """No row of a table matches one of these rows."""
        return self._listed(columns, rows, possible=False)

    def allowed(self, columns: Iterable[str], rows: Iterable[Sequence[Any]]) -> Constraint:
        """Every row of a table matches one of these rows."""
        return self._listed(columns, rows, possible=True)

    def depends(self, column: str, on: str | Iterable[str], rows: Iterable[Sequence[Any]]) -> Constraint:
        """Each row gives values of the columns `on`, then the one value of `column` that they determine.

        For combinations that match no row, any value of `column` is possible.
        """
        names = self._checked((*((on,) if isinstance(on, str) else on), column))
        if len(names) == 1:
            raise SchemaError(f"column {column!r} depends on no column; name the ones that determine it")
        *shape, size = self._domain.sizes(names)
        value = np.full(shape, -1, dtype=np.int32)
        for number, (*sources, determined) in self._boxes(names, rows, f"; a row gives {', then '.join(names)}"):
            if len(determined) != 1:
                raise SchemaError(
                    f"row {number}: column {column!r}: found {len(determined)} levels, expected the one that is "
                    "determined; use allowed for several"
                )
            box = np.ix_(*sources)
            before = value[box]
            if ((before >= 0) & (before != determined[0])).any():
                raise SchemaError(
                    f"row {number} gives column {column!r} a value other than a row before it; keep one of them"
                )
            value[box] = determined[0]
        free, equal = value[..., None] < 0, value[..., None] == np.arange(size)
        return Constraint.of_table(self._domain, names, free | equal)

    def _listed(self, columns: Iterable[str], rows: Iterable[Sequence[Any]], *, possible: bool) -> Constraint:
        names = self._checked(columns)
        table = np.full(self._domain.sizes(names), not possible)
        for _, box in self._boxes(names, rows):
            table[np.ix_(*box)] = possible
        return Constraint.of_table(self._domain, names, table)

    def _checked(self, columns: Iterable[str]) -> Clique:
        names = self._domain.check(columns)
        if not names:
            raise SchemaError("columns = []: expected at least one column")
        clique = self._domain.clique(names)
        size = self._domain.size(clique)
        if clique not in self._cliques:
            self._cliques.add(clique)
            self._cells += size
            if self._cells > LARGEST_TABLE or len(clique) > MOST_AXES:
                check_cells(self._domain, self._cliques)
        self._count(size)
        return names

    def _count(self, cells: int) -> None:
        """Refuse rules that together write far more cells than their tables have."""
        self._written += cells
        if self._written > MOST_WRITTEN:
            raise SizeError(
                f"the rules so far list more than {MOST_WRITTEN:,} combinations in all; list each combination once, "
                "in as few rules as possible"
            )

    def _boxes(
        self, names: Clique, rows: Iterable[Sequence[Any]], order: str = ""
    ) -> Iterable[tuple[int, list[Integers]]]:
        """For each row, its number from 1 and the codes that it names on each column; `order` ends error messages."""
        for name in names:
            if name not in self._conditions:
                self._conditions[name] = Conditions(self._schema[name])
        number = 0
        for number, row in enumerate(rows, start=1):
            listed = isinstance(row, Sequence) and not isinstance(row, str)
            if not listed or len(row) != len(names):
                problem = f"found {len(row)} values" if listed else "found no list"
                raise SchemaError(f"row {number}: {problem}, expected a list of {len(names)}, for {', '.join(names)}")
            try:
                box = [self._conditions[name].codes(item) for name, item in zip(names, row, strict=True)]
            except SchemaError as error:
                raise SchemaError(f"row {number}: {error}{order}") from None
            self._count(math.prod(map(len, box)))
            yield number, box
        if not number:
            raise SchemaError(f"rows is empty; {_ROWS_ADVICE}, or remove the rule")


def read_rules(schema: Schema, top: SchemaSection) -> list[Constraint]:
    """The constraints that a document states about the columns of a schema."""
    rules, constraints = Rules(schema), []
    for kind in RULE_KINDS:
        if isinstance(top.entries.get(kind), Mapping):
            raise SchemaError(f"[{kind}] is in single brackets; write [[{kind}]], once for each rule")
        for number, entries in enumerate(top.items(kind, "") if kind in top else [], start=1):
            where = f"[[{kind}]] number {number}"
            section = SchemaSection(where, entries)
            try:
                if kind == DEPENDS:
                    section.only(("column", "on", "rows", FROM_PRIVATE_DATA))
                    section.require("column", "name the column that is determined")
                    on = section.require("on", 'name the columns that determine it, such as on = ["city"]')
                    sources = on if isinstance(on, str) else section.items("on", "")
                    rows = section.items("rows", "list the values of `on`, then the one of `column`")
                    rule = rules.depends(section.text("column", ""), sources, rows)
                else:
                    section.only(("columns", "rows", FROM_PRIVATE_DATA))
                    columns = section.items("columns", 'name the columns, such as columns = ["age", "marital"]')
                    rows = section.items("rows", _ROWS_ADVICE)
                    rule = (rules.forbidden if kind == FORBIDDEN else rules.allowed)(columns, rows)
                constraints.append(replace(rule, from_private_data=section.flag(FROM_PRIVATE_DATA)))
            except HushError as error:
                message = str(error)
                raise SchemaError(message if message.startswith(where) else f"{where}: {message}") from None
    return constraints


def written_rules(schema: Schema) -> list[tuple[str, Constraint, list[list[Any]]]]:
    """Each constraint with its kind, forbidden or allowed, whichever has fewer combinations, and its rows as boxes."""
    written = []
    for constraint in schema.constraints:
        kind = FORBIDDEN if 2 * constraint.forbidden <= constraint.cells else ALLOWED
        cells = np.argwhere(constraint.allowed if kind == ALLOWED else ~constraint.allowed)
        conditions = [Conditions(schema[name]) for name in constraint.clique]
        rows = [[on.written(codes) for on, codes in zip(conditions, box, strict=True)] for box in _boxes(cells)]
        written.append((kind, constraint, rows))
    return written


def _boxes(cells: Integers) -> list[list[Integers]]:
    """Combinations in lexicographic order as disjoint boxes: prefixes with the same set of last codes are joined."""
    if cells.shape[1] == 1:
        return [[cells[:, 0]]]
    changes = np.flatnonzero((cells[1:, :-1] != cells[:-1, :-1]).any(axis=1)) + 1
    alike: dict[bytes, list[int]] = {}
    for first, end in pairwise([0, *changes.tolist(), len(cells)]):
        alike.setdefault(cells[first:end, -1].tobytes(), []).append(first)
    boxes: list[list[Integers]] = []
    for last, starts in alike.items():
        codes = np.frombuffer(last, dtype=cells.dtype)
        boxes.extend([*box, codes] for box in _boxes(cells[starts, :-1]))
    return boxes
