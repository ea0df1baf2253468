"""Term: one product of query blocks with its weight."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from hush.domain import Clique, Domain
from hush.errors import WorkloadError
from hush.linops import Dense, Equivalent, Identity, LinearOperator

EXTREME = 1e100  # errors of larger weights or entries could not be computed as floats


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
    if not 1 / EXTREME < term.weight < EXTREME:
        raise WorkloadError(
            f"the marginal {term.clique!r} has weight {term.weight!r}: beyond {EXTREME:g}; scale all of them"
        )
    for name, block in zip(term.clique, term.blocks, strict=True):
        size = domain[name]
        if block.shape[1] != size:
            raise WorkloadError(f"attribute {name!r} has {size} levels, its query block {block.shape[1]} columns")
        if isinstance(block, Dense):
            _check_entries(name, block)
        if size == 1:
            raise WorkloadError(f"attribute {name!r} has a single level, so it says nothing; leave it out")


def _check_entries(name: str, block: Dense) -> None:
    """Refuse a matrix that asks for nothing, or for numbers beyond floats."""
    entries = np.abs(block.dense())
    if not entries.any():
        raise WorkloadError(f"the query matrix on {name!r} is all zeros, so it asks for nothing; leave it out")
    if entries.max() > EXTREME or entries[entries > 0].min() < 1 / EXTREME:
        raise WorkloadError(f"the query matrix on {name!r} has entries beyond {EXTREME:g}; bring them to one scale")
