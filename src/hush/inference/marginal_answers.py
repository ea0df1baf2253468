"""Residual answers from noisy marginals: the best linear unbiased combination of all of them.

See `strategies.marginal_noise` for the weights. Each marginal is collapsed once, in O(k cells), into its residuals and
added to theirs; no object of the size of the domain is made.
"""

from __future__ import annotations

import numpy as np

from hush.inference.answers import ResidualAnswers
from hush.inference.linear_answers import LinearAnswers
from hush.inference.transform import collapse, parts
from hush.strategies.marginal_noise import marginal_noise


def combine_marginals(answers: LinearAnswers) -> ResidualAnswers:
    """Residual answers, in floats, of every set within some measured marginal."""
    domain, measured = answers.strategy.domain, answers.filled
    strategy = marginal_noise(domain, [(part.clique, part.variance) for part in measured])
    combined = ResidualAnswers(strategy, combined=True)
    for part in measured:
        bases = strategy.clique_bases(part.clique)
        own = collapse(np.asarray(answers.of(part)), bases)
        positions = strategy.closure.subsets(part.clique)
        for mask, piece in parts(len(bases)):
            index = positions[mask]
            inside = [basis for axis, basis in enumerate(bases) if mask >> axis & 1]
            # the sum is n_{b \\ A} times the mean, and its precision 1 / (s^2 n_{b \\ A}): the two cancel
            weight = strategy.sigma_squared[index] / part.variance * float(np.prod([basis.scale for basis in inside]))
            start, stop = combined.starts[index], combined.starts[index + 1]
            combined.flat[start:stop] += weight * np.asarray(own[piece]).ravel()
            combined.filled[index] = True
    return combined
