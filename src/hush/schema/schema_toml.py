"""Schemas as TOML: hush's own file format, version 1, read and written.

A schema file may come from a stranger, and the standard library's parser takes quadratic time and memory for a dotted
key, and a call for each bracket within brackets. `parse_toml` first checks, in linear time, that both stay small.
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Iterable
from typing import Any

from hush.core.errors import SchemaError, close_match
from hush.core.unit import ROW, Unit
from hush.core.validation import is_whole
from hush.schema.column import Column, Outside
from hush.schema.column_kinds import KINDS, Boolean, Categorical, Date, Integer, Numeric, short
from hush.schema.number_spelling import PLAIN_NUMBERS, NumberSpelling
from hush.schema.provenance import DISCOVER, DISCOVERED, Discovered, Discovery
from hush.schema.rules import FROM_PRIVATE_DATA, RULE_KINDS, read_rules, written_rules
from hush.schema.schema import Schema
from hush.schema.section import SchemaSection
from hush.schema.stamps import DATE, MINUTE, STAMPS, Stamp, TimeOfDay, Timestamp

SCHEMA_VERSION = 1
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f]")
_LONGEST_LINE = 100
_SHARED_KEYS = ("kind", "missing", "missing_values", FROM_PRIVATE_DATA, DISCOVERED)
SPELLING_KEYS = ("decimal", "thousands", "strip")
_COLUMN_KEYS: dict[type[Column], tuple[str, ...]] = {
    Categorical: ("values", "other", "ignore"),
    Boolean: (),
    Integer: ("low", "high", "bins", "starts", "points", "outside", *SPELLING_KEYS),
    Numeric: ("low", "high", "bins", "edges", "points", "step", "outside", *SPELLING_KEYS),
    Date: ("start", "end", "granularity", "outside"),
}
_STAMP_KEYS: dict[type[Stamp], tuple[str, ...]] = {
    Timestamp: ("start", "end", "parts", "granularity", "minutes", "outside"),
    TimeOfDay: ("parts", "minutes"),
}
MOST_PARTS = 8  # of a dotted key, which has two in a schema
MOST_BRACKETS = 16  # within each other; a schema has four
# a text that is not closed ends where the parser gives up, or later
_TEXTS_AND_COMMENTS = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:"""|\Z)|\'\'\'(?:[^\']++|\'(?!\'\'))*+(?:\'\'\'|\Z)'
    r'|"(?:[^"\\\n]++|\\[^\n])*+"?|\'[^\'\n]*+\'?|#[^\n]*+',
    re.DOTALL,
)
_STRUCTURE = re.compile(r"[][{}.,=\n]")
_FROM_PUBLIC_KNOWLEDGE = "taken from public knowledge, not from the rows"


def read_toml(text: str) -> Schema:
    """The schema in the text of a TOML file."""
    document = parse_toml(text)
    top = SchemaSection("", document)
    require_version(top)
    top.only(("hush_schema", "unit", "columns", "discovery", *RULE_KINDS))
    unit = read_unit(document["unit"]) if "unit" in top else ROW
    columns = SchemaSection("[columns]", top.require("columns", "declare at least one [columns.name]"))
    schema = Schema(
        (read_column(name, entries) for name, entries in columns.entries.items()),
        unit=unit,
        discovery=Discovery.read(document["discovery"]) if "discovery" in top else None,
    )
    return schema.with_constraints(*read_rules(schema, top))


def require_version(top: SchemaSection) -> None:
    """Refuse a file that is no schema of hush, or one of a later version."""
    version = top.require("hush_schema", f"a hush schema begins with the line hush_schema = {SCHEMA_VERSION}")
    if not is_whole(version) or version < 1:
        top.refuse("hush_schema", f"expected the version of the format, {SCHEMA_VERSION}")
    if version > SCHEMA_VERSION:
        top.refuse("hush_schema", f"this hush reads versions up to {SCHEMA_VERSION}; install a newer hush")


