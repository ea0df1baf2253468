"""Record: the noisy answers of a release and how counts are estimated from them; files name its kind.

Residual answers are reconstructed. The strategy says how answers to a linear strategy are recovered: product by
product, all together, or through marginals. Where nothing was measured, every estimate is 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from hush.core.arrays import Floats
from hush.core.domain import Clique
from hush.core.errors import ArchiveError, DataError, QueryError
from hush.files.codec import BoolVector, IntTable, IntVector, Stored
from hush.inference.error_law import ErrorLaw
from hush.inference.estimates import Estimates, ZeroEstimates
from hush.inference.measured_sums import MeasuredSums
from hush.inference.residual_estimates import ResidualEstimates, combination_law
from hush.inference.residual_reconstruction import Reconstruction
from hush.privacy.measurement import Measurement, Measurements
from hush.privacy.noise import Noise
from hush.privacy.sensitivity import Neighbours, RowNorms
from hush.release.answer_columns import ErrorKind
from hush.release.rounds import Round
from hush.release.statement import event_parts
from hush.strategies.linear_strategy import LinearStrategy
from hush.strategies.product_strategy import Recovery
from hush.strategies.residual_strategy import ResidualStrategy
from hush.strategies.strategy import Strategy
from hush.strategies.strategy_files import LinearStrategyFile, ResidualStrategyFile
from hush.workloads import Workload

if TYPE_CHECKING:
    from hush.core.solution import Solution
    from hush.inference.linear_estimates import LinearMeasurements
    from hush.release.model_estimates import Distribution
    from hush.release.release import Release
    from hush.schema import Schema


class Record(ABC):
    """What a release is made of, whichever mechanism measured it.

    `consistent`: tables agree on what they share. `bounded`: a model answers tables that were not measured, with
    bounds on their errors. `noisy_tables` are tables measured cell by cell, `rounds` the choices made on the way,
    `fitted` a model kept with the answers, `sums` the sums of values measured beside the counts. `charged_at_once`:
    one charge paid for everything, so that no answer but those of the strategy was ever paid for.
    """

    kind: ClassVar[str]
    stored_type: ClassVar[Any]  # with the kind as its tag, an `of`, and a `build` that gives arguments of the class
    bounded: ClassVar[bool] = False
    charged_at_once: ClassVar[bool] = False

    noisy_tables: tuple[Measurement, ...] = ()
    rounds: tuple[Round, ...] = ()
    fitted: Solution[Distribution] | None = None
    sums: MeasuredSums | None = None

    @property
    def consistent(self) -> bool:
        return True

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats for every answer."""
        return ()

    @property
    def errors(self) -> ErrorKind | None:
        """`NOISE` if estimates have other errors than those of the noise, `NONE` if no error is known; else None."""
        return None

    @property
    @abstractmethod
    def tables(self) -> int:
        """How many noisy tables were measured."""

    @abstractmethod
    def measurements(self) -> list[Measurement]:
        """What was measured, as evidence that a model can be fitted to."""

    @abstractmethod
    def law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        """What one row adds to every query that was paid for and the law of its noise, with how often they occur."""

    @abstractmethod
    def estimates(self, release: Release) -> Estimates:
        """Counts and their errors; may call `release.model()`."""

    @abstractmethod
    def inconsistency(self, release: Release) -> str | None:
        """Explain why a loaded release cannot be what it says; None if all is well."""

    def all_law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        """As `law_counts`, with the sums of values among the queries."""
        return self.law_counts() if self.sums is None else self.law_counts() + self.sums.law_counts()

    def stored(self) -> Stored:
        """The record as files hold it."""
        record: Stored = self.stored_type.of(self)
        return record

    @classmethod
    def build(cls, stored: Any, schema: Schema) -> Self:
        """The record that a file holds; ArchiveError where it does not fit together."""
        return cls(**stored.build(schema))

    def require_tables(self) -> None:
        """Raise if nothing was measured."""
        return

    def total(self) -> float | None:
        """The number of records that a model should have; None where the estimates say it."""
        return None

    def combination(self, parts: Sequence[tuple[Clique, Any]]) -> tuple[float, ErrorLaw]:
        """The value of a linear combination of cells of several tables, and the law of its error."""
        raise QueryError(
            "combinations of tables need noise whose correlations across tables are known; plan with "
            "mechanism='residual'"
        )

    def nonnegative_cells(self, release: Release, method: str) -> tuple[Clique, Floats]:
        """The attributes that were measured, and non-negative counts over all of them."""
        raise QueryError(
            "non-negative cells are fitted to the answers of a linear strategy; plan with mechanism='hdmm', 'matrix' "
            "or 'direct', or use release.tables(kind='nonnegative')"
        )


