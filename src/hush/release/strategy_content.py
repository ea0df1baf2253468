"""The noisy answers of a strategy, residual tables or products, with unbiased estimates of all they support.

Residual answers are reconstructed; answers to a linear strategy are recovered product by product, over all together,
or by way of marginals, as the strategy says.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hush.archive import ArchiveReader
from hush.arrays import Floats
from hush.codec import narrow
from hush.domain import Clique, Domain
from hush.errors import ArchiveError, DataError, SizeError, shown
from hush.graphical.total import estimate_total
from hush.inference.best_unbiased import combine_marginals
from hush.inference.estimates import Estimates
from hush.inference.linear_estimates import GlobalEstimates, LinearMeasurements, LocalEstimates
from hush.inference.nonnegative_cells import measured_clique, nonnegative_cells
from hush.inference.residual_estimates import ResidualEstimates, variance_of
from hush.inference.residual_reconstruction import Reconstruction
from hush.memory import available_memory, readable
from hush.privacy.measurement import Measurement, Measurements
from hush.privacy.sensitivity import Neighbours
from hush.release.content import Arrays, Content
from hush.strategies.linear_strategy import LinearStrategy
from hush.strategies.noise_kind import NoiseKind
from hush.strategies.product_strategy import Recovery
from hush.strategies.residual_strategy import ResidualStrategy
from hush.strategies.strategy import Strategy
from hush.strategies.strategy_files import pack_linear, pack_strategy, unpack_linear, unpack_strategy
from hush.workloads import Workload

if TYPE_CHECKING:
    from hush.release.release import Release
    from hush.schema import Schema

UNFIT = "the file's noisy tables do not fit its strategy; get the release again"
INCOMPLETE = "it says it is complete, and lacks tables"


class ResidualContent(Content):
    """Noisy residual tables; unbiased estimates of every marginal of the closure, mutually consistent."""

    kind: ClassVar[str] = "residual"

    def __init__(self, answers: Measurements[ResidualStrategy]) -> None:
        self.answers = answers

    @property
    def strategy(self) -> ResidualStrategy:
        """What was measured."""
        return self.answers.strategy

    @property
    def tables(self) -> int:
        """How many sets were measured."""
        return len(self.answers)

    def measurements(self) -> list[Measurement]:
        """Every residual that was measured, with its own noise."""
        return list(self.answers)

    def estimates(self, release: Release) -> ResidualEstimates:
        """Counts and covariances by reconstruction."""
        return ResidualEstimates(self.answers)

    def combination(self, parts: Sequence[tuple[Clique, Any]]) -> tuple[float, float]:
        """The value and the variance of a combination; correlations of its noise across tables are known exactly."""
        return Reconstruction(self.answers).estimate_of(parts), variance_of(self.strategy, parts)

    def inconsistency(self, release: Release) -> str | None:
        """Explain why a release from a file cannot be what it says."""
        if release.complete and not self.answers.filled.all():
            return INCOMPLETE
        return strategy_inconsistency(self.strategy, release.workload, release.statement.neighbours)

    def pack(self) -> tuple[dict[str, Any], Arrays]:
        """The strategy, its noisy integers, and which of them were measured."""
        entry, arrays = pack_strategy(self.strategy)
        return {"strategy": entry}, arrays | {"noisy": narrow(self.answers.flat), "filled": self.answers.filled}

    @classmethod
    def unpack(cls, entry: dict[str, Any], archive: ArchiveReader, schema: Schema) -> ResidualContent:
        """The content that `pack` stored."""
        answers = Measurements(unpack_strategy(schema.domain, entry["strategy"], archive))
        for name, array in (("noisy", answers.flat), ("filled", answers.filled)):
            stored = archive.array(name)
            if stored.dtype.kind != array.dtype.kind or stored.shape != array.shape:
                raise ArchiveError(UNFIT)
            array[:] = stored
        return cls(answers)


class LinearContent(Content):
    """Noisy answers to products of factors; unbiased estimates of everything that they support."""

    kind: ClassVar[str] = "linear"

    def __init__(self, answers: LinearMeasurements) -> None:
        self.answers = answers
        self._cells: dict[str, Floats] = {}  # by method, as they are asked for

    @property
    def strategy(self) -> LinearStrategy:
        """What was measured."""
        return self.answers.strategy

    @property
    def tables(self) -> int:
        """How many products were measured."""
        return len(self.answers)

    @property
    def laplace(self) -> bool:
        """Whether its noise has Laplace tails."""
        return self.strategy.noise is NoiseKind.LAPLACE

    @property
    def consistent(self) -> bool:
        """Whether its tables agree: not where different products answer different tables."""
        return self.strategy.recovery is not Recovery.LOCAL or len(self.strategy.products) == 1

    @cached_property
    def grain(self) -> float:
        """Half a step of the coarsest noise, which is one, over its standard deviation."""
        least = min(product.law.stddev for product in self.strategy.products)
        return 0.5 / least if least > 0 else 0.0

    @property
    def notes(self) -> tuple[str, ...]:
        """Whether tables may disagree."""
        return () if self.consistent else ("tables measured apart may disagree, within their errors.",)

    def measurements(self) -> list[Measurement]:
        """Every product that was measured, with its own noise."""
        return list(self.answers)

    def total(self) -> float | None:
        """Tables that disagree on the total are averaged by their precision."""
        if not self.consistent:
            with suppress(DataError):  # their queries may know it only together
                return estimate_total(self.strategy.domain, self.measurements())[0]
        return None

    def estimates(self, release: Release) -> Estimates:
        """Counts and covariances by the recovery of the strategy."""
        if self.strategy.recovery is Recovery.MARGINALS:
            return ResidualEstimates(combine_marginals(self.answers))
        if self.strategy.recovery is Recovery.GLOBAL:
            return GlobalEstimates(self.answers)
        return LocalEstimates(self.answers)

    def nonnegative_cells(self, release: Release, method: str) -> tuple[Clique, Floats]:
        """The measured attributes, and the non-negative counts over them that fit best."""
        if method not in self._cells:
            cells = nonnegative_cells(self.answers, release.estimates, release.workload, method=method).checked()
            cells.setflags(write=False)
            self._cells[method] = cells
        return measured_clique(self.answers), self._cells[method]

    def inconsistency(self, release: Release) -> str | None:
        """Explain why a release from a file cannot be what it says."""
        if release.complete and not self.answers.filled.all():
            return INCOMPLETE
        return strategy_inconsistency(self.strategy, release.workload, release.statement.neighbours)

    def pack(self) -> tuple[dict[str, Any], Arrays]:
        """The strategy and the noisy integers of every product that was measured."""
        entry, arrays = pack_linear(self.strategy)
        for index in np.flatnonzero(self.answers.filled).tolist():
            arrays[f"noisy_{index}"] = narrow(self.answers[index])
        return {"strategy": entry, "filled": self.answers.filled.tolist()}, arrays

    @classmethod
    def unpack(cls, entry: dict[str, Any], archive: ArchiveReader, schema: Schema) -> LinearContent:
        """The content that `pack` stored."""
        strategy = unpack_linear(schema.domain, entry["strategy"], archive)
        answers, filled = Measurements(strategy), entry["filled"]
        if len(filled) != len(strategy.products) or not all(isinstance(measured, bool) for measured in filled):
            raise ArchiveError(UNFIT)
        for index in np.flatnonzero(filled).tolist():
            values = archive.array(f"noisy_{index}")
            if values.dtype.kind != "i" or values.shape != strategy.products[index].query.shape:
                raise ArchiveError(UNFIT)
            answers[index] = values
        return cls(answers)


StrategyContent = ResidualContent | LinearContent


def empty_content(strategy: Strategy) -> StrategyContent:
    """Room for the answers of a strategy; made before the charge, so that it is known to fit."""
    if isinstance(strategy, ResidualStrategy):
        return ResidualContent(Measurements(strategy))
    if isinstance(strategy, LinearStrategy):
        return LinearContent(Measurements(strategy))
    raise TypeError(f"no content is known for strategies of the kind {strategy.kind!r}")


def check_memory(strategy: Strategy) -> None:
    """Refuse a strategy whose answers would not fit into memory."""
    needed, free = strategy.memory, available_memory()
    if needed > 0.9 * free:
        raise SizeError(
            f"releasing needs about {readable(needed)}, more than the {readable(0.9 * free)} that can be had; "
            "drop an attribute, use wider bins or lower the order"
        )


def strategy_inconsistency(strategy: Strategy, workload: Workload, neighbours: Neighbours) -> str | None:
    """Explain why a strategy from a file does not belong to the workload and the neighbours that are stated."""
    if strategy.neighbours is not neighbours:
        return "its noise is for other neighbours than it states"
    return strategy.inconsistency(workload)


def pack_plan_strategy(strategy: Strategy) -> tuple[dict[str, Any], Arrays]:
    """A strategy of either kind as a manifest entry and arrays."""
    if isinstance(strategy, ResidualStrategy):
        return pack_strategy(strategy)
    if isinstance(strategy, LinearStrategy):
        return pack_linear(strategy)
    raise TypeError(f"files hold no strategies of the kind {strategy.kind!r}")


def unpack_plan_strategy(domain: Domain, kind: Any, entry: Any, archive: ArchiveReader) -> Strategy:
    """The strategy that `pack_plan_strategy` stored."""
    if kind == ResidualStrategy.kind:
        return unpack_strategy(domain, entry, archive)
    if kind == LinearStrategy.kind:
        return unpack_linear(domain, entry, archive)
    raise ArchiveError(f"the file's strategy is of a kind unknown to this hush: {shown(kind)}")
