"""Error bounds: how far the tables of a fitted model are from the truth, at no privacy cost.

A table inside a measured one is *supported*: its noisy values say how far the model can be off. A table that was
surveyed has a noisy distance from an earlier model. Any other table that was a candidate for measuring is
*unsupported*: had the model been far off there, the exponential mechanism would probably have chosen it.

Proven: given everything before a round, its choice and its noise follow the laws that its bound assumes. So the bound
holds for all candidates of the final round, which is known to be final before it starts.

Not proven: a table too large for the final round has the bound of an earlier round, and later noise decides which
round. Supported bounds treat the noisy tables as fixed in advance, as the paper does, while an adaptive mechanism
chooses them by earlier noise. Noise also decides whether a table is supported; strictly, the failure probabilities of
both kinds add up. In simulations all bounds fail less often than stated, since a table with a large error is more
likely to be measured again. Noise in whole steps is nearly Gaussian; `l1_bounds` adds the difference.

Reference: [AIM, sec. 5]; an unsupported table uses the one round in `Scored`, never the best of several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
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

    from hush.release.survey_record import Survey


def bound_note(clique: Clique, bound: float, level: float) -> str:
    """A note that a table comes from the model, with the bound on its error.

    >>> bound_note(("age", "sex"), 1234.4, 0.95)
    'age, sex: from the fitted model; the error of the whole table is at most 1,235, by a bound that holds with 95 %.'
    """
    known = (
        f"the error of the whole table is at most {math.ceil(bound):,}, by a bound that holds with {100 * level:.6g} %"
        if not math.isnan(bound)
        else "how far it is off is not known"
    )
    return f"{', '.join(clique) or 'the total'}: from the fitted model; {known}."


NO_INFORMATION = 2.0  # the share of two tables without a common cell
LARGEST_BATCH = 2**24  # cells of tables computed at once
BASIS_OF_BOUND = {
    "supported": "its noisy values",
    "surveyed": "its noisy distance",
    "unsupported": "not being chosen",
    "none": "nothing",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ErrorBound:
    """A bound on ||true table - model table||_1, in counts; NaN if none is known.

    `kind` is "supported" if the table lies inside a measured one, "surveyed" if its distance from an earlier model was
    measured, "unsupported" if it was a candidate for measuring, else "none". `share` is the bound over the number of
    records of the model. Two tables of equally many records that share no cell are a share of 2 apart, so a larger
    bound is "none" too.
    """

    clique: Clique
    kind: str
    bound: float
    share: float

    def to_dict(self) -> dict[str, Any]:
        """The bound as texts, numbers and lists, for JSON; None if unknown."""
        bound, share = (None if math.isnan(number) else number for number in (self.bound, self.share))
        return {"table": list(self.clique), "kind": self.kind, "bound": bound, "share": share}

    def __eq__(self, other: object) -> bool:
        """Whether both say the same: two unknown bounds are equal, although NaN is not equal to itself."""
        return isinstance(other, ErrorBound) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.clique, self.kind))


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

        texts = pa.string()
        columns = {"table": texts, "kind": texts, "bound": pa.float64(), "share": pa.float64()}
        rows = [
            {"table": ", ".join(row.clique), "kind": row.kind, "bound": row.bound, "share": row.share} for row in self
        ]
        return pa.Table.from_pylist(rows, pa.schema(columns))

    def to_dict(self) -> dict[str, Any]:
        """Every bound as texts, numbers and lists, for JSON; None if unknown."""
        bounds = [row.to_dict() for row in self]
        return {"level": self.level, "simultaneous": self.simultaneous, "bounds": bounds}

    def __repr__(self) -> str:
        return self.cells(20).text()

    def cells(self, rows: int) -> TextTable:
        """The first bounds as text."""
        columns = (
            TextColumn(heading="table", fit="clip"),
            *number_columns("error at most", "of the records"),
            TextColumn(heading="known from"),
        )
        cells = []
        for row in self[:rows]:
            bound, share = fixed_text(row.bound, 0), NO_NUMBER
            if row.kind != "none":  # round up, so that a bound is never shown too small
                bound = fixed_text(math.ceil(row.bound), 0)
                share = f"{fixed_text(math.ceil(1000 * row.share) / 10, 1)} %"
            cells.append((", ".join(row.clique) or "(total)", bound, share, BASIS_OF_BOUND[row.kind]))
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


class Tables(Protocol):
    """A fitted model that computes many tables at once."""

    def many(self, cliques: Iterable[Iterable[str]]) -> dict[Clique, Floats]: ...


class ErrorBounds:
    """Bounds on ||true table - model table||_1, in counts, each of which holds with a given probability.

    `model_counts` is a fitted model, or a function from a clique in domain order to its table; `total` is the sum of
    each table. Without `unbiased` no table is supported, without `scored` none is unsupported. `noisy_tables` are the
    measured tables of whole numbers; those of the rounds may have merged levels. Without them the noise is taken as
    Gaussian, and no table of a round as merged.

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
        self.surveys: tuple[Survey, ...] = ()  # noisy distances of tables from earlier models, if the run took any
        self._model = model_counts
        self._step = 1.0 if noisy_tables else 0.0
        # The variance parameter of the noise over the variance that the estimates assume, at least 1.
        self._widening = 1.0
        for table in noisy_tables:
            if table.query is None:
                assumed = max(table.stddev, LEAST_STDDEV) ** 2
                self._widening = max(self._widening, float(gaussian_law(table).variance_parameter) / assumed)
        self._measured = measured_in(self.rounds, noisy_tables)
        self._records: tuple[float, float] | None = None
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
        return self.all([self.domain.check(clique)], level)[0]

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
        unbiased = self.unbiased
        supported = dict.fromkeys(clique for clique in ordered if unbiased is not None and unbiased.covers(clique))
        surveyed = {clique: found for clique in ordered if clique not in supported and (found := self._survey(clique))}
        rest = [clique for clique in ordered if clique not in supported and clique not in surveyed]
        indices = {clique: self._index(clique) for clique in rest}
        if simultaneous:
            used = {self._round_of(index) for index in indices.values() if index is not None}
            failure /= max(len(supported) + len(surveyed) + len(used), 1)
        bounds = {clique: self._supported_bound(clique, table, failure) for clique, table in self._many(supported)}
        rows = []
        for names, clique in zip(listed, ordered, strict=True):
            kind, bound = "none", math.inf
            if clique in bounds:
                kind, bound = "supported", bounds[clique]
            elif clique in surveyed:
                kind, bound = "surveyed", self._surveyed_bound(*surveyed[clique], failure)
            elif (index := indices[clique]) is not None:
                kind, bound = "unsupported", self._unsupported_bound(index, failure)
            if bound >= NO_INFORMATION * self.total:
                kind, bound = "none", math.nan
            rows.append(ErrorBound(clique=names, kind=kind, bound=bound, share=bound / self.total))
        return BoundTable(rows, check_level(level), simultaneous)

    @property
    def cliques(self) -> list[Clique]:
        """All tables that were measured, lie inside a measured one, or were scored; small ones first."""
        cliques = {self.domain.clique(clique) for clique in (self.scored.cliques if self.scored is not None else ())}
        cliques.update(self.domain.clique(clique) for survey in self.surveys for clique in survey.cliques)
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

    def _survey(self, clique: Clique) -> tuple[Survey, int] | None:
        """The last survey of a table, or of the smallest surveyed table that contains it, and its index there."""
        for survey in reversed(self.surveys):
            above = [index for index, held in enumerate(survey.cliques) if set(clique) <= set(held)]
            if above and survey.moved is not None:
                return survey, min(above, key=lambda index: (self.domain.size(survey.cliques[index]), index))
        return None

    def _surveyed_bound(self, survey: Survey, index: int, failure: float) -> float:
        """||x - m|| <= ||x - p|| + ||p - m||, with the first distance known up to noise and rounding down."""
        assert survey.moved is not None  # noqa: S101  (`_survey` leaves others out)
        rest = failure * (1 - l1_bounds.TOTAL_SHARE)
        noise = l1_bounds.above(float(survey.law.variance_parameter), rest, 1.0)
        return max(float(survey.values[index]) + 1 + noise, 0.0) + float(survey.moved[index])

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
        if self._records is None:  # the unbiased estimate of the number of records, and its variance
            self._records = float(self.unbiased.counts(())), self._widening * self.unbiased.variance(())
        estimate, variance = self._records
        return l1_bounds.total_error(estimate, variance, self.total, failure * l1_bounds.TOTAL_SHARE, self._step)

    def _many(self, cliques: Iterable[Clique]) -> Iterator[tuple[Clique, Floats]]:
        """A stream of tables of the model, computed in batches where it can share their work."""
        many = getattr(self._model, "many", None)
        if many is None:
            yield from ((clique, np.asarray(self._model(clique))) for clique in cliques)  # type: ignore[operator]
            return
        for batch in clique_batches(self.domain, cliques, LARGEST_BATCH):
            tables = many(batch)
            yield from ((clique, np.asarray(tables[clique])) for clique in batch)
