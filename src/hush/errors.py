"""The errors that a caller may catch; `HushError` is the base of them all."""

from hush.core.errors import (
    ArchiveError,
    BudgetError,
    ConvergenceError,
    DataError,
    DomainError,
    HushError,
    InterruptedRelease,
    LedgerError,
    QueryError,
    ReplayError,
    SchemaError,
    SearchError,
    SizeError,
    WorkloadError,
)

__all__ = [
    "ArchiveError",
    "BudgetError",
    "ConvergenceError",
    "DataError",
    "DomainError",
    "HushError",
    "InterruptedRelease",
    "LedgerError",
    "QueryError",
    "ReplayError",
    "SchemaError",
    "SearchError",
    "SizeError",
    "WorkloadError",
]
