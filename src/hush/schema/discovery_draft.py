"""Draft: a schema some of whose entries are still to be found in the rows, with noise that is paid for.

In the table of a column, `bounds = "discover"`, `bins = "discover"`, `granularity = "discover"` or
`levels = "discover"` leave that entry open; `max_rows = "discover"` does so in [unit]. Everything else is public
knowledge and stays as written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hush.core.errors import SchemaError, shown
from hush.core.unit import ROW, Unit
from hush.schema.column import LARGEST_INTEGER, Column, Outside
from hush.schema.column_kinds import MOST_BINS, Categorical, Date, Granularity, Integer, Numeric
from hush.schema.number_spelling import PLAIN_NUMBERS, NumberSpelling
from hush.schema.provenance import DISCOVER
from hush.schema.rules import RULE_KINDS, read_rules
from hush.schema.schema import Schema
from hush.schema.schema_files import schema_text
from hush.schema.schema_toml import SPELLING_KEYS, parse_toml, read_column, read_unit, require_version
from hush.schema.section import SchemaSection
from hush.schema.stamps import Stamp, Timestamp

BOUNDS, BINS, GRANULARITY, LEVELS, MAX_ROWS = "bounds", "bins", "granularity", "levels", "max_rows"
AUTO = "auto"
_SHARED_KEYS = ("kind", "missing", "missing_values")
_OPEN_KEYS: dict[str, tuple[str, ...]] = {  # those that a kind may leave open
    Categorical.kind: (LEVELS,),
    Integer.kind: (BOUNDS, BINS),
    Numeric.kind: (BOUNDS, BINS),
    Date.kind: (BOUNDS, GRANULARITY),
    Timestamp.kind: (BOUNDS, GRANULARITY),
}
_GIVEN_KEYS: dict[str, tuple[str, ...]] = {  # those that stay as written
    Categorical.kind: ("values", "other", "ignore", "values_per_unit"),
    Integer.kind: ("low", "high", "most_bins", "points", "outside", *SPELLING_KEYS),
    Numeric.kind: ("low", "high", "most_bins", "points", "step", "outside", *SPELLING_KEYS),
    Date.kind: ("start", "end", "outside"),
    Timestamp.kind: ("start", "end", "parts", "minutes", "outside"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenColumn:
    """A column of a draft with entries to discover; `given` has the others, as arguments of the kind of column.

    `most_bins` is the largest number of bins to look for; None leaves the number to the rows and the noise.
    """

    name: str
    kind: str
    open: tuple[str, ...]
    given: Mapping[str, Any] = field(default_factory=dict)
    most_bins: int | None = None

    @property
    def shared(self) -> dict[str, Any]:
        """The arguments that every kind of column takes."""
        return {"name": self.name} | {
            key: self.given[key] for key in ("missing", "missing_values") if key in self.given
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Columns in order, some of them open, the privacy unit, and the rules of the file.

    >>> draft = Draft.of({"age": {"kind": "integer", "bounds": "discover"}, "sex": {"kind": "boolean"}})
    >>> [column.name for column in draft.open_columns]
    ['age']
    """

    columns: tuple[Column | Stamp | OpenColumn, ...]
    unit: Unit = ROW
    open_unit: bool = False
    rules: SchemaSection | None = None

    def __post_init__(self) -> None:
        if not self.columns:
            raise SchemaError("the draft declares no columns; declare at least one")
        if self.open_unit and self.unit.column is None:
            raise SchemaError('max_rows = "discover" goes with an id column; name it in [unit], or leave max_rows out')

    def require_open(self) -> None:
        """Refuse a draft that leaves nothing to discover."""
        if not self.open_columns and not self.open_unit:
            raise SchemaError(
                'the draft leaves nothing to discover; write bounds = "discover", bins = "discover" or levels = '
                '"discover" in the table of a column, or use the schema as it is'
            )

    @classmethod
    def load(cls, path: str | Path) -> Draft:
        """The draft in a TOML file."""
        text = schema_text(Path(path))
        try:
            return cls.read(text)
        except SchemaError as error:
            raise SchemaError(f"{path}: {error}") from None

    @classmethod
    def read(cls, text: str) -> Draft:
        """The draft in the text of a TOML file."""
        document = parse_toml(text)
        top = SchemaSection("", document)
        require_version(top)
        top.only(("hush_schema", "unit", "columns", *RULE_KINDS))
        tables = SchemaSection("[columns]", top.require("columns", "declare at least one [columns.name]"))
        unit, open_unit = ROW, False
        if "unit" in top:
            entries = dict(SchemaSection("[unit]", document["unit"]).entries)
            open_unit = entries.get(MAX_ROWS) == DISCOVER
            unit = read_unit(entries | ({MAX_ROWS: 1} if open_unit else {}))
        columns = tuple(read_draft_column(name, entries) for name, entries in tables.entries.items())
        return cls(columns=columns, unit=unit, open_unit=open_unit, rules=top)

    @classmethod
    def of(cls, columns: Mapping[str, Any], *, unit: Unit = ROW, open_unit: bool = False) -> Draft:
        """The draft of columns by name, each a column or what its table in a file would hold."""
        parts = (
            entries if isinstance(entries, Column | Stamp | OpenColumn) else read_draft_column(name, entries)
            for name, entries in columns.items()
        )
        return cls(columns=tuple(parts), unit=unit, open_unit=open_unit)

    @property
    def fingerprint(self) -> str:
        """A digest of everything that the draft says."""
        rules = {} if self.rules is None else {key: self.rules.entries.get(key) for key in RULE_KINDS}
        text = repr((self.columns, self.unit, self.open_unit, rules))
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()

    @property
    def open_columns(self) -> tuple[OpenColumn, ...]:
        """The columns with entries to discover, in order."""
        return tuple(column for column in self.columns if isinstance(column, OpenColumn))

    def closed(self, found: Mapping[str, Column | Stamp], unit: Unit) -> Schema:
        """The schema with the columns that were found, and with the rules of the draft."""
        schema = Schema(
            (found[column.name] if isinstance(column, OpenColumn) else column for column in self.columns), unit=unit
        )
        return schema if self.rules is None else schema.with_constraints(*read_rules(schema, self.rules))

    def __iter__(self) -> Iterator[Column | Stamp | OpenColumn]:
        return iter(self.columns)


