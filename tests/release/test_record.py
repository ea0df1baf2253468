"""The seam of records: a mechanism of another package brings its own, and nothing else knows its kind."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Release, Workload
from hush.core.errors import ArchiveError, WorkloadError
from hush.files.archive import ArchiveReader, write_archive
from hush.files.codec import IntTable, Stored
from hush.inference.best_unbiased import UnbiasedEstimates
from hush.mechanisms import Mechanism, Residual
from hush.mechanisms.plan import Plan
from hush.mechanisms.registry import BUILT_IN
from hush.privacy.gate import MarginalQuery
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian
from hush.release import record as record_module
from hush.release.record import Record, ZeroRecord, record_class
from hush.release.release import VERSION
from hush.testing import TinyTable

DOMAIN = Domain({"a": 2, "b": 3})
TABLE = TinyTable(DOMAIN, [(i % 2, i % 3) for i in range(60)])


class ColumnsFile(Stored, tag_field="kind", tag="columns"):
    """The toy record in a file."""

    variances: list[Fraction]
    noisy: list[IntTable]

    @classmethod
    def of(cls, record: "ColumnsRecord") -> "ColumnsFile":
        return cls(
            variances=[column.law.variance_parameter for column in record.columns],
            noisy=[column.raw for column in record.columns],
        )

    def build(self, schema: hush.Schema) -> dict[str, Any]:
        if any(values.shape != (size,) for values, size in zip(self.noisy, schema.domain.shape, strict=True)):
            raise ArchiveError("the file's columns do not fit its schema; get the release again")
        parts = zip(schema.domain, self.noisy, self.variances, strict=True)
        return {
            "domain": schema.domain,
            "columns": [
                Measurement.of(MarginalQuery((name,)), values.astype(np.int64), DiscreteGaussian(variance))
                for name, values, variance in parts
            ],
        }


class ColumnsRecord(Record):
    """A noisy table of every column, and nothing else."""

    kind: ClassVar[str] = "columns"
    stored_type: ClassVar[Any] = ColumnsFile

    def __init__(self, domain: Domain, columns: list[Measurement]) -> None:
        self.domain, self.columns = domain, columns

    @property
    def tables(self) -> int:
        return len(self.columns)

    @property
    def progress(self) -> str:
        return f"{self.tables} of {len(self.domain)}"

    def measurements(self) -> list[Measurement]:
        return self.columns

    def law_counts(self) -> Counter[Any]:
        return Counter((column.asked.row_norms, column.law) for column in self.columns)

    def estimates(self, release: Release) -> UnbiasedEstimates:
        return UnbiasedEstimates(self.domain, self.columns, [column.law for column in self.columns])

    def inconsistency(self, release: Release) -> str | None:
        return None if len(self.columns) == len(self.domain) or not release.complete else "it lacks columns"


@dataclass(frozen=True)
class Columns(Mechanism):
    """Every column with an equal share of the budget."""

    name: ClassVar[str] = "columns"
    smaller_first: bool = True

    def new_record(self, plan: Plan) -> ColumnsRecord:
        return ColumnsRecord(plan.domain, [])

    def run(self, session: Any, plan: Plan) -> None:
        share = Fraction(1, len(plan.domain))
        for column in session.ask([(MarginalQuery((name,)), share) for name in plan.domain], note="columns"):
            session.record.columns.append(column)
            session.tell(None)


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Release:
    monkeypatch.setitem(BUILT_IN, "columns", Columns)
    return hush.plan(Workload.kway(DOMAIN, 1), Budget(rho=2.0), mechanism=Columns()).release(TABLE)


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """The same file with its manifest changed."""
    with ArchiveReader(path, versions={"release": VERSION}) as archive:
        manifest = {name: archive.manifest[name] for name in archive.manifest if name not in {"hush", "digests"}}
        arrays = {name: np.array(archive.array(name)) for name in archive.names()}
    manifest = json.loads(json.dumps(manifest))
    change(manifest)
    path.unlink()
    write_archive(path, kind="release", version=manifest.pop("version", 1), manifest=manifest, arrays=arrays)


def test_a_record_of_another_package_is_saved_loaded_and_queried(release: Release, tmp_path: Path) -> None:
    release.save(tmp_path / "x.hush")
    loaded = hush.load(tmp_path / "x.hush")
    assert isinstance(loaded, Release)
    assert isinstance(loaded.record, ColumnsRecord)
    np.testing.assert_array_equal(loaded.counts("b"), release.counts("b"))
    query = "SELECT b, COUNT(*) FROM t GROUP BY b"
    assert loaded.sql(query).to_arrow().equals(release.sql(query).to_arrow())
    errors = loaded.marginal("b").quantities[0].std_error
    assert errors == pytest.approx(np.full(3, release.record.columns[1].law.stddev), rel=0.5)
    assert loaded.synthesize(10, seed=1).num_rows == 10
    assert "columns" in hush.report.report_html(loaded)


def test_a_record_of_another_package_is_checked_when_it_is_loaded(release: Release, tmp_path: Path) -> None:
    release.save(tmp_path / "x.hush")
    rewritten(tmp_path / "x.hush", lambda manifest: manifest["content"].update(variances=["1/100", "1/100"]))
    with pytest.raises(ArchiveError, match="damaged"):
        hush.load(tmp_path / "x.hush")


def test_an_unknown_kind_is_looked_up_in_entry_points(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.hush"
    release.save(path)
    monkeypatch.delitem(record_module._classes, "columns")
    with pytest.raises(ArchiveError, match=r"kind 'columns', which this hush does not know; upgrade hush, or install"):
        hush.load(path)
    offered = {"columns": f"{__name__}:ColumnsRecord", "other": f"{__name__}:ColumnsRecord"}
    entries = [EntryPoint(kind, home, record_module.ENTRY_POINTS) for kind, home in offered.items()]
    monkeypatch.setattr(record_module, "entry_points", lambda group: entries)
    monkeypatch.setattr(EntryPoint, "load", lambda entry: ColumnsRecord)
    assert isinstance(hush.load(path).record, ColumnsRecord)
    with pytest.raises(ArchiveError, match="is no record of the kind 'other'; repair the package"):
        record_class("other")


@pytest.mark.parametrize("kind", ["unheard of", None, 3, ["residual"]])
def test_no_kind_is_guessed(kind: object) -> None:
    with pytest.raises(ArchiveError, match="does not know"):
        record_class(kind)


def test_a_kind_belongs_to_one_class() -> None:
    with pytest.raises(TypeError, match="kind='residual' of .* is taken by .*ResidualRecord"):
        type("Impostor", (ColumnsRecord,), {"kind": "residual"})
    assert record_class("residual").__name__ == "ResidualRecord"


@pytest.mark.parametrize("kind", ["residual", "linear", "zeros", "tables", "draws", "surveyed", "histogram"])
def test_the_kinds_of_hush_are_known(kind: str) -> None:
    assert record_class(kind).kind == kind


def test_an_interrupted_run_says_what_its_record_has(release: Release) -> None:
    record = ColumnsRecord(DOMAIN, release.record.columns[:1])
    assert record.interruption() == "interrupted after 1 of 2 noisy tables; those are paid for and kept"
    assert ZeroRecord().interruption().startswith("interrupted before the first noisy table; ")


def test_a_resumed_record_leaves_the_interrupted_release_as_it_is(release: Release) -> None:
    again = release.record.resumed()
    again.rounds.append(None)
    again.noisy_tables.append(None)
    assert (release.rounds, release.noisy_tables) == ((), ())
    assert again.columns is release.record.columns


class Mixed(Residual):
    """Asks for tables that its record cannot hold, before or after its strategy."""

    first: ClassVar[bool] = True

    def run(self, session: Any, plan: Plan) -> None:
        if self.first:
            session.measure([("a",)], session.remaining / 2, note="")
        super().run(session, plan)
        session.measure([("a",)], session.remaining / 2, note="")


@pytest.mark.parametrize("first", [True, False])
def test_one_record_holds_no_strategy_and_tables_together(first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mixed, "first", first)
    with pytest.raises(WorkloadError, match="one strategy or noisy tables, not both"):
        Mixed().plan(Workload.kway(DOMAIN, 1), Budget(rho=2.0)).release(TABLE)
