"""Ledger: what was ever spent on a dataset, in a file that outlives the process and cannot quietly forget."""

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
from hush.privacy.ledger_chain import (
    CHARGE,
    FINGERPRINT,
    NOTE_LENGTH,
    Book,
    Chain,
    Entry,
    cap_fields,
    charge_fields,
    printable,
)
from hush.privacy.ledger_file import LedgerFile, append
from hush.privacy.privacy_filter import pure_left
from hush.privacy.sensitivity import Neighbours


class Ledger:
    """The record of every charge to one dataset, and its cap; several datasets may share a file and its chain.

    The first opening of a dataset states its cap; later ones need not. All totals are exact fractions, recomputed
    from the entries. Whatever is stored is public: events, times to the minute, notes and names, never a value from the
    data.

    Privacy: the sum of all charges, made by any number of processes in any order, stays within the cap, since a charge
    is on disk before `charge` returns and the data is read only then. A crash in between costs budget and gives
    nothing away.

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
            first = Chain().next_entry(dataset=dataset, time=_now(), note=_born(), **cap_fields(cap))
            LedgerFile.create(path, first)
        self._file = LedgerFile(path)
        self._join(cap)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, dataset: str = "default") -> Ledger:
        """The ledger of a dataset that exists already; changes nothing."""
        return cls(path, dataset=dataset)

    @classmethod
    def create(cls, path: str | os.PathLike[str], cap: Budget, *, dataset: str = "default") -> Ledger:
        """Set the cap of a dataset that is new to the file, which is made if there is none; replaces nothing.

        >>> import tempfile, pathlib
        >>> Ledger.create(pathlib.Path(tempfile.mkdtemp(), "budget.db"), Budget(epsilon=3.0, delta=1e-9)).budget
        Budget(epsilon=3.0, delta=1e-09)
        """
        cap_fields(cap)  # refuses what is no budget before the file is touched
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
        """What is left, in the unit of the cap: epsilon for a pure cap, rho for any other."""
        return self._book().remaining

    @property
    def limit(self) -> Fraction:
        """What may be spent in all, in the unit of the cap."""
        return self._book().limit

    @property
    def pure_remaining(self) -> Fraction | None:
        """The pure epsilon that is left if every charge was pure and the cap states epsilon; None elsewhere."""
        book = self._book()
        return pure_left(book.cap, book.spent)

    @property
    def total(self) -> Cost:
        """The exact sum of what was charged."""
        return self._book().spent

    @property
    def head(self) -> str:
        """A fingerprint of all entries so far, to be kept with a release and given back to `verify`."""
        with self._file.reading() as connection:
            return self._replayed(connection).head[:FINGERPRINT]

    def entries(self) -> list[Entry]:
        """Every entry of this dataset, in order: caps and charges."""
        with self._file.reading() as connection:
            self._replayed(connection)
            return [entry for entry in self._file.entries(connection) if entry.dataset == self._dataset]

    def events(self, *, until: str | None = None) -> list[Event]:
        """Every event charged to this dataset, in order; with `until`, a head, those up to it."""
        with self._file.reading() as connection:
            self._replayed(connection)
            every = self._file.entries(connection)
        last = len(every) if until is None else max((e.sequence for e in every if e.hash.startswith(until)), default=0)
        return [e.event for e in every[:last] if e.dataset == self._dataset and e.action == CHARGE]

    def to_dict(self) -> dict[str, Any]:
        """The cap, what is spent and left, and every entry as texts, numbers and lists, for JSON.

        Amounts are exact fractions as texts, in epsilon where the cap is pure and in rho otherwise. What is spent is
        the limit less what is left; where all charges were pure, `left_pure_epsilon` is left for more of them.
        """
        limit, left, pure = self.limit, self.remaining, self.pure_remaining
        return {
            "dataset": self.dataset,
            "cap": self.budget.to_dict(),
            "unit": "epsilon" if self.budget.pure else "rho",
            "limit": str(limit),
            "spent": str(limit - left),
            "left": str(left),
            "left_pure_epsilon": None if pure is None else str(pure),
            "head": self.head,
            "entries": [asdict(entry) for entry in self.entries()],
        }

    def charge(self, event: Event, *, note: str = "", release: str = "", terms: str = "") -> None:
        """Record an event on disk, or raise BudgetError and leave the file as it was.

        What is written is read first, by the rules by which every later opening reads it.

        `terms` says whom the charge protects and under which relation. The first charge that states terms sets those
        of the dataset, and a charge under others is refused: their costs do not add up.
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
        """This ledger as an account whose charges carry the name and the terms of a release."""
        return _ReleaseAccount(self, _name("release", release, empty=True), _name("terms", terms, empty=True))

    def raise_cap(self, budget: Budget, *, reason: str) -> None:
        """Replace the cap by a larger one of the same kind; an entry of its own, with the reason, that stays."""
        if not (isinstance(reason, str) and reason.strip()):
            raise LedgerError(
                "raising a cap needs a reason, which is recorded; say why, with --reason on the command line"
            )
        with self._extending() as (chain, add):
            book = chain.books[self._dataset]
            if budget.pure != book.cap.pure or budget.limit <= book.limit:
                raise LedgerError(
                    f"{self._file.path}, dataset {self._dataset!r}: the cap {book.cap} can only be raised, "
                    f"in its own kind; {budget} is no raise"
                )
            add(note=reason, **cap_fields(budget))

    def verify(self, expected_head: str | None = None) -> None:
        """Recompute every hash, cost and total from the file; raise LedgerError at the first that does not hold.

        A file put back to an older state is consistent in itself; it is found out by a head it no longer contains.
        """
        wanted = "" if expected_head is None else str(expected_head).strip().lower()
        if expected_head is not None and not re.fullmatch(rf"[0-9a-f]{{{FINGERPRINT},64}}", wanted):
            raise LedgerError(f"expected head {wanted[:80]!r}: expected the {FINGERPRINT} hex digits of a head")
        with self._file.reading() as connection:
            self._chain = None
            self._replayed(connection)
            hashes = [entry.hash for entry in self._file.entries(connection)]
        if not any(head.startswith(wanted) for head in hashes):
            raise LedgerError(
                f"{self._file.path} lacks the head {wanted}: "
                "it is an older copy or another ledger; entries made since are not in it"
            )

    def _join(self, cap: Budget | None) -> None:
        """Check the stated cap against the stored one, or record it for a dataset that is new to the file."""
        if cap is not None and self._dataset not in self._known():
            with self._extending() as (chain, add):
                if self._dataset not in chain.books:
                    add(note=_born(), **cap_fields(cap))
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
                "release under the same terms, or use another dataset of the ledger for these terms: its promise "
                "stands beside that of this one and does not include it"
            )
        raising = partial(self._raising, book.cap)
        check_affordable(book.cap, book.limit, book.spent, book.tally, event, cost, what=what, raising=raising)

    def _raising(self, cap: Budget, enough: Fraction) -> str:
        """How to raise a cap to an amount, and what that means."""
        stated = [f"--{name} {number_text(value)}" for name, value in cap.covering(enough).to_dict().items()]
        words = " ".join([_command("raise", self._file.path, self._dataset), *stated])
        return (
            "raise the cap, after which everyone in the data is promised less, over all releases together: "
            f"`{words} --reason '...'`"
        )

    def _known(self) -> tuple[str, ...]:
        with self._file.reading() as connection:
            return tuple(self._replayed(connection).books)

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
        """The chain, and a way to add an entry of this dataset to it and to the file, or to neither."""
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
        """The chain up to the file's last entry; what was verified before is not verified again, but must be there."""
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
    """Verify what the file holds beyond a chain known already; extends that chain."""
    if known is None:
        file.check_pages(connection)
    chain = known or Chain()
    entries = file.entries(connection, after=max(0, chain.length - 1))
    try:
        if chain.length and entries.pop(0).hash != chain.head:
            raise LedgerError(f"entry {chain.length} is not what it was before")
        chain.extend(entries)
    except LedgerError as error:
        raise file.damaged(str(error)) from None
    return chain


