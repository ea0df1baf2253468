"""Standard input: a pipe is read once and counted as the file it came from."""

from __future__ import annotations

import gzip
import io
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hush.core.errors import DataError, SizeError
from hush.schema import Integer, Schema
from hush.tables import read
from hush.tables.drafting import draft_schema
from hush.tables.formats import file_sources

SCHEMA = Schema([Integer(name="age", low=0, high=3)])
CSV = b"name,age\nx,1\ny,1\nz,3\n"


def pipe(monkeypatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"age": [1, 1, 3]}), file)
    return file.getvalue()


@pytest.mark.parametrize("content", [CSV, parquet()], ids=["csv", "parquet"])
@pytest.mark.parametrize("engine", ["memory", "stream", "sql"])
def test_a_pipe_can_be_counted_again_and_again(content, engine, monkeypatch) -> None:
    pipe(monkeypatch, content)
    for _ in range(2):
        table = read("-", SCHEMA, engine=engine)
        assert [table.counts([("age",)])["age",].tolist() for _ in range(2)] == [[0, 2, 0, 1]] * 2
    assert "[columns.age]" in draft_schema("-")


def test_another_pipe_is_read_anew(monkeypatch) -> None:
    for content, rows in ((CSV, 3), (b"age\n1\n", 1)):
        pipe(monkeypatch, content)
        assert read("-", SCHEMA).counts([()])[()].tolist() == rows


def test_without_memory_files_a_temporary_one_serves(monkeypatch) -> None:
    monkeypatch.delattr(file_sources.os, "memfd_create", raising=False)
    pipe(monkeypatch, CSV)
    assert read("-", SCHEMA).counts([()])[()].tolist() == 3


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "standard input is empty"),
        (gzip.compress(CSV, mtime=0), "standard input is compressed with gzip; decompress it first"),
        (b"x,y\n1,2\n", "standard input: none of the schema's columns is in the first line"),
        (b"age\nhunter2\n", "column 'age' holds values outside its declared levels"),
        (b'age\n"hunter2\n', "standard input: a quoted field is not closed"),
        (b"PAR1 and no more", "standard input cannot be read as Parquet"),
    ],
)
def test_broken_input_is_not_quoted(content, words, monkeypatch) -> None:
    pipe(monkeypatch, content)
    with pytest.raises(DataError, match=words) as caught:
        read("-", SCHEMA)
    assert "hunter2" not in str(caught.value)
    assert "/proc" not in str(caught.value)


def test_a_terminal_and_no_input_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="nothing comes through standard input; pipe a CSV"):
        read("-", SCHEMA)
    terminal = io.TextIOWrapper(io.BytesIO(CSV))
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    with pytest.raises(DataError, match="nothing comes through standard input; pipe a CSV"):
        read("-", SCHEMA)


def test_input_beyond_memory_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(file_sources, "memory_limit", lambda limit: 20)
    pipe(monkeypatch, CSV)
    with pytest.raises(SizeError, match="standard input holds more than .*; give the path of a file instead"):
        read("-", SCHEMA)
