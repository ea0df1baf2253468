"""Files of linear plans and releases from strangers: each is refused, or does no more than it shows."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Workload, queries
from hush.core.errors import ArchiveError
from hush.files.archive import ArchiveReader, write_archive
from hush.mechanisms import HDMM, Direct
from hush.mechanisms.plan import PLAN_VERSION
from hush.release.release import VERSION
from hush.testing import TinyTable

DOMAIN = Domain({"a": 3, "b": 24})
WORKLOAD = Workload.product(DOMAIN, {"b": queries.ranges}) + Workload.product(
    DOMAIN, {"a": queries.prefix, "b": queries.identity}
)
TABLE = TinyTable(DOMAIN, [(0, 1), (2, 3), (2, 3)])


def edited(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    """The same file with its manifest and arrays changed, and digests that fit."""
    with ArchiveReader(path, versions={"plan": PLAN_VERSION, "release": VERSION}) as archive:
        manifest = {name: archive.manifest[name] for name in archive.manifest if name not in {"hush", "digests"}}
        arrays = {name: np.array(archive.array(name)) for name in archive.names()}
        kind = archive.kind
    change(manifest, arrays)
    other = path.with_name("edited.hush")
    write_archive(other, kind=kind, version=manifest.pop("version", 1), manifest=manifest, arrays=arrays)
    return other


def plan_file(folder: Path) -> Path:
    plan = hush.plan(WORKLOAD, Budget(epsilon=1.0), mechanism=HDMM(operators=("plus",)))
    plan.save(folder / "plan.hush")
    return folder / "plan.hush"


def first_matrix(arrays: dict[str, Any]) -> str:
    return next(name for name in sorted(arrays) if name.startswith("strategy_factors"))


def strategy(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest["strategy"]


CHANGES: dict[str, Callable[[dict[str, Any], dict[str, Any]], None]] = {
    "a product twice": lambda m, a: strategy(m)["parts"].append(strategy(m)["parts"][0]),
    "a cost above the budget": lambda m, a: strategy(m)["parts"][0].update(cost="5"),
    "no cost": lambda m, a: strategy(m)["parts"][0].update(cost="0"),
    "a negative cost": lambda m, a: strategy(m)["parts"][0].update(cost="-1/2"),
    "a cost that is no binary fraction": lambda m, a: strategy(m)["parts"][0].update(cost="1/7"),
    "a cost of many digits": lambda m, a: strategy(m)["parts"][0].update(cost="1/" + "2" * 4000),
    "Gaussian noise under pure epsilon": lambda m, a: strategy(m).update(noise="gaussian"),
    "other neighbours": lambda m, a: strategy(m).update(neighbours="replace one unit"),
    "a factor that is not there": lambda m, a: strategy(m)["parts"][0].update(factors=[99]),
    "an unknown attribute": lambda m, a: strategy(m)["parts"][0].update(groups=[[7]]),
    "marginal recovery of other products": lambda m, a: strategy(m).update(recovery="marginals", method="x" * 200),
    "huge entries": lambda m, a: a.update({first_matrix(a): a[first_matrix(a)].astype(np.int64) * 2**40}),
    "zeros": lambda m, a: a.update({first_matrix(a): a[first_matrix(a)] * 0}),
    "floats": lambda m, a: a.update({first_matrix(a): a[first_matrix(a)] * 0.5}),
    "no support": lambda m, a: a.update({first_matrix(a): a[first_matrix(a)][:1]}),
    "other rows per unit": lambda m, a: m.update(max_rows_per_unit=3),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_plans_that_contradict_themselves_are_refused(change: Callable[..., None], tmp_path: Path) -> None:
    with pytest.raises(ArchiveError):
        hush.load(edited(plan_file(tmp_path), change))


def test_the_plan_itself_loads_and_larger_integers_cost_more_noise(tmp_path: Path) -> None:
    path = plan_file(tmp_path)
    assert str(hush.load(edited(path, lambda m, a: None))) == str(hush.load(path))

    def doubled(manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
        name = first_matrix(arrays)
        arrays[name] = arrays[name].astype(np.int64) * 2

    changed = hush.load(edited(path, doubled))
    assert changed.rmse == pytest.approx(hush.load(path).rmse, rel=0.05)
    assert changed.epsilon <= Fraction(1)


RELEASE_CHANGES: dict[str, Callable[[dict[str, Any], dict[str, Any]], None]] = {
    "fewer tables than it says": lambda m, a: a.pop("content_noisy_0"),
    "fewer tables than products": lambda m, a: m["content"]["noisy"].pop(),
    "a table of another shape": lambda m, a: a.update(content_noisy_0=a["content_noisy_0"][:-1]),
    "a table of floats": lambda m, a: a.update(content_noisy_0=a["content_noisy_0"] * 0.5),
    "complete, and lacks a table": lambda m, a: m["content"]["noisy"].__setitem__(0, None),
}


@pytest.mark.parametrize("change", RELEASE_CHANGES.values(), ids=RELEASE_CHANGES.keys())
def test_releases_that_contradict_themselves_are_refused(change: Callable[..., None], tmp_path: Path) -> None:
    plan = hush.plan(WORKLOAD, Budget(rho=0.5), mechanism="direct")
    plan.release(TABLE).save(tmp_path / "x.hush")
    with pytest.raises(ArchiveError):
        hush.load(edited(tmp_path / "x.hush", change))


@pytest.mark.parametrize("mechanism", ["direct", "hdmm", "matrix"])
@pytest.mark.parametrize("rho", [100.0, 300.0, 2000.0])
def test_budgets_so_large_that_noise_is_never_seen_are_saved_and_loaded(
    rho: float, mechanism: str, tmp_path: Path
) -> None:
    domain = Domain({"a": 2, "b": 3})
    table = TinyTable(domain, [(0, 1), (1, 2), (1, 2)])
    plan = hush.plan(Workload.kway(domain, 2), Budget(rho=rho), mechanism)
    plan.save(tmp_path / "plan.hush")
    plan.release(table).save(tmp_path / "release.hush")
    assert (hush.load(tmp_path / "plan.hush").lower_bound is None) == (rho > 200)
    answers = hush.load(tmp_path / "release.hush").marginal("a", "b")
    assert answers.estimate.tolist() == [0, 1, 0, 0, 0, 2]
    assert (answers.std_error > 0).all()
    assert (answers.std_error < 1e-20).all()


@pytest.mark.parametrize("mechanism", [HDMM(operators=("marginals",)), Direct(least_squares="global")])
def test_parts_whose_noise_is_never_seen_are_still_combined(mechanism: HDMM | Direct, tmp_path: Path) -> None:
    domain = Domain({"a": 2, "b": 3})
    plan = hush.plan(Workload.kway(domain, 1), Budget(rho=2000.0), mechanism)
    plan.release(TinyTable(domain, [(0, 1), (1, 2), (1, 2)])).save(tmp_path / "release.hush")
    answers = hush.load(tmp_path / "release.hush").marginal("b")
    assert answers.estimate.tolist() == pytest.approx([0, 1, 2])
    assert (answers.std_error < 1e-20).all()
