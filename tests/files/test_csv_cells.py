"""CSV cells: nothing is written that a spreadsheet computes, numbers stay numbers, and hush reads its files back."""

import csv as standard
import io
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hush
from command_line import run_hush
from hush.cli.synth_command import check_cells
from hush.files.csv_cells import CsvWriter, cell_text, csv_bytes
from hush.schema import Categorical, Integer, Numeric, Schema
from hush.tables import read

DANGEROUS = (
    "=1+1", '=HYPERLINK("http://x","y")', "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\rx", "\nx", "=", "-", "+",
    "\uff1d1+1", " =1", "- none", "-5 to 0", "+a", "-1-1", "--5", "-inf", "+0x10",
)  # fmt: skip
HARMLESS = (
    "a",
    "",
    "1",
    "-5",
    "+5",
    "-0.5",
    "-1e-3",
    ".5",
    "'tis",
    "a=b",
    "a-b",
    "(-5, 0]",
    "5-",
    "mail@x",
    "'",
    "''a",
)


@pytest.mark.parametrize("text", DANGEROUS)
def test_a_text_that_begins_like_a_formula_gets_an_apostrophe(text: str) -> None:
    assert cell_text(text) == f"'{text}"
    assert cell_text(cell_text(text)) == f"''{text}"  # so that no two texts share a cell


@pytest.mark.parametrize("text", HARMLESS)
def test_any_other_text_stays_as_it_is(text: str) -> None:
    assert cell_text(text) == text


@given(st.text(), st.text())
def test_different_texts_have_different_cells(one: str, other: str) -> None:
    assert (cell_text(one) == cell_text(other)) == (one == other)


def cells_of(content: bytes) -> list[list[str]]:
    return list(standard.reader(io.StringIO(content.decode(), newline="")))


@settings(max_examples=30)
@given(st.lists(st.text() | st.sampled_from(DANGEROUS)))
def test_no_cell_of_a_file_begins_like_a_formula(texts: list[str]) -> None:
    table = pa.table({"=name": pa.array(texts, pa.string()), "large": pa.array(texts, pa.large_string())})
    dictionary = pa.array(texts, pa.string()).dictionary_encode()
    for row in cells_of(csv_bytes(table.append_column("@dictionary", dictionary))):
        assert [cell for cell in row if cell[:1] in tuple("=+-@\t\r\n") and not is_number(cell)] == []


def is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def test_what_is_no_text_is_written_as_ever() -> None:
    table = pa.table(
        {"n": [-1, None], "x": [-0.5, math.inf], "day": pa.array([-1, 0], pa.date32()), "yes": [True, False]}
    )
    assert csv_bytes(table).decode() == '"n","x","day","yes"\n-1,-0.5,1969-12-31,true\n,inf,1970-01-01,false\n'


def test_tables_are_written_one_after_the_other() -> None:
    sink = io.BytesIO()
    writer = CsvWriter(sink, pa.schema({"=a": pa.string()}))
    for texts in (["x"], ["=1"], [None, "-"]):
        writer.write_table(pa.table({"=a": pa.array(texts, pa.string())}))
    writer.close()
    assert sink.getvalue().decode() == '"\'=a"\n"x"\n"\'=1"\n\n"\'-"\n'


# reading back

LEVELS = ("=1+1", "-x", "'tis", "plain", "@ab", "+5", " =blank", "\t=tab")


def counts(source: Any, schema: Schema, **options: Any) -> list[int]:
    return read(source, schema, **options).counts([("@level",)])[("@level",)].tolist()


@pytest.mark.parametrize("engine", ["memory", "stream", "sql"])
@pytest.mark.parametrize("other", [False, True])
def test_a_file_that_hush_wrote_is_read_as_what_it_stands_for(engine: str, other: bool, tmp_path: Path) -> None:
    schema = Schema([Categorical(name="@level", values=LEVELS, other=other, missing=True)])
    expected = list(range(1, schema["@level"].size + 1))
    rows = schema.decode({"@level": np.repeat(np.arange(len(expected)), expected)})
    (tmp_path / "rows.csv").write_bytes(csv_bytes(rows))
    assert b"'=1+1" in (tmp_path / "rows.csv").read_bytes()
    assert counts(tmp_path / "rows.csv", schema, engine=engine) == expected
    assert counts(rows, schema, engine=engine) == expected


