import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hush.core.errors import ArchiveError
from hush.files.archive import ArchiveReader, write_archive

ARRAYS = {"a": np.arange(12, dtype=np.int64).reshape(3, 4), "b": np.array(2.5), "c": np.zeros((0, 3), dtype=np.uint8)}


def written(folder: Path, **changes: object) -> Path:
    path = folder / "x.hush"
    options = {"kind": "release", "version": 1, "manifest": {"note": "<é>"}, "arrays": ARRAYS} | changes
    write_archive(path, **options)  # type: ignore[arg-type]
    return path


def read_all(path: Path) -> dict:
    with ArchiveReader(path, versions={"release": 1}) as archive:
        return {"manifest": archive.manifest} | {name: archive.array(name) for name in archive.names()}


def test_round_trip(tmp_path: Path) -> None:
    contents = read_all(written(tmp_path))
    assert contents["manifest"].pop("digests").keys() == ARRAYS.keys()
    assert contents["manifest"] == {"hush": "release", "version": 1, "note": "<é>"}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(contents[name], array)
        assert contents[name].dtype == array.dtype


def test_equal_contents_give_equal_bytes_and_nothing_else_is_left(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert written(tmp_path / "one").read_bytes() == written(tmp_path / "two").read_bytes()
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["x.hush"]


@pytest.mark.parametrize("text", ["x" * 5_000_000, "".join(f"level {number:07}, " for number in range(400_000))])
def test_what_is_written_can_be_read_however_well_it_packs(tmp_path: Path, text: str) -> None:
    arrays = {"a": np.zeros(2_000_000, dtype=np.int64)}
    contents = read_all(written(tmp_path, manifest={"note": text}, arrays=arrays))
    assert contents["manifest"]["note"] == text
    assert contents["a"].size == 2_000_000


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = written(tmp_path)
    before = path.read_bytes()
    with pytest.raises(ValueError):
        written(tmp_path, manifest={"bad": float("nan")})
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.hush"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"version": 2}, "newer hush"),
        ({"kind": "plan"}, "is a hush plan, not a release"),
        ({"version": 0}, "no version"),
    ],
)
def test_other_kinds_and_versions_are_refused(tmp_path: Path, changes: dict, text: str) -> None:
    with pytest.raises(ArchiveError, match=text):
        read_all(written(tmp_path, **changes))


@pytest.mark.parametrize("content", [b"", b"PK", b"hello", b"\x00" * 500])
def test_files_that_are_no_archives_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.hush"
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="not a hush release"):
        read_all(path)


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="No such file"):
        read_all(tmp_path / "absent.hush")
    with pytest.raises(ArchiveError, match="cannot read"):
        read_all(tmp_path)
    with pytest.raises(ArchiveError, match="cannot write"):
        written(tmp_path / "absent")


def zip_with(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return path


def manifest(*bodies: bytes) -> bytes:
    digests = dict.fromkeys(["x"][: len(bodies)], hashlib.sha256(b"".join(bodies)).hexdigest())
    return json.dumps({"hush": "release", "version": 1, "digests": digests}).encode()


GOOD = manifest()


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"manifest.json": GOOD, "../evil": b""}, "do not belong"),
        ({"manifest.json": GOOD, "arrays/x.pkl": b""}, "do not belong"),
        ({"manifest.json": b"{"}, "manifest cannot be read"),
        ({"manifest.json": b"[" * 100_000}, "manifest cannot be read"),
        ({"manifest.json": b"[]"}, "not a hush release"),
        ({"arrays/x.npy": b""}, "no manifest"),
        ({"manifest.json": manifest(b"junk"), "arrays/x.npy": b"junk"}, "plain array"),
        ({"manifest.json": GOOD, "arrays/x.npy": b"junk"}, "not the one"),
        ({"manifest.json": b'{"hush": "release", "version": 1}'}, "no digests"),
    ],
)
def test_hostile_members_are_refused(tmp_path: Path, members: dict, text: str) -> None:
    with pytest.raises(ArchiveError, match=text):
        read_all(zip_with(tmp_path / "x.hush", members))


def test_pickled_arrays_are_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([print], dtype=object), allow_pickle=True)
    body = (tmp_path / "x.npy").read_bytes()
    path = zip_with(tmp_path / "x.hush", {"manifest.json": manifest(body), "arrays/x.npy": body})
    with pytest.raises(ArchiveError, match="plain array|cannot be read"):
        read_all(path)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10_000), flip=st.integers(1, 255), cut=st.booleans())
def test_damage_is_found_or_harmless(tmp_path: Path, place: int, flip: int, cut: bool) -> None:
    """A flipped byte or a cut either is refused with our error or leaves the arrays as they were."""
    path = written(tmp_path)
    body = bytearray(path.read_bytes())
    place %= len(body)
    body[place] ^= flip
    path.write_bytes(bytes(body[:place]) if cut else bytes(body))
    outcome = _outcome(path)
    assert outcome in ("refused", "same")


def _outcome(path: Path) -> str:
    try:
        with ArchiveReader(path, versions={"release": 1}) as archive:
            same = all(np.array_equal(archive.array(name), array) for name, array in ARRAYS.items())
    except ArchiveError:
        return "refused"
    return "same" if same else "changed"
