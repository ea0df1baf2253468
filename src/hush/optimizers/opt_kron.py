"""OPT_kron: one product of strategies for a union of products, attribute by attribute.

With e_i(b) the error of block b of attribute i under its strategy, of sensitivity one, the whole error is

    sum_j w_j prod_i e_i(b_ij),

so the best strategy for attribute i given the others is that for the mixture sum_j c_j V_i^(j), where
c_j = w_j prod_{i' != i} e_i'(b_i'j). No step raises the error. Attributes asked for totals alone are totalled out.

Reference: [HDMM, sec. 3.3.2, Problem 3].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.optimizers import p_identity
from hush.optimizers.strategy_pool import LEVELS, TOTAL, StrategyPool, strategy_pools
from hush.strategies.product_strategy import FloatProduct, FloatStrategy, Recovery
from hush.strategies.strategy import NoiseKind
from hush.strategies.term_table import TermGrams

SETTLED_GAIN = 1e-5  # descent stops after a sweep that lowers the error by less than this fraction
RANDOM_STARTS = 30


@dataclass(frozen=True, slots=True, eq=False)
class ChosenProduct:
    """One strategy from each pool, which terms they answer, and the error over those terms."""

    choices: Integers  # (pools,)
    terms: tuple[int, ...]
    error: float


def opt_kron(
    grams: TermGrams,
    noise: NoiseKind,
    *,
    pools: Sequence[StrategyPool] | None = None,
    restarts: int = 2,
    sweeps: int = 10,
    seed: int = p_identity.SEARCH_SEED,
) -> FloatStrategy:
    """The best single product found for all terms.

    >>> from hush.core.domain import Domain
    >>> from hush.workloads import Workload
    >>> grams = TermGrams.of(Workload.kway(Domain({"a": 2, "b": 5, "c": 50, "d": 100}), 2))
    >>> round(opt_kron(grams, NoiseKind.LAPLACE).error)
    213270
    """
    pools = strategy_pools(grams, noise, restarts=restarts, seed=seed) if pools is None else pools
    everything = range(len(grams))
    chosen = fit_product(grams, pools, everything, starts=RANDOM_STARTS, restarts=restarts, sweeps=sweeps, seed=seed)
    product = product_of(grams, pools, chosen, share=1.0)
    return FloatStrategy(grams.domain, (product,), noise, Recovery.LOCAL, chosen.error, "kron")


def fit_product(
    grams: TermGrams,
    pools: Sequence[StrategyPool],
    terms: Sequence[int],
    *,
    starts: int = 0,
    restarts: int = 0,
    sweeps: int = 10,
    seed: int = p_identity.SEARCH_SEED,
) -> ChosenProduct:
    """The best product for some terms: from several starts among what the pools hold, then with new designs.

    The starts are every level of each attribute, the best for each attribute alone, and `starts` random choices.
    """
    index = grams.index[np.asarray(terms)][:, list(grams.asked)]
    weights = grams.weights[np.asarray(terms)]
    mixtures = [_tally(index[:, i], weights, pool) for i, pool in enumerate(pools)]
    levels = np.array([LEVELS if mixture[1:].any() else TOTAL for mixture in mixtures], dtype=np.int64)
    alone = np.array([pool.choose(mixture) for pool, mixture in zip(pools, mixtures, strict=True)], dtype=np.int64)
    random = np.random.Generator(np.random.PCG64(seed))
    # Random starts: one strategy from each pool, among those that support the queries.
    supporting = [
        np.flatnonzero(np.isfinite(s.errors[:, m > 0]).all(axis=1)) for s, m in zip(pools, mixtures, strict=True)
    ]
    drawn = [np.array([random.choice(choices) for choices in supporting], dtype=np.int64) for _ in range(starts)]
    settled = [descend(pools, index, weights, start, sweeps=sweeps) for start in (levels, alone, *drawn)]
    # Only the best starts are worth new designs.
    settled.sort(key=lambda descent: descent[1])
    finals = [
        descend(pools, index, weights, descent[0], sweeps=sweeps, design=0) for descent in settled[: 1 + restarts]
    ]
    choices, error = min(finals, key=lambda descent: descent[1])
    if restarts:
        choices, error = descend(pools, index, weights, choices, sweeps=sweeps, design=restarts)
    return ChosenProduct(choices, tuple(int(j) for j in terms), error)


def _tally(blocks: Any, weights: Floats, pool: StrategyPool) -> Floats:
    """The sum of weights for each block of a pool."""
    return np.asarray(np.bincount(blocks, weights, len(pool.blocks)), dtype=np.float64)


def descend(
    pools: Sequence[StrategyPool],
    index: Any,
    weights: Floats,
    start: Integers,
    *,
    sweeps: int,
    design: int | None = None,
) -> tuple[Integers, float]:
    """Block coordinate descent over the choices.

    With `design`, a number of random restarts, each pool also gets new strategies designed for its mixture of blocks.
    """
    choices = start.copy()
    logs = np.empty(index.shape)  # log e_i(b_ij)
    for i, pool in enumerate(pools):
        logs[:, i] = np.log(pool.errors[choices[i], index[:, i]])
    error = total_error(logs, weights)
    for _ in range(sweeps):
        before = error
        for i, pool in enumerate(pools):
            rest = np.log(weights) + logs.sum(axis=1) - logs[:, i]
            mixture = _tally(index[:, i], np.exp(rest - rest.max()), pool)
            choices[i] = pool.choose(mixture) if design is None else pool.improve(mixture, restarts=design)
            logs[:, i] = np.log(pool.errors[choices[i], index[:, i]])
        error = total_error(logs, weights)
        if error >= before * (1 - SETTLED_GAIN):
            break
    return choices, error


def total_error(logs: Floats, weights: Floats) -> float:
    """sum_j w_j prod_i e_ij from the logarithms of the errors."""
    return float(weights @ np.exp(logs.sum(axis=1)))


def product_of(grams: TermGrams, pools: Sequence[StrategyPool], chosen: ChosenProduct, share: float) -> FloatProduct:
    """The choices as a product; attributes of which only the total is measured are left out."""
    used = [(pool, int(choice)) for pool, choice in zip(pools, chosen.choices, strict=True) if choice != TOTAL]
    groups = tuple((grams.domain.attributes[pool.axis],) for pool, _ in used)
    factors = tuple(pool.operator(choice) for pool, choice in used)
    return FloatProduct(groups, factors, share, chosen.terms)
