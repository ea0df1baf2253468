"""Shares: a budget cut into exact parts that never add up to more than it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from hush.errors import BudgetError

Floats = np.ndarray[Any, np.dtype[np.float64]]
_BITS = 48


def split_exactly(
    weights: Floats,  # (parts,), their sum about the budget or below
    budget: Fraction,
) -> list[Fraction]:
    """One binary fraction per weight, each within 2^-46 of its weight, that add up to at most the budget.

    >>> sum(split_exactly(np.array([0.1, 0.2, 0.7]), Fraction(1))) <= 1
    True
    """
    if not (np.isfinite(weights).all() and float(budget) > 1e-100):
        raise BudgetError(
            f"a budget of {float(budget):g} cannot be shared out: it is too small, or a share is not finite"
        )
    own = weights * (float(budget) / max(math.fsum(weights), float(budget)) * (1 - 2.0**-47))
    known: Mapping[float, Fraction] = {weight: _round_down(weight) for weight in set(own.tolist())}
    shares = [known[weight] for weight in own.tolist()]
    if sum_binary(shares) > budget or min(shares) <= 0:
        raise BudgetError(f"a budget of {float(budget)!r} is too small to be shared out among {len(shares)} parts")
    return shares


def sum_binary(values: list[Fraction]) -> Fraction:
    """The exact sum of fractions with powers of two below, over one common denominator."""
    bits = max((value.denominator.bit_length() for value in values), default=1)
    return Fraction(
        sum(value.numerator << (bits - value.denominator.bit_length()) for value in values), 1 << (bits - 1)
    )


def _round_down(weight: float) -> Fraction:
    """The largest fraction of `_BITS` significant bits not above a float > 0."""
    mantissa, exponent = math.frexp(weight)
    shift = exponent - _BITS
    return math.floor(math.ldexp(mantissa, _BITS)) * Fraction(2) ** shift
