import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.linops.along import along, along_all

RANDOM = np.random.Generator(np.random.PCG64(7))


@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    place=st.integers(0, 3),
    rows=st.integers(1, 6),
    bits=st.integers(1, 50),
    entry=st.integers(1, 16),
    seed=st.integers(0, 2**32),
)
def test_integer_products_are_exact_modulo_two_to_the_64(shape, place, rows, bits, entry, seed) -> None:
    random, axis = np.random.Generator(np.random.PCG64(seed)), place % len(shape)
    values = random.integers(-(2**bits), 2**bits, shape)
    matrix = random.integers(-(2**entry), 2**entry + 1, (rows, shape[axis]))
    wanted = np.moveaxis(np.tensordot(matrix.astype(object), values.astype(object), axes=(1, axis)), 0, axis)
    wrapped = np.vectorize(lambda v: (int(v) + 2**63) % 2**64 - 2**63, otypes=[np.int64])(wanted)
    found = along(matrix, values, axis)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, wrapped)


def test_integer_products_of_many_pieces(monkeypatch) -> None:
    monkeypatch.setattr("hush.core.arrays.BLOCK_CELLS", 64)
    values = RANDOM.integers(-(2**40), 2**40, (7, 9, 11))
    matrix = RANDOM.integers(-(2**20), 2**20, (13, 9))
    wanted = np.einsum("ij,ajb->aib", matrix, values)
    np.testing.assert_array_equal(along(matrix, values, 1), wanted)
    np.testing.assert_allclose(along(matrix * 1.0, values * 1.0, 1), wanted.astype(float), rtol=1e-12, atol=1e3)


@pytest.mark.parametrize("shape", [(7, 9, 11), (3, 200), (150, 2)])
def test_all_axes_at_once_equal_one_after_the_other(monkeypatch, shape: tuple[int, ...]) -> None:
    """Slabs of a few cells: integers, factors that grow and that shrink the first axis."""
    values = RANDOM.integers(0, 100, shape)
    for growing in (True, False):
        matrices = [RANDOM.integers(-5, 6, (n + 3 if growing else max(1, n - 2), n)) for n in shape]
        steps = [lambda t, axis, m=m: along(m, t, axis) for m in matrices]
        wanted = values
        for axis, step in enumerate(steps):
            wanted = step(wanted, axis)
        monkeypatch.setattr("hush.core.arrays.BLOCK_CELLS", 16)
        found = along_all(steps, values, [len(m) for m in matrices], np.int64)
        monkeypatch.undo()
        np.testing.assert_array_equal(found, wanted)
