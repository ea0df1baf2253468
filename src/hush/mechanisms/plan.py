"""The least RMSE that any strategy could have, shown beside every plan.

Plan: what will be measured and how accurate it will be, before any data is read.

FixedPlan: a plan whose requests are known beforehand, whatever the noisy answers turn out to be.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from hush.archive import ArchiveReader, write_archive
from hush.domain import Domain
from hush.errors import ArchiveError, BudgetError, DataError, InterruptedRelease, SizeError, WorkloadError
from hush.optimizers.svd_bound import lower_bound
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.entropy import Entropy
from hush.privacy.events import Event
from hush.privacy.gate import Gate, Request
from hush.privacy.ledger import Ledger, open_account, open_ledger, terms_of
from hush.privacy.measurement import Measurement
from hush.privacy.sensitivity import Neighbours
from hush.release.release import Release
from hush.release.statement import Statement
from hush.schema import Schema
from hush.strategies.noise_kind import NoiseKind, unit_variance
from hush.strategies.term_grams import TermGrams
from hush.workloads import ProductTerm, Workload
from hush.workloads.workload_files import pack_domain, pack_workload, unpack_domain, unpack_workload

if TYPE_CHECKING:
    from hush.tables.table import Table

LARGEST_EXACT = 1024  # rows of the eigenvalue problem that a plan may take, a fraction of a second
_BELOW = ("parts", "dominated")


def rmse_bound(
    workload: Workload, noise: NoiseKind, cost: Fraction, neighbours: Neighbours
) -> tuple[float, str] | None:
    """An RMSE that no unbiased linear mechanism of this noise and cost can beat, and which bound it is.

    None where neighbours exchange rows, for which no bound is known, for too many terms, and for noise never seen.

    Reference: [Li 2013, Thm 4.1], per unit of the least variance that the exact noise can have.
    """
    least = unit_variance(noise, cost)
    if neighbours is not Neighbours.ADD_REMOVE or least == 0:
        return None
    try:
        total, word = lower_bound(TermGrams.of(workload), largest=LARGEST_EXACT)
    except SizeError:
        return None
    weights = sum(term.weight * term.queries for term in workload)
    name = "estimated from below" if word in _BELOW else "exact"
    return math.sqrt(total * least / weights), f"singular value bound, {name}"


Progress = Callable[[float], None]
PLAN_KIND = "plan"
PLAN_VERSION = 1
ROUNDING = Fraction(1, 10**9)  # another version may turn the same epsilon into a rho that differs in the last digits


@dataclass(frozen=True, slots=True)
class Ranked:
    """One mechanism in a comparison: its predicted RMSE, or why it was left out."""

    name: str
    rmse: float | None
    reason: str = ""


class Plan(ABC):
    """A workload, a budget, and the noise that fits both; holds no data and may be published.

    `max_rows_per_unit` is the number of rows that one privacy unit may have; the table must state the same.
    """

    mechanism: str

    def __init__(
        self,
        *,
        strategy: Any,
        workload: Workload,
        budget: Budget,
        neighbours: Neighbours,
        max_rows_per_unit: int,
        loss: str,
    ) -> None:
        self.strategy = strategy
        self.workload = workload
        self.budget = budget
        self.neighbours = neighbours
        self.max_rows_per_unit = rows_per_unit(max_rows_per_unit)
        self.loss = loss
        self.ranking: tuple[Ranked, ...] = ()  # the mechanisms that were compared, best first

    @property
    def epsilon(self) -> Fraction | None:
        """The pure epsilon that releasing costs at most; None where the noise has none."""
        return None

    @property
    def lower_bound(self) -> tuple[float, str] | None:
        """An RMSE that no unbiased linear mechanism of this cost and noise can beat, and which bound it is."""
        return None

    @property
    @abstractmethod
    def rmse(self) -> float | None:
        """Root mean squared error over all queries of the workload."""

    @property
    @abstractmethod
    def max_variance(self) -> float | None:
        """The largest variance of a query of the workload."""

    @abstractmethod
    def variance(self, clique: Iterable[str]) -> float | None:
        """The variance of each cell of a marginal."""

    @property
    @abstractmethod
    def term_variances(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The mean variance over the queries of each term of the workload."""

    @abstractmethod
    def query_variances(self, which: int = 0) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The variance of every query of a term of the workload, one axis per attribute of the term."""

    @abstractmethod
    def with_budget(self, budget: Budget) -> Self:
        """The same strategy with the noise of another budget; nothing is optimised again."""

    @property
    @abstractmethod
    def rho(self) -> Fraction:
        """The zCDP that releasing costs at most."""

    @property
    @abstractmethod
    def optimality(self) -> str:
        """What is claimed of the error, in words."""

    @property
    @abstractmethod
    def work(self) -> str:
        """Memory and time that releasing will take, roughly, in words."""

    @abstractmethod
    def _pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """What the mechanism stores beside the workload: a manifest entry and arrays."""

    @classmethod
    @abstractmethod
    def _unpack(cls, domain: Domain, entry: Any, archive: ArchiveReader) -> Any:
        """The strategy that `_pack` stored."""

    @abstractmethod
    def contradiction(self) -> str | None:
        """What a plan from a file shows that it would not do, in words; None where all is well."""

    @property
    def domain(self) -> Domain:
        """The attributes and their sizes."""
        return self.workload.domain

    @property
    def affordable(self) -> bool:
        """Whether the plan's own budget covers the cost."""
        return self.within(self.budget)

    def within(self, budget: Budget) -> bool:
        """Whether releasing keeps the promise of a budget, in whichever notion it is stated.

        Pure epsilon-DP is also (epsilon, delta)-DP, for any delta; no amount of zCDP is pure.
        """
        most = None if budget.epsilon is None else Fraction(budget.epsilon) * (1 + ROUNDING)
        if self.epsilon is not None and most is not None and self.epsilon <= most:
            return True
        return not budget.pure and self.rho <= Fraction(budget.rho) * (1 + ROUNDING)

    def check_useful(self, rows: int) -> None:
        """Raise BudgetError where even the best tables would be off by more than they hold, for so many rows.

        `rows` is the number of rows that is expected, a public guess. The rule: the mean absolute error of the most
        accurate table asked for is above 100 % of its average cell; where errors are not known beforehand, that of
        one-way tables if they had all of the budget. The message says how large a budget would do.
        """
        from hush.mechanisms.usefulness import check_useful

        check_useful(self, rows)

    def save(self, path: str | Path) -> None:
        """Write the plan to a file that `hush.load` reads; it holds no data."""
        entry, arrays = self._pack()
        workload, workload_arrays = pack_workload(self.workload)
        manifest = {
            "mechanism": self.mechanism,
            "loss": self.loss,
            "budget": self.budget.to_dict(),
            "neighbours": self.neighbours.name,
            "max_rows_per_unit": self.max_rows_per_unit,
            "domain": pack_domain(self.domain),
            "workload": workload,
            "strategy": entry,
        }
        write_archive(path, kind=PLAN_KIND, version=PLAN_VERSION, manifest=manifest, arrays=arrays | workload_arrays)

    @classmethod
    def unpack(cls, archive: ArchiveReader) -> Self:
        """The plan that `save` wrote."""
        domain = unpack_domain(archive.manifest.get("domain"))
        try:
            return cls(
                strategy=cls._unpack(domain, archive.manifest.get("strategy"), archive),
                workload=unpack_workload(domain, archive.manifest.get("workload"), archive),
                budget=Budget.from_dict(archive.manifest.get("budget")),
                neighbours=Neighbours[archive.field("neighbours", str)],
                max_rows_per_unit=archive.field("max_rows_per_unit", int),
                loss=archive.field("loss", str),
            )
        except (BudgetError, WorkloadError, KeyError):
            raise ArchiveError("the file's plan contradicts itself; make it anew") from None

    def _listed(self, which: int) -> ProductTerm:
        """A term of the workload by its place, whose queries are known one by one."""
        if isinstance(which, bool) or not isinstance(which, int) or not 0 <= which < len(self.workload):
            raise WorkloadError(f"term {which!r}: expected an integer from 0 to {len(self.workload) - 1}")
        term = self.workload.products[which]
        if not term.listed:
            raise WorkloadError(f"the queries of term {which} are known by their Gram matrix alone; use term_variances")
        return term

    def to_dict(self) -> dict[str, Any]:
        """What the plan asks, its errors and its cost as texts, numbers and lists, for JSON; see `save` for a file."""
        from hush.mechanisms.plan_table import plan_dict

        return plan_dict(self)

    def __str__(self) -> str:
        from hush.mechanisms.plan_table import plan_text

        return plan_text(self)

    def __repr__(self) -> str:
        return f"Plan({self.mechanism}, {len(self.workload)} tables, {self.budget})"

    @abstractmethod
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
        """Spend the budget: check, charge, count, add noise.

        `ledger` is a file that records the charge for good; one that does not exist is created with this plan's
        budget as its cap. `name` is what the ledger calls this release. `entropy` is for tests.

        Privacy: the plan's budget, under its neighbours, for units of at most `max_rows_per_unit` rows.
        """

    def _spending(
        self, table: Table, ledger: str | Path | Ledger | None, dataset: str, name: str
    ) -> tuple[Allowance, Ledger | None]:
        """The account of a release, and the ledger that it is charged to, if any."""
        book = None if ledger is None else open_ledger(ledger, self.budget, dataset=dataset)
        return open_account(self.budget, book, release=name, terms=terms_of(self.neighbours, table.unit)), book

    def _statement(self, table: Table, event: Event, gate: Gate, book: Ledger | None) -> Statement:
        """What a release of this plan promises."""
        return Statement(
            budget=self.budget,
            neighbours=self.neighbours,
            unit=table.unit,
            event=event,
            private=gate.private,
            ledger_head=None if book is None else book.head,
        )

    def _check(self, table: Table) -> None:
        if not all(hasattr(table, name) for name in ("schema", "domain", "unit", "counts")):
            raise DataError(
                f"table: expected what hush.read gives, got {type(table).__name__}; write hush.read(data, schema)"
            )
        if table.domain != self.domain:
            raise DataError(_difference(self.domain, table.domain))
        if table.unit.max_rows != self.max_rows_per_unit:
            raise DataError(
                f"the plan is for units of at most {self.max_rows_per_unit} rows, the table has {table.unit.max_rows}; "
                f"plan again with max_rows_per_unit={table.unit.max_rows}"
            )


