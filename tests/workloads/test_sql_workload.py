"""Without noise, the blocks of a workload say of the exact counts what DuckDB says of the rows."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

import hush
from dense_twins import DenseEstimates
from hush.core.errors import HushError, QueryError, SizeError, WorkloadError
from hush.linops import Dense, Identity
from hush.release.sql_answers import answer_sql
from hush.schema import Boolean, Categorical, Date, Integer, Numeric, Schema
from hush.workloads import ProductTerm, Workload
from hush.workloads import sql_workload as module
from hush.workloads.sql_workload import workload_of_sql

SCHEMA = Schema(
    [
        Integer(name="age", low=-1, high=4, missing=True),
        Categorical(name="Sex", values=("m", "f"), other=True, missing=True),
        Boolean(name="odd name", missing=True),
        Numeric(name="inc", edges=(0, 10, 20.5, 40), missing=True),
        Date(name="day", start=dt.date(2020, 1, 1), end=dt.date(2020, 1, 3)),
        Categorical(name="one", values=("same",)),
    ]
)
QUOTED = {name: f'"{name}"' if " " in name else name for name in SCHEMA.domain}
ATOMS = {
    "age": ("age >= 2", "age BETWEEN 0 AND 3", "age IN (1, 4)", "age IS NULL", "NOT age = 1", "2 > age", "age <> 9"),
    "Sex": ("Sex = 'f'", "Sex IN ('m', 'f')", "Sex IS NOT NULL", "Sex <> 'm'", "Sex IS DISTINCT FROM 'm'"),
    "odd name": ('"odd name"', 'NOT "odd name"', '("odd name" IS TRUE)', '"odd name" IS NULL'),
    "inc": ("inc < 10", "inc >= 20.5", "inc IS NOT NULL", "inc >= 0"),
    "day": ("day <= DATE '2020-01-02'", "day > '2020-01-01'"),
    "one": ("one = 'same'",),
}
EVERY = tuple(atom for atoms in ATOMS.values() for atom in atoms)
COUNTS = ("COUNT(*)", "COUNT(age)", "COUNT(*) FILTER (WHERE {})", "SUM(CASE WHEN {} THEN 1 ELSE 0 END)", "COUNT_IF({})")


@functools.cache
def source() -> tuple[duckdb.DuckDBPyConnection, np.ndarray]:
    """Rows with their codes beside them, and their exact counts."""
    rng = np.random.default_rng(7)
    codes = {column.name: rng.integers(0, column.size, 300) for column in SCHEMA}
    rows = SCHEMA.decode(codes)
    for name, own in codes.items():
        rows = rows.append_column(f"code {name}", pa.array(own))
    connection = duckdb.connect()
    connection.register("t", rows)
    table = np.zeros(SCHEMA.domain.shape)
    np.add.at(table, tuple(codes.values()), 1)
    return connection, table


def answers(workload: Workload, groups: Sequence[str]) -> dict[tuple[int, ...], float]:
    """What the blocks make of the counts, by the codes of the groups; each number is asked for once."""
    found: dict[tuple[int, ...], float] = {}
    for term in workload:
        outside = tuple(i for i, name in enumerate(SCHEMA.domain) if name not in term.clique)
        values = source()[1].sum(axis=outside)
        for axis, block in enumerate(term.blocks):
            values = np.moveaxis(np.tensordot(block.dense(), values, axes=(1, axis)), 0, axis)
        own = dict(zip(term.clique, term.blocks, strict=True))
        for place, value in np.ndenumerate(values):
            at = dict(zip(term.clique, place, strict=True))
            key = tuple(int(own[name].dense()[at[name]].argmax()) if name in own else 0 for name in groups)
            assert key not in found
            found[key] = value
    return found


def rows_of(count: str, where: str, groups: Sequence[str]) -> dict[tuple[int, ...], float]:
    """The same from DuckDB."""
    codes = ", ".join(f'"code {name}"' for name in groups)
    text = f"SELECT {codes + ', ' if groups else ''}{count} FROM t WHERE {where}" + (
        f" GROUP BY {codes}" * bool(groups)
    )
    return {tuple(row[:-1]): float(row[-1] or 0) for row in source()[0].execute(text).fetchall()}


def query_of(count: str, where: str, groups: Sequence[str]) -> str:
    names = ", ".join(QUOTED[name] for name in groups)
    return f"SELECT {names + ', ' if groups else ''}{count} FROM t WHERE {where}" + (
        f" GROUP BY {names}" * bool(groups)
    )


@st.composite
def conditions(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.sampled_from(EVERY), min_size=1, max_size=4))
    for i, part in enumerate(parts):
        kind = draw(st.sampled_from(["plain", "plain", "or", "not"]))
        if kind == "or":
            parts[i] = f"({part} OR {draw(st.sampled_from(EVERY))})"
        elif kind == "not":
            parts[i] = f"NOT ({part} OR {draw(st.sampled_from(EVERY))})"
    return " AND ".join(parts)


@settings(max_examples=150)
@given(st.sampled_from(COUNTS), st.sampled_from(EVERY), conditions(), st.sets(st.sampled_from(list(ATOMS)), max_size=3))
def test_answers_are_those_of_duckdb(count: str, inner: str, where: str, chosen: set[str]) -> None:
    groups = [name for name in SCHEMA.domain if name in chosen]
    count = count.format(inner)
    text = query_of(count, where, groups)
    note(text)
    try:
        workload = workload_of_sql(SCHEMA, text)
    except WorkloadError as error:
        assume("couples" not in str(error) and "true for no level" not in str(error))
        raise
    found, expected = answers(workload, groups), rows_of(count, where, groups)
    assert {key for key, value in expected.items() if value} <= set(found)
    assert found == {key: expected.get(key, 0.0) for key in found}
    ones = answer_sql(text, SCHEMA, DenseEstimates(SCHEMA.domain, np.ones(SCHEMA.domain.shape)))
    assert workload.queries == int((ones.estimate > 0).sum())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT COUNT(*) FROM t", ProductTerm((), ())),
        ("SELECT COUNT(*) FROM t WHERE one = 'same' AND 1 = 1", ProductTerm((), ())),
        ("SELECT Sex, one, COUNT(*) FROM t GROUP BY ALL", ProductTerm(("Sex",), (Identity(4),))),
        ("SELECT COUNT(*) FROM t WHERE Sex = 'f'", ProductTerm(("Sex",), (Dense([[0, 1, 0, 0]]),))),
        ("SELECT day, COUNT(*) FROM t WHERE day > '2020-01-01' GROUP BY 1 ORDER BY 2 DESC", None),
        ("SELECT COUNT(*) FROM t WHERE (age = 1 OR age = 2) AND (Sex = 'm' OR Sex = 'f')", None),
        ("SELECT COUNT(*) FROM t WHERE NOT (age = 1 OR Sex = 'm')", None),
    ],
)
def test_conjunctions_are_one_product(text: str, expected: ProductTerm | None) -> None:
    (term,) = workload_of_sql(SCHEMA, text)
    assert expected is None or term == expected


def test_a_condition_over_many_columns_needs_no_joint_table() -> None:
    schema = Schema([Integer(name=f"x{i}", low=0, high=99) for i in range(30)])
    where = " AND ".join(f"x{i} < {i + 1}" for i in range(30))
    workload = Workload.sql(
        schema, f"SELECT x0, COUNT(*) FILTER (WHERE x2 > 0 AND x3 > 0) FROM t WHERE {where} GROUP BY x0"
    )
    (term,) = workload
    assert [int(block.dense().sum()) for block in term.blocks] == [1, 2, 2, 3, *range(5, 31)]


def test_columns_coupled_with_groups_are_cut_into_several_products() -> None:
    workload = workload_of_sql(SCHEMA, "SELECT Sex, COUNT(*) FROM t WHERE Sex = 'f' OR age = 1 GROUP BY Sex")
    assert [term.queries for term in workload] == [3, 1]
    assert workload.cliques == (("age", "Sex"), ("Sex",))
    assert answers(workload, ["Sex"]) == {
        (code,): rows_of("COUNT(*)", "Sex = 'f' OR age = 1", ["Sex"]).get((code,), 0.0) for code in range(4)
    }


def test_several_queries_are_added_and_weighted() -> None:
    texts = [
        "SELECT Sex, COUNT(*) FROM t GROUP BY Sex",
        "SELECT COUNT(*) FROM t",
        "SELECT Sex, COUNT(*) FROM t GROUP BY Sex",
    ]
    workload = Workload.sql(SCHEMA, texts, weights=[1.0, 2.0, 3.0])
    assert workload == 4.0 * Workload.marginals(SCHEMA.domain, [("Sex",)]) + 2.0 * Workload.kway(SCHEMA.domain, 0)
    assert Workload.sql(SCHEMA, ";\n".join(texts), weights=[1.0, 2.0, 3.0]) == workload
    both = Workload.sql(SCHEMA, "SELECT COUNT(*), COUNT(*) FILTER (WHERE age = 1) AS ones FROM t")
    assert [term.clique for term in both] == [(), ("age",)]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "SELECT COUNT(*) FROM t WHERE age = 1 OR Sex = 'f'",
            WorkloadError,
            "age = 1 OR Sex = 'f' couples the columns age, Sex",
        ),
        (
            "SELECT day, COUNT(*) FROM t WHERE day > '2020-01-01' AND (age = 1 OR Sex = 'f') GROUP BY day",
            WorkloadError,
            "disjoint cases in queries of their own",
        ),
        ("SELECT COUNT(*) FILTER (WHERE age = 1 OR inc < 10) FROM t", WorkloadError, "couples the columns age, inc"),
        ("SELECT SUM(age) FROM t", WorkloadError, "SUM\\(age\\) is not a count of rows"),
        ("SELECT AVG(age) FROM t", WorkloadError, "not a count of rows"),
        ("SELECT COUNT(*) + 1 FROM t", WorkloadError, "not a count of rows"),
        ("SELECT 2 * COUNT(*) FROM t", WorkloadError, "not a count of rows"),
        ("SELECT 1 FROM t", QueryError, "has no aggregate"),
        ("SELECT COUNT(*) FROM t WHERE age = 1 AND age = 2", WorkloadError, "age = 1 AND age = 2 is true for no level"),
        ("SELECT COUNT(*) FROM t WHERE FALSE", WorkloadError, "true for no level"),
        ("SELECT COUNT(*) FROM t WHERE agee = 1", QueryError, "did you mean 'age'"),
        ("SELECT COUNT(*) FROM t WHERE inc < 5", QueryError, "the bin"),
        ("SELECT Sex, COUNT(*) FROM t GROUP BY Sex LIMIT 2", QueryError, "LIMIT and OFFSET"),
        ("SELECT * FROM t", QueryError, "SELECT \\* asks for rows"),
        ("SELECT COUNT(*) FROM t; SELECT SUM(age) FROM t", WorkloadError, "^query 2: SUM"),
        ("SELECT COUNT(*) FROM t; SELECT COUNT(*) FROM t WHERE x", QueryError, "^query 2: column 'x'"),
        ("", WorkloadError, "the workload is empty"),
        (
            "SELECT COUNT(*) FROM t WHERE " + "(" * 3000 + "TRUE" + ")" * 3000,
            HushError,
            "nested too deeply|not valid SQL",
        ),
    ],
)
def test_what_is_no_product_is_refused(text: str, error: type[HushError], message: str) -> None:
    with pytest.raises(error, match=message):
        workload_of_sql(SCHEMA, text)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(WorkloadError, match="2 weights for 1 queries"):
        Workload.sql(SCHEMA, "SELECT COUNT(*) FROM t", weights=[1, 2])
    with pytest.raises(WorkloadError, match="weight -1"):
        Workload.sql(SCHEMA, "SELECT COUNT(*) FROM t", weights=[-1])
    with pytest.raises(WorkloadError, match="empty"):
        Workload.sql(SCHEMA, [])
    with pytest.raises(WorkloadError, match="expected a Schema, .* got Domain"):
        Workload.sql(SCHEMA.domain, "SELECT COUNT(*) FROM t")  # type: ignore[arg-type]


def test_only_the_schema_is_read() -> None:
    table = hush.read(hush.datasets.people(50, seed=1), hush.datasets.people_schema())
    with pytest.raises(WorkloadError, match="expected a Schema"):
        Workload.sql(table, "SELECT COUNT(*) FROM t")  # type: ignore[arg-type]
    assert Workload.sql(table.schema, "SELECT COUNT(*) FROM t").queries == 1


def test_sizes_are_checked_before_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_BLOCK", 10)
    with pytest.raises(SizeError, match="without a condition on it"):
        workload_of_sql(SCHEMA, "SELECT age, COUNT(*) FROM t WHERE age > 0 GROUP BY age")
    monkeypatch.setattr(module, "LARGEST_COUPLED", 10)
    with pytest.raises(SizeError, match="couples age, Sex over 28 cells"):
        workload_of_sql(SCHEMA, "SELECT age, COUNT(*) FROM t WHERE age = 1 OR Sex = 'f' GROUP BY age")
    monkeypatch.setattr(module, "LARGEST_COUPLED", 100)
    monkeypatch.setattr(module, "LARGEST_PRODUCTS", 1)
    with pytest.raises(WorkloadError, match="union of more than 1 products"):
        workload_of_sql(SCHEMA, "SELECT age, COUNT(*) FROM t WHERE age = 1 OR Sex = 'f' GROUP BY age")
