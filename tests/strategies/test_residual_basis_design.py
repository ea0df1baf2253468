import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.errors import SizeError, WorkloadError
from hush.linops import AllRange, Dense, Identity, LinearOperator, Prefix, Total, WidthRange
from hush.strategies.residual_basis import MOST_BITS, ResidualBasis, design_basis, optimal_gram

BLOCKS = [Prefix(5), Prefix(60), AllRange(17), AllRange(60), WidthRange(30, 4), Dense(np.arange(8.0)[None])]


def centred(block: LinearOperator) -> np.ndarray:
    centre = np.eye(block.shape[1]) - 1 / block.shape[1]
    return centre @ block.gram_dense() @ centre


@pytest.mark.parametrize("block", BLOCKS, ids=repr)
def test_the_basis_is_close_to_the_best_and_its_numbers_are_of_the_rounded_matrix(block: LinearOperator) -> None:
    found = design_basis(block.gram_dense())
    basis = found.checked()
    assert not basis.is_plain
    assert not basis.matrix.sum(axis=1).any()
    assert 0.995 < found.stats["efficiency"] <= 1 + 1e-9
    assert found.stats["bits"] <= MOST_BITS
    value = float(basis.max_diagonal) * basis.query_variances(block).sum()
    svd = np.sqrt(np.maximum(np.linalg.eigvalsh(centred(block)), 0)).sum() ** 2 / basis.size
    assert value / svd == pytest.approx(found.stats["svd_bound_ratio"], rel=1e-6)
    assert value >= svd * (1 - 1e-9)


@pytest.mark.parametrize(("block", "most"), [(Prefix(100), 1.04), (AllRange(100), 1.003), (WidthRange(100, 10), 1.03)])
def test_distance_to_the_svd_bound(block: LinearOperator, most: float) -> None:
    assert design_basis(block.gram_dense()).stats["svd_bound_ratio"] < most


def test_a_designed_basis_beats_the_plain_one_by_far_on_prefix_sums() -> None:
    block = Prefix(100)
    plain, designed = ResidualBasis.plain(100), design_basis(block.gram_dense()).value
    costs = [float(basis.max_diagonal) * basis.query_variances(block).sum() for basis in (plain, designed)]
    assert costs[1] < costs[0] / 5


def test_no_feasible_strategy_beats_the_dual_bound() -> None:
    v = centred(Prefix(12))
    found = optimal_gram(v, tolerance=1e-6)
    x, d = found.value
    assert found.solved
    assert x.diagonal().max() == pytest.approx(1)
    root = np.sqrt(d)
    dual = np.sqrt(np.maximum(np.linalg.eigvalsh(root[:, None] * v * root), 0)).sum() ** 2
    random = np.random.default_rng(3)
    values = []
    for _ in range(50):
        s = random.normal(size=(11, 12))
        s -= s.mean(axis=1, keepdims=True)
        trial = s.T @ s
        values.append(trial.diagonal().max() * np.trace(np.linalg.pinv(trial) @ v))
    assert np.trace(np.linalg.pinv(x) @ v) == pytest.approx(dual, rel=2e-6)
    assert min(values) > dual


@pytest.mark.parametrize("block", [Identity(6), Total(6), Prefix(2), Dense(np.full((2, 4), 3.0))], ids=repr)
def test_what_has_nothing_to_gain_gets_the_plain_basis(block: LinearOperator) -> None:
    assert design_basis(block.gram_dense()).value == ResidualBasis.plain(block.shape[1])


def test_scale_does_not_matter() -> None:
    gram = AllRange(9).gram_dense()
    assert design_basis(gram).value == design_basis(1024.0 * gram).value


def test_an_iteration_limit_is_reported_with_its_remedy() -> None:
    found = optimal_gram(centred(Prefix(40)), tolerance=1e-9, iterations=2)
    assert not found.solved
    assert "raise iterations" in found.status


def test_bad_grams_are_refused() -> None:
    with pytest.raises(SizeError, match="5000 levels is too large"):
        design_basis(np.zeros((5000, 1)))
    with pytest.raises(WorkloadError, match="square and finite"):
        design_basis(np.full((3, 3), np.nan))


@settings(max_examples=25)
@given(st.integers(3, 12), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_any_queries_get_a_basis_of_full_rank(size: int, rows: int, seed: int) -> None:
    w = np.random.default_rng(seed).integers(-2, 3, size=(rows, size)).astype(float)
    basis = design_basis(w.T @ w).value
    assert basis.size == size
    assert np.isfinite(basis.query_variances(Dense(w))).all()
