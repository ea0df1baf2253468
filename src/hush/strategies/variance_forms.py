r"""Privacy cost and variances of a plan as linear forms in the noise of its residual sets.

With sigma^2_A the noise of residual set A, p_A = prod_{i in A} p_i and c the budget,

    privacy:   sum_A p_A / sigma^2_A <= c,      where c = 2 rho;
    variance:  Var(w) = sum_{A' subset A} sigma^2_{A'} prod_{i in A'} a_i(w_i) prod_{i in A \ A'} b_i(w_i)

for a query w = (w_i) of a term on attributes A. On plain attributes p_i = a_i = (l_i - 1) / l_i and b_i = 1 / l_i^2. A
`VarianceProfile` holds the pairs (a, b) of one block on one basis.

A term that is no product has its own coefficient on each sigma^2. A term with a closed form gives it as
`Term.variances`, for cells whose covariance is a product kron_i C_i: residual set R is the product of G_i^+ for i in R
and of m_i m_i^T outside, and the variances of all sets add up. For other terms, the coefficients of each query are
projected onto the residual of every set.

The cost of set A is that of the record with the largest column norm, prod_i diag_i[r_i] / gamma^2_A. Every factor is
non-negative and the record may be any combination of levels, so the record made of each attribute's largest level
attains the maximum in all sets at once, and the maximum of the sum over sets is the sum of the maxima.

Reference: [ResidualPlanner, Thm 4.4 and 4.7].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hush.core.arrays import Floats, Integers, reordered
from hush.core.errors import SizeError, WorkloadError
from hush.linops import Identity, LinearOperator
from hush.linops.marginal_operators import subset_differences
from hush.privacy.sensitivity import Neighbours
from hush.strategies.closure import AxisIndices, Closure
from hush.strategies.residual_basis import ResidualBasis
from hush.strategies.term_table import TermGroup, TermTable
from hush.workloads import Term
from hush.workloads.term import AxisNoise

if TYPE_CHECKING:
    import scipy


@dataclass(frozen=True, slots=True)
class VarianceProfile:
    """The pairs (a[w], b[w]) of a query block: their means, and those among them that can have the largest variance.

    The variance of a product query is linear and increasing in each attribute's pair while the others are held, so
    its largest value is at a vertex of the upper right convex hull of the pairs, whatever the noise.
    """

    mean_residual: float
    mean_mean: float
    frontier: Floats  # (h, 2): columns a and b

    @classmethod
    def of(cls, basis: ResidualBasis, block: LinearOperator) -> VarianceProfile:
        if basis.is_plain and isinstance(block, Identity):
            n = basis.size  # every level alike, so that no array of levels is needed
            a, b = np.array([(n - 1) / n]), np.array([1 / n**2])
        else:
            a, b = basis.query_variances(block), basis.query_mean(block)
        share = block.shape[0] / block.queries  # one, except where queries are known by their Gram matrix alone
        return cls(float(a.mean()) * share, float(b.mean()) * share, upper_right_hull(np.column_stack([a, b])))


def upper_right_hull(points: Floats) -> Floats:  # points: (n, 2)
    """The points that are best for some non-negative weights of the two coordinates, by falling first coordinate.

    Points inside the hull by less than 1e-12 of its extent are left out too.

    >>> upper_right_hull(np.array([[0.0, 1.0], [1.0, 0.0], [0.4, 0.4], [0.9, 0.9]])).tolist()
    [[1.0, 0.0], [0.9, 0.9], [0.0, 1.0]]
    """
    extent = np.maximum(np.abs(points).max(axis=0), 1e-300)
    ordered = points[np.lexsort((-points[:, 1], -points[:, 0]))]
    highest = np.maximum.accumulate(ordered[:, 1] / extent[1])
    ordered = ordered[np.concatenate([[True], np.diff(highest) > 1e-12])]
    scaled = ordered / extent
    hull: list[int] = []
    for i in range(len(scaled)):
        while len(hull) >= 2:
            a, b, c = scaled[hull[-2]], scaled[hull[-1]], scaled[i]
            if (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) > 1e-12:
                break  # b lies outside the line from a to c, seen from the origin
            hull.pop()
        hull.append(i)
    return np.asarray(ordered[hull])


LARGEST_COEFFICIENTS = 100_000_000  # of all rows together


def privacy_coefficients(
    closure: Closure, bases: Sequence[ResidualBasis | None], neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> Floats:
    """p_A for every set: the largest squared distance between neighbours' exact answers, over L_A^2: (sets,).

    Where rows are replaced, two columns c_r, c_s differ by at most |c_r|^2 + |c_s|^2 - 2 <c_r, c_s>, and a negative
    inner product has at least one negative factor, so that p_A grows by at most 2 (1 + max_{i in A} opposition_i);
    this is attained on plain attributes, by two records that differ in the smallest one. The total stays at 1.
    """
    coefficients = closure.products(np.array([1.0 if basis is None else float(basis.max_diagonal) for basis in bases]))
    if neighbours is Neighbours.REPLACE:
        apart = np.array([0.0 if basis is None else float(basis.opposition) for basis in bases])
        coefficients[1:] *= 2 * (1 + closure.largest(apart)[1:])
    return coefficients


def mean_variances(
    table: TermTable, closure: Closure, bases: Sequence[ResidualBasis | None]
) -> scipy.sparse.csr_array:  # (terms, sets)
    """One row per term: the mean variance of its queries; on plain terms the variance of every cell."""
    pairs = [np.array([[profile.mean_residual, profile.mean_mean]]) for profile in _profiles(table, bases)]
    matrix, terms = _rows(table, closure, pairs)
    shares = {
        index: [_in_domain_order(mean_shares(term, _bases_of(term, table, bases)), term, table)]
        for index, term in table.others.items()
    }
    return _replace_rows(matrix, terms, shares)


def largest_variances(
    table: TermTable, closure: Closure, bases: Sequence[ResidualBasis | None]
) -> tuple[scipy.sparse.csr_array, Integers]:  # (rows, sets), (rows,)
    """Rows whose largest entry of `rows @ sigma_squared` is the largest variance of any query, and each row's term.

    A plain term has one row; any other product has one for every combination of hull points of its blocks. A threshold
    on plain attributes has one row; on other attributes its targets differ in variance, and it is refused. Any other
    term has one row for each query.
    """
    shares = {}
    for index, term in table.others.items():
        term_bases = _bases_of(term, table, bases)
        uneven = [name for name, basis in zip(term.clique, term_bases, strict=True) if not basis.is_plain]
        if uneven and term.symmetric:
            raise WorkloadError(
                f"the targets of {term.text!r} differ in variance: {uneven[0]!r} is asked for more than its levels; "
                "use loss='rmse', or plan the two separately"
            )
        rows = mean_shares(term, term_bases)[None] if term.symmetric else query_shares(term, term_bases)
        shares[index] = [_in_domain_order(row, term, table) for row in rows]
    matrix, terms = _rows(table, closure, [profile.frontier for profile in _profiles(table, bases)])
    if shares:
        # `_rows` treats a term that is no product as a marginal with some rows; give it one row per share instead.
        first = np.concatenate([[True], np.diff(terms) > 0])
        times = np.array([len(shares[t]) * f if t in shares else 1 for t, f in zip(terms.tolist(), first, strict=True)])
        at = np.repeat(np.arange(len(terms)), times)
        matrix, terms = matrix[at], terms[at]
        _replace_rows(matrix, terms, shares)
    return matrix, terms


def _replace_rows(
    matrix: scipy.sparse.csr_array, terms: Integers, shares: Mapping[int, Sequence[Floats]]
) -> scipy.sparse.csr_array:
    """Give the rows of some terms, one after the other, other weights on the subsets of their cliques."""
    left = {index: iter(rows) for index, rows in shares.items()}
    for row in np.flatnonzero(np.isin(terms, list(shares))).tolist():
        matrix.data[matrix.indptr[row] : matrix.indptr[row + 1]] = next(left[int(terms[row])])
    return matrix


def _in_domain_order(shares: Floats, term: Term, table: TermTable) -> Floats:
    """Shares of the subsets of a clique, (2^k,), with bit i for its i-th attribute in the order of the domain."""
    k = len(term.clique)
    by_axis = shares.reshape((2,) * k).T  # axis i is bit i
    return np.asarray(reordered(by_axis, term.clique, table.domain.clique(term.clique)).T.ravel())


def _bases_of(term: Term, table: TermTable, bases: Sequence[ResidualBasis | None]) -> list[ResidualBasis]:
    return [_planned_basis(table.domain.attributes.index(name), table, bases) for name in term.clique]


def _profiles(table: TermTable, bases: Sequence[ResidualBasis | None]) -> list[VarianceProfile]:
    return [VarianceProfile.of(_planned_basis(axis, table, bases), block) for axis, block in table.blocks]


def _planned_basis(axis: int, table: TermTable, bases: Sequence[ResidualBasis | None]) -> ResidualBasis:
    if (basis := bases[axis]) is None:
        raise WorkloadError(f"attribute {table.domain.attributes[axis]!r} was not planned for; plan with it")
    return basis


def _rows(table: TermTable, closure: Closure, pairs: list[Floats]) -> tuple[scipy.sparse.csr_array, Integers]:
    from scipy.sparse import csr_array

    heights = np.array([len(points) for points in pairs], dtype=np.int64)
    batches = [batch for group in table.groups for batch in _alike(group, heights)]
    entries = sum(len(group.terms) * math.prod(sizes) << len(sizes) for group, sizes in batches)
    if entries > LARGEST_COEFFICIENTS:
        raise SizeError(
            f"the variances of this workload take {entries} coefficients, above the limit of {LARGEST_COEFFICIENTS}; "
            "lower its order, use fewer attributes, or, for a largest variance, fewer kinds of queries per attribute"
        )
    tallest = int(heights.max(initial=1))
    padded = np.zeros((len(pairs), tallest, 2))
    for number, points in enumerate(pairs):
        padded[number, : len(points)] = points
    data, columns, lengths, terms = [], [], [], []
    for group, sizes in batches:
        values = _batch_values(padded, group.blocks, sizes)  # (n, r, 2^k)
        n, r, width = values.shape
        data.append(values.ravel())
        columns.append(np.repeat(_batch_columns(closure, group.axes), r, axis=0).ravel())
        lengths.append(np.full(n * r, width, dtype=np.int64))
        terms.append(np.repeat(group.terms, r))
    row_terms = np.concatenate(terms)
    starts = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    matrix = csr_array((np.concatenate(data), np.concatenate(columns), starts), shape=(len(row_terms), len(closure)))
    if np.any(np.diff(row_terms) < 0):
        order = np.argsort(row_terms, kind="stable")
        matrix, row_terms = matrix[order], row_terms[order]
    return matrix, row_terms


def _alike(group: TermGroup, heights: Integers) -> list[tuple[TermGroup, tuple[int, ...]]]:
    """Split a group into batches whose terms have the same number of points on each axis."""
    if not group.axes.shape[1]:
        return [(group, ())]
    points = heights[group.blocks]
    if points.max() == 1:
        return [(group, (1,) * points.shape[1])]
    kinds, inverse = np.unique(points, axis=0, return_inverse=True)
    batches = []
    for number, kind in enumerate(kinds.tolist()):
        at = np.flatnonzero(inverse.ravel() == number)
        batches.append((TermGroup(group.terms[at], group.axes[at], group.blocks[at]), tuple(kind)))
    return batches


def _batch_values(padded: Floats, blocks: AxisIndices, sizes: tuple[int, ...]) -> Floats:
    """prod_{i in A'} a_i prod_{i not in A'} b_i for each term, combination of points and subset: (n, r, 2^k)."""
    n, k = blocks.shape
    values = np.ones((n, 1, 1))
    for axis in range(k):
        points = padded[blocks[:, axis], : sizes[axis]]  # (n, h, 2): a, b
        factor = points[:, None, :, ::-1, None]  # bit clear takes b, bit set takes a; the new bit is the highest
        values = (values[:, :, None, None, :] * factor).reshape(n, values.shape[1] * sizes[axis], -1)
    return values


def _batch_columns(closure: Closure, axes: AxisIndices) -> AxisIndices:
    """The position of every subset of every row: (n, 2^k)."""
    n, k = axes.shape
    positions = np.empty((n, 2**k), dtype=np.int32)
    for mask in range(2**k):
        positions[:, mask] = closure.lookup(axes[:, [bit for bit in range(k) if mask >> bit & 1]])
    if positions.size and positions.min() < 0:
        row = axes[int(np.argmin(positions.min(axis=1)))]
        names = tuple(closure.domain.attributes[axis] for axis in row)
        raise WorkloadError(f"{names!r} is not within the plan, so nothing about it is measured; plan with it")
    return positions


LARGEST_CELLS = 1 << 24  # of the clique of a term without a closed form


def residual_axes(basis: ResidualBasis) -> tuple[AxisNoise, AxisNoise]:
    """The noise along a column outside and inside a residual set; of one level where all are alike."""
    n = basis.size
    if basis.is_plain:
        return (1.0, np.array([1 / n]), np.array([1 / n**2])), (0.0, np.zeros(1), np.array([(n - 1) / n]))
    tilt = np.asarray(basis.spread(np.ones((1, 1)), 0)[:, 0])
    return (1.0, tilt, tilt**2), (0.0, np.zeros(n), basis.query_variances(Identity(n)))


def mean_shares(term: Term, bases: Sequence[ResidualBasis]) -> Floats:
    """The share of the noise of each subset's residual in the mean variance of a term's queries: (2^k,).

    Bit i of a subset's number is attribute i of the clique.
    """
    means = []
    for basis in bases:
        outside, inside = residual_axes(basis)
        mean = float(outside[1].mean())
        means.append((mean, mean**2 if basis.is_plain else float(outside[2].mean()), float(inside[2].mean())))
    shares = term.residual_shares(tuple(means))
    return query_shares(term, bases).mean(axis=0) if shares is None else shares


def query_shares(term: Term, bases: Sequence[ResidualBasis]) -> Floats:
    """The share of the noise of each subset's residual in the variance of every query: (queries, 2^k)."""
    sizes = tuple(basis.size for basis in bases)
    if math.prod(sizes) > LARGEST_CELLS:
        raise SizeError(
            f"{term.text!r} is over {math.prod(sizes):,} cells: at most {LARGEST_CELLS:,} can be planned for; "
            "leave it out"
        )
    shares_of = _plain_shares if all(basis.is_plain for basis in bases) else _tilted_shares
    return np.stack([shares_of(term.coefficients(query, sizes), bases) for query in range(term.queries)])


