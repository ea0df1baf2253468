"""Records of strategies that were fixed beforehand and measured at once.

Residual answers are reconstructed. The strategy says how answers to a linear strategy are recovered: product by
product, all together, or through marginals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from hush.core.arrays import Floats
from hush.core.domain import Clique
from hush.core.errors import ArchiveError, DataError
from hush.files.codec import BoolVector, IntTable, IntVector, Stored
from hush.inference.error_law import ErrorLaw
from hush.inference.estimates import Estimates
from hush.inference.residual_estimates import ResidualEstimates, combination_law
from hush.privacy.measurement import Measurement, Measurements
from hush.privacy.noise import Noise
from hush.privacy.sensitivity import Neighbours, RowNorms
from hush.release.record import LACKING_TABLES, Record, record_class
from hush.strategies.linear_strategy import LinearStrategy
from hush.strategies.product_strategy import Recovery
from hush.strategies.residual_strategy import ResidualStrategy
from hush.strategies.strategy import Strategy
from hush.strategies.strategy_files import LinearStrategyFile, ResidualStrategyFile
from hush.workloads import Workload

if TYPE_CHECKING:
    from hush.inference.linear_estimates import LinearMeasurements
    from hush.release.release import Release
    from hush.schema import Schema

UNFIT_ANSWERS = "the file's noisy tables do not fit its strategy; get the release again"
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
            raise ArchiveError(UNFIT_ANSWERS)
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
            raise ArchiveError(UNFIT_ANSWERS)
        for index, values in enumerate(self.noisy):
            if values is not None:
                if values.shape != strategy.products[index].query.shape:
                    raise ArchiveError(UNFIT_ANSWERS)
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

    @property
    def progress(self) -> str:
        return f"{self.tables} of {self.strategy.tables}"

    def measurements(self) -> list[Measurement]:
        return list(self.answers)

    def law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        """Those of all queries: an interrupted release has paid for them all."""
        return self.strategy.law_counts()

    def inconsistency(self, release: Release) -> str | None:
        if release.complete and not self.answers.filled.all():
            return LACKING_TABLES
        return strategy_inconsistency(self.strategy, release.workload, release.statement.neighbours)


class ResidualRecord(StrategyRecord[ResidualStrategy]):
    """Noisy residual tables; unbiased estimates of every marginal of the closure, mutually consistent."""

    kind: ClassVar[str] = "residual"
    stored_type: ClassVar[Any] = ResidualAnswersFile

    def estimates(self, release: Release) -> ResidualEstimates:
        return ResidualEstimates(self.answers)

    def combination(self, parts: Sequence[tuple[Clique, Any]]) -> tuple[float, ErrorLaw]:
        """The value and the exact law: the correlations of the noise across tables are known."""
        return ResidualEstimates(self.answers).estimate_of(parts), combination_law(self.answers, parts)


class LinearRecord(StrategyRecord[LinearStrategy]):
    """Noisy answers to products of factors; unbiased estimates of everything that they support."""

    kind: ClassVar[str] = "linear"
    stored_type: ClassVar[Any] = LinearAnswersFile

    def __init__(self, answers: LinearMeasurements) -> None:
        super().__init__(answers)
        self._cells: dict[str, Floats] = {}  # by method, computed on demand

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


def strategy_record(strategy: Strategy) -> StrategyRecord[Any]:
    """An empty record for the answers of a strategy, allocated before the charge to make sure that they fit."""
    kind = record_class(strategy.kind)
    if not issubclass(kind, StrategyRecord):
        raise TypeError(f"no record for the answers of strategies of the kind {strategy.kind!r}")
    return kind(Measurements(strategy))


def strategy_inconsistency(strategy: Strategy, workload: Workload, neighbours: Neighbours) -> str | None:
    """Explain why a loaded strategy does not fit its workload and stated neighbours; None if it does."""
    if strategy.neighbours is not neighbours:
        return "its noise is for other neighbours than it states"
    return strategy.inconsistency(workload)
