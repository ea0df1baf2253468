"""How tests call the `hush` command: in this process, with any values as words."""

from click.testing import CliRunner, Result

from hush.cli.main import main


def run_hush(*words: object, **environment: str) -> Result:
    """The result of `hush WORD ...`, whatever its exit code."""
    return CliRunner(env=environment).invoke(main, [str(word) for word in words])


def run_for_output(*words: object) -> tuple[int, str]:
    """The exit code of `hush WORD ...` and all that it printed."""
    result = run_hush(*words)
    return result.exit_code, result.output
