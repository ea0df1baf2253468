"""DiscoveryJob: one discovery from its draft to a schema, with checks, charges, a partial file and resuming.

The order is: rows per unit, levels of categories, noisy counts of the public wide grids of all other columns at once,
of grids in between for numbers far from zero, and of finer grids inside the ranges that were found. The last step
spends what is left. Bounds, bins and points are then computed from the noisy counts alone.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hush.core.errors import ArchiveError, BudgetError, DataError, InterruptedRelease, SchemaError, printable
from hush.core.memory import memory_limit as bytes_of
from hush.core.unit import Unit
from hush.core.validation import check_whole
from hush.discovery import level_discovery, unit_discovery
from hush.discovery.discovery_record import GRID_NAMES, DiscoveryRecord, GridName
from hush.discovery.discovery_step import DiscoveryStep, FoundColumn, charged_cost
from hush.discovery.found_columns import HALF, GridCounts, found_column, second_grid, zoom_grid
from hush.discovery.found_range import BETA, NoisyLevels
from hush.discovery.level_discovery import discover_levels, known_levels
from hush.discovery.point_discovery import discover_points
from hush.discovery.public_grids import counted_column, wide_grid
from hush.discovery.unit_discovery import discover_max_rows
from hush.files.atomic_write import check_writable
from hush.mechanisms.release_job import check_charged
from hush.privacy.account import Allowance, used_up
from hush.privacy.budget import Budget
from hush.privacy.events import RareKeyEvent, compose, price
from hush.privacy.exact_sampling import Entropy
from hush.privacy.gate import Gate, MarginalQuery, Request
from hush.privacy.gaussian_filter import EVENTS_DELTA
from hush.privacy.ledger import Ledger, open_account, open_ledger, terms_of
from hush.privacy.noise import law_costing
from hush.privacy.sensitivity import ONE_CELL, Neighbours, Sensitivity, sensitivity
from hush.release.statement import Statement
from hush.schema.column import Column
from hush.schema.column_kinds import Categorical, Integer, Numeric
from hush.schema.discovery_draft import BINS, LEVELS, Draft, OpenColumn
from hush.schema.provenance import Discovery
from hush.schema.schema import Schema
from hush.schema.stamps import Stamp
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.read import counted_table, open_source
from hush.tables.sources import RowSource
from hush.tables.table import Table

UNIT_SHARE = Fraction(1, 10)  # of the budget, for the cap on rows per unit: one histogram of few levels
POINT_SHARE = Fraction(1, 10)  # of what a column gets, for values that many rows hold
DELTA_SHARE = EVENTS_DELTA / 2  # half of the delta that accounts keep for such events; thresholds hardly feel it
LEAST_POINT_DELTA = 1e-30  # with a smaller delta, no value could be shown
WIDE_SHARE = Fraction(1, 3)  # of what ordered columns get; bins need finer counts than bounds
ZOOM_SHARE = Fraction(1, 5)  # the same, for columns of numbers that lie far from zero
MOST_ROWS_HIDDEN = 10  # a level that holds one row in ten must not hide in the noise
ROWS_WITHOUT_A_GUESS = 1_000_000
LARGEST_EXCESS = 10.0  # of needed rows over expected ones, for which a budget is raised at once
NOTHING_FOUND = "all values are missing, or too few rows hold one for this budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOf:
    """Where the rows of a discovery are: a source that `hush.read` takes, and its options."""

    source: Any
    table: str | None = None
    query: str | None = None
    where: str | None = None
    counts: str | None = None
    timeout: float | None = None
    engine: str = "auto"
    memory_limit: int | str | None = None


@dataclass(frozen=True, slots=True)
class DiscoveryOutcome:
    """The schema that was found, what was found in plain words, and the names of columns in which nothing was."""

    schema: Schema
    notes: tuple[str, ...]
    left_out: tuple[str, ...] = ()


@dataclass
class DiscoveryJob:
    """Spend a budget on the open entries of a draft, once, and keep what was paid for whatever happens.

    `ledger` records every charge for good, under `dataset` and `name`; a new one is created with the budget as its cap.
    `partial` is the file that keeps what was paid for until the schema is complete; `resume` is such a file, or the
    record of an interrupted job. `rows` is a public guess of the number of rows: a budget that could find nothing in so
    many is refused. With a `share` of the budget the rest is for a release, which charges `within`.
    `entropy` is for tests: a schema found with seeded noise is marked `from_private_data`.

    Privacy: the budget, under `neighbours`, for the units of the draft. All checks come before the first charge.
    """

    rows_of: RowsOf
    draft: Draft
    budget: Budget
    ledger: str | Path | Ledger | None = None
    dataset: str = "default"
    name: str = "discovery"
    partial: Path | None = None
    resume: Path | DiscoveryRecord | None = None
    rows: int | None = None
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    share: Fraction = Fraction(1)
    entropy: Entropy | None = None
    progress: Callable[[float], None] | None = None
    part: Budget = field(init=False, repr=False)
    within: Allowance | None = field(init=False, repr=False, default=None)
    record: DiscoveryRecord = field(init=False, repr=False)

    def run(self) -> DiscoveryOutcome:
        """Check, charge, count and find; InterruptedRelease carries the record if the run is stopped."""
        self.draft.require_open()
        if self.partial is not None:
            check_writable(self.partial, ArchiveError)
        opened = self._open()
        if self.resume is None:
            self._check_budget(opened)
        self.part = self._part_of(self.budget)
        with opened.snapshot():
            checked = self._checked_table(opened)
            account, book = self._open_account()
            if (self.listed or self.pointed) and self.budget.delta and self.resume is None:
                all_values = RareKeyEvent(DELTA_SHARE * Fraction(self.budget.delta), 1)
                account.require(all_values)
            try:
                self._measure(opened, checked, account, book)
            except (KeyboardInterrupt, ArchiveError) as stopped:
                if not account.events:
                    raise
                where = "" if self.partial is None else f" in {self.partial}"
                if isinstance(stopped, KeyboardInterrupt) or self.partial is None:
                    self._keep(account, book)
                else:  # the partial file cannot be written, as on a full disk
                    rescue = Path(tempfile.mkdtemp(prefix="hush-"), self.partial.name)
                    self.record.save(rescue)
                    where = f" in {rescue}, since hush {stopped}"
                raise InterruptedRelease(
                    f"the discovery was interrupted; what was paid for is kept{where}, and resuming pays for nothing "
                    "twice",
                    release=self.record,
                ) from None
            except BaseException:
                if account.events:
                    self._keep(account, book)
                raise
        return self.outcome()

    # Checks, before anything is charged

    @property
    def counted(self) -> tuple[OpenColumn, ...]:
        """The open columns whose levels are in an order: bounds, bins or granularity are found from counts."""
        return tuple(column for column in self.draft.open_columns if LEVELS not in column.open)

    @property
    def listed(self) -> tuple[OpenColumn, ...]:
        """The open columns whose levels are to be found."""
        return tuple(column for column in self.draft.open_columns if LEVELS in column.open)

    @property
    def pointed(self) -> tuple[OpenColumn, ...]:
        """The open columns whose heavy values are found one by one, which takes a budget with a delta."""
        kinds = (Integer.kind, Numeric.kind) if (self.budget.delta or 0) >= LEAST_POINT_DELTA else ()
        return tuple(column for column in self.counted if BINS in column.open and column.kind in kinds)

    @property
    def _readable(self) -> list[Column | Stamp]:
        """The columns as far as they are known: open ones with their first grid, or with the levels that are listed."""
        known: dict[str, Column | Stamp] = {column.name: known_levels(column) for column in self.listed}
        known |= {column.name: wide_grid(column) for column in self.counted}
        return [known[column.name] if isinstance(column, OpenColumn) else column for column in self.draft]

    @property
    def _share_of_column(self) -> Fraction:
        """The share of the budget that each open column gets."""
        columns = len(self.draft.open_columns)
        return (1 - UNIT_SHARE if self.draft.open_unit and columns else Fraction(1)) / max(columns, 1)

    def _check_budget(self, opened: RowSource) -> None:
        """Refuse a budget under which hardly anything could be found, and name one that would do."""
        if self.listed and not self.budget.approximate:
            names = ", ".join(repr(column.name) for column in self.listed)
            raise BudgetError(
                f"finding the values of {names} takes a budget of epsilon and delta, and this one is {self.budget}; "
                "delta bounds the chance of showing a value that one unit alone holds: state a delta, such as "
                "delta=1e-9 (--delta 1e-9), or list the values"
            )
        rows = ROWS_WITHOUT_A_GUESS if self.rows is None else check_whole(BudgetError, "rows", self.rows, least=1)
        needed = self._rows_needed(opened, self.budget)
        if needed <= rows:
            return
        columns = len(self.draft.open_columns)
        where = f"{columns} column{'s' if columns > 1 else ''}" if columns else "the id column"
        table = "more rows than any table has" if math.isinf(needed) else f"{needed:,.0f} rows"
        expected = (
            f"{rows:,} rows are expected" if self.rows else "a million are expected unless rows= or --rows is given"
        )
        raise BudgetError(
            f"{self.budget}: too small to find anything in {where}: for a level with one row in {MOST_ROWS_HIDDEN} to "
            f"stand out from the noise, it takes {table}, and {expected}; use at least about "
            f"{self._enough_for(opened, rows)}, or discover fewer columns"
        )

    def _part_of(self, budget: Budget) -> Budget:
        """What the discovery may spend of a budget."""
        return budget if self.share == 1 else budget.part(self.share)

    def _enough_for(self, opened: RowSource, rows: float) -> Budget:
        """About the least budget that can find something in so many rows."""
        enough = self.budget
        while (excess := min(self._rows_needed(opened, enough) / rows, LARGEST_EXCESS)) > 1:
            factor = Fraction(excess if enough.pure else excess**2)
            enough = enough.covering(enough.limit * factor * Fraction(101, 100))
        return enough

    def _rows_needed(self, opened: RowSource, budget: Budget) -> float:
        """How many rows a table needs so that a level or a value with a fair part of them is found; may be infinite."""
        needed, unit = [], self.draft.unit
        try:
            account = Allowance(self._part_of(budget))
        except BudgetError:  # the part would be zero
            return math.inf
        if self.counted:
            needed.append(MOST_ROWS_HIDDEN * self._hidden_rows(account.budget))
        for column in self.listed:
            step = self._step(opened, account, self._share_of_column, unit)
            needed.append(MOST_ROWS_HIDDEN * level_discovery.hidden_units(step, column))
        if self.draft.open_unit:
            needed.append(unit_discovery.hidden_units(self._step(opened, account, UNIT_SHARE, unit)))
        return max(needed)

    def _hidden_rows(self, budget: Budget) -> float:
        """Up to how many rows of one level of a wide grid the noise may hide."""
        bound = sensitivity(ONE_CELL, max_rows=self.draft.unit.max_rows, neighbours=self.neighbours)
        try:
            law = law_costing(budget.limit * self._share_of_column * WIDE_SHARE, budget, bound)
        except BudgetError:
            return math.inf
        levels = max(counted_column(wide_grid(column)).levels for column in self.counted)
        tests = 2 * levels * (levels.bit_length() + 1)
        return NoisyLevels(np.zeros(1, dtype=np.int64), law).noise_bound(1, HALF / tests)

    def _checked_table(self, opened: RowSource) -> Table:
        """The table of all columns as far as they are known, with every row read and checked.

        Nobody should pay for a schema that refuses the rows.
        """
        table = self._table(opened, self._readable, self.draft.unit)
        with table.snapshot():
            table.check()
        return table

    def _table(self, opened: RowSource, columns: Iterable[Column | Stamp], unit: Unit) -> Table:
        limit = bytes_of(self.rows_of.memory_limit)
        return counted_table(opened, Schema(columns, unit=unit), engine=self.rows_of.engine, memory_limit=limit)

    def _open(self) -> RowSource:
        """The source, without reading rows; refuses one that cannot be read several times."""
        given = self.rows_of
        schema = Schema(self._readable, unit=self.draft.unit)
        connect = partial(DUCKDB.connect, bytes_of(given.memory_limit) // 2)
        opened = open_source(
            given.source,
            schema,
            given.table,
            given.query,
            connect,
            where=given.where,
            counts=given.counts,
            timeout=given.timeout,
        )
        if opened.once:
            raise DataError(
                f"{opened.name} can be read only once, and a discovery reads the rows several times; save them to a "
                "file first"
            )
        return opened

    def _open_account(self) -> tuple[Allowance, Ledger | None]:
        """The account and its ledger, after all checks; the record of the run to resume, or a new one."""
        earlier = DiscoveryRecord.load(self.resume) if isinstance(self.resume, Path) else self.resume
        if earlier is not None:
            self._check_resumable(earlier)
        elif self.partial is not None and self.partial.exists():
            raise DataError(
                f"{self.partial} keeps what an interrupted discovery has paid for; resume it, or delete it to lose that"
            )
        book = None if self.ledger is None else open_ledger(self.ledger, self.budget, dataset=self.dataset)
        terms = terms_of(self.neighbours, self.draft.unit)
        if self.share < 1:
            self.within = open_account(self.budget, book, release=self.name, terms=terms)
            if earlier is None:  # a discovery without room for the release after it would be paid for nothing
                one = Sensitivity(Fraction(1), Fraction(1))
                self.within.require(law_costing(self.within.remaining, self.budget, one).event(one))
        account = open_account(self.part, book, release=self.name, terms=terms, within=self.within)
        if earlier is not None:
            account.resume(earlier.statement.event)
            if self.within is not None:
                self.within.resume(earlier.statement.event)
            if book is not None and not used_up(book.remaining, self.part.limit):
                account.lower(book.remaining)
            self.record = earlier.copy()
        else:
            self.record = DiscoveryRecord(self.draft.fingerprint, self._statement(account, book, seeded=False))
        return account, book

    def _check_resumable(self, earlier: DiscoveryRecord) -> None:
        """Refuse the record of another draft, budget or unit, or one that was charged elsewhere."""
        promise = earlier.statement
        differing = {
            "draft": earlier.draft != self.draft.fingerprint,
            "budget": promise.budget != self.part,
            "neighbours": promise.neighbours is not self.neighbours,
            "unit": promise.unit != self.draft.unit,
        }
        wrong = [what for what, differs in differing.items() if differs]
        if wrong:
            raise DataError(
                f"the interrupted discovery did not have the same {' and '.join(wrong)}; resume it with the draft and "
                "the budget that it started with"
            )
        check_charged(promise, earlier.dataset, self.ledger, self.dataset, "the discovery")

    # Charges and counts

    def _measure(self, opened: RowSource, checked: Table, account: Allowance, book: Ledger | None) -> None:
        """Spend the account, step by step; steps that the record holds are not repeated."""
        keep = partial(self._keep, account, book)
        if self.draft.open_unit or self.listed:
            self._discover_keys(opened, account, keep)
        wide = {column.name: wide_grid(column) for column in self.counted}
        cost = self.part.limit * self._share_of_column * len(self.counted) * WIDE_SHARE
        again = None if self.unit != self.draft.unit else checked
        for column in self.pointed:
            if column.name not in self.record.points:
                points = discover_points(self._step(opened, account, self._share_of_column * POINT_SHARE), column)
                self.record.points[column.name] = points
                self._note_seeded(points.private)
                keep()
        self._count(opened, account, "wide", wide, cost, keep, table=again)
        zoom = {column.name: grid for column in self.counted if (grid := self._grid("zoom", column)) is not None}
        cost = self.part.limit * self._share_of_column * len(zoom) * ZOOM_SHARE
        self._count(opened, account, "zoom", zoom, cost, keep)
        fine = {column.name: grid for column in self.counted if (grid := self._grid("fine", column)) is not None}
        left = {name: 1 - WIDE_SHARE - ZOOM_SHARE * (name in zoom) for name in fine}  # each pays for its own grids
        self._count(opened, account, "fine", fine, account.remaining, keep, shares=left)

    def _discover_keys(self, opened: RowSource, account: Allowance, keep: Callable[[], None]) -> None:
        """The cap on rows per unit, then the levels of categories; each is kept as soon as it is found."""
        if self.draft.open_unit and self.record.unit is None:
            self.record.unit = discover_max_rows(self._step(opened, account, UNIT_SHARE))
            self._note_seeded(self.record.unit.private)
            keep()
        for column in self.listed:
            if column.name not in self.record.columns:
                found = discover_levels(self._step(opened, account, self._share_of_column), column)
                stated = replace(found.column, discovered=found.provenance)
                self.record.columns[column.name] = replace(found, column=stated)
                self._note_seeded(found.private)
                keep()

    def _step(self, opened: RowSource, account: Allowance, share: Fraction, unit: Unit | None = None) -> DiscoveryStep:
        """What one part of the discovery may use: a share of the budget, and of its delta where levels are found."""
        budget = account.budget
        cost = min(budget.limit * share, account.remaining)
        _require_left(cost, budget)
        delta = DELTA_SHARE * Fraction(budget.delta or 0) / max(len(self.listed) + len(self.pointed), 1)
        return DiscoveryStep(
            source=opened,
            unit=self.unit if unit is None else unit,
            account=account,
            cost=cost,
            delta=delta,
            failure=BETA,
            neighbours=self.neighbours,
            entropy=self.entropy,
            memory_limit=bytes_of(self.rows_of.memory_limit),
        )

    def _note_seeded(self, private: bool) -> None:
        self.record.statement = replace(self.record.statement, seeded=self.record.statement.seeded or not private)

    @property
    def unit(self) -> Unit:
        """The privacy unit, with the cap that was found."""
        found = self.record.unit
        return self.draft.unit if found is None else replace(self.draft.unit, max_rows=found.max_rows)

    def _count(
        self,
        opened: RowSource,
        account: Allowance,
        grid_name: GridName,
        grids: Mapping[str, Column | Stamp],
        cost: Fraction,
        keep: Callable[[], None],
        table: Table | None = None,
        shares: Mapping[str, Fraction] | None = None,
    ) -> None:
        """Noisy counts of one grid of every column that the record lacks, with one charge, before any is counted.

        The cost of all grids is divided by `shares`, by default equally; a cost of all that remains is spent whole.
        """
        missing = {name: grid for name, grid in grids.items() if (grid_name, name) not in self.record.counts}
        if not missing:
            return
        weights = shares or dict.fromkeys(grids, Fraction(1))
        of_all = sum(weights[name] for name in (grids if cost < account.remaining else missing))
        each = {name: min(cost, account.remaining) * weights[name] / of_all for name in missing}
        _require_left(min(each.values()), self.part)
        table = self._table(opened, missing.values(), self.unit) if table is None else table
        with table.snapshot():
            gate = Gate(table, account, neighbours=self.neighbours, entropy=self.entropy)
            queries = {name: MarginalQuery((counted_column(grid).name,)) for name, grid in missing.items()}
            laws = {name: law_costing(each[name], self.part, gate.bound(query)) for name, query in queries.items()}
            requests = [Request(query, laws[name]) for name, query in queries.items()]
            note = f"discovery: {grid_name} grids of {len(missing)} columns"
            try:
                for name, answer in zip(missing, gate.measure(requests, note=note), strict=True):
                    self.record.counts[grid_name, name] = answer.raw, laws[name]
            finally:
                self._note_seeded(gate.private)
        keep()
        if self.progress is not None:
            self.progress(float(1 - account.remaining / self.part.limit))

    def _keep(self, account: Allowance, book: Ledger | None) -> None:
        """Put what was spent on record, and write the record to the partial file."""
        self.record.statement = self._statement(account, book, seeded=self.record.statement.seeded)
        self.record.dataset = None if book is None else book.dataset
        if self.partial is not None:
            self.record.save(self.partial)

    def _statement(self, account: Allowance, book: Ledger | None, *, seeded: bool) -> Statement:
        return Statement(
            budget=self.part,
            neighbours=self.neighbours,
            unit=self.draft.unit,
            event=account.events[0] if len(account.events) == 1 else compose(account.events),
            seeded=seeded,
            ledger_head=None if book is None else book.head,
        )

    # Post-processing

    def grid_counts(self, grid_name: GridName, column: OpenColumn) -> GridCounts:
        """The noisy counts of a grid of a column; the grid follows from the draft and earlier counts."""
        rows, law = self.record.counts[grid_name, column.name]
        grid = self._grid(grid_name, column)
        assert grid is not None  # noqa: S101
        if len(rows) != counted_column(grid).size:
            raise DataError(f"the counts on record of {column.name!r} do not fit its grid; discover anew")
        return GridCounts(grid, rows, law)

    def _grid(self, grid_name: GridName, column: OpenColumn) -> Column | Stamp | None:
        """A grid of a column, which follows from what is on record; None if the column has none of this name."""
        if grid_name == "wide":
            return wide_grid(column)
        if grid_name == "zoom":
            return zoom_grid(column, self.grid_counts("wide", column))
        held = self.record.points.get(column.name)
        points = held.points if held else ()
        if ("zoom", column.name) in self.record.counts:
            grid = second_grid(column, self.grid_counts("zoom", column), points, zoomed=True)
            if grid is not None:
                return grid
        return second_grid(column, self.grid_counts("wide", column), points)

    def outcome(self) -> DiscoveryOutcome:
        """The schema that the record leads to; computed from what was released alone."""
        found: dict[str, Column | Stamp] = {}
        notes, left_out = [], []
        reasons: dict[str, list[str]] = {}  # columns that are left out, by why
        if self.record.unit is not None:
            notes.append(f"rows per unit: {self.record.unit.provenance.note}")
        for column in self.draft.open_columns:
            result = self.record.columns.get(column.name) or self._counted_column(column)
            if result is None or _tells_nothing(result.column):
                left_out.append(column.name)
                why = NOTHING_FOUND if result is None else result.provenance.note
                reasons.setdefault(why, []).append(printable(column.name))
                continue
            drafted = self.record.statement.seeded or not result.private
            found[column.name] = replace(result.column, from_private_data=drafted)
            notes.append(f"{printable(column.name)}: {result.provenance.note}")
        notes += [f"{', '.join(names)}: left out of the schema; {why}" for why, names in reasons.items()]
        if len(left_out) == len(self.draft.columns):
            spent = Fraction(self.part.spent(price(self.record.statement.event))) / self.budget.limit
            raise DataError(
                "nothing was found in any column: all values are missing, or for this budget too few rows share a "
                f"value, as with ids. About {math.ceil(100 * spent)} % of {self.budget} is spent; state what you know, "
                "or use a larger budget: with rows= or --rows, too small ones are refused before they cost anything"
            )
        draft = (
            replace(self.draft, columns=tuple(column for column in self.draft if column.name not in left_out))
            if left_out
            else self.draft
        )
        try:
            schema = draft.closed(found, self.unit)
        except SchemaError as error:
            schema = replace(draft, rules=None).closed(found, self.unit)
            notes.append(f"The rules of the draft do not fit what was found and are left out: {error}")
        run = Discovery(
            budget=tuple(self.part.to_dict().items()),
            neighbours=self.neighbours.value,
            found=tuple(found),
            unit=self.draft.unit.column or "",
            ledger_head=self.record.statement.ledger_head,
            max_rows=None if self.record.unit is None else self.record.unit.provenance,
        )
        columns = declared_columns(schema)
        if self.record.statement.seeded:  # the cap, and which columns were left out, are not public either
            columns = [replace(column, from_private_data=True) for column in columns]
        stated = Schema(columns, unit=schema.unit, constraints=schema.constraints, discovery=run)
        return DiscoveryOutcome(stated, tuple(notes), tuple(left_out))

    def _counted_column(self, column: OpenColumn) -> FoundColumn | None:
        """A column of numbers or days from its noisy counts, with what they cost."""
        grids = {
            grid: self.grid_counts(grid, column) for grid in GRID_NAMES if (grid, column.name) in self.record.counts
        }
        if "wide" not in grids:
            return None
        bound = sensitivity(ONE_CELL, max_rows=self.unit.max_rows, neighbours=self.neighbours)
        spent = sum(charged_cost(self.part, counts.law.event(bound)) for counts in grids.values())
        held = self.record.points.get(column.name)
        cost = math.nextafter(spent + (held.cost if held else 0.0), math.inf)
        found = found_column(column, grids["wide"], grids.get("fine"), cost=cost, cost_unit=self.part.unit)
        if found is None or held is None:
            return found
        stated = replace(found.provenance, delta=held.delta)
        return replace(found, column=replace(found.column, discovered=stated), provenance=stated)


def _require_left(cost: Fraction, budget: Budget) -> None:
    """Refuse a step for which the account of a budget holds nothing."""
    if used_up(cost, budget.limit):
        raise BudgetError(
            "nothing is left to count with: the discovery was interrupted after its last charge; discover anew with a "
            "budget of its own"
        )


def _tells_nothing(column: Column | Stamp) -> bool:
    """Whether all rows are in `other`."""
    return isinstance(column, Categorical) and not column.values


def declared_columns(schema: Schema) -> list[Column | Stamp]:
    """The columns of a schema as declared: times as a whole, not their parts."""
    columns = [column if column.part is None else column.part.stamp for column in schema]
    return list(dict.fromkeys(columns))
