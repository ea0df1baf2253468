"""The semidefinite programs of the references, solved by an interior point method, as a reference on tiny workloads."""

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from hush.optimizers.max_error import least_max_error
from hush.strategies.optimum import optimal_gram

WORKLOADS = {
    "prefix": np.tri(6),
    "ranges": np.array([[float(i <= k <= j) for k in range(5)] for i in range(5) for j in range(i, 5)]),
    "few queries": np.array([[1.0, 1, 1, 0, 0], [0, 0, 1, 1, 1]]),
    "a cell that nothing asks for": np.array([[1.0, 0, 2], [1, 0, -1], [3, 0, 1]]),
    "a cell with slack": np.array([[1.0, 0, 0, 0], [0.1, 0.1, 0.1, 0.1], [0.1, 0.1, 0, 0], [0, 0, 0.1, 0]]),
    "one query": np.array([[1.0, 0.5, 2.0]]),
}


def least_error(workload: np.ndarray, *, largest: bool) -> float:
    """min sum u_i, or max u_i, s.t. [[X, w_i^T], [w_i, u_i]] >= 0 and X_jj <= 1: [Li 2013, Program 3.4.2]."""
    m, n = workload.shape
    place = {(a, b): k for k, (a, b) in enumerate((a, b) for b in range(n) for a in range(b + 1))}
    errors = 1 if largest else m
    variables = len(place) + errors
    rows, columns, values, constants = [], [], [], []
    cones: list[object] = []

    def entry(value: float, column: int | None, constant: float) -> None:
        if column is not None:
            rows.append(len(constants))
            columns.append(column)
            values.append(value)
        constants.append(constant)

    for j in range(n):
        entry(1.0, place[j, j], 1.0)
    cones.append(clarabel.NonnegativeConeT(n))
    for i, w in enumerate(workload):
        for b in range(n):
            for a in range(b + 1):
                entry(-1.0 if a == b else -np.sqrt(2), place[a, b], 0.0)
        for a in range(n):
            entry(0.0, None, np.sqrt(2) * w[a])
        entry(-1.0, len(place) + (0 if largest else i), 0.0)
        cones.append(clarabel.PSDTriangleConeT(n + 1))
    options = clarabel.DefaultSettings()
    options.verbose = False
    costs = np.zeros(variables)
    costs[len(place) :] = 1.0
    found = clarabel.DefaultSolver(
        sparse.csc_matrix((variables, variables)),
        costs,
        sparse.csc_matrix((values, (rows, columns)), shape=(len(constants), variables)),
        np.array(constants),
        cones,
        options,
    ).solve()
    assert str(found.status) in ("Solved", "AlmostSolved")
    return float(found.obj_val)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_least_total_error_is_that_of_the_semidefinite_program(name: str) -> None:
    w = WORKLOADS[name]
    found = optimal_gram(w.T, tolerance=1e-6)
    assert found.checked().error == pytest.approx(least_error(w, largest=False), rel=1e-5)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_least_maximum_error_is_that_of_the_semidefinite_program(name: str) -> None:
    w = WORKLOADS[name]
    found = least_max_error(w, tolerance=1e-5)
    assert found.solved
    assert found.stats["value"] == pytest.approx(least_error(w, largest=True), rel=3e-5)


@settings(max_examples=20)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_random_queries_agree_with_both_programs(cells: int, queries: int, seed: int) -> None:
    w = np.random.default_rng(seed).integers(-2, 4, size=(queries, cells)).astype(float)
    w[0, 0] = 1.0
    assert optimal_gram(w.T, tolerance=1e-5).checked().error == pytest.approx(
        least_error(w, largest=False), rel=1e-4, abs=1e-6
    )
    assert least_max_error(w, tolerance=1e-4).stats["value"] == pytest.approx(
        least_error(w, largest=True), rel=3e-4, abs=1e-6
    )
