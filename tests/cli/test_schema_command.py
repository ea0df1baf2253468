"""hush schema: draft, check and convert from the terminal."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from command_line import run_hush as run
from hush.cli.main import main
from hush.schema import Boolean, Integer, Schema, Unit

CANARY = "canary-7261"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.csv"
    path.write_text(f"age,name\n17,{CANARY}\n90,b\n")
    return path


def test_draft_prints_a_skeleton_from_the_header(data: Path) -> None:
    result = run("schema", "draft", data)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert "[columns.age]" in result.stdout
    assert CANARY not in result.stdout


def test_drafts_and_checks_take_a_pipe_and_a_table(data: Path, tmp_path: Path) -> None:
    piped = CliRunner().invoke(main, ["schema", "draft", "-"], input=data.read_bytes())
    assert piped.stdout == run("schema", "draft", data).stdout
    with sqlite3.connect(tmp_path / "data.db") as connection:
        connection.execute("CREATE TABLE people (age, name)")
        connection.execute("INSERT INTO people VALUES (17, 'b')")
    connection.close()
    drafted = run("schema", "draft", tmp_path / "data.db", "--table", "people")
    assert drafted.stdout == piped.stdout
    Schema([Integer(name="age", low=0, high=99)]).save(tmp_path / "s.toml")
    assert (
        "All columns fit"
        in run("schema", "check", tmp_path / "s.toml", tmp_path / "data.db", "--table", "people").stdout
    )
    assert "--table goes with DATA" in run("schema", "check", tmp_path / "s.toml", "--table", "people").stderr


def test_draft_from_data_warns_in_the_file_and_on_the_terminal(data: Path, tmp_path: Path) -> None:
    result = run("schema", "draft", data, "--from-data", "-o", tmp_path / "s.toml")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr.startswith("hush: NOT PRIVATE: this draft holds values and bounds taken from the rows.")
    assert CANARY not in result.stderr
    assert "NOT PRIVATE" in (tmp_path / "s.toml").read_text()
    assert Schema.load(tmp_path / "s.toml").domain["age"] == 74


def test_drafts_go_through_a_pipe_whole(data: Path) -> None:
    drafted = run("schema", "draft", data, "--from-data")
    assert drafted.stdout.startswith("# ===")
    assert drafted.stdout.endswith("\n")


def test_an_output_that_exists_is_kept(data: Path, tmp_path: Path) -> None:
    output = tmp_path / "s.toml"
    output.write_text("edited by hand")
    result = run("schema", "draft", data, "-o", output)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "exists already; choose another name or add --force" in result.stderr
    assert output.read_text() == "edited by hand"
    assert run("schema", "draft", data, "-o", output, "--force").exit_code == 0
    assert "[columns.age]" in output.read_text()


def test_an_output_that_cannot_be_written(data: Path, tmp_path: Path) -> None:
    result = run("schema", "draft", data, "-o", tmp_path / "none" / "s.toml")
    assert result.exit_code == 2
    assert "is no folder; create it first" in result.stderr


def test_check_shows_columns_sizes_cells_and_unit(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(
        """
