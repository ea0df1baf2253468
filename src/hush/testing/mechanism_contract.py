"""check_mechanism: the contract of every mechanism, whoever wrote it.

A mechanism spends its budget and no more, charged before anything is read. Nothing of the data leaves but through the
gate. Neighbouring tables lead to the same charges, with units of one row and of several, in memory and from files.
Refusals cost nothing, interrupts keep what was paid for, files load equal, and releases give answers, SQL and rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from hush.core.domain import Domain
from hush.core.errors import DataError, InterruptedRelease, QueryError
from hush.loading import load
from hush.mechanisms.mechanism import Mechanism
from hush.mechanisms.plan import Plan
from hush.privacy.budget import Budget, Cost
from hush.privacy.events import ComposedEvent, Event, GaussianEvent, LaplaceEvent, NoisyChoiceEvent, SelectionEvent
from hush.privacy.ledger import Ledger
from hush.privacy.sensitivity import Neighbours
from hush.release.release import Release
from hush.release.statement import noise_differences
from hush.schema import ROW, Schema, Unit
from hush.tables.read import read
from hush.testing.replay import check_replay
from hush.testing.tiny import StoppingTable, TinyTable, neighbours_of
from hush.workloads import Workload

TINY_DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
TINY_ROWS = ((0, 0, 0), (1, 2, 1), (1, 2, 0), (0, 1, 1), (1, 0, 0), (1, 2, 1))
TINY_UNIT = Unit(column="id", max_rows=3)
MOST_STOPS = 40  # reads at which a run is interrupted, one after another


class MechanismError(AssertionError):
    """A mechanism breaks its contract; the message says how."""


def check_mechanism(
    mechanism: Mechanism,
    *,
    budget: Budget | None = None,
    domain: Domain = TINY_DOMAIN,
    rows: Sequence[Sequence[int]] = TINY_ROWS,
    workload: Workload | None = None,
) -> None:
    """Raise MechanismError, or ReplayError for a leak, if a mechanism breaks its contract.

    `rows` are codes of a tiny invented table over `domain`. Every check releases the workload again, by default all
    tables over at most two columns, with a budget small enough for noise to matter.

    >>> import hush
    >>> check_mechanism(hush.mechanisms.Independent())
    """
    contract = _Contract(
        mechanism, TinyTable(domain, rows), workload or Workload.upto(domain, 2), budget or Budget(rho=0.4)
    )
    with tempfile.TemporaryDirectory() as folder:
        for number, check in enumerate(
            (
                contract.charges,
                contract.units,
                contract.replay,
                contract.neighbours,
                contract.several_rows,
                contract.read_files,
                contract.refusals,
                contract.interrupts,
                contract.interrupted_replay,
                contract.files,
                contract.answers,
            )
        ):
            subfolder = Path(folder, str(number))
            subfolder.mkdir()
            check(subfolder)


class _Contract:
    """One mechanism, and the table, workload and budget that it is checked with."""

    def __init__(self, mechanism: Mechanism, table: Any, workload: Workload, budget: Budget) -> None:
        self.mechanism = mechanism
        self.table = table
        self.workload = workload
        self.budget = budget
        self.plans: dict[tuple[tuple[str, Any], ...], Plan] = {}
        self.pair = max(workload.cliques, key=len)
        self.sql = f'SELECT COUNT(*) FROM t WHERE "{self.pair[0]}" = 0'

    def plan(self, **options: Any) -> Plan:
        """A plan, made once for each set of options, so that anything a run left in its plan shows in the next run."""
        key = tuple(sorted(options.items(), key=str))
        if key not in self.plans:
            self.plans[key] = self.mechanism.plan(self.workload, self.budget, **options)
        return self.plans[key]

    def charges(self, folder: Path) -> None:
        """The cost of all events equals what was charged, stated and recorded, and is within the budget."""
        for relation in Neighbours:
            plan = self.plan(neighbours=relation)
            _require(plan.within(self.budget), "its plan says that it costs more than the budget")
            file = folder / f"{relation.name}.db"
            release = plan.release(self.table, ledger=file)
            done = spent(release.statement.event)
            _require(affordable(done, plan), "a release spends more than its plan says")
            _require(done == Ledger.open(file).total, "a release states another cost than the ledger was charged")
            _require(release.complete, "a release that was not interrupted says that it is not complete")
            _check_paid(release)

    def units(self, folder: Path) -> None:
        """Units of several rows are charged for."""
        count = len(self.table.rows)
        units = [0] * (count // 2) + list(range(1, count - count // 2 + 1))
        table: Any = TinyTable(self.table.domain, self.table.rows, unit=TINY_UNIT, units=units)
        plan = self.plan(max_rows_per_unit=TINY_UNIT.max_rows)
        release = plan.release(table)
        _require(affordable(spent(release.statement.event), plan), "units of several rows are not paid for")
        _check_paid(release)
        _require(plan.within(self.budget), "a plan for units of several rows costs more than the budget")

    def replay(self, folder: Path) -> None:
        """Files, tables, answers and rounds depend on the data only through the gate."""

        def run(table: Any) -> object:
            release = self.plan().release(table)
            release.save(folder / "replay.hush", overwrite=True)
            return {
                "file": folder / "replay.hush",
                "rounds": release.rounds,
                "table": str(release.marginal(*self.pair)),
                "bounds": str(release.error_bounds()) if release.bounded else "",
                "sql": str(release.sql(self.sql)),
                "repr": repr(release),
            }

        rows = self.table.rows
        self._replayed(run, self.table, [TinyTable(self.table.domain, other) for other in (rows[1:], [*rows, rows[0]])])

    def neighbours(self, folder: Path) -> None:
        """Neighbouring tables lead to the same requests and charges, with inputs within the declared sensitivity."""

        def run(plan: Plan, table: Any) -> object:
            release = plan.release(table)
            release.save(folder / "neighbour.hush", overwrite=True)
            return folder / "neighbour.hush", [measurement.values for measurement in release.measurements()]

        for relation, step in ((Neighbours.ADD_REMOVE, 2), (Neighbours.REPLACE, 6)):
            plan = self.plan(neighbours=relation)
            for count in (3, 0):
                table = TinyTable(self.table.domain, self.table.rows[:count])
                others = list(neighbours_of(table, relation))[::step]
                if others:
                    self._replayed(partial(run, plan), table, others)

    def several_rows(self, folder: Path) -> None:
        """No answer moves further than was charged when a whole unit of several rows is added, removed or replaced."""
        for relation in Neighbours:
            table, *others = self._tables(TINY_UNIT, relation)
            plan = self.plan(neighbours=relation, max_rows_per_unit=TINY_UNIT.max_rows)
            self._replayed(partial(self._published, folder, plan), table, others)

    def read_files(self, folder: Path) -> None:
        """The same through `hush.read` of real files, for units of one row and of several."""
        for unit in (ROW, TINY_UNIT):
            paths = []
            for number, table in enumerate(self._tables(unit)):
                lines = [["id", *table.domain]]
                lines += [[f"u{owner}", *map(str, row)] for owner, row in zip(table.units, table.rows, strict=True)]
                paths.append(folder / f"{number}.csv")
                paths[-1].write_text("".join(",".join(line) + "\n" for line in lines))
            schema, plan = self.table.schema.with_unit(unit), self.plan(max_rows_per_unit=unit.max_rows)

            def run(path: Path, schema: Schema = schema, plan: Plan = plan) -> object:
                return self._published(folder, plan, read(path, schema))

            self._replayed(run, paths[0], paths[1:])

    def _tables(self, unit: Unit, relation: Neighbours = Neighbours.ADD_REMOVE) -> list[TinyTable]:
        """A table, then neighbours that differ in a unit of as many rows as may count, or of more.

        The first table has a unit of equal rows, which is removed, joined by another unit, or replaced.
        """
        first, *_, last = self.table.rows
        most, beyond = unit.max_rows, unit.max_rows + (2 if unit.column else 0)
        mixed = [first, last] * most if unit.column else [first]
        units = [[first] * most, [], [first] * most + [last] * beyond, [first] * most + mixed]
        if relation is Neighbours.REPLACE:
            units = [[first] * most, [last] * beyond, [last], [first, *self.table.rows[:most]]]
        few, second = self.table.rows[:3], relation is Neighbours.ADD_REMOVE
        tables = []
        for rows in units:
            ids = [*range(3), *(4 if second and number >= most else 3 for number in range(len(rows)))]
            tables.append(TinyTable(self.table.domain, [*few, *rows], unit=unit, units=ids))
        return tables

    def _published(self, folder: Path, plan: Plan, table: Any) -> object:
        """What a release of a table publishes."""
        release = plan.release(table)
        release.save(folder / "published.hush", overwrite=True)
        return folder / "published.hush", str(release.marginal(*self.pair)), str(release.sql(self.sql))

    def refusals(self, folder: Path) -> None:
        """A table that the plan is not for is refused before it is read or charged."""
        domain = self.table.domain
        other: Any = TinyTable(Domain({name: domain[name] + 1 for name in domain}), self.table.rows)
        try:
            self.plan().release(other, ledger=folder / "budget.db")
        except DataError:
            _require(other.reads == 0, "a table of another domain was read before it was refused")
            _require(not (folder / "budget.db").exists(), "a table of another domain was charged")
        else:
            raise MechanismError("a table of another domain is not refused")

    def interrupts(self, folder: Path) -> None:
        """An interrupted run keeps what was charged, wherever it stops; adaptive runs resume within the same budget."""
        for reads in range(MOST_STOPS):
            plan, file = self.plan(), folder / f"{reads}.db"
            table: Any = StoppingTable(self.table.domain, self.table.rows, reads_left=reads)
            try:
                plan.release(table, ledger=file)
                break
            except InterruptedRelease as stopped:
                partial = stopped.release
            _require(
                isinstance(partial, Release) and not partial.complete, "an interrupted release says it is complete"
            )
            done = spent(partial.statement.event)  # type: ignore[attr-defined]
            _require(done == Ledger.open(file).total, "an interrupted release does not state what was charged")
            partial.save(folder / "partial.hush", overwrite=True)  # type: ignore[attr-defined]
            loaded = load(folder / "partial.hush")
            limit, used = (plan.rho, done.rho) if plan.epsilon is None else (plan.epsilon, done.epsilon)
            left = limit - (used or 0) > limit / 2**20
            if plan.adaptive and (left or loaded.record.tables):  # type: ignore[union-attr]
                whole = plan.release(self.table, ledger=file, resume=loaded)  # type: ignore[arg-type]
                total = Ledger.open(file).total
                _require(total == spent(whole.statement.event), "a resumed release does not state what was charged")
                _require(affordable(total, plan), "resuming overspends")

    def interrupted_replay(self, folder: Path) -> None:
        """What an interrupted run keeps depends on the data only through the gate."""

        def run(reads: int, rows: Sequence[Sequence[int]]) -> object:
            table: Any = StoppingTable(self.table.domain, rows, reads_left=reads)
            try:
                release = plan.release(table)
            except InterruptedRelease as stopped:
                release = cast("Release", stopped.release)
            release.save(folder / "kept.hush", overwrite=True)
            return folder / "kept.hush", [measurement.values for measurement in release.measurements()]

        plan, rows = self.plan(), self.table.rows
        for reads in (1, 2):
            self._replayed(partial(run, reads), rows, [rows[1:], [*rows, rows[0]]])

    def files(self, folder: Path) -> None:
        """Plans and releases come back from their files as they were."""
        plan = self.plan()
        plan.save(folder / "plan.hush", overwrite=True)
        again = load(folder / "plan.hush")
        _require(isinstance(again, Plan), "the file of a plan holds no plan")
        same, loaded = (
            (each.mechanism, each.settings.pack_settings(), each.rho, each.epsilon, each.rmse, each.details())  # type: ignore[union-attr]
            for each in (plan, again)
        )
        _require(again.settings == plan.settings, "the settings in a file differ from those of its plan")  # type: ignore[union-attr]
        _require(_without_ranking(same) == _without_ranking(loaded), "a plan differs from the one in its file")
        release = again.release(self.table)  # type: ignore[union-attr]
        release.save(folder / "one.hush", overwrite=True)
        read = load(folder / "one.hush")
        _require(isinstance(read, Release), "the file of a release holds no release")
        read.save(folder / "two.hush", overwrite=True)
        bytes_equal = (folder / "one.hush").read_bytes() == (folder / "two.hush").read_bytes()
        _require(bytes_equal, "a release differs from the one in its file")
        np.testing.assert_allclose(read.counts(self.pair), release.counts(self.pair), rtol=1e-9, atol=1e-9)  # type: ignore[union-attr]
        _require(read.rounds == release.rounds, "the rounds of a release differ from those in its file")  # type: ignore[union-attr]

        if release.bounded:
            texts = [str(source.error_bounds()) for source in (release, read)]  # type: ignore[union-attr]
            _require(texts[0] == texts[1], "the error bounds of a release differ from those of its file")

    def answers(self, folder: Path) -> None:
        """Tables, SQL and rows come from the release, and the plan says what it does."""
        plan = self.plan()
        _require(self.mechanism.name in str(plan), "the text of the plan does not name the mechanism")
        _require(bool(plan.work) and bool(plan.optimality), "the plan says nothing about work or error")
        before = self.table.reads
        release = plan.release(self.table)
        read = self.table.reads > before
        _require(read == self.mechanism.measures, "a mechanism measures what it says it does not, or the reverse")
        shape = self.table.domain.sizes(self.pair)
        _require(release.counts(self.pair).shape == shape, "counts have another shape than their table")
        _require(
            len(release.marginal(*self.pair)) == np.prod(shape), "a table has another number of answers than cells"
        )
        _require(len(release.sql(self.sql)) == 1, "SQL is not answered")
        if not read:
            self.no_rows(release)
            return
        drawn = release.synthesize(rows=20, seed=3)
        _require(drawn.num_rows == 20, "another number of rows is drawn than was asked for")
        _require(drawn.column_names == list(self.table.domain), "rows lack columns")
        for column in self.table.domain:
            levels = set(range(self.table.domain[column]))
            _require(set(drawn[column].to_pylist()) <= levels, "rows hold values outside the domain")

    def _replayed(self, run: Callable[[Any], object], table: Any, others: Sequence[Any]) -> None:
        """Replay runs that must not fail: a run that fails in the same way on every table proves nothing."""
        failures: list[Exception] = []

        def watched(source: Any) -> object:
            try:
                return run(source)
            except Exception as error:
                failures.append(error)
                raise

        check_replay(watched, table, others, measures=self.mechanism.measures)
        if failures:
            raise MechanismError(f"a release fails: {failures[0]}") from failures[0]

    def no_rows(self, release: Release) -> None:
        """Where nothing was measured, nothing was spent, and no row is made up."""
        _require(spent(release.statement.event) == Cost(), "a release costs something, and nothing was measured")
        try:
            release.synthesize(rows=20, seed=3)
        except QueryError:
            return
        raise MechanismError("rows are drawn although nothing was measured")


def _check_paid(release: Release) -> None:
    """A complete release holds every noisy answer that was charged, at the cost of its noise law."""
    problem = release.inconsistency()
    _require(problem is None, f"a release is not what it says: {problem}")
    lost = noise_differences(release.statement, release.record)[1]
    _require(not lost, "a release lacks noisy answers that were paid for")


def spent(event: Event) -> Cost:
    """The cost recomputed from the events, by Delta^2 / (2 sigma^2), epsilon^2 / 8 and Delta / b alone."""
    rho, epsilon, pure = Fraction(0), Fraction(0), True
    for simple, count in event.parts if isinstance(event, ComposedEvent) else ((event, 1),):
        if isinstance(simple, SelectionEvent):
            rho += count * simple.epsilon**2 / 8
            epsilon += count * simple.epsilon
        elif isinstance(simple, NoisyChoiceEvent):
            rho += count * simple.epsilon**2 / 2
            epsilon += count * simple.epsilon
        elif isinstance(simple, GaussianEvent):
            rho += count * simple.sensitivity_l2_squared / (2 * simple.variance)
            pure = False
        elif isinstance(simple, LaplaceEvent):
            scaled = simple.sensitivity_l1 / simple.scale
            rho += count * scaled**2 / 2
            epsilon += count * scaled
        else:
            raise MechanismError(f"a charge of an unknown kind: {type(simple).__name__}")
    return Cost(rho=rho, epsilon=epsilon if pure else None)


def affordable(cost: Cost, plan: Plan) -> bool:
    """Whether a cost is within what a plan says it spends, up to rounding."""
    room = 1 + Fraction(1, 2**30)
    if plan.epsilon is not None:
        return cost.epsilon is not None and cost.epsilon <= plan.epsilon * room
    return cost.rho is not None and cost.rho <= plan.rho * room


def _without_ranking(facts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Facts of a plan; which mechanisms were compared is not kept in files."""
    *plain, text = facts
    lines = [
        line for line in text.splitlines() if not line.startswith(("Compared", "Left out", "Skipped", "Also", "    "))
    ]
    return (*plain, lines)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise MechanismError(message)
