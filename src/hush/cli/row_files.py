"""Row files: tables written piece by piece, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hush.beside import new_beside
from hush.errors import HushError

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".csv", ".parquet")


def check_suffix(output: Path) -> None:
    """Refuse a name that does not say which kind of file is wanted."""
    if output.suffix.lower() not in SUFFIXES:
        found = f"ends in {output.suffix!r}" if output.suffix else "has no ending"
        raise HushError(f"{output} {found}: expected a name that ends in {' or '.join(SUFFIXES)}")


def write_rows(output: Path, pieces: Iterable[pa.Table], progress: Callable[[int], None]) -> int:
    """Write tables one after the other to a temporary name beside the output, then rename it; the rows written.

    `progress` is told the rows written so far.
    """
    check_suffix(output)
    try:
        handle, name = new_beside(output)
    except OSError as error:
        raise HushError(f"cannot write {output}: {error.strerror}; choose another place") from None
    rows, writer = 0, None
    try:
        with os.fdopen(handle, "wb") as file:
            for piece in pieces:
                writer = writer or _writer(output, file, piece.schema)
                writer.write_table(piece)
                rows += piece.num_rows
                progress(rows)
            if writer is not None:
                writer.close()
        os.replace(name, output)
    except OSError as error:
        reason = error.strerror or "the disk refused it"
        raise HushError(f"cannot write {output}: {reason}; free some space or choose another place") from None
    finally:
        name.unlink(missing_ok=True)
    return rows


def _writer(output: Path, file: Any, schema: pa.Schema) -> Any:
    if output.suffix.lower() == ".csv":
        from pyarrow.csv import CSVWriter

        return CSVWriter(file, schema)
    from pyarrow.parquet import ParquetWriter

    return ParquetWriter(file, schema)
