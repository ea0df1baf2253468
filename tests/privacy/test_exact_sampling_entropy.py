import multiprocessing
import os

import numpy as np

from hush.privacy.exact_sampling import NotPrivateEntropy, SystemEntropy
from hush.privacy.noise import DiscreteGaussian


def _noise(_: int) -> bytes:
    return DiscreteGaussian.of_scale(1000).sample(16, SystemEntropy()).tobytes()


def _noise_in_fork() -> bytes:
    """Noise drawn by a forked child of a process that has drawn noise before."""
    _noise(0)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, _noise(1))
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read()


def test_forked_children_draw_different_noise() -> None:
    draws = [_noise(0), *(_noise_in_fork() for _ in range(6)), _noise(0)]
    assert len(draws[1]) == 128
    assert len(set(draws)) == len(draws)


def test_spawned_workers_draw_different_noise() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        draws = pool.map(_noise, range(4), chunksize=1)
    assert len(set(draws)) == 4


def test_words_are_uniform_and_never_repeat() -> None:
    words = SystemEntropy().words(100_000)
    assert words.dtype == np.uint64
    assert len(np.unique(words)) == len(words)
    ones = np.unpackbits(words.view(np.uint8)).mean()
    assert abs(ones - 0.5) < 6 * 0.5 / np.sqrt(64 * 100_000)


def test_numpy_global_state_has_no_influence() -> None:
    state = np.random.get_state()[1].copy()
    np.random.seed(0)
    first = _noise(0)
    np.random.seed(0)
    assert _noise(0) != first
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    _noise(0)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    assert state is not None


def test_only_the_seeded_source_is_marked() -> None:
    assert SystemEntropy().private
    assert not NotPrivateEntropy(1).private
    np.testing.assert_array_equal(NotPrivateEntropy(1).words(5), NotPrivateEntropy(1).words(5))
