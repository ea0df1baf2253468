"""SQL: one SELECT over the table of a release, answered from its estimates."""

from __future__ import annotations

import numpy as np
from sqlglot import exp

from hush.domain import Clique
from hush.errors import DomainError, QueryError
from hush.inference.estimates import Estimates
from hush.release.answer_columns import Basis, Group, Quantity, check_basis, group_notes
from hush.release.answers import Answers, check_level
from hush.release.bound_note import bound_note
from hush.release.coverage import check_cover
from hush.release.evaluation import CLEAR, Bounded, evaluate
from hush.release.ordering import ordered
from hush.schema import Schema
from hush.sql.cells import Cells, check_size, combine
from hush.sql.comparison import TRUE
from hush.sql.expression import formula_of
from hush.sql.formula import Formula
from hush.sql.grouping import Item, Output, read_output
from hush.sql.predicate import always, only_true, truth
from hush.sql.query import Query, parse
from hush.sql.scope import Scope, quote

SMALL = 2**22  # cells up to which it is worth looking whether a condition really depends on all it names


def answer_sql(
    text: str, schema: Schema, estimates: Estimates, *, level: float = 0.95, basis: str = Basis.EXACT
) -> Answers:
    """Answer a query from estimates of tables of counts; post-processing, which costs no privacy.

    Supported: one SELECT from one table (any name) of columns and of COUNT, SUM and AVG, with FILTER, CASE, sums,
    differences, multiples and ratios of them; WHERE with comparisons, BETWEEN, IN, IS NULL, IS TRUE, AND, OR, NOT over
    the real values of the schema; GROUP BY columns; ORDER BY and LIMIT on the answers. Missing is SQL's null.

    Every combination of levels of the grouped columns that WHERE leaves possible is answered, also where the estimate
    is zero. An aggregate over a table is sum_x mask[x] value[x] count[x], with the exact variance of that sum; a ratio
    has the variance of the delta method and is marked approximate. A sum over no rows is 0, an average has no answer.

    `basis` says what the covariances of the estimates are: exact, approximate, a bound, or none. Where estimates have
    no covariances but a bound on the error of a table, sums over it have an interval by that bound, and ratios none.

    Raises:
        QueryError: what is not supported, not in the schema, or not covered, and what to write instead.
        SizeError: the query needs a table of more than 2^28 cells.
    """
    check_level(level)
    kind = check_basis(basis)
    if schema.domain != estimates.domain:
        raise DomainError("the schema and the estimates have different domains; give the schema of the same release")
    try:
        return _answer(parse(text), schema, estimates, level, kind)
    except RecursionError:
        raise QueryError("the query is nested too deeply; write it with fewer parentheses") from None


def _source(formula: Formula, groups: Clique, said: str, estimates: Estimates) -> Estimates:
    """Where a formula is answered from: the estimates, or a part of them that knows these sums and not every cell."""
    clique = formula.clique(groups)
    if not estimates.covers(clique) and not formula.quotients:
        check_size(estimates.domain, clique)
        shape = estimates.domain.sizes(clique)
        coefficients = np.broadcast_to(formula.coefficients.along(clique), shape)
        found = estimates.for_sums(clique, coefficients, len(groups))
        if found is not None:
            return found
    check_cover(clique, said, estimates)
    return estimates


def _answer(query: Query, schema: Schema, estimates: Estimates, level: float, basis: Basis) -> Answers:
    scope = Scope(schema, query.tables)
    output = read_output(query, scope)
    groups = output.groups
    where, formulas = _read(query, output, scope, estimates)
    sources = [
        _source(formula, groups, quote(item.node), estimates)
        for item, formula in zip(output.values, formulas, strict=True)
    ]
    rows = np.flatnonzero(_possible(where, groups))
    codes = np.unravel_index(rows, scope.domain.sizes(groups)) if groups else ()
    for note in group_notes(output.columns):
        scope.note(note)
    answers = Answers(
        groups=tuple(
            Group(item.name, column, code)
            for item, column, code in zip(output.labels, output.columns, codes, strict=True)
        ),
        quantities=tuple(
            _quantity(item, formula, groups, rows, source, basis, scope, level)
            for item, formula, source in zip(output.values, formulas, sources, strict=True)
        ),
        level=level,
        notes=tuple(scope.notes),
    )
    return ordered(answers, output, query, scope)


