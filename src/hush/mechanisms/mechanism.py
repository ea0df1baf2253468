"""Mechanism: the settings of one way to spend a budget, how it plans and how it runs.

It has three forms: measure round by round, do so within a limit on the size of the model, or select a strategy and
measure it at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.core.errors import ArchiveError, BudgetError, DataError, HushError, SizeError, WorkloadError, shown
from hush.core.memory import available_memory, readable
from hush.core.validation import check_choice, check_number, is_number
from hush.inference.factors import Factors
from hush.mechanisms.plan import Plan, choose_noise, per_row, rows_per_unit, spendable, split_sums
from hush.models.graphical.belief_propagation import in_tree_order, with_domain
from hush.models.graphical.graphical_model import GraphicalModel
from hush.models.graphical.junction_tree import JunctionTree
from hush.models.graphical.model_size import check_fits, fit_bytes, sizes_with
from hush.privacy.budget import Budget
from hush.privacy.noise import check_drawable
from hush.privacy.sensitivity import ONE_CELL, Neighbours, sensitivity
from hush.release.noisy_tables_record import NoisyTablesRecord
from hush.release.record import ONE_RECORD, Record
from hush.release.strategy_record import strategy_record
from hush.schema import Schema
from hush.strategies.strategy import NoiseKind, Strategy
from hush.workloads import Workload

if TYPE_CHECKING:
    from hush.mechanisms.session import Session
    from hush.release.release import Release

NOT_ITS_ROUNDS = "the release to resume holds rounds that {name} does not play; get the file again"
PRESET_SIZES_MB = {"fast": 4.0, "balanced": 16.0, "best": 80.0}  # of the model
CELL_MB = 8e-6
MEMORY_SHARE = 0.9  # of the available memory, for a release
MEASURED_BYTES = 64  # of a noisy number: the count and its counters, the noise, what is kept and what is written
SCORED_BYTES = 48  # of a cell that is scored: the count and its counters, the model's number twice, their difference


@dataclass(frozen=True)
class Mechanism(ABC):
    """Settings, as fields of plain values, and what they do with a workload and a budget.

    Facts, as class attributes: `workload_aware`: what it measures depends on the workload. `data_aware`: it chooses by
    looking at the data, within the budget. `budget_aware`: the number and size of its tables depend on the budget.
    `efficiency_aware`: it measures only what keeps its model small. `synthetic`: its release holds a distribution to
    draw rows from; releases of the others fit one when they are asked for rows. `refits`: every round measures the
    table it chose and fits the model again. `noise_words`: the noise it adds. `errors_known`: which answers are
    unbiased, with exact standard errors, and whether bounds are known for tables that were not measured.

    A subclass gives `name` and `run`; other packages offer theirs in the entry-point group `hush.mechanisms`.

    Reference: [AIM, Table 1] for the facts.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    workload_aware: ClassVar[bool] = False
    data_aware: ClassVar[bool] = False
    budget_aware: ClassVar[bool] = False
    efficiency_aware: ClassVar[bool] = False
    synthetic: ClassVar[bool] = True
    refits: ClassVar[bool] = False
    noise_words: ClassVar[str] = "Gaussian"
    errors_known: ClassVar[str] = "measured tables"
    reference: ClassVar[str] = ""
    adaptive: ClassVar[bool] = True  # what it measures depends on earlier noisy answers
    told_by_columns: ClassVar[bool] = True  # one-way tables with the whole budget show its best possible accuracy
    measures: ClassVar[bool] = True  # if not, it reads no row and costs nothing
    states: ClassVar[str] = "the release states bounds on the error of its tables"
    smaller: ClassVar[str] = "drop an attribute, use wider bins or lower the order"  # how to need less memory

    @abstractmethod
    def run(self, session: Session, plan: Plan) -> None:
        """Spend the session's account; the session keeps what was measured, and its last model is the release's."""

    def new_record(self, plan: Plan) -> Record:
        """The empty record that a run fills: here noisy tables, the rounds that chose them, and their model.

        A mechanism with a record of its own makes it here. `run` finds it as `session.record`, a resumed one filled.
        """
        return NoisyTablesRecord(plan.domain)

    @classmethod
    def facts(cls) -> dict[str, Any]:
        """Every fact by its name, for JSON."""
        awareness = ("workload_aware", "data_aware", "budget_aware", "efficiency_aware")
        facts = {name: getattr(cls, name) for name in ("name", "description", *awareness, "synthetic")}
        return facts | {"noise": cls.noise_words, "errors": cls.errors_known, "reference": cls.reference}

    def accounted(self, budget: Budget) -> Budget:
        """The budget as the noise is accounted: here for Gaussian noise, which rules out pure epsilon."""
        if budget.pure:
            raise BudgetError(
                f"{budget}: {self.name} adds Gaussian noise, which is never pure epsilon; give a delta: "
                f"Budget(epsilon={budget.epsilon!r}, delta=1e-9), or --delta 1e-9"
            )
        return budget

    def check(self, workload: Workload, budget: Budget) -> None:
        """Refuse settings that do not fit a workload and a budget, before anything is spent."""
        return

    def check_table(self, plan: Plan, schema: Schema) -> None:
        """Refuse settings that do not fit the rules of a schema, before anything is spent."""
        check_possible(schema)

    def memory(self, plan: Plan, schema: Schema) -> int:
        """The most bytes that a release takes at its peak, beyond reading rows; computed from public facts.

        Here: the columns and the asked tables, counted, measured, kept and written. A mechanism that fits a model adds
        the memory of the fit; see `fit_bytes`.
        """
        cliques = {*((name,) for name in self.columns(plan.workload)), *plan.workload.cliques}
        return MEASURED_BYTES * sum(map(plan.domain.size, cliques))

    def counted(self, plan: Plan, schema: Schema) -> Sequence[Clique]:
        """The tables that one step of a release may count at once; here the columns."""
        return [(name,) for name in self.columns(plan.workload)]

    def check_memory(self, plan: Plan, schema: Schema) -> float:
        """Refuse, before anything is charged, a release that does not fit into memory; returns the bytes left."""
        needed, free = self.memory(plan, schema), MEMORY_SHARE * available_memory()
        if needed > free:
            raise SizeError(
                f"releasing with {self.name!r} needs about {readable(needed)}, more than the {readable(free)} "
                f"available; {self.smaller}"
            )
        return max(free - needed, 0.0)

    def check_rounds(self, release: Release) -> None:
        """Refuse to resume rounds that no run plays; here, each round must have measured its table."""
        played = Counter(release.domain.clique(played.clique) for played in release.rounds)
        if played - Counter(release.domain.clique(table.clique) for table in release.noisy_tables):
            raise DataError(NOT_ITS_ROUNDS.format(name=self.name))

    def columns(self, workload: Workload) -> list[str]:
        """The columns that the release must cover: all of the domain."""
        return list(workload.domain)

    def claim(self, plan: Plan) -> str | None:
        """What the plan claims about its error, in words; None to let its strategy say so."""
        return None

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        """What a person should know before spending, as names and texts."""
        return []

    def work(self, workload: Workload) -> str:
        """Memory and time that releasing will take, roughly, in words."""
        return "not known beforehand"

    def plan(
        self,
        workload: Workload,
        budget: Budget,
        *,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        max_rows_per_unit: int = 1,
    ) -> Plan:
        """The plan of these settings; reads no data and spends nothing."""
        rows = rows_per_unit(max_rows_per_unit)
        budget = self.accounted(budget)
        if self.measures:
            check_drawable(budget, sensitivity(ONE_CELL, max_rows=rows, neighbours=neighbours))
        self.check(workload, budget)
        kind = NoiseKind.LAPLACE if budget.pure else NoiseKind.GAUSSIAN
        shared_out = spendable(budget, adaptive=self.adaptive)
        counts, sums = split_sums(workload, shared_out, kind, neighbours, rows, adaptive=self.adaptive)
        plan = Plan(
            settings=self,
            strategy=self.strategy_for(workload, counts, neighbours, rows),
            sums=sums,
            workload=workload,
            budget=budget,
            neighbours=neighbours,
            max_rows_per_unit=rows,
            loss=self.loss_name,
        )
        return plan.calibrated()

    def strategy_for(
        self, workload: Workload, budget: Budget, neighbours: Neighbours, max_rows_per_unit: int
    ) -> Strategy | None:
        """What will be measured; None if that is known only during the release."""
        return None

    @property
    def loss_name(self) -> str:
        """The name of the loss that is minimised."""
        loss = getattr(self, "loss", "rmse")
        return loss if isinstance(loss, str) else type(loss).__name__

    def pack_settings(self) -> dict[str, Any]:
        """The settings as JSON values, a loss by its name; a field with the metadata `stored=False` is left out."""
        stored = (field.name for field in fields(self) if field.metadata.get("stored", True))
        return {name: self.loss_name if name == "loss" else _plain(name, getattr(self, name)) for name in stored}

    @classmethod
    def from_settings(cls, entry: Any) -> Self:
        """The mechanism with settings from `pack_settings`."""
        stored = {field.name for field in fields(cls) if field.metadata.get("stored", True)}
        if not isinstance(entry, dict) or set(entry) != stored:
            raise ArchiveError(f"the file's settings of {cls.name} are not those of this hush; make it anew")
        try:
            return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()})
        except (HushError, TypeError, ValueError):
            raise ArchiveError(f"the file's settings of {cls.name} cannot be read; make it anew") from None


