"""The owner's self-check: samplers against their exact laws, an attack on a mechanism, a ledger and a release.

Samplers: many draws of every kind of noise and of private choices are tested by chi-square. The draws come from the
operating system's bits and are used for nothing else. As a control, every test is repeated against a law that is off by
a quarter; if the control is not found, the test would see no fault at all.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np

from hush.audit.findings import Audit, Finding
from hush.audit.membership import MembershipAudit
from hush.audit.records import check_ledger, check_release
from hush.mechanisms.mechanism import Mechanism
from hush.privacy.budget import Budget
from hush.privacy.exact_sampling import SystemEntropy
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.privacy.selection import ExponentialMechanism, Scores
from hush.testing.laws import law_pvalue, selection_law

SAMPLER_SECONDS = 5.0  # that `check_samplers` takes, roughly
FALSE_ALARMS = 1e-4  # the rate for all tests of samplers together
DRAWS_PER_SCALE = 100_000  # of noise
PRIVATE_CHOICES = 10_000  # by the exponential mechanism
CONTROL_FACTOR = Fraction(5, 4)  # of the right scale, in controls
GAUSSIAN_SCALES = (Fraction(1, 2), Fraction(1), Fraction(13, 3), Fraction(60), Fraction(7001), Fraction(2**30))
LAPLACE_SCALES = (Fraction(1, 2), Fraction(1), Fraction(13, 3), Fraction(60), Fraction(7001))
CHOICE_SCORES = Scores(np.array([0.0, 1.0, 2.5, 3.0, 3.0, 4.0, 6.5, 7.0]), 1.0)


def audit(
    mechanism: str | Mechanism = "residual",
    budget: Budget | None = None,
    *,
    runs: int | None = None,
    max_rows_per_unit: int = 1,
    confidence: float = 0.999,
    ledger: str | Path | None = None,
    expected_head: str | None = None,
    release: str | Path | None = None,
    progress: Callable[[float], None] | None = None,
    on_start: Callable[[float], None] | None = None,
) -> Audit:
    """Test the samplers, attack a mechanism on a generated table, verify a ledger and recompute a release's cost.

    `runs` is the number of releases of each of two neighbouring tables; 0 skips the attack. `budget` is rho=0.5 by
    default, where few runs show much; the code is the same at any budget. `on_start` gets the expected seconds.

    Privacy: reads no private data and spends nothing. The tables are generated, the noise is drawn for the audit alone,
    and the ledger is only read.
    """
    attack = None
    if runs != 0:
        attack = MembershipAudit(
            mechanism, budget, runs=runs, max_rows_per_unit=max_rows_per_unit, confidence=confidence
        )
    if on_start is not None:
        on_start(SAMPLER_SECONDS + (0.0 if attack is None else attack.seconds()))
    # files first, so that a wrong path is refused at once
    findings: list[Finding] = []
    if ledger is not None:
        findings += check_ledger(ledger, expected_head=expected_head)
    if release is not None:
        findings += check_release(release, ledger=ledger)
    findings = [*check_samplers(), *(attack.run(progress) if attack is not None else ()), *findings]
    return Audit(findings=tuple(findings))


def check_samplers() -> list[Finding]:
    """Findings on discrete Gaussian noise, discrete Laplace noise and the exponential mechanism."""
    alpha = FALSE_ALARMS / (len(GAUSSIAN_SCALES) + len(LAPLACE_SCALES) + 1)
    k = CONTROL_FACTOR
    gaussian = [_pvalues(DiscreteGaussian.of_scale(s), DiscreteGaussian.of_scale(s * k)) for s in GAUSSIAN_SCALES]
    laplace = [_pvalues(DiscreteLaplace(s), DiscreteLaplace(s * k)) for s in LAPLACE_SCALES]
    findings = []
    for name, scales, pvalues in (("Gaussian", GAUSSIAN_SCALES, gaussian), ("Laplace", LAPLACE_SCALES, laplace)):
        first, last = (f"{float(scale):,.10g}" for scale in (scales[0], scales[-1]))
        detail = f"{DRAWS_PER_SCALE:,} draws at each of {len(scales)} scales from {first} to {last}"
        findings += _sampler_findings(f"discrete {name} noise", detail, pvalues, alpha)
    detail = f"{PRIVATE_CHOICES:,} choices among {CHOICE_SCORES.candidates}"
    return [*findings, *_sampler_findings("exponential mechanism", detail, [_choice_pvalues()], alpha)]


def _pvalues(law: DiscreteGaussian | DiscreteLaplace, other: DiscreteGaussian | DiscreteLaplace) -> tuple[float, float]:
    """The p-value of draws against their own law, and against the law of a control."""
    samples = law.sample(DRAWS_PER_SCALE, SystemEntropy())
    return law_pvalue(samples, law), law_pvalue(samples, other)


def _choice_pvalues() -> tuple[float, float]:
    """The p-value of private choices against their own law, and against the law of a control."""
    from scipy import stats

    law, entropy = ExponentialMechanism(Fraction(1)), SystemEntropy()
    chosen = [law.choose(CHOICE_SCORES, entropy) for _ in range(PRIVATE_CHOICES)]
    counts = np.bincount(chosen, minlength=CHOICE_SCORES.candidates)

    def pvalue(claimed: ExponentialMechanism) -> float:
        expected = np.array([float(p) for p in selection_law(claimed, CHOICE_SCORES).values()]) * PRIVATE_CHOICES
        return float(stats.chisquare(counts, expected * PRIVATE_CHOICES / expected.sum()).pvalue)

    return pvalue(law), pvalue(ExponentialMechanism(law.epsilon * CONTROL_FACTOR))


def _sampler_findings(name: str, detail: str, pvalues: list[tuple[float, float]], alpha: float) -> list[Finding]:
    """A test and its control, each by its worst p-value."""
    section = "Samplers against their exact laws"
    least, control = min(p for p, _ in pvalues), max(p for _, p in pvalues)
    return [
        Finding(
            section=section,
            check=name,
            passed=least >= alpha,
            detail=f"{detail}; least p-value {least:.2g}, a fault below {alpha:.1g}",
            facts={"p_value": least, "alpha": alpha},
        ),
        Finding(
            section=section,
            check=f"control: {name} off by a quarter",
            passed=control < alpha,
            detail=f"the same draws tested against the wrong scale: {'found' if control < alpha else 'NOT found'}",
            facts={"p_value": control, "alpha": alpha},
        ),
    ]
