"""Term: one product of query blocks with its weight."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hush.domain import Clique, Domain
from hush.errors import WorkloadError
from hush.linops import Equivalent, Identity, LinearOperator


@dataclass(frozen=True, slots=True)
class Term:
    """One product of query blocks: `blocks[i]` on attribute `clique[i]`, everything else totalled out.

    `weight` multiplies the variance of each of its answers wherever errors are added or compared.
    """

    clique: Clique
    blocks: tuple[LinearOperator, ...]
    weight: float = 1.0

    @property
    def queries(self) -> int:
        """How many numbers it asks for."""
        return math.prod(block.queries for block in self.blocks)

    @property
    def listed(self) -> bool:
        """Whether its queries are known one by one, and not through their Gram matrix alone."""
        return not any(isinstance(block, Equivalent) for block in self.blocks)

    @property
    def plain(self) -> bool:
        """Whether it is a marginal: every cell of the clique."""
        return all(isinstance(block, Identity) for block in self.blocks)


def merged(terms: Iterable[Term]) -> Iterator[Term]:
    """The terms in order of first appearance, those that ask for the same with their weights added."""
    weights: dict[tuple[Clique, tuple[LinearOperator, ...]], float] = {}
    for term in terms:
        key = (term.clique, term.blocks)
        weights[key] = weights.get(key, 0.0) + term.weight
    return (Term(clique, blocks, weight) for (clique, blocks), weight in weights.items())


def check_term(domain: Domain, term: Term) -> None:
    """Refuse a term with a weight that is none, or blocks that do not fit their attributes."""
    if not (math.isfinite(term.weight) and term.weight > 0):
        raise WorkloadError(f"the marginal {term.clique!r} has weight {term.weight!r}: expected a finite number > 0")
    for name, block in zip(term.clique, term.blocks, strict=True):
        size = domain[name]
        if block.shape[1] != size:
            raise WorkloadError(f"attribute {name!r} has {size} levels, its query block {block.shape[1]} columns")
        if size == 1:
            raise WorkloadError(f"attribute {name!r} has a single level, so it says nothing; leave it out")
