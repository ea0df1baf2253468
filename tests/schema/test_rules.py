"""Rules: constraints in a schema file, in real values; an exact round trip and one clear line for every mistake."""

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hush
from drawn_schemas import columns, schemas
from hush.core.constraints import Constraint
from hush.core.errors import DomainError, SchemaError, SizeError
from hush.schema import Boolean, Categorical, Integer, Schema, Unit, domain_and_constraints
from hush.schema.conditions import Conditions
from hush.schema.discovery_draft import Draft
from hush.schema.rules import Rules
from hush.schema.schema_toml import read_toml, value_text, write_toml

COLUMNS = """\
hush_schema = 1

[columns.age]
kind = "integer"
low = 0
high = 99
missing = true

[columns.marital]
kind = "categorical"
values = ["single", "married", "widowed"]

[columns.income]
kind = "numeric"
edges = [0, 10_000, 50_000, 120_000]

[columns.city]
kind = "categorical"
values = ["Lyon", "Paris", "Rome"]
other = true

[columns.state]
kind = "categorical"
values = ["FR", "IT"]
other = true
"""
RULES = """
[[forbidden]]
columns = ["marital", "age"]
rows = [[["married", "widowed"], {to = 14}]]

[[forbidden]]
columns = ["age", "income"]
rows = [
    [{to = 14}, {from = 10_000}],
    ["(missing)", 60_000],
]

[[allowed]]
columns = ["income"]
rows = [[{to = 50_000}], ["[50000, 120000]"]]

[[depends]]
column = "state"
on = ["city"]
rows = [["Lyon", "FR"], ["Paris", "FR"], ["Rome", "IT"]]
"""
WRITTEN = """\
[[forbidden]]
columns = ["age", "marital"]
rows = [
    [{from = 0, to = 14}, ["married", "widowed"]],
]

[[forbidden]]
columns = ["age", "income"]
rows = [
    [{from = 0, to = 14}, {from = 10000, to = 120000}],
    ["(missing)", {from = 50000, to = 120000}],
]

[[forbidden]]
columns = ["city", "state"]
rows = [
    [["Lyon", "Paris"], ["IT", "(other)"]],
    ["Rome", ["FR", "(other)"]],
]
"""


def test_the_example_reads_as_it_says() -> None:
    schema = read_toml(COLUMNS + RULES)
    domain, constraints = domain_and_constraints(schema)
    assert constraints == (
        Constraint.forbid(domain, ("age", "marital"), itertools.product(range(15), (1, 2))),
        Constraint.forbid(domain, ("age", "income"), [*itertools.product(range(15), (1, 2)), (100, 2)]),
        Constraint.depends(domain, "state", "city", {0: 0, 1: 0, 2: 1}),
    )
    assert repr(schema).endswith("; unit: row; 3 constraints)")


def test_the_example_is_written_briefly() -> None:
    written = write_toml(read_toml(COLUMNS + RULES))
    assert written.split("high = 99\n")[0] == COLUMNS.split("high = 99\n")[0]
    assert written[written.index("[[") :] == WRITTEN


def test_the_forms_in_python_are_those_of_the_file() -> None:
    made = (
        read_toml(COLUMNS)
        .depends("state", "city", [["Lyon", "FR"], ["Paris", "FR"], ["Rome", "IT"]])
        .allow(["age", "income"], [["*", 0], [{"from": 15}, {"from": 10_000}], ["(missing)", 20_000]])
        .forbid(["marital", "age"], [(("married", "widowed"), {"to": 14})])
    )
    assert made == read_toml(COLUMNS + RULES)
    assert hash(made) == hash(read_toml(COLUMNS + RULES))


def test_a_dependency_may_have_several_sources_and_wildcards() -> None:
    schema = read_toml(COLUMNS).depends(
        "marital", ["city", "state"], [["Lyon", "*", "single"], ["Rome", "IT", "married"]]
    )
    allowed = schema.constraints[0].allowed  # marital, city, state
    assert allowed[:, 0, :].T.tolist() == [[True, False, False]] * 3
    assert allowed[:, 2, 1].tolist() == [False, True, False]
    assert allowed.sum() == 3 + 1 + 3 * (12 - 4)


