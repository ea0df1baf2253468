"""The columns page: what each column may hold, for a hundred columns at once.

One table with a row for each column, fields for its kind, a search, a filter, and one edit for all chosen columns. What
was typed is saved as it is; the last cell of a row says what is still missing. No row of the data is shown, unless the
owner asks for the check, which is marked as private.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from starlette.datastructures import FormData
from starlette.responses import HTMLResponse, Response

from hush.core.errors import HushError
from hush.render.labels import named, readable
from hush.render.markup import Markup, join, tag
from hush.render.text_table import counted
from hush.schema import Schema
from hush.schema.provenance import DISCOVERED
from hush.studio.column_draft import (
    ALL_FIELDS,
    COLUMN_KINDS,
    DEFAULT_TEXTS,
    ColumnState,
    discovery_draft,
    drafts_of,
    marked_columns,
    rules_of,
    schema_of,
    state_of,
    with_boxes,
    without_provenance,
)
from hush.studio.guard import back_to
from hush.studio.layout import (
    bullet_list,
    button,
    form,
    hidden,
    meaning,
    notice,
    select,
    sentence,
    text_field,
    void,
)
from hush.studio.owner import OwnerStudio
from hush.studio.project import ColumnDraft, ProjectFile, digest
from hush.tables.dry_run import DryRun, dry_run

KIND_WORDS = {
    "categorical": "list of values",
    "boolean": "true or false",
    "integer": "whole number",
    "numeric": "decimal number",
    "date": "date",
    "timestamp": "date and time",
    "time": "time of day",
}
KIND_CHOICES = [(kind, KIND_WORDS[kind]) for kind in COLUMN_KINDS]
GRANULARITIES = [(name, name) for name in ("day", "week", "month", "quarter", "year")]
STATE_WORDS = {"ready": "ready", "unfinished": "to do", "discover": "discovery", "left out": "left out"}
SHORT_FIELDS = {  # name -> label, kinds, keyboard of a phone, example
    "low": ("lowest", "integer numeric", "decimal", None),
    "high": ("highest", "integer numeric", "decimal", None),
    "bins": ("bins", "integer numeric", "numeric", None),
    "start": ("first day", "date timestamp", None, "2024-01-31"),
    "end": ("last day", "date timestamp", None, "2024-12-31"),
    "parts": ("parts", "timestamp time", None, "date, hour"),
}
BULK_ACTIONS = [
    ("", "change nothing else"),
    ("use", "use them"),
    ("leave", "leave them out"),
    ("discover", "mark for private discovery"),
    ("know", "do not discover"),
    ("missing", "cells may be empty"),
    ("filled", "cells are never empty"),
    ("clamp", "clamp numbers and dates to the bounds"),
    ("other", "count values that are not listed as other"),
]
CHECK_WARNING = (
    "This check reads all rows and shows exact numbers and values of your data, on this screen only. hush saves and "
    "releases none of them. Do not choose bounds or values by this check, since they are published with the release."
)


def show_columns(studio: OwnerStudio, message: str | Markup | None = None) -> str:
    """The page."""
    state = studio.state
    states = [state_of(draft, state.people.unit) for draft in state.columns]
    tally = Counter[str](known.state for known in states)
    summary = ", ".join(f"{tally[name]} {words}" for name, words in STATE_WORDS.items() if tally[name])
    heads = [
        tag("th", tag("span", "Choose", class_="unseen"), scope="col"),
        *(tag("th", heading, scope="col") for heading in ("Column", "Kind", "What it may hold", "State")),
    ]
    rows = [row_of(index, draft, known) for index, (draft, known) in enumerate(zip(state.columns, states, strict=True))]
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="columns", id="columns")
    body = form(
        "/columns",
        hidden("seen", digest(state.columns)),
        tag(
            "p",
            "Write what each column may hold, from public knowledge. hush does not read columns that you leave out.",
        ),
        tag("div", *map(meaning, ("levels", "bins", "options", "discovery")), class_="meanings"),
        toolbar(summary),
        bulk_edit(),
        tag("div", table, class_="scroll"),
        tag(
            "div",
            button("Save and continue", name="action", value="next"),
            button("Save", name="action", value="save", plain=True),
            class_="buttons sticky",
        ),
        id="columns-form",
    )
    return studio.page(
        join(to_discovery(state), body, schema_files(studio), check_form()),
        title="Describe the columns",
        current="/columns",
        wide=True,
        message=message,
    )


def to_discovery(state: ProjectFile) -> Markup | None:
    """The way to discovery, if columns are marked for it."""
    marked = marked_columns(state)
    if not marked:
        return None
    link = tag("a", "Find what is open", href="/discovery")
    many = counted(len(marked), "column")
    return notice(join(f"{many} to discover: ", link, " once the other columns are ready."), kind="good")


def toolbar(summary: str) -> Markup:
    """Search and filter; without the script the whole table is shown."""
    search = void(
        "input",
        type="search",
        id="search",
        placeholder="Search columns",
        aria_label="Search columns",
        autocomplete="off",
    )
    states = [("", "all columns"), *((name, words) for name, words in STATE_WORDS.items())]
    choice = select("", states, "", id="filter", aria_label="Show only columns that are")
    count = tag("span", summary, id="tally", role="status")
    everything = tag(
        "label", void("input", type="checkbox", id="choose-all", form=""), " choose all that are shown", class_="choice"
    )
    return tag("div", search, choice, everything, count, class_="toolbar")


def bulk_edit() -> Markup:
    """One edit for all columns that are chosen."""
    kind = select("bulk-kind", [("", "keep their kind"), *KIND_CHOICES], "", id="bulk-kind", aria_label="Kind")
    action = select("bulk-action", BULK_ACTIONS, "", id="bulk-action", aria_label="Action")
    fields = [
        void(
            "input",
            name=f"bulk-{key}",
            aria_label=f"{label} of all chosen",
            placeholder=label,
            size="8",
            autocomplete="off",
        )
        for key, label in (("low", "lowest"), ("high", "highest"), ("bins", "bins"))
    ]
    levels = tag(
        "textarea", name="bulk-values", rows="1", placeholder="values, one per line", aria_label="Values of all chosen"
    )
    content = tag(
        "div", kind, *fields, levels, action, button("Apply", name="action", value="bulk", plain=True), class_="row"
    )
    hint = tag("p", "Fields that stay empty change nothing. Choose columns by the boxes in the table.", class_="hint")
    return tag("details", tag("summary", "Change all chosen columns at once"), content, hint, class_="more", id="bulk")


def row_of(index: int, draft: ColumnDraft, known: ColumnState) -> Markup:
    """The fields of a column."""
    name, key = readable(draft.name, 60), f"c{index}"
    chosen = void("input", type="checkbox", name="chosen", value=str(index), aria_label=f"Choose {name}")
    kind = select(f"{key}-kind", KIND_CHOICES, draft.kind, class_="kind", aria_label=f"Kind of {name}")
    used = _tick(f"{key}-used", "use", draft.used, f"Use {name}")
    fields: list[Markup] = []
    for field, (label, kinds, mode, example) in SHORT_FIELDS.items():
        field_input = void(
            "input",
            name=f"{key}-{field}",
            value=draft.texts.get(field, ""),
            inputmode=mode,
            placeholder=example,
            size="9",
            autocomplete="off",
            aria_label=f"{label} of {name}",
        )
        fields.append(tag("label", tag("span", label), field_input, class_="short", data_for=kinds))
    width = select(
        f"{key}-granularity",
        GRANULARITIES,
        draft.texts.get("granularity", "month"),
        aria_label=f"Width of levels of {name}",
    )
    fields.append(tag("label", tag("span", "by"), width, class_="short", data_for="date timestamp"))
    values = tag(
        "textarea",
        "\n" if draft.texts.get("values", "").startswith("\n") else None,
        draft.texts.get("values", ""),
        name=f"{key}-values",
        rows=str(min(max(draft.texts.get("values", "").count("\n") + 1, 2), 4)),
        placeholder="values, one per line",
        aria_label=f"Values of {name}",
    )
    fields.append(tag("label", values, class_="values", data_for="categorical"))
    more = tag(
        "textarea",
        draft.more,
        name=f"{key}-more",
        rows="2",
        aria_label=f"Further entries of {name}",
        spellcheck="false",
    )
    further = "further settings" + " (some are set)" * bool(draft.more)
    unread = draft.more and known.state == "unfinished"
    options = [
        _tick(f"{key}-missing", "may be empty", draft.missing, f"Cells of {name} may be empty"),
        _tick(
            f"{key}-clamp",
            "clamp",
            draft.clamp,
            f"Move values of {name} to the nearest bound",
            "integer numeric date timestamp",
        ),
        _tick(f"{key}-other", "other values", draft.other, f"Count unknown values of {name} as other", "categorical"),
        _tick(f"{key}-discover", "discover", draft.discover, f"Find bounds or values of {name} privately"),
        tag("details", tag("summary", further), more, class_="toml", open="open" if unread else None),
    ]
    state = tag("span", STATE_WORDS[known.state], class_=f"state {known.state.replace(' ', '-')}")
    return tag(
        "tr",
        tag("td", chosen),
        tag("th", named(draft.name, 60), used, scope="row"),
        tag("td", kind),
        tag("td", tag("div", *fields, class_="fields"), tag("div", *options, class_="options")),
        tag("td", state, tag("p", readable(known.text, 200), class_="hint")),
        data_kind=draft.kind if draft.kind in COLUMN_KINDS else "categorical",
        data_state=known.state,
        data_name=draft.name.casefold(),
        class_=None if draft.used else "unused",
    )


def _tick(name: str, label: str, ticked: bool, described: str, kinds: str | None = None) -> Markup:
    box = void(
        "input", type="checkbox", name=name, value="yes", checked="checked" if ticked else None, aria_label=described
    )
    return tag("label", box, " ", label, class_="choice", data_for=kinds)


def schema_files(studio: OwnerStudio) -> Markup:
    """Take a schema from a file, or take this one away."""
    return tag(
        "details",
        tag("summary", "Schema files"),
        form(
            "/columns/schema",
            text_field(
                "path", "Take the columns from a schema file", "", hint=".toml of hush, domain.json or domain.yaml"
            ),
            button("Take it", plain=True),
        ),
        tag("p", tag("a", "Save these columns as a schema file", href="/columns/schema.toml", download="schema.toml")),
        class_="more",
    )


def check_form() -> Markup:
    """The owner's check, which shows private facts."""
    return tag(
        "details",
        tag("summary", "Owner's check: do the rows fit?"),
        notice(CHECK_WARNING, kind="private"),
        form("/columns/check", button("Show me private facts about my rows", plain=True)),
        class_="more",
    )


