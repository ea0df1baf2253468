"""Pandas types: which types the columns of a schema have in pandas; the schema alone says so, not the private table."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hush.core.errors import HushError
from hush.schema.column import Column, alike
from hush.schema.column_kinds import Boolean, Categorical, Integer

if TYPE_CHECKING:
    import pyarrow as pa

_NULLABLE = {Integer: ("int64", "Int64"), Boolean: ("bool", "boolean")}


def extra(name: str) -> ModuleType:
    """A package that hush can do without, pandas or polars."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise HushError(f"to_{name}() needs {name}, which is not installed; run pip install 'hush[{name}]'") from None


def with_nullable_types(table: pa.Table, columns: Iterable[Column]) -> pa.Table:
    """The table with what pyarrow's `to_pandas` needs for the nullable types of columns that allow missing."""
    stated = [column for column in columns if column.part is None and column.missing and type(column) in _NULLABLE]
    keys = ("name", "field_name", "pandas_type", "numpy_type", "metadata")
    entries = [(column.name, column.name, *_NULLABLE[type(column)], None) for column in stated]
    metadata = {
        "index_columns": [],
        "column_indexes": [],
        "columns": [dict(zip(keys, entry, strict=True)) for entry in entries],
        "pandas_version": "2.0.0",
    }
    return table.replace_schema_metadata({"pandas": json.dumps(metadata)})


def frame_of(table: pa.Table, columns: Iterable[Column]) -> Any:
    """The table as a pandas DataFrame: categories with all levels, days as datetime64, nullable types where needed."""
    import pyarrow as pa
    import pyarrow.compute as pc

    extra("pandas")
    listed = {column.name: column for column in columns if column.name in table.column_names}
    for name, column in listed.items():
        if isinstance(column, Categorical):
            levels = pa.array([level for level in alike(column.level_values()) if level is not None])
            values = table[name].combine_chunks()
            codes = pc.index_in(values.cast(levels.type), value_set=levels)
            categories = pa.DictionaryArray.from_arrays(codes, levels)
            table = table.set_column(table.column_names.index(name), name, categories)
    return with_nullable_types(table, listed.values()).to_pandas(date_as_object=False)
