"""SQL on a release: one SELECT, answered from estimates of tables of counts and from measured sums of values."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlglot import exp

from hush.core.arrays import Floats
from hush.core.domain import Clique
from hush.core.errors import DomainError, QueryError, SizeError
from hush.inference.estimates import BoundedEstimates, Estimates
from hush.inference.intervals import Rows, VarianceIntervals
from hush.inference.measured_sums import MeasuredSums
from hush.inference.quantile_estimates import quantile_estimates
from hush.release.answers import (
    Answers,
    ErrorKind,
    GroupColumn,
    Quantity,
    QueryColumn,
    check_error_kind,
    check_level,
    group_notes,
    joined,
)
from hush.release.formula_values import CLEAR_STANDARD_ERRORS, Part, evaluate, planned_counts, single_ratio
from hush.schema import Categorical, Schema
from hush.schema.column import OTHER_VALUE, canonical
from hush.sql.aggregate import STANDARD_DEVIATIONS, VARIANCES, QuantileItem, formula_of, quantile_item, root_formula
from hush.sql.formula import TRUE, Cells, Formula, KnownSum, check_size
from hush.sql.parsing import Item, Output, ParsedQuery, having_truth, parse, read_output, unknown_order
from hush.sql.predicate import conjunction, everywhere, exactly, truth
from hush.sql.quoting import quotes_advised
from hush.sql.row_labels import MOST_LABELS, RowLabels, row_labels, with_stamp_parts
from hush.sql.scalars import folded
from hush.sql.scope import Scope, quote, refusal

SMALL_CELLS = 2**22  # larger tables are refused by the columns a query names, before the query is looked into
CHOSEN_NOTE = (
    "{}: rows were chosen by their estimates, which are then often too extreme; intervals do not allow for it."
)
HAVING_NOTE = (
    "HAVING: groups were kept or left out by their noisy estimates; a group near the limit may be on the wrong side, "
    "and intervals do not allow for it."
)


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
    scope.groups = output.groups
    labels = [row_labels(item.node, scope) for item in output.expressions]
    # Answer from tables of counts, or from exactly the queries that the workload asked for.
    try:
        shown, quantities = _TableAnswers(output, labels, scope, estimates, error_kind, level, sums).of(query)
    except NotHeldError:
        planned = planned_counts(query, output, labels, scope, estimates)
        if planned is None:
            raise
        shown, quantities = planned
    # Label the rows with levels of columns and values of expressions.
    rows = np.concatenate([part for _, part in shown])
    codes = iter(np.unravel_index(rows, scope.domain.sizes(output.groups)) if output.groups else ())
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


@dataclass(frozen=True, slots=True)
class _Part:
    """The groups where the expressions of GROUP BY have one combination of values; without any, all groups."""

    labels: tuple[int, ...]  # the code of each expression's value
    rows: np.ndarray[tuple[int], np.dtype[np.intp]]  # the combinations of levels of the grouped columns to show
    formulas: list[Formula | QuantileItem]
    sources: list[Estimates]


@dataclass(frozen=True, slots=True)
class _TableAnswers:
    """Answers from the smallest tables of counts that cover the values of a query."""

    output: Output
    labels: Sequence[RowLabels]
    scope: Scope
    estimates: Estimates
    error_kind: ErrorKind
    level: float
    sums: MeasuredSums | None

    def of(self, query: ParsedQuery) -> tuple[list[Part], list[Quantity]]:
        """The rows and the values of the query; NotHeldError if no table covers one of the values."""
        where = everywhere(TRUE, self.scope)
        if query.where is not None:
            self._check_large(frozenset(self.output.groups) | self._named(query.where), "WHERE")
            where = exactly(TRUE, truth(query.where, self.scope))
        if not (where.values == TRUE).any():
            self.scope.note("The condition of WHERE is true for no level that the schema declares.")
        parts = self._parts(where)
        quantities = []
        for index, item in enumerate(self.output.values):
            quantile = isinstance(parts[0].formulas[index], QuantileItem)
            quantities.append((self._quantile if quantile else self._quantity)(item, index, parts))
        return [(part.labels, part.rows) for part in parts], quantities

    def _parts(self, where: Cells) -> list[_Part]:
        """The parts of the answers that have rows; one without rows if there is none."""
        count = math.prod(len(known.values) for known in self.labels)
        if count > MOST_LABELS:
            raise SizeError(
                f"the expressions of GROUP BY have {count:,} combinations of values: at most {MOST_LABELS:,} are "
                "possible; group by fewer of them"
            )
        groups = self.output.groups
        parts: list[_Part] = []
        for codes in itertools.product(*(range(len(known.values)) for known in self.labels)):
            masks = (known.mask(code) for known, code in zip(self.labels, codes, strict=True))
            inside = functools.reduce(conjunction, masks, where)
            # The combinations of levels of the groups that the conditions allow; without groups there is one row.
            check_size(inside.domain, groups)
            rows = np.zeros(1, dtype=np.intp)
            if groups:
                allowed = replace(inside, values=inside.values == TRUE).any_over(groups).spread(groups)
                rows = np.flatnonzero(np.broadcast_to(allowed, inside.domain.sizes(groups)))
            if self.labels and not (inside.values == TRUE).any():
                if parts or codes != tuple(len(known.values) - 1 for known in self.labels):
                    continue
                rows = rows[:0]
            formulas = [self._formula(item, inside) for item in self.output.values]
            pairs = zip(self.output.values, formulas, strict=True)
            sources = [self._source(formula, quote(item.node)) for item, formula in pairs]
            parts.append(_Part(codes, rows, formulas, sources))
        return parts

    def _formula(self, item: Item, where: Cells) -> Formula | QuantileItem:
        """The formula of a value over the rows that satisfy `where`, or the quantile that it is."""
        node, scope = item.node, self.scope
        self._check_large(frozenset(self.output.groups).union(where.names, self._named(node)), quote(node))
        quantile = quantile_item(node, where, scope)
        root = None if quantile is not None else root_formula(node, where, scope)
        formula = quantile or root or formula_of(node, where, scope)
        if not node.find(exp.AggFunc):
            raise QueryError(f"{quote(node)} has no aggregate in it; add one, such as COUNT(*)")
        return formula

    def _source(self, formula: Formula | QuantileItem, expression: str) -> Estimates:
        """The estimates that answer a formula: all, or a restriction that knows these sums though not every cell."""
        groups, estimates = self.output.groups, self.estimates
        clique = formula.clique(groups)
        if isinstance(formula, Formula) and not estimates.covers(clique) and not formula.quotients:
            check_size(estimates.domain, clique)
            coefficients = np.broadcast_to(formula.coefficients.spread(clique), estimates.domain.sizes(clique))
            restricted = estimates.for_sums(clique, coefficients, len(groups))
            if restricted is not None:
                return restricted
        check_cover(clique, expression, estimates)
        return estimates

    def _check_large(self, names: frozenset[str], expression: str) -> None:
        """Refuse a large table that is not covered before it is allocated, by the columns that the query names."""
        clique = self.scope.domain.clique(names)
        if self.scope.domain.size(clique) > SMALL_CELLS:
            check_cover(clique, expression, self.estimates)

    def _named(self, node: exp.Expr) -> frozenset[str]:
        """The columns of the schema that an expression names."""
        columns = (self.scope.find(column.name) for column in node.find_all(exp.Column))
        return frozenset(column.name for column in columns if column is not None)

    def _quantile(self, item: Item, index: int, parts: Sequence[_Part]) -> Quantity:
        """A quantile in each group; its interval is that of the noise, and reaches to the ends of bins."""
        pieces = []
        for part in parts:
            quantile = part.formulas[index]
            assert isinstance(quantile, QuantileItem)  # noqa: S101
            source, column, masks = part.sources[index], quantile.column.name, dict(quantile.masks)
            estimate, intervals = quantile_estimates(
                source, self.output.groups, column, quantile.share, masks, quantile.ends, self.level
            )
            kind = ErrorKind.BINNED if quantile.binned else ErrorKind.EXACT
            if self.error_kind is ErrorKind.NONE:
                kind = ErrorKind.NONE
            elif intervals.level is not None:
                kind = ErrorKind.BOUND
            unknown = np.full(estimate.shape, np.nan)
            pieces.append(Quantity(item.name, estimate, unknown, kind, intervals).take(part.rows))
            if quantile.binned:
                self.scope.note(
                    f"{item.name}: only the bins of {column} were counted, so inside a bin the value is interpolated; "
                    "the interval reaches to the ends of bins."
                )
            elif quantile.continuous:
                self.scope.note(
                    f"{item.name}: the smallest value that at least {float(quantile.share):.4g} of the rows do not "
                    "exceed; no interpolation between two values."
                )
        value = joined(pieces)
        if absent := int(np.isnan(value.estimate).sum()):
            what = "The group has" if len(value.estimate) == 1 else f"{absent:,} of {len(value.estimate):,} groups have"
            self.scope.note(f"{item.name}: {what} no quantile, because there are no rows.")
        return value

    def _quantity(self, item: Item, index: int, parts: Sequence[_Part]) -> Quantity:
        """One value of the query in each group, with the kind of its errors, and notes on both."""
        groups = self.output.groups
        formulas = [formula for part in parts if isinstance(formula := part.formulas[index], Formula)]
        pieces = []
        for formula, part in zip(formulas, parts, strict=True):
            result = evaluate(formula, groups, part.sources[index], self.level, sums=self.sums)
            whole = Quantity(item.name, result.estimate, result.std_error, self.error_kind, result.intervals)
            pieces.append(whole.take(part.rows))
        value = joined(pieces)
        aggregate = item.node.unnest()
        aggregate = aggregate.this if isinstance(aggregate, exp.Filter) else aggregate
        # A variance is at least 0. The error of its root is by the delta method, and unknown at 0.
        if isinstance(aggregate, (*STANDARD_DEVIATIONS, *VARIANCES)):
            root = isinstance(aggregate, STANDARD_DEVIATIONS)
            estimate, error = np.maximum(value.estimate, 0.0), value.std_error
            if root:
                estimate = np.sqrt(estimate)
                error = np.divide(error, 2 * estimate, out=np.full(estimate.shape, np.nan), where=estimate > 0)
            intervals = VarianceIntervals(value.intervals, root)
            value = replace(value, estimate=estimate, std_error=error, intervals=intervals)
        sources = {part.formulas[index].clique(groups): part.sources[index] for part in parts}
        formula = max(formulas, key=lambda formula: (formula.binned, not formula.linear))
        value = replace(value, error_kind=self._error_kind(value, formula, sources))
        self._note_unknown(value, aggregate)
        return value

    def _error_kind(self, value: Quantity, formula: Formula, sources: Mapping[Clique, Estimates]) -> ErrorKind:
        """What is known of the errors of a value, by the least that is known of its parts; notes it too."""
        error_kind, note = value.error_kind, self.scope.note
        bounded = {
            clique: source
            for clique, source in sources.items()
            if isinstance(source, BoundedEstimates) and not source.has_covariance(clique)
        }
        if bounded:
            from hush.release.error_bounds import bound_note

            error_kind = ErrorKind.BOUND if value.known.any() else ErrorKind.NONE
            for clique, source in bounded.items():
                note(bound_note(clique, source.l1_bound(clique, self.level), self.level))
            if not formula.linear and error_kind is ErrorKind.NONE:
                note(f"{value.name}: a ratio of numbers from the fitted model; it has no interval.")
        elif not formula.linear and error_kind is not ErrorKind.NONE:
            error_kind = ErrorKind.APPROXIMATE
            interval = ", its interval by Fieller's method." if single_ratio(formula) is not None else "."
            note(f"{value.name}: a ratio; its standard error is by the delta method{interval}")
        if formula.binned and error_kind in (ErrorKind.EXACT, ErrorKind.APPROXIMATE):
            return ErrorKind.BINNED
        return error_kind

    def _note_unknown(self, value: Quantity, aggregate: exp.Expr) -> None:
        """Note in how many groups there is no standard error, or no answer at all, and why."""
        approximate = value.error_kind in (ErrorKind.APPROXIMATE, ErrorKind.BINNED)
        rows, few = len(value.estimate), int((np.isnan(value.std_error) & value.known).sum()) if approximate else 0
        if few:
            what = "The group has" if rows == 1 else f"{few:,} of {rows:,} groups have"
            self.scope.note(f"{value.name}: {what} too few rows for a standard error; use the interval.")
        absent = int((np.isnan(value.estimate) & ~value.known).sum())
        if absent:
            what = "The answer" if rows == 1 else f"{absent:,} of {rows:,} answers"
            if isinstance(aggregate, (*STANDARD_DEVIATIONS, *VARIANCES)):
                sample = not isinstance(aggregate, exp.VariancePop | exp.StddevPop)
                needed = "a sample needs at least 2 rows" if sample else "at least 1 row is needed"
                above = f"{CLEAR_STANDARD_ERRORS:g} standard errors above {sample:d}"
                reason = f"{needed}, and the estimated number of rows is not {above}"
            elif value.error_kind in (ErrorKind.NONE, ErrorKind.BOUND):
                reason = "the denominator is zero: the model has no such rows"
            else:
                reason = f"the denominator is not at least {CLEAR_STANDARD_ERRORS:g} standard errors away from zero"
            self.scope.note(f"{value.name}: {what} cannot be given, because {reason}.")


class NotHeldError(QueryError):
    """The release does not hold the table that a query needs."""


def check_cover(clique: Clique, expression: str, estimates: Estimates) -> None:
    """Refuse a table that the estimates do not cover; name the nearest ones and the workload that would cover it."""
    if estimates.covers(clique):
        check_size(estimates.domain, clique)
        return
    # The nearest tables lack the fewest of the needed attributes; the smallest of them come first.
    needed = estimates.domain.clique(clique)
    lacking = {held: [name for name in needed if name not in held] for held in estimates.cliques}
    ranked = sorted(lacking, key=lambda held: (len(lacking[held]), len(held), held))[:3]
    nearest = "it only holds answers to the queries of its workload (`hush query FILE --term 0`, release.term(0))"
    if ranked:
        near = [held for held in ranked if len(lacking[held]) == len(lacking[ranked[0]])]
        names = (f"{_tuple(held)} without {', '.join(lacking[held])}" for held in near)
        nearest = f"the nearest it holds: {', '.join(names)}"
    table = f"a table over {', '.join(needed)}" if needed else "the total"
    raise NotHeldError(
        f"{expression} needs {table}, which this release does not hold; {nearest}; add {_tuple(needed)} to the "
        "workload of the next release, or leave a column out of the query; `hush model` or release.model() estimates "
        "it, without an error bar"
    )


def _tuple(names: Clique) -> str:
    inside = ", ".join(f'"{name}"' for name in names)
    return f"({inside},)" if len(names) == 1 else f"({inside})"


def filtered(answers: Answers, output: Output, having: exp.Expr, scope: Scope) -> Answers:
    """The groups whose estimates satisfy HAVING, without the values that only HAVING needs."""

    def estimates(node: exp.Expr) -> Floats:
        item = next((item for item in output.values if item.node == node), None) or output.find(node, scope)
        if item is None or item.is_label:
            raise QueryError(f"HAVING {quote(node)}: HAVING takes aggregates; put conditions on columns into WHERE")
        return answers[item.name].estimate

    met = np.broadcast_to(having_truth(having, estimates), len(answers))
    satisfying = answers.take(np.flatnonzero(met == TRUE))
    shown = {item.name for item in output.values if not item.hidden}
    quantities = tuple(quantity for quantity in satisfying.quantities if quantity.name in shown)
    return replace(satisfying, quantities=quantities, notes=(*satisfying.notes, HAVING_NOTE))


def ordered(answers: Answers, output: Output, query: ParsedQuery, scope: Scope) -> Answers:
    """The rows in the order of ORDER BY, cut to LIMIT and OFFSET; the same object if the query has none of them."""
    if not query.order and query.limit is None and not query.offset:
        return answers
    keys: list[np.ndarray[Any, Any]] = []
    chosen: list[str] = []
    for node in query.order:
        if not isinstance(node, exp.Ordered) or isinstance(node.this, exp.Var) or node.args.get("with_fill"):
            raise refusal(node, "order by columns of the answers")
        inner = node.this.unnest()
        if isinstance(inner, exp.Literal) and inner.is_string:
            raise QueryError(f"ORDER BY {inner.sql()} is a constant; write column names without or in double quotes")
        item = output.find(inner, scope)
        if item is None:
            raise unknown_order(inner, output)
        chosen += [] if item.is_label else [item.name]
        values, absent = _sort_key(item, answers)
        sign = -1 if node.args.get("desc") else 1
        nulls_first = bool(node.args.get("nulls_first"))
        keys += [absent != nulls_first, np.where(absent, 0, sign * values)]
    rows: Rows = np.lexsort(keys[::-1]) if keys else np.arange(len(answers))
    end = None if query.limit is None else query.offset + query.limit
    rows_shown = answers.take(rows[query.offset : end])
    if chosen and len(rows_shown) < len(answers):
        return replace(rows_shown, notes=(*rows_shown.notes, CHOSEN_NOTE.format(chosen[0])))
    return rows_shown


def _sort_key(item: Item, answers: Answers) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Numbers that sort like the item, and where the item is null or has no answer."""
    group = next((group for group in answers.groups if group.name == item.name), None)
    if group is None:
        values = answers[item.name].estimate
        return values, np.isnan(values)
    if isinstance(group, QueryColumn):  # its labels are in order
        return group.codes, np.array([group.labels[code] is None for code in group.codes], dtype=bool)
    # Codes follow the order of real values, except those of a categorical column.
    column = group.column
    absent = group.codes == (-1 if column.missing_code is None else column.missing_code)
    if not isinstance(column, Categorical):
        return group.codes.astype(np.int64), absent
    words: list[Any] = list(column.values)
    if column.other or len({type(word) for word in words}) > 1:
        words = [canonical(word) for word in words] + [OTHER_VALUE] * column.other
    order = sorted(range(len(words)), key=lambda code: words[code])
    ranks = np.full(column.size, len(order))
    ranks[order] = np.arange(len(order))
    return ranks[group.codes], absent
