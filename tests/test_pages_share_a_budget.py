"""The pages keep to their own advice: what is released from the same people draws on one cap, set beforehand."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def python_releases(text: str) -> list[str]:
    """The statements of a page that release something; those that are refused spend nothing."""
    examples = doctest.DocTestParser().get_examples(text)
    return [e.source for e in examples if ".release(" in e.source and e.exc_msg is None]


def commands(text: str, name: str) -> list[str]:
    """The command lines of a page, in the order of the page, each on one line."""
    joined = re.sub(r"\\\n\s*", "", text)
    return re.findall(rf"^    hush {name} .*", joined, re.MULTILINE)


def complaints(text: str) -> list[str]:
    """What a page releases outside of its one cap."""
    spent = python_releases(text)
    wrong = [source for source in spent if len(spent) > 1 and "ledger=" not in source]
    capped = {match for line in commands(text, r"budget\s+init") for match in re.findall(r"init (\S+)", line)}
    for line in commands(text, "release"):
        named = re.findall(r"--ledger (\S+)", line)
        wrong += [] if len(named) == 1 and {*named} == capped else [line]
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_releases_of_a_page_share_one_cap(page: Path) -> None:
    assert complaints(page.read_text(encoding="utf-8")) == []


def test_releases_are_found() -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    assert sum(len(python_releases(text)) for text in texts) >= 10
    assert sum(len(commands(text, "release")) for text in texts) >= 6


@pytest.mark.parametrize(
    "text",
    [
        ">>> a = plan.release(table)\n>>> b = plan.release(table, ledger=ledger)\n",
        "    hush release a.csv -o a.hush\n",
        "    hush release a.csv --ledger budget.db -o a.hush\n",
        "    hush budget init b.db --rho 1\n    hush release a.csv \\\n         --ledger rows.db -o a.hush\n",
    ],
)
def test_spending_elsewhere_is_found(text: str) -> None:
    assert complaints(text)
