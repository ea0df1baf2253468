"""A lower bound on the SVD bound of a union of products that is too large for eigenvalues.

For a positive H with H^2 >= G = W^T W, tr(H^{-1} G) <= tr G^{1/2}, since the square root keeps the order of matrices.
On each attribute, between the direction of 1 and the others,

    V  <=  (1 + t) V_11  (+)  (1 + r / t) V_cc,        r = V_1c V_cc^+ V_c1 / V_11 <= 1,    t > 0,

and products and sums of such bounds are bounds again. Levels and totals are of this form by themselves, so that with
one kind of harder queries on every attribute, H^2 has a basis of products of 1 and of eigenvectors of V_cc.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy

from hush.linops import Identity, LinearOperator, Total
from hush.strategies.term_grams import TermGrams

Floats = np.ndarray[Any, np.dtype[np.float64]]
Places = np.ndarray[Any, np.dtype[np.int32]]

LARGEST_GRID = 20_000_000
_TILTS = (0.25, 0.5, 1.0, 2.0, 4.0)


def dominated_bound(grams: TermGrams, places: tuple[int, ...], index: Places, weights: Floats) -> float:
    """(tr(H^{-1} G))^2 / n; 0 where an attribute has two kinds of harder queries, or the grid would be too large."""
    spectra = []
    for place in places:
        harder = [b for b in grams.blocks[place] if not isinstance(b, Identity | Total)]
        if len(harder) > 1:
            return 0.0
        spectra.append(_Spectrum(harder[0]) if harder else None)
    sizes = np.array([grams.domain.shape[i] for i in places])
    subsets = {t for row in index for t in _subsets(np.flatnonzero(row).tolist())}
    if sum(math.prod((sizes[list(t)] - 1).tolist()) for t in subsets) > LARGEST_GRID:
        return 0.0
    hard = np.array([[_is_hard(grams, i, int(b)) for i, b in zip(places, row, strict=True)] for row in index])
    asked = index > 0
    best = 0.0
    for tilt in _TILTS:
        trace = sum(_subset_trace(t, tilt, spectra, sizes, asked, hard, weights) for t in subsets)
        best = max(best, trace**2)
    return best


class _Spectrum:
    """V between the direction of 1 and the others: V_11, the eigenvalues of V_cc, and their tie r."""

    def __init__(self, block: LinearOperator) -> None:
        n = block.shape[1]
        gram = block.gram_dense()
        one = np.full(n, n**-0.5)
        along = gram @ one
        self.top = float(one @ along)
        centred = gram - np.outer(one, along) - np.outer(along, one) + self.top * np.outer(one, one)
        e, q = scipy.linalg.eigh(centred)
        e, q = e[1:], q[:, 1:]
        kept = e > 1e-12 * e[-1]
        tie = float(np.sum((q[:, kept].T @ along) ** 2 / e[kept])) / self.top if self.top > 0 else 0.0
        self.tie = min(1.0, tie * (1 + 1e-9) + 1e-9)
        self.others = np.maximum(e, 0)


def _is_hard(grams: TermGrams, place: int, block: int) -> bool:
    return not isinstance(grams.blocks[place][block], Identity | Total)


def _subsets(items: list[int]) -> Iterable[tuple[int, ...]]:
    return itertools.chain.from_iterable(itertools.combinations(items, k) for k in range(len(items) + 1))


def _subset_trace(
    subset: tuple[int, ...],
    tilt: float,
    spectra: list[_Spectrum | None],
    sizes: np.ndarray[Any, Any],
    asked: np.ndarray[Any, Any],
    hard: np.ndarray[Any, Any],
    weights: Floats,
) -> float:
    """sum of G_aa / sqrt(n H^2_aa) over the products of other directions on `subset` and of 1 elsewhere."""
    inside = list(subset)
    outside = [i for i in range(len(sizes)) if i not in subset]
    shape = tuple(int(sizes[i]) - 1 for i in inside)
    value, cover = np.zeros(shape), np.zeros(shape)
    grouped: dict[tuple[bool, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for j in np.flatnonzero(asked[:, inside].all(axis=1)).tolist():
        plain, raised = float(weights[j]), float(weights[j])
        for i in outside:
            spectrum = spectra[i]
            if hard[j, i] and spectrum is not None:
                plain, raised = plain * spectrum.top / sizes[i], raised * (1 + tilt) * spectrum.top / sizes[i]
            elif asked[j, i]:
                plain, raised = plain / sizes[i], raised / sizes[i]
        own = grouped[tuple(hard[j, inside].tolist())]
        own[0], own[1] = own[0] + plain, own[1] + raised
    for pattern, (plain, raised) in grouped.items():
        grid = np.ones(shape)
        for axis, (i, is_hard) in enumerate(zip(inside, pattern, strict=True)):
            spectrum = spectra[i]
            if is_hard and spectrum is not None:
                grid = grid * (spectrum.others / sizes[i]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
                raised *= 1 + spectrum.tie / tilt
            else:
                grid = grid / sizes[i]
        value += plain * grid
        cover += raised * grid
    positive = cover > 0
    return float(np.sum(value[positive] / np.sqrt(cover[positive])))
