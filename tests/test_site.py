"""The pages: their code runs and prints what they show, generated parts are complete, and every page is linked."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

import hush
from browser import Browser
from hush.cli.main import main

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
LARGEST_PICTURE = 30_000  # bytes of a picture of a mechanism, so that pages load fast
sys.path.append(str(DOCS))

from documented_output import examples, shape  # noqa: E402
from generated_pages import command_page, docstring, name_page, notebook_page, walk  # noqa: E402
from mechanism_pictures import PICTURES  # noqa: E402

PAGES = [
    *(
        "../README.md",
        "index.md",
        "tutorial.md",
        "tutorial-studio.md",
        "rows-of-a-frame.md",
        "which-epsilon.md",
        "error-bars.md",
        "use-from-r.md",
        "interop.md",
    ),
    *sorted(path.name for path in DOCS.glob("for-*.md")),
]


@pytest.fixture(autouse=True)
def _no_windows(monkeypatch: pytest.MonkeyPatch):
    from matplotlib import pyplot

    monkeypatch.setattr("sys.stdin", None)
    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    ran = list(examples((DOCS / name).read_text(encoding="utf-8"), tmp_path))
    assert [shape(example.printed) for example in ran if example.shown is not None] == [
        shape(example.shown) for example in ran if example.shown is not None
    ]
    assert ran


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
def test_the_code_in_r_runs(tmp_path: Path) -> None:
    page = (DOCS / "use-from-r.md").read_text(encoding="utf-8")
    list(examples(page, tmp_path))
    code = re.findall(r"^```r\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    checks = "stopifnot(nrow(jobs) == 2, nrow(rows) == 1000, is.logical(rows$employed), nrow(plan$tables) == 29)"
    (tmp_path / "page.R").write_text("\n".join([*code, checks]), encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["Rscript", "page.R"], cwd=tmp_path, env=os.environ | {"PATH": path}, check=True, timeout=300)


def test_other_words_and_other_lines_are_noticed() -> None:
    assert shape("sex  12.5 ± 3\n") == shape("sex  9 ± 31.25\n")
    assert shape("sex  12.5\n") != shape("six  12.5\n")
    assert shape("sex 1\n") != shape("sex 1\nsex 2\n")


def test_commands_print_the_same_in_any_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = "```sh\nhush mechanisms\n```\n"
    monkeypatch.setenv("COLUMNS", "80")
    (narrow,) = examples(page, tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("FORCE_COLOR", "1")
    (wide,) = examples(page, tmp_path)
    assert wide.printed == narrow.printed
    assert max(map(len, wide.printed.splitlines())) <= 80


def test_code_that_fails_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        list(examples("```python\n1 / 0\n```\n", tmp_path))
    with pytest.raises(ValueError, match="failed"):
        list(examples("```sh\nhush query none.hush 'SELECT 1'\n```\n", tmp_path))
    with pytest.raises(ValueError, match="only commands of hush"):
        list(examples("```sh\nls\n```\n", tmp_path))


def test_the_reference_has_every_command_and_option() -> None:
    page = command_page()
    commands = list(walk(main, click.Context(main, info_name="hush", **main.context_settings)))
    assert len(commands) > 20
    for context, command in commands:
        assert re.search(rf"^##+ {context.command_path}$", page, re.MULTILINE)
        for option in command.params:
            assert all(name in page for name in option.opts if name.startswith("--"))


def test_the_reference_has_every_method_of_a_release() -> None:
    page = name_page("Release")
    public = {name for name in vars(hush.Release) if not name.startswith("_")}
    assert {name for name in public if f"\n## {name}\n" not in page} == set()
    assert "self" not in re.findall(r"```python\n(.*?)```", page, re.DOTALL)[1]


def test_signatures_keep_the_quotes_of_defaults_and_drop_those_of_annotations() -> None:
    page = name_page("Synthesizer")
    assert "mechanism: str | Mechanism = 'auto'" in page
    assert ") -> None" in page


def test_examples_of_docstrings_are_code_blocks() -> None:
    def documented() -> None:
        """Do a thing.

        >>> 1 + 1
        2
        >>> for i in range(2):
        ...     i
        0
        1

        Privacy: reads nothing.
        """

    assert docstring(documented) == (
        "Do a thing.\n\n```pycon\n>>> 1 + 1\n2\n>>> for i in range(2):\n...     i\n0\n1\n```\n\n"
        "**Privacy:** reads nothing.\n"
    )


def test_every_page_is_in_the_contents() -> None:
    listed = set(re.findall(r"^([\w/-]+)$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE))
    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    notebooks = {f"_generated/{path.stem}" for path in (DOCS / "notebooks").glob("*.ipynb")}
    assert pages | notebooks <= listed


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_a_mechanism_is_small_and_described(name: str) -> None:
    file = DOCS / "pictures" / f"how-{name}.png"
    assert file.stat().st_size <= LARGEST_PICTURE
    pages = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    (described,) = re.findall(rf"^!\[(.*)\]\(pictures/{file.name}\)\n\n\w", pages, re.MULTILINE)
    assert len(described.split()) >= 10


def shown_kinds(cell: Any) -> list[list[str]]:
    """Return the kinds of output of a cell; printed text is one, although the kernel splits it where progress comes."""
    kinds = [sorted(o.get("data", {"text": 0})) for o in cell.get("outputs", []) if o.get("name") != "stderr"]
    return [kind for kind, _ in itertools.groupby(kinds)]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in (DOCS / "notebooks").glob("*.ipynb")))
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    path = DOCS / "notebooks" / f"{name}.ipynb"
    book = nbformat.read(path, as_version=4)
    kinds = [shown_kinds(cell) for cell in book.cells]
    patient = {"timeout": 900, "startup_timeout": 300}  # seconds: a busy machine is not a bug
    nbclient.NotebookClient(book, **patient, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert [shown_kinds(cell) for cell in book.cells] == kinds
    assert "```python" in notebook_page(path, tmp_path)


@pytest.mark.slow
@pytest.mark.browser
def test_the_site_builds_without_warnings_and_is_searched_from_disk(tmp_path: Path) -> None:
    words = ("--fail-on-warning", "--keep-going", "--quiet", "--builder", "html", str(DOCS), str(tmp_path / "site"))
    done = subprocess.run([sys.executable, "-m", "sphinx", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outside = {
        link
        for page in (tmp_path / "site").glob("*.html")
        for link in re.findall(
            r'<(?:script|link)[^>]+(?:src|href)="(https?://[^"]+)"', page.read_text(encoding="utf-8")
        )
    }
    assert outside == set()  # the site works without a network
    # the search of a site that was opened from disk finds pages, without errors of its scripts
    browser = Browser(tmp_path / "browser")
    try:
        browser.open((tmp_path / "site" / "search.html").as_uri() + "?q=ledger")
        browser.wait("document.querySelectorAll('#search-results li a').length > 10")
        assert "hush.Ledger" in browser.run("document.querySelector('#search-results').innerText")
        assert browser.problems == []
    finally:
        browser.close()
