"""The program: version, help, and how failures look; an unexpected one shows no private value."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import hush
from hush._version import __version__
from hush.cli.main import COMMANDS, HushGroup, LazyCommand, main
from hush.core.errors import DataError

CANARY = "canary-7261"


@click.group(cls=HushGroup)
def program() -> None:
    """A program whose commands fail."""


@program.command()
@click.argument("how")
def fail(how: str) -> None:
    """Fail in some way."""
    match how:
        case "hush":
            raise DataError("column 'x' holds\nvalues \x1b[31m it must not")
        case "click":
            raise click.ClickException("no good")
        case "interrupt":
            raise KeyboardInterrupt
        case "exit":
            raise SystemExit(3)
        case "bug":
            raise ValueError(f"could not convert {CANARY}") from KeyError(CANARY)


def run(*args: str, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(program, args)


def test_version() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"hush, version {hush.__version__}\n")


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["schema", "--help"], ["schema", "draft", "-h"]])
def test_help(args: list[str]) -> None:
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")


@pytest.mark.parametrize("args", [["--help"], ["schema", "--help"]])
def test_no_summary_of_a_command_is_cut(args: list[str]) -> None:
    lines = CliRunner().invoke(main, args, terminal_width=80).stdout.split("Commands:\n")[1].splitlines()
    assert len(lines) >= 3
    assert [line for line in lines if line.endswith("...")] == []


@pytest.mark.parametrize("lazy", COMMANDS, ids=lambda lazy: lazy.name)
def test_every_command_is_registered_and_says_what_it_does(lazy: LazyCommand) -> None:
    command = main.get_command(click.Context(main), lazy.name)
    assert command is not None
    assert command.name == lazy.name
    assert command.get_short_help_str(200).rstrip(".") == lazy.line.rstrip(".")
    assert command.help
    inner = getattr(command, "commands", {})
    assert all(sub.help for sub in inner.values())


def test_a_group_without_a_command_shows_its_help() -> None:
    result = CliRunner().invoke(main, ["schema"])
    assert "Commands:" in result.output


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (("fail", "hush"), "hush: column 'x' holds values [31m it must not"),
        (("fail", "click"), "hush: no good"),
        (("fail",), "hush: Missing argument 'HOW'; see `program fail --help`"),
        (("fail", "a", "b"), "hush: Got unexpected extra argument (b); see `program fail --help`"),
        (("fial", "a"), "hush: No such command 'fial'"),
        (("--frob",), "hush: No such option"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(args: tuple[str, ...], line: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(line)
    assert result.stderr.count("\n") == 1


def test_an_unexpected_failure_shows_only_its_type() -> None:
    result = run("fail", "bug")
    assert result.exit_code == 70
    assert result.output == (
        "hush: internal error (ValueError); set HUSH_DEBUG=1 to see the traceback, which may contain private values\n"
    )


def test_debugging_shows_the_failure() -> None:
    result = run("fail", "bug", HUSH_DEBUG="1")
    assert isinstance(result.exception, ValueError)
    assert CANARY in str(result.exception)


def test_interruption_and_exit_codes_of_commands() -> None:
    interrupted = run("fail", "interrupt")
    assert interrupted.exit_code == 130
    assert interrupted.stderr.strip() == "hush: interrupted"
    assert run("fail", "exit").exit_code == 3
    assert run("fail", "not at all").exit_code == 0


def test_errors_reach_a_caller_who_asks_for_them() -> None:
    with pytest.raises(DataError, match="it must not"):
        program.main(["fail", "hush"], standalone_mode=False)


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_the_version_has_a_short_flag(flag: str) -> None:
    assert CliRunner().invoke(main, [flag]).output == f"hush, version {__version__}\n"


@pytest.mark.parametrize("names", [[], ["plan"], ["schema"], ["schema", "draft"]])
def test_help_is_a_command_too(names: list[str]) -> None:
    asked, flagged = (CliRunner().invoke(main, args, prog_name="hush") for args in (["help", *names], [*names, "-h"]))
    assert (asked.exit_code, asked.output) == (0, flagged.output)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["plann"], "no command 'plann'; did you mean plan?"),
        (["schema", "zzz"], "no command 'zzz'; known: check, convert, discover, draft"),
        (["plan", "draft"], "no command 'draft'; known: none"),
    ],
)
def test_help_on_nothing_says_what_there_is(names: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["help", *names], prog_name="hush")
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize(
    ("words", "position", "expected"),
    [
        ("hush qu", "1", ["plain,query"]),
        ("hush plan --form", "2", ["plain,--format"]),
        ("hush schema dr", "2", ["plain,draft"]),
        ("hush budget in", "2", ["plain,init"]),
        ("hush budget budget.db --ent", "3", ["plain,--entries"]),
        ("hush budget rais budget.db --ent", "4", ["plain,--entries"]),
    ],
)
def test_the_shell_completes_commands_and_options(words: str, position: str, expected: list[str]) -> None:
    environment = {"_HUSH_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": position}
    result = CliRunner().invoke(main, [], prog_name="hush", env=environment)
    assert result.stdout.split() == expected


def test_the_page_on_the_command_line_names_the_variable_of_completion() -> None:
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    for shell in ("bash", "zsh", "fish"):
        result = CliRunner().invoke(main, [], prog_name="hush", env={"_HUSH_COMPLETE": f"{shell}_source"})
        assert "_hush_completion" in result.stdout
        assert f"_HUSH_COMPLETE={shell}_source hush" in page


def test_imports_of_a_command_are_not_searched_for_garbage() -> None:
    """At the default of 700 new objects, the searches take a tenth of the CPU time of a short command."""
    code = """
import atexit, gc
searches = []
gc.callbacks.append(lambda phase, facts: searches.append(phase))
atexit.register(lambda: print(searches.count("start")))
from hush.cli.main import main
searches.clear()
main(["mechanisms", "--json"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) <= 10


@pytest.mark.parametrize(("before", "left"), [("pass", True), ("import duckdb", False)])
def test_only_commands_without_a_database_leave_their_garbage_at_exit(before: str, left: bool) -> None:
    """DuckDB's bindings print a complaint about objects that were never collected."""
    code = f"""
import atexit, gc
atexit.register(lambda: print("left", gc.get_freeze_count() > 0))  # the last of the functions at exit
{before}
from hush.cli.main import main
main(["--version"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"left {left}"
    assert done.stderr == ""


@pytest.mark.parametrize(("typed", "meant"), [("quer", "query"), ("releas", "release"), ("hlep", "help")])
def test_a_mistyped_command_names_the_nearest_though_it_is_not_loaded(typed: str, meant: str) -> None:
    done = CliRunner().invoke(main, [typed, "x"])
    assert done.exit_code == 2
    assert f"Did you mean {meant!r}?" in done.output
    assert "Did you mean" not in CliRunner().invoke(main, ["xyzzy"]).output
