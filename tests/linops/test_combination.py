"""Operators built from others: stacks, Kronecker products, permuted levels and reordered axes."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hush.core.errors import SizeError, WorkloadError
from hush.linops import AllRange, Dense, Equivalent, Haar, Identity, Kronecker, Permuted, Prefix, Stack, Total
from hush.linops.combination import Reordered
from hush.testing.operators import check_operator

weights = st.lists(st.floats(-4, 4), min_size=3, max_size=3)


@given(weights)
def test_signed_weights(own: list[float]) -> None:
    parts = [Prefix(4), Haar(4), Total(4)]
    stack = Stack(parts, own)
    twin = np.concatenate([w * part.dense() for w, part in zip(own, parts, strict=True)])
    np.testing.assert_array_equal(stack.dense(), twin)
    np.testing.assert_allclose(stack.gram().dense(), twin.T @ twin, atol=1e-12)
    np.testing.assert_allclose(stack.T.dense(), twin.T, atol=1e-12)
    for p in (1, 2):
        np.testing.assert_allclose(stack.column_norms(p), np.linalg.norm(twin, ord=p, axis=0), atol=1e-12)


def test_a_sign_changes_no_norm_and_no_gram() -> None:
    plus, minus = Stack([Prefix(5), AllRange(5)], [2, 3]), Stack([Prefix(5), AllRange(5)], [-2, 3])
    assert plus.sensitivity(1) == minus.sensitivity(1)
    np.testing.assert_array_equal(plus.gram_dense(), minus.gram_dense())


def test_rows_and_queries_add_up() -> None:
    stack = Stack([Identity(3), Total(3), AllRange(3)])
    assert stack.shape == (10, 3)
    assert stack.queries == 10


@pytest.mark.parametrize(
    "build",
    [
        lambda: Stack([]),
        lambda: Stack([Identity(2), Identity(3)]),
        lambda: Stack([Identity(2)], [1.0, 2.0]),
        lambda: Stack([Identity(2)], [float("inf")]),
    ],
)
def test_impossible_stacks_are_refused(build: object) -> None:
    with pytest.raises(WorkloadError):
        build()  # type: ignore[operator]


sizes = st.integers(1, 4)


@st.composite
def chains(draw: st.DrawFn) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of matrices that can be multiplied."""
    made = []
    for _ in range(draw(st.integers(1, 3))):
        m, n, k = draw(sizes), draw(sizes), draw(sizes)
        entries = st.integers(-3, 3)
        made.append(
            (draw(arrays(np.float64, (m, n), elements=entries)), draw(arrays(np.float64, (n, k), elements=entries)))
        )
    return made


@given(chains())
def test_mixed_product(pairs: list[tuple[np.ndarray, np.ndarray]]) -> None:
    left = Kronecker([Dense(a) for a, _ in pairs])
    right = Kronecker([Dense(b) for _, b in pairs])
    product = left @ right
    assert isinstance(product, Kronecker)
    expected = Kronecker([Dense(a @ b) for a, b in pairs]).dense()
    np.testing.assert_array_equal(product.dense(), expected)
    np.testing.assert_array_equal(left.dense() @ right.dense(), expected)
    np.testing.assert_array_equal(left.matmat(right.dense()), expected)


@given(chains())
def test_transposes_and_norms_multiply(pairs: list[tuple[np.ndarray, np.ndarray]]) -> None:
    whole = Kronecker([Dense(a) for a, _ in pairs])
    assert Kronecker([Dense(a.T) for a, _ in pairs]) == whole.T
    np.testing.assert_array_equal(whole.T.dense(), whole.dense().T)
    for p in (1, 2):
        assert whole.sensitivity(p) == pytest.approx(np.linalg.norm(whole.dense(), ord=p, axis=0).max())


def test_products_whose_factors_do_not_pair_up_stay_implicit() -> None:
    left, right = Kronecker([Prefix(2), Prefix(6)]), Kronecker([Prefix(6), Prefix(2)])
    np.testing.assert_array_equal((left @ right).dense(), left.dense() @ right.dense())


def test_nothing_of_the_size_of_the_domain_is_made() -> None:
    whole = Kronecker([AllRange(10), Prefix(10), Haar(8), *[Prefix(10)] * 7])
    tracemalloc.start()
    made = [whole.gram(), whole.pinv(), whole.T, whole @ whole.pinv(), whole * -2.0, Stack([whole, whole]).gram()]
    assert whole.sensitivity(1) == 30 * 10 * 4 * 10.0**7
    assert whole.sensitivity(2) == pytest.approx(np.sqrt(30 * 10 * 4 * 10.0**7))
    assert whole.gram().trace() == pytest.approx(220 * 55 * 32 * 55.0**7)
    assert Kronecker([Prefix(10)] * 10).trace() == 1e10
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(made) == 6
    assert peak < 1 << 20


@pytest.mark.parametrize("member", [lambda a: a.dense(), lambda a: a.gram_dense(), lambda a: a.column_norms(1)])
def test_what_has_the_size_of_the_domain_is_refused(member: object) -> None:
    with pytest.raises(SizeError, match="bytes needed, .* free; |TB needed, .* free; "):
        member(Kronecker([Prefix(10)] * 14))  # type: ignore[operator]


def test_memory_is_that_of_input_and_output() -> None:
    whole = Kronecker([Prefix(64), Prefix(64), Prefix(256)])
    x = np.ones((1 << 20, 1))
    tracemalloc.start()
    answers = whole.matmat(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert answers[-1, 0] == 1 << 20
    assert peak < 2.8 * x.nbytes  # two arrays of a step, and one block


def test_factors_that_shrink_come_first() -> None:
    whole = Kronecker([AllRange(40), Total(1000), Identity(2)])
    tracemalloc.start()
    answers = whole.matmat(np.ones((80_000, 1)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert answers.shape == (1640, 1)
    assert peak < 1 << 23  # ranges first would take 820 * 2000 * 8 bytes


def test_no_factors() -> None:
    with pytest.raises(WorkloadError, match="at least one"):
        Kronecker([])


@given(st.permutations(range(5)))
def test_queries_on_rearranged_levels(order: list[int]) -> None:
    x = np.arange(5.0)[:, None] ** 2
    own = Permuted(AllRange(5), order)
    np.testing.assert_array_equal(own.matmat(x), AllRange(5).matmat(x[order]))
    turned = np.eye(5)[order]
    np.testing.assert_array_equal(own.gram_dense(), turned.T @ AllRange(5).gram_dense() @ turned)
    assert own.sensitivity(1) == AllRange(5).sensitivity(1) == 9


def test_values() -> None:
    assert Permuted(Prefix(3), [2, 0, 1]) == Permuted(Prefix(3), np.array([2, 0, 1]))
    assert Permuted(Prefix(3), [2, 0, 1]) != Permuted(Prefix(3), [0, 1, 2])
    assert Permuted(Equivalent(np.eye(2), 9), [1, 0]).queries == 9


@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [1, 2, 3], []])
def test_orders_that_are_none(order: list[int]) -> None:
    with pytest.raises(WorkloadError, match=r"each of the levels 0 \.\. 2 once"):
        Permuted(Prefix(3), order)


SIZES = (2, 3, 4)
MATRIX = np.random.default_rng(0).normal(size=(5, 24))


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
def test_is_the_permutation_of_cells(axes: tuple[int, ...]) -> None:
    cells = np.arange(24).reshape(SIZES).transpose(axes).ravel()
    check_operator(Reordered(Dense(MATRIX), SIZES, axes), dense=Permuted(Dense(MATRIX), cells.tolist()).dense())
