"""Error bounds: how far the tables of a fitted model are from the truth, at no privacy cost.

A table inside a measured one is *supported*: its noisy values say how far the model can be off. Any other table that
could have been chosen for measuring and was not is *unsupported*: had the model been far off there, the exponential
mechanism would have been likely to choose it.

What is proven: given everything before a round, its choice and its noise are what the bound of the round takes them
for, so it holds for all candidates of the final round, which is known to be the final one before it starts.

What is not: a table that was too large for the final round has the bound of an earlier one, and which one that is
depends on later noise. Supported bounds take the noisy tables as if they had been chosen beforehand, as the paper does,
while an adaptive mechanism chooses by earlier noise. Whether a table is supported depends on noise too; strictly, the
failure probabilities of both kinds add up. In simulations all fail less often than they say, for a table that noise has
led astray is more likely to be measured again. Noise in whole steps is nearly Gaussian; what is missing is added, see
`l1_bounds`.

Reference: [AIM, sec. 5]; the one round of an unsupported table is that in `Scored`, never the best of several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from hush.arrays import Floats
from hush.domain import Clique, Domain, listed_cliques
from hush.errors import DataError
from hush.inference import l1_bounds
from hush.inference.best_unbiased import UnbiasedEstimates
from hush.privacy.measurement import Measurement
from hush.release.answers import check_level
from hush.release.rounds import LEAST_STDDEV, Round, Scored, gaussian_law, measured_in
from hush.text_table import NO_NUMBER, TextColumn, TextTable, fixed_text, number_columns


def bound_note(clique: Clique, bound: float, level: float) -> str:
    """Where a table is from, and how far it can be off as a whole.

    >>> bound_note(("age", "sex"), 1234.4, 0.95)
    'age, sex: from the fitted model; the error of the whole table is at most 1,235, by a bound that holds with 95 %.'
    """
    table = ", ".join(clique) or "the total"
    if math.isnan(bound):
        return f"{table}: from the fitted model; how far it is off is not known."
    return (
        f"{table}: from the fitted model; the error of the whole table is at most {math.ceil(bound):,}, "
        f"by a bound that holds with {100 * level:.6g} %."
    )


ROWS = 20
NO_INFORMATION = 2.0  # the share at which tables of as many records have no cell in common
KINDS = {
    "supported": "its noisy values",
    "unsupported": "not being chosen",
    "none": "nothing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBound:
    """A bound on ||true table - model table||_1, in counts; NaN where none is known.

    `kind` is "supported" where the table lies inside a measured one, "unsupported" where it could have been chosen for
    measuring, else "none"; `share` is the bound over the number of records of the model. Two tables of as many records
    that have no cell in common are at a share of 2, so a bound of that or more is "none" too.
    """

    clique: Clique
    kind: str
    bound: float
    share: float


class BoundTable(list[ErrorBound]):
    """Error bounds of several tables; `level` is that of each, or of all together where they are `simultaneous`.

    >>> BoundTable([ErrorBound(clique=("age", "sex"), kind="supported", bound=123.4, share=0.01234)], 0.95)
    table     error at most  of the records  known from
    age, sex            124           1.3 %  its noisy values
    the sum over the cells of a table of |true count - model count| is at most this,
      with 95 % each by itself
    """

    def __init__(self, rows: Iterable[ErrorBound], level: float, simultaneous: bool = False) -> None:
        super().__init__(rows)
        self.level = level
        self.simultaneous = simultaneous

    def to_arrow(self) -> pa.Table:
        """The columns `table, kind, bound, share`; names of a table are joined by commas."""
        return pa.table(
            {
                "table": pa.array([", ".join(row.clique) for row in self], pa.string()),
                "kind": pa.array([row.kind for row in self], pa.string()),
                "bound": pa.array([row.bound for row in self], pa.float64()),
                "share": pa.array([row.share for row in self], pa.float64()),
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Every bound as texts, numbers and lists, for JSON; None where none is known."""
        bounds = [
            {
                "table": list(row.clique),
                "kind": row.kind,
                "bound": None if math.isnan(row.bound) else row.bound,
                "share": None if math.isnan(row.share) else row.share,
            }
            for row in self
        ]
        return {"level": self.level, "simultaneous": self.simultaneous, "bounds": bounds}

    def __repr__(self) -> str:
        return self.cells(ROWS).text()

    def cells(self, rows: int) -> TextTable:
        """The first bounds as a person reads them."""
        columns = (
            TextColumn(heading="table", fit="clip"),
            *number_columns("error at most", "of the records"),
            TextColumn(heading="known from"),
        )
        shown = [
            (", ".join(row.clique) or "(total)", _up(row.bound, 0), _percent(row.share), KINDS[row.kind])
            for row in self[:rows]
        ]
        joint = "all together" if self.simultaneous else "each by itself"
        note = (
            f"the sum over the cells of a table of |true count - model count| is at most this, with "
            f"{100 * self.level:.6g} % {joint}"
        )
        if without := sum(row.kind == "none" for row in self):
            tables = "1 table has" if without == 1 else f"{without:,} tables have"
            note += f"; {tables} no bound below 200 %, which is as far apart as two tables can be"
        more = f"... {len(self) - rows:,} more tables" if len(self) > rows else ""
        return TextTable(columns=columns, rows=shown, more=more, notes=[note])


