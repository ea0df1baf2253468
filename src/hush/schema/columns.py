"""The kinds of column, by the name they have in a schema file."""

from hush.schema.categorical import Boolean, Categorical
from hush.schema.column import LARGEST_INTEGER, LARGEST_SIZE, OTHER, Column, Outside, Value, canonical
from hush.schema.dates import Date, Granularity
from hush.schema.numbers import Integer, Numeric, bin_of

KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Categorical, Boolean, Integer, Numeric, Date)}

__all__ = [
    "KINDS",
    "LARGEST_INTEGER",
    "LARGEST_SIZE",
    "OTHER",
    "Boolean",
    "Categorical",
    "Column",
    "Date",
    "Granularity",
    "Integer",
    "Numeric",
    "Outside",
    "Value",
    "bin_of",
    "canonical",
]
