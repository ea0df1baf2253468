"""Files: odd but valid ones are read, broken ones give one clear line without anything of their content."""

from __future__ import annotations

import gzip
import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hush.core.errors import DataError, HushError
from hush.schema import Categorical, Integer, Schema
from hush.tables import read
from hush.tables.formats.file_sources import read_csv_header

SCHEMA = Schema(
    [
        Integer(name="x", low=0, high=3),
        Categorical(name="y", values=("a", "b, c", 'q"q', "l1\nl2", "été"), missing=True),
    ]
)
ENGINES = ("memory", "stream", "sql")
SECRET = "hunter2"


def counted(path, **options):
    return read(path, SCHEMA, **options).counts([("x",)])[("x",)].tolist()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"x,y\n1,a\n2,a\n", [0, 1, 1, 0]),
        (b"x,y\r\n1,a\r\n2,a\r\n", [0, 1, 1, 0]),
        (b"x,y\r1,a\r2,a", [0, 1, 1, 0]),
        (b"\xef\xbb\xbfx,y\n1,a\n", [0, 1, 0, 0]),
        (b"y,unused,x\na,,1\n", [0, 1, 0, 0]),
        (b" x , y \n 1 , a \n", [0, 1, 0, 0]),
        (b'"x","y"\n"1","b, c"\n2,"q""q"\n3,"l1\nl2"\n', [0, 1, 1, 1]),
        ("x,y\n1,été\n".encode(), [0, 1, 0, 0]),
        (b"x;y\n1;b, c\n", [0, 1, 0, 0]),
        (b"x|y\n1|b, c\n", [0, 1, 0, 0]),
        (b"x\ty\n1\ta\n", [0, 1, 0, 0]),
        (b"x,y\n1,a\n\n2,a\n\n", [0, 1, 1, 0]),
        (b"x,y\n", [0, 0, 0, 0]),
        (b"x,y", [0, 0, 0, 0]),
        (b"x,y,z,z,\n1,a,,,\n", [0, 1, 0, 0]),
        (b'x,y\n1,""\n1.0,\n1e0, \n', [0, 3, 0, 0]),
        (b'x,y\r\n1,"l1\nl2"\r\n2,a\r\n', [0, 1, 1, 0]),
    ],
)
def test_valid_files(engine, content, expected, tmp_path) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    assert counted(tmp_path / "t.csv", engine=engine) == expected


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty; a table without rows still needs its header"),
        (b"\n\n", "is empty; a table without rows still needs its header"),
        (b"1,hunter2\n2,hunter2\n", "none of the schema's columns is in the first line; it must be the header"),
        (b"x,z\n1,hunter2\n", "has no column 'y'"),
        (b"x,Y\n1,hunter2\n", "has no column 'y'; check that the first line is the header and spells it so"),
        (b"x,yhunter2\n1,a\n", "has no column 'y'; check that the first line is the header and spells it so"),
        (b"hunter2,None\n1,a\n", "none of the schema's columns is in the first line; it must be the header"),
        (b"x,y,y\n1,hunter2,hunter2\n", "has several columns named 'y'; rename all but one"),
        (b"x,y\n1,hunter2,hunter2\n", "some rows have more or fewer fields than the header"),
        (b"x,y,z\n1,hunter2\n", "some rows have more or fewer fields than the header"),
        (b'x,y\n1,"hunter2\n2,a\n', "a quoted field is not closed"),
        (b'x,y\n1,"a"hunter2\n2,a\n', "a quoted field is not closed, or text follows"),
        (b"x,y\n1,hunter2\xe9\n", "not UTF-8 text; convert it"),
        (b"x,y,\xe9\n1,hunter2,1\n", "not UTF-8 text; convert it"),
        ("x,y\n1,hunter2\n".encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
        (
            b"x,y\n1,hunter2\n",
            "column 'y' holds values outside its declared levels (how many is private); list every value, add other",
        ),
        (b"x,y\n9,a\n", "column 'x' holds values outside its declared levels"),
        (b"x,y\n1.5,a\n", "column 'x' holds values outside its declared levels"),
        (b"x,y\nhunter2,a\n", "column 'x' holds values outside its declared levels"),
        (b"x,y\n,a\n", "column 'x' holds values outside its declared levels"),
        (b'x,y,"z\nz"\r\n1,hunter2,3\r\n', "has a line break in the name of a column; rename it"),
        (b"x,y\n1,a\r\n2,hunter2\n", "not a well-formed CSV file, perhaps of mixed line ends"),
    ],
    ids=itertools.count(),
)
def test_broken_files(engine, content, words, tmp_path) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError) as caught:
        read(tmp_path / "t.csv", SCHEMA, engine=engine).counts([("x", "y")])
    message = str(caught.value)
    assert words in message
    assert SECRET not in message
    assert "\n" not in message
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_paths_that_lead_nowhere(tmp_path) -> None:
    (tmp_path / "t.xlsx").write_bytes(b"x")
    (tmp_path / "t").write_bytes(b"x")
    for path, words in {
        tmp_path / "none.csv": "does not exist; check the path",
        str(tmp_path / "*.csv"): "matches no file; check the path",
        tmp_path: "holds no Parquet file; give a .csv",
        tmp_path / "t.xlsx": "cannot be read as an Excel file",
        tmp_path / "t": "cannot tell the format from the ending ''",
        "/dev/null": "is not a regular file",
        "~nobody-of-this-name/t.csv": "cannot be looked up; check it",
        "t" * 5000 + ".csv": "cannot be looked up; check it",
    }.items():
        with pytest.raises(DataError, match=words):
            read(path, SCHEMA)


