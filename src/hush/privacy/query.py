"""Queries and scorers: what the gate may ask of a private table, with sensitivities they declare themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hush.domain import Clique
from hush.privacy.neighbours import Neighbours
from hush.privacy.selection import Scores
from hush.privacy.sensitivity import ONE_CELL, RowNorms

Counts = Mapping[Clique, np.ndarray[Any, np.dtype[np.int64]]]


class Query(Protocol):
    """Integer answers that add up over rows; everything but `answer`'s argument is public."""

    @property
    def cliques(self) -> tuple[Clique, ...]: ...
    @property
    def row_norms(self) -> RowNorms: ...
    def answer(self, counts: Counts) -> np.ndarray[Any, np.dtype[np.int64]]: ...


class Scorer(Protocol):
    """Scores of public candidates, computed from exact counts."""

    @property
    def cliques(self) -> tuple[Clique, ...]: ...
    @property
    def candidates(self) -> int: ...
    def scores(self, counts: Counts, *, max_rows: int, neighbours: Neighbours) -> Scores: ...


@dataclass(frozen=True, slots=True)
class MarginalQuery:
    """The table of counts over a clique: each row adds one to one cell."""

    clique: Clique

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The one clique it reads."""
        return (self.clique,)

    @property
    def row_norms(self) -> RowNorms:
        """One in one cell."""
        return ONE_CELL

    def answer(self, counts: Counts) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The counts themselves."""
        return counts[self.clique]
