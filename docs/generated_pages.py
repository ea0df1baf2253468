"""Pages of the site that are written from the code: public names, commands, and notebooks.

Docstrings are Markdown with examples as in a Python session; each name of `hush.__all__` has a page.
"""

from __future__ import annotations

import base64
import inspect
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

import hush
from hush.cli.main import main

FOLDER = "_generated"
EXAMPLES = re.compile(r"(?:^ *>>> .*\n(?:^(?! *>>> |\s*$).*\n|^ *>>> .*\n)*)+", re.MULTILINE)


def write_pages(docs: Path) -> None:
    """Write all generated pages anew."""
    folder = docs / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "api").mkdir(parents=True)
    names = sorted(set(hush.__all__) - {"__version__"}, key=str.lower)
    listing = "\n".join(names)
    contents = f"# Names in detail\n\n```{{toctree}}\n:maxdepth: 1\n\n{listing}\n```\n"
    (folder / "api" / "index.md").write_text(contents, encoding="utf-8")
    for name in names:
        (folder / "api" / f"{name}.md").write_text(name_page(name), encoding="utf-8")
    (folder / "commands.md").write_text(command_page(), encoding="utf-8")
    for notebook in sorted((docs / "notebooks").glob("*.ipynb")):
        (folder / f"{notebook.stem}.md").write_text(notebook_page(notebook, folder), encoding="utf-8")


def name_page(name: str) -> str:
    """The page of a public name: a class with its methods, a function, or a module with its classes and functions."""
    thing = getattr(hush, name)
    lines = [f"# hush.{name}", ""]
    if inspect.ismodule(thing):
        lines += [docstring(thing), ""]
        names = getattr(thing, "__all__", None) or [
            key for key, value in vars(thing).items() if not key.startswith("_") and _home(value) == thing.__name__
        ]
        for key in names:
            value = getattr(thing, key)
            if callable(value):
                lines += [f"## {key}", "", *_described(f"hush.{name}.{key}", value), *_members(key, value, 3)]
        return "\n".join(lines)
    return "\n".join([*lines, *_described(f"hush.{name}", thing), *_members(name, thing, 2)])


def _members(owner: str, thing: Any, depth: int) -> Iterator[str]:
    """The public methods and properties of a class, those it inherits from hush too."""
    if not inspect.isclass(thing):
        return
    for key in sorted(dir(thing)):
        if key.startswith("_") or not str(_home(thing)).startswith("hush"):
            continue
        value = inspect.getattr_static(thing, key)
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        if isinstance(value, property) or hasattr(value, "func"):  # also cached properties
            getter = value.fget if isinstance(value, property) else value.func
            if getter is not None and _home(getter).startswith("hush"):
                yield from (f"{'#' * depth} {key}", "", f"*Property of {owner}.* {docstring(getter)}", "")
        elif inspect.isfunction(value) and _home(value).startswith("hush"):
            yield from (f"{'#' * depth} {key}", "", *_described(f"{owner}.{key}", value))


def _described(title: str, thing: Any) -> Iterator[str]:
    """The signature of a function or class, and its docstring."""
    try:
        signature = str(inspect.signature(thing))
    except (TypeError, ValueError):
        signature = ""
    signature = re.sub(r"(: |-> )(['\"])(.*?)\2", r"\1\3", signature)  # annotations are texts, and so are some defaults
    signature = re.sub(r"\bself, |\(self\)", lambda found: "()" if found[0] == "(self)" else "", signature)
    signature = re.sub(r"\bcls, |\(cls\)", lambda found: "()" if found[0] == "(cls)" else "", signature)
    if len(signature) > 80:
        signature = re.sub(r", (?=[\w*]+(?::|=|,|\)))", ",\n    ", signature)
    yield from ("```python", f"{title}{signature}", "```", "", docstring(thing), "")


def docstring(thing: Any) -> str:
    """The docstring as Markdown: examples are fenced, and "Privacy:" and "Reference:" stand out."""
    text = (inspect.getdoc(thing) or "") + "\n"
    text = EXAMPLES.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text)
    text = re.sub(r"^(Privacy|Reference|Differs from [^:]*):", r"**\1:**", text, flags=re.MULTILINE)
    return re.sub(r"(?<!\w)\[([^\]\n]+)\](?!\()", r"\\[\1\\]", text) if "```" not in text else text


def _home(thing: Any) -> str:
    return str(getattr(thing, "__module__", "") or "")


def command_page() -> str:
    """Every command with its usage, its text and its options, from the commands themselves."""
    lines = ["# Every command and its options", "", "`hush help COMMAND` shows the same in a terminal.", ""]
    for context, command in walk(main, click.Context(main, info_name="hush", **main.context_settings)):
        usage = command.get_usage(context).removeprefix("Usage: ")
        lines += [f"{'##' if context.parent and not context.parent.parent else '###'} {context.command_path}", ""]
        lines += ["```text", re.sub(r"\s+", " ", usage), "```", "", inspect.cleandoc(command.help or "").strip(), ""]
        records = [one.get_help_record(context) for one in command.get_params(context)]
        options = [record for record in records if record is not None and record[1]]
        if options:
            lines += ["| option | what it does |", "|---|---|"]
            lines += [f"| `{_cell(names)}` | {_cell(text)} |" for names, text in options]
            lines.append("")
    return "\n".join(lines)


def walk(group: click.Group, parent: click.Context) -> Iterator[tuple[click.Context, click.Command]]:
    """All commands below a group, with their contexts."""
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        if command is not None:
            context = click.Context(command, info_name=name, parent=parent)
            yield context, command
            if isinstance(command, click.Group):
                yield from walk(command, context)


def _cell(text: str) -> str:
    return (
        re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;")
        if "<" in text and "`" not in text
        else (re.sub(r"\s+", " ", text).replace("|", "\\|"))
    )


def notebook_page(path: Path, folder: Path) -> str:
    """An executed notebook as Markdown: texts, code, and what the code showed."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    lines: list[str] = []
    for number, cell in enumerate(cells):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            lines += [source, ""]
            continue
        lines += ["```python", source, "```", ""]
        for output in cell["outputs"]:
            shown: dict[str, Any] = output.get("data", {})
            for kind, write in WRITERS.items():
                if kind in shown:
                    lines += [*write(shown[kind], folder, f"{path.stem}-{number}"), ""]
                    break
            if output["output_type"] == "stream":
                lines += ["```text", "".join(output["text"]).rstrip(), "```", ""]
    return "\n".join(lines)


def _picture(data: Any, folder: Path, name: str) -> list[str]:
    (folder / f"{name}.png").write_bytes(base64.b64decode("".join(data)))
    return [f"![What the cell above draws]({name}.png)"]


def _html(data: Any, folder: Path, name: str) -> list[str]:
    return ['<div class="scroll">', "".join(data).replace("\n\n", "\n"), "</div>"]


def _text(data: Any, folder: Path, name: str) -> list[str]:
    return ["```text", "".join(data).rstrip(), "```"]


Writer = Callable[[Any, Path, str], list[str]]
WRITERS: dict[str, Writer] = {"image/png": _picture, "text/html": _html, "text/plain": _text}
