"""docs/privacy.md names a test for everything that can go wrong, and every test that it names exists."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "privacy.md").read_text()
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| `(\S+)::(\w+)` \|$", flags=re.MULTILINE)
NAMED = ROW.findall(PAGE)


def named_in(path: Path) -> set[str]:
    """The tests of a file that say something: with an assertion, a refusal or a check in them."""
    checks = ("check", "raises", "assert", "violations")
    named = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            asserted = any(isinstance(inner, ast.Assert) for inner in ast.walk(node))
            if asserted or any(word in ast.unparse(node) for word in checks):
                named.add(node.name)
    return named


def test_every_known_fault_has_a_row() -> None:
    assert [int(number) for number, *_ in NAMED] == list(range(1, 31))


@pytest.mark.parametrize(("file", "test"), [(file, test) for *_, file, test in NAMED])
def test_every_named_test_exists(file: str, test: str) -> None:
    assert test in named_in(TESTS / file)


def test_a_test_that_does_not_exist_would_be_found() -> None:
    assert "test_nothing_at_all" not in named_in(Path(__file__))
    assert "test_every_known_fault_has_a_row" in named_in(Path(__file__))
