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
from hush.core.errors import HushError, printable
from hush.core.rational import float_up, shown_down, shown_up
from hush.loading import load_release
from hush.mechanisms.mechanism import Mechanism
from hush.privacy.account import used_up
from hush.privacy.budget import Budget, Cost
from hush.privacy.events import price
from hush.privacy.exact_sampling import SystemEntropy
from hush.privacy.ledger import Ledger
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.privacy.selection import ExponentialMechanism, Scores
from hush.release.release import Release
from hush.release.statement import measured_event, uncharged
from hush.render.text_table import counted
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


def check_ledger(path: str | Path, *, expected_head: str | None = None) -> list[Finding]:
    """Findings on a ledger: its chain, and what each dataset has spent of its cap. The file is only read."""
    section = f"Ledger {printable(str(path))}"
    try:
        books = Ledger.open_all(path)
        books[0].verify(expected_head)
    except HushError as error:
        return [Finding(section=section, check="chain", passed=False, detail=str(error), facts={})]
    entries = sum(len(book.entries()) for book in books)
    head = books[0].head
    known = "; it contains the expected head" if expected_head else ""
    findings = [
        Finding(
            section=section,
            check="chain",
            passed=True,
            detail=f"{counted(entries, 'entry', 'entries')}; every hash, cost and total agrees{known}; head {head}",
            facts={"entries": entries, "head": head},
        )
    ]
    for book in books:
        cap, left = book.budget, book.remaining
        spent = book.limit - left
        unit = cap.unit
        rest = "nothing" if used_up(left, book.limit) else f"{unit}={shown_down(left)}"
        findings.append(
            Finding(
                section=section,
                check=f"dataset {printable(book.dataset)}",
                passed=left >= 0,
                detail=f"cap {cap}; spent {unit}={shown_up(spent)}; {rest} left",
                facts={"dataset": book.dataset, "spent": float_up(spent), "unit": unit, "cap": cap.to_dict()},
            )
        )
    return findings


def check_release(path: str | Path, *, ledger: str | Path | None = None) -> list[Finding]:
    """Findings on a release: its cost, recomputed from its measurements, its stamp, and its charges in a ledger."""
    section = f"Release {printable(str(path))}"
    try:
        release = load_release(path)
    except HushError as error:
        return [Finding(section=section, check="cost", passed=False, detail=str(error), facts={})]
    statement = release.statement
    measured = measured_event(statement, release.record).cost
    stated = price(statement.event)
    noise = "private: noise from the operating system's bits, no watcher"
    findings = [
        Finding(
            section=section,
            check="cost",
            passed=True,
            detail=f"the noise and the choices in the file cost {_text(measured)}; the statement says {_text(stated)}, "
            f"within {statement.budget}",
            facts={
                "measured_rho": _float(measured),
                "stated_rho": _float(stated),
                "unit": "rho" if stated.epsilon is None else "epsilon",
                "stated": _float(stated) if stated.epsilon is None else float_up(stated.epsilon),
                "budget": statement.budget.to_dict(),
            },
        ),
        Finding(
            section=section,
            check="stamp",
            passed=statement.private,
            detail="; ".join(statement.warnings) or (noise if statement.charged else "private: nothing was measured"),
            facts={"private": statement.private},
        ),
    ]
    return findings if ledger is None else [*findings, _charged(section, release, ledger)]


def _charged(section: str, release: Release, ledger: str | Path) -> Finding:
    """Whether the ledger was charged for the events of a release, up to the head that the release names."""
    head, dataset = release.statement.ledger_head, None
    if head is None:
        detail = "the release names no ledger; release with --ledger"
    else:
        try:
            books = Ledger.open_all(ledger)
            books[0].verify(head)
            charged = (book for book in books if not uncharged(release.statement, book.events(until=head)))
            dataset = next((book.dataset for book in charged), None)
            detail = "no dataset of the ledger was charged for what the release states"
        except HushError as error:
            detail = str(error)
    if dataset is not None:
        detail = f"every event of the statement was charged to the dataset {printable(dataset)}"
    return Finding(
        section=section, check="charged", passed=dataset is not None, detail=detail, facts={"dataset": dataset}
    )


def _text(cost: Cost) -> str:
    if cost.epsilon is not None and cost.rho is not None:
        return f"epsilon={shown_up(cost.epsilon)}"
    return "no bound" if cost.rho is None else f"rho={shown_up(cost.rho)}"


def _float(cost: Cost) -> float | None:
    return None if cost.rho is None else float_up(cost.rho)
