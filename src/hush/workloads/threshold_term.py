"""Thresholds: for each target, how many rows agree with it in at least r of k columns; all targets, or one.

With n_i the size of column i, the matrix over targets and cells is, for subsets A of the k columns,

    T_r = sum_{|A| >= r}  kron_{i in A} I  kron_{i not in A} (1 1^T - I),

the coefficients z^r, z^(r+1), .. of kron_i (z I + 1 1^T - I), added up. It is symmetric, and the same for all levels of
a column. So on what depends on exactly the columns of R it multiplies by one number,

    lambda_R = the coefficients z^r, z^(r+1), .. of  (z - 1)^|R| prod_{i not in R} (z + n_i - 1),  added up,

and T_r^T T_r by its square. r = k is the marginal, which is a `ProductTerm`; r = 1 is the disjunction.

Reference: [Avent 2023, sec. 4.4, Defs 4.4.1 and 4.4.2]. Differs from it: one pass per column over the table of counts
in place of a sum over subsets, so that no number cancels.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hush.core.arrays import Floats, Integers, Numbers
from hush.core.domain import Clique, Domain
from hush.core.errors import SizeError, WorkloadError, shown
from hush.core.memory import require_memory
from hush.core.validation import is_whole
from hush.linops import CompoundSymmetric, Identity, LinearOperator
from hush.privacy.sensitivity import RowNorms
from hush.workloads.term import AxisMeans, AxisNoise, ProductTerm, Term, check_weight

if TYPE_CHECKING:
    from hush.privacy.gate import Counts

MOST_ANSWERS = 2**63 - 1
MOST_COLUMNS = 12  # of a threshold that is written as products


@dataclass(frozen=True, slots=True)
class ThresholdTerm(Term):
    """For every combination of levels of a clique, the rows that agree with it in at least `at_least` attributes.

    >>> term = ThresholdTerm(("age", "sex"), (3, 2), 1)
    >>> term.exact_answers(np.array([[1, 2], [3, 4], [5, 6]])).tolist()
    [[11.0, 13.0], [13.0, 15.0], [15.0, 17.0]]
    >>> term.sensitivity(1), term.text
    (4.0, '1 of age, sex')
    """

    clique: Clique
    sizes: tuple[int, ...]
    at_least: int
    weight: float = 1.0
    kind: ClassVar[str] = "threshold"
    per_cell: ClassVar[bool] = True
    symmetric = True
    factorises = True

    @property
    def queries(self) -> int:
        return math.prod(self.sizes)

    @property
    def agreeing(self) -> int:
        """How many targets one row agrees with in at least so many attributes."""
        tally = [1]  # tally[j]: the targets that agree in exactly j of the attributes so far
        for size in self.sizes:
            tally = [before + (size - 1) * at for before, at in zip([0, *tally], [*tally, 0], strict=True)]
        return sum(tally[self.at_least :])

    def exact_answers(self, counts: Floats) -> Floats:
        """The answers, with the axes of the counts. Exact on whole numbers below 2^53.

        The rows are split by how often they agree with a target, or by how often they do not, whichever takes fewer
        tables: O(k min(r, k - r + 1)) passes over the table, min(r, k - r + 1) + 1 times its memory.
        """
        counts = np.asarray(counts, dtype=np.float64)
        k, r = len(self.sizes), self.at_least
        copies = min(r, k - r + 1) + 1
        require_memory(8 * copies * counts.size, f"the answers of {self.text}", "use fewer attributes at once")
        often_enough = r > k - r  # else add up the rows that agree too rarely
        tables = _split(counts, k - r + 1, agreeing=False) if often_enough else _split(counts, r, agreeing=True)
        added = tables[0]
        for table in tables[1:]:
            added += table
        return added if often_enough else np.asarray(counts.sum() - added)

    def sensitivity(self, p: int) -> float:
        """A row adds one to each target that it agrees with often enough: their number, or its root for p = 2."""
        if p not in (1, 2):
            raise WorkloadError(f"p={p!r}: expected 1 or 2")
        return float(self.agreeing) if p == 1 else math.sqrt(self.agreeing)

    @property
    def text(self) -> str:
        return f"{self.at_least} of {', '.join(self.clique)}"

    @property
    def columns_to_agree(self) -> int:
        return self.at_least

    @property
    def note(self) -> str:
        columns = len(self.clique)
        return f"each count is of the rows that agree with the line in at least {self.at_least} of {columns} columns."

    @property
    def eigenvalues(self) -> Floats:
        """lambda_R for every subset R of the attributes, (2^k,): bit i of a subset's number is attribute i."""
        polynomials = np.ones((1, 1))
        for size in self.sizes:
            raised = np.pad(polynomials, ((0, 0), (1, 0)))
            kept = np.pad(polynomials, ((0, 0), (0, 1)))
            polynomials = np.concatenate([raised + (size - 1) * kept, raised - kept])
        return np.asarray(polynomials[:, self.at_least :].sum(axis=1))

    def coefficients(self, query: int, sizes: tuple[int, ...]) -> Floats:
        """1 for the cells that agree with a target often enough, 0 for the others."""
        agreeing = np.zeros(sizes, dtype=np.int16)
        for axis, level in enumerate(np.unravel_index(query, sizes)):
            agreeing[(slice(None),) * axis + (level,)] += 1
        return (agreeing >= self.at_least).astype(np.float64)

    def extremes(self, sizes: tuple[int, ...]) -> tuple[Floats, Floats]:
        return np.zeros(()), np.ones(())

    @property
    def signed_counts(self) -> tuple[float, ...]:
        return signed_counts(len(self.clique), self.at_least)

    def variances(self, axes: Sequence[AxisNoise]) -> Floats:
        """Var(y) of every target y under a product of covariances kron_i C_i.

        With s = z - 1, the query of y is the sum of the coefficients z^r, z^(r+1), .. of prod_i (1 + s e_{y_i}). Its
        variance is that of two such polynomials, in s and in t,

            Var(y) = sum_{a, b} tau_a tau_b [s^a t^b] prod_i ( l_i + (s + t) g_i(y_i) + s t h_i(y_i) ),

        with l = 1^T C 1, g = C 1 and h = diag C of each column. tau_a adds up the coefficients of (z - 1)^a.
        """
        k = len(axes)
        shape = tuple(len(h) for _, _, h in axes)
        require_memory(
            8 * (k + 1) ** 2 * math.prod(shape), "the errors of a threshold", "ask for a threshold over fewer columns"
        )
        powers = np.zeros((k + 1, k + 1, *(1,) * k))  # [s^a t^b]
        powers[0, 0] = 1.0
        for index, (level, mixed, square) in enumerate(axes):
            along = [1] * k
            along[index] = -1
            g, h = (np.reshape(values, along) for values in (mixed, square))
            grown = level * powers + np.zeros_like(h)
            grown[1:] += g * powers[:-1]
            grown[:, 1:] += g * powers[:, :-1]
            grown[1:, 1:] += h * powers[:-1, :-1]
            powers = grown
        tau = np.array(self.signed_counts)
        return np.asarray(np.tensordot(np.outer(tau, tau), powers, axes=2))

    def residual_shares(self, means: tuple[AxisMeans, ...]) -> Floats:
        return _residual_shares(means, self.at_least)

    def gram_products(self) -> list[ProductTerm]:
        """One for each subset R of the columns, of weight lambda_R^2 / prod_{not R} n_i."""
        if len(self.sizes) > MOST_COLUMNS:
            raise SizeError(
                f"{self.text} has 2^{len(self.sizes)} subsets of attributes, more than 2^{MOST_COLUMNS}; use fewer "
                "attributes, or mechanism='residual'"
            )
        products = []
        for number, eigenvalue in enumerate(self.eigenvalues.tolist()):
            inside = [index for index in range(len(self.sizes)) if number >> index & 1]
            outside = math.prod(size for index, size in enumerate(self.sizes) if not number >> index & 1)
            if eigenvalue:
                blocks = tuple(CompoundSymmetric(self.sizes[i], 1.0, -1 / self.sizes[i]) for i in inside)
                clique = tuple(self.clique[i] for i in inside)
                products.append(ProductTerm(clique, blocks, self.weight * eigenvalue**2 / outside))
        return products

    def without_constant_columns(self, domain: Domain) -> Term:
        """The threshold over the other columns: every row agrees with the target in a column of a single level."""
        constant = self.sizes.count(1)
        if not 0 < constant < self.at_least:
            return self
        return threshold_term(domain, domain.varying(self.clique), self.at_least - constant, self.weight)

    def check(self, domain: Domain) -> None:
        """Refuse an impossible weight or number of attributes, and what does not fit the domain."""
        check_weight(self)
        if domain.sizes(self.clique) != self.sizes:
            raise WorkloadError(
                f"the attributes {self.clique!r} have {domain.sizes(self.clique)} levels, not {self.sizes}; build the "
                "threshold over this domain"
            )
        _check_at_least(self.at_least, len(self.clique))
        if self.at_least == len(self.clique):
            raise WorkloadError(f"{self.text} asks for all of its attributes; that is their marginal, so ask for that")
        if 1 in self.sizes:
            name = self.clique[self.sizes.index(1)]
            less = ", and ask for one less" if self.at_least > 1 else ""
            raise WorkloadError(
                f"{self.text}: attribute {name!r} has a single level, which every row has; leave it out{less}"
            )
        if self.queries > MOST_ANSWERS:
            raise SizeError(f"{self.text} has {shown(self.queries)} answers, more than 2^63; use fewer attributes")


