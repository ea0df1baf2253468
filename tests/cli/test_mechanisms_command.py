"""hush mechanisms: the list for people and for programs."""

import json

import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from hush.cli.main import main
from hush.mechanisms.registry import BUILT_IN


def run(*args: str, columns: int = 100) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(main, ["mechanisms", *args])


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_every_mechanism_is_listed_within_a_hundred_columns(columns: int) -> None:
    done = run(columns=columns)
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert max(map(cell_len, lines)) <= min(columns, 100)
    first = lines[1 : lines.index(next(line for line in lines if not line.strip()))]
    assert [line.split()[0] for line in first if line[0] != " "] == list(BUILT_IN)
    text = " ".join(done.stdout.split())
    assert all(kind.description in text for kind in BUILT_IN.values())


def test_marks_are_the_flags() -> None:
    line = next(line for line in run().stdout.splitlines() if line.startswith("residual"))
    assert line.split()[1:6] == ["✓", "·", "·", "·", "·"]


def test_json_holds_every_field() -> None:
    made = json.loads(run("--json").stdout)
    assert made == [kind.facts() for kind in BUILT_IN.values()]
    assert {"name", "workload_aware", "noise", "errors", "reference"} <= set(made[0])
