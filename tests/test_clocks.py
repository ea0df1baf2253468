"""No clock decides what is computed, and no file of a release tells how long it took: both may depend on the data."""

import ast
import re
import time
import zipfile
from pathlib import Path

import pytest

import hush
from hush import Budget, Domain, Workload
from hush.testing import TinyTable

SOURCE = Path(hush.__file__).parent
CLOCKS = {"time", "timeit", "sched", "signal", "resource"}
READINGS = {"now", "utcnow", "today", "monotonic", "perf_counter", "process_time", "time_ns", "getrusage", "alarm"}
# The ledger notes when it was charged, in a file that is not released. Commands and checks tell the person at the
# keyboard how long they take; an audit works on generated rows. A search may be given seconds; a front is no release.
# A progress bar appears after a second of work (`render/progress_bar.py`), and decides nothing else. The studio notes
# when a release began, in a project file that stays with the owner; the public page limits requests, and has no data.
ALLOWED = {
    "privacy/ledger/ledger.py",
    "pareto/search.py",
    "render/progress_bar.py",
    "studio/spending.py",
    "studio/public_limits.py",
}
TIMES = {"time", "times", "seconds", "ms", "duration", "elapsed", "date", "created", "runtime", "started", "finished"}
ROOMS = {"audit", "cli", "testing"}


def clocks_of(text: str) -> set[str]:
    """What a module reads clocks by."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] in CLOCKS}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = {alias.name for alias in node.names}
            found |= {node.module} if node.module.split(".")[0] in CLOCKS else names & READINGS
        elif isinstance(node, ast.Attribute) and node.attr in READINGS:
            found.add(node.attr)
    return found


@pytest.mark.parametrize(
    "text",
    [
        "import time\n",
        "from time import perf_counter as tick\n",
        "import datetime as dt\nstart = dt.datetime.now()\n",
        "import signal\nsignal.alarm(5)\n",
    ],
)
def test_clocks_are_found(text: str) -> None:
    assert clocks_of(text)
    assert not clocks_of("import datetime as dt\ndt.date(2020, 1, 1)\n")


def test_no_clock_is_read_where_data_are_worked_on() -> None:
    files = {path.relative_to(SOURCE).as_posix(): path for path in SOURCE.rglob("*.py")}
    assert len(files) > 200
    reading = {name for name, path in files.items() if clocks_of(path.read_text())}
    assert "privacy/ledger/ledger.py" in reading
    assert {name for name in reading - ALLOWED if name.split("/")[0] not in ROOMS} == set()


@pytest.mark.parametrize("mechanism", ["residual", "hdmm", "mst", "dualquery"])
def test_files_hold_no_time(mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Domain({"a": 2, "b": 3})
    plan = hush.plan(Workload.kway(domain, 2), Budget(rho=0.4), mechanism=mechanism)
    release = plan.release(TinyTable(domain, [(0, 0), (1, 2)] * 9))
    written = []
    for shift in (0.0, 1e8):
        monkeypatch.setattr(time, "time", lambda shift=shift: 1.5e9 + shift)
        release.save(tmp_path / "release.hush", overwrite=True)
        release.model().save(tmp_path / "model.hush", overwrite=True)
        plan.save(tmp_path / "plan.hush", overwrite=True)
        written.append([(tmp_path / f"{name}.hush").read_bytes() for name in ("release", "model", "plan")])
    assert written[0] == written[1]
    for name in ("release", "model", "plan"):
        with zipfile.ZipFile(tmp_path / f"{name}.hush") as file:
            assert {member.date_time for member in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}
            keys = re.findall(r'"(\w+)":', file.read("manifest.json").decode())
        assert keys
        assert not {key for key in keys if {*key.split("_")} & TIMES}