def threshold_term(domain: Domain, clique: Iterable[str], at_least: int, weight: float = 1.0) -> Term:
    """The threshold over a clique; its marginal where all of the attributes are to agree.

    >>> domain = Domain({"age": 85, "sex": 2, "race": 5})
    >>> threshold_term(domain, ("sex", "age"), 1).text, threshold_term(domain, ("sex", "age"), 2).text
    ('1 of age, sex', 'age x sex')
    """
    names = domain.clique(clique)
    _check_at_least(at_least, len(names))
    sizes = domain.sizes(names)
    if at_least == len(names):
        return ProductTerm(names, tuple(map(Identity, sizes)), weight)
    return ThresholdTerm(names, sizes, at_least, weight)


def _check_at_least(at_least: int, attributes: int) -> None:
    if not (is_whole(at_least) and 1 <= at_least <= attributes):
        raise WorkloadError(
            f"a threshold of at least {shown(at_least)} of {attributes} attributes: expected a whole number from 1 to "
            f"{attributes}"
        )


@functools.cache
def signed_counts(columns: int, at_least: int) -> tuple[float, ...]:
    """tau_0 .. tau_k: how often each subset of so many agreeing columns counts, by inclusion and exclusion.

    tau_a = (-1)^(a - r) binom(a - 1, a - r) for a >= r.

    Reference: [Avent 2023, sec. 4.4.2].

    >>> signed_counts(4, 2)
    (0.0, 0.0, 1.0, -2.0, 3.0)
    """
    return tuple(
        0.0 if a < at_least else float((-1) ** (a - at_least) * math.comb(a - 1, a - at_least))
        for a in range(columns + 1)
    )


