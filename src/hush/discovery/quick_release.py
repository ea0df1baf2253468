"""Quick release: one budget, shared between a discovery and a release, for people who have only their data.

The budget is split before anything is read. Noise of the release grows by 1 / sqrt(1 - share): by a seventh for a
quarter; noise of the discovery falls as 1 / sqrt(share). On generated people with five columns to find, bounds and bins
matter more: a quarter instead of a sixth lowers errors by a twentieth for 50,000 rows, and by a fifth for 8,000.
The noisy counts of the discovery also help the model. Both parts charge one account, which keeps the budget.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from hush.core.errors import ArchiveError, HushError, InterruptedRelease, WorkloadError
from hush.core.validation import check_choice
from hush.discovery.discover import draft_of
from hush.discovery.discovery_job import DiscoveryJob, RowsOf
from hush.discovery.discovery_record import DiscoveryRecord
from hush.discovery.guessed_draft import guessed_draft
from hush.files.atomic_write import check_writable
from hush.mechanisms.auto import GOALS
from hush.mechanisms.mechanism import Mechanism
from hush.mechanisms.plan import Plan
from hush.mechanisms.registry import mechanism_of
from hush.mechanisms.release_job import ReleaseJob
from hush.planning import plan
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.exact_sampling import Entropy
from hush.privacy.ledger import Ledger, open_ledger
from hush.privacy.measurement import Measurement
from hush.privacy.noise import LEAST_STDDEV
from hush.release.release import Release
from hush.render.progress_bar import SECONDS_BEFORE_BAR, progress_bar
from hush.schema.column import Column
from hush.schema.column_kinds import Categorical, Date, Integer, Numeric
from hush.schema.discovery_draft import Draft, OpenColumn
from hush.schema.schema import Schema, refuse_drafted
from hush.schema.stamps import Stamp, Timestamp
from hush.tables.read import read
from hush.workloads import Workload
from hush.workloads.workload_text import parse_workload, split_text

STAND_IN_LEVELS = 10_000  # of a column that is to be found, while a workload is tried; wider than any query block
DISCOVERY_SHARE = Fraction(1, 4)  # of the budget


@dataclass(frozen=True, slots=True)
class QuickRelease:
    """A release, the schema that was found for it, and in plain words what was assumed and what was discovered.

    `budgets` are the parts of the budget: that of the discovery, and that of the release.
    """

    release: Release
    schema: Schema
    assumed: tuple[str, ...]
    discovered: tuple[str, ...]
    budgets: tuple[Budget, Budget]

    @property
    def discovery_share(self) -> float:
        """The share of the budget that the discovery took; 0 if there was nothing to discover."""
        first, second = self.budgets
        return 0.0 if first is second else float(first.limit / (first.limit + second.limit))


def quick_release(
    data: Any,
    budget: Budget,
    *,
    draft: Draft | Mapping[str, Any] | str | Path | None = None,
    schema: Schema | Mapping[str, Any] | None = None,
    bounds: Mapping[str, tuple[Any, Any]] | None = None,
    workload: Workload | str | None = None,
    mechanism: str | Mechanism = "auto",
    goal: str = "rows",
    label: str | None = None,
    share: Fraction | float = DISCOVERY_SHARE,
    ledger: str | Path | Ledger | None = None,
    dataset: str = "default",
    name: str = "quick release",
    output: str | Path | None = None,
    rows: int | None = None,
    partial: str | Path | None = None,
    resume: str | Path | DiscoveryRecord | None = None,
    entropy: Entropy | None = None,
    **options: Any,
) -> QuickRelease:
    """Discover a schema with a share of the budget, then release with the rest.

    Without a `draft`, names and declared types decide what is discovered, together with the columns in `schema` and the
    `bounds` that the caller knows; see `guessed_draft`. If the draft leaves nothing to discover, the whole budget goes
    to the release. `workload` is all pairs of columns by default, and `label` a column that the rows
    will be used to predict. `options` are those of `read`: `table`, `query`, `where`, `counts` and so on.

    Privacy: the budget, in all.

    >>> import hush
    >>> done = quick_release(hush.datasets.people(2000, seed=1), hush.Budget(epsilon=3.0, delta=1e-9),
    ...     draft={"age": {"kind": "integer", "bounds": "discover"}, "employed": {"kind": "boolean"}})
    >>> done.schema["employed"].size, done.release.statement.private, done.budgets[0].limit < done.budgets[1].limit
    (2, True, True)
    """
    assumed: tuple[str, ...] = ()
    if draft is None:
        guess = guessed_draft(
            data, schema=schema, bounds=bounds, table=options.get("table"), query=options.get("query")
        )
        known, assumed = guess.draft, guess.assumed
    else:
        known = draft_of(draft)
    # What would be refused after the discovery is refused before it.
    check_choice(WorkloadError, "goal", goal, GOALS)
    if output is not None:
        check_writable(Path(output), ArchiveError)
    spending: dict[str, Any] = {"ledger": ledger, "dataset": dataset, "name": name, "entropy": entropy}
    asked: dict[str, Any] = {"workload": workload, "label": label}
    resumed = Path(resume) if isinstance(resume, str) else resume
    kept: dict[str, Any] = {"partial": None if partial is None else Path(partial), "resume": resumed, "rows": rows}
    given: dict[str, Any] = asked | kept | spending
    with progress_bar("finding levels", after=SECONDS_BEFORE_BAR) as shown:
        first = discover_first(RowsOf(source=data, **options), known, budget, mechanism, share, progress=shown, **given)
    said: tuple[str, ...] = ()
    if isinstance(workload, str):
        asked["workload"], said = answerable(workload, first.schema)
    try:
        planned = plan_rows(first.schema, first.rest, mechanism, goal=goal, **asked)
    except HushError as error:
        if first.within is None:
            raise
        raise InterruptedRelease(
            f"{error}; the discovery is paid for, and this error has its schema in its attribute release",
            release=first.schema,
        ) from None
    account: Allowance | Ledger | None = first.within
    if account is None and ledger is not None:  # all columns were known
        account = open_ledger(ledger, budget, dataset=dataset)
    if account is not None:
        planned = planned.fitting(account)  # beside what was spent
    job = ReleaseJob(
        planned,
        output=output,
        within=first.within,
        evidence=first.evidence,
        schema_is_public=entropy is not None,
        **spending,
    )
    with progress_bar("measuring", after=SECONDS_BEFORE_BAR) as shown:
        release = job.run(read(data, first.schema, **options), progress=shown)
    return QuickRelease(release, first.schema, assumed, (*first.notes, *said), (first.spent, first.rest))


@dataclass(frozen=True, slots=True)
class FirstPart:
    """What a discovery leaves to the release after it: a schema, the rest of the budget, and the account of both.

    `spent` is the part of the budget that the discovery had. If there was nothing to discover, it is the whole budget,
    as `rest` is, and there is no account.
    """

    schema: Schema
    notes: tuple[str, ...]
    spent: Budget
    rest: Budget
    within: Allowance | None = None
    evidence: tuple[Measurement, ...] = ()


def discover_first(
    rows_of: RowsOf,
    draft: Draft,
    budget: Budget,
    mechanism: str | Mechanism = "auto",
    share: Fraction | float = DISCOVERY_SHARE,
    *,
    workload: Workload | str | None = None,
    label: str | None = None,
    schema_is_public: bool = False,
    **settings: Any,
) -> FirstPart:
    """Find what a draft leaves open with a share of the budget; the rest is for a release of the same rows.

    A draft that leaves nothing open takes nothing from the release. `settings` are those of `DiscoveryJob`.
    """
    check_asked(draft, budget, mechanism, workload=workload, label=label, schema_is_public=schema_is_public)
    if not draft.open_columns and not draft.open_unit:
        return FirstPart(draft.closed({}, draft.unit), (), budget, budget)
    job = DiscoveryJob(rows_of, draft, budget, share=Fraction(share), **settings)
    found = job.run()
    rest = budget.part(1 - job.share)
    return FirstPart(found.schema, found.notes, job.part, rest, job.within, evidence_of(found.schema, draft))


def check_asked(
    draft: Draft,
    budget: Budget,
    mechanism: str | Mechanism = "auto",
    *,
    workload: Workload | str | None = None,
    label: str | None = None,
    schema_is_public: bool = False,
) -> None:
    """Refuse what the release would refuse whatever is found.

    These are unknown names, texts that cannot be read, a mechanism that the budget rules out, and columns that were
    drafted from private data.
    """
    mechanism_of(mechanism).accounted(budget)
    if not schema_is_public:
        closed = [column for column in draft.columns if not isinstance(column, OpenColumn)]
        refuse_drafted([column.name for column in closed if column.from_private_data])
    columns = (stand_in(column) if isinstance(column, OpenColumn) else column for column in draft.columns)
    tried = Schema(columns, unit=draft.unit)
    if label is not None:
        tried.domain.check((label,))
    if isinstance(workload, str):
        parse_workload(tried, workload)
    elif workload is not None and draft.open_columns:
        raise WorkloadError("a Workload needs the columns that are still to be found; give a text, such as '2-way'")


def stand_in(column: OpenColumn) -> Column | Stamp:
    """A column of the kind that is to be found, with as many levels as a workload may need."""
    name, levels = column.name, range(STAND_IN_LEVELS)
    start, end = dt.date.min, dt.date.min + dt.timedelta(days=levels[-1])
    match column.kind:
        case Categorical.kind:
            return Categorical(name=name, values=tuple(map(str, levels)))
        case Integer.kind:
            return Integer(name=name, low=levels[0], high=levels[-1])
        case Numeric.kind:
            return Numeric.equal_width(name=name, low=0, high=STAND_IN_LEVELS, bins=STAND_IN_LEVELS)
        case Date.kind:
            return Date(name=name, start=start, end=end)
    parts = {key: column.given[key] for key in ("parts", "minutes") if key in column.given}
    return Timestamp(name=name, start=start, end=end, **parts)


def answerable(workload: str, schema: Schema) -> tuple[str, tuple[str, ...]]:
    """The parts of a workload that can be asked of the columns that were found, and in words what was left out.

    The whole was checked against the draft, so a part that fails names a column in which nothing was found, or more
    columns than are left. If no part can be asked, all pairs of columns are.

    >>> from hush.schema import Boolean
    >>> answerable("a,b; a + 2-way", Schema([Boolean(name="a")]))[0]
    'a'
    """
    parts: list[str] = []
    dropped: list[str] = []
    for summand in split_text(workload, "+"):
        kept = []
        for piece in split_text(summand, ";"):
            try:
                parse_workload(schema, piece)
                kept.append(piece.strip())
            except HushError:
                dropped.append(piece.strip())
        parts += ["; ".join(kept)] if kept else []
    said = tuple(f"{part}: not asked, since some of its columns were left out" for part in dropped)
    return " + ".join(parts) or all_pairs(schema), said


def all_pairs(schema: Schema) -> str:
    """The workload of all pairs of columns; a single column has none, so it is asked for itself."""
    return f"{min(2, max(len(schema.domain.varying()), 1))}-way"


def evidence_of(schema: Schema, draft: Draft) -> tuple[Measurement, ...]:
    """The noisy counts of columns that a discovery found, for a release about the same rows.

    Columns that the draft knew before may say what an earlier discovery found in other rows, so they are no evidence.
    Levels that add up several counts have more noise than others; all get the mean variance, which models weigh by.

    >>> from hush.schema import Boolean
    >>> evidence_of(Schema([Boolean(name="employed")]), Draft.of({"employed": Boolean(name="employed")}))
    ()
    """
    opened = {column.name for column in draft.open_columns}
    found = [(c.name, c.discovered) for c in schema if c.discovered is not None and c.source in opened]
    return tuple(
        Measurement(
            (name,),
            np.array(kept.rows, dtype=np.float64),
            max(math.sqrt(np.mean(np.square(kept.stddev))), LEAST_STDDEV),
        )
        for name, kept in found
        if len(kept.rows) == schema[name].size
    )


def plan_rows(
    schema: Schema,
    budget: Budget,
    mechanism: str | Mechanism = "auto",
    *,
    workload: Workload | str | None = None,
    goal: str = "rows",
    label: str | None = None,
) -> Plan:
    """The plan for synthetic rows: of all pairs of columns by default, and of what predicting a label needs.

    A label in which nothing was found is planned for like any other column.
    """
    columns = schema.domain.varying()
    asked = workload or all_pairs(schema)
    predicted = label if label in columns and len(columns) > 1 else None
    for_goal = goal if mechanism == "auto" else "answers"
    return plan(asked, budget, mechanism, schema=schema, goal=for_goal, label=predicted)
