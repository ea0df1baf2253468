"""Shelf: strategies for one attribute, each known by the summed variance of every block that is asked of it.

A strategy A of sensitivity one enters the error of products only through e_b = tr (A^T A)^+ V_b, one number per block.
So products are searched by choosing from shelves, which costs a few multiplications, and a shelf grows where a better
strategy for some mixture of blocks, sum_b weights_b V_b, is worth designing.

Reference: [HDMM, sec. 3.3.2] for the mixture, there called the surrogate workload.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np

from hush.errors import SizeError
from hush.linops import Dense, Identity, LinearOperator, Total
from hush.strategies import p_identity
from hush.strategies.level_total import LevelTotal
from hush.strategies.merged_levels import MergedLevels
from hush.strategies.noise_kind import NoiseKind
from hush.strategies.optimum import Optimum, gram_factor, optimal_gram
from hush.strategies.term_grams import TermGrams

Floats = np.ndarray[Any, np.dtype[np.float64]]

TOTAL, LEVELS = 0, 1  # the first two places of every shelf: the total alone, and every level
LARGEST_SIZE = p_identity.LARGEST_SIZE
_LARGEST_DIRECT = 1 << 22  # entries of a block that may be measured as it is
_WORTHWHILE = 1e-6
_RATIOS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # weights of the total against another block


class Shelf(ABC):
    """The strategies of one attribute."""

    def __init__(self, grams: TermGrams, place: int, noise: NoiseKind) -> None:
        self.grams, self.place, self.noise = grams, place, noise
        self.size = grams.domain.shape[place]
        self.blocks = grams.blocks[place]
        self._operators: list[Any] = []
        self._tried: set[tuple[float, ...]] = set()  # mixtures already designed for, to about one per cent
        self._errors: list[Floats] = []
        self._table = np.zeros((0, len(self.blocks)))
        alone = np.full(len(self.blocks), np.inf)
        alone[0] = 1.0
        self._add(Total(self.size), alone)
        self._add(Identity(self.size), grams.traces(place))

    @property
    def errors(self) -> Floats:
        """e_b of every strategy, (strategies, blocks); infinite for blocks it does not support."""
        if len(self._table) != len(self._errors):
            self._table = np.array(self._errors)
        return self._table

    def operator(self, choice: int) -> LinearOperator:
        """A strategy as a matrix of sensitivity one."""
        item = self._operators[choice]
        return item if isinstance(item, LinearOperator) else self._built(item)

    def choose(self, weights: Floats) -> int:
        """The strategy on the shelf with the least sum_b weights_b e_b."""
        asked = weights > 0
        return int(np.argmin(self.errors[:, asked] @ weights[asked]))

    def improve(self, weights: Floats, *, restarts: int = 0) -> int:
        """The best strategy for these weights after designing one for them; a worse design is thrown away."""
        known = self.choose(weights)
        asked = weights > 0
        if not asked[1:].any():
            return known
        key = (restarts, *np.round(np.log(np.maximum(weights / weights.sum(), 1e-12)), 2).tolist())
        if key in self._tried:
            return known
        self._tried.add(key)
        best = float(self.errors[known][asked] @ weights[asked])
        for item, errors in self._designs(weights, self._operators[known], restarts):
            value = float(errors[asked] @ weights[asked])
            if value < best * (1 - _WORTHWHILE):
                known, best = self._add(item, errors), value
        return known

    def fill(self, restarts: int) -> None:
        """Put on the shelf what products are likely to want."""
        for block in range(1, len(self.blocks)):
            alone = np.zeros(len(self.blocks))
            alone[block] = 1.0
            self.improve(alone, restarts=restarts)
            for ratio in _RATIOS:
                alone[0] = ratio
                self.improve(alone)
        self.improve(np.ones(len(self.blocks)), restarts=restarts)

    def _add(self, item: Any, errors: Floats) -> int:
        self._operators.append(item)
        self._errors.append(np.asarray(errors, dtype=np.float64))
        return len(self._errors) - 1

    @abstractmethod
    def _designs(self, weights: Floats, start: Any, restarts: int) -> Iterable[tuple[Any, Floats]]:
        """New strategies for a mixture of blocks, with their errors."""

    @abstractmethod
    def _built(self, item: Any) -> LinearOperator:
        """What `_designs` gave, as a matrix."""


class LevelTotalShelf(Shelf):
    """For levels and totals alone: one number to choose, at any number of levels."""

    def __init__(self, grams: TermGrams, place: int, noise: NoiseKind, parts: Floats) -> None:
        super().__init__(grams, place, noise)
        self._alpha, self._beta = parts.T

    def fill(self, restarts: int) -> None:
        for total in np.geomspace(1e-3, 0.9, 24).tolist():
            level = 1 - total if self.noise is NoiseKind.LAPLACE else np.sqrt(1 - total**2)
            item = LevelTotal(self.size, float(level), total)
            self._add(item, self._errors_of(item))

    def _designs(self, weights: Floats, start: Any, restarts: int) -> Iterable[tuple[Any, Floats]]:
        best = LevelTotal.best(self.size, float(weights @ self._alpha), float(weights @ self._beta), self.noise)
        yield best, self._errors_of(best)

    def _errors_of(self, item: LevelTotal) -> Floats:
        return np.array([item.error(a, b) for a, b in zip(self._alpha.tolist(), self._beta.tolist(), strict=True)])

    def _built(self, item: LevelTotal) -> LinearOperator:
        return item.operator()


class DesignedShelf(Shelf):
    """For any blocks: the certified optimum under Gaussian noise, p-Identity under Laplace noise."""

    def __init__(self, grams: TermGrams, place: int, noise: NoiseKind, iterations: int, seed: int) -> None:
        super().__init__(grams, place, noise)
        self._iterations, self._seed = iterations, seed
        for block in self.blocks[1:]:
            if not isinstance(block, Identity) and block.shape[0] * block.shape[1] <= _LARGEST_DIRECT:
                direct = Dense(block.dense() / block.column_norms(noise.norm).max())
                self._add(direct, self._errors_direct(direct))

    def _designs(self, weights: Floats, start: Any, restarts: int) -> Iterable[tuple[Any, Floats]]:
        gram = self.grams.surrogate(self.place, weights)
        merged = MergedLevels.of(gram)
        reduced = merged.reduce(gram)
        if self.noise is NoiseKind.GAUSSIAN:
            found = optimal_gram(gram_factor(reduced), tolerance=1e-4)
            yield (merged, found.value), self._errors_gaussian(merged, found.value)
            return
        begin = start[1] if isinstance(start, tuple) and np.array_equal(start[0].classes, merged.classes) else None
        solved = p_identity.optimise_theta(
            reduced, start=begin, restarts=restarts, iterations=self._iterations, seed=self._seed
        )
        yield (merged, solved.value), self._errors_laplace(merged, solved.value)

    def _errors_laplace(self, merged: MergedLevels, theta: Floats) -> Floats:
        return self._by_block(merged, lambda gram: p_identity.loss(theta, gram))

    def _errors_gaussian(self, merged: MergedLevels, found: Optimum) -> Floats:
        inverse = np.linalg.inv(found.gram)
        return self._by_block(merged, lambda gram: float(np.sum(inverse * gram)))

    def _errors_direct(self, direct: LinearOperator) -> Floats:
        e, q = np.linalg.eigh(direct.gram_dense())
        kept = e > 1e-10 * e[-1]
        q, inverse = q[:, kept], 1 / e[kept]
        errors = np.full(len(self.blocks), np.inf)
        for b in range(len(self.blocks)):
            half = q.T @ self.grams.gram(self.place, b)
            diagonal = np.einsum("ki,ik->k", half, q)
            if diagonal.sum() >= (1 - 1e-9) * self.grams.traces(self.place)[b]:
                errors[b] = diagonal @ inverse
        return errors

    def _by_block(self, merged: MergedLevels, error: Any) -> Floats:
        grams = [self.grams.gram(self.place, b) for b in range(len(self.blocks))]
        return np.array([error(merged.reduce(g)) if merged.supports(g) else np.inf for g in grams])

    def _built(self, item: tuple[MergedLevels, Any]) -> LinearOperator:
        merged, found = item
        inner = found.strategy if isinstance(found, Optimum) else p_identity.strategy(found)
        return Dense(merged.expand(inner.dense()))


def shelves_of(
    grams: TermGrams, noise: NoiseKind, *, restarts: int = 2, iterations: int = 500, seed: int = p_identity.SEED
) -> tuple[Shelf, ...]:
    """A shelf for every asked attribute, filled; refuses attributes too large to design for before any work."""
    refuse_large(grams)
    parts = [level_total_parts(grams, place) for place in grams.asked]
    shelves = []
    for place, own in zip(grams.asked, parts, strict=True):
        shelf: Shelf
        if own is not None:
            shelf = LevelTotalShelf(grams, place, noise, own)
        else:
            shelf = DesignedShelf(grams, place, noise, iterations, seed)
        shelf.fill(restarts)
        shelves.append(shelf)
    return tuple(shelves)


def refuse_large(grams: TermGrams) -> None:
    """Refuse attributes of too many levels that are asked for more than levels and totals."""
    for place in grams.asked:
        if grams.domain.shape[place] > LARGEST_SIZE and not grams.plain(place):
            raise SizeError(
                f"attribute {grams.domain.attributes[place]!r} has {grams.domain.shape[place]} levels and is asked for "
                f"more than levels and totals; coarsen it to at most {LARGEST_SIZE} bins"
            )


def level_total_parts(grams: TermGrams, place: int) -> Floats | None:
    """alpha and beta of every block, V = alpha I + beta 1 1^T, (blocks, 2); None if some block is no such matrix."""
    size = grams.domain.shape[place]
    parts = []
    for b, block in enumerate(grams.blocks[place]):
        if isinstance(block, Identity | Total):
            parts.append((1.0, 0.0) if isinstance(block, Identity) else (0.0, 1.0))
            continue
        if size > LARGEST_SIZE or size == 1:
            return None
        gram = grams.gram(place, b)
        beta = float(gram[0, 1])
        alpha = float(gram[0, 0]) - beta
        if beta < 0 or np.abs(gram - alpha * np.eye(size) - beta).max() > 1e-12 * abs(alpha + beta):
            return None
        parts.append((alpha, beta))
    return np.array(parts)
