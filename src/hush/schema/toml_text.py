"""TOML text from strangers: bounded before the standard library parses it.

A dotted key of n parts takes the standard library's parser time and memory in n^2, and brackets within brackets take a
call each. No schema needs more than a few of either, so longer keys and deeper nesting are refused by one look at the
text, in time linear in its length.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from hush.core.errors import SchemaError

MOST_PARTS = 8  # of a dotted key; a schema needs two
MOST_NESTED = 16  # brackets; a schema needs four
# texts and comments, which are skipped; those that are not closed end where the parser gives up, or later
_SKIPPED = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:"""|\Z)|\'\'\'(?:[^\']++|\'(?!\'\'))*+(?:\'\'\'|\Z)'
    r'|"(?:[^"\\\n]++|\\[^\n])*+"?|\'[^\'\n]*+\'?|#[^\n]*+',
    re.DOTALL,
)
_MARKS = re.compile(r"[][{}.,=\n]")


def parse_toml(text: str) -> dict[str, Any]:
    """The document in a text; SchemaError where it is not valid, or longer or deeper than any schema.

    >>> parse_toml('edges = [0.5, 1.5]  # a.b.c')
    {'edges': [0.5, 1.5]}
    """
    _check_shape(text)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise SchemaError("nested too deeply to be a schema") from None
    except ValueError as error:  # TOMLDecodeError, or an integer of too many digits
        raise SchemaError(f"not valid TOML: {error}") from None


def _check_shape(text: str) -> None:
    """Refuse long dotted keys and deep nesting; a value has at most one dot, so all dots are counted alike."""
    dots = depth = line = 0
    for mark in _MARKS.findall(_SKIPPED.sub("", text)):
        if mark == ".":
            dots += 1
            if dots >= MOST_PARTS:
                raise SchemaError(
                    f"in line {line + 1} or later, a name has more than {MOST_PARTS} parts; put a name that has dots "
                    "in quotes"
                )
            continue
        dots = 0
        if mark in "[{":
            depth += 1
            if depth > MOST_NESTED:
                raise SchemaError("nested too deeply to be a schema")
        elif mark in "]}":
            depth = max(depth - 1, 0)
        line += mark == "\n"
