"""Errors of hybrid means, in closed form: which group does better, by how much, and from how many people on.

n people hold numbers in a range of width m. A share c of them opted in: the curator adds noise of variance s_T to the
mean of their numbers. The others are clients, who each add noise of variance s_L to their number. The numbers of the
two groups have means mu_T, mu_L and variances v_T, v_L; mu = c mu_T + (1 - c) mu_L. Errors are mean squared distances
from the exact mean of all n people.

Reference: [Avent 2023, sec. 2.3]. Differs from it: corrects misprints in the error of the optimum (Thm 2.3.20), in the
critical number of people (Lemma 2.3.8) and in the region where privacy weights win (sec. 2.3.4.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from hush.core.errors import DataError
from hush.core.validation import check_number
from hush.privacy.conversions import gaussian_epsilon, gaussian_mu


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanError:
    """A mean squared error in three parts: sampling of people, noise, and bias from groups that differ."""

    sampling: float = 0.0
    privacy: float = 0.0
    bias: float = 0.0

    @property
    def total(self) -> float:
        return self.sampling + self.privacy + self.bias


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanSetting:
    """Two groups, their numbers and the variances of their noise.

    >>> setting = MeanSetting.laplace(people=10_000, share=0.05, epsilon=1.0, variance=1 / 12)
    >>> round(setting.gain(setting.best_weight), 3), round(setting.gain(setting.privacy_weight), 3)
    (1.871, 1.08)
    """

    people: float
    share: float
    curator_noise: float  # s_T
    client_noise: float  # s_L
    variance: float  # v_T
    client_variance: float | None = None  # v_L; None if equal
    mean: float = 0.0  # mu_T
    client_mean: float | None = None  # mu_L; None if equal

    def __post_init__(self) -> None:
        check_number(DataError, "share", self.share, above=0, below=1, hint=", since both groups are needed")
        if not self.people * self.share >= 1:
            raise DataError(f"people={self.people!r}: a share of {self.share:g} of them is less than one person")
        noises = (self.curator_noise, self.client_noise)
        if not all(math.isfinite(noise) and noise >= 0 for noise in noises) or self.variance < 0:
            raise DataError("variances of noise and numbers: expected finite numbers of at least 0")

    @classmethod
    def laplace(
        cls, *, people: float, share: float, epsilon: float, variance: float, width: float = 1.0
    ) -> MeanSetting:
        """Laplace noise of one epsilon for both groups: s_T = 2 m^2/(c n eps)^2 and s_L = 2 m^2/eps^2."""
        check_number(DataError, "epsilon", epsilon, above=0)
        return cls._with_noise(2 * (width / epsilon) ** 2, people, share, variance)

    @classmethod
    def gaussian(
        cls,
        *,
        people: float,
        share: float,
        epsilon: float,
        delta: float,
        variance: float,
        width: float = 1.0,
        exact: bool = True,
    ) -> MeanSetting:
        """Gaussian noise of one epsilon and delta for both groups, calibrated exactly or by the classic formula."""
        noise = (width * gaussian_scale(epsilon, delta, exact=exact)) ** 2
        return cls._with_noise(noise, people, share, variance)

    @classmethod
    def _with_noise(cls, noise: float, people: float, share: float, variance: float) -> MeanSetting:
        """The same noise variance for the curator's sum as for the number of each client."""
        curator = noise / (share * people) ** 2
        return cls(people=people, share=share, curator_noise=curator, client_noise=noise, variance=variance)

    @property
    def v_l(self) -> float:
        return self.variance if self.client_variance is None else self.client_variance

    @property
    def mu_l(self) -> float:
        return self.mean if self.client_mean is None else self.client_mean

    @property
    def mu(self) -> float:
        return self.share * self.mean + (1 - self.share) * self.mu_l

    @property
    def curator_error(self) -> MeanError:
        """The error of the mean of opt-in people, with the curator's noise."""
        return self.error(1.0)

    @property
    def everybody_error(self) -> MeanError:
        """The error if everybody were a client, s_L/n: the fair baseline of clients, since it needs no more trust."""
        return MeanError(privacy=self.client_noise / self.people)

    @property
    def client_error(self) -> MeanError:
        """The error of the mean of the clients alone; always above `everybody_error`."""
        return self.error(0.0)

    def error(self, weight: float) -> MeanError:
        """The error of w times the curator's mean plus 1 - w times the clients'.

        (w - c)^2 (v_T/(cn) + v_L/((1-c)n)) + w^2 s_T + (1 - w)^2 s_L/((1-c)n) + (w mu_T + (1 - w) mu_L - mu)^2
        """
        n, c, w = self.people, self.share, weight
        return MeanError(
            sampling=(w - c) ** 2 * (self.variance / (c * n) + self.v_l / ((1 - c) * n)),
            privacy=w**2 * self.curator_noise + (1 - w) ** 2 * self.client_noise / ((1 - c) * n),
            bias=(w * self.mean + (1 - w) * self.mu_l - self.mu) ** 2,
        )

    @property
    def best_weight(self) -> float:
        """The weight of least error, for known variances and means."""
        n, c, s_t, s_l, v_t, v_l = (
            self.people, self.share, self.curator_noise, self.client_noise, self.variance, self.v_l
        )  # fmt: skip
        gap = self.mu_l - self.mean
        above = c * (s_l + c * v_l + (1 - c) * (n * (self.mu_l - self.mu) * gap + v_t))
        return above / (c * s_l + (1 - c) * c * n * (gap**2 + s_t) + c * v_l + (1 - c) * v_t)

    @property
    def homogeneous_weight(self) -> float:
        """The best weight if clients were like opt-in people, which needs no knowledge of clients."""
        return replace(self, client_variance=None, client_mean=None).best_weight

    @property
    def privacy_weight(self) -> float:
        """The weight by noise alone, s_L/(s_L + (1 - c) n s_T), which needs no variances."""
        return self.client_noise / (self.client_noise + (1 - self.share) * self.people * self.curator_noise)

    @property
    def size_weight(self) -> float:
        """The weight by the number of people, c."""
        return self.share

    def gain(self, weight: float) -> float:
        """The error of the better baseline, curator alone or everybody as a client, over that of this weight."""
        return min(self.curator_error.total, self.everybody_error.total) / self.error(weight).total

    def gain_over_worse(self, weight: float) -> float:
        """The error of the worse baseline over that of this weight."""
        return max(self.curator_error.total, self.everybody_error.total) / self.error(weight).total

    @property
    def curator_wins(self) -> bool:
        """Whether the curator alone does at least as well as everybody as a client."""
        return self.curator_error.total <= self.everybody_error.total

    @property
    def critical_share(self) -> float:
        """The share of opt-in people above which the curator can win at all."""
        s, v_t, v_l = self.client_noise, self.variance, self.v_l
        if v_t == v_l:
            return v_t / (v_t + s)
        return (2 * v_t - v_l + s - math.sqrt((v_l - s) ** 2 + 4 * s * v_t)) / (2 * (v_t - v_l))

    @property
    def critical_people(self) -> float:
        """The number of people up to which the curator wins, at fixed s_T."""
        c, v_t, v_l = self.share, self.variance, self.v_l
        above = c * self.client_noise - (1 - c) * ((1 - c) * v_t + c * v_l)
        return above / (c * ((self.mean - self.mu) ** 2 + self.curator_noise))


