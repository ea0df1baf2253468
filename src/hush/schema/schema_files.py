"""Schema files: hush's TOML, mbi's `domain.json` (names and sizes of a table of codes) and dpsynth's `domain.yaml`.

The kind of a column in dpsynth's file follows from its keys (older files) or from `type:` (newer ones):

- `possible_values`: categorical. dpsynth counts a value that is not listed as the one at `out_of_domain_index`; hush
  gives such values the level `other`. If that index is not 0, or the value there is a stand-in such as "Unknown", it
  serves this purpose and becomes `other` itself; nulls, which dpsynth counts with it, become missing. An ordinary value
  at index 0 is only dpsynth's default: it stays a value and `other` is added. A listed null becomes missing.
  [false, true] is a boolean column.
- `min_value`, `max_value`: numeric with equal-width bins, 32 unless `num_bins` or `bin_edges` says otherwise;
  dpsynth itself cuts at private quantiles. With `dtype: int` bins hold integers, and each integer is a level where
  there are no more of them than bins. `clip_to_range` (true by default) clamps; false refuses what is outside. Missing
  has a level of its own; a `sentinel` outside the bounds is read as missing.
- an open set (`{}`, null, `default_value`): its values are not known; refused unless `public_possible_values`
  lists some, and then everything else is `other`.
- free text, several `tables:` and constraints are refused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, NoReturn

import yaml

from hush.core.domain import Domain
from hush.core.errors import DomainError, SchemaError, shown
from hush.core.validation import is_whole
from hush.files.atomic_write import write_whole
from hush.schema.column import OTHER_VALUE, Column, Outside, Value, canonical
from hush.schema.column_kinds import Boolean, Categorical, Integer, Numeric
from hush.schema.schema import Schema
from hush.schema.schema_toml import read_toml, write_toml
from hush.schema.section import SchemaSection

DEFAULT_BINS = 32
LARGEST_FILE = 16 * 2**20  # bytes
LONGEST_NUMBER = 1000  # characters
MOST_NESTED = 16  # brackets of a domain.yaml, which needs five
MOST_NODES = 2**17  # values in a YAML file; PyYAML reads about ten thousand in a second
_NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_STAND_INS = frozenset(
    ("other", "others", "unknown", "unk", "<unk>", "ood", "<ood>", "missing", "none", "null", "nan", "na", "n/a", "?")
)
_CATEGORICAL, _NUMERICAL = "CategoricalAttribute", "NumericalAttribute"
_OPEN_SET, _FREE_TEXT = "OpenSetCategoricalAttribute", "FreeFormTextAttribute"
_KEYS_OF_TYPE = {
    _CATEGORICAL: ("possible_values", "out_of_domain_index"),
    _NUMERICAL: (
        "min_value",
        "max_value",
        "dtype",
        "clip_to_range",
        "interval_handling",
        "sentinel",
        "num_bins",
        "bin_edges",
    ),
    _OPEN_SET: ("default_value", "public_possible_values"),
    _FREE_TEXT: ("max_tokens", "formatting", "exemplar"),
}


def read_mbi(text: str) -> Schema:
    """The schema in the text of a `domain.json`: every attribute holds the integers 0 .. size-1.

    Takes `{"age": 85, "sex": 2}`, and the fields of mbi's Domain written out,
    `{"attributes": ["age", "sex"], "shape": [85, 2]}`. Labels of the latter are not used: the table holds codes.

    >>> read_mbi('{"age": 85, "sex": 2}').domain
    Domain({'age': 85, 'sex': 2})
    """
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except RecursionError:
        raise SchemaError("nested too deeply to be a domain") from None
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}"
        raise SchemaError(f"not valid JSON: {error.msg} at {position}") from None
    except ValueError:
        raise SchemaError("not valid JSON: an integer has too many digits") from None
    if not isinstance(document, dict):
        raise SchemaError('expected an object of names and sizes, such as {"age": 85, "sex": 2}')
    names, shape = document.get("attributes"), document.get("shape")
    if isinstance(names, list) and isinstance(shape, list):
        if not all(isinstance(name, str) for name in names):
            raise SchemaError("attributes: expected a list of names")
        if len(names) != len(shape):
            raise SchemaError(
                f"attributes has {len(names)} names and shape {len(shape)} sizes: expected as many of each"
            )
        document = _unique(list(zip(names, shape, strict=True)))
    if not document:
        raise SchemaError("the domain has no attributes; expected names and sizes")
    try:
        return Schema.from_domain(Domain(document))
    except DomainError as error:
        raise SchemaError(str(error)) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise SchemaError(f"{shown(twice)} is given twice; keep one")
    return entries


def _refuse_constant(constant: str) -> NoReturn:
    raise SchemaError(f"{constant} is not a size; expected a whole number of at least 1")


def read_dpsynth(text: str) -> Schema:
    """The schema in the text of a `domain.yaml`; the docstring of the module says how columns are translated."""
    try:
        loader = _Loader(text)
        try:
            document = loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        position = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise SchemaError(f"not valid YAML: {getattr(error, 'problem', None) or 'unreadable'}{position}") from None
    except RecursionError:
        raise SchemaError("nested too deeply to be a domain") from None
    except (ValueError, LookupError, ArithmeticError, TypeError, AttributeError):
        # PyYAML fails in many ways, on the date 2020-02-31, on `!!int ''` or on a number beyond floats
        raise SchemaError("not valid YAML: it holds an impossible date or number") from None
    columns = _attributes(document)
    for key in columns:
        if not (isinstance(key, str) or is_whole(key)):
            raise SchemaError(f"column name {shown(key)}: expected a text; put it in quotes")
    # lazy, so that a file with too many bins is refused before its other columns are made
    return Schema(_column(str(key), entries) for key, entries in columns.items())


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which also refuses repeated keys, deep nesting and very large documents.

    An alias counts as many values as it stands for, so that a few aliases cannot stand for a billion values.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._nodes = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The next node with all nodes below it, which are counted."""
        alias, before = self.check_event(yaml.AliasEvent), self._nodes
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise SchemaError("nested too deeply to be a domain")
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None and alias and id(node) not in self._sizes:
            raise SchemaError("an alias stands for a value that holds it; write the value out")
        self._nodes += self._sizes[id(node)] if alias else 1
        if self._nodes > MOST_NODES:
            raise SchemaError(f"holds more than {MOST_NODES:,} values; is this a domain, or the table itself?")
        self._sizes[id(node)] = self._nodes - before
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value of a node; refuses long numbers, since numbers in base 60 take quadratic time."""
        if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBER_TAGS and len(node.value) > LONGEST_NUMBER:
            raise SchemaError(f"a number of {len(node.value)} characters; put it in quotes if it is a text")
        return super().construct_object(node, deep=deep)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise SchemaError(f"the key {shown(key)} is not a text; put it in quotes")
            if key in seen:
                raise SchemaError(f"{shown(key)} is given twice; keep one")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _attributes(document: Any) -> dict[Any, Any]:
    if not isinstance(document, dict) or not document:
        raise SchemaError("expected a column name and its attribute on each entry, as dpsynth writes them")
    tables = document.get("tables")
    if isinstance(tables, dict) and all(isinstance(table, dict) for table in tables.values()):
        raise SchemaError(
            "describes several tables; hush reads one: put the columns of that table at the top of a file"
        )
    if not isinstance(document.get("type"), str):
        return document
    if document["type"] != "Schema" or not isinstance(document.get("attributes"), dict):
        raise SchemaError(
            f"holds a dpsynth {shown(document['type'])}, not a domain; save the domain or its Schema instead"
        )
    if document.get("constraints"):
        raise SchemaError(
            "has constraints, which are not translated; remove them here and write [[forbidden]] in hush's TOML"
        )
    return dict(document["attributes"])


def _column(name: str, entries: Any) -> Column:
    """A column from the entries of a dpsynth attribute, whose type follows from its keys if it is not given."""
    section = SchemaSection(f"column {name!r}", {} if entries is None else entries)
    types = {
        "possible_values": _CATEGORICAL,
        "min_value": _NUMERICAL,
        "max_value": _NUMERICAL,
        "max_tokens": _FREE_TEXT,
    }
    kind = next((kind for key, kind in types.items() if key in section), _OPEN_SET)
    if section.entries.get("type") is not None:
        kind = section.text("type", "")
        if kind not in _KEYS_OF_TYPE:
            section.refuse("type", f"expected one of {', '.join(_KEYS_OF_TYPE)}")
    section.only((*_KEYS_OF_TYPE[kind], "type", "description"))
    if kind == _CATEGORICAL:
        return _categorical(name, section)
    if kind == _NUMERICAL:
        return _numerical(name, section)
    if kind == _OPEN_SET and section.entries.get("public_possible_values"):
        return _with_other(name, section.items("public_possible_values", ""), missing=True)
    what = "an open set of values" if kind == _OPEN_SET else "free text"
    raise SchemaError(
        f"column {name!r} is {what}, which cannot be counted; list its possible_values, or remove the column"
    )


def _categorical(name: str, section: SchemaSection) -> Column:
    values = section.items("possible_values", "list every value that may occur")
    index = section.integer("out_of_domain_index", "") if "out_of_domain_index" in section else 0
    if not values:
        section.refuse("possible_values", "expected at least one value")
    if not 0 <= index < len(values):
        section.refuse("out_of_domain_index", f"expected the index of a possible value, 0 .. {len(values) - 1}")
    present = [value for value in values if value is not None and value != ""]
    missing = len(present) < len(values)
    types = {type(value) for value in present}
    if len(types) > 1:
        section.refuse("possible_values", "the values differ in type; put texts such as no or 1 in quotes")
    if types == {bool} and len(present) == 2:
        return Boolean(name=name, missing=missing)
    stand_in = str(values[index]).strip().lower() in _STAND_INS
    if values[index] in present and (index > 0 or stand_in):
        present.remove(values[index])
        missing = missing or stand_in
    return _with_other(name, present, missing=missing)


def _with_other(name: str, values: list[Value], *, missing: bool) -> Categorical:
    listed = tuple(value for value in values if canonical(value) != OTHER_VALUE)
    if not listed:
        raise SchemaError(f"column {name!r} lists no value besides the one for everything else; list the values")
    return Categorical(name=name, values=listed, other=True, missing=missing)


def _numerical(name: str, section: SchemaSection) -> Column:
    low = section.number("min_value", "write the smallest possible value")
    high = section.number("max_value", "write the largest possible value")
    bins = section.integer("num_bins", "") if section.entries.get("num_bins") is not None else DEFAULT_BINS
    dtype = section.text("dtype", "float")
    if dtype not in ("int", "float"):
        section.refuse("dtype", "expected int or float")
    shared: dict[str, Any] = {
        "name": name,
        "missing": True,
        "outside": Outside.CLAMP if section.flag("clip_to_range", default=True) else Outside.REFUSE,
    }
    sentinel = section.entries.get("sentinel")
    if isinstance(sentinel, str) or (isinstance(sentinel, int | float) and not low <= sentinel <= high):
        shared["missing_values"] = (canonical(sentinel),)
    if section.entries.get("bin_edges") is not None:
        return Numeric(edges=tuple(section.items("bin_edges", "")), **shared)
    if dtype == "int" and not (float(low).is_integer() and float(high).is_integer()):
        section.refuse("min_value", "with dtype int, min_value and max_value are expected to be integers")
    if dtype == "int" and 0 <= high - low < bins:
        return Integer(low=int(low), high=int(high), **shared)
    if dtype == "int":
        return Integer.equal_width(low=int(low), high=int(high), bins=bins, **shared)
    return Numeric.equal_width(low=low, high=high, bins=bins, **shared)


READERS: dict[str, Callable[[str], Schema]] = {
    ".toml": read_toml,
    ".json": read_mbi,
    ".yaml": read_dpsynth,
    ".yml": read_dpsynth,
}


def read_schema(path: Path) -> Schema:
    """The schema in a file: hush's .toml, mbi's domain.json or dpsynth's domain.yaml."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise SchemaError(
            f"{path}: cannot tell the format of a schema from {path.suffix or 'a name without ending'!r}; "
            "expected .toml (hush), .json (mbi) or .yaml (dpsynth)"
        )
    text = schema_text(path)
    try:
        return reader(text)
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from None


def schema_text(path: Path) -> str:
    """The text of a schema file; refuses what cannot be read, is too large or is empty."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise SchemaError(f"{path}: there is no such file; check the path of the schema") from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        raise SchemaError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > LARGEST_FILE:
        raise SchemaError(f"{path}: larger than {LARGEST_FILE >> 20} MB; is this a schema, or the table itself?")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SchemaError(f"{path}: not UTF-8 text; save the file as UTF-8") from None
    if not text.strip():
        raise SchemaError(f"{path}: the file is empty; `hush schema draft DATA` writes a schema to start from")
    return text


def save_schema(schema: Schema, path: Path) -> None:
    """Write the schema as TOML."""
    if path.suffix.lower() != ".toml":
        raise SchemaError(f"{path}: a schema is written as TOML; give a name that ends in .toml")
    content = write_toml(schema).encode()
    if len(content) > LARGEST_FILE:
        raise SchemaError(
            f"{path}: a schema of more than {LARGEST_FILE >> 20} MB could not be read again; use fewer levels"
        )
    write_whole(path, content, SchemaError)
