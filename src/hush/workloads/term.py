"""Terms of a workload: what to ask of the counts over one clique, and with which weight.

A kind of query is a subclass of `Term`, such as products of query blocks, of which marginals are the plain case.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.core.errors import SizeError, WorkloadError, shown
from hush.linops import (
    AllRange,
    Dense,
    Equivalent,
    Identity,
    Kronecker,
    LevelsAndTotal,
    LinearOperator,
    Prefix,
    WidthRange,
)

LARGEST_WEIGHT = 1e100  # errors of larger weights or entries could not be computed as floats
BLOCK_WORDS = {Identity: "", Prefix: ":prefix", AllRange: ":range", LevelsAndTotal: ":levels"}
MOST_COEFFICIENTS = 1 << 22  # of all queries of a term together, where they are read off its answers: 32 MB
TERM_KINDS: dict[str, type[Term]] = {}  # every kind of term that is defined so far

AnyTerm = TypeVar("AnyTerm", bound="Term")
AxisNoise: TypeAlias = tuple[float, Floats, Floats]
"""Of one column's covariance C: 1^T C 1, then C 1 and diag C by level, or of length 1 where all levels are alike."""
AxisMeans: TypeAlias = tuple[float, float, float]
"""Of one column's residual basis: the means over levels of m, of m^2 and of the residual's variance."""


class Term(ABC):
    """Linear queries on the counts of a clique, such as a table of counts or a set of conditions.

    A kind of query is a frozen dataclass derived from `Term`, with the fields `clique` and `weight`. The weight
    multiplies the variance of each answer wherever errors are added or compared. The other fields are numbers, texts
    and tuples of them, so that files can hold them; `stored` and `restored` may say otherwise.

    It must define `kind`, `queries`, `exact_answers`, `sensitivity` and `text`. Plans of "residual" and of every
    adaptive mechanism, releases, files and reports then work, from coefficients that are read off `exact_answers`.

    It may define more:

    - `product` if the queries are a product of query blocks; every mechanism then answers them. `factorises` and
      `gram_products` if only their Gram matrix is a sum of such products, which is enough for "hdmm";
    - `note`, `labels` and `per_cell` for what stands beside the answers;
    - `coefficients` and `extremes` if they are known without asking `exact_answers` cell by cell;
    - `symmetric`, `variances`, `residual_shares` and `signed_counts` if variances have a closed form;
    - `check` for values that do not fit a domain, and `without_constant_columns`.

    Defining the class makes its kind known. For files that are read before the class is imported, name it in the
    entry-point group `hush.terms` of its package, under its kind.
    """

    __slots__ = ()
    kind: ClassVar[str]  # the noun for messages; files name the class by it
    clique: Clique
    weight: float
    per_cell: ClassVar[bool] = False  # one query for each cell, in row-major order, named by the cell's levels

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        kind = cls.__dict__.get("kind")
        if kind is None:
            return
        known = TERM_KINDS.setdefault(kind, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise WorkloadError(
                f"kind={kind!r} is that of {known.__module__}.{known.__qualname__}; give {cls.__name__} another"
            )
        TERM_KINDS[kind] = cls  # a dataclass with slots is made twice

    @property
    @abstractmethod
    def queries(self) -> int:
        """How many numbers the term asks for."""

    @abstractmethod
    def exact_answers(self, counts: Floats) -> Floats:
        """The answers from the counts of the clique, which have one axis per attribute."""

    @abstractmethod
    def sensitivity(self, p: int) -> float:
        """The largest L_p norm of what one row adds to the answers, for p = 1 or 2."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The term for a person: its attributes, and what is asked of them."""

    @property
    def listed(self) -> bool:
        """Whether the queries are known one by one, and not through their Gram matrix alone."""
        return True

    @property
    def plain(self) -> bool:
        """Whether the term is a marginal: every cell of the clique."""
        return False

    @property
    def symmetric(self) -> bool:
        """Whether exchanging levels of a column, and nothing else, turns any query into any other."""
        return self.plain

    @property
    def product(self) -> ProductTerm | None:
        """The product of query blocks that asks for the same numbers, over the same clique; None if there is none."""
        return None

    @property
    def factorises(self) -> bool:
        """Whether `gram_products` exist."""
        return self.product is not None

    def gram_products(self) -> list[ProductTerm]:
        """Products of query blocks whose Gram matrices add up to the term's; WorkloadError if there are none.

        Workloads with the same Gram matrix have the same summed error under every strategy.
        """
        if self.product is None:
            raise not_answered(self)
        return [self.product]

    @property
    def columns_to_agree(self) -> int:
        """In how many columns a row must agree with a target to be counted: all of them, except for thresholds."""
        return len(self.clique)

    def coefficients(self, query: int, sizes: tuple[int, ...]) -> Floats:
        """The coefficients of one query over the cells of the clique, whose columns have these sizes."""
        return np.asarray(_coefficients(self, sizes)[query])

    def extremes(self, sizes: tuple[int, ...]) -> tuple[Floats, Floats]:
        """The smallest and the largest coefficient of every query, both (queries,) or a single number for all."""
        rows = _coefficients(self, sizes).reshape(self.queries, -1)
        return rows.min(axis=1), rows.max(axis=1)

    def variances(self, axes: Sequence[AxisNoise]) -> Floats | None:
        """The variance of every query where the covariance of the cells is a product over columns.

        Shaped like the clique's cells, with length 1 along columns whose levels are alike. None without a closed form;
        variances then come from `coefficients`.
        """
        return None

    def residual_shares(self, means: tuple[AxisMeans, ...]) -> Floats | None:
        """The share of each residual set's noise in the mean variance of the queries: (2^k,), bit i is column i.

        None without a closed form, as for `variances`.
        """
        return None

    @property
    def signed_counts(self) -> tuple[float, ...] | None:
        """tau_0 .. tau_k, if the queries are sum_B tau_|B| (marginal over B) over all subsets B of the columns."""
        return None

    def labels(self, levels: Sequence[Sequence[str]]) -> Sequence[str]:
        """A name for each query, given the labels of the levels of every column."""
        return [f"query {number}" for number in range(1, self.queries + 1)]

    @property
    def note(self) -> str:
        """The sentence that stands below the answers; empty if they need none."""
        return f"{self.text}."

    @property
    def question(self) -> Hashable:
        """What the term asks for, without its weight: equal for terms that ask for the same."""
        return self.reweighted(1.0)

    def reweighted(self, weight: float) -> Self:
        """The same queries with another weight."""
        return replace(self, weight=weight)  # type: ignore[type-var]

    def without_constant_columns(self, domain: Domain) -> Term:
        """The term that asks for the same numbers without columns of a single level, where there is one."""
        return self

    def check(self, domain: Domain) -> None:
        """Refuse an impossible weight, columns of a single level, and fields that a file could not hold.

        Subclasses that refuse more, such as what does not fit the domain, call this too.
        """
        check_weight(self)
        for name, value in self.stored().items():
            _check_stored(name, value)
        if 1 in (sizes := domain.sizes(self.clique)):
            name = self.clique[sizes.index(1)]
            raise WorkloadError(f"{self.text}: attribute {name!r} has a single level, so it says nothing; leave it out")

    def stored(self) -> dict[str, Any]:
        """The fields besides clique and weight, as a file holds them: numbers, texts, and lists of them."""
        names = (field.name for field in fields(self) if field.name not in ("clique", "weight"))  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names}

    @classmethod
    def restored(cls, clique: Clique, weight: float, stored: Mapping[str, Any]) -> Self:
        """The term from what `stored` wrote; ValueError or TypeError where it does not fit. The workload checks it."""
        names = {field.name for field in fields(cls)} - {"clique", "weight"}  # type: ignore[arg-type]
        if set(stored) != names:
            raise ValueError(f"a {cls.kind} has other fields")
        return cls(clique=clique, weight=weight, **{name: _tupled(value) for name, value in stored.items()})  # type: ignore[call-arg]


