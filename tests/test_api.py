"""The public surface: few names, all documented, all with examples, one version."""

import re
from pathlib import Path

import click
import pytest

import hush
from hush.cli.main import main

ROOT = Path(__file__).parent.parent


def test_at_most_thirty_public_names_and_all_of_them_are_documented() -> None:
    documented = set(
        re.findall(r"^\| `hush\.(\w+)` \|", (ROOT / "docs" / "reference.md").read_text(), flags=re.MULTILINE)
    )
    assert set(hush.__all__) == documented
    assert len(hush.__all__) < 30
    assert all(hasattr(hush, name) for name in hush.__all__)


@pytest.mark.parametrize("name", sorted(set(hush.__all__) - {"__version__", "HushError", "Neighbours"}))
def test_every_public_name_has_a_docstring_and_an_example(name: str) -> None:
    thing = getattr(hush, name)
    assert thing.__doc__
    own = Path(__import__("inspect").getsourcefile(thing)).read_text()
    assert ">>>" in own


def test_the_version_is_the_changelogs() -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert newest is not None
    assert newest[1] == hush.__version__


def test_every_command_is_on_its_page_and_has_help() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text()
    context = click.Context(main)
    names = main.list_commands(context)
    assert len(names) >= 13
    assert all((command := main.get_command(context, name)) is not None and command.help for name in names)
    assert {name for name in names if not re.search(rf"hush {name}\b", page)} == set()


def test_the_suite_has_not_shrunk(request: pytest.FixtureRequest) -> None:
    """A floor on the number of tests, checked when the whole suite is collected."""
    collected = request.session.items
    folders = {item.path.parent.name for item in collected}
    whole = {"privacy", "tables", "schema", "strategies", "release", "cli"} <= folders
    assert len(collected) > (1500 if whole else 0)


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "docs/extending.md"])
def test_files_that_a_page_names_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    named = set(re.findall(r"`((?:\w+/)*\w+\.py)`", text)) - {"hush_pairs.py", "hush_half_spaces.py"}
    linked = {target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target}
    folders = (ROOT, ROOT / "src" / "hush", (ROOT / page).parent)
    assert {name for name in named | linked if not any((folder / name).exists() for folder in folders)} == set()
    assert named | linked


def test_the_architecture_names_every_room() -> None:
    rooms = {path.parent.name for path in (ROOT / "src" / "hush").glob("*/__init__.py")}
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert {room for room in rooms if f"| `{room}` |" not in text and f"src/hush/{room}/" not in text} == set()
    assert "privacy" in rooms
