"""Frame types: the kind of frame that somebody gave and the types of its columns, to give rows back alike.

Privacy: types are public facts, but the categories of a categorical type come from the rows, so they are not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa

from hush.core.errors import DataError
from hush.tables.dialects.dialect import attempt, is_a


@dataclass(frozen=True, slots=True)
class Categories:
    """A categorical type without its categories, and the type of these in pandas: rows get categories of their own."""

    of: Any = None


@dataclass(frozen=True, slots=True)
class FrameTypes:
    """Which library a frame is of, and the type of each of its columns.

    >>> import pandas as pd
    >>> types = FrameTypes.of(pd.DataFrame({"age": [31.0], "sex": ["f"]}))
    >>> types.library, types.rows_alike(pa.table({"age": [40]})).dtypes["age"]
    ('pandas', dtype('float64'))
    """

    library: str  # "pandas", "polars" or "pyarrow"
    types: Mapping[str, Any]
    labels: Mapping[str, Any] = field(default_factory=dict)  # what pandas calls the columns, which need not be texts

    @classmethod
    def of(cls, data: Any) -> Self:
        """The types of a frame; what is no frame of pandas or polars gets Arrow tables."""
        if is_a(data, "pandas", "DataFrame"):
            listed = zip(map(str, data.columns), data.dtypes, strict=True)
            types = {n: Categories(k.categories.dtype) if k.name == "category" else k for n, k in listed}
            return cls("pandas", types, {str(label): label for label in data.columns})
        if is_a(data, "polars", "DataFrame"):
            kinds = dict(data.schema)
            return cls("polars", {n: Categories() if str(k).startswith("Categorical") else k for n, k in kinds.items()})
        return cls("pyarrow", {})

    def rows_alike(self, rows: pa.Table) -> Any:
        """Rows as a frame of that library, with the types of the given frame wherever the values fit them."""
        if self.library == "pandas":
            frame = rows.to_pandas(ignore_metadata=True)
            for name in frame.columns:
                frame[name] = _converted(_in_pandas, frame[name], self.types.get(name))
            frame.columns = [self.labels.get(name, name) for name in frame.columns]
            return frame
        if self.library == "polars":
            import polars as pl

            frame = pl.DataFrame(rows)
            return frame.with_columns(
                _converted(_in_polars, frame[name], self.types.get(name)) for name in frame.columns
            )
        return rows.replace_schema_metadata(None)


def type_of(data: Any, name: str) -> Any:
    """The type of a column of a frame, as the library of the frame states it."""
    if is_a(data, "pandas", "DataFrame"):
        return data.dtypes.iloc[[str(label) for label in data.columns].index(name)]
    return data.schema[name] if is_a(data, "polars", "DataFrame") else data.schema.field(name).type


def _converted(convert: Callable[[Any, Any], Any], values: Any, kind: Any) -> Any:
    """A column in a type, or as it is if its values do not fit, such as missing values into integers.

    Bounds may be wider than an integer type: values beyond what it holds become the nearest that it holds.
    """
    if kind is not None:
        with suppress(DataError):
            return attempt(partial(convert, values, kind), "")
    return values


def _in_pandas(values: Any, kind: Any) -> Any:
    if isinstance(kind, Categories):
        values = values.astype("category")
        numbers = getattr(kind.of, "kind", "O") in "iuf"  # other texts and booleans would change their values
        return values.cat.rename_categories(values.cat.categories.astype(kind.of)) if numbers else values
    if getattr(kind, "tz", None) is not None:  # hush reads times with a zone in UTC
        return values.dt.tz_localize("UTC").astype(kind)
    if getattr(kind, "kind", "O") in "iu":
        held = np.iinfo(getattr(kind, "numpy_dtype", kind))
        values = values.clip(held.min, held.max)
    return values.astype(kind)


def _in_polars(values: Any, kind: Any) -> Any:
    import polars as pl

    if isinstance(kind, Categories):
        return values.cast(pl.Categorical)
    if getattr(kind, "time_zone", None) is not None:
        values = values.dt.replace_time_zone("UTC")  # in which hush reads times with a zone
    if kind == pl.Time:
        values = values.str.to_time()
    if kind.is_integer() and values.dtype.is_integer():
        values = values.clip(pl.select(kind.min()).item(), pl.select(kind.max()).item())
    return values.cast(kind)
