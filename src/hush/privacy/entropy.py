"""Sources of random bits: the operating system for releases, a seeded one for tests only."""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np

Words = np.ndarray[Any, np.dtype[np.uint64]]


class Entropy(Protocol):
    """Independent uniform 64-bit words; `private` says whether noise made of them protects anybody."""

    @property
    def private(self) -> bool: ...
    def words(self, count: int) -> Words: ...


class SystemEntropy:
    """The operating system's generator, asked anew for every word.

    Nothing is buffered between calls, so that forked processes never share noise and no state can be seeded.
    """

    private = True

    def words(self, count: int) -> Words:
        """`count` words from `os.urandom`."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class NotPrivateEntropy:
    """Reproducible words from a seed, for tests; whatever is made of them is stamped as not private."""

    private = False

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def words(self, count: int) -> Words:
        """The next `count` words of the stream."""
        return np.asarray(self._bits.random_raw(count), dtype=np.uint64)


def one_word(entropy: Entropy) -> int:
    """A single word as a Python integer."""
    return int(entropy.words(1)[0])
