"""Terms of a workload: what to ask of the counts over one clique, and with which weight.

A kind of query is a subclass of `Term`, such as products of query blocks, of which marginals are the plain case.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Self, TypeVar

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.core.errors import WorkloadError
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

EXTREME = 1e100  # errors of larger weights or entries could not be computed as floats
BLOCK_WORDS = {Identity: "", Prefix: ":prefix", AllRange: ":range", LevelsAndTotal: ":levels"}


AnyTerm = TypeVar("AnyTerm", bound="Term")


class Term(ABC):
    """Linear queries on the counts of a clique: their exact answers, their sensitivity, their number and their text.

    Subclasses are frozen dataclasses with the fields `clique` and `weight`. The weight multiplies the variance of each
    answer wherever errors are added or compared.
    """

    __slots__ = ()
    kind: ClassVar[str]  # the noun for messages
    clique: Clique
    weight: float

    @property
    @abstractmethod
    def queries(self) -> int:
        """How many numbers it asks for."""

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
        """Whether its queries are known one by one, and not through their Gram matrix alone."""
        return True

    @property
    def plain(self) -> bool:
        """Whether it is a marginal: every cell of the clique."""
        return False

    @property
    def question(self) -> Hashable:
        """What it asks for, without its weight: equal for terms that ask for the same."""
        return self.reweighted(1.0)

    def reweighted(self, weight: float) -> Self:
        """The same queries with another weight."""
        return replace(self, weight=weight)  # type: ignore[type-var]

    def without_constant_columns(self, domain: Domain) -> Term:
        """The term that asks for the same numbers without columns of a single level, where there is one."""
        return self

    def check(self, domain: Domain) -> None:
        """Refuse an impossible weight; subclasses refuse what does not fit the domain."""
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise WorkloadError(
                f"the {self.kind} {self.clique!r} has weight {self.weight!r}: expected a finite number > 0"
            )
        if not 1 / EXTREME < self.weight < EXTREME:
            raise WorkloadError(
                f"the {self.kind} {self.clique!r} has weight {self.weight!r}: beyond {EXTREME:g}; scale all of them"
            )


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
        names = (name + _word(block) for name, block in zip(self.clique, self.blocks, strict=True))
        return " x ".join(names) or "(total)"

    @property
    def listed(self) -> bool:
        return not any(isinstance(block, Equivalent) for block in self.blocks)

    @property
    def plain(self) -> bool:
        return all(isinstance(block, Identity) for block in self.blocks)

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
        Term.check(self, domain)
        for name, block in zip(self.clique, self.blocks, strict=True):
            size = domain[name]
            if block.shape[1] != size:
                raise WorkloadError(f"attribute {name!r} has {size} levels, its query block {block.shape[1]} columns")
            if isinstance(block, Dense):
                _check_entries(name, block)
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


def _word(block: LinearOperator) -> str:
    if isinstance(block, WidthRange):
        return f":width{block.width}"
    return next((word for kind, word in BLOCK_WORDS.items() if isinstance(block, kind)), ":queries")


def _check_entries(name: str, block: Dense) -> None:
    """Refuse a matrix that asks for nothing, or for numbers beyond floats."""
    entries = np.abs(block.dense())
    if not entries.any():
        raise WorkloadError(f"the query matrix on {name!r} is all zeros, so it asks for nothing; leave it out")
    if entries.max() > EXTREME or entries[entries > 0].min() < 1 / EXTREME:
        raise WorkloadError(f"the query matrix on {name!r} has entries beyond {EXTREME:g}; bring them to one scale")
