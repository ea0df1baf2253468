"""Aggregates: the items of SELECT as formulas of counts (COUNT, SUM, AVG, VARIANCE and arithmetic), and quantiles."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
from sqlglot import exp

from hush.core.arrays import Floats, Numbers
from hush.core.domain import Clique
from hush.core.errors import QueryError
from hush.schema import Boolean, Column, Date, Integer, Numeric
from hush.schema.column_kinds import clamp_note, clamps
from hush.sql.constants import constant_number, is_literal, literal_value
from hush.sql.formula import TRUE, UNKNOWN, Cells, Formula, KnownSum, Quotient, RowValue, SumPart, combine
from hush.sql.predicate import branches_of, conjunction, truth
from hush.sql.row_labels import map_values, values_of
from hush.sql.scalars import function_of
from hush.sql.scope import Scope, quote, refusal

FLOAT_TYPES = (exp.DataType.Type.DOUBLE, exp.DataType.Type.FLOAT)
INTEGER_TYPES = (exp.DataType.Type.INT, exp.DataType.Type.BIGINT)
VARIANCES = (exp.Variance, exp.VariancePop)
STANDARD_DEVIATIONS = (exp.Stddev, exp.StddevSamp, exp.StddevPop)  # not part of larger expressions
CONTINUOUS_QUANTILES = (exp.Median, exp.PercentileCont)  # which interpolate between two values in SQL
FINEST_SHARE = 10**9  # the largest denominator of a quantile's share
ARITHMETIC: dict[type[exp.Expr], Callable[..., Numbers]] = {exp.Add: np.add, exp.Sub: np.subtract, exp.Mul: np.multiply}
CONDITION_NODES = (exp.Predicate, exp.Not, exp.Boolean, exp.And, exp.Or)
SUPPORTED_EXPRESSIONS = (
    "COUNT, SUM, AVG, VARIANCE, and their sums, differences, multiples and ratios are supported; MEDIAN, QUANTILE and "
    "STDDEV by themselves"
)
ADVICE: dict[type[exp.Expr], str] = {
    exp.Window: "window functions are outside; compute them from the answers",
    exp.Subquery: "subqueries are outside; ask for each number in a query of its own",
    exp.Round: "leave it out and round the answers",
    exp.IntDiv: "write / for a ratio",
    exp.Mod: SUPPORTED_EXPRESSIONS,
    exp.Case: "put CASE inside an aggregate, such as SUM(CASE WHEN ... THEN 1 ELSE 0 END), or into GROUP BY too",
    exp.Extract: "put it into GROUP BY too",
    **dict.fromkeys(
        (exp.Min, exp.Max), "extremes cannot be read from counts; ask for the counts of the levels with GROUP BY"
    ),
    **dict.fromkeys(
        (exp.Median, exp.Quantile, exp.PercentileCont),
        "a quantile stands by itself, in no sum or ratio; compute with the answers",
    ),
    **dict.fromkeys(
        STANDARD_DEVIATIONS, "a standard deviation stands by itself, in no sum or ratio; compute with the answers"
    ),
}


def aggregate(node: exp.Expr, where: Cells, scope: Scope) -> Formula:
    """The formula of one aggregate over the rows that satisfy `where`."""
    if isinstance(node, exp.Filter):
        return aggregate(node.this, conjunction(where, truth(node.expression.this, scope)), scope)
    if isinstance(node, exp.CountIf):
        return _total(conjunction(where, truth(node.this, scope)), RowValue(_ones(scope)))
    if isinstance(node, VARIANCES):
        return _variance(node, where, scope)
    if not isinstance(node, exp.Count | exp.Sum | exp.Avg):
        raise refusal(node, "COUNT, SUM, AVG, VARIANCE, and MEDIAN and QUANTILE by themselves, are supported")
    _check_argument(node)
    inner = node.this
    if isinstance(node, exp.Count):
        everything = inner is None or isinstance(inner, exp.Star)
        value = RowValue(_ones(scope)) if everything else row_value(inner, scope, numeric=False)
        return _total(where, _present(value))
    measured = _measured_total(inner, where, scope)
    if isinstance(node, exp.Sum):
        return _total(where, row_value(inner, scope, numeric=True)) if measured is None else measured
    rows = _rows(inner, where, scope, measured=measured is not None)
    return (_total(where, row_value(inner, scope, numeric=True)) if measured is None else measured).over(rows)


def _measured_total(node: exp.Expr, where: Cells, scope: Scope, *, centred: bool = False) -> Formula | None:
    """The sum of a column from measured sums: unit x integers + centre x rows; None if it was not measured.

    With `centred`, the sum of distances from the centre, which needs no count.
    """
    inner = node.unnest()
    if not isinstance(inner, exp.Column) or not isinstance(column := scope.column(inner), Integer | Numeric):
        return None
    known = scope.measured_sum(column, where)
    if known is None:
        return None
    if clamps(column):
        scope.note(clamp_note(column))
    scope.note(f"{column.name}: from measured sums of its values, not from its levels.")
    centre = 0.0 if centred else known.grid.centres
    return _with_sum(known, column, where, scope, centre)


def _with_sum(known: KnownSum, column: Column, where: Cells, scope: Scope, centres: Any) -> Formula:
    """unit x integers + centre x rows, over the rows of a condition that have a value."""

    def by_level(numbers: Any, absent: float) -> Cells:
        values = np.empty(column.size)
        values[: column.levels] = numbers
        values[column.levels :] = absent
        return scope.cells(column, values)

    counted = _total(where, RowValue(by_level(centres, np.nan)))
    units = combine(_kept, where, by_level(known.grid.units, 0.0))
    if not known.grid.by_level:
        units = combine(_kept, where, Cells.constant(scope.domain, known.grid.units[0]))
    summed = SumPart(known, units)
    rows = _measured_rows(known.grid.column, counted, where, scope)
    if rows is None or not counted.coefficients.values.any():
        return replace(counted, sums=(summed,))
    middle = combine(_kept, where, Cells.constant(scope.domain, known.grid.centres[0]))
    return Formula(Cells.constant(scope.domain, 0.0), sums=(summed, SumPart(rows, middle)))


def _measured_rows(name: str, counted: Formula, where: Cells, scope: Scope) -> KnownSum | None:
    """The measured number of rows with a value, if counts with a known error do not give it; None otherwise."""
    if scope.counts_known(counted.names):
        return None
    column = scope.named(name)
    rows = scope.measured_sum(column, where, power=0)
    if rows is None and column.missing_code is None:  # all rows have a value, so any such column will do
        rows = scope.rows_sum(where)
    return rows


def _rows(node: exp.Expr, where: Cells, scope: Scope, *, measured: bool) -> Formula:
    """The number of rows that have a value, from counts or from measured sums."""
    counted = _total(where, _present(row_value(node, scope, numeric=False)))
    inner = node.unnest()
    if not measured or not isinstance(inner, exp.Column):
        return counted
    rows = _measured_rows(scope.column(inner).name, counted, where, scope)
    if rows is None:
        return counted
    ones = combine(_kept, where, _ones(scope))
    return Formula(Cells.constant(scope.domain, 0.0), sums=(SumPart(rows, ones),))


def _variance(node: exp.Expr, where: Cells, scope: Scope) -> Formula:
    """(sum (v - c)^2 - (sum (v - c))^2 / n) / (n - 1), or divided by n for VAR_POP, for any centre c."""
    _check_argument(node)
    inner = node.this.unnest()
    if not isinstance(inner, exp.Column):
        raise refusal(node, "give it a column")
    column = scope.column(inner)
    squares = scope.measured_sum(column, where, power=2)
    rows = _rows(inner, where, scope, measured=squares is not None)
    sample = not isinstance(node, exp.VariancePop | exp.StddevPop)
    first = None if squares is None else _measured_total(inner, where, scope, centred=True)
    # The sums of (v - c)^2 and of v - c: measured, or from counts with c the mean of the levels' middles.
    if squares is not None and first is not None and not first.sums[0].known.grid.by_level:
        above = [_with_sum(squares, column, where, scope, squares.grid.centres), first]
    else:
        notes = list(scope.notes)
        value = row_value(inner, scope, numeric=True)
        if value.low is not None:
            scope.notes[:] = notes  # without notes on intervals, which a variance does not have
        middle = float(np.nanmean(value.middle.values))
        distances = combine(lambda v: v - middle, value.middle)
        second = RowValue(*(combine(np.square, distances) for _ in range(1 if value.low is None else 3)))
        if value.low is not None:
            scope.note(
                f"{column.name}: only the bins were counted, so every value counts as the middle of its bin; the "
                "spread inside bins is left out, and there is no interval."
            )
        above = [_total(where, second), _total(where, RowValue(distances))]
    squared_sum = Quotient(-1.0, above[1], rows, power=2, positive=True)
    spread = replace(above[0], quotients=(squared_sum,))
    below = replace(rows, offset=-1.0) if sample else rows
    return Formula(Cells.constant(scope.domain, 0.0), 0.0, (Quotient(1.0, spread, below, positive=True),))


def row_value(node: exp.Expr, scope: Scope, *, numeric: bool) -> RowValue:
    """The number that one row adds, NaN for null; if not `numeric`, any number for a value that is present."""
    match node:
        case exp.Paren():
            return row_value(node.this, scope, numeric=numeric)
        case exp.Column():
            return _column_value(scope.column(node), scope, numeric)
        case exp.Null():
            return RowValue(Cells.constant(scope.domain, np.nan))
        case exp.Case() | exp.If() | exp.Coalesce() | exp.Nullif():
            branches, default = branches_of(node)
            value = row_value(default, scope, numeric=numeric)
            for condition, outcome in branches:
                value = row_value(outcome, scope, numeric=numeric).chosen(truth(condition, scope), value)
            return value
        case exp.Cast() if _keeps_values(node, scope):
            return row_value(node.this, scope, numeric=numeric)
    if isinstance(node, CONDITION_NODES):
        truths = truth(node, scope)
        return RowValue(combine(lambda t: np.where(t == UNKNOWN, np.nan, (t == TRUE).astype(np.float64)), truths))
    if is_literal(node):
        if not numeric and literal_value(node) is not None:
            return RowValue(_ones(scope))
        return RowValue(Cells.constant(scope.domain, float(constant_number(node))))
    by_value = _of_days(node, scope) or type(node) not in (*ARITHMETIC, exp.Neg, exp.Div)
    if not numeric and by_value and function_of(node) is not None:
        return _of_values(lambda value: np.nan if value is None else 1.0, node, scope)
    return _arithmetic(node, scope)


def _arithmetic(node: exp.Expr, scope: Scope) -> RowValue:
    """The number that one row adds, for an expression that computes with numbers."""
    if isinstance(node, exp.Neg):
        return row_value(node.this, scope, numeric=True).negative()
    function = ARITHMETIC.get(type(node))
    if function is not None and not _of_days(node, scope):
        first, second = (row_value(side, scope, numeric=True) for side in (node.this, node.expression))
        return first.with_other(function, second)
    if isinstance(node, exp.Div) and is_literal(node.expression):
        divisor = constant_number(node.expression)
        if divisor == 0:
            raise QueryError("division by zero; divide by a number other than 0")
        divided = row_value(node.this, scope, numeric=True).apply(lambda values: values / abs(divisor))
        return divided if divisor > 0 else divided.negative()
    if isinstance(node, exp.AggFunc):
        raise refusal(node, "an aggregate cannot stand inside another one")
    if function_of(node) is not None or isinstance(node, exp.Extract):

        def as_float(value: Any) -> float:
            if isinstance(value, str | dt.date):
                raise QueryError(f"{quote(node)} is not a number; COUNT it instead")
            return np.nan if value is None else float(value)

        return _of_values(as_float, node, scope)
    raise refusal(node, "add up columns, numbers, CASE WHEN ... THEN ... ELSE ... END, and their sums and products")


def _of_days(node: exp.Expr, scope: Scope) -> bool:
    """Whether an expression computes with dates."""
    return any(isinstance(scope.column(column), Date) for column in node.find_all(exp.Column))


def _column_value(column: Column, scope: Scope, numeric: bool) -> RowValue:
    """The number that a column adds; the middle of a bin, with its ends as bounds."""
    values = np.ones(column.size)
    ends: tuple[Numbers, ...] = ()
    if numeric:
        match column:
            case Integer() if not column.binned:
                values = np.arange(column.size, dtype=np.float64) + column.low
            case Boolean():
                values = np.arange(column.size, dtype=np.float64)
            case Integer() | Numeric():
                low, high = np.array([column.ends(code) for code in range(column.levels)], dtype=float).T
                values[: column.levels] = low / 2 + high / 2  # halved first, because the sum may overflow
                wide = np.flatnonzero(low < high)
                if wide.size:
                    ends = values.copy(), values.copy()
                    ends[0][: column.levels], ends[1][: column.levels] = low, high
                    scope.note(
                        f"{column.name}: only the bins were counted, so every value counts as the middle of its bin, "
                        f"such as {values[wide[0]]:g} in {column.label(int(wide[0]))}; the interval allows for any "
                        "value in the bins."
                    )
            case _:
                raise QueryError(f"column {column.name!r} is {column.kind} and cannot be added up; COUNT it instead")
        if clamps(column):
            scope.note(clamp_note(column))
    for numbers in (values, *ends):
        if column.missing_code is not None:
            numbers[column.missing_code] = np.nan
    return RowValue(*(scope.cells(column, numbers) for numbers in (values, *ends)))


def _keeps_values(node: exp.Cast, scope: Scope) -> bool:
    """Whether a cast changes no value: one to a float, or of a condition or whole number to an integer."""
    inner = node.this.unnest()
    if is_literal(node) or node.to.is_type(*FLOAT_TYPES):
        return not is_literal(node)
    whole = isinstance(inner, (*CONDITION_NODES, exp.Null))
    if isinstance(inner, exp.Column):
        whole = isinstance(scope.column(inner), Boolean | Integer)
    return whole and node.to.is_type(*INTEGER_TYPES)


def _check_argument(node: exp.Expr) -> None:
    """Refuse DISTINCT, several arguments, and a missing or starred argument other than COUNT(*)."""
    inner = node.this
    if isinstance(inner, exp.Distinct):
        raise refusal(
            node,
            "noisy counts do not show how many different values occur, because few are exactly 0; group by the column "
            "and see which counts are clearly above 0",
        )
    if node.expressions or isinstance(inner, exp.Order | exp.HavingMax):
        raise refusal(node, "give the aggregate one argument and nothing else")
    if isinstance(inner, exp.Star) and (not isinstance(node, exp.Count) or any(inner.args.values())):
        raise refusal(node, "write COUNT(*), or name a column")
    if inner is None and not isinstance(node, exp.Count):
        raise refusal(node, "name a column")


def _total(where: Cells, value: RowValue) -> Formula:
    """The sum over rows where the condition is true and the value is not null."""
    low, high = (None if side is None else combine(_kept, where, side) for side in (value.low, value.high))
    return Formula(combine(_kept, where, value.middle), low=low, high=high)


def _kept(where: Numbers, values: Numbers) -> Numbers:
    """The values where a condition is true, else 0; 0 for null."""
    return np.where((where == TRUE) & ~np.isnan(values), values, 0.0)


def _present(value: RowValue) -> RowValue:
    """1 for every value, null for null."""
    return RowValue(combine(lambda values: np.where(np.isnan(values), np.nan, 1.0), value.middle))


def _ones(scope: Scope) -> Cells:
    return Cells.constant(scope.domain, 1.0)


def _of_values(function: Callable[[Any], float], node: exp.Expr, scope: Scope) -> RowValue:
    """A number for the single value that an expression has in each cell."""
    numbers = map_values(function, values_of(node, scope, single=True))
    return RowValue(combine(lambda values: values.astype(np.float64), numbers))


def root_formula(node: exp.Expr, where: Cells, scope: Scope) -> Formula | None:
    """The variance of an item that is a standard deviation; None for other items."""
    inner = node.unnest()
    if isinstance(inner, exp.Filter) and isinstance(inner.this, STANDARD_DEVIATIONS):
        where, inner = conjunction(where, truth(inner.expression.this, scope)), inner.this
    return _variance(inner, where, scope) if isinstance(inner, STANDARD_DEVIATIONS) else None


def formula_of(node: exp.Expr, where: Cells, scope: Scope) -> Formula:
    """The formula of an item over the rows that satisfy `where`."""
    match node:
        case exp.Paren():
            return formula_of(node.this, where, scope)
        case exp.Add():
            return formula_of(node.this, where, scope).plus(formula_of(node.expression, where, scope))
        case exp.Sub():
            return formula_of(node.this, where, scope).plus(formula_of(node.expression, where, scope).times(-1.0))
        case exp.Neg() if not is_literal(node):
            return formula_of(node.this, where, scope).times(-1.0)
        case exp.Mul():
            left, right = (formula_of(side, where, scope) for side in (node.this, node.expression))
            if not left.constant and not right.constant:
                raise QueryError(f"{quote(node)} multiplies two aggregates; ask for each and multiply the answers")
            return right.times(left.offset) if left.constant else left.times(right.offset)
        case exp.Div():
            if is_literal(node.expression) and constant_number(node.expression) == 0:
                raise QueryError(f"{quote(node)} divides by zero; divide by a count, a sum or another number")
            divisor = node.expression.unnest()
            guard = divisor.expression if isinstance(divisor, exp.Nullif) else None
            if guard is not None and is_literal(guard) and constant_number(guard) == 0:
                divisor = divisor.this  # a divisor that may be zero has no answer anyway
            return formula_of(node.this, where, scope).over(formula_of(divisor, where, scope))
        case exp.Cast() if node.to.is_type(*FLOAT_TYPES, exp.DataType.Type.DECIMAL):
            return formula_of(node.this, where, scope)
        case exp.Cast() if not is_literal(node):
            raise refusal(node, "leave the cast out: answers are numbers with a fraction")
        case exp.Count() | exp.Sum() | exp.Avg() | exp.CountIf() | exp.Filter() | exp.Variance() | exp.VariancePop():
            return aggregate(node, where, scope)
        case exp.Column():
            column = scope.column(node)
            raise QueryError(
                f"column {column.name!r} stands outside an aggregate here; put it into GROUP BY, or COUNT it"
            )
    if is_literal(node):
        return Formula(Cells.constant(scope.domain, 0.0), float(constant_number(node)))
    raise refusal(node, ADVICE.get(type(node), SUPPORTED_EXPRESSIONS))


@dataclass(frozen=True, slots=True)
class QuantileItem:
    """The quantile of a column over the rows that all masks let through, one mask per attribute of the condition."""

    column: Integer | Numeric
    share: Fraction
    masks: Mapping[str, Floats]
    continuous: bool = False  # whether SQL would interpolate between two values

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """The least and the largest value of each level that has numbers."""
        low, high = np.array([self.column.ends(code) for code in range(self.column.levels)], dtype=float).T
        return low, high

    @property
    def binned(self) -> bool:
        """Whether some level holds several values."""
        low, high = self.ends
        return bool((low < high).any())

    def clique(self, groups: Clique) -> Clique:
        """The clique of the table it is computed from."""
        return (*groups, self.column.name, *(name for name in self.masks if name not in (*groups, self.column.name)))


def quantile_item(node: exp.Expr, where: Cells, scope: Scope) -> QuantileItem | None:
    """The quantile that an item of SELECT asks for; None for other items."""
    inner = node.unnest()
    if isinstance(inner, exp.Filter) and _share_asked(inner.this) is not None:
        where = conjunction(where, truth(inner.expression.this, scope))
        inner = inner.this
    asked = _share_asked(inner)
    if asked is None:
        return None
    of, share = asked
    if not isinstance(of, exp.Column) or not is_literal(share):
        raise refusal(node, "write MEDIAN(column), or QUANTILE(column, 0.9) with a number between 0 and 1")
    column = scope.column(of)
    q = Fraction(constant_number(share)).limit_denominator(FINEST_SHARE)  # 0.8 is 4/5
    if not isinstance(column, Integer | Numeric):
        raise QueryError(f"column {column.name!r} is {column.kind}, without quantiles; COUNT it instead")
    if not 0 < q < 1:
        raise QueryError(
            f"{quote(node)}: expected a share between 0 and 1, such as 0.9; extremes cannot be read from counts"
        )
    if column.name in scope.groups:
        raise QueryError(f"{quote(node)} is grouped by its own column; leave {column.name!r} out of GROUP BY")
    if clamps(column):
        scope.note(clamp_note(column))
    asked_as = inner.this if isinstance(inner, exp.WithinGroup) else inner
    return QuantileItem(column, q, _masks(where, node), isinstance(asked_as, CONTINUOUS_QUANTILES))


def _share_asked(node: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """The column and the share of a quantile, in any of its spellings."""
    match node:
        case exp.Median():
            return node.this, exp.Literal.number("0.5")
        case exp.Quantile() | exp.ApproxQuantile():
            return node.this, node.args["quantile"]
        case exp.PercentileCont() | exp.PercentileDisc() if node.expression:
            return node.this, node.expression
        case exp.WithinGroup() if isinstance(node.this, exp.PercentileCont | exp.PercentileDisc):
            return node.expression.expressions[0].this, node.this.this
    return None


def _masks(where: Cells, node: exp.Expr) -> dict[str, Floats]:
    """A condition as one mask per attribute; refused unless it is the AND of conditions on single attributes."""
    allowed = where.values == TRUE
    if not allowed.any():
        raise QueryError(f"{quote(node)}: no value of the schema meets the condition, so there is no quantile")
    axes = range(allowed.ndim)
    masks = [allowed.any(axis=tuple(other for other in axes if other != axis)) for axis in axes]
    if masks and not np.array_equal(reduce(np.logical_and.outer, masks), allowed):
        raise refusal(node, "its condition joins columns by OR; ask with conditions on one column each, joined by AND")
    return {name: mask.astype(float) for name, mask in zip(where.names, masks, strict=True)}
