"""Schema: the columns of a table, the code of each real value, the possible combinations, and the privacy unit."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from hush.core.constraints import Constraint, contradiction, merge
from hush.core.domain import Domain
from hush.core.errors import HushError, SchemaError, printable, shown
from hush.core.unit import ROW, Unit
from hush.schema.column import Column, alike
from hush.schema.column_kinds import MOST_BINS, Boolean, Categorical, Integer
from hush.schema.number_spelling import NumberSpelling
from hush.schema.stamps import Stamp, joined

if TYPE_CHECKING:
    import pyarrow as pa


class Schema:
    """Columns in order, each with its levels, and the privacy unit; public, and made without looking at rows.

    Constraints say which combinations of values no row can have. They are claims of the owner that are never checked
    against the rows, since the outcome would be private; fitted models put exactly zero where they forbid.
    `from_private_data` names columns and rules that were drafted from private rows after all: a release refuses them.

    >>> from hush.schema.column_kinds import Categorical, Integer
    >>> age = Integer(name="age", low=0, high=99)
    >>> schema = Schema([age, Categorical(name="sex", values=("f", "m"), missing=True)])
    >>> schema.domain
    Domain({'age': 100, 'sex': 3})
    """

    __slots__ = ("_columns", "_constraints", "_domain", "unit")

    def __init__(
        self, columns: Iterable[Column | Stamp], *, unit: Unit = ROW, constraints: Iterable[Constraint] = ()
    ) -> None:
        self._columns: dict[str, Column] = {}
        self._constraints: tuple[Constraint, ...] = ()
        self.unit = unit
        bins = 0
        for column in _with_parts(columns):
            if not isinstance(column, Column):
                raise SchemaError(f"{shown(column)}: expected a column, such as Integer(name=..., low=..., high=...)")
            if column.name in self._columns:
                raise SchemaError(f"column {column.name!r} is declared twice; keep one")
            self._columns[column.name] = column
            bins += column.levels if column.binned else 0
            if bins > MOST_BINS:
                raise SchemaError(
                    f"the numeric columns up to {column.name!r} have {bins:,} bins in all: at most {MOST_BINS:,} are "
                    "possible; use fewer"
                )
        if not self._columns:
            raise SchemaError("the schema declares no columns; declare at least one")
        if unit.column in (*self._columns, *(column.source for column in self)):
            raise SchemaError(f"column {unit.column!r} is the privacy unit and cannot be counted too; remove one")
        self._domain = Domain(
            {name: column.size for name, column in self._columns.items()},
            from_private_data=[name for name, column in self._columns.items() if column.from_private_data],
        )
        _check_stamps(self)
        listed = tuple(constraints)
        if listed:
            complaint = contradiction(self.domain, listed)
            if complaint is not None:
                raise SchemaError(complaint)
            self._constraints = merge(self.domain, listed)

    @classmethod
    def from_domain(cls, domain: Domain) -> Schema:
        """A schema for a table that already holds codes 0 .. size-1; anything else in it is refused."""
        return cls(
            Integer(name=name, low=0, high=domain[name] - 1, from_private_data=name in domain.from_private_data)
            for name in domain
        )

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read hush's TOML, mbi's `domain.json` (name -> size) or dpsynth's `domain.yaml`."""
        from hush.schema.schema_files import read_schema

        return read_schema(Path(path))

    @classmethod
    def draft(cls, data: Any, *, public: bool = False) -> Schema:
        """A first schema for a pandas, polars or Arrow table, or a CSV or Parquet file; print `to_toml()` and edit it.

        Privacy: reads the rows. Values and bounds are exact facts about them, so every column is marked
        `from_private_data`, which makes releases refuse the schema, unless you say that the rows are `public`.

        >>> import pyarrow as pa
        >>> draft = Schema.draft(pa.table({"age": [3, 41], "sex": ["f", "m"]}))
        >>> draft.domain, draft.from_private_data
        (Domain({'age': 39, 'sex': 2}), ('age', 'sex'))
        """
        drafts = import_module("hush.tables.drafting")  # by name: the room that reads rows comes after this one
        schema: Schema = drafts.drafted(data, public=public)
        return schema

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the schema as TOML, to a new file whose name ends in .toml; `overwrite` replaces another."""
        from hush.files.atomic_write import check_new
        from hush.schema.schema_files import save_schema

        check_new(path, overwrite=overwrite)
        save_schema(self, Path(path))

    def to_toml(self) -> str:
        """The schema as the text of its TOML file."""
        from hush.schema.schema_toml import write_toml

        return write_toml(self)

    @property
    def domain(self) -> Domain:
        """Names and sizes."""
        return self._domain

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, in order."""
        return tuple(self._columns.values())

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """Which combinations are possible: one constraint for each clique that has any, in the order of the columns."""
        return self._constraints

    @property
    def spellings(self) -> dict[str, NumberSpelling]:
        """How numbers are spelled in the columns whose texts do not spell them plainly."""
        return {column.name: column.number_spelling for column in self if not column.number_spelling.plain}

    @property
    def from_private_data(self) -> tuple[str, ...]:
        """The columns whose levels, and the rules, that came from private rows; such a schema is not public.

        A rule is named by its columns, such as "age × married".
        """
        rules = (" × ".join(rule.clique) for rule in self.constraints if rule.from_private_data)
        return (*(column.name for column in self if column.from_private_data), *rules)

    def select(self, *columns: str) -> Schema:
        """The schema of some columns alone, in the order given, with its unit and what its rules say of these columns.

        A column of times comes with all of its parts. What a rule over columns that are left out forbids whatever they
        hold stays forbidden.

        >>> from hush.schema.column_kinds import Boolean, Integer
        >>> schema = Schema([Integer(name="age", low=0, high=99), Boolean(name="married"), Boolean(name="vip")])
        >>> schema.select("married", "age").domain, schema.drop("vip").domain
        (Domain({'married': 2, 'age': 100}), Domain({'age': 100, 'married': 2}))
        """
        names = [part for name in columns for part in self._parts_of(name)]
        chosen = [self._columns[name] for name in self.domain.check(names)]
        domain = Domain({column.name: column.size for column in chosen})
        rules = []
        for rule in self.constraints:
            kept = tuple(name for name in rule.clique if name in domain)
            gone = tuple(i for i, name in enumerate(rule.clique) if name not in domain)
            if kept:
                of_kept = Constraint.of_table(domain, kept, np.asarray(rule.allowed.any(axis=gone)))
                rules.append(replace(of_kept, from_private_data=rule.from_private_data))
        return Schema(chosen, unit=self.unit, constraints=rules)

    def drop(self, *columns: str) -> Schema:
        """The schema without some columns; see `select`."""
        dropped = {part for name in columns for part in self._parts_of(name)}
        return self.select(*(name for name in self._columns if name not in dropped))

    def _parts_of(self, name: str) -> list[str]:
        """The columns that a name stands for: itself, or the parts of a column of times."""
        parts = [column.name for column in self if column.part is not None and column.source == name]
        return parts or list(self.domain.check((name,)))

    def with_unit(self, unit: Unit) -> Schema:
        """The same columns and constraints with another privacy unit."""
        return Schema(self.columns, unit=unit, constraints=self.constraints)

    def with_constraints(self, *constraints: Constraint) -> Schema:
        """The same schema with these constraints beside those it has."""
        return Schema(self.columns, unit=self.unit, constraints=(*self.constraints, *constraints))

    def forbid(self, columns: Iterable[str], rows: Iterable[Sequence[Any]]) -> Schema:
        """The same schema where no row of a table is like one of these; rows hold real values, as in a schema file.

        >>> from hush.schema.column_kinds import Boolean, Integer
        >>> schema = Schema([Integer(name="age", low=0, high=99), Boolean(name="married")])
        >>> schema.forbid(["age", "married"], [[{"to": 14}, True]]).constraints
        (Constraint(age × married: 15 of 200 combinations forbidden),)
        """
        from hush.schema.rules import Rules

        return self.with_constraints(Rules(self).forbidden(columns, rows))

    def allow(self, columns: Iterable[str], rows: Iterable[Sequence[Any]]) -> Schema:
        """The same schema where every row of a table is like one of these; rows hold real values."""
        from hush.schema.rules import Rules

        return self.with_constraints(Rules(self).allowed(columns, rows))

    def depends(self, column: str, on: str | Iterable[str], rows: Iterable[Sequence[Any]]) -> Schema:
        """The same schema where `column` is determined by `on`: each row is values of `on`, then the value of `column`.

        Where no row matches, any value of `column` is possible.
        """
        from hush.schema.rules import Rules

        return self.with_constraints(Rules(self).depends(column, on, rows))

    def decode(self, codes: Mapping[str, np.ndarray[Any, Any]]) -> pa.Table:
        """Codes of some columns as a table of real values; missing becomes null, a bin its middle.

        Parts of times become one column of whole times, the first that they allow. Encoding the result gives the codes
        again. In pandas, by `to_pandas()`, whole numbers and truth values stay what they are beside missing ones: Int64
        and boolean.
        """
        import pyarrow as pa

        arrays: dict[str, pa.Array] = {}
        for name, values in codes.items():
            column = self[name]
            if column.part is None:
                arrays[name] = decode_column(column, np.asarray(values))
            else:
                arrays.setdefault(column.source, joined(column.part.stamp, self.part_codes(column.part.stamp, codes)))
        if len({len(array) for array in arrays.values()}) > 1:
            raise SchemaError("the columns to decode differ in length; give one code per row for each")
        return with_nullable_types(pa.table(arrays), (self[name] for name in codes))

    def to_pandas(self, rows: pa.Table) -> Any:
        """Rows in the schema's real values, such as synthetic ones, as a pandas DataFrame with the types of the schema.

        Categories have all declared levels; dates and timestamps are datetime64; integers are int64 and truth values
        bool, or Int64 and boolean where the column allows missing; times of day are `datetime.time`.

        >>> from hush.schema.column_kinds import Categorical, Integer
        >>> age = Integer(name="age", low=0, high=99, missing=True)
        >>> schema = Schema([Categorical(name="sex", values=("f", "m")), age])
        >>> frame = schema.to_pandas(schema.decode({"sex": np.array([1, 1]), "age": np.array([3, 100])}))
        >>> [str(kind) for kind in frame.dtypes], frame["sex"].cat.categories.tolist()
        (['category', 'Int64'], ['f', 'm'])
        """
        return frame_of(rows, self)

    def part_codes(
        self, stamp: Stamp, codes: Mapping[str, np.ndarray[Any, Any]]
    ) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
        """The codes that some columns give for the parts of a column of times."""
        names = {part: f"{stamp.name}.{part}" for part in stamp.parts}
        parts = {part: _checked(self[name], np.asarray(codes[name])) for part, name in names.items() if name in codes}
        if len({len(values) for values in parts.values()}) > 1:
            raise SchemaError("the columns to decode differ in length; give one code per row for each")
        return parts

    def __getitem__(self, name: str) -> Column:
        self.domain.check((name,))
        return self._columns[name]

    def __iter__(self) -> Iterator[Column]:
        return iter(self._columns.values())

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return (self.columns, self.unit, self.constraints) == (other.columns, other.unit, other.constraints)

    def __hash__(self) -> int:
        return hash((self.columns, self.unit, self.constraints))

    def __repr__(self) -> str:
        kinds = ", ".join(f"{column.name}: {column.kind}[{column.size}]" for column in self)
        unit = "row" if self.unit.column is None else f"{self.unit.column} (at most {self.unit.max_rows} rows)"
        count = len(self.constraints)
        rules = f"; {count} constraint{'s' if count > 1 else ''}" if count else ""
        drafted = f"; from private data: {', '.join(self.from_private_data)}" if self.from_private_data else ""
        return f"Schema({kinds}; unit: {unit}{rules}{drafted})"


