"""Buffers: memory of large tables that is used again once nobody looks at it, as new pages cost more than sums."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import numpy as np

from hush.graphical.belief import Floats

LEAST_CELLS = 1 << 15
SLACK = 2  # a buffer is taken for a table of at least half its cells
UNUSED_CELLS = 1 << 25  # of buffers that wait to be used again
_SAMPLE = [np.empty(0)]
_ALONE = sys.getrefcount(_SAMPLE[0])  # references to what a list alone holds


class Buffers:
    """Arrays that share memory with those made before them and gone since.

    >>> buffers = Buffers()
    >>> first = buffers.empty((300, 200))
    >>> address = first.ctypes.data
    >>> buffers.empty((300, 200)).ctypes.data == address
    False
    >>> del first
    >>> buffers.empty((200, 200)).ctypes.data == address
    True
    """

    def __init__(self) -> None:
        self._owners: list[Floats] = []

    def empty(self, shape: Sequence[int]) -> Floats:
        """An array whose values are not set."""
        cells = math.prod(shape)
        if cells < LEAST_CELLS:
            return np.empty(shape)
        unused = [i for i in range(len(self._owners)) if sys.getrefcount(self._owners[i]) <= _ALONE]
        fitting = [i for i in unused if cells <= self._owners[i].size <= SLACK * cells]
        if fitting:
            found = self._owners[min(fitting, key=lambda i: self._owners[i].size)]
        else:
            self._forget(unused)
            found = np.empty(cells)
            self._owners.append(found)
        return found[:cells].reshape(shape)

    def _forget(self, unused: Sequence[int]) -> None:
        """Give unused buffers back, the oldest first, down to the limit."""
        waiting = sum(self._owners[i].size for i in unused)
        gone = set()
        for i in unused:
            if waiting <= UNUSED_CELLS:
                break
            waiting -= self._owners[i].size
            gone.add(i)
        self._owners = [owner for i, owner in enumerate(self._owners) if i not in gone]
