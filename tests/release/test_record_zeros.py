"""A release that measured nothing: no file that names a cost, or hides a noisy number, passes for one."""

import copy
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import hush
from hush import Budget, Domain, Workload
from hush.audit.self_check import check_release
from hush.core.errors import ArchiveError
from hush.files.archive import ArchiveReader, write_archive
from hush.mechanisms import AllZero, Direct, DualQuery, Independent, Residual
from hush.mechanisms.mechanism import Mechanism
from hush.privacy.budget import Cost
from hush.privacy.events import GaussianEvent, SelectionEvent, price
from hush.release.record import ZeroRecord
from hush.release.statement import measured_event
from hush.testing import TinyTable

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
TABLE: Any = TinyTable(DOMAIN, [(0, 0, 0), (1, 2, 1), (1, 2, 0), (0, 1, 1)] * 10)
WORKLOAD = Workload.upto(DOMAIN, 2)
FREE = {"kind": "composition", "parts": []}
Change = Callable[[dict[str, Any]], None]


def written(mechanism: Mechanism, path: Path) -> Path:
    mechanism.plan(WORKLOAD, Budget(rho=0.5)).release(TABLE).save(path)
    return path


def edited(path: Path, change: Change) -> Path:
    """The file with another manifest, and every digest right."""
    with ArchiveReader(path, versions={"release": 2}) as archive:
        manifest = {name: copy.deepcopy(archive.manifest[name]) for name in archive.manifest}
        arrays = {name: archive.array(name) for name in archive.names()}
    for name in ("hush", "digests", "version", "kind"):
        manifest.pop(name, None)
    change(manifest)
    target = path.with_name("edited.hush")
    write_archive(target, kind="release", version=2, manifest=manifest, arrays=arrays)
    return target


def test_it_comes_back_from_its_file_at_no_cost(tmp_path: Path) -> None:
    path = edited(written(AllZero(), tmp_path / "x.hush"), lambda manifest: None)
    release = hush.load(path)
    assert isinstance(release, hush.Release)
    assert isinstance(release.record, ZeroRecord)
    assert price(release.statement.event) == measured_event(release.statement, release.record).cost == Cost()
    assert not release.counts(("a", "b")).any()
    assert [finding.passed for finding in check_release(path)] == [True, True]
    assert "nothing was measured" in check_release(path)[1].detail


def costly(manifest: dict[str, Any]) -> None:
    manifest["privacy"]["event"] = GaussianEvent(Fraction(10), Fraction(1), True).to_dict()


def choosing(manifest: dict[str, Any]) -> None:
    manifest["privacy"]["event"] = SelectionEvent(Fraction(1, 1000)).to_dict()


def unbounded(manifest: dict[str, Any]) -> None:
    manifest["privacy"]["event"] = {"kind": "non-private", "reason": ""}


def interrupted(manifest: dict[str, Any]) -> None:
    manifest["complete"] = False


def smuggled(manifest: dict[str, Any]) -> None:
    """Numbers in a part that the record does not have."""
    manifest["content"]["noisy"] = [39, 1]


@pytest.mark.parametrize("change", [costly, choosing, unbounded, interrupted, smuggled], ids=lambda c: c.__name__)
def test_no_file_that_contradicts_it_loads(change: Change, tmp_path: Path) -> None:
    path = edited(written(AllZero(), tmp_path / "x.hush"), change)
    with pytest.raises(ArchiveError):
        hush.load(path)


@pytest.mark.parametrize("mechanism", [Residual(), Direct(), Independent(), DualQuery(turns=3, draws=2)], ids=str)
def test_noisy_answers_that_claim_to_cost_nothing_are_refused(mechanism: Mechanism, tmp_path: Path) -> None:
    """Under their own name, and as a release of `all-zero` with its settings."""
    path = written(mechanism, tmp_path / "x.hush")

    def free(manifest: dict[str, Any]) -> None:
        manifest["privacy"]["event"] = FREE

    def disguised(manifest: dict[str, Any]) -> None:
        free(manifest)
        manifest |= {"mechanism": "all-zero", "settings": {}}

    for change in (free, disguised):
        with pytest.raises(ArchiveError, match="does not account for"):
            hush.load(edited(path, change))


def test_noisy_answers_under_the_name_of_its_record_are_refused(tmp_path: Path) -> None:
    def zeros(manifest: dict[str, Any]) -> None:
        manifest["privacy"]["event"] = FREE
        manifest["content"]["kind"] = ZeroRecord.kind

    with pytest.raises(ArchiveError):
        hush.load(edited(written(Independent(), tmp_path / "x.hush"), zeros))


def test_its_file_holds_what_was_asked_and_no_number_beside(tmp_path: Path) -> None:
    with ArchiveReader(written(AllZero(), tmp_path / "x.hush"), versions={"release": 2}) as archive:
        assert {name.split("_")[0] for name in archive.names()} == {"workload"}
        assert archive.manifest["content"] == {"kind": "zeros"}
