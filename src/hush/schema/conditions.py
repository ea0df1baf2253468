"""Conditions: some levels of a column as people write them, turned into codes and back.

A condition is a value, which stands for the level that holds it; the label of a level in quotes; a range {from = ...,
to = ...}; "*" for every level; or a list of these. The ends of a range are those of the column's kind: both are
included for integers and dates, and both are edges for bins.
"""

from __future__ import annotations

import bisect
import datetime as dt
import re
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from hush.core.arrays import Integers
from hush.core.errors import SchemaError, close_match, shown
from hush.core.validation import is_whole
from hush.schema.column import MISSING_LABEL, OTHER_LABEL, Column, canonical
from hush.schema.column_kinds import Boolean, Categorical, Date, Granularity, Integer, Numeric, mark_of, short
from hush.schema.section import SchemaSection

ANY_LEVEL = "*"
MOST_VALUES_NAMED = 10  # in a message
_INTEGER_TEXT = re.compile(r"0|-?[1-9][0-9]{0,15}")
_EXPECTED_VALUE: dict[type[Column], str] = {
    Boolean: "true or false",
    Integer: "an integer or a range such as {from = 0, to = 9}",
    Numeric: "a number or a range such as {from = 0, to = 9}",
    Date: "a date such as 2020-01-31 or a range {from = ..., to = ...}",
}


class Conditions:
    """Reads and writes the conditions on one column.

    >>> age = Conditions(Integer(name="age", low=0, high=99, missing=True))
    >>> age.codes([{"to": 2}, 18, "(missing)"])
    array([  0,   1,   2,  18, 100])
    >>> age.written(range(90, 101))
    [{'from': 90, 'to': 99}, '(missing)']
    """

    __slots__ = ("_labels", "column")

    def __init__(self, column: Column) -> None:
        self.column = column
        special = {MISSING_LABEL: column.missing_code, OTHER_LABEL: column.other_code}
        self._labels: dict[str, int] = {label: code for label, code in special.items() if code is not None}
        if isinstance(column, Categorical):
            self._labels |= {text: code for code, text in enumerate(column.texts)}
        elif isinstance(column, Boolean):
            self._labels |= {"false": 0, "False": 0, "true": 1, "True": 1}
        elif column.binned:
            self._labels |= {column.label(code): code for code in range(column.levels)}

    def codes(self, condition: Any) -> Integers:
        """The codes that a condition stands for, in order."""
        if not isinstance(condition, list | tuple):
            codes = self._codes(condition)
            return np.arange(codes.start, codes.stop, dtype=np.int64)
        if not condition:
            self._refuse(condition, "is empty; list at least one level")
        if any(isinstance(item, list | tuple) for item in condition):
            self._refuse(condition, "holds another list; write one list")
        pieces: list[range] = []  # disjoint and in order, however often a list names a level
        for piece in sorted((self._codes(item) for item in condition), key=lambda piece: piece.start):
            if pieces and piece.start <= pieces[-1].stop:
                pieces[-1] = range(pieces[-1].start, max(pieces[-1].stop, piece.stop))
            else:
                pieces.append(piece)
        return np.concatenate([np.arange(piece.start, piece.stop, dtype=np.int64) for piece in pieces])

    def written(self, codes: Any) -> Any:
        """The shortest condition for some codes in increasing order; a list if it takes several pieces."""
        column, levels = self.column, [int(code) for code in codes]
        if len(levels) == column.size > 1 and ANY_LEVEL not in self._labels:
            return ANY_LEVEL
        ordinary = [code for code in levels if code < column.levels]
        pieces: list[Any] = []
        if isinstance(column, Integer | Numeric | Date):
            breaks = [0, *(k for k in range(1, len(ordinary)) if ordinary[k] != ordinary[k - 1] + 1), len(ordinary)]
            runs = [ordinary[a:b] for a, b in pairwise(breaks) if a < b]
            pieces = [piece for run in runs for piece in _ranges(column, run[0], run[-1])]
        else:
            pieces = [column.value(code) for code in ordinary]
        pieces += [column.label(code) for code in levels[len(ordinary) :]]
        return pieces[0] if len(pieces) == 1 else pieces

    def _codes(self, condition: Any) -> range:
        """The codes of one value, label, range or "*"."""
        column = self.column
        if isinstance(condition, str) and condition == ANY_LEVEL and ANY_LEVEL not in self._labels:
            return range(column.size)
        if not isinstance(condition, dict):
            code = self._code(condition.item() if isinstance(condition, np.generic) else condition)
            return range(code, code + 1)
        SchemaSection(f"column {column.name!r}", condition).only(("from", "to"))
        if not isinstance(column, Integer | Numeric | Date):
            self._refuse(condition, f"is a range, and a {column.kind} column has no order; list the values")
        if not condition:
            self._refuse(condition, 'has neither from nor to; give one of them, or write "*" for every level')
        first = self._end(column, condition["from"], upper=False) if "from" in condition else 0
        last = self._end(column, condition["to"], upper=True) if "to" in condition else column.levels
        if first >= last:
            self._refuse(condition, "holds no level; from must lie before to")
        return range(first, last)

    def _code(self, value: Any) -> int:
        whole = is_whole(value)
        day = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
        match self.column:
            case Categorical() if isinstance(value, str | bool | float) or day or (whole and abs(value) < 2**64):
                return self._labelled(canonical(value))
            case Boolean() if isinstance(value, bool):
                return int(value)
            case Integer() as column if whole:
                return column.code_of(value) if column.low <= value <= column.high else self._beyond(value)
            case Numeric() as column if whole or isinstance(value, float):
                return column.code_of(value) if column.low <= value <= column.high else self._beyond(value)
            case Date() as column if day:
                return column.ordinal(value) if column.start <= value <= column.end else self._beyond(value)
        if isinstance(value, str):
            return self._labelled(value)
        self._refuse(value, f"is none of its levels; {self._expected()}")

    def _labelled(self, text: str) -> int:
        """The code of the level with this label."""
        column = self.column
        if text in self._labels:
            return self._labels[text]
        if isinstance(column, Categorical) and column.compared(text) in self._labels:
            return self._labels[column.compared(text)]
        if isinstance(column, Integer) and _INTEGER_TEXT.fullmatch(text):
            return self._code(int(text))
        if isinstance(column, Date):
            code = bisect.bisect_left(range(column.levels), text, key=column.label)
            if code < column.levels and column.label(code) == text:
                return code
        if text in column.missing_values:
            self._refuse(text, f'means missing; write "{MISSING_LABEL}"')
        near = close_match(text, self._labels)
        hint = f"did you mean {near!r}? " if near else ""
        self._refuse(text, f"is none of its levels; {hint}{self._expected()}")

    def _expected(self) -> str:
        """What a message expects for a level: the type, or the first values of a categorical column."""
        column = self.column
        if not isinstance(column, Categorical):
            return f"expected {_EXPECTED_VALUE[type(column)]}"
        values = [shown(value) for value in column.values[:MOST_VALUES_NAMED]]
        more = [f"... ({column.levels:,} in all)"] if column.levels > MOST_VALUES_NAMED else []
        special = [shown(column.label(code)) for code in range(column.levels, column.size)]
        return f"expected one of its values: {', '.join([*values, *more, *special])}"

    def _end(self, column: Integer | Numeric | Date, value: Any, *, upper: bool) -> int:
        """The level that begins at a lower end, or the level after an upper end."""
        if isinstance(value, str):
            self._refuse(value, "is a text at the end of a range; write it without quotes")
        code = self._code(value)
        if isinstance(column, Numeric):
            mark = mark_of(column, value)
            if mark is None:
                low, high = column.ends(code)
                self._refuse(value, f"cuts the bin {column.label(code)}; write the edge {short(low)} or {short(high)}")
            return column.levels if upper and mark == column.high else column.code_of(mark)
        first, last = column.days(code) if isinstance(column, Date) else column.ends(code)
        if value != (last if upper else first):
            what = (
                f"{column.granularity} {first} to {last}" if isinstance(column, Date) else f"bin {column.label(code)}"
            )
            self._refuse(value, f"cuts the {what}; write {f'to = {last}' if upper else f'from = {first}'}")
        return code + upper

    def _beyond(self, value: Any) -> NoReturn:
        column: Any = self.column
        bounds = (column.start, column.end) if isinstance(column, Date) else (column.low, column.high)
        low, high = map(short, bounds) if isinstance(column, Numeric) else bounds
        self._refuse(value, f"lies outside {low} .. {high}; give a value inside")

    def _refuse(self, condition: Any, rule: str) -> NoReturn:
        raise SchemaError(f"column {self.column.name!r}: {_words(condition)} {rule}")


