"""hush: differentially private answers, tables and synthetic copies of a sensitive table."""

from hush import queries
from hush._version import __version__
from hush.domain import Domain
from hush.errors import HushError
from hush.privacy.budget import Budget
from hush.schema import Schema
from hush.tables import read
from hush.workloads import Workload

__all__ = ["Budget", "Domain", "HushError", "Schema", "Workload", "__version__", "queries", "read"]
