"""TOML text: dots and brackets are counted where they are structure, and nowhere else."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.errors import SchemaError
from hush.schema.schema_toml import value_text
from hush.schema.toml_text import MOST_NESTED, MOST_PARTS, parse_toml

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
        "x = " + "[" * MOST_NESTED + "]" * MOST_NESTED,
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
        parse_toml("x = " + opening * (MOST_NESTED + 1))


@pytest.mark.parametrize(
    "text", ['x = "a', "x = 'a", 'x = """a', "x = '''a", 'x = "\\', "x = [", "x = 1_", "x = " + "9" * 5000]
)
def test_what_is_not_toml_is_refused(text: str) -> None:
    with pytest.raises(SchemaError, match="^not valid TOML: "):
        parse_toml(text)


@given(st.lists(st.text(alphabet=".[]{}\"'#\\\n a", max_size=30), max_size=5))
def test_no_text_is_taken_for_structure(values: list[str]) -> None:
    assert parse_toml(f"x = {value_text(values)}") == {"x": values}
