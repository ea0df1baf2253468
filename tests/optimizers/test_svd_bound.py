import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.errors import WorkloadError
from hush.linops import AllRange, Haar, Identity, Tree
from hush.optimizers.eigen_design import eigen_design
from hush.optimizers.explicit_strategy import total_error
from hush.optimizers.svd_bound import (
    distinct_cells,
    looseness,
    projected_svd_bound,
    simplified_svd_bound,
    svd_bound,
    svd_bound_of_rows,
    variable_agnostic_bound,
)
from hush.strategies.optimum import gram_factor, optimal_gram


def matrices(rows: int, cells: int) -> st.SearchStrategy[np.ndarray]:
    return st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).normal(size=(rows, cells)))


def test_published_table_on_all_ranges() -> None:
    """[Li 2013, Table 4.1, rows 1 and 2]."""
    assert svd_bound(AllRange(2048).gram_dense()) == pytest.approx(3.034e7, rel=2e-4)
    assert svd_bound(AllRange(64).gram_dense()) * svd_bound(AllRange(32).gram_dense()) == pytest.approx(
        2.261e7, rel=3e-4
    )
    parts = [(AllRange(n).gram_dense(), n) for n in (64, 32)]
    for make, ratio in ((Identity, 12.11), (Tree, 2.996), (Haar, 1.899)):
        errors = [total_error(gram, make(n)) / svd_bound(gram) for gram, n in parts]
        assert errors[0] * errors[1] == pytest.approx(ratio, rel=5e-4)


def test_published_table_on_small_products() -> None:
    """[Li 2013, Table 4.1, row 3], all ranges on ten binary attributes, by the product rule."""
    one = AllRange(2).gram_dense()
    assert svd_bound(one) ** 10 == pytest.approx(524_174, rel=1e-5)
    ratios = [(total_error(one, strategy) / svd_bound(one)) ** 10 for strategy in (Identity(2), Tree(2), Haar(2))]
    assert ratios == pytest.approx([2.0, 2.0, 2.0], rel=1e-3)


def test_all_predicates_with_the_gram_matrix_scaled() -> None:
    """[Li 2013, Table 4.1, row 4]: 4.885e310, beyond double precision, is 2^1022 times this one."""
    size = 1024
    scaled = variable_agnostic_bound(size, 2.0, 1.0)
    assert (np.log10(scaled) + 1022 * np.log10(2)) == pytest.approx(np.log10(4.885) + 310, abs=1e-4)
    small = np.ones((64, 64)) + np.eye(64)
    assert svd_bound(small) == pytest.approx(variable_agnostic_bound(64, 2.0, 1.0))
    assert scaled == pytest.approx((size - 1 + np.sqrt(size + 1)) ** 2 / size)
    gram = np.ones((size, size)) + np.eye(size)
    assert total_error(gram, Identity(size)) / scaled == pytest.approx(1.884, abs=5e-4)
    assert total_error(gram, Tree(size)) / scaled == pytest.approx(6.292, abs=5e-4)
    assert total_error(gram, Haar(size)) / scaled == pytest.approx(3.464, abs=5e-4)


@settings(max_examples=25)
@given(st.integers(1, 6).flatmap(lambda m: st.integers(1, 6).flatmap(lambda n: matrices(m, n))))
def test_forms_of_the_bound_agree_and_stay_below_the_optimum(w: np.ndarray) -> None:
    gram = w.T @ w
    bound = svd_bound(gram)
    assert bound == pytest.approx(np.linalg.svd(w, compute_uv=False).sum() ** 2 / w.shape[1], rel=1e-6)
    assert svd_bound_of_rows(w) == pytest.approx(bound, rel=1e-6)
    best = optimal_gram(w.T).checked().error
    for lower in (bound, projected_svd_bound(gram), simplified_svd_bound(gram)):
        assert lower <= best * (1 + 1e-9)
    assert projected_svd_bound(gram) >= bound * (1 - 1e-12)
    assert best <= looseness(gram) * bound * (1 + 1e-4)


def test_products_multiply_and_unions_are_subadditive_in_the_root() -> None:
    random = np.random.default_rng(0)
    one, two = random.normal(size=(4, 5)), random.normal(size=(6, 3))
    other = random.normal(size=(2, 5))
    bounds = [svd_bound_of_rows(w) for w in (one, two, np.kron(one, two), other, np.vstack([one, other]))]
    assert bounds[2] == pytest.approx(bounds[0] * bounds[1])
    assert np.sqrt(bounds[4]) <= np.sqrt(bounds[0]) + np.sqrt(bounds[3])
    assert bounds[4] >= bounds[0] + bounds[3]


def test_the_root_of_queries_partly_summed_over_one_more_attribute() -> None:
    """[Li 2013, Thm 4.9, proof], with W1 the queries that are summed; printed with the two exchanged."""
    random = np.random.default_rng(3)
    summed, kept, levels = random.normal(size=(3, 4)), random.normal(size=(5, 4)), 6
    w = np.vstack([np.kron(np.ones((1, levels)), summed), np.kron(np.eye(levels), kept)])
    one, two = summed.T @ summed, kept.T @ kept
    corrected = (levels - 1) * root_trace(two) + root_trace(two + levels * one)
    printed = (levels - 1) * root_trace(one) + root_trace(one + levels * two)
    assert svd_bound_of_rows(w) == pytest.approx(corrected**2 / (4 * levels))
    assert svd_bound_of_rows(w) != pytest.approx(printed**2 / (4 * levels), rel=0.05)


def root_trace(gram: np.ndarray) -> float:
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0)).sum())


def test_the_bound_of_one_cell_can_be_larger_than_that_of_all() -> None:
    w = np.zeros((2, 12))
    w[0, 0], w[1] = 1.0, 0.1
    gram = w.T @ w
    assert svd_bound(gram) < svd_bound(gram[:1, :1])
    assert projected_svd_bound(gram) >= svd_bound(gram[:1, :1])


def test_tight_exactly_where_the_root_has_a_constant_diagonal() -> None:
    circulant = np.array([[1.0, 2, 0], [0, 1, 2], [2, 0, 1]])
    tight, loose = circulant.T @ circulant, AllRange(6).gram_dense()
    assert looseness(tight) == pytest.approx(1)
    assert optimal_gram(gram_factor(tight)).checked().error == pytest.approx(svd_bound(tight))
    assert looseness(loose) > 1.01
    assert total_error(loose, eigen_design(loose).checked()) <= looseness(loose) * svd_bound(loose)


def test_cells_are_merged_and_left_out() -> None:
    w = np.array([[1.0, 0, 1, 1, 2], [0, 0, 0, 1, 0]])
    assert distinct_cells(w.T @ w).tolist() == [0, 3, 4]
    few = np.zeros((2, 100))
    few[0, :10], few[1, 5:20] = 1.0, 1.0
    assert simplified_svd_bound(few.T @ few) > 5 * svd_bound(few.T @ few)


def test_what_is_refused() -> None:
    with pytest.raises(WorkloadError, match="scale down huge entries"):
        svd_bound(np.array([[np.inf]]))
    with pytest.raises(WorkloadError, match="0 <= other <= diagonal"):
        variable_agnostic_bound(3, 1.0, 2.0)
