"""hush: differentially private answers, tables and synthetic copies of a sensitive table."""

from hush._version import __version__
from hush.domain import Domain
from hush.errors import HushError
from hush.schema import Schema

__all__ = ["Domain", "HushError", "Schema", "__version__"]