def test_packed_files(tmp_path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"x,y\n1,a\n"))
    (tmp_path / "t.tsv.gz").write_bytes(gzip.compress(b"x\ty\n1\tb, c\n"))
    assert counted(tmp_path / "t.csv.gz") == counted(tmp_path / "t.tsv.gz") == [0, 1, 0, 0]
    for content in (gzip.compress(b"x,y\n1,a\n" * 9999)[:-30], b"no gzip"):
        (tmp_path / "t.csv.gz").write_bytes(content)
        with pytest.raises(DataError, match="cannot be read"):
            counted(tmp_path / "t.csv.gz")


def test_names_with_characters_of_a_pattern(tmp_path) -> None:
    for name in ("t[1].csv", "t*.csv", "it's.csv", "t?.csv"):
        (tmp_path / name).write_bytes(b"x,y\n1,a\n")
        assert counted(tmp_path / name) == [0, 1, 0, 0]


@pytest.mark.parametrize("engine", ENGINES)
def test_patterns_read_every_part(engine, tmp_path) -> None:
    for part in range(3):
        (tmp_path / f"p{part}.csv").write_bytes(f"x,y\n{part},a\n".encode())
        pq.write_table(pa.table({"x": [part], "y": ["a"]}), tmp_path / f"p{part}.parquet")
    assert counted(str(tmp_path / "p*.csv"), engine=engine) == [1, 1, 1, 0]
    assert counted(str(tmp_path / "**" / "p?.parquet"), engine=engine) == [1, 1, 1, 0]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_that_a_pattern_finds_twice_counts_once(engine, tmp_path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "2024.csv").write_bytes(b"x,y\n1,a\n")
    (tmp_path / "sub" / "2025.csv").write_bytes(b"x,y\n1,a\n")  # alike, and yet another file
    pq.write_table(pa.table({"x": [2], "y": ["a"]}), tmp_path / "sub" / "2024.parquet")
    for ending in ("csv", "parquet"):
        (tmp_path / "sub" / f"latest.{ending}").symlink_to(f"2024.{ending}")
        (tmp_path / "sub" / f"again.{ending}").hardlink_to(tmp_path / "sub" / f"2024.{ending}")
    assert counted(str(tmp_path / "sub" / "*.csv"), engine=engine) == [0, 2, 0, 0]
    assert counted(str(tmp_path / "**" / "**" / "202?.csv"), engine=engine) == [0, 2, 0, 0]
    assert counted(str(tmp_path / "sub" / "*.parquet"), engine=engine) == [0, 0, 1, 0]


def test_parts_must_have_the_same_columns(tmp_path) -> None:
    (tmp_path / "p0.csv").write_bytes(b"x,y\n0,a\n")
    (tmp_path / "p1.csv").write_bytes(b"y,x\na,0\n")
    pq.write_table(pa.table({"x": [0], "y": ["a"]}), tmp_path / "p0.parquet")
    pq.write_table(pa.table({"x": [0], "z": ["a"]}), tmp_path / "p1.parquet")
    for pattern in ("p*.csv", "p*.parquet"):
        with pytest.raises(DataError, match="differ in their columns"):
            counted(str(tmp_path / pattern))


