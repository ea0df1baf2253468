"""Answers: estimates with their standard errors and intervals, one row per group.

The columns of answers are groups, which label the rows, and quantities, the estimates in them.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from hush.core.arrays import Booleans, Floats
from hush.core.domain import Clique
from hush.core.errors import DomainError, QueryError, shown
from hush.core.validation import check_choice, check_number
from hush.inference.intervals import (
    Ends,
    ErrorMargins,
    FixedIntervals,
    Intervals,
    JoinedIntervals,
    NoiseIntervals,
    Rows,
)
from hush.render.text_table import TEXT_WIDTH, TextColumn, TextTable, fixed_text, number_columns
from hush.schema import Column, Date, Granularity, Schema
from hush.schema.column import MISSING_LABEL, Value
from hush.schema.column_kinds import clamp_note, clamps
from hush.schema.schema import decode_column, extra

if TYPE_CHECKING:
    import pyarrow as pa


class ErrorKind(StrEnum):
    """What a standard error or an interval is based on."""

    EXACT = "exact"  # the variance follows from the noise alone
    APPROXIMATE = "approximate"  # for ratios: the delta method, and intervals of the same linear form
    MODEL = "model"  # the estimate comes from a model, the error and the interval from the noisy tables
    NOISE = "noise"  # of the noise and chance; excludes the error of treating different levels alike
    BINNED = "binned"  # values are known up to their bins: the interval includes the bins, the standard error does not
    BOUND = "bound"  # an upper bound on the variance, or on the width of the interval
    NONE = "none"  # neither a standard error nor an interval is known


VALUE_COLUMNS = ("estimate", "std_error", "lower", "upper", "basis")
TEXT_ROWS, HTML_ROWS = 20, 50  # rows shown
ERROR_KINDS = {
    ErrorKind.EXACT: "exact",
    ErrorKind.APPROXIMATE: "approximate (delta method)",
    ErrorKind.MODEL: "of the noisy tables; the estimates are those of the fitted model",
    ErrorKind.NOISE: "of the noise, leaving out bias",
    ErrorKind.BINNED: "of the noise, leaving out bias (intervals include the width of the bins)",
    ErrorKind.BOUND: "an upper bound",
}


@dataclass(frozen=True, slots=True, eq=False)
class GroupColumn:
    """The level of one column of the schema in every row."""

    name: str
    column: Column
    codes: Rows

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", frozen(self.codes.astype(self.column.dtype)))

    def values(self) -> pa.Array:
        """Real values: null for missing, "other" for other, the first day of a date range, the label of a bin."""
        import pyarrow as pa

        if not self.column.binned:
            return decode_column(self.column, self.codes)
        labels = [self.column.label(code) for code in range(self.column.levels)]
        return pa.array([*labels, *[None] * self.column.missing], pa.string()).take(pa.array(self.codes))

    def label(self, row: int) -> str:
        """The text of a row."""
        return self.column.label(int(self.codes[row]))

    def take(self, rows: Rows) -> GroupColumn:
        """The chosen rows, in the order given."""
        return replace(self, codes=self.codes[rows])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, GroupColumn)
            and (self.name, self.column) == (other.name, other.column)
            and np.array_equal(self.codes, other.codes)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, eq=False)
class QueryColumn:
    """Which of several queries, or which value of an expression, each row is about."""

    name: str
    labels: tuple[Value, ...]
    codes: Rows  # indices into the labels

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", frozen(self.codes.astype(np.int64)))

    def values(self) -> pa.Array:
        """The labels of all rows: texts, or values of one kind and null."""
        import pyarrow as pa

        labels = pa.array(self.labels)
        return (labels.cast(pa.string()) if pa.types.is_null(labels.type) else labels).take(pa.array(self.codes))

    def label(self, row: int) -> str:
        """The text of a row."""
        label = self.labels[int(self.codes[row])]
        return MISSING_LABEL if label is None else str(label)

    def take(self, rows: Rows) -> QueryColumn:
        """The chosen rows, in the order given."""
        return replace(self, codes=self.codes[rows])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueryColumn) and self.name == other.name and self.values().equals(other.values())

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """One estimate per row with its standard error, NaN where there is none, and its interval.

    `intervals` are estimate ± z std_error by default.
    """

    name: str
    estimate: Floats  # (rows,)
    std_error: Floats  # (rows,)
    error_kind: ErrorKind = ErrorKind.EXACT
    intervals: Intervals = None  # type: ignore[assignment]  # set below
    named: bool = False  # whether an alias names it, which then heads the column of its estimates

    def __post_init__(self) -> None:
        object.__setattr__(self, "error_kind", check_error_kind(self.error_kind))
        for field in ("estimate", "std_error"):
            object.__setattr__(self, field, frozen(np.array(getattr(self, field), dtype=np.float64)))
        if self.estimate.ndim != 1 or self.estimate.shape != self.std_error.shape:
            raise QueryError(f"value {self.name!r}: expected one estimate and one standard error for each row")
        if self.intervals is None:
            object.__setattr__(self, "intervals", NoiseIntervals.normal(self.estimate, self.std_error))
        if len(self.intervals) != len(self.estimate):
            raise QueryError(f"value {self.name!r}: expected one interval for each row, NaN where there is none")

    @property
    def known(self) -> Booleans:
        """Which rows have an interval."""
        return np.asarray(np.isfinite(self._ends()[0]))

    @property
    def bounded(self) -> Booleans:
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
        """Decimals that show two digits of the typical error of some rows, or three of estimates without errors."""
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
        last_digit = 2 if self.error_kind is ErrorKind.NONE else 1
        return min(max(last_digit - math.floor(math.log10(float(np.mean(middle)))), 0), 12)

    def take(self, rows: Rows) -> Quantity:
        """The chosen rows, in the order given."""
        return replace(
            self, estimate=self.estimate[rows], std_error=self.std_error[rows], intervals=self.intervals.take(rows)
        )

    def _ends(self) -> Ends:
        """Both ends of the intervals, at the only level at which they hold or else at 95 %."""
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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Answers:
    """Rows of group labels, each with one or more estimates.

    An interval is two-sided and contains the truth with probability at least `level`: estimate ± the quantile of the
    exact, discrete law of its noise; for sums of many numbers the normal quantile plus half a step. Ratios use
    Fieller's method, which gives a wide interval to a group with few rows. Intervals are not cut at zero: a noisy
    estimate may be negative, and only the uncut estimate is unbiased. Rows of `basis` `model` are the exception: their
    estimate comes from a fitted model, and their interval from the noisy tables, cut at zero. A row of `basis` `bound`
    without a standard error has an interval from a bound on the error, which holds at this level.

    With one value the columns are the groups, then `estimate, std_error, lower, upper, basis`. With several, the name
    of the value comes first: `count_estimate, count_std_error, ...`. A value with an alias n has the columns
    `n, n_std_error, n_lower, n_upper, n_basis`, even if it is the only value; `answers["n"]` is that value alone.

    >>> from hush.schema import Categorical
    >>> schema = Schema([Categorical(name="sex", values=("f", "m"))])
    >>> Answers.of_marginal(schema, ("sex",), [1234.5, 987.0], 151.3)
    sex       count   95 % interval
    f    1,234 ± 12  1,210 to 1,259
    m      987 ± 12    963 to 1,011
    ± one standard error, exact
    """

    groups: tuple[GroupColumn | QueryColumn, ...]
    quantities: tuple[Quantity, ...]
    level: float = 0.95
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", check_level(self.level))
        for field in ("groups", "quantities", "notes"):
            object.__setattr__(self, field, tuple(getattr(self, field)))
        if not self.quantities:
            raise QueryError("answers without a value; give at least one quantity")
        names = [*(group.name for group in self.groups), *self.names]
        if len(set(names)) != len(names):
            raise QueryError(f"two columns of the answers share a name among {shown(names)}; rename one")
        lengths = {len(quantity.estimate) for quantity in self.quantities} | {len(group.codes) for group in self.groups}
        if len(lengths) > 1:
            raise QueryError("the columns of the answers differ in length; give one entry per row for each")

    @classmethod
    def of_marginal(
        cls,
        schema: Schema,
        clique: Clique,
        counts: ArrayLike,
        variances: ArrayLike | None,
        level: float = 0.95,
        *,
        error_kind: str = ErrorKind.EXACT,
        notes: Iterable[str] = (),
        name: str = "count",
        margin: float | None = None,
        margins: ErrorMargins | None = None,
    ) -> Answers:
        """Every cell of a table of counts; `variances` may be one number for all cells, or None if unknown.

        `margin` bounds the error of any cell at the level if no variance is known; `margins` come from the laws of the
        noise if these are known.
        """
        # Counts and variances must have the shape of the table.
        shape = schema.domain.sizes(clique)
        estimates = np.array(counts, dtype=np.float64)
        if estimates.shape != shape:
            raise DomainError(f"counts of shape {estimates.shape} for the table {clique!r}: expected {shape}")
        spread = np.full((), np.nan) if variances is None else np.asarray(variances, dtype=np.float64)
        if spread.shape not in {(), shape}:
            raise DomainError(
                f"variances of shape {spread.shape} for the table {clique!r}: expected {shape} or one number"
            )
        # Intervals from the laws of the noise, from a bound, or from the normal distribution.
        errors = np.broadcast_to(np.sqrt(np.maximum(spread, 0.0)), shape)
        cells = estimates.ravel()
        intervals: Intervals = NoiseIntervals.normal(cells, errors.ravel())
        if margin is not None:
            intervals = FixedIntervals(cells - margin, cells + margin, check_level(level))
        elif margins is not None:
            intervals = NoiseIntervals(cells, margins)
        value = Quantity(spare(name, clique), cells, errors.ravel(), check_error_kind(error_kind), intervals)
        # One row for every cell, labelled with its levels.
        columns = [schema[name] for name in clique]
        codes = np.unravel_index(np.arange(estimates.size), shape) if shape else ()
        return cls(
            groups=tuple(GroupColumn(column.name, column, code) for column, code in zip(columns, codes, strict=True)),
            quantities=(value,),
            level=level,
            notes=(*group_notes(columns), *notes),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the values."""
        return tuple(quantity.name for quantity in self.quantities)

    @property
    def labels(self) -> dict[str, list[Value]]:
        """Each group column as real values: null for missing, "other" for other, bins and queries by their label."""
        return {group.name: group.values().to_pylist() for group in self.groups}

    @property
    def codes(self) -> dict[str, Rows]:
        """Each group column as codes of the schema; for queries of a workload, indices into their labels."""
        return {group.name: group.codes for group in self.groups}

    @property
    def estimate(self) -> Floats:
        """The estimates."""
        return self._single().estimate

    @property
    def std_error(self) -> Floats:
        """The standard errors."""
        return self._single().std_error

    @property
    def lower(self) -> Floats:
        """The lower ends of the intervals."""
        return self.interval(self._single())[0]

    @property
    def upper(self) -> Floats:
        """The upper ends of the intervals."""
        return self.interval(self._single())[1]

    @property
    def basis(self) -> np.ndarray[Any, Any]:
        """The kind of error in each row: exact, approximate, bound or none."""
        return self._single().row_error_kinds()

    def interval(self, quantity: Quantity) -> Ends:
        """Both ends of the interval of each row."""
        return quantity.intervals.at(self.level)

    def at_level(self, level: float) -> Answers:
        """The same answers with intervals at another level; refused for intervals from bounds, which hold at one."""
        for quantity in self.quantities:
            quantity.intervals.at(check_level(level))
        return replace(self, level=level)

    def take(self, rows: Rows) -> Answers:
        """The chosen rows, in the order given."""
        return replace(
            self,
            groups=tuple(group.take(rows) for group in self.groups),
            quantities=tuple(quantity.take(rows) for quantity in self.quantities),
        )

    def __getitem__(self, name: str) -> Answers:
        for quantity in self.quantities:
            if quantity.name == name:
                return replace(self, quantities=(quantity,))
        raise QueryError(f"no value is called {shown(name)}; the answers have {', '.join(self.names)}")

    def to_dict(self) -> dict[str, Any]:
        """Everything as texts, numbers and lists, for JSON: None for unknown numbers, dates in ISO form.

        >>> from hush.schema import Categorical
        >>> schema = Schema([Categorical(name="sex", values=("f", "m"))])
        >>> Answers.of_marginal(schema, ("sex",), [12.5, 7.0], None).to_dict()["rows"][1]
        {'sex': 'm', 'estimate': 7.0, 'std_error': None, 'lower': None, 'upper': None, 'basis': 'none'}
        """
        return {
            "groups": [group.name for group in self.groups],
            "values": list(self.names),
            "level": self.level,
            "rows": [{name: _plain(value) for name, value in row.items()} for row in self],
            "notes": list(self.notes),
        }

    def to_arrow(self) -> pa.Table:
        """All columns as an Arrow table."""
        import pyarrow as pa

        columns: dict[str, Any] = {group.name: group.values() for group in self.groups}
        for quantity in self.quantities:
            lower, upper = self.interval(quantity)
            arrays = (quantity.estimate, quantity.std_error, lower, upper, quantity.row_error_kinds())
            for column, values in zip(VALUE_COLUMNS, arrays, strict=True):
                name = f"{quantity.name}_{column}"
                if quantity.named and column == "estimate":
                    name = quantity.name
                elif len(self.quantities) == 1 and not quantity.named:
                    name = column
                columns[spare(name, columns)] = pa.array(values)
        return pa.table(columns)

    def to_pandas(self) -> Any:
        """All columns as a pandas DataFrame; integer labels stay integers even if some are missing."""
        import pyarrow as pa

        pandas = extra("pandas")
        return self.to_arrow().to_pandas(types_mapper={pa.int64(): pandas.Int64Dtype()}.get)

    def to_polars(self) -> Any:
        """All columns as a polars DataFrame."""
        return extra("polars").from_arrow(self.to_arrow())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        estimates = [quantity.estimate for quantity in self.quantities]
        array = estimates[0] if len(estimates) == 1 else np.stack(estimates, axis=1)
        target = array.dtype if dtype is None else np.dtype(dtype)
        if copy is False and target != array.dtype:
            raise ValueError(f"estimates as {target} need a copy; leave out copy=False")
        return array.astype(target, copy=bool(copy))

    def __len__(self) -> int:
        return len(self.quantities[0].estimate)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.to_arrow().to_batches(max_chunksize=1024):
            yield from batch.to_pylist()

    def __repr__(self) -> str:
        return self.text()

    def text(self, rows: int | None = None) -> str:
        """The first rows as a table of plain text, with all columns; about 20 lines by default.

        `answers.text(len(answers))` shows all rows.
        """
        wide = self.cells(TEXT_ROWS if rows is None else rows)
        lines = TEXT_ROWS if rows is None else rows * len(self.quantities)
        table = wide if len(self.quantities) == 1 or wide.width <= TEXT_WIDTH else self.stacked(lines)
        return table.text(max(TEXT_WIDTH, table.least_width))

    def _repr_html_(self) -> str:
        return self.cells(HTML_ROWS).html()

    def plot(self, *, kind: str = "auto", axes: Any = None) -> Any:
        """The answers with their intervals as a matplotlib plot, whose axes are returned, one for each value.

        `kind` is "bars", "lines" (with bands) or "shades" (a table of two columns, hatched where the interval reaches
        zero); "auto" chooses by the columns. Needs matplotlib: `pip install 'hush[plots]'`.
        """
        from hush.release.answer_plot import plot_answers

        return plot_answers(self, kind=kind, axes=axes)

    def cells(self, rows: int) -> TextTable:
        """The first rows as text, the kind of their errors, and the notes."""
        count = min(len(self), rows)
        columns = [TextColumn(heading=group.name, fit="clip") for group in self.groups]
        cells = [[group.label(row) for row in range(count)] for group in self.groups]
        for quantity in self.quantities:
            digits = quantity.decimals(count)
            columns.append(TextColumn(heading=quantity.name, align="right"))
            if quantity.has_std_errors:
                cells.append(_aligned_pairs(quantity.estimate, quantity.std_error, "±", count, digits, right=True))
            else:
                cells.append(_texts(quantity.estimate[:count], digits))
            if quantity.has_errors:
                columns.append(TextColumn(heading=f"{self._percent} interval", align="right"))
                cells.append(_aligned_pairs(*self.interval(quantity), "to", count, digits, right=False))
        more = f"... {len(self) - count:,} more rows" if len(self) > count else "" if len(self) else "(no rows)"
        notes = [self._error_line(), *(f"note: {note}" for note in self.notes)]
        return TextTable(columns=columns, rows=list(zip(*cells, strict=True)), more=more, notes=notes)

    def stacked(self, rows: int) -> TextTable:
        """The first rows as text, with a line for each value, so that all intervals fit."""
        count = min(len(self), max(rows // len(self.quantities), 1))
        lines: list[list[str]] = []
        parts = [replace(self, quantities=(quantity,)).cells(count).rows for quantity in self.quantities]
        for row in range(count):
            for number, (name, cells) in enumerate(zip(self.names, parts, strict=True)):
                labels, values = cells[row][: len(self.groups)], cells[row][len(self.groups) :]
                labels = labels if number == 0 else [""] * len(labels)
                lines.append([*labels, name, *values, *[""] * (2 - len(values))])
        columns = [TextColumn(heading=group.name, fit="clip") for group in self.groups]
        columns += [TextColumn(heading="value", fit="clip"), *number_columns("estimate", f"{self._percent} interval")]
        return replace(self.cells(count), columns=columns, rows=lines)

    @property
    def _percent(self) -> str:
        return f"{100 * self.level:.6g} %"

    def _error_line(self) -> str:
        """What the ± sign means, and where intervals without one come from."""
        kinds = dict.fromkeys(
            ERROR_KINDS[quantity.error_kind] for quantity in self.quantities if quantity.has_std_errors
        )
        bounded = [quantity.name for quantity in self.quantities if quantity.bounded.any()]
        clauses = [f"± one standard error, {' or '.join(kinds)}"] if kinds else []
        if bounded:
            whose = f" of {', '.join(bounded)}" if len(self.quantities) > 1 else ""
            clauses.append(f"intervals{whose} hold with {self._percent}, by a bound on the error of the whole table")
        held = [quantity.name for quantity in self.quantities if not quantity.has_std_errors and quantity.known.any()]
        of_noise = [quantity.name for quantity in self.quantities if quantity.error_kind is ErrorKind.NOISE]
        for plain, words in (
            ([name for name in held if name not in (*bounded, *of_noise)], f"hold with {self._percent}"),
            ([name for name in held if name in of_noise], "are of the noise, leaving out bias"),
        ):
            if plain:
                whose = f" of {', '.join(plain)}" if len(self.quantities) > 1 else ""
                clauses.append(f"intervals{whose} {words}; there is no standard error")
        return "; ".join(clauses) or "standard errors are not known"

    def _single(self) -> Quantity:
        if len(self.quantities) > 1:
            names = ", ".join(self.names)
            raise QueryError(
                f"the answers have several values ({names}); choose one, such as answers[{self.names[0]!r}]"
            )
        return self.quantities[0]


def _aligned_pairs(first: Floats, second: Floats, sign: str, count: int, digits: int, *, right: bool) -> list[str]:
    """Pairs of numbers, aligned at the sign between them; both ends of an interval have the same decimals."""
    if sign == "to":
        texts = _texts(np.concatenate([first[:count], second[:count]]), digits)
        befores, afters = texts[: len(texts) // 2], texts[len(texts) // 2 :]
    else:
        befores, afters = (_texts(numbers[:count], digits) for numbers in (first, second))
    before, after = (max(map(len, texts), default=0) for texts in (befores, afters))
    side = ">" if right else "<"
    return [f"{a:>{before}} {sign} {b:{side}{after}}" for a, b in zip(befores, afters, strict=True)]


def _texts(numbers: Floats, digits: int) -> list[str]:
    """Numbers with so many decimals, or with none if all of these would be zeros."""
    texts, zeros = [fixed_text(number, digits) for number in numbers], f".{'0' * digits}"
    whole = all(text.endswith(zeros) or not text[-1].isdigit() for text in texts)
    return [text.removesuffix(zeros) for text in texts] if whole else texts


def _plain(value: Any) -> Any:
    """A value in JSON form."""
    if isinstance(value, dt.date):
        return value.isoformat()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_level(level: float) -> float:
    """A level of confidence, strictly between 0 and 1."""
    return check_number(QueryError, "level", level, above=0, below=1, hint=", such as 0.95")


def spare(name: str, used: Iterable[str]) -> str:
    """The name, with a number appended if it is used already."""
    names, number = set(used), 1
    while (fresh := name if number == 1 else f"{name}_{number}") in names:
        number += 1
    return fresh


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
    if len(pieces) == 1:
        return pieces[0]
    estimate = np.concatenate([piece.estimate for piece in pieces])
    std_error = np.concatenate([piece.std_error for piece in pieces])
    intervals = JoinedIntervals(np.arange(len(estimate)), tuple(piece.intervals for piece in pieces))
    return Quantity(pieces[0].name, estimate, std_error, pieces[0].error_kind, intervals)


def check_error_kind(name: str) -> ErrorKind:
    """The kind of error by its name."""
    return ErrorKind(check_choice(QueryError, "error_kind", name, map(str, ErrorKind)))
