"""StrategyPool: strategies for one attribute, each known by the summed variance of every block asked of it.

A strategy A of sensitivity one enters the error of products only through e_b = tr (A^T A)^+ V_b, one number per block.
So the search for products chooses from pools, at the cost of a few multiplications, and a pool grows when a better
strategy for some mixture of blocks, sum_b weights_b V_b, is worth designing.

Levels that no query tells apart are measured as one (`MergedLevels`): levels with equal rows in V = W^T W have equal
columns in W. With B the 0/1 matrix of classes, W = W' B, so a strategy A' for the smaller W' gives A = A' B with the
same sensitivity and the same error.

An attribute asked for single levels and totals alone has blocks with Gram matrices alpha I + beta 1 1^T and is measured
by [a I; b 1^T], at any number of levels n. With t = a^2 + n b^2 its summed variance at unit noise is

    (n - 1) alpha / a^2 + (alpha + n beta) / t.

Under Gaussian noise, a^2 + b^2 = 1, the best A^T A is proportional to the root of the Gram matrix and attains the SVD
bound; under Laplace noise, a + b = 1, the best is found by a search over one number.

Reference: [HDMM, sec. 3.3.2] for the mixture, there called the surrogate workload, and for p = 1; [HDMM, sec. 3.4] for
the Gaussian closed form.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from hush.core.arrays import Floats, Integers
from hush.core.errors import SizeError
from hush.linops import CompoundSymmetric, Dense, Identity, LevelsAndTotal, LinearOperator, Total
from hush.optimizers import p_identity
from hush.strategies.optimum import Optimum, gram_factor, optimal_gram
from hush.strategies.strategy import NoiseKind
from hush.strategies.term_table import TermGrams

EQUAL_ROWS = 1e-12  # rows of a Gram matrix that differ by less, relative to its diagonal, are equal


@dataclass(frozen=True, slots=True, eq=False)
class MergedLevels:
    """The class of every level, -1 for levels that no query asks for, and one level of each class.

    >>> merged = MergedLevels.of(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    >>> merged.classes.tolist(), merged.members.tolist()
    ([0, 0, -1], [0])
    """

    classes: Integers  # (n,)
    members: Integers  # (classes,)

    @classmethod
    def of(cls, gram: Floats) -> MergedLevels:
        """The classes of a Gram matrix; a level joins a class only if its whole row agrees."""
        n = len(gram)
        limit = EQUAL_ROWS * np.sqrt(np.outer(gram.diagonal(), gram.diagonal())).max(initial=0.0)
        weights = 1 + np.modf(np.arange(1, n + 1) * 0.6180339887498949)[0]  # tell rows apart by one number each
        keys = gram @ weights
        classes = np.full(n, -1, dtype=np.int64)
        members: list[int] = []
        order = np.argsort(keys, kind="stable")
        for level in order.tolist():
            if gram[level, level] <= limit:
                continue
            index = len(members) - 1
            while index >= 0 and keys[level] - keys[members[index]] <= n * limit:
                if np.abs(gram[level] - gram[members[index]]).max() <= limit:
                    break
                index -= 1
            else:
                members.append(level)
                index = len(members) - 1
            classes[level] = index
        rank = np.argsort(members, kind="stable")
        asked = classes >= 0
        classes[asked] = np.argsort(rank, kind="stable")[classes[asked]]
        return cls(classes, np.array(members, dtype=np.int64)[rank])

    def reduce(self, gram: Floats) -> Floats:
        """V' with V = B^T V' B."""
        return np.asarray(gram[np.ix_(self.members, self.members)])

    def supports(self, gram: Floats) -> bool:
        """Whether another block tells none of its classes apart."""
        if len(self.members) == len(self.classes):
            return True
        asked = self.classes >= 0
        expanded = np.zeros_like(gram)
        expanded[np.ix_(asked, asked)] = self.reduce(gram)[np.ix_(self.classes[asked], self.classes[asked])]
        return bool(np.abs(expanded - gram).max() <= 1e-9 * np.abs(gram).max())

    def expand(self, matrix: Floats) -> Floats:
        """A' B: a column for every level."""
        wide = np.zeros((len(matrix), len(self.classes)))
        asked = self.classes >= 0
        wide[:, asked] = matrix[:, self.classes[asked]]
        return wide


# weights b of the total under Laplace noise, dense at both ends
TOTAL_WEIGHTS_TRIED = np.concatenate([[0.0], np.geomspace(1e-6, 0.5, 60), 1 - np.geomspace(0.5, 1e-6, 60)[1:]])


def best_levels_and_total(size: int, alpha: float, beta: float, noise: NoiseKind) -> LinearOperator:
    """The [a I; b 1^T] of sensitivity one with the least summed variance for the Gram matrix alpha I + beta 1 1^T.

    >>> best_levels_and_total(100, 1.0, 0.0, NoiseKind.LAPLACE), best_levels_and_total(100, 0.0, 1.0, NoiseKind.LAPLACE)
    (Identity(size=100), Total(size=100))
    """
    if alpha <= 0 and size > 1:
        return Total(size)
    if size == 1 or beta <= 0:
        return Identity(size)
    if noise is NoiseKind.GAUSSIAN:
        low, high = math.sqrt(alpha), math.sqrt(alpha + size * beta)
        square = size * low / ((size - 1) * low + high)
        levels, total = math.sqrt(square), math.sqrt(max(0.0, 1 - square))
    else:
        # The best of a grid, then the best near it.

        def error(b: Any) -> Any:
            return _error(size, 1 - b, b, alpha, beta)

        grid = TOTAL_WEIGHTS_TRIED
        values = error(grid)
        k = int(np.argmin(values))
        bounds = (grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)])
        nearby = scipy.optimize.minimize_scalar(error, bounds=bounds, method="bounded", options={"xatol": 1e-10})
        total = float(nearby.x) if nearby.fun < values[k] else float(grid[k])
        levels = 1 - total
    return LevelsAndTotal(size, levels, total) if total else Identity(size)


