"""Error bounds: how far the tables of a fitted model are from the truth, at no privacy cost.

A table inside a measured one is *supported*: its noisy values say how far the model can be off. Any other table that
was a candidate for measuring is *unsupported*: had the model been far off there, the exponential mechanism would
probably have chosen it.

Proven: given everything before a round, its choice and its noise follow the laws that its bound assumes. So the bound
holds for all candidates of the final round, which is known to be final before it starts.

Not proven: a table too large for the final round has the bound of an earlier round, and which one depends on later
noise. Supported bounds treat the noisy tables as chosen beforehand, as the paper does, while an adaptive mechanism
chooses by earlier noise. Whether a table is supported depends on noise too; strictly, the failure probabilities of both
kinds add up. In simulations all bounds fail less often than stated, since a table that noise has led astray is more
likely to be measured again. Noise in whole steps is nearly Gaussian; `l1_bounds` adds the difference.

Reference: [AIM, sec. 5]; an unsupported table uses the one round in `Scored`, never the best of several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain, clique_batches, listed_cliques
from hush.core.errors import DataError
from hush.inference import l1_bounds
from hush.inference.best_unbiased import UnbiasedEstimates
from hush.privacy.measurement import Measurement
from hush.release.answers import check_level
from hush.release.record import LEAST_STDDEV, Round, Scored, gaussian_law, measured_in
from hush.render.text_table import NO_NUMBER, TextColumn, TextTable, fixed_text, number_columns

if TYPE_CHECKING:
    import pyarrow as pa


def bound_note(clique: Clique, bound: float, level: float) -> str:
    """A note that a table comes from the model, with the bound on its error.

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


