"""The pages of people and questions: who is protected, and what matters."""

from __future__ import annotations

from starlette.datastructures import FormData
from starlette.responses import Response

from hush.core.errors import HushError, WorkloadError, shown
from hush.render.labels import named, readable, table_name
from hush.render.markup import Markup, join, tag
from hush.studio.column_draft import marked_columns, schema_of, state_of, unit_of
from hush.studio.guard import back_to
from hush.studio.layout import (
    NO_COLUMN,
    ORDINALS,
    button,
    check_field,
    form,
    hidden,
    meaning,
    notice,
    select,
    select_field,
    text_field,
)
from hush.studio.owner import OwnerStudio
from hush.studio.planned import ORDERS, stated_rows, workload_text
from hush.studio.project import AskedQuestions, ProjectFile, ProtectedPeople, digest
from hush.tables.drafting import names_a_unit

NUMBER_KINDS = ("integer", "numeric")


def show_people(studio: OwnerStudio, message: str | None = None) -> str:
    """The page of people."""
    state = studio.state
    people = state.people
    suggested = next((draft.name for draft in state.columns if names_a_unit(draft.name)), "")
    choices = [("", "nobody has more than one row"), *((draft.name, draft.name) for draft in state.columns)]
    hint = (
        f"The column {readable(suggested, 40)} looks like an id. Choose it if people may have several rows."
        if suggested and not people.unit
        else None
    )
    body = form(
        "/people",
        hidden("seen", digest(people)),
        tag("p", "hush protects one person: whether they are in the table or not barely changes what is released."),
        meaning("unit"),
        select_field("unit", "Which column holds the id of a person?", choices, people.unit, hint=hint),
        text_field(
            "max_rows",
            "At most this many rows of each person are used",
            people.max_rows,
            hint="Matters only with an id. Further rows of a person are left out. More rows mean more noise.",
            inputmode="numeric",
        ),
        text_field(
            "rows",
            "About how many rows does the table have? (optional)",
            people.rows,
            term="rows",
            hint="Such as 10000, from public knowledge. Without it, errors are not compared with counts.",
            inputmode="numeric",
        ),
        button("Save and continue"),
    )
    return studio.page(
        body,
        title="Who is protected?",
        current="/people",
        message=message,
    )


def save_people(studio: OwnerStudio, fields: FormData) -> Response:
    """Save the page of people."""
    people = ProtectedPeople(
        unit=str(fields.get("unit", "")),
        max_rows=str(fields.get("max_rows", "1")).strip() or "1",
        rows=str(fields.get("rows", "")).strip(),
        reviewed=True,
    )
    state = studio.project.replace_checked(str(fields.get("seen", "")), "people", people)
    if people.unit and people.unit not in {draft.name for draft in state.columns}:
        raise HushError(f"the data has no column {shown(people.unit)}; choose one of the list")
    unit_of(state)
    stated_rows(state)
    return back_to("/discovery" if marked_columns(state) else "/questions")


def show_questions(studio: OwnerStudio, message: str | None = None) -> str:
    """The page of questions."""
    state = studio.state
    asked = state.questions
    orders = (
        ("0", "only the tables below"),
        ("1", "every column by itself"),
        ("2", "every pair of columns"),
        ("3", "every three columns"),
    )
    tables = tag(
        "fieldset",
        tag("legend", "Which tables matter?"),
        *(check_field("order", text, asked.order == order, value=order, kind="radio") for order, text in orders),
        meaning("tables"),
        listed("Tables that matter too", [join(table_name(tuple(table))) for table in asked.tables], "table"),
        add_table(state),
    )
    averages = tag(
        "fieldset",
        tag("legend", "Which averages matter?"),
        meaning("averages"),
        listed("Averages", [average_name(average) for average in asked.averages], "average"),
        add_average(state),
    )
    more = tag(
        "details",
        tag("summary", "More questions, as a workload"),
        text_field(
            "more",
            "Further questions",
            asked.more,
            hint='Added to the questions above, such as "age:prefix, sex". The page on workloads has the rules.',
            spellcheck="false",
        ),
        class_="more",
        open="open" if asked.more else None,
    )
    body = form(
        "/questions",
        asked_notice(state),
        hidden("seen", digest(asked)),
        choose_goal(state),
        tables,
        averages,
        more,
        button("Save and continue", name="action", value="next"),
        button("Save", name="action", value="save", plain=True),
    )
    return studio.page(
        body,
        title="What matters?",
        current="/questions",
        message=message,
    )


def choose_goal(state: ProjectFile) -> Markup:
    """Choose between tables and synthetic rows, and the column that will be predicted from rows."""
    asked = state.questions
    return tag(
        "fieldset",
        tag("legend", "What should the release be good at?"),
        check_field(
            "goal",
            "Tables and averages, with errors known beforehand",
            asked.goal == "answers",
            value="answers",
            kind="radio",
        ),
        check_field(
            "goal",
            "Synthetic rows that resemble the real ones in all ways",
            asked.goal == "rows",
            value="rows",
            kind="radio",
        ),
        meaning("synthetic"),
        select_field(
            "label",
            "Column that will be predicted from the rows (optional)",
            [("", "none"), *((name, name) for name in used_columns(state))],
            asked.label,
            hint="Matters only for synthetic rows. If a classifier will learn from the rows to predict one column, "
            "such as income, choose this column. hush then measures more of how the other columns relate to it.",
        ),
    )