def levels_and_total_error(strategy: LinearOperator, alpha: float, beta: float) -> float:
    """tr (A^T A)^+ V of levels, total or both for V = alpha I + beta 1 1^T; infinite where V is not supported."""
    if isinstance(strategy, Total) and strategy.size > 1:
        return math.inf if alpha > 0 else beta
    a, b = (strategy.levels, strategy.total) if isinstance(strategy, LevelsAndTotal) else (1.0, 0.0)
    return float(_error(strategy.shape[1], a, b, alpha, beta))


def _error(n: int, a: Any, b: Any, alpha: float, beta: float) -> Any:
    return (n - 1) * alpha / a**2 + (alpha + n * beta) / (a**2 + n * b**2)


TOTAL, LEVELS = 0, 1  # the first two strategies of every pool: the total alone, and every level
LARGEST_SIZE = p_identity.LARGEST_SIZE
LARGEST_DIRECT = 1 << 22  # entries of a block that may be measured as it is
LEAST_IMPROVEMENT = 1e-6  # relative; a design that gains less is discarded
TOTAL_TO_BLOCK_RATIOS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # weights of the total against another block


class StrategyPool(ABC):
    """The strategies of one attribute."""

    def __init__(self, grams: TermGrams, axis: int, noise: NoiseKind) -> None:
        self.grams, self.axis, self.noise = grams, axis, noise
        self.size = grams.domain.shape[axis]
        self.blocks = grams.blocks[axis]
        self._items: list[Any] = []
        self._tried: set[tuple[float, ...]] = set()  # mixtures already designed for, to about one per cent
        self._errors: list[Floats] = []
        self._table = np.zeros((0, len(self.blocks)))
        alone = np.full(len(self.blocks), np.inf)
        alone[0] = 1.0
        self._add(Total(self.size), alone)
        self._add(Identity(self.size), grams.traces(axis))

    @property
    def errors(self) -> Floats:
        """e_b of every strategy, (strategies, blocks); infinite for blocks it does not support."""
        if len(self._table) != len(self._errors):
            self._table = np.array(self._errors)
        return self._table

    def operator(self, choice: int) -> LinearOperator:
        """A strategy as a matrix of sensitivity one."""
        item = self._items[choice]
        return item if isinstance(item, LinearOperator) else self._built(item)

    def choose(self, weights: Floats) -> int:
        """The strategy in the pool with the least sum_b weights_b e_b."""
        asked = weights > 0
        return int(np.argmin(self.errors[:, asked] @ weights[asked]))

    def improve(self, weights: Floats, *, restarts: int = 0) -> int:
        """The best strategy for these weights after designing one for them; a worse design is discarded."""
        known = self.choose(weights)
        asked = weights > 0
        if not asked[1:].any():
            return known
        key = (restarts, *np.round(np.log(np.maximum(weights / weights.sum(), 1e-12)), 2).tolist())
        if key in self._tried:
            return known
        self._tried.add(key)
        best = float(self.errors[known][asked] @ weights[asked])
        for item, errors in self._designs(weights, self._items[known], restarts):
            value = float(errors[asked] @ weights[asked])
            if value < best * (1 - LEAST_IMPROVEMENT):
                known, best = self._add(item, errors), value
        return known

    def fill(self, restarts: int) -> None:
        """Add the strategies that products are likely to need."""
        for block in range(1, len(self.blocks)):
            alone = np.zeros(len(self.blocks))
            alone[block] = 1.0
            self.improve(alone, restarts=restarts)
            for ratio in TOTAL_TO_BLOCK_RATIOS:
                alone[0] = ratio
                self.improve(alone)
        self.improve(np.ones(len(self.blocks)), restarts=restarts)

    def _add(self, item: Any, errors: Floats) -> int:
        self._items.append(item)
        self._errors.append(np.asarray(errors, dtype=np.float64))
        return len(self._errors) - 1

    @abstractmethod
    def _designs(self, weights: Floats, start: Any, restarts: int) -> Iterable[tuple[Any, Floats]]:
        """New strategies for a mixture of blocks, with their errors."""

    def _built(self, item: Any) -> LinearOperator:
        """A design, as a matrix."""
        raise NotImplementedError


