"""Where exact counts come from: files, frames and databases, encoded by a schema."""

from hush.tables.read import read
from hush.tables.table import Table

__all__ = ["Table", "read"]
