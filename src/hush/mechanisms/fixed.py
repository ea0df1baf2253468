"""FixedPlan: a plan whose requests are known beforehand, whatever the noisy answers turn out to be."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from hush.errors import InterruptedRelease
from hush.mechanisms.plan import Plan, Progress, Table
from hush.privacy.entropy import Entropy
from hush.privacy.gate import Gate, Noisy, Request
from hush.privacy.ledger import Ledger
from hush.release.release import Release
from hush.release.statement import Statement
from hush.schema import Schema


class Collector(Protocol):
    """Where noisy answers are kept as they are taken; made before the charge, so that it is known to fit."""

    def add(self, answer: Noisy) -> None: ...
    def release(self, schema: Schema, statement: Statement, *, complete: bool) -> Release: ...


class FixedPlan(Plan):
    """A plan that asks everything at once, with one charge."""

    @abstractmethod
    def requests(self) -> list[Request]:
        """What will be asked of the gate."""

    @abstractmethod
    def _collector(self) -> Collector:
        """Room for the noisy answers, which come in the order of the requests."""

    def release(
        self,
        table: Table,
        *,
        ledger: str | Path | Ledger | None = None,
        dataset: str = "default",
        name: str = "",
        progress: Progress | None = None,
        entropy: Entropy | None = None,
    ) -> Release:
        """Spend the budget: check, charge, count, add noise; see `Plan.release`."""
        self._check(table)
        requests, collector = self.requests(), self._collector()
        account, book = self._spending(table, ledger, dataset, name)
        gate = Gate(table, account, neighbours=self.neighbours, entropy=entropy)
        answers = gate.measure(requests, note=f"{self.mechanism}: {len(requests)} noisy tables")
        statement = self._statement(table, account.events[-1], gate, book)
        taken = 0
        try:
            for answer in _watched(answers, requests, progress):
                collector.add(answer)
                taken += 1
        except KeyboardInterrupt:
            partial = collector.release(table.schema, statement, complete=False)
            raise InterruptedRelease(
                f"interrupted after {taken} of {len(requests)} noisy tables; those are paid for and kept",
                release=partial,
            ) from None
        return collector.release(table.schema, statement, complete=True)


def _watched(answers: Iterator[Noisy], requests: list[Request], progress: Progress | None) -> Iterator[Noisy]:
    """The answers, with the share of them told to `progress` a hundred times at most."""
    step = max(1, len(requests) // 100)
    for index, answer in enumerate(answers):
        if progress is not None and index % step == 0:
            progress(index / len(requests))
        yield answer
    if progress is not None:
        progress(1.0)
