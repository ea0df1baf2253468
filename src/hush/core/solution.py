"""Solution: what a solver found, how well, and what to do if that was not well enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from hush.core.errors import ConvergenceError

Value = TypeVar("Value", covariant=True)

SOLVED = "solved"
TOLERANCE = 0.01  # of fitted models, unless stated


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution(Generic[Value]):
    """A value with the state in which its solver stopped.

    `status` is "solved", or says what was not reached and what to do about it; `stats` holds numbers such as
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
        """The value if it was solved; ConvergenceError with the status, which names the remedy, if not."""
        if not self.solved:
            raise ConvergenceError(self.status)
        return self.value
