"""printable: names and labels of others, made safe to show on a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""The text on one line, with control characters, bidirectional marks and the like spelled out.

    >>> printable("\x1b[31mred\u202e\n")
    '\\x1b[31mred\\u202e\\n'
    """
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode("ascii") for mark in text)
