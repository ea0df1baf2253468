"""Budget: how much privacy may be spent, in any of four notions; Cost: what events spend of it, exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, TypeGuard, cast

from hush.core.errors import BudgetError
from hush.core.rational import float_down, float_up, root_down, shown_up
from hush.privacy import conversions

LARGEST_DELTA = 0.5


@dataclass(frozen=True, slots=True)
class Cost:
    """Privacy loss as rho of zCDP and as pure epsilon; None stands for no bound at all.

    `delta` is the probability with which neither bound holds. All are exact rationals and add under composition,
    adaptive or not.

    Reference: [BS16, Lemma 2.3] for rho; basic composition for epsilon; [BS16, Lemma 8.2] for delta.
    """

    rho: Fraction | None = Fraction(0)
    epsilon: Fraction | None = Fraction(0)
    delta: Fraction = Fraction(0)

    def __add__(self, other: Cost) -> Cost:
        return Cost(_sum(self.rho, other.rho), _sum(self.epsilon, other.epsilon), self.delta + other.delta)

    def times(self, count: int) -> Cost:
        """The cost of `count` such events."""
        return Cost(
            None if self.rho is None else self.rho * count,
            None if self.epsilon is None else self.epsilon * count,
            self.delta * count,
        )

    @staticmethod
    def total(costs: Iterable[Cost]) -> Cost:
        """The sum of many costs, added in pairs: denominators grow, and adding one by one would be quadratic.

        >>> Cost.total([Cost(Fraction(1, 2), None), Cost(Fraction(1, 3), Fraction(1))])
        Cost(rho=Fraction(5, 6), epsilon=None, delta=Fraction(0, 1))
        """
        level = list(costs) or [Cost()]
        while len(level) > 1:
            paired = [a + b for a, b in zip(level[::2], level[1::2], strict=False)]
            level = paired + level[len(paired) * 2 :]
        return level[0]


def _sum(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    return None if a is None or b is None else a + b


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
            require_delta(delta)
        object.__setattr__(self, "epsilon", _no_more_than(epsilon))
        object.__setattr__(self, "delta", None if epsilon is None else _no_more_than(delta or 0.0))
        object.__setattr__(self, "_rho", _no_more_than(rho))
        object.__setattr__(self, "_mu", _no_more_than(mu))

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
        self._refuse_pure()
        if self._mu is not None:
            rho = float_down(Fraction(self._mu) ** 2 / 2)
        else:
            rho = conversions.zcdp_rho(self.epsilon or 0.0, self.delta or 0.0)
        if rho <= 0:
            raise BudgetError(f"{self}: too small to spend; raise it")
        return rho

    @property
    def mu(self) -> float:
        """The Gaussian DP that may be spent: mu = sqrt(2 rho), or the analytic Gaussian curve for (epsilon, delta)."""
        if self._mu is not None:
            return self._mu
        if self._rho is not None:
            return root_down(2 * Fraction(self._rho))
        self._refuse_pure()
        return conversions.gaussian_mu(self.epsilon or 0.0, self.delta or 0.0)

    def epsilon_at(self, delta: float) -> float:
        """The epsilon that this budget's notion implies at this delta; under `mu`, see the class."""
        require_delta(delta)
        if self.pure:
            return float(self.epsilon or 0.0)
        if self._mu is not None:
            return conversions.gaussian_epsilon(self._mu, delta)
        epsilon = conversions.zcdp_epsilon(self.rho, delta)
        if self.epsilon is not None and self.delta is not None and delta >= self.delta:
            return min(epsilon, self.epsilon)
        return epsilon

    def delta_at(self, epsilon: float) -> float:
        """The delta that this budget's notion implies at this epsilon; under `mu`, see the class."""
        if not (_is_number(epsilon) and epsilon >= 0):
            raise BudgetError(f"epsilon={epsilon!r}: expected a number >= 0")
        if self.pure:
            return conversions.pure_delta(self.epsilon or 0.0, epsilon)
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

    def covering(self, limit: Fraction) -> Budget:
        """The least budget of the same notion, in five digits, that allows this limit; itself if it does already.

        >>> Budget(epsilon=1.0, delta=1e-9).covering(2 * Budget(epsilon=1.0, delta=1e-9).limit)
        Budget(epsilon=1.4372, delta=1e-09)
        """
        name, amount = next(iter(self.to_dict().items()))
        least = float_up(limit)
        if self._mu is not None:
            least = math.sqrt(2 * least)
        elif self._rho is None and not self.pure:
            least = conversions.zcdp_epsilon(least, self.delta or 0.0)
        budget, amount = self, max(amount, least)
        while budget.limit < limit:
            budget = Budget.from_dict(self.to_dict() | {name: float(shown_up(amount))})
            amount *= 1 + 1e-5
        return budget

    def split(self, parts: int | Sequence[float]) -> list[Budget]:
        """Budgets in the given proportions (equal for an integer) whose exact sum never exceeds this one.

        >>> sum(Fraction(share.rho) for share in Budget(rho=0.1).split(7)) <= Fraction(0.1)
        True
        """
        weights = _proportions(parts)
        limit, total = self.limit, sum(weights)
        shares = [float_down(limit * weight / total) for weight in weights]
        if min(shares) <= 0:
            raise BudgetError(f"{self} cannot be split {len(shares)} ways: a share would be zero")
        return [Budget(epsilon=share) if self.pure else Budget(rho=share) for share in shares]

    def to_dict(self) -> dict[str, float]:
        """The budget as it was stated; floats keep every bit as JSON.

        >>> Budget.from_dict(Budget(epsilon=1.0).to_dict())
        Budget(epsilon=1.0)
        """
        values = {"epsilon": self.epsilon, "delta": self.delta or None, "rho": self._rho, "mu": self._mu}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_dict(cls, body: Any) -> Budget:
        """The budget that `to_dict` wrote; refuses names and values it does not know."""
        if not isinstance(body, Mapping) or not set(body) <= {"epsilon", "delta", "rho", "mu"}:
            raise BudgetError("budget: expected an object with epsilon (and delta), rho or mu")
        return cls(**body)

    def _refuse_pure(self) -> None:
        if self.pure:
            raise BudgetError(
                f"epsilon={self.epsilon:g} without delta is pure DP, which Gaussian noise cannot give; "
                "use Laplace noise (mechanism hdmm, matrix or direct), "
                f"or add a delta such as Budget(epsilon={self.epsilon:g}, delta=1e-9)"
            )

    def __str__(self) -> str:
        return ", ".join(f"{name}={number_text(value)}" for name, value in self.to_dict().items())

    def __repr__(self) -> str:
        return f"Budget({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"


