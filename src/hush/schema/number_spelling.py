"""Number spelling: decimal commas, thousands separators, percent signs and currencies in columns of text.

The schema states the spelling of each column; hush never guesses it from rows, where `1.234` may be either.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hush.core.errors import SchemaError, check_text, shown

if TYPE_CHECKING:
    import pyarrow as pa

THOUSANDS_PATTERNS = {",": ",", ".": "[.]", "'": "['\u2019]", "_": "_", " ": "[ \u00a0\u202f\u2009]"}
_NEVER_STRIPPED = re.compile(r"[0-9\s.,+'_-]")
_BLANK_PATTERN = "[ \u00a0\u202f]*"


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSpelling:
    """How the texts of a column spell numbers.

    `decimal` is the mark before the fraction, `thousands` the optional mark between groups of digits, and `strip` lists
    texts such as "€" or "%" that are ignored before or after a number: 12 % is read as 12.

    >>> swiss = NumberSpelling(thousands="'", strip=("CHF",))
    >>> [swiss.read(text) for text in ("CHF 1'234.50", "-7", "1'2", "7,5")]
    [1234.5, -7.0, None, None]
    """

    decimal: str = "."
    thousands: str = ""
    strip: tuple[str, ...] = ()

    def check(self, name: str) -> None:
        """Refuse a spelling that could read one text as two numbers."""
        if self.decimal not in (".", ","):
            raise SchemaError(f'column {name!r}: decimal = {shown(self.decimal)}: expected "." or ","')
        if self.thousands and self.thousands not in THOUSANDS_PATTERNS:
            listed = " ".join(f'"{mark}"' for mark in THOUSANDS_PATTERNS)
            raise SchemaError(f"column {name!r}: thousands = {shown(self.thousands)}: expected one of {listed}")
        if self.thousands == self.decimal:
            raise SchemaError(
                f"column {name!r}: {shown(self.decimal)} is both the decimal mark and the thousands separator; "
                "set decimal too"
            )
        if isinstance(self.strip, str) or not all(isinstance(text, str) for text in self.strip):
            raise SchemaError(f'column {name!r}: strip = {shown(self.strip)}: expected a list of texts, such as ["€"]')
        for text in self.strip:
            check_text(f"column {name!r}: strip = {shown(text)}", text)
            if not text or not text.isprintable() or _NEVER_STRIPPED.search(text) or text.casefold() == "e":
                raise SchemaError(
                    f"column {name!r}: strip = {shown(text)}: expected a sign or a word without digits, blanks, plus, "
                    "minus and number marks"
                )

    @property
    def plain(self) -> bool:
        """Whether this is the default spelling."""
        return self == PLAIN_NUMBERS

    @property
    def pattern(self) -> str:
        """A regular expression, for Python and for RE2, of the whole text of a number."""
        sign = f"(?:{'|'.join(map(re.escape, self.strip))})?" if self.strip else ""
        digits = "[0-9]+"
        if self.thousands:
            mark = THOUSANDS_PATTERNS[self.thousands]
            digits = f"(?:[0-9]{{1,3}}(?:{mark}[0-9]{{2,3}})*{mark}[0-9]{{3}}|[0-9]+)"
        mark = re.escape(self.decimal)
        body = f"(?:{digits}(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?"
        return f"{sign}{_BLANK_PATTERN}[+-]?{_BLANK_PATTERN}{sign}{_BLANK_PATTERN}{body}{_BLANK_PATTERN}{sign}"

    @property
    def dropped(self) -> str:
        """A regular expression of all that is removed to get the default spelling."""
        marks = [THOUSANDS_PATTERNS[self.thousands]] if self.thousands else []
        return "|".join([*map(re.escape, sorted(self.strip, key=len, reverse=True)), *marks, "[ \u00a0\u202f]"])

    def read(self, text: str) -> float | None:
        """The number that a text spells; None if it spells none. Does the same as the SQL of a dialect."""
        trimmed = text.strip()
        if self.plain or not re.search("[0-9]", trimmed):
            plain = trimmed
        elif re.fullmatch(self.pattern, trimmed):
            plain = re.sub(self.dropped, "", trimmed).replace(self.decimal, ".")
        else:
            return None
        try:
            return float(plain)
        except ValueError:
            return None


PLAIN_NUMBERS = NumberSpelling()


def spelled_numbers(table: pa.Table, spellings: dict[str, NumberSpelling]) -> pa.Table:
    """The table with the numbers of some columns as texts in their spelling, for CSV files."""
    import pyarrow as pa
    from pyarrow import compute

    for index, name in enumerate(table.column_names):
        if name in spellings and spellings[name].decimal != ".":
            texts = compute.replace_substring(table.column(index).cast(pa.string()), ".", spellings[name].decimal)
            table = table.set_column(index, name, texts)
    return table
