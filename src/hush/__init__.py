"""hush: differentially private answers, tables and synthetic copies of a sensitive table."""

from hush import datasets, mechanisms, queries
from hush._version import __version__
from hush.domain import Domain
from hush.errors import HushError
from hush.loading import load
from hush.planning import plan, plan_for_error
from hush.privacy.budget import Budget
from hush.privacy.ledger import Ledger
from hush.privacy.neighbours import Neighbours
from hush.release.answers import Answers
from hush.release.release import Release
from hush.schema import Schema
from hush.tables import read
from hush.workloads import Workload

__all__ = [
    "Answers",
    "Budget",
    "Domain",
    "HushError",
    "Ledger",
    "Neighbours",
    "Release",
    "Schema",
    "Workload",
    "__version__",
    "datasets",
    "load",
    "mechanisms",
    "plan",
    "plan_for_error",
    "queries",
    "read",
]
