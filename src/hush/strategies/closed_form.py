"""Closed form: the noise that minimises a weighted sum of variances within a privacy budget."""

from __future__ import annotations

from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]

LEAST_SHARE = 1e-9  # of the budget, for all sets together that the loss does not care about


def minimise_sum(
    loss: Floats,  # (sets,), v >= 0
    privacy: Floats,  # (sets,), p > 0
    pcost: float,
) -> Floats:
    """The sigma^2 that minimises sum_A v_A sigma^2_A subject to sum_A p_A / sigma^2_A <= c.

    sigma^2_A = sqrt(T p_A / (c v_A)) with T = (sum_A sqrt(v_A p_A))^2 / c, by the Cauchy-Schwarz inequality; T is the
    smallest sum. A set that the loss gives no weight gets a share of `LEAST_SHARE` / sets of the budget, so that it is
    measured all the same and the whole closure can be reconstructed.

    Complexity: O(sets).
    Reference: [ResidualPlanner, Lemma 4.5 and Thm 4.6].
    """
    root = np.sqrt(loss * privacy)
    root = np.maximum(root, LEAST_SHARE * root.sum() / len(root))
    return np.asarray(privacy * root.sum() / (pcost * root))


def smallest_sum(loss: Floats, privacy: Floats, pcost: float) -> float:
    """T = (sum_A sqrt(v_A p_A))^2 / c: no noise within the budget has a smaller weighted sum of variances."""
    return float(np.sum(np.sqrt(loss * privacy)) ** 2 / pcost)