def _percent(share: float) -> str:
    return NO_NUMBER if math.isnan(share) else f"{_up(100 * share, 1)} %"


def _up(number: float, digits: int) -> str:
    """The number rounded up: a bound must not be shown as less than it is."""
    return fixed_text(math.ceil(number * 10**digits) / 10**digits if math.isfinite(number) else number, digits)


__all__ = ["BoundTable", "ErrorBound", "ErrorBounds"]

LARGEST_BATCH = 2**24  # cells of tables that are asked of the model at once


class Tables(Protocol):
    """What is asked of a fitted model: many of its tables at once."""

    def many(self, cliques: Iterable[Iterable[str]]) -> dict[Clique, Floats]: ...


class ErrorBounds:
    """Bounds on ||true table - model table||_1, in counts, each of which holds with a given probability.

    `model_counts` is a fitted model, or a function from a clique in domain order to its table; `total` what its tables
    add up to. Without `unbiased` no table is supported, without `scored` none is unsupported. `taken` are the noisy
    tables, in whole numbers, of which those of the rounds may have merged levels; without them noise is taken for
    Gaussian, and each table of a round for a whole one.

    Privacy: post-processing of noisy and public values.

    >>> domain = Domain({"a": 2, "b": 2})
    >>> noisy = UnbiasedEstimates(domain, [Measurement(("a",), [60.0, 40.0], 2.0)])
    >>> bounds = ErrorBounds(domain, lambda clique: np.full(domain.sizes(clique), 50.0), noisy, (), None, 100.0)
    >>> bounds.of(("a",)).kind, round(bounds.of(("a",)).bound, 1), bounds.of(("b",)).kind
    ('supported', 27.9, 'none')
    """

    def __init__(
        self,
        domain: Domain,
        model_counts: Tables | Callable[[Clique], Floats],
        unbiased: UnbiasedEstimates | None,
        rounds: Sequence[Round],
        scored: Scored | None,
        total: float,
        noisy_tables: Sequence[Measurement] = (),
    ) -> None:
        if not (math.isfinite(total) and total > 0):
            raise DataError(f"total={total!r}: expected what the model's tables add up to, a finite number > 0")
        self.domain = domain
        self.unbiased = unbiased
        self.rounds = tuple(rounds)
        self.scored = scored
        self.total = float(total)
        self.noisy_tables = tuple(noisy_tables)
        self._model = model_counts
        self._step = 1.0 if noisy_tables else 0.0
        self._widening = max((_widening(table) for table in noisy_tables if table.query is None), default=1.0)
        self._measured = measured_in(self.rounds, noisy_tables)
        self._places: dict[Clique, int] = {}
        if scored is not None:
            for place, clique in enumerate(scored.cliques):
                number = int(scored.rounds[place])
                if not -1 <= number < len(self.rounds):
                    raise DataError(f"{clique!r} was scored in round {number}: expected -1 .. {len(self.rounds) - 1}")
                if number >= 0:
                    self._places[domain.clique(clique)] = place

    def of(self, clique: Iterable[str], level: float = 0.95) -> ErrorBound:
        """The bound for one table; its attributes may come in any order."""
        names = self.domain.check(clique)
        failure = 1 - check_level(level)
        clique = self.domain.clique(names)
        if self._supported(clique):
            return self._bound(names, "supported", self._supported_bound(clique, self._table(clique), failure))
        place = self._place(clique)
        if place is None:
            return _none(names)
        return self._bound(names, "unsupported", self._unsupported_bound(place, failure))

    def all(
        self, cliques: Iterable[Iterable[str]] | None = None, level: float = 0.95, simultaneous: bool = False
    ) -> BoundTable:
        """The bounds of many tables: by default all that were measured, those inside them, and all that were scored.

        Each holds with probability `level` by itself. With `simultaneous` all hold together: the failure probability
        is split over the supported tables and the rounds that are used, for the bound of a round holds for all its
        candidates at once.
        """
        failure = 1 - check_level(level)
        listed = self.cliques if cliques is None else [self.domain.check(clique) for clique in listed_cliques(cliques)]
        ordered = [self.domain.clique(names) for names in listed]
        held = dict.fromkeys(clique for clique in ordered if self._supported(clique))
        places = {clique: self._place(clique) for clique in ordered if clique not in held}
        if simultaneous:
            used = {self._round_of(place) for place in places.values() if place is not None}
            failure /= max(len(held) + len(used), 1)
        bounds = {clique: self._supported_bound(clique, table, failure) for clique, table in self._many(held)}
        rows = []
        for names, clique in zip(listed, ordered, strict=True):
            if clique in bounds:
                rows.append(self._bound(names, "supported", bounds[clique]))
            elif (place := places[clique]) is not None:
                rows.append(self._bound(names, "unsupported", self._unsupported_bound(place, failure)))
            else:
                rows.append(_none(names))
        return BoundTable(rows, check_level(level), simultaneous)

    @property
    def cliques(self) -> list[Clique]:
        """All tables that were measured or lie inside one, and all that were scored, small ones first."""
        found = {self.domain.clique(clique) for clique in (self.scored.cliques if self.scored is not None else ())}
        for clique in self.unbiased.cliques if self.unbiased is not None else ():
            several = [name for name in clique if self.domain[name] > 1]
            found.update(inner for k in range(1, len(several) + 1) for inner in combinations(several, k))
        places = {name: place for place, name in enumerate(self.domain)}
        return sorted(found - {()}, key=lambda clique: (len(clique), [places[name] for name in clique]))

    def margin(self, clique: Iterable[str], lowest: Floats, highest: Floats, level: float = 0.95) -> Floats:
        """How far sums of model counts over a clique, of coefficients in [lowest, highest], can be off; NaN if unknown.

        Every one of them holds together with the bound of the table: see `l1_bounds.linear_margin`.
        """
        return l1_bounds.linear_margin(lowest, highest, self.of(clique, level).bound, self._drift(1 - level))

    def _supported(self, clique: Clique) -> bool:
        return self.unbiased is not None and self.unbiased.covers(clique)

    def _place(self, clique: Clique) -> int | None:
        """Where a table stands among the scored ones: itself, or the smallest table that holds it.

        What a table adds up to is no further off than the table itself. Sizes and names decide, never the bounds.
        """
        if clique in self._places:
            return self._places[clique]
        wanted = set(clique)
        above = [one for one in self._places if wanted <= set(one)]
        return self._places[min(above, key=lambda one: (self.domain.size(one), one))] if above else None

    def _round_of(self, place: int) -> int:
        return int(self.scored.rounds[place])  # type: ignore[union-attr]

    def _supported_bound(self, clique: Clique, model: Floats, failure: float) -> float:
        estimates = self.unbiased
        assert estimates is not None  # noqa: S101  (it covers the clique)
        variance, largest = (
            self._widening * own for own in (estimates.variance(clique), estimates.largest_variance(clique))
        )
        rest, records = failure * (1 - l1_bounds.TOTAL_SHARE), self.total + self._drift(failure)
        return l1_bounds.supported(model, estimates.counts(clique), variance, largest, rest, records, self._step)

    def _unsupported_bound(self, place: int, failure: float) -> float:
        scored = self.scored
        assert scored is not None  # noqa: S101  (it holds the place)
        number = self._round_of(place)
        last, table = self.rounds[number], self._measured[number]
        cells = self.domain.size(last.clique) if table is None else table.values.size
        stddev = last.stddev if table is None else math.sqrt(table.variance)
        known = self.unbiased is not None
        noise, choice = l1_bounds.split(failure * (1 - l1_bounds.TOTAL_SHARE * known))
        error = l1_bounds.chosen(last.misfit, stddev, cells, noise, self._step)
        before = l1_bounds.unsupported(
            error,
            last.penalty,
            last.weight / float(scored.weights[place]),
            float(scored.penalties[place]),
            float(scored.slacks[place]),
            float(scored.slopes[place]),
            choice,
        )
        return min(before + float(scored.distances[place]), 2 * self.total + self._drift(failure))

    def _drift(self, failure: float) -> float:
        """A bound on |records - total of the model| that has its share of a failure probability; inf where unknown."""
        if self.unbiased is None:
            return math.inf
        estimate, variance = self._records
        return l1_bounds.total_error(estimate, variance, self.total, failure * l1_bounds.TOTAL_SHARE, self._step)

    @cached_property
    def _records(self) -> tuple[float, float]:
        """The unbiased estimate of the number of records, and its variance."""
        estimates = self.unbiased
        assert estimates is not None  # noqa: S101  (asked only then)
        return float(estimates.counts(())), self._widening * estimates.variance(())

    def _bound(self, clique: Clique, kind: str, bound: float) -> ErrorBound:
        if bound >= NO_INFORMATION * self.total:
            return _none(clique)
        return ErrorBound(clique=clique, kind=kind, bound=bound, share=bound / self.total)

    def _table(self, clique: Clique) -> Floats:
        return next(iter(self._many([clique])))[1]

    def _many(self, cliques: Iterable[Clique]) -> Iterator[tuple[Clique, Floats]]:
        """Tables of the model in a stream, several at once where it can share their work."""
        batch: list[Clique] = []
        cells = 0
        for clique in cliques:
            if batch and cells + self.domain.size(clique) > LARGEST_BATCH:
                yield from self._asked(batch)
                batch, cells = [], 0
            batch.append(clique)
            cells += self.domain.size(clique)
        yield from self._asked(batch)

    def _asked(self, cliques: list[Clique]) -> Iterator[tuple[Clique, Floats]]:
        many = getattr(self._model, "many", None)
        if many is not None:
            made = many(cliques)
            yield from ((clique, np.asarray(made[clique])) for clique in cliques)
        else:
            yield from ((clique, np.asarray(self._model(clique))) for clique in cliques)  # type: ignore[operator]


def _none(clique: Clique) -> ErrorBound:
    return ErrorBound(clique=clique, kind="none", bound=math.nan, share=math.nan)


def _widening(table: Measurement) -> float:
    """How many times the variance that the estimates take for its noise its variance parameter is, 1 at least."""
    return max(float(gaussian_law(table).variance_parameter) / max(table.stddev, LEAST_STDDEV) ** 2, 1.0)
