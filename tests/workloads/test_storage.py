from pathlib import Path

import numpy as np
import pytest

from hush import Domain, Workload, queries
from hush.archive import ArchiveReader, write_archive
from hush.errors import ArchiveError
from hush.workloads.storage import pack_domain, pack_workload, unpack_domain, unpack_workload

DOMAIN = Domain({"a": 4, "b": 3, 'ü "x"': 5})
WORKLOADS = [
    Workload.upto(DOMAIN, 3),
    2.5 * Workload.kway(DOMAIN, 1) + Workload.product(DOMAIN, {"a": queries.prefix, "b": queries.identity}),
    Workload.product(DOMAIN, {"a": queries.ranges}) + Workload.product(DOMAIN, {"a": queries.width(2)}),
    Workload.product(DOMAIN, {"b": queries.matrix([[1, 0.5, -1], [0, 0, 1]]), "a": queries.matrix(np.eye(4))}),
]


def stored(folder: Path, workload: Workload, **changes: object) -> Path:
    entry, arrays = pack_workload(workload)
    manifest = {"domain": pack_domain(workload.domain), "workload": entry}
    write_archive(folder / "x", kind="plan", version=1, manifest=manifest, arrays=arrays | changes)  # type: ignore[operator]
    return folder / "x"


def restored(path: Path) -> Workload:
    with ArchiveReader(path, versions={"plan": 1}) as archive:
        return unpack_workload(unpack_domain(archive.manifest["domain"]), archive.manifest["workload"], archive)


@pytest.mark.parametrize("workload", WORKLOADS, ids=repr)
def test_round_trip(tmp_path: Path, workload: Workload) -> None:
    assert restored(stored(tmp_path, workload)) == workload


@pytest.mark.parametrize(
    "changes",
    [
        {"workload_members": np.array([7], dtype=np.int32)},
        {"workload_members": np.array([-1, 0, 0, 0, 0, 0, 0, 0, 0], dtype=np.int32)},
        {"workload_lengths": np.array([-1, 1], dtype=np.int32)},
        {"workload_blocks": np.array([99] * 9, dtype=np.int32)},
        {"workload_weights": np.array([1.0])},
        {"workload_weights": np.full(7, -1.0)},
        {"workload_members": np.zeros((3, 3), dtype=np.int32)},
    ],
)
def test_contents_that_do_not_fit_are_refused(tmp_path: Path, changes: dict) -> None:
    with pytest.raises(ArchiveError):
        restored(stored(tmp_path, Workload.kway(DOMAIN, 1) + Workload.kway(DOMAIN, 2), **changes))


@pytest.mark.parametrize("entry", [None, 3, [["a"]], [["a", 0]], [["a", 2], ["a", 3]], [[1, 2]], {"a": 2}])
def test_domains_that_are_none_are_refused(entry: object) -> None:
    with pytest.raises(ArchiveError, match="domain of the file"):
        unpack_domain(entry)
