"""discover: a schema found in private rows, at a cost; what `Schema.discover` and `hush schema discover` run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hush.core.errors import SchemaError, shown
from hush.discovery.discovery_job import DiscoveryJob, DiscoveryOutcome, RowsOf
from hush.discovery.discovery_record import DiscoveryRecord
from hush.privacy.budget import Budget
from hush.privacy.exact_sampling import Entropy
from hush.privacy.ledger import Ledger
from hush.schema.discovery_draft import Draft
from hush.schema.schema import Schema


def discover(
    data: Any,
    draft: Draft | Mapping[str, Any] | str | Path,
    budget: Budget,
    *,
    ledger: str | Path | Ledger | None = None,
    dataset: str = "default",
    name: str = "discovery",
    partial: str | Path | None = None,
    resume: str | Path | DiscoveryRecord | None = None,
    rows: int | None = None,
    entropy: Entropy | None = None,
    progress: Callable[[float], None] | None = None,
    **options: Any,
) -> DiscoveryOutcome:
    """The schema that a discovery finds, with what it found in plain words; see `Schema.discover`."""
    job = DiscoveryJob(
        RowsOf(source=data, **options),
        draft_of(draft),
        budget,
        ledger=ledger,
        dataset=dataset,
        name=name,
        partial=None if partial is None else Path(partial),
        resume=Path(resume) if isinstance(resume, str) else resume,
        rows=rows,
        entropy=entropy,
        progress=progress,
    )
    return job.run()


def discovered(data: Any, draft: Any, budget: Budget, **options: Any) -> Schema:
    """The schema alone."""
    return discover(data, draft, budget, **options).schema


def draft_of(draft: Any) -> Draft:
    """The draft that a path, a mapping of columns or a draft stands for."""
    if isinstance(draft, Draft):
        return draft
    if isinstance(draft, str | Path):
        return Draft.load(draft)
    if isinstance(draft, Mapping):
        return Draft.of(draft)
    raise SchemaError(
        f"draft = {shown(draft)}: expected the path of a draft, or a mapping of column names, such as "
        '{"income": {"kind": "numeric", "bounds": "discover"}}'
    )