class LevelsAndTotalPool(StrategyPool):
    """For levels and totals alone: one number to choose, at any number of levels."""

    def __init__(self, grams: TermGrams, axis: int, noise: NoiseKind, forms: Floats) -> None:
        super().__init__(grams, axis, noise)
        self._alpha, self._beta = forms.T

    def fill(self, restarts: int) -> None:
        for total in np.geomspace(1e-3, 0.9, 24).tolist():
            level = 1 - total if self.noise is NoiseKind.LAPLACE else np.sqrt(1 - total**2)
            strategy = LevelsAndTotal(self.size, float(level), total)
            self._add(strategy, self._errors_of(strategy))

    def _designs(self, weights: Floats, start: Any, restarts: int) -> Iterable[tuple[Any, Floats]]:
        alpha, beta = float(weights @ self._alpha), float(weights @ self._beta)
        best = best_levels_and_total(self.size, alpha, beta, self.noise)
        yield best, self._errors_of(best)

    def _errors_of(self, strategy: LinearOperator) -> Floats:
        forms = zip(self._alpha.tolist(), self._beta.tolist(), strict=True)
        return np.array([levels_and_total_error(strategy, alpha, beta) for alpha, beta in forms])


class DesignedPool(StrategyPool):
    """For any blocks: the certified optimum under Gaussian noise, p-Identity under Laplace noise."""

    def __init__(self, grams: TermGrams, axis: int, noise: NoiseKind, iterations: int, seed: int) -> None:
        super().__init__(grams, axis, noise)
        self._iterations, self._seed = iterations, seed
        for block in self.blocks[1:]:
            if not isinstance(block, Identity) and block.shape[0] * block.shape[1] <= LARGEST_DIRECT:
                direct = Dense(block.dense() / block.column_norms(noise.norm).max())
                self._add(direct, self._errors_direct(direct))

    def _designs(self, weights: Floats, start: Any, restarts: int) -> Iterable[tuple[Any, Floats]]:
        gram = self.grams.surrogate(self.axis, weights)
        merged = MergedLevels.of(gram)
        reduced = merged.reduce(gram)
        if self.noise is NoiseKind.GAUSSIAN:
            best = optimal_gram(gram_factor(reduced), tolerance=1e-4)
            inverse = np.linalg.inv(best.value.gram)
            yield (merged, best.value), self._by_block(merged, lambda gram: float(np.sum(inverse * gram)))
            return
        begin = start[1] if isinstance(start, tuple) and np.array_equal(start[0].classes, merged.classes) else None
        solved = p_identity.optimise_theta(
            reduced, start=begin, restarts=restarts, iterations=self._iterations, seed=self._seed
        )
        yield (merged, solved.value), self._by_block(merged, lambda gram: p_identity.loss(solved.value, gram))

    def _errors_direct(self, direct: LinearOperator) -> Floats:
        e, q = np.linalg.eigh(direct.gram_dense())
        nonzero = e > 1e-10 * e[-1]
        q, inverse = q[:, nonzero], 1 / e[nonzero]
        errors = np.full(len(self.blocks), np.inf)
        for b in range(len(self.blocks)):
            half = q.T @ self.grams.gram(self.axis, b)
            diagonal = np.einsum("ki,ik->k", half, q)
            if diagonal.sum() >= (1 - 1e-9) * self.grams.traces(self.axis)[b]:
                errors[b] = diagonal @ inverse
        return errors

    def _by_block(self, merged: MergedLevels, error: Any) -> Floats:
        grams = [self.grams.gram(self.axis, b) for b in range(len(self.blocks))]
        return np.array([error(merged.reduce(g)) if merged.supports(g) else np.inf for g in grams])

    def _built(self, item: tuple[MergedLevels, Any]) -> LinearOperator:
        merged, design = item
        inner = design.strategy if isinstance(design, Optimum) else p_identity.strategy(design)
        return Dense(merged.expand(inner.dense()))


