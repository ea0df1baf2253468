"""Files beside others: in the same folder, new, and with the mode that the umask leaves."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import hush
from hush.atomic_write import new_beside
from hush.cli.synth_command import write_rows


@pytest.fixture(params=[0o022, 0o027, 0o077])
def mask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_two_are_never_the_same(tmp_path: Path) -> None:
    names = set()
    for _ in range(3):
        handle, name = new_beside(tmp_path / "x.hush")
        os.close(handle)
        names.add(name)
    assert len(names) == 3
    assert {name.parent for name in names} == {tmp_path}


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        new_beside(tmp_path / "absent" / "x.hush")


def test_what_is_public_has_the_mode_of_any_other_file(tmp_path: Path, mask: int) -> None:
    model = hush.fit(hush.Domain({"a": 2}), [hush.Measurement(("a",), [3.0, 4.0], stddev=1.0)])
    model.save(tmp_path / "model.hush")
    write_rows(tmp_path / "rows.csv", [model.synthesize(rows=4, seed=1)], lambda _: None)
    assert {path.name: mode(path) for path in tmp_path.iterdir()} == {
        "model.hush": 0o666 & ~mask,
        "rows.csv": 0o666 & ~mask,
    }
