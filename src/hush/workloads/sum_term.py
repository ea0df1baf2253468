"""Sum terms of a workload: the sum of a numeric column in every cell of a table, and the grid its values are put on.

The sum over a table that does not have the column among its own attributes is centred on the middle of the column's
bounds. A table that does have it is centred on the middle of every level: it says where in each bin the values lie.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hush.core.domain import Clique, Domain
from hush.core.errors import HushError, WorkloadError
from hush.core.validation import check_number
from hush.privacy.sum_query import MOST_STEPS, SumQuery, ValueGrid

if TYPE_CHECKING:
    from hush.schema import Integer, Numeric, Schema

OWN_BINS_WEIGHT = 0.25  # of sums by the column's own bins, which only synthetic rows need


@dataclass(frozen=True, slots=True)
class SumTerm:
    """The sum of a column, or of the squares of its distance from the middle, in every cell of the table of a clique.

    The weight says how much of the budget it gets beside the other tables of the workload.
    """

    clique: Clique
    grid: ValueGrid
    weight: float = 1.0

    @property
    def column(self) -> str:
        """The column whose values are added up."""
        return self.grid.column

    @property
    def query(self) -> SumQuery:
        """What the gate is asked for."""
        return SumQuery(self.clique, self.grid)

    @property
    def text(self) -> str:
        """The term for a person."""
        what = ("rows with {}", "sum({})", "sum of squares({})")[self.grid.power].format(self.column)
        return what + (f" by {', '.join(self.clique)}" if self.clique else "")

    @property
    def largest_unit(self) -> float:
        """The size of one step, of the widest level."""
        return max(self.grid.units)

    def reweighted(self, weight: float) -> SumTerm:
        """The same sums with another weight."""
        return replace(self, weight=weight)

    def check(self, domain: Domain) -> None:
        """Refuse an impossible weight, and a grid or a clique that does not fit the domain."""
        check_number(WorkloadError, f"{self.text}: weight", self.weight, above=0)
        domain.check((self.column,))
        domain.check(self.clique)
        if self.grid.by_level != (self.column in self.clique) and len(self.grid.centres) != 1:
            raise WorkloadError(f"the grid of {self.text} is not that of its table; make the workload anew")


def row_terms(terms: Iterable[SumTerm]) -> tuple[SumTerm, ...]:
    """How many rows have a value, in every table of some sums that is not by the column itself.

    Mechanisms that choose their tables need them: a mean is known no better than the number of rows it is over.
    """
    row_counts: dict[tuple[Clique, str | None], SumTerm] = {}
    for term in terms:
        if not term.grid.by_level:
            grid = ValueGrid(term.column, 1, (0.0,), (1.0,), power=0, missing=term.grid.missing, exact=True)
            key = (term.clique, None if term.grid.missing is None else term.column)
            row_counts.setdefault(key, SumTerm(term.clique, grid, term.weight))
    return tuple(row_counts.values())


def merged_sums(terms: Iterable[SumTerm]) -> tuple[SumTerm, ...]:
    """The terms in order of first appearance, those that ask for the same with their weights added."""
    weights: dict[SumTerm, float] = {}
    for term in terms:
        question = term.reweighted(1.0)
        weights[question] = weights.get(question, 0.0) + term.weight
    return tuple(question.reweighted(weight) for question, weight in weights.items())


def sum_terms(
    schema: Schema, column: str, by: Iterable[str] = (), *, variance: bool = False
) -> tuple[list[SumTerm], list[Clique]]:
    """The sums that a column by other columns needs, and the tables of counts that make sums and means of them.

    Where bins hide the values, the sums by the column's own bins are among them, with a small weight.
    """
    from hush.schema import Integer, Numeric

    domain = schema.domain
    (name,) = domain.check((column,))
    numbers = schema[name]
    clique = domain.clique(domain.check((by,) if isinstance(by, str) else by))
    if not isinstance(numbers, Integer | Numeric):
        raise WorkloadError(f"column {name!r} is {numbers.kind} and cannot be added up; sum an integer or numeric one")
    if numbers.part is not None:
        raise WorkloadError(
            f"column {name!r} is a part of the times in {numbers.source!r}, which are not added up; ask for counts by "
            f"{name!r}, from which its mean follows"
        )
    wide = any(low < high for low, high in map(numbers.ends, range(numbers.levels)))
    if name in clique and not wide:
        raise WorkloadError(
            f"every level of {name!r} is a single number, so its sums by {name!r} follow from counts; leave {name!r} "
            "out of `by`"
        )
    if name in clique and variance:
        raise WorkloadError(f"the variance of {name!r} by itself says nothing; leave {name!r} out of `by`")
    terms = [SumTerm(clique, _level_grid(numbers) if name in clique else _grid(numbers))]
    if variance:
        # The square of the distance from the centre of the sums, in 2^24 steps to either side of its middle.
        origin = _grid(numbers).centres[0]
        reach = max(float(numbers.high) - origin, origin - float(numbers.low))
        square = reach * reach
        if not math.isfinite(square):
            raise WorkloadError(f"the squares of {name!r} are beyond floats; use narrower bounds")
        half, missing = max(square / 2, 0.5), numbers.missing_code
        units = (half / MOST_STEPS,)
        squares = ValueGrid(name, MOST_STEPS, (half,), units, power=2, origin=origin, missing=missing)
        terms.append(SumTerm(clique, squares))
    if wide and name not in clique:
        terms.append(SumTerm((name,), _level_grid(numbers), OWN_BINS_WEIGHT))
    counted = [clique, *((name,) for _ in range(wide))]
    if numbers.missing:
        counted.append(domain.clique({*clique, name}))
    return terms, list(dict.fromkeys(counted))


def grid_fault(term: SumTerm, schema: Schema) -> str | None:
    """Explain why the grid of a term is not that of a schema's column; None if it is."""
    try:
        terms, _ = sum_terms(schema, term.column, term.clique, variance=term.grid.power == 2)
    except HushError as error:
        return str(error)
    same = any(term.grid == other.grid for other in terms)
    return None if same else f"the grid of {term.text} is not that of its schema"


def _grid(column: Integer | Numeric) -> ValueGrid:
    """Integers exactly, in whole or half steps around the middle; other numbers in 2^24 steps to either side of it."""
    centre, reach = _middle(float(column.low), float(column.high))
    if isinstance(column.low, int) and isinstance(column.high, int) and column.high - column.low <= MOST_STEPS:
        unit = 1.0 if (column.high - column.low) % 2 == 0 else 0.5
        steps = max(round(reach / unit), 1)
        return ValueGrid(column.name, steps, (centre,), (unit,), missing=column.missing_code, exact=True)
    return ValueGrid(column.name, MOST_STEPS, (centre,), (reach / MOST_STEPS,), missing=column.missing_code)


def _level_grid(column: Integer | Numeric) -> ValueGrid:
    """2^24 steps to either side of the middle of every level; a point has none."""
    ends = [_middle(float(low), float(high)) for low, high in map(column.ends, range(column.levels))]
    centres, units = tuple(centre for centre, _ in ends), tuple(reach / MOST_STEPS for _, reach in ends)
    return ValueGrid(column.name, MOST_STEPS, centres, units, missing=column.missing_code)


def _middle(low: float, high: float) -> tuple[float, float]:
    """The middle of two bounds and the distance to them; halves first, as their sum may overflow."""
    return low / 2 + high / 2, high / 2 - low / 2
