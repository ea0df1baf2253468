import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.errors import SizeError, WorkloadError
from hush.linops import AllRange, Dense, LinearOperator, Prefix, WidthRange
from hush.optimizers.explicit_strategy import supports, total_error
from hush.optimizers.svd_bound import svd_bound
from hush.strategies.optimum import dual_value, gram_factor, gram_root, harmonic_kernel, optimal_gram

# [Li 2013] on all ranges, recomputed to these digits
RANGES = {4: 16.4409, 8: 80.4643, 16: 413.1403, 64: 11024.385, 256: 276929.4}
# the least root mean squared error at sigma = 4.224678889, to two decimals: [HDMM, Table 3.3]
HDMM = [
    (AllRange(64), 9.73),
    (AllRange(256), 12.26),
    (Prefix(64), 8.87),
    (Prefix(256), 10.66),
]
BEATEN = [(WidthRange(64, 32), 8.74), (WidthRange(256, 32), 9.93)]


@pytest.mark.parametrize("size", RANGES)
def test_all_ranges(size: int) -> None:
    found = optimal_gram(gram_factor(AllRange(size).gram_dense()), tolerance=1e-6)
    assert found.checked().error == pytest.approx(RANGES[size], rel=4e-6)


@pytest.mark.parametrize(("block", "published"), HDMM, ids=repr)
def test_published_errors_are_reached(block: LinearOperator, published: float) -> None:
    error = optimal_gram(gram_factor(block.gram_dense())).checked().error
    assert 4.224678889 * np.sqrt(error / block.shape[0]) == pytest.approx(published, abs=0.0051)


@pytest.mark.parametrize(("block", "published"), BEATEN, ids=repr)
def test_published_errors_on_queries_short_of_full_rank_are_beaten(block: LinearOperator, published: float) -> None:
    error = optimal_gram(gram_factor(block.gram_dense())).checked().error
    assert published * 0.99 < 4.224678889 * np.sqrt(error / block.shape[0]) < published - 0.005


@pytest.mark.parametrize(("size", "ratio"), [(64, 1.060), (256, 1.044), (512, 1.038)])
def test_prefix_sums_come_close_to_the_svd_bound(size: int, ratio: float) -> None:
    gram = Prefix(size).gram_dense()
    found = optimal_gram(gram_factor(gram)).checked()
    assert ratio - 1.1e-3 < found.error / svd_bound(gram) <= ratio
    assert found.lower_bound <= found.error <= found.lower_bound * (1 + 1e-4)


@pytest.mark.parametrize("block", [Prefix(40), AllRange(24), WidthRange(40, 9)], ids=repr)
@pytest.mark.parametrize("completed", [True, False])
def test_the_strategy_has_the_error_it_claims(block: LinearOperator, completed: bool) -> None:
    gram = block.gram_dense()
    found = optimal_gram(gram_factor(gram), completed=completed).checked()
    assert supports(block, found.strategy)
    assert found.strategy.sensitivity(2) == pytest.approx(1)
    assert total_error(gram, found.strategy) == pytest.approx(found.error, rel=1e-6)
    assert found.weights.sum() == pytest.approx(1)
    assert dual_value(gram, found.weights) == pytest.approx(found.lower_bound, rel=1e-9)


def test_completion_makes_all_column_norms_equal_and_its_absence_keeps_the_row_space() -> None:
    factor = gram_factor(WidthRange(20, 6).gram_dense())
    assert np.allclose(optimal_gram(factor).value.gram.diagonal(), 1)
    plain = optimal_gram(factor, completed=False).value.gram
    assert np.linalg.matrix_rank(plain, tol=1e-9) == factor.shape[1] == 15


@settings(max_examples=25)
@given(st.integers(2, 8), st.integers(1, 10), st.integers(0, 2**32 - 1))
def test_bounds_enclose_the_optimum_and_no_random_strategy_is_better(cells: int, queries: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    w = random.normal(size=(queries, cells))
    found = optimal_gram(w.T).checked()
    gram = w.T @ w
    assert svd_bound(gram) <= found.lower_bound * (1 + 1e-9)
    assert found.lower_bound <= found.error * (1 + 1e-12)
    trial = Dense(random.normal(size=(cells, cells)))
    assert total_error(gram, trial) >= found.lower_bound * (1 - 1e-6)


def test_invariances() -> None:
    random = np.random.default_rng(5)
    w = random.normal(size=(9, 7))
    order = random.permutation(7)
    rotation = np.linalg.qr(random.normal(size=(9, 9)))[0]
    error = optimal_gram(w.T, tolerance=1e-7).checked().error
    for other, scale in [(w[:, order], 1.0), (rotation @ w, 1.0), (1e6 * w, 1e12), (np.vstack([w, 0 * w]), 1.0)]:
        assert optimal_gram(other.T, tolerance=1e-7).checked().error == pytest.approx(scale * error, rel=1e-6)


def test_the_optimum_of_a_product_is_the_product_of_the_optima() -> None:
    one, two = np.tri(5), np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 2]])
    found = [optimal_gram(w.T, tolerance=1e-8).checked() for w in (one, two, np.kron(one, two))]
    assert found[2].error == pytest.approx(found[0].error * found[1].error, rel=1e-6)
    assert np.allclose(found[2].gram, np.kron(found[0].gram, found[1].gram), atol=1e-3)


