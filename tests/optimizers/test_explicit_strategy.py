import math

import numpy as np
import pytest

from hush.core.errors import WorkloadError
from hush.linops import AllRange, Haar, Identity, Prefix, Tree
from hush.optimizers import explicit_strategy as hierarchy
from hush.optimizers.explicit_strategy import query_errors, total_error
from hush.strategies.strategy import NoiseKind

POWERS = [2, 4, 8, 16, 32]


@pytest.mark.parametrize("size", POWERS)
def test_sensitivities(size: int) -> None:
    depth = math.log2(size)
    for strategy in (Tree(size), Haar(size)):
        assert strategy.sensitivity(1) == pytest.approx(depth + 1)
        assert strategy.sensitivity(2) ** 2 == pytest.approx(depth + 1)
    assert hierarchy.short_wavelet(size).sensitivity(1) == pytest.approx(depth - 1 + math.sqrt(2))
    assert Identity(size).sensitivity(1) == 1


@pytest.mark.parametrize("size", POWERS)
def test_trees_and_wavelets_have_related_profiles(size: int) -> None:
    tree, haar = Tree(size).gram_dense(), Haar(size).gram_dense()
    assert np.allclose(tree, haar + 1 - np.eye(size))
    assert np.allclose(hierarchy.short_wavelet(size).gram_dense(), haar)


@pytest.mark.parametrize(("size", "gain"), [(4, 0.648), (8, 0.729), (16, 0.779), (32, 0.814)])
def test_the_short_wavelet_gains_under_laplace_noise_and_loses_nothing_under_gaussian(size: int, gain: float) -> None:
    gram = AllRange(size).gram_dense()
    short, haar = hierarchy.short_wavelet(size), Haar(size)
    ratio = total_error(gram, short, NoiseKind.LAPLACE) / total_error(gram, haar, NoiseKind.LAPLACE)
    assert ratio == pytest.approx(gain, abs=5.1e-4)
    assert total_error(gram, short) == pytest.approx(total_error(gram, haar))


@pytest.mark.parametrize("size", POWERS)
def test_no_query_is_answered_twice_as_well_by_one_of_tree_and_wavelet(size: int) -> None:
    block = AllRange(size)
    ratio = query_errors(block, Tree(size)) / query_errors(block, Haar(size))
    assert ratio.max() <= 2 + 1e-9
    assert ratio.min() >= 0.5 - 1e-9


@pytest.mark.parametrize("exponent", [1, 3, 5])
def test_the_worst_range_of_a_tree(exponent: int) -> None:
    half = (2 ** (exponent + 1) - 1) // 3
    errors = query_errors(AllRange(2 ** (exponent + 1)), Tree(2 ** (exponent + 1)))
    ranges = list(zip(*np.triu_indices(2 ** (exponent + 1)), strict=True))
    assert errors[ranges.index((2**exponent - half, 2**exponent + half - 1))] == pytest.approx(errors.max())


def test_the_branching_for_ranges() -> None:
    assert [hierarchy.best_branching(size) for size in (1, 2, 64, 256, 1024, 4096)] == [2, 2, 64, 16, 32, 16]
    assert hierarchy.hb(256).shape == (16 + 256, 256)
    assert np.array_equal(hierarchy.hb(64).dense(), np.eye(64))
    assert hierarchy.hb(1).shape == (1, 1)


def test_hb_is_better_than_the_identity_on_long_prefix_sums() -> None:
    gram = Prefix(256).gram_dense()
    for noise in NoiseKind:
        assert total_error(gram, hierarchy.hb(256), noise) < total_error(gram, Identity(256), noise)


def test_what_is_refused() -> None:
    with pytest.raises(WorkloadError, match="short_wavelet\\(6\\): expected a power of two"):
        hierarchy.short_wavelet(6)
