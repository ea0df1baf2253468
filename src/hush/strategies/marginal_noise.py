"""What noisy marginals say together: the residual strategy that carries exactly the same information.

A marginal over b with noise of variance s_b^2 per cell, summed down to A and taken off its means, is the residual of A
with noise of variance s_b^2 n_{b \\ A}; residuals of different sets from one marginal are uncorrelated. So the best
linear unbiased estimate of every residual is the average over b containing A with weights

    1 / (s_b^2 n_{b \\ A}),    and    1 / sigma_A^2 = sum_{b >= A} 1 / (s_b^2 n_{b \\ A}),

which is the pseudo-inverse M(theta)^+ without any 2^d or domain-size object.

Reference: [HDMM, sec. 3.5, Thms 5-8]. Differs from [HDMM]: residuals in place of the printed generalised inverse, which
is wrong for the Moore-Penrose inverse of X(u).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from hush.domain import Clique, Domain
from hush.strategies.basis import PlainBasis
from hush.strategies.closure import Closure
from hush.strategies.residual import ResidualStrategy

Floats = np.ndarray[Any, np.dtype[np.float64]]


def precisions(domain: Domain, closure: Closure, marginals: Iterable[tuple[Clique, float]]) -> Floats:
    """1 / sigma_A^2 of every set of a closure from marginals with the variance of their noise: (sets,)."""
    total = np.zeros(len(closure))
    for clique, variance in marginals:
        sizes = domain.sizes(domain.clique(clique))
        cells = np.array([1 / variance])
        for size in sizes:  # bit i of a subset's number is attribute i
            cells = np.concatenate([cells / size, cells])
        total[closure.subsets(clique)] += cells
    return total


def marginal_noise(domain: Domain, marginals: Iterable[tuple[Clique, float]]) -> ResidualStrategy:
    """The residual strategy equivalent to noisy marginals, each with the variance of the noise on its cells.

    >>> together = marginal_noise(Domain({"a": 2, "b": 3}), [(("a", "b"), 1.0), (("a",), 2.0)])
    >>> round(together.sigma_squared_of(("a",)), 3)  # 1 / (1/3 + 1/2)
    1.2
    """
    listed = list(marginals)
    closure = Closure.of(domain, [clique for clique, _ in listed])
    sigma_squared = 1 / precisions(domain, closure, listed)
    inside = {name for clique, _ in listed for name in clique}
    bases = tuple(PlainBasis(domain[name]) if name in inside else None for name in domain)
    cost = sum(math.prod(1 - 1 / domain[name] for name in c) / s for c, s in zip(closure, sigma_squared, strict=True))
    return ResidualStrategy(domain, bases, closure, sigma_squared, Fraction(cost) * Fraction(1, 2))
