from itertools import product

import numpy as np
import pytest

from hush.core.errors import SizeError, WorkloadError
from hush.linops import AllRange, Equivalent


def test_all_predicates() -> None:
    rows = np.array(list(product([0.0, 1.0], repeat=5)))
    every = Equivalent(2.0**3 * (np.eye(5) + 1), queries=2**5)
    np.testing.assert_array_equal(every.gram_dense(), rows.T @ rows)
    np.testing.assert_allclose(every.column_norms(2), np.linalg.norm(rows, axis=0))
    assert every.queries == 32
    assert every.shape == (5, 5)


def test_a_thousand_levels_and_all_their_predicates() -> None:
    v = np.full((64, 64), 2.0**1022)
    np.fill_diagonal(v, 2.0**1023)
    every = Equivalent(v, queries=2**1024)
    assert every.queries == 2**1024
    assert "an integer of 1025 bits" in repr(every)
    np.testing.assert_allclose(every.dense() @ (every.dense() / 2.0**1022), v / 2.0**1022, rtol=1e-9)


def test_any_workload_has_its_total_error() -> None:
    ranges = AllRange(6)
    own = Equivalent(ranges.gram_dense(), ranges.queries)
    noise = np.diag(np.arange(1.0, 7))
    assert np.trace(own.dense() @ noise @ own.dense().T) == pytest.approx(
        np.trace(ranges.dense() @ noise @ ranges.dense().T)
    )


def test_compares_by_gram_and_queries() -> None:
    assert Equivalent(np.eye(2), 2) == Equivalent(np.eye(2), 2)
    assert Equivalent(np.eye(2), 2) != Equivalent(np.eye(2), 3)
    assert Equivalent(np.eye(2), 2) != Equivalent(2 * np.eye(2), 2)


@pytest.mark.parametrize(
    ("gram", "queries", "message"),
    [
        (np.ones((2, 3)), 1, "square"),
        ([[np.nan]], 1, "finite"),
        ([[1.0, 2.0], [0.0, 1.0]], 1, "not symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], 1, "negative eigenvalue"),
        ([[-1.0]], 1, "negative eigenvalue"),
        ([[1.0]], 0, "whole number of at least 1"),
        ([[1.0]], 1.5, "whole number of at least 1"),
    ],
)
def test_what_is_no_gram_matrix_is_refused(gram: object, queries: int, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        Equivalent(gram, queries)


def test_rounding_is_forgiven() -> None:
    w = np.random.default_rng(0).normal(size=(3, 40))
    assert Equivalent(w.T @ w - 1e-12 * np.eye(40), 3).shape == (40, 40)


def test_too_many_levels() -> None:
    with pytest.raises(SizeError, match="at most 4,096"):
        Equivalent(np.broadcast_to(1.0, (4097, 4097)), 1)
