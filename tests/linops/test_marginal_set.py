import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.errors import SizeError, WorkloadError
from hush.linops import Dense, Identity, Kronecker, MarginalSet, Stack, Total

SIZES = (2, 3, 4)
SETS = [own for k in range(4) for own in combinations(range(3), k)]
nonzero = st.floats(-4, 4).filter(lambda w: abs(w) > 0.05)
weightings = st.dictionaries(st.sampled_from(SETS), nonzero, min_size=1)


def twin(sizes: tuple[int, ...], weights: dict[tuple[int, ...], float]) -> Stack:
    parts = [Kronecker([Identity(n) if i in own else Total(n) for i, n in enumerate(sizes)]) for own in weights]
    return Stack(parts, list(weights.values()))


@given(weightings)
def test_a_stack_of_products(weights: dict[tuple[int, ...], float]) -> None:
    own, other = MarginalSet(SIZES, weights), twin(SIZES, weights)
    np.testing.assert_allclose(own.dense(), other.dense(), atol=1e-12)
    np.testing.assert_allclose(own.T.dense(), other.dense().T, atol=1e-12)
    np.testing.assert_allclose(own.gram_dense(), other.gram_dense(), atol=1e-12)
    assert own.shape == other.shape


@given(weightings)
def test_norms_are_those_of_the_weights(weights: dict[tuple[int, ...], float]) -> None:
    own = MarginalSet(SIZES, weights)
    assert own.sensitivity(1) == pytest.approx(sum(abs(w) for w in weights.values()))
    assert own.sensitivity(2) == pytest.approx(math.sqrt(sum(w**2 for w in weights.values())))
    for p in (1, 2):
        np.testing.assert_allclose(own.column_norms(p), twin(SIZES, weights).column_norms(p))


@given(weightings)
def test_the_inverse_is_that_of_moore_and_penrose(weights: dict[tuple[int, ...], float]) -> None:
    own = MarginalSet(SIZES, weights)
    np.testing.assert_allclose(own.pinv().dense(), np.linalg.pinv(own.dense(), rtol=1e-10), atol=1e-8)


def test_all_pairs_of_three_attributes_stand_at_three_five_and_six() -> None:
    gram = MarginalSet(SIZES, dict.fromkeys(combinations(range(3), 2), 1.0)).gram()
    assert np.flatnonzero(gram.coefficients).tolist() == [3, 5, 6]


def test_many_attributes_need_no_table_of_all_sets() -> None:
    own = MarginalSet((10,) * 60, {(0, 1): 3.0, (58, 59): -4.0})
    assert own.shape == (200, 10**60)
    assert own.sensitivity(2) == 5
    with pytest.raises(SizeError, match="2\\^60 sets"):
        own.gram()


def test_rows_follow_the_mapping() -> None:
    x = np.arange(6.0).reshape(2, 3)
    own = MarginalSet((2, 3), {(1,): 1.0, (): 10.0, (0,): 2.0})
    assert (own @ x.ravel()).tolist() == [3.0, 5.0, 7.0, 150.0, 6.0, 24.0]
    assert own != MarginalSet((2, 3), {(): 10.0, (1,): 1.0, (0,): 2.0})


def test_products_with_others() -> None:
    own = MarginalSet((2, 2), {(0,): 1.0})
    np.testing.assert_array_equal((own @ Dense(np.eye(4) * 2)).dense(), 2 * own.dense())


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({}, "no marginals"),
        ({(0, 0): 1.0}, "ascending"),
        ({(1, 0): 1.0}, "ascending"),
        ({(3,): 1.0}, r"within 0 \.\. 2"),
        ({(-1,): 1.0}, r"within 0 \.\. 2"),
        ({(0,): 0.0}, "leave the marginal out"),
        ({(0,): math.inf}, "finite"),
    ],
)
def test_impossible_sets_are_refused(weights: dict[tuple[int, ...], float], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        MarginalSet(SIZES, weights)