def _plain(name: str, value: Any) -> Any:
    """A setting as a JSON value."""
    if value is None or isinstance(value, str | bool | int) or is_number(value):
        return value
    if isinstance(value, tuple | list):
        return [_plain(name, item) for item in value]
    raise WorkloadError(f"{name}={shown(value)}: expected numbers, texts or lists of them, as files can hold")


@dataclass(frozen=True)
class StrategyMechanism(Mechanism):
    """A mechanism that selects a strategy of least predicted error; `run` measures it with one charge."""

    adaptive: ClassVar[bool] = False
    workload_aware: ClassVar[bool] = True
    synthetic: ClassVar[bool] = False
    noise_words: ClassVar[str] = "Gaussian or Laplace"
    errors_known: ClassVar[str] = "all, known beforehand"

    @abstractmethod
    def select(self, workload: Workload, noise: NoiseKind, cost: Fraction, neighbours: Neighbours) -> Strategy:
        """The strategy for a workload; the cost, rho or epsilon, is for privacy units of one row."""

    def accounted(self, budget: Budget) -> Budget:
        return choose_noise(getattr(self, "noise", NoiseKind.GAUSSIAN.value), budget)[1]

    def check_table(self, plan: Plan, schema: Schema) -> None:
        """Accept any rules: they are for models, and a strategy needs none."""

    def memory(self, plan: Plan, schema: Schema) -> int:
        """The memory of the strategy's answers, which are all charged together."""
        return 0 if plan.strategy is None else plan.strategy.memory

    def counted(self, plan: Plan, schema: Schema) -> Sequence[Clique]:
        """None: the gate refuses what cannot be counted before the only charge."""
        return ()

    def strategy_for(
        self, workload: Workload, budget: Budget, neighbours: Neighbours, max_rows_per_unit: int
    ) -> Strategy:
        kind = choose_noise(getattr(self, "noise", NoiseKind.GAUSSIAN.value), budget)[0]
        return self.select(workload, kind, per_row(kind, budget, max_rows_per_unit), neighbours)

    def run(self, session: Session, plan: Plan) -> None:
        """Measure the strategy with one charge."""
        if plan.strategy is None:
            return
        if session.record.charged_at_once or session.record.tables:
            raise WorkloadError(ONE_RECORD)
        record, sums = strategy_record(plan.strategy), session.record.sums
        record.sums, session.record = sums, record
        counts, summed = plan.strategy.requests(), [] if sums is None else sums.strategy.requests()
        tables = plan.strategy.tables + (0 if plan.sums is None else len(plan.sums.terms))
        answers = session.gate.measure(
            [*summed, *counts], note=f"{self.name}: {tables} noisy table{'s' * (tables != 1)}"
        )
        for index in range(len(summed)):
            sums.tables[index] = next(answers).raw  # type: ignore[union-attr]
        for index, answer in enumerate(answers):
            record.answers[index] = answer.raw
            if index % max(1, len(counts) // 100) == 0:
                session.tell(None, index / len(counts))
        session.tell(None, 1.0)


@dataclass(frozen=True, kw_only=True)
class CapacityMechanism(Mechanism):
    """A mechanism that leaves out tables which would take its model beyond `max_size_mb`."""

    data_aware: ClassVar[bool] = True
    efficiency_aware: ClassVar[bool] = True
    errors_known: ClassVar[str] = "measured; others bounded"
    smaller: ClassVar[str] = "lower max_size_mb, drop an attribute, use wider bins or ask for smaller tables"

    preset: str = "balanced"
    max_size_mb: float | None = None

    def __post_init__(self) -> None:
        check_choice(WorkloadError, "preset", self.preset, PRESET_SIZES_MB)
        if self.max_size_mb is not None:
            check_number(SizeError, "max_size_mb", self.max_size_mb, above=0, hint=", in megabytes")

    @property
    def limit_mb(self) -> float:
        """The largest size of the model."""
        return PRESET_SIZES_MB[self.preset] if self.max_size_mb is None else float(self.max_size_mb)

    def check(self, workload: Workload, budget: Budget) -> None:
        """Refuse a limit too small for the model of the columns."""
        self._check_start(workload, ())

    def check_table(self, plan: Plan, schema: Schema) -> None:
        """Refuse a limit too small for the model of the columns and the schema's rules."""
        self._check_start(plan.workload, [rule.clique for rule in schema.constraints])
        super().check_table(plan, schema)

    def _check_start(self, workload: Workload, rules: Sequence[Clique]) -> None:
        columns = [(name,) for name in self.columns(workload)]
        try:
            check_fits(workload.domain, [*columns, *rules], self.limit_mb)
        except HushError as error:
            raise type(error)(f"the model that the run starts with: {error}") from None

    def within(self, domain: Domain, cliques: Iterable[Clique]) -> list[Clique]:
        """The tables that are, by themselves, no larger than the model may be: the possible candidates."""
        return [clique for clique in cliques if CELL_MB * domain.size(clique) <= self.limit_mb]

    def model_bytes(self, domain: Domain, scored: Iterable[Clique], measured: float) -> int:
        """The memory of a run that scores some tables at once and fits a model of its largest size.

        `measured` counts noisy numbers in all tables but the columns, which may be measured twice.
        """
        columns = sum(domain.shape)
        cells = min(self.limit_mb / CELL_MB, float(domain.size()))
        numbers = 2 * columns + measured
        return fit_bytes(cells, numbers) + int(MEASURED_BYTES * numbers + SCORED_BYTES * sum(map(domain.size, scored)))

    def sizes_mb(
        self,
        domain: Domain,
        known: Sequence[Clique],
        candidates: Sequence[Clique],
        tree: JunctionTree | None = None,
        *,
        limit_mb: float | None = None,
    ) -> Floats:
        """The size of the model of `known` tables with each candidate added; `tree` is the model's tree, if known.

        Sizes within the limit may be a little too large.
        """
        start = None if tree is None else with_domain(tree, domain)
        enough = (self.limit_mb if limit_mb is None else limit_mb) / CELL_MB
        return CELL_MB * np.array(sizes_with(domain, known, candidates, tree=start, enough=enough), dtype=np.float64)


def check_possible(schema: Schema) -> None:
    """Refuse rules that no row can satisfy together; a schema checks pairs of rules only."""
    rules = schema.constraints
    if rules:
        tree = in_tree_order(JunctionTree.build(schema.domain, [rule.clique for rule in rules]))
        factors = Factors(tree.domain, [])
        GraphicalModel(schema.domain, tree, factors, np.zeros(factors.size), 1.0, rules).belief  # noqa: B018


def refuse_rules(schema: Schema) -> None:
    """Refuse rules, which relaxed rows cannot keep."""
    if schema.constraints:
        raise WorkloadError(
            "relaxed rows cannot promise that combinations never occur, and the schema has rules; use 'aim' with its "
            "graphical model, or leave the rules out"
        )
