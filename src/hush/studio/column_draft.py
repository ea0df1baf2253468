"""Column drafts: a column as typed into a form <-> a column of a schema.

A form has fields for what most columns need. Everything else that a schema file may say about a column is kept as lines
of TOML, so that a schema goes through the studio without loss.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hush.core.errors import HushError, SchemaError, shown
from hush.core.unit import ROW, Unit
from hush.render.text_table import counted
from hush.schema import Schema
from hush.schema.column import Column
from hush.schema.column_kinds import KINDS
from hush.schema.discovery_draft import Draft, OpenColumn, read_draft_column
from hush.schema.provenance import DISCOVER, DISCOVERED, Discovery
from hush.schema.rules import read_rules
from hush.schema.schema_toml import entries_of, entry, parse_toml, read_column, write_toml
from hush.schema.section import SchemaSection
from hush.schema.stamps import STAMPS, Stamp
from hush.studio.project import ColumnDraft, PeopleError, ProjectFile
from hush.tables.drafting import GuessedColumn

COLUMN_KINDS = (*KINDS, *STAMPS)
FIELDS = {
    "categorical": ("values",),
    "boolean": (),
    "integer": ("low", "high", "bins"),
    "numeric": ("low", "high", "bins"),
    "date": ("start", "end", "granularity"),
    "timestamp": ("start", "end", "granularity", "parts"),
    "time": ("parts",),
}
REQUIRED = {
    "categorical": ("values",),
    "integer": ("low", "high"),
    "numeric": ("low", "high", "bins"),
    "date": ("start", "end"),
    "timestamp": ("start", "end", "parts"),
}
WORDS_OF_FIELDS = {
    "values": "every value that may occur",
    "low": "the lowest",
    "high": "the highest possible number",
    "bins": "how many bins",
    "start": "the first",
    "end": "the last possible day",
    "parts": "the parts",
}
ALL_FIELDS = ("low", "high", "bins", "values", "start", "end", "granularity", "parts")
DEFAULT_TEXTS = {
    "numeric": {"bins": "20"},
    "date": {"granularity": "month"},
    "timestamp": {"granularity": "month", "parts": "date, hour"},
    "time": {"parts": "hour"},
}
CLAMPED_KINDS = ("integer", "numeric", "date", "timestamp")
BOXES = {'outside = "clamp"': "clamp", "other = true": "other values", "missing = true": "may be empty"}
MOST_PROBLEMS = 5  # named in one message
OPEN_KINDS = ("categorical", *CLAMPED_KINDS)  # that a discovery can find something of
DISCOVERY_REFUSED = "is marked for private discovery; find what is open on the page of discovery, or write it"


@dataclass(frozen=True, slots=True)
class ColumnState:
    """Whether a draft is a column already, or what it lacks."""

    state: Literal["ready", "unfinished", "discover", "left out"]
    text: str
    made: Column | Stamp | None = None


def first_draft(guessed: GuessedColumn) -> ColumnDraft:
    """The draft of a column that nobody has described yet."""
    texts = dict(DEFAULT_TEXTS.get(guessed.kind, {}))
    return ColumnDraft(
        name=guessed.name, kind=guessed.kind, texts=texts, used=not guessed.left_out, note=guessed.left_out
    )


def draft_of(column: Column | Stamp) -> ColumnDraft:
    """The draft of a column of a schema."""
    entries = entries_of(column)
    kind, texts = str(entries.pop("kind")), {}
    flags = {"missing": entries.pop("missing", False), "other": entries.pop("other", False)}
    flags["clamp"] = entries.get("outside") == "clamp" and bool(entries.pop("outside"))
    for key in FIELDS[kind]:
        value = entries.get(key)
        if key == "values" and isinstance(value, list) and all(_is_line(item) for item in value):
            texts[key] = "\n".join(entries.pop(key))
        elif key == "parts" and isinstance(value, list):
            texts[key] = ", ".join(entries.pop(key))
        elif value is not None and not isinstance(value, list):
            texts[key] = str(entries.pop(key))
    if column.discovered is not None:
        entries[DISCOVERED] = column.discovered.entries()
    more = "\n".join(entry(key, value) for key, value in entries.items())
    return ColumnDraft(name=column.name, kind=kind, texts=texts, more=more, **flags)


def drafts_of(schema: Schema) -> list[ColumnDraft]:
    """The drafts of all columns of a schema."""
    drafts = []
    for column in schema:
        if column.part is None:
            drafts.append(draft_of(column))
        elif column.part.name == column.part.stamp.parts[0]:
            drafts.append(draft_of(column.part.stamp))
    return drafts


def rules_of(schema: Schema) -> str:
    """The rules of a schema, and the discovery that it comes from, as lines of TOML."""
    text = write_toml(schema)
    start = re.search(r"^\[(\[|discovery\])", text, re.MULTILINE)
    return text[start.start() :] if start else ""


def with_discovery(rules: str, found: Schema) -> str:
    """The rules of a project, with the discovery of a schema that has no rules of its own."""
    start = re.search(r"^\[discovery\]", rules, re.MULTILINE)
    return "\n".join(part for part in (rules[: start.start()] if start else rules, rules_of(found)) if part)


def state_of(draft: ColumnDraft, unit: str = "") -> ColumnState:
    """What a draft is; a column of a schema where everything that it needs is there and right."""
    if draft.name == unit:
        return ColumnState("left out", "the id of the people to protect")
    if not draft.used:
        return ColumnState("left out", draft.note or "left out")
    if draft.discover and draft.kind in OPEN_KINDS:
        try:
            open_column(draft)
        except HushError as error:
            return ColumnState("unfinished", _about(draft, error))
        return ColumnState("discover", "what is not written here is found with a part of the budget")
    lacking = [WORDS_OF_FIELDS[key] for key in REQUIRED.get(draft.kind, ()) if not draft.texts.get(key, "").strip()]
    if lacking and not draft.more:
        return ColumnState("unfinished", f"write {' and '.join(lacking)}")
    try:
        made = read_column(draft.name, _entries(draft))
    except HushError as error:
        return ColumnState("unfinished", _about(draft, error))
    columns = made.columns if isinstance(made, Stamp) else (made,)
    return ColumnState("ready", counted(math.prod(column.size for column in columns), "level"), made)


def without_provenance(more: str) -> str:
    """Further entries of a column without what a discovery found, which an edit of the column makes untrue."""
    entries = {key: value for key, value in parse_toml(more).items() if key != DISCOVERED}
    return "\n".join(entry(key, value) for key, value in entries.items())


def open_column(draft: ColumnDraft) -> Column | Stamp | OpenColumn:
    """A marked draft with open entries where nothing was typed; a column of a schema if its kind leaves none open."""
    entries = _entries(draft)
    ends = ("start", "end") if draft.kind in ("date", "timestamp") else ("low", "high")
    if draft.kind == "categorical":
        entries["levels"] = DISCOVER
    elif draft.kind in CLAMPED_KINDS:
        if not all(end in entries for end in ends):
            entries = {key: value for key, value in entries.items() if key not in ends} | {"bounds": DISCOVER}
        if draft.kind in ("integer", "numeric"):
            entries.setdefault("bins", DISCOVER)
    return read_draft_column(draft.name, entries)


def marked_columns(project: ProjectFile) -> list[str]:
    """The names of columns that are to be discovered."""
    return [draft.name for draft in project.columns if state_of(draft, project.people.unit).state == "discover"]


def discovery_draft(project: ProjectFile) -> Draft:
    """The draft whose open entries a discovery finds; SchemaError names columns that lack something else."""
    columns: dict[str, Column | Stamp | OpenColumn] = {}
    problems: list[str] = []
    for draft in project.columns:
        state = state_of(draft, project.people.unit)
        if state.state == "unfinished":
            problems.append(f"column {shown(draft.name)}: {state.text}")
        elif state.state == "discover":
            columns[draft.name] = open_column(draft)
        elif state.made is not None:
            columns[draft.name] = state.made
    _refuse(problems)
    return Draft.of(columns, unit=unit_of(project))


def _refuse(problems: Sequence[str]) -> None:
    """Name the first problems of the columns, if there are any."""
    if problems:
        more = f"; and {len(problems) - MOST_PROBLEMS:,} more" if len(problems) > MOST_PROBLEMS else ""
        raise SchemaError("; ".join(problems[:MOST_PROBLEMS]) + more)


def schema_of(project: ProjectFile) -> Schema:
    """The schema that a project describes; SchemaError names what is still missing."""
    made: list[Column | Stamp] = []
    problems: list[str] = []
    for draft in project.columns:
        state = state_of(draft, project.people.unit)
        if state.state == "discover":
            problems.append(f"column {shown(draft.name)} {DISCOVERY_REFUSED}")
        elif state.state == "unfinished":
            problems.append(f"column {shown(draft.name)}: {state.text}")
        elif state.made is not None:
            made.append(state.made)
    _refuse(problems)
    if not made:
        raise SchemaError("no column is used; use at least one on the page of columns")
    document = parse_toml(project.rules)
    run = document.pop("discovery", None)
    schema = Schema(made, unit=unit_of(project), discovery=None if run is None else Discovery.read(run))
    known = {name for column in schema for name in (column.name, column.source)}
    kept = {
        kind: [rule for rule in rules if set(rule.get("columns", ())) | {*_determined(rule)} <= known]
        for kind, rules in document.items()
    }
    return schema.with_constraints(*read_rules(schema, SchemaSection("", {k: v for k, v in kept.items() if v})))


def unit_of(project: ProjectFile) -> Unit:
    """Who is protected: rows, or the people of an id column."""
    if not project.people.unit:
        return ROW
    most = project.people.max_rows.strip()
    if not (most.isascii() and most.isdigit() and 1 <= int(most) < 2**31):
        raise PeopleError(f"rows of one person: {shown(most)}: expected a whole number of at least 1, such as 1")
    return Unit(column=project.people.unit, max_rows=int(most))


def levels_of_text(text: str) -> list[str]:
    """The values in a text: one per line, or in one line between commas.

    >>> levels_of_text("north, south"), levels_of_text("a, b\\nc")
    (['north', 'south'], ['a, b', 'c'])
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [value.strip() for value in lines[0].split(",") if value.strip()] if len(lines) == 1 else lines


