"""ModelEstimates: a model as a source of answers, without errors.

Misfit: how far noisy numbers are from a fitted model, and whether noise alone explains it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from hush.arrays import Floats
from hush.constraints import Constraint
from hush.domain import Clique, Domain
from hush.graphical.synthetic_rows import Codes, Method
from hush.inference.estimates import Estimates
from hush.linops import LinearOperator
from hush.privacy.measurement import Measurement


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

    def counts(self, clique: Iterable[str]) -> Floats: ...

    def many(self, cliques: Iterable[Iterable[str]]) -> dict[Clique, Floats]: ...

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> Floats: ...

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

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> Estimates | None:
        return None

    def counts(self, clique: Clique) -> Floats:
        return self._distribution.counts(clique)

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        return np.full(self.domain.sizes(clique)[:groups], np.nan)

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        answers = self._distribution.product(clique, blocks)
        return answers, np.full(answers.shape, np.nan)


LEAST = 1.5  # a root mean square below this is not remarked on
CLEAR = {"gaussian": 6.0, "laplace": 12.0}  # in 1 / sqrt(2 m): noise alone goes beyond with a chance of about 1e-6
NO_ROWS = (
    "the tables add up to less than 1 record, and 1 is the least that a model can have; its counts say little, and its "
    "shares follow the noise."
)


class Misfit:
    """The root mean square of (Q mu - y) / stddev, per table and over all numbers: about 1, or less, for noise alone.

    The best model is no farther from what was measured than the true table is, whose squared distance is a chi-square
    variable with one degree of freedom per number, so that sqrt(mean) is at most 1 + z / sqrt(2 m) but for a small
    chance. `tables` has the worst first.

    >>> import hush
    >>> told = [Measurement(("a",), [10.0, 90.0], 1.0), Measurement(("a",), [90.0, 10.0], 1.0)]
    >>> model = hush.fit(hush.Domain({"a": 2}), told)
    >>> Misfit(model.distribution, told).overall
    40.0
    """

    def __init__(self, distribution: Distribution, measurements: Iterable[Measurement]) -> None:
        domain = distribution.domain
        given = [(domain.clique(one.clique), one.on(domain)) for one in measurements]
        tables = distribution.many(one.clique for _, one in given)
        squares: dict[Clique, float] = {}
        self.numbers: dict[Clique, int] = {}
        self._clear: dict[Clique, float] = {}
        for clique, one in given:
            counts = tables[one.clique].ravel()
            answers = one.query @ counts if isinstance(one.query, LinearOperator) else counts
            scaled = (answers - one.values.ravel()) / one.stddev
            squares[clique] = squares.get(clique, 0.0) + float(scaled @ scaled)
            self.numbers[clique] = self.numbers.get(clique, 0) + one.numbers
            self._clear[clique] = max(self._clear.get(clique, 0.0), CLEAR[one.noise])
        sizes = {clique: math.sqrt(square / self.numbers[clique]) for clique, square in squares.items()}
        self.tables = dict(sorted(sizes.items(), key=lambda item: -item[1]))
        self.overall = math.sqrt(sum(squares.values()) / max(sum(self.numbers.values()), 1))

    def caveat(self) -> str | None:
        """What to say where noise of the stated size does not explain the distance, over all or in one table."""
        found = [clique for clique, size in self.tables.items() if size > self._limit([clique])]
        if not found and not self.overall > self._limit(self.tables):
            return None
        worst = found[0] if found else next(iter(self.tables))
        return (
            f"the tables differ from the model by {self.overall:.3g} standard deviations (root mean square), most in "
            f"({', '.join(worst)}): {self.tables[worst]:.3g}, more than noise explains; check that all are about the "
            "same rows, with levels in the right order, and that stddev, total and constraints are right."
        )

    def _limit(self, cliques: Iterable[Clique]) -> float:
        named = list(cliques)
        numbers = sum(self.numbers[clique] for clique in named)
        clear = max((self._clear[clique] for clique in named), default=0.0)
        return max(LEAST, 1 + clear / math.sqrt(2 * max(numbers, 1)))
