"""Events: what was done to the private table, as data that any accountant can price.

An event is made by the object that adds the noise; it holds no private value and is what a ledger stores and a
release publishes. `cost` is exact. An unknown event has no price and is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar

from hush.errors import BudgetError
from hush.privacy.cost import Cost


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""

    kind: ClassVar[str]

    @property
    def cost(self) -> Cost:
        """What the event spends."""
        raise BudgetError(f"event {type(self).__name__} has no price; it cannot be charged")

    def to_json(self) -> dict[str, Any]:
        """The event as JSON values; rationals as "numerator/denominator"."""
        body = {field.name: _encode(getattr(self, field.name)) for field in fields(self)}
        return {"kind": self.kind, **body}


@dataclass(frozen=True, slots=True)
class GaussianEvent(Event):
    """Exact discrete Gaussian noise of this variance parameter on integers of squared L2 sensitivity Delta^2.

    rho = Delta^2 / (2 sigma^2). `single_cell` says that neighbours differ by one in one coordinate, which lets an
    accountant use the one-dimensional privacy loss distribution.

    Reference: [CKS20, Thm 4 and Thm 14].
    """

    variance: Fraction
    sensitivity_l2_squared: Fraction
    single_cell: bool = False

    kind: ClassVar[str] = "discrete gaussian"

    def __post_init__(self) -> None:
        _require(self.variance > 0, "variance", self.variance)
        _require(self.sensitivity_l2_squared > 0, "sensitivity_l2_squared", self.sensitivity_l2_squared)
        if self.single_cell:
            _require(self.sensitivity_l2_squared == 1, "sensitivity_l2_squared", self.sensitivity_l2_squared)

    @property
    def cost(self) -> Cost:
        return Cost(self.sensitivity_l2_squared / (2 * self.variance), None)


@dataclass(frozen=True, slots=True)
class LaplaceEvent(Event):
    """Exact discrete Laplace noise of this scale on integers of L1 sensitivity Delta.

    epsilon = Delta / scale, and rho = epsilon^2 / 2.

    Reference: [BS16, Prop. 1.4] for rho.
    """

    scale: Fraction
    sensitivity_l1: Fraction

    kind: ClassVar[str] = "discrete laplace"

    def __post_init__(self) -> None:
        _require(self.scale > 0, "scale", self.scale)
        _require(self.sensitivity_l1 > 0, "sensitivity_l1", self.sensitivity_l1)

    @property
    def cost(self) -> Cost:
        epsilon = self.sensitivity_l1 / self.scale
        return Cost(epsilon**2 / 2, epsilon)


@dataclass(frozen=True, slots=True)
class SelectionEvent(Event):
    """One choice by the exponential mechanism at epsilon: epsilon-DP, and rho = epsilon^2 / 8 by bounded range.

    Reference: [Cesar and Rogers 2021, Lemma 3.2]; [AIM, Prop. 2].
    """

    epsilon: Fraction

    kind: ClassVar[str] = "exponential mechanism"

    def __post_init__(self) -> None:
        _require(self.epsilon > 0, "epsilon", self.epsilon)

    @property
    def cost(self) -> Cost:
        return Cost(self.epsilon**2 / 8, self.epsilon)


@dataclass(frozen=True, slots=True)
class NonPrivateEvent(Event):
    """Private data that left without noise: no budget covers it."""

    reason: str = ""

    kind: ClassVar[str] = "non-private"

    @property
    def cost(self) -> Cost:
        return Cost(None, None)


@dataclass(frozen=True, slots=True)
class ComposedEvent(Event):
    """Several events, adaptively chosen or not, each with how often it happened."""

    parts: tuple[tuple[Event, int], ...]

    kind: ClassVar[str] = "composition"

    def __post_init__(self) -> None:
        for _, count in self.parts:
            _require(count >= 1, "count", count)

    @property
    def cost(self) -> Cost:
        return sum((event.cost.times(count) for event, count in self.parts), Cost())

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "parts": [{"count": n, "event": event.to_json()} for event, n in self.parts],
        }


def compose(events: Iterable[Event]) -> Event:
    """One event for many: equal ones are counted, nested compositions are flattened."""
    counts: Counter[Event] = Counter()
    for event in events:
        parts = event.parts if isinstance(event, ComposedEvent) else ((event, 1),)
        for part, count in parts:
            counts[part] += count
    if len(counts) == 1 and counts.total() == 1:
        return next(iter(counts))
    return ComposedEvent(tuple(counts.items()))


_KINDS: dict[str, type[Event]] = {
    kind.kind: kind for kind in (GaussianEvent, LaplaceEvent, SelectionEvent, NonPrivateEvent)
}


def event_from_json(body: Mapping[str, Any]) -> Event:
    """The event that `Event.to_json` wrote; refuses kinds and fields it does not know."""
    if not isinstance(body, Mapping) or not isinstance(body.get("kind"), str):
        raise BudgetError("event: expected an object with a kind")
    if body["kind"] == ComposedEvent.kind:
        parts = body.get("parts")
        if not isinstance(parts, list):
            raise BudgetError("event 'composition': expected a list of parts")
        return ComposedEvent(tuple((event_from_json(part["event"]), _count(part.get("count"))) for part in parts))
    event_type = _KINDS.get(body["kind"])
    if event_type is None:
        raise BudgetError(f"event kind {body['kind']!r} is unknown to this version of hush and has no price; upgrade")
    names = {field.name for field in fields(event_type)}
    if set(body) - {"kind"} != names:
        raise BudgetError(f"event {body['kind']!r}: expected the fields {sorted(names)}")
    return event_type(**{name: _decode(event_type, name, body[name]) for name in names})


def _encode(value: Any) -> Any:
    return f"{value.numerator}/{value.denominator}" if isinstance(value, Fraction) else value


def _decode(event_type: type[Event], name: str, value: Any) -> Any:
    wanted = {field.name: str(field.type) for field in fields(event_type)}[name]
    if wanted == "Fraction":
        if not isinstance(value, str) or len(value) > 10_000:
            raise BudgetError(f"event field {name}: expected a rational such as '1/3'")
        try:
            return Fraction(value)
        except (ValueError, ZeroDivisionError):
            raise BudgetError(f"event field {name}: expected a rational such as '1/3'") from None
    if type(value).__name__ != wanted:
        raise BudgetError(f"event field {name}: expected {wanted}")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BudgetError("event 'composition': count must be an integer >= 1")
    return value


def _require(holds: bool, name: str, value: object) -> None:
    if not holds:
        raise BudgetError(f"event {name}={value!s}: expected a positive value")
