"""OPT_HDMM: run every operator, and keep the strategy with the least predicted error.

Selection uses only the workload, never data, so it costs no privacy. Two baselines run as well: every cell of the table
over the asked attributes, and the terms as they are. The strategy chosen is never worse than either.

Reference: [HDMM, sec. 3.6].
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from hush.core.errors import SizeError, WorkloadError
from hush.linops import Identity, LinearOperator, Scaled
from hush.optimizers.opt_kron import opt_kron
from hush.optimizers.opt_marginals import opt_bases, opt_marginals
from hush.optimizers.opt_plus import opt_plus
from hush.optimizers.p_identity import SEARCH_SEED
from hush.optimizers.strategy_pool import LARGEST_DIRECT, LARGEST_SIZE, LevelsAndTotalPool, refuse_large, strategy_pools
from hush.strategies.product_strategy import FloatProduct, FloatStrategy, Recovery
from hush.strategies.strategy import NoiseKind
from hush.strategies.term_table import TermGrams

ROUNDS, QUICK_ROUNDS = 200, 40  # of the search for marginals under Laplace noise
FEW_TERMS = 40  # with at most this many terms, a quick search for marginals needs no start from a union of products
OPERATORS = ("kron", "plus", "marginals", "bases")


def opt_hdmm(
    grams: TermGrams,
    noise: NoiseKind,
    *,
    operators: Sequence[str] = OPERATORS,
    cells: float = math.inf,
    restarts: int = 2,
    seed: int = SEARCH_SEED,
    quick: bool = False,
    groups: Iterable[Iterable[int]] | None = None,
) -> list[FloatStrategy]:
    """The strategy of each operator and of each baseline, the one of least error first.

    `cells` bounds how many cells a product over several terms, or a marginal, may measure; larger ones are left out.
    `restarts` and `seed` place the starts of the search; both are public. A `quick` search has no restarts, fewer
    rounds and fewer candidates; for marginals it leaves out the single product and, with few terms, unions of products.
    `groups` are the positions of the terms that each product of a union is for, instead of the groups that are found.

    >>> from hush.core.domain import Domain
    >>> from hush.workloads import Workload
    >>> grams = TermGrams.of(Workload.kway(Domain({"a": 2, "b": 5, "c": 50, "d": 100}), 2))
    >>> [(strategy.method, round(strategy.error)) for strategy in opt_hdmm(grams, NoiseKind.LAPLACE)][0]
    ('marginals', 62886)
    """
    for name in operators:
        if name not in OPERATORS:
            raise WorkloadError(f"operator {name!r}: expected one of {', '.join(OPERATORS)}")
    refuse_large(grams)
    # Every cell, which supports any workload.
    restarts, rounds = (0, QUICK_ROUNDS) if quick else (restarts, ROUNDS)
    strategies = [identity_strategy(grams, noise)]
    starts: list[list[tuple[str, ...]]] = []
    # Products of strategies for single attributes, chosen from one pool for each attribute.
    if {"kron", "plus", "bases"} & set(operators):
        pools = strategy_pools(grams, noise, restarts=restarts, seed=seed)
        designed = not all(isinstance(pool, LevelsAndTotalPool) for pool in pools)  # otherwise they are marginals
        if "kron" in operators and (designed or not quick or len(grams) == 1):
            strategies.append(opt_kron(grams, noise, pools=pools, restarts=restarts, seed=seed))
        several = len(np.unique(grams.index, axis=0)) > 1  # one product needs no union
        united = designed or not quick or len(grams) > FEW_TERMS or groups is not None
        if "plus" in operators and united and (several or "kron" not in operators):
            strategies.append(
                opt_plus(grams, noise, groups=groups, pools=pools, cells=cells, restarts=restarts, seed=seed)
            )
            starts.append([product.clique for product in strategies[-1].products])
        if "bases" in operators and designed and (several or "kron" not in operators) and _few_marginals(grams):
            bases = opt_bases(grams, noise, pools=pools, cells=cells, restarts=restarts, rounds=rounds, seed=seed)
            strategies.append(bases)
    # Plain marginals; the search may start from the cliques of the products found.
    if "marginals" in operators and _few_marginals(grams):
        marginals = opt_marginals(
            grams, noise, cells=cells, starts=starts, restarts=restarts, rounds=rounds, every=not quick, seed=seed
        )
        strategies.append(marginals.value)
    # The terms themselves. Then sort all strategies within the bound on cells by error.
    if _direct_fits(grams):
        strategies.append(direct_strategy(grams, noise))
    fitting = [
        strategy
        for strategy in strategies
        if all(grams.domain.size(product.clique) <= cells for product in strategy.products)
    ]
    return sorted(fitting or strategies, key=lambda strategy: strategy.error)


def identity_strategy(grams: TermGrams, noise: NoiseKind) -> FloatStrategy:
    """Every cell of the table over the asked attributes."""
    logs = np.log(grams.weights)
    for axis in grams.asked:
        logs = logs + np.log(grams.traces(axis)[grams.index[:, axis]])
    names = [grams.domain.attributes[axis] for axis in grams.asked]
    factors = tuple(Identity(grams.domain[name]) for name in names)
    product = FloatProduct(tuple((name,) for name in names), factors, 1.0, tuple(range(len(grams))))
    return FloatStrategy(grams.domain, (product,), noise, Recovery.LOCAL, float(np.exp(logs).sum()), "identity")


def direct_strategy(grams: TermGrams, noise: NoiseKind) -> FloatStrategy:
    """The terms themselves, each with the best share of the budget; equal terms are measured once.

    A term of weight w whose blocks have sensitivities s_i and ranks r_i has error w prod s_i^2 r_i at unit noise.

    Reference: [HDMM, sec. 3.1] for Q = W; the split by error makes it no worse than one scale of noise for all.
    """
    if not _direct_fits(grams):
        raise SizeError("there are too many queries to measure one by one; choose another mechanism, such as 'hdmm'")
    index, atom = np.unique(grams.index, axis=0, return_inverse=True)
    terms = [np.flatnonzero(atom.ravel() == a) for a in range(len(index))]
    logs = np.log([float(grams.weights[members].sum()) for members in terms])
    factors: list[list[LinearOperator]] = []
    for axis in grams.asked:
        scales = [block.sensitivity(noise.norm) for block in grams.blocks[axis]]
        ranks = []
        for number, block in enumerate(grams.blocks[axis]):
            rows, columns = block.shape
            if rows == 1 or isinstance(block, Identity):
                ranks.append(float(min(rows, columns)))
            else:
                e = np.linalg.eigvalsh(grams.gram(axis, number))
                ranks.append(float(np.sum(e > columns * 4 * np.finfo(np.float64).eps * e[-1])))
        logs += np.log(np.array(scales) ** 2 * ranks)[index[:, axis]]
        scaled = zip(grams.blocks[axis], scales, strict=True)
        factors.append([block if scale == 1 else Scaled(block, 1 / scale) for block, scale in scaled])
    shares = noise.shares(np.exp(logs - logs.max()))
    products = []
    for row, members, share in zip(index.tolist(), terms, shares.tolist(), strict=True):
        used = [(axis, scaled[row[axis]]) for axis, scaled in zip(grams.asked, factors, strict=True) if row[axis]]
        groups = tuple((grams.domain.attributes[axis],) for axis, _ in used)
        products.append(FloatProduct(groups, tuple(factor for _, factor in used), share, tuple(members.tolist())))
    return FloatStrategy(grams.domain, tuple(products), noise, Recovery.LOCAL, noise.total(np.exp(logs)), "direct")


def _direct_fits(grams: TermGrams) -> bool:
    """Whether every block is small enough to be measured as it is."""
    blocks = [block for axis in grams.asked for block in grams.blocks[axis] if not isinstance(block, Identity)]
    return all(
        block.shape[0] == 1 or (block.shape[1] <= LARGEST_SIZE and math.prod(block.shape) <= LARGEST_DIRECT)
        for block in blocks
    )


def _few_marginals(grams: TermGrams) -> bool:
    """Whether the marginals within terms can be listed."""
    return bool((2.0 ** (grams.index != 0).sum(axis=1)).sum() <= 1 << 22)
