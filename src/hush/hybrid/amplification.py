"""Amplification: epsilon against someone who sees only the published mean, with Gaussian noise in both groups.

For comparing designs: `hybrid_mean` adds other noise, and its promise is its epsilon alone. With Gaussian noise, the
noise of each group also protects the other: with weight w of opt-in people, the noise of the published mean has the
variance

    s'^2 = w^2 s_T^2 + ((1 - w)/((1 - c) n))^2 |clients outside the coalition| s_L^2.

Clients know their own noise, so the noise of the largest coalition of clients does not count. A person who opted in
moves the mean by at most w m/(c n), a client by at most (1 - w) m/((1 - c) n), which gives each group its epsilon. The
larger of the two holds for everybody.

Differs from [Avent 2023, Thm 2.4.2]: the theorem takes the smaller of the two moves, which is unsound: for w > c it
states the epsilon of clients as if it held for everybody.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hush.core.errors import DataError
from hush.core.validation import check_number
from hush.hybrid.mean_errors import gaussian_scale
from hush.privacy.conversions import gaussian_epsilon


@dataclass(frozen=True, slots=True, kw_only=True)
class AmplifiedEpsilon:
    """The epsilon of each group against someone who sees only the published mean; at most the promised epsilon."""

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

    `coalition` is the share of clients who share their own noise with each other. Without `exact`, noise and epsilon
    follow the classic formula K D/s with K = sqrt(2 ln(1.25/delta)).

    >>> found = amplified_epsilon(people=252_540, share=0.001, weight=0.2011, epsilon=1.0, delta=1e-7, exact=False)
    >>> round(found.opt_in, 3), round(found.clients, 4)
    (0.448, 0.0018)
    """
    check_number(DataError, "share", share, above=0, below=1)
    check_number(DataError, "weight", weight, least=0, most=1)
    check_number(DataError, "coalition", coalition, least=0, most=1)
    scale = gaussian_scale(epsilon, delta, exact=exact)  # for numbers in a range of width 1
    opted, others = share * people, (1 - share) * people
    opt_in_move, client_move = weight / opted, (1 - weight) / others
    variance = (opt_in_move * scale) ** 2 + client_move**2 * others * (1 - coalition) * scale**2
    epsilons = []
    for move in (opt_in_move, client_move):
        stddev = math.sqrt(max(variance, (move * scale) ** 2))  # the noise on the person's own number is always there
        if move == 0:
            epsilons.append(0.0)
        elif exact:
            epsilons.append(min(epsilon, gaussian_epsilon(move / stddev, delta)))
        else:
            epsilons.append(min(epsilon, math.sqrt(2 * math.log(1.25 / delta)) * move / stddev))
    return AmplifiedEpsilon(opt_in=epsilons[0], clients=epsilons[1])
