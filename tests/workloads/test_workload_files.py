from pathlib import Path

import numpy as np
import pytest

from hush import Domain, Workload, queries
from hush.core.errors import ArchiveError
from hush.files.archive import ArchiveReader, write_archive
from hush.files.codec import pack, unpack
from hush.linops import Dense, Equivalent, Identity, LevelsAndTotal, Permuted, Prefix, Scaled, Stack
from hush.workloads import ProductTerm, census
from hush.workloads.workload_files import WorkloadFile

DOMAIN = Domain({"a": 4, "b": 3, 'ü "x"': 5})
WORKLOADS = [
    Workload.upto(DOMAIN, 3),
    2.5 * Workload.kway(DOMAIN, 1) + Workload.product(DOMAIN, {"a": queries.prefix, "b": queries.identity}),
    Workload.product(DOMAIN, {"a": queries.ranges}) + Workload.product(DOMAIN, {"a": queries.width(2)}),
    Workload.product(DOMAIN, {"b": queries.matrix([[1, 0.5, -1], [0, 0, 1]]), "a": queries.matrix(np.eye(4))}),
    Workload.product(DOMAIN, {"a": queries.levels_and_total, "b": LevelsAndTotal(3, 0.5, -2.0)}),
    Workload.product(DOMAIN, {"a": queries.permuted(queries.prefix, [2, 0, 3, 1]), "b": Scaled(Prefix(3), 0.1)}),
    Workload.product(DOMAIN, {"a": Permuted(Permuted(Dense(np.tri(4)), [1, 0, 3, 2]), [3, 2, 1, 0]), "b": Prefix(3)}),
    census.sf1_plus(),
    Workload.product(DOMAIN, {"b": Equivalent(2.0**70 * (np.eye(3) + 1), queries=2**80)}),
    Workload.product(DOMAIN, {"a": Stack([Identity(4), Permuted(Prefix(4), [1, 0, 2, 3]), Identity(4)], [1, -0.5, 3])}),
    Workload.thresholds(DOMAIN, 3, 2),
    Workload.formulas(DOMAIN, [queries.test("a", 1) | queries.test("b", [0, 2]), queries.test("a", [0, 1])]),
    Workload.thresholds(DOMAIN, 2, 1) + 3 * Workload.formulas(DOMAIN, queries.test("a", 3)) + Workload.kway(DOMAIN, 1),
    Workload.thresholds(DOMAIN, 2, 1) + 0.5 * Workload.upto(DOMAIN, 2) + Workload.thresholds(DOMAIN, 3, 1),
]


def stored(folder: Path, workload: Workload, entry: object = None, **changes: object) -> Path:
    own, arrays = pack(WorkloadFile.of(workload), "workload")
    entry = own if entry is None else entry
    manifest = {"domain": pack(workload.domain)[0], "workload": entry}
    write_archive(folder / "x", kind="plan", version=1, manifest=manifest, arrays=arrays | changes)  # type: ignore[operator]
    return folder / "x"


def restored(path: Path) -> Workload:
    with ArchiveReader(path, versions={"plan": 1}) as archive:
        domain: Domain = unpack(Domain, archive.manifest["domain"], archive, "domain")
        content: WorkloadFile = unpack(WorkloadFile, archive.manifest["workload"], archive, "workload")
        return content.build(domain)


@pytest.mark.parametrize("workload", WORKLOADS, ids=repr)
def test_round_trip(tmp_path: Path, workload: Workload) -> None:
    assert restored(stored(tmp_path, workload)) == workload


@pytest.mark.parametrize(
    "changes",
    [
        {"workload_formulas_0_classes_0": np.array([0, 1, 1])},
        {"workload_formulas_0_classes_0": np.array([0, 2, 2, 2])},
        {"workload_formulas_0_classes_0": np.array([0, -1, 0, 0])},
        {"workload_formulas_0_decides": np.array([0, 7])},
        {"workload_formulas_0_decides": np.array([0, 1, 1])},
        {"workload_formulas_0_decides": np.array([0, 0])},
        {"workload_formulas_0_children": np.array([[1, 0], [3, 1]])},
        {"workload_formulas_0_children": np.array([[1, 0], [9, 1]])},
        {"workload_formulas_0_children": np.array([[1, 0], [-1, 1]])},
        {"workload_at_least": np.array([0])},
        {"workload_at_least": np.array([1])},
    ],
)
def test_formulas_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, np.ndarray]) -> None:
    workload = Workload.formulas(DOMAIN, [queries.test("a", 1) | queries.test("b", [0, 2])])
    assert "workload_formulas_0_children" in pack(WorkloadFile.of(workload), "workload")[1]
    assert set(changes) <= set(pack(WorkloadFile.of(workload), "workload")[1])
    with pytest.raises(ArchiveError, match="the workload of the file does not fit its domain; make it anew"):
        restored(stored(tmp_path, workload, **changes))


