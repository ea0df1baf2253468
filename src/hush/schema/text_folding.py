"""Text folding: differences between texts that a categorical column ignores, by public rules that every engine applies.

* `case`: capital letters of the Latin, Greek and Cyrillic alphabets count as small ones. Only letters whose small form
  is a single letter are folded, by a fixed table, so no locale or version of Unicode makes engines disagree.
* `spaces`: a run of white space counts as one space. White space at the ends of a text never counts.
"""

from __future__ import annotations

import re

CASE, SPACES = "case", "spaces"
DIFFERENCES = (CASE, SPACES)
WHITESPACE = "".join(chr(point) for point in range(0x3001) if chr(point).isspace())  # what str.strip() removes
SPACE_RUN = f"[{WHITESPACE}]+"  # a regular expression that every engine reads alike
_ALPHABETS = (range(0x41, 0x250), range(0x370, 0x530))  # Latin to Extended-B; Greek and Cyrillic
CAPITALS = "".join(
    chr(point)
    for alphabet in _ALPHABETS
    for point in alphabet
    if len(chr(point).lower()) == 1 and chr(point).lower() != chr(point)
)
SMALL_LETTERS = "".join(letter.lower() for letter in CAPITALS)  # each alone: a final sigma has a form of its own
_SMALL_OF = str.maketrans(CAPITALS, SMALL_LETTERS)


def folded(text: str, ignore: tuple[str, ...]) -> str:
    """A text without the differences to ignore.

    >>> folded(" New\\t YORK ", ("case", "spaces")), folded("ÄRGER", ("case",))
    ('new york', 'ärger')
    """
    if SPACES in ignore:
        text = re.sub(SPACE_RUN, " ", text)
    if CASE in ignore:
        text = text.translate(_SMALL_OF)
    return text.strip()
