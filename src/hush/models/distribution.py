"""Distribution: what every fitted model offers: graphical models, relaxed rows, and tables that agree locally."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from hush.core.arrays import Floats
    from hush.core.constraints import Constraint
    from hush.core.domain import Clique, Domain
    from hush.linops import LinearOperator
    from hush.models.graphical.synthetic_rows import Codes, Method


class Distribution(Protocol):
    """A fitted model, exact or approximate."""

    total: float

    @property
    def domain(self) -> Domain: ...

    @property
    def exact(self) -> bool:
        """Whether its tables are those of one distribution over all attributes."""

    @property
    def cliques(self) -> tuple[Clique, ...]: ...

    @property
    def size_mb(self) -> float: ...

    @property
    def constraints(self) -> tuple[Constraint, ...]: ...

    def counts(self, clique: Iterable[str]) -> Floats: ...

    def many(self, cliques: Iterable[Iterable[str]]) -> dict[Clique, Floats]: ...

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> Floats: ...

    def conditioned(self, given: Mapping[str, Any]) -> Distribution: ...

    def synthesize_codes(self, rows: int, generator: np.random.Generator, *, method: Method = "rounding") -> Codes: ...
