"""Workloads from SQL, read just as queries on a release are: counting queries as products, conditions as propositions.

The condition of a counting query allows a set of cells. It is cut into disjoint boxes of levels, each of which is a
product of query blocks. A condition by itself, for `Workload.formulas`, becomes a proposition column by column, so that
no table over all columns is made.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sqlglot import exp

from hush.core.arrays import Booleans, Integers
from hush.core.domain import Clique, Domain
from hush.core.errors import QueryError, SizeError, WorkloadError
from hush.linops import Dense, Identity, LinearOperator
from hush.schema import Schema
from hush.schema.proposition import ALWAYS, NEVER, Proposition, joined, levels_in
from hush.sql.aggregate import formula_of
from hush.sql.formula import FALSE, TRUE, Cells, combine
from hush.sql.parsing import Output, ParsedQuery, parse, read_output, statements
from hush.sql.predicate import counted_conditions, everywhere, truth
from hush.sql.quoting import quotes_advised
from hush.sql.row_labels import RowLabels, row_labels, with_stamp_parts
from hush.sql.scalars import folded
from hush.sql.scope import Scope, quote
from hush.workloads.term import ProductTerm, merged
from hush.workloads.workload import Workload

LARGEST_COUPLED = 1 << 24  # cells over which columns may be coupled
LARGEST_BLOCK = 1 << 26  # entries of a block that is written out
LARGEST_PRODUCTS = 4096  # into which one query may be cut
Box = tuple[Booleans, ...]  # one mask of levels for each axis


@dataclass(frozen=True, slots=True)
class CountFactor:
    """A factor of what a row adds to a count, 0 or 1 by the levels of some columns, and how the query says it."""

    cells: Cells
    words: tuple[str, ...]


def workload_of_sql(
    schema: Schema, queries: str | Sequence[str], *, weights: Sequence[float] | None = None
) -> Workload:
    """The workload that asks for every number of some queries; `weights` has one for each query, 1 by default.

    A query is one SELECT of counts: COUNT(*), COUNT(column), with FILTER or CASE, and any WHERE and GROUP BY that a
    release answers; a text may hold several, divided by semicolons. A grouped column is asked for each level that the
    condition allows, another column of the condition for the levels that it allows, together. Conditions joined by AND
    may name any number of columns. Where a condition couples columns otherwise, the query is cut into several products
    if that leaves every number whole, as it does if all but one of these columns are grouped; else it is refused.
    A value of an expression in GROUP BY, such as CASE, is a condition on the columns of the expression. Groups in which
    no row can count are left out, and ORDER BY is not read.

    Privacy: reads the schema alone.

    >>> from hush.datasets import people_schema
    >>> workload_of_sql(people_schema(), "SELECT region, COUNT(*) FROM t WHERE employed AND age >= 40 GROUP BY region")
    Workload(1 products, 5 queries over 7 attributes)
    """
    if not isinstance(schema, Schema):
        raise WorkloadError(f"schema: expected a Schema, which says what values mean, got {type(schema).__name__}")
    texts = [text for given in ([queries] if isinstance(queries, str) else queries) for text in statements(given)]
    if not texts:
        raise WorkloadError("the workload is empty; give at least one query, such as SELECT sex, COUNT(*) FROM t ...")
    if weights is not None and len(weights) != len(texts):
        raise WorkloadError(f"{len(weights)} weights for {len(texts)} queries; give one each")
    # The products of each query; messages say which of several queries is at fault.
    terms: list[ProductTerm] = []
    for number, text in enumerate(texts):
        weight = 1.0 if weights is None else float(weights[number])
        try:
            with quotes_advised(text, schema.domain):
                query = with_stamp_parts(folded(parse(text)), schema)
                if query.limit is not None or query.offset or query.having is not None:
                    raise QueryError(
                        "HAVING, LIMIT and OFFSET choose among answers, which a workload does not have; leave them out"
                    )
                scope = Scope(schema, query.tables)
                output = read_output(query, scope)
                labels = [row_labels(item.node, scope) for item in output.expressions]
                products = count_products(query, output, labels, scope)
                terms.extend(ProductTerm(product.clique, product.blocks, weight) for product in products)
        except RecursionError:
            raise QueryError(f"query {number + 1} is nested too deeply; write it with fewer parentheses") from None
        except (QueryError, WorkloadError) as error:
            raise type(error)(str(error) if len(texts) == 1 else f"query {number + 1}: {error}") from None
    return Workload(schema.domain, merged(terms))


@dataclass(frozen=True, slots=True)
class CountProduct:
    """One product of blocks that a query asks for: the place of its value, the labels and the levels of its groups."""

    value: int  # place among the values of SELECT
    labels: tuple[int, ...]  # the code of each expression's value, for expressions of GROUP BY
    clique: Clique
    blocks: tuple[LinearOperator, ...]
    levels: dict[str, Booleans]  # of every grouped column, those that the blocks ask for

    def places(self, groups: Clique) -> Integers:
        """The number of each of its queries among all combinations of levels of the groups, both in row-major order."""
        asked = [np.flatnonzero(self.levels[name]) for name in self.clique if name in groups]
        grids = iter(np.meshgrid(*asked, indexing="ij"))
        codes = {name: next(grids).ravel() for name in self.clique if name in groups}
        count = math.prod(len(levels) for levels in asked)
        alone = np.zeros(count, dtype=np.int64)  # a column of one level is in no clique
        sizes = [len(self.levels[name]) for name in groups]
        if not groups:
            return alone
        return np.asarray(np.ravel_multi_index([codes.get(name, alone) for name in groups], sizes))


def count_products(
    query: ParsedQuery, output: Output, labels: Sequence[RowLabels], scope: Scope
) -> Iterator[CountProduct]:
    """The products of blocks that ask for every number of a query; WorkloadError where there are none."""
    for place, item in enumerate(output.values):
        counted = _value(item.node, scope)
        for chosen, rows in group_factors(query, output, labels, scope):
            factors = [*rows, *counted]
            if labels and not all(factor.cells.values.any() for factor in _apart(factors)):
                continue  # no row can have these values
            yield from (
                CountProduct(place, chosen, clique, blocks, levels)
                for clique, blocks, levels in _products(factors, output.groups, scope.domain)
            )


def group_factors(
    query: ParsedQuery, output: Output, labels: Sequence[RowLabels], scope: Scope
) -> Iterator[tuple[tuple[int, ...], list[CountFactor]]]:
    """What WHERE keeps of the rows that have each combination of values of the expressions of GROUP BY."""
    where = [] if query.where is None else list(_conditions(query.where, scope))
    for chosen in itertools.product(*(range(len(known.values)) for known in labels)):
        masks = [
            CountFactor(combine(lambda values: values == TRUE, known.mask(code)), (quote(item.node),))
            for item, known, code in zip(output.expressions, labels, chosen, strict=True)
        ]
        yield chosen, _apart([*where, *masks])


def _value(node: exp.Expr, scope: Scope) -> list[CountFactor]:
    """The factors of a count: its own, and those of its FILTER."""
    inner = node
    filters: list[CountFactor] = []
    while isinstance(inner, exp.Filter):
        filters += _conditions(inner.expression.this, scope)
        inner = inner.this
    formula = formula_of(inner, everywhere(TRUE, scope), scope)
    if not inner.find(exp.AggFunc):
        raise QueryError(f"{quote(node)} has no aggregate in it; add one, such as COUNT(*)")
    coefficients = formula.coefficients
    if not formula.linear or formula.offset or not np.isin(coefficients.values, (0.0, 1.0)).all():
        raise WorkloadError(
            f"{quote(node)} is not a count of rows; ask for the counts it is made of, or give its coefficients with "
            "Workload.product and queries.matrix"
        )
    return [*filters, CountFactor(replace(coefficients, values=coefficients.values == 1), (quote(node),))]


def _conditions(node: exp.Expr, scope: Scope) -> Iterator[CountFactor]:
    """The conditions that AND joins, each by itself: all must be true, and unknown is like false."""
    inner = node.unnest()
    if isinstance(inner, exp.And):
        for condition in inner.flatten():
            yield from _conditions(condition, scope)
    else:
        yield CountFactor(combine(lambda values: values == TRUE, truth(inner, scope)), (quote(inner),))


def _products(
    factors: Sequence[CountFactor], groups: Clique, domain: Domain
) -> Iterator[tuple[Clique, tuple[LinearOperator, ...], dict[str, Booleans]]]:
    """The products of blocks that ask for the product of all factors in every group, and the levels of the groups."""
    pieces: list[tuple[Clique, list[Box]]] = []
    for factor in _apart(factors):
        if not factor.cells.values.any():
            raise WorkloadError(f"{' AND '.join(factor.words)} is true for no level of the schema; leave the query out")
        pieces.append(_cut(factor, groups))
    if math.prod(len(cut) for _, cut in pieces) > LARGEST_PRODUCTS:
        raise WorkloadError(f"the query is a union of more than {LARGEST_PRODUCTS} products; cut it into simpler ones")
    for chosen in itertools.product(*(cut for _, cut in pieces)):
        masks: dict[str, Booleans] = {name: np.ones(domain[name], dtype=bool) for name in groups}
        for (names, _), box in zip(pieces, chosen, strict=True):
            masks.update(zip(names, box, strict=True))
        asked = {name: mask for name, mask in masks.items() if len(mask) > 1 and (name in groups or not mask.all())}
        clique = domain.clique(asked)
        blocks = tuple(_block(asked[name], name in groups) for name in clique)
        yield clique, blocks, {name: masks[name] for name in groups}


def _apart(factors: Sequence[CountFactor]) -> list[CountFactor]:
    """The factors, those that share columns multiplied, so that no two depend on the same column."""
    apart: list[CountFactor] = []
    for factor in factors:
        shared = [other for other in apart if set(other.cells.names) & set(factor.cells.names)]
        together = [*shared, factor]
        cells = combine(
            lambda *values: np.logical_and.reduce(np.broadcast_arrays(*values)), *(part.cells for part in together)
        )
        apart = [other for other in apart if other not in shared]
        apart.append(CountFactor(cells, tuple(dict.fromkeys(word for part in together for word in part.words))))
    return apart


def _cut(factor: CountFactor, groups: Clique) -> tuple[Clique, list[Box]]:
    """The columns of a factor, those of the groups first, and the boxes that it is made of."""
    names = factor.cells.names
    ordered = (*(name for name in names if name in groups), *(name for name in names if name not in groups))
    if len(names) > 1 and factor.cells.values.size > LARGEST_COUPLED:
        raise SizeError(
            f"{' AND '.join(factor.words)} couples {', '.join(names)} over {factor.cells.values.size:,} cells: at most "
            f"{LARGEST_COUPLED:,} are possible; join conditions on single columns by AND"
        )
    grouped = sum(name in groups for name in names)
    cut = boxes(factor.cells.spread(ordered), grouped)
    if cut is None:
        raise WorkloadError(
            f"{' AND '.join(factor.words)} couples the columns {', '.join(ordered[grouped:])}, so that a count is a "
            "sum of products and not one; ask for disjoint cases in queries of their own, or group by all but one of "
            "them; Workload.formulas takes any condition for a single count"
        )
    return ordered, cut


def boxes(inside: Booleans, groups: int) -> list[Box] | None:
    """Disjoint boxes that hold the cells `inside` and cut no query in two; None if there are none.

    The first `groups` axes are grouped: every combination of their levels is a query of its own, the sum over the cells
    inside along the other axes. Levels of the first axis with the same cells behind them go together and the cells
    behind them are cut in turn; along an axis that is not grouped all levels must have the same cells behind them.

    >>> corner = np.array([[True, True], [True, False]])
    >>> [tuple(mask.tolist() for mask in box) for box in boxes(corner, 1)]
    [([True, False], [True, True]), ([False, True], [True, False])]
    >>> boxes(corner, 0) is None
    True
    """
    if inside.ndim == 0:
        return [()]
    behind = inside.reshape(len(inside), -1)
    kept = np.flatnonzero(behind.any(axis=1))
    packed = np.packbits(behind[kept], axis=1)
    together: dict[bytes, list[int]] = {}
    for level, key in zip(kept.tolist(), packed, strict=True):
        together.setdefault(key.tobytes(), []).append(level)
    if groups == 0 and len(together) > 1:
        return None
    result: list[Box] = []
    for levels in together.values():
        inner = boxes(inside[levels[0]], max(groups - 1, 0))
        if inner is None:
            return None
        mask = np.zeros(len(inside), dtype=bool)
        mask[levels] = True
        result.extend((mask, *box) for box in inner)
    return result


def _block(mask: Booleans, grouped: bool) -> LinearOperator:
    """Each level of the mask by itself if it is grouped, else all of them together."""
    if not grouped:
        return Dense(mask[None])
    if mask.all():
        return Identity(len(mask))
    levels = np.flatnonzero(mask)
    if len(levels) * len(mask) > LARGEST_BLOCK:
        raise SizeError(
            f"{len(levels):,} of {len(mask):,} levels as a matrix are too large; group by the column without a "
            "condition on it"
        )
    return Dense(levels[:, None] == np.arange(len(mask)))


Pair = tuple[Proposition, Proposition]  # where it is true, where it is false
MOST_COUPLED = 1 << 12  # combinations of levels that one comparison may couple


def proposition_of_sql(over: Domain | Schema, condition: str) -> Proposition:
    """Where an SQL condition is true, by the real values of a schema.

    SQL's logic has three values. A condition is read as a pair of propositions, where it is true and where it is false;
    in all other cells it is unknown. A condition on one column is read as queries on a release read it.

    >>> from hush.datasets import people_schema
    >>> str(proposition_of_sql(people_schema(), "employed OR NOT sex = 'female'"))
    'employed = 1 or sex = 1'
    """
    schema = getattr(over, "schema", over)
    if not isinstance(schema, Schema):
        raise WorkloadError(
            f"{' '.join(condition.split())!r} compares real values, and a domain has codes alone; give the schema, or "
            "write the condition with queries.test"
        )
    with quotes_advised(condition, schema.domain):
        query = with_stamp_parts(folded(parse(f"SELECT COUNT(*) FROM t WHERE {condition}")), schema)
        if query.where is None or query.limit is not None or query.order or query.offset or query.having:
            raise QueryError(f"{' '.join(condition.split())!r} is more than one condition; give what follows WHERE")
        return _pair(query.where, Scope(schema, query.tables))[0]


def _pair(node: exp.Expr, scope: Scope) -> Pair:
    match node:
        case exp.Paren():
            return _pair(node.this, scope)
        case exp.Not():
            true, false = _pair(node.this, scope)
            return false, true
        case exp.And() | exp.Or():
            pairs = [_pair(part, scope) for part in node.flatten()]
            every, some = len(pairs), 1
            needed = (every, some) if isinstance(node, exp.And) else (some, every)
            return joined(needed[0], [true for true, _ in pairs]), joined(needed[1], [false for _, false in pairs])
    counted = counted_conditions(node, scope)
    if counted is not None:
        parts, wanted = counted
        pairs = [_pair(part, scope) for part in parts]
        known = joined(len(pairs), [joined(1, pair) for pair in pairs])  # a sum with an unknown part is unknown
        met, unmet = _counts(pairs, wanted)
        return joined(2, [known, met]), joined(2, [known, unmet])
    return _levels(truth(node, scope), node)


def _counts(pairs: list[Pair], wanted: frozenset[int]) -> Pair:
    """Whether the number of true ones is among the wanted, where all are known."""
    every = len(pairs)
    truths, falses = [true for true, _ in pairs], [false for _, false in pairs]

    def among(numbers: frozenset[int]) -> Proposition:
        runs: list[Proposition] = []
        for first in sorted(number for number in numbers if number - 1 not in numbers):
            last = next(number for number in itertools.count(first) if number + 1 not in numbers)
            runs.append(joined(2, [joined(first, truths), joined(every - last, falses)]))
        return joined(1, runs)

    return among(wanted), among(frozenset(range(every + 1)) - wanted)


def _levels(cells: Cells, node: exp.Expr) -> Pair:
    """A condition on few levels, as tests of them."""
    values = np.asarray(cells.values)
    if not cells.names:
        return (ALWAYS, NEVER) if values == TRUE else (NEVER, ALWAYS) if values == FALSE else (NEVER, NEVER)
    if values.size // values.shape[-1] > MOST_COUPLED:
        raise QueryError(
            f"{quote(node)} couples {', '.join(cells.names)} over too many levels; cut it into simpler ones"
        )
    *outer, last = cells.names
    sizes = values.shape

    def where(wanted: int) -> Proposition:
        cases = []
        for levels in itertools.product(*(range(size) for size in sizes[:-1])):
            inside = frozenset(np.flatnonzero(values[levels] == wanted).tolist())
            outside = zip(outer, levels, sizes, strict=False)
            tests = [levels_in(name, frozenset([level]), size) for name, level, size in outside]
            cases.append(joined(len(tests) + 1, [*tests, levels_in(last, inside, sizes[-1])]))
        return joined(1, cases)

    return where(TRUE), where(FALSE)