@functools.lru_cache(maxsize=4096)
def _residual_shares(means: tuple[AxisMeans, ...], at_least: int) -> Floats:
    """The mean of `ThresholdTerm.variances` over all targets, for unit noise on each residual set alone: (2^k,).

    Where all levels are alike, m^2 has the mean m^2, and the share of set R is lambda_R^2 prod_{i in R} a_i with
    lambda_R from (z - 1)^|R| prod_{i not in R} (1 + (z - 1) m_i). Other means go into `variances` in place of levels.
    """
    if all(square == mean**2 for mean, square, _ in means):
        polynomials, residuals = np.ones((1, 1)), np.ones(1)
        for mean, _, residual in means:
            raised, kept = np.pad(polynomials, ((0, 0), (1, 0))), np.pad(polynomials, ((0, 0), (0, 1)))
            polynomials = np.concatenate([mean * raised + (1 - mean) * kept, raised - kept])
            residuals = np.concatenate([residuals, residual * residuals])
        shares = polynomials[:, at_least:].sum(axis=1) ** 2 * residuals
    else:
        columns = tuple(map(str, range(len(means))))
        term = ThresholdTerm(columns, (1,) * len(means), at_least)
        shares = np.empty(1 << len(means))
        for number in range(len(shares)):
            axes: list[AxisNoise] = [
                (0.0, np.zeros(1), np.array([residual]))
                if number >> i & 1
                else (1.0, np.array([mean]), np.array([square]))
                for i, (mean, square, residual) in enumerate(means)
            ]
            shares[number] = term.variances(axes).item()
    shares = np.where(shares > 1e-12 * shares.max(), shares, 0.0)  # zero up to rounding is zero
    shares.setflags(write=False)
    return shares


