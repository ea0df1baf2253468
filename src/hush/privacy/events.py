"""Events: what was done to the private table, as data from which its privacy loss is computed.

The object that adds the noise makes the event. An event holds no private value; ledgers store it and releases publish
it. `cost` is exact. An event of unknown type has no cost and is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from numbers import Rational
from typing import Any, ClassVar

from hush.core.errors import BudgetError, shown
from hush.core.rational import LONGEST_TEXT, is_readable, parse_rational, rational_text
from hush.core.validation import check_flag, check_whole, is_whole
from hush.privacy.budget import Cost

MOST_TIMES = 2**63  # how often one event may happen; Python cannot write or read JSON integers above 4,300 digits


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        """Check the fields."""

    @property
    def cost(self) -> Cost:
        """The privacy loss of the event."""
        raise BudgetError(f"event {type(self).__name__} has no price; it cannot be charged")

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON values; rationals as "numerator/denominator"."""
        body = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": self.kind} | {n: rational_text(v) if isinstance(v, Fraction) else v for n, v in body.items()}


@dataclass(frozen=True, slots=True)
class GaussianEvent(Event):
    """Exact discrete Gaussian noise of a variance parameter sigma^2 on integers of squared L2 sensitivity Delta^2.

    rho = Delta^2 / (2 sigma^2). `single_cell` says that neighbours differ by one in one coordinate, so the
    one-dimensional privacy loss distribution holds.

    Reference: [CKS20, Thm 4 and Thm 14].
    """

    variance: Fraction
    sensitivity_l2_squared: Fraction
    single_cell: bool = False

    kind: ClassVar[str] = "discrete gaussian"

    def __post_init__(self) -> None:
        _require_positive(self, "variance", "sensitivity_l2_squared")
        check_flag(BudgetError, "event field single_cell", self.single_cell)
        if self.single_cell and self.sensitivity_l2_squared != 1:
            raise BudgetError(
                f"event field sensitivity_l2_squared={shown(self.sensitivity_l2_squared)}: expected 1 for a single cell"
            )

    @property
    def cost(self) -> Cost:
        return Cost(self.sensitivity_l2_squared / (2 * self.variance), None)


@dataclass(frozen=True, slots=True)
class LaplaceEvent(Event):
    """Exact discrete Laplace noise of a scale on integers of L1 sensitivity Delta.

    epsilon = Delta / scale, and rho = epsilon^2 / 2.

    Reference: [BS16, Prop. 1.4] for rho.
    """

    scale: Fraction
    sensitivity_l1: Fraction

    kind: ClassVar[str] = "discrete laplace"

    def __post_init__(self) -> None:
        _require_positive(self, "scale", "sensitivity_l1")

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
        _require_positive(self, "epsilon")

    @property
    def cost(self) -> Cost:
        return Cost(self.epsilon**2 / 8, self.epsilon)


@dataclass(frozen=True, slots=True)
class DiscoveryEvent(Event):
    """Keys of an unknown list, each released or not by an (epsilon, delta)-DP bit; one unit affects `keys` bits.

    The bits are independent, so a unit that affects k of them loses k epsilon, or rho = k epsilon^2 / 2, except with
    probability k delta.

    Reference: [Korolova et al. 2009] for the problem; [Desfontaines et al. 2022] for the bit.
    """

    epsilon: Fraction
    delta: Fraction
    keys: int

    kind: ClassVar[str] = "key discovery"

    def __post_init__(self) -> None:
        _require_positive(self, "epsilon", "delta")
        if self.delta > Fraction(1, 2):
            raise BudgetError(f"event field delta={float(self.delta):g}: expected a probability of at most 1/2")
        keys = check_whole(BudgetError, "event field keys", self.keys, least=1, most=MOST_TIMES)
        object.__setattr__(self, "keys", keys)

    @property
    def cost(self) -> Cost:
        return Cost(self.epsilon**2 / 2, self.epsilon, self.delta).times(self.keys)