def strategy_pools(
    grams: TermGrams, noise: NoiseKind, *, restarts: int = 2, iterations: int = 500, seed: int = p_identity.SEARCH_SEED
) -> tuple[StrategyPool, ...]:
    """A pool for every asked attribute, filled; refuses attributes too large to design for before any work."""
    refuse_large(grams)
    pools: list[StrategyPool] = []
    for axis, forms in [(axis, compound_forms(grams, axis)) for axis in grams.asked]:
        if forms is not None:
            pools.append(LevelsAndTotalPool(grams, axis, noise, forms))
        else:
            pools.append(DesignedPool(grams, axis, noise, iterations, seed))
        pools[-1].fill(restarts)
    return tuple(pools)


def refuse_large(grams: TermGrams) -> None:
    """Refuse attributes of too many levels that are asked for more than levels and totals."""
    for axis in grams.asked:
        if grams.domain.shape[axis] > LARGEST_SIZE and not grams.alike(axis):
            raise SizeError(
                f"attribute {grams.domain.attributes[axis]!r} has {grams.domain.shape[axis]} levels and is asked for "
                f"more than levels and totals; coarsen it to at most {LARGEST_SIZE} bins"
            )


def compound_forms(grams: TermGrams, axis: int) -> Floats | None:
    """alpha and beta of every block, V = alpha I + beta 1 1^T, (blocks, 2); None if some block is no such matrix."""
    size = grams.domain.shape[axis]
    forms = []
    for b, block in enumerate(grams.blocks[axis]):
        if isinstance(block, Identity | Total):
            forms.append((1.0, 0.0) if isinstance(block, Identity) else (0.0, 1.0))
            continue
        if isinstance(block, CompoundSymmetric):
            square = block.gram()
            forms.append((float(square.alpha), float(square.beta)))
            continue
        if size > LARGEST_SIZE or size == 1:
            return None
        gram = grams.gram(axis, b)
        beta = float(gram[0, 1])
        alpha = float(gram[0, 0]) - beta
        if beta < 0 or np.abs(gram - alpha * np.eye(size) - beta).max() > 1e-12 * abs(alpha + beta):
            return None
        forms.append((alpha, beta))
    return np.array(forms)
