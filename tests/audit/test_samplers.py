"""The sampler checks pass on hush's own samplers and find planted faults in each of them."""

from typing import Any

import numpy as np
import pytest

from hush.audit import samplers
from hush.audit.samplers import check_samplers
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.privacy.selection import ExponentialMechanism


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twentieth of a scale is found with 10^5 draws, a quarter with far fewer."""
    monkeypatch.setattr(samplers, "SAMPLES", 20_000)
    monkeypatch.setattr(samplers, "CHOICES", 2_000)


def test_samplers_and_controls_pass() -> None:
    """False alarms at a rate of 1e-4, by `FALSE_ALARMS`."""
    findings = check_samplers()
    assert [finding.check.startswith("control") for finding in findings] == [False, True] * 3
    assert all(finding.passed for finding in findings)


@pytest.mark.parametrize("law", [DiscreteGaussian, DiscreteLaplace])
def test_noise_that_is_too_small_is_found(law: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    original = law.sample

    def narrower(self: Any, shape: Any, entropy: Any) -> Any:
        scale = self.variance_parameter if law is DiscreteGaussian else self.scale
        return original(law(scale * 16 / 25 if law is DiscreteGaussian else scale * 4 / 5), shape, entropy)

    monkeypatch.setattr(law, "sample", narrower)
    failed = {finding.check for finding in check_samplers() if not finding.passed}
    assert f"discrete {'Gaussian' if law is DiscreteGaussian else 'Laplace'} noise" in failed


def test_repeated_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = DiscreteLaplace.sample

    def twice(self: Any, shape: int, entropy: Any) -> Any:
        return np.repeat(original(self, shape // 2, entropy), 2)

    monkeypatch.setattr(DiscreteLaplace, "sample", twice)
    assert not next(finding for finding in check_samplers() if finding.check == "discrete Laplace noise").passed


def test_choices_that_are_too_sharp_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ExponentialMechanism.choose

    def sharper(self: Any, scores: Any, entropy: Any) -> int:
        return original(ExponentialMechanism(self.epsilon * 2), scores, entropy)

    monkeypatch.setattr(ExponentialMechanism, "choose", sharper)
    assert not next(finding for finding in check_samplers() if finding.check == "exponential mechanism").passed


def test_a_test_that_sees_nothing_fails_its_control(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "law_pvalue", lambda *_: 1.0)
    failed = [finding.check for finding in check_samplers() if not finding.passed]
    assert failed == [f"control: discrete {name} noise off by a quarter" for name in ("Gaussian", "Laplace")]
