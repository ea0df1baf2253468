"""Outputs that must not be replaced, and outputs that cannot be written, are found out before anything is spent."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from pyarrow import csv

from hush import Budget, Ledger
from hush.cli.main import main
from hush.cli.options import check_output
from hush.core.errors import HushError
from hush.datasets import people, people_schema
from hush.files.atomic_write import name_beside


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    csv.write_csv(people(200, seed=1), tmp_path / "people.csv")
    people_schema().save(tmp_path / "people.toml")
    Ledger(tmp_path / "budget.db", cap=Budget(rho=1.0))
    return tmp_path


@pytest.mark.parametrize("name", ["people.csv", "people.toml", "budget.db", "."])
@pytest.mark.parametrize("command", ["release", "plan"])
def test_inputs_ledgers_and_folders_are_not_replaced_even_by_force(folder: Path, name: str, command: str) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    arguments = {
        "release": [
            "release",
            folder / "people.csv",
            "--schema",
            folder / "people.toml",
            "--ledger",
            folder / "budget.db",
        ],
        "plan": ["plan", folder / "people.toml"],
    }[command]
    target = folder / name if command == "release" or name != "people.csv" else folder / "people.toml"
    rest = ["--workload", "age", "--rho", 0.1, "-o", target, "--force"]
    done = CliRunner().invoke(main, [str(argument) for argument in (*arguments, *rest)])
    assert done.exit_code == 2
    assert "choose another name" in done.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_the_demo_wants_an_empty_folder(folder: Path) -> None:
    done = CliRunner().invoke(main, ["demo", "--folder", str(folder)])
    assert done.exit_code == 2
    assert "empty folder" in done.stderr


@pytest.mark.parametrize("place", ["absent/x", "/dev/null"])
def test_places_that_cannot_hold_a_file_are_refused(tmp_path: Path, place: str) -> None:
    with pytest.raises(HushError, match="no folder|not? a? ?regular file|no folder|not? a? ?regular file"):
        check_output(tmp_path / place, force=True)


def test_the_folder_that_a_link_leads_to_must_be_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked" / "x").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "locked" / "x")
    monkeypatch.setattr("os.access", lambda place, _: Path(place).name != "locked")
    with pytest.raises(HushError, match="locked cannot be written to; choose another folder"):
        check_output(tmp_path / "link", force=True)
    check_output(tmp_path / "other", force=True)


def test_what_was_paid_for_is_kept_elsewhere_if_it_cannot_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Path] = []

    def refused_after_the_check(target: Path) -> Path:
        tries.append(target.parent)
        return name_beside(target) if len(tries) != 2 else target.parent / "absent" / target.name

    monkeypatch.setattr("hush.files.atomic_write.name_beside", refused_after_the_check)
    arguments = ["release", folder / "people.csv", "--schema", folder / "people.toml", "--workload", "age"]
    done = CliRunner().invoke(main, [str(a) for a in (*arguments, "--rho", 0.1, "-o", folder / "x.hush")])
    assert done.exit_code == 2
    assert "the budget is spent, and the release is kept in" in done.stderr
    assert (tries[2] / "x.hush").exists()


def test_units_need_a_number_of_rows(folder: Path) -> None:
    arguments = ["release", folder / "people.csv", "--schema", folder / "people.toml", "--workload", "sex", "--rho", 1]
    done = CliRunner().invoke(main, [str(a) for a in (*arguments, "--unit", "age", "-o", folder / "x.hush")])
    assert done.exit_code == 2
    assert "--max-rows-per-unit" in done.stderr