ROWS_SHOWN = 20
NO_INFORMATION = 2.0  # the share of two tables without a common cell
BASIS_OF_BOUND = {"supported": "its noisy values", "unsupported": "not being chosen", "none": "nothing"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ErrorBound:
    """A bound on ||true table - model table||_1, in counts; NaN if none is known.

    `kind` is "supported" if the table lies inside a measured one, "unsupported" if it was a candidate for measuring,
    else "none". `share` is the bound over the number of records of the model. Two tables of equally many records that
    share no cell have the share 2, so a bound of that or more is "none" too.
    """

    clique: Clique
    kind: str
    bound: float
    share: float

    def __eq__(self, other: object) -> bool:
        """Whether both say the same: two bounds that are not known are equal, although NaN is not equal to itself."""
        return isinstance(other, ErrorBound) and self._said == other._said

    def __hash__(self) -> int:
        return hash(self._said)

    @property
    def _said(self) -> tuple[object, ...]:
        known = (self.bound, self.share)
        return self.clique, self.kind, *(None if math.isnan(number) else number for number in known)


class BoundTable(list[ErrorBound]):
    """Error bounds of several tables; `level` holds for each, or for all together if `simultaneous`.

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
        """The columns `table, kind, bound, share`; the names of a table are joined by commas."""
        import pyarrow as pa

        return pa.table(
            {
                "table": pa.array([", ".join(row.clique) for row in self], pa.string()),
                "kind": pa.array([row.kind for row in self], pa.string()),
                "bound": pa.array([row.bound for row in self], pa.float64()),
                "share": pa.array([row.share for row in self], pa.float64()),
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Every bound as texts, numbers and lists, for JSON; None if unknown."""
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
        return self.cells(ROWS_SHOWN).text()

    def cells(self, rows: int) -> TextTable:
        """The first bounds as text."""
        columns = (
            TextColumn(heading="table", fit="clip"),
            *number_columns("error at most", "of the records"),
            TextColumn(heading="known from"),
        )
        cells = []
        for row in self[:rows]:
            share = NO_NUMBER if math.isnan(row.share) else f"{_up(100 * row.share, 1)} %"
            cells.append((", ".join(row.clique) or "(total)", _up(row.bound, 0), share, BASIS_OF_BOUND[row.kind]))
        joint = "all together" if self.simultaneous else "each by itself"
        note = (
            f"the sum over the cells of a table of |true count - model count| is at most this, with "
            f"{100 * self.level:.6g} % {joint}"
        )
        if without := sum(row.kind == "none" for row in self):
            tables = "1 table has" if without == 1 else f"{without:,} tables have"
            note += f"; {tables} no bound below 200 %, the largest distance of two tables"
        more = f"... {len(self) - rows:,} more tables" if len(self) > rows else ""
        return TextTable(columns=columns, rows=cells, more=more, notes=[note])


def _up(number: float, digits: int) -> str:
    """The number rounded up, so that a bound is never shown too small."""
    return fixed_text(math.ceil(number * 10**digits) / 10**digits if math.isfinite(number) else number, digits)


__all__ = ["BoundTable", "ErrorBound", "ErrorBounds"]

LARGEST_BATCH = 2**24  # cells of tables computed at once


class Tables(Protocol):
    """A fitted model that computes many tables at once."""

    def many(self, cliques: Iterable[Iterable[str]]) -> dict[Clique, Floats]: ...


class ErrorBounds:
    """Bounds on ||true table - model table||_1, in counts, each of which holds with a given probability.

    `model_counts` is a fitted model, or a function from a clique in domain order to its table; `total` is the sum of
    each table. Without `unbiased` no table is supported, without `scored` none is unsupported. `noisy_tables` are the
    whole numbers measured; those of the rounds may have merged levels. Without them the noise counts as Gaussian, and
    no table of a round as merged.

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
        self._indices: dict[Clique, int] = {}
        if scored is not None:
            for index, clique in enumerate(scored.cliques):
                number = int(scored.rounds[index])
                if not -1 <= number < len(self.rounds):
                    raise DataError(f"{clique!r} was scored in round {number}: expected -1 .. {len(self.rounds) - 1}")
                if number >= 0:
                    self._indices[domain.clique(clique)] = index

    def of(self, clique: Iterable[str], level: float = 0.95) -> ErrorBound:
        """The bound for one table; its attributes may come in any order."""
        names = self.domain.check(clique)
        failure = 1 - check_level(level)
        clique = self.domain.clique(names)
        if self._supported(clique):
            return self._bound(
                names, "supported", self._supported_bound(clique, next(self._many([clique]))[1], failure)
            )
        index = self._index(clique)
        if index is None:
            return _none(names)
        return self._bound(names, "unsupported", self._unsupported_bound(index, failure))

    def all(
        self, cliques: Iterable[Iterable[str]] | None = None, level: float = 0.95, simultaneous: bool = False
    ) -> BoundTable:
        """The bounds of many tables: by default all that were measured, lie inside a measured one, or were scored.

        Each holds with probability `level` by itself. With `simultaneous` all hold together: the failure probability is
        split over the supported tables and the rounds in use, since the bound of a round holds for all its candidates.
        """
        failure = 1 - check_level(level)
        listed = self.cliques if cliques is None else [self.domain.check(clique) for clique in listed_cliques(cliques)]
        ordered = [self.domain.clique(names) for names in listed]
        supported = dict.fromkeys(clique for clique in ordered if self._supported(clique))
        indices = {clique: self._index(clique) for clique in ordered if clique not in supported}
        if simultaneous:
            used = {self._round_of(index) for index in indices.values() if index is not None}
            failure /= max(len(supported) + len(used), 1)
        bounds = {clique: self._supported_bound(clique, table, failure) for clique, table in self._many(supported)}
        rows = []
        for names, clique in zip(listed, ordered, strict=True):
            if clique in bounds:
                rows.append(self._bound(names, "supported", bounds[clique]))
            elif (index := indices[clique]) is not None:
                rows.append(self._bound(names, "unsupported", self._unsupported_bound(index, failure)))
            else:
                rows.append(_none(names))
        return BoundTable(rows, check_level(level), simultaneous)

    @property
    def cliques(self) -> list[Clique]:
        """All tables that were measured, lie inside a measured one, or were scored; small ones first."""
        cliques = {self.domain.clique(clique) for clique in (self.scored.cliques if self.scored is not None else ())}
        for clique in self.unbiased.cliques if self.unbiased is not None else ():
            several = [name for name in clique if self.domain[name] > 1]
            cliques.update(inner for k in range(1, len(several) + 1) for inner in combinations(several, k))
        order = {name: axis for axis, name in enumerate(self.domain)}
        return sorted(cliques - {()}, key=lambda clique: (len(clique), [order[name] for name in clique]))

    def margin(self, clique: Iterable[str], lowest: Floats, highest: Floats, level: float = 0.95) -> Floats:
        """A bound on the error of sums of model counts with coefficients in [lowest, highest]; NaN if unknown.

        It holds whenever the bound of the table holds; see `l1_bounds.linear_margin`.
        """
        return l1_bounds.linear_margin(lowest, highest, self.of(clique, level).bound, self._drift(1 - level))

    def _supported(self, clique: Clique) -> bool:
        return self.unbiased is not None and self.unbiased.covers(clique)

    def _index(self, clique: Clique) -> int | None:
        """The index of a table among the scored ones, or of the smallest scored table that contains it.

        A sum of a table is no further off than the table itself. Sizes and names decide, never the bounds.
        """
        if clique in self._indices:
            return self._indices[clique]
        above = [scored for scored in self._indices if set(clique) <= set(scored)]
        return self._indices[min(above, key=lambda scored: (self.domain.size(scored), scored))] if above else None

    def _round_of(self, index: int) -> int:
        return int(self.scored.rounds[index])  # type: ignore[union-attr]

    def _supported_bound(self, clique: Clique, model: Floats, failure: float) -> float:
        estimates = self.unbiased
        assert estimates is not None  # noqa: S101  (it covers the clique)
        variance, largest = (
            self._widening * value for value in (estimates.variance(clique), estimates.largest_variance(clique))
        )
        rest, records = failure * (1 - l1_bounds.TOTAL_SHARE), self.total + self._drift(failure)
        return l1_bounds.supported(model, estimates.counts(clique), variance, largest, rest, records, self._step)

    def _unsupported_bound(self, index: int, failure: float) -> float:
        scored = self.scored
        assert scored is not None  # noqa: S101  (it holds the index)
        number = self._round_of(index)
        last, table = self.rounds[number], self._measured[number]
        cells = self.domain.size(last.clique) if table is None else table.values.size
        stddev = last.stddev if table is None else math.sqrt(table.variance)
        total_share = 0.0 if self.unbiased is None else l1_bounds.TOTAL_SHARE
        noise, choice = l1_bounds.split(failure * (1 - total_share))
        error = l1_bounds.chosen(last.misfit, stddev, cells, noise, self._step)
        before = l1_bounds.unsupported(
            error,
            last.penalty,
            last.weight / float(scored.weights[index]),
            float(scored.penalties[index]),
            float(scored.slacks[index]),
            float(scored.slopes[index]),
            choice,
        )
        return min(before + float(scored.distances[index]), 2 * self.total + self._drift(failure))

    def _drift(self, failure: float) -> float:
        """A bound on |records - total of the model| at its share of the failure probability; inf if unknown."""
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

    def _many(self, cliques: Iterable[Clique]) -> Iterator[tuple[Clique, Floats]]:
        """A stream of tables of the model, computed in batches where it can share their work."""
        many = getattr(self._model, "many", None)
        if many is None:
            yield from ((clique, np.asarray(self._model(clique))) for clique in cliques)  # type: ignore[operator]
            return
        for batch in clique_batches(self.domain, cliques, LARGEST_BATCH):
            tables = many(batch)
            yield from ((clique, np.asarray(tables[clique])) for clique in batch)


def _none(clique: Clique) -> ErrorBound:
    return ErrorBound(clique=clique, kind="none", bound=math.nan, share=math.nan)


def _widening(table: Measurement) -> float:
    """The variance parameter of the noise over the variance that the estimates assume, at least 1."""
    return max(float(gaussian_law(table).variance_parameter) / max(table.stddev, LEAST_STDDEV) ** 2, 1.0)
