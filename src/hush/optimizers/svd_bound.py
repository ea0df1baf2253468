"""The SVD bound: a total squared error that no supporting strategy goes below, under Gaussian or Laplace noise.

    SVDB(W) = (sum_i lambda_i)^2 / n = (tr G^{1/2})^2 / n,        G = W^T W on n cells, lambda_i singular values of W,

per unit of P, the noise's variance at sensitivity one. It is tight under Gaussian noise if and only if the diagonal of
G^{1/2} is constant: for marginals with any weights, circular convolutions and all predicates, among others.

A workload has G = sum_j w_j kron_i V_i^(j) on any number of cells (`lower_bound`). For a Kronecker product the bounds
of the factors multiply, so an attribute with the same block in all terms factors out. The remaining attributes are
solved in the first of these ways that applies:

* marginals: G has the eigenvalues sum_{S >= T} w_S prod_{i not in S} n_i, (prod_{i in T} (n_i - 1)) times, for every
  subset T of a clique, whatever the number of attributes;
* exact: the eigenvalues of G or of W W^T, the smaller of the two, up to 8192;
* parts: (tr G^{1/2})^2 is superadditive, so the bounds of groups of terms that can be solved add up to a bound;
* dominated: for a positive H with H^2 >= G, tr(H^{-1} G) <= tr G^{1/2}, since the square root keeps the order of
  matrices. On each attribute, between the direction of 1 and the others,

      V  <=  (1 + t) V_11  (+)  (1 + r / t) V_cc,        r = V_1c V_cc^+ V_c1 / V_11 <= 1,    t > 0,

  and products and sums of such bounds are bounds again. Levels and totals have this form already, so that with at most
  one other kind of block on every attribute, H^2 has a basis of products of 1 and of eigenvectors of V_cc.

Reference: [Li 2013, chapter 4].
Differs from [Li 2013]: multiplicities of a data cube's eigenvalues are prod (n_i - 1); the last two ways are new.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

import numpy as np
import scipy

from hush.core.arrays import Floats
from hush.core.errors import WorkloadError
from hush.linops import Identity, LinearOperator, Total
from hush.linops.combination import kron_product
from hush.strategies.closure import AxisIndices, Closure
from hush.strategies.optimum import dual_value, gram_factor, root_sum
from hush.strategies.term_table import TermGrams


def svd_bound(gram: Floats) -> float:  # (n, n), W^T W
    """SVDB of a workload known by its Gram matrix. O(n^3).

    >>> from hush.linops import AllRange
    >>> round(svd_bound(AllRange(4).gram_dense()), 5)
    16.31224
    """
    _check(gram)
    return dual_value(gram, np.full(len(gram), 1 / len(gram)))


def svd_bound_of_rows(workload: Floats) -> float:  # (m, n), W
    """SVDB of explicit queries, through W W^T where they are fewer than the cells. O(m n min(m, n))."""
    m, n = workload.shape
    inner = workload @ workload.T if m < n else workload.T @ workload
    return float(root_sum(scipy.linalg.eigvalsh(inner)) ** 2 / n)


def variable_agnostic_bound(size: int, diagonal: float, other: float) -> float:
    """SVDB of a Gram matrix with one number on its diagonal and one off it; tight.

        (sqrt(a + (n - 1) b) + (n - 1) sqrt(a - b))^2 / n

    Reference: [Li 2013, chapter 4]. Differs from [Li 2013]: holds for every n, not powers of two alone.

    >>> round(variable_agnostic_bound(4, 2.0, 1.0) * 2**2, 6) == round((3 + 5**0.5) ** 2 * 2**2 / 4, 6)
    True
    """
    if not 0 <= other <= diagonal:
        raise WorkloadError(f"diagonal={diagonal}, other={other}: expected 0 <= other <= diagonal")
    return float((np.sqrt(diagonal + (size - 1) * other) + (size - 1) * np.sqrt(diagonal - other)) ** 2 / size)


def projected_svd_bound(gram: Floats, *, cuts: int = 16) -> float:
    """The largest SVDB of the workload on any run of cells between two of `cuts` + 1 evenly spaced cells.

    Every strategy for the workload is one for its projection, so the largest is a bound as well. O(cuts^2 n^3).
    """
    _check(gram)
    ends = np.unique(np.linspace(0, len(gram), cuts + 1).round().astype(int))
    return max(svd_bound(gram[start:stop, start:stop]) for at, start in enumerate(ends) for stop in ends[at + 1 :])


def simplified_svd_bound(gram: Floats) -> float:
    """SVDB after leaving out cells that no query asks for and merging cells that all queries treat alike.

    Often larger than SVDB, but not always; both are bounds.

    Reference: [Li 2013, chapter 4], cell-simplified SVD bound.

    >>> w = np.array([[1.0, 1, 1], [0, 1, 1]])
    >>> round(svd_bound(w.T @ w), 2), round(simplified_svd_bound(w.T @ w), 2)
    (2.61, 2.5)
    """
    cells = distinct_cells(gram)
    return svd_bound(gram[np.ix_(cells, cells)])


def distinct_cells(gram: Floats) -> np.ndarray[Any, np.dtype[np.intp]]:
    """The first cell of every set of cells with the same column of W, zero columns left out: |w_j - w_k|^2 = 0."""
    _check(gram)
    norms = gram.diagonal()
    slack = 1e-12 * float(norms.max())
    distinct: list[int] = []
    for j in np.flatnonzero(norms > slack).tolist():
        if not (np.abs(norms[j] + norms[distinct] - 2 * gram[j, distinct]) <= slack).any():
            distinct.append(j)
    return np.array(distinct, dtype=np.intp)


def looseness(gram: Floats) -> float:
    """How far the best strategy under Gaussian noise can be above SVDB: n max diag(G^{1/2}) / tr(G^{1/2}); 1 if tight.

    Reference: [Li 2013, chapter 4].
    """
    _check(gram)
    e, q = scipy.linalg.eigh(gram)
    roots = np.sqrt(np.maximum(e, 0))
    return float(len(gram) * (q**2 @ roots).max() / roots.sum())


def _check(gram: Floats) -> None:
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or not gram.size or not np.isfinite(gram).all():
        raise WorkloadError("the Gram matrix of the queries must be square and finite; scale down huge entries")


LARGEST_GRID = 20_000_000  # products of eigenvectors
TILTS_TRIED = (0.25, 0.5, 1.0, 2.0, 4.0)  # values of t; each gives a bound


def dominated_bound(grams: TermGrams, axes: tuple[int, ...], index: AxisIndices, weights: Floats) -> float:
    """(tr(H^{-1} G))^2 / n; 0 if an attribute has two kinds of blocks besides levels and totals, or for a huge grid."""
    spectra = []
    for axis in axes:
        harder = [b for b in grams.blocks[axis] if not isinstance(b, Identity | Total)]
        if len(harder) > 1:
            return 0.0
        spectra.append(_Spectrum(harder[0]) if harder else None)
    sizes = np.array([grams.domain.shape[i] for i in axes])
    asked_axes = [np.flatnonzero(row).tolist() for row in index]
    subsets = {t for names in asked_axes for k in range(len(names) + 1) for t in itertools.combinations(names, k)}
    if sum(math.prod((sizes[list(t)] - 1).tolist()) for t in subsets) > LARGEST_GRID:
        return 0.0
    hard = _hard(grams, axes, index)
    asked = index > 0
    best = 0.0
    for tilt in TILTS_TRIED:
        trace = sum(_subset_trace(t, tilt, spectra, sizes, asked, hard, weights) for t in subsets)
        best = max(best, trace**2)
    return best


class _Spectrum:
    """V split into the direction of 1 and the others: V_11, the eigenvalues of V_cc, and the coupling r."""

    def __init__(self, block: LinearOperator) -> None:
        n = block.shape[1]
        gram = block.gram_dense()
        ones = np.full(n, n**-0.5)
        along = gram @ ones
        self.top = float(ones @ along)
        centred = gram - np.outer(ones, along) - np.outer(along, ones) + self.top * np.outer(ones, ones)
        e, q = scipy.linalg.eigh(centred)
        e, q = e[1:], q[:, 1:]
        nonzero = e > 1e-12 * e[-1]
        tie = float(np.sum((q[:, nonzero].T @ along) ** 2 / e[nonzero])) / self.top if self.top > 0 else 0.0
        self.tie = min(1.0, tie * (1 + 1e-9) + 1e-9)
        self.others = np.maximum(e, 0)


def _hard(grams: TermGrams, axes: tuple[int, ...], index: AxisIndices) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether each term asks more of each attribute than levels and totals."""
    hard = [[not isinstance(block, Identity | Total) for block in grams.blocks[i]] for i in axes]
    return np.array([[hard[k][b] for k, b in enumerate(row)] for row in index.tolist()])


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
    # Weights in G and in H^2 of the terms that reach this subset, by which of its attributes have harder blocks.
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
        sums = grouped[tuple(hard[j, inside].tolist())]
        sums[0], sums[1] = sums[0] + plain, sums[1] + raised
    # The eigenvalues of G and H^2 along the subset.
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