def _with_parts(columns: Iterable[Column | Stamp]) -> Iterator[Column]:
    """The columns, those of times by their parts."""
    for column in columns:
        if isinstance(column, Stamp):
            yield from column.columns
        else:
            yield column


def _check_stamps(schema: Schema) -> None:
    """Refuse parts without the others of their column, and columns that share a name with one of times."""
    parts = [column.part for column in schema if column.part is not None]
    for stamp in dict.fromkeys(part.stamp for part in parts):
        if stamp.name in schema.domain:
            raise SchemaError(f"column {stamp.name!r} is declared twice; keep one")
        own = [(at, each.part.name) for at, each in enumerate(schema) if each.part and each.source == stamp.name]
        if own != list(enumerate(stamp.parts, start=own[0][0])):
            raise SchemaError(
                f"column {stamp.name!r} holds times: declare it once, with all of its parts; found "
                + ", ".join(part for _, part in own)
            )


def domain_and_constraints(of: Schema | Domain) -> tuple[Domain, tuple[Constraint, ...]]:
    """The domain of a schema and its constraints; a bare domain has none."""
    if isinstance(of, Domain):
        return of, ()
    if not isinstance(of, Schema):
        raise SchemaError(f"{shown(of)}: expected a Schema or a Domain")
    return of.domain, of.constraints


