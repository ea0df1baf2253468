"""Frame types: the kind of frame that somebody gave and the types of its columns, to give rows back alike.

Privacy: types are public facts, but the categories of a categorical type come from the rows, so they are not kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import pyarrow as pa

from hush.core.errors import DataError
from hush.tables.dialects.dialect import attempt, is_a

CATEGORY = "category"  # in place of a categorical type, whose categories are those of the rows that are given back


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
            types = {name: CATEGORY if kind.name == CATEGORY else kind for name, kind in listed}
            return cls("pandas", types, {str(label): label for label in data.columns})
        if is_a(data, "polars", "DataFrame"):
            kinds = dict(data.schema)
            return cls("polars", {n: CATEGORY if str(k).startswith("Categorical") else k for n, k in kinds.items()})
        return cls("pyarrow", {})

    def rows_alike(self, rows: pa.Table) -> Any:
        """Rows as a frame of that library, with the types of the given frame wherever the values fit them."""
        if self.library == "pandas":
            frame = rows.to_pandas(ignore_metadata=True)
            for name in frame.columns:
                frame[name] = _pandas_column(frame[name], self.types.get(name))
            frame.columns = [self.labels.get(name, name) for name in frame.columns]
            return frame
        if self.library == "polars":
            import polars as pl

            frame = pl.DataFrame(rows)
            for name in frame.columns:
                kind = self.types.get(name)
                with contextlib.suppress(DataError):  # values that do not fit the type stay as they are
                    frame = attempt(partial(_polars_cast, frame, name, kind), "")
            return frame
        return rows.replace_schema_metadata(None)


def type_of(data: Any, name: str) -> Any:
    """The type of a column of a frame, as the library of the frame states it."""
    if is_a(data, "pandas", "DataFrame"):
        return data.dtypes.iloc[[str(label) for label in data.columns].index(name)]
    return data.schema[name] if is_a(data, "polars", "DataFrame") else data.schema.field(name).type


def _polars_cast(frame: Any, name: str, kind: Any) -> Any:
    """A frame of polars with one column in another type."""
    import polars as pl

    column = frame[name]
    if getattr(kind, "time_zone", None) is not None:
        column = column.dt.replace_time_zone("UTC")  # in which hush reads times with a zone
    if kind == pl.Time:
        column = column.str.to_time()
    return frame.with_columns(column if kind is None else column.cast(pl.Categorical if kind == CATEGORY else kind))


def _pandas_column(values: Any, kind: Any) -> Any:
    """A column of pandas in a type, or as it is if its values do not fit, such as missing values into integers."""
    if kind is None:
        return values
    localized = getattr(kind, "tz", None) is not None  # hush reads times with a zone in UTC
    with contextlib.suppress(DataError):
        return attempt(lambda: (values.dt.tz_localize("UTC") if localized else values).astype(kind), "")
    return values