@st.composite
def constrained(draw: st.DrawFn) -> Schema:
    """A schema with constraints on its small columns that some row satisfies."""
    schema = draw(schemas())
    extra = [draw(columns(f"small {k}").filter(lambda column: column.size <= 9)) for k in range(2)]
    whole = Schema([*schema.columns, *extra], unit=schema.unit)
    small = [column.name for column in whole if column.size <= 9]
    row = {name: draw(st.integers(0, whole[name].size - 1)) for name in small}
    made = []
    for _ in range(draw(st.integers(1, 3))):
        clique = whole.domain.clique(draw(st.lists(st.sampled_from(small), min_size=1, max_size=3, unique=True)))
        shape = whole.domain.sizes(clique)
        density, seed = draw(st.sampled_from([0.1, 0.5, 0.9])), draw(st.integers(0, 2**32))
        table = np.random.default_rng(seed).random(shape) < density
        table[tuple(row[name] for name in clique)] = True
        made.append(Constraint(clique, table))
    return whole.with_constraints(*made)


@given(constrained())
def test_round_trip_is_exact(schema: Schema) -> None:
    text = write_toml(schema)
    again = read_toml(text)
    assert again == schema
    assert again.constraints == schema.constraints
    assert write_toml(again) == text


def test_equality_and_hash_consider_constraints_but_not_their_order() -> None:
    domain = hush.Domain({"a": 2, "b": 2})
    plain = Schema.from_domain(domain)
    first, second = Constraint.forbid(domain, ("a", "b"), [(0, 0)]), Constraint.forbid(domain, ("b",), [(1,)])
    made = plain.with_constraints(first, second)
    assert made == plain.with_constraints(second).with_constraints(first, first)
    assert len({plain, made, plain.with_constraints(first)}) == 3
    assert plain.with_constraints(Constraint.forbid(domain, ("a",), [])) == plain
    assert made != "schema"


def test_another_unit_keeps_the_constraints() -> None:
    schema = read_toml(COLUMNS + RULES)
    moved = schema.with_unit(Unit(column="id", max_rows=3))
    assert (moved.constraints, moved.unit.column) == (schema.constraints, "id")


def test_a_bare_domain_has_no_constraints() -> None:
    domain = hush.Domain({"a": 2})
    assert domain_and_constraints(domain) == (domain, ())
    assert domain_and_constraints(Schema.from_domain(domain)) == (domain, ())
    with pytest.raises(SchemaError, match="'a': expected a Schema or a Domain"):
        domain_and_constraints("a")


def test_constraints_of_another_domain_are_refused() -> None:
    with pytest.raises(DomainError, match="'b' is not in the domain"):
        Schema([Boolean(name="a")], constraints=[Constraint(("b",), np.array([True]))])
    with pytest.raises(DomainError, match="make it for this domain"):
        Schema([Boolean(name="a")], constraints=[Constraint(("a",), np.array([True]))])


def test_rows_that_are_forbidden_are_read_and_a_release_carries_the_claims(tmp_path: Path) -> None:
    schema = Schema([Integer(name="age", low=0, high=2), Boolean(name="married")]).forbid(
        ["age", "married"], [[0, True]]
    )
    rows = {"age": [0] * 1000 + [1, 2], "married": [True] * 1000 + [True, False]}
    table = hush.read(pa.table(rows), schema)
    plan = hush.plan(hush.Workload.kway(schema.domain, 2), hush.Budget(rho=10))
    plan.release(table).save(tmp_path / "release.hush")
    again = hush.load(tmp_path / "release.hush")
    assert again.schema == schema
    assert again.schema.constraints == schema.constraints != ()
    assert again.tables()[("age", "married")][0, 1] > 900  # measured like any other cell


def test_the_examples_of_the_documentation_are_read() -> None:
    page = (Path(__file__).parents[2] / "docs" / "schema.md").read_text()
    columns, levels, rules, drafted = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    more = {"marital": ["single", "married", "widowed"], "city": ["Lyon", "Paris", "Rome"], "state": ["FR", "IT"]}
    for name, values in more.items():
        columns += f'[columns.{name}]\nkind = "categorical"\nvalues = {values}\n'
    found = [(constraint.clique, constraint.forbidden) for constraint in read_toml(columns + rules).constraints]
    assert found == [(("age", "marital"), 31), (("income", "employed"), 22), (("city", "state"), 3)]
    assert Draft.read(f"hush_schema = 1\n{levels}").open_columns[0].open == ("levels",)
    assert read_toml(f"hush_schema = 1\n{drafted}").to_toml() == f"hush_schema = 1\n\n{drafted}"


def test_files_round_trip(tmp_path: Path) -> None:
    schema = read_toml(COLUMNS + RULES)
    schema.save(tmp_path / "schema.toml")
    assert Schema.load(tmp_path / "schema.toml") == schema


def rule(kind: str, *lines: str) -> str:
    return "\n".join([COLUMNS, f"[[{kind}]]", *lines])


