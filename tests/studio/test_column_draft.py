"""Column drafts: what is typed becomes a schema, and a schema goes through the studio without loss."""

import datetime as dt
from pathlib import Path

import pytest

from hush.core.errors import SchemaError
from hush.schema import Boolean, Categorical, Date, Granularity, Integer, Numeric, Schema
from hush.schema.number_spelling import NumberSpelling
from hush.schema.stamps import TimeOfDay, Timestamp
from hush.studio.column_draft import draft_of, drafts_of, first_draft, rules_of, schema_of, state_of
from hush.studio.project import ColumnDraft, PeopleError, ProjectFile, ProtectedPeople
from hush.tables.drafting import GuessedColumn, guessed_columns

HOSTILE = '"]\nvalues = ["x"] # <script>'
EVERY_KIND = Schema(
    [
        Integer(name="age", low=0, high=120, missing=True, missing_values=("?",)),
        Integer.equal_width(name="hours", low=0, high=99, bins=7, points=(40,), outside="clamp"),
        Integer(name="pay", low=0, high=999, starts=(0, 10, 500), spelling=NumberSpelling(decimal=",", thousands=".")),
        Numeric.equal_width(name="fare", low=0.5, high=99.25, bins=12, step=0.25),
        Numeric(name="gain", edges=(0.0, 0.1, 7.5, 100.0)),
        Categorical(name="sex", values=("f", "m"), other=True),
        Categorical(name="grade", values=(1, 2, 3)),
        Categorical(name=HOSTILE, values=("a, b", " c".strip(), HOSTILE, "one\ttab")),
        Boolean(name="smokes"),
        Date(name="day", start=dt.date(2020, 1, 1), end=dt.date(2021, 12, 31), granularity=Granularity.WEEK),
        Timestamp(name="at", start=dt.date(2020, 1, 1), end=dt.date(2020, 6, 1), parts=("date", "minute"), minutes=20),
        TimeOfDay(name="shift", parts=("hour",)),
    ]
).forbid(["age", "sex"], [[{"to": 14}, "m"]])


def test_every_kind_goes_through_drafts_without_loss() -> None:
    project = ProjectFile(columns=drafts_of(EVERY_KIND), rules=rules_of(EVERY_KIND))
    assert schema_of(project) == EVERY_KIND
    assert schema_of(project).to_toml() == EVERY_KIND.to_toml()
    assert draft_of(EVERY_KIND["sex"]).texts == {"values": "f\nm"}


def test_private_levels_stay_marked() -> None:
    schema = Schema([Integer(name="age", low=3, high=41, from_private_data=True)])
    assert schema_of(ProjectFile(columns=drafts_of(schema))).from_private_data == ("age",)


def test_rules_about_columns_that_are_left_out_are_left_out_too() -> None:
    drafts = drafts_of(EVERY_KIND)
    project = ProjectFile(columns=[d for d in drafts if d.name != "sex"], rules=rules_of(EVERY_KIND))
    assert schema_of(project).constraints == ()


def draft(kind: str, **texts: str) -> ColumnDraft:
    return ColumnDraft(name="c", kind=kind, texts=texts)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (draft("integer"), "write the lowest and the highest possible number"),
        (draft("integer", low="0"), "write the highest possible number"),
        (draft("integer", low="0", high="ten"), "high: 'ten': expected a whole number"),
        (draft("integer", low="0", high="1.5"), "high"),
        (draft("integer", low="9", high="1"), "swap them"),
        (draft("numeric", low="0", high="inf", bins="3"), "high"),
        (draft("numeric", low="0", high="[1]", bins="3"), "expected a number"),
        (draft("categorical"), "write every value that may occur"),
        (draft("categorical", values="a\na"), "twice"),
        (draft("date", start="2020-31-01", end="2020-01-01", granularity="month"), "expected a date"),
        (draft("time", parts="century"), "expected one of"),
        (draft("colour"), "expected one of"),
        (ColumnDraft(name="c", kind="boolean", more="low = 3"), "unknown key"),
        (ColumnDraft(name="c", kind="boolean", more="not toml"), "TOML"),
    ],
)
def test_what_is_wrong_is_said_and_kept(typed: ColumnDraft, words: str) -> None:
    state = state_of(typed)
    assert state.state == "unfinished"
    assert words in state.text
    with pytest.raises(SchemaError, match="column 'c'"):
        schema_of(ProjectFile(columns=[typed]))


def test_columns_that_are_left_out_or_to_be_discovered() -> None:
    unused = ColumnDraft(name="a", kind="integer", used=False)
    marked = ColumnDraft(name="b", kind="integer", discover=True)
    ready = ColumnDraft(name="c", kind="boolean")
    assert [state_of(d).state for d in (unused, marked, ready)] == ["left out", "discover", "ready"]
    assert schema_of(ProjectFile(columns=[unused, ready])).domain.attributes == ("c",)
    with pytest.raises(SchemaError, match="'b' is marked for private discovery; find what is open"):
        schema_of(ProjectFile(columns=[unused, marked, ready]))
    with pytest.raises(SchemaError, match="no column is used"):
        schema_of(ProjectFile(columns=[unused]))


def test_the_id_of_the_people_is_no_column() -> None:
    columns = [ColumnDraft(name="person", kind="boolean"), ColumnDraft(name="c", kind="boolean")]
    project = ProjectFile(columns=columns, people=ProtectedPeople(unit="person", max_rows="3"))
    schema = schema_of(project)
    assert schema.domain.attributes == ("c",)
    assert (schema.unit.column, schema.unit.max_rows) == ("person", 3)
    for wrong in ("0", "-1", "many", "", "1" * 40):
        project.people.max_rows = wrong
        with pytest.raises(PeopleError, match="rows of one person"):
            schema_of(project)


def test_first_drafts_come_from_names_and_types_alone(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("person_id,age,visited_at,is_new,town\n7,secret,secret,secret,secret\n")
    drafts = [first_draft(column) for column in guessed_columns(path)]
    assert [(d.name, d.kind, d.used) for d in drafts] == [
        ("person_id", "categorical", False),
        ("age", "integer", True),
        ("visited_at", "date", True),
        ("is_new", "boolean", True),
        ("town", "categorical", True),
    ]
    assert "secret" not in repr(drafts)
    assert first_draft(GuessedColumn("x", "numeric")).texts == {"bins": "20"}
