"""Encoded rows in memory: their types, and that a wrong code never reaches the kernels."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from hush.core.domain import Domain
from hush.core.errors import DataError
from hush.schema import Integer
from hush.tables import read
from hush.tables.counted_tables import check_codes

DOMAIN = Domain({"a": 256, "b": 257, "c": 65_536, "d": 65_537})


def test_codes_are_held_in_the_smallest_type() -> None:
    last = {name: [0, size - 1] for name, size in zip(DOMAIN, DOMAIN.shape, strict=True)}
    table = read(pa.table(last), DOMAIN)
    (block,) = table._blocks
    assert [matrix.dtype for matrix in block.matrices] == [np.uint8, np.uint16, np.uint32]
    assert [len(matrix) for matrix in block.matrices] == [1, 2, 1]
    assert block.nbytes == 2 * (1 + 2 + 2 + 4)
    for name in DOMAIN:
        counts = table.counts([(name,)])[(name,)]
        assert (counts[0], counts[-1], counts.sum()) == (1, 1, 2)


def test_a_code_beyond_the_levels_is_a_bug_and_not_a_count() -> None:
    column = Integer(name="x", low=0, high=2)
    check_codes([column], [np.array([0, 2], np.uint8)])
    with pytest.raises(DataError, match="column 'x' was encoded beyond its levels; please report this as a bug"):
        check_codes([column], [np.array([0, 3], np.uint8)])


def test_a_table_of_many_blocks_is_one_table(monkeypatch) -> None:
    monkeypatch.setattr("hush.tables.counted_tables.MOST_BLOCK_BYTES", 1)  # blocks of 1024 rows
    random = np.random.default_rng(5)
    codes = {"a": random.integers(0, 3, 10_000), "b": random.integers(0, 4, 10_000)}
    table = read(pa.table(codes), Domain({"a": 3, "b": 4}))
    assert len(table._blocks) > 1
    expected = np.bincount(codes["a"] * 4 + codes["b"], minlength=12).reshape(3, 4)
    np.testing.assert_array_equal(table.counts([("a", "b")])["a", "b"], expected)
    seen: list[float] = []
    table.counts([("a",)], progress=seen.append)
    assert len(seen) == len(table._blocks)
