"""Files of plans, releases and models from strangers: each loads as what it shows or is refused, never a traceback."""

import copy
import hashlib
import io
import json
import random
import struct
import time
import zipfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hush
from hush import queries
from hush.core.errors import ArchiveError, HushError, SizeError
from hush.files.archive import ArchiveReader, write_archive
from hush.loading import load_release, load_release_or_model
from hush.mechanisms.plan import Plan
from hush.privacy.events import GaussianEvent, compose
from hush.release.statement import Statement
from hush.strategies.term_table import TermTable
from hush.testing import TinyTable
from hush.workloads import Workload

DOMAIN = hush.Domain({"a": 3, "b": 2, "c": 5})
REPLACE = "replace one unit"
KINDS = {"release": 2, "plan": 2, "model": 2}
Parts = tuple[str, dict[str, Any], dict[str, np.ndarray[Any, Any]]]


def small_plan() -> Plan:
    asked = Workload.kway(DOMAIN, 2) + Workload.product(DOMAIN, {"c": queries.prefix})
    made = hush.plan(asked, hush.Budget(rho=0.5), mechanism="residual")
    assert isinstance(made, Plan)
    return made


def small_model() -> hush.Model:
    schema = hush.Schema.from_domain(DOMAIN).with_constraints(hush.Constraint.forbid(DOMAIN, ("a", "b"), [(0, 1)]))
    tables = [hush.Measurement(("a", "c"), np.arange(15.0), 2.0), hush.Measurement(("b",), [60, 45], 1.0)]
    prefix = hush.Measurement(("c",), [10, 30, 50, 80, 100], 3.0, query={"c": queries.prefix})
    return hush.fit(schema, [*tables, prefix], constraints=[hush.Constraint.forbid(DOMAIN, ("c",), [(3,)])])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, plan = tmp_path_factory.mktemp("files"), small_plan()
    plan.save(folder / "plan.hush")
    plan.release(TinyTable(DOMAIN, [(0, 1, 4), (2, 0, 3)])).save(folder / "release.hush")
    small_model().save(folder / "model.hush")
    return {kind: folder / f"{kind}.hush" for kind in KINDS}


def parts_of(path: Path) -> Parts:
    with ArchiveReader(path, versions=KINDS) as archive:
        manifest = {name: archive.manifest[name] for name in archive.manifest if name not in {"hush", "digests"}}
        return archive.kind, manifest, {name: archive.array(name) for name in archive.names()}


def write(path: Path, parts: Parts) -> Path:
    kind, manifest, arrays = parts
    version = manifest.pop("version", KINDS[kind])
    write_archive(path, kind=kind, version=version, manifest=manifest, arrays=arrays)
    return path


