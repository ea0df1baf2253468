"""Models in files: the same numbers and rows, bit for bit; and files that do not fit together are refused."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hush
from hush import Constraint, Domain, Measurement, Model, queries
from hush.core.errors import ArchiveError, HushError, SizeError
from hush.files.archive import VERSIONS, ArchiveReader, write_archive
from hush.schema import Schema

DOMAIN = Domain({"a": 3, "b": 2, "c": 5, "one": 1, "d": 4})
Change = Callable[[dict[str, Any], dict[str, Any]], Any]
STRUCTURES: dict[str, list[tuple[str, ...]]] = {
    "tree": [("a", "b"), ("b", "c"), ("b", "d")],
    "loop": [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")],
    "nested": [("a", "b", "c"), ("a", "b"), ("c",)],
    "disconnected": [("a", "b"), ("c",), ("d", "one")],
    "duplicate": [("a", "c"), ("c", "a"), ("a", "c")],
    "full": [("a", "b", "c", "one", "d")],
    "total": [()],
}


def measured(cliques: list[tuple[str, ...]], domain: Domain = DOMAIN, noise: Any = "gaussian") -> list[Measurement]:
    chance = np.random.Generator(np.random.PCG64(2))
    return [
        Measurement(clique, 90 / domain.size(clique) + chance.normal(size=domain.sizes(clique)), 1.5, noise=noise)
        for clique in cliques
    ]


def again(model: Model, path: Path) -> Model:
    model.save(path)
    loaded = hush.load(path)
    assert isinstance(loaded, Model)
    return loaded


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.hush"
    rule = Constraint.forbid(DOMAIN, ("a", "d"), [(0, 0)])
    hush.fit(DOMAIN, measured(STRUCTURES["tree"]), constraints=[rule]).save(path)
    return path


def changed(file: Path, target: Path, change: Change) -> Path:
    with ArchiveReader(file, versions={"model": VERSIONS["model"]}) as archive:
        manifest = {name: own for name, own in archive.manifest.items() if name not in ("hush", "version", "digests")}
        arrays = {name: np.array(archive.array(name)) for name in archive.names()}
    change(manifest, arrays)
    write_archive(target, kind="model", version=VERSIONS["model"], manifest=manifest, arrays=arrays)
    return target


# what is saved is what is loaded


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("zeros", [False, True])
def test_tables_and_rows_are_the_same_bit_for_bit(tmp_path: Path, name: str, zeros: bool) -> None:
    rules = [Constraint.forbid(DOMAIN, ("a", "d"), [(0, 0), (2, 3)])] if zeros else []
    model = hush.fit(DOMAIN, measured(STRUCTURES[name]), constraints=rules)
    loaded = again(model, tmp_path / "x.hush")
    for size in range(4):
        for clique in itertools.combinations(DOMAIN, size):
            np.testing.assert_array_equal(loaded.counts(clique), model.counts(clique))
    for method in ("rounding", "sampling"):
        assert loaded.synthesize(200, seed=5, method=method) == model.synthesize(200, seed=5, method=method)
    given = {"a": 1, "c": [0, 2]}
    assert loaded.synthesize(50, seed=5, given=given) == model.synthesize(50, seed=5, given=given)
    assert (loaded.total, loaded.status, loaded.stats) == (model.total, model.status, model.stats)
    assert (loaded.cliques, loaded.size_mb, loaded.schema) == (model.cliques, model.size_mb, model.schema)
    assert repr(loaded) == repr(model)


def test_schemas_and_their_constraints_are_kept(tmp_path: Path) -> None:
    schema = hush.datasets.people_schema().forbid(["age", "employed"], [[{"to": 14}, True]])
    size = schema.domain.sizes(("age", "employed"))
    model = hush.fit(schema, [Measurement(("age", "employed"), np.full(size, 5.0), 1.0)])
    loaded = again(model, tmp_path / "x.hush")
    assert loaded.schema == schema
    assert loaded.counts(("employed", "age"))[1, :15].sum() == 0
    text = "SELECT sex, COUNT(*) FROM t WHERE age < 30 AND employed GROUP BY sex"
    np.testing.assert_array_equal(loaded.sql(text).estimate, model.sql(text).estimate)


def test_measured_tables_are_kept_and_queries_are_not(tmp_path: Path) -> None:
    prefix = Measurement(("c",), np.arange(5.0), 1.0, query={"c": queries.prefix})
    model = hush.fit(DOMAIN, [*measured([("b", "a"), ("c", "d")], noise="laplace"), prefix])
    loaded = again(model, tmp_path / "x.hush")
    assert [one.clique for one in loaded.measurements] == [("b", "a"), ("c", "d")]
    assert {one.noise for one in loaded.measurements} == {"laplace"}
    for name in ("a", "c"):
        np.testing.assert_array_equal(loaded.unbiased(name).estimate, model.unbiased(name).estimate)
        np.testing.assert_array_equal(loaded.unbiased(name).std_error, model.unbiased(name).std_error)


def test_a_loaded_model_can_be_gone_on_from(tmp_path: Path) -> None:
    given = measured(STRUCTURES["loop"])
    model = hush.fit(DOMAIN, given)
    loaded = again(model, tmp_path / "x.hush")
    more = hush.fit(DOMAIN, given, start=loaded)
    assert more.stats["iterations"] <= model.stats["iterations"]


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    model = hush.fit(DOMAIN, measured(STRUCTURES["loop"]))
    again(model, tmp_path / "x.hush").save(tmp_path / "y.hush")
    assert (tmp_path / "x.hush").read_bytes() == (tmp_path / "y.hush").read_bytes()


def test_a_long_chain_goes_through_a_file(tmp_path: Path) -> None:
    domain = Domain({f"x{i}": 3 for i in range(120)})
    links = [(f"x{i}", f"x{i + 1}") for i in range(119)]
    model = hush.fit(domain, measured(links, domain))
    loaded = again(model, tmp_path / "x.hush")
    np.testing.assert_array_equal(loaded.counts(("x0", "x119")), model.counts(("x0", "x119")))
    assert loaded.synthesize(100, seed=1) == model.synthesize(100, seed=1)


def test_numbers_that_json_has_not_are_kept(tmp_path: Path) -> None:
    model = hush.fit(DOMAIN, measured(STRUCTURES["tree"]))
    model.stats |= {"gap": float("inf"), "lower_bound": float("nan")}
    stats = again(model, tmp_path / "x.hush").stats
    assert stats["gap"] == float("inf")
    assert np.isnan(stats["lower_bound"])


# approximate models


@pytest.fixture(scope="module")
def approximate() -> Model:
    rule = Constraint.forbid(DOMAIN, ("a", "d"), [(0, 0)])
    given = measured([("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")])
    return hush.fit(DOMAIN, given, method="approximate", constraints=[rule], seed=4)


def test_approximate_models_are_the_same_bit_for_bit(approximate: Model, tmp_path: Path) -> None:
    loaded = again(approximate, tmp_path / "x.hush")
    assert not loaded.exact
    for size in range(4):
        for clique in itertools.combinations(DOMAIN, size):
            np.testing.assert_array_equal(loaded.counts(clique), approximate.counts(clique))
    for method in ("rounding", "sampling"):
        assert loaded.synthesize(100, seed=5, method=method) == approximate.synthesize(100, seed=5, method=method)
    assert loaded.counts(("a", "d"))[0, 0] == 0
    assert repr(loaded) == repr(approximate)
    loaded.save(tmp_path / "y.hush")
    assert (tmp_path / "x.hush").read_bytes() == (tmp_path / "y.hush").read_bytes()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda _, a: a["model_tables"].__setitem__(0, -1.0), "negative counts"),
        (lambda _, a: a["model_tables"].__setitem__(0, np.nan), "hold NaN"),
        (lambda _, a: a["model_tables"].__setitem__(0, 500.0), "contradicts the others"),
        (
            lambda _, a: a.update(model_tables=np.concatenate([a["model_tables"][:6][::-1], a["model_tables"][6:]])),
            "contradicts",
        ),
        (lambda _, a: a.update(model_tables=a["model_tables"][1:]), "another size"),
        (lambda _, a: a.update(model_cliques_members=a["model_cliques_members"][::-1]), "another size|contradicts"),
        (lambda m, _: m["model"].update(seed=-1), "Expected `int` >= 0"),
        (lambda m, _: m["model"].update(seed=2.0), "Expected `int`, got `float`"),
        (lambda m, _: m["model"].pop("seed"), "missing required field `seed`"),
        (lambda m, _: m["model"].update(total=2.5), "contradicts the others"),
        (lambda m, _: m["model"].update(kind="graphical"), "unknown field|missing required field"),
    ],
)
def test_approximate_files_that_do_not_fit_together_are_refused(
    approximate: Model, tmp_path: Path, change: Change, text: str
) -> None:
    approximate.save(tmp_path / "x.hush")
    with pytest.raises(ArchiveError, match=text):
        hush.load(changed(tmp_path / "x.hush", tmp_path / "y.hush", change))


def test_tables_that_disagree_are_not_saved(tmp_path: Path) -> None:
    domain = Domain({"w": 3, "x": 4, "z": 5})
    rules = [Constraint(("x", "z"), np.array([[(i + j) % 3 > 0 for j in range(5)] for i in range(4)]))]
    values = [[0.5, 0.5, 0.7, 0.7, 0.7], [0.9, 0.0, 0.3, 2.7, 0.4], [1.3, -0.1, 0.6, 1.8, 0.7]]
    listed = [
        Measurement(("w", "z"), values, 0.2, noise="laplace"),
        Measurement(("x",), [-10.7, -33.3, 32.5, 103.7], 57.0),
    ]
    model = hush.fit(domain, listed, total=10.0, method="approximate", constraints=rules, iterations=1)
    assert "disagree by up to" in model.status
    with pytest.raises(ArchiveError, match="cannot be saved; fit with more iterations"):
        model.save(tmp_path / "model.hush")
    assert not (tmp_path / "model.hush").exists()
    model = hush.fit(domain, listed, total=10.0, method="approximate", constraints=rules)
    assert model.status == "solved"
    np.testing.assert_array_equal(again(model, tmp_path / "model.hush").counts(("w", "z")), model.counts(("w", "z")))


def test_tables_that_break_the_constraints_are_refused(tmp_path: Path) -> None:
    free = hush.fit(DOMAIN, measured([("a", "b"), ("b", "c")]), method="approximate")
    free.save(tmp_path / "x.hush")
    rule = Constraint.forbid(DOMAIN, ("b",), [(1,)])
    strict = Schema.from_domain(DOMAIN).with_constraints(rule).to_toml()
    with pytest.raises(ArchiveError, match="contradicts"):
        hush.load(changed(tmp_path / "x.hush", tmp_path / "y.hush", lambda m, _: m.update(schema=strict)))


# files of strangers


def set_array(name: str, value: Any) -> Change:
    return lambda _, arrays: arrays.update({name: np.asarray(value)})


def at(name: str, place: int, value: Any) -> Change:
    return lambda _, arrays: arrays[name].__setitem__(place, value)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (at("model_potentials", 0, np.nan), "hold NaN"),
        (at("model_potentials", 3, np.inf), "beyond"),
        (at("model_potentials", 3, -np.inf), "beyond"),
        (at("model_potentials", 3, 1e200), "beyond"),
        (lambda _, a: a.update(model_potentials=a["model_potentials"][:-1]), "another size"),
        (lambda _, a: a.update(model_potentials=a["model_potentials"].reshape(1, -1)), "in 1 dimensions"),
        (lambda _, a: a.update(model_potentials=a["model_potentials"].astype(np.int64)), "another type of numbers"),
        (lambda _, a: a.pop("model_potentials"), "'model_potentials' is missing"),
        (at("model_parents", 0, 0), "nodes are connected"),
        (at("model_parents", 1, 5), "before its parent"),
        (at("model_parents", 1, -1), "before its parent"),
        (lambda _, a: a.update(model_parents=a["model_parents"][:-1]), "nodes are connected"),
        (lambda _, a: a.update(model_parents=a["model_parents"].astype(float)), "another type of numbers"),
        (at("model_nodes_members", 0, 9), "name attributes it does not have"),
        (at("model_nodes_members", 0, 3), "every attribute once|twice|separator"),
        (lambda _, a: a.update(model_nodes_members=a["model_nodes_members"][::-1]), "every attribute once"),
        (at("model_factors_members", 0, -1), "name attributes it does not have"),
        (set_array("model_factors_lengths", np.array([4, 1, 1], dtype=np.int32)), "another size|damaged"),
        (at("model_zeros_allowed", slice(None), False), "forbids every combination"),
        (lambda _, a: a.update(model_zeros_allowed=a["model_zeros_allowed"][:-1]), "constraints are of another size"),
        (
            lambda _, a: a.update(model_zeros_allowed=a["model_zeros_allowed"].astype(np.int8)),
            "another type of numbers",
        ),
        (at("measured_stddev", 0, 0.0), "number (above 0|> 0|from 1e-60)"),
        (at("measured_values", 0, np.nan), "hold NaN"),
        (lambda _, a: a.update(measured_laplace=a["measured_laplace"].astype(np.uint8)), "another type of numbers"),
        (lambda m, _: m["model"].update(total=0.0), r"> 0.0 - at `\$.model.total`"),
        (lambda m, _: m["model"].update(total=-3.0), r"> 0.0 - at `\$.model.total`"),
        (lambda m, _: m["model"].update(total=10**400), "Number out of range"),
        (lambda m, _: m["model"].update(total="9"), "Expected `float`, got `str`"),
        (lambda m, _: m["model"].update(kind="other"), r"Invalid value 'other' - at `\$.model.kind`"),
        (lambda m, _: m["model"].update(exact=1), "unknown field `exact`"),
        (lambda m, _: m["model"].pop("total"), "missing required field `total`"),
        (lambda m, _: m.update(model=[]), "Expected `object`, got `array`"),
        (lambda m, _: m["fit"].update(status="\x1b[31mred"), "Expected a printable status"),
        (lambda m, _: m["fit"].update(names=["a\nb"] * len(m["fit"]["names"])), "plain names of statistics"),
        (lambda m, _: m.update(caveats=["\x1b[31mred"]), "Expected printable caveats"),
        (lambda m, _: m.update(caveats=[7]), "Expected `str`, got `int`"),
        (lambda m, _: m.pop("caveats"), "missing required field `caveats`"),
        (lambda m, _: m["fit"]["names"].append("more"), "a number for each statistic"),
        (lambda m, _: m["domain"][0].__setitem__(1, 7), "schema and its domain differ"),
        (lambda m, _: m.update(schema="[["), "schema cannot be read; get the model again"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(file: Path, tmp_path: Path, change: Change, text: str) -> None:
    with pytest.raises(ArchiveError, match=text):
        hush.load(changed(file, tmp_path / "x.hush", change))


def test_a_tree_that_does_not_hold_the_factors_is_refused(file: Path, tmp_path: Path) -> None:
    """Every attribute a node of its own: a tree, but not of these factors."""

    def split(_: Any, arrays: dict[str, Any]) -> None:
        arrays["model_nodes_members"] = np.arange(5, dtype=np.int32)
        arrays["model_nodes_lengths"] = np.ones(5, dtype=np.int32)
        arrays["model_parents"] = np.array([-1, 0, 0, 0, 0], dtype=np.int32)

    with pytest.raises(ArchiveError, match="inside no node of the tree"):
        hush.load(changed(file, tmp_path / "x.hush", split))


def test_a_graph_with_a_loop_is_no_tree(file: Path, tmp_path: Path) -> None:
    """`a` is in two nodes that are not connected through nodes with `a`."""

    def loop(_: Any, arrays: dict[str, Any]) -> None:
        nodes = [(0, 1), (1, 2), (2, 4, 0), (3,)]
        arrays["model_nodes_members"] = np.array([place for node in nodes for place in node], dtype=np.int32)
        arrays["model_nodes_lengths"] = np.array([len(node) for node in nodes], dtype=np.int32)
        arrays["model_parents"] = np.array([-1, 0, 1, 0], dtype=np.int32)

    with pytest.raises(ArchiveError, match="every attribute once"):
        hush.load(changed(file, tmp_path / "x.hush", loop))


def test_constraints_of_the_schema_hold_whatever_the_file_says(file: Path, tmp_path: Path) -> None:
    rule = Constraint.forbid(DOMAIN, ("a", "b"), [(1, 1)])
    strict = Schema.from_domain(DOMAIN).with_constraints(rule).to_toml()
    loaded = hush.load(changed(file, tmp_path / "x.hush", lambda m, _: m.update(schema=strict)))
    assert isinstance(loaded, Model)
    assert loaded.counts(("a", "b"))[1, 1] == 0
    far = Schema.from_domain(DOMAIN).with_constraints(Constraint.forbid(DOMAIN, ("a", "c"), [(1, 1)])).to_toml()
    with pytest.raises(ArchiveError, match="inside no node"):
        hush.load(changed(file, tmp_path / "x.hush", lambda m, _: m.update(schema=far)))


def test_constraints_that_leave_nothing_are_refused(file: Path, tmp_path: Path) -> None:
    def nothing(_: Any, arrays: dict[str, Any]) -> None:
        arrays["model_zeros_cliques_members"] = np.array([0, 0, 1], dtype=np.int32)
        arrays["model_zeros_cliques_lengths"] = np.array([1, 2], dtype=np.int32)
        arrays["model_zeros_allowed"] = np.array([True, False, False, False, False, True, True, True, True])

    with pytest.raises(ArchiveError, match="contradict"):
        hush.load(changed(file, tmp_path / "x.hush", nothing))


@pytest.mark.parametrize("sizes", [(2000, 2000, 2000), (10**4,) * 40])
def test_sizes_are_predicted_before_anything_is_made(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    """A file of a few hundred bytes that asks for a table of all its attributes."""
    domain = Domain({f"x{i}": size for i, size in enumerate(sizes)})
    model = hush.fit(domain, [Measurement((), 5.0, 1.0)])
    with pytest.raises(SizeError, match="the file's model: .* needed"):
        hush.load(changed_tree(model, tmp_path))


def changed_tree(model: Model, folder: Path) -> Path:
    count = len(model.domain)
    model.save(folder / "x.hush")

    def whole(_: Any, arrays: dict[str, Any]) -> None:
        arrays["model_nodes_members"] = np.arange(count, dtype=np.int32)
        arrays["model_nodes_lengths"] = np.array([count], dtype=np.int32)
        arrays["model_parents"] = np.array([-1], dtype=np.int32)

    return changed(folder / "x.hush", folder / "y.hush", whole)


def test_a_model_that_does_not_fit_is_refused_with_the_memory_it_takes(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hush.core.memory.available_memory", lambda: 100)
    monkeypatch.setattr("hush.core.memory.UNCHECKED_BYTES", 0)
    with pytest.raises(SizeError, match=r"the file's model: \d+ B needed, 50 B free; free some memory"):
        hush.load(file)


def test_newer_files_and_other_files_are_refused(file: Path, tmp_path: Path) -> None:
    with ArchiveReader(file, versions={"model": VERSIONS["model"]}) as archive:
        arrays = {name: archive.array(name) for name in archive.names()}
        manifest = {name: own for name, own in archive.manifest.items() if name not in ("hush", "version", "digests")}
    write_archive(tmp_path / "new.hush", kind="model", version=VERSIONS["model"] + 1, manifest=manifest, arrays=arrays)
    with pytest.raises(ArchiveError, match="newer hush"):
        hush.load(tmp_path / "new.hush")
    (tmp_path / "cut.hush").write_bytes(file.read_bytes()[:-30])
    with pytest.raises(HushError, match="cut short"):
        hush.load(tmp_path / "cut.hush")
