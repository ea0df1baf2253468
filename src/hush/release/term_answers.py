"""The answers to a table or another term: one row per query, labelled with what it asks; also without negative ones.

Inside measured tables the errors are those of the noise. Elsewhere a model answers, with the bound on its table if one
is known. The estimate of a query is linear in the counts of its clique, so its error is known wherever theirs is. For a
term that is no product it comes

- from residual answers, and in closed form from products of factors (`strategies.variance_forms`);
- from the first query alone, if the noise treats all levels alike and the term does too;
- otherwise query by query from the covariances of the cells;
- for many queries that are signed sums of marginals, as a bound: the sum of the standard errors of the marginals.

A query with coefficients >= 0 has an answer >= 0 on every data set, and a query with coefficients <= 0 an answer <= 0.
Any other query can have either sign and keeps its estimate.

Reference: [Li 2013, sec. 3.5.3] for non-negative answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hush.core.arrays import Floats, reordered
from hush.core.domain import Clique
from hush.core.errors import WorkloadError
from hush.inference.error_law import ErrorLaw
from hush.inference.estimates import BoundedEstimates, Estimates, without_constant_columns
from hush.inference.intervals import (
    MOST_LAWS,
    MOST_WORK,
    Ends,
    ErrorMargins,
    FixedIntervals,
    KnownLaws,
    ModelIntervals,
    NoiseIntervals,
    Rows,
    Signs,
    clipped,
    largest_coefficients,
    product_margins,
    sum_margins,
)
from hush.inference.linear_estimates import LocalEstimates
from hush.inference.residual_estimates import ResidualEstimates
from hush.linops import (
    AllRange,
    Dense,
    Equivalent,
    Identity,
    LevelsAndTotal,
    LinearOperator,
    Permuted,
    Prefix,
    Scaled,
    Stack,
    Total,
    WidthRange,
)
from hush.release.answers import Answers, ErrorKind, GroupColumn, Quantity, QueryColumn, check_level, group_notes, spare
from hush.release.error_bounds import bound_note
from hush.schema import Schema
from hush.workloads import ProductTerm, Term

TOTAL_LABEL = "(total)"
MOST_QUERIES = 1 << 10  # whose errors are found one by one where they can be bounded instead
BOUNDED_NOTE = "the standard errors are at most what follows ±: that of a sum is at most the sum of those of its parts."
BIASED_NOTE = (
    "the estimates are biased: they come from data without negative counts. The intervals, and what follows ±, are "
    "those of the unbiased answers; the intervals are cut at zero where the truth cannot be beyond it."
)
NO_ERROR_NOTE = "no standard error of the biased estimates is known; term() gives the unbiased ones."
CLIPPED_NOTE = "the root mean squared error of each estimate is at most what follows ±."


def row_labels(block: LinearOperator, labels: Sequence[str]) -> list[str]:
    """One label for each query of a block on an attribute with the given labels of levels.

    >>> row_labels(Prefix(2), ["a", "b"]), row_labels(AllRange(2), ["a", "b"])
    (['<= a', '<= b'], ['a', 'a to b', 'b'])
    >>> row_labels(Dense([[1, 0, 0], [0, 1, 1], [1, 1, 1], [1, 0, 1]]), "abc")
    ['a', 'b to c', '(total)', 'query 4']
    """
    match block:
        case Identity():
            return list(labels)
        case Total():
            return [TOTAL_LABEL]
        case Prefix():
            return [f"<= {label}" for label in labels]
        case AllRange():
            return [_run(labels, i, j) for i in range(block.size) for j in range(i, block.size)]
        case WidthRange():
            return [_run(labels, i, i + block.width - 1) for i in range(block.shape[0])]
        case LevelsAndTotal():
            return [*_times(block.levels, labels), *_times(block.total, [TOTAL_LABEL])]
        case Permuted():
            return row_labels(block.operator, [labels[level] for level in block.order])
        case Scaled():
            return _times(block.factor, row_labels(block.operator, labels))
        case Stack():
            weighted = zip(block.operators, block.weights or (), strict=True)
            return [label for inner, weight in weighted for label in _times(weight, row_labels(inner, labels))]
        case Equivalent():
            raise WorkloadError(
                f"{block!r} is known only by its Gram matrix, so its queries cannot be answered one by one; ask for "
                "the counts of the levels, or give the queries themselves"
            )
        case Dense():
            # A run of levels is named by its ends, any other row by its number.
            names = []
            for number, row in enumerate(block.dense(), 1):
                levels = np.flatnonzero(row)
                if not len(levels) or (row[levels] != 1).any() or levels[-1] - levels[0] + 1 != len(levels):
                    names.append(f"query {number}")
                elif 1 < len(row) == len(levels):
                    names.append(TOTAL_LABEL)
                else:
                    names.append(_run(labels, int(levels[0]), int(levels[-1])))
            return names
    return [f"query {number}" for number in range(1, block.shape[0] + 1)]


def _times(weight: float, labels: Sequence[str]) -> list[str]:
    return [label if weight == 1 else f"{weight:g} x {label}" for label in labels]


def _run(labels: Sequence[str], first: int, last: int) -> str:
    return labels[first] if first == last else f"{labels[first]} to {labels[last]}"


def term_answers(
    schema: Schema, term: Term, estimates: Estimates, *, level: float, notes: Iterable[str] = ()
) -> Answers:
    """One row for each query of a term, with its estimate and an exact or bounded standard error."""
    check_level(level)
    groups, group_remarks = term_groups(schema, term)
    count = spare("count", [group.name for group in groups])
    if (product := term.product) is not None:
        values, variances = estimates.product(product.clique, product.blocks)
        errors = np.sqrt(np.maximum(variances, 0.0))  # rounding may leave a small negative variance
        intervals = NoiseIntervals(values.ravel(), product_margins(estimates, product.clique, product.blocks, errors))
        value = Quantity(count, values.ravel(), errors.ravel(), intervals=intervals)
    else:
        answer = term_estimates(estimates, term)
        kind = ErrorKind.EXACT if answer.exact else ErrorKind.BOUND
        intervals = NoiseIntervals(answer.values, answer.margins)
        value = Quantity(count, answer.values, answer.std_error, kind, intervals)
        group_remarks = group_remarks if answer.exact else (*group_remarks, BOUNDED_NOTE)
    return Answers(groups=groups, quantities=(value,), level=level, notes=(*group_remarks, *notes))


@dataclass(frozen=True, slots=True, eq=False)
class TermEstimates:
    """The answers of a term in row-major order, their standard errors, and whether these are exact."""

    values: Floats  # (queries,)
    std_error: Floats  # (queries,)
    exact: bool
    margins: ErrorMargins


def term_estimates(estimates: Estimates, term: Term) -> TermEstimates:
    """Every answer of a term from estimates of the table over its clique."""
    estimates = without_constant_columns(estimates)
    sizes = estimates.domain.sizes(term.clique)
    values = np.ravel(term.exact_answers(estimates.counts(term.clique)))
    variances, exact = _variances(estimates, term, sizes)
    std_error = np.sqrt(np.maximum(np.broadcast_to(variances, sizes if term.per_cell else values.shape), 0.0)).ravel()
    alike = term.symmetric and all(map(estimates.alike, term.clique))
    cells = estimates.domain.size(term.clique)

    def find() -> KnownLaws | None:
        different = 1 if alike else term.queries
        if term.symmetric and not (alike and exact and term.queries <= MOST_WORK):
            return None
        if different > MOST_LAWS or (not term.symmetric and different * cells > MOST_WORK):
            return None
        laws: list[ErrorLaw] = []
        for query in range(different):
            law = estimates.error_law(term.clique, term.coefficients(query, sizes))
            if law is None:
                return None
            laws.append(law)
        return tuple(laws), np.zeros(term.queries, dtype=np.int64) if alike else np.arange(term.queries)

    lowest, highest = term.extremes(sizes)
    half_steps = np.broadcast_to(np.maximum(np.abs(lowest), np.abs(highest)) / 2, std_error.shape)
    margins = ErrorMargins(std_error, half_steps, find, laplace=estimates.laplace)
    return TermEstimates(values, std_error, exact, margins)


def _variances(estimates: Estimates, term: Term, sizes: tuple[int, ...]) -> tuple[Floats, bool]:
    """The variance of every query and True, or a bound on it and False; length 1 along attributes of like levels."""
    if isinstance(estimates, ResidualEstimates):
        return estimates.strategy.term_variances(term), True
    product = estimates.product_of_levels(term.clique) if isinstance(estimates, LocalEstimates) else None
    closed = None if product is None else product.term_variances(term)
    if closed is not None:
        return closed, True
    # Query by query; the first stands for all if levels are alike.
    alike, tau = term.symmetric and all(map(estimates.alike, term.clique)), term.signed_counts
    if alike or tau is None or term.queries <= MOST_QUERIES:
        variances = np.empty(1 if alike else term.queries)
        for query in range(len(variances)):
            coefficients = term.coefficients(query, sizes)
            variances[query] = estimates.covariance(term.clique, coefficients, coefficients, 0)
        return variances if alike else variances.reshape(sizes if term.per_cell else -1), True
    return _bounded(estimates, term, tau, sizes), False


def _bounded(estimates: Estimates, term: Term, tau: tuple[float, ...], sizes: tuple[int, ...]) -> Floats:
    """At most the square of sum_B |tau_|B|| (standard error of the cell of marginal B), shaped like the cells."""
    ones, total = np.ones(sizes), np.zeros(sizes)
    for number in range(1 << len(sizes)):
        inside = tuple(name for axis, name in enumerate(term.clique) if number >> axis & 1)
        if tau[len(inside)]:
            names = (*inside, *(name for name in term.clique if name not in inside))
            table = reordered(ones, term.clique, names)
            errors = np.sqrt(np.maximum(estimates.covariance(names, table, table, len(inside)), 0.0))
            shape = [size if number >> axis & 1 else 1 for axis, size in enumerate(sizes)]
            total += abs(tau[len(inside)]) * errors.reshape(shape)
    return np.asarray(total**2)


def term_groups(schema: Schema, term: Term) -> tuple[tuple[GroupColumn | QueryColumn, ...], tuple[str, ...]]:
    """The columns that say what each answer of a term is, and the notes on them.

    A product has one column for each attribute, and so has a term that asks about every cell. Any other term of
    several queries has one column with a label for each.
    """
    columns = [schema[name] for name in term.clique]
    note = (term.note,) if term.note else ()
    if term.product is term:
        blocks = term.product.blocks
        shape = [block.shape[0] for block in blocks]
        codes = np.unravel_index(np.arange(math.prod(shape)), shape) if columns else ()
        groups: list[GroupColumn | QueryColumn] = []
        notes = group_notes(columns)
        for column, block, code in zip(columns, blocks, codes, strict=True):
            names = [column.label(level) for level in range(column.size)]
            if isinstance(block, Identity):
                groups.append(GroupColumn(column.name, column, code))
            else:
                groups.append(QueryColumn(column.name, tuple(row_labels(block, names)), code))
            if isinstance(block, Permuted):
                first = ", ".join(names[level] for level in block.order[:5]) + ", ..." * (len(block.order) > 5)
                notes.append(f"{column.name}: its levels stand in the order of the workload: {first}.")
        return tuple(groups), tuple(notes)
    if term.per_cell:
        codes = np.unravel_index(np.arange(term.queries), [column.size for column in columns])
        cells = tuple(GroupColumn(column.name, column, code) for column, code in zip(columns, codes, strict=True))
        return cells, (*note, *group_notes(columns))
    if term.queries == 1:
        return (), note
    labels = term.labels([[column.label(code) for code in range(column.size)] for column in columns])
    return (QueryColumn("query", tuple(labels), np.arange(term.queries)),), (*note, *group_notes(columns))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NonnegativeAnswers(Answers):
    """Biased estimates with the interval of the unbiased answer, cut at zero, instead of their own.

    `unbiased` holds the unbiased answers with their standard errors. `signs` has 1 for answers that cannot be negative,
    -1 for those that cannot be positive and 0 for others. Cutting off impossible values loses no coverage.
    """

    unbiased: Quantity
    signs: Signs = field(compare=False)  # (rows,)

    def interval(self, quantity: Quantity) -> Ends:
        """Both ends of the interval of each row: that of the unbiased answer, cut at zero."""
        lower, upper = self.unbiased.intervals.at(self.level)
        return clipped(lower, self.signs), clipped(upper, self.signs)

    def take(self, rows: Rows) -> NonnegativeAnswers:
        taken = Answers.take(self, rows)
        return replace(
            self,
            groups=taken.groups,
            quantities=taken.quantities,
            unbiased=self.unbiased.take(rows),
            signs=self.signs[rows],
        )


def nonnegative_answers(answers: Answers, term: ProductTerm, values: Floats | None) -> NonnegativeAnswers:
    """Unbiased answers to a term with their estimates replaced by `values`, or clipped if these are None.

    The standard errors stay those of the unbiased answers. Clipping can only lower the squared error of an answer, so
    they bound the errors of clipped answers. They say nothing about other values, and are marked so.
    """
    (unbiased,) = answers.quantities
    signs = query_signs(term, tuple(block.shape[1] for block in term.blocks))
    estimate = clipped(unbiased.estimate if values is None else np.asarray(values, dtype=np.float64).ravel(), signs)
    error_kind, further = (ErrorKind.BOUND, CLIPPED_NOTE) if values is None else (ErrorKind.NONE, NO_ERROR_NOTE)
    return NonnegativeAnswers(
        groups=answers.groups,
        quantities=(Quantity(unbiased.name, estimate, unbiased.std_error, error_kind),),
        level=answers.level,
        notes=(*answers.notes, BIASED_NOTE, further),
        unbiased=unbiased,
        signs=signs,
    )


def query_signs(term: Term, sizes: tuple[int, ...]) -> Signs:
    """1 for each query of a term without negative coefficients, -1 for each without positive ones, 0 for others.

    >>> from hush.linops import Dense
    >>> query_signs(ProductTerm(("a", "b"), (Dense([[1, 2], [1, -1], [0, -1]]), Prefix(2))), (2, 2)).tolist()
    [1, 1, 0, 0, -1, -1]
    """
    if (product := term.product) is None:
        lowest, highest = (np.broadcast_to(ends, term.queries) for ends in term.extremes(sizes))
        return np.where(lowest >= 0, 1, np.where(highest <= 0, -1, 0)).astype(np.int8)
    signs: Signs = np.ones((), dtype=np.int8)
    for block in product.blocks:
        rows = np.ones(block.shape[0], dtype=np.int8)
        if not isinstance(block, Identity | Total | Prefix | AllRange | WidthRange):
            # The sign of a row is that of its sum, if the sum of absolute values is equal up to rounding; else 0.
            sums = block.matmat(np.ones((block.shape[1], 1)))[:, 0]
            same_sign = np.abs(sums) >= block.transpose().column_norms(1) * (1 - 1e-12)
            rows = np.where(same_sign, np.where(sums < 0, -1, 1), 0).astype(np.int8)
        signs = np.multiply.outer(signs, rows)
    return signs.ravel()


MODEL_NOTE = (
    "estimates are those of the fitted model, which draws on all tables; intervals are those of the noisy tables, and "
    "unbiased=True gives the estimates of those."
)


def with_model_estimates(answers: Answers, values: Floats, signs: Signs | None = None) -> Answers:
    """Unbiased answers with their estimates replaced by those of a model, which are biased, and usually closer.

    `signs` are those of the answers, 1 by default. Standard errors and intervals stay those of the noisy tables, so the
    intervals hold whatever the model is.
    """
    (unbiased,) = answers.quantities
    estimate = np.asarray(values, dtype=np.float64).ravel()
    signs = np.ones(estimate.shape, dtype=np.int8) if signs is None else signs
    intervals = ModelIntervals(unbiased.intervals, estimate, signs)
    quantity = Quantity(unbiased.name, estimate, unbiased.std_error, ErrorKind.MODEL, intervals)
    return replace(answers, quantities=(quantity,), notes=(*answers.notes, MODEL_NOTE))


def table_answers(
    schema: Schema, clique: Clique, estimates: Estimates, *, level: float = 0.95, notes: Iterable[str] = ()
) -> Answers:
    """Every cell of a table: unbiased counts with exact errors, or counts of a model with the bound on their table."""
    check_level(level)
    counts = estimates.counts(clique)
    if not (isinstance(estimates, BoundedEstimates) and not estimates.has_covariance(clique)):
        ones = np.ones(counts.shape)
        variances = estimates.covariance(clique, ones, ones, len(clique))
        margins = sum_margins(estimates, clique, ones, len(clique), np.sqrt(np.maximum(variances, 0.0)))
        return Answers.of_marginal(schema, clique, counts, variances, level, notes=notes, margins=margins)
    margin = float(estimates.margin(clique, np.zeros(()), np.ones(()), level))
    error_kind = ErrorKind.NONE if np.isnan(margin) else ErrorKind.BOUND
    notes = (bound_note(clique, estimates.l1_bound(clique, level), level), *notes)
    return Answers.of_marginal(schema, clique, counts, None, level, error_kind=error_kind, notes=notes, margin=margin)


def bounded_term_answers(
    schema: Schema, term: Term, estimates: Estimates, *, level: float = 0.95, notes: Iterable[str] = ()
) -> Answers:
    """Every query of a term, with exact standard errors or with the bound on its table, as in `table_answers`."""
    if not (isinstance(estimates, BoundedEstimates) and not estimates.has_covariance(term.clique)):
        return term_answers(schema, term, estimates, level=level, notes=notes)
    sizes = estimates.domain.sizes(term.clique)
    if (product := term.product) is None:
        values = term.exact_answers(estimates.counts(term.clique))
        lowest, highest = term.extremes(sizes)
    else:
        values, _ = estimates.product(product.clique, product.blocks)
        largest: Floats = np.ones(())
        for block in product.blocks:
            largest = np.multiply.outer(largest, largest_coefficients(block))
        largest, signs = largest.ravel(), query_signs(term, sizes)
        lowest, highest = np.where(signs > 0, 0.0, -largest), np.where(signs < 0, 0.0, largest)
    margin = estimates.margin(term.clique, lowest, highest, check_level(level))
    note = bound_note(term.clique, estimates.l1_bound(term.clique, level), level)
    return model_answers(schema, term, values, level, (note, *notes), margin)


def model_answers(
    schema: Schema, term: Term, values: Floats, level: float, notes: Iterable[str], margin: Floats | float = np.nan
) -> Answers:
    """The answers of a term from a model, each off by at most a margin where there is one."""
    groups, group_remarks = term_groups(schema, term)
    values = np.ravel(values)
    kind = ErrorKind.NONE if np.isnan(margin).all() else ErrorKind.BOUND
    intervals = FixedIntervals(values - margin, values + margin, level)
    count = spare("count", [group.name for group in groups])
    value = Quantity(count, values, np.full(values.shape, np.nan), kind, intervals)
    return Answers(groups=groups, quantities=(value,), level=level, notes=(*group_remarks, *notes))
