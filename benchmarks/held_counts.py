"""HeldCounts: counts as the gate reads them, without protection, for benchmarks and their tests."""

from __future__ import annotations

from collections.abc import Sequence

from hush.core.arrays import Integers
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError
from hush.privacy.gate import LARGEST_ANSWER
from hush.privacy.sum_query import SumQuery
from hush.schema import ROW


class HeldCounts:
    """Unprotected counts over attributes a, b, ..., of more rows than a list can hold; each row is a unit."""

    def __init__(self, cells: Integers) -> None:
        self.cells = cells
        self.domain = Domain(dict(zip("abc", cells.shape, strict=False)))
        self.unit = ROW

    def require(self, cliques: Sequence[Clique]) -> None:
        for clique in cliques:
            self.domain.check(clique)

    def check(self, most_rows: int = LARGEST_ANSWER) -> None:
        """Nothing is refused."""

    def counts(self, cliques: Sequence[Clique]) -> dict[Clique, Integers]:
        return {tuple(clique): self.cells for clique in cliques}

    def require_sums(self, queries: Sequence[SumQuery]) -> None:
        raise DataError("a table of counts holds no values to sum")

    def sums(self, queries: Sequence[SumQuery]) -> dict[SumQuery, Integers]:
        raise DataError("a table of counts holds no values to sum")
