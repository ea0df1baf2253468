import numpy as np
import pytest

from hush.linops import AllRange, LinearOperator, Prefix, WidthRange
from hush.optimizers.eigen_design import l2_approximation, singular_value_approximation
from hush.optimizers.explicit_strategy import total_error
from hush.optimizers.svd_bound import svd_bound
from hush.strategies.optimum import gram_factor, optimal_gram
from hush.strategies.strategy import NoiseKind

BLOCKS = [Prefix(16), AllRange(16), WidthRange(16, 5)]
LAPLACE = NoiseKind.LAPLACE


@pytest.mark.parametrize("block", BLOCKS, ids=repr)
def test_both_are_within_a_factor_of_the_cells_of_the_bound_for_laplace_noise(block: LinearOperator) -> None:
    gram = block.gram_dense()
    bound = optimal_gram(gram_factor(gram)).checked().lower_bound
    for strategy in (l2_approximation(gram).checked(), singular_value_approximation(gram)):
        assert bound <= total_error(gram, strategy, LAPLACE) <= 16 * bound


@pytest.mark.parametrize("block", BLOCKS, ids=repr)
def test_the_l2_approximation_is_the_gaussian_optimum_turned(block: LinearOperator) -> None:
    gram = block.gram_dense()
    best = optimal_gram(gram_factor(gram)).checked()
    turned = l2_approximation(gram).checked()
    assert total_error(gram, turned) == pytest.approx(best.error, rel=1e-6)
    assert turned.sensitivity(1) <= best.strategy.sensitivity(1)


@pytest.mark.parametrize("block", BLOCKS, ids=repr)
def test_the_singular_value_approximation_reaches_the_bound_on_frobenius_norms(block: LinearOperator) -> None:
    gram = block.gram_dense()
    a = singular_value_approximation(gram).dense()
    reached = np.sum(a**2) * np.trace(gram @ np.linalg.pinv(a.T @ a))
    assert reached == pytest.approx(len(gram) * svd_bound(gram), rel=1e-6)
