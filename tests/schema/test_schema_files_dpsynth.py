"""dpsynth's domain.yaml: old and new spellings, and what has no place in a hush schema."""

import pytest

from hush.core.errors import SchemaError
from hush.schema import Boolean, Categorical, Column, Integer, Numeric, Outside, Schema
from hush.schema.schema_files import read_dpsynth


def only(text: str) -> Column:
    (column,) = read_dpsynth(text).columns
    return column


def test_an_old_file_without_types() -> None:
    text = """
    age:
      clip_to_range: true
      dtype: int
      max_value: 50.0
      min_value: 10.0
    gender:
      out_of_domain_index: 0
      possible_values:
      - M
      - F
    """
    assert read_dpsynth(text) == Schema(
        [
            Integer.equal_width(name="age", low=10, high=50, bins=32, outside="clamp", missing=True),
            Categorical(name="gender", values=("M", "F"), other=True),
        ]
    )


def test_a_new_file_with_types() -> None:
    text = """
    type: Schema
    attributes:
      age: {type: NumericalAttribute, min_value: 0, max_value: 120, description: years}
      cat: {type: CategoricalAttribute, possible_values: [A, B], out_of_domain_index: 0, description: null}
    """
    assert [column.name for column in read_dpsynth(text)] == ["age", "cat"]


@pytest.mark.parametrize(
    ("entry", "values", "missing"),
    [
        ("[M, F]", ("M", "F"), False),  # an ordinary value at index 0 stays
        ("[Unknown, M, F]", ("M", "F"), True),  # a stand-in becomes other, with missing beside it
        ("[Other, M]", ("M",), True),
        ("[M, F, other]", ("M", "F"), False),
        ("[null, M, F]", ("M", "F"), True),  # null becomes missing
        ("['', M, F]", ("M", "F"), True),
        ("[1, 2, 3]", (1, 2, 3), False),
    ],
)
def test_the_level_for_unknown_values_becomes_other(entry: str, values: tuple, missing: bool) -> None:
    assert only(f"x: {{possible_values: {entry}}}") == Categorical(name="x", values=values, other=True, missing=missing)


def test_an_index_that_someone_chose_names_the_level_other() -> None:
    column = only("x: {possible_values: [A, B, Misc], out_of_domain_index: 2}")
    assert column == Categorical(name="x", values=("A", "B"), other=True)


def test_false_and_true_are_a_boolean_column() -> None:
    assert only("x: {possible_values: [false, true]}") == Boolean(name="x")
    assert only("x: {possible_values: [null, false, true]}") == Boolean(name="x", missing=True)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (
            "min_value: 0, max_value: 1",
            Numeric.equal_width(name="x", low=0, high=1, bins=32, outside="clamp", missing=True),
        ),
        (
            "min_value: 0, max_value: 1, num_bins: 4",
            Numeric(name="x", edges=(0, 0.25, 0.5, 0.75, 1), outside="clamp", missing=True),
        ),
        (
            "min_value: 0, max_value: 9, bin_edges: [0, 3, 9]",
            Numeric(name="x", edges=(0, 3, 9), outside="clamp", missing=True),
        ),
        ("min_value: 0, max_value: 31, dtype: int", Integer(name="x", low=0, high=31, outside="clamp", missing=True)),
        (
            "min_value: 0, max_value: 32, dtype: int",
            Integer.equal_width(name="x", low=0, high=32, bins=32, outside="clamp", missing=True),
        ),
        (
            "min_value: 0, max_value: 9, dtype: int, clip_to_range: false, sentinel: -1, interval_handling: midpoint",
            Integer(name="x", low=0, high=9, missing=True, missing_values=("-1",)),
        ),
        (
            "min_value: 0, max_value: 9, dtype: int, clip_to_range: false, sentinel: null",
            Integer(name="x", low=0, high=9, outside=Outside.REFUSE, missing=True),
        ),
        (
            "min_value: 0, max_value: 9, dtype: int, sentinel: 3",
            Integer(name="x", low=0, high=9, outside="clamp", missing=True),
        ),
    ],
)
def test_numbers(entry: str, expected: Column) -> None:
    assert only(f"x: {{{entry}}}") == expected


def test_an_open_set_with_public_values_keeps_these() -> None:
    column = only("x: {default_value: '<OOD>', public_possible_values: [a, b, other]}")
    assert column == Categorical(name="x", values=("a", "b"), other=True, missing=True)


def test_a_number_as_a_column_name() -> None:
    assert only("2020: {possible_values: [a]}").name == "2020"


