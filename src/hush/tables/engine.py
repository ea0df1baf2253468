"""DuckDB, which reads and encodes every source: its connections, and its failures in our own words.

An error of DuckDB, Arrow or polars may quote the row it stumbled on. None of them leaves this module: the error raised
here has neither its text nor a reference to it.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hush.errors import DataError, HushError, SizeError
from hush.tables.sql_types import quoted

Result = TypeVar("Result")
Explain = Callable[[str], str]
SMALLEST_MEMORY = 2**27  # DuckDB cannot do much with less
PANIC = "PanicException"  # how Rust fails in Python, polars for one; it is no Exception


def connect(memory: int) -> Any:
    """A private in-memory database that keeps to `memory` bytes and spills to a folder that is removed with it."""
    folder = tempfile.TemporaryDirectory(prefix="hush-")
    settings = {
        "memory_limit": f"{max(memory, SMALLEST_MEMORY)}B",
        "temp_directory": folder.name,
        "autoinstall_known_extensions": "false",
    }
    connection = duckdb.connect(":memory:", config=settings)
    connection.execute("SET preserve_insertion_order = false")
    weakref.finalize(connection, folder.cleanup)
    return connection


def open_session(connection: Any, frames: dict[str, pa.Table | pa.RecordBatchReader]) -> Any:
    """A cursor of its own, so that nothing pending on the connection is disturbed, with fixed settings.

    Settings of a cursor end with it. Time zones are those of UTC wherever the job runs; Python variables are not
    tables.
    """
    session = connection.cursor()
    session.execute("SET TimeZone = 'UTC'")
    session.execute("SET python_enable_replacements = false")
    session.execute("SET enable_progress_bar = true")
    session.execute("SET enable_progress_bar_print = false")
    for name, frame in frames.items():
        session.register(name, frame)
    return session


def attempt(call: Callable[[], Result], failed: str | Explain) -> Result:
    """The result of a call of another library; DataError with our own words where it fails, in whatever way.

    `failed` is what to say, or a function that chooses it by the engine's text and must not quote it.
    """
    try:
        return call()
    except HushError:
        raise
    except (duckdb.OutOfMemoryException, MemoryError, pa.ArrowMemoryError):
        error: HushError = SizeError("reading the source needs more memory than memory_limit allows; raise it")
    except BaseException as trouble:  # errors of any type quote rows
        if not isinstance(trouble, Exception) and type(trouble).__name__ != PANIC:
            raise
        error = DataError(failed if isinstance(failed, str) else failed(str(trouble)))
    raise error  # outside of the handler: the engine's error must not hang on to ours as its context


def describe(session: Any, select: str, failed: str | Explain) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and types of the columns of a SELECT, without running it; names may repeat."""
    rows = attempt(lambda: session.execute(f"DESCRIBE {select}").fetchall(), failed)
    return tuple(row[0] for row in rows), tuple(row[1] for row in rows)


def stream(session: Any, select: str, batch_rows: int, failed: str | Explain) -> Iterator[pa.RecordBatch]:
    """The rows of a SELECT in batches, computed while they are read."""

    def start() -> pa.RecordBatchReader:
        relation = session.sql(select)
        fetch = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader  # the name before 1.5
        return fetch(batch_rows)

    def following() -> pa.RecordBatch | None:
        try:
            return reader.read_next_batch()
        except StopIteration:
            return None

    reader = attempt(start, failed)
    while (batch := attempt(following, failed)) is not None:
        yield batch


def as_numpy(column: pa.Array) -> npt.NDArray[Any]:
    """The numbers of an Arrow array without nulls, not copied; its own method would import pandas."""
    numbers: npt.NDArray[Any] = np.frombuffer(column.buffers()[1] or b"", dtype=str(column.type))
    return numbers[column.offset : column.offset + len(column)]


def fraction_done(session: Any) -> float:
    """How far the running query is, from 0 to 1; 0 where the engine does not say."""
    try:
        return min(1.0, max(0.0, float(session.query_progress()) / 100))
    except (duckdb.Error, AttributeError):
        return 0.0


def create_enum(session: Any, name: str, texts: tuple[str, ...]) -> None:
    """A type of the session that numbers texts, by hash; several times faster to bind than one spelled in place."""
    listed = ", ".join("'" + text.replace("'", "''") + "'" for text in texts)
    session.execute(f"CREATE TEMP TYPE {quoted(name)} AS ENUM ({listed})")
