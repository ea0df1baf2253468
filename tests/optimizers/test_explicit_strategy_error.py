import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.errors import SizeError, WorkloadError
from hush.linops import AllRange, Dense, Haar, Identity, LinearOperator, Prefix, Total, Tree, WidthRange
from hush.optimizers import explicit_strategy as hierarchy
from hush.optimizers.explicit_strategy import covariance, largest_error, query_errors, supports, total_error
from hush.optimizers.svd_bound import svd_bound
from hush.strategies.strategy import NoiseKind

GAUSSIAN, LAPLACE = NoiseKind.GAUSSIAN, NoiseKind.LAPLACE
# [Li 2013], total squared error of all ranges under Gaussian noise: identity, hierarchical, wavelet, SVD bound
RANGES = {
    4: (20, 20.85714, 18, 16.31224),
    8: (120, 117.33333, 93.5, 79.17234),
    16: (816, 657.60983, 514.0625, 404.48293),
    64: (45760, 18905.15368, 15190.98438, 10787.15031),
    256: (2829056, 483900.71875, 404131.25391, 272163.0347),
}
# [HDMM, Tables 3.2 and 3.3]: identity, H2, Privelet, HB, SVD bound
HDMM: list[tuple[LinearOperator, NoiseKind, tuple[float, ...]]] = [
    (AllRange(64), LAPLACE, (6.63, 11.28, 10.11, 6.63, 3.22)),
    (AllRange(256), LAPLACE, (13.11, 16.27, 14.87, 8.90, 4.07)),
    (Prefix(64), LAPLACE, (8.06, 9.42, 9.37, 8.06, 2.89)),
    (Prefix(256), LAPLACE, (16.03, 13.16, 13.09, 8.97, 3.50)),
    (WidthRange(64, 32), LAPLACE, (8.00, 12.02, 11.09, 8.00, 2.75)),
    (WidthRange(256, 32), LAPLACE, (8.00, 15.50, 13.57, 7.41, 3.26)),
    (AllRange(64), GAUSSIAN, (19.82, 12.74, 11.42, 19.82, 9.62)),
    (AllRange(256), GAUSSIAN, (39.18, 16.20, 14.81, 18.80, 12.15)),
    (Prefix(64), GAUSSIAN, (24.08, 10.64, 10.58, 24.08, 8.62)),
    (Prefix(256), GAUSSIAN, (47.89, 13.11, 13.03, 18.95, 10.44)),
    (WidthRange(64, 32), GAUSSIAN, (23.90, 13.57, 12.52, 23.90, 8.23)),
    (WidthRange(256, 32), GAUSSIAN, (23.90, 15.44, 13.52, 15.65, 9.73)),
]
FIXED = (Identity, Tree, Haar, hierarchy.hb)


@pytest.mark.parametrize("size", RANGES)
def test_fixed_strategies_on_all_ranges(size: int) -> None:
    gram = AllRange(size).gram_dense()
    errors = [total_error(gram, make(size)) for make in FIXED[:3]]
    assert [*errors, svd_bound(gram)] == pytest.approx(RANGES[size], rel=1e-6)


@pytest.mark.parametrize(("size", "expected"), [(64, (45760, 132336, 106337)), (256, (2829056, 4355106, 3637181))])
def test_fixed_strategies_on_all_ranges_under_laplace_noise(size: int, expected: tuple[int, ...]) -> None:
    gram = AllRange(size).gram_dense()
    assert [total_error(gram, make(size), LAPLACE) for make in FIXED[:3]] == pytest.approx(expected, abs=0.6)


@pytest.mark.parametrize(("block", "noise", "published"), HDMM, ids=lambda value: str(value))
def test_published_errors(block: LinearOperator, noise: NoiseKind, published: tuple[float, ...]) -> None:
    m, n = block.shape
    gram = block.gram_dense()
    errors = [*(total_error(gram, make(n), noise) for make in FIXED), svd_bound(gram)]
    variance = 2.0 if noise is LAPLACE else 4.224678889**2
    assert np.sqrt(variance * np.array(errors) / m) == pytest.approx(published, abs=0.0051)


@settings(max_examples=30)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_all_forms_of_an_error_agree_with_the_pseudo_inverse(m: int, p: int, n: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    a = random.normal(size=(p, n))
    w = random.normal(size=(m, p)) @ a
    workload, strategy = Dense(w), Dense(a)
    assert supports(workload, strategy)
    half = w @ np.linalg.pinv(a)
    for noise in NoiseKind:
        expected = strategy.sensitivity(noise.norm) ** 2 * half @ half.T
        assert covariance(workload, strategy, noise) == pytest.approx(expected, rel=1e-5, abs=1e-8)
        assert query_errors(workload, strategy, noise) == pytest.approx(expected.diagonal(), rel=1e-5)
        assert largest_error(workload, strategy, noise) == pytest.approx(expected.diagonal().max(), rel=1e-5)
        assert total_error(w.T @ w, strategy, noise) == pytest.approx(np.trace(expected), rel=1e-5)


def test_a_workload_measured_as_it_is_errs_by_its_rank() -> None:
    w = Dense(np.array([[1.0, 1, 0], [0, 0, 1], [1, 1, 1]]))
    assert total_error(w.gram_dense(), w) == pytest.approx(2 * w.sensitivity(2) ** 2)


def test_the_errors_are_those_of_noisy_answers() -> None:
    workload, strategy = Prefix(4), Tree(4)
    random = np.random.default_rng(8)
    noise = strategy.sensitivity(2) * random.normal(size=(strategy.shape[0], 40_000))
    answers = workload.dense() @ np.linalg.pinv(strategy.dense()) @ noise
    assert answers.var(axis=1) == pytest.approx(query_errors(workload, strategy), rel=0.05)
    assert np.abs(answers.mean(axis=1)).max() < 0.05


def test_errors_do_not_depend_on_the_scale_of_the_strategy() -> None:
    gram = Prefix(8).gram_dense()
    for noise in NoiseKind:
        assert total_error(gram, 7.0 * Haar(8), noise) == pytest.approx(total_error(gram, Haar(8), noise))


def test_support() -> None:
    rows = np.array(
        [[1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0, 0], [0, 1, 0, 1, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0, 0, 0],
         [0, 0, 0, 0, 1, 1, -1, -1]]
    )  # fmt: skip
    assert supports(Dense(rows[1:4]), Dense(rows[2:4]))
    assert not supports(Dense(rows[1:4]), Dense(rows[[0, 4]]))
    assert not supports(Dense(rows[[1, 2, 4]]), Dense(rows[2:4]))


def test_what_is_refused() -> None:
    with pytest.raises(WorkloadError, match="add the identity to the strategy"):
        total_error(np.eye(3), Total(3))
    with pytest.raises(WorkloadError, match="add the identity to the strategy"):
        query_errors(Identity(3), Total(3))
    with pytest.raises(WorkloadError, match="on 3 cells and a strategy on 4"):
        total_error(np.eye(3), Identity(4))
    with pytest.raises(WorkloadError, match="must be square"):
        total_error(np.ones((2, 3)), Identity(3))
    with pytest.raises(SizeError, match="ask for their variances"):
        covariance(AllRange(200), Identity(200))
