import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.errors import SizeError, WorkloadError
from hush.linops import AllRange, Dense, Prefix, WidthRange
from hush.optimizers.explicit_strategy import largest_error, query_errors
from hush.optimizers.max_error import least_max_error
from hush.strategies.optimum import optimal_gram


@pytest.mark.parametrize("block", [Prefix(24), AllRange(10), WidthRange(24, 6)], ids=repr)
@pytest.mark.parametrize("power", [1.5, 2.0, 6.0, math.inf])
def test_the_strategy_has_the_errors_it_claims_within_its_bound(block: Prefix, power: float) -> None:
    found = least_max_error(block.dense(), power=power)
    value = found.checked()
    assert value.gram.diagonal() == pytest.approx(np.ones(block.shape[1]))
    assert query_errors(block, value.strategy) == pytest.approx(value.errors, rel=1e-6)
    assert np.linalg.norm(value.errors, ord=power) == pytest.approx(found.stats["value"])
    assert value.lower_bound <= found.stats["value"] <= value.lower_bound * (1 + 1e-3)
    w = np.sqrt(value.query_weights)[:, None] * block.dense() * np.sqrt(value.cell_weights)
    assert np.linalg.svd(w, compute_uv=False).sum() ** 2 == pytest.approx(value.lower_bound, rel=1e-9)


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_the_largest_error_is_below_that_of_the_least_total_and_of_any_other(m: int, n: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    w = random.normal(size=(m, n))
    found = least_max_error(w)
    assert found.solved
    total = optimal_gram(w.T).checked()
    assert found.stats["value"] <= largest_error(Dense(w), total.strategy) * (1 + 2e-3)
    assert m * found.stats["value"] >= total.lower_bound * (1 - 1e-9)
    assert largest_error(Dense(w), Dense(random.normal(size=(n, n)))) >= found.value.lower_bound * (1 - 1e-6)


def test_a_power_close_to_one_is_the_total_error() -> None:
    w = np.tri(6)
    total = optimal_gram(w.T, tolerance=1e-6).checked().error
    assert least_max_error(w, power=1.001, tolerance=1e-4).stats["value"] == pytest.approx(total, rel=3e-3)


def test_queries_and_cells_of_nothing_and_scales() -> None:
    w = np.tri(5)
    error = least_max_error(w, tolerance=1e-5).stats["value"]
    padded = np.zeros((7, 6))
    padded[1:6, :5] = w
    found = least_max_error(padded, tolerance=1e-5)
    assert found.stats["value"] == pytest.approx(error, rel=1e-4)
    assert found.value.query_weights[[0, 6]].tolist() == [0, 0]
    assert found.value.cell_weights[5] == 0
    assert least_max_error(1e5 * w, tolerance=1e-5).stats["value"] == pytest.approx(1e10 * error, rel=1e-4)


def test_stopping_early_is_said() -> None:
    found = least_max_error(np.tri(20), iterations=1)
    assert not found.solved
    assert found.value.lower_bound < found.stats["value"]


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WorkloadError, match="not all of them zero"):
        least_max_error(np.zeros((2, 2)))
    with pytest.raises(WorkloadError, match="power=1: expected a number above 1; for the sum"):
        least_max_error(np.eye(2), power=1)
    with pytest.raises(SizeError, match="limit 8192"):
        least_max_error(np.ones((8193, 2)))
    monkeypatch.setattr("hush.core.memory.UNCHECKED_BYTES", 0)
    monkeypatch.setattr("hush.core.memory.available_memory", lambda: 1000)
    with pytest.raises(SizeError, match="6 queries on 6 cells: 4.6 KB needed, 1.0 KB free; ask fewer"):
        least_max_error(np.tri(6))