def _name(what: str, text: str, *, empty: bool = False) -> str:
    if isinstance(text, str) and (text or empty) and printable(text, NOTE_LENGTH) == text:
        return text
    raise LedgerError(f"{what}={text!r}: expected printable text of at most {NOTE_LENGTH} characters")


def _command(name: str, path: str | os.PathLike[str], dataset: str) -> str:
    """A command of `hush budget` on a dataset, to which its cap is added."""
    named = [] if dataset == "default" else ["--dataset", dataset]
    return shlex.join(["hush", "budget", name, os.fspath(path), *named])


def _born() -> str:
    """The note of a first entry; random, so that no two ledgers share a head, whatever they are charged with."""
    return f"new dataset {secrets.token_hex(16)}"


def _now() -> str:
    """The time to the minute: entries are public, and how long a charge or a release takes is nobody's business."""
    return datetime.now(UTC).isoformat(timespec="minutes").replace("+00:00", "Z")


def open_ledger(location: str | Path | Ledger, budget: Budget, *, dataset: str = "default") -> Ledger:
    """The ledger of a dataset; a file that does not exist yet is created with this budget as its cap.

    So the first release may spend what it states, and a second one needs a cap that someone raised on purpose.
    """
    if isinstance(location, Ledger):
        return location
    return Ledger(location, dataset=dataset, cap=None if os.path.lexists(location) else budget)


def open_account(budget: Budget, ledger: Ledger | None, *, release: str, terms: str) -> Allowance:
    """An allowance of one release, whose charges also go to the ledger under the release's name and terms."""
    parent: Account | None = None if ledger is None else ledger.for_release(release, terms=terms)
    return Allowance(budget, parent)


def terms_of(neighbours: Neighbours, unit: Unit) -> str:
    """Whom a release protects, and under which relation; costs add up only under the same terms.

    How many rows of a unit are used at most is no part of it: the unit is the same.
    """
    return f"{neighbours.value}: {'one row' if unit.column is None else f'the rows of one {unit.column!r}'}"
