from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hush.privacy.entropy import NotPrivateEntropy
from hush.privacy.exact_sampling import below_exp, exp_bounds


@given(
    st.fractions(min_value=0, max_value=400, max_denominator=10**30),
    st.sampled_from([1, 5, 43, 53, 64, 128, 300]),
)
def test_bounds_hold_the_exponential_within_one_step(x: Fraction, bits: int) -> None:
    low, high = exp_bounds(x, bits)
    with mpmath.workprec(2000):
        exact = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** bits
        assert low <= exact <= high
    assert high - low <= 1


def test_bounds_at_zero_are_exact() -> None:
    assert exp_bounds(Fraction(0), 64) == (2**64, 2**64)


@pytest.mark.parametrize("x", [Fraction(1, 7), Fraction(1), Fraction(5, 2)])
def test_comparison_from_no_bits_has_the_probability_of_the_exponential(x: Fraction) -> None:
    entropy = NotPrivateEntropy(3)
    hits = sum(below_exp(0, 0, x, entropy) for _ in range(20_000))
    p = float(mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator))
    assert stats.binomtest(hits, 20_000, p).pvalue > 1e-9
    assert stats.binomtest(hits, 20_000, 0.9 * p).pvalue < 1e-9


def test_comparison_respects_the_bits_already_drawn() -> None:
    x = Fraction(1)  # exp(-1) = 0.01011110...b
    entropy = NotPrivateEntropy(4)
    assert all(below_exp(0b0100, 4, x, entropy) for _ in range(50))
    assert not any(below_exp(0b0110, 4, x, entropy) for _ in range(50))
    boundary = [below_exp(0b01011110, 8, x, entropy) for _ in range(4000)]
    inside = float((mpmath.exp(-1) * 256) % 1)
    assert stats.binomtest(int(np.sum(boundary)), 4000, inside).pvalue > 1e-9