BAD = {
    "not YAML": ("a: [", "not valid YAML: .* at line"),
    "a tag that runs code": ("!!python/object/apply:os.system ['true']", "not valid YAML"),
    "two documents": ("a: {}\n---\nb: {}", "not valid YAML"),
    "a text": ("hello", "expected a column name and its attribute"),
    "nothing": ("{}", "expected a column name and its attribute"),
    "deep nesting": ("[" * 20_000, "nested too deeply"),
    "an impossible date": ("x: {possible_values: [2020-02-31]}", "impossible date or number"),
    "a key given twice": ("x: {possible_values: [a]}\nx: {possible_values: [b]}", "'x' is given twice"),
    "an inner key given twice": ("x: {min_value: 0, min_value: 1, max_value: 2}", "'min_value' is given twice"),
    "a list as a key": ("? [a, b]\n: {possible_values: [a]}", r"the key \['a', 'b'\] is not a text"),
    "a merged mapping": ("x: &x {possible_values: [a]}\ny: {<<: *x}", "not valid YAML"),
    "control characters": ("x\x00: {}", "not valid YAML"),
    "several tables": ("tables: {a: {x: {type: CategoricalAttribute}}, b: {}}", "describes several tables"),
    "another thing": ("type: AIMConfig\npgm_iters: 3", "holds a dpsynth 'AIMConfig', not a domain"),
    "constraints": ("type: Schema\nattributes: {x: {possible_values: [a]}}\nconstraints: [1]", "has constraints"),
    "an open set": ("x: {}", "column 'x' is an open set of values, which cannot be counted; list its possible_values"),
    "an open set, null": ("x:", "column 'x' is an open set"),
    "an open set by default": ("x: {default_value: null}", "column 'x' is an open set"),
    "an open set by type": ("x: {type: OpenSetCategoricalAttribute}", "column 'x' is an open set"),
    "free text": (
        "x: {max_tokens: 256, description: null, formatting: null, exemplar: null}",
        "column 'x' is free text",
    ),
    "unknown type": ("x: {type: Blob}", "type = 'Blob' .*: expected one of CategoricalAttribute"),
    "unknown key": ("x: {possible_value: [a]}", "unknown key 'possible_value'"),
    "unknown numeric key": ("x: {min_value: 0, max_valu: 1}", "did you mean 'max_value'?"),
    "a column that is no mapping": ("x: [a, b]", "column 'x': found a list, expected a table"),
    "a boolean as a name": ("yes: {possible_values: [a]}", "column name True: expected a text; put it in quotes"),
    "no values": ("x: {possible_values: []}", "possible_values = a list: expected at least one value"),
    "one value for all": ("x: {possible_values: [Unknown]}", "lists no value besides the one for everything else"),
    "values of several types": ("x: {possible_values: [SE, NO]}", "the values differ in type; put texts such as no"),
    "index out of range": (
        "x: {possible_values: [a], out_of_domain_index: 1}",
        "expected the index of a possible value, 0 .. 0",
    ),
    "bounds swapped": ("x: {min_value: 1, max_value: 0}", "low = 1 is not below high = 0"),
    "no maximum": ("x: {min_value: 1}", "max_value is missing; write the largest possible value"),
    "infinite": ("x: {min_value: 0, max_value: .inf}", "max_value = inf .*: expected a finite number"),
    "NaN": ("x: {min_value: .nan, max_value: 1}", "min_value = nan .*: expected a finite number"),
    "a huge bound": (
        f"x: {{min_value: 0, max_value: 1{'0' * 400}}}",
        "max_value = an integer of 1329 bits .*: expected a finite",
    ),
    "a text as a bound": ("x: {min_value: a, max_value: 1}", "min_value = 'a' .*: expected a number"),
    "integers between fractions": ("x: {min_value: 0.5, max_value: 3, dtype: int}", "expected to be integers"),
    "unknown dtype": ("x: {min_value: 0, max_value: 3, dtype: complex}", "dtype = 'complex' .*: expected int or float"),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes_are_named_in_one_line(case: str) -> None:
    text, message = BAD[case]
    with pytest.raises(SchemaError, match=message) as caught:
        read_dpsynth(text)
    assert "\n" not in str(caught.value)


def test_a_file_that_doubles_itself_is_refused_in_a_short_line() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)]
    with pytest.raises(SchemaError, match="holds more than 131,072 values") as caught:
        read_dpsynth("\n".join(lines))
    assert len(str(caught.value)) < 200
