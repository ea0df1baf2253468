"""Association: how strongly two columns of codes go together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def cramers_v(table: Any) -> float:
    """Cramér's V of a two-way table: sqrt(chi^2 / (N min(r - 1, c - 1))), 0 for independent columns, 1 for a function.

    Only the r rows and c columns that have counts are looked at; with one of either there is nothing to go together,
    and V is 0. The plain V, without a correction for small samples: few rows in a large table raise it.

    >>> cramers_v([[10, 0], [0, 10]]), cramers_v([[5, 5], [5, 5]]), cramers_v([[5, 5], [0, 0]])
    (1.0, 0.0, 0.0)
    """
    counts = np.asarray(table, dtype=np.float64)
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    least = min(counts.shape) - 1
    if least < 1:
        return 0.0
    p = counts / counts.sum()
    expected = np.outer(p.sum(axis=1), p.sum(axis=0))
    return min(math.sqrt(float(((p - expected) ** 2 / expected).sum()) / least), 1.0)