def test_published_bracket_of_two_dimensional_ranges() -> None:
    """All ranges on 64 x 32 cells: the best is 1.0454 to 1.0474 times the SVD bound."""
    grams = [AllRange(size).gram_dense() for size in (64, 32)]
    ratios = [optimal_gram(gram_factor(gram)).checked().error / svd_bound(gram) for gram in grams]
    assert 1.0454 - 5e-5 <= ratios[0] * ratios[1] <= 1.0474


def test_a_cell_that_nothing_asks_for_changes_nothing() -> None:
    w = np.tri(5)
    wider = np.insert(w, 2, 0.0, axis=1)
    found = optimal_gram(wider.T).checked()
    assert found.error == pytest.approx(optimal_gram(w.T).checked().error, rel=1e-6)
    assert found.weights[2] == 0
    assert np.array_equal(found.gram[2], np.eye(6)[2])


def test_slack_constraints_lose_their_weight() -> None:
    w = np.array([[1.0, 0.3, 0], [0, 0.2, 1.0]])
    found = optimal_gram(w.T, tolerance=1e-8, completed=False).checked()
    assert found.weights[1] < 1e-4
    assert found.gram[1, 1] < 0.5


def test_queries_of_very_different_scales() -> None:
    gram = Prefix(30).gram_dense()
    scales = np.geomspace(1e-6, 1.0, 30)
    gram = scales[:, None] * gram * scales
    found = optimal_gram(gram_factor(gram), tolerance=1e-3, iterations=100).checked()
    assert svd_bound(gram) <= found.lower_bound <= found.error


@pytest.mark.parametrize("seed", range(4))
def test_cells_of_very_different_scales_are_solved_in_their_row_space(seed: int) -> None:
    random = np.random.default_rng(seed)
    w = random.normal(size=(19, 11)) * 10.0 ** random.uniform(-4, 0, size=11)
    found = optimal_gram(w.T, completed=False).checked()
    assert total_error(w.T @ w, found.strategy) == pytest.approx(found.error, rel=1e-4)


def test_stopping_early_is_said_and_certified() -> None:
    factor = gram_factor(Prefix(64).gram_dense())
    best = optimal_gram(factor, tolerance=1e-8).checked().error
    for iterations in (1, 2):
        found = optimal_gram(factor, iterations=iterations)
        assert not found.solved
        assert "raise iterations" in found.status
        assert found.stats["iterations"] == iterations
        assert found.value.lower_bound < best < found.value.error
        assert found.value.error / found.value.lower_bound - 1 == pytest.approx(found.stats["gap"])
        assert total_error(Prefix(64).gram_dense(), found.value.strategy) == pytest.approx(found.value.error, rel=1e-8)


def test_the_kernel_is_close_to_its_sum() -> None:
    random = np.random.default_rng(1)
    u = np.linalg.qr(random.normal(size=(12, 12)))[0]
    s = np.geomspace(1e-3, 50, 12)
    means = np.outer(s, s) / np.add.outer(s, s)
    exact = np.einsum("ja,jb,ka,kb,ab->jk", u, u, u, u, means)
    assert np.abs(harmonic_kernel(u, s) - exact).max() < 0.02 * np.abs(exact).max()


def test_singular_grams_have_roots() -> None:
    x = np.ones((3, 3))
    root = gram_root(x).dense()
    assert np.allclose(root.T @ root, x)


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WorkloadError, match="all zero"):
        optimal_gram(np.zeros((3, 2)))
    with pytest.raises(WorkloadError, match="finite numbers"):
        optimal_gram(np.array([[np.nan]]))
    with pytest.raises(WorkloadError, match="square and finite"):
        gram_factor(np.ones((2, 3)))
    with pytest.raises(WorkloadError, match="no negative eigenvalue"):
        gram_factor(-np.eye(2))
    monkeypatch.setattr("hush.core.memory.UNCHECKED_BYTES", 0)
    monkeypatch.setattr("hush.core.memory.available_memory", lambda: 1000)
    with pytest.raises(SizeError, match="best strategy for 10 cells: 8.0 KB needed, 1.0 KB free; coarsen"):
        optimal_gram(np.tri(10))