hush_schema = 1
[unit]
column = "person_id"
max_rows = 3
[columns.age]
kind = "integer"
low = 17
high = 90
missing = true
[columns.income]
kind = "numeric"
low = 0
high = 100000
bins = 32
[columns.sex]
kind = "categorical"
values = ["Female", "Male"]
other = true
[columns.region]
kind = "categorical"
values = [1, 2, 3, 4, 5]
[columns.smoker]
kind = "boolean"
[columns.seen]
kind = "date"
start = 2020-01-01
end = 2024-12-31
granularity = "month"
"""
    )
    result = run("schema", "check", path)
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines == [
        "column kind levels size",
        "age integer 17 .. 90 + missing 75",
        "income numeric 0 .. 100000 in 32 bins 32",
        "sex categorical Female, Male + other 3",
        "region categorical 1, 2, 3, 4, ... 5",
        "smoker boolean False, True 2",
        "seen date 2020-01-01 .. 2024-12-31 by month 60",
        "",
        "cells: 4,320,000",
        "unit: a value of 'person_id', of which at most 3 rows are used",
    ]


def test_check_shows_the_rules(tmp_path: Path) -> None:
    schema = Schema([Integer(name="age", low=0, high=99), Boolean(name="votes"), Boolean(name="owns")])
    assert "rule" not in _checked(schema, tmp_path)
    ruled = schema.forbid(["age", "votes"], [[{"to": 17}, True]]).forbid(["votes", "owns"], [[False, True]])
    assert _checked(ruled, tmp_path).splitlines()[-2:] == [
        "rule: age x votes: 18 of 200 combinations forbidden",
        "rule: votes x owns: 1 of 4 combinations forbidden",
    ]


def _checked(schema: Schema, folder: Path) -> str:
    schema.save(folder / "s.toml", overwrite=True)
    return run("schema", "check", folder / "s.toml").stdout


def test_check_of_a_domain_beyond_any_float(tmp_path: Path) -> None:
    columns = [Integer(name=f"c{k}", low=0, high=2**31 - 1) for k in range(600)]
    Schema(columns).save(tmp_path / "s.toml")
    result = run("schema", "check", tmp_path / "s.toml")
    assert "cells: about 10^5599" in result.stdout
    assert "unit: a row" in result.stdout


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    schema = Schema([Boolean(name="\x1b[31mred[bold]")], unit=Unit(column="\x1b[0m"))
    schema.save(tmp_path / "s.toml")
    shown = run("schema", "check", tmp_path / "s.toml").stdout
    assert "\x1b" not in shown
    assert r"\x1b[31mred[bold]" in shown


def test_convert_writes_toml(tmp_path: Path) -> None:
    (tmp_path / "domain.json").write_text('{"age": 85}')
    result = run("schema", "convert", tmp_path / "domain.json", "-o", tmp_path / "s.toml")
    assert result.exit_code == 0
    assert Schema.load(tmp_path / "s.toml") == Schema.load(tmp_path / "domain.json")
    assert run("schema", "convert", tmp_path / "domain.json").stdout == (tmp_path / "s.toml").read_text()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("draft", "none.csv"), "the file 'none.csv' does not exist; check the path"),
        (("draft", "data.xlsx"), "the file 'data.xlsx' does not exist; check the path"),
        (("draft", __file__), f"the file {__file__!r}: cannot tell the format from the ending '.py'; give a .csv"),
        (("check", "none.toml"), "none.toml: there is no such file"),
        (("check", "data.csv"), "data.csv: cannot tell the format of a schema"),
        (("convert", "none.json"), "none.json: there is no such file"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(args: tuple[str, ...], message: str) -> None:
    result = run("schema", *args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"hush: {message}")
    assert result.stderr.count("\n") == 1


def test_the_installed_command(data: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from hush.cli.main import main; main()", "schema"]
    drafted = subprocess.run([*command, "draft", data], capture_output=True, text=True, check=True)
    (tmp_path / "s.toml").write_text(drafted.stdout)
    checked = subprocess.run([*command, "check", tmp_path / "s.toml"], capture_output=True, text=True, check=False)
    assert checked.returncode == 2
    assert checked.stdout == ""
    assert checked.stderr == (
        f"hush: {tmp_path}/s.toml: column 'age': low is missing; write the smallest possible integer, "
        "taken from public knowledge, not from the rows\n"
    )


def test_check_with_data_shows_the_owner_all_refusals_at_once(tmp_path: Path) -> None:
    schema, rows = tmp_path / "s.toml", tmp_path / "people.csv"
    Schema([Integer(name="age", low=0, high=99), Boolean(name="owner")]).save(schema)
    rows.write_text("age,owner\n17.5,maybe\n18,yes\n")
    result = run("schema", "check", schema, rows)
    assert result.exit_code == 2
    assert result.stderr == ""
    assert result.stdout.startswith("PRIVATE: exact counts and values of the rows")
    assert "1 fractional values in an integer column: use" in result.stdout
    assert "1 neither true nor false" in result.stdout
    as_json = run("schema", "check", schema, rows, "--json")
    assert (as_json.exit_code, json.loads(as_json.stdout)["columns"][0]["refused"][0]["examples"]) == (2, ["17.5"])
    rows.write_text("age,owner\n17,no\n18,yes\n")
    result = run("schema", "check", schema, rows)
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "All columns fit the schema.")


def test_check_without_data_has_no_json(tmp_path: Path) -> None:
    schema = tmp_path / "s.toml"
    Schema([Boolean(name="owner")]).save(schema)
    result = run("schema", "check", schema, "--json")
    assert result.exit_code == 2
    assert "--json goes with DATA" in result.stderr


def test_check_of_a_histogram_counts_its_rows(tmp_path: Path) -> None:
    schema, rows = tmp_path / "s.toml", tmp_path / "rows.csv"
    Schema([Integer(name="age", low=0, high=99)]).save(schema)
    rows.write_text("age,n\n1,1000\n2,0\n300,0\n")
    result = run("schema", "check", schema, rows, "--counts", "n")
    assert (result.exit_code, "1,000 rows" in result.stdout) == (0, True)
    rows.write_text("age,n\n1,1000\n200,20\n3,-4\n")
    result = run("schema", "check", schema, rows, "--counts", "n")
    assert result.exit_code == 2
    assert "20 values above high = 99" in result.stdout
    assert "1 negative counts: a count is at least 0 (such as `-4`)" in result.stdout
    result = run("schema", "check", schema, "--counts", "n")
    assert (result.exit_code, "--counts goes with DATA" in result.stderr) == (2, True)
