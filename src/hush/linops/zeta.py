"""Sums over all supersets or all subsets, and their inverses: zeta and Moebius transforms along d axes, O(d 2^d).

A set of attributes is a number whose bit i says whether attribute i is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hush.errors import WorkloadError

Array = np.ndarray[Any, np.dtype[np.float64]]


def superset_sums(values: Array, attributes: int) -> Array:
    """z(a) = sum over b containing a of x(b).

    >>> superset_sums(np.array([1.0, 2.0, 3.0, 4.0]), 2).tolist()
    [10.0, 6.0, 7.0, 4.0]
    """
    return _along_axes(values, attributes, _add_upper)


def subset_sums(values: Array, attributes: int) -> Array:
    """z(a) = sum over b within a of x(b).

    >>> subset_sums(np.array([1.0, 2.0, 3.0, 4.0]), 2).tolist()
    [1.0, 3.0, 4.0, 10.0]
    """
    return _along_axes(values, attributes, _add_lower)


def superset_differences(values: Array, attributes: int) -> Array:
    """The x whose superset sums are given: x(a) = sum over b containing a of (-1)^|b \\ a| z(b)."""
    return _along_axes(values, attributes, _subtract_upper)


def subset_differences(values: Array, attributes: int) -> Array:
    """The x whose subset sums are given: x(a) = sum over b within a of (-1)^|a \\ b| z(b)."""
    return _along_axes(values, attributes, _subtract_lower)


def _along_axes(values: Array, attributes: int, step: Callable[[Array], None]) -> Array:
    """One new array, changed in place along each attribute's axis."""
    x = np.array(values, dtype=np.float64)
    if x.shape != (1 << attributes,):
        raise WorkloadError(f"{x.shape}: expected one number for each of the 2^{attributes} sets of attributes")
    for i in range(attributes):
        step(x.reshape(-1, 2, 1 << i))
    return x


def _add_upper(x: Array) -> None:
    x[:, 0] += x[:, 1]


def _add_lower(x: Array) -> None:
    x[:, 1] += x[:, 0]


def _subtract_upper(x: Array) -> None:
    x[:, 0] -= x[:, 1]


def _subtract_lower(x: Array) -> None:
    x[:, 1] -= x[:, 0]