def read_unit(entries: object) -> Unit:
    """The privacy unit in [unit]."""
    section = SchemaSection("[unit]", entries)
    section.only(("column", "max_rows"))
    section.require("column", "name the id column, or remove [unit] to protect single rows")
    max_rows = section.integer("max_rows", "") if "max_rows" in section else 1
    return Unit(column=section.text("column", ""), max_rows=max_rows)


def read_column(name: str, entries: object) -> Column | Stamp:
    """A column from its table in the file."""
    # The kind decides which keys are known.
    section = SchemaSection(f"column {name!r}", entries)
    kinds = (*KINDS, *STAMPS)
    section.require("kind", f"expected one of {', '.join(kinds)}")
    kind = section.text("kind", "")
    if kind not in kinds:
        near = close_match(kind, kinds)
        section.refuse("kind", f"did you mean {near!r}?" if near else f"expected one of {', '.join(kinds)}")
    if DISCOVER in section.entries.values():
        raise SchemaError(
            f"column {name!r} has entries to discover, so this is a draft and no schema yet; run `hush schema discover "
            "DATA DRAFT`, or fill them in from public knowledge"
        )
    keys = _STAMP_KEYS[STAMPS[kind]] if kind in STAMPS else _COLUMN_KEYS[KINDS[kind]]
    section.only((*_SHARED_KEYS, *keys))
    # Keys of several kinds.
    shared: dict[str, Any] = {
        "name": name,
        "missing": section.flag("missing"),
        "missing_values": section.texts("missing_values"),
        FROM_PRIVATE_DATA: section.flag(FROM_PRIVATE_DATA),
    }
    if DISCOVERED in section:
        shared[DISCOVERED] = Discovered.read(f"column {name!r}: {DISCOVERED}", section.entries[DISCOVERED])
    if "outside" in keys:
        shared["outside"] = section.text("outside", Outside.REFUSE)
    if "start" in keys:
        shared["start"] = section.day("start", f"write the first possible day, {_FROM_PUBLIC_KNOWLEDGE}")
        shared["end"] = section.day("end", f"write the last possible day, {_FROM_PUBLIC_KNOWLEDGE}")
        shared["granularity"] = section.text("granularity", "day")
    if "decimal" in keys:
        marks = {key: section.text(key, getattr(PLAIN_NUMBERS, key)) for key in ("decimal", "thousands")}
        shared["spelling"] = NumberSpelling(**marks, strip=section.texts("strip"))
    # Keys of one kind.
    match kind:
        case Categorical.kind:
            values = section.items("values", f"list every value that may occur, {_FROM_PUBLIC_KNOWLEDGE}")
            ignore = section.texts("ignore")
            return Categorical(values=tuple(values), other=section.flag("other"), ignore=ignore, **shared)
        case Integer.kind:
            return _read_integer(section, shared)
        case Numeric.kind:
            return _read_numeric(section, shared)
        case Timestamp.kind | TimeOfDay.kind:
            if kind == Timestamp.kind:
                section.require("parts", 'list what is counted, such as parts = ["date", "hour"]')
            if "minutes" in section:
                shared["minutes"] = section.integer("minutes", "")
            if "parts" in section:
                shared["parts"] = section.texts("parts")
            return STAMPS[kind](**shared)
        case _:
            return KINDS[kind](**shared)  # boolean and date


def _read_integer(section: SchemaSection, shared: dict[str, Any]) -> Integer:
    bounds: dict[str, Any] = {
        "low": section.integer("low", f"write the smallest possible integer, {_FROM_PUBLIC_KNOWLEDGE}"),
        "high": section.integer("high", f"write the largest possible integer, {_FROM_PUBLIC_KNOWLEDGE}"),
    }
    for key in ("starts", "points"):
        shared[key] = tuple(section.items(key, "")) if key in section else ()
    if "bins" not in section:
        return Integer(**bounds, **shared)
    if shared.pop("starts"):
        section.refuse("bins", "starts already say this; keep either bins or starts")
    return Integer.equal_width(**bounds, bins=section.integer("bins", ""), **shared)


