"""Budget: how much privacy loss is allowed, in any of four notions; Cost: the exact privacy loss of events."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Any, cast

from hush.core.errors import BudgetError, shown
from hush.core.rational import float_down, float_up, root_down, shown_up
from hush.core.validation import check_number, is_whole
from hush.privacy import conversions

LARGEST_DELTA = 0.5
RESERVED_DELTA = Fraction(3, 25)  # share of delta that stays free for plain addition and for deltas of events


@dataclass(frozen=True, slots=True)
class Cost:
    """Privacy loss as rho of zCDP and as pure epsilon; None means that no bound holds.

    `delta` is the probability that neither bound holds. All three are exact rationals and add up under composition,
    adaptive or not.

    Reference: [BS16, Lemma 2.3] for rho; basic composition for epsilon; [BS16, Lemma 8.2] for delta.
    """

    rho: Fraction | None = Fraction(0)
    epsilon: Fraction | None = Fraction(0)
    delta: Fraction = Fraction(0)

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            None if self.rho is None or other.rho is None else self.rho + other.rho,
            None if self.epsilon is None or other.epsilon is None else self.epsilon + other.epsilon,
            self.delta + other.delta,
        )

    def times(self, count: int) -> Cost:
        """The cost of `count` such events."""
        return Cost(
            None if self.rho is None else self.rho * count,
            None if self.epsilon is None else self.epsilon * count,
            self.delta * count,
        )

    @staticmethod
    def total(costs: Iterable[Cost]) -> Cost:
        """The sum of many costs, added in pairs: denominators grow, so adding one by one would take quadratic time.

        >>> Cost.total([Cost(Fraction(1, 2), None), Cost(Fraction(1, 3), Fraction(1))])
        Cost(rho=Fraction(5, 6), epsilon=None, delta=Fraction(0, 1))
        """
        level = list(costs) or [Cost()]
        while len(level) > 1:
            paired = [a + b for a, b in zip(level[::2], level[1::2], strict=False)]
            level = paired + level[len(paired) * 2 :]
        return level[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A limit on privacy loss: (epsilon, delta)-DP, pure epsilon-DP, rho-zCDP or mu-Gaussian DP.

    `rho`, `mu`, `epsilon_at` and `delta_at` convert between notions; every conversion is rounded towards more privacy.

    >>> budget = Budget(epsilon=1.0, delta=1e-9)
    >>> round(budget.rho, 7)
    0.0149731
    >>> Budget(rho=0.5).mu, round(Budget(rho=0.5).epsilon_at(1e-6), 3)
    (1.0, 5.222)

    Privacy: under (epsilon, delta), releases are accounted for in Gaussian DP (`gaussian_filter`). Under `rho` they are
    accounted for in zCDP, and under `mu` too: a release promises mu^2/2-zCDP, and the curve of mu-Gaussian DP holds for
    continuous Gaussian noise.
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
        amounts = {"epsilon": epsilon, "rho": rho, "mu": mu}
        stated = [name for name, value in amounts.items() if value is not None]
        if len(stated) != 1:
            what = " and ".join(stated) if stated else "nothing"
            raise BudgetError(f"a budget states one of epsilon (with delta), rho or mu; got {what}")
        if delta is not None and epsilon is None:
            raise BudgetError(f"delta={shown(delta)} goes with epsilon, not with {stated[0]}; drop it or give epsilon")
        object.__setattr__(self, "epsilon", _positive("epsilon", epsilon))
        if delta is not None:
            require_delta(delta)
        object.__setattr__(self, "delta", None if epsilon is None else _rounded_down(delta or 0.0))
        object.__setattr__(self, "_rho", _positive("rho", rho))
        object.__setattr__(self, "_mu", _positive("mu", mu))

    @property
    def pure(self) -> bool:
        """Whether this is epsilon-DP without delta."""
        return self.epsilon is not None and self.delta == 0

    @property
    def rho(self) -> float:
        """The rho that may be spent: rho-zCDP implies this budget.

        Raises BudgetError for pure epsilon-DP, which no rho implies.
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
        """The mu that may be spent: sqrt(2 rho), or by the analytic Gaussian curve for (epsilon, delta)."""
        if self._mu is not None:
            return self._mu
        if self._rho is not None:
            return root_down(2 * Fraction(self._rho))
        self._refuse_pure()
        return conversions.gaussian_mu(self.epsilon or 0.0, self.delta or 0.0)

    def epsilon_at(self, delta: float) -> float:
        """The epsilon that Gaussian noise within this budget implies at a delta; for `mu`, see the class."""
        require_delta(delta)
        if self.pure:
            return float(self.epsilon or 0.0)
        if self._rho is not None:
            return conversions.zcdp_epsilon(self._rho, delta)
        epsilon = conversions.gaussian_epsilon(self.mu, delta)
        return min(epsilon, self.epsilon) if self.epsilon is not None and delta >= (self.delta or 0.0) else epsilon

    def delta_at(self, epsilon: float) -> float:
        """The delta that Gaussian noise within this budget implies at an epsilon, which may be infinite."""
        if epsilon != math.inf:
            check_number(BudgetError, "epsilon", epsilon, least=0)
        if self.pure:
            return conversions.pure_delta(self.epsilon or 0.0, epsilon)
        if self._rho is not None:
            return conversions.zcdp_delta(self._rho, epsilon)
        if epsilon == self.epsilon:
            return self.delta or 0.0
        delta = conversions.gaussian_delta(self.mu, epsilon)
        return min(delta, self.delta or 0.0) if self.epsilon is not None and epsilon >= self.epsilon else delta

    @property
    def approximate(self) -> bool:
        """Whether this is (epsilon, delta)-DP, which is accounted for in Gaussian DP."""
        return bool(self.epsilon and self.delta)

    @property
    def unit(self) -> str:
        """The unit of `limit`: epsilon for a pure budget, mu^2/2 for (epsilon, delta), rho for any other."""
        return "epsilon" if self.pure else "mu^2/2" if self.approximate else "rho"

    @property
    def limit(self) -> Fraction:
        """What adaptive releases may spend, exactly, in `unit`.

        For (epsilon, delta), mu^2/2 of the Gaussian mechanism that keeps epsilon with 88 % of delta. The rest of delta
        stays free, so that events with a delta of their own may come at any time.
        """
        if self.pure:
            return Fraction(self.epsilon or 0.0)
        if not self.approximate:
            return Fraction(self.rho)
        return self.gaussian_limit(Fraction(self.delta or 0.0) * (1 - RESERVED_DELTA))

    @property
    def fixed_limit(self) -> Fraction:
        """What one release may spend if its noise is fixed beforehand: as `limit`, with the whole delta."""
        return self.gaussian_limit(Fraction(self.delta or 0.0)) if self.approximate else self.limit

    def gaussian_limit(self, delta: Fraction) -> Fraction:
        """mu^2/2 of the Gaussian mechanism that keeps the epsilon of this budget at a delta, rounded down."""
        mu = conversions.gaussian_mu(self.epsilon or 0.0, float_down(delta))
        if mu <= 0:
            raise BudgetError(f"{self}: too small to spend; raise it")
        return Fraction(mu) ** 2 / 2

    def spent(self, cost: Cost) -> Fraction | float:
        """A cost in the unit of `limit`, roughly for mu^2/2; infinite if the cost has no bound in that unit."""
        amount = cost.epsilon if self.pure else cost.rho
        return math.inf if amount is None else amount

    def covering(self, limit: Fraction) -> Budget:
        """The least budget of the same notion, in five digits, that allows a limit; this budget if it allows the limit.

        >>> Budget(epsilon=1.0, delta=1e-9).covering(2 * Budget(epsilon=1.0, delta=1e-9).limit)
        Budget(epsilon=1.4387, delta=1e-09)
        """
        name, amount = next(iter(self.to_dict().items()))
        least = float_up(limit)
        if self._mu is not None:
            least = math.sqrt(2 * least)
        elif self.approximate:
            reserved = float_down(Fraction(self.delta or 0.0) * (1 - RESERVED_DELTA))
            least = conversions.gaussian_epsilon(math.sqrt(2 * least), reserved)
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
        try:
            weights = [Fraction(1)] * int(parts) if is_whole(parts) else [*map(Fraction, cast("Any", parts))]
        except (TypeError, ValueError, OverflowError, MemoryError):
            weights = []
        if not weights or min(weights) <= 0:
            raise BudgetError(
                f"parts={shown(parts)}: expected a whole number of at least 1, or proportions, each a number above 0"
            )
        limit, total = self.limit, sum(weights)
        shares = [float_down(limit * weight / total) for weight in weights]
        if min(shares) <= 0:
            raise BudgetError(f"{self} cannot be split into {len(shares)} parts: a part would be zero; use fewer parts")
        return [Budget(epsilon=share) if self.pure else Budget(rho=share) for share in shares]

    def part(self, share: Fraction) -> Budget:
        """A budget of the same notion, and the same delta, that may spend at most a share of this one's limit.

        Noise that is fixed beforehand may use the whole delta of a budget (`fixed_limit`), so that is what is bounded.

        Privacy: parts that charge one allowance of this budget keep this budget together.

        >>> whole = Budget(epsilon=1.0, delta=1e-9)
        >>> part = whole.part(Fraction(1, 4))
        >>> round(part.epsilon, 3), part.fixed_limit <= whole.limit / 4
        (0.483, True)
        """
        if not 0 < share <= 1:
            raise BudgetError(f"share={shown(share)}: expected a part of the budget, above 0 and at most 1")
        limit = self.limit * share
        if self._mu is not None:
            amount = {"mu": root_down(2 * limit)}
        elif self.approximate:
            amount = {"epsilon": conversions.gaussian_epsilon(root_down(2 * limit), self.delta or 0.0)}
        else:
            amount = {self.unit: float_down(limit)}
        # Six digits, which people can read, rounded down.
        ((name, value),) = amount.items()
        unit = Decimal(1).scaleb(Decimal(value).adjusted() - 5)
        short = Decimal(value).quantize(unit, ROUND_FLOOR)
        while short > 0:
            part = Budget.from_dict(self.to_dict() | {name: float(short)})
            if part.fixed_limit <= limit:
                return part
            short -= unit
        raise BudgetError(
            f"{self} has no part of {float(share):g}: it would be zero; use a larger share"
            + (", or a smaller delta, such as 1e-9" if self.delta else "")
        )

    def to_dict(self) -> dict[str, float]:
        """The budget as it was stated, for JSON, which keeps every bit of a float.

        >>> Budget.from_dict(Budget(epsilon=1.0).to_dict())
        Budget(epsilon=1.0)
        """
        values = {"epsilon": self.epsilon, "delta": self.delta or None, "rho": self._rho, "mu": self._mu}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_dict(cls, body: Any) -> Budget:
        """The budget that `to_dict` wrote; refuses other names and values."""
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
    """A float with all its digits; whole numbers without `.0`.

    >>> number_text(1.0), number_text(0.9999999)
    ('1', '0.9999999')
    """
    return repr(float(value)).removesuffix(".0")


def require_delta(value: object) -> None:
    """Refuse a delta outside 0 .. 1/2.

    With probability delta an (epsilon, delta)-private release may reveal anything: near 1, it promises nothing.
    """
    hint = ", far below one over the number of people, such as 1e-9"
    check_number(BudgetError, "delta", value, least=0, most=LARGEST_DELTA, hint=hint)


def _positive(name: str, value: float | None) -> float | None:
    """An amount of privacy loss above 0, rounded down; None stays None."""
    if value is None:
        return None
    check_number(BudgetError, name, value, above=0, hint="; a smaller one means more privacy")
    amount = _rounded_down(value)
    if amount <= 0:
        raise BudgetError(f"{name}={shown(value)}: too small to spend; raise it")
    return amount


def _rounded_down(value: float) -> float:
    """The largest float not above a number of any type, so that the fraction 1/3 never becomes a larger budget."""
    near = float(value)
    return near if near <= value else math.nextafter(near, -math.inf)
