"""mbi's `domain.json` -> Schema: names and sizes of a table that already holds codes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NoReturn

from hush.domain import Domain
from hush.errors import DomainError, SchemaError, shown
from hush.schema.schema import Schema


def read_mbi(text: str) -> Schema:
    """The schema in the text of a `domain.json`: every attribute holds the integers 0 .. size-1.

    Takes `{"age": 85, "sex": 2}`, and the fields of mbi's Domain written out,
    `{"attributes": ["age", "sex"], "shape": [85, 2]}`. Labels of the latter are not used: the table holds codes.

    >>> read_mbi('{"age": 85, "sex": 2}').domain
    Domain({'age': 85, 'sex': 2})
    """
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise SchemaError("nested too deeply to be a domain") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise SchemaError(f"not valid JSON: {error.msg} at {place}") from None
    except ValueError:
        raise SchemaError("not valid JSON: an integer has too many digits") from None
    sizes = _sizes(document)
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise SchemaError(f"attribute {shown(name)} has size {shown(size)}: expected an integer >= 1")
    if not sizes:
        raise SchemaError("the domain has no attributes; expected names and sizes")
    try:
        return Schema.from_domain(Domain(sizes))
    except DomainError as error:
        raise SchemaError(str(error)) from None


def _sizes(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise SchemaError('expected an object of names and sizes, such as {"age": 85, "sex": 2}')
    names, shape = document.get("attributes"), document.get("shape")
    if not (isinstance(names, list) and isinstance(shape, list)):
        return document
    if not all(isinstance(name, str) for name in names):
        raise SchemaError("attributes: expected a list of names")
    if len(names) != len(shape):
        raise SchemaError(f"attributes has {len(names)} names and shape {len(shape)} sizes: expected as many of each")
    return _unique(list(zip(names, shape, strict=True)))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise SchemaError(f"{shown(twice)} is given twice; keep one")
    return entries


def _no_constant(constant: str) -> NoReturn:
    raise SchemaError(f"{constant} is not a size; expected an integer >= 1")
