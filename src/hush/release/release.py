"""Release: noisy tables, and everything that can be asked of them at no further cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hush.archive import write_archive
from hush.domain import Clique, Domain
from hush.errors import WorkloadError
from hush.inference.estimates import Array, Estimates
from hush.release.answers import Answers
from hush.release.sql import answer_sql
from hush.release.statement import Statement
from hush.schema import Schema
from hush.workloads import Workload
from hush.workloads.storage import pack_domain, pack_workload

KIND = "release"
VERSION = 1


class Release(ABC):
    """What a mechanism gave out: estimates with errors, and the promise they were made under.

    Everything here is post-processing: it reads no private data and can be done for ever.

    >>> import hush
    >>> table = hush.read(hush.datasets.people(1000, seed=1), hush.datasets.people_schema())
    >>> release = hush.plan(hush.Workload.kway(table.domain, 1), hush.Budget(rho=0.5)).release(table)
    >>> release.counts(("sex",)).shape, release.marginal("sex").to_arrow().num_rows
    ((2,), 2)
    """

    mechanism: str

    def __init__(self, *, schema: Schema, workload: Workload, statement: Statement, complete: bool = True) -> None:
        self.schema = schema
        self.workload = workload
        self.statement = statement
        self.complete = complete

    @property
    @abstractmethod
    def estimates(self) -> Estimates:
        """Counts and covariances."""

    @abstractmethod
    def _pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """What the mechanism stores beside the workload: a manifest entry and arrays."""

    @property
    def domain(self) -> Domain:
        """The attributes and their sizes."""
        return self.workload.domain

    def counts(self, clique: Iterable[str]) -> Array:
        """Estimated counts over a clique, of shape `domain.sizes(clique)`, in the order given.

        Unbiased: some may be negative, none need be whole.
        """
        names = self._covered(clique)
        return self.estimates.counts(names)

    def marginal(self, *attributes: str, level: float = 0.95) -> Answers:
        """The table of counts over some attributes, each number with its interval."""
        names = self._covered(attributes)
        ones = np.ones(self.domain.sizes(names))
        variances = self.estimates.covariance(names, ones, ones, len(names))
        return Answers.of_marginal(self.schema, names, self.estimates.counts(names), variances, level)

    def sql(self, text: str, *, level: float = 0.95) -> Answers:
        """Answer a counting query in SQL; see docs/sql.md for what can be asked."""
        return answer_sql(text, self.schema, self.estimates, level=level)

    def save(self, path: str | Path) -> None:
        """Write the release to a file that `hush.load` reads; it holds nothing private."""
        entry, arrays = self._pack()
        workload, workload_arrays = pack_workload(self.workload)
        manifest = {
            "mechanism": self.mechanism,
            "complete": self.complete,
            "privacy": self.statement.to_json(),
            "domain": pack_domain(self.domain),
            "schema": self.schema.to_toml(),
            "workload": workload,
            "measured": entry,
        }
        write_archive(path, kind=KIND, version=VERSION, manifest=manifest, arrays=arrays | workload_arrays)

    def _covered(self, clique: Iterable[str]) -> Clique:
        names = self.domain.check(clique)
        if not self.estimates.covers(names):
            raise WorkloadError(
                f"the release has no table over {names!r}; a workload with that marginal would have covered it"
            )
        return names

    def __repr__(self) -> str:
        state = "" if self.complete else ", interrupted"
        stamp = "" if self.statement.private else ", NOT PRIVATE"
        return f"Release({self.mechanism}, {len(self.workload)} tables, {self.statement.budget}{state}{stamp})"