@pytest.mark.parametrize("engine", ENGINES)
def test_broken_parquet_files(engine, tmp_path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [0, 1], "y": ["a", SECRET]}), path, compression="none")
    whole = path.read_bytes()
    for content in (b"", b"PAR1", whole[: len(whole) // 2], whole[:4] + b"\xff" * 40 + whole[44:]):
        path.write_bytes(content)
        with pytest.raises(HushError) as caught:
            read(path, SCHEMA, engine=engine).counts([("x", "y")])
        assert SECRET not in str(caught.value)
        assert caught.value.__context__ is None


def test_parquet_columns_that_differ_in_case_only(tmp_path) -> None:
    table = pa.table({"X": [3], "x": [1], "y": ["a"], "nested": [{"x": 2}]})
    pq.write_table(table, tmp_path / "t.parquet")
    assert counted(tmp_path / "t.parquet") == [0, 1, 0, 0]


def test_parts_of_different_types_are_read_or_refused(tmp_path) -> None:
    pq.write_table(pa.table({"x": [0], "y": ["a"]}), tmp_path / "p0.parquet")
    pq.write_table(pa.table({"x": [SECRET], "y": ["a"]}), tmp_path / "p1.parquet")
    with pytest.raises(DataError) as caught:
        counted(str(tmp_path / "p*.parquet"))
    assert SECRET not in str(caught.value)


def test_the_delimiter_is_chosen_by_the_header_only(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"x;y\n1;2,3,4,5\n")
    assert read_csv_header(path, {"x", "y"}).delimiter == ";"
    path.write_bytes(b"only\n1;2;3\n")
    assert read_csv_header(path, {"only"}).columns == ("only",)


def test_a_missing_line_of_a_single_column_is_a_missing_value(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"x\n1\n\n2\n")
    schema = Schema([Integer(name="x", low=0, high=3, missing=True)])
    assert read(path, schema).counts([("x",)])[("x",)].tolist() == [0, 1, 1, 0, 1]


def parts(folder, *names):
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": [number]}), folder / name)
    return folder


@pytest.mark.parametrize("engine", ENGINES)
def test_a_folder_of_parquet_gives_the_rows_of_every_part(engine, tmp_path) -> None:
    parts(tmp_path, "part-0.parquet", "deep/part-1.pq", "_temporary/part-2.parquet", ".old.parquet", "_half.parquet")
    (tmp_path / "_SUCCESS").touch()
    schema = Schema([Integer(name="x", low=0, high=3)])
    assert read(tmp_path, schema, engine=engine).counts([("x",)])[("x",)].tolist() == [1, 1, 0, 0]
    assert read(f"{tmp_path}/", schema).counts([("x",)])[("x",)].tolist() == [1, 1, 0, 0]


def test_folders_that_name_values_are_columns(tmp_path) -> None:
    parts(tmp_path, "city=Den Haag/p.parquet", "city=a%2Fb/p.parquet", "city=__HIVE_DEFAULT_PARTITION__/p.parquet")
    schema = Schema(
        [Integer(name="x", low=0, high=2), Categorical(name="city", values=("Den Haag", "a/b"), missing=True)]
    )
    counts = read(tmp_path, schema).counts([("x", "city")])[("x", "city")]
    assert counts.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("log", "kind"), [("_delta_log/0.json", "Delta"), ("metadata/v1.metadata.json", "Iceberg"), (".hoodie/x", "Hudi")]
)
def test_folders_that_keep_deleted_rows_are_refused(log, kind, tmp_path) -> None:
    parts(tmp_path, "part-0.parquet")
    (tmp_path / log).parent.mkdir()
    (tmp_path / log).touch()
    with pytest.raises(DataError, match=f"is a table of {kind}, whose files also hold rows that were deleted"):
        read(tmp_path, SCHEMA)


def test_a_table_is_named_for_databases_only(tmp_path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,a\n")
    with pytest.raises(DataError, match="table= goes with databases and spreadsheets, and the file .* is none"):
        read(tmp_path / "t.csv", SCHEMA, table="people")
    with pytest.raises(DataError, match="query= goes with databases, and"):
        read(tmp_path / "t.csv", SCHEMA, query="SELECT 1")