def _split(counts: Floats, tables: int, *, agreeing: bool) -> list[Floats]:
    """Tables 0, 1, .. : the rows that agree with each target in exactly so many columns, or differ in so many."""
    split = [counts.copy()]
    for axis in range(counts.ndim):
        if len(split) < tables:
            split.append(np.zeros_like(counts))
        for number in reversed(range(len(split))):  # from the last, so that the one before is still without this column
            table = split[number]
            if agreeing:
                np.subtract(table.sum(axis=axis, keepdims=True), table, out=table)
                if number:
                    table += split[number - 1]
            elif number:
                table += split[number - 1].sum(axis=axis, keepdims=True)
                table -= split[number - 1]
    return split


@dataclass(frozen=True, slots=True)
class TargetRow(LinearOperator):
    """One line of a threshold's matrix: a one for each cell that agrees with `target` in `at_least` axes, or more.

    >>> TargetRow((2, 3), (0, 2), 1).dense().astype(int).tolist()
    [[1, 1, 1, 0, 0, 1]]
    """

    sizes: tuple[int, ...]
    target: tuple[int, ...]
    at_least: int

    def __post_init__(self) -> None:
        inside = len(self.target) == len(self.sizes) and all(
            0 <= code < size for code, size in zip(self.target, self.sizes, strict=True)
        )
        if not inside or not 1 <= self.at_least <= len(self.sizes):
            raise WorkloadError(
                f"target {self.target!r}, at least {self.at_least!r}, of {self.sizes!r} levels: expected a level of "
                f"each attribute, and 1 to {len(self.sizes)} of them"
            )

    @property
    def shape(self) -> tuple[int, int]:
        return 1, math.prod(self.sizes)

    def matmat(self, x: Floats) -> Floats:
        tables = x.reshape(*self.sizes, x.shape[1])
        return np.asarray(agreeing(tables, self.target, self.at_least))[None, :]

    def adjoint(self, y: Floats) -> Floats:
        agree = np.zeros(self.sizes, dtype=np.int64)
        for axis, code in enumerate(self.target):
            agree[(slice(None),) * axis + (code,)] += 1
        return np.asarray((agree.reshape(-1, 1) >= self.at_least) * y)


def agreeing(table: Numbers, target: tuple[int, ...], at_least: int) -> Numbers:
    """The sum of the cells that agree with a target in at least so many of the leading axes; exact on integers.

    About two passes over the table: what agrees in an axis is one slice of it, and every pass leaves the axis out.
    """
    tallies = [table]  # tallies[j]: the cells that agree in j axes so far, or in `at_least` and more
    for code in target:
        split = [np.zeros_like(tallies[0][0]) for _ in range(min(len(tallies), at_least) + 1)]
        for j, part in enumerate(tallies):
            agree = part[code]
            split[min(j + 1, at_least)] += agree
            split[j] += part.sum(axis=0) - agree
        tallies = split
    return tallies[at_least]


@dataclass(frozen=True, slots=True)
class TargetQuery:
    """The number of rows that agree with a target in at least `at_least` attributes of a clique.

    Privacy: a row adds one or nothing, and exchanging it for another moves the number by at most one.
    """

    clique: Clique
    sizes: tuple[int, ...]
    target: tuple[int, ...]
    at_least: int
    scale: ClassVar[int] = 1

    def __post_init__(self) -> None:
        TargetRow(self.sizes, self.target, self.at_least)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    @property
    def row_norms(self) -> RowNorms:
        return RowNorms.of_number(1, 1)

    @property
    def operator(self) -> TargetRow:
        return TargetRow(self.sizes, self.target, self.at_least)

    def answer(self, counts: Counts) -> Integers:
        return np.asarray(agreeing(counts[self.clique], self.target, self.at_least), dtype=np.int64).reshape(1)
