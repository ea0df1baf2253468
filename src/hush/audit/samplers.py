"""Samplers against their exact laws: many draws of every kind of noise and of private choices, tested by chi-square.

Draws come from the operating system's bits and are used for nothing else. Every test is repeated as a control with a
law that is off by a quarter; a control that is not found would mean that the test sees nothing.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hush.audit.findings import Finding
from hush.privacy.exact_sampling import SystemEntropy
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.privacy.selection import ExponentialMechanism, Scores
from hush.testing.laws import law_pvalue, selection_law

SECTION = "Samplers against their exact laws"
FALSE_ALARMS = 1e-4  # of all tests of samplers together
SAMPLES = 100_000
CHOICES = 10_000
OFF = Fraction(5, 4)
GAUSSIANS = (Fraction(1, 2), Fraction(1), Fraction(13, 3), Fraction(60), Fraction(7001), Fraction(2**30))
LAPLACES = (Fraction(1, 2), Fraction(1), Fraction(13, 3), Fraction(60), Fraction(7001))
SCORES = Scores(np.array([0.0, 1.0, 2.5, 3.0, 3.0, 4.0, 6.5, 7.0]), 1.0)


def check_samplers() -> list[Finding]:
    """Findings on discrete Gaussian noise, discrete Laplace noise and the exponential mechanism."""
    alpha = FALSE_ALARMS / (len(GAUSSIANS) + len(LAPLACES) + 1)
    gaussian = [_pvalues(DiscreteGaussian.of_scale(s), DiscreteGaussian.of_scale(s * OFF)) for s in GAUSSIANS]
    laplace = [_pvalues(DiscreteLaplace(s), DiscreteLaplace(s * OFF)) for s in LAPLACES]
    found = []
    for name, scales, pvalues in (("Gaussian", GAUSSIANS, gaussian), ("Laplace", LAPLACES, laplace)):
        detail = f"{SAMPLES:,} draws at each of {len(scales)} scales from {_text(scales[0])} to {_text(scales[-1])}"
        found += _findings(f"discrete {name} noise", detail, pvalues, alpha)
    return [*found, *_findings("exponential mechanism", f"{CHOICES:,} choices among 8", [_choices()], alpha)]


def _pvalues(law: DiscreteGaussian | DiscreteLaplace, other: DiscreteGaussian | DiscreteLaplace) -> tuple[float, float]:
    """The p-value of draws against their own law, and against one that is off."""
    samples = law.sample(SAMPLES, SystemEntropy())
    return law_pvalue(samples, law), law_pvalue(samples, other)


def _choices() -> tuple[float, float]:
    from scipy import stats

    law, entropy = ExponentialMechanism(Fraction(1)), SystemEntropy()
    counts = np.bincount([law.choose(SCORES, entropy) for _ in range(CHOICES)], minlength=SCORES.candidates)

    def pvalue(claimed: ExponentialMechanism) -> float:
        expected = np.array([float(p) for p in selection_law(claimed, SCORES).values()]) * CHOICES
        return float(stats.chisquare(counts, expected * CHOICES / expected.sum()).pvalue)

    return pvalue(law), pvalue(ExponentialMechanism(law.epsilon * OFF))


def _findings(name: str, detail: str, pvalues: list[tuple[float, float]], alpha: float) -> list[Finding]:
    least, control = min(p for p, _ in pvalues), max(p for _, p in pvalues)
    return [
        Finding(
            section=SECTION,
            check=name,
            passed=least >= alpha,
            detail=f"{detail}; least p-value {least:.2g}, a fault below {alpha:.1g}",
            facts={"p_value": least, "alpha": alpha},
        ),
        Finding(
            section=SECTION,
            check=f"control: {name} off by a quarter",
            passed=control < alpha,
            detail=f"the same draws tested against the wrong scale: {'found' if control < alpha else 'NOT found'}",
            facts={"p_value": control, "alpha": alpha},
        ),
    ]


def _text(scale: Fraction) -> str:
    return f"{float(scale):,.10g}"
