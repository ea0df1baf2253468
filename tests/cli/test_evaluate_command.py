"""hush evaluate: synthetic rows, releases and models beside the real rows; always stamped."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner
from pyarrow import csv, parquet

import hush
from command_line import run_hush
from hush import Budget, Domain, Measurement, Workload
from hush.cli.main import main
from hush.datasets import people, people_schema
from hush.evaluation import STAMP, compare, compare_numbers
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.schema import Unit

run = partial(run_hush, "evaluate")

SCHEMA = people_schema()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluate")
    SCHEMA.save(folder / "people.toml")
    csv.write_csv(people(500, seed=1), folder / "real.csv")
    parquet.write_table(people(400, seed=2), folder / "made.parquet")
    return folder


def test_rows_are_compared_and_the_stamp_is_first_and_last(files: Path) -> None:
    done = run(files / "real.csv", files / "made.parquet", "--schema", files / "people.toml")
    expected = "hush: comparing: longer with more rows and tables; a first run compiles once\n"
    assert (done.exit_code, done.stderr) == (0, expected)
    lines = done.stdout.splitlines()
    assert lines[0].rstrip() == lines[-1].rstrip() == STAMP
    assert "500 real, 400 synthetic" in done.stdout
    assert "21 tables" in done.stdout
    assert max(map(len, lines)) <= 80


def test_real_rows_come_through_a_pipe_or_from_a_database(files: Path, tmp_path: Path) -> None:
    words = ["--schema", str(files / "people.toml"), "--format", "json"]
    expected = json.loads(run(files / "real.csv", files / "made.parquet", *words).stdout)
    piped = (files / "real.csv").read_bytes()
    done = CliRunner().invoke(main, ["evaluate", "-", str(files / "made.parquet"), *words], input=piped)
    assert json.loads(done.stdout) == expected
    with duckdb.connect(str(tmp_path / "real.db")) as connection:
        connection.register("frame", people(500, seed=1))
        connection.execute("CREATE TABLE real AS SELECT * FROM frame")
    done = run(tmp_path / "real.db", files / "made.parquet", "--table", "real", *words)
    assert json.loads(done.stdout) == expected


def test_figures_go_to_a_file_and_are_those_of_python(files: Path, tmp_path: Path) -> None:
    options = ["--schema", files / "people.toml", "--workload", "target age 2-way + 2*sex"]
    done = run(files / "real.csv", files / "made.parquet", *options, "--json", tmp_path / "found.json")
    assert done.exit_code == 0
    real, made = (hush.read(str(files / name), SCHEMA) for name in ("real.csv", "made.parquet"))
    workload = Workload.target(SCHEMA.domain, "age", 2) + 2 * Workload.marginals(SCHEMA.domain, [("sex",)])
    numbers = compare_numbers(str(files / "real.csv"), str(files / "made.parquet"), SCHEMA)
    found = compare(real, made, workload, numbers=numbers)
    assert json.loads((tmp_path / "found.json").read_text()) == found.to_dict()
    assert done.stdout.splitlines()[-1].rstrip() == STAMP


def test_releases_and_models_are_compared_too(files: Path, tmp_path: Path) -> None:
    plan = hush.plan(Workload.marginals(SCHEMA.domain, [("sex", "region"), ("age",)]), Budget(rho=10.0), "residual")
    release = plan.release(hush.read(str(files / "real.csv"), SCHEMA), entropy=NotPrivateEntropy(seed=1))
    release.save(tmp_path / "people.hush")
    release.model().save(tmp_path / "model.zip")  # known by its first bytes
    for name in ("people.hush", "model.zip"):
        done = run(files / "real.csv", tmp_path / name, "--schema", files / "people.toml", "--workload", "1-way")
        assert done.exit_code == 0
        assert "500 real, " in done.stdout
        assert " in the model" in done.stdout
        assert done.stderr.startswith("hush: NOT PRIVATE")


def test_synthetic_rows_need_no_id(files: Path, tmp_path: Path) -> None:
    schema = hush.Schema(SCHEMA.columns, unit=Unit(column="person", max_rows=1))
    schema.save(tmp_path / "people.toml")
    rows = people(60, seed=1)
    csv.write_csv(rows.append_column("person", [[f"p{place // 2}" for place in range(60)]]), tmp_path / "real.csv")
    done = run(tmp_path / "real.csv", files / "made.parquet", "--schema", tmp_path / "people.toml")
    assert done.exit_code == 0
    assert "30 real, 400 synthetic" in done.stdout


def test_numbers_are_compared_as_numbers(files: Path, tmp_path: Path) -> None:
    rows = people(400, seed=5)
    zeros = rows.set_column(rows.column_names.index("income"), "income", [[0.0] * 300 + [1e3] * 100])
    csv.write_csv(zeros, tmp_path / "zeros.csv")
    done = run(
        tmp_path / "zeros.csv", files / "made.parquet", "--schema", files / "people.toml", "--json", tmp_path / "f.json"
    )
    assert done.exit_code == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("income") and "75.0 %" in line)
    assert line.split()[1] == "250"
    income = json.loads((tmp_path / "f.json").read_text())["numbers"][0]
    assert (income["column"], income["mean"]["real"], income["zeros"]["real"]) == ("income", 250.0, 0.75)


def test_rows_are_drawn_to_compare_the_numbers_of_a_model(files: Path, tmp_path: Path) -> None:
    model = hush.fit(SCHEMA, [Measurement(("age",), [4.0] * 100, 1.0)])
    model.save(tmp_path / "model.hush")
    done = run(files / "real.csv", tmp_path / "model.hush", "--schema", files / "people.toml")
    assert done.exit_code == 0, done.stderr
    assert "numbers are compared by 400 rows drawn from the model" in done.stderr
    assert "Numbers, compared without bins" in done.stdout


def test_files_are_not_replaced_and_mistakes_are_found_before_any_row_is_read(files: Path, tmp_path: Path) -> None:
    usual = [files / "real.csv", files / "made.parquet", "--schema", files / "people.toml", "--json"]
    (tmp_path / "mine.json").write_text("mine")
    assert "exists already" in run(*usual, tmp_path / "mine.json").stderr
    before = (files / "real.csv").read_bytes()
    assert "is read by this command" in run(*usual, files / "real.csv", "--force").stderr
    assert (files / "real.csv").read_bytes() == before
    assert (tmp_path / "mine.json").read_text() == "mine"
    assert run(*usual, tmp_path / "mine.json", "--force").exit_code == 0
    assert json.loads((tmp_path / "mine.json").read_text())["stamp"] == STAMP


def test_bad_input_is_one_line_and_exit_code_2(files: Path, tmp_path: Path) -> None:
    strange = hush.fit(Domain({"a": 2}), [Measurement(("a",), [4.0, 5.0], 1.0)])
    strange.save(tmp_path / "other.hush")
    hush.plan(Workload.kway(SCHEMA.domain, 1), Budget(rho=0.5)).save(tmp_path / "plan.hush")
    other = hush.Schema(SCHEMA.columns[:2])
    hush.fit(other, [Measurement(("sex",), [4.0, 5.0], 1.0)]).save(tmp_path / "few.hush")
    csv.write_csv(people(20, seed=1).drop_columns(["sex"]), tmp_path / "few.csv")
    real, made, schema = files / "real.csv", files / "made.parquet", ["--schema", files / "people.toml"]
    cases = [
        ([real, tmp_path / "none.csv", *schema], "does not exist"),
        ([tmp_path / "none.csv", made, *schema], "does not exist"),
        ([real, tmp_path / "none.hush", *schema], "none.hush"),
        ([real, made, "--schema", tmp_path / "none.toml"], "none.toml"),
        ([real, tmp_path / "plan.hush", *schema], "plan.hush"),
        ([real, tmp_path / "other.hush", *schema], "column 'age' is not in the schema of the synthetic data"),
        ([real, tmp_path / "few.hush", *schema], "column 'region' is not in the schema of the synthetic data"),
        ([real, tmp_path / "few.csv", *schema], "sex"),
        ([real, made, *schema, "--workload", "agee"], "attribute 'agee' is not in the domain; did you mean 'age'?"),
        ([real, made, *schema, "--workload", "9-way"], "order=9"),
        ([real, made], "Missing option '--schema'"),
    ]
    for args, message in cases:
        done = run(*args)
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert message in done.stderr


def test_a_file_that_cannot_be_written_is_said_in_one_line(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    args = [files / "real.csv", files / "made.parquet", "--schema", files / "people.toml"]
    done = run(*args, "--json", tmp_path / "found.json")
    assert done.exit_code == 2
    assert "No space left on device" in done.stderr


def test_the_real_rows_may_be_counted_already(files: Path, tmp_path: Path) -> None:
    lines, times = people(200, seed=1), [line % 4 for line in range(200)]
    csv.write_csv(lines.append_column("n", [times]), tmp_path / "h.csv")
    csv.write_csv(lines.take([line for line, n in enumerate(times) for _ in range(n)]), tmp_path / "rows.csv")
    options = ["--schema", files / "people.toml", "--format", "json"]
    rows = run(tmp_path / "rows.csv", files / "made.parquet", *options)
    counted = run(tmp_path / "h.csv", files / "made.parquet", *options, "--counts", "n")
    assert (rows.exit_code, counted.exit_code) == (0, 0)
    assert json.loads(counted.stdout) == json.loads(rows.stdout)


def test_a_release_of_zeros_is_compared_by_its_answers(files: Path, tmp_path: Path) -> None:
    table = hush.read(files / "real.csv", SCHEMA)
    hush.plan("2-way", Budget(rho=0.5), mechanism="all-zero", schema=SCHEMA).release(table).save(tmp_path / "z.hush")
    done = run(files / "real.csv", tmp_path / "z.hush", "--schema", files / "people.toml", "--format", "json")
    assert done.exit_code == 0
    assert "nothing was measured" in done.stderr
    figures = json.loads(done.stdout)
    assert figures["rows"]["synthetic"] == 0
    assert figures["workload"]["error"] == pytest.approx(1)
    assert figures["workload"]["share_error"] == pytest.approx(1)
    assert figures["numbers"] == []