def _words(condition: Any) -> str:
    """A condition in a message."""
    match condition:
        case list() | tuple():
            return "the list"
        case dict():
            return f"{{{', '.join(f'{key} = {_words(end)}' for key, end in condition.items())}}}"
        case dt.date():
            return str(condition)
        case _:
            return shown(condition)


def _ranges(column: Integer | Numeric | Date, first: int, last: int) -> list[Any]:
    """The conditions for the levels first .. last."""
    match column:
        case Integer():
            begin, end = column.ends(first)[0], column.ends(last)[1]
            return [begin if begin == end else {"from": begin, "to": end}]
        case Date() if first == last and column.granularity is Granularity.DAY:
            return [column.value(first)]
        case Date() if first == last and column.granularity is not Granularity.WEEK:
            return [column.label(first)]
        case Date():
            return [{"from": column.days(first)[0], "to": column.days(last)[1]}]
    # A range of bins cannot begin or end just after a point, so levels next to a point are named by themselves.
    pieces: list[Any] = []
    behind: list[Any] = []
    if column.cut(first)[1]:
        pieces.append(column.label(first))
        first += 1
    if first <= last == column.levels - 2 and column.is_point(last + 1):
        behind.append(column.label(last))  # a range up to the upper bound would include the point there
        last -= 1
    if first <= last < column.levels - 1 and column.is_point(last):
        behind.append(short(column.value(last)))
        last -= 1
    if first == last and column.is_point(first):
        pieces.append(short(column.value(first)))
    elif first <= last:
        pieces.append({"from": short(column.cut(first)[0]), "to": short(column.cut(last + 1)[0])})
    return [*pieces, *behind]
