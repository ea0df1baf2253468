"""Frames: pandas, polars and Arrow tables as Arrow columns that DuckDB can read.

Columns of Python objects become text element by element, so that a cell means the same whatever the types of its
neighbours. This file never imports pandas or polars: they are installed only if the user passes their objects.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hush.core.errors import DataError
from hush.files.csv_cells import is_text
from hush.schema.column import canonical
from hush.schema.number_spelling import NumberSpelling
from hush.tables.dialects.dialect import attempt, is_a
from hush.tables.rows_per_unit import exact_digits, rounded_ids
from hush.tables.sources import gathered

LARGEST_WRITTEN = 10**400  # beyond any float64; Python refuses to write much longer integers as text
TEXT_OBJECTS = frozenset({str, bytes, float, type(None)})  # types of a column of texts; a float may be NaN
INTEGER_OBJECTS = frozenset({int, type(None)})
NUMBER_OBJECTS = (int, np.integer, float, np.floating, decimal.Decimal)
ArrowColumn: TypeAlias = pa.Array | pa.ChunkedArray
Spellings = Mapping[str, NumberSpelling]  # by column, for columns whose texts do not spell numbers plainly
NO_SPELLINGS: Spellings = {}
Spelling = Callable[[Any, str], str | None]  # an object and the name of its column -> its text: `text_of` or `id_of`
SpellingOf = Callable[[str], Spelling]  # by the name of a column
Conversion = Callable[[Any, Sequence[int], SpellingOf], pa.Table | pa.RecordBatchReader]


def spelling_of(unit: str | None = None, spellings: Spellings = NO_SPELLINGS, counts: str | None = None) -> SpellingOf:
    """How objects become text, by the name of their column: the ids of `unit` and the `counts` are never rounded."""

    def spelled_text(decimal: str, value: Any, name: str) -> str | None:
        text = text_of(value, name)
        return text.replace(".", decimal) if isinstance(value, NUMBER_OBJECTS) and text is not None else text

    def choose(name: str) -> Spelling:
        if name in (unit, counts):
            return id_of if name == unit else count_of
        return partial(spelled_text, spellings[name].decimal) if name in spellings else text_of

    return choose


PLAIN_SPELLING = spelling_of()


def recognised(source: Any) -> tuple[str, list[str], Conversion] | None:
    """What messages call a frame, its column names, and the function that converts it; None if it is no frame."""
    if isinstance(source, pa.Table | pa.RecordBatch):
        return "the Arrow table", source.schema.names, from_arrow
    if isinstance(source, pa.RecordBatchReader):
        return "the Arrow reader", source.schema.names, from_reader
    if is_a(source, "pandas", "DataFrame"):
        return "the DataFrame", [str(label) for label in source.columns], from_pandas
    if is_a(source, "polars", "DataFrame"):
        return "the DataFrame", source.columns, from_polars
    return None


# Conversions take columns by position, since names may repeat.


def from_pandas(frame: Any, positions: Sequence[int], spell: SpellingOf = PLAIN_SPELLING) -> pa.Table:
    """Some columns of a pandas DataFrame."""
    labels = [str(label) for label in frame.columns]
    columns = [partial(_pandas_column, frame.iloc[:, at]) for at in positions]
    return _table([labels[at] for at in positions], columns, spell)


def from_polars(frame: Any, positions: Sequence[int], spell: SpellingOf = PLAIN_SPELLING) -> pa.Table:
    """Some columns of a polars DataFrame."""
    names = [frame.columns[at] for at in positions]
    return _table(names, [partial(_polars_column, frame[name]) for name in names], spell)


def from_arrow(
    table: pa.Table | pa.RecordBatch, positions: Sequence[int], spell: SpellingOf = PLAIN_SPELLING
) -> pa.Table:
    """Some columns of an Arrow table."""
    names = [table.schema.names[at] for at in positions]
    return _table(names, [partial(readable, table.column(at)) for at in positions], spell)


def from_reader(
    reader: pa.RecordBatchReader, positions: Sequence[int], spell: SpellingOf = PLAIN_SPELLING
) -> pa.RecordBatchReader:
    """Some columns of an Arrow stream, converted batch by batch; reading the result uses up the stream."""
    schema = from_arrow(reader.schema.empty_table(), positions, spell).schema

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            yield from from_arrow(batch, positions, spell).cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def from_lists(names: Sequence[str], lists: Sequence[Sequence[Any]], spell: SpellingOf) -> pa.Table:
    """Columns of Python objects as text."""
    return _table(names, [partial(_object_column, values) for values in lists], spell)


def _table(
    names: Sequence[str], conversions: Sequence[Callable[[str, Spelling], ArrowColumn]], spell: SpellingOf
) -> pa.Table:
    """The converted columns; whatever error an object raises becomes a DataError."""
    calls = []
    for name, conversion in zip(names, conversions, strict=True):
        failed = f"column {name!r} holds objects that cannot be read; convert them to text, numbers or dates"
        calls.append(partial(attempt, partial(conversion, name, spell(name)), failed))
    return pa.table(gathered(calls), names=list(names))


def readable(column: ArrowColumn, name: str, spell: Spelling) -> ArrowColumn:
    """An Arrow column in a type that DuckDB reads, with the same values."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        storage = column.storage if isinstance(column, pa.Array) else column.cast(kind.storage_type)
        return readable(storage, name, spell)
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    if pa.types.is_dictionary(kind) and not is_text(kind.value_type):
        return readable(_converted(column, kind.value_type, name), name, spell)
    if pa.types.is_run_end_encoded(kind):
        return readable(pc.run_end_decode(column), name, spell)
    if pa.types.is_float16(kind):
        if spell in EXACT_SPELLINGS:  # a float32 no longer says which integers were rounded
            return _spelled([None if half is None else np.float16(half) for half in column.to_pylist()], name, spell)
        return _converted(column, pa.float32(), name)
    if pa.types.is_decimal(kind) and kind.bit_width > 128:
        if spell is not text_of:  # Arrow's text keeps zeros at the end of an id, and has a decimal point
            return _spelled(column.to_pylist(), name, spell)
        return _converted(column, pa.string(), name)
    if pa.types.is_timestamp(kind) and kind.tz is not None and (spell in EXACT_SPELLINGS or kind.unit == "ns"):
        return _converted(column, pa.timestamp(kind.unit), name)  # in UTC; DuckDB can do little with zoned nanoseconds
    if is_text(kind) or pa.types.is_dictionary(kind):
        # text that is not UTF-8 would bring DuckDB down
        attempt(lambda: column.validate(full=True), f"column {name!r} holds text that is not UTF-8; convert it")
    return column


