"""What no strategy can beat on a workload of any number of cells: the SVD bound of a union of products.

W^T W = G = sum_j w_j kron_i V_i^(j). Attributes of which all terms ask the same factor out, and their bounds multiply.
What remains is solved in the first of these ways that applies:

* marginals: G has the eigenvalues sum_{S >= T} w_S prod_{i not in S} n_i, (prod_{i in T} (n_i - 1)) times, for every
  subset T of a clique, whatever the number of attributes;
* exact: the eigenvalues of G or of W W^T, the smaller of the two, up to 8192;
* parts: (tr G^{1/2})^2 is superadditive, so the bounds of groups of terms that can be solved add up to a bound;
* dominated: from an operator above G whose eigenvectors are products; see `hush.strategies.dominated_bound`.

Reference: [Li 2013, chapter 4].
Differs from [Li 2013]: multiplicities of a data cube's eigenvalues are prod (n_i - 1); the last two are not there.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy

from hush.linops import Identity, Total
from hush.strategies.closure import Closure
from hush.strategies.dominated_bound import dominated_bound
from hush.strategies.optimum import gram_factor, root_sum
from hush.strategies.svd_bound import svd_bound
from hush.strategies.term_grams import TermGrams

Floats = np.ndarray[Any, np.dtype[np.float64]]
Places = np.ndarray[Any, np.dtype[np.int32]]

LARGEST_EXACT = 8192
MOST_TERMS = 500  # whose products with each other are made one by one


def lower_bound(grams: TermGrams, *, largest: int = LARGEST_EXACT) -> tuple[float, str]:
    """A weighted total squared error per unit of P that no supporting strategy goes below, and which bound it is.

    It holds under Gaussian and under Laplace noise. The word is "product", "marginals" or "exact" where the number is
    the SVD bound itself, and "parts" or "dominated" where it is below that one. `largest` limits the eigenvalue
    problem of "exact".

    >>> from hush.domain import Domain
    >>> from hush.workloads import Workload
    >>> value, word = lower_bound(TermGrams.of(Workload.kway(Domain({"a": 2, "b": 3, "c": 4}), 2)))
    >>> round(value, 4), word
    (50.8504, 'marginals')
    """
    common, places, index, weights = _reduced(grams)
    if not places:
        return common * float(weights.sum()), "product"
    if _plain(grams, places):
        return common * _marginals(grams, places, index, weights), "marginals"
    factors = _Factors(grams)
    queries = sum(math.prod(factors.rank(i, int(b)) for i, b in zip(places, row, strict=True)) for row in index)
    cells = math.prod(grams.domain.shape[i] for i in places)
    if cells <= largest or (queries <= largest and len(index) <= MOST_TERMS):
        inner = _gram if cells <= queries or len(index) > MOST_TERMS else _outer
        return common * root_sum(scipy.linalg.eigvalsh(inner(factors, places, index, weights))) ** 2 / cells, "exact"
    parts = _parts(grams, places, index, weights)
    dominated = dominated_bound(grams, places, index, weights)
    return (common * parts, "parts") if parts >= dominated else (common * dominated, "dominated")


class _Factors:
    """F with F F^T = V for every block, as few columns as there are rows or levels; each made once."""

    def __init__(self, grams: TermGrams) -> None:
        self._grams = grams
        self._known: dict[tuple[int, int], Floats] = {}

    def of(self, place: int, block: int) -> Floats:
        key = (place, block)
        if key not in self._known:
            own = self._grams.blocks[place][block]
            explicit = own.shape[0] <= own.shape[1]
            self._known[key] = own.dense().T if explicit else gram_factor(self._grams.gram(place, block))
        return self._known[key]

    def rank(self, place: int, block: int) -> int:
        return min(self._grams.blocks[place][block].shape)


def _reduced(grams: TermGrams) -> tuple[float, tuple[int, ...], Places, Floats]:
    """The bound of what all terms share, the places where they differ, and the distinct terms there."""
    same = (grams.index == grams.index[0]).all(axis=0)
    common = 1.0 * math.prod(_block_bound(grams, i, int(grams.index[0, i])) for i in np.flatnonzero(same).tolist())
    places = tuple(np.flatnonzero(~same).tolist())
    index, term = np.unique(grams.index[:, places], axis=0, return_inverse=True)
    weights = np.bincount(term.ravel(), weights=grams.weights, minlength=len(index)).astype(np.float64)
    return common, places, index, weights


def _block_bound(grams: TermGrams, place: int, block: int) -> float:
    own = grams.blocks[place][block]
    if isinstance(own, Identity | Total):
        return float(own.shape[0])
    return svd_bound(grams.gram(place, block))


def _plain(grams: TermGrams, places: Iterable[int]) -> bool:
    return all(grams.plain(i) for i in places)


def _marginals(grams: TermGrams, places: tuple[int, ...], index: Places, weights: Floats) -> float:
    """(sum_T prod_T (n_i - 1) sqrt(lambda_T / n))^2, lambda_T / n = sum_{S >= T} w_S / prod_S n_i."""
    sizes = np.array(grams.domain.shape, dtype=np.float64)
    groups: dict[int, list[int]] = defaultdict(list)
    for j, row in enumerate(index):
        groups[int(np.count_nonzero(row))].append(j)
    rows = {
        k: np.array([np.array(places)[index[j] > 0] for j in own], dtype=np.int32).reshape(len(own), k)
        for k, own in groups.items()
    }
    closure = Closure.of_places(grams.domain, list(rows.values()))
    eigenvalues = np.zeros(len(closure))
    for k, own in rows.items():
        share = weights[groups[k]] / np.prod(sizes[own], axis=1)
        for size in range(k + 1):
            for columns in itertools.combinations(range(k), size):
                np.add.at(eigenvalues, closure.lookup(own[:, list(columns)]), share)
    return float((closure.products(sizes - 1) @ np.sqrt(eigenvalues)) ** 2)


def _gram(factors: _Factors, places: tuple[int, ...], index: Places, weights: Floats) -> Floats:
    """G itself."""
    total: Floats | float = 0.0
    for row, weight in zip(index, weights, strict=True):
        own = [factors.of(i, int(b)) for i, b in zip(places, row, strict=True)]
        total = total + weight * _kron([f @ f.T for f in own])
    return np.asarray(total)


def _outer(factors: _Factors, places: tuple[int, ...], index: Places, weights: Floats) -> Floats:
    """W W^T, of blocks sqrt(w_j w_k) kron_i F_i^(j)T F_i^(k)."""
    roots = np.sqrt(weights)

    def block(j: int, k: int) -> Floats:
        pairs = zip(places, index[j], index[k], strict=True)
        return np.asarray(
            _kron([factors.of(i, int(a)).T @ factors.of(i, int(b)) for i, a, b in pairs]) * (roots[j] * roots[k])
        )

    return np.block([[block(j, k) for k in range(len(index))] for j in range(len(index))])


def _kron(matrices: list[Floats]) -> Floats:
    made: Floats = np.ones((1, 1))
    for matrix in matrices:
        made = np.asarray(np.kron(made, matrix), dtype=np.float64)
    return made


def _parts(grams: TermGrams, places: tuple[int, ...], index: Places, weights: Floats) -> float:
    """The sum over groups of terms that ask the same of every attribute beyond levels and totals."""
    harder = np.array(
        [
            [not isinstance(grams.blocks[i][b], Identity | Total) for i, b in zip(places, row, strict=True)]
            for row in index
        ]
    )
    signatures = np.where(harder, index, 0)
    total = 0.0
    for signature in np.unique(signatures, axis=0):
        own = (signatures == signature).all(axis=1)
        fixed = [(i, int(b)) for i, b in zip(places, signature, strict=True) if b]
        free = np.array([b == 0 for b in signature])
        factor = math.prod(_block_bound(grams, i, b) for i, b in fixed)
        left = tuple(i for i, b in zip(places, signature, strict=True) if not b)
        plain = _marginals(grams, left, index[own][:, free], weights[own]) if left else float(weights[own].sum())
        total += factor * plain
    return total
