"""Exact sums of values: every engine gives the integers of the grid, over the rows that count for their units."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from hush.core.errors import DataError
from hush.privacy.sum_query import SumQuery
from hush.schema import Categorical, Integer, Numeric, Schema, TimeOfDay, Unit
from hush.tables.read import read
from hush.workloads.sum_term import sum_terms

SCHEMA = Schema(
    [
        Categorical(name="sex", values=("f", "m")),
        Numeric(name="fare", edges=(0.0, 10.0, 50.0, 200.0), points=(0.0,), missing=True, outside="clamp"),
        Integer.equal_width(name="age", low=0, high=99, bins=5),
    ]
)


def people(rows: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    fare = np.where(random.random(rows) < 0.2, 0.0, random.exponential(40, rows).round(2))
    fare[random.random(rows) < 0.1] = np.nan
    fare[random.random(rows) < 0.02] = 1e9
    return pd.DataFrame(
        {
            "sex": random.choice(["f", "m"], rows),
            "fare": fare,
            "age": random.integers(0, 100, rows),
            "id": random.integers(0, rows // 3, rows),
        }
    )


def twin(frame: pd.DataFrame, query: SumQuery) -> np.ndarray:
    """The sums by numpy."""
    columns = {name: SCHEMA[name] for name in {*query.clique, query.grid.column}}
    codes = {}
    for name, column in columns.items():
        if isinstance(column, Categorical):
            codes[name] = frame[name].map({"f": 0, "m": 1}).to_numpy()
        else:
            numbers = frame[name].clip(column.low, column.high)
            missing = 0 if column.missing_code is None else column.missing_code
            codes[name] = np.array([missing if np.isnan(n) else column.code_of(n) for n in numbers])
    u = query.grid.integers(frame[query.grid.column].to_numpy(float), codes[query.grid.column])
    if not query.clique:
        return np.asarray(u.sum())
    totals = np.zeros(SCHEMA.domain.sizes(query.clique), dtype=np.int64)
    np.add.at(totals, tuple(codes[name] for name in query.clique), u)
    return totals


def queries() -> list[SumQuery]:
    asked = [("fare", ()), ("fare", ("sex",)), ("fare", ("sex", "fare")), ("age", ("sex",)), ("age", ("fare", "age"))]
    terms = [term for name, by in asked for term in sum_terms(SCHEMA, name, by)[0]]
    squares = sum_terms(SCHEMA, "age", ("sex",), variance=True)[0]
    return list(dict.fromkeys(term.query for term in (*terms, *squares)))


@pytest.mark.parametrize("engine", ["memory", "stream", "sql"])
def test_sums_are_those_of_the_grid_on_every_engine(engine: str) -> None:
    frame = people(500, 1)
    table = read(frame, SCHEMA, engine=engine)
    sums = table.sums(queries())
    assert {query.grid.power for query in sums} == {1, 2}
    for query, exact in sums.items():
        assert exact.dtype == np.int64
        np.testing.assert_array_equal(exact, twin(frame, query), err_msg=str(query.clique))


def test_numbers_spelled_as_text_are_added_up_alike() -> None:
    frame = people(200, 2)
    text = frame.assign(fare=[None if np.isnan(f) else repr(f) for f in frame["fare"]])
    for query, exact in read(text, SCHEMA).sums(queries()[:3]).items():
        np.testing.assert_array_equal(exact, twin(frame, query))


@pytest.mark.parametrize("rows", [1, 2])
def test_only_the_rows_that_count_for_their_unit_are_added_up(rows: int) -> None:
    frame, query = people(300, 3), queries()[1]
    table = read(frame, SCHEMA, unit="id", max_rows_per_unit=rows)
    whole = table.sums([query])[query]
    moved = []
    for who in frame["id"].unique()[:25]:
        rest = read(frame[frame["id"] != who], SCHEMA, unit="id", max_rows_per_unit=rows)
        moved.append(int(np.abs(whole - rest.sums([query])[query]).sum()))
    assert max(moved) <= rows * query.grid.steps
    assert max(moved) > 0


def test_every_row_counts_as_often_as_in_the_counts() -> None:
    """A column that is 1 everywhere is added up to the counts, where units are cut too."""
    schema = Schema([Integer(name="one", low=-1, high=1), SCHEMA["sex"]], unit=Unit(column="id", max_rows=2))
    frame = people(300, 4).assign(one=1)
    table = read(frame, schema)
    query = sum_terms(schema, "one", ("sex",))[0][0].query
    np.testing.assert_array_equal(table.sums([query])[query], table.counts([("sex",)])[("sex",)])


@pytest.mark.parametrize("engine", ["memory", "stream", "sql"])
def test_a_line_is_added_up_as_often_as_it_counts(engine: str) -> None:
    frame = people(300, 7)
    times = np.random.default_rng(8).integers(0, 4, len(frame))
    whole = frame.loc[frame.index.repeat(times)]
    for query, exact in read(frame.assign(n=times), SCHEMA, counts="n", engine=engine).sums(queries()).items():
        assert exact.dtype == np.int64
        np.testing.assert_array_equal(exact, twin(whole, query), err_msg=str(query.clique))


def test_sums_that_cannot_be_formed_are_refused_before_a_row_is_read() -> None:
    frame = people(50, 5)
    query = queries()[1]
    reader = pa.Table.from_pandas(frame).to_reader()
    with pytest.raises(DataError, match="only once"):
        read(reader, SCHEMA).require_sums([query])
    other = Schema([SCHEMA["sex"], Numeric(name="fare", edges=(0.0, 200.0), missing=True, outside="clamp")])
    with pytest.raises(DataError, match="another schema"):
        read(frame, other).require_sums([query])
    texts = Schema([SCHEMA["sex"], Categorical(name="fare", values=("a",), other=True, missing=True)])
    with pytest.raises(DataError, match="cannot be added up"):
        read(frame, texts).require_sums([query])


def test_refused_values_are_refused_in_sums_too() -> None:
    schema = Schema([SCHEMA["sex"], Numeric(name="fare", edges=(0.0, 10.0, 200.0), missing=True)])
    query = sum_terms(schema, "fare", ("sex",))[0][0].query
    with pytest.raises(DataError, match="outside its declared levels"):
        read(people(200, 6), schema, engine="stream").sums([query])


def test_parts_of_times_are_not_added_up() -> None:
    (term,) = sum_terms(Schema([Integer(name="opens.hour", low=0, high=23)]), "opens.hour")[0]
    table = read(pa.table({"opens": ["08:30"]}), Schema([TimeOfDay(name="opens")]))
    with pytest.raises(DataError, match="'opens.hour' is a part of the times in 'opens', which are not added up"):
        table.require_sums([term.query])
