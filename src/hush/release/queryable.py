"""Queryable: what a release and a model share: thresholds, SQL, sums, means and synthetic rows from their tables.

A release answers with errors, a model without.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from hush.core.arrays import Floats
from hush.core.domain import Domain
from hush.core.errors import QueryError, shown
from hush.core.validation import is_number
from hush.inference.estimates import Estimates
from hush.inference.measured_sums import MeasuredSums
from hush.release.answers import Answers, ErrorKind
from hush.schema import Schema
from hush.workloads import Term, ThresholdTerm

if TYPE_CHECKING:
    import pyarrow as pa

    from hush.models.graphical.synthetic_rows import Method
    from hush.release.copies import Copies
    from hush.release.model import Model


class DrawingOptions(TypedDict, total=False):
    """The options of `synthesize` that say which rows are drawn."""

    method: Method
    given: Mapping[str, Any] | None
    seed: int | None


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """What holds for all answers: their caveats, the measured sums behind them, and which errors are known.

    `errors` is None if noise is the only source of error, `NOISE` if there are other errors too, and `NONE` if no error
    is known.
    """

    notes: tuple[str, ...] = ()
    errors: ErrorKind | None = None
    sums: MeasuredSums | None = None

    def marked(self, answers: Answers) -> Answers:
        """The answers, with their errors marked as those of the noise, leaving out bias, or as unknown.

        If estimates have other errors than those of the noise, no interval holds, and no bound either.
        """
        if self.errors is None:
            return answers
        changed = [ErrorKind.EXACT, ErrorKind.APPROXIMATE]
        if self.errors is ErrorKind.NOISE:
            changed += [ErrorKind.BINNED, ErrorKind.BOUND]
        quantities = tuple(
            replace(quantity, error_kind=self.errors) if quantity.error_kind in changed else quantity
            for quantity in answers.quantities
        )
        return replace(answers, quantities=quantities)


class Queryable(ABC):
    """Estimates of tables over the columns of a schema, and all the questions they answer at no further cost."""

    schema: Schema
    domain: Domain

    @property
    @abstractmethod
    def estimates(self) -> Estimates:
        """Counts and their covariances."""

    @property
    @abstractmethod
    def facts(self) -> AnswerFacts:
        """What holds for all answers."""

    @abstractmethod
    def counts(self, *attributes: Any) -> Floats:
        """Counts over a clique, of shape `domain.sizes(clique)`, in the order given."""

    @abstractmethod
    def marginal(self, *attributes: Any, level: float = 0.95, unbiased: bool = False) -> Answers:
        """The table of counts over some attributes."""

    @abstractmethod
    def term(self, which: Term, *, level: float = 0.95, unbiased: bool = False) -> Answers:
        """The answers to a term."""

    @abstractmethod
    def model(self) -> Model:
        """One distribution behind all tables."""

    def threshold(self, *attributes: Any, r: int, level: float = 0.95, unbiased: bool = False) -> Answers:
        """For every combination of levels, how many rows agree with it in at least `r` of the attributes.

        `threshold("a", "b", "c", r=2)` and `threshold(("a", "b", "c"), r=2)` mean the same. With `r` of all attributes
        it is the marginal. Estimates are those of `counts`. Errors are exact if the answers are linear in what was
        measured; a release bounds the errors of its model, and a model states none.
        """
        names = self.domain.check(self.domain.named(attributes))
        if r == len(names) and not isinstance(r, bool):
            return self.marginal(names, level=level, unbiased=unbiased)
        term = ThresholdTerm(names, self.domain.sizes(names), r)
        term.check(self.domain)
        return self.term(term, level=level, unbiased=unbiased)

    def sql(self, text: str, *, level: float = 0.95) -> Answers:
        """Answer a counting query in SQL; docs/sql.md lists what is supported."""
        from hush.release.sql_answers import answer_sql

        facts = self.facts
        answers = answer_sql(
            text,
            self.schema,
            self.estimates,
            level=level,
            error_kind=ErrorKind.NONE if facts.errors is ErrorKind.NONE else ErrorKind.EXACT,
            sums=facts.sums,
        )
        return facts.marked(replace(answers, notes=(*answers.notes, *facts.notes)))

    def sum(self, column: str, by: Iterable[str] = (), *, level: float = 0.95) -> Answers:
        """The sum of a numeric column by other columns: from measured sums, or else from bins."""
        return self._aggregate("SUM({})", column, by, level)

    def mean(self, column: str, by: Iterable[str] = (), *, level: float = 0.95) -> Answers:
        """The mean of a numeric column by other columns, from the same numbers as `sum`."""
        return self._aggregate("AVG({})", column, by, level)

    def variance(self, column: str, by: Iterable[str] = (), *, level: float = 0.95) -> Answers:
        """The variance of a numeric column by other columns."""
        return self._aggregate("VARIANCE({})", column, by, level)

    def stddev(self, column: str, by: Iterable[str] = (), *, level: float = 0.95) -> Answers:
        """The standard deviation of a numeric column by other columns: the root of `variance`."""
        return self._aggregate("STDDEV({})", column, by, level)

    def median(self, column: str, by: Iterable[str] = (), *, level: float = 0.95) -> Answers:
        """The middle value of a numeric column by other columns; see `quantile`."""
        return self._aggregate("MEDIAN({})", column, by, level)

    def quantile(self, column: str, share: float = 0.5, by: Iterable[str] = (), *, level: float = 0.95) -> Answers:
        """The value that a share of the rows does not exceed, by other columns; the median for 0.5.

        The interval has every value that the noise of the counts does not rule out, and reaches to the ends of bins.
        """
        if not is_number(share):
            raise QueryError(f"share={shown(share)}: expected a number between 0 and 1, such as 0.9")
        return self._aggregate(f"QUANTILE({{}}, {float(share)!r})", column, by, level)

    def _aggregate(self, aggregate: str, column: str, by: Iterable[str], level: float) -> Answers:
        """One aggregate of a column by other columns, as a query in SQL."""
        from hush.sql.quoting import quoted

        (name,) = self.domain.check((column,))
        groups = [quoted(group) for group in self.domain.check((by,) if isinstance(by, str) else by)]
        select = f"SELECT {', '.join([*groups, aggregate.format(quoted(name))])} FROM release"
        return self.sql(select + (f" GROUP BY {', '.join(groups)}" if groups else ""), level=level)

    @overload
    def synthesize(
        self, rows: int | None = None, *, copies: None = None, **options: Unpack[DrawingOptions]
    ) -> pa.Table: ...
    @overload
    def synthesize(self, rows: int | None = None, *, copies: int, **options: Unpack[DrawingOptions]) -> Copies: ...
    def synthesize(
        self,
        rows: int | None = None,
        *,
        method: Method = "rounding",
        given: Mapping[str, Any] | None = None,
        seed: int | None = None,
        copies: int | None = None,
    ) -> pa.Table | Copies:
        """Synthetic rows in the schema's real values, drawn from `model()`; by default as many as there are rows.

        "rounding" keeps the tables of the model to within a row if possible, "sampling" draws rows independently.
        `given` fixes columns: a value, a label, a list of them or a range as in a schema's rules. Values inside bins
        are drawn uniformly, or around the bin's mean if that was released. `copies` asks for that many tables, as
        `Copies`. Standard errors computed from synthetic rows or copies as if they were real are too small.
        """
        import pyarrow as pa

        from hush.release.copies import Copies, check_drawing, copy_seeds

        # Wrong options are refused before a model is fitted.
        check_drawing(0 if rows is None else rows, method, seed)
        seeds = [seed] if copies is None else copy_seeds(copies, seed)
        model = self._fitted_model
        count = round(model.total) if rows is None else rows

        def draw(seed: int | None) -> pa.Table:
            batches = model.batches(count, method=method, given=given, seed=seed, chunk_rows=max(count, 1))
            return pa.concat_tables(batches)

        return draw(seed) if copies is None else Copies(map(draw, seeds))

    @cached_property
    def _fitted_model(self) -> Model:
        return self.model()
