"""Rows of a model: what may be wished for, and made-up rows piece by piece in the real values of a schema."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from hush.errors import WorkloadError, shown
from hush.graphical.synthesis import METHODS, Method, decoded
from hush.release.model_estimates import Distribution
from hush.schema import Schema

CHUNK_ROWS = 1_000_000


def check_wishes(rows: object, method: object, seed: object, chunk_rows: object = CHUNK_ROWS) -> None:
    """Refuse what no rows can be drawn by, before any work."""
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 0:
        raise WorkloadError(f"rows={shown(rows)}: expected a whole number of at least 0")
    if method not in METHODS:
        raise WorkloadError(f"method={shown(method)}: expected one of {', '.join(METHODS)}")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
        raise WorkloadError(f"seed={shown(seed)}: expected a whole number of at least 0, or None")
    if isinstance(chunk_rows, bool) or not isinstance(chunk_rows, int | np.integer) or chunk_rows < 1:
        raise WorkloadError(f"chunk_rows={shown(chunk_rows)}: expected a whole number of at least 1")


def draw_batches(
    schema: Schema,
    distribution: Distribution,
    rows: int,
    *,
    method: Method = "rounding",
    seed: int | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> Iterator[pa.Table]:
    """Tables of at most `chunk_rows` rows each, at least one; each is rounded by itself.

    Privacy: the seed is that of made-up rows, never of noise.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    for start in range(0, max(rows, 1), chunk_rows):
        codes = distribution.synthesize_codes(min(chunk_rows, rows - start), generator, method=method)
        yield decoded(schema, codes, generator)
