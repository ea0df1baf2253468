"""Noise that is split: independent copies, and an unbiased comparison of estimators."""

import numpy as np
import pytest

from hush.core.domain import Domain
from hush.linops import Prefix
from hush.models.noise_split import split_noise
from hush.privacy.measurement import Measurement

CELLS = 200_000
DOMAIN = Domain({"a": CELLS, "b": 2})
TRUTH = np.linspace(0.0, 12.0, CELLS)
STDDEV = 3.0


def noisy(seed: int) -> Measurement:
    values = TRUTH + np.random.default_rng(seed).normal(0.0, STDDEV, CELLS)
    return Measurement(("a",), values, STDDEV)


def copies(seed: int) -> tuple[Measurement, Measurement]:
    (first,), (second,) = split_noise(DOMAIN, [noisy(seed)], seed + 100)
    return first, second


def test_copies_have_the_stated_noise_and_independent_errors() -> None:
    """200,000 numbers: standard deviations within 1 %, six standard errors; a correlation of 0.03 would be found."""
    first, second = copies(1)
    errors = [copy.values - TRUTH for copy in (first, second)]
    for copy, error in zip((first, second), errors, strict=True):
        assert error.std() == pytest.approx(copy.stddev, rel=0.01)
        assert copy.stddev > STDDEV
    assert abs(np.corrcoef(*errors)[0, 1]) < 0.015
    own = noisy(1).values - TRUTH  # a control: each copy shares noise with the measurement itself
    assert min(np.corrcoef(own, error)[0, 1] for error in errors) > 0.2


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
def test_the_distance_from_the_second_copy_estimates_the_error_of_any_estimator(share: float) -> None:
    """Shrinkage by `share`, whose true error is known, is judged to within 0.2 of the variance of the noise.

    The standard error is below 0.05 for 200,000 numbers. Judged by the first copy, the first copy itself would seem
    to have no error at all.
    """
    first, second = copies(2)
    estimate = share * first.values
    judged = np.mean((estimate - second.values) ** 2) - second.variance
    true = np.mean((estimate - TRUTH) ** 2)
    assert judged / STDDEV**2 == pytest.approx(true / STDDEV**2, abs=0.2)
    seeming = np.mean((first.values - first.values) ** 2)
    assert seeming == 0.0 < true


def test_queries_and_the_order_of_attributes_are_kept() -> None:
    domain = Domain({"a": 3, "b": 2})
    table = Measurement(("b", "a"), np.arange(6.0).reshape(2, 3), 1e-9)
    sums = Measurement(("a",), [1.0, 3.0, 6.0], 1e-9, Prefix(3))
    for found_table, found_sums in split_noise(domain, [table, sums], seed=0):
        assert found_table.clique == ("a", "b")
        np.testing.assert_allclose(found_table.values, np.arange(6.0).reshape(2, 3).T, atol=1e-7)
        assert isinstance(found_sums.query, Prefix)
        np.testing.assert_allclose(found_sums.values, [1.0, 3.0, 6.0], atol=1e-7)
