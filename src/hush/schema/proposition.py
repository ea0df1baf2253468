"""Propositions: Boolean formulas over tests of columns, written in Python.

    test("smokes", True) & ~test("age", {"from": 18, "to": 39})
    at_least(2, test("a", 1), test("b", [0, 2]), test("c", 0))

AND is "at least all" and OR is "at least one", so `AtLeast` is the only connective. Over a domain tests are of codes,
over a schema of real values, as in its rules. `settled` turns values into codes, moves NOT down to the tests, and drops
parts that are always true or false.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hush.core.arrays import Integers
from hush.core.domain import Domain
from hush.core.errors import WorkloadError, shown
from hush.core.validation import is_whole

Reader: TypeAlias = Callable[[str, Any], Integers]


class Proposition(ABC):
    """A condition on a row; join several by `&`, `|`, `~` and `at_least`."""

    __slots__ = ()

    @abstractmethod
    def settled(self, domain: Domain, read: Reader | None = None, *, negated: bool = False) -> Proposition:
        """The same proposition, or its negation, made of `LevelsIn` and `AtLeast` alone.

        `read` gives the codes for a value of a column; without it, values are codes.
        """

    @property
    @abstractmethod
    def columns(self) -> frozenset[str]:
        """The tested columns."""

    def given(self, column: str, level: int) -> Proposition:
        """A settled proposition, simplified for rows with one level of a column."""
        return self

    def tests(self) -> Iterator[LevelsIn]:
        """The tests of a settled proposition."""
        return iter(())

    def __and__(self, other: Proposition) -> Proposition:
        return at_least(2, self, other) if isinstance(other, Proposition) else NotImplemented

    def __or__(self, other: Proposition) -> Proposition:
        return at_least(1, self, other) if isinstance(other, Proposition) else NotImplemented

    def __invert__(self) -> Proposition:
        return Opposite(self)

    def __bool__(self) -> bool:
        raise WorkloadError("a condition is neither true nor false by itself; join conditions by &, | and ~")

    def __str__(self) -> str:
        return repr(self)


@dataclass(frozen=True, slots=True)
class ColumnTest(Proposition):
    """Whether a column has one of some values, as a person writes them."""

    column: str
    condition: Any

    @property
    def columns(self) -> frozenset[str]:
        return frozenset([self.column])

    def settled(self, domain: Domain, read: Reader | None = None, *, negated: bool = False) -> Proposition:
        size, condition = domain[self.column], self.condition
        if read is not None:
            codes = read(self.column, condition)
        else:
            several = isinstance(condition, list | tuple | set | frozenset | range | np.ndarray)
            codes = np.asarray(list(condition) if several else [condition])
            asked = f"a test of {self.column!r} for {shown(condition)}"
            if codes.ndim != 1 or codes.dtype.kind not in "iu" or not codes.size:
                raise WorkloadError(f"{asked}: expected a code or a list of codes; real values need a schema")
            if codes.min() < 0 or codes.max() >= size:
                raise WorkloadError(f"{asked}: expected codes within 0 .. {size - 1}")
        inside = frozenset(codes.tolist())
        return levels_in(self.column, frozenset(range(size)) - inside if negated else inside, size)

    def __str__(self) -> str:
        return f"{self.column} in {shown(self.condition)}"


@dataclass(frozen=True, slots=True)
class Opposite(Proposition):
    """NOT."""

    part: Proposition

    @property
    def columns(self) -> frozenset[str]:
        return self.part.columns

    def settled(self, domain: Domain, read: Reader | None = None, *, negated: bool = False) -> Proposition:
        return self.part.settled(domain, read, negated=not negated)

    def __str__(self) -> str:
        return f"not ({self.part})"


@dataclass(frozen=True, slots=True)
class LevelsIn(Proposition):
    """Whether the code of a column, which has `size` levels, is one of some."""

    column: str
    levels: frozenset[int]
    size: int

    @property
    def columns(self) -> frozenset[str]:
        return frozenset([self.column])

    def settled(self, domain: Domain, read: Reader | None = None, *, negated: bool = False) -> Proposition:
        if domain[self.column] != self.size:
            raise WorkloadError(
                f"attribute {self.column!r} has {domain[self.column]} levels, a test of it {self.size}; write it anew"
            )
        levels = frozenset(range(self.size)) - self.levels if negated else self.levels
        return levels_in(self.column, levels, self.size)

    def given(self, column: str, level: int) -> Proposition:
        return self if column != self.column else ALWAYS if level in self.levels else NEVER

    def tests(self) -> Iterator[LevelsIn]:
        yield self

    def __str__(self) -> str:
        levels = sorted(self.levels)
        if len(levels) == 1:
            return f"{self.column} = {levels[0]}"
        outside = sorted(frozenset(range(self.size)) - self.levels)
        if len(outside) == 1:
            return f"{self.column} <> {outside[0]}"
        listed = ", ".join(map(str, levels[:4])) + ", ..." * (len(levels) > 4)
        return f"{self.column} in ({listed})"


@dataclass(frozen=True, slots=True)
class AtLeast(Proposition):
    """Whether so many of some propositions hold: AND where it is all of them, OR where it is one."""

    number: int
    parts: tuple[Proposition, ...]

    @property
    def columns(self) -> frozenset[str]:
        return frozenset().union(*(part.columns for part in self.parts))

    def settled(self, domain: Domain, read: Reader | None = None, *, negated: bool = False) -> Proposition:
        number = len(self.parts) - self.number + 1 if negated else self.number
        return joined(number, [part.settled(domain, read, negated=negated) for part in self.parts])

    def given(self, column: str, level: int) -> Proposition:
        return joined(self.number, [part.given(column, level) for part in self.parts])

    def tests(self) -> Iterator[LevelsIn]:
        for part in self.parts:
            yield from part.tests()

    def __str__(self) -> str:
        if not self.parts:
            return "true" if self.number <= 0 else "false"
        inner = [f"({part})" if isinstance(part, AtLeast) else str(part) for part in self.parts]
        if self.number in (1, len(inner)):
            return (" and " if self.number > 1 else " or ").join(inner)
        return f"at least {self.number} of {', '.join(inner)}"


ALWAYS, NEVER = AtLeast(0, ()), AtLeast(1, ())


def test(column: str, condition: Any) -> Proposition:
    """Whether a column has one of some values: a value, a list of values, or a range {"from": 18, "to": 39}.

    Over a domain the values are codes, over a schema real ones, as in its rules.

    >>> proposition = test("a", 1) & (test("b", [0, 2]) | ~test("c", 0))
    >>> str(proposition.settled(Domain({"a": 2, "b": 3, "c": 3})))
    'a = 1 and (b <> 1 or c <> 0)'
    """
    if not isinstance(column, str):
        raise WorkloadError(f"column {shown(column)}: expected the name of a column")
    return ColumnTest(column, condition)


test.__test__ = False  # type: ignore[attr-defined]  # no test of this project


def at_least(number: int, *parts: Proposition) -> Proposition:
    """Whether at least so many of some conditions hold.

    >>> at_least(1, test("a", 1), test("b", 0)).columns == {"a", "b"}
    True
    """
    if not is_whole(number) or not 1 <= number <= len(parts):
        raise WorkloadError(f"at least {shown(number)} of {len(parts)} conditions: expected 1 to {len(parts)}")
    for part in parts:
        if not isinstance(part, Proposition):
            raise WorkloadError(f"{shown(part)} is no condition; write it with queries.test")
    return AtLeast(number, parts)


def joined(number: int, parts: Iterable[Proposition]) -> Proposition:
    """At least `number` of some settled propositions, without parts that are always true or always false."""
    parts = list(parts)
    number -= parts.count(ALWAYS)
    undecided = [part for part in parts if part not in (ALWAYS, NEVER)]
    if number <= 0:
        return ALWAYS
    if number > len(undecided):
        return NEVER
    if len(undecided) > 1 and number in (1, len(undecided)):
        # Flatten AND within AND and OR within OR, and drop repeated parts.
        every = number == len(undecided)
        flat: list[Proposition] = []
        for part in undecided:
            same = isinstance(part, AtLeast) and part.number == (len(part.parts) if every else 1)
            flat.extend(part.parts if isinstance(part, AtLeast) and same else [part])
        undecided = list(dict.fromkeys(flat))
        number = len(undecided) if every else 1
    return undecided[0] if len(undecided) == 1 else AtLeast(number, tuple(undecided))


def levels_in(column: str, levels: frozenset[int], size: int) -> Proposition:
    """The test of some levels; ALWAYS if these are all levels, NEVER if none."""
    if len(levels) in (0, size):
        return ALWAYS if levels else NEVER
    return LevelsIn(column, levels, size)
