"""Estimators that hold the full table of all columns, to compare a graphical model with: they end at about ten columns.

Each takes a domain and noisy tables of counts, and returns a count for every combination of levels.

Reference: [HDMM, Figure 4.2b].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.privacy.measurement import Measurement


def multiplicative_weights(domain: Domain, noisy: Sequence[Measurement], rounds: int = 100) -> Floats:
    """p <- p exp(Q^T (y - Q p) / 2 N), table after table, so many times; stopping early smooths."""
    total = float(np.mean([table.values.sum() for table in noisy]))
    p = np.full(domain.shape, total / domain.size())
    for _ in range(rounds):
        for table in noisy:
            others = _others(domain, table.clique)
            p = p * np.exp(np.expand_dims(table.values - p.sum(axis=others), others) / (2 * total))
            p *= total / p.sum()
    return p


def least_squares(domain: Domain, noisy: Sequence[Measurement]) -> Floats:
    """The table of least norm among those that fit best, by LSMR; counts may be negative."""
    ends = np.cumsum([table.values.size for table in noisy])

    def forward(x: Floats) -> Floats:
        cells = x.reshape(domain.shape)
        return np.concatenate([cells.sum(axis=_others(domain, table.clique)).ravel() for table in noisy])

    def backward(y: Floats) -> Floats:
        out = np.zeros(domain.shape)
        for table, part in zip(noisy, np.split(y, ends[:-1]), strict=True):
            out += np.expand_dims(part.reshape(table.values.shape), _others(domain, table.clique))
        return out.ravel()

    operator = LinearOperator((int(ends[-1]), domain.size()), matvec=forward, rmatvec=backward, dtype=np.float64)
    y = np.concatenate([table.values.ravel() for table in noisy])
    return np.asarray(lsmr(operator, y, atol=1e-10, btol=1e-10)[0].reshape(domain.shape))


def _others(domain: Domain, clique: Clique) -> tuple[int, ...]:
    """The axes of the columns outside a clique, which has the order of the domain."""
    return tuple(axis for axis, name in enumerate(domain) if name not in clique)


FULL_TABLES: dict[str, Callable[[Domain, Sequence[Measurement]], Floats]] = {
    "multiplicative weights": multiplicative_weights,
    "least squares": least_squares,
}
