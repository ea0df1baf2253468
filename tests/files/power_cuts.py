"""Power cuts at every step of every kind of file that hush writes; run as a program, prints what was left as JSON.

A program of its own, so that it forks from a small process. Each child overwrites a file and dies before some step,
and half of what was not flushed to disk by then is lost.
"""

from __future__ import annotations

import gc
import io
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import hush
from hush.cli.main import main
from hush.cli.synth_command import write_rows
from hush.core.errors import InterruptedRelease
from hush.mechanisms.release_job import ReleaseJob
from hush.report.page import write_report
from hush.tables.table import Table

SCHEMA = """hush_schema = 1
[columns.a]
kind = "integer"
low = 0
high = 2
[columns.b]
kind = "integer"
low = 0
high = 1
"""
Writer = Callable[[Path], Any]
DIED = 9
REAL = {name: getattr(os, name) for name in ("open", "fdopen", "chmod", "fsync", "replace")}


class Disk:
    """The steps of a write, one of which may be the last; knows what is not flushed yet."""

    def __init__(self, last: int | None = None) -> None:
        self.steps: list[str] = []
        self.last = last
        self.unflushed: set[tuple[int, Path]] = set()  # inode and name
        self.unflushed_names: dict[Path, bytes | None] = {}  # what the name stood for before

    def step(self, name: str) -> None:
        if self.last == len(self.steps):
            self.cut()
        self.steps.append(name)

    def cut(self) -> None:
        """Die, and lose half of what the disk has not got."""
        for _, path in self.unflushed:
            os.truncate(path, os.path.getsize(path) // 2)
        os._exit(DIED)

    def open(self, path: Any, flags: int, *mode: int) -> int:
        self.step("open folder" if os.path.isdir(path) else "open")
        handle = REAL["open"](path, flags, *mode)
        if not os.path.isdir(path):
            self.unflushed.add((os.fstat(handle).st_ino, Path(path)))
        return handle

    def fdopen(self, handle: int, mode: str) -> io.BufferedWriter:
        return Watched(io.FileIO(handle, mode), self)

    def chmod(self, path: Any, mode: int) -> None:
        self.step("chmod")
        REAL["chmod"](path, mode)

    def fsync(self, handle: int) -> None:
        facts = os.fstat(handle)
        folder = stat.S_ISDIR(facts.st_mode)
        self.step("flush folder" if folder else "flush")
        REAL["fsync"](handle)
        if folder:
            self.unflushed_names.clear()
        self.unflushed = {(inode, path) for inode, path in self.unflushed if inode != facts.st_ino}

    def replace(self, source: Path, target: Path) -> None:
        self.step("rename")
        self.unflushed_names[target] = target.read_bytes() if target.exists() else None
        REAL["replace"](source, target)
        self.unflushed = {(inode, target if path == source else path) for inode, path in self.unflushed}

    def install(self) -> None:
        for name in REAL:
            setattr(os, name, getattr(self, name))


class Watched(io.BufferedWriter):
    """A file each of whose writes has a first half and a second."""

    def __init__(self, raw: io.FileIO, disk: Disk) -> None:
        super().__init__(raw)
        self.disk = disk

    def write(self, content: Any) -> int:
        half = len(memoryview(content)) // 2
        for piece in (memoryview(content)[:half], memoryview(content)[half:]):
            self.disk.step("write")
            super().write(piece)
            super().flush()
        return len(memoryview(content))


def in_child(write: Writer, path: Path, disk: Disk) -> tuple[int, list[str], bool]:
    """How a child that writes ended, its steps, and whether all that it did is on disk."""
    reading, telling = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        gc.disable()  # garbage of the parent may hold connections, whose threads a child lacks
        try:
            disk.install()
            write(path)
            disk.step("return")
            flushed = not (disk.unflushed or disk.unflushed_names)
            os.write(telling, json.dumps([disk.steps, flushed]).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(telling)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    told = b"".join(iter(lambda: os.read(reading, 1 << 16), b""))
    os.close(reading)
    return code, *(json.loads(told) if told else ([], False))


def chosen(steps: list[str]) -> Iterator[int]:
    """Every step, but of the writes only the first two, two in the middle and the last two."""
    writes = [number for number, step in enumerate(steps) if step == "write"]
    middle = len(writes) // 2
    kept = {*writes[:2], *writes[middle : middle + 2], *writes[-2:]}
    return (number for number, step in enumerate(steps) if step != "write" or number in kept)


def attempt(name: str, before: Writer | None, after: Writer) -> dict[str, Any]:
    """What a file holds after a death before each step, by the name of the step."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "old").mkdir()
        (folder / "new").mkdir()
        wanted: dict[str, bytes | None] = {"old": None}
        for age, writer in (("old", before), ("new", after)):
            if writer is not None:
                writer(folder / age / name)
                wanted[age] = (folder / age / name).read_bytes()

        def fresh(number: object) -> Path:
            place = folder / f"{number}"
            place.mkdir()
            if wanted["old"] is not None:
                (place / name).write_bytes(wanted["old"])
            return place / name

        def content(path: Path) -> str:
            held = path.read_bytes() if path.exists() else None
            return next((age for age, body in wanted.items() if body == held), "broken")

        path = fresh("whole")
        code, steps, flushed = in_child(after, path, Disk())
        result: dict[str, Any] = {
            "code": code,
            "end": content(path),
            "flushed": flushed,
            "alone": os.listdir(path.parent) == [name],
            "differ": wanted["old"] != wanted["new"],
        }
        left: dict[str, set[str]] = {}
        for number in chosen(steps):
            path = fresh(number)
            code, _, _ = in_child(after, path, Disk(number))
            assert code == DIED, f"{name}: step {number} of {steps} ended with {code}"
            left.setdefault(steps[number], set()).add(content(path))
        result["left"] = {step: sorted(contents) for step, contents in left.items()}
        return result


def in_place(content: bytes) -> Writer:
    """A wrong way to write: over the old file."""

    def write(path: Path) -> None:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            os.fsync(file.fileno())

    return write


def unflushed(content: bytes) -> Writer:
    """A wrong way to write: a rename before the content is on disk."""

    def write(path: Path) -> None:
        temporary = path.with_name("temporary")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)

    return write


def command(*arguments: object) -> Writer:
    """A command with the path as its output."""

    def write(path: Path) -> None:
        result = CliRunner().invoke(main, [*map(str, arguments), "--force", "-o", str(path)])
        assert result.exit_code == 0, result.output

    return write


def stopped(table: Table) -> hush.Release:
    """An adaptive release that was stopped after its first round."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    plan = hush.plan(hush.Workload.kway(table.domain, 1), hush.Budget(rho=1.0), mechanism="mst")
    with pytest.raises(InterruptedRelease) as interrupted:
        ReleaseJob(plan).run(table, on_round=stop)
    assert isinstance(interrupted.value.release, hush.Release)
    return interrupted.value.release


def kinds(folder: Path) -> dict[str, tuple[Writer | None, Writer]]:
    """For each kind of file, how an old one and a new one are written."""
    texts = [SCHEMA, SCHEMA.replace("high = 2", "high = 9")]
    for number, text in enumerate(texts):
        (folder / f"{number}.toml").write_text(text)
    schemas = [hush.Schema.load(folder / f"{number}.toml") for number in (0, 1)]
    tables = [hush.read(pa.table({"a": [0, 1, 2] * times, "b": [1, 0, 0] * times}), schemas[0]) for times in (1, 2)]
    plans = [hush.plan(hush.Workload.kway(schemas[0].domain, order), hush.Budget(rho=1.0)) for order in (1, 2)]
    releases = [plan.release(table) for plan, table in zip(plans, tables, strict=True)]
    domain = hush.Domain({"a": 3, "b": 2})
    models = [hush.fit(domain, [hush.Measurement(("a",), [x, 4.0, 5.0], stddev=1.0)]) for x in (3.0, 9.0)]
    rows = [model.synthesize(rows=40, seed=1) for model in models]
    return {
        "release.hush": (releases[0].save, partial(releases[1].save, overwrite=True)),
        "first.hush": (None, releases[0].save),
        "release.hush.partial": (stopped(tables[0]).save, partial(stopped(tables[1]).save, overwrite=True)),
        "plan.hush": (plans[0].save, partial(plans[1].save, overwrite=True)),
        "model.hush": (models[0].save, partial(models[1].save, overwrite=True)),
        "rows.csv": tuple(lambda path, table=table: write_rows(path, [table], lambda _: None) for table in rows),
        "rows.parquet": tuple(lambda path, table=table: write_rows(path, [table], lambda _: None) for table in rows),
        "schema.toml": (schemas[0].save, partial(schemas[1].save, overwrite=True)),
        "draft.toml": tuple(command("schema", "convert", folder / f"{number}.toml") for number in (0, 1)),
        "report.html": tuple(lambda path, release=release: write_report(release, path) for release in releases),
        "in-place": (in_place(b"old" * 99), in_place(b"new" * 99)),
        "unflushed": (unflushed(b"old" * 99), unflushed(b"new" * 99)),
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        print(json.dumps({name: attempt(name, *writers) for name, writers in kinds(Path(scratch)).items()}))
