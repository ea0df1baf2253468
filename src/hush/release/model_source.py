"""Sources: where a model's unbiased estimates come from, a release or the tables that it was fitted to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Protocol

import numpy as np

from hush.domain import Clique
from hush.graphical.measurement import Measurement
from hush.graphical.unbiased import UnbiasedEstimates
from hush.inference.estimates import Estimates
from hush.release.answers import Answers
from hush.schema import Schema


class Source(Protocol):
    """A release, as a source of unbiased estimates."""

    @property
    def estimates(self) -> Estimates: ...

    def marginal(self, *attributes: str, level: float = 0.95) -> Answers: ...


class MeasuredTables:
    """The tables that were measured cell by cell, as a source like a release.

    Estimates share the total at least, so that one table with Laplace noise gives all intervals its tails.

    >>> import hush
    >>> schema = Schema.from_domain(hush.Domain({"sex": 2}))
    >>> twice = [Measurement(("sex",), [10.0, 20.0], 1.0), Measurement(("sex",), [12.0, 20.0], 1.0)]
    >>> MeasuredTables(schema, twice).marginal("sex").estimate.tolist()
    [11.0, 20.0]
    """

    def __init__(self, schema: Schema, measurements: Iterable[Measurement]) -> None:
        self._schema = schema
        self._tables = [one for one in measurements if one.query is None]

    @property
    def laplace(self) -> bool:
        """Whether some of the noise has Laplace tails."""
        return any(one.noise == "laplace" for one in self._tables)

    @cached_property
    def estimates(self) -> UnbiasedEstimates:
        """The best linear unbiased estimates from all tables."""
        return UnbiasedEstimates(self._schema.domain, self._tables)

    def covers(self, names: Clique) -> bool:
        """Whether a table holds these attributes; those of one level are in every table."""
        wanted = {name for name in names if self._schema.domain[name] > 1}
        return any(wanted <= set(one.clique) for one in self._tables)

    def marginal(self, *attributes: str, level: float = 0.95) -> Answers:
        """The estimate of a table inside a measured one, with exact errors."""
        names = self._schema.domain.check(attributes)
        ones = np.ones(self._schema.domain.sizes(names))
        variances = self.estimates.covariance(names, ones, ones, len(names))
        made = Answers.of_marginal(self._schema, names, self.estimates.counts(names), variances, level)
        return replace(made, laplace=self.laplace)
