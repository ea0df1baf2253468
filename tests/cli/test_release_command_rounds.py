"""Adaptive releases on the command line: settings, what is kept when they stop, and how they go on."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import csv

import hush
from command_line import run_hush
from hush.cli.options import DataOptions, LedgerOptions, UnitOptions
from hush.cli.release_command import resume_command, round_text, rounds_bar
from hush.datasets import people, people_schema
from hush.mechanisms.registry import BUILT_IN
from hush.mechanisms.session import Session


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    csv.write_csv(people(2_000, seed=1), tmp_path / "people.csv")
    people_schema().save(tmp_path / "people.toml")
    return tmp_path


def base(folder: Path, *more: object) -> list[object]:
    return ["release", folder / "people.csv", "--schema", folder / "people.toml", "-o", folder / "x.hush", *more]


def aim(folder: Path, *more: object) -> list[object]:
    asked = ("--workload", "sex,region; education,employed", "--mechanism", "aim")
    return base(folder, *asked, "--rho", 0.1, "--ledger", folder / "b.db", *more)


def stopped_by(monkeypatch: pytest.MonkeyPatch, error: BaseException, after: int = 2) -> None:
    """Make every run stop once it has played some rounds."""
    ended: Callable[..., None] = Session.ended

    def stop(self: Session, played: Any) -> None:
        ended(self, played)
        if len(self.record.rounds) == after:
            raise error

    monkeypatch.setattr(Session, "ended", stop)


def spent(folder: Path) -> float:
    rho = hush.Ledger.open(folder / "b.db").total.rho
    assert rho is not None
    return float(rho)


def test_an_adaptive_release_says_its_work_before_and_what_it_measured_after(folder: Path) -> None:
    done = run_hush(*aim(folder, "--preset", "fast"))
    assert done.exit_code == 0, done.output
    assert done.output.index("Work: about") < done.output.index("Protects")
    assert "Measured    " in done.output
    assert "choices by the exponential mechanism" in done.output
    assert not (folder / "x.hush.partial").exists()
    release = hush.load(folder / "x.hush")
    assert isinstance(release, hush.Release)
    assert release.settings["preset"] == "fast"
    assert done.stderr == ""


@pytest.mark.parametrize("terminal", [False, True])
def test_nothing_is_said_of_fitting_where_the_model_is_in_the_release(
    folder: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    assert run_hush(*aim(folder)).exit_code == 0
    monkeypatch.setattr("hush.cli.model_command.LONG_MB", 0.0)
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    schema, release = ("--schema", folder / "people.toml"), folder / "x.hush"
    for command in (
        ("synth", release, "-o", folder / "rows.csv"),
        ("model", release, "-o", folder / "model.hush"),
        ("model", release, "-o", folder / "exact.hush", "--method", "exact"),
        ("evaluate", folder / "people.csv", release, *schema),
    ):
        done = run_hush(*command)
        assert done.exit_code == 0, done.output
        assert "fitting" not in done.stderr
    for wish in (("--max-size-mb", 5), ("--cliques", "sex,region"), ("--method", "approximate")):
        done = run_hush("model", release, "-o", folder / "other.hush", "--force", *wish)
        assert "fitting" in done.stderr


def test_an_interrupted_release_is_kept_and_the_message_is_the_command_that_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        stopped_by(patched, KeyboardInterrupt())
        stopped = run_hush(*aim(folder))
    assert stopped.exit_code == 130
    assert stopped.stderr.count("\n") == 1
    assert "paid for and kept in" in stopped.stderr
    assert not (folder / "x.hush.partial").exists()
    half = hush.load(folder / "x.hush")
    assert isinstance(half, hush.Release)
    assert not half.complete
    assert half.counts(("sex",)).shape == (2,)
    before = spent(folder)
    assert before < 0.1
    words = stopped.stderr.split("resume with: hush ")[1].split()
    resumed = run_hush(*words)
    assert resumed.exit_code == 0, resumed.stderr
    assert f"{len(half.noisy_tables)} noisy tables are kept" in " ".join(resumed.output.split())
    whole = hush.load(folder / "x.hush")
    assert isinstance(whole, hush.Release)
    assert whole.complete
    assert whole.noisy_tables[0].values.tolist() == half.noisy_tables[0].values.tolist()
    assert len(whole.rounds) > len(half.rounds)
    assert before < spent(folder) <= 0.1 * (1 + 1e-9)
    nothing = run_hush(*words)
    assert nothing.exit_code == 2
    assert "nothing to resume" in nothing.stderr


def test_a_process_that_dies_leaves_its_noisy_tables_and_they_are_not_overwritten(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial = folder / "x.hush.partial"
    with monkeypatch.context() as patched:
        stopped_by(patched, RuntimeError("the machine died"))
        assert run_hush(*aim(folder)).exit_code == 70
    assert not (folder / "x.hush").exists()
    half = hush.load(partial)
    assert isinstance(half, hush.Release)
    assert len(half.noisy_tables) >= len(half.domain) + 2
    kept, before = partial.read_bytes(), spent(folder)
    again = run_hush(*aim(folder))
    assert again.exit_code == 2
    assert f"--resume {partial}" in again.stderr
    assert (partial.read_bytes(), spent(folder)) == (kept, before)
    done = run_hush(*base(folder, "--resume", partial, "--ledger", folder / "b.db"))
    assert done.exit_code == 0, done.stderr
    assert not partial.exists()
    assert hush.load(folder / "x.hush").complete  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (
            ["--workload", "2-way", "--rho", 1, "--mechanism", "residual", "--preset", "fast"],
            "--preset is a setting of",
        ),
        (["--workload", "2-way", "--rho", 1, "--max-size-mb", 5], "--max-size-mb is a setting of .*; auto does not"),
        (["--workload", "2-way", "--rho", 1, "--mechanism", "aim", "--preset", "fst"], "'fast', 'balanced', 'best'"),
        (["--workload", "2-way", "--rho", 1, "--mechanism", "aim", "--max-size-mb", 0], "max-size-mb"),
        (
            ["--workload", "2-way", "--rho", 1, "--mechanism", "aim", "--max-size-mb", 4, "--preset", "fast"],
            "--preset and --max-size-mb both limit .*leave one of them out",
        ),
        (["--workload", "2-way", "--rho", 1e-9, "--mechanism", "aim", "--rows", 2000], "too small for 2,000 rows"),
        (["--workload", "2-way", "--rho", 1e-9, "--rows", 2000], "too small for 2,000 rows"),
        (["--workload", "2-way", "--rho", 1, "--mechanism", "aim", "--rows", 0], "rows=0"),
        (["--workload", "age:prefix", "--rho", 1, "--mechanism", "gaussian"], "for workloads of marginals"),
        (["--resume", "people.toml", "--workload", "2-way"], "--resume holds the workload"),
        (["--resume", "people.toml", "--preset", "fast"], "--resume holds the mechanism"),
        (["--resume", "people.toml", "--rho", 1], "--resume holds the plan and the budget"),
        (["--resume", "absent.hush"], "absent.hush"),
    ],
)
def test_bad_settings_are_one_line_exit_2_and_nothing_charged(folder: Path, more: list[object], text: str) -> None:
    ledger = folder / "b.db"
    done = run_hush(*base(folder, *more, "--ledger", ledger))
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert pytest.raises(AssertionError, match=text).matches(AssertionError(done.stderr))
    assert not ledger.exists()
    assert not (folder / "x.hush").exists()


def test_only_interrupted_adaptive_releases_are_resumed(folder: Path) -> None:
    assert run_hush(*base(folder, "--workload", "1-way", "--rho", 1)).exit_code == 0
    other = [word if word != folder / "x.hush" else folder / "y.hush" for word in base(folder)]
    refused = run_hush(*other, "--resume", folder / "x.hush")
    assert refused.exit_code == 2
    assert "no release of an adaptive mechanism" in refused.stderr


def test_plan_says_that_a_budget_is_useless_then_shows_it_and_does_not_save_it(folder: Path) -> None:
    asked = ("plan", folder / "people.toml", "--workload", "skewed 1", "--mechanism", "aim", "--rows", 2000)
    shown = run_hush(*asked, "--rho", 1e-9, "-o", folder / "plan.hush")
    assert shown.exit_code == 2
    assert shown.output.index("too small for 2,000 rows") < shown.output.index("not known beforehand")
    assert shown.stderr.startswith("hush: rho=1e-09 is too small for 2,000 rows")
    assert shown.stderr.count("\n") == 1
    assert not (folder / "plan.hush").exists()
    made = run_hush(*asked, "--rho", 1, "--max-size-mb", 2, "-o", folder / "plan.hush", "--details")
    assert made.exit_code == 0
    assert "2.0 MB at most (max_size_mb)" in made.output
    assert hush.load(folder / "plan.hush").settings.max_size_mb == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("command", ["plan", "release"])
def test_help_names_every_mechanism(command: str) -> None:
    shown = " ".join(run_hush(command, "--help").output.split()).replace("- ", "-")  # lines break after hyphens
    assert ", ".join(BUILT_IN) in shown


def test_the_command_that_goes_on_is_quoted_for_a_shell() -> None:
    files = (Path("s.toml"), Path("x.hush"), UnitOptions(), LedgerOptions(Path("b.db"), "people"))
    table = DataOptions(data="my data.csv", table="my people")
    assert shlex.split(resume_command(table, *files))[-2:] == ["--table", "my people"]
    made = resume_command(DataOptions(data="my data.csv"), *files)
    assert made == "hush release 'my data.csv' --schema s.toml --resume x.hush -o x.hush --ledger b.db --dataset people"


def test_the_command_that_goes_on_says_whose_rows_are_protected() -> None:
    rows, homes = DataOptions(data="d.csv"), UnitOptions("home id", 2)
    made = resume_command(rows, Path("s.toml"), Path("x.hush"), homes, LedgerOptions())
    assert made.endswith("-o x.hush --unit 'home id' --max-rows-per-unit 2")


def test_a_run_that_was_stopped_before_its_first_table_goes_on_by_the_command_it_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("hush.tables.table.CachedTable.counts", stop)
        stopped = run_hush(*aim(folder))
    assert stopped.exit_code == 130
    assert "interrupted before the first noisy table" in stopped.stderr
    assert 0 < spent(folder) < 0.1
    asked = run_hush("query", folder / "x.hush", "SELECT COUNT(*) FROM t")
    assert asked.exit_code == 2
    assert "answers nothing" in asked.stderr
    resumed = run_hush(*stopped.stderr.split("resume with: hush ")[1].split())
    assert resumed.exit_code == 0, resumed.stderr
    assert "no table was measured" in resumed.output
    assert hush.load(folder / "x.hush").complete  # type: ignore[union-attr]
    assert spent(folder) <= 0.1 * (1 + 1e-9)


def test_a_partial_file_replaces_its_own_output_without_force(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        stopped_by(patched, KeyboardInterrupt(), after=1)
        words = run_hush(*aim(folder)).stderr.split("resume with: hush ")[1].split()
    with monkeypatch.context() as patched:
        stopped_by(patched, RuntimeError("the machine died"), after=3)
        assert run_hush(*words).exit_code == 70
    partial = folder / "x.hush.partial"
    assert partial.exists()
    assert (folder / "x.hush").exists()
    done = run_hush(*base(folder, "--resume", partial, "--ledger", folder / "b.db"))
    assert done.exit_code == 0, done.stderr
    assert not partial.exists()
    assert "must not be resumed" not in done.stderr


@pytest.mark.parametrize("charged", [True, False])
def test_what_was_resumed_elsewhere_is_not_to_be_resumed_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, charged: bool
) -> None:
    ledger = ["--ledger", folder / "b.db"] if charged else []
    with monkeypatch.context() as patched:
        stopped_by(patched, KeyboardInterrupt(), after=1)
        asked = ("--workload", "sex,region", "--mechanism", "aim", "--rho", 0.1)
        assert run_hush(*base(folder, *asked, *ledger)).exit_code == 130
    other = [word if word != folder / "x.hush" else folder / "y.hush" for word in base(folder)]
    done = run_hush(*other, "--resume", folder / "x.hush", *ledger)
    assert done.exit_code == 0, done.stderr
    assert "x.hush must not be resumed again" in done.stderr
    assert ("without a ledger nothing would stop it" in done.stderr) is not charged


def test_nothing_is_announced_before_all_refusals_and_an_old_partial_is_not_taken_for_ones_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        stopped_by(patched, RuntimeError("the machine died"))
        assert run_hush(*aim(folder)).exit_code == 70
    partial = folder / "x.hush.partial"
    kept = partial.read_bytes()
    anew = run_hush(*aim(folder, "--force"))
    assert anew.exit_code == 2
    assert "exceeds the" in anew.stderr
    assert anew.stderr.count("\n") == 1
    assert "Work" not in anew.output
    assert partial.read_bytes() == kept
    refused = run_hush(*base(folder, "--resume", partial))
    assert refused.exit_code == 2
    assert "resume it with that ledger" in refused.stderr
    assert "spent now" not in refused.output
    plain = run_hush(*base(folder, "--workload", "1-way", "--rho", 1))
    assert plain.exit_code == 2
    assert "paid for" in plain.stderr
    assert partial.read_bytes() == kept


def test_another_dataset_is_no_other_ledger(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        stopped_by(patched, KeyboardInterrupt(), after=1)
        words = run_hush(*aim(folder)).stderr.split("resume with: hush ")[1].split()
    refused = run_hush(*words, "--dataset", "other")
    assert refused.exit_code == 2
    assert "'default'" in refused.stderr
    assert "b.db" in refused.stderr
    assert "--dataset" in refused.stderr
    assert "another ledger" not in refused.stderr


def test_the_bar_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with rounds_bar() as (progress, _):
        progress(0.5)
    assert capsys.readouterr().err == ""


def test_the_bar_shows_the_share_spent_and_the_last_round_on_a_terminal() -> None:
    code = (
        "from types import SimpleNamespace as Round\n"
        "from hush.cli.release_command import rounds_bar\n"
        "with rounds_bar(4) as (progress, on_round):\n"
        "    progress(0.25)\n"
        "    on_round(Round(clique=('age', '[bold]x')), 0.5)\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "120"},
    ).stderr  # fmt: skip
    assert shown.index("fitting; a first run compiles once") < shown.index("round 5: age, [bold]x")
    assert "50%" in shown


@pytest.mark.parametrize("columns", ["80", "120"])
def test_the_bar_says_what_takes_long_before_the_first_round(columns: str) -> None:
    code = "from hush.cli.release_command import rounds_bar\nwith rounds_bar() as (progress, _): progress(0.01)"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": columns},
    ).stderr  # fmt: skip
    assert "first tables; a first run compiles once" in shown


def test_long_rounds_are_cut() -> None:
    assert len(round_text(12, ("a_rather_long_name", "another_rather_long_name"))) == 40


def test_the_command_to_resume_names_the_column_of_counts() -> None:
    rows = DataOptions(data="h.csv", counts="how many")
    made = resume_command(rows, Path("s.toml"), Path("x.hush"), UnitOptions(), LedgerOptions())
    assert made.endswith(" --counts 'how many'")
