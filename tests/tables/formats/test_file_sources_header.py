"""Drafting a schema and reading a table cut a file into columns alike: delimiters, quotes, encodings, refusals."""

from __future__ import annotations

import gzip
import itertools

import pytest

from hush.core.domain import Domain
from hush.core.errors import DataError
from hush.schema.schema_toml import read_toml
from hush.tables import read
from hush.tables.drafting import draft_schema
from hush.tables.formats.file_sources import read_csv_header

DOMAIN = Domain({"a": 2})
ROWS = "true{0}false\nfalse{0}false\n"


@pytest.mark.parametrize(
    ("name", "header", "delimiter", "columns"),
    [
        ("t.csv", b"a,b\n", ",", ("a", "b")),
        ("t.csv", b"a;b\n", ";", ("a", "b")),
        ("t.txt", b"a|b\r\n", "|", ("a", "b")),
        ("t.tsv", b"a\tb\n", "\t", ("a", "b")),
        ("t.tab", b"a, b, c\tb\n", "\t", ("a, b, c", "b")),
        ("t.tsv", b"a;b\n", ";", ("a", "b")),
        ("t.csv", b'"a,b,c";d\n', ";", ("a,b,c", "d")),
        ("t.csv", b'"a;""b,c";"d,e,f"\n', ";", ('a;"b,c', "d,e,f")),
        ("t.csv", b"a, b\n", ",", ("a", " b")),
        ("t.csv", b"\xef\xbb\xbfa,b\n", ",", ("a", "b")),
        ("t.csv", "été,größe\n".encode(), ",", ("été", "größe")),
        ("t.csv.gz", b"a;b\n", ";", ("a", "b")),
    ],
    ids=itertools.count(),
)
def test_what_is_drafted_is_what_is_read(name, header, delimiter, columns, tmp_path) -> None:
    path = tmp_path / name
    line_end = b"\r\n" if header.endswith(b"\r\n") else b"\n"
    content = header + ROWS.format(delimiter).encode().replace(b"\n", line_end)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    schema = read_toml(draft_schema(path, from_data=True))
    assert tuple(schema.domain) == columns
    for wanted in ((), columns):
        header_read = read_csv_header(path, wanted)
        assert (header_read.delimiter, header_read.columns) == (delimiter, columns)
    counts = read(path, schema).counts([(columns[0],), (columns[1],)])
    assert counts[columns[0],].tolist() == [1, 1]
    assert counts[columns[1],].tolist() == [2, 0]


@pytest.mark.parametrize(
    "content",
    [b"", b"a,caf\xe9\n", "a,b\n".encode("utf-16"), b'a,"b\nc"\n', b"x" * 2**20],
    ids=["empty", "latin-1", "utf-16", "line break", "no line end"],
)
def test_what_drafting_refuses_reading_refuses_in_the_same_words(content, tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    messages = []
    for call in (
        lambda: draft_schema(path),
        lambda: draft_schema(path, from_data=True),
        lambda: read(path, Domain({"a": 2})),
    ):
        with pytest.raises(DataError) as caught:
            call()
        messages.append(str(caught.value))
    assert len(set(messages)) == 1
