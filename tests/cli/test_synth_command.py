"""hush synth: rows from a release or a model file; and hush query on a model."""

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from pyarrow import csv

import hush
from command_line import run_hush as run
from hush import Budget, Ledger, Measurement, Workload
from hush.cli.synth_command import write_rows
from hush.core.errors import HushError
from hush.datasets import people, people_schema
from hush.privacy.exact_sampling import NotPrivateEntropy

SCHEMA = people_schema()
PAIRS = [("sex", "region"), ("region", "employed"), ("education",), ("income",)]


def release_file(path: Path, *, seeded: bool = False) -> Path:
    plan = hush.plan(Workload.marginals(SCHEMA.domain, PAIRS), Budget(rho=0.5), mechanism="residual")
    table = hush.read(people(2000, seed=5), SCHEMA)
    plan.release(table, entropy=NotPrivateEntropy(seed=1) if seeded else None).save(path)
    return path


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release_file(tmp_path_factory.mktemp("release") / "people.hush")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.hush"
    table = hush.read(people(2000, seed=5), SCHEMA).counts(PAIRS)
    hush.fit(SCHEMA, [Measurement(clique, table[clique], 0.5) for clique in PAIRS]).save(path)
    return path


def counts(path: Path, clique: tuple[str, ...]) -> np.ndarray:
    return hush.read(str(path), SCHEMA).counts([clique])[clique]


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.PARQUET"])
def test_rows_are_written_and_the_model_described(release: Path, tmp_path: Path, name: str) -> None:
    done = run("synth", release, "--rows", 1500, "-o", tmp_path / name, "--seed", 1)
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"Wrote 1,500 rows to {tmp_path / name}; nothing was spent."
    assert lines[1].startswith("Model: exact, ")
    assert lines[1].endswith("fit solved.")
    assert "too small" in " ".join(lines[2:])
    reader = csv.read_csv if name.endswith("csv") else pyarrow.parquet.read_table
    rows = reader(tmp_path / name)
    assert (rows.num_rows, rows.column_names) == (1500, list(SCHEMA.domain))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_rows_can_be_read_with_the_schema_and_look_like_the_table(model: Path, tmp_path: Path) -> None:
    assert run("synth", model, "-o", tmp_path / "rows.csv").exit_code == 0
    exact = hush.read(people(2000, seed=5), SCHEMA).counts([("sex", "region")])[("sex", "region")]
    assert np.abs(counts(tmp_path / "rows.csv", ("sex", "region")) - exact).max() <= 5


def test_as_many_rows_as_there_are_records(model: Path, tmp_path: Path) -> None:
    done = run("synth", model, "-o", tmp_path / "rows.parquet")
    assert abs(pyarrow.parquet.read_metadata(tmp_path / "rows.parquet").num_rows - 2000) < 10
    assert done.stdout.startswith("Wrote 2,00") or done.stdout.startswith("Wrote 1,99")


@pytest.mark.parametrize("method", ["rounding", "sampling"])
def test_a_seed_makes_the_same_file(model: Path, tmp_path: Path, method: str) -> None:
    for name in ("x.csv", "y.csv"):
        assert run("synth", model, "--rows", 300, "--method", method, "--seed", 3, "-o", tmp_path / name).exit_code == 0
    assert (tmp_path / "x.csv").read_bytes() == (tmp_path / "y.csv").read_bytes()


def test_pieces_are_written_one_after_the_other(model: Path, tmp_path: Path) -> None:
    pieces = hush.load(model).batches(40, seed=1, chunk_rows=7)  # type: ignore[union-attr]
    seen: list[int] = []
    assert write_rows(tmp_path / "rows.csv", pieces, seen.append) == 40
    assert seen == [7, 14, 21, 28, 35, 40]
    assert csv.read_csv(tmp_path / "rows.csv").num_rows == 40


def test_no_rows_are_a_file_with_a_header(model: Path, tmp_path: Path) -> None:
    done = run("synth", model, "--rows", 0, "-o", tmp_path / "rows.csv")
    assert done.exit_code == 0
    assert "Standard errors" not in done.stdout
    assert (tmp_path / "rows.csv").read_text().count("\n") == 1


