"""SQL on a release: one SELECT, answered from estimates of tables of counts and from measured sums of values."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlglot import exp

from hush.core.arrays import Floats
from hush.core.domain import Clique
from hush.core.errors import DomainError, QueryError, SizeError
from hush.inference.estimates import BoundedEstimates, Estimates
from hush.inference.measured_sums import MeasuredSums
from hush.inference.quantile_estimates import quantile_estimates
from hush.release.answer_columns import (
    Codes,
    ErrorKind,
    GroupColumn,
    Quantity,
    QueryColumn,
    check_error_kind,
    group_notes,
    joined,
)
from hush.release.answers import Answers, check_level
from hush.release.formula_values import CLEAR_STANDARD_ERRORS, Part, evaluate, planned_counts, single_ratio
from hush.release.intervals import VarianceIntervals
from hush.schema import Categorical, Schema
from hush.schema.column import OTHER_VALUE, canonical
from hush.sql.aggregate import STANDARD_DEVIATIONS, VARIANCES, QuantileItem, formula_of, quantile_item, root_formula
from hush.sql.formula import TRUE, Cells, Formula, KnownSum, check_size
from hush.sql.parsing import Item, Output, ParsedQuery, having_truth, parse, read_output, unknown_order
from hush.sql.predicate import always, conjunction, exactly, truth
from hush.sql.quoting import quotes_advised
from hush.sql.row_labels import MOST_LABELS, RowLabels, row_labels, with_stamp_parts
from hush.sql.scalars import folded
from hush.sql.scope import Scope, quote, refusal


class NotHeldError(QueryError):
    """The release does not hold the table that a query needs."""


def check_cover(clique: Clique, expression: str, estimates: Estimates) -> None:
    """Refuse a table that the estimates do not cover; name the nearest ones and the workload that would cover it."""
    if estimates.covers(clique):
        check_size(estimates.domain, clique)
        return
    needed = estimates.domain.clique(clique)
    table = f"a table over {', '.join(needed)}" if needed else "the total"
    raise NotHeldError(
        f"{expression} needs {table}, which this release does not hold; {_near(needed, estimates.cliques)}; "
        f"add {_tuple(needed)} to the workload of the next release, or leave a column out of the query; "
        "`hush model` or release.model() estimates it, without an error bar"
    )


def _near(needed: Clique, available: Iterable[Clique]) -> str:
    """The tables that lack the fewest of the needed attributes, the smallest first."""
    attributes = set(needed)
    ranked = sorted(available, key=lambda clique: (len(attributes - set(clique)), len(clique), clique))[:3]
    if not ranked:
        return "it only holds answers to the queries of its workload (`hush query FILE --term 0`, release.term(0))"
    fewest = len(attributes - set(ranked[0]))
    near = [
        f"{_tuple(clique)} without {', '.join(name for name in needed if name not in clique)}"
        for clique in ranked
        if len(attributes - set(clique)) == fewest
    ]
    return f"the nearest it holds: {', '.join(near)}"


def _tuple(names: Clique) -> str:
    inside = ", ".join(f'"{name}"' for name in names)
    return f"({inside},)" if len(names) == 1 else f"({inside})"


Key = np.ndarray[Any, Any]
CHOSEN_NOTE = (
    "{}: rows were chosen by their estimates, which are then often too extreme; intervals do not allow for it."
)


def ordered(answers: Answers, output: Output, query: ParsedQuery, scope: Scope) -> Answers:
    """The rows in the order of ORDER BY, cut to LIMIT and OFFSET; the same object if the query has none of them."""
    if not query.order and query.limit is None and not query.offset:
        return answers
    keys: list[Key] = []
    chosen: list[str] = []
    for node in query.order:
        item = _item(node, output, scope)
        chosen += [] if item.is_label else [item.name]
        values, absent = _key(item, answers)
        sign = -1 if node.args.get("desc") else 1
        nulls_first = bool(node.args.get("nulls_first"))
        keys += [absent != nulls_first, np.where(absent, 0, sign * values)]
    rows: Codes = np.lexsort(keys[::-1]) if keys else np.arange(len(answers))
    end = None if query.limit is None else query.offset + query.limit
    rows_shown = answers.take(rows[query.offset : end])
    if chosen and len(rows_shown) < len(answers):
        return replace(rows_shown, notes=(*rows_shown.notes, CHOSEN_NOTE.format(chosen[0])))
    return rows_shown


HAVING_NOTE = (
    "HAVING: groups were kept or left out by their noisy estimates; a group near the limit may be on the wrong side, "
    "and intervals do not allow for it."
)


def filtered(answers: Answers, output: Output, having: exp.Expr, scope: Scope) -> Answers:
    """The groups whose estimates meet the condition of HAVING, without the values that it alone asked for."""

    def estimates(node: exp.Expr) -> Floats:
        item = next((item for item in output.values if item.node == node), None) or output.find(node, scope)
        if item is None or item.is_label:
            raise QueryError(f"HAVING {quote(node)}: HAVING takes aggregates; put conditions on columns into WHERE")
        return answers[item.name].estimate

    met = np.broadcast_to(having_truth(having, estimates), len(answers))
    kept = answers.take(np.flatnonzero(met == TRUE))
    shown = {item.name for item in output.values if not item.hidden}
    quantities = tuple(quantity for quantity in kept.quantities if quantity.name in shown)
    return replace(kept, quantities=quantities, notes=(*kept.notes, HAVING_NOTE))


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
        if group.name != item.name:
            continue
        if isinstance(group, QueryColumn):  # its labels are in order
            return group.codes, np.array([group.labels[code] is None for code in group.codes], dtype=bool)
        if isinstance(group, GroupColumn):
            missing = group.column.missing_code
            return _ranks(group)[group.codes], group.codes == (-1 if missing is None else missing)
    values = answers[item.name].estimate
    return values, np.isnan(values)


def _ranks(group: GroupColumn) -> Key:
    """The rank of each code in the order of real values: the code itself, unless the values are unordered."""
    column = group.column
    if not isinstance(column, Categorical):
        return np.arange(column.size)
    values: list[Any] = list(column.values)
    if column.other or len({type(value) for value in values}) > 1:
        values = [canonical(value) for value in values] + [OTHER_VALUE] * column.other
    order = sorted(range(len(values)), key=lambda code: values[code])
    ranks = np.empty(column.size, dtype=np.int64)
    ranks[order] = np.arange(len(order))
    ranks[len(order) :] = len(order)
    return ranks


SMALL_CELLS = 2**22  # up to which it is checked whether a condition depends on all the columns it names


def answer_sql(
    text: str,
    schema: Schema,
    estimates: Estimates,
    *,
    level: float = 0.95,
    error_kind: str = ErrorKind.EXACT,
    sums: MeasuredSums | None = None,
) -> Answers:
    """Answer a query from estimates of tables of counts; post-processing, which costs no privacy.

    Supported: one SELECT from one table (any name) of columns and of COUNT, SUM and AVG, with FILTER, CASE, sums,
    differences, multiples and ratios of them; WHERE with comparisons, BETWEEN, IN, IS NULL, IS TRUE, AND, OR, NOT over
    the real values of the schema; GROUP BY columns, CASE, EXTRACT, conditions and whole-number arithmetic; ORDER BY and
    LIMIT on the answers. Missing is SQL's null.

    Every combination of levels of the grouped columns that WHERE leaves possible is answered, also if its estimate is
    zero. An aggregate over a table is sum_x mask[x] value[x] count[x], with the exact variance of that sum; a ratio has
    the variance of the delta method and is marked approximate. A sum over no rows is 0, an average has no answer.

    `error_kind` says what the covariances of the estimates are: exact, approximate, a bound, or none. If a table has no
    covariances but a bound on its error, sums over it have an interval from that bound, and ratios have none.

    Raises:
        QueryError: the query is not supported, names unknown columns or is not covered; says what to write instead.
        SizeError: the query needs a table of more than 2^28 cells.
    """
    check_level(level)
    kind = check_error_kind(error_kind)
    if schema.domain != estimates.domain:
        raise DomainError("the schema and the estimates have different domains; give the schema of the same release")
    try:
        with quotes_advised(text, schema.domain):
            return _answer(with_stamp_parts(folded(parse(text)), schema), schema, estimates, level, kind, sums)
    except RecursionError:
        raise QueryError("the query is nested too deeply; write it with fewer parentheses") from None


def _source(formula: Formula | QuantileItem, groups: Clique, expression: str, estimates: Estimates) -> Estimates:
    """The estimates that answer a formula: all, or a restriction that knows these sums though not every cell."""
    clique = formula.clique(groups)
    if isinstance(formula, Formula) and not estimates.covers(clique) and not formula.quotients:
        check_size(estimates.domain, clique)
        shape = estimates.domain.sizes(clique)
        coefficients = np.broadcast_to(formula.coefficients.spread(clique), shape)
        restricted = estimates.for_sums(clique, coefficients, len(groups))
        if restricted is not None:
            return restricted
    check_cover(clique, expression, estimates)
    return estimates


@dataclass(frozen=True, slots=True)
class _Part:
    """The groups where the expressions of GROUP BY have one combination of values; without any, all groups."""

    labels: tuple[int, ...]  # the code of each expression's value
    rows: np.ndarray[tuple[int], np.dtype[np.intp]]  # the combinations of levels of the grouped columns to show
    formulas: list[Formula | QuantileItem]
    sources: list[Estimates]


def _answer(
    query: ParsedQuery,
    schema: Schema,
    estimates: Estimates,
    level: float,
    error_kind: ErrorKind,
    sums: MeasuredSums | None,
) -> Answers:
    """The answers of a parsed query, in the order that it asks for."""
    # Read the query: which columns it groups by, and what its values are.
    measured = [] if sums is None else sums.measured
    sums_known = [KnownSum(index, term.clique, term.grid, law.stddev) for index, term, law in measured]

    def counted(clique: Clique) -> bool:
        return estimates.has_covariance(clique) if isinstance(estimates, BoundedEstimates) else estimates.covers(clique)

    scope = Scope(schema, query.tables, sums_known, counted)
    output = read_output(query, scope)
    scope.groups = groups = output.groups
    labels = [row_labels(item.node, scope) for item in output.expressions]
    # Answer from tables of counts, or from the very queries that the workload asked for.
    try:
        shown, quantities = _from_tables(query, output, labels, scope, estimates, error_kind, level, sums)
    except NotHeldError:
        planned = planned_counts(query, output, labels, scope, estimates)
        if planned is None:
            raise
        shown, quantities = planned
    # Label the rows with levels of columns and values of expressions.
    rows = np.concatenate([part for _, part in shown])
    codes = iter(np.unravel_index(rows, scope.domain.sizes(groups)) if groups else ())
    lengths = [len(part) for _, part in shown]
    values = iter(enumerate(labels))
    columns: list[GroupColumn | QueryColumn] = []
    for item in output.labels:
        if item.column is not None:
            columns.append(GroupColumn(item.name, item.column, next(codes)))
        else:
            index, known = next(values)
            repeated = np.repeat([chosen[index] for chosen, _ in shown], lengths)
            columns.append(QueryColumn(item.name, known.values, repeated))
    for note in group_notes(output.columns):
        scope.note(note)
    named = {item.name for item in output.values if item.named}
    values_named = tuple(replace(quantity, named=quantity.name in named) for quantity in quantities)
    answers = Answers(groups=tuple(columns), quantities=values_named, level=level, notes=tuple(scope.notes))
    # Sort, filter and cut them.
    if labels:  # parts follow each other; rows are in the order of their labels
        answers = answers.take(np.lexsort([column.codes for column in reversed(columns)]))
    if query.having is not None:
        answers = filtered(answers, output, query.having, scope)
    return ordered(answers, output, query, scope)


def _from_tables(
    query: ParsedQuery,
    output: Output,
    labels: Sequence[RowLabels],
    scope: Scope,
    estimates: Estimates,
    error_kind: ErrorKind,
    level: float,
    sums: MeasuredSums | None,
) -> tuple[list[Part], list[Quantity]]:
    """The rows and the values of a query from the smallest tables that cover them."""
    groups = output.groups
    parts = _parts(_where(query, output, scope, estimates), labels, output, scope, estimates)
    quantities = [
        _quantile(item, index, parts, groups, error_kind, scope, level)
        if isinstance(parts[0].formulas[index], QuantileItem)
        else _quantity(item, index, parts, groups, error_kind, scope, level, sums)
        for index, item in enumerate(output.values)
    ]
    return [(part.labels, part.rows) for part in parts], quantities


def _where(query: ParsedQuery, output: Output, scope: Scope, estimates: Estimates) -> Cells:
    """The cells where the condition of the query is true."""
    where = always(scope)
    if query.where is not None:
        _check_large(frozenset(output.groups) | _named(query.where, scope), "WHERE", scope, estimates)
        where = exactly(TRUE, truth(query.where, scope))
    if not (where.values == TRUE).any():
        scope.note("The condition of WHERE is true for no level that the schema declares.")
    return where


def _parts(
    where: Cells, labels: Sequence[RowLabels], output: Output, scope: Scope, estimates: Estimates
) -> list[_Part]:
    """The parts of the answers that have rows; one without rows if there is none."""
    count = math.prod(len(known.values) for known in labels)
    if count > MOST_LABELS:
        raise SizeError(
            f"the expressions of GROUP BY have {count:,} combinations of values: at most {MOST_LABELS:,} are possible; "
            "group by fewer of them"
        )
    parts: list[_Part] = []
    for codes in itertools.product(*(range(len(known.values)) for known in labels)):
        masks = (known.mask(code) for known, code in zip(labels, codes, strict=True))
        inside = functools.reduce(conjunction, masks, where)
        rows = np.flatnonzero(_possible(inside, output.groups))
        if labels and not (inside.values == TRUE).any():
            if parts or codes != tuple(len(known.values) - 1 for known in labels):
                continue
            rows = rows[:0]
        formulas = _formulas(inside, output, scope, estimates)
        sources = [
            _source(formula, output.groups, quote(item.node), estimates)
            for item, formula in zip(output.values, formulas, strict=True)
        ]
        parts.append(_Part(codes, rows, formulas, sources))
    return parts


def _formulas(where: Cells, output: Output, scope: Scope, estimates: Estimates) -> list[Formula | QuantileItem]:
    """The formula of each value over the rows that satisfy `where`, or the quantile that it is."""
    formulas: list[Formula | QuantileItem] = []
    for item in output.values:
        names = frozenset(output.groups).union(where.names, _named(item.node, scope))
        _check_large(names, quote(item.node), scope, estimates)
        quantile = quantile_item(item.node, where, scope)
        root = None if quantile is not None else root_formula(item.node, where, scope)
        formula = quantile or root or formula_of(item.node, where, scope)
        if not item.node.find(exp.AggFunc):
            raise QueryError(f"{quote(item.node)} has no aggregate in it; add one, such as COUNT(*)")
        formulas.append(formula)
    return formulas


def _check_large(names: frozenset[str], expression: str, scope: Scope, estimates: Estimates) -> None:
    """Refuse a large table that is not covered before it is allocated, by the columns that the query names."""
    clique = scope.domain.clique(names)
    if scope.domain.size(clique) > SMALL_CELLS:
        check_cover(clique, expression, estimates)


def _named(node: exp.Expr, scope: Scope) -> frozenset[str]:
    """The columns of the schema that an expression names."""
    columns = (scope.find(column.name) for column in node.find_all(exp.Column))
    return frozenset(column.name for column in columns if column is not None)


def _possible(where: Cells, groups: Clique) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """The combinations of levels of the groups that WHERE allows; without groups there is always one row."""
    check_size(where.domain, groups)
    if not groups:
        return np.ones(1, dtype=bool)
    allowed = replace(where, values=where.values == TRUE).any_over(groups)
    return np.broadcast_to(allowed.spread(groups), where.domain.sizes(groups))


def _quantile(
    item: Item, index: int, parts: Sequence[_Part], groups: Clique, error_kind: ErrorKind, scope: Scope, level: float
) -> Quantity:
    """A quantile in each group; its interval is that of the noise, and reaches to the ends of bins."""
    pieces = []
    for part in parts:
        asked = part.formulas[index]
        assert isinstance(asked, QuantileItem)  # noqa: S101
        estimate, intervals = quantile_estimates(
            part.sources[index], groups, asked.column.name, asked.share, dict(asked.masks), asked.ends, level
        )
        kind = ErrorKind.BINNED if asked.binned else ErrorKind.EXACT
        if error_kind is ErrorKind.NONE:
            kind = error_kind
        elif intervals.level is not None:
            kind = ErrorKind.BOUND
        unknown = np.full(estimate.shape, np.nan)
        pieces.append(Quantity(item.name, estimate, unknown, kind, intervals).take(part.rows))
        if asked.binned:
            scope.note(
                f"{item.name}: only the bins of {asked.column.name} were counted, so inside a bin the value is "
                "interpolated; the interval reaches to the ends of bins."
            )
        elif asked.continuous:
            scope.note(
                f"{item.name}: the smallest value that at least {float(asked.share):.4g} of the rows do not exceed; no "
                "interpolation between two values."
            )
    value = pieces[0] if len(pieces) == 1 else joined(pieces)
    absent = int(np.isnan(value.estimate).sum())
    if absent:
        what = "The group has" if len(value.estimate) == 1 else f"{absent:,} of {len(value.estimate):,} groups have"
        scope.note(f"{item.name}: {what} no quantile, because there are no rows.")
    return value


def _quantity(
    item: Item,
    index: int,
    parts: Sequence[_Part],
    groups: Clique,
    error_kind: ErrorKind,
    scope: Scope,
    level: float,
    sums: MeasuredSums | None,
) -> Quantity:
    """One value of the query in each group, with the kind of its errors, and notes on both."""
    formulas = [formula for part in parts if isinstance(formula := part.formulas[index], Formula)]
    pieces = []
    for formula, part in zip(formulas, parts, strict=True):
        result = evaluate(formula, groups, part.sources[index], level, sums=sums)
        whole = Quantity(item.name, result.estimate, result.std_error, error_kind, result.intervals)
        pieces.append(whole.take(part.rows))
    value = pieces[0] if len(pieces) == 1 else joined(pieces)
    asked = item.node.unnest()
    asked = asked.this if isinstance(asked, exp.Filter) else asked
    if isinstance(asked, (*STANDARD_DEVIATIONS, *VARIANCES)):
        value = _not_negative(value, root=isinstance(asked, STANDARD_DEVIATIONS))
    sources = {part.formulas[index].clique(groups): part.sources[index] for part in parts}
    formula = max(formulas, key=lambda formula: (formula.binned, not formula.linear))
    value = replace(value, error_kind=_error_kind(value, formula, sources, scope, level))
    _note_unknown(value, asked, scope)
    return value


def _error_kind(
    value: Quantity, formula: Formula, sources: Mapping[Clique, Estimates], scope: Scope, level: float
) -> ErrorKind:
    """What is known of the errors of a value, by the least that is known of its parts; adds the notes that say so."""
    error_kind = value.error_kind
    bounded = {
        clique: source
        for clique, source in sources.items()
        if isinstance(source, BoundedEstimates) and not source.has_covariance(clique)
    }
    if bounded:
        from hush.release.error_bounds import bound_note

        error_kind = ErrorKind.BOUND if value.known.any() else ErrorKind.NONE
        for clique, source in bounded.items():
            scope.note(bound_note(clique, source.l1_bound(clique, level), level))
        if not formula.linear and error_kind is ErrorKind.NONE:
            scope.note(f"{value.name}: a ratio of numbers from the fitted model; it has no interval.")
    elif not formula.linear and error_kind is not ErrorKind.NONE:
        error_kind = ErrorKind.APPROXIMATE
        interval = ", its interval by Fieller's method." if single_ratio(formula) is not None else "."
        scope.note(f"{value.name}: a ratio; its standard error is by the delta method{interval}")
    if formula.binned and error_kind in (ErrorKind.EXACT, ErrorKind.APPROXIMATE):
        return ErrorKind.BINNED
    return error_kind


def _note_unknown(value: Quantity, asked: exp.Expr, scope: Scope) -> None:
    """Note in how many groups there is no standard error, or no answer at all, and why."""
    approximate = value.error_kind in (ErrorKind.APPROXIMATE, ErrorKind.BINNED)
    rows, few = len(value.estimate), int((np.isnan(value.std_error) & value.known).sum()) if approximate else 0
    if few:
        what = "The group has" if rows == 1 else f"{few:,} of {rows:,} groups have"
        scope.note(f"{value.name}: {what} too few rows for a standard error; use the interval.")
    absent = int((np.isnan(value.estimate) & ~value.known).sum())
    if absent:
        what = "The answer" if rows == 1 else f"{absent:,} of {rows:,} answers"
        if isinstance(asked, (*STANDARD_DEVIATIONS, *VARIANCES)):
            sample = not isinstance(asked, exp.VariancePop | exp.StddevPop)
            needed = "a sample needs at least 2 rows" if sample else "at least 1 row is needed"
            above = f"{CLEAR_STANDARD_ERRORS:g} standard errors above {sample:d}"
            reason = f"{needed}, and the estimated number of rows is not {above}"
        elif value.error_kind in (ErrorKind.NONE, ErrorKind.BOUND):
            reason = "the denominator is zero: the model has no such rows"
        else:
            reason = f"the denominator is not at least {CLEAR_STANDARD_ERRORS:g} standard errors away from zero"
        scope.note(f"{value.name}: {what} cannot be given, because {reason}.")


def _not_negative(value: Quantity, *, root: bool) -> Quantity:
    """A variance that is at least 0, or its root; the error of a root is by the delta method, and unknown at 0."""
    estimate, error = np.maximum(value.estimate, 0.0), value.std_error
    if root:
        estimate = np.sqrt(estimate)
        error = np.divide(error, 2 * estimate, out=np.full(estimate.shape, np.nan), where=estimate > 0)
    return replace(value, estimate=estimate, std_error=error, intervals=VarianceIntervals(value.intervals, root))