def changed(path: Path, target: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    kind, manifest, arrays = parts_of(path)
    change(manifest, arrays)
    return write(target, (kind, manifest, arrays))


def zip_of(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return path


def with_array(path: Path, body: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    digest = hashlib.sha256(body).hexdigest()
    manifest = json.dumps({"hush": "plan", "version": KINDS["plan"], "digests": {"x": digest}}).encode()
    return zip_of(path, {"manifest.json": manifest, "arrays/x.npy": body}, method)


def read_x(path: Path) -> np.ndarray[Any, Any]:
    with ArchiveReader(path, versions=KINDS) as archive:
        return archive.array("x")


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode("latin-1") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def saved(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


# bombs


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_packings_are_refused(tmp_path: Path, method: int) -> None:
    with pytest.raises(ArchiveError, match="packed in an unknown way"):
        read_x(with_array(tmp_path / "x.hush", saved(np.arange(9)), method))


def test_encrypted_members_are_refused(tmp_path: Path) -> None:
    body = bytearray(with_array(tmp_path / "x.hush", saved(np.arange(9))).read_bytes())
    body[body.index(b"PK\x01\x02") + 8] |= 1  # the flags of the first entry of the directory
    (tmp_path / "x.hush").write_bytes(body)
    with pytest.raises(ArchiveError, match="is encrypted or packed"):  # the path has the word alone
        read_x(tmp_path / "x.hush")


def test_more_than_fits_in_memory_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = with_array(tmp_path / "x.hush", saved(np.zeros(8 << 20, dtype=np.int8)))
    assert read_x(path).shape == (8 << 20,)
    monkeypatch.setattr("hush.files.archive.available_memory", lambda: 15 << 20)
    with pytest.raises(SizeError, match=r"takes 8\.4 MB of memory to read, more than the 7\.9 MB"):
        read_x(path)


def test_a_small_file_cannot_hold_a_large_manifest(tmp_path: Path) -> None:
    text = b'{"hush": "plan", "x": [' + b"[]," * (6 << 20) + b"[]]}"
    with pytest.raises(ArchiveError, match="states .* MB in .* KB"):
        read_x(zip_of(tmp_path / "x.hush", {"manifest.json": text}))


def restated(path: Path, name: bytes, *, size: int | None = None, packed: int | None = None) -> Path:
    """The file with other sizes in the directory's entry of a member."""
    body = bytearray(path.read_bytes())
    entry = body.index(b"PK\x01\x02")
    while body[entry + 46 : entry + 46 + len(name)] != name:
        entry = body.index(b"PK\x01\x02", entry + 4)
    for offset, value in ((20, packed), (24, size)):
        if value is not None:
            body[entry + offset : entry + offset + 4] = struct.pack("<I", value)
    path.write_bytes(body)
    return path


def test_stated_sizes_must_be_true(tmp_path: Path) -> None:
    path, body, name = tmp_path / "x.hush", saved(np.arange(1000)), b"arrays/x.npy"
    for size in (0, len(body) - 1, len(body) + 1, 1 << 20):
        with pytest.raises(ArchiveError, match="cannot be read|does not have the size"):
            read_x(restated(with_array(path, body), name, size=size))
    with pytest.raises(ArchiveError, match=r"states 4\.3 GB in"):
        read_x(restated(with_array(path, body), name, size=2**32 - 2))
    with pytest.raises(ArchiveError, match="overlap"):
        read_x(restated(with_array(path, body), name, size=2**32 - 2, packed=2**31))


def test_honest_arrays_of_one_number_are_read(tmp_path: Path) -> None:
    """Lengths of sets and unit weights pack by nearly the most that deflate can do."""
    path = with_array(tmp_path / "x.hush", saved(np.full(4 << 20, 3, dtype=np.int32)))
    assert read_x(path).size == 4 << 20


# headers of arrays

LONG = "(" * 3000


@pytest.mark.parametrize(
    "header",
    [
        "", "{", "\\", "{'descr'", "'''", "\0", LONG, "-" * 60_000 + "1", "{" * 60_000, "1" * 5000, "[]", "0x",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (1_0,), }",
        "{'descr': '<i8', 'fortran_order': True, 'shape': (1,), }",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (True,), }",
        "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f9', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (0, 999999999999999, 999999999999999), }",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",), }",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (" + "1, " * 70 + "1), }",
    ],
)  # fmt: skip
def test_hostile_headers_are_refused(tmp_path: Path, header: str) -> None:
    with pytest.raises(ArchiveError, match="plain array|does not have the size"):
        read_x(with_array(tmp_path / "x.hush", npy(header, bytes(8))))


@pytest.mark.parametrize("kind", ["?", "i1", "u2", "<i4", ">i8", "<f2", "f4", ">f8"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (5,), (2, 3), (0, 7), (1, 2, 1, 2)])
def test_every_plain_array_is_read(tmp_path: Path, kind: str, shape: tuple[int, ...]) -> None:
    array = np.ones(shape, dtype=kind)
    found = read_x(with_array(tmp_path / "x.hush", saved(array)))
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_booleans_are_true_or_false(tmp_path: Path) -> None:
    body = npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", b"\x01\x02")
    with pytest.raises(ArchiveError, match="neither true nor false"):
        read_x(with_array(tmp_path / "x.hush", body))


# what a file shows is what it measures


def test_the_files_load(files: dict[str, Path]) -> None:
    assert isinstance(hush.load(files["plan"]), Plan)
    assert load_release(files["release"]).complete
    assert isinstance(hush.load(files["model"]), hush.Model)
    for kind in ("plan", "model"):
        with pytest.raises(ArchiveError, match=f"is a hush {kind}, not a release"):
            load_release(files[kind])
    with pytest.raises(ArchiveError, match="is a hush plan, not a release or model"):
        load_release_or_model(files["plan"])


@pytest.mark.parametrize("kind", ["plan", "release"])
@pytest.mark.parametrize("asked", [Workload.kway(DOMAIN, 1), Workload.kway(DOMAIN, 3)])
def test_the_measured_sets_are_those_of_the_workload(
    files: dict[str, Path], tmp_path: Path, kind: str, asked: Workload
) -> None:
    hush.plan(asked, hush.Budget(rho=0.5)).save(tmp_path / "other.hush")
    _, other, other_arrays = parts_of(tmp_path / "other.hush")

    def swap(manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
        manifest["workload"] = other["workload"]
        arrays |= {name: array for name, array in other_arrays.items() if name.startswith("workload_")}

    with pytest.raises(ArchiveError, match="measures other tables than its workload asks for"):
        hush.load(changed(files[kind], tmp_path / "x.hush", swap))


@pytest.mark.parametrize(
    ("kind", "change", "text"),
    [
        (
            "plan",
            lambda m, _: m["strategy"].update(neighbours=REPLACE),
            "strategy cannot be read; make|other",
        ),
        ("plan", lambda m, _: m.update(neighbours=REPLACE), "other neighbours"),
        ("plan", lambda m, _: m.update(budget={"rho": 0.25}), "costs more than its budget"),
        ("plan", lambda m, _: m.update(budget={"epsilon": 1.0}), "damaged"),
        ("plan", lambda m, _: m.update(max_rows_per_unit=10**4000), "costs more than its budget"),
        ("plan", lambda _, a: a.update(strategy_sigma_squared=a["strategy_sigma_squared"] * 1e300), "beyond 1e.100"),
        ("plan", lambda _, a: a.update(workload_weights=a["workload_weights"] * 1e300), "does not fit"),
        ("plan", lambda m, _: m["strategy"].update(rho="1" + "0" * 400 + "/1"), "strategy cannot be read"),
        (
            "plan",
            lambda m, _: m["strategy"].update(rho="1" * 900_000 + "/1"),
            r"a fraction of at most 4096 characters - at `\$.strategy.rho`",
        ),
        ("plan", lambda m, _: m["strategy"]["bases"][2].update(scale=1.5), "Expected `int`, got `float`"),
        ("plan", lambda m, _: m["strategy"]["bases"][2].update(scale=True), "Expected `int`, got `bool`"),
        ("plan", lambda m, _: m["strategy"]["bases"][2].update(scale=10**300), "Expected `int` <= 46"),
        ("release", lambda m, _: m["privacy"].update(neighbours=REPLACE), "other neighbours"),
        ("release", lambda _, a: a.update(content_filled=np.zeros_like(a["content_filled"])), "lacks tables"),
    ],
)
def test_contradictions_are_refused(
    files: dict[str, Path], tmp_path: Path, kind: str, change: Callable[[Any, Any], Any], text: str
) -> None:
    with pytest.raises(ArchiveError, match=text):
        hush.load(changed(files[kind], tmp_path / "x.hush", change))


@pytest.mark.parametrize("kind", ["plan", "release"])
def test_files_of_older_formats_are_refused(files: dict[str, Path], tmp_path: Path, kind: str) -> None:
    with pytest.raises(ArchiveError, match=r"older hush \(format 1, this one reads 2\); make it anew"):
        hush.load(changed(files[kind], tmp_path / "x.hush", lambda manifest, _: manifest.update(version=1)))


def test_infinite_scales_are_refused(files: dict[str, Path], tmp_path: Path) -> None:
    """JSON reads 1e400 as infinity; NaN and Infinity are not JSON at all."""
    with zipfile.ZipFile(files["plan"]) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    for number, text in (("1e400", "Expected `int`, got `float`"), ("Infinity", "manifest cannot be read")):
        manifest["strategy"]["bases"][2]["scale"] = "HERE"
        members["manifest.json"] = json.dumps(manifest).replace('"HERE"', number).encode()
        with pytest.raises(ArchiveError, match=text):
            hush.load(zip_of(tmp_path / "x.hush", members))


def test_an_interrupted_release_loads(files: dict[str, Path], tmp_path: Path) -> None:
    def stop(manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
        manifest["complete"] = False
        arrays["content_filled"] = np.arange(len(arrays["content_filled"])) < 3

    found = hush.load(changed(files["release"], tmp_path / "x.hush", stop))
    assert isinstance(found, hush.Release)
    assert not found.complete
    assert found.record.answers.filled.sum() == 3


def statement_of(event: Any) -> dict[str, Any]:
    budget, unit = {"rho": 0.5}, {"column": None, "max_rows": 1}
    fixed = {"private": True, "ledger_head": None, "hush": "1", "neighbours": "add or remove one unit"}
    sound = {"seeded": False, "drafted": [], "constraints": None}
    return {"budget": budget, "unit": unit, "event": event, **fixed, **sound}


def test_events_that_would_take_days_to_add_up_are_refused_at_once() -> None:
    primes = [n for n in range(3, 60_000, 2) if all(n % m for m in range(3, int(n**0.5) + 1, 2))]
    many = compose(GaussianEvent(Fraction(n) ** 40, Fraction(1)) for n in primes).to_dict()
    longest = {"kind": "discrete gaussian", "variance": "7" * 499_999 + "/3", "sensitivity_l2_squared": "1/1"}
    for event in (many, longest | {"single_cell": False}):
        start = time.process_time()
        with pytest.raises(ArchiveError, match="privacy statement"):
            Statement.from_dict(statement_of(event))
        assert time.process_time() - start < 5
    honest = compose(GaussianEvent(Fraction(2**60, n), Fraction(1)) for n in range(1, 20_000))
    assert Statement.from_dict(statement_of(honest.to_dict())).event == honest


# fuzz

VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 7, 10**30, 10**400, -(10**4000), 2**31, 2**63, 0.0, -0.5, 1.5, 1e308, 1e-320, "",
    "plain", "a", "x\x1b[31m", "1/3", "0/1", "1/" + "9" * 500, "9" * 500 + "/1", REPLACE, "\ud800", [], {}, [[]],
    [["a", 3]], {"kind": "prefix", "size": 5}, {"kind": "composition", "parts": []}, {"epsilon": 1.0}, [None] * 9,
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, part in inner:
        yield (*path, key)
        yield from places(part, (*path, key))


def change_manifest(manifest: dict[str, Any], chance: random.Random) -> None:
    *way, last = chance.choice(list(places(manifest)))
    parent: Any = manifest
    for key in way:
        parent = parent[key]
    what = chance.randrange(5)
    if what == 0:
        del parent[last]
    elif what == 1 and isinstance(parent, list):
        parent.append(copy.deepcopy(chance.choice([parent[last], *VALUES])))
    elif what == 2 and isinstance(parent[last], int | float):
        parent[last] *= chance.choice([-1, 0.5, 2, 3, 10**300])
    elif what == 3 and isinstance(parent[last], str):
        text = parent[last]
        at = chance.randrange(len(text) + 1)
        parent[last] = text[:at] + chance.choice(["", "0", "/", '"', "\x1b", "\n", "é"]) + text[at + 1 :]
    else:
        parent[last] = copy.deepcopy(chance.choice(VALUES))


def change_arrays(arrays: dict[str, Any], chance: random.Random) -> None:
    name = chance.choice(list(arrays))
    array, what = np.array(arrays[name]), chance.randrange(6)
    if what == 0:
        del arrays[name]
    elif what == 1:
        kind = chance.choice(["?", "i1", "u1", "i4", ">i8", "u8", "f2", "f4", "f8", ">f8"])
        arrays[name] = array.astype(kind)
    elif what == 2:
        arrays[name] = chance.choice([array.reshape(-1)[:1].sum(), np.zeros(0), np.zeros((0, 5)), array[None], array.T])
    elif what == 3:
        flat = array.reshape(-1)
        arrays[name] = np.concatenate([flat, flat[:1]]) if chance.random() < 0.5 else flat[:-1]
    elif what == 4:
        arrays[name] = arrays[chance.choice(list(arrays))]
    elif array.size:
        least = [-1, 0, 1, 2, 5, 127]
        extremes = [np.nan, np.inf, -np.inf, 1e308, 1e-320, -1.0] if array.dtype.kind == "f" else least
        array.flat[chance.randrange(array.size)] = chance.choice([*extremes, *least])
        arrays[name] = array


def used(path: Path) -> str:
    """Loads a file and uses it as a person would; anything but an error of hush goes through."""
    try:
        found = hush.load(path)
    except HushError:
        return "refused"
    if isinstance(found, Plan):
        assert found.strategy.closure == TermTable.of(found.workload).closure()
        assert found.rho <= Fraction(found.budget.rho) * (1 + Fraction(1, 10**9))
        assert all(line.isprintable() for line in str(found).split("\n"))
    elif isinstance(found, hush.Model):
        assert repr(found).isprintable()
        for clique in [found.domain.attributes[:2], found.domain.attributes]:
            counts = found.counts(clique)
            assert counts.min() >= 0
            assert counts.sum() == pytest.approx(found.total, rel=1e-4)
        assert found.synthesize(20, seed=1).num_rows == 20
        for one in found.measurements:
            assert np.isfinite(found.unbiased(*one.clique).estimate).all()
    else:
        assert isinstance(found, hush.Release)
        assert found.record.answers.strategy.closure == TermTable.of(found.workload).closure()
        assert all(value.isprintable() for pair in found.statement.lines() for value in pair)
        for clique in found.workload.cliques[:2]:
            try:
                str(found.marginal(*clique))
            except HushError:
                assert not found.complete
    return "loaded"


def fuzz(files: dict[str, Path], path: Path, seed: int, times: int) -> dict[str, int]:
    chance, counts = random.Random(seed), {"refused": 0, "loaded": 0}
    originals = [parts_of(file) for file in files.values()]
    for _ in range(times):
        kind, manifest, arrays = chance.choice(originals)
        manifest, arrays = copy.deepcopy(manifest), dict(arrays)
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            if chance.random() < 0.6:
                change_manifest(manifest, chance)
            elif arrays:
                change_arrays(arrays, chance)
        try:
            write(path, (kind, manifest, arrays))
        except (ValueError, TypeError):  # infinity, or a version that is none: nothing to write
            continue
        counts[used(path)] += 1
    return counts


def test_changed_files_load_as_what_they_show_or_are_refused(files: dict[str, Path], tmp_path: Path) -> None:
    counts = fuzz(files, tmp_path / "x.hush", seed=1, times=600)
    assert counts["refused"] > 200
    assert counts["loaded"] > 20


def test_a_small_file_cannot_hold_a_long_schema(files: dict[str, Path], tmp_path: Path) -> None:
    def lengthen(manifest: dict[str, Any], _: dict[str, Any]) -> None:
        manifest["schema"] += "#" * 2**18

    with pytest.raises(
        ArchiveError, match=r"its schema has 262,[0-9]+ characters, more than a file of [0-9,]+ bytes can"
    ):
        hush.load(changed(files["release"], tmp_path / "x.hush", lengthen))
