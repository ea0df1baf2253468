"""DenseEstimates: estimates over a whole small domain with any covariance, computed the plain way."""

from __future__ import annotations

import numpy as np

from hush.domain import Clique, Domain
from hush.errors import WorkloadError
from hush.inference.estimates import Array


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
        cells = self.table.size
        self.cell_covariance = np.zeros((cells, cells)) if cell_covariance is None else cell_covariance
        self.cliques = (domain.attributes,) if cliques is None else cliques
        self.asked: list[Clique] = []

    def covers(self, clique: Clique) -> bool:
        """Whether some held table has all the attributes."""
        return any(set(clique) <= set(held) for held in self.cliques)

    def counts(self, clique: Clique) -> Array:
        """Sums over the other attributes."""
        if not self.covers(clique):
            raise WorkloadError(f"no table over {clique!r}")
        self.asked.append(clique)
        return np.asarray((self._cells(clique).T @ self.table.ravel()).reshape(self.domain.sizes(clique)))

    def covariance(self, clique: Clique, first: Array, second: Array, groups: int) -> Array:
        """f_g' S s_g for every group g, with S the covariance of the table over the clique."""
        shape = self.domain.sizes(clique)
        if first.shape != shape or second.shape != shape:
            raise WorkloadError(f"coefficients of shape {first.shape} and {second.shape}: expected {shape}")
        spread = self._cells(clique)
        covariance = spread.T @ self.cell_covariance @ spread
        outer = self.domain.size(clique[:groups])
        blocks = covariance.reshape(outer, -1, outer, covariance.shape[0] // outer)
        rows = first.reshape(outer, -1), second.reshape(outer, -1)
        return np.asarray(np.einsum("gx,gxgy,gy->g", rows[0], blocks, rows[1])).reshape(shape[:groups])

    def _cells(self, clique: Clique) -> Array:
        """The matrix that adds the cells of the domain up to those of the clique, of shape (cells, cells of clique)."""
        codes = np.unravel_index(np.arange(self.table.size), self.domain.shape)
        places = np.zeros(self.table.size, dtype=np.int64)
        for name in clique:
            places = places * self.domain[name] + codes[self.domain.attributes.index(name)]
        return np.asarray(np.eye(self.domain.size(clique))[places])
