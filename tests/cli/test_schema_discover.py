"""hush schema discover: a schema with entries found in the rows, from the terminal."""

from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest

import hush
from command_line import run_hush as run
from hush.core.errors import HushError
from hush.core.unit import Unit
from hush.discovery.discovery_job import DiscoveryJob
from hush.mechanisms.release_job import ReleaseJob
from hush.schema import Schema

DRAFT = """\
hush_schema = 1
[columns.age]
kind = "integer"
bounds = "discover"
bins = "discover"
most_bins = 12
[columns.income]
kind = "numeric"
bounds = "discover"
missing = true
[columns.employed]
kind = "boolean"
"""
BUDGET = ("--epsilon", "1", "--delta", "1e-9")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    data, draft = tmp_path / "people.csv", tmp_path / "draft.toml"
    pyarrow.csv.write_csv(hush.datasets.people(5000, seed=1), data)
    draft.write_text(DRAFT)
    return data, draft


def test_discover_writes_a_schema_that_a_release_takes(files: tuple[Path, Path], tmp_path: Path) -> None:
    ledger, output = tmp_path / "budget.db", tmp_path / "people.toml"
    result = run("schema", "discover", *files, *BUDGET, "--ledger", ledger, "-o", output)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == "hush: discovering: 2 open columns; longer with more rows; a first run compiles once\n"
    lines = result.stdout.splitlines()
    assert lines[0].startswith("age: ")
    assert lines[1].startswith("income: 0 to ")
    assert "spent epsilon=1, delta=1e-09; the schema is public" in lines[2]
    schema = Schema.load(output)
    assert list(schema.domain) == ["age", "income", "employed"]
    assert schema["age"].discovered is not None
    assert not output.with_name("people.toml.partial").exists()
    release = tmp_path / "people.hush"
    words = ("--schema", output, "--workload", "1-way", "--epsilon", "1", "--delta", "1e-9", "-o", release)
    result = run("release", files[0], *words)
    assert result.exit_code == 0, result.stderr
    assert result.stderr.startswith("hush: releasing with ")
    assert "noisy tables" in result.stderr
    assert " took " not in result.stderr
    result = run("schema", "discover", *files, *BUDGET, "--ledger", ledger, "-o", tmp_path / "again.toml")
    assert "nothing is left" in result.stderr
    assert not (tmp_path / "again.toml").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--epsilon", "1e-4", "--delta", "1e-9", "-o", "x.toml"), "too small to find anything in 2 columns"),
        (("--epsilon", "1", "--delta", "1e-9", "--rows", "9", "-o", "x.toml"), "and 9 rows are expected"),
        ((*BUDGET, "-o", "x.json"), "give a name that ends in .toml"),
        (("-o", "x.toml"), "no budget was given"),
        ((*BUDGET, "-o", "draft.toml"), "draft.toml is read by this command"),
    ],
)
def test_what_cannot_work_is_refused_before_the_charge(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("schema", "discover", *files, *words, "--ledger", "budget.db")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "budget.db").exists()
    assert not (tmp_path / "x.toml").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('kind = "integer"\nbounds = "discover"\nlow = 0', 'bounds = "discover" finds it; remove low'),
        ('kind = "integer"\nbounds = "discover"\noutside = "refuse"', "leave out some rows"),
        ('kind = "integer"\nbins = "discover"', 'low is missing; write it, or bounds = "discover"'),
        ('kind = "boolean"\nbounds = "discover"', "nothing can be discovered"),
        ('kind = "numeric"\nbound = "discover"', "did you mean 'bounds'"),
        ('kind = "numeric"\nbounds = "discover"\nbins = "discover"\nmost_bins = 0', "from 1 to"),
        ('kind = "date"\nbounds = "discover"\ngranularity = "decade"', "or one of day, week"),
        ('kind = "boolean"', "leaves nothing to discover"),
    ],
)
def test_drafts_that_contradict_themselves_are_refused(tmp_path: Path, line: str, message: str) -> None:
    data, draft = tmp_path / "d.csv", tmp_path / "draft.toml"
    data.write_text("x\n1\n")
    draft.write_text(f"hush_schema = 1\n[columns.x]\n{line}\n")
    result = run("schema", "discover", data, draft, *BUDGET, "-o", tmp_path / "x.toml")
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_draft_is_no_schema(files: tuple[Path, Path]) -> None:
    result = run("schema", "check", files[1])
    assert result.exit_code == 2
    assert "column 'age' has entries to discover, so this is a draft" in result.stderr


@pytest.mark.parametrize("drafted", [True, False])
def test_release_discovers_with_a_part_of_its_budget(files: tuple[Path, Path], tmp_path: Path, drafted: bool) -> None:
    data, draft = files
    ledger, output = tmp_path / "budget.db", tmp_path / "people.hush"
    words = ["release", data, "--discover", "--workload", "1-way", "--epsilon", "3", "--delta", "1e-9", "-o", output]
    result = run(*words, "--ledger", ledger, *(["--schema", draft] if drafted else []))
    assert result.exit_code == 0, result.stderr
    assert "discovered: age: " in result.stdout
    assert ("assumed: age: integer, judged by its name" in result.stdout) is not drafted
    assert "of epsilon=3, delta=1e-09 was spent on it" in result.stdout
    assert "its cap is this release's budget, epsilon=3, delta=1e-09" in result.stdout
    release = hush.load(output)
    assert isinstance(release, hush.Release)
    assert release.schema == Schema.load(output.with_suffix(".toml"))
    assert release.schema.discovery is not None
    assert hush.Ledger.open(ledger).budget == hush.Budget(epsilon=3.0, delta=1e-9)
    page = tmp_path / "page.html"
    assert run("report", output, "-o", page).exit_code == 0
    assert "What was discovered" in page.read_text()
    assert run(*words, "--ledger", ledger, "--force").exit_code == 2  # nothing is left


