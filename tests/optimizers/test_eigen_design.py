import math

import numpy as np
import pytest

from hush.core.errors import WorkloadError
from hush.linops import AllRange, Prefix, WidthRange
from hush.optimizers.eigen_design import eigen_design, principal, relative_gram, separation
from hush.optimizers.explicit_strategy import total_error
from hush.optimizers.svd_bound import looseness, svd_bound, variable_agnostic_bound
from hush.strategies.optimum import gram_factor, optimal_gram

# [Li 2013], all ranges: before and after completion
GOLDENS = {
    4: (16.8819, 16.8819),
    8: (84.8713, 82.2195),
    16: (440.2507, 421.2811),
    64: (11752.58, 11224.19),
    256: (293271.8, 281772.6),
}


@pytest.mark.parametrize("size", GOLDENS)
def test_all_ranges(size: int) -> None:
    gram = AllRange(size).gram_dense()
    before, after = GOLDENS[size]
    bare = eigen_design(gram, complete=False)
    assert total_error(gram, bare.checked()) == pytest.approx(bare.stats["value"], rel=1e-9)
    assert bare.stats["value"] == pytest.approx(before, rel=1e-5)
    assert total_error(gram, eigen_design(gram).checked()) == pytest.approx(after, rel=1e-5)


@pytest.mark.parametrize("block", [AllRange(32), Prefix(32), WidthRange(32, 5)], ids=repr)
def test_between_the_optimum_and_the_looseness_of_the_bound(block: AllRange) -> None:
    gram = block.gram_dense()
    bound = svd_bound(gram)
    best = optimal_gram(gram_factor(gram), tolerance=1e-6).checked().error
    before, after = (total_error(gram, eigen_design(gram, complete=c).checked()) for c in (False, True))
    assert bound <= best <= after * (1 + 1e-6)
    assert after <= before * (1 + 1e-9)
    assert before <= looseness(gram) * bound * (1 + 1e-5)


def test_the_products_of_published_tables() -> None:
    two = AllRange(16).gram_dense()
    gram = np.kron(two, AllRange(8).gram_dense())
    ratios = [total_error(gram, eigen_design(gram, complete=c).checked()) / svd_bound(gram) for c in (False, True)]
    assert 1.0 < ratios[1] < 1.12 < ratios[0] < 1.25


def test_optimal_where_the_bound_is_tight() -> None:
    circulant = np.array([[1.0, 2, 0, 3], [3, 1, 2, 0], [0, 3, 1, 2], [2, 0, 3, 1]])
    predicates = np.ones((8, 8)) + np.eye(8)
    for gram in (circulant.T @ circulant, predicates):
        assert total_error(gram, eigen_design(gram).checked()) == pytest.approx(svd_bound(gram), rel=1e-5)
    assert svd_bound(predicates) == pytest.approx(variable_agnostic_bound(8, 2.0, 1.0))


def test_permuting_cells_and_rotating_queries_keep_the_error() -> None:
    random = np.random.default_rng(4)
    gram, order = AllRange(12).gram_dense(), random.permutation(12)
    permuted = gram[np.ix_(order, order)]
    error = total_error(gram, eigen_design(gram).checked())
    assert total_error(permuted, eigen_design(permuted).checked()) == pytest.approx(error, rel=1e-4)
    assert total_error(9 * gram, eigen_design(9 * gram).checked()) == pytest.approx(9 * error, rel=1e-6)


@pytest.mark.parametrize("group", [1, 8, 100])
def test_separation_costs_little(group: int) -> None:
    gram = AllRange(64).gram_dense()
    found = separation(gram, group=group)
    ratio = total_error(gram, found.checked()) / total_error(gram, eigen_design(gram).checked())
    assert 1 - 1e-3 < math.sqrt(ratio) < 1.05
    assert found.stats["groups"] == math.ceil(64 / group)


def test_more_principal_vectors_are_better() -> None:
    gram = AllRange(128).gram_dense()
    best = total_error(gram, eigen_design(gram).checked())
    roots = [math.sqrt(total_error(gram, principal(gram, share=s).checked()) / best) for s in (0.02, 0.06, 0.25, 1.0)]
    assert roots == sorted(roots, reverse=True)
    assert roots[1] < 1.2
    assert roots[2] < 1.05
    assert roots[3] == pytest.approx(1, abs=1e-3)


def test_relative_errors_take_queries_of_one_norm() -> None:
    w = np.array([[1.0, 1, 1, 1], [3, 0, 0, 0], [0, 0, 0, 0]])
    assert np.trace(relative_gram(w)) == pytest.approx(2)
    assert relative_gram(5 * w) == pytest.approx(relative_gram(w))
    shares = np.array([0.7, 0.1, 0.1, 0.1])
    assert relative_gram(w, shares)[0, 0] == pytest.approx(1 / (1 / 0.7 + 30) + 0.7)


def test_what_is_refused() -> None:
    gram = np.eye(3)
    with pytest.raises(WorkloadError, match="group=0"):
        separation(gram, group=0)
    with pytest.raises(WorkloadError, match="share=0"):
        principal(gram, share=0)
    with pytest.raises(WorkloadError, match="3 numbers above 0"):
        relative_gram(gram, np.array([1.0, 0, 1]))
