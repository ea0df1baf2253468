"""The membership audit passes mechanisms as they are and fails those with too little noise."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hush import Budget
from hush.audit.membership import AUDIT_DOMAIN, CANARY_CODES, Attacker, MembershipAudit, generated_table
from hush.core.errors import BudgetError
from hush.mechanisms import AIM, MST, MWEM, Direct, DualQuery, Gaussian, Independent, PrivBayes, Residual
from hush.mechanisms.mechanism import Mechanism
from hush.privacy import sensitivity
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.privacy.sensitivity import Sensitivity

SURE = 0.9999  # a mechanism at the limit of its budget fails by chance with probability 1e-4 at most
SMALL = Budget(rho=0.1)
ONE_CELL = Sensitivity(Fraction(1), Fraction(1), True)


def outcome(audit: MembershipAudit) -> tuple[bool, bool]:
    mechanism, control = audit.run()
    return mechanism.passed, control.passed


def test_the_tables_are_neighbours() -> None:
    for rows in (1, 3):
        absent, present = (generated_table(canary=canary, max_rows_per_unit=rows) for canary in (False, True))
        clique = AUDIT_DOMAIN.attributes
        moved = present.counts([clique])[clique] - absent.counts([clique])[clique]
        assert moved[CANARY_CODES] == rows == np.abs(moved).sum()
        assert absent.counts([clique])[clique][CANARY_CODES] == 0
        assert absent.unit.max_rows == rows


@pytest.mark.parametrize(
    ("mechanism", "budget"),
    [(Direct(), SMALL), (Direct(), Budget(epsilon=0.5)), (Gaussian(), Budget(epsilon=1.0, delta=1e-6))],
    ids=str,
)
def test_mechanisms_pass_and_controls_are_found(mechanism: Mechanism, budget: Budget) -> None:
    """Controls cost 4 times what is just provable, or 40 times."""
    assert outcome(MembershipAudit(mechanism, budget, runs=100, confidence=SURE)) == (True, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [Residual(), AIM(preset="fast"), MST(), MWEM(rounds=2), PrivBayes(), DualQuery(), Independent()],
    ids=str,
)
def test_every_other_mechanism_passes(mechanism: Mechanism) -> None:
    audit = MembershipAudit(mechanism, Budget(rho=0.1), runs=24, confidence=0.99)
    result = audit.attack(audit.plan, lambda share: None)
    assert result.problem is None
    assert result.proven <= result.stated <= 0.1 * (1 + 1e-9)


def test_an_eighth_of_the_noise_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """At an eighth of the stddev 64 times as much is lost, far beyond what 80 runs can prove."""
    original = DiscreteGaussian.sample
    monkeypatch.setattr(
        DiscreteGaussian,
        "sample",
        lambda self, shape, entropy: original(DiscreteGaussian(self.variance_parameter / 64), shape, entropy),
    )
    audit = MembershipAudit(Direct(), Budget(rho=0.5), runs=80, confidence=0.999)
    finding = audit._finding(audit.attack(audit.plan, lambda share: None))
    assert not finding.passed
    assert finding.detail.startswith("MORE IS LOST THAN STATED")
    assert finding.facts["lower_bound"] > finding.facts["stated"]


@pytest.mark.slow
def test_half_the_standard_deviation_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """mu = 2 where 1 is stated: 300 tested runs prove more than rho = 0.5 but for a chance below 1e-2."""
    original = DiscreteGaussian.sample
    monkeypatch.setattr(
        DiscreteGaussian,
        "sample",
        lambda self, shape, entropy: original(DiscreteGaussian(self.variance_parameter / 4), shape, entropy),
    )
    audit = MembershipAudit(Direct(), Budget(rho=0.5), runs=400, confidence=0.99)
    assert not audit.attack(audit.plan, lambda share: None).kept


def test_pure_noise_that_is_too_small_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    original = DiscreteLaplace.sample
    monkeypatch.setattr(
        DiscreteLaplace,
        "sample",
        lambda self, shape, entropy: original(DiscreteLaplace(self.scale / 16), shape, entropy),
    )
    audit = MembershipAudit(Direct(), Budget(epsilon=0.5), runs=120, confidence=0.999)
    assert not audit.attack(audit.plan, lambda share: None).kept


def test_rows_per_unit_that_are_ignored_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit of 12 rows with the noise of one row: 144 times the cost, stated as if it were one."""
    original = sensitivity.sensitivity

    def ignored(row: Any, *, max_rows: int, neighbours: Any) -> Any:
        return original(row, max_rows=1, neighbours=neighbours)

    for module in ("hush.privacy.gate", "hush.release.statement", "hush.mechanisms.session"):
        monkeypatch.setattr(f"{module}.sensitivity", ignored)
    audit = MembershipAudit(Independent(), Budget(rho=0.5), runs=40, max_rows_per_unit=12, confidence=0.99)
    assert not audit.attack(audit.plan, lambda share: None).kept


def test_a_release_that_does_not_pay_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that prices itself too low is caught by accounting, whatever the attack proves."""
    original = DiscreteGaussian.event
    monkeypatch.setattr(
        "hush.privacy.gate.Gate.event", lambda self, request: original(DiscreteGaussian(Fraction(10**6)), ONE_CELL)
    )
    audit = MembershipAudit(Direct(), Budget(rho=0.5), runs=40, confidence=0.99)
    result = audit.attack(audit.plan, lambda share: None)
    assert not result.kept
    assert "whose noise it does not account for" in audit._finding(result).detail


def test_the_score_is_the_log_likelihood_ratio() -> None:
    absent, present = (generated_table(canary=canary) for canary in (False, True))
    release = Direct().plan(MembershipAudit(runs=100).plan.workload, Budget(rho=0.5)).release(present)
    expected = 0.0
    for table in release.measurements():
        law: Any = table.law
        counts = [source.counts([table.clique]) for source in (present, absent)]
        logs = [np.log(law.pmf(table.raw - table.asked.answer(each))).sum() for each in counts]  # type: ignore[union-attr]
        expected += float(logs[0] - logs[1])
    assert Attacker.on(absent, present).score(release) == pytest.approx(expected, rel=1e-6)


def test_what_cannot_be_audited_is_refused_with_advice() -> None:
    with pytest.raises(BudgetError, match="runs=3: expected a whole number of at least 20"):
        MembershipAudit(runs=3)
    with pytest.raises(BudgetError, match="too few to prove anything about a loss of rho=50; ask for more runs"):
        MembershipAudit(budget=Budget(rho=50.0), runs=100)
    with pytest.raises(BudgetError, match="confidence=1"):
        MembershipAudit(confidence=1.0)


def test_the_time_is_told_beforehand() -> None:
    assert 0 < MembershipAudit(Direct(), runs=100).seconds() < 600


def test_no_release_is_seeded_and_no_two_are_alike() -> None:
    audit = MembershipAudit(Direct(), runs=100)
    releases = [audit.plan.release(audit.absent) for _ in range(5)]
    assert all(release.statement.private for release in releases)
    drawn = {b"".join(table.raw.tobytes() for table in release.measurements()) for release in releases}
    assert len(drawn) == 5
