"""Pandas types: rows of a schema have the types that its columns say, whatever rows they are."""

import datetime as dt
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hush
from hush.core.errors import HushError
from hush.schema import Boolean, Categorical, Date, Integer, Numeric, Schema, TimeOfDay, Timestamp

DAYS = {"start": dt.date(2024, 1, 1), "end": dt.date(2024, 12, 31)}
SCHEMA = Schema(
    [
        Categorical(name="sex", values=("f", "m"), missing=True),
        Categorical(name="rank", values=(3, 1, 2)),
        Categorical(name="city", values=("ulm", 7), other=True),
        Boolean(name="owner"),
        Boolean(name="smokes", missing=True),
        Integer(name="age", low=0, high=99),
        Integer(name="children", low=0, high=9, missing=True),
        Numeric(name="income", edges=(0, 10, 100), missing=True),
        Date(name="moved", granularity="month", missing=True, **DAYS),
        Timestamp(name="pickup", parts=("weekday", "hour"), missing=True, **DAYS),
        TimeOfDay(name="departure", missing=True),
    ]
)
KINDS = ["category", "category", "category", "bool", "boolean", "int64", "Int64", "float64"]


def kinds(frame: pd.DataFrame) -> list[str]:
    return [str(kind).split("[")[0] for kind in frame.dtypes]


def rows(*codes: str) -> pa.Table:
    """A row of first levels, or of last ones, for each."""
    return SCHEMA.decode({c.name: np.array([0 if code == "first" else c.size - 1 for code in codes]) for c in SCHEMA})


@pytest.mark.parametrize("codes", [("first",), ("last",), ("first", "last"), ()], ids=str)
def test_types_follow_from_the_schema_and_not_from_the_rows(codes: tuple[str, ...]) -> None:
    frame = SCHEMA.to_pandas(rows(*codes))
    assert kinds(frame) == [*KINDS, "datetime64", "datetime64", "object"]
    assert len(frame) == len(codes)


def test_categories_are_all_levels_in_their_order() -> None:
    frame = SCHEMA.to_pandas(rows("first", "last"))
    assert frame["sex"].cat.categories.tolist() == ["f", "m"]
    assert frame["rank"].cat.categories.tolist() == [3, 1, 2]
    assert frame["city"].cat.categories.tolist() == ["ulm", "7", "other"]
    assert not frame["sex"].cat.ordered
    assert frame["sex"].tolist()[0] == "f"
    assert frame["rank"].tolist() == [3, 2]
    assert frame["city"].tolist() == ["ulm", "other"]


def test_missing_is_missing_in_every_type() -> None:
    frame = SCHEMA.to_pandas(rows("last"))
    allowed = [column.source for column in SCHEMA if column.missing]
    assert frame[allowed].isna().all(axis=None)
    assert not frame.drop(columns=allowed).isna().any(axis=None)


def test_values_are_those_of_the_rows() -> None:
    frame = SCHEMA.to_pandas(rows("first"))
    assert frame.loc[0, "moved"] == pd.Timestamp("2024-01-01")
    assert frame.loc[0, "pickup"] == pd.Timestamp("2024-01-01 00:00:00")
    assert frame.loc[0, "departure"] == dt.time(0)
    assert (frame.loc[0, "age"], frame.loc[0, "children"], bool(frame.loc[0, "owner"])) == (0, 0, False)


def test_rows_of_a_file_get_the_same_types(tmp_path) -> None:
    pq.write_table(rows("first", "last").replace_schema_metadata(None), tmp_path / "rows.parquet")
    frame = SCHEMA.to_pandas(pq.read_table(tmp_path / "rows.parquet"))
    assert kinds(frame) == [*KINDS, "datetime64", "datetime64", "object"]
    part = SCHEMA.to_pandas(rows("first").select(["age", "sex"]))
    assert kinds(part) == ["int64", "category"]


def test_synthetic_rows_in_pandas_are_read_as_the_rows_they_are() -> None:
    table = rows(*["first", "last"] * 200)
    codes = hush.read(SCHEMA.to_pandas(table), SCHEMA)
    for name in SCHEMA.domain:
        counts = codes.counts([(name,)])[(name,)]
        assert counts[0] == counts[-1] == 200


def test_plain_conversion_gives_what_a_csv_gives_but_for_missing_integers() -> None:
    """`to_pandas` of pyarrow knows texts and numbers; without the schema, categories are texts and days are objects."""
    frame = rows("first", "last").to_pandas()
    assert [str(frame[name].dtype) for name in ("smokes", "age", "children")] == ["boolean", "int64", "Int64"]
    assert frame["pickup"].dtype.kind == "M"
    assert frame["moved"].tolist()[0] == dt.date(2024, 1, 1)


def test_without_pandas_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(HushError, match=r"needs pandas, which is not installed; run pip install 'hush\[pandas\]'"):
        SCHEMA.to_pandas(rows("first"))
