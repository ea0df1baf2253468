"""Sets of marginals, their Gram matrices, and sums over subsets and supersets."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hush.core.errors import SizeError, WorkloadError
from hush.linops import Dense, Identity, Kronecker, MarginalGram, MarginalSet, Prefix, Stack, Total
from hush.linops.marginal_operators import subset_differences, subset_sums, superset_differences, superset_sums

tables = st.integers(0, 5).flatmap(lambda d: arrays(np.float64, 1 << d, elements=st.integers(-9, 9)))


@given(tables)
def test_sums_over_supersets_and_subsets_by_brute_force(values: np.ndarray) -> None:
    d = len(values).bit_length() - 1
    sets = range(1 << d)
    above = [sum(values[b] for b in sets if a & b == a) for a in sets]
    below = [sum(values[b] for b in sets if a & b == b) for a in sets]
    np.testing.assert_array_equal(superset_sums(values, d), above)
    np.testing.assert_array_equal(subset_sums(values, d), below)


@given(tables)
def test_differences_undo_sums_and_leave_the_input_alone(values: np.ndarray) -> None:
    d = len(values).bit_length() - 1
    before = values.copy()
    np.testing.assert_array_equal(superset_differences(superset_sums(values, d), d), before)
    np.testing.assert_array_equal(subset_differences(subset_sums(values, d), d), before)
    np.testing.assert_array_equal(values, before)


@pytest.mark.parametrize("shape", [(3,), (2, 2), ()])
def test_only_one_number_for_each_set(shape: tuple[int, ...]) -> None:
    with pytest.raises(WorkloadError, match=r"each of the 2\^2 subsets"):
        superset_sums(np.zeros(shape), 2)


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
    with pytest.raises(SizeError, match="2\\^25 subsets"):
        MarginalGram((2,) * 25, np.ones(2))


SETS = [own for k in range(4) for own in combinations(range(3), k)]
nonzero = st.floats(-4, 4).filter(lambda w: abs(w) > 0.05)
weightings = st.dictionaries(st.sampled_from(SETS), nonzero, min_size=1)


def stacked_twin(sizes: tuple[int, ...], weights: dict[tuple[int, ...], float]) -> Stack:
    parts = [Kronecker([Identity(n) if i in own else Total(n) for i, n in enumerate(sizes)]) for own in weights]
    return Stack(parts, list(weights.values()))


@given(weightings)
def test_a_stack_of_products(weights: dict[tuple[int, ...], float]) -> None:
    own, other = MarginalSet(SIZES, weights), stacked_twin(SIZES, weights)
    np.testing.assert_allclose(own.dense(), other.dense(), atol=1e-12)
    np.testing.assert_allclose(own.T.dense(), other.dense().T, atol=1e-12)
    np.testing.assert_allclose(own.gram_dense(), other.gram_dense(), atol=1e-12)
    assert own.shape == other.shape


@given(weightings)
def test_norms_are_those_of_the_weights(weights: dict[tuple[int, ...], float]) -> None:
    own = MarginalSet(SIZES, weights)
    assert own.sensitivity(1) == pytest.approx(sum(abs(w) for w in weights.values()))
    assert own.sensitivity(2) == pytest.approx(math.sqrt(sum(w**2 for w in weights.values())))
    for p in (1, 2):
        np.testing.assert_allclose(own.column_norms(p), stacked_twin(SIZES, weights).column_norms(p))


@given(weightings)
def test_the_inverse_of_a_set_is_that_of_moore_and_penrose(weights: dict[tuple[int, ...], float]) -> None:
    own = MarginalSet(SIZES, weights)
    np.testing.assert_allclose(own.pinv().dense(), np.linalg.pinv(own.dense(), rtol=1e-10), atol=1e-8)


def test_all_pairs_of_three_attributes_stand_at_three_five_and_six() -> None:
    gram = MarginalSet(SIZES, dict.fromkeys(combinations(range(3), 2), 1.0)).gram()
    assert np.flatnonzero(gram.coefficients).tolist() == [3, 5, 6]


def test_many_attributes_need_no_table_of_all_sets() -> None:
    own = MarginalSet((10,) * 60, {(0, 1): 3.0, (58, 59): -4.0})
    assert own.shape == (200, 10**60)
    assert own.sensitivity(2) == 5
    with pytest.raises(SizeError, match="2\\^60 subsets"):
        own.gram()


def test_rows_follow_the_mapping() -> None:
    x = np.arange(6.0).reshape(2, 3)
    own = MarginalSet((2, 3), {(1,): 1.0, (): 10.0, (0,): 2.0})
    assert (own @ x.ravel()).tolist() == [3.0, 5.0, 7.0, 150.0, 6.0, 24.0]
    assert own != MarginalSet((2, 3), {(): 10.0, (1,): 1.0, (0,): 2.0})


def test_products_with_others() -> None:
    own = MarginalSet((2, 2), {(0,): 1.0})
    np.testing.assert_array_equal((own @ Dense(np.eye(4) * 2)).dense(), 2 * own.dense())


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({}, "no marginals"),
        ({(0, 0): 1.0}, "ascending"),
        ({(1, 0): 1.0}, "ascending"),
        ({(3,): 1.0}, r"within 0 \.\. 2"),
        ({(-1,): 1.0}, r"within 0 \.\. 2"),
        ({(0,): 0.0}, "leave the marginal out"),
        ({(0,): math.inf}, "finite"),
    ],
)
def test_impossible_sets_are_refused(weights: dict[tuple[int, ...], float], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        MarginalSet(SIZES, weights)
