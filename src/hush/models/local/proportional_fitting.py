"""Iterative proportional fitting: the table of the largest entropy with given margins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hush.core.arrays import Floats, axes_outside
from hush.core.domain import Clique

SWEEPS = 200
CLOSE = 1e-6  # of the total: how well margins are met


def proportional_fit(
    clique: Clique, margins: Sequence[tuple[Clique, Floats]], shape: tuple[int, ...], total: float, sweeps: int = SWEEPS
) -> Floats:
    """The table of the largest entropy with the given margins, by iterative proportional fitting.

    t <- t * margin / (margin of t), one margin after the other, until all are met or `sweeps` have passed: margins that
    no joint table has are met in turns, and the last of them in the end. The total is always met.

    >>> proportional_fit(("a", "b"), [(("a",), np.array([1.0, 3.0])), (("b",), np.array([2.0, 2.0]))], (2, 2), 4.0)
    array([[0.5, 0.5],
           [1.5, 1.5]])
    """
    cells = int(np.prod(shape))
    table = np.full(shape, total / cells)
    for _ in range(sweeps):
        missed = 0.0
        for kept, margin in margins:
            margin_now = table.sum(axis=axes_outside(clique, kept), keepdims=True)
            wanted = margin.reshape(margin_now.shape)
            missed = max(missed, float(np.abs(margin_now - wanted).sum()))
            table *= np.divide(wanted, margin_now, out=np.zeros_like(margin_now), where=margin_now > 0)
        if missed <= CLOSE * total:
            break
    sum_of_cells = float(table.sum())
    return table * (total / sum_of_cells) if sum_of_cells > 0 else np.full(shape, total / cells)
