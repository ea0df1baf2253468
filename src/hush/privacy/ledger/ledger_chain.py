"""The hash chain of a ledger: entries, each with a hash over itself and the entry before it, and their replay.

A replay checks every hash, every cost against its event and every total against its cap; it trusts nothing else in the
file. It finds entries that were edited, removed or reordered. A whole file that was replaced by an older copy is found
only by a head (the last hash) that was kept elsewhere, such as in a release.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from hush.core.errors import BudgetError, LedgerError
from hush.core.rational import is_text_of, parse_rational, rational_text
from hush.privacy.budget import Budget, Cost
from hush.privacy.events import Event, event_from_dict, price
from hush.privacy.gaussian_filter import new_filter
from hush.privacy.privacy_filter import Filter, ZcdpFilter

NO_PREDECESSOR = "0" * 64  # the `previous` of the first entry
HEAD_DIGITS = 32  # hex digits of a hash that identify it
NOTE_LENGTH = 200
CAP, CHARGE = "cap", "charge"
ACCOUNTANT, GAUSSIAN = "accountant", "gaussian"  # of a cap in (epsilon, delta); without it, the cap is in zCDP


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a ledger, as stored: public, and text throughout, so that its hash has one meaning.

    `action` is "charge" with an event as `content`, or "cap" with a budget. `rho` and `epsilon` are exact rationals:
    the cost of a charge, or the limit of a cap in its own unit; empty if there is no bound. `terms` says whom a charge
    protects and under which neighbour relation: costs under different terms do not add up.
    """

    sequence: int
    dataset: str
    time: str
    action: str
    content: str
    rho: str
    epsilon: str
    note: str
    release: str
    terms: str
    previous: str
    hash: str = ""

    def sealed(self) -> Entry:
        """The entry with its hash: SHA-256 over canonical JSON of every other field."""
        body = asdict(self)
        del body["hash"]
        return replace(self, hash=hashlib.sha256(canonical(body).encode("ascii")).hexdigest())

    @property
    def event(self) -> Event:
        """The event of a charge."""
        return event_from_dict(_parsed(self.content))

    @property
    def cap(self) -> Budget:
        """The budget of a cap."""
        content = _parsed(self.content)
        stated = isinstance(content, Mapping) and content.get(ACCOUNTANT) == GAUSSIAN
        return Budget.from_dict({n: v for n, v in content.items() if n != ACCOUNTANT} if stated else content)

    @property
    def in_zcdp(self) -> bool:
        """Whether a cap in (epsilon, delta) was made before Gaussian DP, and keeps the rules of zCDP."""
        return self.cap.approximate and ACCOUNTANT not in _parsed(self.content)

    @property
    def cost(self) -> Cost:
        """The cost of a charge, recomputed from its event."""
        return price(self.event)


def charge_fields(event: Event, cost: Cost) -> dict[str, str]:
    """The fields of an entry for a charge: its event and its cost."""
    rho, epsilon = ("" if value is None else rational_text(value) for value in (cost.rho, cost.epsilon))
    return {"action": CHARGE, "content": canonical(event.to_dict()), "rho": rho, "epsilon": epsilon}


def cap_fields(cap: Budget) -> dict[str, str]:
    """The fields of an entry for a cap. The limit is stored, so that no later version converts the cap differently."""
    if not isinstance(cap, Budget):
        raise BudgetError(f"cap={cap!r}: expected a Budget, such as Budget(epsilon=1.0, delta=1e-9)")
    limit = rational_text(cap.limit)
    rho, epsilon = ("", limit) if cap.pure else (limit, "")
    content = cap.to_dict() | ({ACCOUNTANT: GAUSSIAN} if cap.approximate else {})
    return {"action": CAP, "content": canonical(content), "rho": rho, "epsilon": epsilon}


@dataclass(slots=True)
class Book:
    """The state of one dataset: the filter of its cap with all charges, and the terms of these."""

    charged: Filter
    terms: str = ""

    @property
    def cap(self) -> Budget:
        """The cap in force."""
        return self.charged.budget

    def settle(self) -> None:
        """Check the total against the cap; totals only grow, so the last one decides."""
        if not self.charged.kept:
            raise LedgerError("the total charged exceeds the cap")

    @property
    def remaining(self) -> Fraction:
        """What is left, in the unit of the cap."""
        return max(self.charged.left, Fraction(0))


