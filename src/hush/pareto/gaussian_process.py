"""Gaussian process regression: a Matern 5/2 kernel with a length scale for each feature, and estimated noise.

k(x, x') = s^2 (1 + sqrt5 r + 5 r^2 / 3) exp(-sqrt5 r), r^2 = sum_j ((x_j - x'_j) / l_j)^2, with a constant mean. The
hyperparameters maximise the marginal likelihood times a weak prior, by L-BFGS-B with exact gradients, O(n^3) per step.

Reference: [Rasmussen and Williams 2006, sec. 2.2, 4.2 and 5.4].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats

ROOT5 = math.sqrt(5.0)
# Bounds, for values scaled to variance 1; the floor on the variance keeps a few equal values from making it constant
LEAST_LENGTH, MOST_LENGTH = 0.02, 20.0
LEAST_VARIANCE, MOST_VARIANCE = 0.5, 20.0
LEAST_NOISE, MOST_NOISE = 1e-8, 1.0
# Means and standard deviations of normal priors on logarithms
PRIOR_LENGTH, PRIOR_LENGTH_SPREAD = math.log(0.6), 1.0
PRIOR_VARIANCE, PRIOR_VARIANCE_SPREAD = 0.0, 2.0
PRIOR_NOISE, PRIOR_NOISE_SPREAD = math.log(0.01), 2.0


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Length scales, and the variances of the function and of the noise, for values scaled to variance 1."""

    lengths: Floats  # (d,)
    variance: float
    noise: float

    @classmethod
    def from_logs(cls, logs: Floats) -> Hyperparameters:
        """From the logarithms of lengths, variance and noise, in one vector."""
        values = np.exp(logs)
        return cls(values[:-2], float(values[-2]), float(values[-1]))


class GaussianProcess:
    """A fitted process: mean and standard deviation of the function at any point.

    >>> x = np.linspace(0, 1, 9)[:, None]
    >>> process = GaussianProcess.fit(x, np.sin(5 * x[:, 0]), noiseless=True)
    >>> mean, deviation = process.predict(np.array([[0.55]]))
    >>> bool(abs(mean[0] - np.sin(2.75)) < 0.02), bool(deviation[0] < 0.1)
    (True, True)
    """

    def __init__(
        self,
        features: Floats,
        values: Floats,
        chosen: Hyperparameters,
        noise: Floats | None = None,
        least_scale: float = 0.0,
    ) -> None:
        self.features = features  # (n, d)
        self.values = values  # (n,)
        self.relative_noise = np.ones(len(values)) if noise is None else noise  # (n,) of each value
        self.chosen = chosen
        self.least_scale = least_scale
        self.shift, self.scale = _scaling(values, least_scale)
        scaled = (values - self.shift) / self.scale
        covariance = _kernel(features, features, chosen) + np.diag(chosen.noise * self.relative_noise)
        self._factor = _cholesky(covariance)
        self._weights = _solve(self._factor, _solve(self._factor, scaled), transposed=True)

    @classmethod
    def fit(
        cls,
        features: Floats,  # (n, d)
        values: Floats,  # (n,)
        *,
        noise: Floats | None = None,  # (n,) relative noise variances, by default 1
        noiseless: bool = False,
        least_scale: float = 0.0,  # a lower bound on the standard deviation of the function
    ) -> GaussianProcess:
        """The process whose hyperparameters explain the values best."""
        from scipy.optimize import minimize

        relative = np.ones(len(values)) if noise is None else noise
        shift, scale = _scaling(values, least_scale)
        scaled = (values - shift) / scale
        squares = (features[:, None, :] - features[None, :, :]) ** 2
        lengths, most_noise = features.shape[1], LEAST_NOISE if noiseless else MOST_NOISE
        low = np.log([*[LEAST_LENGTH] * lengths, LEAST_VARIANCE, LEAST_NOISE])
        high = np.log([*[MOST_LENGTH] * lengths, MOST_VARIANCE, most_noise])
        fitted = minimize(
            lambda logs: _loss(logs, squares, scaled, relative),
            np.clip(np.log([*[0.5] * lengths, 1.0, 0.01]), low, high),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(low, high, strict=True)),
            options={"maxiter": 30},
        )
        return cls(features, values, Hyperparameters.from_logs(fitted.x), relative, least_scale)

    @property
    def noise(self) -> float:
        """The variance of the noise of a value whose relative noise is 1."""
        return self.chosen.noise * self.scale**2

    def predict(self, points: Floats) -> tuple[Floats, Floats]:
        """The mean and the standard deviation of the function, without noise, at (m, d) points."""
        cross = _kernel(self.features, points, self.chosen)
        half = _solve(self._factor, cross)
        variance = np.maximum(self.chosen.variance - (half**2).sum(axis=0), 1e-12)
        return self.shift + self.scale * (cross.T @ self._weights), self.scale * np.sqrt(variance)

    def believing(self, point: Floats, value: float) -> GaussianProcess:
        """The process as if `value` had been observed at one more point, with the same hyperparameters."""
        return GaussianProcess(
            np.vstack([self.features, point]),
            np.append(self.values, value),
            self.chosen,
            np.append(self.relative_noise, 1.0),
            self.least_scale,
        )


