import numpy as np

from hush.models.graphical.variable_elimination import LEAST_BUFFERED_CELLS, Buffers


def test_memory_that_any_view_looks_at_is_not_used_again():
    made = Buffers()
    table = made.empty((2, LEAST_BUFFERED_CELLS))
    view = table.T.reshape(LEAST_BUFFERED_CELLS, 2)[5:, 1]
    view[:] = 7.0
    del table
    for _ in range(3):
        other = made.empty((2, LEAST_BUFFERED_CELLS))
        other[:] = 0.0
        assert not np.shares_memory(view, other)
    assert (view == 7.0).all()


def test_memory_is_used_again_for_tables_of_about_its_size():
    made = Buffers()
    address = made.empty((4, LEAST_BUFFERED_CELLS)).ctypes.data
    assert made.empty((LEAST_BUFFERED_CELLS, 4)).ctypes.data == address
    assert made.empty((3, LEAST_BUFFERED_CELLS)).ctypes.data == address
    held = made.empty((4, LEAST_BUFFERED_CELLS))
    assert held.ctypes.data == address
    assert not np.shares_memory(made.empty((1, LEAST_BUFFERED_CELLS)), held)


def test_a_loop_of_tables_takes_the_memory_of_one():
    made = Buffers()
    addresses = {made.empty((2, LEAST_BUFFERED_CELLS)).ctypes.data for _ in range(20)}
    assert len(addresses) == 1


def test_unused_memory_is_given_back_beyond_a_limit(monkeypatch):
    made = Buffers(3 * LEAST_BUFFERED_CELLS)
    for power in range(6):
        made.empty((3**power, LEAST_BUFFERED_CELLS))
        assert sum(owner.size for owner in made._owners[:-1]) <= 3 * LEAST_BUFFERED_CELLS


def test_small_tables_have_memory_of_their_own():
    made = Buffers()
    assert made.empty((2, 3)).shape == (2, 3)
    assert not made._owners
