import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dense_twins import basis_matrix
from hush.core.errors import WorkloadError
from hush.linops import AllRange, Dense, Identity, Prefix, Total, WidthRange
from hush.strategies.residual_basis import ResidualBasis, design_basis

PREFIX = design_basis(Prefix(6).gram_dense()).value
RANGES = design_basis(AllRange(6).gram_dense()).value
BASES = [
    ResidualBasis.plain(2),
    ResidualBasis.plain(5),
    PREFIX,
    RANGES,
    ResidualBasis.of([[1, -1, 0], [1, 1, -2], [0, 3, -3]], scale=4),
]


def sub(m: int) -> np.ndarray:
    return np.column_stack([np.ones(m - 1), -np.eye(m - 1)])


@pytest.mark.parametrize("m", [2, 3, 4, 7])
def test_sub_identities_and_the_integer_form_has_the_same_row_space(m: int) -> None:
    s = sub(m)
    inverse = np.vstack([np.ones((1, m - 1)), np.ones((m - 1, m - 1)) - m * np.eye(m - 1)]) / m
    centre = np.eye(m) - 1 / m
    np.testing.assert_allclose(s @ s.T, np.eye(m - 1) + 1)
    np.testing.assert_allclose(np.linalg.pinv(s), inverse, atol=1e-12)
    np.testing.assert_allclose(s @ inverse, np.eye(m - 1), atol=1e-12)
    np.testing.assert_allclose(inverse @ s, centre, atol=1e-12)
    np.testing.assert_allclose(inverse @ (s @ s.T) @ inverse.T, centre, atol=1e-12)
    xi = m * np.eye(m) - 1
    np.testing.assert_allclose(s @ xi, m * s)  # H Xi = L H
    assert np.linalg.matrix_rank(np.vstack([s, xi])) == m - 1


def test_sub_4_inverse_as_printed_with_its_first_entry_corrected() -> None:
    expected = np.array([[1, 1, 1], [-3, 1, 1], [1, -3, 1], [1, 1, -3]]) / 4
    np.testing.assert_allclose(np.linalg.pinv(sub(4)), expected, atol=1e-12)


@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_a_basis_agrees_with_its_matrix(basis: ResidualBasis) -> None:
    m = basis_matrix(basis)
    gram = m.T @ m
    whole = np.rint(m * basis.scale).astype(np.int64)
    np.testing.assert_allclose(m.sum(axis=1), 0, atol=1e-12)
    assert np.linalg.matrix_rank(m) == basis.size - 1
    assert float(basis.max_diagonal) == pytest.approx(gram.diagonal().max(), rel=1e-12)
    assert basis.largest_entry == np.abs(whole).max()
    assert basis.largest_l1 == np.abs(whole).sum(axis=0).max()
    assert basis.largest_l2_squared == (whole**2).sum(axis=0).max()
    np.testing.assert_allclose(basis.inverse_gram, np.linalg.pinv(gram), atol=1e-9)
    np.testing.assert_allclose(basis.estimate(np.eye(basis.rows), 0), np.linalg.pinv(m), atol=1e-9)
    np.testing.assert_allclose(basis.adjoint(np.eye(basis.size), 0), np.linalg.pinv(m).T, atol=1e-9)
    np.testing.assert_array_equal(basis.measure(np.eye(basis.size, dtype=np.int64), 0), whole)
    tensor = np.arange(3 * basis.size * 2).reshape(3, basis.size, 2)
    np.testing.assert_array_equal(basis.measure(tensor, 1), np.einsum("rl,alb->arb", whole, tensor))
    assert basis.measure(tensor, 1).dtype == np.int64


@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_queries_split_into_residual_and_mean(basis: ResidualBasis) -> None:
    n = basis.size
    rows = np.random.default_rng(1).normal(size=(4, n))
    inverse = np.linalg.pinv(basis_matrix(basis).T @ basis_matrix(basis))
    for block in (Identity(n), Prefix(n), AllRange(n), WidthRange(n, 2), Total(n), Dense(rows)):
        w = block.dense()
        np.testing.assert_allclose(basis.query_variances(block), np.sum((w @ inverse) * w, axis=1), atol=1e-9)
        np.testing.assert_allclose(basis.query_mean(block), (w.sum(axis=1) / n) ** 2, atol=1e-12)


