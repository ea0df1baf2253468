import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.errors import WorkloadError
from hush.linops import AllRange, Haar, Identity, Prefix, Stack, Total

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