def test_an_interrupted_discovery_of_a_release_goes_on_with_the_same_command(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, output, kept = tmp_path / "budget.db", tmp_path / "people.hush", tmp_path / "people.toml.partial"
    words = ["release", files[0], "--discover", "--workload", "1-way", "--epsilon", "3", "--delta", "1e-9"]
    words += ["--ledger", ledger, "-o", output]
    count = DiscoveryJob._count

    def stopped(job: DiscoveryJob, *given: Any, **options: Any) -> None:
        if given[2] == "fine":
            raise KeyboardInterrupt
        count(job, *given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(DiscoveryJob, "_count", stopped)
        result = run(*words)
    assert result.exit_code == 130
    assert f"resume with the same command and --resume {kept}" in result.stderr
    spent = hush.Ledger.open(ledger).total
    result = run(*words, "--resume", kept)
    assert result.exit_code == 0, result.stderr
    assert not kept.exists()
    release = hush.load(output)
    assert isinstance(release, hush.Release)
    assert release.statement.private
    book = hush.Ledger.open(ledger)
    assert spent.rho is not None
    assert spent.rho < book.limit - book.remaining <= book.limit


def test_a_release_that_stopped_after_its_discovery_goes_on_with_the_schema(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, output, schema = tmp_path / "budget.db", tmp_path / "people.hush", tmp_path / "people.toml"
    words = ["release", files[0], "--workload", "2-way", "--delta", "1e-9", "--ledger", ledger, "-o", output]

    def stopped(*given: Any, **options: Any) -> None:
        raise HushError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(ReleaseJob, "run", stopped)
        first = run(*words, "--discover", "--epsilon", "3")
    assert schema.exists()
    assert not output.exists()
    told = run(*words, "--discover", "--epsilon", "3")
    assert told.exit_code == 2
    assert f"release with --schema {schema} instead of --discover" in " ".join(told.stderr.split())
    rest = first.stdout.split("for the release (by itself epsilon=")[1].split(",")[0]
    assert run(*words, "--schema", schema, "--epsilon", rest).exit_code == 0
    assert hush.Ledger.open(ledger).remaining >= 0


def test_discover_goes_with_no_plan_and_one_unit(files: tuple[Path, Path], tmp_path: Path) -> None:
    words = ("release", files[0], "--discover", *BUDGET, "-o", tmp_path / "x.hush")
    assert "say what to ask with --workload" in run(*words).stderr
    assert "leave --plan out" in run(*words[:3], "--plan", "p.hush", "-o", tmp_path / "x.hush").stderr
    result = run(*words, "--workload", "1-way", "--schema", files[1], "--unit", "age", "--max-rows-per-unit", "2")
    assert "the draft names the unit in [unit]" in result.stderr
    assert "--max-rows-per-unit goes with --unit" in run(*words, "--goal", "rows", "--max-rows-per-unit", "2").stderr
    assert "Missing option '--schema'" in run("release", files[0], *BUDGET, "-o", tmp_path / "x.hush").stderr


@pytest.mark.parametrize("cap", [None, 2], ids=["found", "stated"])
def test_release_discovers_for_units_of_several_rows(tmp_path: Path, cap: int | None) -> None:
    data, output = tmp_path / "visits.csv", tmp_path / "visits.hush"
    data.write_text("patient_id,age\n" + "".join(f"{i // 2},{20 + i % 50}\n" for i in range(4000)))
    asked = ("--discover", "--unit", "patient_id", "--goal", "rows", "--epsilon", "8", "--delta", "1e-9")
    result = run("release", data, *asked, *([] if cap is None else ["--max-rows-per-unit", str(cap)]), "-o", output)
    assert result.exit_code == 0, result.stderr
    release = hush.load(output)
    assert isinstance(release, hush.Release)
    assert release.statement.unit == release.schema.unit == Unit(column="patient_id", max_rows=2)
    assert [column.name for column in release.schema] == ["age"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("--workload", "agee"), "did you mean 'age'"),
        (("--workload", "9-way"), "order=9"),
        (("--goal", "rows", "--label", "agee"), "did you mean 'age'"),
        (("--workload", "1-way", "--label", "age"), "add --goal rows"),
    ],
)
def test_what_the_release_would_refuse_is_refused_before_the_discovery(
    files: tuple[Path, Path], tmp_path: Path, asked: tuple[str, ...], message: str
) -> None:
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(epsilon=3.0, delta=1e-9))
    words = ("release", files[0], "--discover", *asked, "--epsilon", "1", "--delta", "1e-9", "--ledger", ledger.path)
    result = run(*words, "-o", tmp_path / "x.hush")
    assert result.exit_code == 2
    assert message in result.stderr
    assert ledger.remaining == ledger.limit


def test_a_release_is_not_written_over_the_schema_that_was_found_for_it(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    ledger, output = tmp_path / "budget.db", tmp_path / "people.toml"
    words = ("release", files[0], "--discover", "--workload", "1-way", *BUDGET, "--ledger", ledger, "-o", output)
    result = run(*words)
    assert result.exit_code == 2
    assert "end the release in .hush" in result.stderr
    assert not ledger.exists()
