"""Marginals of designed strategies: OPT_M with a strategy Q_i in place of every attribute's levels.

Part b measures kron of Q_i over i in b and of totals over the others. With X = Q^T Q of full rank, the matrix
X^{-1/2} 1 1^T X^{-1/2} has one eigenvalue besides zero, lambda = 1^T X^{-1} 1, so that all parts are diagonal in one
basis, as plain marginals are, and everything of OPT_M holds for global least squares with lambda_i for n_i,

    mean = 1^T X^{-1} V X^{-1} 1 / lambda   and   spread = tr X^{-1} V - mean.

Plain marginals are Q = I: lambda = n, mean = 1^T V 1 / n.

Differs from [HDMM, sec. 3.5], where Q_i is the identity: prefix sums and ranges keep strategies of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hush.linops import LinearOperator
from hush.strategies.draft import Draft, PartDraft, Recovery
from hush.strategies.marginal_system import SomeSets, summed_acts
from hush.strategies.noise_kind import NoiseKind
from hush.strategies.opt_marginals import candidates, convex_shares, maximal, searched_shares
from hush.strategies.p_identity import SEED
from hush.strategies.shelf import LEVELS, LevelTotalShelf, Shelf, shelves_of
from hush.strategies.term_grams import TermGrams

Floats = np.ndarray[Any, np.dtype[np.float64]]


def opt_bases(
    grams: TermGrams,
    noise: NoiseKind,
    *,
    shelves: Sequence[Shelf] | None = None,
    cells: float = math.inf,
    restarts: int = 2,
    rounds: int = 200,
    seed: int = SEED,
) -> Draft:
    """The best marginals of designed strategies found; its error is that of global least squares over all parts."""
    shelves = shelves_of(grams, noise, restarts=restarts, seed=seed) if shelves is None else shelves
    chosen = [_base(shelf) for shelf in shelves]
    numbers = [_numbers(shelf, base) for shelf, base in zip(shelves, chosen, strict=True)]
    roots = [root for root, _, _ in numbers]
    act = summed_acts(grams, [(mean, spread) for _, mean, spread in numbers])
    if noise is NoiseKind.GAUSSIAN:
        system, shares = convex_shares(roots, act, cells)
    else:
        few = SomeSets(noise, roots, act, candidates(roots, act, cells))
        system, shares = few, searched_shares(few, [maximal(act)], restarts, rounds, seed)
    kept = np.where(shares > 1e-9, shares, 0.0)
    shares = shares if system.error(kept) == np.inf else kept / kept.sum()
    parts = []
    for k in np.flatnonzero(shares).tolist():
        used = [i for i in range(len(shelves)) if system.sets[k] >> i & 1]
        groups = tuple((grams.domain.attributes[shelves[i].place],) for i in used)
        parts.append(PartDraft(groups, tuple(chosen[i] for i in used), float(shares[k])))
    return Draft(grams.domain, tuple(parts), noise, Recovery.MARGINALS, system.error(shares), "bases")


def _base(shelf: Shelf) -> LinearOperator:
    """The strategy for an attribute's blocks without its total, each weighted to count alike."""
    if isinstance(shelf, LevelTotalShelf):
        return shelf.operator(LEVELS)
    weights = np.append(0.0, 1 / shelf.errors[LEVELS, 1:])
    able = np.flatnonzero(np.isfinite(shelf.errors).all(axis=1))
    for choice in able[np.argsort(shelf.errors[able] @ weights, kind="stable")].tolist():
        gram = shelf.operator(choice).gram_dense()
        if np.linalg.matrix_rank(gram, hermitian=True) == len(gram):
            return shelf.operator(choice)
    return shelf.operator(LEVELS)


def _numbers(shelf: Shelf, base: LinearOperator) -> tuple[float, Floats, Floats]:
    """lambda, and mean and spread of every block, both over lambda."""
    grams, place, n = shelf.grams, shelf.place, float(shelf.size)
    if isinstance(shelf, LevelTotalShelf):
        mean = grams.sums(place) / n**2
        return n, mean, np.maximum(grams.traces(place) / n - mean, 0)
    inverse = np.linalg.inv(base.gram_dense())
    ones = inverse.sum(axis=0)
    root = float(ones.sum())
    own = [grams.gram(place, b) for b in range(len(shelf.blocks))]
    mean = np.array([ones @ gram @ ones for gram in own]) / root**2
    return root, mean, np.maximum(np.array([np.sum(inverse * gram) for gram in own]) / root - mean, 0)
