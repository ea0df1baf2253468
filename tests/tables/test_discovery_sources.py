"""Sources of a discovery against plain Python: which values of a unit count, hostile texts, and every neighbour."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.errors import DataError
from hush.schema import Unit
from hush.schema.text_folding import folded
from hush.tables.dialects.dialect import unit_hash_of
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.discovery_sources import LONGEST_VALUE, DistinctValues, UnitSizes
from hush.tables.sources import RowSource

ROW, PERSON = Unit(), Unit(column="id", max_rows=3)
HOSTILE = [
    *(
        "=1+1",
        "'; DROP TABLE t; --",
        '"',
        "a\0b",
        "\0",
        "💩",
        "e\u0301",
        "\u202eabc",
        "NULL",
        "nan",
        "\\x41",
        "%s",
        "{}",
    ),
    *(
        "A",
        "a",
        " a ",
        "a  b",
        "a\u3000b",
        "",
        "  ",
        "x" * LONGEST_VALUE,
        "x" * (LONGEST_VALUE + 1),
        "é" * 501,
        "-",
        "+7",
    ),
]
Rows = list[tuple[str, str | None]]


def source_of(rows: Rows, counts: list[int] | None = None) -> RowSource:
    """The rows as a source in DuckDB."""
    held = {"id": [key for key, _ in rows], "v": [value for _, value in rows]}
    table = pa.table({name: pa.array(cells, pa.string()) for name, cells in held.items()})
    if counts is not None:
        table = table.append_column("n", pa.array(counts, pa.int64()))
    opened = DUCKDB.open_frame("the rows", table.column_names, table, duckdb.connect())
    if counts is None:
        return opened
    return replace(opened, counts="n")


def counted(values: DistinctValues, least: int = 1) -> dict[str, int]:
    """All keys and counts; no key may come twice."""
    pairs = [pair for keys, units in values.counted_keys(least) for pair in zip(keys, units.tolist(), strict=True)]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def expected(rows: Rows, unit: Unit, most: int, ignore: tuple[str, ...] = (), no_keys: Any = ()) -> dict[str, int]:
    """The same by the definition, a unit at a time."""
    left_out = {folded(text, ignore) for text in no_keys}
    units: dict[Any, set[str]] = {}
    for number, (key, value) in enumerate(rows):
        text = folded(value or "", ignore)
        if 1 <= len(text.encode()) <= LONGEST_VALUE and text not in left_out:
            units.setdefault(number if unit is ROW else key.strip(), set()).add(text)
    counts: Counter[str] = Counter()
    for key, held in units.items():
        n, hashed = len(held), 0 if unit is ROW else unit_hash_of(key.encode())
        ordered = enumerate(sorted(held, key=str.encode), start=1)
        counts.update(text for r, text in ordered if n <= most or (r * most + hashed) % n < most)
    return dict(counts)


tables = st.lists(
    st.tuples(st.sampled_from(["1", "2", "ada", " ada", "ö"]), st.none() | st.sampled_from(HOSTILE)), max_size=30
)


@settings(max_examples=40)
@given(
    tables,
    st.sampled_from([ROW, PERSON]),
    st.sampled_from([1, 2, 5, 2**60]),
    st.sampled_from([(), ("case",), ("case", "spaces")]),
    st.lists(st.sampled_from(HOSTILE), max_size=3),
)
def test_values_are_counted_as_defined(
    rows: Rows, unit: Unit, most: int, ignore: tuple[str, ...], no_keys: list[str]
) -> None:
    values = DistinctValues(source_of(rows), "v", unit, most_values=most, ignore=ignore, no_keys=no_keys)
    values.check()
    right = expected(rows, unit, most, ignore, no_keys)
    assert counted(values) == right
    assert counted(values, 2) == {text: units for text, units in right.items() if units >= 2}
    assert values.counts([("v",)])[("v",)].tolist() == [sum(right.values())]


def test_every_unit_moves_few_counts_by_one_and_those_of_no_other_unit() -> None:
    """Units with every set of up to three values, some in several rows, join a table that holds all values."""
    others: Rows = [(f"q{k}", value) for k, value in enumerate("aabcc")] + [("r", "b"), ("r", "c"), ("r", "c")]
    lists = ["a", "c", "ab", "bc", "abc", "aab", "ccc", "abca"]
    for most in (1, 2):
        without = counted(DistinctValues(source_of(others), "v", PERSON, most_values=most))
        for held in lists:
            rows = [*others, *(("p", value) for value in held)]
            whole = counted(DistinctValues(source_of(rows), "v", PERSON, most_values=most))
            gaps = [whole.get(value, 0) - without.get(value, 0) for value in {*whole, *without}]
            assert max(gaps) == 1
            assert min(gaps) >= 0
            assert sum(gaps) == min(most, len(set(held)))


def test_a_counts_column_counts_lines_as_often_as_it_says() -> None:
    rows: Rows = [("1", "a"), ("2", "b"), ("3", "a"), ("4", "c"), ("5", None)]
    values = DistinctValues(source_of(rows, [5, 2, 7, 0, 9]), "v", ROW)
    values.check()
    assert counted(values) == {"a": 12, "b": 2}
    assert values.counts([("v",)])[("v",)].tolist() == [14]
    with pytest.raises(DataError, match="negative, fractional"):
        DistinctValues(source_of(rows, [5, 2, -7, 0, 9]), "v", ROW).check()
    with pytest.raises(DataError, match="adds up to more than 10 rows"):
        DistinctValues(source_of(rows, [5, 2, 7, 0, 9]), "v", ROW).check(10)


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.date32(), pa.bool_(), pa.null()])
def test_values_of_any_type_are_compared_as_a_category_is(kind: pa.DataType) -> None:
    held = [None, None, None] if kind == pa.null() else [1, 1, None]
    table = pa.table({"v": pa.array(held, pa.int32() if kind == pa.date32() else None).cast(kind)})
    source = DUCKDB.open_frame("the rows", ["v"], table, duckdb.connect())
    text = {"double": "1", "int64": "1", "date32[day]": "1970-01-02", "bool": "true"}.get(str(kind))
    assert counted(DistinctValues(source, "v", ROW)) == ({} if text is None else {text: 2})


def test_a_type_that_cannot_be_a_category_is_refused_before_anything_is_read() -> None:
    source = DUCKDB.open_frame("the rows", ["v"], pa.table({"v": [[1], [2]]}), duckdb.connect())
    with pytest.raises(DataError, match="stored as .*convert it to text or leave it out"):
        DistinctValues(source, "v", ROW)


def test_missing_ids_are_refused() -> None:
    rows: Rows = [("1", "a"), (" ", "b")]
    for source in (DistinctValues(source_of(rows), "v", PERSON), UnitSizes(source_of(rows), PERSON, (1, 2))):
        with pytest.raises(DataError, match="the unit column 'id' is missing in some rows"):
            source.check()


@settings(max_examples=25)
@given(st.lists(st.sampled_from("abcdefgh"), max_size=60))
def test_units_are_counted_by_their_rows(ids: list[str]) -> None:
    firsts = (1, 2, 4, 9)
    sizes = UnitSizes(source_of([(key, None) for key in ids]), PERSON, firsts)
    sizes.check()
    held = Counter(ids).values()
    right = [
        sum(first <= rows < after for rows in held) for first, after in zip(firsts, (*firsts[1:], 99), strict=True)
    ]
    assert sizes.counts([sizes.clique])[sizes.clique].tolist() == right


def test_rows_without_ids_have_no_sizes() -> None:
    with pytest.raises(DataError, match="every row is a unit of its own"):
        UnitSizes(source_of([("1", "a")]), ROW, (1, 2))


def test_an_engine_that_sends_results_as_a_whole_is_asked_for_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: Rows = [(str(k % 70), f"value {k % 50}") for k in range(400)]
    monkeypatch.setattr(DUCKDB.__class__, "most_collected", 1000)
    values = DistinctValues(source_of(rows), "v", PERSON, most_values=2)
    assert len(list(values.counted_keys(1))) > 3
    assert counted(values) == expected(rows, PERSON, 2)
