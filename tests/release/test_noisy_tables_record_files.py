"""Files of measured releases: the record comes back, and a file of a stranger is refused in words."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Workload
from hush.core.errors import ArchiveError
from hush.files.archive import ArchiveReader, write_archive
from hush.mechanisms import AIM
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.release.release import VERSION
from hush.strategies.rare_levels import MergedQuery
from hush.testing import TinyTable

DOMAIN = Domain({"a": 3, "b": 9, "c": 2})
TABLE = TinyTable(DOMAIN, [(i % 3, i % 3, i % 2) for i in range(300)] + [(0, 5, 0), (1, 7, 1)])
Change = Callable[[dict[str, Any], dict[str, Any]], None]


@pytest.fixture(scope="module")
def release() -> hush.Release:
    plan = AIM(merge_rare=True).plan(Workload.kway(DOMAIN, 2), Budget(rho=2.0))
    made = plan.release(TABLE, entropy=NotPrivateEntropy(1))
    assert any(isinstance(table.asked, MergedQuery) for table in made.noisy_tables)
    return made


@pytest.fixture(scope="module")
def file(release: hush.Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "x.hush"
    release.save(path)
    return path


def edited(path: Path, change: Change, folder: Path) -> Path:
    """The same file with its manifest and arrays changed, and digests that fit."""
    with ArchiveReader(path, versions={"release": VERSION}) as archive:
        manifest = {name: archive.manifest[name] for name in archive.manifest if name not in {"hush", "digests"}}
        arrays = {name: np.array(archive.array(name)) for name in archive.names()}
    manifest = json.loads(json.dumps(manifest))
    change(manifest, arrays)
    version = manifest.pop("version", 1)
    write_archive(folder / "edited.hush", kind="release", version=version, manifest=manifest, arrays=arrays)
    return folder / "edited.hush"


def test_the_whole_record_comes_back(release: hush.Release, file: Path) -> None:
    loaded = hush.load(file)
    assert isinstance(loaded, type(release))
    assert loaded.settings == release.settings
    assert loaded.rounds == release.rounds
    assert loaded.statement == release.statement
    for ours, theirs in zip(release.noisy_tables, loaded.noisy_tables, strict=True):
        assert (ours.clique, ours.law) == (theirs.clique, theirs.law)
        np.testing.assert_array_equal(ours.values, theirs.values)
        assert type(ours.asked) is type(theirs.asked)
        if isinstance(ours.asked, MergedQuery) and isinstance(theirs.asked, MergedQuery):
            for name, codes in ours.asked.merging.codes.items():
                np.testing.assert_array_equal(codes, theirs.asked.merging.codes[name])
    assert release.record.scored is not None
    assert loaded.record.scored is not None
    assert loaded.record.scored.cliques == release.record.scored.cliques
    for name in ("weights", "rounds", "penalties", "slacks", "slopes", "distances"):
        np.testing.assert_array_equal(getattr(loaded.record.scored, name), getattr(release.record.scored, name))
    assert loaded.record.fitted is not None
    assert release.record.fitted is not None
    assert loaded.record.fitted.status == release.record.fitted.status
    assert loaded.record.fitted.stats == release.record.fitted.stats
    counts = [own.record.fitted.value.counts(("b", "c")) for own in (loaded, release)]
    np.testing.assert_array_equal(*counts)
    assert loaded.synthesize(rows=40, seed=2).equals(release.synthesize(rows=40, seed=2))


def test_saving_twice_gives_the_same_bytes(file: Path, tmp_path: Path) -> None:
    loaded = hush.load(file)
    loaded.save(tmp_path / "again.hush")
    assert (tmp_path / "again.hush").read_bytes() == file.read_bytes()


def test_a_file_that_is_not_changed_loads(file: Path, tmp_path: Path) -> None:
    hush.load(edited(file, lambda manifest, arrays: None, tmp_path))


def entry(**fields: Any) -> Change:
    return lambda manifest, arrays: manifest["content"].update(fields)


def a_table(**fields: Any) -> Change:
    return lambda manifest, arrays: manifest["content"]["tables"][0].update(fields)


def a_round(**fields: Any) -> Change:
    return lambda manifest, arrays: manifest["content"]["rounds"][-1].update(fields)


def array(name: str, change: Callable[[np.ndarray], Any]) -> Change:
    return lambda manifest, arrays: arrays.update({name: np.asarray(change(arrays[name]))})


def filled(name: str, value: float) -> Change:
    return array(name, lambda own: np.full_like(own, value))


def first_merged(arrays: dict[str, Any]) -> str:
    return next(name for name in sorted(arrays) if name.startswith("content_merging_"))


def merging(change: Callable[[np.ndarray], Any]) -> Change:
    return lambda manifest, arrays: arrays.update(
        {first_merged(arrays): np.asarray(change(arrays[first_merged(arrays)].astype(np.int64)))}
    )


CHANGES: dict[str, Change] = {
    "no settings": lambda m, a: m.pop("settings"),
    "settings of another kind": lambda m, a: m.update(settings=[1]),
    "no tables at all": lambda m, a: m["content"].pop("tables"),
    "tables that are none": entry(tables=None),
    "a table without noise": lambda m, a: m["content"]["tables"][0].pop("variance"),
    "a table with more fields": a_table(more=1),
    "a table that names no array": a_table(values=3),
    "a table that does not say whether it has merged levels": a_table(merged=1),
    "a variance that is a number": a_table(variance=4.0),
    "no noise": a_table(variance="0"),
    "negative noise": a_table(variance="-3"),
    "less noise than paid for": a_table(variance="1"),
    "noise that is no fraction": a_table(variance="x"),
    "noise over zero": a_table(variance="1/0"),
    "noise of many digits": a_table(variance="9" * 10_000),
    "no rounds": lambda m, a: m["content"].pop("rounds"),
    "rounds that are none": entry(rounds=7),
    "rounds of another kind": entry(rounds=[[]]),
    "fewer rounds than were scored": entry(rounds=[]),
    "a round without noise": lambda m, a: m["content"]["rounds"][-1].pop("stddev"),
    "a round with more fields": a_round(more=1),
    "a round of words": a_round(epsilon="1"),
    "a round beyond floats": a_round(misfit=10**400),
    "a round of negative noise": a_round(stddev=-1.0),
    "a round of no noise": a_round(stddev=0.0),
    "a round of no weight": a_round(weight=0.0),
    "a round of negative misfit": a_round(misfit=-1.0),
    "a round of negative penalty": a_round(penalty=-1.0),
    "a round of negative epsilon": a_round(epsilon=-1.0),
    "a round of half a candidate": a_round(candidates=1.5),
    "a round that annealed a little": a_round(annealed=0),
    "a round of no clique": a_round(clique=None),
    "a round of an unknown column": a_round(clique=["z"]),
    "a round of a column twice": a_round(clique=["a", "a"]),
    "no word on scores": lambda m, a: m["content"].pop("scored"),
    "no word on a model": lambda m, a: m["content"].pop("model"),
    "a model of another kind": entry(model=[]),
    "a model without status": lambda m, a: m["content"]["fit"].pop("status"),
    "a model of strange status": lambda m, a: m["content"]["fit"].update(status="\x1b[31m"),
    "statistics that are none": lambda m, a: m["content"]["fit"].update(names=None),
    "statistics of strange names": lambda m, a: m["content"]["fit"]["names"].__setitem__(0, "a b"),
    "too many statistics": lambda m, a: m["content"]["fit"]["names"].append("more"),
    "a model of no rows": lambda m, a: m["content"]["model"].update(total=0.0),
    "merged columns that are none": entry(merging=3),
    "merged levels of an unknown column": lambda m, a: m["content"]["merging"][0].update(column="z"),
    "merged tables without arrays of levels": lambda m, a: [a.pop(name) for name in list(a) if "merging" in name],
    "merged tables without levels": entry(merging=[]),
    "other merged tables": lambda m, a: [table.update(merged=not table["merged"]) for table in m["content"]["tables"]],
    "merged levels beyond memory": merging(lambda own: np.where(own == own.max(), 2**62, own)),
    "negative merged levels": merging(lambda own: own - 1),
    "merged levels with a gap": merging(lambda own: np.where(own == own.max(), own.max() + 1, own)),
    "too few merged levels": merging(lambda own: own[1:]),
    "merged levels of floats": merging(lambda own: own * 1.0),
    "tables of floats": array("content_tables_0_values", lambda own: own * 1.0),
    "a table of another shape": array("content_tables_0_values", lambda own: own[1:]),
    "a table too few": lambda m, a: a.pop("content_tables_0_values"),
    "no tables": entry(tables=[]),
    "tables of unknown columns": a_table(clique=["z"]),
    "tables of a column twice": a_table(clique=["a", "a"]),
    "scores of unknown columns": array("content_scored_cliques_members", lambda own: own.astype(np.int64) + 100),
    "scores of rounds to come": array("content_scored_rounds", lambda own: own.astype(np.int64) + 1000),
    "scores of rounds before all": array("content_scored_rounds", lambda own: own.astype(np.int64) - 1000),
    "rounds of scores as floats": array("content_scored_rounds", lambda own: own * 1.0),
    "too few scores": array("content_scored_slopes", lambda own: own[1:]),
    "scores of no weight": filled("content_scored_weights", 0.0),
    "scores of negative weight": filled("content_scored_weights", -1.0),
    "scores of weights that are none": filled("content_scored_weights", np.nan),
    "negative penalties": filled("content_scored_penalties", -1.0),
    "negative slopes": filled("content_scored_slopes", -1.0),
    "slacks that are none": filled("content_scored_slacks", np.nan),
    "endless distances": filled("content_scored_distances", np.inf),
    "negative distances": filled("content_scored_distances", -1.0),
    "a model of too few numbers": array("content_model_potentials", lambda own: own[1:]),
    "a model of numbers that are none": filled("content_model_potentials", np.nan),
    "a model without a tree": array("content_model_parents", lambda own: own + 1),
    "slopes of no width": filled("content_scored_slopes", 0.0),
    "slacks below all": filled("content_scored_slacks", -1e9),
    "a choice that is not paid for": a_round(epsilon=3.0),
    "a smaller budget": lambda m, a: m["privacy"].update(budget={"rho": 0.001}),
    "choices that are not paid for": lambda m, a: m["privacy"]["event"].update(
        parts=[one for one in m["privacy"]["event"]["parts"] if one["event"]["kind"] != "exponential mechanism"]
    ),
    "a dataset that is a number": lambda m, a: m.update(dataset=3),
    "a dataset of strange marks": lambda m, a: m.update(dataset="\x1b[31m"),
    "a ledger that is a number": lambda m, a: m["privacy"].update(ledger_head=3),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_damaged_files_are_refused_in_words(change: Change, file: Path, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError) as refused:
        hush.load(edited(file, change, tmp_path))
    assert str(refused.value).isprintable()


def test_any_array_may_be_anything(file: Path, tmp_path: Path) -> None:
    """Whatever an array is replaced by, the file is refused or loads; never another error."""
    with ArchiveReader(file, versions={"release": VERSION}) as archive:
        names = list(archive.names())
    others = [np.zeros(0), np.zeros((2, 2)), np.array([-1, 2**40]), np.array(3), np.array([True])]
    for name in names:
        for other in others:
            try:
                loaded = hush.load(edited(file, array(name, lambda own, other=other: other), tmp_path))
            except ArchiveError:
                continue
            assert loaded.inconsistency() is None
            found = loaded.error_bound("a")
            assert found.bound >= 0 or found.kind == "none"


def test_any_field_may_be_anything(file: Path, tmp_path: Path) -> None:
    with ArchiveReader(file, versions={"release": VERSION}) as archive:
        fields = list(archive.manifest["content"])
    for name in fields:
        for other in (None, -1, 1e300, "", [], {}, [None], True):
            try:
                loaded = hush.load(edited(file, entry(**{name: other}), tmp_path))
            except ArchiveError:
                continue
            assert loaded.error_bound("a").bound >= 0
