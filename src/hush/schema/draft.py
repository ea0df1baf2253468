"""Draft: a first schema for a data file, to be edited by a person who knows what its columns may hold."""

from __future__ import annotations

from pathlib import Path

from hush.schema.guess import column_from_profile, kind_from_name, names_a_unit
from hush.schema.header import UNKNOWN, UNSUPPORTED, Header, read_header
from hush.schema.profile import LONGEST_VALUE, MOST_VALUES, Profile, read_profiles
from hush.schema.toml_writer import VERSION, entries_of, entry, header, table

NOT_PRIVATE = """\
# ===================================================================================================
#  NOT PRIVATE: this schema was derived from the data.
#
#  The values, bounds and missing marks below were read from the rows. Publishing this file, or using
#  it for a release, reveals facts about single people: an extreme age, a rare diagnosis. A release made
#  with it is not differentially private. Replace every entry by what is publicly known about the column
#  (a code book, a questionnaire, the law), then delete this notice.
# ===================================================================================================
"""
FROM_NAMES = """\
# A first schema, drafted from column names and declared types; no row was read.
# Fill in values and bounds from public knowledge (a code book, a questionnaire), not from the rows:
# what is taken from the rows is not private. Remove the columns you do not need.
"""
_SKELETONS = {
    "categorical": (
        'kind = "categorical"      # {choice}',
        "values = []               # fill in: every value that may occur, each in quotes",
        "# other = true            # gives all values that are not listed a level of their own",
    ),
    "boolean": ('kind = "boolean"          # {choice}',),
    "integer": (
        'kind = "integer"          # {choice}',
        "# low =                   # fill in: the smallest possible integer",
        "# high =                  # fill in: the largest possible integer",
        '# outside = "clamp"       # takes what lies outside for the nearer bound instead of refusing it',
    ),
    "numeric": (
        'kind = "numeric"          # {choice}',
        "# low =                   # fill in: the lower bound",
        "# high =                  # fill in: the upper bound",
        "bins = 32                 # of equal width; or remove it and write edges = [0, 10, 100]",
        '# outside = "clamp"       # takes what lies outside for the nearer bound instead of refusing it',
    ),
    "date": (
        'kind = "date"             # {choice}',
        "# start =                 # fill in: the first possible day, such as 2020-01-01",
        "# end =                   # fill in: the last possible day",
        'granularity = "month"     # or "day", "week", "quarter", "year"',
    ),
}
_MISSING = '# missing = true          # if a cell may be empty; missing_values = ["?"] names marks that mean so'


def draft_schema(path: str | Path, *, from_data: bool = False) -> str:
    """The text of a TOML schema to edit, for a CSV or Parquet file.

    Without `from_data` the names and declared types decide the kinds, and what the user must know is left open;
    a draft is refused when it is read before that is filled in.

    Privacy: by default no row is read. With `from_data` the values and bounds are exact facts about the rows; the
    text begins with a notice that it is not private.
    """
    file = Path(path)
    found = read_header(file)
    profiles = read_profiles(file, found) if from_data else None
    tables = [
        _skeleton(name, kind) if profiles is None else _from_rows(name, profiles[k])
        for k, (name, kind) in enumerate(zip(found.names, found.kinds, strict=True))
    ]
    start = NOT_PRIVATE if from_data else FROM_NAMES + _header_notice(found)
    return "\n".join([start, f"{entry('hush_schema', VERSION)}\n", _unit(found), *tables])


def _unit(found: Header) -> str:
    """A unit to switch on, with the first column that names one."""
    column = next((name for name in found.names if names_a_unit(name)), "person_id")
    return (
        "# Whose presence is hidden: a row, unless a person may have several. Then name the id column:\n"
        f"# {header(('unit',))}\n# {entry('column', column)}\n"
        "# max_rows = 1            # rows of one person that are used at most; the rest are left out\n"
    )


def _header_notice(found: Header) -> str:
    """A word of warning where the first line looks like values: it may be a row."""
    if not any(name.strip().lstrip("+-").replace(".", "", 1).isdigit() for name in found.names):
        return ""
    return (
        "# CHECK: some names are numbers. If the file has no line of names, its first row stands here; it is private:\n"
        "# delete this draft and add the line of names.\n"
    )


def _skeleton(name: str, declared: str) -> str:
    if declared == UNSUPPORTED:
        return _left_out(name, "its type is not one that hush can count")
    if names_a_unit(name):
        return _left_out(name, "it looks like an id, which is a unit and not a column to count")
    kind = kind_from_name(name) if declared == UNKNOWN else declared
    rest = ", ".join(f'"{choice}"' for choice in _SKELETONS if choice != kind)
    choice = f"a guess; or {rest}" if declared == UNKNOWN else "the declared type"
    lines = [line.format(choice=choice) for line in _SKELETONS[kind]]
    return "\n".join([header(("columns", name)), *lines, _MISSING]) + "\n"


def _from_rows(name: str, profile: Profile | None) -> str:
    if profile is None:
        return _left_out(name, "its type is not one that hush can count")
    if not profile.kind:
        return _left_out(name, "no cell holds a value")
    if names_a_unit(name) and profile.distinct > MOST_VALUES // 10:
        return _left_out(name, "it looks like an id, which is a unit and not a column to count")
    if profile.kind == "categorical" and profile.values is None:
        return _left_out(
            name, f"it has more than {MOST_VALUES} different texts, or some of more than {LONGEST_VALUE} characters"
        )
    column = column_from_profile(name, profile)
    if column is None:
        return _left_out(name, "no kind of column holds its values; declare it by hand")
    return table(("columns", name), entries_of(column))


def _left_out(name: str, reason: str) -> str:
    return f"# {header(('columns', name))}\n# left out: {reason}\n"
