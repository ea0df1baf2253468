"""Quick release: one budget, shared between a discovery and a release, for people who have only their data.

The budget is split before anything is read. Noise of the release grows by 1 / sqrt(1 - share): by a seventh for a
quarter; noise of the discovery falls as 1 / sqrt(share). On generated people with five columns to find, bounds and bins
matter more: a quarter instead of a sixth lowers errors by a twentieth for 50,000 rows, and by a fifth for 8,000.
The noisy counts of the discovery also help the model. Both parts charge one account, which keeps the budget.
"""

from __future__ import annotations

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
from hush.discovery.discovery_job import DiscoveryJob, DiscoveryOutcome, RowsOf
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
from hush.privacy.ledger import Ledger, open_account, open_ledger, terms_of
from hush.privacy.measurement import Measurement
from hush.privacy.noise import LEAST_STDDEV, law_costing
from hush.privacy.sensitivity import Neighbours, Sensitivity
from hush.release.release import Release
from hush.render.progress_bar import SECONDS_BEFORE_BAR, progress_bar
from hush.schema.column import Column
from hush.schema.column_kinds import Categorical, Integer, Numeric
from hush.schema.discovery_draft import Draft, OpenColumn
from hush.schema.schema import Schema, refuse_drafted
from hush.schema.stamps import Stamp
from hush.tables.read import read
from hush.workloads import Workload
from hush.workloads.workload_text import parse_workload

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
    # What is known, and what is assumed.
    assumed: tuple[str, ...] = ()
    if draft is None:
        guess = guessed_draft(
            data, schema=schema, bounds=bounds, table=options.get("table"), query=options.get("query")
        )
        known, assumed = guess.draft, guess.assumed
    else:
        known = draft_of(draft)
    # What would be refused after the discovery is refused before it, and so are rows that known columns do not take.
    check_choice(WorkloadError, "goal", goal, GOALS)
    if output is not None:
        check_writable(Path(output), ArchiveError)
    check_asked(known, budget, mechanism, workload=workload, label=label)
    closed = [column for column in known.columns if not isinstance(column, OpenColumn)]
    if closed:
        read(data, Schema(closed), **options).check()
    # One account for both parts.
    first, second, within, book = parts_of(
        budget,
        share,
        ledger,
        known,
        dataset=dataset,
        name=name,
        neighbours=Neighbours.ADD_REMOVE,
        resuming=resume is not None,
    )
    outcome = DiscoveryOutcome(known.closed({}, known.unit), ()) if second is budget else None
    if outcome is None:
        job = DiscoveryJob(
            RowsOf(source=data, **options),
            known,
            first,
            book,
            dataset,
            name,
            partial=None if partial is None else Path(partial),
            resume=Path(resume) if isinstance(resume, str) else resume,
            rows=rows,
            within=within,
            entropy=entropy,
        )
        with progress_bar("finding levels", after=SECONDS_BEFORE_BAR) as shown:
            job.progress = shown
            outcome = job.run()
    try:
        planned = plan_rows(outcome.schema, second, mechanism, workload=workload, goal=goal, label=label)
    except HushError as error:
        if second is budget:
            raise
        raise InterruptedRelease(
            f"{error}; the discovery is paid for, and this error has its schema in its attribute release",
            release=outcome.schema,
        ) from None
    release_job = ReleaseJob(
        planned.fitting(within),  # beside what was spent
        output=output,
        ledger=book,
        dataset=dataset,
        name=name,
        within=within,
        evidence=evidence_of(outcome.schema, known),
        schema_is_public=entropy is not None,
        entropy=entropy,
    )
    with progress_bar("measuring", after=SECONDS_BEFORE_BAR) as shown:
        release = release_job.run(read(data, outcome.schema, **options), progress=shown)
    return QuickRelease(release, outcome.schema, assumed, outcome.notes, (first, second))


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
    tried = Schema([part for column in draft.columns for part in _stand_ins(column)])
    if label is not None:
        tried.domain.check((label,))
    if isinstance(workload, str):
        parse_workload(tried, workload)
    elif workload is not None and draft.open_columns:
        raise WorkloadError("a Workload needs the columns that are still to be found; give a text, such as '2-way'")


def _stand_ins(column: Column | Stamp | OpenColumn) -> list[Column | Stamp]:
    """A known column, or columns of many levels in place of one that is to be found; only numbers have sums."""
    if not isinstance(column, OpenColumn):
        return [column]
    if column.kind in (Integer.kind, Numeric.kind):
        return [Integer(name=column.name, low=0, high=STAND_IN_LEVELS - 1)]
    names = [f"{column.name}.{part}" for part in column.given.get("parts", ())] or [column.name]
    return [Categorical(name=name, values=tuple(map(str, range(STAND_IN_LEVELS)))) for name in names]


def evidence_of(schema: Schema, draft: Draft) -> list[Measurement]:
    """The noisy counts of columns that a discovery found, for a release about the same rows.

    Columns that the draft knew before may say what an earlier discovery found in other rows, so they are no evidence.
    Levels that add up several counts have more noise than others; all get the mean variance, which models weigh by.

    >>> from hush.schema import Boolean
    >>> evidence_of(Schema([Boolean(name="employed")]), Draft.of({"employed": Boolean(name="employed")}))
    []
    """
    opened = {column.name for column in draft.open_columns}
    found = [(c.name, c.discovered) for c in schema if c.discovered is not None and c.source in opened]
    return [
        Measurement(
            (name,),
            np.array(kept.rows, dtype=np.float64),
            max(math.sqrt(np.mean(np.square(kept.stddev))), LEAST_STDDEV),
        )
        for name, kept in found
        if len(kept.rows) == schema[name].size
    ]


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
    asked = workload or f"{min(2, max(len(columns), 1))}-way"
    predicted = label if label in columns and len(columns) > 1 else None
    for_goal = goal if mechanism == "auto" else "answers"
    return plan(asked, budget, mechanism, schema=schema, goal=for_goal, label=predicted)


def parts_of(
    budget: Budget,
    share: Fraction | float,
    ledger: str | Path | Ledger | None,
    draft: Draft,
    *,
    dataset: str,
    name: str,
    neighbours: Neighbours,
    resuming: bool = False,
) -> tuple[Budget, Budget, Allowance, Ledger | None]:
    """The budgets of the discovery and of the release, the account that both charge, and its ledger.

    A draft that leaves nothing open takes nothing from the release.
    """
    book = None if ledger is None else open_ledger(ledger, budget, dataset=dataset)
    within = open_account(budget, book, release=name, terms=terms_of(neighbours, draft.unit))
    # A ledger that has no room for the whole is refused now: a discovery without its release would be paid for nothing.
    if not resuming:
        one = Sensitivity(Fraction(1), Fraction(1))
        within.require(law_costing(within.remaining, budget, one).event(one))
    if not draft.open_columns and not draft.open_unit:
        return budget, budget, within, book
    part = Fraction(share)
    return budget.part(part), budget.part(1 - part), within, book
