"""Given: what is known of some attributes, as sets of codes that they may have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from hush.arrays import Integers
from hush.constraints import Constraint
from hush.domain import Clique, Domain
from hush.errors import DomainError, shown

Given: TypeAlias = Mapping[str, int | Iterable[int]]


def codes_of(domain: Domain, given: Given, asked: Clique = ()) -> dict[str, Integers]:
    """The codes that each attribute may have, in order and once each.

    >>> codes_of(Domain({"age": 85, "sex": 2}), {"sex": 1, "age": [30, 29]})
    {'sex': array([1]), 'age': array([29, 30])}
    """
    if not isinstance(given, Mapping):
        raise DomainError(f'given = {shown(given)}: expected names and codes, such as {{"sex": 1}}')
    both = [name for name in domain.check(given) if name in asked]
    if both:
        raise DomainError(f"attribute {both[0]!r} is both asked for and given; leave it out of the clique")
    return {name: _codes(name, domain[name], value) for name, value in given.items()}


def constraints_of(domain: Domain, given: Given) -> list[Constraint]:
    """One constraint for every attribute that something is known of."""
    return [Constraint.allow(domain, (name,), own[:, None]) for name, own in codes_of(domain, given).items()]


class Impossible(DomainError):
    """Evidence of probability zero; `excluded` where that is due to constraints."""

    def __init__(self, given: Mapping[str, Any], *, excluded: bool) -> None:
        reason = "the constraints exclude it" if excluded else "no row of the model is like this"
        super().__init__(
            f"given = {shown(dict(given))} has probability zero under the model: {reason}; give other values, or fewer"
        )
        self.excluded = excluded


def excluded(constraints: Iterable[Constraint], codes: Mapping[str, Integers]) -> bool:
    """Whether some constraint by itself allows nothing that has the given codes."""
    for one in constraints:
        table = one.allowed
        for axis, name in enumerate(one.clique):
            table = table.take(codes[name], axis=axis) if name in codes else table
        if not table.any():
            return True
    return False


def _codes(name: str, size: int, value: int | Iterable[int]) -> Integers:
    values = value if isinstance(value, np.ndarray) or not isinstance(value, Iterable) else list(value)
    codes = np.atleast_1d(np.asarray(values))
    if codes.ndim != 1 or codes.dtype.kind not in "iu" or not codes.size:
        raise DomainError(f"given {name!r} = {shown(value)}: expected a code 0 .. {size - 1}, or several of them")
    outside = codes[(codes < 0) | (codes >= size)]
    if outside.size:
        raise DomainError(f"given {name!r} = {outside[0]}: expected codes 0 .. {size - 1}")
    return np.unique(codes.astype(np.int64))
