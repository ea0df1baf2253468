"""Gaussian process regression: a Matern 5/2 kernel with a length for each feature, and noise that is estimated.

k(x, x') = s^2 (1 + sqrt5 r + 5 r^2 / 3) exp(-sqrt5 r), r^2 = sum_j ((x_j - x'_j) / l_j)^2. The mean is a constant. The
hyperparameters maximise the marginal likelihood times a weak prior, by L-BFGS-B with exact gradients, O(n^3) a step.

Reference: [Rasmussen and Williams 2006, sec. 2.2, 4.2 and 5.4].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats

ROOT5 = math.sqrt(5.0)
LEAST_LENGTH, MOST_LENGTH = 0.02, 20.0
LEAST_VARIANCE = 0.5  # of the function, for values scaled to 1: few values that agree do not make it certain
LEAST_NOISE = 1e-8  # relative to the variance of the values, which are scaled to 1
STEPS = 30
PRIOR_LENGTH, PRIOR_SPREAD = math.log(0.6), 1.0  # of log lengths
PRIOR_NOISE, NOISE_SPREAD = math.log(0.01), 2.0  # of log noise variances


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Lengths of the features, the variance of the function and that of the noise, all for values scaled to 1."""

    lengths: Floats  # (d,)
    variance: float
    noise: float

    @classmethod
    def start(cls, features: int) -> Hyperparameters:
        """Where a fit begins that follows no other."""
        return cls(np.full(features, 0.5), 1.0, 0.01)

    @property
    def logs(self) -> Floats:
        """All of them as one vector of logarithms."""
        return np.asarray(np.log(np.concatenate([self.lengths, [self.variance, self.noise]])))

    @classmethod
    def from_logs(cls, logs: Floats) -> Hyperparameters:
        """The hyperparameters of such a vector."""
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
        self.relative_noise = np.ones(len(values)) if noise is None else noise  # (n,) noise variance of each value
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
        start: Hyperparameters | None = None,
        noise: Floats | None = None,  # (n,) relative noise variances, 1 where not given
        noiseless: bool = False,
        steps: int = STEPS,
        least_scale: float = 0.0,  # how much the function may vary at least, whatever was seen
    ) -> GaussianProcess:
        """The process whose hyperparameters explain the values best; `start` is where the search for them begins."""
        from scipy.optimize import minimize

        first = Hyperparameters.start(features.shape[1]) if start is None else start
        relative = np.ones(len(values)) if noise is None else noise
        shift, scale = _scaling(values, least_scale)
        scaled = (values - shift) / scale
        squares = (features[:, None, :] - features[None, :, :]) ** 2
        low = [*[math.log(LEAST_LENGTH)] * features.shape[1], math.log(LEAST_VARIANCE), math.log(LEAST_NOISE)]
        high = [*[math.log(MOST_LENGTH)] * features.shape[1], math.log(20.0), math.log(LEAST_NOISE if noiseless else 1)]
        begin = np.clip(first.logs, low, high)
        if noiseless:
            begin[-1] = math.log(LEAST_NOISE)
        found = minimize(
            lambda logs: _loss(logs, squares, scaled, relative),
            begin,
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(low, high, strict=True)),
            options={"maxiter": steps},
        )
        return cls(features, values, Hyperparameters.from_logs(found.x), relative, least_scale)

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
        """The process as if a value had been seen at one more point, with the same hyperparameters."""
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


def _correlation(r: Floats) -> Floats:
    return np.asarray((1 + ROOT5 * r + 5 * r**2 / 3) * np.exp(-ROOT5 * r))


def _kernel(first: Floats, second: Floats, chosen: Hyperparameters) -> Floats:
    """(n, d) and (m, d) -> (n, m)."""
    a, b = first / chosen.lengths, second / chosen.lengths
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return chosen.variance * _correlation(np.sqrt(np.maximum(squares, 0.0)))


def _loss(logs: Floats, squares: Floats, values: Floats, relative: Floats) -> tuple[float, Floats]:
    """Minus the log of marginal likelihood times prior, and its gradient."""
    chosen = Hyperparameters.from_logs(logs)
    scaled = squares / chosen.lengths**2  # (n, n, d)
    r = np.sqrt(scaled.sum(axis=2))
    decay = np.exp(-ROOT5 * r)
    function = chosen.variance * (1 + ROOT5 * r + 5 * r**2 / 3) * decay
    factor = _cholesky(function + np.diag(chosen.noise * relative))
    inverse_factor = _solve(factor, np.eye(len(values)))
    inverse = inverse_factor.T @ inverse_factor
    weights = inverse @ values
    spread = np.array([PRIOR_SPREAD] * len(chosen.lengths) + [2.0, NOISE_SPREAD])
    away = (logs - np.array([PRIOR_LENGTH] * len(chosen.lengths) + [0.0, PRIOR_NOISE])) / spread
    loss = 0.5 * float(values @ weights) + float(np.log(np.diag(factor)).sum()) + 0.5 * float(away @ away)
    pull = np.outer(weights, weights) - inverse  # d log p / dK = pull / 2
    slope = chosen.variance * (5 / 3) * (1 + ROOT5 * r) * decay
    by_length = -0.5 * np.einsum("ij,ijk->k", pull * slope, scaled)
    by_variance = -0.5 * float((pull * function).sum())
    by_noise = -0.5 * chosen.noise * float((np.diag(pull) * relative).sum())
    return loss, np.concatenate([by_length, [by_variance, by_noise]]) + away / spread


def _solve(factor: Floats, right: Floats, *, transposed: bool = False) -> Floats:
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(factor, right, lower=True, trans=int(transposed), check_finite=False))


def _cholesky(matrix: Floats) -> Floats:
    """The lower factor; a little is added to the diagonal where rounding made the matrix indefinite."""
    jitter = 1e-10
    while True:
        try:
            return np.asarray(np.linalg.cholesky(matrix + jitter * np.eye(len(matrix))))
        except np.linalg.LinAlgError:
            jitter *= 100
            if jitter > 1:
                raise
