"""Noise split: two noisier copies of measurements with independent noise, to compare estimators by their error.

For y = Q mu + noise of variance sigma^2 and z of the same law, drawn anew, the noises of

    y + t z   and   y - z / t

are uncorrelated, and independent if they are Gaussian. An estimator that sees the first copy alone therefore has an
expected squared distance from the second of its own squared error plus the variance of the second, whatever the
estimator is. So of several estimators, the one that comes nearest to the second copy has the least estimated error, at
noise that is sqrt(1 + t^2) times as large as that of y. Laplace noise is only uncorrelated; the comparison is then
approximate.

Privacy: post-processing of noisy values. z is drawn from a public seed, since nothing depends on its secrecy.
Reference: [Oliveira, Lei and Tibshirani 2021], the coupled bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from hush.core.domain import Domain
from hush.privacy.measurement import Measurement, placed

ADDED_VARIANCE = 0.1  # t^2: fits see nearly the noise of y; the copy that compares them is 3.3 times as noisy


def split_noise(
    domain: Domain, measurements: Iterable[Measurement], seed: int
) -> tuple[list[Measurement], list[Measurement]]:
    """The copies to fit and to compare with.

    >>> noisy = [Measurement(("a",), [40.0, 60.0], stddev=1.0)]
    >>> [[round(copy.stddev, 3) for copy in copies] for copies in split_noise(Domain({"a": 2}), noisy, seed=0)]
    [[1.049], [3.317]]
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    t = math.sqrt(ADDED_VARIANCE)
    fitted: list[Measurement] = []
    compared: list[Measurement] = []
    for measurement in placed(domain, measurements):
        z = generator.normal(0.0, measurement.stddev, measurement.values.shape)
        for copies, moved in ((fitted, t), (compared, -1 / t)):
            values, stddev = measurement.values + moved * z, measurement.stddev * math.hypot(1.0, moved)
            copies.append(Measurement(measurement.clique, values, stddev, measurement.query))
    return fitted, compared