def test_plain_coefficients_are_those_of_the_document() -> None:
    basis = ResidualBasis.plain(7)
    assert basis.max_diagonal == Fraction(6, 7)
    np.testing.assert_allclose(basis.query_variances(Identity(7)), np.full(7, 6 / 7))
    np.testing.assert_allclose(basis.query_mean(Identity(7)), np.full(7, 1 / 49))


@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_opposition_is_the_most_negative_product_of_two_columns(basis: ResidualBasis) -> None:
    whole = np.rint(basis_matrix(basis) * basis.scale).astype(np.int64)
    columns = range(basis.size)
    products = [int(whole[:, r] @ whole[:, s]) for r, s in itertools.product(columns, columns)]
    assert basis.opposition == Fraction(max(0, -min(products)), max(products))


def test_bases_of_one_size_are_told_apart() -> None:
    assert PREFIX != RANGES
    assert ResidualBasis.plain(6) != PREFIX
    assert ResidualBasis.plain(6) == ResidualBasis.plain(6) != ResidualBasis.plain(5)
    assert not PREFIX.is_plain
    assert ResidualBasis.of(PREFIX.matrix, PREFIX.scale) == PREFIX
    assert hash(ResidualBasis.of(PREFIX.matrix, PREFIX.scale)) == hash(PREFIX)
    assert ResidualBasis.of(PREFIX.matrix, PREFIX.scale + 1) != PREFIX


@pytest.mark.parametrize(
    ("matrix", "scale", "message"),
    [
        ([[1.0, -1.0]], 1, "array of integers"),
        ([1, -1], 1, "two-dimensional"),
        ([[1, -1]], 0, "scale=0"),
        ([[1, -2]], 1, "add up to zero"),
        ([[1, -1, 0]], 1, "rank 1 on an attribute of 3 levels"),
        ([[1, -1, 0], [2, -2, 0]], 1, "rank 1"),
        ([[2**31, -(2**31)]], 1, "too large for exact sums"),
    ],
)
def test_a_matrix_that_is_no_basis_is_refused(matrix: list, scale: int, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        ResidualBasis.of(matrix, scale)


def test_misfits_are_refused() -> None:
    with pytest.raises(WorkloadError, match="1 levels has no residual"):
        ResidualBasis.plain(1)
    with pytest.raises(WorkloadError, match="5 columns on an attribute of 6 levels"):
        PREFIX.query_variances(Identity(5))
    with pytest.raises(WorkloadError, match="5 columns on an attribute of 6 levels"):
        ResidualBasis.plain(6).query_variances(Identity(5))
    with pytest.raises(WorkloadError, match="5 columns"):
        ResidualBasis.plain(6).query_mean(Prefix(5))


@given(st.integers(2, 9), st.integers(0, 2**32 - 1))
def test_measuring_is_exact_modulo_2_to_the_64(size: int, seed: int) -> None:
    counts = np.random.default_rng(seed).integers(0, 2**61, size=size)
    wanted = [(size * int(c) - sum(map(int, counts))) % 2**64 for c in counts]
    assert [int(v) % 2**64 for v in ResidualBasis.plain(size).measure(counts, 0)] == wanted


@pytest.mark.parametrize(
    "matrix",
    [
        [[2**29, -(2**29)]] * 64 + [[1, -1]],  # the squares of a column add up to 2^64 + 1
        [[-(2**63), -(2**63)], [-(2**63), -(2**63)], [1, -1]],  # |-2^63| is not an int64, and rows wrap to zero
    ],
)
def test_entries_whose_sums_could_wrap_around_are_refused(matrix: list[list[int]]) -> None:
    with pytest.raises(WorkloadError, match="too large for exact sums"):
        ResidualBasis.of(np.array(matrix, dtype=np.int64), 1)


@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_the_weights_of_the_answers_in_the_total(basis: ResidualBasis) -> None:
    np.testing.assert_allclose(basis.total_weights, basis.total_of(np.eye(basis.rows), 0)[0], atol=1e-12)


def test_the_weights_of_a_wide_attribute_take_no_square_matrix() -> None:
    assert ResidualBasis.plain(1_000_000).total_weights.shape == (1_000_000,)
