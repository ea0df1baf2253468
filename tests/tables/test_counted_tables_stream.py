"""Streaming: a file is read anew for each call, and only the columns asked for."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hush.core.domain import Domain
from hush.core.errors import DataError
from hush.tables import counted_tables as stream
from hush.tables import read

DOMAIN = Domain({"a": 2, "b": 3})


def test_only_the_columns_asked_for_are_read(tmp_path, monkeypatch) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [0, 1], "b": [0, 9]}), path)
    table = read(path, DOMAIN, engine="stream")
    assert table.counts([("a",), ()])[("a",)].tolist() == [1, 1]
    with pytest.raises(DataError, match="column 'b' holds values outside its declared levels"):
        table.counts([("b",)])


def test_types_are_checked_when_the_table_is_made(tmp_path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [[0]], "b": [0]}), path)
    with pytest.raises(DataError, match=r"column 'a' is stored as BIGINT\[\]"):
        read(path, DOMAIN, engine="stream")


def test_memory_does_not_grow_with_the_rows(tmp_path, monkeypatch) -> None:
    """Blocks are handed on one at a time and none is kept."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1] * 50_000, "b": [2] * 50_000}), path)
    monkeypatch.setattr("hush.tables.counted_tables.MOST_BLOCK_BYTES", 1)
    seen: list[int] = []
    original = stream.encoded_blocks

    def watched(*arguments):
        for block in original(*arguments):
            seen.append(block.nbytes)
            yield block

    monkeypatch.setattr(stream, "encoded_blocks", watched)
    assert read(path, DOMAIN, engine="stream").counts([("a", "b")])["a", "b"][1, 2] == 50_000
    assert len(seen) > 10
    assert max(seen) <= 2 * 4096


def test_a_file_that_is_gone_is_reported(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n0,0\n")
    table = read(path, DOMAIN, engine="stream")
    path.unlink()
    with pytest.raises(DataError, match="cannot be read as CSV"):
        table.counts([("a",)])