def number_text(value: float) -> str:
    """A float with all its digits, and whole numbers without `.0`.

    >>> number_text(1.0), number_text(0.9999999)
    ('1', '0.9999999')
    """
    return repr(float(value)).removesuffix(".0")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _require_positive(name: str, value: object) -> None:
    if not _is_number(value):
        raise BudgetError(f"{name}={value!r}: expected a number > 0")
    try:
        finite = math.isfinite(value)
    except OverflowError:
        finite = False
    if not (finite and value > 0 and _no_more_than(value)):
        raise BudgetError(f"{name}={value!r}: expected a finite number > 0; a smaller one means more privacy")


def require_delta(value: object) -> None:
    """Refuse what is no number from 0 to 1/2.

    With probability delta an (epsilon, delta)-private release may show anything at all: near 1, nothing is promised.
    """
    if not (_is_number(value) and 0 <= value <= LARGEST_DELTA):
        raise BudgetError(
            f"delta={value!r}: expected a number from 0 to 1/2, far below one over the number of people, such as 1e-9"
        )


def _no_more_than(value: float | None) -> float | None:
    """The largest float not above a number of any type; a fraction such as 1/3 must not become a larger budget."""
    if value is None:
        return None
    near = float(value)
    return near if near <= value else math.nextafter(near, -math.inf)


def _proportions(parts: int | Sequence[float]) -> list[Fraction]:
    try:
        if isinstance(parts, Integral) and not isinstance(parts, bool):
            weights = [Fraction(1)] * int(parts)
        else:
            weights = [Fraction(weight) for weight in cast("Sequence[float]", parts)]
    except (TypeError, ValueError, OverflowError):
        weights = []
    if not weights or min(weights) <= 0:
        raise BudgetError(f"parts={parts!r}: expected an integer >= 1 or positive finite proportions")
    return weights