LARGEST_EXACT = 8192
MOST_TERMS = 500  # beyond, W W^T would take too many products of pairs of terms


def lower_bound(grams: TermGrams, *, largest: int = LARGEST_EXACT) -> tuple[float, str]:
    """A weighted total squared error per unit of P that no supporting strategy goes below, and which bound it is.

    It holds under Gaussian and Laplace noise. The word is "product", "marginals" or "exact" if the number is the SVD
    bound itself, and "parts" or "dominated" if it is below the SVD bound. `largest` limits the eigenvalue problem of
    "exact".

    >>> from hush.core.domain import Domain
    >>> from hush.workloads import Workload
    >>> value, word = lower_bound(TermGrams.of(Workload.kway(Domain({"a": 2, "b": 3, "c": 4}), 2)))
    >>> round(value, 4), word
    (50.8504, 'marginals')
    """
    # Attributes with the same block in all terms factor out; `axes` are the others.
    same = (grams.index == grams.index[0]).all(axis=0)
    common = 1.0 * math.prod(_block_bound(grams, i, int(grams.index[0, i])) for i in np.flatnonzero(same).tolist())
    axes = tuple(np.flatnonzero(~same).tolist())
    index, term = np.unique(grams.index[:, axes], axis=0, return_inverse=True)
    weights = np.bincount(term.ravel(), weights=grams.weights, minlength=len(index)).astype(np.float64)
    # The first way that applies; see the module.
    if not axes:
        return common * float(weights.sum()), "product"
    if all(grams.plain(axis) for axis in axes):
        return common * _marginals(grams, axes, index, weights), "marginals"
    factors = _Factors(grams)
    queries = sum(math.prod(factors.rank(i, int(b)) for i, b in zip(axes, row, strict=True)) for row in index)
    cells = math.prod(grams.domain.shape[i] for i in axes)
    if cells <= largest or (queries <= largest and len(index) <= MOST_TERMS):
        inner = _gram if cells <= queries or len(index) > MOST_TERMS else _outer
        return common * root_sum(scipy.linalg.eigvalsh(inner(factors, axes, index, weights))) ** 2 / cells, "exact"
    grouped = _grouped_bound(grams, axes, index, weights)
    dominated = dominated_bound(grams, axes, index, weights)
    return (common * grouped, "parts") if grouped >= dominated else (common * dominated, "dominated")