@pytest.mark.parametrize("at_least", [[0, 1, 1], [1, 1, 2], [1, 1, -1], [1, 1], [9, 1, 1]])
def test_thresholds_that_do_not_fit_are_refused(tmp_path: Path, at_least: list[int]) -> None:
    path = stored(tmp_path, Workload.thresholds(DOMAIN, 2, 1), workload_at_least=np.array(at_least))
    with pytest.raises(ArchiveError, match="the workload of the file does not fit its domain; make it anew"):
        restored(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"workload_cliques_members": np.array([7], dtype=np.int32)},
        {"workload_cliques_members": np.array([-1, 0, 0, 0, 0, 0, 0, 0, 0], dtype=np.int32)},
        {"workload_cliques_lengths": np.array([-1, 1], dtype=np.int32)},
        {"workload_used": np.array([99] * 9, dtype=np.int32)},
        {"workload_weights": np.array([1.0])},
        {"workload_weights": np.full(7, -1.0)},
        {"workload_cliques_members": np.zeros((3, 3), dtype=np.int32)},
    ],
)
def test_contents_that_do_not_fit_are_refused(tmp_path: Path, changes: dict) -> None:
    with pytest.raises(ArchiveError):
        restored(stored(tmp_path, Workload.kway(DOMAIN, 1) + Workload.kway(DOMAIN, 2), **changes))


def test_blocks_share_their_parts_and_stay_small(tmp_path: Path) -> None:
    blocks = (Permuted(Prefix(4), [3, 2, 1, 0]), Permuted(Prefix(4), [1, 0, 2, 3]), Prefix(4))
    workload = Workload(DOMAIN, [ProductTerm(("a",), (block,)) for block in blocks])
    entry, arrays = pack(WorkloadFile.of(workload), "workload")
    assert [item["kind"] for item in entry["blocks"]] == ["prefix", "permuted", "permuted"]
    assert arrays["workload_used"].tolist() == [1, 2, 0]
    stored_orders = {name for name in arrays if name.startswith("workload_blocks")}
    assert stored_orders == {"workload_blocks_1_order", "workload_blocks_2_order"}


@pytest.mark.parametrize(
    ("block", "changes"),
    [
        ({"kind": "permuted", "operator": 0, "order": "block_1"}, {}),
        ({"kind": "permuted", "operator": -1, "order": "block_1"}, {}),
        ({"kind": "permuted", "operator": 1, "order": "block_1"}, {}),
        ({"kind": "permuted", "operator": True, "order": "block_1"}, {}),
        ({"kind": "permuted", "order": "block_1"}, {}),
        ({"kind": "permuted", "operator": 0, "order": "block_1"}, {"block_1": np.array([0, 0, 1, 2])}),
        ({"kind": "permuted", "operator": 0, "order": "block_1"}, {"block_1": np.array([0.5, 1.0, 2.0, 3.0])}),
        ({"kind": "permuted", "operator": 0, "order": "block_1"}, {"block_1": np.array([[0, 1, 2, 3]])}),
        ({"kind": "permuted", "operator": 0, "order": "block_1"}, {"block_1": np.array([0, 1, 2])}),
        ({"kind": "scaled", "operator": 0, "factor": "2"}, {}),
        ({"kind": "scaled", "operator": 0, "factor": True}, {}),
        ({"kind": "scaled", "operator": 0, "factor": 10**400}, {}),
        ({"kind": "scaled", "operator": 2, "factor": 2.0}, {}),
        ({"kind": "levels", "size": 4, "levels": 1.0}, {}),
        ({"kind": "levels", "size": 5, "levels": 1.0, "total": 1.0}, {}),
        ({"kind": "levels", "size": 4, "levels": None, "total": 1.0}, {}),
        ({"kind": "gram", "queries": 3, "gram": "block_1"}, {}),
        ({"kind": "gram", "queries": 0, "gram": "block_1"}, {"block_1": np.eye(4)}),
        ({"kind": "gram", "queries": 2.0, "gram": "block_1"}, {"block_1": np.eye(4)}),
        ({"kind": "gram", "queries": 2, "gram": "block_1"}, {"block_1": -np.eye(4)}),
        ({"kind": "gram", "queries": 2, "gram": "block_1"}, {"block_1": np.triu(np.ones((4, 4)))}),
        ({"kind": "gram", "queries": 2, "gram": "block_1"}, {"block_1": np.full((4, 4), np.nan)}),
        ({"kind": "gram", "queries": 2, "gram": "block_1"}, {"block_1": np.eye(3)}),
        ({"kind": "stack", "operators": [0, 0], "weights": "block_1"}, {}),
        ({"kind": "stack", "operators": [0, 0], "weights": "block_1"}, {"block_1": np.array([1.0])}),
        ({"kind": "stack", "operators": [0, 0], "weights": "block_1"}, {"block_1": np.array([1.0, np.inf])}),
        ({"kind": "stack", "operators": [], "weights": "block_1"}, {"block_1": np.zeros(0)}),
        ({"kind": "stack", "operators": 0, "weights": "block_1"}, {"block_1": np.array([1.0])}),
        ({"kind": "stack", "operators": [1], "weights": "block_1"}, {"block_1": np.array([1.0])}),
        ({"kind": "sphere"}, {}),
        ("prefix", {}),
    ],
)
def test_blocks_that_are_none_are_refused(tmp_path: Path, block: object, changes: dict) -> None:
    with pytest.raises(ArchiveError):
        restored(with_block(tmp_path, block, {"block_1": np.zeros(3)} | changes))


