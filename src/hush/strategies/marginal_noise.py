"""What noisy marginals say together: the residual strategy that carries exactly the same information.

Parts measure some attributes each, every attribute with the same factor Q_i wherever it is measured. A part over b with
noise of variance s_b^2, brought down to A by least squares totals, is the residual of A with noise of variance
s_b^2 prod_{i in b \\ A} lambda_i, where lambda_i = 1^T (Q_i^T Q_i)^{-1} 1 is n_i for plain levels; residuals of
different sets from one part are uncorrelated. So the best linear unbiased estimate of every residual is the average
over the parts b that contain A, with weights

    1 / (s_b^2 prod_{b \\ A} lambda_i),    and    1 / sigma_A^2 = sum_{b >= A} 1 / (s_b^2 prod_{b \\ A} lambda_i),

which is the pseudo-inverse of the whole strategy without any object of 2^d or of the size of the domain.

Reference: [HDMM, sec. 3.5, Thms 5-8]. Differs from [HDMM]: residuals in place of the printed generalised inverse, which
is wrong for the Moore-Penrose inverse of X(u); and factors other than the identity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from hush.domain import Clique, Domain
from hush.strategies.basis import Basis, PlainBasis
from hush.strategies.closure import Closure
from hush.strategies.coefficients import privacy_coefficients
from hush.strategies.residual import ResidualStrategy
from hush.strategies.tilted_basis import TiltedBasis

Floats = np.ndarray[Any, np.dtype[np.float64]]


def marginal_noise(
    domain: Domain, marginals: Iterable[tuple[Clique, float]], bases: Mapping[str, Basis] | None = None
) -> ResidualStrategy:
    """The residual strategy equivalent to noisy marginals, each with the variance of its noise.

    `bases` are those of attributes that are not measured level by level.

    >>> together = marginal_noise(Domain({"a": 2, "b": 3}), [(("a", "b"), 1.0), (("a",), 2.0)])
    >>> round(together.sigma_squared_of(("a",)), 3)  # 1 / (1/3 + 1/2)
    1.2
    """
    listed = list(marginals)
    inside = {name for clique, _ in listed for name in clique}
    own = {name: PlainBasis(domain[name]) for name in inside} | dict(bases or {})
    closure = Closure.of(domain, [clique for clique, _ in listed])
    precision = np.zeros(len(closure))
    for clique, variance in listed:
        cells = np.array([1 / variance])
        for name in domain.clique(clique):  # bit i of a subset's number is attribute i
            cells = np.concatenate([cells / total_variance(own[name]), cells])
        precision[closure.subsets(clique)] += cells
    used = tuple(own[name] if name in inside else None for name in domain)
    cost = float(np.sum(privacy_coefficients(closure, used) * precision))
    return ResidualStrategy(domain, used, closure, 1 / precision, Fraction(cost) * Fraction(1, 2))


def total_variance(basis: Basis) -> float:
    """lambda: the variance of the total from an attribute's answers, per unit of noise."""
    return basis.total_variance_factor if isinstance(basis, TiltedBasis) else float(basis.size)
