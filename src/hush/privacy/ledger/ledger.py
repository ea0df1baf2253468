"""Ledger: all charges to a dataset, in a file that outlives the process and cannot lose a charge unnoticed."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from hush.core.errors import BudgetError, LedgerError
from hush.core.unit import Unit
from hush.privacy.account import Account, Allowance, check_affordable
from hush.privacy.budget import Budget, Cost, number_text
from hush.privacy.events import Event, price
from hush.privacy.ledger.ledger_chain import (
    CHARGE,
    HEAD_DIGITS,
    NOTE_LENGTH,
    Book,
    Chain,
    Entry,
    cap_fields,
    charge_fields,
    printable,
)
from hush.privacy.ledger.ledger_file import LedgerFile, append
from hush.privacy.privacy_filter import Filter
from hush.privacy.sensitivity import Neighbours

NEW_DATASET = "new dataset"  # how the note of a first entry begins


class Ledger:
    """The record of every charge to one dataset, and its cap; several datasets may share a file and its chain.

    The first opening of a dataset states its cap; later ones need not. All totals are exact fractions, recomputed from
    the entries. Everything stored is public: events, times to the minute, notes and names, never a value from the data.

    Privacy: all charges together, from any number of processes in any order, stay within the cap: a charge is on disk
    before `charge` returns, and the data is read only then. A crash in between costs budget and reveals nothing.

    >>> import tempfile, pathlib
    >>> from hush.privacy.events import SelectionEvent
    >>> path = pathlib.Path(tempfile.mkdtemp(), "budget.db")
    >>> ledger = Ledger(path, dataset="census", cap=Budget(rho=0.5))
    >>> ledger.charge(SelectionEvent(Fraction(1)), note="pick a marginal", release="2020")
    >>> Ledger.open(path, dataset="census").remaining
    Fraction(3, 8)
    """

    def __init__(self, path: str | os.PathLike[str], *, dataset: str = "default", cap: Budget | None = None) -> None:
        self._dataset = _name("dataset", dataset)
        self._chain: Chain | None = None
        if not os.path.lexists(path):
            if cap is None:
                raise LedgerError(
                    f"{os.fspath(path)} does not exist; create it by stating a cap, cap=Budget(...), or with "
                    f"`{_command('init', path, dataset)} --epsilon ... --delta ...`, if nothing was ever released from "
                    "this data; else find its ledger"
                )
            first = Chain().next_entry(dataset=dataset, time=_now(), note=_first_note(), **cap_fields(cap))
            LedgerFile.create(path, first)
        self._file = LedgerFile(path)
        self._join(cap)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, dataset: str = "default") -> Ledger:
        """The ledger of an existing dataset; changes nothing."""
        return cls(path, dataset=dataset)

    @classmethod
    def create(cls, path: str | os.PathLike[str], cap: Budget, *, dataset: str = "default") -> Ledger:
        """Set the cap of a dataset that is new to the file; creates the file if needed, and replaces nothing.

        >>> import tempfile, pathlib
        >>> Ledger.create(pathlib.Path(tempfile.mkdtemp(), "budget.db"), Budget(epsilon=3.0, delta=1e-9)).budget
        Budget(epsilon=3.0, delta=1e-09)
        """
        cap_fields(cap)  # refuses a cap that is not a budget, before the file is touched
        if os.path.lexists(path):
            known = {ledger.dataset: ledger for ledger in cls.open_all(path)}
            if dataset in known:
                raise LedgerError(
                    f"{os.fspath(path)} has a dataset {dataset!r} already, with the cap {known[dataset].budget}, which "
                    f"stays; see what is left with `{_command('show', path, dataset)}`"
                )
        return cls(path, dataset=dataset, cap=cap)

    @classmethod
    def open_all(cls, path: str | os.PathLike[str]) -> list[Ledger]:
        """A ledger for each dataset of a file, in the order of their first entries; changes nothing."""
        file = LedgerFile(path)
        with file.reading() as connection:
            books = _replay(file, connection, None).books
        return [cls(path, dataset=dataset) for dataset in books]

    def __repr__(self) -> str:
        return f"Ledger({str(self._file.path)!r}, dataset={self._dataset!r})"

    def _repr_html_(self) -> str:
        """What notebooks show: the cap, what is spent and left, and the charges."""
        from hush.privacy.ledger.ledger_view import ledger_tables

        return "".join(table.html() for table in ledger_tables(self, None))

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    @property
    def dataset(self) -> str:
        """The name of the dataset."""
        return self._dataset

    @property
    def budget(self) -> Budget:
        """The cap in force."""
        return self._book().cap

    @property
    def remaining(self) -> Fraction:
        """What is left, in the unit of the cap: see `Budget.unit`."""
        return self._book().remaining

    @property
    def limit(self) -> Fraction:
        """The cap as one number, in its unit: see `Budget.unit`."""
        return self._book().charged.limit

    @property
    def pure_remaining(self) -> Fraction | None:
        """The pure epsilon that plain addition leaves beside all charges; None if it does not admit these."""
        return self._book().charged.pure_left

    def filter(self, *, empty: bool = False) -> Filter:
        """A copy of the filter of the cap with all charges; or, if `empty`, with none."""
        charged = self._book().charged
        return type(charged)(charged.budget, charged.limit) if empty else charged.copy()

    @property
    def total(self) -> Cost:
        """The exact sum of all charges."""
        return self._book().charged.spent

    @property
    def head(self) -> str:
        """The hash of the last entry, shortened; a release keeps it, and `verify` checks that the file contains it."""
        with self._file.reading() as connection:
            return self._replayed(connection).head[:HEAD_DIGITS]

    def entries(self) -> list[Entry]:
        """Every entry of this dataset, in order: caps and charges."""
        with self._file.reading() as connection:
            self._replayed(connection)
            return [entry for entry in self._file.entries(connection) if entry.dataset == self._dataset]

    def events(self, *, until: str | None = None) -> list[Event]:
        """Every event charged to this dataset, in order; with `until`, a head, those up to that head."""
        with self._file.reading() as connection:
            self._replayed(connection)
            entries = self._file.entries(connection)
        if until is not None:
            entries = entries[: max((e.sequence for e in entries if e.hash.startswith(until)), default=0)]
        return [e.event for e in entries if e.dataset == self._dataset and e.action == CHARGE]

    def to_dict(self) -> dict[str, Any]:
        """The cap, what is spent and left, and every entry, as JSON values.

        Amounts are exact fractions as text, in `unit`: epsilon if the cap is pure, mu^2/2 of Gaussian DP if it states a
        delta, rho otherwise. `spent` is the limit minus what is left. `left_pure_epsilon` is left for further pure
        charges.
        """
        limit, left, pure = self.limit, self.remaining, self.pure_remaining
        return {
            "dataset": self.dataset,
            "cap": self.budget.to_dict(),
            "unit": self.budget.unit,
            "limit": str(limit),
            "spent": str(limit - left),
            "left": str(left),
            "left_pure_epsilon": None if pure is None else str(pure),
            "head": self.head,
            "entries": [asdict(entry) for entry in self.entries()],
        }

    def charge(self, event: Event, *, note: str = "", release: str = "", terms: str = "") -> None:
        """Record an event on disk, or raise BudgetError and leave the file as it was.

        The entry is verified before it is written, by the rules of every later opening.

        `terms` says whom the charge protects and under which neighbour relation. The first charge that states terms
        sets the terms of the dataset; a charge under other terms is refused, since their costs do not add up.
        """
        cost = price(event)
        _name("release", release, empty=True)
        _name("terms", terms, empty=True)
        fields = charge_fields(event, cost)
        with self._extending() as (chain, add):
            self._require(chain.books[self._dataset], event, cost, terms)
            add(note=note, release=release, terms=terms, **fields)

    def require(self, event: Event, *, terms: str = "") -> None:
        """Raise BudgetError where `charge` would; records nothing."""
        self._require(self._book(), event, price(event), terms)

    def for_release(self, release: str, *, terms: str = "") -> Account:
        """This ledger as an account whose charges carry the name and terms of a release."""
        return _ReleaseAccount(self, _name("release", release, empty=True), _name("terms", terms, empty=True))

    def raise_cap(self, budget: Budget, *, reason: str) -> None:
        """Replace the cap by a larger one of the same kind; recorded as an entry, with the reason."""
        if not (isinstance(reason, str) and reason.strip()):
            raise LedgerError(
                "raising a cap needs a reason, which the ledger records; on the command line, give --reason"
            )
        with self._extending() as (chain, add):
            book = chain.books[self._dataset]
            cap = book.cap
            smaller = (
                cap.approximate
                and budget.approximate
                and not (
                    (budget.epsilon or 0.0) >= (cap.epsilon or 0.0)
                    and (budget.delta or 0.0) >= (cap.delta or 0.0)
                    and budget != cap
                )
            )
            if budget.pure != cap.pure or budget.limit <= book.charged.limit or smaller:
                raise LedgerError(
                    f"{self._file.path}, dataset {self._dataset!r}: the cap {book.cap} can only be raised to a larger "
                    f"one of the same kind; {budget} is not"
                )
            add(note=reason, **cap_fields(budget))

    def verify(self, expected_head: str | None = None) -> None:
        """Recompute every hash, cost and total from the file; raise LedgerError at the first that is wrong.

        An older copy of a file is consistent; it is detected by a later head, which it does not contain.
        """
        head = "" if expected_head is None else str(expected_head).strip().lower()
        if expected_head is not None and not re.fullmatch(rf"[0-9a-f]{{{HEAD_DIGITS},64}}", head):
            raise LedgerError(f"expected_head={head[:80]!r}: expected the {HEAD_DIGITS} hex digits of a head")
        with self._file.reading() as connection:
            self._chain = None
            self._replayed(connection)
            hashes = [entry.hash for entry in self._file.entries(connection)]
        if not any(entry_hash.startswith(head) for entry_hash in hashes):
            raise LedgerError(
                f"{self._file.path} lacks the head {head}: it is another ledger, or an older copy that misses charges"
            )

    def _join(self, cap: Budget | None) -> None:
        """Check the stated cap against the stored cap, or record it for a dataset that is new to the file."""
        with self._file.reading() as connection:
            known = self._dataset in self._replayed(connection).books
        if cap is not None and not known:
            with self._extending() as (chain, add):
                if self._dataset not in chain.books:
                    add(note=_first_note(), **cap_fields(cap))
        stored = self._book().cap
        if cap is not None and cap != stored:
            raise LedgerError(
                f"{self._file.path}, dataset {self._dataset!r} has the cap {stored}, not {cap}; "
                "open it without a cap, or raise it with raise_cap(budget, reason=...) or "
                f"`{_command('raise', self._file.path, self._dataset)}`"
            )

    def _require(self, book: Book, event: Event, cost: Cost, terms: str) -> None:
        what = f"{self._file.path}, dataset {self._dataset!r}"
        if terms and book.terms and terms != book.terms:
            raise BudgetError(
                f"{what} was charged under the terms {book.terms!r}, not {terms!r}, and their costs do not add up; "
                "release under the same terms, or use another dataset of the ledger for these terms, whose promise "
                "does not include this one"
            )
        raising = partial(self._raising, book.cap)
        check_affordable(book.charged, event, cost, what=what, raising=raising)

    def _raising(self, cap: Budget, enough: Fraction) -> str:
        """How to raise a cap to an amount, and what that means."""
        options = [f"--{name} {number_text(value)}" for name, value in cap.covering(enough).to_dict().items()]
        words = " ".join([_command("raise", self._file.path, self._dataset), *options])
        return f"raise the cap, which weakens the promise to everyone in the data: `{words} --reason '...'`"

    def _book(self) -> Book:
        with self._file.reading() as connection:
            books = self._replayed(connection).books
        if self._dataset not in books:
            raise LedgerError(
                f"{self._file.path} has no dataset {self._dataset!r}, only {', '.join(map(repr, books))}; "
                "to add it, state a cap, cap=Budget(...), or use "
                f"`{_command('init', self._file.path, self._dataset)}`; data that is in the ledger already keeps the "
                "name it has there"
            )
        return books[self._dataset]

    @contextmanager
    def _extending(self) -> Iterator[tuple[Chain, Callable[..., None]]]:
        """The chain, and a function that adds an entry of this dataset to the chain and the file, or to neither."""
        with self._file.writing() as connection:
            chain, self._chain = self._replayed(connection), None

            def add(**fields: str) -> None:
                entry = chain.next_entry(dataset=self._dataset, time=_now(), **fields)
                try:
                    chain.extend([entry])
                except LedgerError as error:
                    raise LedgerError(
                        f"{self._file.path}: this entry could not be read again once written: {error}; nothing was "
                        "written or charged; split the charge into smaller ones"
                    ) from None
                append(connection, entry)

            yield chain, add
        self._chain = chain

    def _replayed(self, connection: sqlite3.Connection) -> Chain:
        """The chain up to the last entry; entries verified before must still be there, and are not verified again."""
        known, self._chain = self._chain, None
        self._chain = _replay(self._file, connection, known)
        return self._chain


@dataclass(frozen=True, slots=True)
class _ReleaseAccount:
    """A ledger seen by one release."""

    ledger: Ledger
    release: str
    terms: str = ""

    @property
    def budget(self) -> Budget:
        return self.ledger.budget

    @property
    def remaining(self) -> Fraction:
        return self.ledger.remaining

    def charge(self, event: Event, *, note: str = "") -> None:
        self.ledger.charge(event, note=note, release=self.release, terms=self.terms)

    def require(self, event: Event) -> None:
        self.ledger.require(event, terms=self.terms)


def _replay(file: LedgerFile, connection: sqlite3.Connection, known: Chain | None) -> Chain:
    """Extend a chain, or a new one, by the further entries of the file, each verified."""
    if known is None:
        file.check_pages(connection)
    chain = known or Chain()
    entries = file.entries(connection, after=max(0, chain.length - 1))
    try:
        if chain.length and entries.pop(0).hash != chain.head:
            raise LedgerError(f"entry {chain.length} was changed")
        chain.extend(entries)
    except LedgerError as error:
        raise file.damaged(str(error)) from None
    return chain


def _name(what: str, text: str, *, empty: bool = False) -> str:
    if isinstance(text, str) and (text or empty) and printable(text, NOTE_LENGTH) == text:
        return text
    raise LedgerError(f"{what}={text!r}: expected printable text of at most {NOTE_LENGTH} characters")


def _command(name: str, path: str | os.PathLike[str], dataset: str) -> str:
    """A command of `hush budget` on a dataset; the caller appends the cap."""
    named = [] if dataset == "default" else ["--dataset", dataset]
    return shlex.join(["hush", "budget", name, os.fspath(path), *named])


def _first_note() -> str:
    """The note of a first entry; random, so that no two ledgers share a head, whatever their charges."""
    return f"{NEW_DATASET} {secrets.token_hex(16)}"


def _now() -> str:
    """The time to the minute only: entries are public, and how long a release takes may depend on the data."""
    return datetime.now(UTC).isoformat(timespec="minutes").replace("+00:00", "Z")


def open_ledger(location: str | Path | Ledger, budget: Budget, *, dataset: str = "default") -> Ledger:
    """The ledger of a dataset; a file that does not exist yet is created with this budget as its cap.

    So a first release may spend its whole budget, and a second needs a cap that someone raised on purpose.
    """
    if isinstance(location, Ledger):
        return location
    return Ledger(location, dataset=dataset, cap=None if os.path.lexists(location) else budget)


def open_account(
    budget: Budget, ledger: Ledger | None, *, release: str, terms: str, within: Allowance | None = None
) -> Allowance:
    """The allowance of one release, whose charges also go to the ledger under the release's name and terms.

    With `within` they go to that allowance, which several parts of one release share, and from there to the ledger.
    """
    parent: Account | None = within
    if within is None and ledger is not None:
        parent = ledger.for_release(release, terms=terms)
    return Allowance(budget, parent)


def terms_of(neighbours: Neighbours, unit: Unit) -> str:
    """Whom a release protects, and under which neighbour relation; costs add up only under the same terms.

    The cap on rows per unit is not part of the terms: the unit is the same.
    """
    return f"{neighbours.value}: {'one row' if unit.column is None else f'the rows of one {unit.column!r}'}"
