"""Small files that eat the machine: whatever a file or text holds, it loads or is refused, in seconds and megabytes.

Cases are loaded one by one in processes of their own, whose processor time and memory are limited and measured. A case
may end as a load or as a HushError, and nothing else. A failure names the case; mutations are made from its seed.
"""

import copy
import hashlib
import io
import json
import random
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hush
from hush import queries
from hush.privacy.events import GaussianEvent
from hush.testing import TinyTable
from hush.workloads import Workload

PROGRAM = Path(__file__).with_name("loading_under_limits.py")
SECONDS, BYTES = 5, 1 << 30
LARGEST = 200_000  # bytes of a case; most have some thousand
QUICK = range(80)
LONG = range(1000, 1200)
Case = tuple[str, str, bytes]  # the loader, the ending of the file, and the file


class Watcher:
    """A process that loads cases under limits."""

    def __init__(self, *archives: Path) -> None:
        command = [sys.executable, str(PROGRAM), *map(str, archives)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def load(self, loader: str, path: Path, seconds: int = SECONDS) -> tuple[str, float, int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([loader, str(path), seconds, BYTES]), file=self._process.stdin, flush=True)
        outcome, seconds, size = json.loads(self._process.stdout.readline())
        return outcome, seconds, size

    def close(self) -> None:
        self._process.communicate()


def complaint(watcher: Watcher, folder: Path, case: Case, seconds: int = SECONDS) -> str | None:
    """What is wrong with how a case ended; None if nothing is."""
    loader, ending, content = case
    path = folder / f"case{ending}"
    path.write_bytes(content)
    outcome, used, size = watcher.load(loader, path, seconds)
    if outcome != "loaded" and not outcome.startswith("refused: "):
        return outcome
    if used > seconds or size > BYTES:
        return f"{used:.1f} s and {size >> 20} MB, {outcome}"
    return None


# valid files, from which hostile ones are made


SCHEMA = """\
hush_schema = 1
[columns.a]
kind = "integer"
low = 0
high = 2
[columns.b]
kind = "categorical"
values = ["x", "y"]
missing = true
[columns.c]
kind = "numeric"
edges = [0, 1.5, 2.5, 3, 4, 5]
[columns.d]
kind = "date"
start = 2020-01-01
end = 2020-12-31
granularity = "month"
[[forbidden]]
columns = ["a", "b"]
rows = [[{from = 0, to = 1}, "x"], [2, "(missing)"]]
[[depends]]
column = "c"
on = "a"
rows = [[0, 0.5]]
"""
YAML = """\
sex: {type: CategoricalAttribute, possible_values: [f, m], out_of_domain_index: 0}
age: {min_value: 0, max_value: 99, dtype: int, num_bins: 10}
town: {possible_values: &towns [Rome, Paris], out_of_domain_index: 1}
born: {possible_values: *towns}
"""
MBI = '{"age": 85, "sex": 2, "race": 5}'
SQL = "SELECT sex, COUNT(*), AVG(age) AS mean FROM t WHERE age >= 40 AND age < 60 GROUP BY sex ORDER BY 2 LIMIT 3"
WORKLOAD = '<=2-way + 4*a1,"a2" + target a3 2-way + small 100 + a4:prefix,a5:width3; a6:levels'
CSV = "age,sex,race\n40,f,1\n"


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    folder = tmp_path_factory.mktemp("valid")
    people = hush.datasets.people_schema()
    table = hush.read(hush.datasets.people(200, seed=1), people)
    asked = Workload.kway(people.domain, 1) + Workload.product(people.domain, {"education": queries.prefix})
    asked += Workload.marginals(people.domain, [("age", "sex")])
    budget = hush.Budget(rho=0.5)
    hush.plan(asked, budget, mechanism="residual").release(table).save(folder / "residual.hush")
    small = Workload.kway(hush.Domain({"a": 3, "b": 2, "c": 5}), 2)
    hush.plan(small, budget, mechanism="residual").save(folder / "plan.hush")
    hush.plan(small, budget, mechanism="hdmm").save(folder / "hdmm.hush")
    rows = TinyTable(small.domain, [(0, 1, 4), (2, 0, 3)])
    hush.plan(small, budget, mechanism="independent").release(rows).save(folder / "record.hush")
    manifest, arrays = parts_of((folder / "record.hush").read_bytes())
    (folder / "partial.hush").write_bytes(archive_of(manifest | {"complete": False}, arrays))
    tables = [hush.Measurement(("a", "c"), np.arange(15.0), 2.0), hush.Measurement(("b",), [60, 45], 1.0)]
    hush.fit(hush.Schema.from_domain(small.domain), tables).save(folder / "model.hush")
    ledger = hush.Ledger(folder / "ledger.db", dataset="people", cap=hush.Budget(rho=1.0))
    for _ in range(3):
        ledger.charge(GaussianEvent(Fraction(8), Fraction(1)), note="a note")
    files: dict[str, Case] = {
        path.stem: ("archive", ".hush", path.read_bytes()) for path in sorted(folder.glob("*.hush"))
    }
    return files | {
        "ledger": ("ledger", ".db", (folder / "ledger.db").read_bytes()),
        "toml": ("schema", ".toml", SCHEMA.encode()),
        "yaml": ("schema", ".yaml", YAML.encode()),
        "mbi": ("schema", ".json", MBI.encode()),
        "sql": ("sql", ".sql", SQL.encode()),
        "sql workload": ("sql workload", ".sql", b"SELECT sex, COUNT(*) FROM t WHERE age >= 40 GROUP BY sex"),
        "workload": ("workload", ".txt", WORKLOAD.encode()),
        "header": ("header", ".csv", CSV.encode()),
    }


@pytest.fixture(scope="module")
def watcher(valid: dict[str, Case], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watcher]:
    folder, names = tmp_path_factory.mktemp("release"), ("residual", "hdmm", "model", "record")
    for name in names:
        (folder / name).write_bytes(valid[name][2])
    process = Watcher(*(folder / name for name in names))
    yield process
    process.close()


@pytest.mark.parametrize(
    ("loader", "expected"),
    [("loop", "killed: SIGXCPU"), ("hog", "memory"), ("hidden hog", "memory"), ("bug", "failed: Traceback")],
)
def test_the_watcher_sees_a_loader_that_eats_the_machine(
    watcher: Watcher, tmp_path: Path, loader: str, expected: str
) -> None:
    assert str(complaint(watcher, tmp_path, (loader, ".x", b""), seconds=1)).startswith(expected)


def test_what_is_valid_loads(watcher: Watcher, valid: dict[str, Case], tmp_path: Path) -> None:
    """So that mutations start from something."""
    for name, (loader, ending, content) in valid.items():
        path = tmp_path / f"{name}{ending}"
        path.write_bytes(content)
        assert (name, watcher.load(loader, path)[0]) == (name, "loaded")


# hostile texts

COLUMN = 'hush_schema = 1\n[columns.a]\nkind = "integer"\nlow = 0\nhigh = 33554430\n'
SELECT = "SELECT COUNT(*) FROM t WHERE "
LAUGHS = ["a: &a [x, x, x, x, x, x, x, x, x]"] + [
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
]
TEXTS: dict[str, dict[str, str]] = {
    ".toml": {
        "a dotted key": "a" + ".a" * 90_000 + " = 1",
        "a dotted key in quotes": '"a"' + '."a"' * 40_000 + " = 1",
        "a dotted header": "[a" + ".a" * 90_000 + "]",
        "a dotted key within a table": "x = {a" + ".a" * 90_000 + " = 1}",
        "many dotted keys": "\n".join(f"k{k}.a.b.c.d.e.f = 1" for k in range(8000)),
        "lists in lists": "a = " + "[" * 90_000,
        "tables in tables": "a = " + "{a = " * 30_000,
        "a long integer": "a = " + "9" * 100_000,
        "a long hexadecimal": COLUMN.replace("33554430", "0x" + "f" * 100_000),
        "a long float": COLUMN.replace("33554430", "1." + "9" * 100_000),
        "an open text": 'a = "' + '\\"' * 50_000,
        "open texts": "a = '''" + '"""\\' * 40_000,
        "a value of many quotes": "a = " + '"' * 100_001,
        "the same rule": COLUMN + '[[forbidden]]\ncolumns=["a"]\nrows=[[{to=33554429}]]\n' * 2000,
        "overlapping rows": COLUMN + '[[forbidden]]\ncolumns=["a"]\nrows=[' + "[{to=33554429}]," * 10_000 + "]",
        "an overlapping row": COLUMN + '[[forbidden]]\ncolumns=["a"]\nrows=[[[' + "{to=33554429}," * 10_000 + "]]]",
        "many bins": "hush_schema = 1\n"
        + "".join(f'[columns.a{k}]\nkind = "numeric"\nlow = 0\nhigh = 1\nbins = 600000\n' for k in range(100)),
        "many columns": "hush_schema = 1\n" + "".join(f'[columns.a{k}]\nkind = "boolean"\n' for k in range(5000)),
        "many rules over one column": "hush_schema = 1\n"
        + "".join(f'[columns.a{k}]\nkind="boolean"\n' for k in range(1200))
        + "".join(f'[[forbidden]]\ncolumns=["a0","a1","a{k}"]\nrows=[[true,true,true]]\n' for k in range(2, 1200)),
        "names alike": "hush_schema = 1\n"
        + "".join(f'[columns.{"a" * 190}{k}]\nkind="boolean"\n' for k in range(500))
        + f'[[forbidden]]\ncolumns=["{"a" * 195}"]\nrows=[[true]]\n',
    },
    ".yaml": {
        "a billion laughs": "\n".join(LAUGHS) + "\ncol: {possible_values: [*i], out_of_domain_index: 0}",
        "a list within itself": "col: {possible_values: &a [*a, *a]}",
        "columns that share many values": f"x: {{possible_values: &v [{','.join(f'v{k}' for k in range(5000))}]}}\n"
        + "".join(f"c{k}: {{possible_values: *v}}\n" for k in range(5000)),
        "lists in lists": "[" * 50_000,
        "lists in lists, line by line": "- " * 50_000,
        "keys in keys": "? " * 50_000,
        "base 60": "col: {min_value: 0, max_value: 1" + ":1" * 50_000 + "}",
        "base 60 with a point": "col: {min_value: 0, max_value: 1" + ":1" * 50_000 + ".5}",
        "a long integer": "col: {min_value: 0, max_value: " + "9" * 50_000 + "}",
        "an impossible number": "col: {min_value: !!int '', max_value: !!float x}",
        "an impossible date": "col: {possible_values: [2020-02-31, !!timestamp x]}",
        "many bins": "".join(f"c{k}: {{min_value: 0, max_value: 1, num_bins: 600000}}\n" for k in range(200)),
    },
    ".json": {
        "lists in lists": "[" * 100_000,
        "objects in objects": '{"a": ' * 30_000,
        "a long integer": '{"a": ' + "9" * 100_000 + "}",
        "a large size": '{"a": ' + "9" * 4000 + "}",
        "a shape of large sizes": json.dumps({"attributes": ["a", "b"], "shape": [10**4000, 10**4000]}),
        "many attributes": json.dumps({f"a{k}": 2 for k in range(10_000)}),
        "many names twice": "{" + ",".join('"a": 2' for _ in range(10_000)) + "}",
    },
    ".sql": {
        "parentheses": SELECT + "(" * 50_000,
        "closed parentheses": SELECT + "(" * 3000 + "age = 1" + ")" * 3000,
        "NOT": SELECT + "NOT " * 30_000 + "age = 1",
        "signs": SELECT + "age = " + "- " * 50_000 + "1",
        "casts": SELECT + "age" + "::int" * 20_000 + " = 1",
        "subscripts": SELECT + "age" + "[1]" * 20_000 + " = 1",
        "calls": SELECT + "abs(" * 20_000,
        "names of many parts": SELECT + "a" + ".a" * 30_000 + " = 1",
        "CASE in CASE": SELECT + "CASE WHEN age = 1 THEN " * 5000,
        "subqueries": SELECT + "age IN (SELECT " * 5000,
        "OR": SELECT + " OR ".join(["age = 1"] * 2000),
        "AND": SELECT + " AND ".join(["age = 1"] * 2000),
        "sums": "SELECT " + "+".join(["COUNT(*)"] * 5000) + " FROM t",
        "quotients": "SELECT " + "/".join(["COUNT(*)"] * 2000) + " FROM t",
        "a long list": SELECT + f"age IN ({','.join(str(k % 100) for k in range(30_000))})",
        "many counts": "SELECT " + ", ".join(["COUNT(*)"] * 4000) + " FROM t",
        "a long integer": SELECT + "age = " + "9" * 100_000,
        "a large factor": f"SELECT COUNT(*) * {'9' * 400} FROM t",
        "a large LIMIT": f"SELECT sex, COUNT(*) FROM t GROUP BY sex LIMIT {'9' * 5000}",
        "a large position": f"SELECT sex, COUNT(*) FROM t GROUP BY {'9' * 5000}",
        "a large position in ORDER BY": f"SELECT sex, COUNT(*) FROM t GROUP BY sex ORDER BY {'9' * 5000}",
        "semicolons": ";" * 100_000,
        "open comments": "SELECT /*" * 20_000,
        "unions": " UNION ".join(["SELECT 1"] * 5000),
    },
    ".txt": {
        "weights": "1*" * 50_000 + "a1",
        "a large order": "9" * 5000 + "-way",
        "every marginal": "<=30-way",
        "every small marginal": "small 999999999999999999",
        "a large limit": "small " + "9" * 5000,
        "a large width": "a1:width" + "9" * 5000,
        "blanks": "3" + " " * 100_000 + "wa",
        "blanks behind a target": "target a1 3" + " " * 100_000 + "wa",
        "open quotes": '"' + '\\"' * 50_000 + "\\",
        "many summands": "+".join(f"a{k % 30},a{k // 30 % 29}" for k in range(10_000)),
        "distinct summands": "+".join(f"a{k % 30}:width{2 + k // 30}" for k in range(240)),
    },
    ".csv": {
        "one column": "x" * 150_000,
        "many columns": "a," * 70_000,
        "quotes": '"' * 150_001,
        "open quotes": '"a' * 70_000,
    },
}
LOADERS = {".toml": "schema", ".yaml": "schema", ".json": "schema", ".txt": "workload", ".csv": "header"}
COMPUTED = ("OR", "AND", "many counts", "a large factor", "semicolons", "unions")  # beyond parsing, which is shared
HOSTILE = [
    (loader, ending, name)
    for ending, texts in TEXTS.items()
    for name in texts
    for loader in ([LOADERS[ending]] if ending in LOADERS else ["sql", "sql workload"])
    if loader != "sql workload" or name in COMPUTED
]


@pytest.mark.parametrize(("loader", "ending", "name"), HOSTILE, ids=[" ".join(each) for each in HOSTILE])
def test_hostile_texts_cost_little(watcher: Watcher, tmp_path: Path, loader: str, ending: str, name: str) -> None:
    content = TEXTS[ending][name].encode()
    assert len(content) <= LARGEST
    assert complaint(watcher, tmp_path, (loader, ending, content)) is None


# hostile archives


def archive_of(manifest: dict[str, Any], arrays: dict[str, bytes]) -> bytes:
    """An archive with true digests, whatever it holds."""
    whole = manifest | {"digests": {name: hashlib.sha256(body).hexdigest() for name, body in arrays.items()}}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", json.dumps(whole))
        for name, body in arrays.items():
            archive.writestr(f"arrays/{name}.npy", body)
    return buffer.getvalue()


def parts_of(content: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = [name for name in archive.namelist() if name != "manifest.json"]
        arrays = {name[len("arrays/") : -len(".npy")]: archive.read(name) for name in names}
        return json.loads(archive.read("manifest.json")), arrays


def npy(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), version=(1, 0))
    return buffer.getvalue()


def many_cliques(manifest: dict[str, Any], arrays: dict[str, bytes]) -> None:
    arrays["workload_cliques_members"] = npy(np.zeros(1 << 22, dtype=np.int8))
    arrays["workload_cliques_lengths"] = arrays["workload_used"] = npy(np.ones(1 << 22, dtype=np.int8))
    arrays["workload_weights"] = npy(np.ones(1 << 22))


def doubled_blocks(manifest: dict[str, Any], arrays: dict[str, bytes]) -> None:
    """Each block is two of the one before it, so that the last is 2^60."""
    arrays["two"] = npy(np.ones(2))
    blocks = manifest["workload"]["blocks"]
    for index in range(len(blocks) - 1, len(blocks) + 59):
        blocks.append({"kind": "stack", "operators": [index, index], "weights": "two"})
    arrays["workload_used"] = npy(np.full(6, len(blocks) - 1, dtype=np.int16))


def chained_blocks(manifest: dict[str, Any], arrays: dict[str, bytes]) -> None:
    blocks = manifest["workload"]["blocks"]
    for index in range(len(blocks) - 1, len(blocks) + 5000):
        blocks.append({"kind": "scaled", "operator": index, "factor": 1.0})
    arrays["workload_used"] = npy(np.full(6, len(blocks) - 1, dtype=np.int16))


def large_domain(manifest: dict[str, Any], arrays: dict[str, bytes]) -> None:
    manifest["domain"] = [[name, 2**31] for name, _ in manifest["domain"]]


def large_domain_and_schema(manifest: dict[str, Any], arrays: dict[str, bytes]) -> None:
    large_domain(manifest, arrays)
    columns = (f'[columns.{name}]\nkind = "integer"\nlow = 0\nhigh = {2**31 - 1}' for name, _ in manifest["domain"])
    manifest["schema"] = "\n".join(["hush_schema = 1", *columns])


ARCHIVES: dict[str, tuple[str, Callable[[dict[str, Any], dict[str, bytes]], object]]] = {
    "a dotted key in its schema": ("residual", lambda m, _: m.update(schema="a" + ".a" * 1_900_000 + " = 1")),
    "a long schema": ("residual", lambda m, _: m.update(schema="a = [" + "1," * 1_900_000 + "]")),
    "lists in lists": ("residual", lambda m, _: m.update(schema=json.loads("[" * 900 + "]" * 900))),
    "many lists": ("residual", lambda m, _: m.update(workload=[[] for _ in range(300_000)])),
    "a long fraction": ("plan", lambda m, _: m["strategy"].update(rho="1" * 3_000_000 + "/1")),
    "a large integer": ("plan", lambda m, _: m.update(max_rows_per_unit=10**4000)),
    "a large domain": ("plan", large_domain),
    "a large domain of products": ("hdmm", large_domain),
    "a large domain of a model": ("model", large_domain_and_schema),
    "a large domain of a record": ("record", large_domain_and_schema),
    "a large domain of a release": ("residual", large_domain_and_schema),
    "many cliques": ("plan", many_cliques),
    "blocks that double": ("plan", doubled_blocks),
    "blocks in a chain": ("plan", chained_blocks),
    "an array of zeros": ("plan", lambda _, a: a.update(strategy_sigma_squared=npy(np.zeros(1 << 24)))),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_hostile_archives_cost_little(watcher: Watcher, valid: dict[str, Case], tmp_path: Path, name: str) -> None:
    kind, change = ARCHIVES[name]
    manifest, arrays = parts_of(valid[kind][2])
    change(manifest, arrays)
    content = archive_of(manifest, arrays)
    assert len(content) <= LARGEST
    assert complaint(watcher, tmp_path, ("archive", ".hush", content)) is None


def test_members_that_unpack_to_more_than_they_state_cost_little(
    watcher: Watcher, valid: dict[str, Case], tmp_path: Path
) -> None:
    """The directory states a small size, and the packed bytes hold a large one."""
    manifest, arrays = parts_of(valid["plan"][2])
    body = npy(np.zeros(1 << 24))
    content = bytearray(archive_of(manifest, arrays | {"strategy_sigma_squared": body}))
    for place in range(len(content) - 4):
        if content[place : place + 4] == len(body).to_bytes(4, "little"):
            content[place : place + 4] = (1000).to_bytes(4, "little")
    assert complaint(watcher, tmp_path, ("archive", ".hush", bytes(content))) is None


# mutations

VALUES: list[Any] = [
    None, True, 0, -1,
    2**31, 2**63, 2**64, 10**4000, 1e308, -1e308, 1e-320, "", "a" * 100_000, "1/0", "9" * 4000 + "/7",
    [], {}, [[]] * 10_000, [0] * 10_000, {"kind": "stack"}, "\ud800", "nan", "1e999", [["a", 2**31]] * 1000,
]  # fmt: skip
PIECES = [b"\0", b"\xff", b"&a", b"9" * 50, b"e99", *(mark.encode() for mark in "\"'[]{}().\n-*\\#;1,=")]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container within a value, with a key or an index into it."""
    if isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]
    return []


def mutated_manifest(draw: random.Random, manifest: dict[str, Any]) -> None:
    for _ in range(draw.choice([1, 1, 2])):
        within, key = draw.choice(places(manifest))
        old = within[key]
        choice = draw.random()
        if choice < 0.6:
            within[key] = copy.deepcopy(draw.choice(VALUES))
        elif choice < 0.7 and isinstance(old, list):
            within[key] = old * draw.choice([2, 1000])
        elif choice < 0.8 and isinstance(old, int | float):
            within[key] = old * draw.choice([-1, 2, 10**6, 10**12])
        elif choice < 0.9 and isinstance(old, str):
            within[key] = mutated_bytes(draw, old.encode()).decode(errors="replace")
        elif isinstance(within, dict):
            del within[key]


def mutated_array(draw: random.Random, arrays: dict[str, bytes]) -> None:
    name = draw.choice(sorted(arrays))
    array = np.load(io.BytesIO(arrays[name]))
    change = draw.randrange(5)
    if change == 0:
        array = np.repeat(array, draw.choice([0, 2, 1000, 100_000]), axis=None)[: 1 << 22]
    elif change == 1:
        array = array.astype(draw.choice(["i1", "i8", "u4", "f8", "f2", "?"]))
    elif change == 2 and array.size:
        array = array.copy()
        array.flat[draw.randrange(array.size)] = draw.choice([0, -1, 1, 127])
    elif change == 3:
        array = array.reshape((*array.shape, 1)) if draw.random() < 0.5 else array.ravel()[::-1]
    elif array.dtype.kind == "f":
        array = array * draw.choice([np.nan, 1e300, -1.0, 1e-300, np.inf])
    arrays[name] = npy(array)


def mutated_bytes(draw: random.Random, content: bytes) -> bytes:
    body = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 5])):
        start = draw.randrange(len(body) + 1)
        end = min(start + draw.choice([0, 1, 4, 40]), len(body))
        piece = draw.choice([b"", bytes([draw.randrange(256)]), draw.choice(PIECES), body[start:end]])
        body[start:end] = bytes(piece) * draw.choice([1, 1, 2, 300, 10_000])
    return bytes(body[:LARGEST])


def mutated_ledger(draw: random.Random, content: bytes, folder: Path) -> bytes:
    """The ledger with a text of an entry replaced, behind the back of its triggers."""
    path = folder / "mutated.db"
    path.write_bytes(content)
    connection = sqlite3.connect(path)
    for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {trigger}")
    columns = [row[1] for row in connection.execute("PRAGMA table_info(entries)")]
    column = draw.choice(columns[1:])
    (old,) = connection.execute(f"SELECT {column} FROM entries WHERE sequence = 2").fetchone()
    new = mutated_bytes(draw, str(old).encode()).decode(errors="replace")
    connection.execute(f"UPDATE entries SET {column} = ? WHERE sequence = 2", (new,))
    connection.commit()
    connection.close()
    return path.read_bytes()


def mutated(seed: int, valid: dict[str, Case], folder: Path) -> Case:
    draw = random.Random(seed)
    loader, ending, content = valid[draw.choice(sorted(valid))]
    if loader == "archive" and draw.random() < 0.8:
        manifest, arrays = parts_of(content)
        if draw.random() < 0.6:
            mutated_manifest(draw, manifest)
        else:
            mutated_array(draw, arrays)
        return loader, ending, archive_of(manifest, arrays)
    if loader == "ledger" and draw.random() < 0.7:
        return loader, ending, mutated_ledger(draw, content, folder)
    return loader, ending, mutated_bytes(draw, content)


def complaints(seeds: range, watcher: Watcher, valid: dict[str, Case], folder: Path) -> list[tuple[int, str]]:
    found = [(seed, complaint(watcher, folder, mutated(seed, valid, folder))) for seed in seeds]
    return [(seed, text) for seed, text in found if text is not None]


def test_mutated_files_cost_little(watcher: Watcher, valid: dict[str, Case], tmp_path: Path) -> None:
    assert complaints(QUICK, watcher, valid, tmp_path) == []


@pytest.mark.slow
def test_many_mutated_files_cost_little(watcher: Watcher, valid: dict[str, Case], tmp_path: Path) -> None:
    assert complaints(LONG, watcher, valid, tmp_path) == []