def test_given_values_are_kept(model: Path, tmp_path: Path) -> None:
    given = ["region=North", "region=East", "employed=true", "income={from = 0, to = 10000}", "age=30"]
    options = [part for text in given for part in ("--given", text)]
    done = run("synth", model, "--rows", 200, "-o", tmp_path / "rows.parquet", *options)
    assert done.exit_code == 0, done.stderr
    rows = pyarrow.parquet.read_table(tmp_path / "rows.parquet")
    assert set(rows["region"].to_pylist()) == {"North", "East"}
    assert set(rows["employed"].to_pylist()) == {True}
    assert set(rows["age"].to_pylist()) == {30}
    assert all(0 <= value < 10_000 for value in rows["income"].to_pylist())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--given", "region"], "expected COLUMN=VALUE"),
        (["--given", "regoin=North"], "did you mean 'region'?"),
        (["--given", "region=Nort"], "did you mean 'North'?"),
        (["--given", "age=200"], "outside 0 .. 99"),
        (["--given", "age>=18"], ">= is not understood; write age={from = 18}"),
        (["--given", "age <= 18"], "write age={to = 18}"),
        (["--given", "age<18"], "such as age={to = 18}, which includes its end"),
        (["--given", "sex!=male"], "name the values to keep"),
        (["--given", "age={from = 1"], "none of its levels"),
        (["--given", "age=1\nx = 2"], "none of its levels"),
        (["--rows", "-3"], "--rows"),
        (["--rows", "many"], "'--rows': 'many': expected a whole number of at least 0, in digits, such as 10000"),
        (["--seed", "-3"], "--seed"),
        (["--method", "guessing"], "--method"),
        (["--max-size-mb", "3"], "leave --max-size-mb out"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(model: Path, tmp_path: Path, options: list[str], text: str) -> None:
    done = run("synth", model, "-o", tmp_path / "rows.csv", *options)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.stderr
    assert text in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_limit_that_no_model_can_keep_is_said(release: Path, tmp_path: Path) -> None:
    done = run("synth", release, "-o", tmp_path / "rows.csv", "--max-size-mb", "-1")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "--max-size-mb" in done.stderr


@pytest.mark.parametrize("name", ["rows", "rows.txt", "rows.hush", "rows.csv.zip", "rows.parquet.gz", "gz"])
def test_names_say_which_kind_of_file_is_wanted(model: Path, tmp_path: Path, name: str) -> None:
    done = run("synth", model, "-o", tmp_path / name)
    assert done.exit_code == 2
    assert "expected a name that ends in .csv, .csv.gz or .parquet" in done.stderr
    assert ("has no ending" in done.stderr) == ("." not in name)
    assert list(tmp_path.iterdir()) == []


def test_files_are_not_replaced(model: Path, tmp_path: Path) -> None:
    kept, ledger, own = tmp_path / "mine.csv", tmp_path / "budget.csv", tmp_path / "model.csv"
    kept.write_text("mine")
    Ledger(ledger, cap=Budget(rho=1.0))
    own.write_bytes(model.read_bytes())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert "exists already" in run("synth", model, "-o", kept).stderr
    assert "is a ledger" in run("synth", model, "-o", ledger, "--force").stderr
    assert "is read by this command" in run("synth", own, "-o", own, "--force").stderr
    assert "is no folder" in run("synth", model, "-o", tmp_path / "none" / "x.csv").stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert run("synth", model, "--rows", 3, "-o", kept, "--force").exit_code == 0
    assert kept.read_text().count("\n") == 4


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device"), MemoryError()])
def test_a_stopped_write_leaves_the_old_file_and_no_half_one(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    output = tmp_path / "rows.csv"
    output.write_text("old")
    true = hush.Model.batches

    def stopped(self: Any, rows: int, **options: Any) -> Any:
        yield next(iter(true(self, 10, **options)))
        raise error

    monkeypatch.setattr(hush.Model, "batches", stopped)
    done = run("synth", model, "--rows", 100, "-o", output, "--force")
    assert done.exit_code in (2, 70, 130)
    assert output.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]
    if isinstance(error, OSError):
        assert "No space left" in done.stderr


def test_a_place_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.open", full)
    with pytest.raises(HushError, match="No space left on device; choose another place"):
        write_rows(tmp_path / "rows.csv", [], lambda _: None)


def test_seeded_noise_is_called_out(tmp_path: Path) -> None:
    file = release_file(tmp_path / "test.hush", seeded=True)
    done = run("synth", file, "--rows", 5, "-o", tmp_path / "rows.csv")
    assert done.exit_code == 0
    assert done.stderr.startswith("hush: NOT PRIVATE")


def test_a_data_file_is_called_one(tmp_path: Path) -> None:
    csv.write_csv(people(20, seed=1), tmp_path / "people.csv")
    for command in ("synth", "model"):
        done = run(command, tmp_path / "people.csv", "-o", tmp_path / "rows.csv")
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
        assert "people.csv is a data file, not a hush release or model" in done.stderr


@pytest.mark.parametrize("width", [40, 100])
def test_warnings_are_wrapped_at_the_width_of_the_terminal(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = run("synth", model, "--rows", 3, "-o", tmp_path / "rows.csv").stdout.splitlines()
    assert "Standard errors computed from synthetic rows" in " ".join(" ".join(lines[2:]).split())
    assert width / 2 < max(map(len, lines[2:])) <= width


def test_what_is_neither_release_nor_model_is_refused(tmp_path: Path) -> None:
    plan = tmp_path / "plan.hush"
    hush.plan(Workload.marginals(SCHEMA.domain, PAIRS), Budget(rho=0.5)).save(plan)
    (tmp_path / "bad.hush").write_bytes(b"PK\x03\x04 not an archive")
    for name in ("plan.hush", "bad.hush", "none.hush"):
        done = run("synth", tmp_path / name, "-o", tmp_path / "rows.csv")
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert not (tmp_path / "rows.csv").exists()


def test_copies_are_numbered_files_that_differ_and_none_is_overwritten(model: Path, tmp_path: Path) -> None:
    options = ("--rows", 40, "--copies", 11, "--seed", 3, "-o", tmp_path / "rows.csv")
    done = run("synth", model, *options)
    assert (done.exit_code, done.stderr) == (0, "")
    said = " ".join(done.stdout.split())
    assert f"Wrote 40 rows to each of {tmp_path / 'rows-01.csv'} to {tmp_path / 'rows-11.csv'}" in said
    assert "differ only by chance in drawing rows" in said
    files = sorted(tmp_path.glob("rows*.csv"))
    assert [path.name for path in files] == [f"rows-{place:02}.csv" for place in range(1, 12)]
    assert len({path.read_bytes() for path in files}) == 11
    assert csv.read_csv(files[2]).num_rows == 40
    first = [path.read_bytes() for path in files]
    again = run("synth", model, *options)
    assert again.exit_code == 2
    assert "rows-01.csv exists already" in again.stderr
    assert run("synth", model, *options, "--force").exit_code == 0
    assert [path.read_bytes() for path in files] == first
    assert run("synth", model, "--copies", 0, "-o", tmp_path / "none.csv").exit_code == 2


# hush query on a model


def test_a_model_answers_sql_without_errors(model: Path) -> None:
    done = run("query", model, "SELECT sex, COUNT(*) FROM t WHERE employed GROUP BY sex", "--format", "csv")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == '"sex","estimate","std_error","lower","upper","basis"'
    assert [line.split(",")[-1] for line in lines[1:]] == ['"none"', '"none"']
    assert all(line.split(",")[2:5] == ["", "", ""] for line in lines[1:])
    assert "errors are not known" in run("query", model, "SELECT COUNT(*) FROM t").stdout


def test_a_model_has_no_terms(model: Path) -> None:
    done = run("query", model, "--term", 0)
    assert done.exit_code == 2
    assert "is a model, which has no workload; ask SQL" in done.stderr


def test_a_model_is_no_plan(model: Path, tmp_path: Path) -> None:
    csv.write_csv(people(20, seed=1), tmp_path / "people.csv")
    SCHEMA.save(tmp_path / "people.toml")
    options = ["--schema", tmp_path / "people.toml", "--plan", model, "-o", tmp_path / "x.hush"]
    done = run("release", tmp_path / "people.csv", *options)
    assert done.exit_code == 2
    assert "is a model, not a plan" in done.stderr


def test_rows_may_be_compressed(model: Path, tmp_path: Path) -> None:
    for name in ("x.csv.gz", "y.CSV.GZ", "z.csv"):
        assert run("synth", model, "--rows", 50, "--seed", 3, "-o", tmp_path / name).exit_code == 0
    packed = (tmp_path / "x.csv.gz").read_bytes()
    assert packed == (tmp_path / "y.CSV.GZ").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "z.csv").read_bytes()
    assert counts(tmp_path / "x.csv.gz", ("sex",)).sum() == 50


def test_copies_may_be_compressed(model: Path, tmp_path: Path) -> None:
    assert run("synth", model, "--rows", 5, "--copies", 2, "-o", tmp_path / "x.csv.gz").exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x-1.csv.gz", "x-2.csv.gz"]


def test_rows_go_to_standard_output_and_words_do_not(model: Path, tmp_path: Path) -> None:
    done = run("synth", model, "--rows", 5, "--seed", 3, "-o", "-")
    assert run("synth", model, "--rows", 5, "--seed", 3, "-o", tmp_path / "rows.csv").exit_code == 0
    assert done.stdout == (tmp_path / "rows.csv").read_text()
    assert "Wrote 5 rows to standard output" in done.stderr
    assert not Path("-").exists()


def test_several_copies_do_not_go_to_standard_output(model: Path) -> None:
    done = run("synth", model, "--rows", 5, "--copies", 2, "-o", "-")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--copies writes several files; give -o a file name" in done.stderr


def test_a_reader_that_leaves_early_is_no_error(model: Path) -> None:
    code = "from hush.cli.main import main; main()"
    command = [sys.executable, "-c", code, "synth", str(model), "--rows", "200000", "--method", "sampling", "-o", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith('"age"')
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 1
    assert said == ""


TAXI = """hush_schema = 1
[columns.pickup]
kind = "timestamp"
start = 2024-02-01
end = 2024-02-29
parts = ["date", "weekday", "hour"]
granularity = "week"
missing = true
[columns.dropoff]
kind = "time"
[columns.paid]
kind = "boolean"
"""


@pytest.mark.slow
def test_times_go_through_the_whole_program(tmp_path: Path) -> None:
    """From a CSV of times to a CSV of times: 8 in the evening is frequent in both, and every time is allowed."""
    moments = [f"2024-02-{1 + k % 29:02} {20 if k % 2 else k % 24:02}:{k % 60:02}:07" for k in range(3000)]
    cells = [f"{moment},{moment[11:16]},{k % 2}" for k, moment in enumerate(moments)]
    data, schema = tmp_path / "taxi.csv", tmp_path / "taxi.toml"
    data.write_text("\n".join(["pickup,dropoff,paid", *cells, ",12:00,0", ""]))
    schema.write_text(TAXI)
    checked = run("schema", "check", schema, data)
    assert (checked.exit_code, "All columns fit" in checked.output) == (0, True)
    output, rows = tmp_path / "taxi.hush", tmp_path / "rows.csv"
    options = ["--workload", "<=2-way", "--rho", 5, "--mechanism", "residual", "-o", output]
    released = run("release", data, "--schema", schema, *options)
    assert released.exit_code == 0, released.output
    hours = run("query", output, 'SELECT "pickup.hour", COUNT(*) FROM t GROUP BY "pickup.hour"', "--format", "csv")
    assert hours.exit_code == 0, hours.output
    written = run("synth", output, "--rows", 1000, "-o", rows, "--given", "pickup.weekday=Monday")
    assert written.exit_code == 0, written.output
    table = csv.read_csv(rows)
    assert table.column_names == ["pickup", "dropoff", "paid"]
    pickups = [pickup for pickup in table["pickup"].to_pylist() if pickup is not None]  # noise leaves few missing
    assert len(pickups) > 950
    assert all((pickup.year, pickup.month) == (2024, 2) for pickup in pickups)
    assert sum(pickup.hour == 20 for pickup in pickups) > 400
    assert sum(pickup.weekday() == 0 for pickup in pickups) > 900
    assert run("schema", "check", schema, rows).exit_code == 0
    compared = run("evaluate", data, rows, "--schema", schema)
    assert compared.exit_code == 0, compared.output
    page = run("report", output, "-o", tmp_path / "taxi.html")
    assert page.exit_code == 0, page.output
    assert "pickup.weekday" in (tmp_path / "taxi.html").read_text()