def read_draft_column(name: str, entries: object) -> Column | Stamp | OpenColumn:
    """A column of a draft from its table; one without open entries is a column of a schema."""
    section = SchemaSection(f"column {name!r}", entries)
    opened = tuple(key for key in (BOUNDS, BINS, GRANULARITY, LEVELS) if section.entries.get(key) == DISCOVER)
    if DISCOVER not in section.entries.values():
        return read_column(name, entries)
    # Which keys the kind may leave open, and which go with these.
    kind = section.text("kind", "")
    if kind not in _OPEN_KEYS:
        section.refuse("kind", f"nothing can be discovered; expected one of {', '.join(_OPEN_KEYS)}")
    known = _OPEN_KEYS[kind]
    section.only((*_SHARED_KEYS, *known, *_GIVEN_KEYS[kind]))
    if not opened:
        section.refuse(next(key for key, value in section.entries.items() if value == DISCOVER), "cannot be discovered")
    ends = ("low", "high") if kind in (Integer.kind, Numeric.kind) else ("start", "end")
    given: dict[str, Any] = {}
    if kind != Categorical.kind:
        given = _read_given(section, kind, ends, opened)
    else:
        # An invented value stands for those to be found, so that what is known is checked as that of a schema.
        values = tuple(section.items("values", "")) if "values" in section else ()
        ignore, missing = section.texts("ignore"), section.texts("missing_values")
        known_column = Categorical(
            name=name, values=values or (DISCOVER,), other=True, ignore=ignore, missing=True, missing_values=missing
        )
        given |= {"values": known_column.values if values else (), "ignore": known_column.ignore}
        if "values_per_unit" in section:
            given["values_per_unit"] = section.integer("values_per_unit", "")
            if given["values_per_unit"] < 1:
                section.refuse("values_per_unit", "expected a whole number of at least 1")
    given |= {"missing": section.flag("missing"), "missing_values": section.texts("missing_values")}
    most_bins = None
    if "most_bins" in section and section.entries["most_bins"] != AUTO:
        most_bins = section.integer("most_bins", "")
        if BINS not in opened:
            section.refuse("most_bins", 'goes with bins = "discover"')
        if not 1 <= most_bins <= MOST_BINS:
            section.refuse("most_bins", f'expected a whole number from 1 to {MOST_BINS:,}, or "{AUTO}"')
    return OpenColumn(name=name, kind=kind, open=opened, given=given, most_bins=most_bins)


def _read_given(section: SchemaSection, kind: str, ends: tuple[str, str], opened: Iterable[str]) -> dict[str, Any]:
    """The entries of an ordered column that stay as written."""
    given: dict[str, Any] = {}
    # Bounds: both given, or both open. Open ones clamp what lies beyond them.
    for end in ends:
        if BOUNDS in opened and end in section:
            section.refuse(end, f'bounds = "discover" finds it; remove {end}, or remove bounds')
        if BOUNDS not in opened:
            advice = 'write it, or bounds = "discover"'
            read = section.number if kind == Numeric.kind else section.integer if kind == Integer.kind else section.day
            given[end] = read(end, advice)
    given["outside"] = section.text("outside", Outside.CLAMP if BOUNDS in opened else Outside.REFUSE)
    if BOUNDS in opened and given["outside"] != Outside.CLAMP:
        section.refuse("outside", f'bounds that are discovered leave out some rows; write outside = "{Outside.CLAMP}"')
    if BINS in section and section.entries[BINS] != DISCOVER:
        given[BINS] = section.integer(BINS, "")
    if GRANULARITY in section and section.entries[GRANULARITY] != DISCOVER:
        given[GRANULARITY] = section.text(GRANULARITY, Granularity.DAY)
        if given[GRANULARITY] not in [*map(str, Granularity)]:
            section.refuse(GRANULARITY, f'expected "{DISCOVER}" or one of {", ".join(Granularity)}')
    if "points" in section:
        given["points"] = tuple(section.items("points", ""))
    if "step" in section:
        given["step"] = section.number("step", "")
    if "parts" in section:
        given["parts"] = section.texts("parts")
    elif kind == Timestamp.kind:
        section.require("parts", 'list what is counted, such as parts = ["date", "hour"]')
    if "minutes" in section:
        given["minutes"] = section.integer("minutes", "")
    if kind in (Integer.kind, Numeric.kind):
        marks = {key: section.text(key, getattr(PLAIN_NUMBERS, key)) for key in ("decimal", "thousands")}
        given["spelling"] = NumberSpelling(**marks, strip=section.texts("strip"))
        for point in given.get("points", ()):
            if isinstance(point, bool) or not isinstance(point, int | float) or not abs(point) <= LARGEST_INTEGER:
                section.refuse("points", f"{shown(point)} is no number from -2^53 to 2^53")
    return given