def _read(query: Query, output: Output, scope: Scope, estimates: Estimates) -> tuple[Cells, list[Formula]]:
    """Where the condition is true, and the formula of every value."""
    groups = frozenset(output.groups)
    where = always(scope)
    if query.where is not None:
        _check_large(groups | _named(query.where, scope), "WHERE", scope, estimates)
        where = combine(only_true, truth(query.where, scope))
    if not (where.values == TRUE).any():
        scope.note("The condition of WHERE is true for no level that the schema declares.")
    formulas = []
    for item in output.values:
        _check_large(groups.union(where.names, _named(item.node, scope)), quote(item.node), scope, estimates)
        formula = formula_of(item.node, where, scope)
        if not item.node.find(exp.AggFunc):
            raise QueryError(f"{quote(item.node)} has no aggregate in it; add one, such as COUNT(*)")
        formulas.append(formula)
    return where, formulas


def _check_large(names: frozenset[str], said: str, scope: Scope, estimates: Estimates) -> None:
    """Refuse what is not covered before a large array is made, without a look at what it really depends on."""
    clique = scope.domain.clique(names)
    if scope.domain.size(clique) > SMALL:
        check_cover(clique, said, estimates)


def _named(node: exp.Expr, scope: Scope) -> frozenset[str]:
    """The columns of the schema that a piece of the query names."""
    found = (scope.find(column.name) for column in node.find_all(exp.Column))
    return frozenset(column.name for column in found if column is not None)


def _possible(where: Cells, groups: Clique) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which combinations of levels of the groups WHERE does not rule out; without groups there is always one row."""
    check_size(where.domain, groups)
    if not groups:
        return np.ones(1, dtype=bool)
    held = Cells(where.domain, where.names, where.values == TRUE).any_over(groups)
    return np.broadcast_to(held.along(groups), where.domain.sizes(groups))


def _quantity(
    item: Item,
    formula: Formula,
    groups: Clique,
    rows: np.ndarray[tuple[int], np.dtype[np.intp]],
    estimates: Estimates,
    basis: Basis,
    scope: Scope,
    level: float,
) -> Quantity:
    result = evaluate(formula, groups, estimates, level)
    estimate, std_error = result.estimate.reshape(-1)[rows], result.std_error.reshape(-1)[rows]
    margin = None if result.margin is None else result.margin.reshape(-1)[rows]
    if isinstance(estimates, Bounded) and not estimates.has_covariance(clique := formula.clique(groups)):
        found = margin is not None and not np.isnan(margin).all()
        basis = Basis.BOUND if found else Basis.NONE
        scope.note(bound_note(clique, estimates.l1_bound(clique, level), level))
        if not formula.linear:
            scope.note(f"{item.name}: a ratio of numbers from the fitted model; it has no interval.")
    absent = int(np.isnan(estimate).sum())
    if not formula.linear and basis is not Basis.NONE:
        basis = Basis.APPROXIMATE
        scope.note(f"{item.name}: a ratio; its standard error is by the delta method.")
    if absent:
        what = "The answer" if len(estimate) == 1 else f"{absent:,} of {len(estimate):,} answers"
        reason = "the denominator is zero: the model has no such rows"
        if basis is not Basis.NONE:
            reason = f"the denominator is not at least {CLEAR:g} standard errors away from zero"
        scope.note(f"{item.name}: {what} cannot be given, because {reason}.")
    return Quantity(item.name, estimate, std_error, basis, margin)