class _Factors:
    """F with F F^T = V for every block, with as few columns as the block has rows or levels; each computed once."""

    def __init__(self, grams: TermGrams) -> None:
        self._grams = grams
        self._known: dict[tuple[int, int], Floats] = {}

    def of(self, axis: int, block: int) -> Floats:
        key = (axis, block)
        if key not in self._known:
            operator = self._grams.blocks[axis][block]
            explicit = operator.shape[0] <= operator.shape[1]
            self._known[key] = operator.dense().T if explicit else gram_factor(self._grams.gram(axis, block))
        return self._known[key]

    def rank(self, axis: int, block: int) -> int:
        return min(self._grams.blocks[axis][block].shape)


def _block_bound(grams: TermGrams, axis: int, block: int) -> float:
    operator = grams.blocks[axis][block]
    if isinstance(operator, Identity | Total):
        return float(operator.shape[0])
    return svd_bound(grams.gram(axis, block))


def _marginals(grams: TermGrams, axes: tuple[int, ...], index: AxisIndices, weights: Floats) -> float:
    """(sum_T prod_T (n_i - 1) sqrt(lambda_T / n))^2, lambda_T / n = sum_{S >= T} w_S / prod_S n_i."""
    sizes = np.array(grams.domain.shape, dtype=np.float64)
    groups: dict[int, list[int]] = defaultdict(list)
    for j, row in enumerate(index):
        groups[int(np.count_nonzero(row))].append(j)
    rows = {
        k: np.array([np.array(axes)[index[j] > 0] for j in members], dtype=np.int32).reshape(len(members), k)
        for k, members in groups.items()
    }
    closure = Closure.of_axes(grams.domain, list(rows.values()))
    eigenvalues = np.zeros(len(closure))
    for k, members in rows.items():
        share = weights[groups[k]] / np.prod(sizes[members], axis=1)
        for size in range(k + 1):
            for columns in itertools.combinations(range(k), size):
                np.add.at(eigenvalues, closure.lookup(members[:, list(columns)]), share)
    return float((closure.products(sizes - 1) @ np.sqrt(eigenvalues)) ** 2)


