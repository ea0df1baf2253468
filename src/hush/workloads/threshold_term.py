"""Thresholds: for each target, how many rows agree with it in at least r of k columns.

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

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.core.errors import SizeError, WorkloadError, shown
from hush.core.memory import require_memory
from hush.linops import CompoundSymmetric, Identity
from hush.workloads.term import ProductTerm, Term

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
        if r <= k - r:
            return np.asarray(counts.sum() - _added(_split(counts, r, agreeing=True)))
        return _added(_split(counts, k - r + 1, agreeing=False))

    def sensitivity(self, p: int) -> float:
        """A row adds one to each target that it agrees with often enough: their number, or its root for p = 2."""
        if p not in (1, 2):
            raise WorkloadError(f"p={p!r}: expected 1 or 2")
        return float(self.agreeing) if p == 1 else math.sqrt(self.agreeing)

    @property
    def text(self) -> str:
        return f"{self.at_least} of {', '.join(self.clique)}"

    @property
    def eigenvalues(self) -> Floats:
        """lambda_R for every subset R of the attributes, (2^k,): bit i of a subset's number is attribute i."""
        polynomials = np.ones((1, 1))
        for size in self.sizes:
            raised = np.pad(polynomials, ((0, 0), (1, 0)))
            kept = np.pad(polynomials, ((0, 0), (0, 1)))
            polynomials = np.concatenate([raised + (size - 1) * kept, raised - kept])
        return np.asarray(polynomials[:, self.at_least :].sum(axis=1))

    def over(self, domain: Domain) -> ThresholdTerm:
        """The same with its attributes in the order of a domain."""
        clique = domain.clique(self.clique)
        return self if clique == self.clique else replace(self, clique=clique, sizes=domain.sizes(clique))

    def gram_products(self) -> list[ProductTerm]:
        """Products of blocks with the same Gram matrix: one for each subset R, of weight lambda_R^2 / prod_{not R} n_i.

        Workloads with the same Gram matrix have the same summed error under every strategy.
        """
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
        Term.check(self, domain)
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
    if isinstance(at_least, bool) or not isinstance(at_least, int) or not 1 <= at_least <= attributes:
        raise WorkloadError(
            f"a threshold of at least {shown(at_least)} of {attributes} attributes: expected an integer from 1 to "
            f"{attributes}"
        )


def _added(tables: list[Floats]) -> Floats:
    """Their sum, in the first of them."""
    for table in tables[1:]:
        tables[0] += table
    return tables[0]


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
