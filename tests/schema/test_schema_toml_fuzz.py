"""Any content of a schema file gives a schema or a SchemaError of one line, and nothing else."""

import json

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.errors import SchemaError
from hush.schema import Schema
from hush.schema.schema_files import read_dpsynth, read_mbi
from hush.schema.schema_toml import name_text, read_toml, value_text

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates()
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)
toml_values = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates(),
    lambda inner: st.lists(inner, max_size=3),
)


def outcome(reader, text: str) -> Schema | str:
    try:
        return reader(text)
    except SchemaError as error:
        return str(error)


def is_clear(result: Schema | str) -> bool:
    return isinstance(result, Schema) or (len(result.splitlines()) == 1 and len(result) < 1000)


@given(st.text())
def test_any_text(text: str) -> None:
    assert all(is_clear(outcome(reader, text)) for reader in (read_toml, read_mbi, read_dpsynth))


TOML_KEYS = [
    "missing",
    "missing_values",
    "values",
    "other",
    "low",
    "high",
    "bins",
    "edges",
    "starts",
    "points",
    "decimal",
    "thousands",
    "strip",
    "start",
    "end",
    "granularity",
    "outside",
    "odd",
]


@settings(max_examples=300)
@given(
    st.sampled_from(["categorical", "boolean", "integer", "numeric", "date"]),
    st.dictionaries(st.sampled_from(TOML_KEYS), toml_values, max_size=6),
)
def test_any_values_of_toml_keys(kind: str, entries: dict) -> None:
    lines = [f"{name_text(key)} = {value_text(value)}" for key, value in entries.items()]
    text = "\n".join(["hush_schema = 1", "[columns.x]", f'kind = "{kind}"', *lines])
    assert is_clear(outcome(read_toml, text))


DPSYNTH_KEYS = [
    "possible_values",
    "out_of_domain_index",
    "min_value",
    "max_value",
    "dtype",
    "clip_to_range",
    "sentinel",
    "num_bins",
    "bin_edges",
    "default_value",
    "public_possible_values",
    "type",
]
words = st.sampled_from(["int", "CategoricalAttribute", "NumericalAttribute", "OpenSetCategoricalAttribute"])


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(DPSYNTH_KEYS), anything | words | st.lists(scalars, max_size=4), max_size=5))
def test_any_values_of_dpsynth_keys(entries: dict) -> None:
    assert is_clear(outcome(read_dpsynth, yaml.safe_dump({"x": entries})))


@given(anything)
def test_any_document(document: object) -> None:
    assert is_clear(outcome(read_dpsynth, yaml.safe_dump(document)))
    assert is_clear(outcome(read_mbi, json.dumps(document, default=str)))
