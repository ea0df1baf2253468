"""mbi's domain.json: names and sizes, and hostile files refused."""

import pytest

import hush
from hush.core.errors import SchemaError
from hush.schema import Schema
from hush.schema.schema_files import read_mbi


def test_names_and_sizes() -> None:
    domain = hush.Domain({"age": 85, "income>50K": 2, "été": 1})
    assert read_mbi('{"age": 85, "income>50K": 2, "été": 1}') == Schema.from_domain(domain)


def test_the_fields_of_a_domain_written_out() -> None:
    text = '{"attributes": ["age", "sex"], "shape": [85, 2], "labels": null}'
    assert read_mbi(text).domain == hush.Domain({"age": 85, "sex": 2})


def test_columns_may_be_called_attributes_and_shape() -> None:
    assert read_mbi('{"attributes": 3, "shape": 4}').domain == hush.Domain({"attributes": 3, "shape": 4})


BAD = {
    "not JSON": ('{"age": 85,}', "not valid JSON: .* line 1, column"),
    "a list": ("[85, 2]", "expected an object of names and sizes"),
    "a number": ("3", "expected an object of names and sizes"),
    "no attributes": ("{}", "the domain has no attributes"),
    "a key given twice": ('{"age": 85, "age": 3}', "'age' is given twice; keep one"),
    "NaN": ('{"age": NaN}', "NaN is not a size; expected a whole number of at least 1"),
    "infinity": ('{"age": -Infinity}', "-Infinity is not a size"),
    "negative": ('{"age": -3}', "attribute 'age': size=-3: expected a whole number of at least 1"),
    "zero": ('{"age": 0}', "attribute 'age': size=0: expected a whole number of at least 1"),
    "a float": ('{"age": 85.0}', "attribute 'age': size=85.0: expected a whole number of at least 1"),
    "a boolean": ('{"age": true}', "attribute 'age': size=True: expected a whole number of at least 1"),
    "a text": ('{"age": "85"}', "attribute 'age': size='85': expected a whole number of at least 1"),
    "null": ('{"age": null}', "attribute 'age': size=None: expected a whole number of at least 1"),
    "nested": ('{"age": {"size": 85}}', "attribute 'age': size={'size': 85}: expected a whole number of at least 1"),
    "deep nesting": ('{"a":' * 100_000, "nested too deeply to be a domain"),
    "too large": ('{"age": 99999999999}', "has 99999999999 levels: at most"),
    "too many digits": (f'{{"age": {"9" * 5000}}}', "not valid JSON: an integer has too many digits"),
    "an empty name": ('{"": 3}', "attribute '': expected a non-empty name"),
    "a blank name": ('{" ": 3}', "column name ' ': expected non-empty text"),
    "a broken name": ('{"\\ud800": 3}', "not valid Unicode text"),
    "lists of different length": ('{"attributes": ["a"], "shape": [1, 2]}', "1 names and shape 2 sizes"),
    "names that are none": ('{"attributes": [1], "shape": [1]}', "attributes: expected a list of names"),
    "names given twice": ('{"attributes": ["a", "a"], "shape": [1, 2]}', "'a' is given twice"),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes_are_named_in_one_line(case: str) -> None:
    text, message = BAD[case]
    with pytest.raises(SchemaError, match=message) as caught:
        read_mbi(text)
    assert "\n" not in str(caught.value)