@dataclass(frozen=True, slots=True)
class RareKeyEvent(Event):
    """Noisy counts of an unknown list of keys are released from a threshold on; one unit affects `keys` counts.

    `delta` bounds the probability that a key is released which a neighbouring table could never release. The noise of
    the counts is an event of its own.

    Reference: [Korolova et al. 2009]; [BS16, sec. 8] for bounds that hold except with probability delta.
    """

    delta: Fraction
    keys: int

    kind: ClassVar[str] = "key threshold"

    def __post_init__(self) -> None:
        _require_positive(self, "delta")
        if self.delta > Fraction(1, 2):
            raise BudgetError(f"event field delta={float(self.delta):g}: expected a probability of at most 1/2")
        object.__setattr__(
            self, "keys", check_whole(BudgetError, "event field keys", self.keys, least=1, most=MOST_TIMES)
        )

    @property
    def cost(self) -> Cost:
        return Cost(Fraction(0), Fraction(0), self.delta).times(self.keys)


@dataclass(frozen=True, slots=True)
class PromisedEvent(Event):
    """A mechanism known only to be (epsilon, delta)-DP: rho = epsilon^2 / 2 except with probability delta.

    Randomised response at epsilon that also reveals the truth with probability delta dominates it.

    Reference: [Kairouz, Oh and Viswanath 2015] for the domination; [BS16, Prop. 1.4] for rho.
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        _require_positive(self, "epsilon")
        if self.delta != 0:
            _require_positive(self, "delta")
        if not isinstance(self.delta, Fraction) or self.delta > Fraction(1, 2):
            raise BudgetError("event field delta: expected an exact probability of at most 1/2")

    @property
    def cost(self) -> Cost:
        return Cost(self.epsilon**2 / 2, self.epsilon, self.delta)


@dataclass(frozen=True, slots=True)
class LocalEvent(PromisedEvent):
    """The local DP that each client's device guaranteed when it answered a question, against everybody."""

    kind: ClassVar[str] = "local reports"


@dataclass(frozen=True, slots=True)
class TrainingEvent(PromisedEvent):
    """One whole training run on sampled batches, priced by an accountant that takes sampling into account."""

    kind: ClassVar[str] = "private training"


@dataclass(frozen=True, slots=True)
class NoisyChoiceEvent(Event):
    """One choice known only to be epsilon-DP, such as the least of noisy costs: rho = epsilon^2 / 2.

    The log-odds of two choices may move by 2 epsilon, so the bounded range of `SelectionEvent` does not hold.

    Reference: [BS16, Prop. 1.4].
    """

    epsilon: Fraction

    kind: ClassVar[str] = "noisy choice"

    def __post_init__(self) -> None:
        _require_positive(self, "epsilon")

    @property
    def cost(self) -> Cost:
        return Cost(self.epsilon**2 / 2, self.epsilon)


CHOICE_EVENTS = (SelectionEvent, NoisyChoiceEvent)  # they release a choice and no noisy numbers


@dataclass(frozen=True, slots=True)
class NonPrivateEvent(Event):
    """Private data released without noise: no budget covers it."""

    reason: str = ""

    kind: ClassVar[str] = "non-private"

    @property
    def cost(self) -> Cost:
        return Cost(None, None)


@dataclass(frozen=True, slots=True)
class ComposedEvent(Event):
    """Several events, adaptively chosen or not, each with its number of occurrences.

    Nested compositions are flattened and equal events counted together, in the order of first appearance.
    """

    parts: tuple[tuple[Event, int], ...]

    kind: ClassVar[str] = "composition"

    def __post_init__(self) -> None:
        counts: Counter[Event] = Counter()
        for event, count in self.parts:
            if not isinstance(event, Event):
                raise BudgetError(f"composition of {type(event).__name__}: expected events")
            inner = event.parts if isinstance(event, ComposedEvent) else ((event, 1),)
            for simple, times in inner:
                counts[simple] = _count(counts[simple] + times * _count(count))
        object.__setattr__(self, "parts", tuple(counts.items()))

    @property
    def cost(self) -> Cost:
        return Cost.total(event.cost.times(count) for event, count in self.parts)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "parts": [{"count": n, "event": event.to_dict()} for event, n in self.parts]}


