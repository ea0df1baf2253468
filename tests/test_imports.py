"""What importing loads: `import hush` nothing heavy, a room no more than it needs, and a name when it is used."""

import ast
import importlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import hush
from hush.cli.main import COMMANDS

THIRD_PARTY = (
    "adbc_driver_manager",
    "adbc_driver_postgresql",
    "click",
    "dp_accounting",
    "duckdb",
    "mpmath",
    "msgspec",
    "numba",
    "numpy",
    "psycopg",
    "pyarrow",
    "rich",
    "scipy",
    "sqlglot",
    "starlette",
    "uvicorn",
)
SOLVERS = ("scipy.linalg", "scipy.optimize", "scipy.sparse", "scipy.stats")
READERS = ("adbc_driver_postgresql", "openpyxl", "pyspark")  # of engines and files that a user may not have
DATA = ("duckdb", "pyarrow", "sqlglot")
GATE = ("hush.privacy.account", "hush.privacy.gate", "hush.privacy.noise")
PRIVATE = ("dp_accounting", "hush.privacy._kernels", "hush.tables")

BUT_SQL = ("dp_accounting", "duckdb", "mpmath", "numba", "numpy.ma", "pandas", "pyarrow", "rich.console", "scipy")


def loaded(code: str) -> set[str]:
    """The modules that are loaded after some code in a new interpreter."""
    code += "; import sys; sys.stdout.write(' '.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import hush", (*THIRD_PARTY, "hush.core.domain", "hush.core.errors")),
        ("import hush; hush.Domain", THIRD_PARTY),
        ("import hush; dir(hush); hush.queries", {*THIRD_PARTY} - {"numpy"}),
        ("from hush import Schema, Workload, datasets", {*THIRD_PARTY} - {"numpy"}),
        (
            "import hush.models.graphical.likelihood, hush.models.fit_arguments",
            (*DATA, *PRIVATE, "numba", "scipy", *GATE),
        ),
        ("import hush.models.graphical.belief_propagation", (*DATA, *SOLVERS, *PRIVATE, "hush.linops", "hush.privacy")),
        ("import hush.inference.best_unbiased", (*DATA, *SOLVERS, *PRIVATE, "mpmath")),
        ("import hush.cli.main", {*THIRD_PARTY} - {"click"}),
        ("import hush; hush.read", (*SOLVERS, *READERS, "dp_accounting", "sqlglot", "hush.privacy", "hush.strategies")),
        ("import hush; hush.plan, hush.load", (*SOLVERS, "dp_accounting", "duckdb", "rich.console", "sqlglot")),
    ],
)
def test_what_is_not_needed_is_not_loaded(code: str, absent: tuple[str, ...] | set[str]) -> None:
    assert loaded(code) & set(absent) == set()


def test_a_query_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "people.hush"
    table = hush.read(hush.datasets.people(50, seed=1), hush.datasets.people_schema())
    plan = hush.plan(hush.Workload.upto(table.domain, 2), hush.Budget(epsilon=1.0, delta=1e-9), "residual")
    plan.release(table).save(path)
    query = "SELECT sex, COUNT(*) AS n, AVG(age) FROM t WHERE age < 40 GROUP BY sex ORDER BY n"
    run = "from hush.cli.main import main; main(['query', {!r}, {!r}], standalone_mode=False)"
    modules = loaded(run.format(str(path), query))
    assert {"sqlglot", "numpy", "hush.release.sql_answers"} <= modules
    rooms = (
        "hush.mechanisms",
        "hush.models.local",
        "hush.optimizers",
        "hush.release.model",
        "hush.cli.release_command",
    )
    assert modules & {*SOLVERS, *BUT_SQL, *rooms} == set()


@pytest.mark.parametrize("words", [[], ["budget", "init"], ["schema", "draft"], *([one.name] for one in COMMANDS)])
def test_help_loads_no_more_than_it_needs(words: list[str]) -> None:
    modules = loaded(f"from hush.cli.main import main; main([*{words!r}, '--help'], standalone_mode=False)")
    assert modules & ({*THIRD_PARTY} - {"click"}) == set()


def test_every_public_name_is_listed_and_is_that_of_its_module() -> None:
    assert set(hush.__all__) <= set(dir(hush))
    for name, home in hush._HOMES.items():
        assert name in hush.__all__
        assert getattr(hush, name) is getattr(importlib.import_module(home), name)
    modules = set(hush.__all__) - set(hush._HOMES) - {"__version__"}
    assert {getattr(hush, name) is sys.modules[f"hush.{name}"] for name in modules} == {True}


def test_modules_of_the_package_need_no_import_of_their_own() -> None:
    code = "import hush; hush.errors.DataError, hush.privacy.__doc__, hush.testing.TinyTable"
    assert "hush.testing.tiny" in loaded(code)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("Dommain", "did you mean 'Domain'?"), ("plan_for_eror", "did you mean 'plan_for_error'?"), ("zzz", "known: Ans")],
)
def test_misspelt_names_are_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(hush, name)
    assert str(caught.value).startswith(f"module 'hush' has no attribute {name!r}; {hint}")
    assert not hasattr(hush, name)
    with pytest.raises(ImportError, match=f"cannot import name '{name}'"):
        exec(f"from hush import {name}")


@pytest.mark.parametrize("name", ["__wrapped__", "_private", "domain.errors", "", "__main__"])
def test_names_that_are_no_modules_import_nothing(name: str) -> None:
    before = set(sys.modules)
    assert not hasattr(hush, name)
    assert set(sys.modules) == before


