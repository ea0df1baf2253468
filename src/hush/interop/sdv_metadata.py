"""SDV and SDMetrics: the metadata of a table, so that their reports run on real and synthetic rows."""

from __future__ import annotations

from typing import Any

from hush.schema import Boolean, Categorical, Column, Date, Integer, Numeric, Schema
from hush.schema.stamps import Timestamp

DAY_FORMAT, MOMENT_FORMAT = "%Y-%m-%d", "%Y-%m-%d %H:%M:%S"
KINDS: dict[type[Column], str] = {
    Categorical: "categorical",
    Boolean: "boolean",
    Integer: "numerical",
    Numeric: "numerical",
    Date: "datetime",
}


def sdv_metadata(schema: Schema, *, table: str = "table") -> dict[str, Any]:
    """The metadata of one table as SDV reads it, `Metadata.load_from_dict(sdv_metadata(schema))`.

    SDMetrics takes the part of one table: `sdv_metadata(schema)["tables"]["table"]`.

    >>> from hush.datasets import people_schema
    >>> sdv_metadata(people_schema())["tables"]["table"]["columns"]["moved"]
    {'sdtype': 'datetime', 'datetime_format': '%Y-%m-%d'}
    """
    columns: dict[str, dict[str, str]] = {}
    for column in schema:
        if column.part is not None:
            moments = {"sdtype": "datetime", "datetime_format": MOMENT_FORMAT}
            times = {"sdtype": "categorical"}  # a time of day without a date
            columns[column.source] = moments if isinstance(column.part.stamp, Timestamp) else times
        elif isinstance(column, Date):
            columns[column.name] = {"sdtype": KINDS[Date], "datetime_format": DAY_FORMAT}
        else:
            columns[column.name] = {"sdtype": KINDS[type(column)]}
    return {"METADATA_SPEC_VERSION": "V1", "tables": {table: {"columns": columns}}, "relationships": []}