def record_class(kind: object) -> type[Record] | None:
    """The record class of a kind in files; None if this version knows no such kind."""
    records: tuple[type[Record], ...] = (ResidualRecord, LinearRecord, ZeroRecord)
    if kind not in [record.kind for record in records]:  # else the modules that adaptive mechanisms need stay away
        from hush.release.histogram_record import BucketTreeRecord, HistogramRecord
        from hush.release.noisy_tables_record import DrawsRecord, NoisyTablesRecord

        records = (NoisyTablesRecord, DrawsRecord, HistogramRecord, BucketTreeRecord)
    return next((record for record in records if record.kind == kind), None)


LACKING = "it says it is complete, and lacks tables"
UNFIT = "the file's noisy tables do not fit its strategy; get the release again"
MeasuredStrategy = TypeVar("MeasuredStrategy", bound=ResidualStrategy | LinearStrategy)


class ResidualAnswersFile(Stored, tag_field="kind", tag="residual"):
    """A residual strategy, its noisy integers, and which of its sets were measured."""

    strategy: ResidualStrategyFile
    noisy: IntVector
    filled: BoolVector

    @classmethod
    def of(cls, record: ResidualRecord) -> Self:
        answers = record.answers
        return cls(strategy=ResidualStrategyFile.of(record.strategy), noisy=answers.flat, filled=answers.filled)

    def build(self, schema: Schema) -> dict[str, Any]:
        answers = Measurements(self.strategy.build(schema.domain))
        if self.noisy.shape != answers.flat.shape or self.filled.shape != answers.filled.shape:
            raise ArchiveError(UNFIT)
        answers.flat[:], answers.filled[:] = self.noisy, self.filled
        return {"answers": answers}


class LinearAnswersFile(Stored, tag_field="kind", tag="linear"):
    """A linear strategy and the noisy integers of each product; None for those that were not measured."""

    strategy: LinearStrategyFile
    noisy: list[IntTable | None]

    @classmethod
    def of(cls, record: LinearRecord) -> Self:
        answers = record.answers
        noisy = [answers[index] if filled else None for index, filled in enumerate(answers.filled.tolist())]
        return cls(strategy=LinearStrategyFile.of(record.strategy), noisy=noisy)

    def build(self, schema: Schema) -> dict[str, Any]:
        strategy = self.strategy.build(schema.domain)
        answers = Measurements(strategy)
        if len(self.noisy) != len(strategy.products):
            raise ArchiveError(UNFIT)
        for index, values in enumerate(self.noisy):
            if values is not None:
                if values.shape != strategy.products[index].query.shape:
                    raise ArchiveError(UNFIT)
                answers[index] = values
        return {"answers": answers}


class StrategyRecord(Record, Generic[MeasuredStrategy]):
    """Noisy answers to a strategy that was fixed beforehand."""

    charged_at_once: ClassVar[bool] = True

    def __init__(self, answers: Measurements[MeasuredStrategy]) -> None:
        self.answers = answers

    @property
    def strategy(self) -> MeasuredStrategy:
        """What was measured."""
        return self.answers.strategy

    @property
    def tables(self) -> int:
        return len(self.answers)

    def measurements(self) -> list[Measurement]:
        return list(self.answers)

    def law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        """Those of all queries: an interrupted release has paid for them all."""
        return self.strategy.law_counts()

    def inconsistency(self, release: Release) -> str | None:
        if release.complete and not self.answers.filled.all():
            return LACKING
        return strategy_inconsistency(self.strategy, release.workload, release.statement.neighbours)


class ResidualRecord(StrategyRecord[ResidualStrategy]):
    """Noisy residual tables; unbiased estimates of every marginal of the closure, mutually consistent."""

    kind: ClassVar[str] = "residual"
    stored_type: ClassVar[Any] = ResidualAnswersFile

    def estimates(self, release: Release) -> ResidualEstimates:
        return ResidualEstimates(self.answers)

    def combination(self, parts: Sequence[tuple[Clique, Any]]) -> tuple[float, ErrorLaw]:
        """The value and the exact law: the correlations of the noise across tables are known."""
        return Reconstruction(self.answers).estimate_of(parts), combination_law(self.answers, parts)


