"""Schema drafts of frames: what `Schema.draft` gives for rows in memory, or in a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from hush.core.errors import DataError
from hush.schema import Schema
from hush.schema.schema_toml import read_toml
from hush.tables import frames
from hush.tables.column_profiles import MEMORY
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.drafting import draft_schema
from hush.tables.sources import RowSource


def drafted(data: Any, *, public: bool = False) -> Schema:
    """The schema that the rows suggest, marked `from_private_data` unless they are public.

    Columns that no kind holds, ids and texts with too many values are left out.

    Privacy: values and bounds are exact facts about the rows, and releases refuse the marked schema.
    """
    source = data if isinstance(data, str | Path) else _rows(data)
    return read_toml(draft_schema(source, from_data=True, public=public))


def _rows(frame: Any) -> RowSource:
    """All columns of a frame."""
    convert: Callable[[Any, Sequence[int]], pa.Table]
    package = type(frame).__module__.split(".")[0]
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    if isinstance(frame, pa.Table):
        name, columns, convert = "the Arrow table", list(frame.schema.names), frames.from_arrow
    elif package in ("pandas", "polars") and type(frame).__name__ == "DataFrame":
        name, columns = "the DataFrame", [str(label) for label in frame.columns]
        convert = frames.from_pandas if package == "pandas" else frames.from_polars
    else:
        raise DataError(
            f"data of type {type(frame).__name__}: expected a pandas or polars DataFrame, a pyarrow Table, or the path "
            "of a CSV or Parquet file"
        )
    rows = convert(frame, range(len(columns)))
    return DUCKDB.open_frame(name, columns, rows, DUCKDB.connect(MEMORY, spill=False))
