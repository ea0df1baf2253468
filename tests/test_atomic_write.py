"""Atomic writes: whole or not at all, through a new file in the same folder, with the mode that the umask leaves."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import hush
from hush.atomic_write import atomic_write, name_beside
from hush.cli.synth_command import write_rows
from hush.errors import ArchiveError, HushError


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
