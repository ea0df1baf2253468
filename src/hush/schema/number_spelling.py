"""Number spelling: decimal commas, thousands separators, percent signs and currencies in columns of text.

How numbers are written is public and stated per column; it is never guessed from rows, where `1.234` may be either.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hush.core.errors import SchemaError, check_text, shown

if TYPE_CHECKING:
    import pyarrow as pa

DECIMALS = (".", ",")
SEPARATORS = {",": ",", ".": "[.]", "'": "['\u2019]", "_": "_", " ": "[ \u00a0\u202f\u2009]"}  # and what they match
_FORBIDDEN = re.compile(r"[0-9\s.,+'_-]")
_BLANKS = "[ \u00a0\u202f]*"


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSpelling:
    """How the texts of a column spell numbers.

    `decimal` is the mark before the fraction, `thousands` what may stand between groups of digits, and `strip` are
    texts such as "€" or "%" that may stand before or after the number and mean nothing: 12 % is read as 12.

    >>> swiss = NumberSpelling(thousands="'", strip=("CHF",))
    >>> [swiss.read(text) for text in ("CHF 1'234.50", "-7", "1'2", "7,5")]
    [1234.5, -7.0, None, None]
    """

    decimal: str = "."
    thousands: str = ""
    strip: tuple[str, ...] = ()

    def check(self, name: str) -> None:
        """Refuse a spelling that could read one text as two numbers."""
        if self.decimal not in DECIMALS:
            raise SchemaError(f'column {name!r}: decimal = {shown(self.decimal)}: expected "." or ","')
        if self.thousands and self.thousands not in SEPARATORS:
            listed = " ".join(f'"{mark}"' for mark in SEPARATORS)
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
            if not text or not text.isprintable() or _FORBIDDEN.search(text) or text.casefold() == "e":
                raise SchemaError(
                    f"column {name!r}: strip = {shown(text)}: expected a sign or a word without digits, blanks, plus, "
                    "minus and number marks"
                )

    @property
    def plain(self) -> bool:
        """Whether numbers are spelled as every program spells them."""
        return self == PLAIN

    @property
    def pattern(self) -> str:
        """A regular expression, for Python and for RE2, of the whole text of a number."""
        sign = f"(?:{'|'.join(map(re.escape, self.strip))})?" if self.strip else ""
        digits = "[0-9]+"
        if self.thousands:
            mark = SEPARATORS[self.thousands]
            digits = f"(?:[0-9]{{1,3}}(?:{mark}[0-9]{{2,3}})*{mark}[0-9]{{3}}|[0-9]+)"
        mark = re.escape(self.decimal)
        body = f"(?:{digits}(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?"
        return f"{sign}{_BLANKS}[+-]?{_BLANKS}{sign}{_BLANKS}{body}{_BLANKS}{sign}"

    @property
    def dropped(self) -> str:
        """A regular expression of everything that the plain spelling leaves out."""
        marks = [SEPARATORS[self.thousands]] if self.thousands else []
        return "|".join([*map(re.escape, sorted(self.strip, key=len, reverse=True)), *marks, "[ \u00a0\u202f]"])

    def read(self, text: str) -> float | None:
        """The number that a text spells; None where it spells none. The twin of what the SQL does."""
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

    def write(self, text: str) -> str:
        """A number in this spelling, from its plain one."""
        return text.replace(".", self.decimal)


PLAIN = NumberSpelling()


def spelled_numbers(table: pa.Table, spellings: dict[str, NumberSpelling]) -> pa.Table:
    """The table with the numbers of some columns as texts in their spelling, for files that are all text."""
    import pyarrow as pa
    from pyarrow import compute

    for index, name in enumerate(table.column_names):
        if name in spellings and spellings[name].decimal != ".":
            texts = compute.replace_substring(table.column(index).cast(pa.string()), ".", spellings[name].decimal)
            table = table.set_column(index, name, texts)
    return table