class LinearRecord(StrategyRecord[LinearStrategy]):
    """Noisy answers to products of factors; unbiased estimates of everything that they support."""

    kind: ClassVar[str] = "linear"
    stored_type: ClassVar[Any] = LinearAnswersFile

    def __init__(self, answers: LinearMeasurements) -> None:
        super().__init__(answers)
        self._cells: dict[str, Floats] = {}  # by method, as they are asked for

    @property
    def consistent(self) -> bool:
        """Not where different products answer different tables."""
        return self.strategy.recovery is not Recovery.LOCAL or len(self.strategy.products) == 1

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self.consistent else ("tables measured apart may disagree, within their errors.",)

    def total(self) -> float | None:
        """Average the totals of disagreeing tables by their precision."""
        from hush.models.fit_arguments import estimate_total

        if not self.consistent:
            with suppress(DataError):  # no query alone may determine it
                return estimate_total(self.strategy.domain, self.measurements())[0]
        return None

    def estimates(self, release: Release) -> Estimates:
        from hush.inference.best_unbiased import combine_marginals
        from hush.inference.linear_estimates import GlobalEstimates, LocalEstimates

        if self.strategy.recovery is Recovery.MARGINALS:
            return combine_marginals(self.answers)
        if self.strategy.recovery is Recovery.GLOBAL:
            return GlobalEstimates(self.answers)
        return LocalEstimates(self.answers)

    def nonnegative_cells(self, release: Release, method: str) -> tuple[Clique, Floats]:
        from hush.inference.nonnegative_cells import measured_clique, nonnegative_cells

        if method not in self._cells:
            cells = nonnegative_cells(self.answers, release.estimates, release.workload, method=method).checked()
            cells.setflags(write=False)
            self._cells[method] = cells
        return measured_clique(self.answers), self._cells[method]


NOTHING = "nothing was measured: every count is given as 0, whatever the rows are."


class ZeroRecordFile(Stored, tag_field="kind", tag="zeros"):
    """No answers at all."""

    @classmethod
    def of(cls, record: ZeroRecord) -> Self:
        return cls()

    def build(self, schema: Schema) -> dict[str, Any]:
        return {}


class ZeroRecord(Record):
    """Nothing measured: every count is estimated as 0, and no error is known.

    Privacy: it holds no number that depends on rows, so it costs nothing; a statement that names a cost is not its own.
    """

    kind: ClassVar[str] = "zeros"
    stored_type: ClassVar[Any] = ZeroRecordFile
    charged_at_once: ClassVar[bool] = True
    errors: ClassVar[ErrorKind | None] = ErrorKind.NONE

    notes: ClassVar[tuple[str, ...]] = (NOTHING,)
    tables: ClassVar[int] = 0

    def measurements(self) -> list[Measurement]:
        return []

    def law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        return Counter()

    def require_tables(self) -> None:
        raise QueryError(
            "nothing was measured: the release gives 0 for every count, and has no model, rows or figures beside; plan "
            "with another mechanism, such as 'independent', for those"
        )

    def estimates(self, release: Release) -> ZeroEstimates:
        return ZeroEstimates(release.domain, release.workload.cliques)

    def inconsistency(self, release: Release) -> str | None:
        if event_parts(release.statement.event) or self.sums is not None:
            return "it states a cost, and nothing was measured"
        return None if release.complete else "it says that it was interrupted, and there was nothing to measure"


def empty_record(strategy: Strategy) -> ResidualRecord | LinearRecord:
    """Empty arrays for the answers of a strategy, allocated before the charge to make sure that they fit."""
    if isinstance(strategy, ResidualStrategy):
        return ResidualRecord(Measurements(strategy))
    if isinstance(strategy, LinearStrategy):
        return LinearRecord(Measurements(strategy))
    raise TypeError(f"no record for strategies of the kind {strategy.kind!r}")


def strategy_inconsistency(strategy: Strategy, workload: Workload, neighbours: Neighbours) -> str | None:
    """Explain why a loaded strategy does not fit its workload and stated neighbours; None if it does."""
    if strategy.neighbours is not neighbours:
        return "its noise is for other neighbours than it states"
    return strategy.inconsistency(workload)
