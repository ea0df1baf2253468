"""Events: exact prices, a stored form that round-trips, and refusal of whatever is not known."""

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.errors import BudgetError
from hush.privacy.budget import Cost
from hush.privacy.events import (
    ComposedEvent,
    DiscoveryEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    LocalEvent,
    NoisyChoiceEvent,
    NonPrivateEvent,
    SelectionEvent,
    TrainingEvent,
    compose,
    event_from_dict,
    price,
)

positive = st.fractions(min_value=Fraction(1, 10**6), max_value=10**6)
simple = st.one_of(
    st.builds(GaussianEvent, positive, positive),
    st.builds(GaussianEvent, positive, st.just(Fraction(1)), st.just(True)),
    st.builds(LaplaceEvent, positive, positive),
    st.builds(SelectionEvent, positive),
    st.builds(DiscoveryEvent, positive, st.fractions(Fraction(1, 10**9), Fraction(1, 2)), st.integers(1, 9)),
    st.builds(LocalEvent, positive, st.fractions(0, Fraction(1, 2))),
    st.builds(TrainingEvent, positive, st.fractions(0, Fraction(1, 2))),
    st.builds(NoisyChoiceEvent, positive),
)
parts = st.lists(st.tuples(simple, st.integers(1, 50)), max_size=6).map(tuple)
composed = st.builds(ComposedEvent, parts)
nested = st.builds(ComposedEvent, st.lists(st.tuples(simple | composed, st.integers(1, 9)), max_size=4).map(tuple))
events = simple | composed | nested


@pytest.mark.parametrize(
    ("event", "rho", "epsilon"),
    [
        (GaussianEvent(Fraction(100), Fraction(1)), Fraction(1, 200), None),
        (GaussianEvent(Fraction(100), Fraction(4)), Fraction(1, 50), None),
        (GaussianEvent(Fraction(2, 3), Fraction(1), True), Fraction(3, 4), None),
        (LaplaceEvent(Fraction(10), Fraction(1)), Fraction(1, 200), Fraction(1, 10)),
        (LaplaceEvent(Fraction(10), Fraction(2)), Fraction(1, 50), Fraction(1, 5)),
        (SelectionEvent(Fraction(1)), Fraction(1, 8), Fraction(1)),
        (SelectionEvent(Fraction(1, 10)), Fraction(1, 800), Fraction(1, 10)),
        (NoisyChoiceEvent(Fraction(1, 10)), Fraction(1, 200), Fraction(1, 10)),
        (NonPrivateEvent("the row count"), None, None),
        (ComposedEvent(()), Fraction(0), Fraction(0)),
        (ComposedEvent(((SelectionEvent(Fraction(1)), 16),)), Fraction(2), Fraction(16)),
        (compose([SelectionEvent(Fraction(1)), NonPrivateEvent()]), None, None),
    ],
)
def test_prices(event, rho, epsilon):
    assert event.cost == price(event) == Cost(rho, epsilon)


@given(events)
def test_json_round_trip(event):
    text = json.dumps(event.to_dict(), sort_keys=True)
    assert event_from_dict(json.loads(text)) == event
    assert json.dumps(event_from_dict(json.loads(text)).to_dict(), sort_keys=True) == text


@given(st.lists(events, max_size=6))
def test_cost_adds_up(many):
    together = compose(many).cost
    assert together == sum((event.cost for event in many), Cost())
    assert together == Cost.total(event.cost for event in many)


@given(st.lists(events, max_size=6))
def test_composition_is_flat_and_counts_equal_events(many):
    whole = compose([compose(many), ComposedEvent(())])
    flat = whole.parts if isinstance(whole, ComposedEvent) else ((whole, 1),)
    kinds = [part for part, _ in flat]
    assert not any(isinstance(part, ComposedEvent) for part in kinds)
    assert len(set(kinds)) == len(kinds)
    assert whole == compose(many)


def test_composition_of_compositions_multiplies():
    one = SelectionEvent(Fraction(1))
    inner = ComposedEvent(((one, 3), (LaplaceEvent(Fraction(2), Fraction(1)), 1)))
    assert ComposedEvent(((inner, 4), (one, 2))).parts == ((one, 14), (LaplaceEvent(Fraction(2), Fraction(1)), 4))


def test_compose_of_one_is_that_one():
    assert compose([SelectionEvent(Fraction(1))]) == SelectionEvent(Fraction(1))
    assert compose([]) == ComposedEvent(())


@pytest.mark.parametrize("value", [0, Fraction(0), -1, Fraction(-1, 2)])
@pytest.mark.parametrize(
    "make",
    [
        lambda x: GaussianEvent(x, Fraction(1)),
        lambda x: GaussianEvent(Fraction(1), x),
        lambda x: LaplaceEvent(x, Fraction(1)),
        lambda x: LaplaceEvent(Fraction(1), x),
        SelectionEvent,
    ],
)
def test_parameters_are_positive(make, value):
    with pytest.raises(BudgetError, match="expected a number above 0"):
        make(value)


@pytest.mark.parametrize("value", [math.inf, math.nan, 1.0, True, "1/2", None, np.float64(2)])
def test_parameters_are_exact(value):
    with pytest.raises(BudgetError, match="expected an exact rational"):
        GaussianEvent(value, Fraction(1))


def test_integers_of_any_kind_become_fractions():
    event = GaussianEvent(np.int64(4), 1, True)
    assert event == GaussianEvent(Fraction(4), Fraction(1), True)
    assert type(event.variance.numerator) is int
    assert event.cost.rho == Fraction(1, 8)


def test_a_single_cell_moves_by_one():
    with pytest.raises(BudgetError, match="expected 1 for a single cell"):
        GaussianEvent(Fraction(1), Fraction(2), True)
    with pytest.raises(BudgetError, match="single_cell=1: expected True or False"):
        GaussianEvent(Fraction(1), Fraction(1), 1)


