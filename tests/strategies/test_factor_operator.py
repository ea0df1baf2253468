"""Factors as operators: the strategy M / L, whatever the factor."""

import numpy as np
import pytest

from hush.strategies.axis_strategy import Factor, FactorOperator, IdentityFactor, LevelsFactor, MatrixFactor
from hush.strategies.residual_basis import MatrixBasis, PlainBasis, TiltedBasis
from hush.testing import check_operator

FACTORS: list[Factor] = [
    IdentityFactor(1),
    IdentityFactor(4),
    MatrixFactor([[2, 0, 1], [0, -3, 1]], scale=2),
    MatrixFactor([[1], [2], [-1]], scale=3),
    LevelsFactor(3, levels=4, total=1),
    PlainBasis(2),
    PlainBasis(5),
    MatrixBasis([[1, -1, 0], [1, 1, -2]], scale=2),
    TiltedBasis(LevelsFactor(3, levels=2, total=1)),
]


@pytest.mark.parametrize("factor", FACTORS, ids=str)
def test_the_operator_is_the_integer_matrix_over_its_scale(factor: Factor) -> None:
    integers = factor.measure(np.eye(factor.size, dtype=np.int64), 0)
    check_operator(FactorOperator(factor), dense=integers / factor.scale)


@pytest.mark.parametrize("factor", FACTORS, ids=str)
def test_it_answers_several_columns_at_once(factor: Factor) -> None:
    operator, dense = FactorOperator(factor), FactorOperator(factor).dense()
    assert operator.shape == (factor.rows, factor.size)
    columns = np.arange(2.0 * factor.size).reshape(factor.size, 2)
    np.testing.assert_allclose(operator.matmat(columns), dense @ columns, atol=1e-12)
