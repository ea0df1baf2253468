"""MergedQuery: a table of counts whose rare levels are counted together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.domain import Clique
from hush.merging import Merging
from hush.privacy.query import Counts
from hush.privacy.sensitivity import ONE_CELL, RowNorms


@dataclass(frozen=True, slots=True)
class MergedQuery:
    """The table over a clique with merged levels: each row adds one to one cell."""

    clique: Clique
    merging: Merging

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The one clique it reads."""
        return (self.clique,)

    @property
    def row_norms(self) -> RowNorms:
        """One in one cell."""
        return ONE_CELL

    def answer(self, counts: Counts) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The counts, added up over merged levels."""
        return self.merging.table(self.clique, counts[self.clique])