class Chain:
    """The replay of a ledger's entries up to some length: the head, and a book for each dataset."""

    def __init__(self) -> None:
        self.length = 0
        self.head = NO_PREDECESSOR
        self.books: dict[str, Book] = {}

    def next_entry(
        self, *, dataset: str, time: str, note: str, release: str = "", terms: str = "", **fields: str
    ) -> Entry:
        """The next entry, with its hash; the chain itself does not change."""
        return Entry(
            sequence=self.length + 1,
            dataset=dataset,
            time=time,
            note=printable(note, NOTE_LENGTH),
            release=release,
            terms=terms,
            previous=self.head,
            **fields,
        ).sealed()

    def extend(self, entries: Iterable[Entry]) -> None:
        """Verify the next entries and take them in; raises LedgerError at the first that is wrong."""
        for entry in entries:
            with _refusing(f"entry {entry.sequence}"):
                self._take(entry)
        for dataset, book in self.books.items():
            with _refusing(f"dataset {dataset!r}"):
                book.settle()

    def _take(self, entry: Entry) -> None:
        # The entry follows the one before it and is as it was written.
        _require(entry.sequence == self.length + 1, f"expected entry {self.length + 1}: one was removed or moved")
        _require(entry.previous == self.head, "it does not follow the entry before it: one was edited or moved")
        _require(entry.sealed().hash == entry.hash, "it does not match its hash: it was edited")
        for text in (entry.dataset, entry.time, entry.note, entry.release, entry.terms):
            # Control characters alone: which others are printable differs between versions of Unicode.
            harmless = len(text) <= NOTE_LENGTH and not any(c < " " or "\x7f" <= c <= "\x9f" for c in text)
            _require(harmless, "it holds text that hush never writes")
        content = _parsed(entry.content)
        try:
            is_canonical = canonical(content) == entry.content
        except (ValueError, RecursionError):
            is_canonical = False
        _require(is_canonical, "its content is not in canonical form")

        # A cap opens a book or raises its limit; a charge costs what its event costs, under the terms of its dataset.
        book = self.books.get(entry.dataset)
        if entry.action == CAP:
            self.books[entry.dataset] = _book_of(entry, book)
        else:
            _require(entry.action == CHARGE, f"its action {entry.action!r} is unknown")
            _require(book is not None, "it charges a dataset that has no cap yet")
            event = event_from_dict(content)
            cost = price(event)
            _require(cost.rho is not None, "it is for an event that is not private")
            _require(_states(entry.rho, cost.rho), "its cost is not that of its event")
            _require(_states(entry.epsilon, cost.epsilon), "its cost is not that of its event")
            if book is not None:  # always true here; tells the type checker
                _require(entry.terms in ("", book.terms) or not book.terms, "its terms are not those of its dataset")
                book.terms = book.terms or entry.terms
                book.charged.add(event, cost)
        self.length, self.head = entry.sequence, entry.hash


def _book_of(entry: Entry, before: Book | None) -> Book:
    """The book of a dataset after a cap: a new one, or the one before with a higher limit."""
    cap = entry.cap
    rho, epsilon = (
        parse_rational(text, name) if text else None for text, name in ((entry.rho, "rho"), (entry.epsilon, "epsilon"))
    )
    limit, unused = (epsilon, rho) if cap.pure else (rho, epsilon)
    # Later versions of hush may convert a cap a little differently.
    expected = Fraction(cap.rho) if entry.in_zcdp else cap.limit
    if limit is None or unused is not None or abs(limit - expected) > expected / 10**9:
        raise LedgerError("its limit is not that of its cap")
    decided = None if before is None else before.charged.plain_first
    charged = ZcdpFilter(cap, limit) if entry.in_zcdp else new_filter(cap, limit, plain_first=decided)
    if before is None:
        return Book(charged)
    before.settle()
    _require(before.cap.pure == cap.pure and before.charged.limit < limit, "it does not raise the cap")
    for event, cost in before.charged.charges:
        charged.add(event, cost)
    return Book(charged, before.terms)


def canonical(value: Any) -> str:
    """JSON with one form for each value: sorted names, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def printable(text: str, length: int) -> str:
    r"""Text of limited length that is safe to print: control and other unprintable characters are escaped.

    >>> printable("\x1b[2Jgone", 100)
    '\\x1b[2Jgone'
    """
    shown = "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in text[: length + 1]
    )
    return shown if len(shown) <= length else shown[: length - 3] + "..."


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise LedgerError("its content is not JSON") from None


def _states(text: str, amount: Fraction | None) -> bool:
    """Whether a text states an amount; empty if there is no bound."""
    return not text if amount is None else is_text_of(text, amount)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise LedgerError(message)


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    try:
        yield
    except (BudgetError, LedgerError) as error:
        raise LedgerError(f"{what}: {error}") from None