def test_a_module_that_lacks_a_dependency_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ModuleNotFoundError("No module named 'duckdb'", name="duckdb")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(ModuleNotFoundError, match="duckdb"):
        hush.no_such_room  # noqa: B018


SOURCE = Path(hush.__file__).parent
MODULES = {
    ".".join(["hush", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
}
LAYERS = (
    {"_version"},
    {"core"},
    {"errors"},
    {"files", "render"},
    {"linops"},
    {"privacy"},
    {"schema"},
    {"datasets"},
    {"queries"},
    {"tables"},
    {"sql"},
    {"workloads"},
    {"strategies"},
    {"optimizers"},
    {"inference"},
    {"histograms"},
    {"models"},
    {"release"},
    {"mechanisms"},
    {"research"},
    {"planning", "loading"},
    {"quick_count"},
    {"discovery"},
    {"synthesizer"},
    {"interop"},
    {"evaluation"},
    {"report"},
    {"hybrid"},
    {"testing"},
    {"audit"},
    {"studio"},
    {"training"},
    {"pareto"},
    {"cli"},
    {"__main__"},
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
SAME_PART = {"__init__.py", "__main__.py", "_kernels.py"}  # play one part in every room
PUBLIC_DOORS = {"errors.py"}  # a top-level module that only re-exports the module of the same name


def imported(path: Path) -> set[str]:
    """The modules of hush that a file imports, wherever in it; not those for type checkers alone."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.startswith("hush.")}


def room_of(module: str) -> str:
    return module.split(".")[1]


def test_imports_point_to_earlier_rooms_only() -> None:
    later = {
        (module, name)
        for module in MODULES.keys() - {"hush"}
        for name in imported(MODULES[module])
        if room_of(name) != room_of(module) and LEVEL[room_of(name)] >= LEVEL[room_of(module)]
    }
    assert later == set()


# Methods that users look for on a class of an early room, although a later room does the work. They only forward.
FORWARDED = {"schema.schema": {"hush.tables.drafting", "hush.discovery.discover"}}  # Schema.draft, Schema.discover


def imported_by_name(text: str) -> set[str]:
    """The modules of hush that a source imports by their names as texts."""
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and node.args)
    firsts = (node.args[0] for node in calls if "import_module" in ast.dump(node.func))
    names = {first.value for first in firsts if isinstance(first, ast.Constant) and isinstance(first.value, str)}
    return {name for name in names if name.startswith("hush.")}


def test_an_early_room_reaches_a_later_one_only_to_forward_a_call() -> None:
    found = {module.removeprefix("hush."): imported_by_name(path.read_text()) for module, path in MODULES.items()}
    assert {module: names for module, names in found.items() if names} == FORWARDED
    assert imported_by_name("from importlib import import_module\nimport_module('hush.cli.main')") == {"hush.cli.main"}


def test_the_layer_check_sees_an_import_of_a_later_room(tmp_path: Path) -> None:
    path = tmp_path / "early.py"
    path.write_text("def late():\n    from hush.cli import main\n    return main\n")
    assert imported(path) == {"hush.cli.main"}
    assert LEVEL["cli"] > LEVEL["privacy"]


EVERYWHERE = ("_version", "core", "files", "render")
ANNEX_DOORS = {  # rooms and modules of the core that each annex may import; see the README.md in its folder
    "hybrid": (
        "privacy.account",
        "privacy.budget",
        "privacy.conversions",
        "privacy.discovery",
        "privacy.events",
        "privacy.gate",
        "privacy.ledger",
        "privacy.noise",
        "privacy.sensitivity",
        "privacy.sum_query",
    ),
    "training": ("privacy.conversions", "privacy.events", "privacy.ledger", "privacy.sensitivity"),
    "pareto": (
        "training",
        "privacy.budget",
        "privacy.exact_sampling",
        "privacy.ledger",
        "privacy.sensitivity",
        "schema",
        "tables",
        "workloads",
        "mechanisms",
        "planning",
        "evaluation.workload_error",
    ),
}


@pytest.mark.parametrize("annex", ANNEX_DOORS)
def test_an_annex_enters_the_core_by_its_doors_alone(annex: str) -> None:
    doors = tuple(f"hush.{door}." for door in (annex, *EVERYWHERE, *ANNEX_DOORS[annex]))
    modules = [path for module, path in MODULES.items() if f"{module}.".startswith(f"hush.{annex}.")]
    assert len(modules) > 3
    assert {name for path in modules for name in imported(path) if not f"{name}.".startswith(doors)} == set()
    assert (SOURCE / annex / "README.md").exists()


def test_nothing_but_the_command_line_imports_an_annex() -> None:
    others = [module for module in MODULES if module != "hush" and room_of(module) not in {*ANNEX_DOORS, "cli"}]
    assert [name for module in others for name in imported(MODULES[module]) if room_of(name) in ANNEX_DOORS] == []


def test_no_two_modules_share_a_name() -> None:
    names = Counter(path.name for path in MODULES.values() if path.name not in SAME_PART | PUBLIC_DOORS)
    assert {name for name, times in names.items() if times > 1} == set()


def test_a_room_has_at_most_22_files() -> None:
    rooms = Counter(path.parent for path in MODULES.values())
    assert {room.name: files for room, files in rooms.items() if files > 22} == {}


def test_no_two_classes_share_a_name() -> None:
    nodes = (node for path in MODULES.values() for node in ast.walk(ast.parse(path.read_text())))
    names = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    assert {name for name, times in names.items() if times > 1} == set()