def decode_column(column: Column, codes: np.ndarray[Any, Any]) -> pa.Array:
    """Codes of one column as real values."""
    import pyarrow as pa

    codes = _checked(column, codes)
    if isinstance(column, Integer) and not column.binned:  # its levels may be too many to list
        return pa.array(codes + column.low, mask=codes == column.levels)
    return pa.array(alike(column.level_values())).take(pa.array(codes))


def _checked(column: Column, codes: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Codes as int64, each that of a level."""
    if codes.ndim != 1 or (codes.dtype.kind not in "iu" and len(codes)):
        raise SchemaError(f"column {column.name!r}: expected a one-dimensional array of integer codes")
    if len(codes) and (codes.min() < 0 or codes.max() >= column.size):
        raise SchemaError(f"column {column.name!r}: codes must lie in 0 .. {column.size - 1}")
    return codes.astype(np.int64)


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


MOST_NAMED = 6


def drafted_text(names: Sequence[str]) -> str:
    """What was drafted, in words.

    >>> drafted_text(["age", "age × married"])
    'drafted from private data: age, age × married'
    """
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return f"drafted from private data: {', '.join(map(printable, names[:MOST_NAMED]))}{more}"


def refuse_drafted(names: Sequence[str], *, planned: bool = False) -> None:
    """Refuse columns and rules that came from private data, where there are any; `planned` if a plan brought them."""
    if not names:
        return
    where, then = ("the plan's schema", ", then plan again") if planned else ("the schema", "")
    raise SchemaError(
        f"{where} was {drafted_text(names)}; a release shows levels and bounds as they are, and these may show single "
        "people. Replace them by public knowledge and delete from_private_data from those parts of the schema "
        f"file{then}; or assert that they are public already with --schema-is-public (schema_is_public=True in "
        "Python), which stamps the release NOT PRIVATE"
    )
