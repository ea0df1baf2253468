"""Compiled step of a quasi-Newton method in the metric of the model; `natural_descent.py` says what it computes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from hush.graphical._kernels import dot

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]


@njit(nogil=True, cache=True, fastmath={"contract"})
def add(target: Floats, factor: float, source: Floats) -> None:
    """target += factor * source."""
    for j in range(target.size):
        target[j] += factor * source[j]


@njit(nogil=True, cache=True)
def step_direction(
    order: Integers, steps: Floats, naturals: Floats, changes: Floats, scale: float,
    natural: Floats, gradient: Floats, scratch: Floats, direction: Floats,
) -> None:  # fmt: skip
    """The two loops over pairs, newest last in `order`; the first scaling is that of the natural gradient."""
    direction[:] = natural
    scratch[:] = gradient
    alphas = np.empty(order.size)
    for i in range(order.size - 1, -1, -1):
        k = order[i]
        alphas[i] = dot(steps[k], scratch) / dot(steps[k], changes[k])
        add(direction, -alphas[i], naturals[k])
        add(scratch, -alphas[i], changes[k])
    for j in range(direction.size):
        direction[j] *= -scale
    for i in range(order.size):
        k = order[i]
        beta = dot(changes[k], direction) / dot(steps[k], changes[k])
        add(direction, -alphas[i] - beta, steps[k])
