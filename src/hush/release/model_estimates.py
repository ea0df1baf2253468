"""ModelEstimates: a model as a source of answers, without errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from hush.constraints import Constraint
from hush.domain import Clique, Domain
from hush.graphical.synthesis import Codes, Method
from hush.inference.estimates import Array, Estimates
from hush.linops import LinearOperator


class Distribution(Protocol):
    """What a fitted model can be asked, exact or approximate."""

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

    def counts(self, clique: Iterable[str]) -> Array: ...

    def many(self, cliques: Iterable[Iterable[str]]) -> dict[Clique, Array]: ...

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> Array: ...

    def conditioned(self, given: Mapping[str, Any]) -> Distribution: ...

    def synthesize_codes(self, rows: int, generator: np.random.Generator, *, method: Method = "rounding") -> Codes: ...


class ModelEstimates:
    """A distribution's counts as `Estimates`; their covariances are not known and are NaN."""

    def __init__(self, distribution: Distribution) -> None:
        self._distribution = distribution

    @property
    def domain(self) -> Domain:
        return self._distribution.domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.domain.attributes,)

    def covers(self, clique: Clique) -> bool:
        self.domain.check(clique)
        return True

    def for_sums(self, clique: Clique, coefficients: Array, groups: int) -> Estimates | None:
        return None

    def counts(self, clique: Clique) -> Array:
        return self._distribution.counts(clique)

    def covariance(self, clique: Clique, first: Array, second: Array, groups: int) -> Array:
        return np.full(self.domain.sizes(clique)[:groups], np.nan)

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Array, Array]:
        answers = self._distribution.product(clique, blocks)
        return answers, np.full(answers.shape, np.nan)