def save_columns(studio: OwnerStudio, fields: FormData) -> Response:
    """Save what was typed, and change the chosen columns if that was asked for."""
    state = studio.state
    drafts = [typed_draft(draft, index, fields) for index, draft in enumerate(state.columns)]
    action = str(fields.get("action", "save"))
    if action == "bulk":
        chosen = {int(str(text)) for text in fields.getlist("chosen") if str(text).isdigit()}
        drafts = [changed(draft, fields) if index in chosen else draft for index, draft in enumerate(drafts)]
    studio.project.replace_checked(str(fields.get("seen", "")), "columns", drafts)
    if action != "next":
        return back_to("/columns")
    state = studio.state
    if marked_columns(state):
        discovery_draft(state)  # says what else is missing
    else:
        schema_of(state)
    return back_to("/people")


def typed_draft(draft: ColumnDraft, index: int, fields: FormData) -> ColumnDraft:
    """A draft as a form describes it."""
    key = f"c{index}"
    if f"{key}-kind" not in fields:
        return draft
    kind = str(fields.get(f"{key}-kind"))
    texts = {name: str(fields.get(f"{key}-{name}", "")).replace("\r\n", "\n").strip() for name in ALL_FIELDS}
    if kind != draft.kind:
        texts = {name: text or DEFAULT_TEXTS.get(kind, {}).get(name, "") for name, text in texts.items()}
    flags = {name: f"{key}-{name}" in fields for name in ("used", "discover", "missing", "clamp", "other")}
    more = str(fields.get(f"{key}-more", "")).replace("\r\n", "\n").strip()
    texts = {name: text for name, text in texts.items() if text}
    if DISCOVERED in more and more == draft.more and (texts, kind) != (draft.texts, draft.kind):
        more = without_provenance(more)
    return ColumnDraft(
        name=draft.name,
        kind=kind if kind in COLUMN_KINDS else draft.kind,
        texts=texts,
        more=more,
        note="" if flags["used"] else draft.note,
        **flags,
    )