def text_of(value: Any, name: str) -> str | None:
    """A Python object as the text by which it is compared; None if it is missing.

    Times with a zone are converted to UTC, and a time at midnight becomes its date, as in every other source.
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
        return str(int(value)) if abs(int(value)) < LARGEST_WRITTEN else "inf" if value > 0 else "-inf"
    if isinstance(value, float | np.floating | decimal.Decimal):
        if isinstance(value, decimal.Decimal) and value.is_nan():
            return None
        number = value if isinstance(value, float) else float(str(value))  # a float32 by its own shortest digits
        return None if math.isnan(number) else canonical(number)
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            beyond = f"column {name!r} holds a time that has no date in UTC; convert it to one of the years 1 to 9999"
            value = attempt(lambda: value.astimezone(dt.UTC).replace(tzinfo=None), beyond)
        return _moment(str(value))
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else _moment(_to_the_second(value, name))
    if isinstance(value, dt.date | dt.time | uuid.UUID):
        return str(value)
    raise DataError(
        f"column {name!r} holds objects of type {type(value).__name__}; convert them to text, numbers or dates"
    )


def id_of(value: Any, name: str) -> str | None:
    """A Python object as the text of a unit's id, without rounding; None where it is missing."""
    digits = count_of(value, name)
    if digits == "" and isinstance(value, NUMBER_OBJECTS):
        raise DataError(rounded_ids(name))
    return digits


