"""Residual answers from noisy marginals: the best linear unbiased combination of all of them.

See `strategies.marginal_noise` for the weights. The answers of each part are brought down to every subset of its
attributes by one total per axis, in O(k cells), and added to theirs; no object of the size of the domain is made.
"""

from __future__ import annotations

import math

import numpy as np

from hush.arrays import Floats
from hush.inference.linear_estimates import LinearMeasurements, answers_of, measured_parts
from hush.inference.residual_reconstruction import parts
from hush.privacy.measurement import Measurements
from hush.strategies.linear_strategy import marginal_strategy
from hush.strategies.residual_basis import Basis, TiltedBasis
from hush.strategies.residual_strategy import ResidualStrategy, total_variance


def combine_marginals(answers: LinearMeasurements) -> Measurements[ResidualStrategy]:
    """Residual answers, in floats, of every set within some measured part."""
    measured = measured_parts(answers)
    strategy = marginal_strategy(answers.strategy.domain, measured)
    combined = Measurements(strategy, combined=True)
    for part in measured:
        bases = strategy.clique_bases(part.clique)
        extended = _with_totals(answers_of(answers, part), bases)
        positions = strategy.closure.subsets(part.clique)
        for mask, piece in parts(len(bases)):
            index = positions[mask]
            outside = math.prod(total_variance(b) for axis, b in enumerate(bases) if not mask >> axis & 1)
            scale = math.prod(b.scale for axis, b in enumerate(bases) if mask >> axis & 1)
            weight = strategy.sigma_squared[index] / (part.variance * outside) * scale
            start, stop = combined.starts[index], combined.starts[index + 1]
            combined.flat[start:stop] += weight * np.asarray(extended[piece]).ravel()
            combined.filled[index] = True
    return combined


def _with_totals(values: Floats, bases: tuple[Basis, ...]) -> Floats:
    """The answers with one more level per axis, level 0: the total along it, by least squares."""
    for axis, basis in enumerate(bases):
        if isinstance(basis, TiltedBasis):
            total = np.expand_dims(np.tensordot(values, basis.total, axes=(axis, 0)), axis)
        else:
            total = values.sum(axis=axis, keepdims=True)
        values = np.concatenate([total, values], axis=axis)
    return values
