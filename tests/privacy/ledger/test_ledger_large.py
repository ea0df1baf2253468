"""Charges of many distinct costs: recorded in a form that is read again, or refused before they are charged."""

import random
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from hush.core import rational
from hush.core.errors import BudgetError, LedgerError
from hush.privacy import events
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.events import MOST_TIMES, ComposedEvent, Event, GaussianEvent, SelectionEvent, compose, price
from hush.privacy.ledger import Ledger, ledger_chain
from hush.privacy.ledger.ledger_file import LedgerFile

SELECT = SelectionEvent(Fraction(1))  # rho 1/8
CAP = Budget(rho=1e9)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.db"


def distinct(count: int) -> Event:
    """That many events, no two of which cost the same, with the denominators of unrelated floats."""
    chance = random.Random(4)
    return compose(GaussianEvent(Fraction(chance.uniform(1e6, 2e6)), Fraction(1)) for _ in range(count))


def test_a_cost_longer_than_one_fraction_may_be_is_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rational, "LONGEST_TEXT", 1000)
    ledger, event = Ledger(path, cap=CAP), distinct(100)
    ledger.charge(event)
    assert len(ledger.entries()[1].rho) > 2 * rational.LONGEST_TEXT
    events._cost.cache_clear()
    again = Ledger.open(path)
    again.verify(ledger.head)
    assert again.total == event.cost
    assert again.entries()[1].cost == event.cost
    assert again.to_dict()["spent"] == str(event.cost.rho)
    again.charge(SELECT)
    assert Ledger.open(path).total == event.cost + SELECT.cost


@pytest.mark.slow
def test_many_distinct_costs_are_charged_and_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their sum is longer than a fraction may be, which 45,000 costs are without the lower limit set here."""
    monkeypatch.setattr(rational, "LONGEST_TEXT", rational.LONGEST_TEXT // 5)
    ledger, event = Ledger(path, cap=CAP), distinct(9_000)
    ledger.charge(event)
    assert len(ledger.entries()[1].rho) > rational.LONGEST_TEXT
    again = Ledger.open(path)
    assert again.total.rho == ledger.total.rho
    again.charge(SELECT)


def test_a_fraction_that_no_reader_takes_is_refused_when_the_event_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rational, "LONGEST_TEXT", 1000)
    GaussianEvent(Fraction(10**900), Fraction(1))
    with pytest.raises(
        BudgetError, match=r"event field variance: a fraction of over .* digits cannot be recorded; round"
    ):
        GaussianEvent(Fraction(10**1000), Fraction(1))


def test_what_could_not_be_read_again_is_not_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(path, cap=CAP)
    ledger.charge(SELECT)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(ledger_chain, "is_text_of", lambda text, value: False)  # a reader that takes less than is written
        with pytest.raises(
            LedgerError, match="could not be read again once written: entry 3.*nothing was written or charged"
        ):
            ledger.charge(SELECT)
    assert path.read_bytes() == before
    ledger.charge(SELECT)
    assert ledger.total == Ledger.open(path).total == SELECT.cost.times(2)


def test_a_write_that_fails_is_not_counted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    ledger = Ledger(path, cap=CAP)
    with monkeypatch.context() as patch:
        patch.setattr("hush.privacy.ledger.ledger.append", full)
        with pytest.raises(LedgerError):
            ledger.charge(SELECT)
    assert ledger.total == Ledger.open(path).total
    ledger.charge(SELECT)
    assert ledger.total == Ledger.open(path).total == SELECT.cost


def test_an_entry_larger_than_sqlite_takes_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = LedgerFile._connect

    def limited(self: LedgerFile, options: str) -> sqlite3.Connection:
        connection = connect(self, options)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 5000)
        return connection

    ledger = Ledger(path, cap=CAP)
    before = path.read_bytes()
    monkeypatch.setattr(LedgerFile, "_connect", limited)
    with pytest.raises(LedgerError, match="the charge is too large for one entry; nothing was charged; split it"):
        ledger.charge(distinct(100))
    assert path.read_bytes() == before
    ledger.charge(SELECT)


def test_an_event_becomes_json_once_and_is_read_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Event] = []
    read: list[object] = []
    costs: list[Event] = []
    to_dict, simple_event, cost = Event.to_dict, events._simple_event, GaussianEvent.cost.fget

    monkeypatch.setattr(Event, "to_dict", lambda self: (written.append(self), to_dict(self))[1])
    monkeypatch.setattr(events, "_simple_event", lambda body: (read.append(body), simple_event(body))[1])
    monkeypatch.setattr(GaussianEvent, "cost", property(lambda self: (costs.append(self), cost(self))[1]))
    event, ledger = distinct(50), Ledger(path, cap=CAP)
    account = Allowance(CAP, ledger.for_release("r"))
    account.require(event)
    account.charge(event)
    assert account.remaining == ledger.remaining
    assert len(written) == len(read) == len(costs) == 50


def test_a_price_is_never_that_of_another_event() -> None:
    """Prices are remembered by value: an event that is changed after it was priced is priced anew."""
    event = SelectionEvent(Fraction(1))
    assert price(event).epsilon == 1
    object.__setattr__(event, "epsilon", Fraction(2))
    assert price(event).epsilon == 2
    object.__setattr__(event, "epsilon", Fraction(-2))
    with pytest.raises(BudgetError, match="expected a number above 0"):
        price(event)
    assert price(SelectionEvent(Fraction(1))).epsilon == 1
    many = compose([event_of(1), event_of(2)])
    object.__setattr__(many, "parts", ((event_of(1), 0),))
    with pytest.raises(BudgetError, match="expected a whole number from 1 to 2"):
        price(many)


def test_an_event_happens_at_most_as_often_as_can_be_recorded(path: Path) -> None:
    tiny = GaussianEvent(Fraction(10**400), Fraction(1))
    ledger, most = Ledger(path, cap=CAP), ComposedEvent(((tiny, MOST_TIMES),))
    ledger.charge(most)
    assert Ledger.open(path).events() == [most]
    for parts in (((tiny, 10**5000),), ((tiny, MOST_TIMES), (tiny, 1)), ((most, 2),)):
        with pytest.raises(BudgetError, match="expected a whole number from 1 to 2"):
            ComposedEvent(parts)


def event_of(epsilon: int) -> Event:
    return SelectionEvent(Fraction(epsilon))
