"""audit: the owner's self-check of samplers, of a mechanism, of a ledger and of a release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hush.audit.findings import Audit, Finding
from hush.audit.membership import MembershipAudit
from hush.audit.records import check_ledger, check_release
from hush.audit.samplers import check_samplers
from hush.mechanisms.mechanism import Mechanism
from hush.privacy.budget import Budget

SAMPLER_SECONDS = 5.0


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
    """Test the samplers, attack a mechanism on a generated table, verify a ledger and account for a release again.

    `runs` is the number of releases of each of two neighbouring tables; 0 leaves the attack out. `budget` is rho=0.5 by
    default, at which few runs show much; a mechanism does the same at any budget. `on_start` gets the seconds that all
    of it will take, roughly.

    Privacy: reads no private data and spends nothing. The tables are generated, the noise is drawn anew and thrown
    away; a ledger is only read.
    """
    attack = None
    if runs != 0:
        attack = MembershipAudit(
            mechanism, budget, runs=runs, max_rows_per_unit=max_rows_per_unit, confidence=confidence
        )
    if on_start is not None:
        on_start(SAMPLER_SECONDS + (0.0 if attack is None else attack.seconds()))
    findings: list[Finding] = []
    if ledger is not None:
        findings += check_ledger(ledger, expected_head=expected_head)
    if release is not None:
        findings += check_release(release, ledger=ledger)
    findings = [*check_samplers(), *(attack.run(progress) if attack is not None else ()), *findings]
    return Audit(findings=tuple(findings))
