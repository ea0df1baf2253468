"""Building blocks of workloads: functions from the size of an attribute to queries on it, and conditions on columns.

>>> import hush
>>> domain = hush.Domain({"age": 100, "sex": 2})
>>> workload = hush.Workload.product(domain, {"age": prefix, "sex": identity})
>>> workload.queries
200
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from hush.core.errors import WorkloadError, shown
from hush.linops import (
    AllRange,
    Dense,
    Equivalent,
    Identity,
    LevelsAndTotal,
    LinearOperator,
    Permuted,
    Prefix,
    Total,
    WidthRange,
)
from hush.schema.proposition import at_least, test

__all__ = [
    "all_predicates",
    "at_least",
    "circular",
    "identity",
    "levels_and_total",
    "matrix",
    "permuted",
    "predicates",
    "prefix",
    "ranges",
    "test",
    "total",
    "width",
]

Block: TypeAlias = Callable[[int], LinearOperator]


def identity(size: int) -> LinearOperator:
    """Every level by itself."""
    return Identity(size)


def total(size: int) -> LinearOperator:
    """All levels together."""
    return Total(size)


def prefix(size: int) -> LinearOperator:
    """All levels up to each level: an empirical distribution function."""
    return Prefix(size)


def ranges(size: int) -> LinearOperator:
    """Every run of neighbouring levels."""
    return AllRange(size)


def width(levels: int) -> Block:
    """Every run of `levels` neighbouring levels; a run of all levels is the total."""
    return lambda size: Total(size) if levels == size else WidthRange(size, levels)


def matrix(rows: Any) -> Block:
    """Any linear queries, one per row of an explicit matrix."""
    operator = Dense(rows)

    def block(size: int) -> LinearOperator:
        if operator.shape[1] != size:
            raise WorkloadError(f"a query matrix of {operator.shape[1]} columns on an attribute of {size} levels")
        return operator

    return block


def levels_and_total(size: int) -> LinearOperator:
    """Every level by itself, and all levels together."""
    return LevelsAndTotal(size)


def permuted(block: Block, order: Sequence[int]) -> Block:
    """A block asked of the levels in another order: `permuted(prefix, [2, 0, 1])` counts 2, then 2 and 0, then all.

    >>> permuted(prefix, [2, 0, 1])(3).dense().tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]]
    """
    return lambda size: Permuted(block(size), order)


def predicates(rows: Sequence[Any]) -> Block:
    """Any sets of levels, each a list of levels or a true or false for every level.

    >>> predicates([[0, 2], [True, True, False]])(3).dense().tolist()
    [[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    """
    chosen = [np.asarray(row) for row in rows]
    if not chosen or any(row.ndim != 1 or row.dtype.kind not in "iub" or not row.size for row in chosen):
        raise WorkloadError(
            f"predicates {shown(rows)}: expected rows of levels, or of true and false, none of them empty"
        )

    def block(size: int) -> LinearOperator:
        indicators = np.zeros((len(chosen), size))
        for i, row in enumerate(chosen):
            if row.dtype.kind == "b" and len(row) != size:
                raise WorkloadError(f"predicate {i} has {len(row)} entries on an attribute of {size} levels")
            if row.dtype.kind != "b" and not (row.min() >= 0 and row.max() < size):
                raise WorkloadError(f"predicate {i}: expected levels within 0 .. {size - 1}")
            indicators[i, row] = 1.0
        if not indicators.any(axis=1).all():
            raise WorkloadError("a predicate that holds no level has the answer zero; leave it out")
        return Dense(indicators)

    return block


def circular(pattern: Sequence[float]) -> Block:
    """One query for each rotation of a pattern of coefficients, such as a moving average around a clock.

    >>> circular([1, 1, 0])(3).dense().tolist()
    [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]
    """
    coefficients = np.asarray(pattern)
    if coefficients.ndim != 1 or coefficients.dtype.kind not in "biuf" or not coefficients.any():
        raise WorkloadError(f"circular: pattern={shown(pattern)}: expected a list of numbers, not all zero")
    return matrix([np.roll(coefficients, shift) for shift in range(len(coefficients))])


MOST_PREDICATE_LEVELS = 300  # 2^298 is still below the largest weight


def all_predicates(size: int) -> LinearOperator:
    """Every set of levels, all 2^n of them; known through their squared error alone, so answers are not listed.

    >>> all_predicates(3).gram_dense().tolist()
    [[4.0, 2.0, 2.0], [2.0, 4.0, 2.0], [2.0, 2.0, 4.0]]
    """
    if size > MOST_PREDICATE_LEVELS:
        raise WorkloadError(
            f"all 2^{size} sets of {size} levels: expected at most {MOST_PREDICATE_LEVELS} levels; merge levels"
        )
    return Equivalent(2.0 ** (size - 2) * (np.eye(size) + 1), queries=2**size)