def _scaling(values: Floats, least: float = 0.0) -> tuple[float, float]:
    spread = max(float(values.std()), least)
    return float(values.mean()), spread if spread > 1e-12 else 1.0


def _kernel(first: Floats, second: Floats, chosen: Hyperparameters) -> Floats:
    """(n, d) and (m, d) -> (n, m)."""
    a, b = first / chosen.lengths, second / chosen.lengths
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    r = np.sqrt(np.maximum(squares, 0.0))
    return np.asarray(chosen.variance * ((1 + ROOT5 * r + 5 * r**2 / 3) * np.exp(-ROOT5 * r)))


def _loss(logs: Floats, squares: Floats, values: Floats, relative: Floats) -> tuple[float, Floats]:
    """Minus the log of marginal likelihood times prior, and its gradient in the logarithms."""
    # the covariance, its Cholesky factor and inverse
    chosen = Hyperparameters.from_logs(logs)
    scaled = squares / chosen.lengths**2  # (n, n, d)
    r = np.sqrt(scaled.sum(axis=2))
    decay = np.exp(-ROOT5 * r)
    function = chosen.variance * (1 + ROOT5 * r + 5 * r**2 / 3) * decay
    factor = _cholesky(function + np.diag(chosen.noise * relative))
    inverse_factor = _solve(factor, np.eye(len(values)))
    inverse = inverse_factor.T @ inverse_factor
    weights = inverse @ values
    # the loss: y^T K^-1 y / 2 + log det(K) / 2, and the prior in units of its standard deviations
    lengths = len(chosen.lengths)
    spread = np.array([PRIOR_LENGTH_SPREAD] * lengths + [PRIOR_VARIANCE_SPREAD, PRIOR_NOISE_SPREAD])
    away = (logs - np.array([PRIOR_LENGTH] * lengths + [PRIOR_VARIANCE, PRIOR_NOISE])) / spread
    loss = 0.5 * float(values @ weights) + float(np.log(np.diag(factor)).sum()) + 0.5 * float(away @ away)
    # the gradient: d log p / dK = pull / 2, and dk / d log l_j = slope (x_j - x'_j)^2 / l_j^2
    pull = np.outer(weights, weights) - inverse
    slope = chosen.variance * (5 / 3) * (1 + ROOT5 * r) * decay
    by_length = -0.5 * np.einsum("ij,ijk->k", pull * slope, scaled)
    by_variance = -0.5 * float((pull * function).sum())
    by_noise = -0.5 * chosen.noise * float((np.diag(pull) * relative).sum())
    return loss, np.concatenate([by_length, [by_variance, by_noise]]) + away / spread


def _solve(factor: Floats, right: Floats, *, transposed: bool = False) -> Floats:
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(factor, right, lower=True, trans=int(transposed), check_finite=False))


def _cholesky(matrix: Floats) -> Floats:
    """The lower Cholesky factor, with just enough added to the diagonal to make up for rounding."""
    jitter = 1e-10
    while True:
        try:
            return np.asarray(np.linalg.cholesky(matrix + jitter * np.eye(len(matrix))))
        except np.linalg.LinAlgError:
            jitter *= 100
            if jitter > 1:
                raise
