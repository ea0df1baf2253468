"""From drafts to integers: strategies are rounded as matrices, before any data is read, and measured exactly."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from hush.domain import Domain
from hush.errors import WorkloadError
from hush.linops import Identity, LevelsAndTotal, LinearOperator
from hush.privacy.gate import LARGEST_ANSWER
from hush.privacy.neighbours import Neighbours
from hush.strategies.draft import Draft, PartDraft
from hush.strategies.factor import Factor, IdentityFactor, MatrixFactor
from hush.strategies.levels_factor import LevelsFactor
from hush.strategies.linear import LinearStrategy
from hush.strategies.noise_kind import NoiseKind
from hush.strategies.part import Part
from hush.strategies.product_query import LARGEST_ROWS
from hush.strategies.shares import split_exactly

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]

MOST_BITS = 14
LEVEL_BITS = 4
_BITS = (LARGEST_ANSWER // LARGEST_ROWS).bit_length() - 1  # of the largest product of entries
_SMALL = 1 << 10  # entries up to this are kept as they are where they are whole


def round_draft(draft: Draft, *, budget: Fraction, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> LinearStrategy:
    """The strategy that is measured for a draft, its exact costs adding up to at most the budget.

    Factors of whole numbers, up to one scale, are kept exactly. Others are scaled to as many bits as the exactness of
    64-bit sums allows and rounded to the nearest integer; under Laplace noise, columns that rounding left short are
    filled up, which can only lower the error.

    Privacy: sensitivity is that of the rounded integers, so rounding cannot understate it.
    """
    costs = split_exactly(np.array([part.share for part in draft.parts]) * float(budget), budget)
    parts = tuple(
        _round_part(draft.domain, part, cost, draft.noise, neighbours)
        for part, cost in zip(draft.parts, costs, strict=True)
    )
    return LinearStrategy(draft.domain, parts, draft.recovery, draft.method)


def _round_part(domain: Domain, part: PartDraft, cost: Fraction, noise: NoiseKind, neighbours: Neighbours) -> Part:
    ready = [_kept(factor) for factor in part.factors]
    left = _BITS - sum(factor.largest_entry.bit_length() - (factor.largest_entry == 1) for factor in ready if factor)
    rounded = sum(factor is None for factor in ready)
    bits = min(MOST_BITS, left // max(rounded, 1))
    if bits < 2:
        raise WorkloadError(
            f"a product over {', '.join(part.clique)} is too large to be measured exactly in 64-bit integers; "
            "ask for fewer attributes at once"
        )
    factors = tuple(
        own if own is not None else MatrixFactor(_round(factor.dense(), bits, noise), 1)
        for own, factor in zip(ready, part.factors, strict=True)
    )
    sizes = tuple(domain.sizes(group) for group in part.groups)
    return Part(part.groups, sizes, factors, cost, noise, neighbours)


def _kept(factor: LinearOperator) -> Factor | None:
    """The factor exactly, or as two short integers; None where it must be rounded."""
    if isinstance(factor, Identity):
        return IdentityFactor(factor.shape[1])
    if isinstance(factor, LevelsAndTotal):
        levels, total = _short_ratio(factor.levels, factor.total)
        return LevelsFactor(factor.shape[1], levels=levels, total=total)
    return _whole(factor.dense())


def _short_ratio(levels: float, total: float) -> tuple[int, int]:
    """Two integers of `LEVEL_BITS` bits in nearly the ratio of two weights; the first is not zero."""
    if not levels > 0 or total < 0:
        raise WorkloadError(f"weights {levels}, {total} of levels and total: expected positive numbers")
    most = (1 << LEVEL_BITS) - 1
    if total <= levels:
        ratio = Fraction(total / levels).limit_denominator(most)
        return ratio.denominator, ratio.numerator
    ratio = Fraction(levels / total).limit_denominator(most)
    return (ratio.numerator, ratio.denominator) if ratio else (1, most)


def _whole(matrix: Floats) -> MatrixFactor | None:
    """The matrix as small integers, where it is a multiple of some."""
    least = np.abs(matrix[matrix != 0]).min()
    scaled = matrix / least
    integers = np.rint(scaled)
    if np.abs(integers).max() > _SMALL or np.abs(scaled - integers).max() > 1e-9:
        return None
    return MatrixFactor(integers.astype(np.int64), 1)


def _round(matrix: Floats, bits: int, noise: NoiseKind) -> Integers:
    """The nearest integers of a multiple of the matrix whose largest entry is just below 2^bits."""
    if not np.isfinite(matrix).all():
        raise WorkloadError("a strategy with entries that are not finite; its optimiser failed, choose another one")
    scaled = matrix * (((1 << bits) - 1) / np.abs(matrix).max())
    integers: Integers = np.rint(scaled).astype(np.int64)
    if noise is NoiseKind.LAPLACE:
        _fill(integers, (1 << bits) - 1)
    return integers


def _fill(integers: Integers, most: int) -> None:
    """Raise entries that stand alone in their rows until every column has the largest L1 norm, in place."""
    alone = np.flatnonzero(np.count_nonzero(integers, axis=1) == 1)
    columns = np.argmax(np.abs(integers[alone]), axis=1)
    norms = np.abs(integers).sum(axis=0)
    short = norms.max() - norms
    for row, column in zip(alone.tolist(), columns.tolist(), strict=True):
        if short[column] and integers[row, column] > 0:
            raised = min(int(short[column]), most - int(integers[row, column]))
            integers[row, column] += raised
            short[column] -= raised
