"""TOML -> Schema: hush's own file format, version 1."""

from __future__ import annotations

import difflib
import tomllib
from typing import Any

from hush.errors import SchemaError
from hush.schema.column_kinds import KINDS, Boolean, Categorical, Column, Date, Integer, Numeric, Outside
from hush.schema.rules import RULES, read_rules
from hush.schema.schema import Schema
from hush.schema.section import Section
from hush.schema.toml_writer import VERSION
from hush.unit import ROW, Unit

_SHARED = ("kind", "missing", "missing_values")
_KEYS: dict[type[Column], tuple[str, ...]] = {
    Categorical: ("values", "other"),
    Boolean: (),
    Integer: ("low", "high", "outside"),
    Numeric: ("low", "high", "bins", "edges", "outside"),
    Date: ("start", "end", "granularity", "outside"),
}
_PUBLIC = "taken from public knowledge, not from the rows"


def read_toml(text: str) -> Schema:
    """The schema in the text of a TOML file."""
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise SchemaError("nested too deeply to be a schema") from None
    except ValueError as error:  # TOMLDecodeError, or an integer of too many digits
        raise SchemaError(f"not valid TOML: {error}") from None
    top = Section("", document)
    _check_version(top)
    top.only(("hush_schema", "unit", "columns", *RULES))
    unit = _read_unit(Section("[unit]", document["unit"])) if "unit" in top else ROW
    columns = Section("[columns]", top.require("columns", "declare at least one [columns.name]"))
    schema = Schema([read_column(name, entries) for name, entries in columns.pairs()], unit=unit)
    return schema.with_constraints(*read_rules(schema, top))


def _check_version(top: Section) -> None:
    version = top.require("hush_schema", f"a hush schema begins with the line hush_schema = {VERSION}")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        top.refuse("hush_schema", f"expected the version of the format, {VERSION}")
    if version > VERSION:
        top.refuse("hush_schema", f"this hush reads versions up to {VERSION}; install a newer hush")


def _read_unit(section: Section) -> Unit:
    section.only(("column", "max_rows"))
    section.require("column", "name the id column, or remove [unit] to protect single rows")
    column = section.text("column", "")
    max_rows = section.integer("max_rows", "") if "max_rows" in section else 1
    return Unit(column=column, max_rows=max_rows)


def read_column(name: str, entries: object) -> Column:
    """One column from its table."""
    section = Section(f"column {name!r}", entries)
    section.require("kind", f"expected one of {', '.join(KINDS)}")
    kind = section.text("kind", "")
    if kind not in KINDS:
        near = difflib.get_close_matches(kind.lower(), KINDS, n=1)
        section.refuse("kind", f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(KINDS)}")
    section.only((*_SHARED, *_KEYS[KINDS[kind]]))
    shared: dict[str, Any] = {
        "name": name,
        "missing": section.flag("missing"),
        "missing_values": section.texts("missing_values"),
    }
    if "outside" in _KEYS[KINDS[kind]]:
        shared["outside"] = section.text("outside", Outside.REFUSE)
    match kind:
        case Categorical.kind:
            values = section.items("values", f"list every value that may occur, {_PUBLIC}")
            return Categorical(values=tuple(values), other=section.flag("other"), **shared)
        case Integer.kind:
            return Integer(
                low=section.integer("low", f"write the smallest possible integer, {_PUBLIC}"),
                high=section.integer("high", f"write the largest possible integer, {_PUBLIC}"),
                **shared,
            )
        case Numeric.kind:
            return _read_numeric(section, shared)
        case Date.kind:
            return Date(
                start=section.day("start", f"write the first possible day, {_PUBLIC}"),
                end=section.day("end", f"write the last possible day, {_PUBLIC}"),
                granularity=section.text("granularity", "day"),  # type: ignore[arg-type]  # checked there
                **shared,
            )
        case _:
            return Boolean(**shared)


def _read_numeric(section: Section, shared: dict[str, Any]) -> Numeric:
    if "edges" not in section:
        return Numeric.equal_width(
            low=section.number("low", f"write the lower bound, {_PUBLIC}, or give edges"),
            high=section.number("high", f"write the upper bound, {_PUBLIC}, or give edges"),
            bins=section.integer("bins", "write the number of bins, such as bins = 32, or give edges"),
            **shared,
        )
    for key in ("low", "high", "bins"):
        if key in section:
            section.refuse(key, "edges already say this; keep either edges or low, high and bins")
    return Numeric(edges=tuple(section.items("edges", "")), **shared)
