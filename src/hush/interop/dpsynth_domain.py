"""dpsynth: the domain of a schema, as its `domain.yaml` holds it; `hush.Schema.load` reads such files."""

from __future__ import annotations

from typing import Any

from hush.core.errors import SchemaError
from hush.schema import Boolean, Categorical, Integer, Numeric, Outside, Schema
from hush.schema.column import OTHER_VALUE, canonical


def dpsynth_domain(schema: Schema) -> dict[str, Any]:
    """The columns as dpsynth describes them; write it with `yaml.safe_dump` and read it back with `hush.Schema.load`.

    Dates have no form there and are refused, as are bins of unequal width and rules. A categorical column that allows
    missing values needs the level `other`, since dpsynth counts both alike.

    >>> dpsynth_domain(Schema([Categorical(name="sex", values=("f", "m"), other=True)]))
    {'sex': {'possible_values': ['other', 'f', 'm'], 'out_of_domain_index': 0}}
    """
    if schema.constraints:
        raise SchemaError("rules are not written for dpsynth; leave them out with Schema(schema.columns)")
    domain: dict[str, Any] = {}
    for column in schema:
        if isinstance(column, Boolean):
            domain[column.name] = {"possible_values": [False, True]}
        elif isinstance(column, Categorical) and (column.other or not column.missing):
            ahead = [OTHER_VALUE] if column.other else []
            values = [value if isinstance(value, str | int | float) else canonical(value) for value in column.values]
            domain[column.name] = {"possible_values": [*ahead, *values]}
            if column.other:
                domain[column.name]["out_of_domain_index"] = 0
        elif isinstance(column, Integer | Numeric) and not column.points and _even(column):
            domain[column.name] = {
                "min_value": column.low,
                "max_value": column.high,
                "dtype": "int" if isinstance(column, Integer) else "float",
                "clip_to_range": column.outside is Outside.CLAMP,
                "num_bins": column.levels,
            }
        else:
            raise SchemaError(
                f"column {column.name!r}: dpsynth has no form for it; it takes values, booleans, and numbers in "
                "bins of equal width"
            )
    return domain


def _even(column: Integer | Numeric) -> bool:
    """Whether the bins are those of equal width."""
    if isinstance(column, Integer):
        even = Integer.starts_of_equal_width(column.low, column.high, column.levels)
        return not column.starts or column.starts == even
    return column.edges == Numeric.edges_of_equal_width(column.low, column.high, len(column.edges) - 1)
