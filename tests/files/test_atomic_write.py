"""Atomic writes: whole or not at all, through a new file in the same folder, with the mode that the umask leaves."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hush
from hush.cli.synth_command import write_rows
from hush.core.errors import ArchiveError, HushError
from hush.files.atomic_write import atomic_write, name_beside, sync_folder, write_whole


@pytest.fixture(params=[0o022, 0o027, 0o077])
def mask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_two_are_never_the_same(tmp_path: Path) -> None:
    names = {name_beside(tmp_path / "x.hush") for _ in range(3)}
    assert len(names) == 3
    assert {name.parent for name in names} == {tmp_path}


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    absent = atomic_write(tmp_path / "absent" / "x.hush", ArchiveError)
    with pytest.raises(ArchiveError, match=r"cannot write .*: No such file or directory; choose another place"), absent:
        pass


@pytest.mark.parametrize(
    ("failure", "refusal", "text"),
    [
        (ValueError("no"), ValueError, "no"),
        (OSError(28, "No space"), HushError, "No space; free"),
        (OSError(), HushError, "disk"),
    ],
)
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, failure: Exception, refusal: type[Exception], text: str
) -> None:
    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(refusal, match=text), atomic_write(tmp_path / "x") as file:
        file.write(b"new")
        raise failure
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("x", b"old")]
    with atomic_write(tmp_path / "x") as file:
        file.write(b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("x", b"new")]


def test_what_is_public_has_the_mode_of_any_other_file(tmp_path: Path, mask: int) -> None:
    model = hush.fit(hush.Domain({"a": 2}), [hush.Measurement(("a",), [3.0, 4.0], stddev=1.0)])
    model.save(tmp_path / "model.hush")
    write_rows(tmp_path / "rows.csv", [model.synthesize(rows=4, seed=1)], lambda _: None)
    assert {path.name: mode(path) for path in tmp_path.iterdir()} == {
        "model.hush": 0o666 & ~mask,
        "rows.csv": 0o666 & ~mask,
    }


def test_a_replaced_file_keeps_its_mode(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write_whole(path, b"new")
    assert (path.read_bytes(), mode(path)) == (b"new", 0o640)


def test_a_symbolic_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    real, link = tmp_path / "there" / "x.toml", tmp_path / "link.toml"
    link.symlink_to("there/x.toml")
    for content in (b"first", b"second"):  # a link that leads nowhere, then one to a file
        write_whole(link, content)
        assert link.is_symlink()
        assert real.read_bytes() == content
    assert os.listdir(tmp_path / "there") == ["x.toml"]
    assert sorted(os.listdir(tmp_path)) == ["link.toml", "there"]


def test_links_that_lead_to_themselves_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(HushError, match=r"cannot write .*; choose another place"):
        write_whole(tmp_path / "a", b"new")
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("name", ["pipe", "folder", "to-pipe"])
def test_only_regular_files_are_replaced(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "to-pipe").symlink_to("pipe")
    with pytest.raises(
        HushError, match=r"cannot write .*: it is not a regular file and is not replaced; choose another"
    ):
        write_whole(tmp_path / name, b"new")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(os.listdir(tmp_path)) == ["folder", "pipe", "to-pipe"]


def test_a_name_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HushError, match="cannot write .*; choose another place"):
        write_whole(tmp_path / "a\0b", b"new")


def test_content_is_on_disk_before_the_rename_and_the_name_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def watched_fsync(handle: int) -> None:
        facts = os.fstat(handle)
        steps.append("flush folder" if stat.S_ISDIR(facts.st_mode) else f"flush {facts.st_size} bytes")
        fsync(handle)

    def watched_replace(source: Path, target: Path) -> None:
        steps.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    write_whole(tmp_path / "x", b"four")
    assert steps == ["flush 4 bytes", "rename", "flush folder"]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EINVAL, errno.ENOTSUP])
def test_folders_that_cannot_be_flushed_are_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    calls: list[int] = []

    def refuse(handle: int) -> None:
        calls.append(handle)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refuse)
    sync_folder(tmp_path)
    assert len(calls) == 1


def test_a_disk_that_fails_to_flush_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "x").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="Input/output error"):
        sync_folder(tmp_path)
    with pytest.raises(HushError, match="cannot write .*: Input/output error; free some space"):
        write_whole(tmp_path / "x", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("x", b"old")]


@pytest.mark.parametrize("kind", ["release", "plan", "model", "schema"])
def test_saving_replaces_no_file_unless_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    schema = hush.datasets.people_schema()
    plan = hush.plan("1-way", hush.Budget(rho=0.5), "residual", schema=schema)
    release = plan.release(hush.read(hush.datasets.people(50, seed=1), schema))
    model = hush.fit(schema, [hush.Measurement(("sex",), [3.0, 4.0], stddev=1.0)])
    things: dict[str, Any] = {"release": release, "plan": plan, "model": model, "schema": schema}
    path = tmp_path / "folder" / "file.toml"
    path.parent.mkdir()
    path.write_text("mine")
    with pytest.raises(HushError, match="file.toml exists already; choose another name, or replace it with overwrite="):
        things[kind].save(path)
    assert path.read_text() == "mine"
    things[kind].save(path, overwrite=True)
    assert path.read_bytes() != b"mine"
    assert list(path.parent.iterdir()) == [path]


def test_a_release_that_is_not_saved_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    schema = hush.datasets.people_schema()
    table = hush.read(hush.datasets.people(50, seed=1), schema)
    release = hush.plan("1-way", hush.Budget(rho=0.5), "residual", schema=schema).release(table)
    path = tmp_path / "x.hush"
    path.write_text("mine")
    with pytest.raises(HushError, match="the budget is spent, so the release is kept in ") as refused:
        release.save(path)
    kept = hush.load(str(refused.value).split("kept in ")[1])
    assert isinstance(kept, hush.Release)
    assert str(kept.marginal("sex")) == str(release.marginal("sex"))
    before = sorted(tmp_path.iterdir())
    for in_a_file in (kept, release):  # it is, so no further copy is made
        with pytest.raises(HushError, match="exists already") as refused:
            in_a_file.save(path)
        assert "kept in" not in str(refused.value)
    assert sorted(tmp_path.iterdir()) == before
