"""Solution: the result of a solver, with its status and statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from hush.core.errors import ConvergenceError

Value = TypeVar("Value", covariant=True)

SOLVED = "solved"
TOLERANCE = 0.01  # default of fitted models


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution(Generic[Value]):
    """A value with the status of its solver.

    `status` is "solved", or says what the solver did not reach and what to do; `stats` holds numbers such as
    `iterations`, `value`, `lower_bound` and `gap`.

    >>> Solution(value=3, stats={"gap": 0.0}).checked()
    3
    """

    value: Value
    status: str = SOLVED
    stats: Mapping[str, float] = field(default_factory=dict)

    @property
    def solved(self) -> bool:
        """Whether the tolerance was reached."""
        return self.status == SOLVED

    def checked(self) -> Value:
        """The value; raises ConvergenceError with the status, which names the remedy, if it was not solved."""
        if not self.solved:
            raise ConvergenceError(self.status)
        return self.value