@pytest.mark.parametrize("count", [0, -1, True, 1.0, "1", None])
def test_counts_are_whole_and_positive(count):
    with pytest.raises(BudgetError, match="count=.*: expected a whole number from 1 to 2"):
        ComposedEvent(((SelectionEvent(Fraction(1)), count),))


def test_only_events_compose():
    with pytest.raises(BudgetError, match="composition of str: expected events"):
        compose(["selection"])


@dataclass(frozen=True, slots=True)
class Cheap(GaussianEvent):
    """A subclass that calls itself free."""

    @property
    def cost(self) -> Cost:
        return Cost()


@dataclass(frozen=True, slots=True)
class Unheard(Event):
    kind: ClassVar[str] = "unheard of"


@pytest.mark.parametrize(
    "event",
    [
        Cheap(Fraction(1), Fraction(1)),
        Unheard(),
        Event(),
        compose([SelectionEvent(Fraction(1)), Cheap(Fraction(1), Fraction(1))]),
        compose([Unheard()] * 2),
        "event",
        None,
    ],
)
def test_an_event_never_seen_has_no_price(event):
    with pytest.raises(BudgetError, match="is unknown to hush and has no price"):
        price(event)


def test_an_unknown_event_states_no_cost_of_its_own():
    with pytest.raises(BudgetError, match="event Unheard has no price"):
        Unheard().cost  # noqa: B018


def test_a_price_comes_from_valid_fields_only():
    event = SelectionEvent(Fraction(1))
    object.__setattr__(event, "epsilon", Fraction(-1))
    with pytest.raises(BudgetError):
        price(event)
    object.__setattr__(event, "epsilon", math.nan)
    with pytest.raises(BudgetError):
        price(event)


GAUSSIAN = {"kind": "discrete gaussian", "variance": "1/1", "sensitivity_l2_squared": "1/1", "single_cell": True}
SELECTION = {"kind": "exponential mechanism", "epsilon": "1/10"}
PART = {"count": 2, "event": SELECTION}


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "discrete gaussian",
        {},
        {"kind": 3},
        {"kind": ["discrete gaussian"]},
        {"kind": "laplace"},
        {"kind": "Discrete Gaussian"},
        SELECTION | {"extra": 1},
        {"kind": "exponential mechanism"},
        SELECTION | {"epsilon": 0.1},
        SELECTION | {"epsilon": "0.1"},
        SELECTION | {"epsilon": "1e999999999"},
        SELECTION | {"epsilon": "1/0"},
        SELECTION | {"epsilon": "-1/10"},
        SELECTION | {"epsilon": "0/1"},
        SELECTION | {"epsilon": "nan"},
        GAUSSIAN | {"single_cell": 1},
        GAUSSIAN | {"single_cell": "true"},
        GAUSSIAN | {"sensitivity_l2_squared": "2/1"},
        {"kind": "composition"},
        {"kind": "composition", "parts": {}},
        {"kind": "composition", "parts": [PART], "extra": 1},
        {"kind": "composition", "parts": [SELECTION]},
        {"kind": "composition", "parts": [PART | {"more": 1}]},
        {"kind": "composition", "parts": [PART | {"count": 0}]},
        {"kind": "composition", "parts": [PART | {"count": 1.5}]},
        {"kind": "composition", "parts": [PART | {"event": None}]},
        {"kind": "composition", "parts": [{"count": 1, "event": {"kind": "composition", "parts": []}}]},
        {"kind": "composition", "parts": [PART, 7]},
    ],
)
def test_stored_forms_that_are_not_known_are_refused(body):
    with pytest.raises(BudgetError, match=r"^(event|composition)"):
        event_from_dict(body)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_any_value_in_a_field_is_refused_or_read(value):
    with pytest.raises(BudgetError):
        event_from_dict(SELECTION | {"epsilon": value})
    with pytest.raises(BudgetError):
        event_from_dict({"kind": value})


def test_discovery_and_local_reports_cost_what_they_say() -> None:
    assert DiscoveryEvent(Fraction(2), Fraction(1, 100), 2).cost == Cost(Fraction(4), Fraction(4), Fraction(1, 50))
    assert LocalEvent(Fraction(2), Fraction(0)).cost == Cost(Fraction(2), Fraction(2))
    assert TrainingEvent(Fraction(2), Fraction(1, 9)).cost == Cost(Fraction(2), Fraction(2), Fraction(1, 9))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DiscoveryEvent(Fraction(1), Fraction(2, 3), 1), "at most 1/2"),
        (lambda: DiscoveryEvent(Fraction(1), Fraction(0), 1), "expected a number above 0"),
        (lambda: DiscoveryEvent(Fraction(1), Fraction(1, 3), 0), "expected a whole number from 1"),
        (lambda: DiscoveryEvent(Fraction(1), Fraction(1, 3), True), "expected a whole number from 1"),
        (lambda: LocalEvent(Fraction(1), Fraction(2, 3)), "at most 1/2"),
        (lambda: LocalEvent(Fraction(1), -Fraction(1, 3)), "expected a number above 0"),
        (lambda: LocalEvent(Fraction(1), 0.0), "expected an exact probability"),
        (lambda: TrainingEvent(Fraction(1), Fraction(2, 3)), "at most 1/2"),
        (lambda: TrainingEvent(1.5, Fraction(1, 3)), "expected an exact rational"),
        (lambda: event_from_dict(DiscoveryEvent(Fraction(1), Fraction(1, 3), 1).to_dict() | {"keys": 1.0}), "int"),
    ],
)
def test_events_with_impossible_deltas_are_refused(make, message) -> None:
    with pytest.raises(BudgetError, match=message):
        make()
