"""Collecting reports: every kind of source gives the same counts, and what does not fit is refused by its line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from hush.core.errors import DataError
from hush.hybrid._kernels import HEX_VALUES, SPREAD_BITS, bit_sums, numpy_bit_sums, unhex
from hush.hybrid.client import Device, Question, Report
from hush.hybrid.collection import ReportCounts, collect

CASES: dict[str, tuple[Question, list[Any]]] = {
    "kary": (Question.choice("c", ["a", "b", "c"], epsilon=2), ["a", "b", "c"]),
    "unary": (Question.choice("c", [f"{i}" for i in range(11)], epsilon=1, mechanism="unary"), ["0", "7", "10"]),
    "records": (Question.records("r", {"x": ["p", "q"], "y": ["p"]}, epsilon=3), [("x", "p"), ("y", "z"), ("w", "")]),
    "number": (Question.number("n", -1, 1, epsilon=2), [-1, 0, 0.5]),
    "laplace": (Question.number("n", 0, 9, epsilon=2, mechanism="laplace", steps=8), [1, 2.5, 9]),
    "duchi": (Question.number("n", 0, 9, epsilon=2, mechanism="duchi"), [1, 2.5, 9]),
    "cluster": (Question.cluster("k", [[0.0], [1.0]], epsilon=2), [(0.2,), (0.9,), (0.4,)]),
}


def answers(name: str, people: int = 60) -> tuple[Question, list[Report]]:
    question, values = CASES[name]
    return question, [Device().answer(question, values[i % len(values)]) for i in range(people)]


def table_of(reports: list[Report]) -> pa.Table:
    return pa.Table.from_pylist([json.loads(report.as_json()) for report in reports])


def lines_of(reports: list[Report], path: Path) -> Path:
    path.write_text("".join(report.as_json() + "\n" for report in reports))
    return path


def parquet_of(reports: list[Report], path: Path) -> Path:
    pa.parquet.write_table(table_of(reports), path)
    return path


def arrow_of(reports: list[Report], path: Path) -> Path:
    pa.feather.write_feather(table_of(reports), path, compression="uncompressed")
    return path


def relation_of(reports: list[Report], path: Path) -> Any:
    kept = table_of(reports)
    return duckdb.connect().from_arrow(kept)


SOURCES: dict[str, Callable[[list[Report], Path], Any]] = {
    "r.jsonl": lines_of,
    "r.parquet": parquet_of,
    "r.arrow": arrow_of,
    "relation": relation_of,
    "table": lambda reports, path: table_of(reports),
    "frame": lambda reports, path: table_of(reports).to_pandas(),
    "texts": lambda reports, path: [report.as_json() for report in reports],
    "reports": lambda reports, path: reports,
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", CASES)
def test_all_sources_give_the_same_counts(name: str, source: str, tmp_path: Path) -> None:
    question, reports = answers(name)
    plain = collect(question, reports)
    counts = collect(question, SOURCES[source](reports, tmp_path / source))
    assert counts.total == 60
    assert np.array_equal(counts.counts, plain.counts)
    assert counts.values is None or np.array_equal(counts.values, plain.values)


def test_counts_are_those_of_the_reports() -> None:
    question, reports = answers("kary")
    assert collect(question, reports).counts.tolist() == [sum(r.value == i for r in reports) for i in range(3)]
    question, reports = answers("unary")
    bits = [[int.from_bytes(bytes.fromhex(r.value), "little") >> i & 1 for i in range(11)] for r in reports]
    assert collect(question, reports).counts.tolist() == np.sum(bits, axis=0).tolist()


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "another question": ({"question": "0" * 32}, "it answers another question"),
    "another version": ({"version": 2}, "version 2 is not 1"),
    "a false version": ({"version": True}, "version True is not 1"),
    "no report": ({"hush": "question"}, 'expected a JSON object with "hush": "report"'),
    "a short id": ({"id": "12"}, "its id is not 32 hexadecimal digits"),
    "an option that is not there": ({"value": 3}, "its value is not a possible answer"),
    "a negative option": ({"value": -1}, "its value is not a possible answer"),
    "a float": ({"value": 1.5}, "its value is not a possible answer"),
    "a text": ({"value": "a"}, "its value is not a possible answer"),
    "a boolean": ({"value": True}, "its value is not a possible answer"),
    "nothing": ({"value": None}, "its value is not a possible answer"),
    "a long list": ({"value": [0] * 1000}, "its value is not a possible answer"),
    "more": ({"more": 1}, "expected the fields"),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_forged_line_is_refused_by_its_number_and_the_others_can_be_kept(fault: str, tmp_path: Path) -> None:
    question, reports = answers("kary", 10)
    change, message = BAD[fault]
    bodies = [json.loads(report.as_json()) for report in reports]
    bodies[6] |= change
    path = tmp_path / "r.jsonl"
    path.write_text("\n".join(["", *map(json.dumps, bodies)]))
    with pytest.raises(DataError, match=f"line 8: .*{message}"):
        collect(question, path)
    kept = collect(question, path, refused="skip")
    assert kept.total == 9
    assert [line for line, _ in kept.refused] == [8]
    assert message in kept.refused[0].reason


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("source", ["r.jsonl", "r.parquet", "relation", "reports"])
def test_a_report_that_is_sent_twice_counts_once(name: str, source: str, tmp_path: Path) -> None:
    question, reports = answers(name, 9)
    given = SOURCES[source]([*reports, reports[4]], tmp_path / source)
    with pytest.raises(DataError, match="line 10: its id was counted before"):
        collect(question, given)
    given = SOURCES[source]([*reports, reports[4]], tmp_path / source)
    kept = collect(question, given, refused="skip")
    assert (kept.total, kept.refused[0].line) == (9, 10)


def test_an_id_of_an_earlier_batch_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    question, reports = answers("kary", 8)
    table = table_of([*reports, reports[0]])
    batches = pa.Table.from_batches([table.slice(i, 3).combine_chunks().to_batches()[0] for i in (0, 3, 6)])
    with pytest.raises(DataError, match="line 9: its id was counted before"):
        collect(question, batches)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("unary", "ffff"),
        ("unary", "00"),
        ("unary", "0g00"),
        ("unary", 3),
        ("records", [0, 3]),
        ("records", [2, 1]),
        ("records", [-1, 0]),
        ("records", [0]),
        ("records", 0),
        ("number", 10**6),
        ("laplace", -(10**9)),
        ("laplace", 10**30),
        ("duchi", 2),
    ],
)
@pytest.mark.parametrize("source", ["r.jsonl", "texts"])
def test_values_that_no_device_sends_are_refused(name: str, value: Any, source: str, tmp_path: Path) -> None:
    question, reports = answers(name, 5)
    reports[2].value = value
    with pytest.raises(DataError, match="line 3: its value is not a possible answer"):
        collect(question, SOURCES[source](reports, tmp_path / source))


@pytest.mark.parametrize("content", [b"", b"\n\n", b'{"hush": "report"}\n', b"\xff\xfe\n", b"[" * 50_000])
def test_files_without_reports_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match="line 1|expected at least two"):
        collect(CASES["kary"][0], path)


def test_files_of_other_kinds_and_missing_ones_are_refused(tmp_path: Path) -> None:
    question = CASES["kary"][0]
    (tmp_path / "r.parquet").write_bytes(b"PAR1 no")
    for name, message in (("r.txt", "rename or convert"), ("none.jsonl", "cannot be read"), ("r.parquet", "cannot be")):
        with pytest.raises(DataError, match=message):
            collect(question, tmp_path / name)
    with pytest.raises(DataError, match="lack the columns id, question, version"):
        collect(question, pa.table({"value": [1, 2]}))


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("version", ["1"] * 5, "line 1: report: version"),
        ("version", [None] * 5, "line 1: report: version"),
        ("version", [1, 1, 1, None, 1], "line 4: report: version"),
        ("question", [1] * 5, "line 1: "),
        ("id", list(range(5)), "line 1: "),
        ("value", [0, 1, None, 0, 0], "line 3: its value is not a possible answer"),
        ("value", ["a"] * 5, "line 1: its value is not a possible answer"),
        ("value", [[0]] * 5, "line 1: its value is not a possible answer"),
        ("value", [0.0] * 5, "line 1: its value is not a possible answer"),
    ],
)
def test_columns_of_other_types_are_refused_by_their_rows(column: str, values: list[Any], message: str) -> None:
    question, reports = answers("kary", 5)
    table = table_of(reports)
    table = table.set_column(table.schema.get_field_index(column), column, pa.array(values))
    with pytest.raises(DataError, match=message):
        collect(question, table)


def test_columns_of_other_widths_are_read() -> None:
    question, reports = answers("kary", 5)
    table = table_of(reports)
    columns = {
        "version": table["version"].cast(pa.int8()),
        "question": table["question"].dictionary_encode(),
        "id": table["id"].cast(pa.large_string()),
        "value": table["value"].cast(pa.int16()),
    }
    assert collect(question, pa.table(columns)).total == 5


def test_fewer_than_two_reports_are_refused() -> None:
    question, reports = answers("kary", 1)
    with pytest.raises(DataError, match="1 reports on the question 'c': expected at least two"):
        collect(question, reports)
    with pytest.raises(DataError, match="0 reports"):
        ReportCounts(question=question, total=0, counts=np.zeros(3, dtype=np.int64))


@pytest.mark.parametrize("rows", [1, 255, 256, 1000])
def test_bits_are_counted_as_numpy_counts_them(rows: int) -> None:
    reports = np.random.default_rng(rows).integers(0, 256, (rows, 3), dtype=np.uint8)
    reports[0] = 255
    sums = np.zeros(24, dtype=np.int64)
    bit_sums(reports, SPREAD_BITS, sums)
    assert np.array_equal(sums, numpy_bit_sums(reports))


def test_hexadecimal_texts_become_the_bytes_that_python_reads() -> None:
    text = bytes(range(256)).hex()
    out = np.empty(256, dtype=np.uint8)
    assert unhex(np.frombuffer(text.encode(), dtype=np.uint8), HEX_VALUES, out)
    assert out.tobytes() == bytes(range(256))
    for wrong in ("0g", "G0", "A0", " 0", "0\x00", "\xff0"):
        letters = np.frombuffer(("00" + wrong).encode("latin-1"), dtype=np.uint8)
        assert not unhex(letters, HEX_VALUES, np.empty(2, dtype=np.uint8))
