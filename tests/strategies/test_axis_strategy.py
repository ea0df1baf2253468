import numpy as np
import pytest

from hush.core.errors import WorkloadError
from hush.linops import AllRange, Dense, Identity, LevelsAndTotal, Prefix, Total
from hush.strategies.axis_strategy import AxisStrategy
from hush.strategies.residual_basis import ResidualBasis, TiltedBasis
from hush.testing import check_operator

RANDOM = np.random.Generator(np.random.PCG64(7))
DEFICIENT = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]])
FACTORS = [
    AxisStrategy(Identity(4)),
    AxisStrategy(LevelsAndTotal(4, levels=9, total=2)),
    AxisStrategy(LevelsAndTotal(4, levels=3, total=0)),
    AxisStrategy.of(np.vstack([np.eye(4, dtype=int) * 3, [[1, 1, 1, 1]]]), 2),
    AxisStrategy.of(RANDOM.integers(-9, 10, (6, 4)), 1),
    AxisStrategy.of(DEFICIENT, 3),
]


def dense(factor: AxisStrategy) -> np.ndarray:
    return factor.measure(np.eye(4, dtype=np.int64), 0) / factor.scale


@pytest.mark.parametrize("factor", FACTORS, ids=str)
def test_every_number_is_that_of_the_matrix(factor: AxisStrategy) -> None:
    m = dense(factor) * factor.scale
    assert m.shape == (factor.rows, factor.size)
    assert factor.largest_entry == np.abs(m).max()
    assert factor.largest_l1 == np.abs(m).sum(axis=0).max()
    assert factor.largest_l2_squared == (m**2).sum(axis=0).max()
    assert factor.opposition == pytest.approx(max(0.0, -(m.T @ m).min()) / factor.largest_l2_squared)
    assert factor.full == (np.linalg.matrix_rank(m) == 4)


@pytest.mark.parametrize("factor", FACTORS, ids=str)
def test_estimates_are_the_pseudo_inverse_and_its_transpose(factor: AxisStrategy) -> None:
    inverse = np.linalg.pinv(dense(factor))
    answers, coefficients = RANDOM.normal(size=(2, factor.rows, 3)), RANDOM.normal(size=(2, 4, 3))
    np.testing.assert_allclose(factor.estimate(answers, 1), np.einsum("ij,ajb->aib", inverse, answers), atol=1e-9)
    np.testing.assert_allclose(
        factor.adjoint(coefficients, 1), np.einsum("ji,ajb->aib", inverse, coefficients), atol=1e-9
    )
    np.testing.assert_allclose(factor.inverse_gram, inverse @ inverse.T, atol=1e-9)
    np.testing.assert_allclose(factor.inverse.dense(), inverse, atol=1e-9)


@pytest.mark.parametrize("block", [Identity(4), Total(4), Prefix(4), AllRange(4), Dense([[1, 1, 0, 0]])], ids=str)
@pytest.mark.parametrize("factor", FACTORS, ids=str)
def test_query_variances_and_support(factor: AxisStrategy, block) -> None:
    m, w = dense(factor), block.dense()
    inverse = np.linalg.pinv(m.T @ m)
    np.testing.assert_allclose(factor.query_variances(block), np.einsum("ij,jk,ik->i", w, inverse, w), atol=1e-9)
    assert factor.total_variance(block) == pytest.approx(np.trace(w @ inverse @ w.T))
    assert factor.supports(block) == np.allclose(w @ np.linalg.pinv(m) @ m, w)


def test_misfits_are_refused() -> None:
    with pytest.raises(WorkloadError, match="too large for exact sums"):
        AxisStrategy.of([[2**31]], 1)
    with pytest.raises(WorkloadError, match="zeros measures nothing"):
        AxisStrategy.of([[0, 0]], 1)
    with pytest.raises(WorkloadError, match="array of integers"):
        AxisStrategy.of([[0.5]], 1)
    with pytest.raises(WorkloadError, match="whole entries"):
        AxisStrategy(Dense([[0.5]]))
    with pytest.raises(WorkloadError, match="5 columns on an attribute of 4 levels"):
        AxisStrategy(Identity(4)).query_variances(Identity(5))
    with pytest.raises(WorkloadError, match="expected positive integers"):
        AxisStrategy(LevelsAndTotal(3, levels=0, total=1))


OPERATORS: list[AxisStrategy] = [
    AxisStrategy(Identity(1)),
    AxisStrategy(Identity(4)),
    AxisStrategy.of([[2, 0, 1], [0, -3, 1]], scale=2),
    AxisStrategy.of([[1], [2], [-1]], scale=3),
    AxisStrategy(LevelsAndTotal(3, levels=4, total=1)),
    ResidualBasis.plain(2),
    ResidualBasis.plain(5),
    ResidualBasis.of([[1, -1, 0], [1, 1, -2]], scale=2),
    TiltedBasis(AxisStrategy(LevelsAndTotal(3, levels=2, total=1))),
]


@pytest.mark.parametrize("factor", OPERATORS, ids=str)
def test_the_operator_is_the_integer_matrix_over_its_scale(factor: AxisStrategy) -> None:
    integers = factor.measure(np.eye(factor.size, dtype=np.int64), 0)
    check_operator(factor.scaled, dense=integers / factor.scale)


@pytest.mark.parametrize("factor", OPERATORS, ids=str)
def test_it_answers_several_columns_at_once(factor: AxisStrategy) -> None:
    operator, dense = factor.scaled, factor.scaled.dense()
    assert operator.shape == (factor.rows, factor.size)
    columns = np.arange(2.0 * factor.size).reshape(factor.size, 2)
    np.testing.assert_allclose(operator.matmat(columns), dense @ columns, atol=1e-12)
