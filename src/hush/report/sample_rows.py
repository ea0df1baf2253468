"""The section that shows rows of a synthetic release as they look in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hush.core.errors import HushError
from hush.render.html_page import page_table
from hush.render.labels import compact, named
from hush.render.markup import Markup, lines, tag
from hush.schema import Boolean, Column
from hush.schema.column import MISSING_LABEL, Value

if TYPE_CHECKING:
    from hush.release.release import Release

ROWS = 8
MOST_COLUMNS = 40
SEED = 0  # of the draw, not of the noise: the same release gives the same page
INTRO = (
    "These rows are made up. Each looks like a record, but is a copy of none: they were drawn from a model that was "
    "fitted to noisy counts. As many as needed can be drawn, at no further cost to privacy."
)


def sample_section(release: Release) -> Markup | None:
    """Some rows of the model; None if it is too large to draw from."""
    try:
        rows = release.synthesize(ROWS, method="sampling", seed=SEED)
    except HushError:
        return None
    declared = {column.source: column for column in reversed(release.schema.columns)}
    columns = [declared[name] for name in rows.column_names[:MOST_COLUMNS]]
    values = [rows.column(column.source).to_pylist() for column in columns]
    cells = [
        [named(value_text(column, entry), 60) for column, entry in zip(columns, row, strict=True)]
        for row in zip(*values, strict=True)
    ]
    left_out = len(declared) - len(columns)
    caption = f"The first {MOST_COLUMNS} of {len(declared):,} columns." if left_out else ""
    return lines(
        tag("h2", "Some of its rows", id="rows"),
        tag("p", INTRO),
        page_table([named(column.source, 60) for column in columns], cells, caption=caption),
    )


def value_text(column: Column, value: Value) -> str:
    """A value of a row as it is called elsewhere on the page.

    >>> value_text(Boolean(name="in"), True), value_text(Boolean(name="in"), None)
    ('True', '(missing)')
    """
    if value is None:
        return MISSING_LABEL
    if isinstance(column, Boolean):
        return column.label(int(bool(value)))
    return compact(value) if isinstance(value, float) else str(value)
