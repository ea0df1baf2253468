"""Schema: the columns of a table, the code of each real value, the possible combinations, and the privacy unit."""

from __future__ import annotations

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
from hush.schema.provenance import Discovery
from hush.schema.stamps import Stamp, joined

if TYPE_CHECKING:
    import pyarrow as pa

    from hush.privacy.budget import Budget

# Without missing and with missing, as pyarrow's metadata names the types.
_PANDAS_TYPES = {Integer: ("int64", "Int64"), Boolean: ("bool", "boolean")}
MOST_DRAFTED_NAMED = 6  # in a message


class Schema:
    """Columns in order, each with its levels, and the privacy unit; public, and written without looking at rows.

    Constraints say which combinations of values no row can have. hush never checks these claims of the owner against
    the rows, since the outcome would be private; fitted models give forbidden combinations exactly zero.
    `from_private_data` names columns and rules that were drafted from private rows after all: releases refuse them.
    `discovery` states the run that found columns with noise that was paid for, if there was one.

    >>> from hush.schema.column_kinds import Categorical, Integer
    >>> age = Integer(name="age", low=0, high=99)
    >>> schema = Schema([age, Categorical(name="sex", values=("f", "m"), missing=True)])
    >>> schema.domain
    Domain({'age': 100, 'sex': 3})
    """

    __slots__ = ("_columns", "_constraints", "_domain", "discovery", "unit")

    def __init__(
        self,
        columns: Iterable[Column | Stamp],
        *,
        unit: Unit = ROW,
        constraints: Iterable[Constraint] = (),
        discovery: Discovery | None = None,
    ) -> None:
        self._columns: dict[str, Column] = {}
        self._constraints: tuple[Constraint, ...] = ()
        self.unit = unit
        self.discovery = discovery
        bins = 0
        # lazy, so that a file with too many bins is refused before its other columns are made
        parts = (part for column in columns for part in (column.columns if isinstance(column, Stamp) else (column,)))
        for column in parts:
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
        rules = tuple(constraints)
        if rules:
            complaint = contradiction(self.domain, rules)
            if complaint is not None:
                raise SchemaError(complaint)
            self._constraints = merge(self.domain, rules)

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
        drafting = import_module("hush.tables.drafting")  # by name: the room that reads rows comes after this one
        schema: Schema = drafting.drafted(data, public=public)
        return schema

    @classmethod
    def discover(cls, data: Any, draft: Any, budget: Budget, **options: Any) -> Schema:
        """A schema whose bounds, bins, points, levels or rows per person are found in the rows, with noise, at a cost.

        `draft` is the path of a schema file, or a mapping of column names to what their tables in such a file hold,
        with open entries: `bounds = "discover"`, `bins = "discover"` and so on. `data` is what `read` takes, with its
        options `table`, `query`, `where`, `counts`, `timeout`, `engine` and `memory_limit`. The charges go to `ledger`,
        under `dataset` and `name`. With `partial`, a file keeps what was paid for, and `resume` goes on from that file.
        `rows` is a public guess of the number of rows: a budget that could find nothing in them is refused.

        Each column that was found says in `discovered` what it cost and how sure it is.

        Privacy: spends the budget. The schema is public from then on.

        >>> import hush
        >>> people = hush.datasets.people(5000, seed=1)
        >>> draft = {"age": {"kind": "integer", "bounds": "discover", "bins": "discover"}}
        >>> schema = Schema.discover(people, draft, hush.Budget(epsilon=1.0, delta=1e-9))
        >>> schema["age"].outside, schema["age"].discovered.what
        (<Outside.CLAMP: 'clamp'>, ('bounds', 'bins'))
        """
        discovery = import_module("hush.discovery.discover")  # by name: the room comes after this one
        schema: Schema = discovery.discovered(data, draft, budget, **options)
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
    def constraints(self) -> tuple[Constraint, ...]:
        """The possible combinations: one constraint for each restricted clique, in the order of the columns."""
        return self._constraints

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, in order."""
        return tuple(self._columns.values())

    @property
    def spellings(self) -> dict[str, NumberSpelling]:
        """The spellings of numbers that are not the default, by column."""
        return {column.name: column.number_spelling for column in self if not column.number_spelling.plain}

    @property
    def from_private_data(self) -> tuple[str, ...]:
        """The columns and rules that were drafted from private rows; a schema that has some is not public.

        A rule is named by its columns, such as "age × married".
        """
        rules = (" × ".join(rule.clique) for rule in self.constraints if rule.from_private_data)
        return (*(column.name for column in self if column.from_private_data), *rules)

    def select(self, *columns: str) -> Schema:
        """The schema of some columns, in the order given, with the unit and what the rules say about these columns.

        A column of times comes with all of its parts. A combination stays forbidden if every value of the columns that
        are left out forbids it.

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
            clique = tuple(name for name in rule.clique if name in domain)
            dropped = tuple(i for i, name in enumerate(rule.clique) if name not in domain)
            if clique:
                projected = Constraint.of_table(domain, clique, np.asarray(rule.allowed.any(axis=dropped)))
                rules.append(replace(projected, from_private_data=rule.from_private_data))
        return Schema(chosen, unit=self.unit, constraints=rules, discovery=self.discovery)

    def drop(self, *columns: str) -> Schema:
        """The schema without some columns; see `select`."""
        dropped = {part for name in columns for part in self._parts_of(name)}
        return self.select(*(name for name in self._columns if name not in dropped))

    def _parts_of(self, name: str) -> list[str]:
        """The columns of a name: the column itself, or the parts of a column of times."""
        parts = [column.name for column in self if column.part is not None and column.source == name]
        return parts or list(self.domain.check((name,)))

    def with_unit(self, unit: Unit) -> Schema:
        """The same columns and constraints with another privacy unit."""
        return Schema(self.columns, unit=unit, constraints=self.constraints, discovery=self.discovery)

    def with_constraints(self, *constraints: Constraint) -> Schema:
        """The same schema with these constraints added."""
        rules = (*self.constraints, *constraints)
        return Schema(self.columns, unit=self.unit, constraints=rules, discovery=self.discovery)

    def forbid(self, columns: Iterable[str], rows: Iterable[Sequence[Any]]) -> Schema:
        """The same schema, with a rule that no row of a table matches one of these rows of real values.

        >>> from hush.schema.column_kinds import Boolean, Integer
        >>> schema = Schema([Integer(name="age", low=0, high=99), Boolean(name="married")])
        >>> schema.forbid(["age", "married"], [[{"to": 14}, True]]).constraints
        (Constraint(age × married: 15 of 200 combinations forbidden),)
        """
        from hush.schema.rules import Rules

        return self.with_constraints(Rules(self).forbidden(columns, rows))

    def allow(self, columns: Iterable[str], rows: Iterable[Sequence[Any]]) -> Schema:
        """The same schema, with a rule that every row of a table matches one of these rows of real values."""
        from hush.schema.rules import Rules

        return self.with_constraints(Rules(self).allowed(columns, rows))

    def depends(self, column: str, on: str | Iterable[str], rows: Iterable[Sequence[Any]]) -> Schema:
        """The same schema, with a rule that the columns `on` determine `column`.

        Each row has values of `on`, then the value of `column`. For combinations that match no row, any value of
        `column` is possible.
        """
        from hush.schema.rules import Rules

        return self.with_constraints(Rules(self).depends(column, on, rows))

    def decode(self, codes: Mapping[str, np.ndarray[Any, Any]]) -> pa.Table:
        """Codes of some columns as a table of real values; missing becomes null, a bin its middle.

        Parts of times become one column of whole times, the first possible ones. Encoding the result gives the same
        codes. In pandas, integers and booleans with missing values become Int64 and boolean.
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
        """Rows of real values, such as synthetic ones, as a pandas DataFrame with the types of the schema.

        Categories have all declared levels; dates and timestamps are datetime64; integers are int64 and booleans bool,
        or Int64 and boolean if the column allows missing; times of day are `datetime.time`.

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
        """The codes of the parts of a column of times, as far as they are given."""
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