def term_class(kind: str) -> type[Term]:
    """The class of a kind of term, of hush or of an installed package; WorkloadError if none offers it."""
    if kind not in TERM_KINDS:
        from importlib.metadata import entry_points

        for entry in entry_points(group="hush.terms", name=kind):
            try:
                entry.load()  # defines the class, which makes the kind known
            except Exception as error:  # whatever another package raises
                raise WorkloadError(f"terms of the kind {shown(kind)} cannot be used: {error}") from error
    if kind not in TERM_KINDS:
        raise WorkloadError(f"no installed package offers terms of the kind {shown(kind)}; install the one that does")
    return TERM_KINDS[kind]


def check_weight(term: Term) -> None:
    """Refuse a weight that is not positive, or too extreme to compute with."""
    if not 1 / LARGEST_WEIGHT < term.weight < LARGEST_WEIGHT:
        raise WorkloadError(
            f"the {term.kind} {term.clique!r} has weight {term.weight!r}: expected a finite number above 0, between "
            f"{1 / LARGEST_WEIGHT:g} and {LARGEST_WEIGHT:g}"
        )


@lru_cache(maxsize=4)
def _coefficients(term: Term, sizes: tuple[int, ...]) -> Floats:
    """The coefficients of all queries, (queries, *sizes): the answers to tables of a single row."""
    cells = math.prod(sizes)
    if term.queries * cells > MOST_COEFFICIENTS:
        raise SizeError(
            f"{term.text} has {term.queries:,} queries over {cells:,} cells: their errors need at most "
            f"{MOST_COEFFICIENTS:,} coefficients in all; ask for it over fewer columns"
        )
    answers = np.empty((cells, term.queries))
    for cell in range(cells):
        one_row = np.zeros(cells)
        one_row[cell] = 1.0
        answers[cell] = np.ravel(term.exact_answers(one_row.reshape(sizes)))
    coefficients = np.ascontiguousarray(answers.T).reshape(term.queries, *sizes)
    coefficients.setflags(write=False)
    return coefficients