def count_of(value: Any, name: str) -> str | None:
    """A Python object as the text of a count; None where it is missing, empty where it may have been rounded."""
    if isinstance(value, NUMBER_OBJECTS) and not isinstance(value, bool):
        return exact_digits(value)
    return text_of(value, name)


EXACT_SPELLINGS: tuple[Spelling, ...] = (id_of, count_of)  # of numbers that must not be rounded


def _moment(text: str) -> str:
    """A timestamp as DuckDB writes it, with all digits of its second; a date if it is midnight."""
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.removesuffix(" 00:00:00")


def _to_the_second(value: np.datetime64, name: str) -> str:
    """The text of a timestamp to the second; numpy would write less for a coarser unit."""
    if np.datetime_data(value.dtype)[0] in {"Y", "M", "W", "D", "h", "m"}:
        seconds = value.astype("datetime64[s]")
        if seconds.astype(value.dtype) != value:  # numpy wraps around
            raise DataError(f"column {name!r} holds a time that is too far away; convert it to text")
        value = seconds
    return str(value).replace("T", " ")


def _pandas_column(series: Any, name: str, spell: Spelling) -> ArrowColumn:
    kind = str(series.dtype)
    if hasattr(series, "cat") and kind == "category":
        texts = _spelled(series.cat.categories, name, spell)
        codes = series.cat.codes.to_numpy()
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int64), mask=codes < 0), texts)
    if kind == "object":
        return _object_column(series.to_numpy(), name, spell)
    if kind.startswith("period"):  # stored as numbers of periods since 1970, which mean nothing by themselves
        return _pandas_column(series.dt.start_time, name, spell)
    if kind.startswith("Sparse"):
        return _pandas_column(series.sparse.to_dense(), name, spell)
    if kind in {"float128", "float96", "longdouble"}:
        if spell in EXACT_SPELLINGS:
            return _spelled(series.to_numpy(), name, spell)
        series = series.astype("float64")
    unsupported = f"column {name!r} is stored as {kind}, which cannot be read; convert it to text, numbers or dates"
    return readable(attempt(lambda: pa.array(series, from_pandas=True), unsupported), name, spell)


def _polars_column(series: Any, name: str, spell: Spelling) -> ArrowColumn:
    kind = str(series.dtype)
    if kind == "Object":
        return _object_column(series.to_list(), name, spell)
    if kind in {"Int128", "UInt128"}:
        series = series.cast(type(series)([""]).dtype)  # text
    unsupported = f"column {name!r} is stored as {kind}, which cannot be read; convert it to text, numbers or dates"
    plain = series.alias("column")  # polars panics on a name that holds a zero byte
    return readable(attempt(plain.to_arrow, unsupported), name, spell)


def _object_column(values: Sequence[Any], name: str, spell: Spelling) -> ArrowColumn:
    """Text where every element is text or missing; else element by element."""
    kinds = set(map(type, values))
    if kinds <= INTEGER_OBJECTS and not isinstance(spell, partial):
        with contextlib.suppress(DataError):  # an integer of more than 64 bits
            return attempt(lambda: pa.array(values, pa.int64()).cast(pa.string()), "too wide")
    if kinds <= TEXT_OBJECTS:  # Arrow crashes on some other objects
        with contextlib.suppress(DataError):  # a float that is not missing, or text that is not UTF-8
            return attempt(lambda: readable(pa.array(values, pa.string(), from_pandas=True), name, spell), "not text")
    return _spelled(values, name, spell)


def _spelled(values: Iterable[Any], name: str, spell: Spelling) -> pa.Array:
    texts = [spell(value, name) for value in values]
    return attempt(lambda: pa.array(texts, pa.string()), f"column {name!r} holds text that is not UTF-8; convert it")


def _converted(column: ArrowColumn, kind: pa.DataType, name: str) -> ArrowColumn:
    failed = f"column {name!r} is stored as {column.type}, which cannot be read; convert it to text or numbers"
    return attempt(lambda: column.cast(kind), failed)
