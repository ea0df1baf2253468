"""Frame types: synthetic rows come back in the types of the given frame, whatever bounds were found."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from hush.tables.frame_types import FrameTypes

BEYOND = pa.table({"size": [-200, 0, 100, 300]})  # found bounds can be wider than a narrow type


@pytest.mark.parametrize("kind", ["int8", "uint8", "Int8", "UInt8"])
def test_numbers_beyond_a_narrow_integer_of_pandas_become_its_ends_and_never_wrap(kind: str) -> None:
    rows = FrameTypes.of(pd.DataFrame({"size": pd.Series([1], dtype=kind)})).rows_alike(BEYOND)
    low, high = (0, 255) if "u" in kind.lower() else (-128, 127)
    assert str(rows["size"].dtype) == kind
    assert rows["size"].tolist() == [low, 0, 100, high]


@pytest.mark.parametrize("kind", [pl.Int8, pl.UInt8])
def test_numbers_beyond_a_narrow_integer_of_polars_become_its_ends(kind: pl.DataType) -> None:
    rows = FrameTypes.of(pl.DataFrame({"size": pl.Series([1], dtype=kind)})).rows_alike(BEYOND)
    low, high = (0, 255) if kind == pl.UInt8 else (-128, 127)
    assert rows["size"].dtype == kind
    assert rows["size"].to_list() == [low, 0, 100, high]


def test_a_polars_column_whose_values_do_not_fit_its_type_stays_as_it_is() -> None:
    given = pl.DataFrame({"price": ["9.50"], "kind": ["a"]}).with_columns(
        pl.col("price").cast(pl.Decimal(4, 2)), pl.col("kind").cast(pl.Enum(["a"]))
    )
    rows = FrameTypes.of(given).rows_alike(pa.table({"price": [999.0], "kind": ["other"]}))
    assert rows.rows() == [(999.0, "other")]


def test_categories_that_are_numbers_come_back_as_numbers() -> None:
    given = pd.DataFrame({"grade": pd.Categorical([1, 2]), "sure": pd.Categorical([True, False])})
    rows = FrameTypes.of(given).rows_alike(pa.table({"grade": ["2", "1", None], "sure": ["false", "true", None]}))
    assert rows["grade"].cat.categories.dtype == np.dtype("int64")
    assert rows["grade"].tolist()[:2] == [2, 1]
    assert rows["grade"].isna().tolist() == [False, False, True]
    assert rows["sure"].tolist()[:2] == ["false", "true"]  # never True for the text "false"


def test_categories_of_the_given_frame_are_not_kept() -> None:
    assert "secret" not in repr(FrameTypes.of(pd.DataFrame({"name": pd.Categorical(["secret"])})))
    assert "secret" not in repr(FrameTypes.of(pl.DataFrame({"name": pl.Series(["secret"], dtype=pl.Categorical)})))
