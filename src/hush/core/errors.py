"""The error types of hush; each message names the value, the rule and the next step.

No message holds a private value: a count, a cell, a row number, or the number of faulty rows. `printable` makes names
and labels from files safe to show on a terminal.
"""

from __future__ import annotations

import difflib
import itertools
import reprlib
from collections.abc import Iterable
from fractions import Fraction
from numbers import Number
from typing import Any


class _ShortRepr(reprlib.Repr):
    """A short repr: numpy numbers as plain ones, integers above 128 bits by their length.

    Python takes long to write out integers of many digits and refuses those above 4,300.
    """

    def repr1(self, x: Any, level: int) -> str:
        if isinstance(x, Number) and hasattr(x, "item"):
            x = x.item()
        if isinstance(x, int) and x.bit_length() > 128:
            return f"an integer of {x.bit_length()} bits"
        if isinstance(x, Fraction):
            return f"Fraction({self.repr1(x.numerator, level)}, {self.repr1(x.denominator, level)})"
        return super().repr1(x, level)


_SHORT_REPR = _ShortRepr()
_SHORT_REPR.maxstring = _SHORT_REPR.maxother = 60
_SHORT_REPR.maxlist = _SHORT_REPR.maxtuple = _SHORT_REPR.maxdict = 4


class HushError(Exception):
    """Base of every error that hush raises on purpose; the command line turns it into one line and exit code 2."""


class DomainError(HushError):
    """An attribute, a size or a clique that the domain does not know."""


class SchemaError(HushError):
    """A schema that cannot be read or contradicts itself."""


class DataError(HushError):
    """A table that cannot be read, or holds what its schema refuses."""


class SizeError(HushError):
    """Work that would not fit in memory; raised before allocating."""


class WorkloadError(HushError):
    """A workload that is empty, malformed or not answerable."""


class QueryError(HushError):
    """A query outside the supported part of SQL, or one that the release does not hold the tables for."""


class ConvergenceError(HushError):
    """A solver that did not reach its tolerance; its result is not used."""


class SearchError(HushError):
    """A search space, an oracle, a front or settings of training that cannot be used."""


class LedgerError(HushError):
    """A ledger file that is not one, is damaged, or was written by a newer version."""


class ReplayError(HushError):
    """A record-and-replay check that found a difference between neighbouring tables."""


class BudgetError(HushError):
    """A privacy parameter out of range, or a charge beyond what is left.

    `remaining` and `requested` are set where a charge was refused; both are public.
    """

    def __init__(
        self, message: str, *, remaining: Fraction | float | None = None, requested: Fraction | float | None = None
    ) -> None:
        super().__init__(message)
        self.remaining = remaining
        self.requested = requested


def close_match(text: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name most similar to a text, ignoring case; None if none is similar, or the text is too long.

    >>> close_match("SEX", ["age", "Sex"])
    'Sex'
    """
    if len(text) > 60:
        return None
    folded = {name.casefold(): name for name in reversed(list(itertools.islice(names, 2000)))}
    near = difflib.get_close_matches(text.casefold(), folded, n=1, cutoff=cutoff)
    return folded[near[0]] if near else None


def shown(value: object) -> str:
    """A public value as short text on one line; private values do not go into messages.

    >>> shown([1] * 99)
    '[1, 1, 1, 1, ...]'
    """
    return " ".join(_SHORT_REPR.repr(value).split())


class ArchiveError(HushError):
    """A plan or release file that is not one, is damaged, or was written by a newer version."""


class InterruptedRelease(HushError):
    """A release that was stopped after its charge; `release` holds what was measured, and paid for, until then."""

    def __init__(self, message: str, *, release: object = None) -> None:
        super().__init__(message)
        self.release = release


def printable(text: str) -> str:
    r"""The text on one line, with control characters, bidirectional marks and the like spelled out.

    >>> printable("\x1b[31mred\u202e\n")
    '\\x1b[31mred\\u202e\\n'
    """
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode("ascii") for mark in text)


def check_text(what: str, text: str) -> None:
    """Refuse text that no UTF-8 file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SchemaError(f"{what} is not valid Unicode text; remove the lone surrogate") from None
