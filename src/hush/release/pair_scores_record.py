"""The record of mechanisms that score all pairs of columns at once: the noisy scores, and the tables they led to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from msgspec.structs import replace

from hush.core.arrays import Integers
from hush.core.domain import Clique, Domain
from hush.core.errors import ArchiveError
from hush.files.codec import CliqueTable, IntVector, Stored
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian, Noise
from hush.privacy.sensitivity import RowNorms
from hush.release.noisy_tables_record import NoisyTablesFile, NoisyTablesRecord
from hush.release.record import Round
from hush.schema import Schema


def score_norms(count: int) -> RowNorms:
    """What a row adds to so many scores, each of which it moves by at most one; an exchanged row by at most two."""
    return RowNorms.of_numbers(count, 1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class PairScores:
    """Noisy scores of pairs of columns, all with one law of noise; public."""

    pairs: tuple[Clique, ...]
    values: Integers  # (pairs,)
    law: DiscreteGaussian


class PairScoresFile(Stored):
    """Noisy scores in a file."""

    pairs: CliqueTable
    values: IntVector
    variance: Fraction

    def build(self, domain: Domain) -> PairScores:
        """The scores; refused unless each is of two columns, and there is one for each pair."""
        pairs = tuple(domain.check(pair) for pair in self.pairs.build(domain, "scores"))
        if not pairs or any(len(pair) != 2 for pair in pairs) or self.values.shape != (len(pairs),):
            raise ArchiveError("the file's scores of pairs do not fit its schema; get the release again")
        return PairScores(pairs, self.values.astype(np.int64), DiscreteGaussian(self.variance))


class ScoredTablesFile(NoisyTablesFile[Round], tag="pair-scores"):
    """Noisy tables, and the scores of pairs that led to them; an interrupted release may lack scores."""

    pair_scores: PairScoresFile | None = None

    @classmethod
    def of(cls, record: NoisyTablesRecord) -> Self:
        content: Self = super().of(record)  # type: ignore[assignment]
        scores: PairScores | None = record.pair_scores  # type: ignore[attr-defined]
        if scores is None:
            return content
        pairs = CliqueTable.of(record.domain, scores.pairs)
        stored = PairScoresFile(pairs=pairs, values=scores.values, variance=scores.law.variance_parameter)
        return replace(content, pair_scores=stored)

    def build(self, schema: Schema) -> dict[str, Any]:
        scores = None if self.pair_scores is None else self.pair_scores.build(schema.domain)
        return super().build(schema) | {"pair_scores": scores}


class PairScoresRecord(NoisyTablesRecord):
    """Noisy tables, and the noisy scores of pairs that chose them.

    The scores are no counts, so estimates and models use the tables alone. A resumed run chooses by the same scores.
    """

    kind: ClassVar[str] = "pair-scores"
    stored_type: ClassVar[Any] = ScoredTablesFile

    def __init__(
        self,
        domain: Domain,
        noisy_tables: Iterable[Measurement] = (),
        *,
        pair_scores: PairScores | None = None,
        **kept: Any,
    ) -> None:
        super().__init__(domain, noisy_tables, **kept)
        self.pair_scores = pair_scores

    def law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        counts = super().law_counts()
        if self.pair_scores is not None:
            counts[score_norms(len(self.pair_scores.pairs)), self.pair_scores.law] += 1
        return counts