def gaussian_scale(epsilon: float, delta: float, *, exact: bool = True) -> float:
    """The standard deviation of Gaussian noise at sensitivity 1: exact, or sqrt(2 ln(1.25/delta))/epsilon.

    The classic formula holds for epsilon and delta below 1 only.
    """
    if exact:
        return 1 / gaussian_mu(epsilon, delta)
    if not (0 < epsilon <= 1 and 0 < delta < 1):
        raise DataError(f"epsilon={epsilon:g}, delta={delta:g}: the classic formula holds below 1 only; use exact=True")
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def client_noise(
    epsilon: float,
    *,
    mechanism: Literal["laplace", "duchi", "piecewise"],
    variance: float,
    width: float = 1.0,
    offset: float = 0.0,
) -> float:
    """The mean variance of a client's noise, s_L; for Duchi's and the piecewise law it depends on the numbers.

    `offset` is the distance of their mean from the middle of the range. With h = m/2, C = (e^eps + 1)/(e^eps - 1),
    z = e^(eps/2) and x2 = v + offset^2:

        laplace 2 m^2/eps^2,  duchi C^2 h^2 - x2,  piecewise x2/(z - 1) + h^2 (z + 3)/(3 (z - 1)^2).

    Reference: [Duchi, Jordan and Wainwright 2018]; [Wang et al. 2019, Lemma 1].
    """
    half, second = width / 2, variance + offset**2
    if mechanism == "laplace":
        return 2 * (width / epsilon) ** 2
    if mechanism == "duchi":
        return (half / math.tanh(epsilon / 2)) ** 2 - second
    z = math.exp(epsilon / 2)
    return second / (z - 1) + half**2 * (z + 3) / (3 * (z - 1) ** 2)


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
    """The epsilon of each group against someone who sees only the published mean, if both groups add Gaussian noise.

    `hybrid_mean` does so if clients answer a question by Gaussian noise. The weight must not depend on the reports:
    take "privacy", "size" or a number. Gaussian noise is calibrated to (epsilon, delta), and the noise of each group
    also protects the other: with weight w of opt-in people, the noise of the published mean has the variance

        s'^2 = w^2 s_T^2 + ((1 - w)/((1 - c) n))^2 |clients outside the coalition| s_L^2.

    Clients know their own noise, so the noise of the largest coalition of clients does not count. A person who opted in
    moves the mean by at most w m/(c n), a client by at most (1 - w) m/((1 - c) n), which gives each group its epsilon.

    `coalition` is the share of clients who share their own noise with each other. Without `exact`, noise and epsilon
    follow the classic formula K D/s with K = sqrt(2 ln(1.25/delta)).

    Differs from [Avent 2023, Thm 2.4.2]: the theorem takes the smaller of the two moves, which is unsound: for w > c it
    states the epsilon of clients as if it held for everybody.

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