def _read_numeric(section: SchemaSection, shared: dict[str, Any]) -> Numeric:
    shared["points"] = tuple(section.items("points", "")) if "points" in section else ()
    shared["step"] = section.number("step", "") if "step" in section else None
    if "edges" not in section:
        return Numeric.equal_width(
            low=section.number("low", f"write the lower bound, {_FROM_PUBLIC_KNOWLEDGE}, or give edges"),
            high=section.number("high", f"write the upper bound, {_FROM_PUBLIC_KNOWLEDGE}, or give edges"),
            bins=section.integer("bins", "write the number of bins, such as bins = 32, or give edges"),
            **shared,
        )
    for key in ("low", "high", "bins"):
        if key in section:
            section.refuse(key, "edges already say this; keep either edges or low, high and bins")
    return Numeric(edges=tuple(section.items("edges", "")), **shared)


def write_toml(schema: Schema) -> str:
    """The schema as the text of a TOML file; reading it back gives an equal schema.

    >>> from hush.schema import Integer
    >>> print(write_toml(Schema([Integer(name="age", low=17, high=90, missing=True)])))
    hush_schema = 1
    <BLANKLINE>
    [columns.age]
    kind = "integer"
    low = 17
    high = 90
    missing = true
    <BLANKLINE>
    """
    sections = [f"{entry('hush_schema', SCHEMA_VERSION)}\n"]
    if schema.unit != ROW:
        sections.append(table(("unit",), {"column": schema.unit.column, "max_rows": schema.unit.max_rows}))
    for column in schema:
        declared = column if column.part is None else column.part.stamp
        if column.part is None or column.part.name == column.part.stamp.parts[0]:
            sections.append(table(("columns", declared.name), entries_of(declared)))
            if declared.discovered is not None:
                sections.append(table(("columns", declared.name, DISCOVERED), declared.discovered.entries()))
    for kind, constraint, rows in written_rules(schema):
        lines = "".join(f"    {value_text(row)},\n" for row in rows)
        mark = f"{entry(FROM_PRIVATE_DATA, True)}\n" if constraint.from_private_data else ""
        sections.append(f"[[{kind}]]\n{mark}{entry('columns', list(constraint.clique))}\nrows = [\n{lines}]\n")
    if schema.discovery is not None:
        sections.append(table(("discovery",), schema.discovery.entries()))
        if schema.discovery.max_rows is not None:
            sections.append(table(("discovery", "max_rows"), schema.discovery.max_rows.entries()))
    return "\n".join(sections)


def entries_of(column: Column | Stamp) -> dict[str, Any]:
    """The keys and values of a column's table; defaults are left out."""
    # Keys of one kind; bins as their number if that gives exactly these bins.
    entries: dict[str, Any] = {"kind": column.kind}
    match column:
        case Categorical():
            entries["values"] = list(column.values)
            entries |= {"other": True} if column.other else {}
            entries |= {"ignore": list(column.ignore)} if column.ignore else {}
        case Integer():
            entries |= {"low": column.low, "high": column.high}
            bins = len(column.starts)
            if bins and Integer.starts_of_equal_width(column.low, column.high, bins) == column.starts:
                entries["bins"] = bins
            elif bins:
                entries["starts"] = list(column.starts)
        case Numeric():
            low, high, bins = column.low, column.high, len(column.edges) - 1
            if Numeric.edges_of_equal_width(low, high, bins) == column.edges:
                entries |= {"low": short(low), "high": short(high), "bins": bins}
            else:
                entries["edges"] = [short(edge) for edge in column.edges]
        case Date():
            entries |= {"start": column.start, "end": column.end, "granularity": str(column.granularity)}
        case Stamp():
            if isinstance(column, Timestamp):
                entries |= {"start": column.start, "end": column.end}
            entries["parts"] = list(column.parts)
            if isinstance(column, Timestamp) and DATE in column.parts:
                entries["granularity"] = str(column.granularity)
            if MINUTE in column.parts:
                entries["minutes"] = column.minutes
        case Boolean():
            pass
        case _:
            raise TypeError(f"no file format for columns of type {type(column).__name__}")
    # Keys of several kinds.
    if isinstance(column, Integer | Numeric) and column.points:
        entries["points"] = [short(float(point)) for point in column.points]
    if isinstance(column, Numeric) and column.step is not None:
        entries["step"] = short(column.step)
    spelling = column.spelling if isinstance(column, Integer | Numeric) else PLAIN_NUMBERS
    for key in SPELLING_KEYS:
        if getattr(spelling, key) != getattr(PLAIN_NUMBERS, key):
            mark = getattr(spelling, key)
            entries[key] = list(mark) if key == "strip" else mark
    if isinstance(column, Integer | Numeric | Date | Timestamp) and column.outside is not Outside.REFUSE:
        entries["outside"] = str(column.outside)
    if column.missing:
        entries["missing"] = True
    if column.missing_values:
        entries["missing_values"] = list(column.missing_values)
    if column.from_private_data:
        entries[FROM_PRIVATE_DATA] = True
    return entries