def _plain_shares(coefficients: Floats, bases: Sequence[ResidualBasis]) -> Floats:
    """|w_R|^2 of the coefficients w of one query, projected onto the residual of every subset R.

    On plain bases |w_R|^2 = E_R / prod_{i not in R} n_i, where E_R is the part of |w|^2 that depends on exactly R, and
    sum_{R within B} E_R is the sum of squares of w totalled down to B, over the cells that each total has.
    """
    k = len(bases)
    squares, outside = np.empty(1 << k), np.empty(1 << k)
    for number in range(1 << k):
        summed = tuple(axis for axis in range(k) if not number >> axis & 1)
        outside[number] = math.prod(bases[axis].size for axis in summed)
        squares[number] = np.sum(coefficients.sum(axis=summed) ** 2) / outside[number]
    shares = np.maximum(subset_differences(squares, k), 0.0) / outside
    return np.where(shares > 1e-12 * shares.max(), shares, 0.0)


def _tilted_shares(coefficients: Floats, bases: Sequence[ResidualBasis]) -> Floats:
    """|w_R|^2 on any bases: along each axis the mean part, then the squares of the residual part, added up."""
    tensor = coefficients
    for axis, basis in enumerate(bases):
        tensor = np.concatenate([basis.mean(tensor, axis), basis.adjoint(tensor, axis)], axis=axis)
    squares = tensor**2
    for axis in range(len(bases)):
        mean_part = squares.take([0], axis)
        squares = np.concatenate([mean_part, squares.sum(axis=axis, keepdims=True) - mean_part], axis=axis)
    return np.asarray(squares.T.ravel())  # bit i is attribute i, so the first axis varies fastest


def residual_variances(
    subset_variances: Floats, bases: Sequence[ResidualBasis], term: Term, order: Sequence[str]
) -> Floats:
    """The variance of every query of a term from the noise of every residual set.

    `subset_variances` has the shape (2,) * k over the attributes `order`, `bases` the order of the clique.
    """
    noise = reordered(subset_variances, tuple(order), term.clique)
    pairs = [residual_axes(basis) for basis in bases]
    total: Floats = np.zeros((1,) * len(bases))
    for present in np.ndindex(noise.shape):
        part = term.variances([pair[inside] for pair, inside in zip(pairs, present, strict=True)])
        if part is None:
            return np.asarray(query_shares(term, bases) @ noise.T.ravel())
        total = total + float(noise[present]) * part
    return np.broadcast_to(np.maximum(total, 0.0), [basis.size for basis in bases])