def _check_stamps(schema: Schema) -> None:
    """Refuse a column of times without some of its parts, and a column with the name of a column of times."""
    parts = [column.part for column in schema if column.part is not None]
    for stamp in dict.fromkeys(part.stamp for part in parts):
        if stamp.name in schema.domain:
            raise SchemaError(f"column {stamp.name!r} is declared twice; keep one")
        placed = [
            (at, column.part.name) for at, column in enumerate(schema) if column.part and column.source == stamp.name
        ]
        if placed != list(enumerate(stamp.parts, start=placed[0][0])):
            raise SchemaError(
                f"column {stamp.name!r} holds times: declare it once, with all of its parts; found "
                + ", ".join(part for _, part in placed)
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
    """Codes as int64; refuses codes that no level has."""
    if codes.ndim != 1 or (codes.dtype.kind not in "iu" and len(codes)):
        raise SchemaError(f"column {column.name!r}: expected a one-dimensional array of integer codes")
    if len(codes) and (codes.min() < 0 or codes.max() >= column.size):
        raise SchemaError(f"column {column.name!r}: codes must lie in 0 .. {column.size - 1}")
    return codes.astype(np.int64)


def extra(name: str) -> ModuleType:
    """An optional package, pandas or polars."""
    try:
        return import_module(name)
    except ImportError:
        raise HushError(f"to_{name}() needs {name}, which is not installed; run pip install 'hush[{name}]'") from None


def with_nullable_types(table: pa.Table, columns: Iterable[Column]) -> pa.Table:
    """The table with metadata that makes pyarrow's `to_pandas` use nullable types for columns that allow missing."""
    nullable = [
        column for column in columns if column.part is None and column.missing and type(column) in _PANDAS_TYPES
    ]
    keys = ("name", "field_name", "pandas_type", "numpy_type", "metadata")
    entries = [(column.name, column.name, *_PANDAS_TYPES[type(column)], None) for column in nullable]
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


def drafted_text(names: Sequence[str]) -> str:
    """The columns and rules that were drafted, in words.

    >>> drafted_text(["age", "age × married"])
    'drafted from private data: age, age × married'
    """
    more = f" and {len(names) - MOST_DRAFTED_NAMED:,} more" if len(names) > MOST_DRAFTED_NAMED else ""
    return f"drafted from private data: {', '.join(map(printable, names[:MOST_DRAFTED_NAMED]))}{more}"


def refuse_drafted(names: Sequence[str], *, planned: bool = False) -> None:
    """Refuse columns and rules that were drafted from private data; `planned` if they come from a plan.

    A schema is public: every release shows its levels and bounds. Levels read from the rows would show an extreme age
    or a rare diagnosis, whatever noise protects the counts. Drafting marks them, the mark stays in every file and copy
    of the schema, and only the owner removes it.
    """
    if not names:
        return
    where, then = ("the plan's schema", ", then plan again") if planned else ("the schema", "")
    raise SchemaError(
        f"{where} was {drafted_text(names)}; a release shows levels and bounds as they are, and these may show single "
        "people. Replace them by public knowledge and delete from_private_data from those parts of the schema "
        f"file{then}; or assert that they are public already with --schema-is-public (schema_is_public=True in "
        "Python), which stamps the release NOT PRIVATE"
    )
