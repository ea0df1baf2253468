"""Budget: how much privacy may be spent, in whichever notion its owner states it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real

from hush.errors import BudgetError
from hush.privacy import conversions
from hush.privacy.cost import Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A limit on privacy loss: (epsilon, delta)-DP, pure epsilon-DP, rho-zCDP or mu-Gaussian DP.

    `rho`, `mu`, `epsilon_at` and `delta_at` convert; every conversion is rounded against the spender.

    >>> budget = Budget(epsilon=1.0, delta=1e-9)
    >>> round(budget.rho, 7)
    0.0149731
    >>> Budget(rho=0.5).mu, round(Budget(rho=0.5).epsilon_at(1e-6), 3)
    (1.0, 5.222)

    Privacy: releases are accounted in zCDP, which exact discrete noise satisfies as it stands. Under `Budget(mu=...)`
    a release promises mu^2/2-zCDP; the curve of mu itself holds for continuous Gaussian noise.
    """

    epsilon: float | None = None
    delta: float | None = None
    _rho: float | None = None
    _mu: float | None = None

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mu: float | None = None,
    ) -> None:
        given = {"epsilon": epsilon, "rho": rho, "mu": mu}
        named = [name for name, value in given.items() if value is not None]
        if len(named) != 1:
            what = " and ".join(named) if named else "nothing"
            raise BudgetError(f"a budget states one of epsilon (with delta), rho or mu; got {what}")
        if delta is not None and epsilon is None:
            raise BudgetError(f"delta={delta!r} goes with epsilon, not with {named[0]}; drop it or give epsilon")
        for name, value in given.items():
            if value is not None:
                _require_positive(name, value)
        if delta is not None:
            if not isinstance(delta, Real) or isinstance(delta, bool) or not 0 <= float(delta) < 1:
                raise BudgetError(
                    f"delta={delta!r}: expected a number in [0, 1), far below one over the number of people, such as 1e-9"
                )
        object.__setattr__(self, "epsilon", None if epsilon is None else float(epsilon))
        object.__setattr__(self, "delta", None if epsilon is None else float(delta or 0.0))
        object.__setattr__(self, "_rho", None if rho is None else float(rho))
        object.__setattr__(self, "_mu", None if mu is None else float(mu))

    @property
    def pure(self) -> bool:
        """Whether this is epsilon-DP with no delta."""
        return self.epsilon is not None and self.delta == 0

    @property
    def rho(self) -> float:
        """The zCDP that may be spent: rho-zCDP implies this budget.

        Raises BudgetError for pure epsilon-DP, which no amount of zCDP implies.
        """
        if self._rho is not None:
            return self._rho
        if self._mu is not None:
            return _down_to_float(Fraction(self._mu) ** 2 / 2)
        self._refuse_pure()
        rho = conversions.zcdp_rho(self.epsilon or 0.0, self.delta or 0.0)
        if rho <= 0:
            raise BudgetError(f"{self}: too small to spend; raise epsilon or delta")
        return rho

    @property
    def mu(self) -> float:
        """The Gaussian DP that may be spent: mu = sqrt(2 rho), or the analytic Gaussian curve for (epsilon, delta)."""
        if self._mu is not None:
            return self._mu
        if self._rho is not None:
            return _root_down(2 * Fraction(self._rho))
        self._refuse_pure()
        return conversions.gaussian_mu(self.epsilon or 0.0, self.delta or 0.0)

    def epsilon_at(self, delta: float) -> float:
        """The epsilon that holds at this delta for whatever is spent within the budget."""
        if not 0 <= delta < 1:
            raise BudgetError(f"delta={delta!r}: expected a number in [0, 1)")
        if self.pure:
            return float(self.epsilon or 0.0)
        if self._mu is not None:
            return conversions.gaussian_epsilon(self._mu, delta)
        epsilon = conversions.zcdp_epsilon(self.rho, delta)
        if self.epsilon is not None and self.delta is not None and delta >= self.delta:
            return min(epsilon, self.epsilon)
        return epsilon

    def delta_at(self, epsilon: float) -> float:
        """The delta that holds at this epsilon for whatever is spent within the budget."""
        if not epsilon >= 0:
            raise BudgetError(f"epsilon={epsilon!r}: expected a number >= 0")
        if self.pure:
            bound = (math.expm1(self.epsilon or 0.0) + 1 - math.exp(epsilon)) / (1 + math.exp(self.epsilon or 0.0))
            return max(0.0, math.nextafter(bound, math.inf)) if epsilon < (self.epsilon or 0.0) else 0.0
        if self._mu is not None:
            return conversions.gaussian_delta(self._mu, epsilon)
        delta = conversions.zcdp_delta(self.rho, epsilon)
        if self.epsilon is not None and self.delta is not None and epsilon >= self.epsilon:
            return min(delta, self.delta)
        return delta

    @property
    def limit(self) -> Fraction:
        """What may be spent, exactly: epsilon for a pure budget, rho for any other."""
        return Fraction(self.epsilon or 0.0) if self.pure else Fraction(self.rho)

    def spent(self, cost: Cost) -> Fraction | float:
        """A cost in the unit of `limit`; infinite where the cost has no bound in it."""
        amount = cost.epsilon if self.pure else cost.rho
        return math.inf if amount is None else amount

    def split(self, parts: int | Sequence[float]) -> list[Budget]:
        """Budgets in the given proportions (equal for an integer) whose exact sum never exceeds this one.

        >>> sum(Fraction(part.rho) for part in Budget(rho=0.1).split(7)) <= Fraction(0.1)
        True
        """
        weights = [Fraction(1)] * parts if isinstance(parts, int) else [Fraction(part) for part in parts]
        if not weights or any(weight <= 0 for weight in weights):
            raise BudgetError(f"parts={parts!r}: expected an integer >= 1 or positive proportions")
        total = sum(weights)
        shares = [_down_to_float(self.limit * weight / total) for weight in weights]
        if min(shares) <= 0:
            raise BudgetError(f"{self} cannot be split {len(shares)} ways: a share would be zero")
        return [Budget(epsilon=share) if self.pure else Budget(rho=share) for share in shares]

    def _refuse_pure(self) -> None:
        if self.pure:
            raise BudgetError(
                f"epsilon={self.epsilon:g} without delta is pure DP, which Gaussian noise cannot give; "
                f"use Laplace noise, or add a delta such as Budget(epsilon={self.epsilon:g}, delta=1e-9)"
            )

    def __str__(self) -> str:
        if self._rho is not None:
            return f"rho={self._rho:g}"
        if self._mu is not None:
            return f"mu={self._mu:g}"
        return f"epsilon={self.epsilon:g}" + ("" if self.pure else f", delta={self.delta:g}")

    def __repr__(self) -> str:
        values = {"epsilon": self.epsilon, "delta": self.delta or None, "rho": self._rho, "mu": self._mu}
        return f"Budget({', '.join(f'{name}={value!r}' for name, value in values.items() if value is not None)})"


def _require_positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BudgetError(f"{name}={value!r}: expected a number > 0")
    if not (math.isfinite(value) and float(value) > 0):
        raise BudgetError(f"{name}={value!r}: expected a finite number > 0; a smaller one means more privacy")


def _down_to_float(value: Fraction) -> float:
    """The largest float not above an exact value."""
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)


def _root_down(value: Fraction) -> float:
    """The largest float whose square is not above an exact value."""
    near = math.sqrt(value)
    while Fraction(near) ** 2 > value:
        near = math.nextafter(near, 0.0)
    while Fraction(math.nextafter(near, math.inf)) ** 2 <= value:
        near = math.nextafter(near, math.inf)
    return near
