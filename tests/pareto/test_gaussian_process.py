"""The process against dense formulas, finite differences and functions it must find."""

import numpy as np
import pytest

from hush.pareto.gaussian_process import ROOT5, GaussianProcess, Hyperparameters, _loss


def draws(count: int = 25) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(3)
    x = random.random((count, 2))
    return x, np.sin(4 * x[:, 0]) + 0.3 * x[:, 1] + 0.05 * random.normal(size=count)


def test_the_gradient_is_that_of_the_loss() -> None:
    x, y = draws()
    squares, relative = (x[:, None] - x[None]) ** 2, np.linspace(0.5, 2, len(y))
    logs = np.log([0.4, 0.9, 1.3, 0.02])
    _, gradient = _loss(logs, squares, y, relative)
    step = 1e-6
    for index in range(4):
        ends = [_loss(logs + sign * step * np.eye(4)[index], squares, y, relative)[0] for sign in (1, -1)]
        assert gradient[index] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4, abs=1e-5)


def test_predictions_are_the_dense_formulas() -> None:
    x, y = draws(12)
    chosen = Hyperparameters(np.array([0.3, 0.8]), 1.5, 0.1)
    process = GaussianProcess(x, y, chosen)
    point = np.array([[0.2, 0.7]])

    def kernel(a, b):
        r = np.sqrt((((a[:, None] - b[None]) / chosen.lengths) ** 2).sum(axis=2))
        return 1.5 * (1 + ROOT5 * r + 5 * r**2 / 3) * np.exp(-ROOT5 * r)

    covariance = kernel(x, x) + 0.1 * np.eye(12)
    weights = np.linalg.solve(covariance, (y - y.mean()) / y.std())
    mean, deviation = process.predict(point)
    assert mean[0] == pytest.approx(y.mean() + y.std() * (kernel(point, x) @ weights)[0])
    variance = 1.5 - kernel(point, x) @ np.linalg.solve(covariance, kernel(x, point))
    assert deviation[0] == pytest.approx(y.std() * np.sqrt(variance[0, 0]))


def test_the_noise_is_estimated_and_what_does_not_matter_gets_a_long_scale() -> None:
    """Noise of 0.05 is estimated to within a factor of 2 from 60 values; that of 0.5 is not taken for it."""
    random = np.random.default_rng(4)
    x = random.random((60, 2))
    for true in (0.05, 0.5):
        process = GaussianProcess.fit(x, np.sin(6 * x[:, 0]) + true * random.normal(size=60))
        assert true / 2 < np.sqrt(process.noise) < true * 2
        assert process.chosen.lengths[1] > process.chosen.lengths[0]


def test_a_noiseless_process_goes_through_its_values() -> None:
    x, y = draws(15)
    mean, deviation = GaussianProcess.fit(x, y, noiseless=True).predict(x)
    assert mean == pytest.approx(y, abs=1e-3)
    assert deviation.max() < 0.05


def test_a_belief_lowers_the_doubt_where_it_is_held() -> None:
    x, y = draws()
    process = GaussianProcess.fit(x, y)
    point = np.array([[0.5, 1.5]])
    before = process.predict(point)
    after = process.believing(point, float(before[0][0])).predict(point)
    assert after[1][0] < before[1][0] / 2
    assert after[0][0] == pytest.approx(before[0][0], abs=0.05)


def test_values_that_are_all_equal_and_points_that_are_the_same_are_fine() -> None:
    same = GaussianProcess.fit(np.zeros((5, 1)), np.ones(5))
    assert same.predict(np.array([[0.3]]))[0][0] == pytest.approx(1.0)


def test_values_that_agree_do_not_make_the_process_certain() -> None:
    """A plateau says nothing about where it ends: far away, the function may still move by the least scale."""
    x = 0.2 * draws(14)[0]
    values, far = np.full(14, 0.25), np.array([[1.0, 1.0]])
    assert GaussianProcess.fit(x, values, least_scale=0.02).chosen.variance >= 0.5
    doubtful = GaussianProcess(x, values, Hyperparameters(np.full(2, 0.5), 1.0, 0.01), least_scale=0.02)
    assert 0.5 * 0.02 < doubtful.predict(far)[1][0] < 2 * 0.02
    assert doubtful.predict(x)[1].max() < 0.25 * 0.02
    assert doubtful.believing(far, 0.25).scale == 0.02
    spread = GaussianProcess.fit(*draws(), least_scale=0.02)  # values that vary more set the scale themselves
    assert spread.scale == GaussianProcess.fit(*draws()).scale
