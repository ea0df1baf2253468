"""Schema: the columns of a table, the code of each real value, and the privacy unit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hush.domain import Domain
from hush.errors import SchemaError
from hush.schema.columns import Column, Integer
from hush.schema.unit import ROW, Unit


class Schema:
    """Columns in order, each with its levels, and the privacy unit; public, and made without looking at rows.

    >>> from hush.schema.columns import Categorical, Integer
    >>> schema = Schema([Integer(name="age", low=0, high=99), Categorical(name="sex", values=("f", "m"), missing=True)])
    >>> schema.domain
    Domain({'age': 100, 'sex': 3})
    """

    __slots__ = ("_columns", "unit")

    def __init__(self, columns: Iterable[Column], *, unit: Unit = ROW) -> None:
        self._columns: dict[str, Column] = {}
        self.unit = unit
        for column in columns:
            if column.name in self._columns:
                raise SchemaError(f"column {column.name!r} is declared twice; keep one")
            self._columns[column.name] = column
        if not self._columns:
            raise SchemaError("the schema declares no columns; declare at least one")
        if unit.column in self._columns:
            raise SchemaError(f"column {unit.column!r} is the privacy unit and cannot be counted too; remove one")

    @classmethod
    def from_domain(cls, domain: Domain) -> Schema:
        """A schema for a table that already holds codes 0 .. size-1; anything else in it is refused."""
        return cls(Integer(name=name, low=0, high=domain[name] - 1) for name in domain)

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read hush's TOML, mbi's `domain.json` (name -> size) or dpsynth's `domain.yaml`."""
        from hush.schema.files import read_schema

        return read_schema(Path(path))

    def save(self, path: str | Path) -> None:
        """Write the schema as TOML."""
        Path(path).write_text(self.to_toml(), encoding="utf-8")

    def to_toml(self) -> str:
        """The schema as the text of its TOML file."""
        from hush.schema.files import write_toml

        return write_toml(self)

    @property
    def domain(self) -> Domain:
        """Names and sizes."""
        return Domain({name: column.size for name, column in self._columns.items()})

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, in order."""
        return tuple(self._columns.values())

    def decode(self, codes: Mapping[str, np.ndarray[Any, Any]]) -> pa.Table:
        """Codes of some columns as a table of real values; missing becomes null, a bin its middle."""
        arrays = {}
        for name, values in codes.items():
            column = self[name]
            levels = column.level_values()
            kinds = {type(level) for level in levels if level is not None}
            if len(kinds) > 1:  # such as numbers beside the text "other"
                levels = [None if level is None else str(level) for level in levels]
            if len(values) and (values.min() < 0 or values.max() >= column.size):
                raise SchemaError(f"column {name!r}: codes must lie in 0 .. {column.size - 1}")
            arrays[name] = pa.array(levels).take(pa.array(values, type=pa.int64()))
        return pa.table(arrays)

    def __getitem__(self, name: str) -> Column:
        self.domain.check((name,))
        return self._columns[name]

    def __iter__(self) -> Iterator[Column]:
        return iter(self._columns.values())

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.columns == other.columns and self.unit == other.unit

    def __hash__(self) -> int:
        return hash((self.columns, self.unit))

    def __repr__(self) -> str:
        kinds = ", ".join(f"{column.name}: {column.kind}[{column.size}]" for column in self)
        unit = "row" if self.unit.column is None else f"{self.unit.column} (at most {self.unit.max_rows} rows)"
        return f"Schema({kinds}; unit: {unit})"
