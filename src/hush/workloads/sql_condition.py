"""SQL conditions as propositions: what WHERE would keep, column by column, so that no table of all columns is made.

SQL's logic has three values. A condition is read as a pair of propositions, where it is true and where it is false; in
all other cells it is unknown. A condition on one column is read as queries on a release read it, level by level.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from hush.core.errors import QueryError, WorkloadError
from hush.schema import Schema
from hush.schema.proposition import ALWAYS, NEVER, Proposition, joined, levels_in
from hush.sql.formula import Cells
from hush.sql.parsing import parse
from hush.sql.predicate import FALSE, TRUE, counted_conditions, truth
from hush.sql.quoting import quotes_advised
from hush.sql.row_labels import with_stamp_parts
from hush.sql.scalars import folded
from hush.sql.scope import Scope, quote

if TYPE_CHECKING:
    from hush.core.domain import Domain

Pair = tuple[Proposition, Proposition]  # where it is true, where it is false
MOST_COUPLED = 1 << 12  # combinations of levels that one comparison may couple


def proposition_of_sql(over: Domain | Schema, condition: str) -> Proposition:
    """Where an SQL condition is true, by the real values of a schema.

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
