"""Where hybrid means win under Laplace noise: critical numbers of people, and the largest gain.

Reference: [Avent 2023, sec. 2.3].
"""

from __future__ import annotations

import math

LEAST_BEST_GAIN, MOST_BEST_GAIN = 17 / 8, 16 / 7  # the largest gain at epsilon <= 1 lies between these


def laplace_critical_people(share: float, epsilon: float, variance: float, width: float = 1.0) -> float:
    """The number of people from which the curator wins under Laplace noise; infinite if it never does.

    2 m^2 / (c (2 c m^2 - (1 - c) eps^2 v))
    """
    m2, c = width**2, share
    below = c * (2 * c * m2 - (1 - c) * epsilon**2 * variance)
    return 2 * m2 / below if below > 0 else math.inf


def privacy_weight_wins(share: float, people: float, epsilon: float, variance: float, width: float = 1.0) -> bool:
    """Whether privacy weights beat both baselines under Laplace noise, for more than one person who opted in.

    With x = eps^2 v/(2 m^2): c >= x/(1 + x), or n < (1 - c)(1 + x)/(c (x (1 - c) - c)).
    """
    x, c = epsilon**2 * variance / (2 * width**2), share
    return c >= x / (1 + x) or people < (1 - c) * (1 + x) / (c * (x * (1 - c) - c))


def best_gain_share(people: float) -> float:
    """The share at which, for numbers in [0, 1] of variance 1/4 at epsilon 1, the gain tends to 17/8."""
    return (1 + math.sqrt((288 + people) / people)) / 18


def laplace_scale(epsilon: float, delta: float = 0.0, sensitivity: float = 1.0) -> float:
    """The scale of Laplace noise of (epsilon, delta): D/(epsilon - 2 ln(1 - delta)); D/epsilon at delta = 0."""
    return sensitivity / (epsilon - 2 * math.log1p(-delta))
