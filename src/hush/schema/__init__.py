"""Real columns <-> codes: column kinds, the schema, its file formats, and drafting one."""

from hush.schema.columns import Boolean, Categorical, Column, Date, Granularity, Integer, Numeric, Outside
from hush.schema.schema import Schema
from hush.schema.unit import ROW, Unit

__all__ = [
    "ROW",
    "Boolean",
    "Categorical",
    "Column",
    "Date",
    "Granularity",
    "Integer",
    "Numeric",
    "Outside",
    "Schema",
    "Unit",
]
