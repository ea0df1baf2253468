"""Compiled loops of cell priors: the likelihood of noisy cells under each spread, and the posterior mean of each cell.

Component j of a cell with the predicted count e is a normal law of mean m = min(e f_j, largest) and variance
m + (w_j m)^2; the noisy count adds the variance of its noise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hush.core.compiled import njit


@njit(cache=True, nogil=True)
def component_likelihoods(
    noisy: float, predicted: float, largest: float, variance: float, factors: Any, widths: Any, likelihoods: Any
) -> float:
    """The likelihood of one noisy cell under every component, over the largest of them; returns its logarithm."""
    best = -math.inf
    for j in range(len(factors)):
        mean = min(predicted * factors[j], largest)
        spread = variance + mean + (widths[j] * mean) ** 2
        likelihoods[j] = -0.5 * ((noisy - mean) ** 2 / spread + math.log(spread))
        best = max(best, likelihoods[j])
    for j in range(len(factors)):
        likelihoods[j] = math.exp(likelihoods[j] - best)
    return best


@njit(cache=True, nogil=True)
def spread_likelihoods(
    noisy: Any,  # (cells,)
    predicted: Any,  # (cells,) above zero
    largest: Any,  # (cells,)
    variance: float,  # of the noise
    factors: Any,  # (components,)
    widths: Any,  # (components,)
    spreads: Any,  # (spreads, components): weights that add up to one
    logarithms: Any,  # (spreads,): out
) -> None:
    """The logarithm of the likelihood of a table under every spread. O(cells spreads components)."""
    likelihoods = np.empty(len(factors))
    logarithms[:] = 0.0
    for c in range(len(noisy)):
        best = component_likelihoods(noisy[c], predicted[c], largest[c], variance, factors, widths, likelihoods)
        for k in range(len(spreads)):
            mixed = 0.0
            for j in range(len(factors)):
                mixed += spreads[k, j] * likelihoods[j]
            logarithms[k] += math.log(mixed) + best


@njit(cache=True, nogil=True)
def posterior_means(
    noisy: Any,  # (cells,)
    predicted: Any,  # (cells,) above zero
    largest: Any,  # (cells,)
    variance: float,
    factors: Any,  # (components,)
    widths: Any,  # (components,)
    weights: Any,  # (components,) of the table's spread
    means: Any,  # (cells,): out
) -> None:
    """The expected count of every cell, given its noisy count. O(cells components)."""
    likelihoods = np.empty(len(factors))
    for c in range(len(noisy)):
        component_likelihoods(noisy[c], predicted[c], largest[c], variance, factors, widths, likelihoods)
        total = 0.0
        weighted = 0.0
        for j in range(len(factors)):
            mean = min(predicted[c] * factors[j], largest[c])
            own = mean + (widths[j] * mean) ** 2
            likelihood = weights[j] * likelihoods[j]
            total += likelihood
            weighted += likelihood * (mean + own / (variance + own) * (noisy[c] - mean))
        means[c] = max(weighted / total, 0.0)
