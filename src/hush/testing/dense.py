"""DenseEstimates: estimates over a whole small domain with any covariance, computed the plain way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hush.domain import Clique, Domain
from hush.errors import WorkloadError
from hush.inference.estimates import Array
from hush.linops import LinearOperator


class DenseEstimates:
    """The plain twin of real estimates: a table of counts over the whole domain and the covariance of its cells.

    `cliques` are the largest tables that it admits to hold, the whole domain by default. It keeps what it was asked for
    in `asked`, so that a test can see that a query read no larger table than it needs.
    """

    def __init__(
        self,
        domain: Domain,
        table: Array,  # of shape domain.shape
        cell_covariance: Array | None = None,  # (cells, cells); zero by default
        cliques: tuple[Clique, ...] | None = None,
    ) -> None:
        self.domain = domain
        self.table = np.asarray(table, dtype=np.float64).reshape(domain.shape)
        self.cell_covariance = cell_covariance
        self.cliques = (domain.attributes,) if cliques is None else cliques
        self.asked: list[Clique] = []

    def covers(self, clique: Clique) -> bool:
        """Whether some held table has all the attributes."""
        return any(set(clique) <= set(held) for held in self.cliques)

    def for_sums(self, clique: Clique, coefficients: Array, groups: int) -> None:
        """It holds whole tables alone."""

    def counts(self, clique: Clique) -> Array:
        """Sums over the other attributes."""
        if not self.covers(clique):
            raise WorkloadError(f"no table over {clique!r}")
        self.asked.append(clique)
        sums = np.bincount(self._places(clique), self.table.ravel(), self.domain.size(clique))
        return np.asarray(sums.reshape(self.domain.sizes(clique)))

    def covariance(self, clique: Clique, first: Array, second: Array, groups: int) -> Array:
        """f_g' S s_g for every group g, with f_g and s_g the coefficients of the cells of the domain that lie in g."""
        shape = self.domain.sizes(clique)
        if first.shape != shape or second.shape != shape:
            raise WorkloadError(f"coefficients of shape {first.shape} and {second.shape}: expected {shape}")
        if self.cell_covariance is None:
            return np.zeros(shape[:groups])
        places = self._places(clique)
        inside = np.eye(self.domain.size(clique[:groups]))[self._places(clique[:groups])]  # (cells, groups)
        left, right = (inside * side.ravel()[places, None] for side in (first, second))
        return np.asarray((left * (self.cell_covariance @ right)).sum(axis=0)).reshape(shape[:groups])

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Array, Array]:
        """W x and the diagonal of W S W^T, with W written out over the cells of the domain."""
        if len(blocks) != len(clique):
            raise WorkloadError(f"{len(blocks)} query blocks for {len(clique)} attributes; give one each")
        rows: Array = np.ones((1, 1))
        for block in blocks:
            rows = np.asarray(np.kron(rows, block.dense()), dtype=np.float64)
        rows = rows[:, self._places(clique)]
        shape = tuple(block.shape[0] for block in blocks)
        spread = (
            np.zeros(len(rows)) if self.cell_covariance is None else np.sum(rows * (rows @ self.cell_covariance), 1)
        )
        return (rows @ self.table.ravel()).reshape(shape), spread.reshape(shape)

    def _places(self, clique: Clique) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The cell of the clique, counted in its own order, that each cell of the domain belongs to."""
        codes = np.unravel_index(np.arange(self.table.size), self.domain.shape)
        places = np.zeros(self.table.size, dtype=np.int64)
        for name in clique:
            places = places * self.domain[name] + codes[self.domain.attributes.index(name)]
        return places
