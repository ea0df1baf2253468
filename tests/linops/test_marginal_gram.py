import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hush.core.errors import SizeError, WorkloadError
from hush.linops import Dense, Kronecker, MarginalGram, Prefix

SIZES = (2, 3, 4)
coefficients = arrays(np.float64, 8, elements=st.integers(-4, 4))


def twin(sizes: tuple[int, ...], values: np.ndarray) -> np.ndarray:
    """sum_a v(a) C(a), factor by factor."""
    total = np.zeros((int(np.prod(sizes)),) * 2)
    for a, value in enumerate(values):
        factors = [Dense(np.eye(n) if a >> i & 1 else np.ones((n, n))) for i, n in enumerate(sizes)]
        total += value * Kronecker(factors).dense()
    return total


@given(coefficients)
def test_entries(values: np.ndarray) -> None:
    gram = MarginalGram(SIZES, values)
    np.testing.assert_array_equal(gram.dense(), twin(SIZES, values))
    np.testing.assert_allclose(gram.matmat(np.eye(24)), twin(SIZES, values), atol=1e-11)
    assert gram.trace() == np.trace(twin(SIZES, values))


@given(coefficients, coefficients)
def test_products_commute_and_stay_in_the_algebra(u: np.ndarray, v: np.ndarray) -> None:
    left, right = MarginalGram(SIZES, u), MarginalGram(SIZES, v)
    product = left @ right
    assert isinstance(product, MarginalGram)
    assert product == right @ left
    np.testing.assert_allclose(product.dense(), twin(SIZES, u) @ twin(SIZES, v), atol=1e-9)


@given(coefficients)
def test_the_inverse_is_that_of_moore_and_penrose(values: np.ndarray) -> None:
    expected = np.linalg.pinv(twin(SIZES, values), rtol=1e-12)
    found = MarginalGram(SIZES, values).pinv()
    np.testing.assert_allclose(found.dense(), expected, atol=1e-9)
    np.testing.assert_allclose(found.pinv().dense(), twin(SIZES, values), atol=1e-9)


@pytest.mark.parametrize(
    "values",
    [
        [0, 0, 0, 1, 0, 1, 1, 0],
        [0, 1, 1, 0, 1, 0, 0, 0],
        [1, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0.3, 0.1, 0],
        [0] * 8,
    ],
    ids=["pairs", "singles", "total", "two pairs", "nothing"],
)
def test_low_order_marginals_have_singular_grams(values: list[float]) -> None:
    expected = np.linalg.pinv(twin(SIZES, np.array(values)), rtol=1e-12)
    np.testing.assert_allclose(MarginalGram(SIZES, values).pinv().dense(), expected, atol=1e-12)


@given(coefficients)
def test_spectrum(values: np.ndarray) -> None:
    gram = MarginalGram(SIZES, values)
    counts = gram.multiplicities.astype(int)
    assert counts.tolist() == [1, 1, 2, 2, 3, 3, 6, 6]
    found = np.sort(np.repeat(gram.eigenvalues, counts))
    np.testing.assert_allclose(found, np.linalg.eigvalsh(twin(SIZES, values)), atol=1e-9)


@given(coefficients)
def test_norms(values: np.ndarray) -> None:
    gram = MarginalGram(SIZES, values)
    for p in (1, 2):
        expected = np.linalg.norm(twin(SIZES, values), ord=p, axis=0)
        np.testing.assert_allclose(gram.column_norms(p), expected, atol=1e-12)


@given(arrays(np.float64, 8, elements=st.integers(0, 9)))
def test_from_eigenvalues(kappa: np.ndarray) -> None:
    made = MarginalGram.of_eigenvalues(SIZES, kappa)
    np.testing.assert_array_equal(made.eigenvalues, kappa)
    np.testing.assert_allclose(MarginalGram(SIZES, made.coefficients).eigenvalues, kappa, atol=1e-9)


def test_sums_that_cancel_are_zero() -> None:
    """0.1 * 3 - 0.3 is not zero in floats; the matrix 1 1^T / 10 - 0.3 I + 0 has the eigenvalue zero on 1."""
    gram = MarginalGram((3,), [0.1, -0.3])
    assert gram.eigenvalues[0] == 0
    np.testing.assert_allclose(gram.pinv().dense(), (np.ones((3, 3)) / 3 - np.eye(3)) / 0.3, atol=1e-12)


def test_nothing_of_the_size_of_the_domain_is_made() -> None:
    gram = MarginalGram((100,) * 12, np.ones(1 << 12))
    assert gram.trace() == pytest.approx(100.0**12 * 2**12)
    assert gram.pinv().pinv().eigenvalues == pytest.approx(gram.eigenvalues)
    assert gram.sensitivity(1) == pytest.approx(101.0**12)
    with pytest.raises(SizeError, match="all columns have the same norm"):
        gram.column_norms(1)


def test_other_operators_and_sizes_multiply_too() -> None:
    gram = MarginalGram((2, 2), [1, 0, 0, 1])
    np.testing.assert_allclose((gram @ Prefix(4)).dense(), gram.dense() @ np.tri(4), atol=1e-12)
    other = MarginalGram((4,), [1, 1])
    np.testing.assert_allclose((gram @ other).dense(), gram.dense() @ other.dense(), atol=1e-12)
    assert gram != MarginalGram((4, 1), [1, 0, 0, 1])


def test_impossible_ones_are_refused() -> None:
    with pytest.raises(WorkloadError, match="each of the 4 sets of 2"):
        MarginalGram((2, 3), [1, 2])
    with pytest.raises(WorkloadError, match="at least one level"):
        MarginalGram((2, 0), np.ones(4))
    with pytest.raises(SizeError, match="2\\^25 sets"):
        MarginalGram((2,) * 25, np.ones(2))
