"""TOML: an exact round trip, and one clear line for every mistake in a file."""

import datetime as dt
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn_schemas import schemas
from hush.core.errors import SchemaError
from hush.schema import Boolean, Categorical, Column, Date, Integer, Numeric, Schema, Unit
from hush.schema.schema_toml import MOST_BRACKETS, MOST_PARTS, name_text, parse_toml, read_toml, value_text, write_toml

EXAMPLE = """\
hush_schema = 1                  # version of this format

[unit]                           # optional; without it the unit is a row
column = "person_id"
max_rows = 3

[columns.age]
kind = "integer"
low = 17
high = 90
outside = "clamp"                # or "refuse" (default)
missing = true
missing_values = ["?"]

[columns.income]
kind = "numeric"
low = 0
high = 100000
bins = 32

[columns.weight]
kind = "numeric"
edges = [0, 10, 100.5]

[columns.sex]
kind = "categorical"
values = ["Female", "Male"]
other = true

[columns.smoker]
kind = "boolean"

[columns.admitted]
kind = "date"
start = 2020-01-01
end = 2024-12-31
granularity = "month"
"""


def test_the_example_reads_as_it_says() -> None:
    assert read_toml(EXAMPLE) == Schema(
        [
            Integer(name="age", low=17, high=90, outside="clamp", missing=True, missing_values=("?",)),
            Numeric.equal_width(name="income", low=0, high=100000, bins=32),
            Numeric(name="weight", edges=(0, 10, 100.5)),
            Categorical(name="sex", values=("Female", "Male"), other=True),
            Boolean(name="smoker"),
            Date(name="admitted", start=dt.date(2020, 1, 1), end=dt.date(2024, 12, 31), granularity="month"),
        ],
        unit=Unit(column="person_id", max_rows=3),
    )


def typed(column: Column) -> list[tuple[type, object]]:
    return [(type(value), value) for value in getattr(column, "values", ())]


@given(schemas())
def test_round_trip_is_exact(schema: Schema) -> None:
    again = read_toml(write_toml(schema))
    assert again == schema
    assert [typed(column) for column in again] == [typed(column) for column in schema]  # 1 == True == 1.0
    assert write_toml(again) == write_toml(schema)
    assert again.from_private_data == schema.from_private_data  # which equality ignores


@given(st.text())
def test_any_text_survives_as_key_and_value(text: str) -> None:
    assert tomllib.loads(f"{name_text(text)} = {value_text(text)}") == {text: text}


def test_equal_bins_are_written_as_bounds_and_others_as_edges() -> None:
    equal = write_toml(Schema([Numeric.equal_width(name="x", low=0, high=0.3, bins=3)]))
    given = write_toml(Schema([Numeric(name="x", edges=(0, 0.1, 0.3))]))
    assert "low = 0\nhigh = 0.3\nbins = 3" in equal
    assert "edges = [0, 0.1, 0.3]" in given


def test_long_lists_are_wrapped() -> None:
    schema = Schema([Categorical(name="x", values=tuple(f"value {k}" for k in range(200)))])
    text = write_toml(schema)
    assert max(len(line) for line in text.splitlines()) <= 100
    assert read_toml(text) == schema


def column(*lines: str) -> str:
    return "\n".join(["hush_schema = 1", "[columns.x]", *lines])


