"""What was drafted from private data stays marked: in files, copies, domains, plans; and is refused in plain words."""

import copy
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import hush
from hush.core.constraints import Constraint, fingerprint
from hush.core.domain import Domain
from hush.core.errors import DomainError, SchemaError
from hush.schema import ROW, Boolean, Categorical, Integer, Numeric, Schema, Unit
from hush.schema.schema import drafted_text, refuse_drafted
from hush.schema.schema_toml import read_toml

DRAFT = Schema(
    [
        Integer(name="age", low=0, high=113, from_private_data=True),
        Numeric.equal_width(name="income", low=0, high=70, bins=7, from_private_data=True),
        Categorical(name="sex", values=("f", "m")),
        Boolean(name="married"),
    ]
)
LEARNED = replace(Constraint.forbid(DRAFT.domain, ("age", "married"), [(3, 1)]), from_private_data=True)
BOTH = DRAFT.with_constraints(LEARNED)
NAMES = ("age", "income", "age × married")


@pytest.mark.parametrize(
    "change",
    [
        lambda schema, folder: read_toml(schema.to_toml()),
        lambda schema, folder: read_toml(read_toml(schema.to_toml()).to_toml()),
        lambda schema, folder: schema.save(folder / "s.toml") or Schema.load(folder / "s.toml"),
        lambda schema, folder: pickle.loads(pickle.dumps(schema)),  # noqa: S301
        lambda schema, folder: copy.deepcopy(schema),
        lambda schema, folder: schema.with_unit(Unit(column="id", max_rows=2)),
        lambda schema, folder: schema.with_unit(Unit(column="id", max_rows=2)).with_unit(ROW),
        lambda schema, folder: schema.with_constraints(),
        lambda schema, folder: schema.forbid(["sex", "married"], [["f", True]]),
        lambda schema, folder: schema.forbid(["age", "married"], [[5, True]]),  # joins the rule that was learned
        lambda schema, folder: Schema(list(schema), constraints=schema.constraints),
        lambda schema, folder: Schema([replace(c, missing=True) for c in schema]).with_constraints(
            replace(Constraint.forbid(Domain({"age": 115, "married": 3}), ("age", "married"), [(3, 1)]),
                    from_private_data=True)
        ),
        lambda schema, folder: hush.read(pa.table({name: pa.nulls(0) for name in schema.domain}), schema).schema,
    ],
)  # fmt: skip
def test_no_copy_of_a_schema_loses_the_mark(change, tmp_path: Path) -> None:
    changed = change(BOTH, tmp_path)
    assert changed.from_private_data == NAMES
    assert changed.domain.from_private_data == {"age", "income"}


def test_a_column_is_cleared_by_deleting_its_line() -> None:
    text = BOTH.to_toml()
    sections = text.split("\n\n")
    assert [part.count("from_private_data = true") for part in sections] == [0, 1, 1, 0, 0, 1]
    lines = sections[1].splitlines(keepends=True)
    sections[1] = "".join(line for line in lines if "from_private_data" not in line)
    assert read_toml("\n\n".join(sections)).from_private_data == ("income", "age × married")
    assert read_toml(text.replace("= true  #", "= false  #")).from_private_data == ()


def test_the_key_must_be_true_or_false() -> None:
    wrong = BOTH.to_toml().replace("from_private_data = true", 'from_private_data = "no"', 1)
    with pytest.raises(SchemaError, match=r"column 'age': from_private_data = 'no' \(a text\): expected true or false"):
        read_toml(wrong)
    with pytest.raises(SchemaError, match=r"column 'a': from_private_data=1: expected True or False"):
        Boolean(name="a", from_private_data=1)
    with pytest.raises(DomainError, match=r"from_private_data=1: expected True or False"):
        replace(LEARNED, from_private_data=1)


def test_domains_and_workloads_carry_the_mark() -> None:
    domain, clean = DRAFT.domain, Domain({name: DRAFT.domain[name] for name in DRAFT.domain})
    assert clean == domain
    assert not clean.from_private_data
    assert domain.project(("sex", "age")).from_private_data == {"age"}
    assert Schema.from_domain(domain).from_private_data == ("age", "income")
    assert copy.copy(domain).from_private_data == domain.from_private_data
    one, other = hush.Workload.kway(clean, 1), hush.Workload.kway(domain, 2)
    for workload in (one + other, other + one, 2.0 * other):
        assert workload.domain.from_private_data == {"age", "income"}
    with pytest.raises(DomainError, match="attribute 'a' is not in the domain"):
        Domain({"age": 3}, from_private_data=["a"])


def test_equality_is_about_codes_not_about_where_they_came_from() -> None:
    clean = Schema([replace(column, from_private_data=False) for column in DRAFT])
    assert clean == DRAFT
    assert hash(clean) == hash(DRAFT)
    assert clean.from_private_data == ()


def test_the_refusal_names_what_is_wrong_and_both_ways_out() -> None:
    refuse_drafted(())
    with pytest.raises(SchemaError) as refused:
        refuse_drafted(BOTH.from_private_data)
    message = str(refused.value)
    assert message.startswith("the schema was drafted from private data: age, income, age × married; ")
    for words in ("public knowledge", "delete from_private_data", "--schema-is-public", "schema_is_public=True"):
        assert words in message
    with pytest.raises(SchemaError, match=r"^the plan's schema was .* schema file, then plan again; or"):
        refuse_drafted(["age"], planned=True)


def test_long_and_odd_names_stay_short_and_printable() -> None:
    assert drafted_text(["a\x1b[31m", *"bcdefghi"]).endswith(r"data: a\x1b[31m, b, c, d, e, f and 3 more")


def test_the_fingerprint_changes_with_every_part_of_a_rule() -> None:
    def rule(sizes: dict[str, int], *cells: tuple[int, int]) -> Constraint:
        domain = Domain(sizes)
        return Constraint.forbid(domain, tuple(domain), cells)

    rules = [
        rule({"a": 2, "b": 3}, (0, 0)),
        rule({"a": 2, "b": 3}, (0, 1)),
        rule({"a": 2, "b": 3}, (0, 0), (1, 1)),
        rule({"a": 3, "b": 2}, (0, 0)),
        rule({"a": 2, "c": 3}, (0, 0)),
    ]
    prints = {fingerprint([rule]) for rule in rules} | {fingerprint(rules[:2]), fingerprint(())}
    assert len(prints) == len(rules) + 2
    assert fingerprint([Constraint(rules[0].clique, np.array(rules[0].allowed))]) == fingerprint(rules[:1])
