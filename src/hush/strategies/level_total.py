"""The best of [a I; b 1^T] for an attribute that is asked for single levels and totals alone, at any number of levels.

Every block on such an attribute has a Gram matrix alpha I + beta 1 1^T, known by its two eigenvalues: alpha, n - 1
times, and alpha + n beta. With t = a^2 + n b^2 its summed variance at unit noise is

    (n - 1) alpha / a^2 + (alpha + n beta) / t.

Under Gaussian noise, a^2 + b^2 = 1, the optimum is A^T A proportional to the root of the Gram matrix and attains the
SVD bound; under Laplace noise, a + b = 1, it is a search over one number.

Reference: [HDMM, sec. 3.3.2] for p = 1 on such attributes; the Gaussian closed form is that of [HDMM, sec. 3.4].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from hush.linops import Identity, LevelsAndTotal, LinearOperator, Total
from hush.strategies.noise_kind import NoiseKind

Floats = np.ndarray[Any, np.dtype[np.float64]]

_GRID = np.concatenate([[0.0], np.geomspace(1e-6, 0.5, 60), 1 - np.geomspace(0.5, 1e-6, 60)[1:]])


@dataclass(frozen=True, slots=True)
class LevelTotal:
    """[a I; b 1^T] on n levels, of sensitivity one.

    >>> LevelTotal.best(100, 1.0, 1.0, NoiseKind.LAPLACE).error(1.0, 1.0) < LevelTotal(100, 1.0, 0.0).error(1.0, 1.0)
    True
    """

    size: int
    level: float
    total: float

    @classmethod
    def best(cls, size: int, alpha: float, beta: float, noise: NoiseKind) -> LevelTotal:
        """The one with the least summed variance for the Gram matrix alpha I + beta 1 1^T."""
        if alpha <= 0 and size > 1:
            return cls(size, 0.0, 1.0)
        if size == 1 or beta <= 0:
            return cls(size, 1.0, 0.0)
        if noise is NoiseKind.GAUSSIAN:
            low, high = math.sqrt(alpha), math.sqrt(alpha + size * beta)
            square = size * low / ((size - 1) * low + high)
            return cls(size, math.sqrt(square), math.sqrt(max(0.0, 1 - square)))
        b = _least(lambda b: _error(size, 1 - b, b, alpha, beta))
        return cls(size, 1 - b, b)

    def error(self, alpha: float, beta: float) -> float:
        """tr (A^T A)^+ V for V = alpha I + beta 1 1^T; infinite where V is not supported."""
        if self.level == 0 and self.size > 1:
            return math.inf if alpha > 0 else beta / self.total**2
        return float(_error(self.size, self.level, self.total, alpha, beta))

    def operator(self) -> LinearOperator:
        """As a matrix that is never built out."""
        if self.total == 0:
            return Identity(self.size)
        return Total(self.size) if self.level == 0 else LevelsAndTotal(self.size, self.level, self.total)


def _error(n: int, a: Any, b: Any, alpha: float, beta: float) -> Any:
    return (n - 1) * alpha / a**2 + (alpha + n * beta) / (a**2 + n * b**2)


def _least(error: Any) -> float:
    """The argument in [0, 1) of the least value: the best of a grid, then its neighbourhood."""
    values = error(_GRID)
    k = int(np.argmin(values))
    low, high = _GRID[max(k - 1, 0)], _GRID[min(k + 1, len(_GRID) - 1)]
    found = scipy.optimize.minimize_scalar(error, bounds=(low, high), method="bounded", options={"xatol": 1e-10})
    return float(found.x) if found.fun < values[k] else float(_GRID[k])
