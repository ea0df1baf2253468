"""Counts without negative ones, nearest to unbiased estimates in the norm of the queries that were asked.

A projection onto a convex set that holds the truth, in the norm in which errors are summed, never makes that sum
larger. In another norm it can: many small clipped counts add up in long prefix sums.

Reference: [Li 2013, sec. 3.5.3], "hybrid".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hush.core.arrays import Floats
from hush.histograms.axis_grid import AxisForm, AxisGrid, spread

LARGEST_BASIS = 512  # buckets of an axis up to which its form is taken apart; longer ones are taken as even
ADMM_STEPS = 60
ADMM_PENALTY = 1e-3  # of ADMM, over the largest eigenvalue: it balances the two residuals on maps of many shapes
ADMM_OVERSTEP = 1.7  # how far a step goes on: it is worth twice the steps [Boyd et al. 2011, sec. 3.4.3]


def project_cells(buckets: Floats, grids: Sequence[AxisGrid], queries: str) -> Floats:
    """Non-negative counts of all levels along the leading axes, from unbiased counts of buckets.

    Where single cells are asked for the counts stay unbiased, so that sums of them do.
    """
    if queries == "cells":
        return spread(buckets, grids)
    if len(grids) == 1:
        return _rising(spread(buckets, grids))
    return spread(_admm(buckets, grids), grids)


def _rising(cells: Floats) -> Floats:
    """The nearest prefix sums that never fall, as counts: isotonic regression, exact."""
    from scipy.optimize import isotonic_regression

    flat = cells.reshape(len(cells), -1)
    sums = np.cumsum(flat, axis=0)
    for column in range(flat.shape[1]):
        sums[:, column] = np.maximum(isotonic_regression(sums[:, column]).x, 0.0)
    return np.diff(sums, axis=0, prepend=0.0).reshape(cells.shape)


def _admm(buckets: Floats, grids: Sequence[AxisGrid]) -> Floats:
    """min |W (x - v)|^2 over x >= 0 for all rectangles W, by alternating directions in the basis of the form."""
    axes = [_basis(grid) for grid in grids]
    (turn_first, back_first, l_first), (turn_second, back_second, l_second) = axes
    eigenvalues = np.outer(l_first, l_second)
    eigenvalues /= eigenvalues.max()

    def turned(x: Floats) -> Floats:
        return turn_second(turn_first(x).T).T

    def back(x: Floats) -> Floats:
        return back_second(back_first(x).T).T

    rest = buckets.reshape(*buckets.shape[:2], -1)
    out = np.empty_like(rest)
    for column in range(rest.shape[2]):
        v = rest[:, :, column]
        fixed, z, u = eigenvalues * turned(v), np.maximum(v, 0.0), np.zeros_like(v)
        for _ in range(ADMM_STEPS):
            x = back((fixed + ADMM_PENALTY * turned(z - u)) / (eigenvalues + ADMM_PENALTY))
            u += ADMM_OVERSTEP * x + (1 - ADMM_OVERSTEP) * z
            z = np.maximum(u, 0.0)
            u -= z
        out[:, :, column] = z
    return out.reshape(buckets.shape)


def _basis(grid: AxisGrid) -> tuple[Callable[[Floats], Floats], Callable[[Floats], Floats], Floats]:
    """To and from the eigenvectors of the form of all ranges of an axis, along the first axis; and its eigenvalues.

    On n single levels that form is (n + 1) times the inverse of second differences, which sines diagonalise.
    """
    if grid.buckets <= LARGEST_BASIS:
        eigenvalues, q = np.linalg.eigh(AxisForm(grid, "ranges").matrix())
        return (lambda x: q.T @ x), (lambda x: q @ x), np.maximum(eigenvalues, 0.0)
    from scipy.fft import dst

    n = grid.buckets

    def sines(x: Floats) -> Floats:
        return np.asarray(dst(x, type=1, axis=0, norm="ortho"))

    return sines, sines, (n + 1) / (2 - 2 * np.cos(np.pi * np.arange(1, n + 1) / (n + 1)))
