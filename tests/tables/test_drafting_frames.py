"""Schema.draft: a first schema for rows in memory, refused by releases unless the rows are public."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import hush
from hush.core.errors import DataError, SchemaError
from hush.datasets import people
from hush.tables.drafting import draft_schema

ROWS: dict[str, list[Any]] = {
    "age": [31, None, 40],
    "sex": ["f", "m", "f"],
    "moved": [dt.date(2020, 1, 31), dt.date(2021, 5, 1), dt.date(2020, 7, 7)],
    "employed": [True, False, True],
}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, pa.RecordBatch.from_pydict])
def test_frames_are_drafted(make: Any) -> None:
    draft = hush.Schema.draft(make(ROWS))
    kinds = {column.name: (column.kind, column.missing) for column in draft}
    assert kinds["sex"] == ("categorical", False)
    assert kinds["age"] == ("integer", True)
    assert kinds["moved"] == ("date", False)
    assert kinds["employed"] == ("boolean", False)
    assert draft.from_private_data == tuple(ROWS)


def test_a_draft_is_that_of_the_command_line(tmp_path: Path) -> None:
    pa.parquet.write_table(people(200, seed=1), tmp_path / "people.parquet")
    (tmp_path / "draft.toml").write_text(draft_schema(tmp_path / "people.parquet", from_data=True, public=True))
    draft = hush.Schema.draft(people(200, seed=1), public=True)
    assert (
        draft
        == hush.Schema.load(tmp_path / "draft.toml")
        == hush.Schema.draft(tmp_path / "people.parquet", public=True)
    )
    assert draft.from_private_data == ()


def test_releases_refuse_a_draft_of_private_rows() -> None:
    frame = pa.table(ROWS)
    draft = hush.Schema.draft(frame)
    plan = hush.plan("1-way", hush.Budget(rho=0.5), schema=draft)
    with pytest.raises(SchemaError, match="drafted from private data: age, sex, moved, employed"):
        plan.release(hush.read(frame, draft))


@pytest.mark.parametrize("data", [3, {"a": [1]}, [1, 2], None])
def test_what_is_no_table_is_refused(data: Any) -> None:
    with pytest.raises(DataError, match="expected a pandas or polars DataFrame, a pyarrow Table, or the path of a CSV"):
        hush.Schema.draft(data)


def test_columns_need_names_of_their_own() -> None:
    with pytest.raises(DataError, match="columns 1 and 2 have the same name; rename one"):
        hush.Schema.draft(pd.DataFrame([[1, 2]], columns=["a", "a"]))