def _check_stored(name: str, value: Any) -> None:
    if isinstance(value, list | tuple):
        for item in value:
            _check_stored(name, item)
    elif not (value is None or isinstance(value, str | bool | int | float)):
        raise WorkloadError(f"{name}={shown(value)}: expected numbers, texts or tuples of them, which files can hold")


def _tupled(value: Any) -> Any:
    return tuple(map(_tupled, value)) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class ProductTerm(Term):
    """One product of query blocks: `blocks[i]` on attribute `clique[i]`, everything else totalled out.

    >>> term = ProductTerm(("age", "sex"), (Prefix(3), Identity(2)))
    >>> term.exact_answers(np.array([[1, 2], [3, 4], [5, 6]])).tolist()
    [1.0, 2.0, 4.0, 6.0, 9.0, 12.0]
    >>> term.sensitivity(1), term.text
    (3.0, 'age:prefix x sex')
    """

    clique: Clique
    blocks: tuple[LinearOperator, ...]
    weight: float = 1.0
    kind: ClassVar[str] = "marginal"

    @property
    def queries(self) -> int:
        return math.prod(block.queries for block in self.blocks)

    def exact_answers(self, counts: Floats) -> Floats:
        """The product of the blocks applied to the counts; for a marginal the counts themselves."""
        return np.asarray(counts if self.plain else Kronecker(self.blocks) @ np.asarray(counts, dtype=float).ravel())

    def sensitivity(self, p: int) -> float:
        """The product over the blocks: a column of a Kronecker product is a product of columns."""
        if p == 1 and not self.listed:
            raise WorkloadError(
                f"the queries over {self.clique!r} are known through their Gram matrix alone; use p = 2"
            )
        return math.prod(block.sensitivity(p) for block in self.blocks)

    @property
    def text(self) -> str:
        """The attributes, with what is asked of each where that is not its levels, in the words of workload texts."""
        words = []
        for name, block in zip(self.clique, self.blocks, strict=True):
            if isinstance(block, WidthRange):
                words.append(f"{name}:width{block.width}")
            else:
                words.append(name + next((w for kind, w in BLOCK_WORDS.items() if isinstance(block, kind)), ":queries"))
        return " x ".join(words) or "(total)"

    @property
    def listed(self) -> bool:
        return not any(isinstance(block, Equivalent) for block in self.blocks)

    @property
    def plain(self) -> bool:
        return all(isinstance(block, Identity) for block in self.blocks)

    @property
    def product(self) -> ProductTerm:
        return self

    @property
    def note(self) -> str:
        return ""

    @property
    def question(self) -> tuple[Clique, tuple[LinearOperator, ...]]:
        return self.clique, self.blocks

    def without_constant_columns(self, domain: Domain) -> ProductTerm:
        """The product without blocks of ones on a single level: k such queries weigh k times what one does."""
        kept: dict[str, LinearOperator] = {}
        weight = self.weight
        for name, block in zip(self.clique, self.blocks, strict=True):
            if domain[name] == 1 == block.shape[1] and np.all(block.dense() == 1):
                weight *= block.queries
            else:
                kept[name] = block
        return ProductTerm(tuple(kept), tuple(kept.values()), weight)

    def check(self, domain: Domain) -> None:
        """Refuse an impossible weight, and blocks that do not fit their attributes."""
        check_weight(self)
        for name, block in zip(self.clique, self.blocks, strict=True):
            size = domain[name]
            if block.shape[1] != size:
                raise WorkloadError(f"attribute {name!r} has {size} levels, its query block {block.shape[1]} columns")
            if isinstance(block, Dense):
                entries = np.abs(block.dense())
                if not entries.any():
                    raise WorkloadError(f"the query matrix on {name!r} is all zeros: it asks for nothing; leave it out")
                if entries.max() > LARGEST_WEIGHT or entries[entries > 0].min() < 1 / LARGEST_WEIGHT:
                    raise WorkloadError(
                        f"the query matrix on {name!r} has entries beyond {LARGEST_WEIGHT:g}; bring them to one scale"
                    )
            if size == 1:
                raise WorkloadError(f"attribute {name!r} has a single level, so it says nothing; leave it out")


def not_answered(term: Term) -> WorkloadError:
    """The error for a kind of query that a mechanism or a release does not know."""
    return WorkloadError(
        f"the {term.kind} {term.text} is not a product of query blocks; leave it out, or use a mechanism that answers "
        "it"
    )


def merged(terms: Iterable[AnyTerm]) -> list[AnyTerm]:
    """The terms in order of first appearance, those that ask for the same with their weights added."""
    first: dict[Hashable, AnyTerm] = {}
    weights: dict[Hashable, float] = {}
    for term in terms:
        question = term.question
        first.setdefault(question, term)
        weights[question] = weights.get(question, 0.0) + term.weight
    return [
        term if term.weight == weights[question] else term.reweighted(weights[question])
        for question, term in first.items()
    ]
