"""The columns of answers: the groups that label a row, and the estimates in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import QueryError
from hush.release.intervals import Ends, Intervals, JoinedIntervals, NormalIntervals
from hush.schema import Column, Date, Granularity
from hush.schema.column import MISSING_LABEL, Value
from hush.schema.column_kinds import clamp_note, clamps
from hush.schema.schema import decode_column

if TYPE_CHECKING:
    import pyarrow as pa

Codes = np.ndarray[Any, np.dtype[np.integer[Any]]]


class ErrorKind(StrEnum):
    """What a standard error or an interval is based on."""

    EXACT = "exact"  # the variance follows from the noise alone
    APPROXIMATE = "approximate"  # of ratios: the delta method, and intervals of the same linear form
    MODEL = "model"  # the estimate is that of a model, the error and the interval are those of the noisy tables
    NOISE = "noise"  # of the noise alone: what is treated as alike may not be, and that error is not in it
    BINNED = "binned"  # values known up to their bins: the interval includes these, the standard error does not
    BOUND = "bound"  # the variance, or the width of the interval, is an upper bound
    NONE = "none"  # neither a standard error nor an interval is positive


@dataclass(frozen=True, slots=True, eq=False)
class GroupColumn:
    """The level of one column of the schema in every row."""

    name: str
    column: Column
    codes: Codes  # (rows,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", frozen(self.codes.astype(self.column.dtype)))

    def values(self) -> pa.Array:
        """Real values: null for missing, "other" for other, the first day of a date level, the label of a bin."""
        import pyarrow as pa

        if not self.column.binned:
            return decode_column(self.column, self.codes)
        labels = [self.column.label(code) for code in range(self.column.levels)]
        return pa.array([*labels, *[None] * self.column.missing], pa.string()).take(pa.array(self.codes))

    def label(self, row: int) -> str:
        """The text of a row."""
        return self.column.label(int(self.codes[row]))

    def take(self, rows: Codes) -> GroupColumn:
        """The chosen rows, in the order given."""
        return GroupColumn(self.name, self.column, self.codes[rows])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, GroupColumn)
            and (self.name, self.column) == (other.name, other.column)
            and np.array_equal(self.codes, other.codes)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, eq=False)
class QueryColumn:
    """Which of several queries, or values of an expression, each row answers, by its label."""

    name: str
    labels: tuple[Value, ...]
    codes: Codes  # (rows,), indices into the labels

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", frozen(self.codes.astype(np.int64)))

    def values(self) -> pa.Array:
        """The labels: texts, or values of one kind and null."""
        import pyarrow as pa

        labels = pa.array(self.labels)
        return (labels.cast(pa.string()) if pa.types.is_null(labels.type) else labels).take(pa.array(self.codes))

    def label(self, row: int) -> str:
        """The text of a row."""
        label = self.labels[int(self.codes[row])]
        return MISSING_LABEL if label is None else str(label)

    def take(self, rows: Codes) -> QueryColumn:
        """The chosen rows, in the order given."""
        return QueryColumn(self.name, self.labels, self.codes[rows])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueryColumn) and self.name == other.name and self.values().equals(other.values())

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """One estimate per row with its standard error, NaN where there is none, and its interval.

    Without `intervals` they are estimate ± z std_error.
    """

    name: str
    estimate: Floats  # (rows,)
    std_error: Floats  # (rows,)
    error_kind: ErrorKind = ErrorKind.EXACT
    intervals: Intervals = None  # type: ignore[assignment]  # set below
    named: bool = False  # by an alias, which is then the name of the column of its estimates

    def __post_init__(self) -> None:
        object.__setattr__(self, "error_kind", check_error_kind(self.error_kind))
        for field in ("estimate", "std_error"):
            object.__setattr__(self, field, frozen(np.array(getattr(self, field), dtype=np.float64)))
        if self.estimate.ndim != 1 or self.estimate.shape != self.std_error.shape:
            raise QueryError(f"value {self.name!r}: expected one estimate and one standard error for each row")
        if self.intervals is None:
            object.__setattr__(self, "intervals", NormalIntervals(self.estimate, self.std_error))
        if len(self.intervals) != len(self.estimate):
            raise QueryError(f"value {self.name!r}: expected one interval for each row, NaN where there is none")

    @property
    def known(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which rows have an interval."""
        return np.asarray(np.isfinite(self._ends()[0]))

    @property
    def bounded(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which rows have an interval from a bound, and no standard error."""
        if self.intervals.level is None:
            return np.zeros(self.estimate.shape, dtype=bool)
        return np.asarray(np.isnan(self.std_error) & self.known)

    def row_error_kinds(self) -> np.ndarray[Any, Any]:
        """The kind of error in each row: `bound` if its interval comes from a bound, `none` if it has none."""
        kinds = np.where(self.bounded, ErrorKind.BOUND.value, self.error_kind.value)
        return np.where(np.isnan(self.std_error) & ~self.known, ErrorKind.NONE.value, kinds)

    @property
    def has_errors(self) -> bool:
        """Whether any error is known; if not, only estimates are shown."""
        return self.error_kind is not ErrorKind.NONE or bool(self.bounded.any())

    @property
    def has_std_errors(self) -> bool:
        """Whether to show standard errors: not where only intervals are known."""
        only_intervals = bool(self.known.any()) and bool(np.isnan(self.std_error).all())
        return self.error_kind is not ErrorKind.NONE and not only_intervals

    def decimals(self, rows: int) -> int:
        """Decimals that show three digits of the typical error in the first rows, or of the estimates if it is zero."""
        lower, upper = (ends[:rows] for ends in self._ends())
        half_widths = np.subtract(upper, lower, where=np.isfinite(lower), out=np.full(lower.shape, np.nan)) / 2
        errors = np.where(np.isnan(self.std_error[:rows]), half_widths, self.std_error[:rows])
        positive = errors[np.isfinite(errors) & (errors > 0)]
        if not len(positive):
            finite = np.abs(self.estimate[:rows][np.isfinite(self.estimate[:rows])])
            if not len(finite) or np.all(finite == np.round(finite)):
                return 0
            positive = finite[finite > 0]
        middle = np.sort(positive)[[(len(positive) - 1) // 2, len(positive) // 2]]  # np.median would load numpy.ma
        return min(max(2 - math.floor(math.log10(float(np.mean(middle)))), 0), 12)

    def take(self, rows: Codes) -> Quantity:
        """The chosen rows, in the order given."""
        return replace(
            self, estimate=self.estimate[rows], std_error=self.std_error[rows], intervals=self.intervals.take(rows)
        )

    def _ends(self) -> Ends:
        """Both ends of the intervals, at the level they hold at or at 95 %."""
        return self.intervals.at(0.95 if self.intervals.level is None else self.intervals.level)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Quantity)
            and (self.name, self.error_kind, self.intervals.level)
            == (other.name, other.error_kind, other.intervals.level)
            and np.array_equal(self.estimate, other.estimate, equal_nan=True)
            and np.array_equal(self.std_error, other.std_error, equal_nan=True)
            and all(np.array_equal(*ends, equal_nan=True) for ends in zip(self._ends(), other._ends(), strict=True))
        )

    __hash__ = None  # type: ignore[assignment]


def check_error_kind(name: str) -> ErrorKind:
    """The kind of error by its name."""
    try:
        return ErrorKind(name)
    except ValueError:
        raise QueryError(f"error_kind = {name!r}: expected one of {', '.join(ErrorKind)}") from None


def group_notes(columns: Iterable[Column]) -> list[str]:
    """Notes on what the levels of the grouped columns mean."""
    notes = []
    for column in columns:
        if isinstance(column, Date) and column.granularity is Granularity.WEEK:
            notes.append(
                f"{column.name}: a level is a week and its value is the first day in it; weeks start on "
                f"{column.start:%A}s, as the first day of the schema does."
            )
        elif isinstance(column, Date) and column.granularity is not Granularity.DAY:
            notes.append(f"{column.name}: a level is a {column.granularity} and its value is the first day in it.")
        if clamps(column):
            notes.append(clamp_note(column))
    return notes


def frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array, made read-only."""
    array.setflags(write=False)
    return array


def joined(pieces: Sequence[Quantity]) -> Quantity:
    """The rows of several quantities one after the other."""
    estimate, std_error = (np.concatenate([getattr(each, key) for each in pieces]) for key in ("estimate", "std_error"))
    intervals = JoinedIntervals(tuple(each.intervals for each in pieces), tuple(len(each.estimate) for each in pieces))
    return Quantity(pieces[0].name, estimate, std_error, pieces[0].error_kind, intervals)
