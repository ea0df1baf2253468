import numpy as np
import pytest

from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.testing import law_pvalue
from hush.testing.laws import LawError, cdf


@pytest.mark.parametrize("law", [DiscreteGaussian.of_scale(3), DiscreteLaplace.of_scale(3)])
def test_cdf_is_the_sum_of_the_pmf(law: DiscreteGaussian) -> None:
    y = np.arange(-60, 61)
    sums = np.cumsum(law.pmf(np.arange(-2000, 61)))[-121:]
    np.testing.assert_allclose(cdf(law, y), sums, atol=1e-12)


def test_large_scales_agree_with_the_sum() -> None:
    law = DiscreteGaussian.of_scale(2500)
    y = np.array([-5000, -1, 0, 3, 7000])
    sums = np.cumsum(law.pmf(np.arange(-40_000, 7001)))[y + 40_000]
    np.testing.assert_allclose(cdf(law, y), sums, atol=1e-9)


def test_pvalues_of_right_samples_are_not_small() -> None:
    """Fifty batches; the least of fifty honest p-values is above 1e-6 with probability 0.9999."""
    law = DiscreteGaussian.of_scale(20)
    entropy = NotPrivateEntropy(1)
    assert min(law_pvalue(law.sample(20_000, entropy), law) for _ in range(50)) > 1e-6


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(LawError, match="too few"):
        law_pvalue(np.array([1, 2, 3]), DiscreteGaussian.of_scale(20))