def changed(draft: ColumnDraft, fields: FormData) -> ColumnDraft:
    """A draft after the edit for all chosen columns."""
    parts: dict[str, Any] = {}
    texts = dict(draft.texts)
    if kind := str(fields.get("bulk-kind", "")):
        parts["kind"] = kind if kind in COLUMN_KINDS else draft.kind
        texts = dict(DEFAULT_TEXTS.get(kind, {})) | texts
    for key in ("low", "high", "bins", "values"):
        if text := str(fields.get(f"bulk-{key}", "")).replace("\r\n", "\n").strip():
            texts[key] = text
    flags = {
        "use": ("used", True),
        "leave": ("used", False),
        "discover": ("discover", True),
        "know": ("discover", False),
        "missing": ("missing", True),
        "filled": ("missing", False),
        "clamp": ("clamp", True),
        "other": ("other", True),
    }
    action = str(fields.get("bulk-action", ""))
    if action in flags:
        name, value = flags[action]
        parts[name] = value
    edited = replace(draft, texts=texts, **parts)
    if DISCOVERED in draft.more and (edited.texts, edited.kind) != (draft.texts, draft.kind):
        edited = replace(edited, more=without_provenance(draft.more))
    return edited


def import_schema(studio: OwnerStudio, fields: FormData) -> Response:
    """Take columns, rules and the unit from a schema file."""
    path = str(fields.get("path", "")).strip()
    if not path:
        raise HushError("write the path of a schema file")
    schema = Schema.load(studio.folder / Path(path).expanduser())
    with studio.project.changing() as state:
        described = {draft.name: draft for draft in drafts_of(schema)}
        drafts = [
            described.get(draft.name) or replace(draft, used=False, note="not in the schema file")
            for draft in state.columns
        ]
        missing = described.keys() - {draft.name for draft in state.columns}
        if missing:
            raise HushError(f"the data has no column {', '.join(sorted(map(repr, missing)))}; take another schema file")
        people = state.people
        if schema.unit.column is not None:
            people = replace(people, unit=schema.unit.column, max_rows=str(schema.unit.max_rows))
        studio.project.write(state.replaced(columns=drafts, rules=rules_of(schema), people=people))
    return back_to("/columns")


