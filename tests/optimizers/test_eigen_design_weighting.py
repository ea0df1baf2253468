import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from hush.core.errors import WorkloadError
from hush.linops import AllRange, Dense, Haar, Prefix
from hush.optimizers.eigen_design import design_costs, optimal_weighting, weigh_loads
from hush.optimizers.explicit_strategy import total_error
from hush.strategies.strategy import NoiseKind

NOISES = list(NoiseKind)


@pytest.mark.parametrize("noise", NOISES)
@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_the_error_is_within_its_bound_and_the_constraints_hold(
    noise: NoiseKind, rows: int, cells: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    design, costs = random.normal(size=(rows, cells)), random.exponential(size=rows) + 1e-3
    found = optimal_weighting(design, costs, noise=noise)
    value = found.checked()
    scaled = value.scales[:, None] * design
    assert np.linalg.norm(scaled, ord=noise.norm, axis=0).max() == pytest.approx(1)
    assert np.sum(costs / value.scales**2) == pytest.approx(value.error)
    assert value.lower_bound <= value.error * (1 + 1e-12)
    assert value.error <= value.lower_bound * (1 + 1e-5)


@pytest.mark.parametrize("noise", NOISES)
def test_a_general_solver_finds_nothing_better(noise: NoiseKind) -> None:
    random = np.random.default_rng(2)
    design, costs = random.normal(size=(4, 5)), np.array([1.0, 3.0, 0.2, 5.0])

    def error(logs: np.ndarray) -> float:
        scales = np.exp(logs)
        return float(
            np.sum(costs / scales**2) * np.linalg.norm(scales[:, None] * design, ord=noise.norm, axis=0).max() ** 2
        )

    least = min(
        optimize.minimize(
            error, random.normal(size=4), method="Nelder-Mead", options={"maxiter": 4000, "fatol": 1e-12}
        ).fun
        for _ in range(3)
    )
    found = optimal_weighting(design, costs, noise=noise).checked()
    assert found.error <= least * (1 + 2e-5)
    assert found.lower_bound <= least


@pytest.mark.parametrize("noise", NOISES)
def test_weighted_wavelets_have_the_error_of_the_formula_and_beat_plain_ones(noise: NoiseKind) -> None:
    gram, design = AllRange(16).gram_dense(), Haar(16).dense()
    found = optimal_weighting(design, design_costs(gram, design), noise=noise).checked()
    weighted = Dense(found.scales[:, None] * design)
    assert total_error(gram, weighted, noise) == pytest.approx(found.error, rel=1e-9)
    assert found.error < total_error(gram, Haar(16), noise)


def test_the_gain_of_weighting_on_binary_attributes_under_laplace_noise() -> None:
    """2.81 in squared error for all ranges on eleven binary attributes; cells are alike, so gains multiply."""
    gram, design, costs = AllRange(2).gram_dense(), Haar(2).dense(), np.ones(1)
    for _ in range(4):
        costs = np.kron(costs, design_costs(gram, design))
    product = np.kron(np.kron(design, design), np.kron(design, design))
    found = optimal_weighting(product, costs, noise=NoiseKind.LAPLACE).checked()
    gain = total_error(gram, Haar(2), NoiseKind.LAPLACE) ** 4 / found.error
    assert gain ** (11 / 4) == pytest.approx(2.81, abs=5e-3)


def test_queries_of_no_cost_and_cells_of_no_query_are_left_out() -> None:
    design = np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [0.0, 1.0, 0.0]])
    found = optimal_weighting(design, np.array([4.0, 1.0, 0.0])).checked()
    assert found.scales[2] == 0
    assert found.cells[2] == 0
    assert found.error == pytest.approx(9.0)


def test_costs_are_those_of_the_pseudo_inverse() -> None:
    w, q = np.tri(4), np.array([[1.0, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -2]])
    expected = np.sum((w @ np.linalg.pinv(q)) ** 2, axis=0)
    assert design_costs(w.T @ w, q) == pytest.approx(expected)


def test_what_is_refused() -> None:
    gram = Prefix(3).gram_dense()
    with pytest.raises(WorkloadError, match="depend on each other"):
        design_costs(gram, np.array([[1.0, 0, 0], [2.0, 0, 0]]))
    with pytest.raises(WorkloadError, match="cannot answer all of the workload"):
        design_costs(gram, np.array([[1.0, 0, 0], [0, 1.0, 0]]))
    with pytest.raises(WorkloadError, match="expected \\(2, 2\\)"):
        design_costs(gram, np.eye(2))
    with pytest.raises(WorkloadError, match="not all 0"):
        weigh_loads(np.eye(2), np.zeros(2))
    with pytest.raises(WorkloadError, match="a design query that is zero"):
        weigh_loads(np.zeros((1, 2)), np.ones(1))


def test_an_iteration_limit_is_reported() -> None:
    design = np.random.default_rng(0).normal(size=(6, 6))
    found = optimal_weighting(design, np.arange(1.0, 7), iterations=1)
    assert not found.solved
    assert found.stats["gap"] > 1e-5