def table(path: Iterable[str], entries: dict[str, Any]) -> str:
    """A table: its header and one line for each key."""
    lines = [header(path), *(entry(key, value) for key, value in entries.items())]
    return "\n".join(lines) + "\n"


def header(path: Iterable[str]) -> str:
    """The header of a table, with the names quoted where needed."""
    return f"[{'.'.join(name_text(name) for name in path)}]"


def entry(key: str, value: Any) -> str:
    """A line `key = value`; a long list goes over several lines."""
    line = f"{name_text(key)} = {value_text(value)}"
    if key == FROM_PRIVATE_DATA:
        return f"{line}  # delete this line once the entries are public knowledge; until then releases refuse them"
    if len(line) <= _LONGEST_LINE or not isinstance(value, list):
        return line
    rows, row = [], ""
    for item in value:
        text = value_text(item)
        if row and len(row) + len(text) + 2 > _LONGEST_LINE - 4:
            rows.append(row)
            row = ""
        row = f"{row} {text}," if row else f"{text},"
    body = "\n".join(f"    {text}" for text in [*rows, row])
    return f"{name_text(key)} = [\n{body}\n]"


def name_text(name: str) -> str:
    """A key: bare where TOML allows it, quoted otherwise."""
    return name if _BARE_KEY.fullmatch(name) else value_text(name)


def value_text(value: Any) -> str:
    """A text, boolean, number, date, or a list or inline table of these, in TOML's spelling."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return '"' + _CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04X}", escaped) + '"'
        case int():
            return str(value)
        case float():
            return repr(value)  # the shortest text that is read back as the same float
        case dt.date():
            return value.isoformat()
        case list():
            return "[" + ", ".join(value_text(item) for item in value) + "]"
        case dict():
            return "{" + ", ".join(f"{name_text(key)} = {value_text(item)}" for key, item in value.items()) + "}"
        case _:
            raise TypeError(f"no TOML for {type(value).__name__}")


def parse_toml(text: str) -> dict[str, Any]:
    """The document in a text; SchemaError if it is not valid, or has longer keys or deeper nesting than any schema.

    >>> parse_toml('edges = [0.5, 1.5]  # a.b.c')
    {'edges': [0.5, 1.5]}
    """
    _check_shape(text)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise SchemaError("nested too deeply to be a schema") from None
    except ValueError as error:  # TOMLDecodeError, or an integer of too many digits
        raise SchemaError(f"not valid TOML: {error}") from None


def _check_shape(text: str) -> None:
    """Refuse long dotted keys and deep nesting; values have at most one dot, so dots of keys and values count alike."""
    dots = depth = line = 0
    for mark in _STRUCTURE.findall(_TEXTS_AND_COMMENTS.sub("", text)):
        if mark == ".":
            dots += 1
            if dots >= MOST_PARTS:
                raise SchemaError(
                    f"in line {line + 1} or later, a name has more than {MOST_PARTS} parts; put a name that has dots "
                    "in quotes"
                )
            continue
        dots = 0
        if mark in "[{":
            depth += 1
            if depth > MOST_BRACKETS:
                raise SchemaError("nested too deeply to be a schema")
        elif mark in "]}":
            depth = max(depth - 1, 0)
        line += mark == "\n"