def _entries(draft: ColumnDraft) -> dict[str, Any]:
    """The table of a draft as a schema file would have it."""
    if draft.kind not in FIELDS:
        raise SchemaError(f"kind {shown(draft.kind)}: expected one of {', '.join(FIELDS)}")
    entries: dict[str, Any] = {"kind": draft.kind}
    for key in FIELDS[draft.kind]:
        text = draft.texts.get(key, "").strip()
        if text:
            entries[key] = _value(draft.kind, key, text)
    if draft.missing:
        entries["missing"] = True
    if draft.other and draft.kind == "categorical":
        entries["other"] = True
    if draft.clamp and draft.kind in CLAMPED_KINDS:
        entries["outside"] = "clamp"
    more = parse_toml(draft.more)
    if "edges" in more:
        entries = {key: value for key, value in entries.items() if key not in ("low", "high", "bins")}
    if "starts" in more:
        entries.pop("bins", None)
    return entries | more


def _value(kind: str, key: str, text: str) -> Any:
    """The value that was typed into a field."""
    match key:
        case "values":
            return levels_of_text(text)
        case "parts":
            return [part.strip() for part in text.split(",") if part.strip()]
        case "granularity":
            return text
        case "start" | "end":
            return _parsed(key, text, "a date such as 2020-01-31")
        case "bins":
            return _parsed(key, text, "a whole number such as 20")
        case _:
            what = "a whole number such as 120" if kind == "integer" else "a number such as 99.5"
            return _parsed(key, text.replace("_", ""), what)


