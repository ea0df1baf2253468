"""Run the code of a page in order, and compare what it prints with the page; or write it into the page.

    python docs/documented_output.py docs/tutorial.md     # run the page and fill in its output

A block of `python` or `sh` (commands of hush) runs in a temporary folder; a block of `text` right after it is its
output. Code in a comment, `<!-- python ... -->`, runs too, and no reader sees it. Noise is random, so a comparison
ignores digits, signs and widths: words and the number of lines must agree.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(
    r"^(?:```|<!-- )(python|sh|text)\n(.*?)^(?:```|-->)$(?:\n\n^```(text)\n(.*?)^```$)?", re.MULTILINE | re.DOTALL
)
PLAIN_TERMINAL = {"COLUMNS": "80", "FORCE_COLOR": None, "NO_COLOR": None, "TTY_COMPATIBLE": None}  # None: not set


@dataclass(frozen=True, slots=True)
class Example:
    """One block of code, the output that the page shows (None if it shows none), and what it printed."""

    code: str
    shown: str | None
    printed: str
    span: tuple[int, int]  # of the shown output in the page


def examples(page: str, folder: Path) -> Iterator[Example]:
    """Every block of a page, run in order in one Python and in one folder."""
    namespace: dict[str, Any] = {"__name__": "page"}
    home = Path.cwd()
    os.chdir(folder)
    try:
        for found in FENCE.finditer(page):
            if found[1] == "text":
                continue
            printed = _python(found[2], namespace) if found[1] == "python" else _commands(found[2])
            yield Example(found[2], found[4], printed, found.span(4))
    finally:
        os.chdir(home)


def _python(code: str, namespace: dict[str, Any]) -> str:
    """What a block prints; the value of a last expression is shown as in a Python session."""
    tree, output = ast.parse(code), io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(output):
        exec(compile(tree, "page", "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "page", "eval"), namespace)
            if value is not None and not type(value).__module__.startswith("matplotlib"):
                print(value if hasattr(value, "text") else repr(value))
    return output.getvalue()


def _commands(block: str) -> str:
    """What hush commands print."""
    from click.testing import CliRunner

    from hush.cli.main import main

    printed = ""
    for line in re.sub(r"\\\n\s*", "", block).splitlines():
        words = shlex.split(line, comments=True)
        if words:
            if words[0] != "hush":
                raise ValueError(f"{line!r}: only commands of hush run here")
            done = CliRunner().invoke(main, words[1:], env=PLAIN_TERMINAL)
            if done.exit_code:
                raise ValueError(f"{line!r} failed: {done.output}")
            # how long work takes is said on slow machines alone
            printed += "".join(line for line in done.output.splitlines(keepends=True) if not line.startswith("hush: "))
    return printed


def shape(output: str) -> list[str]:
    """The words of each line, without numbers, signs, hashes, and the values in a printed dictionary."""
    unsaid = re.compile(r"(?<=: )(?:'[^']*'|None)(?=[,}])|\b(?=\w*\d)[0-9a-f]{6,}\b|[^\w\s%]|\d|_|\b[eE]\b")
    return [" ".join(unsaid.sub(" ", line).split()) for line in output.strip().splitlines()]


def filled(page: str, folder: Path) -> str:
    """The page with the real output in its blocks of text."""
    text, moved = page, 0
    for example in list(examples(page, folder)):
        if example.shown is not None:
            start, end = (place + moved for place in example.span)
            printed = "\n".join(line.rstrip() for line in example.printed.strip("\n").splitlines()) + "\n"
            text, moved = text[:start] + printed + text[end:], moved + len(printed) - (end - start)
    return text


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        with tempfile.TemporaryDirectory() as folder:
            path.write_text(filled(path.read_text(encoding="utf-8"), Path(folder)), encoding="utf-8")
