"""Workloads and strategies as matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush import Domain, Workload, queries, research
from hush.core.errors import SizeError, WorkloadError
from hush.linops import AllRange, Dense, Haar, Identity, Permuted, Prefix, Scaled, Tree
from hush.optimizers.explicit_strategy import query_errors, short_wavelet
from hush.optimizers.workload_algebra import contains, minimised, same_errors, same_profile, workload_gram
from hush.strategies.optimum import optimal_gram

FIGURE_2_2 = np.array(
    [
        [1, 1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 0, 0, 0, 0],
        [0, 1, 0, 1, 0, 0, 0, 0],
        [1, 0, 1, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, 1, -1, -1],
    ],
    dtype=float,
)


def test_the_worked_example_is_minimised_to_four_cells() -> None:
    small = minimised(FIGURE_2_2)
    assert small.queries.shape == (5, 4)
    assert small.cell_of.tolist() == [0, 1, 0, 1, 2, 2, 3, 3]
    answers = small.queries @ small.merged([2, 0, 0, 1, 0, 1, 2, 0])
    assert answers.tolist() == [6, 3, 1, 2, -1]


@given(st.integers(0, 2**32 - 1))
def test_minimising_keeps_answers_and_the_least_error_and_is_done_once(seed: int) -> None:
    random = np.random.Generator(np.random.PCG64(seed))
    queries_of = random.integers(-1, 2, (3, 6)).astype(float)
    queries_of[0, 0] = 1.0
    small = minimised(queries_of)
    counts = random.integers(0, 9, 6)
    np.testing.assert_array_equal(small.queries @ small.merged(counts), queries_of @ counts)
    assert minimised(small.queries).queries.shape == small.queries.shape
    least, merged_least = (optimal_gram(w.T, tolerance=1e-6).value.error for w in (queries_of, small.queries))
    assert merged_least == pytest.approx(least, rel=1e-4)


def test_signed_zeros_are_the_same_coefficient() -> None:
    assert minimised([[1.0, 1.0], [0.0, -0.0]]).cell_of.tolist() == [0, 0]


def test_a_workload_contains_its_parts_and_projections_have_less_error() -> None:
    whole = AllRange(6).gram_dense()
    assert contains(whole, Prefix(6).gram_dense())
    assert not contains(Prefix(6).gram_dense(), whole)
    assert contains(whole, whole)
    least = [optimal_gram(op.dense().T).value.error for op in (Prefix(6), AllRange(6))]
    assert least[0] < least[1]


def test_strategies_of_one_profile_have_errors_in_one_proportion() -> None:
    random = np.random.Generator(np.random.PCG64(5))
    rotation = np.linalg.qr(random.normal(size=(8, 8)))[0]
    turned = Dense(3.0 * rotation @ Haar(8).dense())
    assert same_profile(Haar(8), turned)
    assert same_errors(Haar(8), turned)
    assert not same_profile(Haar(8), Tree(8))
    np.testing.assert_allclose(query_errors(Prefix(8), Haar(8)), query_errors(Prefix(8), turned))
    # Under Laplace noise the sensitivity is not a function of the profile.
    assert same_errors(Haar(8), Scaled(Haar(8), 2.0), "laplace")
    assert not same_errors(Haar(8), short_wavelet(8), "laplace")


def test_the_gram_matrix_of_a_workload_is_that_of_its_queries() -> None:
    domain = Domain({"a": 3, "unasked": 7, "b": 4})
    workload = 2.0 * Workload.product(domain, {"a": queries.prefix, "b": queries.ranges}) + Workload.marginals(
        domain, [("b",)]
    )
    rows = np.vstack(
        [np.sqrt(2) * np.kron(Prefix(3).dense(), AllRange(4).dense()), np.kron(np.ones((1, 3)), np.eye(4))]
    )
    np.testing.assert_allclose(workload_gram(workload), rows.T @ rows)


def test_bad_matrices_are_refused() -> None:
    with pytest.raises(WorkloadError, match="not all zero"):
        minimised(np.zeros((2, 3)))
    with pytest.raises(WorkloadError, match="one for each of 3 cells"):
        minimised(np.ones((1, 3))).merged([1, 2])
    with pytest.raises(WorkloadError, match="on 3 and 4 cells"):
        same_profile(Identity(3), Identity(4))
    with pytest.raises(SizeError, match="limit 4,096"):
        workload_gram(Workload.kway(Domain({"a": 100, "b": 100}), 2))


def test_the_door_for_researchers_lists_what_it_has() -> None:
    assert all(hasattr(research, name) for name in research.__all__)
    order = np.random.Generator(np.random.PCG64(1)).permutation(16).tolist()
    gram, mixed = AllRange(16).gram_dense(), Permuted(AllRange(16), order).gram_dense()
    plain, permuted = (research.eigen_design(g).stats["value"] for g in (gram, mixed))
    assert permuted == pytest.approx(plain, rel=1e-6)  # the design follows the queries, wavelets do not
    assert research.total_error(mixed, Haar(16)) > 1.5 * research.total_error(gram, Haar(16))