def _parsed(key: str, text: str, expected: str) -> Any:
    """A number or a date in TOML's spelling."""
    try:
        document = parse_toml(f"value = {text}")
    except SchemaError:
        document = {}
    if set(document) != {"value"} or isinstance(document["value"], str | list | dict | bool):
        raise SchemaError(f"{key}: {shown(text)}: expected {expected}")
    return document["value"]


def _about(draft: ColumnDraft, error: HushError) -> str:
    """A message about a column, beside the name of the column."""
    return with_boxes(str(error).removeprefix(f"column {draft.name!r}").removeprefix(":").strip())


def with_boxes(text: str) -> str:
    """A message about columns with the boxes of the form in place of entries of a schema file.

    >>> with_boxes('values above high = 99: raise it, or set outside = "clamp"')
    'values above high = 99: raise it, or tick "clamp"'
    """
    boxed = re.sub(
        r'(?:set|add) (outside = "clamp"|other = true|missing = true)', lambda found: f'tick "{BOXES[found[1]]}"', text
    )
    return re.sub(
        "`hush schema check [^`]*` shows the owner", "The owner's check on the page of columns shows you", boxed
    )


def _is_line(value: object) -> bool:
    """Whether a value is a text that a line of a form holds unchanged."""
    return isinstance(value, str) and value == value.strip() and len(value.splitlines()) == 1 and "," not in value


def _determined(rule: Any) -> Sequence[str]:
    """The column that a rule determines, if it does."""
    return (rule["column"],) if isinstance(rule, dict) and isinstance(rule.get("column"), str) else ()
