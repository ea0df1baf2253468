"""An open registry: a mechanism of another package is planned, released, saved, loaded, asked and reported by name."""

import importlib
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import hush
from command_line import run_hush
from hush.cli.options import MECHANISMS
from hush.core.errors import ArchiveError, WorkloadError
from hush.mechanisms import registry
from hush.report import write_report
from hush.testing import check_mechanism

run = partial(run_hush, COLUMNS="100")

MODULE = '''
from dataclasses import dataclass
from typing import ClassVar

from hush.mechanisms.mechanism import Mechanism


@dataclass(frozen=True)
class FirstColumn(Mechanism):
    """Measures columns by themselves, the first one with a share of the budget of its own."""

    name: ClassVar[str] = "first-column"
    description: ClassVar[str] = "columns, the first of them more exactly"
    reference: ClassVar[str] = ""

    share: float = 0.5

    def work(self, workload):
        return "a second"

    def run(self, session, plan):
        first, *rest = [(name,) for name in session.domain]
        known = {table.clique for table in session.noisy_tables}
        if first not in known:
            session.measure([first], session.limit / 2, note="the first column")
        missing = [clique for clique in rest if clique not in known]
        if missing:
            session.measure(missing, session.remaining / len(missing), note="the other columns")
        session.fit()


class Other(FirstColumn):
    name = "another-name"
'''


def install(folder: Path, package: str, entry_points: str, module: str = "") -> None:
    """A package as pip leaves it: a module and its metadata."""
    (folder / f"{package}.py").write_text(module)
    metadata = folder / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[hush.mechanisms]\n{entry_points}\n")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    registry._entry_points.cache_clear()
    yield folder
    for name in [name for name, module in sys.modules.items() if str(folder) in str(getattr(module, "__file__", ""))]:
        del sys.modules[name]
    importlib.invalidate_caches()
    registry._entry_points.cache_clear()


@pytest.fixture
def theirs(packages: Path) -> Path:
    install(packages, "columns_first", "first-column = columns_first:FirstColumn", MODULE)
    return packages


def test_python_takes_it_by_name(theirs: Path, tmp_path: Path) -> None:
    schema = hush.datasets.people_schema()
    table = hush.read(hush.datasets.people(500, seed=1), schema)
    workload = hush.Workload.marginals(schema.domain, [("sex",), ("region", "education")])
    plan = hush.plan(workload, hush.Budget(rho=0.5), mechanism="first-column")
    assert (plan.mechanism, plan.rmse) == ("first-column", None)
    plan.save(tmp_path / "plan.hush")
    loaded = hush.load(tmp_path / "plan.hush")
    assert loaded.settings == plan.settings  # type: ignore[union-attr]
    release = loaded.release(table)  # type: ignore[union-attr]
    assert release.settings == {"share": 0.5}
    release.save(tmp_path / "x.hush")
    read = hush.load(tmp_path / "x.hush")
    assert isinstance(read, hush.Release)
    assert read.mechanism == "first-column"
    assert read.marginal("sex").to_arrow().num_rows == 2
    assert len(read.sql("SELECT COUNT(*) FROM t WHERE sex = 'female'")) == 1
    assert read.synthesize(rows=5, seed=1).num_rows == 5
    write_report(read, tmp_path / "report.html")
    assert "first-column" in (tmp_path / "report.html").read_text()


def test_the_command_line_takes_it_by_name(theirs: Path, tmp_path: Path) -> None:
    import pyarrow.csv

    schema, data = tmp_path / "people.toml", tmp_path / "people.csv"
    hush.datasets.people_schema().save(schema)
    pyarrow.csv.write_csv(hush.datasets.people(300, seed=1), data)
    asked = ["--workload", "sex; region", "--rho", 0.5, "--mechanism", "first-column"]
    planned = run("plan", schema, *asked)
    assert planned.exit_code == 0, planned.output
    done = run("release", data, "--schema", schema, *asked, "-o", tmp_path / "x.hush")
    assert done.exit_code == 0, done.output
    answered = run("query", tmp_path / "x.hush", "SELECT sex, COUNT(*) FROM t GROUP BY sex")
    assert "female" in answered.output
    assert run("report", tmp_path / "x.hush", "-o", tmp_path / "x.html").exit_code == 0
    listed = {entry["name"] for entry in json.loads(run("mechanisms", "--json").stdout)}
    assert listed == {*registry.BUILT_IN, "first-column"}
    assert "first-column" in run("plan", "--help").output


def test_it_keeps_the_contract(theirs: Path) -> None:
    check_mechanism(registry.mechanism_class("first-column")())


def test_its_files_are_asked_where_it_is_not_installed(theirs: Path, tmp_path: Path) -> None:
    schema = hush.datasets.people_schema()
    table = hush.read(hush.datasets.people(200, seed=1), schema)
    plan = hush.plan(hush.Workload.kway(schema.domain, 1), hush.Budget(rho=0.5), mechanism="first-column")
    plan.save(tmp_path / "plan.hush")
    plan.release(table).save(tmp_path / "x.hush")
    sys.path.remove(str(theirs))
    registry._entry_points.cache_clear()
    read = hush.load(tmp_path / "x.hush")
    assert isinstance(read, hush.Release)
    assert read.counts("sex").shape == (2,)
    with pytest.raises(ArchiveError, match="'first-column', which cannot be used here; install the package"):
        hush.load(tmp_path / "plan.hush")


def test_plug_ins_that_cannot_be_used_stand_in_nobodys_way(packages: Path) -> None:
    install(packages, "good", "first-column = good:FirstColumn", MODULE)
    install(packages, "clash", "aim = good:FirstColumn")
    install(packages, "broken", "broken = broken:Nothing", "raise RuntimeError('no such luck')")
    install(packages, "no_class", "no-class = good:dataclass")
    install(packages, "misnamed", "misnamed = good:Other")
    install(packages, "twice_one", "twice = good:FirstColumn")
    install(packages, "twice_two", "twice = good:FirstColumn")
    assert set(registry.mechanisms()) == {*registry.BUILT_IN, "first-column"}
    assert registry.mechanism_class("aim") is hush.mechanisms.AIM
    problems = "\n".join(registry.problems())
    for words in (
        "the package clash offers the mechanism 'aim', a name of hush's own",
        "the package broken fails to load it: RuntimeError: no such luck",
        "no_class offers good:dataclass, which is no subclass",
        "good:Other of the package misnamed calls itself 'another-name'",
        "the package twice_one, the package twice_two offer it together",
    ):
        assert words in problems
    for name in ("broken", "no-class", "misnamed", "twice"):
        with pytest.raises(WorkloadError, match=f"mechanism='{name}' cannot be used"):
            registry.mechanism_class(name)
    listed = run("mechanisms")
    assert listed.exit_code == 0
    assert listed.stderr.count("hush: ") == len(registry.problems()) == 5


def test_a_package_that_exits_when_it_is_imported_is_no_obstacle(packages: Path) -> None:
    install(packages, "leaving", "leaving = leaving:Theirs", "raise SystemExit(3)")
    assert "leaving" not in registry.mechanisms()
    assert any("SystemExit" in line for line in registry.problems())


def test_the_help_of_commands_names_every_mechanism() -> None:
    assert list(MECHANISMS) == list(registry.BUILT_IN)
