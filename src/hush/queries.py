"""Building blocks of product workloads: what to ask of one attribute; each takes the attribute's size.

>>> import hush
>>> domain = hush.Domain({"age": 100, "sex": 2})
>>> workload = hush.Workload.product(domain, {"age": prefix, "sex": identity})
>>> workload.queries
200
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from hush.errors import WorkloadError
from hush.linops import AllRange, Dense, Identity, LinearOperator, Prefix, Total, WidthRange

Block: TypeAlias = Callable[[int], LinearOperator]


def identity(size: int) -> LinearOperator:
    """Every level by itself."""
    return Identity(size)


def total(size: int) -> LinearOperator:
    """All levels together."""
    return Total(size)


def prefix(size: int) -> LinearOperator:
    """Levels up to each one: an empirical distribution function."""
    return Prefix(size)


def ranges(size: int) -> LinearOperator:
    """Every run of neighbouring levels."""
    return AllRange(size)


def width(levels: int) -> Block:
    """Every run of `levels` neighbouring levels."""
    return lambda size: WidthRange(size, levels)


def matrix(rows: Any) -> Block:
    """Any linear queries, one per row of an explicit matrix."""
    operator = Dense(rows)

    def block(size: int) -> LinearOperator:
        if operator.shape[1] != size:
            raise WorkloadError(f"a query matrix of {operator.shape[1]} columns on an attribute of {size} levels")
        return operator

    return block