def test_a_cell_is_taken_as_it_stands_before_anything_else(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("@level\n=1\n'=1\n'=1\n''=1\n''=1\n''=1\n'a\n")
    both = Schema([Categorical(name="@level", values=("=1", "'=1"), other=True)])
    assert counts(path, both) == [1, 2 + 3, 1]
    one = Schema([Categorical(name="@level", values=("=1", "a"), other=True)])
    assert counts(path, one) == [1 + 2, 0, 3 + 1]  # an apostrophe before plain text means nothing
    missing = Schema([Categorical(name="@level", values=("=1",), other=True, missing=True, missing_values=("'=1",))])
    assert counts(path, missing) == [1, 3 + 1, 2]


def test_names_in_the_header_are_found_by_both_spellings(tmp_path: Path) -> None:
    schema = Schema([Integer(name="=n", low=0, high=2), Integer(name="m", low=0, high=0)])
    for header in ("'=n,m", "=n,m", "m , '=n "):
        rows = "1,0" if header.endswith("m") else "0,1"
        (tmp_path / "rows.csv").write_text(f"{header}\n{rows}\n")
        assert read(tmp_path / "rows.csv", schema).counts([("=n",)])[("=n",)].tolist() == [0, 1, 0]


@settings(max_examples=12)
@given(st.lists(st.sampled_from([*DANGEROUS, *HARMLESS, "'=1+1"]), min_size=1, unique_by=str.strip), st.data())
def test_levels_survive_the_way_through_csv(texts: list[str], data: st.DataObject) -> None:
    levels = [text for text in texts if text.strip() and not {"\r", "\n"} & {*text}]  # line ends are not for CSV
    assume(levels)
    assume(not {"=1+1", "'=1+1"} <= {*levels})  # which synth refuses to write
    schema = Schema([Categorical(name="@level", values=tuple(levels))])
    codes = data.draw(st.lists(st.integers(0, len(levels) - 1), min_size=1, max_size=9))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.csv")
        check_cells(path, schema)
        path.write_bytes(csv_bytes(schema.decode({"@level": np.array(codes)})))
        assert counts(path, schema) == np.bincount(codes, minlength=len(levels)).tolist()


# the command line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    schema = Schema(
        [
            Categorical(name="=job", values=("=cmd", "-", "clerk")),
            Integer(name="n", low=-3, high=-1),
            Numeric(name="x", edges=(-2, -1, 0)),
        ]
    )
    schema.save(tmp_path / "s.toml")
    codes = np.arange(300) % 3
    rows = schema.decode({"=job": codes, "n": codes, "x": codes % 2})
    pq.write_table(rows, tmp_path / "real.parquet")
    table = read(rows, schema)
    hush.plan(hush.Workload.kway(schema.domain, 1), hush.Budget(rho=500.0)).release(table).save(tmp_path / "r.hush")
    return tmp_path


def test_synthetic_rows_and_answers_hold_no_formula_and_are_read_back(folder: Path) -> None:
    made = run_hush("synth", folder / "r.hush", "--rows", 300, "--seed", 1, "-o", folder / "rows.csv")
    assert made.exit_code == 0, made.output
    header, *rows = cells_of((folder / "rows.csv").read_bytes())
    assert header[0] == "'=job"
    assert {row[0] for row in rows} == {"'=cmd", "'-", "clerk"}
    assert {row[1] for row in rows} == {"-3", "-2", "-1"}
    assert all(is_number(row[2]) for row in rows)
    run_hush("synth", folder / "r.hush", "--rows", 300, "--seed", 1, "-o", folder / "rows.parquet")
    parquet = pq.read_table(folder / "rows.parquet")
    assert set(parquet["=job"].to_pylist()) == {"=cmd", "-", "clerk"}
    asked = [("=job",), ("n",), ("x",)]
    from_csv, from_parquet = (
        read(folder / name, folder / "s.toml").counts(asked) for name in ("rows.csv", "rows.parquet")
    )
    assert all((from_csv[clique] == from_parquet[clique]).all() for clique in asked)
    compared = run_hush(
        "evaluate", folder / "real.parquet", folder / "rows.csv", "--schema", folder / "s.toml", "--workload", "1-way"
    )
    assert compared.exit_code == 0, compared.output
    sql = 'SELECT "=job", COUNT(*) FROM t GROUP BY "=job"'
    answered = run_hush("query", folder / "r.hush", sql, "--format", "csv")
    assert answered.exit_code == 0, answered.output
    header, *rows = cells_of(answered.stdout.encode())
    assert (header[0], [row[0] for row in rows]) == ("'=job", ["'=cmd", "'-", "clerk"])


def test_levels_that_csv_cannot_tell_apart_go_to_parquet_only(tmp_path: Path) -> None:
    schema = Schema([Categorical(name="a", values=("=x", "'=x"))])
    table = read(schema.decode({"a": np.array([0, 1, 1])}), schema)
    hush.plan(hush.Workload.kway(schema.domain, 1), hush.Budget(rho=5.0)).release(table).save(tmp_path / "r.hush")
    refused = run_hush("synth", tmp_path / "r.hush", "--rows", 5, "-o", tmp_path / "rows.csv")
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "column 'a' has '=x' and \"'=x\", which is how CSV spells the first; write a .parquet file" in refused.stderr
    assert not (tmp_path / "rows.csv").exists()
    assert run_hush("synth", tmp_path / "r.hush", "--rows", 5, "-o", tmp_path / "rows.parquet").exit_code == 0


def test_no_module_writes_csv_but_one() -> None:
    words = ("CSVWriter", "write_csv", "csv.writer", "DictWriter", "to_csv", "FORMAT CSV")
    sources = {path.name: path.read_text() for path in Path(hush.__file__).parent.rglob("*.py")}
    assert [name for name, text in sources.items() if any(word in text for word in words)] == ["csv_cells.py"]