def rows_per_unit(rows: int) -> int:
    """The number of rows that a privacy unit may have, checked."""
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise BudgetError(f"max_rows_per_unit={rows!r}: expected an integer >= 1")
    return rows


def _difference(planned: Domain, found: Domain) -> str:
    """What a plan's domain has and a table's has not, or the other way round."""
    advice = "use the schema that the plan was made with, or plan again"
    for name in planned:
        if name not in found:
            return f"the plan has the attribute {name!r}, the table's schema has not; {advice}"
        if planned[name] != found[name]:
            return f"attribute {name!r} has {planned[name]} levels in the plan, {found[name]} in the table; {advice}"
    for name in found:
        if name not in planned:
            return f"the table's schema has the attribute {name!r}, the plan has not; {advice}"
    return f"the plan and the table list their attributes in different orders; {advice}"


class Collector(Protocol):
    """Where noisy answers are kept as they are taken; made before the charge, so that it is known to fit."""

    def add(self, answer: Measurement) -> None: ...
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
            statement = replace(statement, private=gate.private)
            partial = collector.release(table.schema, statement, complete=False)
            raise InterruptedRelease(
                f"interrupted after {taken} of {len(requests)} noisy tables; those are paid for and kept",
                release=partial,
            ) from None
        return collector.release(table.schema, replace(statement, private=gate.private), complete=True)


def _watched(
    answers: Iterator[Measurement], requests: list[Request], progress: Progress | None
) -> Iterator[Measurement]:
    """The answers, with the share of them told to `progress` a hundred times at most."""
    step = max(1, len(requests) // 100)
    for index, answer in enumerate(answers):
        if progress is not None and index % step == 0:
            progress(index / len(requests))
        yield answer
    if progress is not None:
        progress(1.0)