def used_columns(state: ProjectFile, kinds: tuple[str, ...] = ()) -> list[str]:
    """The names that questions may have: columns of the schema as far as it is ready, parts of times too."""
    names: list[str] = []
    for draft in state.columns:
        made = state_of(draft, state.people.unit).made
        columns = () if made is None else getattr(made, "columns", (made,))
        names += [column.name for column in columns if not kinds or column.kind in kinds]
    return names


def listed(title: str, names: list[Markup], kind: str) -> Markup | None:
    """What was added, each with a button that takes it away."""
    if not names:
        return None
    items = (
        tag(
            "li",
            name,
            " ",
            tag(
                "button",
                "Remove",
                type="submit",
                name="action",
                value=f"remove-{kind}-{index}",
                class_="plain small",
                aria_label=f"Remove {kind} {index + 1}",
            ),
        )
        for index, name in enumerate(names)
    )
    return join(tag("h2", title, class_="small"), tag("ul", *items, class_="added"))


def add_table(state: ProjectFile) -> Markup:
    """Choose the columns of one more table."""
    names = used_columns(state)
    fields = [
        select(
            "table", [("", nothing), *((name, name) for name in names)], "", aria_label=f"{ordinal} of a table to add"
        )
        for ordinal, nothing in zip(ORDINALS, NO_COLUMN, strict=True)
    ]
    add = button("Add table", name="action", value="add-table", plain=True)
    return tag("div", *fields, add, class_="row")


def add_average(state: ProjectFile) -> Markup:
    """Choose a column of numbers, and groups."""
    numbers = used_columns(state, NUMBER_KINDS)
    if not numbers:
        return tag("p", "No column of numbers is ready yet.", class_="soft")
    column = select("average", [("", "column"), *((name, name) for name in numbers)], "", aria_label="Average of")
    groups = [("", "all people"), *((name, f"by {name}") for name in used_columns(state) if name)]
    by = select("by", groups, "", aria_label="For each group of")
    return tag("div", column, by, button("Add average", name="action", value="add-average", plain=True), class_="row")


def average_name(average: list[str]) -> Markup:
    """An average in words."""
    column, *by = average
    return join("average ", named(column, 60), join(" by ", table_name(tuple(by))) if by else None)


def save_questions(studio: OwnerStudio, fields: FormData) -> Response:
    """Save the page of questions, with what was added or removed."""
    state = studio.state
    asked, action = state.questions, str(fields.get("action", "save"))
    tables, averages = list(asked.tables), list(asked.averages)
    known = set(used_columns(state))
    chosen = list(dict.fromkeys(str(name) for name in fields.getlist("table") if str(name)))
    average, by, label = (str(fields.get(name, "")) for name in ("average", "by", "label"))
    # A table or an average that was chosen but not yet added is meant, whichever button is pressed.
    if chosen and not action.startswith("remove") and sorted(chosen) not in [sorted(table) for table in tables]:
        tables.append(chosen)
    if average and not action.startswith("remove"):
        wanted = [average, *([by] if by and by != average else [])]
        averages += [wanted] if wanted not in averages else []
    for name in {*chosen, average, by, label} - {""}:
        if name not in known:
            raise WorkloadError(f"{shown(name)} is no column that is used; choose one of the list")
    kind, _, index = action.removeprefix("remove-").partition("-")
    if action.startswith("remove-") and index.isdigit():
        entries = tables if kind == "table" else averages
        if int(index) < len(entries):
            del entries[int(index)]
    order = str(fields.get("order", asked.order))
    changed = AskedQuestions(
        goal="rows" if fields.get("goal") == "rows" else "answers",
        label=label,
        order=order if order in ORDERS else asked.order,
        tables=tables,
        averages=averages,
        more=str(fields.get("more", "")).strip(),
        reviewed=action == "next" or asked.reviewed,
    )
    state = studio.project.replace_checked(str(fields.get("seen", "")), "questions", changed)
    if action != "next":
        return back_to("/questions")
    schema = schema_of(state)
    workload_text(state.questions, schema)
    return back_to("/budget")


def asked_notice(state: ProjectFile) -> Markup:
    """Questions about columns that are no longer used, and a column to predict that is no longer used."""
    asked, known, notices = state.questions, set(used_columns(state)), []
    lost = sorted({name for table in (*asked.tables, *asked.averages) for name in table} - known)
    if lost:
        names = ", ".join(map(readable, lost))
        notices.append(notice(f"The questions name columns that are not used: {names}. Remove these questions."))
    if asked.label and asked.label not in known:
        words = f"The column to predict, {readable(asked.label)}, is no longer used. Choose another one, or none."
        notices.append(notice(words))
    return join(*notices)
