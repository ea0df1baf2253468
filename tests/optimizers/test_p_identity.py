import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.errors import SizeError
from hush.linops import AllRange, LinearOperator, Prefix, WidthRange
from hush.optimizers.p_identity import LARGEST_SIZE, loss, loss_and_gradient, optimise_theta, strategy


def rmse(block: LinearOperator, value: float) -> float:
    return float(np.sqrt(2 * value / block.shape[0]))


@given(st.integers(0, 2**32 - 1))
def test_loss_is_the_dense_formula_and_columns_add_up_to_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, p = int(random.integers(2, 9)), int(random.integers(1, 4))
    w, theta = random.normal(size=(5, n)), random.random((p, n)) * 3
    q = strategy(theta).dense()
    assert q.sum(axis=0) == pytest.approx(np.ones(n))
    dense = np.sum((w @ np.linalg.pinv(q)) ** 2)
    assert loss(theta, w.T @ w) == pytest.approx(dense)
    assert loss_and_gradient(theta, w.T @ w)[0] == pytest.approx(dense)


def test_gradient_agrees_with_finite_differences() -> None:
    random = np.random.default_rng(0)
    theta, gram = random.random((3, 7)), AllRange(7).gram_dense()
    slope = loss_and_gradient(theta, gram)[1]
    step = 1e-6
    for k in range(3):
        for j in range(7):
            bump = np.zeros_like(theta)
            bump[k, j] = step
            near = (loss(theta + bump, gram) - loss(theta - bump, gram)) / (2 * step)
            assert slope[k, j] == pytest.approx(near, rel=1e-5, abs=1e-5)


def test_theta_zero_is_the_identity() -> None:
    gram = Prefix(6).gram_dense()
    assert loss(np.zeros((2, 6)), gram) == pytest.approx(np.trace(gram))
    assert np.array_equal(strategy(np.zeros((2, 6))).dense(), np.eye(6))


# [HDMM, Table 3.2, OPT_0]
PRINTED = [
    (AllRange(64), 5.55),
    (Prefix(64), 5.32),
    (WidthRange(64, 32), 5.88),
    (AllRange(256), 8.07),
    (Prefix(256), 7.35),
    (WidthRange(256, 32), 6.34),
]


@pytest.mark.parametrize(("block", "printed"), PRINTED, ids=repr)
def test_printed_errors_are_reached(block: LinearOperator, printed: float) -> None:
    found = optimise_theta(block.gram_dense())
    assert rmse(block, found.stats["value"]) <= printed + 0.005


def test_the_names_of_levels_do_not_matter() -> None:
    gram = AllRange(64).gram_dense()
    order = np.random.default_rng(5).permutation(64)
    plain, permuted = optimise_theta(gram), optimise_theta(gram[np.ix_(order, order)])
    assert permuted.stats["value"] == pytest.approx(plain.stats["value"], rel=1e-3)


def test_a_start_is_never_made_worse_and_the_seed_decides() -> None:
    gram = Prefix(40).gram_dense()
    start = np.random.default_rng(1).random((2, 40))
    found = optimise_theta(gram, start=start, restarts=0, iterations=5)
    assert found.stats["value"] <= loss(start, gram)
    assert np.array_equal(optimise_theta(gram).value, optimise_theta(gram).value)


def test_the_identity_is_kept_where_nothing_beats_it() -> None:
    found = optimise_theta(np.eye(20), restarts=1)
    assert found.stats["value"] <= 20 * (1 + 1e-12)


def test_large_attributes_are_refused() -> None:
    with pytest.raises(SizeError, match="5000 levels"):
        optimise_theta(np.broadcast_to(1.0, (LARGEST_SIZE + 904, LARGEST_SIZE + 904)))
