"""The record of mechanisms that survey many tables: noisy distances from a model, and the tables measured after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec
import numpy as np
from msgspec.structs import replace

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique, Domain
from hush.core.errors import ArchiveError
from hush.files.codec import CliqueTable, FloatVector, IntVector, Stored, Whole
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian, Noise
from hush.privacy.sensitivity import RowNorms
from hush.release.noisy_tables_record import NoisyTablesFile, NoisyTablesRecord
from hush.release.record import Round
from hush.schema import Schema

if TYPE_CHECKING:
    from hush.release.model_estimates import MeasuredEstimates
    from hush.release.release import Release


def survey_norms(count: int) -> RowNorms:
    """What a row adds to so many distances, each of which it moves by at most one; an exchanged row by at most two."""
    return RowNorms.of_numbers(count, 1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """Noisy L1 distances of tables from those of a public model, all with one law of noise; public.

    The model was fitted to the first `tables_before` noisy tables. `moved` are the distances of its tables from those
    of the last model, once that is fitted. `merged` are tables that were surveyed with merged levels, too.
    """

    cliques: tuple[Clique, ...]
    values: Integers  # (cliques,)
    law: DiscreteGaussian
    tables_before: int
    moved: Floats | None = None
    merged: tuple[Clique, ...] = ()
    merged_values: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # (merged,)

    @property
    def norms(self) -> RowNorms:
        """What a row adds to all distances."""
        return survey_norms(len(self.cliques) + len(self.merged))


class SurveyFile(Stored):
    """A survey in a file."""

    cliques: CliqueTable
    values: IntVector
    variance: Fraction
    tables_before: Whole
    moved: FloatVector | None = None
    merged: CliqueTable | None = None
    merged_values: IntVector | None = None

    @classmethod
    def of(cls, domain: Domain, survey: Survey) -> SurveyFile:
        cliques, merged = (CliqueTable.of(domain, listed) for listed in (survey.cliques, survey.merged))
        stored = cls.from_attributes(survey, cliques=cliques, variance=survey.law.variance_parameter, merged=merged)
        return stored if survey.merged else replace(stored, merged=None, merged_values=None)

    def build(self, domain: Domain, tables: int) -> Survey:
        """The survey; refused unless there is one number for each of its tables."""
        cliques = tuple(domain.check(clique) for clique in self.cliques.build(domain, "survey"))
        listed = () if self.merged is None else self.merged.build(domain, "survey")
        merged = tuple(domain.check(clique) for clique in listed)
        distances = np.zeros(0, np.int64) if self.merged_values is None else self.merged_values.astype(np.int64)
        shape = (len(cliques),)
        moved = None if self.moved is None else np.asarray(self.moved, dtype=np.float64)
        fits = moved is None or (moved.shape == shape and np.isfinite(moved).all() and (moved >= 0).all())
        fits = fits and distances.shape == (len(merged),) and set(merged) <= set(cliques)
        if not cliques or not all(cliques) or self.values.shape != shape or not fits or self.tables_before > tables:
            raise ArchiveError("a survey of the file does not fit its schema and tables; get the release again")
        law = DiscreteGaussian(self.variance)
        return Survey(cliques, self.values.astype(np.int64), law, self.tables_before, moved, merged, distances)


class SurveyedTablesFile(NoisyTablesFile[Round], tag="surveyed"):
    """Noisy tables, and the surveys that led to them."""

    surveys: list[SurveyFile] = msgspec.field(default_factory=list)

    @classmethod
    def of(cls, record: NoisyTablesRecord) -> Self:
        content: Self = super().of(record)  # type: ignore[assignment]
        surveys: list[Survey] = record.surveys  # type: ignore[attr-defined]
        return replace(content, surveys=[SurveyFile.of(record.domain, survey) for survey in surveys])

    def build(self, schema: Schema) -> dict[str, Any]:
        content = super().build(schema)
        tables = len(content["noisy_tables"])
        return content | {"surveys": [survey.build(schema.domain, tables) for survey in self.surveys]}


class SurveyRecord(NoisyTablesRecord):
    """Noisy tables, and the surveys that chose them.

    Distances are no counts, so estimates and models use the tables alone. A resumed run chooses by the same surveys.
    The last survey of a table bounds how far the model is off there.
    """

    kind: ClassVar[str] = "surveyed"
    stored_type: ClassVar[Any] = SurveyedTablesFile

    def __init__(
        self,
        domain: Domain,
        noisy_tables: Iterable[Measurement] = (),
        *,
        surveys: Iterable[Survey] = (),
        **kept: Any,
    ) -> None:
        super().__init__(domain, noisy_tables, **kept)
        self.surveys = list(surveys)

    def resumed(self) -> Self:
        record = super().resumed()
        record.surveys = list(self.surveys)
        return record

    def law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        counts = super().law_counts()
        for survey in self.surveys:
            counts[survey.norms, survey.law] += 1
        return counts

    def estimates(self, release: Release) -> MeasuredEstimates:
        estimates = super().estimates(release)
        estimates.bounds.surveys = tuple(self.surveys)
        return estimates
