"""Amplification: what a mean with Gaussian noise in both groups promises against someone who sees nothing but the mean.

For comparing designs: `hybrid_mean` adds other noise and promises nothing beyond its epsilon. With Gaussian noise, that
of one group protects the other, too: with weight w of opt-in people, the joint noise of the published mean has the
variance

    s'^2 = w^2 s_T^2 + ((1 - w)/((1 - c) n))^2 |clients outside the coalition| s_L^2.

Clients know their own noise, so the largest coalition of clients is left out. A person who opted in moves the mean by
w m/(c n), a client by (1 - w) m/((1 - c) n). Each group's epsilon follows from its own; the joint promise is that of
the larger.

Differs from [Avent 2023, Thm 2.4.2]: the theorem takes the smaller of the two moves, which is unsound: for w > c it
states the promise to clients as if it held for everybody.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import DataError
from hush.hybrid.mean_errors import gaussian_scale
from hush.privacy.conversions import gaussian_epsilon


@dataclass(frozen=True, slots=True, kw_only=True)
class AmplifiedEpsilon:
    """The epsilon of each group against someone who sees only the mean; never above what was promised anyway."""

    opt_in: float
    clients: float

    @property
    def joint(self) -> float:
        """The epsilon that holds for everybody."""
        return max(self.opt_in, self.clients)


def amplified_epsilon(
    *,
    people: float,
    share: float,
    weight: float,
    epsilon: float,
    delta: float,
    coalition: float = 0.0,
    exact: bool = True,
) -> AmplifiedEpsilon:
    """The epsilon of each group at the same delta, for Gaussian noise calibrated to (epsilon, delta) in both groups.

    `coalition` is the share of clients who pool what they know of their own noise. With `exact` off, noise and epsilon
    follow the classic formula K D/s with K = sqrt(2 ln(1.25/delta)).

    >>> found = amplified_epsilon(people=252_540, share=0.001, weight=0.2011, epsilon=1.0, delta=1e-7, exact=False)
    >>> round(found.opt_in, 3), round(found.clients, 4)
    (0.448, 0.0018)
    """
    if not (0 < share < 1 and 0 <= weight <= 1 and 0 <= coalition <= 1):
        raise DataError(
            f"share={share!r}, weight={weight!r}, coalition={coalition!r}: expected a share between 0 and 1, and "
            "weight and coalition from 0 to 1"
        )
    scale = gaussian_scale(epsilon, delta, exact=exact)  # for numbers in a range of width 1
    opted, others = share * people, (1 - share) * people
    own, theirs = weight / opted, (1 - weight) / others
    variance = (own * scale) ** 2 + theirs**2 * others * (1 - coalition) * scale**2
    found = []
    for move, alone in ((own, own * scale), (theirs, theirs * scale)):
        spread = math.sqrt(max(variance, alone**2))  # a person's own group noise is there in any case
        if move == 0:
            found.append(0.0)
        elif exact:
            found.append(min(epsilon, gaussian_epsilon(move / spread, delta)))
        else:
            found.append(min(epsilon, math.sqrt(2 * math.log(1.25 / delta)) * move / spread))
    return AmplifiedEpsilon(opt_in=found[0], clients=found[1])


def laplace_sum_log_density(x: Floats, terms: int, scale: float = 1.0) -> Floats:
    """The logarithm of the density of a sum of n Laplace numbers.

    2^(1/2 - n)/(sqrt(pi) b^(n + 1/2) Gamma(n)) |x|^(n - 1/2) K_(n - 1/2)(|x|/b)
    """
    from scipy.special import gammaln, kve

    y = np.abs(np.asarray(x, dtype=np.float64)) / scale
    order = terms - 0.5
    log_bessel = np.log(kve(order, y)) - y
    constant = (0.5 - terms) * math.log(2) - 0.5 * math.log(math.pi) - math.log(scale) - gammaln(terms)
    return np.asarray(constant + order * np.log(y) + log_bessel)


def laplace_sum_loss(terms: int, epsilon: float, reach: float) -> float:
    """The privacy loss, `reach` scales away, of a number that moves by 1 under n Laplace noises of scale 1/epsilon.

    It tends to epsilon as the distance grows, however many people add noise: Laplace noise gives no amplification.
    """
    scale = 1 / epsilon
    x = np.array([reach * scale, reach * scale + 1.0])
    near, far = laplace_sum_log_density(x, terms, scale)
    return float(near - far)
