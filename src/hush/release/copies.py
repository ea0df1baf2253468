"""Copies: several tables of synthetic rows from one model, and how much a statistic differs between them.

Rows are drawn in `graphical.synthetic_rows`, and in `local.local_rows` for tables that agree only locally.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import pyarrow as pa

from hush.core.arrays import Floats
from hush.core.errors import WorkloadError
from hush.core.validation import check_choice, check_whole
from hush.models.distribution import Distribution
from hush.models.graphical.synthetic_rows import DRAWING_METHODS, Method, decoded
from hush.schema import Schema

MOST_COPIES = 10_000
COPIES_WARNING = (
    "Copies differ only by chance in drawing rows: not by the noise that made the release private, nor by what the "
    "model left out, nor by chance in who was in the real table. Standard errors from copies are too small; ask the "
    "release, by `marginal` or `sql`, for a number with its error."
)


@dataclass(frozen=True, slots=True, eq=False)
class CopyEstimate:
    """A statistic over copies: its mean, and its variance between copies, of the same shape.

    The variance is that of drawing rows alone, not an error of the mean; see `Copies`.
    """

    mean: Any
    between_variance: Any
    copies: int

    def __str__(self) -> str:
        mean = f"mean over {self.copies} copies {self.mean}"
        return f"{mean}, variance between copies {self.between_variance}\n{COPIES_WARNING}"


class Copies(Sequence[pa.Table]):
    """Tables of synthetic rows, drawn from the same model independently of each other.

    Copies differ only by chance in drawing rows. The noise of the release and the error of its model are the same in
    every copy, so the variance between copies says nothing about them, and a standard error computed from it, or from
    the rows of one copy, is too small. More copies bring the mean closer to that of the model, not closer to the truth.
    For a number with its error ask `release.marginal` or `release.sql`.

    >>> import hush
    >>> noisy = [hush.Measurement(("sex", "smokes"), [[40.2, 11.7], [35.9, 9.1]], stddev=2.0)]
    >>> copies = hush.fit(hush.Domain({"sex": 2, "smokes": 2}), noisy).synthesize(rows=100, copies=5, seed=1)
    >>> len(copies), copies[0].num_rows
    (5, 100)
    >>> share = copies.estimate(lambda table: table["smokes"].to_numpy().mean())
    >>> abs(float(share.mean) - 20.8 / 96.9) < 0.02
    True
    """

    def __init__(self, tables: Iterable[pa.Table]) -> None:
        self._tables = tuple(tables)

    @overload
    def __getitem__(self, index: int) -> pa.Table: ...
    @overload
    def __getitem__(self, index: slice) -> Copies: ...
    def __getitem__(self, index: int | slice) -> pa.Table | Copies:
        return Copies(self._tables[index]) if isinstance(index, slice) else self._tables[index]

    def __len__(self) -> int:
        return len(self._tables)

    def estimate(self, statistic: Callable[[pa.Table], Any]) -> CopyEstimate:
        """The mean over copies of any statistic, a number or an array, and its variance between copies.

        The variance is that of drawing rows alone, not an error of the mean; NaN for a single copy.
        """
        if not self._tables:
            raise WorkloadError("there are no copies to estimate from; draw some with copies=5")
        values = [np.asarray(statistic(table), dtype=np.float64) for table in self._tables]
        shapes = {value.shape for value in values}
        if len(shapes) > 1:
            raise WorkloadError(
                f"the statistic has different shapes on different copies: {sorted(shapes)}; let it give one number for "
                "every value that can occur, such as a count of 0 for those that do not"
            )
        stacked = np.stack(values)
        between = stacked.var(axis=0, ddof=1) if len(values) > 1 else np.full(stacked.shape[1:], np.nan)
        return CopyEstimate(mean=stacked.mean(axis=0)[()], between_variance=between[()], copies=len(values))

    def __repr__(self) -> str:
        rows = f" of {self._tables[0].num_rows:,} rows" if self._tables else ""
        return f"Copies({len(self):,}{rows})\n{COPIES_WARNING}"


def copy_seeds(copies: object, seed: int | None) -> list[int]:
    """A seed for each copy; the same ones for the same seed.

    Privacy: seeds of synthetic rows, never of noise.

    >>> copy_seeds(2, 1) == copy_seeds(3, 1)[:2], copy_seeds(1, None) == copy_seeds(1, None)
    (True, False)
    """
    count = check_whole(WorkloadError, "copies", copies, least=1, most=MOST_COPIES)
    children = np.random.SeedSequence(seed).spawn(count)
    return [int(child.generate_state(1, np.uint64)[0]) for child in children]


CHUNK_ROWS = 1_000_000


def check_drawing(rows: object, method: object, seed: object, chunk_rows: object = CHUNK_ROWS) -> None:
    """Refuse wrong options for drawing rows, before any work."""
    check_whole(WorkloadError, "rows", rows, least=0)
    check_choice(WorkloadError, "method", method, DRAWING_METHODS)
    if seed is not None:
        check_whole(WorkloadError, "seed", seed, least=0, hint=", or None")
    check_whole(WorkloadError, "chunk_rows", chunk_rows, least=1)


def draw_batches(
    schema: Schema,
    distribution: Distribution,
    rows: int,
    *,
    method: Method = "rounding",
    seed: int | None = None,
    chunk_rows: int = CHUNK_ROWS,
    means: Mapping[str, Floats] | None = None,
) -> Iterator[pa.Table]:
    """Tables of at most `chunk_rows` rows each, at least one; each is rounded by itself.

    Privacy: the seed is that of synthetic rows, never of noise.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    for start in range(0, max(rows, 1), chunk_rows):
        codes = distribution.synthesize_codes(min(chunk_rows, rows - start), generator, method=method)
        yield decoded(schema, codes, generator, means)
