"""Tables that are already in memory (pandas, polars, Arrow) as Arrow columns that DuckDB can read.

Columns of Python objects become text element by element, so that a cell means the same whatever type its neighbours
have. pandas and polars are never imported here: only a user who holds their objects has them.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hush.errors import DataError
from hush.schema.columns import canonical
from hush.tables.engine import attempt

HUGE = 10**400  # beyond any float64; Python would refuse to write much longer integers as text


def from_pandas(frame: Any, positions: Sequence[int]) -> pa.Table:
    """Some columns of a pandas DataFrame, by position since names may repeat."""
    labels = [str(label) for label in frame.columns]
    arrays = [_pandas_column(frame.iloc[:, at], labels[at]) for at in positions]
    return pa.table(arrays, names=[labels[at] for at in positions])


def from_polars(frame: Any, positions: Sequence[int]) -> pa.Table:
    """Some columns of a polars DataFrame."""
    names = [frame.columns[at] for at in positions]
    return pa.table([_polars_column(frame[name], name) for name in names], names=names)


def from_arrow(table: pa.Table | pa.RecordBatch, positions: Sequence[int]) -> pa.Table:
    """Some columns of an Arrow table, by position since names may repeat."""
    names = [table.schema.names[at] for at in positions]
    return pa.table([readable(table.column(at), table.schema.names[at]) for at in positions], names=names)


def from_reader(reader: pa.RecordBatchReader, positions: Sequence[int]) -> pa.RecordBatchReader:
    """Some columns of an Arrow stream, converted batch by batch; using the result uses up the stream."""
    schema = from_arrow(reader.schema.empty_table(), positions).schema

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            yield from from_arrow(batch, positions).cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def readable(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Array | pa.ChunkedArray:
    """An Arrow column in a type that DuckDB reads, with the same values."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        storage = column.storage if isinstance(column, pa.Array) else column.cast(kind.storage_type)
        return readable(storage, name)
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    if pa.types.is_dictionary(kind) and not _is_text(kind.value_type):
        return readable(_converted(column, kind.value_type, name), name)
    if pa.types.is_run_end_encoded(kind):
        return readable(pc.run_end_decode(column), name)
    if pa.types.is_float16(kind):
        return _converted(column, pa.float32(), name)
    if pa.types.is_decimal(kind) and kind.bit_width > 128:
        return _converted(column, pa.string(), name)
    if _is_text(kind) or pa.types.is_dictionary(kind):
        # text that is not UTF-8 would bring DuckDB down
        attempt(lambda: column.validate(full=True), f"column {name!r} holds text that is not UTF-8; convert it")
    return column


def text_of(value: Any, name: str) -> str | None:
    """A Python object as the text by which it is compared; None where it is missing.

    Stamps with a time zone are taken in UTC, those at midnight are their date, as in every other source.
    """
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return None
    if isinstance(value, bytes):
        text: str = attempt(value.decode, f"column {name!r} holds text that is not UTF-8; convert it")
        return text
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return canonical(bool(value))
    if isinstance(value, int | np.integer):
        return str(int(value)) if abs(int(value)) < HUGE else "inf" if value > 0 else "-inf"
    if isinstance(value, float | np.floating | decimal.Decimal):
        number = _float_of(value)
        return None if math.isnan(number) else canonical(number)
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(dt.UTC).replace(tzinfo=None)
        return str(value.date()) if value.time() == dt.time() else str(value)
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value).replace("T00:00:00", "").replace("T", " ")
    if isinstance(value, dt.date | dt.time | uuid.UUID):
        return str(value)
    raise DataError(
        f"column {name!r} holds objects of type {type(value).__name__}; convert them to text, numbers or dates"
    )


def _float_of(value: float | np.floating[Any] | decimal.Decimal) -> float:
    if isinstance(value, decimal.Decimal):
        return math.nan if value.is_nan() else float(str(value))
    return float(str(value)) if isinstance(value, np.floating) else value  # a float32 by its own shortest digits


def _pandas_column(series: Any, name: str) -> pa.Array | pa.ChunkedArray:
    kind = str(series.dtype)
    if hasattr(series, "cat") and kind == "category":
        texts = pa.array([text_of(value, name) for value in series.cat.categories], pa.string())
        codes = series.cat.codes.to_numpy()
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int64), mask=codes < 0), texts)
    if kind == "object":
        return _object_column(series.to_numpy(), name)
    if kind.startswith("Sparse"):
        series = series.sparse.to_dense()
    if kind in {"float128", "float96", "longdouble"}:
        series = series.astype("float64")
    unsupported = f"column {name!r} is stored as {kind}, which cannot be read; convert it to text, numbers or dates"
    return readable(attempt(lambda: pa.array(series, from_pandas=True), unsupported), name)


def _polars_column(series: Any, name: str) -> pa.Array | pa.ChunkedArray:
    kind = str(series.dtype)
    if kind == "Object":
        return _object_column(series.to_list(), name)
    if kind in {"Int128", "UInt128"}:
        series = series.cast(type(series)([""]).dtype)  # text
    unsupported = f"column {name!r} is stored as {kind}, which cannot be read; convert it to text, numbers or dates"
    plain = series.alias("column")  # polars panics on a name that holds a zero byte
    return readable(attempt(plain.to_arrow, unsupported), name)


def _object_column(values: Sequence[Any], name: str) -> pa.Array:
    """Text where every element is text or missing; else element by element."""
    try:
        return readable(pa.array(values, pa.string(), from_pandas=True), name)
    except (pa.ArrowException, TypeError, ValueError):
        texts = [text_of(value, name) for value in values]
    return attempt(lambda: pa.array(texts, pa.string()), f"column {name!r} holds text that is not UTF-8; convert it")


def _converted(column: pa.Array | pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.Array | pa.ChunkedArray:
    failed = f"column {name!r} is stored as {column.type}, which cannot be read; convert it to text or numbers"
    return attempt(lambda: column.cast(kind), failed)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
