"""Real columns <-> codes: column kinds, the schema, its file formats, and drafting one."""

from hush.core.unit import ROW, Unit
from hush.schema.column import Column, Outside
from hush.schema.column_kinds import Boolean, Categorical, Date, Granularity, Integer, Numeric
from hush.schema.number_spelling import NumberSpelling
from hush.schema.schema import Schema, domain_and_constraints
from hush.schema.stamps import Stamp, TimeOfDay, Timestamp

__all__ = [
    "ROW",
    "Boolean",
    "Categorical",
    "Column",
    "Date",
    "Granularity",
    "Integer",
    "NumberSpelling",
    "Numeric",
    "Outside",
    "Schema",
    "Stamp",
    "TimeOfDay",
    "Timestamp",
    "Unit",
    "domain_and_constraints",
]