def with_block(folder: Path, block: object, arrays: dict) -> Path:
    workload = Workload(DOMAIN, [ProductTerm(("a",), (Prefix(4),)), ProductTerm(("a",), (Dense(np.eye(4)),))])
    entry = pack(WorkloadFile.of(workload), "workload")[0] | {"blocks": [{"kind": "prefix", "size": 4}, block]}
    return stored(folder, workload, entry, **arrays)


@pytest.mark.parametrize(
    ("block", "array"),
    [
        ({"kind": "permuted", "operator": 0, "order": "block_1"}, np.array([1, 0, 2, 3])),
        ({"kind": "gram", "queries": 2, "gram": "block_1"}, np.eye(4)),
        ({"kind": "stack", "operators": [0, 0], "weights": "block_1"}, np.array([1.0, 2.0])),
        ({"kind": "scaled", "operator": 0, "factor": 2}, np.zeros(3)),
        ({"kind": "levels", "size": 4, "levels": 1.0, "total": 1.0}, np.zeros(3)),
    ],
)
def test_blocks_of_every_kind_are_read(tmp_path: Path, block: object, array: np.ndarray) -> None:
    assert len(restored(with_block(tmp_path, block, {"block_1": array}))) == 2


@pytest.mark.parametrize("entry", [None, 3, [["a"]], [["a", 0]], [["a", 2], ["a", 3]], [[1, 2]], {"a": 2}])
def test_domains_that_are_none_are_refused(entry: object) -> None:
    with pytest.raises(ArchiveError, match="the file's domain cannot be read"):
        unpack(Domain, entry, None, "domain")


def doubled(times: int) -> list[dict[str, object]]:
    """A block, and as many more that are each two of the one before."""
    double = [{"kind": "stack", "operators": [k, k], "weights": "two"} for k in range(times)]
    return [{"kind": "identity", "size": 4}, *double]


def chained(times: int) -> list[dict[str, object]]:
    return [{"kind": "identity", "size": 4}, *({"kind": "scaled", "operator": k, "factor": 1.0} for k in range(times))]


BLOCKS = [(doubled(9), True), (doubled(60), False), (chained(30), True), (chained(60), False)]


@pytest.mark.parametrize(("blocks", "loads"), BLOCKS)
def test_blocks_made_of_too_many_others_are_refused(
    tmp_path: Path, blocks: list[dict[str, object]], loads: bool
) -> None:
    workload = Workload.product(DOMAIN, {"a": queries.identity})
    entry = pack(WorkloadFile.of(workload), "workload")[0] | {"blocks": blocks}
    changes = {"workload_used": np.array([len(blocks) - 1], dtype=np.int8), "two": np.ones(2)}
    path = stored(tmp_path, workload, entry, **changes)
    if loads:
        assert restored(path).cliques == (("a",),)
    else:
        with pytest.raises(ArchiveError, match="has blocks made of too many others; make it anew"):
            restored(path)
