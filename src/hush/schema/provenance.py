"""Provenance: columns and rules of a schema that were read from private rows, and the refusal to release them.

A schema is public: every release shows its levels and bounds. Where these were read from the rows they show an extreme
age or a rare diagnosis, whatever noise protects the counts. Drafting marks them, the mark stays in every file and copy
of the schema, and only its owner removes it.
"""

from __future__ import annotations

from collections.abc import Sequence

from hush.core.errors import SchemaError, printable

MOST_NAMED = 6


def drafted_text(names: Sequence[str]) -> str:
    """What was drafted, in words.

    >>> drafted_text(["age", "age × married"])
    'drafted from private data: age, age × married'
    """
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return f"drafted from private data: {', '.join(map(printable, names[:MOST_NAMED]))}{more}"


def refuse_drafted(names: Sequence[str], *, planned: bool = False) -> None:
    """Refuse columns and rules that came from private data, where there are any; `planned` if a plan brought them."""
    if not names:
        return
    where, then = ("the plan's schema", ", then plan again") if planned else ("the schema", "")
    raise SchemaError(
        f"{where} was {drafted_text(names)}; a release shows levels and bounds as they are, and these may show single "
        "people. Replace them by public knowledge and delete from_private_data from those parts of the schema "
        f"file{then}; or assert that they are public already with --schema-is-public (schema_is_public=True in "
        "Python), which stamps the release NOT PRIVATE"
    )
