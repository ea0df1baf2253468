"""Cost: what an event spends, exactly, in the two notions that add up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Cost:
    """Privacy loss as rho of zCDP and as pure epsilon; None stands for no bound at all.

    Both are exact rationals and add under composition, adaptive or not.

    Reference: [BS16, Lemma 2.3] for rho; basic composition for epsilon.
    """

    rho: Fraction | None = Fraction(0)
    epsilon: Fraction | None = Fraction(0)

    def __add__(self, other: Cost) -> Cost:
        return Cost(_sum(self.rho, other.rho), _sum(self.epsilon, other.epsilon))

    def times(self, count: int) -> Cost:
        """The cost of `count` such events."""
        return Cost(
            None if self.rho is None else self.rho * count,
            None if self.epsilon is None else self.epsilon * count,
        )

    @staticmethod
    def total(costs: Iterable[Cost]) -> Cost:
        """The sum of many costs, added in pairs: denominators grow, and adding one by one would be quadratic.

        >>> Cost.total([Cost(Fraction(1, 2), None), Cost(Fraction(1, 3), Fraction(1))])
        Cost(rho=Fraction(5, 6), epsilon=None)
        """
        level = list(costs) or [Cost()]
        while len(level) > 1:
            paired = [a + b for a, b in zip(level[::2], level[1::2], strict=False)]
            level = paired + level[len(paired) * 2 :]
        return level[0]


def _sum(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    return None if a is None or b is None else a + b