AGE_MARITAL = 'columns = ["age", "marital"]'
BAD = {
    "unknown column": (
        rule("forbidden", 'columns = ["agee"]', "rows = [[3]]"),
        r"^\[\[forbidden\]\] number 1: attribute 'agee' is not in the domain; did you mean 'age'\?",
    ),
    "column twice": (rule("allowed", 'columns = ["age", "age"]', "rows = [[3, 3]]"), "names an attribute twice"),
    "columns as a text": (rule("allowed", 'columns = "age"', "rows = [[3]]"), "columns = 'age' .*: expected a list"),
    "columns of numbers": (rule("allowed", "columns = [3]", "rows = [[3]]"), "attribute 3 is not in the domain"),
    "no columns": (rule("allowed", "columns = []", "rows = [[]]"), r"columns = \[\]: expected at least one column"),
    "columns missing": (rule("allowed", "rows = [[3]]"), "columns is missing; name the columns"),
    "rows missing": (rule("allowed", AGE_MARITAL), "rows is missing; list combinations"),
    "no rows": (rule("forbidden", AGE_MARITAL, "rows = []"), "rows is empty; list combinations"),
    "rows of a wrong type": (rule("forbidden", AGE_MARITAL, "rows = 3"), "rows = 3 .*: expected a list"),
    "a row of a wrong type": (
        rule("forbidden", AGE_MARITAL, "rows = [3]"),
        r"\[\[forbidden\]\] number 1: row 1: found no list, expected a list of 2, for age, marital",
    ),
    "a row that is a text": (rule("forbidden", AGE_MARITAL, "rows = ['ab']"), "row 1: found no list, expected"),
    "a row that is too short": (
        rule("forbidden", AGE_MARITAL, "rows = [[3, 'single'], [3]]"),
        "row 2: found 1 values, expected a list of 2",
    ),
    "unknown label": (
        rule("forbidden", AGE_MARITAL, "rows = [[3, 'maried']]"),
        r"number 1: row 1: column 'marital': 'maried' is none of its levels; did you mean 'married'\? "
        "expected one of its values: 'single', 'married', 'widowed'$",
    ),
    "a range that cuts a bin": (
        rule("forbidden", "columns = ['income']", "rows = [[{to = 20_000}]]"),
        r"column 'income': 20000 cuts the bin \[10000, 50000\); write the edge 10000 or 50000",
    ),
    "a huge integer in a list": (
        rule("forbidden", AGE_MARITAL, f"rows = [[[0x{'f' * 9000}, []], 'single']]"),
        "the list holds another list",
    ),
    "a huge integer in a short row": (
        rule("forbidden", AGE_MARITAL, f"rows = [[0x{'f' * 9000}]]"),
        "row 1: found 1 values",
    ),
    "a huge integer in a range": (
        rule("forbidden", "columns = ['marital']", f"rows = [[{{from = 0x{'f' * 9000}}}]]"),
        "{from = an integer of 36000 bits} is a range, and a categorical column has no order",
    ),
    "everything forbidden": (
        rule("forbidden", "columns = ['marital']", "rows = [['*']]"),
        r"\[\[forbidden\]\] number 1: constraint over \('marital',\) forbids every combination",
    ),
    "unknown key": (
        rule("forbidden", "column = ['age']", "rows = [[3]]"),
        "unknown key 'column'; did you mean 'columns'?",
    ),
    "one table of rules": (
        COLUMNS + "\n[forbidden]\ncolumns = ['age']\nrows = [[3]]",
        r"^\[forbidden\] is in single brackets; write \[\[forbidden\]\], once for each rule$",
    ),
    "rules of a wrong type": (f"forbidden = [3]\n{COLUMNS}", r"\[\[forbidden\]\] number 1: found 3 .*expected a table"),
    "misspelt kind": (rule("forbiden", AGE_MARITAL, "rows = []"), "unknown key 'forbiden'; did you mean 'forbidden'?"),
    "no determined column": (rule("depends", "on = 'city'", "rows = [['Lyon', 'FR']]"), "column is missing; name the"),
    "nothing to depend on": (rule("depends", "column = 'state'", "rows = [['FR']]"), "on is missing; name the columns"),
    "an empty list to depend on": (
        rule("depends", "column = 'state'", "on = []", "rows = [['FR']]"),
        "column 'state' depends on no column",
    ),
    "on of a wrong type": (
        rule("depends", "column = 'state'", "on = 3", "rows = [['FR']]"),
        "on = 3 .*: expected a list",
    ),
    "values in the wrong order": (
        rule("depends", "column = 'state'", "on = 'city'", "rows = [['FR', 'Lyon']]"),
        r"column 'city': 'FR' is none of its levels; .* 'Lyon', 'Paris', 'Rome', .*; a row gives city, then state$",
    ),
    "two determined values": (
        rule("depends", "column = 'state'", "on = 'city'", "rows = [['Lyon', ['FR', 'IT']]]"),
        "row 1: column 'state': found 2 levels, expected the one that is determined; use allowed for several",
    ),
    "a value determined twice": (
        rule("depends", "column = 'state'", "on = 'city'", "rows = [['*', 'FR'], ['Lyon', 'IT']]"),
        "row 2 gives column 'state' a value other than a row before it",
    ),
    "rules that exclude each other": (
        rule("allowed", "columns = ['marital']", "rows = [['single']]", "[[forbidden]]", AGE_MARITAL)
        + "\nrows = [['*', 'single']]",
        r"leave no possible value of 'marital'; relax one of those over \('age', 'marital'\), \('marital',\)$",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes_are_named_in_one_line(case: str) -> None:
    text, message = BAD[case]
    with pytest.raises(SchemaError, match=message) as caught:
        read_toml(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_tables_too_large_are_refused_together_and_before_they_are_made() -> None:
    wide = "hush_schema = 1\n" + "".join(f"[columns.x{k}]\nkind = 'integer'\nlow = 0\nhigh = 3999\n" for k in range(4))
    pairs = [
        f"[[forbidden]]\ncolumns = ['x{j}', 'x{k}']\nrows = [[0, 0]]\n" for j, k in ((0, 1), (1, 0), (1, 2), (2, 3))
    ]
    assert len(read_toml(wide + "".join(pairs[:2])).constraints) == 1
    with pytest.raises(SchemaError, match=r"\[\[forbidden\]\] number 4: constraints of 48000000 cells need 384.0 MB"):
        read_toml(wide + "".join(pairs))
    with pytest.raises(SizeError, match="constrain fewer attributes together"):
        read_toml(wide).forbid(["x0", "x1", "x2"], [[0, 0, 0]])


_scalars = (
    st.booleans() | st.integers() | st.floats() | st.dates() | st.sampled_from(["*", "a", "b", "age", "x", "(missing)"])
)
_ranges = st.dictionaries(st.sampled_from(["from", "to", "odd"]), _scalars, max_size=2)
_anything = st.recursive(_scalars | _ranges, lambda inner: st.lists(inner, max_size=3))


@settings(max_examples=200)
@given(
    st.sampled_from(["forbidden", "allowed", "depends"]),
    st.dictionaries(st.sampled_from(["columns", "column", "on"]), st.just(["age", "x"]) | st.just("x") | _anything),
    st.lists(st.lists(_anything, min_size=1, max_size=3), max_size=3) | _anything,
)
def test_any_values_give_a_schema_or_one_line(kind: str, entries: dict[str, Any], rows: Any) -> None:
    schema = Schema([Integer(name="age", low=0, high=9, missing=True), Categorical(name="x", values=("a", "b"))])
    lines = [f"{key} = {value_text(value)}" for key, value in {**entries, "rows": rows}.items()]
    text = "\n".join([write_toml(schema), f"[[{kind}]]", *lines])
    result = outcome(text)
    assert isinstance(result, Schema) or (len(result.splitlines()) == 1 and len(result) < 1000)


def outcome(text: str) -> Schema | str:
    try:
        return read_toml(text)
    except SchemaError as error:
        return str(error)


def test_constraints_over_many_levels_are_written_compactly() -> None:
    schema = Schema([Integer(name=name, low=0, high=999) for name in ("a", "b")])
    table = np.tri(1000, dtype=bool)
    made = schema.with_constraints(Constraint(("a", "b"), table))
    text = write_toml(made)
    assert text.count("\n    [") == 999
    assert read_toml(text) == made


def test_rules_that_write_the_same_cells_again_and_again_are_refused() -> None:
    schema = Schema([Integer(name="a", low=0, high=2**22 - 1)])
    rules = Rules(schema)
    assert rules.forbidden(["a"], [[{"to": 9}]] * 20).forbidden == 10
    with pytest.raises(SizeError, match="the rules so far list more than 134,217,728 combinations in all; list each"):
        rules.forbidden(["a"], [[{"to": 2**22 - 2}]] * 100)
    with pytest.raises(SizeError, match="more than 134,217,728"):
        for _ in range(40):
            rules.forbidden(["a"], [[0]])


def test_a_list_that_names_levels_twice_names_them_once() -> None:
    age = Conditions(Integer(name="age", low=0, high=99))
    for condition in (
        [{"from": 3, "to": 7}, 5, {"from": 6, "to": 9}, 3, 12],
        [12, {"from": 3, "to": 9}],
        [9, 12, 3, 4, 5, 6, 7, 8],
    ):
        assert age.codes(condition).tolist() == [3, 4, 5, 6, 7, 8, 9, 12]
    assert age.codes("*").tolist() == list(range(100))