def schema_download(studio: OwnerStudio) -> Response:
    """The columns as a schema file."""
    text = schema_of(studio.state).to_toml()
    headers = {"content-disposition": 'attachment; filename="schema.toml"'}
    return Response(text, media_type="application/toml", headers=headers)


def owner_check(studio: OwnerStudio, fields: FormData) -> Response:
    """How the rows fit the columns, for the owner's eyes only."""
    state = studio.state
    location, table = studio.source(state)
    outcome = dry_run(location, schema_of(state), **({"table": table} if table else {}))
    page = studio.page(
        join(
            notice(CHECK_WARNING, kind="private"),
            check_table(outcome),
            tag("p", tag("a", "Back to the columns", href="/columns")),
        ),
        title="Owner's check",
        current="/columns",
    )
    return HTMLResponse(page)


def check_table(outcome: DryRun) -> Markup:
    """The outcome of a check, column by column."""
    from hush.render.html_page import page_table

    rows: list[Sequence[str]] = []
    for column in outcome.columns:
        counts = (column.levels, column.clamped, column.missing, column.other, column.refusals)
        cells = ("", "", "", "", "all") if column.problem else tuple(f"{count:,}" for count in counts)
        rows.append((named(column.name, 60), *cells))
    headings = ("column", "in a level", "clamped", "missing", "other", "refused")
    causes = [
        f"{readable(column.name, 60)}: {counted(values.count, 'value')} refused"
        + (
            f", such as {', '.join(readable(example, 40) for example in values.examples)}. "
            if values.examples
            else ". "
        )
        + sentence(with_boxes(values.cause))
        for column in outcome.columns
        for values in column.refused
    ]
    causes += [f"{readable(column.name, 60)}: {column.problem}" for column in outcome.columns if column.problem]
    verdict = "All rows fit." if outcome.fits else "A release would be refused, because of these values:"
    return join(
        tag("p", f"{counted(outcome.rows, 'row')} were read. {verdict}"),
        bullet_list(causes) if causes else None,
        page_table(headings, rows, numbers=range(1, 6)),
    )
