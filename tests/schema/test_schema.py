"""Schema: columns in order, the unit, and decoding codes to real values."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hush
from drawn_schemas import columns
from hush import Measurement, fit
from hush.core.errors import DomainError, SchemaError
from hush.schema import ROW, Boolean, Categorical, Column, Date, Integer, Numeric, Schema, TimeOfDay, Unit
from hush.schema.column import canonical


def small() -> Schema:
    return Schema(
        [
            Integer(name="age", low=17, high=90, missing=True),
            Categorical(name="sex", values=("f", "m"), other=True, missing=True),
            Categorical(name="stage", values=(1, 2, 3), other=True),
            Boolean(name="smoker", missing=True),
            Numeric(name="income", edges=(0, 10, 100)),
            Date(name="seen", start=dt.date(2020, 1, 1), end=dt.date(2020, 12, 31), granularity="month"),
        ]
    )


def test_domain_has_the_sizes_of_the_columns() -> None:
    assert small().domain == hush.Domain({"age": 75, "sex": 4, "stage": 4, "smoker": 3, "income": 2, "seen": 12})
    assert [column.name for column in small()] == list(small().domain)
    assert len(small()) == 6


def test_the_domain_is_made_once() -> None:
    schema = Schema([Boolean(name="a")])
    assert schema.domain is schema.domain
    with pytest.raises(AttributeError):
        schema.domain = schema.domain  # type: ignore[misc]


def test_from_domain_holds_codes() -> None:
    schema = Schema.from_domain(hush.Domain({"a": 3, "b": 1}))
    assert schema.columns == (Integer(name="a", low=0, high=2), Integer(name="b", low=0, high=0))
    assert schema.decode({"a": np.array([2, 0])}).to_pydict() == {"a": [2, 0]}


def test_missing_decodes_to_null_and_other_to_other() -> None:
    codes = {
        "age": np.array([0, 74, 73], dtype=np.uint8),
        "sex": np.array([1, 2, 3], dtype=np.uint8),
        "stage": np.array([0, 2, 3], dtype=np.uint16),
        "smoker": np.array([0, 1, 2]),
        "income": np.array([0, 1, 1]),
        "seen": np.array([0, 1, 11]),
    }
    assert small().decode(codes).to_pydict() == {
        "age": [17, None, 90],
        "sex": ["m", "other", None],
        "stage": ["1", "3", "other"],  # text, since other is
        "smoker": [False, True, None],
        "income": [5.0, 55.0, 55.0],
        "seen": [dt.date(2020, 1, 1), dt.date(2020, 2, 1), dt.date(2020, 12, 1)],
    }


@given(columns(), st.data())
def test_decoded_values_encode_to_the_same_codes(column: Column, data: st.DataObject) -> None:
    codes = data.draw(st.lists(st.integers(0, min(column.size, 500) - 1), max_size=6))
    decoded = Schema([column]).decode({"x": np.array(codes, dtype=np.int64)})["x"].to_pylist()
    assert [reference_code(column, value) for value in decoded] == codes


def reference_code(column: Column, value: object) -> int | None:
    """The code of a decoded value, found by the definition of each kind."""
    if value is None:
        return column.missing_code
    match column:
        case Categorical():
            text = canonical(value)
            return column.texts.index(text) if text in column.texts else column.other_code
        case Integer():
            return next(k for k in range(column.levels) if column.ends(k)[0] <= value <= column.ends(k)[1])
        case Numeric():
            return column.code_of(value)
        case Date():
            return column.ordinal(value)
        case _:
            return int(value)


def test_decoding_does_not_list_the_levels_of_a_wide_range() -> None:
    schema = Schema([Integer(name="x", low=-5, high=2**31 - 7, missing=True)])
    codes = np.array([0, 2**31 - 2, 2**31 - 1])
    assert schema.decode({"x": codes})["x"].to_pylist() == [-5, 2**31 - 7, None]


def test_decoding_no_rows_keeps_the_columns() -> None:
    table = small().decode({"age": np.array([]), "sex": np.array([], dtype=np.uint8)})
    assert (table.num_rows, table.column_names) == (0, ["age", "sex"])
    assert table.schema.field("age").type == pa.int64()


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ({"age": np.array([75])}, "codes must lie in 0 .. 74"),
        ({"age": np.array([-1])}, "codes must lie in 0 .. 74"),
        ({"age": np.array([0.5])}, "one-dimensional array of integer codes"),
        ({"age": np.array([[1]])}, "one-dimensional array of integer codes"),
        ({"age": np.array([1, 2]), "sex": np.array([1])}, "differ in length"),
    ],
)
def test_codes_that_are_none_are_refused(codes: dict, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        small().decode(codes)


def test_unknown_columns_are_named_with_a_suggestion() -> None:
    with pytest.raises(DomainError, match=r"'agee' is not in the domain; did you mean 'age'\?"):
        small()["agee"]


def test_contradictions_are_refused() -> None:
    age = Integer(name="age", low=0, high=1)
    with pytest.raises(SchemaError, match="'age' is declared twice"):
        Schema([age, age])
    with pytest.raises(SchemaError, match="declares no columns"):
        Schema([])
    with pytest.raises(SchemaError, match="'age' is the privacy unit and cannot be counted too"):
        Schema([age], unit=Unit(column="age"))
    with pytest.raises(SchemaError, match="'age': expected a column, such as Integer"):
        Schema(["age"])


def test_equality_and_hash_follow_columns_order_and_unit() -> None:
    a, b = Boolean(name="a"), Boolean(name="b")
    assert Schema([a, b]) == Schema([a, b])
    assert hash(Schema([a, b])) == hash(Schema([a, b]))
    assert len({Schema([a, b]), Schema([b, a]), Schema([a, b], unit=Unit(column="id"))}) == 3


def test_repr_says_kinds_sizes_and_unit() -> None:
    schema = Schema([Boolean(name="a")], unit=Unit(column="id", max_rows=3))
    assert repr(schema) == "Schema(a: boolean[2]; unit: id (at most 3 rows))"
    assert repr(Schema([Boolean(name="a")])) == "Schema(a: boolean[2]; unit: row)"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_rows": 2}, "max_rows = 2 cannot be enforced without an id column"),
        ({"column": "id", "max_rows": 0}, "max_rows=0: expected a whole number of at least 1"),
        ({"column": "id", "max_rows": True}, "max_rows=True: expected a whole number of at least 1"),
        ({"column": " "}, "column = ' ': expected the name of the id column"),
        ({"column": 3}, "column = 3: expected the name of the id column"),
    ],
)
def test_units_that_cannot_be_enforced_are_refused(given: dict, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Unit(**given)


def test_the_default_unit_is_a_row() -> None:
    assert Schema([Boolean(name="a")]).unit == ROW == Unit()


def test_whole_numbers_and_truth_values_stay_so_in_pandas_beside_missing_ones() -> None:
    columns = [
        Integer(name="n", low=0, high=3, missing=True),
        Integer(name="m", low=0, high=3),
        Boolean(name="b", missing=True),
        Boolean(name="c"),
        Numeric(name="x", edges=(0, 1, 2), missing=True),
    ]
    schema = Schema(columns)
    frame = schema.decode({column.name: np.array([0, column.size - 1]) for column in columns}).to_pandas()
    assert [str(kind) for kind in frame.dtypes] == ["Int64", "int64", "boolean", "bool", "float64"]
    assert frame["n"].isna().tolist() == frame["b"].isna().tolist() == [False, True]
    rows = fit(schema, [Measurement(("n",), [2.0, 2.0, 2.0, 2.0, 2.0], stddev=1.0)]).synthesize(rows=20, seed=1)
    assert [str(kind) for kind in rows.to_pandas().dtypes] == [str(kind) for kind in frame.dtypes]


def test_select_keeps_the_columns_named_with_their_unit_and_order() -> None:
    schema = small().with_unit(Unit(column="patient", max_rows=3))
    chosen = schema.select("seen", "age")
    assert chosen.columns == (schema["seen"], schema["age"])
    assert chosen.unit == schema.unit
    assert schema.drop("sex", "stage", "smoker", "income") == chosen.select("age", "seen")
    assert schema.drop() == schema
    with pytest.raises(DomainError, match="'aged' is not in the domain; did you mean 'age'"):
        schema.drop("aged")
    with pytest.raises(DomainError, match="names an attribute twice"):
        schema.select("age", "age")
    with pytest.raises(SchemaError, match="declares no columns"):
        schema.drop(*schema.domain)


def test_select_takes_times_whole_and_refuses_a_part_alone() -> None:
    pickup = TimeOfDay(name="pickup", parts=("hour", "minute"))
    schema = Schema([Boolean(name="paid"), pickup])
    assert schema.select("pickup").domain.attributes == ("pickup.hour", "pickup.minute")
    assert schema.drop("pickup").domain.attributes == ("paid",)
    with pytest.raises(SchemaError, match="declare it once, with all of its parts"):
        schema.drop("pickup.hour")


def test_select_keeps_what_rules_say_of_the_columns_that_stay() -> None:
    """A combination of the columns that stay is forbidden if the rule forbids it for every level of the others."""
    schema = Schema([Integer(name="a", low=0, high=2), Boolean(name="b"), Integer(name="c", low=0, high=1)])
    ruled = schema.forbid(["a", "b", "c"], [[0, True, [0, 1]], [1, True, 0]])
    (rule,) = ruled.drop("c").constraints
    assert rule.clique == ("a", "b")
    assert np.argwhere(~rule.allowed).tolist() == [[0, 1]]  # (1, True) is possible with c = 1
    assert ruled.select("c", "b", "a").constraints[0].clique == ("c", "b", "a")
    assert ruled.drop("a").constraints == ()
    learned = replace(ruled.constraints[0], from_private_data=True)
    assert schema.with_constraints(learned).drop("c").from_private_data == ("a × b",)