def _gram(factors: _Factors, axes: tuple[int, ...], index: AxisIndices, weights: Floats) -> Floats:
    total: Floats | float = 0.0
    for row, weight in zip(index, weights, strict=True):
        block_factors = [factors.of(i, int(b)) for i, b in zip(axes, row, strict=True)]
        total = total + weight * kron_product([f @ f.T for f in block_factors])
    return np.asarray(total)


def _outer(factors: _Factors, axes: tuple[int, ...], index: AxisIndices, weights: Floats) -> Floats:
    """W W^T, of blocks sqrt(w_j w_k) kron_i F_i^(j)T F_i^(k)."""
    roots = np.sqrt(weights)

    def block(j: int, k: int) -> Floats:
        pairs = zip(axes, index[j], index[k], strict=True)
        return np.asarray(
            kron_product([factors.of(i, int(a)).T @ factors.of(i, int(b)) for i, a, b in pairs]) * (roots[j] * roots[k])
        )

    return np.block([[block(j, k) for k in range(len(index))] for j in range(len(index))])


def _grouped_bound(grams: TermGrams, axes: tuple[int, ...], index: AxisIndices, weights: Floats) -> float:
    """The sum over groups of terms that ask the same of every attribute beyond levels and totals."""
    signatures = np.where(_hard(grams, axes, index), index, 0)
    total = 0.0
    for signature in np.unique(signatures, axis=0):
        members = (signatures == signature).all(axis=1)
        fixed = [(i, int(b)) for i, b in zip(axes, signature, strict=True) if b]
        free = np.array([b == 0 for b in signature])
        factor = math.prod(_block_bound(grams, i, b) for i, b in fixed)
        left = tuple(i for i, b in zip(axes, signature, strict=True) if not b)
        plain = (
            _marginals(grams, left, index[members][:, free], weights[members])
            if left
            else float(weights[members].sum())
        )
        total += factor * plain
    return total