def compose(events: Iterable[Event]) -> Event:
    """One event for many: equal events are counted, nested compositions flattened."""
    composed = ComposedEvent(tuple((event, 1) for event in events))
    if len(composed.parts) == 1 and composed.parts[0][1] == 1:
        return composed.parts[0][0]
    return composed


_KINDS: dict[str, type[Event]] = {
    kind.kind: kind
    for kind in (
        GaussianEvent,
        LaplaceEvent,
        SelectionEvent,
        NoisyChoiceEvent,
        DiscoveryEvent,
        RareKeyEvent,
        LocalEvent,
        TrainingEvent,
        NonPrivateEvent,
    )
}


def price(event: Event) -> Cost:
    """The cost of an event, after all its fields are checked again; refuses types of events not defined here.

    A subclass could claim any cost, so only the exact types of this module are priced.
    """
    parts = event.parts if type(event) is ComposedEvent else ((event, 1),)
    for simple, count in parts:
        if type(simple) not in _KINDS.values():
            raise BudgetError(
                f"event {type(simple).__name__} is unknown to hush and has no price; it cannot be charged"
            )
        simple.__post_init__()
        _count(count)
    return _cost(event)


@lru_cache(maxsize=8)
def _cost(event: Event) -> Cost:
    """The cost of an event of a known type, cached: adding up a large composition takes seconds."""
    return event.cost


def event_from_dict(body: Any) -> Event:
    """The event that `Event.to_dict` wrote; refuses unknown kinds and fields."""
    if not isinstance(body, Mapping) or not isinstance(body.get("kind"), str):
        raise BudgetError("event: expected an object with a kind")
    if body["kind"] != ComposedEvent.kind:
        return _simple_event(body)
    parts = body.get("parts")
    if set(body) != {"kind", "parts"} or not isinstance(parts, list):
        raise BudgetError(f"event {ComposedEvent.kind!r}: expected the fields ['parts']")
    for entry in parts:
        if not isinstance(entry, Mapping) or set(entry) != {"count", "event"}:
            raise BudgetError(f"event {ComposedEvent.kind!r}: expected parts with the fields ['count', 'event']")
    return ComposedEvent(tuple((_simple_event(entry["event"]), entry["count"]) for entry in parts))


def _simple_event(body: Any) -> Event:
    kind = body.get("kind") if isinstance(body, Mapping) else None
    event_type = _KINDS.get(kind) if isinstance(kind, str) else None
    if event_type is None:
        raise BudgetError(f"event kind {shown(kind)} is unknown to this version of hush and has no price; upgrade hush")
    field_types = {field.name: str(field.type) for field in fields(event_type)}
    if set(body) - {"kind"} != set(field_types):
        raise BudgetError(f"event {kind!r}: expected the fields {sorted(field_types)}")
    decoded: dict[str, Any] = {}
    for name, field_type in field_types.items():
        value = body[name]
        if field_type == "Fraction":
            decoded[name] = parse_rational(value, f"event field {name}")
        elif type(value).__name__ == field_type:
            decoded[name] = value
        else:
            raise BudgetError(f"event field {name}: expected {field_type}")
    return event_type(**decoded)


def _count(value: Any) -> int:
    """How often an event happens; only plain integers, since files hold no others."""
    if not isinstance(value, int) or not is_whole(value) or not 1 <= value <= MOST_TIMES:
        raise BudgetError(f"composition: count={shown(value)}: expected a whole number from 1 to 2^63")
    return value


def _require_positive(event: Event, *names: str) -> None:
    """Turn the named fields into exact fractions above 0; refuses floats, which may be rounded, infinite or NaN."""
    for name in names:
        value = getattr(event, name)
        if type(value) is Fraction and value > 0 and is_readable(value):
            continue
        if isinstance(value, bool) or not isinstance(value, Rational):
            raise BudgetError(f"event field {name}={shown(value)}: expected an exact rational, such as Fraction(1, 3)")
        if value <= 0:
            raise BudgetError(f"event field {name}={shown(value)}: expected a number above 0")
        exact = Fraction(int(value.numerator), int(value.denominator))
        if not is_readable(exact):
            raise BudgetError(
                f"event field {name}: a fraction of over {LONGEST_TEXT:,} digits cannot be recorded; round it"
            )
        object.__setattr__(event, name, exact)