BAD = {
    "not TOML": ("a b", r"not valid TOML: .*line 1"),
    "a key given twice": (column('kind = "boolean"', 'kind = "date"'), "not valid TOML"),
    "a column given twice": (column('kind = "boolean"') + "\n[columns.x]", "not valid TOML"),
    "deep nesting": ("a = " + "[" * 100_000, "nested too deeply to be a schema"),
    "too many digits": (f"hush_schema = {'9' * 5000}", "not valid TOML"),
    "no version": ("[columns.x]\nkind = 'boolean'", "hush_schema is missing; a hush schema begins with"),
    "version of a wrong type": ("hush_schema = '1'", r"hush_schema = '1' \(a text\): expected the version"),
    "version zero": ("hush_schema = 0", "expected the version of the format, 1"),
    "a newer version": ("hush_schema = 2", "reads versions up to 1; install a newer hush"),
    "a huge version": (f"hush_schema = 0x{'f' * 9000}", "an integer of 36000 bits"),
    "unknown top key": ("hush_schema = 1\ncolums = 3", "unknown key 'colums'; did you mean 'columns'?"),
    "no columns": ("hush_schema = 1", r"columns is missing; declare at least one \[columns.name\]"),
    "empty columns": ("hush_schema = 1\n[columns]", "declares no columns"),
    "columns of a wrong type": (
        "hush_schema = 1\ncolumns = 3",
        r"\[columns\]: found 3 \(an integer\), expected a table",
    ),
    "a column of a wrong type": ("hush_schema = 1\ncolumns.x = []", "column 'x': found a list, expected a table"),
    "a list of columns": ("hush_schema = 1\n[[columns]]\nname = 'x'", r"\[columns\]: found a list, expected a table"),
    "no kind": (column("low = 1"), "column 'x': kind is missing; expected one of categorical, boolean"),
    "unknown kind": (column('kind = "integr"'), r"kind = 'integr' \(a text\): did you mean 'integer'\?"),
    "quite unknown kind": (column('kind = "qqq"'), "expected one of categorical, boolean, integer, numeric, date"),
    "kind of a wrong type": (column("kind = 3"), r"kind = 3 \(an integer\): expected a text in quotes"),
    "unknown key": (column('kind = "integer"', "hi = 1"), r"column 'x': unknown key 'hi'; did you mean 'high'\?"),
    "a key of another kind": (
        column('kind = "boolean"', "low = 1"),
        "unknown key 'low'; expected one of kind, missing",
    ),
    "no low": (column('kind = "integer"', "high = 1"), "low is missing; write the smallest possible integer"),
    "no high": (column('kind = "integer"', "low = 1"), "high is missing; write the largest possible integer"),
    "low of a wrong type": (
        column('kind = "integer"', "low = 1.5", "high = 2"),
        r"low = 1.5 \(a number\): expected an integer",
    ),
    "low is a boolean": (column('kind = "integer"', "low = true", "high = 2"), r"low = True \(a boolean\)"),
    "bounds swapped": (
        column('kind = "integer"', "low = 3", "high = 2"),
        "column 'x': low = 3 is above high = 2; swap them",
    ),
    "a huge bound": (column('kind = "integer"', f"low = 0x{'f' * 9000}", "high = 2"), "low=an integer of 36000 bits"),
    "a huge range": (column('kind = "integer"', "low = 0", "high = 9000000000"), "levels: at most"),
    "no bins": (column('kind = "numeric"', "low = 0", "high = 1"), "bins is missing; write the number of bins"),
    "too many bins": (column('kind = "numeric"', "low = 0", "high = 1", "bins = 99999999"), "from 1 to 1,048,576"),
    "infinite bound": (
        column('kind = "numeric"', "low = 0", "high = inf", "bins = 3"),
        "high = inf .*: expected a finite number",
    ),
    "bound of a wrong type": (
        column('kind = "numeric"', "low = '0'", "high = 1", "bins = 3"),
        "low = '0' .*: expected a number",
    ),
    "numeric bounds swapped": (
        column('kind = "numeric"', "low = 1", "high = 0", "bins = 3"),
        "low = 1 is not below high = 0",
    ),
    "edges and bins": (column('kind = "numeric"', "edges = [0, 1]", "bins = 3"), "bins = 3 .*: edges already say this"),
    "edges of a wrong type": (column('kind = "numeric"', "edges = 3"), "edges = 3 .*: expected a list"),
    "edges of texts": (column('kind = "numeric"', "edges = ['a', 'b']"), "edges='a': expected a number"),
    "no values": (column('kind = "categorical"'), "values is missing; list every value that may occur"),
    "empty values": (column('kind = "categorical"', "values = []"), "column 'x' declares no values; list every value"),
    "values of a wrong type": (column('kind = "categorical"', "values = 'ab'"), "values = 'ab' .*: expected a list"),
    "a value that is a list": (
        column('kind = "categorical"', "values = [['a']]"),
        "expected text, a number, a boolean or a date",
    ),
    "other of a wrong type": (
        column('kind = "categorical"', "values = [1]", "other = 1"),
        "other = 1 .*: expected true or false",
    ),
    "missing of a wrong type": (
        column('kind = "boolean"', 'missing = "yes"'),
        "missing = 'yes' .*: expected true or false",
    ),
    "missing_values of a wrong type": (
        column('kind = "boolean"', "missing = true", "missing_values = [1]"),
        "expected a list of texts",
    ),
    "missing_values alone": (column('kind = "boolean"', 'missing_values = ["?"]'), "set missing = true"),
    "unknown outside": (
        column('kind = "integer"', "low = 0", "high = 1", 'outside = "drop"'),
        "outside='drop': expected one of 'refuse', 'clamp'",
    ),
    "no start": (column('kind = "date"', "end = 2020-01-01"), "start is missing; write the first possible day"),
    "a quoted date": (
        column('kind = "date"', 'start = "2020-01-01"', "end = 2020-01-01"),
        r"expected a date, such as 2020-01-31 \(without quotes\)",
    ),
    "a date with a time": (
        column('kind = "date"', "start = 2020-01-01T00:00:00", "end = 2020-01-01"),
        "start = a date with a time: expected a date",
    ),
    "dates swapped": (
        column('kind = "date"', "start = 2021-01-01", "end = 2020-01-01"),
        "start = 2021-01-01 is after end = 2020-01-01; swap",
    ),
    "unknown granularity": (
        column('kind = "date"', "start = 2020-01-01", "end = 2020-01-01", 'granularity = "hour"'),
        "granularity='hour': expected one of 'day'",
    ),
    "unit without a column": (
        column('kind = "boolean"') + "\n[unit]\nmax_rows = 3",
        r"\[unit\]: column is missing; name the id column",
    ),
    "unit of a wrong type": (
        "hush_schema = 1\nunit = 'id'\n[columns.x]\nkind = 'boolean'",
        r"\[unit\]: found 'id' \(a text\), expected a table",
    ),
    "unknown unit key": (
        column('kind = "boolean"') + "\n[unit]\ncolumn = 'id'\nmax_row = 3",
        "did you mean 'max_rows'?",
    ),
    "no rows per unit": (
        column('kind = "boolean"') + "\n[unit]\ncolumn = 'id'\nmax_rows = 0",
        "max_rows=0: expected a whole number of at least 1",
    ),
    "unit that is counted": (
        column('kind = "boolean"') + "\n[unit]\ncolumn = 'x'",
        "is the privacy unit and cannot be counted too",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes_are_named_in_one_line(case: str) -> None:
    text, message = BAD[case]
    with pytest.raises(SchemaError, match=message) as caught:
        read_toml(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_a_type_that_has_no_toml_is_an_error_of_ours() -> None:
    with pytest.raises(TypeError, match="no TOML for NoneType"):
        value_text(None)


BINS_AND_POINTS = """\
hush_schema = 1

[columns.gain]
kind = "numeric"
low = 0
high = 100000
bins = 20
points = [0]

[columns.hours]
kind = "integer"
low = 0
high = 99
starts = [0, 35, 41]
points = [40]

[columns.year]
kind = "integer"
low = 1900
high = 2029
bins = 13
"""


def test_bins_of_integers_and_points_are_read_and_written() -> None:
    schema = read_toml(BINS_AND_POINTS)
    assert schema.domain.shape == (21, 4, 13)
    assert [schema["hours"].label(code) for code in range(4)] == ["0 to 34", "35 to 39", "40", "41 to 99"]
    assert write_toml(schema) == BINS_AND_POINTS


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ("bins = 3\nstarts = [0, 5]", "bins = 3 .*starts already say this; keep either bins or starts"),
        ("bins = 2.5", "bins = 2.5 .*expected an integer"),
        ("points = 0", "points = 0 .*expected a list"),
        ('bins = 2\npoints = ["a"]', "points='a': expected a whole number"),
        ("edges = [0, 5]", "unknown key 'edges'"),
    ],
)
def test_bins_of_integers_that_cannot_be_are_refused(entries: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        read_toml(f'hush_schema = 1\n[columns.x]\nkind = "integer"\nlow = 0\nhigh = 9\n{entries}\n')


def test_the_spelling_of_numbers_is_read_and_written() -> None:
    text = """\
hush_schema = 1

[columns.fare]
kind = "numeric"
low = 0
high = 500
bins = 50
decimal = ","
thousands = "."
strip = ["€", "EUR"]
"""
    schema = read_toml(text)
    assert schema.spellings["fare"].read("1.234,5 €") == 1234.5
    assert write_toml(schema) == text
    with pytest.raises(SchemaError, match="unknown key 'decimal'"):
        read_toml('hush_schema = 1\n[columns.x]\nkind = "boolean"\ndecimal = ","\n')


def test_a_step_is_read_and_written_and_must_fit() -> None:
    column = Numeric(name="fare", edges=(0.0, 10.0, 500.0), step=0.01)
    text = write_toml(Schema([column]))
    assert "step = 0.01\n" in text
    assert read_toml(text)["fare"] == column
    assert read_toml(text).to_toml() == text
    assert "step" not in write_toml(Schema([Numeric(name="fare", edges=(0.0, 10.0))]))
    for step, rule in (
        ("0", "above 0 and no wider"),
        ("-1", "above 0 and no wider"),
        ("501", "above 0 and no wider"),
        ("1e-20", "too fine for floats"),
        ("inf", "finite"),
        ('"0.1"', "expected a number"),
    ):
        with pytest.raises(SchemaError, match=rule):
            read_toml(text.replace("step = 0.01", f"step = {step}"))
    with pytest.raises(SchemaError, match="unknown key 'step'"):
        read_toml('hush_schema = 1\n[columns.age]\nkind = "integer"\nlow = 0\nhigh = 9\nstep = 1\n')


DOTS = "a.b" * 20
BRACKETS = "[" * 40


@pytest.mark.parametrize(
    "text",
    [
        f'x = "{DOTS}"',
        f"x = '{DOTS}'",
        f'x = """\n{DOTS}"{BRACKETS}""{DOTS}"""',
        f"x = '''{DOTS}'{BRACKETS}''{DOTS}'''",
        f'x = "\\"{DOTS}"  # {BRACKETS}',
        f'x = """{DOTS}"""""',
        f"x = 1  # {DOTS}\n# {BRACKETS}\n",
        f'"{DOTS}" = 1',
        f"[\"{DOTS}\".'{BRACKETS}']",
        "x = [" + "1.5, " * 50 + "]",
        "x = [" + "2020-01-01T00:00:00.5,\n" * 50 + "]",
        "x = {" + ", ".join(f"a{k}.b = 1.5" for k in range(20)) + "}",
        ".".join("abcdefgh"[:MOST_PARTS]) + " = 1.5",
        "x = " + "[" * MOST_BRACKETS + "]" * MOST_BRACKETS,
        "x = [" + "[[]], " * 40 + "]",
    ],
)
def test_what_a_schema_may_hold_is_parsed(text: str) -> None:
    assert parse_toml(text) == tomllib.loads(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (".".join("a" * (MOST_PARTS + 1)) + " = 1", 1),
        ("x = 1\n[" + ".".join("a" * (MOST_PARTS + 1)) + "]", 2),
        ("x = 1\n\n" + " . ".join(['"a"', "'a'"] * MOST_PARTS) + " = 1", 3),
        ("x = {" + ".".join("a" * 1000) + " = 1}", 1),
        ("a" + ".a" * 1_000_000, 1),
    ],
)
def test_long_dotted_keys_are_refused(text: str, line: int) -> None:
    with pytest.raises(SchemaError, match=rf"^in line {line} or later, a name has more than {MOST_PARTS} parts; put"):
        parse_toml(text)


@pytest.mark.parametrize("opening", ["[", "{a = ", "[{a = "])
def test_deep_nesting_is_refused(opening: str) -> None:
    with pytest.raises(SchemaError, match="^nested too deeply to be a schema$"):
        parse_toml("x = " + opening * (MOST_BRACKETS + 1))


@pytest.mark.parametrize(
    "text", ['x = "a', "x = 'a", 'x = """a', "x = '''a", 'x = "\\', "x = [", "x = 1_", "x = " + "9" * 5000]
)
def test_what_is_not_toml_is_refused(text: str) -> None:
    with pytest.raises(SchemaError, match="^not valid TOML: "):
        parse_toml(text)


@given(st.lists(st.text(alphabet=".[]{}\"'#\\\n a", max_size=30), max_size=5))
def test_no_text_is_taken_for_structure(values: list[str]) -> None:
    assert parse_toml(f"x = {value_text(values)}") == {"x": values}
