"""Compiled loops over reports: hexadecimal texts to bytes, and how often each bit is set."""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.core.compiled import njit

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

SPREAD_BITS = np.zeros(256, dtype=np.uint64)  # bit i of a byte as byte i of a word
for _byte in range(256):
    SPREAD_BITS[_byte] = sum(1 << 8 * bit for bit in range(8) if _byte >> bit & 1)


@njit(cache=True, nogil=True)
def bit_sums(reports: Any, spread: Any, sums: Any) -> None:
    """Add to `sums`, 8 cells for each column of bytes, how many reports have each bit set.

    Eight bits are counted at once, each in one byte of a word, for up to 255 reports; then the bytes are added up.
    """
    rows, columns = reports.shape
    lanes = np.zeros(columns, dtype=np.uint64)
    start = 0
    while start < rows:
        stop = min(start + 255, rows)
        for row in range(start, stop):
            for column in range(columns):
                lanes[column] += spread[reports[row, column]]
        for column in range(columns):
            for bit in range(8):
                sums[8 * column + bit] += (lanes[column] >> np.uint64(8 * bit)) & np.uint64(255)
            lanes[column] = 0
        start = stop


HEX_VALUES = np.full(256, 255, dtype=np.uint8)  # the value of a hexadecimal letter; 255 for any other
for _value, _letter in enumerate(b"0123456789abcdef"):
    HEX_VALUES[_letter] = _value


@njit(cache=True, nogil=True)
def unhex(letters: Any, nibbles: Any, out: Any) -> bool:
    """Write the bytes that pairs of hexadecimal digits stand for; False if any letter is not such a digit."""
    wrong = np.uint8(0)
    for index in range(len(out)):
        high, low = nibbles[letters[2 * index]], nibbles[letters[2 * index + 1]]
        wrong |= (high | low) & np.uint8(0xF0)
        out[index] = (high << np.uint8(4)) | (low & np.uint8(15))
    return bool(wrong == 0)


def numpy_bit_sums(reports: Bytes) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The plain numpy twin of `bit_sums`."""
    return np.asarray(np.unpackbits(reports, axis=1, bitorder="little").sum(axis=0, dtype=np.int64))
