"""From floats to integers: strategies are rounded as matrices, before any data is read, and measured exactly."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.errors import BudgetError, WorkloadError
from hush.linops import Identity, LevelsAndTotal, LinearOperator
from hush.privacy.gate import LARGEST_ANSWER
from hush.privacy.sensitivity import Neighbours
from hush.strategies.axis_strategy import AxisStrategy
from hush.strategies.linear_strategy import LinearStrategy
from hush.strategies.product_strategy import LARGEST_ROWS, FloatProduct, FloatStrategy, ProductStrategy, Recovery
from hush.strategies.strategy import NoiseKind, split_exactly

MOST_BITS = (14, 10, 6)  # of a rounded entry: fewer if the noise would be too large to sample
LEVEL_BITS = 4  # of the weights of levels and total
BITS_OF_A_PRODUCT = (LARGEST_ANSWER // LARGEST_ROWS).bit_length() - 1  # of entries, so that no answer overflows
LARGEST_KEPT_ENTRY = 1 << 10  # matrices of whole numbers up to this are measured as they are


def round_strategy(
    strategy: FloatStrategy, *, budget: Fraction, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> LinearStrategy:
    """The integers that are measured for a strategy in floats, their exact costs adding up to at most the budget.

    Factors of whole numbers, up to one scale, are kept exactly. Others are scaled to as many bits as the exactness of
    64-bit sums allows and rounded to the nearest integer; under Laplace noise, columns that rounding left short are
    filled up, which can only lower the error.

    Privacy: sensitivity is that of the rounded integers, so rounding cannot understate it.
    """
    for most in MOST_BITS[:-1]:
        try:
            return _rounded(strategy, budget, neighbours, most)
        except BudgetError:  # the noise on such large integers cannot be sampled; try shorter ones
            continue
    return _rounded(strategy, budget, neighbours, MOST_BITS[-1])


def _rounded(strategy: FloatStrategy, budget: Fraction, neighbours: Neighbours, most: int) -> LinearStrategy:
    """The strategy with at most `most` bits in each rounded entry; BudgetError if its noise cannot be sampled."""
    costs = split_exactly(np.array([product.share for product in strategy.products]) * float(budget), budget)
    distinct = {id(factor): factor for product in strategy.products for factor in product.factors}
    kept = {key: _kept(factor) for key, factor in distinct.items()}
    bits = [_bits(product, kept, most) for product in strategy.products]
    if strategy.recovery is Recovery.MARGINALS:  # every product must measure an attribute with the same integers
        bits = [min(bits)] * len(bits)
    rounded: dict[tuple[int, int], AxisStrategy] = {}
    products = []
    for product, cost, product_bits in zip(strategy.products, costs, bits, strict=True):
        factors = []
        for factor in product.factors:
            key = (id(factor), product_bits)
            if key not in rounded:
                rounded[key] = kept[id(factor)] or AxisStrategy.of(
                    _round(factor.dense(), product_bits, strategy.noise), 1
                )
            factors.append(rounded[key])
        sizes = tuple(strategy.domain.sizes(group) for group in product.groups)
        products.append(ProductStrategy(product.groups, sizes, tuple(factors), cost, strategy.noise, neighbours))
        products[-1].law  # noqa: B018 - refuses noise out of range
    return LinearStrategy(strategy.domain, tuple(products), strategy.recovery, strategy.method)


def _bits(product: FloatProduct, kept: Mapping[int, AxisStrategy | None], most: int) -> int:
    """How many bits each factor of a product that must be rounded may have."""
    known = [strategy for strategy in (kept[id(factor)] for factor in product.factors) if strategy is not None]
    largest = [strategy.largest_entry for strategy in known]
    left = BITS_OF_A_PRODUCT - sum(entry.bit_length() - (entry == 1) for entry in largest)
    bits = min(most, left // max(len(product.factors) - len(known), 1))
    if bits < 2:
        raise WorkloadError(
            f"a product over {', '.join(product.clique)} is too large to be measured exactly in 64-bit integers; "
            "ask for fewer attributes at once"
        )
    return bits


def _kept(factor: LinearOperator) -> AxisStrategy | None:
    """The factor exactly, or levels and total as two short integers; None if it must be rounded."""
    if isinstance(factor, Identity):
        return AxisStrategy(Identity(factor.shape[1]))
    if isinstance(factor, LevelsAndTotal):
        if not factor.levels > 0 or factor.total < 0:
            raise WorkloadError(
                f"weights {factor.levels}, {factor.total} of levels and total: expected positive numbers"
            )
        # Two integers of LEVEL_BITS bits in nearly the ratio of the weights; the weight of levels stays above zero.
        smaller, larger = sorted((factor.levels, factor.total))
        ratio = Fraction(smaller / larger).limit_denominator((1 << LEVEL_BITS) - 1)
        small, large = ratio.numerator, ratio.denominator
        if factor.total > factor.levels:
            levels, total = (small, large) if ratio else (1, (1 << LEVEL_BITS) - 1)
        else:
            levels, total = large, small
        return AxisStrategy(LevelsAndTotal(factor.shape[1], levels=levels, total=total))
    # A multiple of a matrix of small integers is measured as those integers.
    matrix = factor.dense()
    scaled = matrix / np.abs(matrix[matrix != 0]).min()
    integers = np.rint(scaled)
    if np.abs(integers).max() > LARGEST_KEPT_ENTRY or np.abs(scaled - integers).max() > 1e-9:
        return None
    return AxisStrategy.of(integers.astype(np.int64), 1)


def _round(matrix: Floats, bits: int, noise: NoiseKind) -> Integers:
    """The nearest integers of a multiple of the matrix whose largest entry is just below 2^bits."""
    if not np.isfinite(matrix).all():
        raise WorkloadError("a strategy with entries that are not finite; its optimiser failed, choose another one")
    scaled = matrix * (((1 << bits) - 1) / np.abs(matrix).max())
    integers: Integers = np.rint(scaled).astype(np.int64)
    if noise is not NoiseKind.LAPLACE:
        return integers
    # Raise entries that are alone in their rows until every column has the largest L1 norm: more precision at the
    # same sensitivity.
    alone = np.flatnonzero(np.count_nonzero(integers, axis=1) == 1)
    columns = np.argmax(np.abs(integers[alone]), axis=1)
    norms = np.abs(integers).sum(axis=0)
    short = norms.max() - norms
    for row, column in zip(alone.tolist(), columns.tolist(), strict=True):
        if short[column] and integers[row, column] > 0:
            raised = min(int(short[column]), (1 << bits) - 1 - int(integers[row, column]))
            integers[row, column] += raised
            short[column] -= raised
    return integers
