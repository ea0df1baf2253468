"""Evidence: the noisy answers of a strategy as measurements that a model can be fitted to.

A residual strategy measures M_A v / L_A for sets A of attributes, a linear one products of factors; both with
independent noise of one deviation per product. As measurements they keep all that is known of the noise, so that a
model fitted to them is the maximum likelihood one; tables reconstructed from them would not.
"""

from __future__ import annotations

import numpy as np

from hush.graphical.measurement import Measurement, Noise
from hush.inference.linear_estimates import LinearAnswers
from hush.inference.residual_reconstruction import ResidualAnswers
from hush.linops import Kronecker, LinearOperator
from hush.strategies.axis_strategy import Factor, FactorOperator, IdentityFactor
from hush.strategies.noise_kind import NoiseKind


def residual_evidence(answers: ResidualAnswers) -> list[Measurement]:
    """One measurement per set that was measured, of its residual alone."""
    strategy = answers.strategy
    made = []
    for index, clique in enumerate(strategy.closure.cliques):
        if not answers.filled[index]:
            continue
        bases = strategy.clique_bases(clique)
        scale = float(np.prod([float(basis.scale) for basis in bases]))
        stddev = float(np.sqrt(strategy.sigma_squared[index]))
        made.append(Measurement(clique, answers[clique].ravel() / scale, stddev, _product(bases)))
    return made


def linear_evidence(answers: LinearAnswers) -> list[Measurement]:
    """One measurement per part that was measured."""
    noise: Noise = "laplace" if answers.strategy.noise is NoiseKind.LAPLACE else "gaussian"
    made = []
    for part in answers.filled:
        values, stddev = answers.of(part).ravel(), float(np.sqrt(part.variance))
        made.append(Measurement(part.clique, values, stddev, _product(part.factors), noise))
    return made


def _product(factors: tuple[Factor, ...]) -> LinearOperator | None:
    """The product of factors; None where every count is measured by itself."""
    if all(isinstance(factor, IdentityFactor) and factor.scale == 1 for factor in factors):
        return None
    return Kronecker([FactorOperator(factor) for factor in factors])
