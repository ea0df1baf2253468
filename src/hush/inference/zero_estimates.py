"""Zero estimates: 0 for every count, with no error known; the yardstick of mechanisms that measure something."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain, maximal_cliques
from hush.core.errors import SizeError
from hush.core.memory import available_memory, readable
from hush.linops import LinearOperator


class ZeroEstimates:
    """A count of 0 in every cell of every table; implements `Estimates`, with NaN for what is not known.

    >>> zeros = ZeroEstimates(Domain({"a": 2, "b": 3}), [("a",)])
    >>> zeros.counts(("b",)).tolist(), zeros.cliques
    ([0.0, 0.0, 0.0], (('a',),))
    """

    laplace = False

    def __init__(self, domain: Domain, asked: Iterable[Clique]) -> None:
        self.domain = domain
        self._asked = tuple(maximal_cliques(list(asked)))

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The largest tables that were asked for; any other is as good."""
        return self._asked

    def covers(self, clique: Clique) -> bool:
        self.domain.check(clique)
        return True

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> None:
        """None: every table is known cell by cell."""

    def counts(self, clique: Clique) -> Floats:
        sizes, cells = self.domain.sizes(clique), self.domain.size(clique)
        if 8 * cells > 0.8 * available_memory():
            raise SizeError(f"a table of {cells:,} zeros takes {readable(8 * cells)}; ask for one over fewer columns")
        return np.zeros(sizes)

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        return np.full(self.domain.sizes(clique)[:groups], np.nan)

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        shape = [block.shape[0] for block in blocks]
        return np.zeros(shape), np.full(shape, np.nan)

    def alike(self, name: str) -> bool:
        return True

    def error_law(self, clique: Clique, coefficients: Floats, blocks: Sequence[LinearOperator] | None = None) -> None:
        """None: without noise, the error has no law."""
